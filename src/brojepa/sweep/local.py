"""Runs jobs on this machine, each in its own process that starts warm.

Importing torch takes longer than the first epochs of a small run. On Linux a server process imports once and forks a
worker for every run; it trains nothing itself, so there are no threads and no GPU state that a fork could break.
Elsewhere a worker is a fresh Python process.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from multiprocessing import forkserver
from multiprocessing.process import BaseProcess
from pathlib import Path

import torch

from brojepa import parts
from brojepa.errors import BrojepaError
from brojepa.runs import threads
from brojepa.sweep.jobs import LOG, TRIES, Job, Status, describe
from brojepa.text import open_streams
from brojepa.training import train
from brojepa.training.display import LiveTable
from brojepa.training.tracking import Pictures, trackers
from brojepa.worlds import open_world

METHOD = "forkserver" if sys.platform == "linux" else "spawn"
PATIENCE = 60.0  # seconds that a stopped process has to save


def check_worlds(jobs: Iterable[Job]) -> None:
    """Read every world once and import every own part, so that a missing or damaged one is an error before
    anything starts."""
    jobs = [job for job in jobs if not job.run.done]
    for kind, path in sorted({part for job in jobs for part in job.config.own_parts.items()}):
        parts.resolve(kind, path)
    worlds = {(job.trained.world, job.data_dir or "", str(job.config.reading)): job.config.reading for job in jobs}
    for (world, data_dir, _), reading in sorted(worlds.items(), key=lambda one: one[0]):
        open_world(world, data_dir or None, **reading)


@dataclass
class Local:
    """Runs jobs in up to `at_once` processes, dividing the cores between them unless OMP_NUM_THREADS says how many
    threads each has.

    `step` starts and collects processes and returns at once; `stop` makes every process save and end.
    """

    jobs: Sequence[Job]
    at_once: int
    gpus: Sequence[int] = ()  # divided between the processes, one each; none: as the machine has them
    status: dict[Path, Status] = field(default_factory=dict)
    processes: dict[Path, BaseProcess] = field(default_factory=dict)
    on_gpu: dict[Path, int] = field(default_factory=dict)
    pictures: Pictures | None = None  # the function that draws a finished run for its trackers

    def __post_init__(self) -> None:
        for job in self.jobs:
            self.status[job.run.path] = Status()
            self._look(job, self.status[job.run.path])
        self.threads = threads.from_environment() or max(1, threads.cores() // self.at_once)

    @property
    def finished(self) -> bool:
        return all(s.state in ("done", "failed") for s in self.status.values())

    def _look(self, job: Job, status: Status) -> None:
        """Done, failed if the directory cannot be used, or waiting."""
        status.state = "waiting"
        if why := job.damage:
            status.state, status.why = "failed", why
        elif job.run.done:
            status.state = "done"

    def step(self) -> None:
        for job in self.jobs:
            status = self.status[job.run.path]
            if status.state == "running":
                self._reap(job, status)
            elif status.state == "elsewhere" and not job.run.busy:
                self._look(job, status)
            if status.state == "waiting" and len(self.processes) < self.at_once:
                self._start(job, status)

    def _start(self, job: Job, status: Status) -> None:
        self._look(job, status)  # another sweep may have made it
        if status.state != "waiting":
            return
        try:
            if job.run.busy:
                status.state = "elsewhere"
                return
            job.run.make()
        except (BrojepaError, OSError) as error:
            status.state, status.why = "failed", f"{job.run.path}: {error}"
            return
        self.processes[job.run.path] = start(job, self.threads, self.environment(job), self.pictures)
        status.state, status.since, status.began_at = "running", time.monotonic(), job.epoch
        status.tries += 1

    def environment(self, job: Job) -> dict[str, str]:
        """Environment variables that give a job's process the GPU with the fewest processes."""
        if not self.gpus:
            return {}
        taken = [self.on_gpu[path] for path in self.processes]
        self.on_gpu[job.run.path] = min(self.gpus, key=taken.count)
        return {"CUDA_VISIBLE_DEVICES": str(self.on_gpu[job.run.path])}

    def _reap(self, job: Job, status: Status) -> None:
        code = self.processes[job.run.path].exitcode
        if code is None:
            return
        del self.processes[job.run.path]
        if job.run.done:
            self._look(job, status)
        elif job.run.busy:
            status.state, status.tries = "elsewhere", status.tries - 1
        elif code == 2 or status.tries >= TRIES:  # an invalid request would fail again
            status.state, status.why = "failed", describe(code)
        else:
            status.state, status.why = "waiting", describe(code)

    def stop(self) -> None:
        """Make every process save and end; those that do not in time are killed."""
        for process in self.processes.values():
            process.terminate()
        deadline = time.monotonic() + PATIENCE
        for process in self.processes.values():
            process.join(max(0.0, deadline - time.monotonic()))
            if process.exitcode is None:
                process.kill()
                process.join()
        self.processes.clear()
        for job in self.jobs:
            status = self.status[job.run.path]
            if status.state == "running":
                status.state = "done" if job.run.done else "waiting"


def start(
    job: Job, share: int, environment: Mapping[str, str], pictures: Pictures | None = None
) -> BaseProcess:  # fmt: skip
    """A process that trains a job's run, with `share` threads unless it has its own number, and appends what it prints
    to the run's log.

    If this process ends first with an error, it signals the worker to save and stop. If it is killed, the worker
    goes on."""
    context = multiprocessing.get_context(METHOD)
    context.set_forkserver_preload([__name__])
    everything = {**os.environ, **environment}  # the server has what was there when it started
    process = context.Process(target=_work, args=(job, share, everything, pictures), daemon=True)
    with _nothing_from_here():
        process.start()
    return process


@contextlib.contextmanager
def _nothing_from_here() -> Iterator[None]:
    """Processes started meanwhile do not import from the current directory, which Python searches first: it may hold a
    torch.py. Own parts are still found, see `parts.resolve`."""
    before = os.environ.get("PYTHONSAFEPATH")
    os.environ["PYTHONSAFEPATH"] = "1"  # Python 3.11 and later
    try:
        if METHOD == "forkserver" and sys.version_info < (3, 11):
            _start_server_elsewhere()
        yield
    finally:
        if before is None:
            del os.environ["PYTHONSAFEPATH"]
        else:
            os.environ["PYTHONSAFEPATH"] = before


def _start_server_elsewhere() -> None:
    """The server in an empty directory; a worker goes back to ours by itself."""
    here = Path.cwd()
    with tempfile.TemporaryDirectory() as empty:
        os.chdir(empty)
        try:
            forkserver.ensure_running()
        finally:
            os.chdir(here)


def _work(job: Job, share: int, environment: dict[str, str], pictures: Pictures | None) -> None:
    os.environ.clear()
    os.environ.update(environment)  # before torch looks for GPUs
    if hasattr(os, "setsid"):  # a Ctrl-C on the terminal is for the sweep, which passes it on once
        os.setsid()
    log = os.open(job.run.path / LOG, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
    for stream in (1, 2):
        os.dup2(log, stream)
    os.close(log)
    open_streams()
    torch.set_num_threads(share)
    try:
        watching = trackers(job.track, pictures) if job.track else []
        train(
            job.trained, seed=job.seed, out=job.out, data_dir=job.data_dir, device=job.device, name=job.name,
            callbacks=[LiveTable(), *watching], threads=job.threads,
        )  # fmt: skip
    except BrojepaError as error:
        print(f"brojepa: error: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
