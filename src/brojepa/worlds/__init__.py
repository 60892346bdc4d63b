"""Worlds: images, the states they show, and the group that moves one state to another.

`open_world` finds one by name or path. A world's `transitions` draw what a model is trained on.
"""

from brojepa.worlds.batches import Batch, Sampling, Split, Transitions
from brojepa.worlds.labelled import LabelledTransitions
from brojepa.worlds.poses import PoseTransitions, PoseWorld
from brojepa.worlds.sources import known_split, open_world, search_path
from brojepa.worlds.views import Views, ViewWorld
from brojepa.worlds.world import World

__all__ = [
    "Batch", "LabelledTransitions", "PoseTransitions", "PoseWorld", "Sampling", "Split", "Transitions", "ViewWorld",
    "Views", "World",    "known_split", "open_world", "search_path",
]  # fmt: skip
