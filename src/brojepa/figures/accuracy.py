"""Accuracy by state and action, a map for each run."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.figure import Figure

from brojepa.figures import style
from brojepa.figures.sources import Source
from brojepa.text import signed


def collect(sources: dict[str, Source]) -> dict[str, Any]:
    data: dict[str, Any] = {}
    for role, source in sources.items():
        table = source.result["by_state"]
        data[f"{role}.accuracy"] = np.array(table["accuracy"], np.float32)
        data[f"{role}.actions"] = table["actions"]
        data[f"{role}.seen"] = [signed(k) for k in source.train_actions]
    return data


def draw(data: dict[str, Any]) -> Figure:
    roles = list(data["runs"])
    figure = style.canvas(data, style.WIDE, 0.9 + 2.3 * len(roles))
    panels = figure.subplots(len(roles), 1, squeeze=False)[:, 0]
    image = None
    for axes, role in zip(panels, roles, strict=True):
        run, table, actions = data["runs"][role], data[f"{role}.accuracy"], data[f"{role}.actions"]
        image = axes.imshow(table, cmap=style.SHARE, vmin=0, vmax=1, aspect="auto")
        size = 8 if len(actions) <= 20 else 5
        axes.set_xticks(range(len(actions)), [k.replace("-", "−") for k in actions], fontsize=size)
        axes.set_yticks(range(len(run["states"])), run["states"], fontsize=size)
        axes.tick_params(length=0)
        axes.spines[:].set_visible(False)
        for place in (actions.index(k) for k in data[f"{role}.seen"]):
            axes.plot(
                [place - 0.46, place + 0.46], [-0.72, -0.72], color=style.VERMILLION, linewidth=2.5, clip_on=False
            )
        if table.size <= 250:
            style.cells(axes, [["1" if v > 0.995 else f"{v:.2f}"[1:] for v in line] for line in table], table < 0.55)
        axes.set_title(f"{run['label']} (bars mark trained actions)", loc="left")
        axes.set_ylabel("state")
    panels[-1].set_xlabel("action")
    assert image is not None
    figure.colorbar(image, ax=panels, label="accuracy", shrink=0.6)
    return figure
