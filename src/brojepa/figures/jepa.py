"""Learning curves of a JEPA without rotation, and the similarity of its prototypes."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.figure import Figure

from brojepa.figures import curves, style
from brojepa.figures.geometry import cosines
from brojepa.figures.sources import Source
from brojepa.text import actions_text, plural

MOST = 8  # actions that a legend has room for


def collect(sources: dict[str, Source]) -> dict[str, Any]:
    """The matrix is left out if there are no weights, or no labelled states."""
    source = sources["run"]
    data: dict[str, Any] = curves.collect("run", source)
    data["seen"], data["unseen"] = _text(source.seen), _text(source.unseen)
    if source.has_weights and source.n:
        data["run.cosine"] = cosines(source.prototypes).astype(np.float32)
    return data


def _text(words: list[str]) -> str:
    """Actions for a legend: ±1 ±2 if both signs are present, and only their number if they are too many."""
    whole = all(word.lstrip("+-").isdecimal() for word in words)
    sizes = sorted({abs(int(word)) for word in words}) if whole else words
    if len(sizes) > MOST:
        return plural(len(words), "action")
    if not whole:
        return " ".join(words).replace("-", "−")
    actions = [int(word) for word in words]
    if set(actions) == {sign * k for k in sizes for sign in (1, -1)}:
        return " ".join(f"±{k}" for k in sizes)
    return actions_text(actions).replace("-", "−")


def draw(data: dict[str, Any]) -> Figure:
    whole = "run.cosine" in data
    figure = style.canvas(data, style.WIDE, 3.2)
    panels = figure.subplots(1, 3 if whole else 2, width_ratios=[1, 1, 1.3] if whole else None)
    curves.accuracy(panels[0], data, "run", (f"seen {data['seen']}", f"unseen {data['unseen']}"))
    curves.loss(panels[1], data, "run")
    for axes in panels[:2]:
        style.legend_below(axes)
    if whole:
        image = style.matrix(panels[2], data["run.cosine"], data["runs"]["run"]["states"], small=True)
        panels[2].set_title("prototypes")
        figure.colorbar(image, ax=panels[2], label="cosine similarity", shrink=0.8)
    return figure
