"""The progress of a sweep: on a terminal a block that is rewritten in place, elsewhere one line per event."""

from __future__ import annotations

import math
import shutil
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TextIO

from brojepa.errors import RunError
from brojepa.sweep.jobs import LOG, Job, Status, seconds_left, tail
from brojepa.text import duration, fraction, plural

STATES = ("done", "running", "elsewhere", "waiting", "failed")
EVERY = 1.0  # seconds between two updates of the block


class Overview:
    """Called repeatedly with the status of all jobs; shows what has changed. Without a number of workers, as on a
    cluster, it does not estimate the time left."""

    def __init__(self, jobs: Sequence[Job], workers: int | None, stream: TextIO | None = None) -> None:
        self.jobs, self.workers, self.stream = jobs, workers, stream or sys.stdout
        self.live = self.stream.isatty()
        self.before: dict[Path, str] = {}
        self.tries: dict[Path, int] = {}
        self.height, self.shown = 0, 0.0

    def show(self, status: Mapping[Path, Status], last: bool = False) -> None:
        events = self._events(status)
        if self.live and (events or last or time.monotonic() - self.shown > EVERY):
            self.shown = time.monotonic()
            self._clear()
            for line in events:
                print(line, file=self.stream)
            width = shutil.get_terminal_size().columns - 1  # a line that wraps would be two to clear
            block = [] if last else [line[:width] for line in (self._totals(status), *self._running(status))]
            print("".join(f"{line}\n" for line in block), end="", file=self.stream, flush=True)
            self.height = len(block)
        elif not self.live:
            for line in events:
                print(f"{line}  ({self._totals(status)})", file=self.stream, flush=True)

    def _clear(self) -> None:
        if self.height:
            print(f"\x1b[{self.height}F\x1b[J", end="", file=self.stream)

    def _events(self, status: Mapping[Path, Status]) -> list[str]:
        lines = []
        for job in self.jobs:
            now = status[job.run.path]
            was, self.before[job.run.path] = self.before.get(job.run.path), now.state
            tries, self.tries[job.run.path] = self.tries.get(job.run.path, 0), now.tries
            if now.state == "running" and now.tries == 1 and was != "running" and not self.live:
                lines.append(f"started   {job.title}")
            if was is None or (was == now.state and tries == now.tries):
                continue
            if now.state == "done":
                lines.append(f"done      {job.title}  {_outcome(job)}")
            elif now.state == "running" and now.tries > 1:
                lines.append(f"again     {job.title}  ({now.why})")
            elif now.state == "elsewhere":
                lines.append(f"elsewhere {job.title}  another process has it")
            elif now.state == "failed":
                lines.append(f"failed    {job.title}  {now.why}")
        return lines

    def _totals(self, status: Mapping[Path, Status]) -> str:
        count = Counter(s.state for s in status.values())
        parts = [f"{count[state]} {state}" for state in STATES if count[state]]
        left = seconds_left(self.jobs, status, self.workers) if self.workers else None
        known = f"; about {duration(left)} left" if left else ""
        return f"{plural(len(self.jobs), 'run')}: {', '.join(parts)}{known}"

    def _running(self, status: Mapping[Path, Status]) -> list[str]:
        lines = []
        for job in self.jobs:
            now = status[job.run.path]
            if now.state == "running":
                at = "evaluating" if job.epoch >= job.config.epochs else f"epoch {job.epoch + 1}/{job.config.epochs}"
                took = f"  {duration(time.monotonic() - now.since)}" if now.since else ""
                lines.append(f"  {job.title}  {at}{took}")
        return lines


def _outcome(job: Job) -> str:
    """The result and the time of a finished run."""
    try:
        result = job.run.result
    except RunError as error:
        return str(error)
    accuracy = f"zero-shot {fraction(result['metrics'].get('zero_shot'))}"
    return f"{accuracy}  {duration(result.get('seconds', math.nan))}"


def failures(jobs: Sequence[Job], status: Mapping[Path, Status]) -> list[str]:
    """The failed runs, why they failed, and the last lines of each log."""
    lines = []
    for job in jobs:
        now = status[job.run.path]
        if now.state == "failed":
            lines += [f"failed: {job.title} ({now.why})", f"  {job.run.path / LOG}"]
            lines += [f"  | {line}" for line in tail(job)]
    return lines
