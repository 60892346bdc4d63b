"""Archives of runs: one file per experiment, named in words, with one line per run, and a README that lists them.

DIR/<world>/<preset>.jsonl                  a preset as it is
DIR/<world>/<preset>,lr=2e-4.jsonl          what was changed, up to three flags
DIR/<world>/<name or hash>.jsonl            more: the name that DIR/names.csv gives the config's hash
DIR/names.csv                               hash,name,question: written by people; name and question may be empty
DIR/README.md                               made from the rest
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from brojepa.config import Config, world_folder
from brojepa.errors import RequestError, RunError
from brojepa.files import place, remove_leftovers, write_atomically
from brojepa.presets import AUTO
from brojepa.report.names import FLAGS, base_name, changes, flags
from brojepa.report.records import Found, Record, describe_changes, find
from brojepa.report.render import plus_minus
from brojepa.report.rows import TABLES, paper_rows
from brojepa.report.statistics import summarise
from brojepa.runs.stored import SUFFIX, pack, stored_runs, write_lines
from brojepa.text import plural

NAMES, README = "names.csv", "README.md"


class Named(NamedTuple):
    """A row of names.csv: the name of a config's file, and the question that its runs answer; either may be empty."""

    name: str = ""
    question: str = ""


@dataclass(frozen=True)
class FileOfRuns:
    """What happened to one file: how many runs were added, and how many it has now."""

    file: Path
    new: int
    all: int

    def __str__(self) -> str:
        return f"{self.file}: {plural(self.new, 'run')} added, {self.all} in all"


class Archived(NamedTuple):
    """The files that were written, and what was found but not archived."""

    files: list[FileOfRuns]
    found: Found


def archive(paths: str | Path | Iterable[str | Path], directory: str | Path) -> Archived:
    """Add the finished runs under the paths to the archive at a directory, and write its README.

    Nothing is lost: an archived run stays as it is, and a run that disagrees with it is an error. All runs are read
    before the first file is written, and each file is replaced atomically.
    """
    top = place(directory)
    found = find([paths] if isinstance(paths, (str, Path)) else paths, repeated=True)
    records = [record for record in found.records if record.run]
    if not records:
        raise RequestError("a CSV has no whole runs: give run directories, or files that --archive wrote")
    names = read_names(top)
    files = _assign(records, top, names)
    added = []
    for file, new in files.items():
        kept = {_key(line): line for line in _lines(file)}
        before = dict(kept)
        for record in new:
            line = pack(record.run)  # pyright: ignore[reportArgumentType]
            kept[_key(line)] = _merged(kept.get(_key(line), {}), line, record, file)
        if kept != before:
            added.append((file, kept, len(kept) - len(before)))
    for file, kept, _ in added:
        _write(file, write_lines(sorted(kept.values(), key=_order)))
    _write(top / README, overview(top).encode())
    return Archived([FileOfRuns(file, new, len(kept)) for file, kept, new in added], found)


def read_names(top: Path) -> dict[str, Named]:
    """What DIR/names.csv says, by hash."""
    file = top / NAMES
    if not file.is_file():
        return {}
    try:
        with file.open(newline="", encoding="utf-8") as stream:
            rows = list(csv.DictReader(stream, strict=True))
        names = {row["hash"]: Named(row["name"] or "", row["question"] or "") for row in rows}
    except (OSError, UnicodeDecodeError, csv.Error, KeyError) as error:
        raise RequestError(f"{file} is not a table with columns hash,name,question ({error})") from None
    for name, _ in names.values():
        if any(part != _safe(part) or not part.strip(".") for part in name.split("/") if name):
            raise RequestError(f"{file}: {name!r} cannot name a file: use letters, digits and _.,=+@-")
    return names


def experiment(record: Record, names: dict[str, Named]) -> str:
    """The file of a run's config in the archive, without suffix: mnist/jepa-mlp,lr=2e-4."""
    if record.preset:
        return record.preset
    name = names.get(record.config_hash, Named()).name
    if not name and record.base == AUTO:
        return AUTO
    if not name and len(flags(record)) <= FLAGS:
        name = ",".join([base_name(record), *flags(record)])
    return name if "/" in name else f"{world_folder(record.config.world)}/{_safe(name or record.config_hash)}"


def _safe(name: str) -> str:
    return re.sub(r"[^\w.,=+@-]", "-", name)


