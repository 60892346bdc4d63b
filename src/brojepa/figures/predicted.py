"""A prediction as a picture: an image, an action, and the test image whose latent is nearest to the predicted one."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from matplotlib.figure import Figure
from torch import Tensor
from torch.nn.functional import normalize

from brojepa.errors import RequestError
from brojepa.evaluation import Latents, evaluating
from brojepa.figures import style
from brojepa.models import Model
from brojepa.worlds import Split

GAP, ARROW, ROW = 0.4, 1.6, 1.5  # between image and text, the way to the next image, a row; in image heights
TITLE = "Where an action leads"


def nearest(model: Model, split: Split, predicted: Tensor) -> tuple[Tensor, list[int]]:
    """The images of a split whose latents are nearest to predicted ones [count, dim] by angle, and their states."""
    if not model.predicts_latents:
        raise RequestError("--out is for models that predict latents of images, a supervised one predicts states only")
    with evaluating(model):
        latents = Latents.of(model, split)
    near = (normalize(predicted, dim=1) @ normalize(latents.z, dim=1).T).argmax(1).cpu()
    return split.images[near], split.states[near].tolist()


def picture(images: Tensor, word: str, near: Tensor, titles: Sequence[tuple[str, str, str]]) -> dict[str, bytes]:
    """The figure as PNG and SVG.

    Args:
        images: the images, uint8 [count, c, h, w].
        word: the action.
        near: the nearest test images, alike.
        titles: for each, the state it shows, the state predicted, and the state that the nearest image shows.
    """
    key = "The state read from the image; the action and the state it is predicted to lead to; the nearest test image."
    with style.language():
        return style.files(draw(images, word, near, titles), TITLE, key)


def draw(images: Tensor, word: str, near: Tensor, titles: Sequence[tuple[str, str, str]]) -> Figure:
    """One row for each image."""
    left, right = style.pixels(torch.as_tensor(images)), style.pixels(near)
    wide = images.shape[3] / images.shape[2]
    far = wide + 2 * GAP + ARROW
    figure = Figure(figsize=(style.NARROW, 0.5 + 1.1 * len(left)), layout="constrained")
    figure.suptitle(TITLE, x=0.01, ha="left")
    axes = figure.subplots()
    look = {"ha": "center", "fontsize": 8}
    for row, (shown, reached, found) in enumerate(titles):
        y = row * ROW + 0.5
        style.image(axes, left[row], wide / 2, y, wide, interpolation="nearest")
        style.image(axes, right[row], far + wide / 2, y, wide, interpolation="nearest")
        pen = {"arrowstyle": "->", "color": style.GREY}
        axes.annotate("", (far - GAP, y), (wide + GAP, y), arrowprops=pen)
        middle = wide + GAP + ARROW / 2
        axes.text(
            middle, y - 0.12, word.replace("-", "−"), look | {"fontsize": 11, "va": "bottom"}, color=style.VERMILLION
        )
        axes.text(middle, y + 0.12, reached, look | {"va": "top"})
        axes.text(wide / 2, y + 0.55, shown, look | {"va": "top"})
        axes.text(far + wide / 2, y + 0.55, found, look | {"va": "top"})
    axes.set(xlim=(-GAP, far + wide + GAP), ylim=(len(left) * ROW, -0.1))
    axes.set_aspect("equal")
    axes.axis("off")
    return figure
