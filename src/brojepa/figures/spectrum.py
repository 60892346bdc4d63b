"""The learned angles on a circle, and the number of states inferred from them."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from brojepa.algebra.modulus import evidence, infer_modulus
from brojepa.figures import style
from brojepa.figures.sources import Source

SHOWN = 64  # moduli shown, unless the angles indicate a larger one


def collect(sources: dict[str, Source]) -> dict[str, Any]:
    return {"angles": np.array(sources["run"].result["angles"], np.float64)}


def draw(data: dict[str, Any]) -> Figure:
    n, _ = infer_modulus(data["angles"])
    figure = style.canvas(data, style.WIDE, 3.4)
    around, scores = figure.subplots(1, 2, width_ratios=[1, 1.25])
    circle(around, data["angles"], n, f"{len(data['angles'])} learned angles")
    values = -evidence(data["angles"], max(SHOWN, n or 0))
    tried = np.arange(1, len(values) + 1)
    scores.vlines(tried, 0, values, color=style.GREY, linewidth=1.5)
    if n:
        scores.vlines(n, 0, values[n - 1], color=style.VERMILLION, linewidth=3)
        scores.annotate(
            f"{n}",
            (n, values[n - 1]),
            (0, 4),
            textcoords="offset points",
            ha="center",
            fontweight="bold",
            color=style.VERMILLION,
        )
    scores.set(xlabel="number of states tried", ylabel="$-\\log_{10}$ chance", xlim=(0, len(values) + 1))
    scores.set_ylim(0, max(values.max(), 1) * 1.15)
    actual = len(data["runs"]["run"]["states"])
    found = f"the angles say {n}" if n else "the angles do not say"
    scores.set_title(f"{found}; the world has {actual}")
    return figure


def circle(axes: Axes, angles: np.ndarray, n: int | None, title: str) -> None:
    """Each angle as a point, over spokes at multiples of 2 pi / n; angles that fall together are stacked."""
    around = np.linspace(0, 2 * np.pi, 200)
    axes.plot(np.cos(around), np.sin(around), color=style.FAINT, linewidth=1)
    for j in range(n or 0):
        turn = 2 * np.pi * j / (n or 1)
        axes.plot([0, np.cos(turn)], [0, np.sin(turn)], color=style.FAINT, linewidth=0.8)
        axes.text(
            0.8 * np.cos(turn),
            0.8 * np.sin(turn),
            str(j),
            ha="center",
            va="center",
            fontsize=8,
            color=style.GREY,
            path_effects=style.halo(),
        )
    turns = np.sort(np.remainder(angles, 2 * np.pi))
    placed: list[tuple[float, int]] = []
    for turn in turns:
        height = sum(abs(np.angle(np.exp(1j * (turn - other)))) < 0.06 for other, _ in placed)
        placed.append((turn, height))
    x, y = np.array([((1 + 0.09 * h) * np.cos(t), (1 + 0.09 * h) * np.sin(t)) for t, h in placed]).T
    axes.scatter(x, y, s=16, color=style.BLUE, edgecolors="white", linewidths=0.5, zorder=3)
    axes.set_aspect("equal")
    axes.axis("off")
    axes.set_title(title + (f", spokes at $2\\pi j/{n}$" if n else ""))
