"""Runs as tables beside the paper's numbers.

    actions.py  actions in words: which are the same, and their order
    records.py  finished runs, read from run directories, files of runs, or a CSV
    names.py    what a changed config is called
    archive.py  many runs kept as a file per experiment
    rows.py     records of one config gathered into a line beside the paper's row, with notes
    views.py    what is shown: lines, single runs, accuracy per action, two lines compared
    render.py   Markdown, LaTeX, CSV, JSON

Each function takes paths: run directories, files of runs, directories of both at any depth, CSV files of runs. All but
`archive` return a view with `markdown()`, `latex()`, `csv()`, `json()`, and `rows()`, the dictionaries of the last two.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from brojepa.errors import RequestError, unknown
from brojepa.report.archive import archive
from brojepa.report.records import METRICS, Found, find
from brojepa.report.render import FORMATS, View
from brojepa.report.rows import TABLES, Line, Section, all_lines, departures, table_lines
from brojepa.report.statistics import paired, summarise
from brojepa.report.views import Comparison, PerAction, Runs, Table
from brojepa.text import listed, plural

__all__ = [
    "FORMATS", "TABLES", "Comparison", "PerAction", "Runs", "Table", "View", "archive", "compare", "departures",
    "per_action", "remarks", "runs", "table",
]  # fmt: skip

Paths = str | Path | Iterable[str | Path]


def table(
    paths: Paths = "runs", table: int | None = None, *, intervals: bool = False, within: int | None = None
) -> Table:
    """One of the paper's two tables with our runs in it, or every config found; `intervals` shows 95 % intervals,
    `within` zero-shot over held-out actions of at most that size."""
    found = _find(paths)
    notes = remarks(found)
    if within is not None:
        if within < 2:
            raise RequestError(f"--within {within}: give the largest held-out action to count, 2 or more")
        known = [record for record in found.records if record.numbered]
        if not known:
            raise RequestError("--within needs accuracies of numbered actions: give run directories of a cycle")
        if len(known) < len(found.records):
            left_out = plural(len(found.records) - len(known), "run")
            notes.append(f"{left_out} without accuracies of numbered actions left out")
        found = found._replace(records=[record.within(within) for record in known])
    return Table(_sections(found, table), intervals, notes, within)


def runs(paths: Paths = "runs", table: int | None = None) -> Runs:
    """Every run by itself."""
    found = _find(paths)
    return Runs(_with_runs(_sections(found, table), f"table {table}"), remarks(found))


def per_action(paths: Paths = "runs", table: int | None = None) -> PerAction:
    """Accuracy of every action, from the run directories among paths."""
    found = _find(paths)
    known = [record for record in found.records if record.per_action]
    if not known:
        raise RequestError("a CSV has no accuracies per action: give run directories, or files of runs")
    notes = remarks(found)
    if len(known) < len(found.records):
        left_out = plural(len(found.records) - len(known), "run")
        notes.append(f"{left_out} from CSV without accuracies per action left out")
    return PerAction(_with_runs(_sections(Found(known, 0), table), f"table {table}"), notes)


def compare(paths: Paths, first: str, second: str) -> Comparison:
    """Two lines, each a preset, a changed config (`mnist/jepa-mlp,lr=2e-4`) or its hash, paired by seed."""
    found = _find(paths)
    lines = [line for section in all_lines(found.records) for line in section.lines]
    a, b = _named(lines, first), _named(lines, second)
    ours, theirs = ({record.seed: record for record in line.records} for line in (a, b))
    seeds = sorted(ours.keys() & theirs.keys())
    if len(seeds) < 2:
        raise RequestError(
            f"{first} has seeds {listed(a.seeds)} and {second} has {listed(b.seeds)}: a comparison needs two in common"
        )
    means, metrics = {}, {}
    for metric in METRICS:
        values = [[getattr(by_seed[seed], metric) for seed in seeds] for by_seed in (ours, theirs)]
        if None not in values[0] + values[1]:
            means[metric] = (summarise(values[0]).mean, summarise(values[1]).mean)
            metrics[metric] = paired(*values)
    return Comparison(first, second, seeds, means, metrics, remarks(found))


def _find(paths: Paths) -> Found:
    return find([paths] if isinstance(paths, (str, Path)) else paths)


def _sections(found: Found, table: int | None) -> list[Section]:
    if table is None:
        return all_lines(found.records)
    if table not in TABLES:
        raise unknown("table", str(table), map(str, TABLES))
    return table_lines(found.records, table)


def _with_runs(sections: list[Section], what: str) -> list[Section]:
    kept = [replace(section, lines=[line for line in section.lines if line.records]) for section in sections]
    if not any(section.lines for section in kept):
        raise RequestError(f"none of these runs is in {what}: leave --table out to see them all")
    return kept


def _named(lines: list[Line], name: str) -> Line:
    """The only line of a preset, of a changed config by its name, or of a config's hash."""
    found = [line for line in lines if name in (line.reference, line.config_hash)]
    if len(found) > 1:
        splits = " and ".join(str(line.split) for line in found)
        raise RequestError(f"{name} has runs on several splits ({splits}): give the paths of one")
    if not found:
        changed = [line.reference for line in lines if line.name == name]
        if changed:
            raise RequestError(f"{name} has only runs with changed values: name one of them, {'; '.join(changed)}")
        raise unknown("row", name, [line.reference for line in lines])
    return found[0]


def remarks(found: Found) -> list[str]:
    """Remarks on runs that were found but are not shown."""
    notes = [f"{plural(found.unfinished, 'run')} not finished, left out"] if found.unfinished else []
    return notes + [f"left out: {why}" for why in found.damaged]
