"""What every result depends on: the machine, the versions, the threads, and when."""

from __future__ import annotations

import os
import platform
from datetime import datetime, timezone
from importlib.metadata import version
from typing import Any

import torch

from brojepa.runs.devices import cpu_name
from brojepa.runs.threads import cores


def header(quick: bool) -> dict[str, Any]:
    """What every result depends on: machine, versions, threads, and when."""
    return {
        "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "quick": quick,
        "machine": {"cpu": cpu_name(), "cores": cores(), "memory": _memory(), "platform": platform.platform()},
        "versions": {
            "brojepa": version("brojepa"),
            "python": platform.python_version(),
            "torch": torch.__version__,
            "numpy": version("numpy"),
        },
        "threads": torch.get_num_threads(),
        "benchmarks": {},
    }


def _memory() -> int | None:
    """Memory of this machine in bytes, if the system reports it."""
    known = hasattr(os, "sysconf") and {"SC_PHYS_PAGES", "SC_PAGE_SIZE"} <= os.sysconf_names.keys()
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") if known else None
