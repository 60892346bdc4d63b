"""Latents of test images in the planes of one frequency, with the prototypes joined in order, and own images in it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.offsetbox import AnnotationBbox, OffsetImage

from brojepa.errors import RequestError
from brojepa.evaluation import evaluating
from brojepa.figures import style
from brojepa.figures.geometry import PCA, at_frequency, even_choice, frequencies, telling
from brojepa.figures.sources import Source
from brojepa.worlds.pictures import read_picture

POINTS = 2000
PANELS = 6  # frequencies that are shown
AWAY = 1.32  # of the picture of an own image, from its centre
TALL = 24.0  # points


def collect(
    sources: dict[str, Source], frequency: str = "", images: Sequence[str | Path] = (), invert: bool = False
) -> dict[str, Any]:
    """`frequency` is a number or "pca"; without it, the lowest that tells all states apart."""
    source = sources["run"]
    plane, shown = _plane(source, frequency)
    chosen = even_choice(source.states, max(1, POINTS // source.n), source.n)
    data = {
        "points": plane(source.z[chosen]).astype(np.float16),
        "states": source.states[chosen].astype(np.int16),
        "prototypes": plane(source.prototypes).astype(np.float32),
        "shares": plane.shares,
        "frequency": shown,
    }
    if images:
        return {**data, **_own(source, plane, images, invert)}
    return data if frequency or shown is None else {**data, **_others(source, chosen, shown)}


def _others(source: Source, chosen: np.ndarray, shown: int) -> dict[str, Any]:
    """The same in the planes of the other frequencies."""
    angles = source.model.action.angles
    if angles is None:
        return {}
    present = frequencies(angles.detach().double().numpy(), source.n)
    turning = sorted({min(f, source.n - f) for f in present.tolist()} - {0, shown})[: PANELS - 1]
    planes = [at_frequency(source.z, source.prototypes, present, f) for f in turning]
    if not planes:
        return {}
    return {
        "others": turning,
        "others.points": np.stack([plane(source.z[chosen]) for plane in planes]).astype(np.float16),
        "others.prototypes": np.stack([plane(source.prototypes) for plane in planes]).astype(np.float32),
        "others.shares": np.stack([plane.shares for plane in planes]),
    }


def _plane(source: Source, frequency: str) -> tuple[PCA, int | None]:
    """The plane to project on, and its frequency; principal components if asked for, or if nothing turns."""
    angles = source.model.action.angles
    if frequency == "pca" or angles is None:
        return PCA.of(source.z).oriented(source.prototypes), None
    present = frequencies(angles.detach().double().numpy(), source.n)
    f = int(frequency) if frequency else telling(present, source.n)
    if not np.isin(present, (f % source.n, -f % source.n)).any() or not f % source.n:
        there = sorted({min(each, source.n - each) for each in present.tolist()} - {0})
        raise RequestError(
            f"--frequency {frequency}: no plane turns at it, choose from {', '.join(map(str, there))} or pca"
        )
    f = min(f % source.n, -f % source.n)
    return at_frequency(source.z, source.prototypes, present, f), f


def _own(source: Source, plane: PCA, paths: Sequence[str | Path], invert: bool) -> dict[str, Any]:
    """Own images as the model reads them, their positions, and the state that the probe reads."""
    shape = source.model.task.shape
    images = torch.from_numpy(np.stack([read_picture(path, shape, invert=invert, resize=True) for path in paths]))
    with evaluating(source.model):
        z = source.model.encode(images)
    return {
        "own.images": style.pixels(images),
        "own.points": plane(z.numpy()).astype(np.float32),
        "own.read": source.classify(z).astype(np.int16),
    }


def draw(data: dict[str, Any]) -> Figure:
    return _several(data) if "others" in data else _one(data)


def _several(data: dict[str, Any]) -> Figure:
    """A panel per frequency."""
    names, others = data["runs"]["run"]["states"], data["others"]
    rows = (len(others) + 3) // 3
    figure = style.canvas(data, style.WIDE, 1.0 + 2.2 * rows)
    places = figure.subplots(rows, 3, squeeze=False).flatten()
    shown = [
        (data["frequency"], data["points"], data["prototypes"], data["shares"]),
        *zip(others, data["others.points"], data["others.prototypes"], data["others.shares"], strict=True),
    ]
    reach = 1.05 * max(float(np.abs(points).max()) for _, points, _, _ in shown)
    for axes, (frequency, points, means, shares) in zip(places, sorted(shown, key=lambda one: one[0]), strict=False):
        _ring(axes, points.astype(float), means, data["states"], names, size=3)
        style.plane(axes)
        axes.set(xlim=(-reach, reach), ylim=(-reach, reach))
        axes.spines[:].set_visible(False)
        axes.set_title(f"frequency {frequency} ({sum(shares):.0%} of variance)")
    for axes in places[len(shown) :]:
        axes.axis("off")
    return figure


def _ring(axes: Axes, points: np.ndarray, means: np.ndarray, states: np.ndarray, names: list[str], size: float) -> None:
    style.cloud(axes, points, states, len(names), s=size)
    ring = np.concatenate((means, means[:1]))
    axes.plot(ring[:, 0], ring[:, 1], color=style.GREY, linewidth=0.9, zorder=3)
    style.badges(axes, means, names)


def _one(data: dict[str, Any]) -> Figure:
    run = data["runs"]["run"]
    names, points, means = run["states"], data["points"].astype(float), data["prototypes"]
    own = "stars: your own images, and the state that the probe reads" if "own.points" in data else ""
    figure = style.canvas(data, style.NARROW, style.NARROW + 0.3 + 0.15 * bool(own), own)
    axes = figure.subplots()
    _ring(axes, points, means, data["states"], names, size=5)
    frequency = data.get("frequency")
    axis = "component {}" if frequency is None else f"frequency {frequency}, {{}}"
    words = (1, 2) if frequency is None else ("cosine", "sine")
    shares = (
        f"{axis.format(word)} ({share:.0%} of variance)" for word, share in zip(words, data["shares"], strict=True)
    )
    style.plane(axes, *shares)
    if own:
        _place(axes, data, names)
    return figure


def _place(axes: Axes, data: dict[str, Any], names: list[str]) -> None:
    """A star at the position of each own image, connected to its picture outside the circle."""
    size = float(np.abs(data["points"]).max())
    points = data["own.points"].astype(float)
    length = np.linalg.norm(points, axis=1, keepdims=True)
    out = AWAY * size * points / np.where(length > 0, length, 1)
    places = style.spread(out, 0.6 * size)
    axes.scatter(*points.T, marker="*", s=60, color="white", edgecolors=style.BLACK, linewidths=1, zorder=9)
    for picture, point, place, state in zip(data["own.images"], points, places, data["own.read"], strict=True):
        shown = OffsetImage(picture, zoom=TALL / len(picture), cmap=style.PIXELS)
        tie = {"arrowstyle": "-", "color": style.BLACK, "linewidth": 0.7}
        box = AnnotationBbox(shown, tuple(point), tuple(place), arrowprops=tie, pad=0.1, zorder=8)
        axes.add_artist(box)
        axes.annotate(
            names[state], tuple(place), (0, -TALL / 2 - 4), textcoords="offset points", ha="center", va="top",
            fontsize=8, fontweight="bold", path_effects=style.halo(), zorder=10,
        )  # fmt: skip
    reach = float(max(np.abs(places).max(), size)) + 0.25 * size
    axes.set(xlim=(-reach, reach), ylim=(-reach - 0.2 * size, reach))  # room for the state below a picture