def _assign(records: list[Record], top: Path, names: dict[str, Named]) -> dict[Path, list[Record]]:
    """The runs of each file. A file named by flags holds one config; a second one gets its hash added."""
    taken: dict[Path, str] = {}
    files: dict[Path, list[Record]] = {}
    for record in records:
        name = experiment(record, names)
        file = top / f"{name}{SUFFIX}"
        if file not in taken:
            taken[file] = next((_key(line)[1] for line in _lines(file)), record.config_hash)
        shared = record.base == AUTO or names.get(record.config_hash, Named()).name
        if taken[file] != record.config_hash and not shared:
            file = top / f"{name},{record.config_hash}{SUFFIX}"
        files.setdefault(file, []).append(record)
    return files


def _lines(file: Path) -> list[dict[str, Any]]:
    damaged: list[str] = []
    runs = stored_runs(file, damaged) if file.exists() else []
    if damaged:
        raise RunError(damaged[0])
    return [pack(run) for run in runs]


def _key(line: dict[str, Any]) -> tuple[Any, ...]:
    """Identifies a run, as `Record.key` does."""
    config = Config.from_dict(line["config"])
    return line.get("base") or line.get("preset"), config.hash, line["result"].get("split"), line["seed"]


def _order(line: dict[str, Any]) -> tuple[Any, ...]:
    base, config, split, seed = _key(line)
    return str(line["world"].get("name")), config, str(split), str(base), seed


def _merged(old: dict[str, Any], new: dict[str, Any], record: Record, file: Path) -> dict[str, Any]:
    """The union of both, if they agree where they overlap."""
    for part in old.keys() & new.keys():
        if old[part] != new[part]:
            raise RunError(
                f"{record.source} and seed {record.seed} in {file} are the same run and disagree in {part}: "
                "remove one of them, or archive to another directory"
            )
    return {**old, **new}


def _write(file: Path, content: bytes) -> None:
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RunError(f"cannot write to {file.parent}: {error.strerror}; name another directory") from None
    remove_leftovers(file.parent)
    write_atomically(file, content)


INTRODUCTION = """\
# Results

Every file is one experiment, every line of it one run: `seed`, `preset`, `base`, `config`, `world`, `environment`,
`epochs`, `result`, and `inspect` if the algebra was measured. Weights are not kept. `brojepa report {here}` shows
the runs as tables, `brojepa report RUNS --archive {here}` adds to them, and `grep HASH` finds a config by its hash.
This page is made by that command, from the runs and the questions in [names.csv](names.csv). Accuracies are means over
seeds ± standard deviation, on test images; zero-shot is strict unless marked weak.
"""


def overview(top: Path) -> str:
    """The README: each file, the question it answers, its seeds, and what they reached."""
    names = read_names(top)
    tables: dict[str, dict[tuple[Path, str, str], list[Record]]] = {}
    for record in find([top]).records:
        if record.run and record.run.path.parent.suffix == SUFFIX:
            file = record.run.path.parent.relative_to(top)
            key = (file, record.world, record.config_hash)
            tables.setdefault(file.parts[0], {}).setdefault(key, []).append(record)
    text = [INTRODUCTION.format(here=top.name or "DIR")]
    for world, files in tables.items():
        text += [f"\n## {world}\n\n| runs | question | seeds | seen | zero-shot |\n|---|---|---|---|---|\n"]
        for (file, _, _), records in sorted(files.items()):
            first, label = records[0], Path(*file.parts[1:]).as_posix().removesuffix(SUFFIX)
            seen, zero_shot = (_mean(records, metric) for metric in ("seen", "zero_shot"))
            weak = " (weak)" if first.zero_shot_kind == "weak" else ""
            question = names.get(first.config_hash, Named()).question or _question(first)
            seeds = _span(sorted(record.seed for record in records))
            text += [f"| [{label}]({file.as_posix()}) | {question} | {seeds} | {seen} | {zero_shot}{weak} |\n"]
    return "".join(text)


def _span(seeds: list[int]) -> str:
    whole = len(seeds) > 2 and seeds == [*range(seeds[0], seeds[-1] + 1)]
    return f"{seeds[0]}-{seeds[-1]}" if whole else ", ".join(map(str, seeds))


def _mean(records: list[Record], metric: str) -> str:
    values = [value for record in records if (value := getattr(record, metric)) is not None]
    summary = summarise(values) if values else None
    return plus_minus(summary.mean, summary.std) if summary else "-"


def _question(record: Record) -> str:
    """The question that a config answers, if names.csv has none."""
    if record.base == AUTO:
        return f"What does the recipe for own images reach on {record.world}?"
    paper = paper_rows().get(record.base or "")
    table = next((n for n, world in TABLES.items() if paper and paper.world == world), None)
    what = f"Table {table}: {paper.family}, {paper.method}" if paper else record.base or "the defaults"
    changed = changes(record)
    return f"{what}; what changes with {describe_changes(changed)}?" if changed else what
