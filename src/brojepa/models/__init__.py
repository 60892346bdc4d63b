"""Models: an encoder, a latent action, a target and a regulariser, composed by constructor or built from a config.

`JEPA` and `Supervised` predict through the same four methods: `encode`, `act`, `classify`, `rollout`.
"""

from brojepa.models.build import action_sets, build
from brojepa.models.consistency import Consistency
from brojepa.models.jepa import JEPA
from brojepa.models.model import Model, Task
from brojepa.models.planning import Plan
from brojepa.models.regularisers import SIGReg, VICReg
from brojepa.models.supervised import Supervised
from brojepa.models.targets import BatchMean, EMAEncoder, Relaxed, Sampled, Target

__all__ = [
    "JEPA", "BatchMean", "Consistency", "EMAEncoder", "Model", "Plan", "Relaxed", "SIGReg", "Sampled", "Supervised",
    "Target", "Task", "VICReg", "action_sets", "build",
]  # fmt: skip
