"""Latent actions: (z, k) -> the latent predicted after action k.

`Representation` cuts the latent into blocks, and k multiplies each by a matrix of one of its group's irreducible
representations: acting with b and then a is acting with ab, exactly, trained on or not. `BlockRotation`, the paper's,
is for cycles and tori: every block is a plane that turns, and its angle may be learned. Both are a `BlockAction`.
`MLPAction` is the unconstrained baseline: a network that reads the latent and an embedding of k.
"""

from brojepa.models.actions.base import LatentAction
from brojepa.models.actions.blocks import BlockAction
from brojepa.models.actions.mlp import EMBEDDINGS, MLPAction, fourier_features
from brojepa.models.actions.parts import Part, evenly, ranges
from brojepa.models.actions.representation import Representation
from brojepa.models.actions.rotation import BlockRotation, harmonics

__all__ = [
    "EMBEDDINGS", "BlockAction", "BlockRotation", "LatentAction", "MLPAction", "Part", "Representation", "evenly",
    "fourier_features", "harmonics", "ranges",
]  # fmt: skip
