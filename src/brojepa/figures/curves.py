"""Learning curves, as several figures have them: a run's epochs, its accuracy panel and its loss panel."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes

from brojepa.figures import style
from brojepa.figures.sources import Source

CURVES = ("seen", "zero_shot", "loss", "validation_loss")


def collect(role: str, source: Source) -> dict[str, Any]:
    """The values in `metrics.jsonl` for each epoch, [epochs]; NaN if missing."""
    return {
        f"{role}.{name}": np.array([_number(row.get(name)) for row in source.metrics], np.float32) for name in CURVES
    }


def _number(value: float | None) -> float:
    return np.nan if value is None else value


def accuracy(axes: Axes, data: dict[str, Any], role: str, labels: tuple[str, str] = ("seen", "zero-shot")) -> None:
    """Accuracy on validation images, of actions trained on and held out."""
    for name, label, look in (("seen", labels[0], style.SEEN), ("zero_shot", labels[1], style.UNSEEN)):
        line(axes, data[f"{role}.{name}"], label, look)
    style.epochs(axes, len(data[f"{role}.seen"]))
    style.bounds(axes)
    axes.set_title("accuracy")


def loss(axes: Axes, data: dict[str, Any], role: str) -> None:
    """The loss on training and on validation images, both with training actions."""
    for name, label, look in (
        ("loss", "training", {"color": style.BLACK}),
        ("validation_loss", "validation", {"color": style.ORANGE, "linestyle": (0, (1.5, 1))}),
    ):
        line(axes, data[f"{role}.{name}"], label, look)
    style.epochs(axes, len(data[f"{role}.loss"]))
    axes.set_ylim(bottom=0)
    axes.set_title("loss")


def line(axes: Axes, values: np.ndarray, label: str, look: dict[str, Any]) -> None:
    """A curve from epoch 1; a dot if there is only one epoch."""
    axes.plot(np.arange(1, len(values) + 1), values, label=label, marker="o" if len(values) == 1 else "", **look)
