"""Check that images fit into memory before they are read: worlds are kept in memory whole, unless they are `mapped`."""

from __future__ import annotations

import os
from pathlib import Path

from brojepa.errors import RequestError

COPIES = 2  # of the images at once, while they are checked and split


def check(path: Path, size: int) -> None:
    """An error if an array of this many bytes, read from a path, would not fit."""
    free = available()
    if free is not None and not fits(size, free):
        need, have = (f"{number / 1e9:,.1f} GB" for number in (COPIES * size, free))
        raise RequestError(
            f"{path} holds {size / 1e9:,.1f} GB of data and needs {need} of memory to be read, {have} are available: "
            "take fewer or smaller images, or a folder with images.npy and labels.npy (uint8), which are read from disk"
        )


def fits(size: int, free: int | None = None) -> bool:
    """Whether an array of this many bytes would fit, into what is free."""
    free = available() if free is None else free
    return free is None or COPIES * size <= free


def available() -> int | None:
    """Bytes of memory that this process could still have, as the system reports it; None if it does not."""
    known = [_meminfo(), _cgroup()]
    if known[0] is None and hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        known.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    return min((number for number in known if number is not None), default=None)


def _meminfo(file: Path = Path("/proc/meminfo")) -> int | None:
    try:
        lines = dict(line.split(":", 1) for line in file.read_text().splitlines() if ":" in line)
        return int(lines["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError):
        return None


def _cgroup(folder: Path = Path("/sys/fs/cgroup")) -> int | None:
    """Memory left in a container: its limit less what is in use."""
    try:
        limit = int((folder / "memory.max").read_text())
        return max(0, limit - int((folder / "memory.current").read_text()))
    except (OSError, ValueError):  # none, or "max"
        return None
