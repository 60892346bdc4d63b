"""How far a long rollout drifts: accuracy and distance from the right prototype, step by step."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure

from brojepa.figures import style
from brojepa.figures.geometry import even_choice
from brojepa.figures.sources import Source

STEPS, IMAGES = 100, 2000
LOST = 2.0  # distances beyond twice that between prototypes are off the picture
LOOKS = {
    "fixed": {"color": style.BLUE, "linestyle": "-"},
    "learned": {"color": style.GREEN, "linestyle": (0, (1.5, 1))},
    "jepa": style.UNSEEN,
}


def collect(sources: dict[str, Source]) -> dict[str, Any]:
    data: dict[str, Any] = {}
    for role, source in sources.items():
        data[f"{role}.accuracy"], data[f"{role}.distance"] = _roll(source)
    return data


def _roll(source: Source) -> tuple[np.ndarray, np.ndarray]:
    """Accuracy and relative distance after 0 to STEPS times +1, on test images in equal numbers of each state."""
    chosen = even_choice(source.states, max(1, IMAGES // source.n), source.n)
    z, y = source.latents.z[torch.from_numpy(chosen)], source.states[chosen]
    means = torch.from_numpy(source.prototypes)
    apart = torch.pdist(means).mean().clamp(min=1e-12)
    right, far = [], []
    for step in range(STEPS + 1):
        if step:
            z = source.act(z, 1)
        target = (y + step) % source.n
        right.append(float((source.classify(z) == target).mean()))
        far.append(float((z - means[torch.from_numpy(target)]).norm(dim=1).mean() / apart))
    return np.array(right, np.float32), np.array(far, np.float32)


def draw(data: dict[str, Any]) -> Figure:
    """Distances as curves; accuracies, which hardly move in a model that works, as numbers at both ends."""
    figure = style.canvas(data, style.WIDE, 3.7)
    axes = figure.subplots()
    for role, run in data["runs"].items():
        values, right = data[f"{role}.distance"], data[f"{role}.accuracy"]
        label = f"{run['label']} (accuracy {right[0]:.3f} at the start, {right[-1]:.3f} after {len(right) - 1} steps)"
        axes.plot(range(len(values)), values, label=label, **LOOKS[role])
    far = max(float(np.nanmax(data[f"{role}.distance"])) for role in data["runs"])
    axes.set_ylim(0, 1.05 * min(far, LOST) or 1)
    axes.set_title("distance to the right prototype (1 = mean distance between prototypes)", loc="left")
    axes.set(xlabel="steps of +1", xlim=(0, STEPS))
    axes.grid(axis="y", color=style.FAINT, linewidth=0.6)
    style.legend_below(axes)
    return figure
