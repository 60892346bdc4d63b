"""What `brojepa inspect` found, on one page: angles, energy, prototypes, drift."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from brojepa.figures import spectrum, style
from brojepa.findings import verdict

TITLE = "The algebra of a latent space"


def picture(found: dict[str, Any], names: list[str]) -> dict[str, bytes]:
    """The figure as PNG and SVG; names are those of the states."""
    with style.language():
        return style.files(draw(found, names), TITLE, " ".join(verdict(found)))


def draw(found: dict[str, Any], names: list[str]) -> Figure:
    rotation = found["rotation"]
    rows = 2 if rotation else 1
    figure = Figure(figsize=(style.WIDE, 1.0 + 2.6 * rows), layout="constrained")
    figure.suptitle(TITLE, x=0.01, ha="left")
    key = [f"{found['run']}, {found['images']:,} test images of {found['world']}", *verdict(found)]
    figure.supxlabel("\n".join(key), x=0.01, ha="left", fontsize=6.5, color=style.GREY, linespacing=1.35)
    panels = figure.subplots(rows, 2, squeeze=False)
    if rotation:
        angles = np.array([p["angle"] for p in rotation["planes"]])
        angles = angles[:1] if (angles == angles[0]).all() else angles  # a shared angle once
        how = f"{len(angles)} {'learned' if rotation['learned'] else 'fixed'} angle{'s' if len(angles) > 1 else ''}"
        spectrum.circle(panels[0, 0], angles, rotation["modulus"], how)
        _energy(panels[0, 1], rotation["frequencies"])
    cosines, drift = panels[-1]
    image = style.matrix(cosines, np.array(found["geometry"]["cosines"]), names, small=True)
    cosines.set_title(f"cosines of prototypes, circulant to {found['geometry']['circulant']:.3f}")
    figure.colorbar(image, ax=cosines, shrink=0.8)
    _drift(drift, found["drift"])
    return figure


def _energy(axes: Axes, frequencies: list[dict[str, Any]]) -> None:
    x = [f["frequency"] for f in frequencies]
    bars = axes.bar(x, [f["energy"] for f in frequencies], width=0.7, color=style.BLUE)
    planes = [f"{f['planes']}" for f in frequencies]
    axes.bar_label(bars, planes, fontsize=7 if len(x) <= 8 else 5, color=style.GREY, padding=1)
    axes.margins(y=0.12)
    axes.set_xticks(x)
    axes.set(xlabel="frequency", ylabel="share of variance")
    axes.set_title("prototypes' variance by frequency\n(above the bars: planes)")


def _drift(axes: Axes, rows: list[dict[str, Any]]) -> None:
    steps = [row["steps"] for row in rows]
    far = [np.nan if row["distance"] is None else row["distance"] for row in rows]
    curves: list[tuple[str, str, list[float], dict[str, Any]]] = [
        ("accuracy", "o", [row["accuracy"] for row in rows], style.SEEN),
        ("squared distance / spread", "s", far, style.UNSEEN),
    ]
    for label, marker, values, look in curves:
        axes.plot(steps, values, label=label, marker=marker, markersize=4, **look)
    axes.set_xscale("log")
    axes.set(xlabel="steps of +1", ylim=(-0.02, 1.05))
    axes.minorticks_off()
    axes.set_xticks(steps, [f"{s:,}" for s in steps])
    axes.grid(axis="y", color=style.FAINT, linewidth=0.6)
    axes.set_title("a long rollout")
    style.legend_below(axes)
