"""Which directories lie below a place, for those who look for runs there."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path


def walk(top: Path, damaged: list[str]) -> Iterator[tuple[Path, list[str], list[str]]]:
    """A directory and all below it, with the names of their sub-directories and files, in order; whoever empties the
    list of sub-directories is not led into them.

    Links are followed, to each directory once: links may lead in a circle. Why a directory cannot be read is added to
    `damaged`."""
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
