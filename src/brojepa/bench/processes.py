"""Measurements that need a process of their own: a fresh memory, a clock that sees the start."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from brojepa.errors import RunError

CALL = """
import json, sys
from importlib import import_module
call = getattr(import_module(sys.argv[1]), sys.argv[2])
print(json.dumps(call(**json.loads(sys.argv[3]))))
"""


def fresh(module: str, function: str, **arguments: Any) -> tuple[Any, float]:
    """What a function returns when called in a new process, and the seconds of that process's life.

    Arguments and result pass as JSON.
    """
    words = ["-c", CALL, module, function, json.dumps(arguments)]
    out, taken = run(words)
    return json.loads(out.splitlines()[-1]), taken


def run(words: list[str]) -> tuple[str, float]:
    """What Python prints when started with these words, and how long it took."""
    begun = time.perf_counter()
    done = subprocess.run([sys.executable, *words], capture_output=True, text=True)
    taken = time.perf_counter() - begun
    if done.returncode:
        lines = [line.strip() for line in done.stderr.splitlines() if any(map(str.isalnum, line))]
        lines = lines or [f"exit code {done.returncode}"]
        why = next((line for line in reversed(lines) if "Error" in line), lines[-1])
        raise RunError(f"a process of the benchmark failed: {why:.200}; repeat with fewer benchmarks or --quick")
    return done.stdout, taken


STATUS = Path("/proc/self/status")


def mapped_memory() -> int:
    """Bytes of files that are in this process's memory and can be dropped from it at any time; 0 where the system does
    not say."""
    return _status("RssFile") if STATUS.is_file() else 0


def _status(name: str) -> int:
    line = next(line for line in STATUS.read_text().splitlines() if line.startswith(name))
    return 1024 * int(line.split()[1])


def peak_memory() -> int:
    """The most memory that this process has held so far, in bytes."""
    if STATUS.is_file():  # ru_maxrss on Linux starts at what the parent held when it started us
        return _status("VmHWM")
    import resource  # here, because Windows lacks it

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
