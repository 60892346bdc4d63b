"""Groups records into the lines of a table, each beside the paper's row and with notes on how the two differ."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from brojepa.config import Config
from brojepa.presets import AUTO, PRESETS, paper_row
from brojepa.report.names import base_name, changed
from brojepa.report.records import METRICS, Record, describe_changes, difference
from brojepa.report.statistics import Summary, summarise

PAPER = Path(__file__).parent / "paper.csv"
TABLES = {1: "mnist", 2: "emnist"}
CHANCE = {"mnist": 1 / 10, "emnist": 1 / 26}
SEEDS = 6  # of every number in the paper
ELSEWHERE = "Not in the paper"


@dataclass(frozen=True)
class PaperRow:
    """A row of the paper's tables: its name, and mean and standard deviation of each metric it reports."""

    preset: str
    world: str
    family: str
    method: str
    metrics: dict[str, tuple[float, float]]

    @property
    def epochs(self) -> int:
        return paper_row(*self.preset.split("/")).epochs


@cache
def paper_rows() -> dict[str, PaperRow]:
    """The 38 rows of the paper, in its order, by preset."""
    rows = {}
    with PAPER.open(newline="") as file:
        for line in csv.DictReader(file):
            metrics = {name: (float(line[name]), float(line[f"{name}_std"])) for name in METRICS if line[name]}
            rows[line["preset"]] = PaperRow(line["preset"], line["world"], line["family"], line["method"], metrics)
    return rows


def departures(name: str) -> dict[str, Any]:
    """The values in which a preset departs from the paper's plain protocol; none for a preset of our own."""
    return difference(PRESETS[name], paper_row(*name.split("/"))) if name in paper_rows() else {}


@dataclass(frozen=True)
class AgainstPaper:
    """One metric of a line: ours over the seeds, and the paper's mean and standard deviation; either may be missing."""

    ours: Summary | None
    paper: tuple[float, float] | None

    @property
    def difference(self) -> float | None:
        return self.ours.mean - self.paper[0] if self.ours and self.paper else None

    @property
    def verdict(self) -> str | None:
        """Whether our mean is within the paper's standard deviation of its mean, to the paper's four decimals."""
        if self.difference is None or self.paper is None:
            return None
        rounded = round(self.difference, 4)
        if abs(rounded) <= self.paper[1]:
            return "within"
        return "above" if rounded > 0 else "below"


@dataclass(frozen=True)
class Line:
    """The runs of one config on one split, over seeds; no runs if a row of the paper has none."""

    name: str
    world: str
    records: tuple[Record, ...]
    paper: PaperRow | None
    first: Record | None = None

    @property
    def leads(self) -> bool:
        """Whether it is the first line of its row: the preset itself, or the config that takes its place."""
        return not self.records or self.first is self.records[0]

    @property
    def label(self) -> str:
        """The preset's name and, if a changed config takes its place, the changes; below it only the changes."""
        name = self.name.removeprefix(f"{self.world}/")
        if not self.records:
            return name
        first = self.records[0]
        what = changed(first, self.first or first)
        if not what:
            return name if self.leads else f"↳ {self.split or Path(first.config.world).name}"
        return f"{name if first.base else base_name(first)}, {what}" if self.leads else f"↳ {what}"

    @property
    def method(self) -> str:
        """The paper's name for the row."""
        return self.paper.method if self.paper and self.leads else self.label

    @property
    def family(self) -> str:
        return self.paper.family if self.paper else ELSEWHERE

    @property
    def seeds(self) -> list[int]:
        return [record.seed for record in self.records]

    @property
    def config_hash(self) -> str | None:
        return self.records[0].config_hash if self.records else None

    @property
    def split(self) -> str | None:
        return self.records[0].split if self.records else None

    @property
    def changes(self) -> dict[str, Any]:
        return self.records[0].changes if self.records else {}

    @property
    def reference(self) -> str:
        """The name of the line for `--compare`, besides its hash: the preset and the changes."""
        first = self.records[0]
        if first.preset or first.base == AUTO or "world" in first.changes:
            return first.preset or first.config_hash
        return ",".join([first.base or base_name(first), *changed(first, first).split(", ")])

    def distinct(self, name: str) -> str:
        """A field of the records, in one word where they agree."""
        return "/".join(sorted({str(getattr(record, name)) for record in self.records}))

    def against_paper(self, metric: str) -> AgainstPaper:
        values = [value for record in self.records if (value := getattr(record, metric)) is not None]
        paper = self.paper.metrics.get(metric) if self.paper else None
        return AgainstPaper(summarise(values) if values else None, paper)

    def notes(self) -> list[str]:
        """How the runs differ from what the paper did, one sentence per kind of difference."""
        if not self.records:
            return []
        first, notes = self.records[0], []
        if self.paper and len(self.records) < SEEDS:
            notes.append("fewer seeds than the paper's six")
        if self.paper and first.epochs != self.paper.epochs:
            notes.append(f"{first.epochs} epochs, {self.paper.epochs} in the paper")
        if self.split not in (None, "official"):
            notes.append(f"{self.split} EMNIST split, the official one in the paper")
        if self.departs:
            notes.append(f"preset departs from the paper's plain protocol: {describe_changes(self.departs)}")
        altered = {name: value for name, value in self.changes.items() if not (self.paper and name == "epochs")}
        if altered:
            base = first.base or "the defaults"
            if self.paper and first.config == paper_row(*self.name.split("/")):
                base += " to the paper's plain protocol"
            notes.append(f"config {self.config_hash}, changed from {base}: {describe_changes(altered)}")
        if first.config.target == "relaxed" and "target" not in {**self.departs, **altered}:
            notes.append("relaxed targets")
        return notes

    @property
    def departs(self) -> dict[str, Any]:
        """How the preset departs from the paper's plain protocol, as far as these runs do too; without epochs, which
        every table shows."""
        if not self.paper or not self.records:
            return {}
        values = self.records[0].config.to_dict()
        return {k: v for k, v in departures(self.name).items() if values[k] == v and k != "epochs"}


