"""Runs in one file: one line of JSON per run, with the content of its directory except weights."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from brojepa.errors import RunError
from brojepa.runs.run import Run

SUFFIX = ".jsonl"
FIRST = b'{"seed": '
"""How the lines begin: other files of this suffix are not taken for runs."""
PARTS = {"environment": "env.json", "epochs": "metrics.jsonl", "result": "result.json", "inspect": "inspect.json"}
"""Keys of a line and the files they hold; the other keys are those of config.json."""


@dataclass(frozen=True, repr=False)
class StoredRun(Run):
    """A run stored as a line of a file. Its path, FILE/seed-N, does not exist on disk; `contents` is by the file names
    of a run directory."""

    contents: dict[str, Any] = field(compare=False)

    def has(self, file: Path) -> bool:
        return file.name in self.contents

    def read(self, file: Path) -> Any:
        return self.contents[file.name]

    def _rows(self) -> Iterator[dict[str, Any]]:
        rows = self.contents[self.metrics_file.name]
        if not isinstance(rows, list):
            raise ValueError(f"epochs is {rows!r:.60}")
        yield from rows


def pack(run: Run) -> dict[str, Any]:
    """A run, in either form, as the content of its line, all of it checked."""
    there = {key: file for key, name in PARTS.items() if run.has(file := run.path / name)}
    checked: dict[str, Any] = {"environment": run.environment, "epochs": run.metrics}
    if "result" in there:
        checked["result"] = {**run.result}
    parts = {key: checked[key] if key in checked else run.read(file) for key, file in there.items()}
    run.config.to_dict()  # raises an error of one line if it is invalid
    header = run.header
    return {"seed": header["seed"], **header, **parts}


def unpack(line: dict[str, Any]) -> dict[str, Any]:
    """The content of a line, by the file names of a run directory."""
    header = {key: value for key, value in line.items() if key not in PARTS}
    return {"config.json": header, **{name: line[key] for key, name in PARTS.items() if key in line}}


def write_lines(runs: list[dict[str, Any]]) -> bytes:
    return "".join(json.dumps(run) + "\n" for run in runs).encode()


def is_stored(file: Path) -> bool:
    """Whether a file looks like one of runs."""
    if file.suffix != SUFFIX or not file.is_file():
        return False
    try:
        with file.open("rb") as stream:
            return stream.read(len(FIRST)) == FIRST
    except OSError as error:
        raise RunError(f"cannot read {file}: {error.strerror}") from None


def stored_runs(file: Path, damaged: list[str]) -> list[StoredRun]:
    """The runs of a file; why a line cannot be read is added to `damaged`."""
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise RunError(f"cannot read {file}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise RunError(f"{file} is damaged ({error}): take it from where it was archived again") from None
    runs: dict[Path, StoredRun] = {}
    for number, text in enumerate(lines, 1):
        try:
            line = json.loads(text)
            if not isinstance(line, dict) or "seed" not in line:
                raise ValueError("no table with a seed")
            path = file / f"seed-{line['seed']}"
            path = path.with_name(f"{path.name}-line-{number}") if path in runs else path
            runs[path] = StoredRun(path, unpack(line))
        except (ValueError, RecursionError) as error:
            damaged.append(f"{file} line {number} is damaged ({error}): archive the run again")
    return [*runs.values()]
