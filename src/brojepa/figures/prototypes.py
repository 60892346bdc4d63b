"""Cosine similarity between the prototypes (mean latents) of the states, one matrix per run."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.figure import Figure

from brojepa.figures import style
from brojepa.figures.geometry import cosines
from brojepa.figures.sources import Source


def collect(sources: dict[str, Source]) -> dict[str, Any]:
    data: dict[str, Any] = {}
    for role, source in sources.items():
        data[f"{role}.cosine"] = cosines(source.prototypes).astype(np.float32)
        data[f"{role}.scale"] = float(source.z.std(0).mean())
    return data


def draw(data: dict[str, Any]) -> Figure:
    roles = list(data["runs"])
    width = style.WIDE if len(roles) > 1 else style.NARROW + 0.5
    figure = style.canvas(data, width, 3.8 if len(roles) > 1 else 4.2)
    panels = figure.subplots(1, len(roles), squeeze=False)[0]
    image = None
    for axes, role in zip(panels, roles, strict=True):
        run = data["runs"][role]
        image = style.matrix(axes, data[f"{role}.cosine"], run["states"])
        axes.set_title(f"{run['label']}\nstandard deviation of a latent {data[f'{role}.scale']:.3f}")
        axes.set_xlabel("state")
    panels[0].set_ylabel("state")
    assert image is not None
    figure.colorbar(image, ax=panels, label="cosine similarity", shrink=0.8, ticks=[-1, -0.5, 0, 0.5, 1])
    return figure
