"""What the benchmark `relaxing` measured: epochs until zero-shot reaches seen, against the number of states."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.figure import Figure

from brojepa.figures import style

TITLE = "Training with and without relaxed targets"


def picture(rows: Sequence[Mapping[str, Any]], close: float, most: int) -> dict[str, bytes]:
    """Epochs against states as PNG and SVG, with and without relaxing; hollow and pointing up where it was given up.

    close: how near zero-shot had to come to seen; most: the epochs after which it was given up.
    """
    with style.language():
        figure = Figure(figsize=(style.WIDE, 3.6), layout="constrained")
        figure.suptitle(TITLE, x=0.01, ha="left")
        key = f"hollow: not within {close} of seen after {most} epochs; an MLP on digits and pairs of digits"
        figure.supxlabel(key, x=0.01, ha="left", fontsize=6.5, color=style.GREY)
        axes = figure.subplots()
        looks = {"relaxed": (style.BLUE, "-", "o"), "not relaxed": (style.VERMILLION, (0, (4, 1.5)), "s")}
        for way, (colour, line, marker) in looks.items():
            mine = [row for row in rows if row["targets"] == way]
            states, epochs = [row["states"] for row in mine], [row["epochs"] or most for row in mine]
            axes.plot(states, epochs, color=colour, linestyle=line, label=way)
            for n, count, row in zip(states, epochs, mine, strict=True):
                reached = row["epochs"] is not None
                face = colour if reached else "white"
                axes.plot(n, count, marker if reached else "^", color=colour, markerfacecolor=face, markersize=6)
        axes.set(xscale="log", yscale="log", xlabel="states", ylabel="epochs")
        ticks = sorted({row["states"] for row in rows})
        axes.set_xticks(ticks, [str(n) for n in ticks])
        axes.set_yticks([1, 2, 5, 10, 20, most], ["1", "2", "5", "10", "20", f"{most}"])
        axes.minorticks_off()
        axes.grid(axis="y", color=style.FAINT, linewidth=0.6)
        axes.set_title(f"epochs until zero-shot is within {close} of seen", loc="left")
        style.legend_below(axes)
        return style.files(figure, TITLE, f"Epochs until zero-shot is within {close} of seen, by the number of states.")
