"""Decoded rollouts: an action repeated on the model's own predictions, and the pictures that its decoder makes of them,
below images of the states that are right."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor

from brojepa.errors import RequestError
from brojepa.evaluation import evaluating
from brojepa.figures import style
from brojepa.figures.sources import Source
from brojepa.groups import Element, Group

ROWS, STEPS, SEED = 3, 9, 0  # examples, steps at most, and what draws the examples
GAP, APART, LEFT, HEAD = 0.12, 0.45, 1.9, 0.5  # between images, between examples, for words, above; in image heights
LARGEST = 0.62  # inches, an image's height


def collect(sources: dict[str, Source]) -> dict[str, Any]:
    """A few test images that a seed draws, each with a training action, forward ones first; nothing is chosen by
    hand."""
    source = sources["run"]
    model, world = source.model, source.world
    if model.decoder is None:
        raise RequestError(f"{source.run.path}: {model.no_decoder}")
    if not model.predicts_latents:
        raise RequestError(f"{source.run.path} predicts states, not latents of images: there is nothing to decode")
    group = world.group
    trained = sorted(world.action_sets(source.config)[0], key=lambda k: "-" in group.write(k))
    data: dict[str, Any] = {"actions": [], "labelled": bool(world.n), "error": model.decoder.about["error"]}
    data["mean_image_error"] = model.decoder.about["mean_image_error"]
    for i in range(ROWS):
        k = trained[i % len(trained)]
        path = powers(group, k, STEPS)
        batch = world.examples(path, ROWS, torch.Generator().manual_seed(SEED))
        assert batch.targets is not None
        if i >= len(batch.images):
            break
        with evaluating(model):
            latents = model.rollout(model.encode(batch.images[i : i + 1]), k, len(path))[:, 0]
        right = torch.cat((batch.images[i : i + 1], batch.targets.unflatten(0, (-1, len(path)))[i]))
        data[f"right.{i}"], data[f"decoded.{i}"] = _pixels(right), _pixels(model.decode(latents))
        data["actions"].append(group.write(k))
    return data


def _pixels(images: Tensor) -> np.ndarray:
    return style.pixels(images.to(torch.uint8))


def powers(group: Group, k: Element, most: int) -> tuple[Element, ...]:
    """k once, twice, and so on, until it returns to the identity."""
    step, identity = group.tensor([k])[0], torch.as_tensor(group.identity, dtype=group.dtype)
    path, now = [], identity
    while len(path) < most:
        now = group.canonical(group.compose(step, now))
        path.append(group.plain(now))
        if float(group.distance(now, identity)) < 1e-3:
            break
    return tuple(path)


def draw(data: dict[str, Any]) -> Figure:
    """Two rows for each example, a column for each step."""
    rows = range(len(data["actions"]))
    tall, broad = data["right.0"].shape[1:3]
    wide = broad / tall
    columns = max(len(data[f"right.{i}"]) for i in rows)
    right = columns * (wide + GAP)
    low = len(rows) * (2 + GAP + APART)
    unit = min(LARGEST, (style.WIDE - 0.2) / (LEFT + right))
    what = "an image of each state" if data["labelled"] else "the same thing, truly moved"
    key = (
        f"above: {what}; below: decoded, step 0 from the image's latent, the others from the model's own predictions;\n"
        f"error on test images {data['error']:.4f}, of the mean image {data['mean_image_error']:.4f}"
    )
    figure = style.canvas(data, style.WIDE, unit * (low + HEAD) + 0.85, key)
    axes = figure.subplots()
    look = {"ha": "center", "va": "center", "fontsize": 8}
    for column in range(columns):
        axes.text(column * (wide + GAP) + wide / 2, -HEAD / 2, str(column), look, color=style.GREY)
    axes.text(-0.3, -HEAD / 2, "step", look | {"ha": "right"}, color=style.GREY)
    for i in rows:
        top = i * (2 + GAP + APART)
        word = data["actions"][i].replace("-", "−")
        for j, (kind, name) in enumerate((("right", "image"), ("decoded", f"decoded, {word}"))):
            y = top + j * (1 + GAP) + 0.5
            axes.text(-0.3, y, name, look | {"ha": "right"}, color=style.VERMILLION if j else style.BLACK)
            for column, picture in enumerate(data[f"{kind}.{i}"]):
                style.image(axes, picture, column * (wide + GAP) + wide / 2, y, wide, interpolation="nearest")
    axes.set(xlim=(-LEFT, right), ylim=(low - APART, -HEAD))
    axes.set_aspect("equal")
    axes.axis("off")
    return figure
