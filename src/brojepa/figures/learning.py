"""Learning curves of any runs: one in detail, or several on top of each other. Needs `metrics.jsonl` alone."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, StrMethodFormatter

from brojepa.errors import RunError
from brojepa.figures import angles, curves, style
from brojepa.figures.sources import Source

TOP = 0.9  # if all accuracies are above this, the axis is cut there
NO_TERMS = ("epoch", "step", "loss", "probe")
COLOURS = (style.BLUE, style.VERMILLION, style.GREEN, style.PURPLE, style.ORANGE, style.SKY, style.BLACK, style.GREY)
DASHES: tuple[Any, ...] = ("-", (0, (4, 1.5)), (0, (1.5, 1)), (0, (6, 1.5, 1.5, 1.5)))


def collect(sources: dict[str, Source]) -> dict[str, Any]:
    """Curves of each run; of a single one also the terms of its loss and its learned angles."""
    data: dict[str, Any] = {"states": {role: source.n for role, source in sources.items()}, "terms": []}
    for role, source in sources.items():
        if not source.metrics:
            raise RunError(f"{source.run.path} has no finished epoch yet: wait for the first")
        data |= curves.collect(role, source)
    if len(sources) == 1:
        ((role, source),) = sources.items()
        rows = source.metrics
        names = list(rows[0])
        names = names[: next((i for i, name in enumerate(names) if name in ("validation_loss", "seen")), len(names))]
        data["terms"] = [name for name in names if name not in NO_TERMS]
        for name in data["terms"]:
            data[f"{role}.{name}"] = np.array([row.get(name, np.nan) for row in rows], np.float32)
        if all("angles" in row for row in rows):
            data[f"{role}.angles"] = angles.of_epochs(rows)
    return data


def draw(data: dict[str, Any]) -> Figure:
    return _one(data) if len(data["runs"]) == 1 else _several(data)


def _one(data: dict[str, Any]) -> Figure:
    """Accuracy and loss, the terms of the loss, and how the angles settle."""
    (role,) = data["runs"]
    turns: np.ndarray = data.get(f"{role}.angles", np.zeros(0))
    terms, has_angles = data["terms"], turns.ndim == 2  # a torus has several angles per plane
    panels = 2 + bool(terms) + has_angles
    figure = style.canvas(data, style.WIDE, 5.0 if panels == 4 else 3.2)
    places = list(figure.subplots(2, 2).flat if panels == 4 else figure.subplots(1, panels))
    curves.accuracy(places[0], data, role)
    _zoom(places[0], [data[f"{role}.seen"], data[f"{role}.zero_shot"]])
    curves.loss(places[1], data, role)
    if terms:
        _terms(places[2], {name: data[f"{role}.{name}"] for name in terms})
    if has_angles:
        angles.settling(places[-1], turns, data["states"][role])
    for axes in places[: 3 if terms else 2]:
        style.legend_below(axes)
    return figure


def _terms(axes: Axes, terms: dict[str, np.ndarray]) -> None:
    """The terms of the loss, before they are weighted; on a logarithmic axis, without terms that are 0."""
    for i, (name, values) in enumerate(terms.items()):
        shown = np.where(values > 0, values, np.nan)
        label = name if np.isfinite(shown).any() else f"{name} (0)"
        curves.line(axes, shown, label, {"color": COLOURS[i % 8], "linestyle": DASHES[i % 4]})
    style.epochs(axes, max(map(len, terms.values())))
    axes.set_yscale("log" if any((values > 0).any() for values in terms.values()) else "linear")
    axes.set_title("terms of the loss")


def _several(data: dict[str, Any]) -> Figure:
    """The same curve of all runs in one panel."""
    count = len(data["runs"])
    figure = style.canvas(data, style.WIDE, 3.0 + 0.3 * count)
    panels = figure.subplots(1, 3)
    longest = max(len(data[f"{role}.seen"]) for role in data["runs"])
    titles = {"seen": "accuracy, seen", "zero_shot": "accuracy, zero-shot", "validation_loss": "validation loss"}
    for axes, (name, title) in zip(panels, titles.items(), strict=True):
        for i, (role, run) in enumerate(data["runs"].items()):
            label = f"{run['label']}  {run['words'].partition(' ')[0] or run['world']} seed {run['seed']}"
            curves.line(axes, data[f"{role}.{name}"], label, {"color": COLOURS[i % 8], "linestyle": DASHES[i % 4]})
        style.epochs(axes, longest)
        axes.set_title(title)
        if name == "validation_loss":
            axes.set_yscale("log")
        else:
            style.bounds(axes)
            _zoom(axes, [data[f"{role}.{name}"] for role in data["runs"]])
    style.legend_below(panels[1])
    return figure


def _zoom(axes: Axes, accuracies: list[np.ndarray]) -> None:
    """Cut the axis to its top if all accuracies are there."""
    low = min((float(np.nanmin(each)) for each in accuracies if np.isfinite(each).any()), default=0.0)
    if low > TOP:
        axes.set_ylim(np.floor(low * 100 - 1) / 100, 1)
        axes.yaxis.set_major_locator(MaxNLocator(4))
        axes.yaxis.set_major_formatter(StrMethodFormatter("{x:.3g}"))
