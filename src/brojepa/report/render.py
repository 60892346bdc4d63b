"""Tables as text: Markdown with aligned pipes, LaTeX with booktabs, CSV and JSON.

Markdown and LaTeX are for people, from grids of text; CSV and JSON are for programs, from dictionaries with every
digit.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

NOTHING = "-"


@dataclass(frozen=True)
class Grid:
    """A header and rows of cells; a row that is a string is a heading over the whole width. Notes are below."""

    title: str
    header: list[str]
    rows: list[list[str] | str]
    notes: list[str] = field(default_factory=list)


class View:
    """A report that can be written in every format. `remarks` say what was left out."""

    remarks: list[str]

    @property
    def legend(self) -> str:
        return ""

    def grids(self, long_names: bool = False) -> list[Grid]:
        raise NotImplementedError

    def rows(self) -> list[dict[str, Any]]:
        raise NotImplementedError

    def markdown(self) -> str:
        parts = [_markdown(grid) for grid in self.grids()]
        return "\n\n".join([*parts, self.legend] if self.legend else parts) + "\n"

    def latex(self) -> str:
        """One tabular per grid, for a document that uses booktabs."""
        parts = [_latex(grid) for grid in self.grids(long_names=True)]
        return "\n\n".join([*parts, _escaped(self.legend)] if self.legend else parts) + "\n"

    def csv(self) -> str:
        text = io.StringIO()
        rows = self.rows()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerows([rows[0], *([_cell(value) for value in row.values()] for row in rows)])
        return text.getvalue()

    def json(self) -> str:
        return json.dumps(self.rows(), indent=1, allow_nan=False, ensure_ascii=False) + "\n"


FORMATS: dict[str, Callable[[View], str]] = {
    "md": View.markdown, "csv": View.csv, "latex": View.latex, "json": View.json,
}  # fmt: skip


def number(value: float | None, places: int = 4) -> str:
    return NOTHING if value is None else f"{value:.{places}f}"


def signed(value: float | None) -> str:
    """A number with its sign; if it rounds to 0, a plus."""
    return NOTHING if value is None else f"{round(value, 4) + 0.0:+.4f}"


def plus_minus(mean: float | None, std: float | None) -> str:
    """`0.9724 ± 0.0009`, as in the paper."""
    return number(mean) if std is None else f"{number(mean)} ± {number(std)}"


def _cell(value: Any) -> str:
    """A value as CSV has it: floats to their last digit, nothing for None."""
    if value is None:
        return ""
    if isinstance(value, list):
        return "; ".join(map(str, value))
    if isinstance(value, dict):
        return json.dumps(value, separators=(",", ":"))
    return repr(value) if isinstance(value, float) else str(value)


def _markdown(grid: Grid) -> str:
    rows = [row if isinstance(row, str) else [text.replace("|", r"\|") for text in row] for row in grid.rows]
    plain = [grid.header, *(row for row in rows if not isinstance(row, str))]
    widths = [max(3, *(len(row[i]) for row in plain)) for i in range(len(grid.header))]

    def line(cells: list[str]) -> str:
        return "| " + " | ".join(text.ljust(width) for text, width in zip(cells, widths, strict=True)) + " |"

    def heading(text: str) -> str:
        """Over the empty cells to its right, so that a long one does not widen the first column."""
        begun, others = f"| **{text}** |", len(widths) - 1
        return begun + " |" * (others - 1) + " " * (len(line(grid.header)) - len(begun) - 2 * others + 1) + "|"

    body = [heading(row) if isinstance(row, str) else line(row) for row in rows]
    rule = "|" + "|".join("-" * (width + 2) for width in widths) + "|"
    notes = [f"- {note}" for note in grid.notes]
    return "\n".join([f"**{grid.title}**", "", line(grid.header), rule, *body, *([""] if notes else []), *notes])


_LATEX = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "±": r"$\pm$", "↑": r"$\uparrow$", "↓": r"$\downarrow$",
    "↳": r"$\hookrightarrow$", "<": "$<$", ">": "$>$", "|": "$|$",
}  # fmt: skip


def _escaped(text: str) -> str:
    if text == NOTHING:
        return "--"
    escaped = "".join(_LATEX.get(letter, letter) for letter in text)
    return re.sub(r"(?<![\w.])-(?=\d)", "$-$", escaped)  # in text a minus would come out as a hyphen


def _latex(grid: Grid) -> str:
    count = len(grid.header)

    def wide(text: str, how: str = "l") -> str:
        return rf"\multicolumn{{{count}}}{{{how}}}{{{text}}} \\"

    lines = [rf"% {_escaped(grid.title)}", rf"\begin{{tabular}}{{{'l' * count}}}", r"\toprule"]
    lines += [" & ".join(map(_escaped, grid.header)) + r" \\", r"\midrule"]
    for i, row in enumerate(grid.rows):
        if isinstance(row, str):
            lines += [r"\midrule"] * (i > 0) + [wide(rf"\textit{{{_escaped(row)}}}")]
        else:
            lines.append(" & ".join(map(_escaped, row)) + r" \\")
    lines.append(r"\bottomrule")
    notes = [wide(rf"\footnotesize {_escaped(note)}", "p{\\linewidth}") for note in grid.notes]
    return "\n".join([*lines, *notes, r"\end{tabular}"])
