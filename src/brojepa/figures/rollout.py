"""Rollouts: an action repeated on the model's own predictions, as a path through the latents of test images."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from brojepa.figures import style
from brojepa.figures.geometry import PCA, even_choice
from brojepa.figures.sources import Source
from brojepa.text import signed

ACTIONS = (1, -3)
POINTS = 1000


def collect(sources: dict[str, Source], method: str) -> dict[str, Any]:
    """From the first test image that shows state 0, as many steps as there are states: a whole number of turns."""
    source = sources["run"]
    n = source.n
    actions = [k for k in ACTIONS if abs(k) < n]
    start = source.latents.z[np.flatnonzero(source.states == 0)[:1]]
    paths = []
    for k in actions:
        path = [start]
        for _ in range(n):
            path.append(source.act(path[-1], k))
        paths.append(np.concatenate([z.numpy() for z in path]))
    chosen = even_choice(source.states, max(1, POINTS // n), n)
    parts = [source.z[chosen], source.prototypes, *paths]
    if method == "pca":
        pca = PCA.of(source.z).oriented(source.prototypes)
        flat, shares = [pca(part) for part in parts], pca.shares.tolist()
    else:
        flat, shares = _tsne(parts), None
    return {
        "points": flat[0].astype(np.float16),
        "states": source.states[chosen].astype(np.int16),
        "prototypes": flat[1].astype(np.float32),
        "paths": np.stack(flat[2:]).astype(np.float32),
        "read": [source.classify(source.latents.z.new_tensor(path)).tolist() for path in paths],
        "gaps": [float(np.linalg.norm(path[-1] - path[0]) / np.linalg.norm(path[0])) for path in paths],
        "actions": actions,
        "seen": [k in source.train_actions for k in actions],
        "shares": shares,
    }


def _tsne(parts: list[np.ndarray]) -> list[np.ndarray]:
    """All parts in one t-SNE, split into parts again."""
    from sklearn.manifold import TSNE  # imported here: it takes a second, and only this figure needs it

    together = np.concatenate(parts).astype(np.float32)
    perplexity = min(30.0, (len(together) - 1) / 3)
    flat = TSNE(perplexity=perplexity, init="pca", random_state=0).fit_transform(together)
    return np.split(flat, np.cumsum([len(part) for part in parts])[:-1])


def draw(data: dict[str, Any]) -> Figure:
    names = data["runs"]["run"]["states"]
    figure = style.canvas(data, style.WIDE, 4.3 if data["shares"] else 4.4)
    panels = figure.subplots(1, len(data["actions"]), squeeze=False)[0]
    for i, axes in enumerate(panels):
        style.cloud(axes, data["points"].astype(float), data["states"], len(names), alpha=0.4)
        axes.scatter(
            *data["prototypes"].T, s=22, marker="D", c="white", edgecolors=style.BLACK, linewidths=0.9, zorder=4
        )
        _path(axes, data["paths"][i], data["read"][i], names, bend=0.0 if data["shares"] else 0.12)
        _title(axes, data, i)
        x, y = ("component 1", "component 2") if data["shares"] else ("t-SNE 1", "t-SNE 2")
        style.plane(axes, x, y if i == 0 else "")
    return figure


def _path(axes: Axes, path: np.ndarray, read: list[int], names: list[str], bend: float) -> None:
    """One arrow per step, bent if arrows may overlap, which ends at a disc with the state that the probe reads."""
    arrow = {
        "arrowstyle": "-|>,head_width=0.2,head_length=0.45", "connectionstyle": f"arc3,rad={bend}",
        "linewidth": 0.9, "color": style.BLACK, "shrinkA": 5.5, "shrinkB": 5.5,
    }  # fmt: skip
    for here, there in pairwise(path):
        axes.annotate("", there, here, arrowprops=arrow, zorder=5)
    style.discs(axes, path, np.array(read), names)


def _title(axes: Axes, data: dict[str, Any], i: int) -> None:
    k, steps = signed(data["actions"][i]).replace("-", "−"), len(data["read"][i]) - 1
    kind = "trained" if data["seen"][i] else "never trained"
    axes.set_title(f"{k} repeated {steps} times ({kind})\nends {data['gaps'][i]:.1%} away from its start")
