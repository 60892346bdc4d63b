"""Accuracy of each action over seeds, odd and even apart: what ±1 alone teaches a supervised rotation, and what it
leaves open."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from brojepa.errors import RequestError
from brojepa.figures import style
from brojepa.figures.sources import Source

COLOURS = {"trained": style.BLUE, "odd": style.GREEN, "even": style.VERMILLION}
HATCHES = {"trained": "", "odd": "", "even": "////"}


def collect(sources: dict[str, Source]) -> dict[str, Any]:
    """Accuracies [seeds, actions] of all finished seeds of each config."""
    data: dict[str, Any] = {}
    for role, source in sources.items():
        if source.n % 2:
            raise RequestError(
                f"odd and even actions need a cycle of even length, {source.n} is odd: choose another run"
            )
        runs = source.seeds
        actions = sorted((int(word) for word in source.per_action), key=lambda k: (k, abs(k)))
        words = {int(word): word for word in source.per_action}
        data[f"{role}.actions"] = actions
        data[f"{role}.trained"] = [k for k in actions if words[k] in source.seen]
        data[f"{role}.seeds"] = [run.header["seed"] for run in runs]
        tables = [run.result["per_action"] for run in runs]
        data[f"{role}.accuracy"] = np.array([[t[words[k]] for k in actions] for t in tables], np.float32)
    return data


def draw(data: dict[str, Any]) -> Figure:
    key = "bars: mean over seeds; dots: each seed; dotted line: chance"
    seeds = {role: ", ".join(map(str, data[f"{role}.seeds"])) for role in data["runs"]}
    runs = {role: {**run, "seed": seeds[role]} for role, run in data["runs"].items()}
    figure = style.canvas({**data, "runs": runs}, style.WIDE, 1.4 + 1.9 * len(data["runs"]), key)
    panels = figure.subplots(len(data["runs"]), 1, sharex=True, squeeze=False)[:, 0]
    for axes, role in zip(panels, data["runs"], strict=True):
        _bars(axes, data, role)
    panels[-1].set_xlabel("action")
    names = {"trained": "trained", "odd": "held out, odd", "even": "held out, even"}
    handles = [Patch(facecolor=COLOURS[k], hatch=HATCHES[k], edgecolor="white", label=names[k]) for k in names]
    figure.legend(handles=handles, loc="outside upper right", ncols=3)
    return figure


def _bars(axes: Axes, data: dict[str, Any], role: str) -> None:
    actions, accuracy = data[f"{role}.actions"], data[f"{role}.accuracy"].astype(float)
    kinds = ["trained" if k in data[f"{role}.trained"] else "odd" if k % 2 else "even" for k in actions]
    for k, kind, values in zip(actions, kinds, accuracy.T, strict=True):
        look = {"facecolor": COLOURS[kind], "hatch": HATCHES[kind], "edgecolor": "white", "linewidth": 0}
        axes.bar(k, values.mean(), width=0.8, alpha=0.75, **look)
        axes.scatter([k] * len(values), values, s=5, color=style.BLACK, linewidths=0, zorder=3)
    run = data["runs"][role]
    axes.axhline(1 / len(run["states"]), color=style.GREY, linewidth=0.8, linestyle=":")
    means = {kind: accuracy[:, [i for i, own in enumerate(kinds) if own == kind]].mean() for kind in ("odd", "even")}
    axes.set_title(f"{run['label']}: odd {means['odd']:.2f}, even {means['even']:.2f} on held-out actions", loc="left")
    style.bounds(axes)
    axes.set_ylabel("accuracy")
    axes.set_xticks(actions, [str(k).replace("-", "−") if k <= 0 else f"+{k}" for k in actions])
    axes.tick_params(axis="x", length=0)
    axes.grid(axis="y", color=style.FAINT, linewidth=0.6)
