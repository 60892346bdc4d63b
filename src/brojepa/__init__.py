"""brojepa: latent spaces that obey a rule.

JEPA world models whose latent action is a block rotation, after *BRo-JEPA: Learning Modular Transformations in
Latent Space*, with every baseline of the paper.

>>> import brojepa
>>> sorted(name for name in brojepa.PRESETS if name.endswith("/fast"))[:3]
['dihedral/fast', 'emnist/fast', 'mnist/fast']
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from brojepa.algebra import infer_accuracy, inspect
    from brojepa.algebra.modulus import indistinguishable, infer_modulus
    from brojepa.config import Config
    from brojepa.errors import BrojepaError
    from brojepa.evaluation import evaluate, evaluate_run
    from brojepa.groups import SO2, SO3, Cyclic, Dihedral, Group, Product
    from brojepa.models import JEPA, Model, Supervised
    from brojepa.models.actions import BlockRotation, LatentAction, MLPAction, Representation
    from brojepa.models.planning import Plan
    from brojepa.presets import PRESETS, preset
    from brojepa.runs import Run
    from brojepa.runs.loading import load
    from brojepa.training import train
    from brojepa.worlds import World, open_world

# Where each public name lives. Imported on first use: torch takes a second, and `brojepa --help` needs none of it.
_HOME = {
    "infer_accuracy": "algebra", "inspect": "algebra",
    "Config": "config",
    "BrojepaError": "errors",
    "evaluate": "evaluation", "evaluate_run": "evaluation",
    "Cyclic": "groups", "Dihedral": "groups", "Group": "groups", "Product": "groups", "SO2": "groups", "SO3": "groups",
    "JEPA": "models", "Model": "models", "Plan": "models", "Supervised": "models",
    "BlockRotation": "models.actions", "LatentAction": "models.actions", "MLPAction": "models.actions",
    "Representation": "models.actions",
    "indistinguishable": "algebra", "infer_modulus": "algebra",
    "PRESETS": "presets", "preset": "presets",
    "Run": "runs", "load": "runs.loading",
    "train": "training",
    "World": "worlds", "open_world": "worlds",
}  # fmt: skip
__all__ = [
    "JEPA", "PRESETS", "SO2", "SO3", "BlockRotation", "BrojepaError", "Config", "Cyclic", "Dihedral", "Group",
    "LatentAction", "MLPAction", "Model", "Plan", "Product", "Representation", "Run", "Supervised", "World", "evaluate",
    "evaluate_run", "indistinguishable", "infer_accuracy", "infer_modulus", "inspect", "load", "open_world", "preset",
    "train",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'brojepa' has no attribute {name!r}")
    return getattr(import_module(f"brojepa.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})
