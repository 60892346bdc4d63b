"""Evaluation: exact accuracies, retrieval if states are not labels, signs of collapse."""

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
from brojepa.evaluation.collapse import collapse_signs, collapsed
from brojepa.evaluation.evaluator import METRICS, Evaluator, chosen_metrics, evaluator
from brojepa.evaluation.retrieval import RetrievalEvaluator
from brojepa.evaluation.runs import MEASURED, agrees, complete, evaluate_run, same_images, world_of
from brojepa.evaluation.views import ViewEvaluator

__all__ = [
    "MEASURED", "METRICS", "ROWS", "Evaluator", "LabelEvaluator", "Latents", "RetrievalEvaluator", "ViewEvaluator",
    "accuracy", "agrees", "bank", "chosen_metrics", "collapse_signs", "collapsed", "complete", "count_right",
    "evaluate", "evaluate_run", "evaluating", "evaluator", "knn_accuracy", "moved", "rollout_accuracy", "same_images",
    "world_of",
]  # fmt: skip
