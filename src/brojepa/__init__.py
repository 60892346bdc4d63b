"""brojepa: JEPA world models whose latent action is a group representation.

It follows *BRo-JEPA: Learning Modular Transformations in
Latent Space*, with all baselines of the paper.

>>> import brojepa
>>> sorted(name for name in brojepa.PRESETS if name.endswith("/fast"))[:3]
['dihedral/fast', 'emnist/fast', 'mnist/fast']
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from brojepa.algebra import indistinguishable, infer_accuracy, infer_modulus, inspect, inspect_run
    from brojepa.config import Config
    from brojepa.errors import BrojepaError
    from brojepa.evaluation import Evaluator, LabelEvaluator, RetrievalEvaluator, evaluate, evaluate_run, evaluator
    from brojepa.exporting import export, push
    from brojepa.figures.make import pictures
    from brojepa.groups import SO2, SO3, Cyclic, Dihedral, Group, Product
    from brojepa.models import (
        JEPA,
        BatchMean,
        Consistency,
        EMAEncoder,
        Model,
        Plan,
        Relaxed,
        Sampled,
        SIGReg,
        Supervised,
        Target,
        Task,
        VICReg,
        build,
    )
    from brojepa.models.actions import BlockRotation, LatentAction, MLPAction, Representation
    from brojepa.presets import PRESETS, preset
    from brojepa.runs import Result, Run
    from brojepa.runs.loading import load
    from brojepa.training import Callback, JsonLines, Learner, LiveTable, Progress, Tracker, trackers, train
    from brojepa.training.decoding import train_decoder
    from brojepa.worlds import (
        Batch,
        LabelledTransitions,
        PoseTransitions,
        PoseWorld,
        Sampling,
        Split,
        Transitions,
        World,
        open_world,
    )

# The public names, by the room each lives in. Imported on first use: torch takes a second, and `brojepa --help` needs
# none of it.
_ROOMS = {
    "algebra": "indistinguishable infer_accuracy infer_modulus inspect inspect_run",
    "config": "Config",
    "errors": "BrojepaError",
    "evaluation": "Evaluator LabelEvaluator RetrievalEvaluator evaluate evaluate_run evaluator",
    "exporting": "export push",
    "figures.make": "pictures",
    "groups": "Cyclic Dihedral Group Product SO2 SO3",
    "models": "Consistency JEPA Model Plan SIGReg Supervised Task VICReg build",
    "models.targets": "BatchMean EMAEncoder Relaxed Sampled Target",
    "models.actions": "BlockRotation LatentAction MLPAction Representation",
    "presets": "PRESETS preset",
    "runs": "Result Run",
    "runs.loading": "load",
    "training": "Callback JsonLines Learner LiveTable Progress Tracker train trackers",
    "training.decoding": "train_decoder",
    "worlds": "Batch LabelledTransitions PoseTransitions PoseWorld Sampling Split Transitions World open_world",
}  # fmt: skip
_HOME = {name: room for room, names in _ROOMS.items() for name in names.split()}
__all__ = [
    "JEPA",
    "PRESETS",
    "SO2",
    "SO3",
    "Batch",
    "BatchMean",
    "BlockRotation",
    "BrojepaError",
    "Callback",
    "Config",
    "Consistency",
    "Cyclic",
    "Dihedral",
    "EMAEncoder",
    "Evaluator",
    "Group",
    "JsonLines",
    "LabelEvaluator",
    "LabelledTransitions",
    "LatentAction",
    "Learner",
    "LiveTable",
    "MLPAction",
    "Model",
    "Plan",
    "PoseTransitions",
    "PoseWorld",
    "Product",
    "Progress",
    "Relaxed",
    "Representation",
    "Result",
    "RetrievalEvaluator",
    "Run",
    "SIGReg",
    "Sampled",
    "Sampling",
    "Split",
    "Supervised",
    "Target",
    "Task",
    "Tracker",
    "Transitions",
    "VICReg",
    "World",
    "build",
    "evaluate",
    "evaluate_run",
    "evaluator",
    "export",
    "indistinguishable",
    "infer_accuracy",
    "infer_modulus",
    "inspect",
    "inspect_run",
    "load",
    "open_world",
    "pictures",
    "preset",
    "push",
    "trackers",
    "train",
    "train_decoder",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'brojepa' has no attribute {name!r}")
    return getattr(import_module(f"brojepa.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})
