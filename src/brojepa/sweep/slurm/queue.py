"""The state of queued runs: records in `<out>/slurm/` say which task holds which run, squeue gives its state.

`<job name>.json` is a list of tasks, each a list of runs; `<job name>-<task>-failed.json` says which of them failed and
why. Runs are named by their directories below `<out>`.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from brojepa.errors import RequestError, RunError
from brojepa.files import read_json

PREFIX = "brojepa-"
ENDED = {"BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED",
         "REVOKED", "TIMEOUT"}  # fmt: skip


@dataclass(frozen=True)
class Standing:
    """The status of a run on the cluster."""

    state: str  # done, running, queued, failed, or new: in no job yet
    job: str = ""  # Slurm's number of the task that holds it, or held it last
    why: str = ""  # it failed
    held: bool = False  # held by a task that is queued or running


def standings(out: Path, runs: Iterable[str]) -> dict[str, Standing]:
    """The status of unfinished runs, which the caller names; runs in no job are left out."""
    wanted = set(runs)
    records = {name: tasks for name, tasks in _records(out) if any(wanted & set(task) for task in tasks)}
    queue = _queue(records)
    found: dict[str, Standing] = {}
    for name, tasks in records.items():  # the latest last: it is the one that counts
        for index, task in enumerate(tasks):
            file = report(out, name, index)
            failed = read_json(file) if file.is_file() else {}
            found.update(_of_task([run for run in task if run in wanted], failed, *queue.get((name, index), ("", ""))))
    return found


def _of_task(runs: list[str], failed: dict[str, str], job: str, state: str) -> Iterator[tuple[str, Standing]]:
    """The unfinished runs of a task, which trains them in order."""
    held = state not in ENDED and state != ""
    busy = held and state != "PENDING"
    for run in runs:
        if run in failed:
            yield run, Standing("failed", job, failed[run], held)
        elif not held:
            why = f"its job ended without a result ({state.lower() or 'no longer known to squeue'})"
            yield run, Standing("failed", job, why)
        else:
            yield run, Standing("running" if busy else "queued", job, held=True)
            busy = False


def record(out: Path, name: str) -> Path:
    return out / "slurm" / f"{name}.json"


def report(out: Path, name: str, index: int) -> Path:
    return out / "slurm" / f"{name}-{index}-failed.json"


def _records(out: Path) -> Iterator[tuple[str, list[list[str]]]]:
    for file in sorted((out / "slurm").glob(f"{PREFIX}*.json")):
        if not file.stem.endswith("-failed"):
            yield file.stem, read_json(file)


def _queue(names: Iterable[str]) -> dict[tuple[str, int], tuple[str, str]]:
    """What Slurm reports about jobs: (name, index in the array) -> (number, state)."""
    listed = ",".join(names)
    if not listed:
        return {}
    lines = ask("squeue", "--noheader", "--array", "--states=all", f"--name={listed}", "--format=%j|%K|%i|%T")
    rows = [line.split("|") for line in lines.splitlines()]
    return {(name, int(index) if index.isdigit() else 0): (number, state) for name, index, number, state in rows}


def ask(*command: str) -> str:
    """The output of a Slurm command."""
    try:
        done = subprocess.run(command, capture_output=True, text=True)
    except FileNotFoundError:
        raise RequestError(f"no Slurm here ({command[0]} not found): use a login node or leave out --slurm") from None
    if done.returncode:
        answer = " ".join(done.stderr.split())
        raise RunError(f"{answer}; what is queued is not affected, repeat the command when Slurm answers")
    return done.stdout.strip()
