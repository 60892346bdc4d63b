"""A world as a picture: test images, and where a few actions lead, drawn as training draws them."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from brojepa.figures import style
from brojepa.groups import Element, Group
from brojepa.presets import preset, recommended
from brojepa.worlds import Batch, World

ROWS, OTHERS = 4, 3  # contexts, and actions shown beside those trained on
ARROW, GAP, HEAD = 0.8, 0.15, 0.5  # the way to the next images, between two of them, and above; in image heights
LARGEST = 0.75  # inches, an image's height
WORD = 9  # letters that fit over an image


def trained_on(name: str, group: Group) -> tuple[Element, ...]:
    """The training actions of the preset recommended for a world, each once: a cycle of 2 has two words for one."""
    return tuple(dict.fromkeys(group.parse(word) for word in preset(recommended(name)).train_actions))


def others(world: World, trained: Sequence[Element], seed: int) -> tuple[Element, ...]:
    """A few more of the actions that are measured, drawn by the seed."""
    rest = [k for k in world.actions if k not in trained]
    order = torch.randperm(len(rest), generator=torch.Generator().manual_seed(seed))
    return tuple(rest[i] for i in sorted(order[:OTHERS].tolist()))


def picture(world: World, actions: Sequence[Element], trained: Sequence[Element], seed: int = 0) -> dict[str, bytes]:
    """The figure as PNG and SVG."""
    with style.language():
        return style.files(draw(world, actions, trained, seed), _title(world), _key(world))


def draw(world: World, actions: Sequence[Element], trained: Sequence[Element], seed: int = 0) -> Figure:
    """One row per test image, of a few that the seed draws, and one column per action."""
    batch = _batch(world, actions, seed)
    assert batch.targets is not None
    contexts, reached = style.pixels(batch.images), style.pixels(batch.targets)
    wide = world.shape[2] / world.shape[1]
    middles = [wide + ARROW + i * (wide + GAP) + wide / 2 for i in range(len(actions))]
    right, low = middles[-1] + wide / 2, len(contexts) * (1 + GAP)
    unit = min(LARGEST, (style.WIDE - 0.2) / (right + GAP))
    figure = Figure(figsize=(max(style.NARROW, unit * right + 0.2), unit * (low + HEAD) + 0.85), layout="constrained")
    figure.suptitle(_title(world), x=0.01, ha="left")
    figure.supxlabel(_key(world), x=0.01, ha="left", fontsize=6.5, color=style.GREY, linespacing=1.35)
    axes = figure.subplots()
    for k, x in zip(actions, middles, strict=True):
        colour, weight = (style.BLUE, "normal") if k in trained else (style.VERMILLION, "bold")
        look = {"fontsize": 8, "fontweight": weight, "color": colour, "ha": "center", "va": "center"}
        axes.text(x, -HEAD / 2, short_word(world.group, k), look)
    for row, context in enumerate(contexts):
        y = row * (1 + GAP) + 0.5
        _framed(axes, context, wide / 2, y, wide)
        pen = {"arrowstyle": "->", "color": style.GREY}
        axes.annotate("", (wide + ARROW - GAP, y), (wide + GAP, y), arrowprops=pen)
        for column, x in enumerate(middles):
            _framed(axes, reached[row * len(actions) + column], x, y, wide)
    axes.set(xlim=(-GAP, right + GAP), ylim=(low, -HEAD))
    axes.set_aspect("equal")
    axes.axis("off")
    return figure


def _batch(world: World, actions: Sequence[Element], seed: int) -> Batch:
    """Contexts of the test split with every action."""
    return world.examples(actions, ROWS, torch.Generator().manual_seed(seed))


def _framed(axes: Axes, image: np.ndarray, x: float, y: float, wide: float) -> None:
    style.image(axes, image, x, y, wide, interpolation="nearest")
    axes.add_patch(Rectangle((x - wide / 2, y - 0.5), wide, 1, fill=False, color=style.FAINT, linewidth=0.5))


def short_word(group: Group, k: Element) -> str:
    """The action as the command line has it; a turn that takes too many letters, by how far it turns."""
    word = group.write(k)
    if len(word) > WORD:
        word = f"{far(group, k):.0f}°"
    return word.replace("-", "−")


def far(group: Group, k: Element) -> float:
    """How far an action moves: degrees if it turns things."""
    return float(group.distance(group.tensor([k])[0], torch.as_tensor(group.identity)))


def _title(world: World) -> str:
    return f"The world {re.sub('[^:,]*/', '', world.title)}, {world.group}"  # without the user's paths


def _key(world: World) -> str:
    what = "an image of the state" if world.n else "the same thing in the pose"
    return (
        f"Left: test images. Below each action: {what} that it leads to.\n"
        "Blue: trained on in the preset recommended for this world; bold: not."
    )