@dataclass(frozen=True)
class Section:
    """The lines of one world; an own kind of world may not say what chance is."""

    title: str
    chance: float | None
    lines: list[Line]

    @property
    def heading(self) -> str:
        return self.title if self.chance is None else f"{self.title}, chance {self.chance:.4f}"


def table_lines(records: Iterable[Record], table: int) -> list[Section]:
    """One of the paper's tables: all its rows in its order, those without runs too."""
    world = TABLES[table]
    rows = [row for row in paper_rows().values() if row.world == world]
    records = [record for record in records if record.config.world == world]
    lines = [
        line
        for row in rows
        for line in _lines(row.preset, world, [r for r in records if r.base == row.preset])
        or [Line(row.preset, world, (), row)]
    ]
    return [Section(f"Table {table}: {world}", CHANCE[world], lines)]


def all_lines(records: Iterable[Record]) -> list[Section]:
    """Every config that has runs, by world: the paper's rows in its order, our presets, the rest."""
    order = list(dict.fromkeys([*paper_rows(), *PRESETS]))
    worlds = list(TABLES.values())
    grouped: dict[tuple[str, float | None], dict[str, list[Record]]] = {}
    for record in records:
        names = grouped.setdefault((record.world, record.chance), {})
        names.setdefault(record.base or record.config_hash, []).append(record)
    return [
        Section(
            world,
            chance,
            [line for name in sorted(names, key=_place(order)) for line in _lines(name, world, names[name])],
        )
        for (world, chance), names in sorted(grouped.items(), key=lambda item: _place(worlds)(item[0][0]))
    ]


def _place(order: list[str]) -> Any:
    """Sort by the position in a list; names that are not in it come last, alphabetically."""
    return lambda name: (order.index(name) if name in order else len(order), name)


def _lines(name: str, world: str, records: list[Record]) -> list[Line]:
    """The lines of one row: the preset itself first; if it has no runs, the changed config with most seeds, and of
    those the one with fewest changes."""
    groups: dict[tuple[Config, str | None], list[Record]] = {}
    for record in records:
        groups.setdefault((record.config, record.split), []).append(record)

    def rank(group: list[Record]) -> tuple[Any, ...]:
        first = group[0]
        rebuilt = first.split not in (None, "official")
        return bool(first.changes), rebuilt, -len(group), len(first.changes), first.config_hash

    lines: list[Line] = []
    for group in sorted(groups.values(), key=rank):
        row = paper_rows().get(name)
        paper = row if row and group[0].config.world == row.world else None
        ordered = tuple(sorted(group, key=lambda record: record.seed))
        lines.append(Line(name, world, ordered, paper, lines[0].first if lines else ordered[0]))
    return lines
