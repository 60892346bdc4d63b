"""Qualitative examples: a context image, an action, and the image nearest to the predicted latent."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch.nn.functional import normalize

from brojepa.figures import style
from brojepa.figures.sources import Source
from brojepa.text import signed

COUNT, STEP = 8, 1.3  # examples, and the distance between two in widths of an image
ACTIONS = (1, 3, -4, 7, -1, 5, -2, -6)  # a trained one in each half; brought into the world's range


def collect(sources: dict[str, Source]) -> dict[str, Any]:
    """The first test image of each of eight states, evenly spread, with one action each; nothing is chosen by hand."""
    first = next(iter(sources.values()))
    n, states = first.n, first.states
    chosen = [int(np.flatnonzero(states == y)[0]) for y in np.linspace(0, n - 1, COUNT).round().astype(int)]
    actions = [k if abs(k) < n else int(np.sign(k)) for k in ACTIONS]
    data: dict[str, Any] = {
        "context": style.pixels(first.test.images[chosen]),
        "actions": actions,
        "seen": [k in first.train_actions for k in actions],
        "right": [int((states[i] + k) % n) for i, k in zip(chosen, actions, strict=True)],
    }
    for role, source in sources.items():
        z = source.latents.z
        predicted = torch.cat([source.act(z[[i]], k) for i, k in zip(chosen, actions, strict=True)])
        near = normalize(predicted, dim=1) @ normalize(z, dim=1).T
        near[range(COUNT), chosen] = -2  # never the context image itself
        data[f"{role}.image"] = style.pixels(source.test.images[near.argmax(1)])
        data[f"{role}.state"] = source.classify(predicted).tolist()
    return data


def draw(data: dict[str, Any]) -> Figure:
    """One picture: one column per example, one row per kind of thing, in units of an image's width."""
    roles = list(data["runs"])
    names = data["runs"][roles[0]]["states"]
    rows = [("image", 1.0), ("action\n(bold: not trained)", 0.75)]
    for role in roles:
        rows += [(f"{data['runs'][role]['label']}\nnearest image", 1.0), ("probe reads", 0.7)]
    middles = [sum(h for _, h in rows[:i]) + height / 2 for i, (_, height) in enumerate(rows)]
    key = "✓ and ✗ are about the state that the probe reads off the predicted latent, not about the nearest image"
    figure = style.canvas(data, style.WIDE, 0.85 + 0.5 * sum(h for _, h in rows), key)
    axes = figure.subplots()
    for (label, _), y in zip(rows, middles, strict=True):
        axes.text(-0.35, y, label, ha="right", va="center", fontsize=8)
    for i in range(COUNT):
        x = i * STEP + 0.5
        style.image(axes, data["context"][i], x, middles[0])
        look = {"color": style.BLUE} if data["seen"][i] else {"color": style.VERMILLION, "fontweight": "bold"}
        _word(axes, signed(data["actions"][i]).replace("-", "−"), x, middles[1], fontsize=12, **look)
        for j, role in enumerate(roles):
            style.image(axes, data[f"{role}.image"][i], x, middles[2 + 2 * j])
            state = data[f"{role}.state"][i]
            right = state == data["right"][i]
            look = {"color": style.BLACK} if right else {"color": style.VERMILLION}
            _word(axes, f"{names[state]} {'✓' if right else '✗'}", x, middles[3 + 2 * j], fontsize=10, **look)
    axes.set(xlim=(-2.6, COUNT * STEP), ylim=(sum(h for _, h in rows), 0))
    axes.set_aspect("equal")
    axes.axis("off")
    return figure


def _word(axes: Axes, text: str, x: float, y: float, **look: Any) -> None:
    axes.text(x, y, text, ha="center", va="center", **look)
