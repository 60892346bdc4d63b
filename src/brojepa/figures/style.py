"""The visual language that all figures share: sizes, type, colours, and how a figure becomes a file.

Colours are safe for colour-blind readers and never the only signal: states also have names, actions a marker or a line
style. A figure is a `matplotlib.figure.Figure` of its own; pyplot's global state is never touched.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from textwrap import fill
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.patheffects import withStroke
from matplotlib.ticker import MaxNLocator
from matplotlib.transforms import ScaledTranslation

from brojepa.figures import FIGURES

# Okabe and Ito (2008)
BLACK, ORANGE, SKY, GREEN, BLUE, VERMILLION, PURPLE = (
    "#000000", "#E69F00", "#56B4E9", "#009E73", "#0072B2", "#D55E00", "#CC79A7",
)  # fmt: skip
GREY, FAINT = "#6B6B6B", "#D9D9D9"

SEEN = {"color": BLUE, "linestyle": "-"}
UNSEEN = {"color": VERMILLION, "linestyle": (0, (4, 1.5))}

SHARE = "cividis"  # shares from 0 to 1
SIGNED = LinearSegmentedColormap.from_list("signed", ["#7A3000", VERMILLION, "#F7F7F7", BLUE, "#003A5C"])  # -1 to 1
HIGH = LinearSegmentedColormap.from_list("high", ["#F7F7F7", BLUE, "#003A5C"])  # its upper half
PIXELS = "gray"  # as models read them: 0 is black

WIDE, NARROW = 6.4, 3.6  # inches: a page's text, and a column
DPI = 200
DENSE = 200  # dots per inch of a scatter inside an SVG, where it is an image

RULES: dict[Any, Any] = {
    "font.family": "DejaVu Sans",  # ships with matplotlib: the same font everywhere
    "mathtext.fontset": "dejavusans",
    "font.size": 9,
    "axes.titlesize": 9,
    "axes.labelsize": 9,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "legend.fontsize": 8,
    "figure.titlesize": 10,
    "figure.titleweight": "bold",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.8,
    "axes.axisbelow": True,
    "lines.linewidth": 1.6,
    "legend.frameon": False,
    "figure.dpi": DPI,
    "savefig.dpi": DPI,
    "figure.constrained_layout.w_pad": 0.06,
    "figure.constrained_layout.h_pad": 0.08,
    "svg.fonttype": "path",
    "svg.hashsalt": "brojepa",  # makes the ids inside an SVG deterministic
    "axes.unicode_minus": True,
}


@contextmanager
def language() -> Iterator[None]:
    """All drawing happens in here, whatever the user's own settings are."""
    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(RULES)
        yield


def canvas(data: dict[str, Any], width: float, height: float, key: str = "") -> Figure:
    """An empty figure with its title; below it, in small type, how to read it and which runs it is drawn from."""
    figure = Figure(figsize=(width, height), layout="constrained")
    figure.suptitle(fill(FIGURES[data["figure"]].title, round(12 * width)), x=0.01, ha="left")  # letters per inch
    text = "\n".join([*filter(None, (FIGURES[data["figure"]].see, key)), *origins(data["runs"])])
    lines = [fill(line, round(20 * width)) for line in text.splitlines()]
    figure.supxlabel("\n".join(lines), x=0.01, ha="left", fontsize=6.5, color=GREY, linespacing=1.35)
    return figure


def origins(runs: dict[str, dict[str, Any]]) -> list[str]:
    """How each run was made, in the words of the command line."""
    lines = []
    for run in runs.values():
        words = run["words"] if "--epochs" in run["words"] else f"{run['words']}, {run['epochs']} epochs"
        label = f"{run['label']}: " if len(runs) > 1 else ""
        lines.append(f"{label}{words}, seed {run['seed']}")
    return lines


