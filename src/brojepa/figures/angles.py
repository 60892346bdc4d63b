"""How learned angles settle: accuracy, loss and angles over the epochs, one row per run."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from brojepa.errors import RunError
from brojepa.figures import curves, style
from brojepa.figures.sources import Source


def collect(sources: dict[str, Source]) -> dict[str, Any]:
    data: dict[str, Any] = {}
    for role, source in sources.items():
        if not source.metrics or any("angles" not in row for row in source.metrics):
            raise RunError(f"{source.run.metrics_file} lacks the angles of an epoch: train the run again")
        data |= {**curves.collect(role, source), f"{role}.angles": of_epochs(source.metrics)}
        data[f"{role}.start"] = source.config.angle_start
    return data


def of_epochs(rows: list[dict[str, Any]]) -> np.ndarray:
    """Learned angles, [epochs, planes]; of a shared angle, [epochs, 1]."""
    angles = np.array([row["angles"] for row in rows], np.float32)
    shared = bool((angles == angles[:, :1]).all())
    return angles[:, :1] if shared else angles


def draw(data: dict[str, Any]) -> Figure:
    roles = list(data["runs"])
    figure = style.canvas(data, style.WIDE, 0.9 + 2.0 * len(roles))
    grid = figure.subplots(len(roles), 3, squeeze=False, width_ratios=[1, 1, 1.25], sharex="row")
    for row, role in zip(grid, roles, strict=True):
        run = data["runs"][role]
        curves.accuracy(row[0], data, role)
        curves.loss(row[1], data, role)
        settling(row[2], data[f"{role}.angles"], len(run["states"]))
        row[0].set_ylabel(f"{run['label']}\n{data[f'{role}.start']} start", fontweight="bold")
    for axes in grid[-1, :2]:
        style.legend_below(axes)
    for axes in grid[1:].flat:
        axes.set_title("")
    for axes in grid[:-1].flat:
        axes.set_xlabel("")
    return figure


def settling(axes: Axes, angles: np.ndarray, n: int) -> None:
    """Angles [epochs, planes] over the epochs; lines at the multiples of a turn divided by n, none where n is 0."""
    turns = angles / np.pi  # half turns
    low, high = np.floor(turns.min() * 2) / 2, np.ceil(turns.max() * 2) / 2
    for multiple in range(int(np.ceil(low * n / 2)), int(np.floor(high * n / 2)) + 1) if n else ():
        axes.axhline(2 * multiple / n, color=style.FAINT, linewidth=0.7, zorder=0)
    colours = style.state_colours(turns.shape[1]) if turns.shape[1] > 1 else [style.BLUE]
    for curve, colour in zip(turns.T[np.argsort(turns[-1])], colours, strict=True):
        axes.plot(range(1, len(curve) + 1), curve, color=colour, linewidth=1.1, marker="o" if len(curve) == 1 else "")
    style.epochs(axes, len(turns))
    axes.grid(visible=False)
    ticks = np.arange(low, high + 0.25, 1 if high - low > 2 else 0.5)
    axes.set_yticks(ticks, [_multiple_of_pi(t) for t in ticks])
    axes.set_ylim(low - 0.05, high + 0.05)
    axes.set_title(f"angles; lines: $2\\pi j/{n}$" if n else "angles")


def _multiple_of_pi(value: float) -> str:
    whole = {0.0: "0", 1.0: "$\\pi$", -1.0: "$-\\pi$"}.get(value)
    return whole or f"${value:g}\\pi$"
