"""Latents of test images in their first two principal components, with the prototypes joined in order."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.figure import Figure

from brojepa.figures import style
from brojepa.figures.geometry import PCA, even_choice
from brojepa.figures.sources import Source

POINTS = 2000


def collect(sources: dict[str, Source]) -> dict[str, Any]:
    source = sources["run"]
    pca = PCA.of(source.z).oriented(source.prototypes)
    chosen = even_choice(source.states, max(1, POINTS // source.n), source.n)
    return {
        "points": pca(source.z[chosen]).astype(np.float16),
        "states": source.states[chosen].astype(np.int16),
        "prototypes": pca(source.prototypes).astype(np.float32),
        "shares": pca.shares,
    }


def draw(data: dict[str, Any]) -> Figure:
    run = data["runs"]["run"]
    names, points, means = run["states"], data["points"].astype(float), data["prototypes"]
    figure = style.canvas(
        data, style.NARROW, style.NARROW + 0.3, "discs: mean of each state, joined in order; dots: test images"
    )
    axes = figure.subplots()
    style.cloud(axes, points, data["states"], len(names))
    ring = np.concatenate((means, means[:1]))
    axes.plot(ring[:, 0], ring[:, 1], color=style.GREY, linewidth=0.9, zorder=3)
    style.badges(axes, means, names)
    style.plane(axes, *(f"component {i + 1} ({share:.0%} of variance)" for i, share in enumerate(data["shares"])))
    return figure