def files(figure: Figure, title: str, description: str) -> dict[str, bytes]:
    """The figure as PNG and as SVG, each with its description inside; the same bytes each time."""
    figure.draw_without_rendering()
    figure.set_layout_engine("none")  # both files have the layout that is found here
    made = {}
    for kind, about in (
        ("png", {"Title": title, "Description": description, "Software": "brojepa"}),
        ("svg", {"Title": title, "Description": description, "Creator": "brojepa", "Date": None}),
    ):
        buffer = io.BytesIO()
        figure.savefig(buffer, format=kind, metadata=about, dpi=DPI if kind == "png" else DENSE)
        made[kind] = buffer.getvalue()
    return {**made, "svg": _renamed(made["svg"])}


def _renamed(svg: bytes) -> bytes:
    """The same drawing with its inner names counted: they are hashes of coordinates down to the last bit, which the
    solver of the layout does not always settle the same way."""
    order: dict[bytes, bytes] = {}

    def name(match: re.Match[bytes]) -> bytes:
        return match[1] + order.setdefault(match[2], b"_%d" % len(order))

    return re.sub(rb'(id="|url\(#|href="#)(\w*[0-9a-f]{10})(?=["\)])', name, svg)


def state_colours(n: int) -> np.ndarray:
    """A colour for each of n states on a closed loop, [n, 3].

    The loop is in OKLab, with lightness falling as red-green rises: a reader who cannot tell red from green still sees
    a loop of lightness and blue-yellow, and no two states look the same.
    """
    turn = 2 * np.pi * np.arange(n) / n + 0.6
    lightness, a, b = 0.64 - 0.15 * np.cos(turn), 0.11 * np.cos(turn), 0.13 * np.sin(turn)
    long = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3
    middle = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3
    short = (lightness - 0.0894841775 * a - 1.2914855480 * b) ** 3
    linear = np.stack(
        (
            4.0767416621 * long - 3.3077115913 * middle + 0.2309699292 * short,
            -1.2684380046 * long + 2.6097574011 * middle - 0.3413193965 * short,
            -0.0041960863 * long - 0.7034186147 * middle + 1.7076147010 * short,
        ),
        -1,
    ).clip(0, 1)
    return np.where(linear <= 0.0031308, 12.92 * linear, 1.055 * linear ** (1 / 2.4) - 0.055)


def halo(colour: str = "white", width: float = 1.8) -> list[Any]:
    """A rim that keeps text legible over points."""
    return [withStroke(linewidth=width, foreground=colour)]


def cloud(axes: Axes, points: np.ndarray, states: np.ndarray, n: int, **options: Any) -> None:
    """Points [count, 2] in the colours of their states; an image inside an SVG."""
    look = {"s": 5, "alpha": 0.55, "linewidths": 0, "rasterized": True, **options}
    axes.scatter(points[:, 0], points[:, 1], c=state_colours(n)[states], **look)


def discs(axes: Axes, points: np.ndarray, states: np.ndarray, names: list[str]) -> None:
    """Points [count, 2] as discs that carry their state's colour and name."""
    size, type_size = (120, 8) if len(names) <= 12 else (60, 6)
    colours = state_colours(len(names))[states]
    axes.scatter(*points.T, s=size, c=colours, edgecolors=BLACK, linewidths=0.8, zorder=6)
    look = {"ha": "center", "va": "center", "fontsize": type_size, "fontweight": "bold", "zorder": 7}
    for point, state in zip(points, states, strict=True):
        axes.annotate(names[state], point, path_effects=halo(), **look)


def badges(axes: Axes, points: np.ndarray, names: list[str]) -> None:
    """The mean of each state, [n, 2], as a disc; one that would hide another is moved, with a line to its place."""
    span = float(np.ptp(points, axis=0).max()) or 1.0
    places = spread(points, (0.07 if len(names) <= 12 else 0.05) * span)
    for point, place in zip(points, places, strict=True):
        if np.linalg.norm(place - point) > 1e-3 * span:
            axes.plot(*np.stack((point, place)).T, color=BLACK, linewidth=0.7, zorder=5)
            axes.plot(*point, "o", color=BLACK, markersize=2.5, zorder=5)
    discs(axes, places, np.arange(len(names)), names)


