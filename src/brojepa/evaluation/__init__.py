"""What a model reaches: exact accuracies, retrieval where a state is no label, signs of collapse."""

from brojepa.evaluation.accuracy import (
    ROWS,
    LabelEvaluator,
    Latents,
    accuracy,
    bank,
    count_right,
    evaluate,
    evaluating,
    knn_accuracy,
    moved,
    rollout_accuracy,
)
from brojepa.evaluation.collapse import collapsed, spread
from brojepa.evaluation.retrieval import RetrievalEvaluator
from brojepa.evaluation.runs import evaluate_run, judge, world_of

__all__ = [
    "ROWS",
    "LabelEvaluator",
    "Latents",
    "RetrievalEvaluator",
    "accuracy",
    "bank",
    "collapsed",
    "count_right",
    "evaluate",
    "evaluate_run",
    "evaluating",
    "judge",
    "knn_accuracy",
    "moved",
    "rollout_accuracy",
    "spread",
    "world_of",
]  # fmt: skip
