"""Results of benchmarks: where and when they were measured, as a file, and as tables for people."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from brojepa.bench import BENCHMARKS
from brojepa.errors import RequestError
from brojepa.files import read_json
from brojepa.report.render import Grid, View

VERDICT = {True: "yes", False: "no", None: "-"}


def read(path: Path) -> dict[str, Any]:
    """Results as they were saved."""
    if not path.is_file():
        raise RequestError(f"no results at {path}: name a file that brojepa bench has written")
    data = read_json(path)
    if not isinstance(data, dict) or not {"machine", "benchmarks"} <= data.keys():
        raise RequestError(f"{path} holds no results of brojepa bench: name a file that it has written")
    try:
        shown = Results(data)
        _ = shown.text(), shown.markdown()  # what can be shown is whole
    except Exception as error:  # a damaged file can raise any exception
        why = " ".join(f"{type(error).__name__} {error}".split())
        raise RequestError(f"{path} is damaged ({why:.100}): measure again with brojepa bench") from None
    return data


class Results(View):
    """Results as tables: the ratios of all benchmarks, then what each measured."""

    def __init__(self, data: Mapping[str, Any]) -> None:
        self.data, self.remarks = data, []

    @property
    def legend(self) -> str:
        data, machine = self.data, self.data["machine"]
        memory = f", {machine['memory'] / 2**30:.0f} GiB" if machine["memory"] else ""
        versions = ", ".join(f"{name} {number}" for name, number in data["versions"].items())
        where = f"{machine['cpu']}, {machine['cores']} cores{memory}, {data['threads']} threads"
        quick = " Quick: tiny sizes, numbers that mean nothing." if data["quick"] else ""
        return f"Measured {data['date'][:10]} on {where}; {versions}.{quick}"

    def grids(self, long_names: bool = False) -> list[Grid]:
        found = self.data["benchmarks"]
        rows: list[list[str] | str] = [
            [name, ratio["name"], cell(ratio["value"]), ratio["goal"] or "-", VERDICT[ratio["met"]]]
            for name, measured in found.items()
            for ratio in measured["ratios"]
        ]
        grids = [Grid("Ratios", ["benchmark", "ratio", "value", "goal", "met"], rows)]
        for name, measured in found.items():
            grids.append(_grid(f"{name}: {BENCHMARKS.get(name, '')}", measured["rows"], measured["notes"]))
            grids += [
                _grid(f"{name}: where the time of {what} goes", profile)
                for what, profile in measured["profiles"].items()
            ]
        return grids

    def text(self) -> str:
        return "\n\n".join([*map(_text, self.grids()), self.legend]) + "\n"


def cell(value: Any) -> str:
    """A value for people: four significant digits."""
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _grid(title: str, rows: list[dict[str, Any]], notes: list[str] | None = None) -> Grid:
    return Grid(title, list(rows[0]), [[cell(value) for value in row.values()] for row in rows], notes or [])


def _text(grid: Grid) -> str:
    """Columns of plain text; numbers are right-aligned."""
    rows = [grid.header, *(row for row in grid.rows if not isinstance(row, str))]
    columns = list(zip(*rows, strict=True))
    right = [all(text[:1].isdigit() or text[:1] == "-" for text in column[1:]) for column in columns]
    widths = [max(map(len, column)) for column in columns]

    def line(row: list[str]) -> str:
        cells = zip(row, widths, right, strict=True)
        return "  ".join(text.rjust(width) if r else text.ljust(width) for text, width, r in cells).rstrip()

    return "\n".join([grid.title, *(f"  {line(row)}" for row in rows), *(f"  {note}" for note in grid.notes)])