def spread(points: np.ndarray, apart: float) -> np.ndarray:
    """Points [n, 2] moved as little as is needed to stand `apart` from each other."""
    turn = np.arange(len(points))
    places = points + 1e-6 * apart * np.stack(
        (np.cos(turn), np.sin(turn)), 1
    )  # equal points need a direction to move apart
    for _ in range(500):
        gap = places[:, None] - places[None]
        length = np.linalg.norm(gap, axis=2) + np.eye(len(points)) * 2 * apart
        if (length >= 0.999 * apart).all():
            break
        push = np.maximum(apart - length, 0) / 2
        places = places + (gap / length[..., None] * push[..., None]).sum(1)
    return places


def plane(axes: Axes, x: str = "", y: str = "") -> None:
    """Axes of a projection: equal scales, no numbers, because only nearness has a meaning."""
    axes.set_aspect("equal")
    axes.set(xticks=[], yticks=[], xlabel=x, ylabel=y)


def matrix(axes: Axes, values: np.ndarray, names: list[str], *, small: bool = False) -> Any:
    """A square of cosines from -1 to 1 with its numbers, or one number if all are the same; the image, for a colour
    bar. A small one has no room for numbers, and if all its cosines are high, the blues for their own range."""
    low = np.floor(values.min() * 10) / 10
    scale: dict[str, Any] = {"cmap": SIGNED, "vmin": -1} if not small or low < 0.2 else {"cmap": HIGH, "vmin": low}
    image = axes.imshow(values, vmax=1, **scale)
    ticks = range(len(names)) if len(names) <= 30 else range(0, len(names), 5)
    size = 8 if len(names) <= 12 else 5
    axes.set_xticks(ticks, [names[i] for i in ticks], fontsize=size)
    axes.set_yticks(ticks, [names[i] for i in ticks], fontsize=size)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    if not small and np.ptp(values) < 0.005:
        middle = (len(names) - 1) / 2
        axes.text(middle, middle, f"all {values.mean():.2f}", ha="center", va="center", color="white", fontsize=14)
    elif not small and len(names) <= 12:
        figures = [
            [f"{v:.2f}".replace("0.", ".").replace("-", "−").replace("−.00", ".00") for v in row] for row in values
        ]
        cells(axes, figures, abs(values) > 0.45)
    return image


def cells(axes: Axes, texts: list[list[str]], dark: np.ndarray) -> None:
    """A text in every cell of an image, white where the cell is dark."""
    look = {"ha": "center", "va": "center", "fontsize": 5.4, "in_layout": False}
    for (row, column), white in np.ndenumerate(dark):
        axes.text(column, row, texts[row][column], color="white" if white else "black", **look)


def pixels(images: Any) -> np.ndarray:
    """A tensor of images, uint8 [count, channels, height, width] -> [count, height, width], or with 3 channels last."""
    last = images.movedim(1, -1).cpu().numpy()
    return last[..., 0] if last.shape[-1] == 1 else last[..., :3]


def image(axes: Axes, image: np.ndarray, x: float, y: float, wide: float = 1.0, **look: Any) -> None:
    """An image of height 1 around (x, y), y pointing down."""
    extent = (x - wide / 2, x + wide / 2, y + 0.5, y - 0.5)
    axes.imshow(image, cmap=PIXELS, vmin=0, vmax=255, extent=extent, **look)


def epochs(axes: Axes, count: int) -> None:
    """The horizontal axis of a learning curve."""
    axes.set_xlim(1, max(count, 2))
    axes.set_xlabel("epoch")
    axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    axes.grid(axis="y", color=FAINT, linewidth=0.6)


def bounds(axes: Axes) -> None:
    """The vertical axis of an accuracy."""
    axes.set_ylim(-0.02, 1.02)
    axes.set_yticks([0, 0.25, 0.5, 0.75, 1], ["0", ".25", ".5", ".75", "1"])


def legend_below(axes: Axes) -> None:
    """The legend below the axis: inside it could hide a curve."""
    figure = axes.get_figure(root=True)
    assert figure is not None
    under = axes.transAxes + ScaledTranslation(
        0, -33 / 72, figure.dpi_scale_trans
    )  # the axis' own words take 33 points
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, 0), bbox_transform=under, borderaxespad=0)
