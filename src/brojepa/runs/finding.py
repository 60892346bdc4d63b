"""Finds directories and runs below a directory."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from brojepa.errors import RunError
from brojepa.runs.run import Run
from brojepa.runs.stored import is_stored, stored_runs


def walk(top: Path, damaged: list[str]) -> Iterator[tuple[Path, list[str], list[str]]]:
    """A directory and everything below it, in order, with the names of sub-directories and files. Clear the list of
    sub-directories to skip them.

    Links are followed, each directory once, so circular links are safe. Directories that cannot be read are added to
    `damaged` with the reason."""
    seen: set[str] = set()

    def unreadable(error: OSError) -> None:
        damaged.append(f"cannot read {error.filename}: {error.strerror}")

    for directory, below, files in os.walk(top, onerror=unreadable, followlinks=True):
        place = os.path.realpath(directory)
        if place in seen:
            below.clear()
            continue
        seen.add(place)
        below.sort()
        yield Path(directory), below, sorted(files)


def runs_in(directory: Path, names: list[str], damaged: list[str]) -> list[Run]:
    """The runs of a directory: itself if it is one, and those in its files, finished or not."""
    if {"result.json", "config.json"} & {*names}:
        return [Run(directory)]
    found: list[Run] = []
    for file in (directory / name for name in names):
        try:
            found += stored_runs(file, damaged) if is_stored(file) else []
        except RunError as error:
            damaged.append(str(error))
    return found


def runs_under(top: Path, damaged: list[str]) -> Iterator[Run]:
    """The runs below a directory, in either form; a run directory is not searched for more."""
    for directory, below, names in walk(top, damaged):
        runs = runs_in(directory, names, damaged)
        if runs and runs[0].path == directory:
            below.clear()
        yield from runs
