"""Models: an encoder, a latent action and a target, composed by constructor or built from a config.

`JEPA` and `Supervised` predict through the same four methods: `encode`, `act`, `classify`, `rollout`.
"""

from brojepa.models.build import action_sets, build
from brojepa.models.jepa import JEPA, Objective
from brojepa.models.model import Model, Task
from brojepa.models.planning import Plan
from brojepa.models.supervised import Supervised

__all__ = ["JEPA", "Model", "Objective", "Plan", "Supervised", "Task", "action_sets", "build"]
