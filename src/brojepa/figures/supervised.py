"""Latents of a supervised model after actions it was trained on, and after others."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from brojepa.figures import style
from brojepa.figures.geometry import PCA, even_choice
from brojepa.figures.sources import Source
from brojepa.text import signed

POINTS = 250  # images, each after every action
DOTS = {"marker": "o", "s": 10, "alpha": 0.35, "linewidths": 0, "zorder": 2}
CROSSES = {"marker": "x", "s": 12, "alpha": 0.7, "linewidths": 0.8, "zorder": 3}


def collect(sources: dict[str, Source]) -> dict[str, Any]:
    """Principal components of the latents after training actions; the others are put into the same plane."""
    source = sources["run"]
    chosen = torch.from_numpy(even_choice(source.states, max(1, POINTS // source.n), source.n))
    actions = sorted({*source.train_actions, *source.test_actions})
    after = {k: source.act(source.latents.z[chosen], k) for k in actions}
    states = source.states[chosen.numpy()]
    pca = PCA.of(np.concatenate([after[k].numpy() for k in source.train_actions]))
    return {
        "actions": actions,
        "seen": list(source.train_actions),
        "points": np.stack([pca(after[k].numpy()) for k in actions]).astype(np.float32),
        "right": [float((source.classify(after[k]) == (states + k) % source.n).mean()) for k in actions],
        "shares": pca.shares,
    }


def draw(data: dict[str, Any]) -> Figure:
    figure = style.canvas(data, style.WIDE, 3.9)
    axes, bars = figure.subplots(1, 2, width_ratios=[1.5, 1])
    for k, points in zip(data["actions"], data["points"], strict=True):
        look = DOTS if k in data["seen"] else CROSSES
        axes.scatter(points[:, 0], points[:, 1], color=_colour(k), rasterized=True, **look)
    style.plane(axes, *(f"component {i + 1} ({share:.0%} of variance)" for i, share in enumerate(data["shares"])))
    kinds = [("s", style.BLUE, "positive"), ("s", style.VERMILLION, "negative"), ("o", style.GREY, "seen")]
    handles = [
        Line2D([], [], color=colour, marker=marker, linestyle="", label=label)
        for marker, colour, label in [*kinds, ("x", style.GREY, "unseen")]
    ]
    axes.legend(handles=handles, loc="lower center", bbox_to_anchor=(0.5, 1), ncols=4, handletextpad=0, columnspacing=1)
    _bars(bars, data)
    return figure


def _bars(axes: Axes, data: dict[str, Any]) -> None:
    for place, (k, right) in enumerate(zip(data["actions"], data["right"], strict=True)):
        seen = k in data["seen"]
        axes.barh(
            place, right, color=_colour(k), edgecolor="white", linewidth=0,
            alpha=0.5 if seen else 1, hatch="" if seen else "xxxx",
        )  # fmt: skip
        inside = right > 0.5
        side = {"ha": "right" if inside else "left", "va": "center", "fontsize": 8}
        axes.text(right - 0.03 if inside else right + 0.03, place, f"{right:.2f}", **side)
    names = [signed(k).replace("-", "−") for k in data["actions"]]
    axes.set(yticks=range(len(names)), yticklabels=names, xlim=(0, 1), xlabel="accuracy", ylabel="action")
    axes.set_xticks([0, 0.5, 1], ["0", ".5", "1"])


def _colour(k: int) -> str:
    return style.BLUE if k > 0 else style.VERMILLION
