"""What `brojepa inspect` found, on one page: angles, energy, prototypes, drift; of poses, energy and errors."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from brojepa.algebra.describe import verdict
from brojepa.figures import spectrum, style

TITLE = "The algebra of a latent space"
Panel = Callable[[Axes], None]


def picture(found: dict[str, Any], names: list[str]) -> dict[str, bytes]:
    """The figure as PNG and SVG; names are those of the states."""
    with style.language():
        return style.files(draw(found, names), TITLE, " ".join(verdict(found)))


def draw(found: dict[str, Any], names: list[str]) -> Figure:
    panels = [*_angles(found), *_energies(found), *_states(found, names), *_moves(found)]
    rows = (len(panels) + 1) // 2
    figure = Figure(figsize=(style.WIDE, 1.0 + 2.6 * rows), layout="constrained")
    figure.suptitle(TITLE, x=0.01, ha="left")
    shown = f"{found['images']:,} {'test images' if found['states'] else 'views of test things'}"
    key = [f"{found['run']}, {shown} of {found['world']}", *verdict(found)]
    figure.supxlabel("\n".join(key), x=0.01, ha="left", fontsize=6.5, color=style.GREY, linespacing=1.35)
    places = figure.subplots(rows, 2, squeeze=False).flatten()
    for axes, panel in zip(places, panels, strict=False):
        panel(axes)
    for axes in places[len(panels) :]:
        axes.axis("off")
    return figure


def _angles(found: dict[str, Any]) -> list[Panel]:
    """One circle of angles per factor."""
    rotation = found.get("rotation")
    if not rotation:
        return []
    angles = np.array([p["angle"] for p in rotation["planes"]]).reshape(len(rotation["planes"]), -1)
    angles = angles[:1] if (angles == angles[0]).all() else angles  # a shared angle once
    how = f"{len(angles)} {'learned' if rotation['learned'] else 'fixed'} angle{'s' if len(angles) > 1 else ''}"
    moduli = np.atleast_1d(np.array(rotation["modulus"], object))
    factors = found["group"].split("x")
    titles = [how] if len(factors) == 1 else [f"{how}, {factor}" for factor in factors]
    drawn = zip(angles.T, moduli, titles, strict=True)
    return [partial(spectrum.circle, angles=column, n=n, title=title) for column, n, title in drawn]


def _energies(found: dict[str, Any]) -> list[Panel]:
    if found.get("rotation"):
        rows = found["rotation"]["frequencies"]
        title = "prototypes' variance by frequency\n(above the bars: planes)"
        bars = [(f["frequency"], f["energy"], f["planes"]) for f in rows]
        return [partial(_energy, bars=bars, label="frequency", title=title)]
    if found.get("parts"):
        title = f"latents' variance by representation\nof {found['group']} (above the bars: copies)"
        bars = [(p["irrep"], p["energy"], p["copies"]) for p in found["parts"]]
        return [partial(_energy, bars=bars, label="irreducible representation", title=title)]
    return []


def _states(found: dict[str, Any], names: list[str]) -> list[Panel]:
    if "geometry" not in found:
        return []

    def cosines(axes: Axes) -> None:
        image = style.matrix(axes, np.array(found["geometry"]["cosines"]), names, small=True)
        axes.set_title(f"cosines of prototypes, {found['geometry']['circulant']:.1%} circulant")
        figure = axes.get_figure(root=True)
        assert figure is not None
        figure.colorbar(image, ax=axes, shrink=0.8)

    step = "+1" if "x" not in found["group"] else "the first generator"
    return [cosines, partial(_drift, rows=found["drift"], step=step)]


def _moves(found: dict[str, Any]) -> list[Panel]:
    """The error of each action, by its size where it has one."""
    rows = [row for row in found.get("actions", ()) if row["equivariance"] is not None]
    if not rows:
        return []

    def moves(axes: Axes) -> None:
        errors = [row["equivariance"] for row in rows]
        if rows[0]["degrees"] is None:
            axes.bar([row["action"] for row in rows], errors, width=0.7, color=style.BLUE)
            axes.set_xlabel("action")
        else:
            axes.scatter([row["degrees"] for row in rows], errors, s=16, color=style.BLUE)
            axes.set(xlabel="degrees that the action turns by", xlim=(0, 185))
        axes.set(ylabel="squared error / spread")
        axes.set_ylim(0, 1.1 * max(errors, default=0) or 1)
        axes.set_title("equivariance error by action")

    return [moves]


def _energy(axes: Axes, bars: list[tuple[Any, float, int]], label: str, title: str) -> None:
    names, energies, counts = zip(*bars, strict=True)
    x = names if all(isinstance(name, int) for name in names) else range(len(names))
    drawn = axes.bar(x, energies, width=0.7, color=style.BLUE)
    axes.bar_label(drawn, [str(c) for c in counts], fontsize=7 if len(x) <= 8 else 5, color=style.GREY, padding=1)
    axes.margins(y=0.12)
    look: dict[str, Any] = {"rotation": 90, "fontsize": 5} if len(x) > 12 and x is not names else {}
    axes.set_xticks(x, [str(name) for name in names], **look)
    axes.set(xlabel=label, ylabel="share of variance")
    axes.set_title(title)


def _drift(axes: Axes, rows: list[dict[str, Any]], step: str) -> None:
    steps = [row["steps"] for row in rows]
    far = [np.nan if row["distance"] is None else row["distance"] for row in rows]
    axes.plot(steps, far, marker="s", markersize=4, **style.UNSEEN)
    for x, y, row in zip(steps, far, rows, strict=True):
        near = {"textcoords": "offset points", "ha": "center", "fontsize": 7, "path_effects": style.halo()}
        axes.annotate(f"{row['accuracy']:.3f}", (x, y if np.isfinite(y) else 0), (0, 6), **near)
    axes.set_xscale("log")
    axes.margins(x=0.1)
    most = max((y for y in far if np.isfinite(y)), default=0.0)
    axes.set(xlabel=f"steps of {step}", ylabel="squared distance / spread", ylim=(0, 1.25 * most or 1))
    axes.minorticks_off()
    axes.set_xticks(steps, [f"{s:,}" for s in steps])
    axes.grid(axis="y", color=style.FAINT, linewidth=0.6)
    axes.set_title("a long rollout\n(above the points: accuracy)")
