"""What to run: presets, grids and seeds as a list of jobs, their status, and an estimate of the time left."""

from __future__ import annotations

import contextlib
import fnmatch
import itertools
import signal
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from brojepa import config as knobs
from brojepa.config import Config
from brojepa.errors import BrojepaError, RunError, unknown
from brojepa.files import place
from brojepa.presets import AUTO, PAPER_ROWS, PRESETS, likeliest, preset
from brojepa.runs import Run
from brojepa.worlds import open_world
from brojepa.worlds.facts import Choose, chooser
from brojepa.worlds.sources import identity

TABLES = {
    f"table{i}": [f"{world}/{row}" for row in PAPER_ROWS[world].split()]
    for i, world in enumerate(("mnist", "emnist"), start=1)
}
LOG = "log.txt"  # in the run directory: what its process printed
TRIES = 2
TAIL = 5  # lines of a failed run's log that are shown


@dataclass(frozen=True)
class Job:
    """One run to make: a config, the preset that it came from, and a seed.

    `world_path` is where own images lie; the config knows them by their content. `threads` is a number that the user
    asked for; without one a run keeps the number it began with. `base` is the preset's config, with what its recipe
    chooses for these images. `track` names the trackers of the run. `processes` train the run together.
    """

    name: str
    config: Config
    seed: int
    out: Path
    data_dir: str | None = None
    device: str = "auto"
    world_path: str | None = None
    threads: int | None = None
    base: Config | None = None
    track: str | None = None
    processes: int = 1

    @classmethod
    def of(
        cls, name: str, changes: Mapping[str, Any], seed: int, out: str | Path, data_dir: str | None = None,
        device: str = "auto", known: dict[tuple[str, str], tuple[str, Choose | None]] | None = None,
        threads: int | None = None,
    ) -> Job:  # fmt: skip
        """A job of a preset with some knobs changed. Its world may be own images; `known` remembers, by path and how
        they are read, what they are and the recipe for them."""
        start, known, out = preset(name), {} if known is None else known, place(out)
        where = start.replace(**{k: v for k, v in changes.items() if k == "world" or k in start.reading})
        path = knobs.absolute_world(where.world)
        if name != AUTO and not knobs.is_own_world(path):
            return cls(name, start.replace(**{**changes, "world": path}), seed, out, data_dir, device, threads=threads)
        images = (path, str(where.reading))
        if images not in known:
            world = open_world(path, data_dir if knobs.needs_emnist(path) else None, **where.reading)
            known[images] = identity(path, world), chooser(world) if name == AUTO else None
        content, choose = known[images]
        base = choose({})[0] if choose else start
        config = (choose(changes)[0] if choose else start.replace(**changes)).replace(world=path)
        config = Run.identify(out, config, name, seed, content)
        return cls(name, config, seed, out, data_dir, device, path, threads, base)

    @cached_property
    def run(self) -> Run:
        return Run.locate(self.out, self.config, self.name, self.seed)

    @property
    def trained(self) -> Config:
        """The config as `train` takes it, with the path of its world."""
        return self.config.replace(world=self.world_path) if self.world_path else self.config

    @cached_property
    def flags(self) -> list[str]:
        """The changes from the preset, as flags of the command line."""
        return knobs.words(self.trained, self.base or preset(self.name))

    @property
    def title(self) -> str:
        return " ".join([self.name, *self.flags, "seed", str(self.seed)])

    def command(self) -> list[str]:
        """The command that trains this run in its own process, or in several."""
        where = ["--out", str(self.out), "--device", self.device]
        where += ["--data-dir", str(self.data_dir)] if self.data_dir else []
        where += ["--threads", str(self.threads)] if self.threads else []
        where += ["--track", self.track] if self.track else []
        several = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={self.processes}"]
        python = [sys.executable, *(several if self.processes > 1 else [])]
        return [*python, "-m", "brojepa", "train", self.name, *self.flags, "--seed", str(self.seed), *where]

    @property
    def epoch(self) -> int:
        """Epochs done so far; 0 if the list cannot be read."""
        try:
            return len(self.run.metrics)
        except RunError:
            return 0

    @property
    def damage(self) -> str:
        """Why the run's directory cannot be used, with the file; or nothing."""
        try:
            if self.run.config_file.is_file():
                self.run.check({"config": self.config.to_dict(), "seed": self.seed})
            if self.run.done:
                _ = self.run.result
        except BrojepaError as error:
            return str(error)
        except OSError as error:
            return f"cannot read {error.filename}: {error.strerror}"
        return ""


def select(words: Iterable[str]) -> list[str]:
    """Presets by table1, table2, name or pattern, each once, in the order given.

    >>> select(["mnist/bro-mlp-*-fixed"])
    ['mnist/bro-mlp-mfr-fixed', 'mnist/bro-mlp-sfr-fixed']
    """
    names: list[str] = []
    for word in words:
        found = TABLES.get(word) or sorted(fnmatch.filter(PRESETS, word))
        if not found:
            raise unknown("preset or table", word, [*TABLES, *likeliest()])
        names += found
    return list(dict.fromkeys(names))


def plan(
    words: Iterable[str],
    seeds: Sequence[int],
    out: str | Path = "runs",
    *,
    changes: Mapping[str, Any] | None = None,
    grid: Mapping[str, Sequence[Any]] | None = None,
    data_dir: str | None = None,
    device: str = "auto",
    threads: int | None = None,
    track: str | None = None,
) -> list[Job]:
    """Every preset with every combination of the grid's values and every seed; the first seed of all comes first.

    `data_dir` goes to the runs that need it, or to all where none does, which then refuse it."""
    grid = grid or {}
    points = [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]
    jobs: dict[Path, Job] = {}
    known: dict[tuple[str, str], tuple[str, Choose | None]] = {}  # own images, by path and reading options
    for seed, name, point in itertools.product(seeds, select(words), points):
        job = Job.of(name, {**(changes or {}), **point}, seed, out, data_dir, device, known, threads)
        jobs.setdefault(job.run.path, replace(job, track=track))
    if any(knobs.needs_emnist(job.trained.world) for job in jobs.values()):
        jobs = {p: j if knobs.needs_emnist(j.trained.world) else replace(j, data_dir=None) for p, j in jobs.items()}
    for job in jobs.values():
        with contextlib.suppress(RunError):  # a damaged run fails alone, the others go on
            job.run.check({"config": job.config.to_dict(), "seed": job.seed})
    return list(jobs.values())


@dataclass
class Status:
    """The status of a job: waiting, running, elsewhere (another process has it), done or failed."""

    state: str = "waiting"
    why: str = ""
    since: float = 0.0
    began_at: int = 0  # epochs done when it was started
    tries: int = 0


def describe(code: int) -> str:
    """An exit code in words."""
    if code >= 0:
        return f"exit code {code}"
    name = signal.Signals(-code).name
    return f"killed by {name}" + (", perhaps out of memory" if name == "SIGKILL" else "")


def tail(job: Job) -> list[str]:
    """The last lines that a job's process printed."""
    log = job.run.path / LOG
    return log.read_text(errors="replace").splitlines()[-TAIL:] if log.is_file() else []


def seconds_left(jobs: Sequence[Job], status: Mapping[Path, Status], workers: int) -> float | None:
    """An estimate from what finished runs took: those of the same config, else of the same world and encoder for
    each epoch; None before anything is known."""
    known: dict[tuple, list[float]] = {}
    for job in jobs:
        if status[job.run.path].state == "done":
            try:
                result = job.run.result
            except RunError:
                continue
            seconds = (result.get("seconds", 0) + result.get("evaluation_seconds", 0)) / job.config.epochs
            for key in _likeness(job):
                known.setdefault(key, []).append(seconds)
        elif (s := status[job.run.path]).state == "running" and job.epoch > s.began_at:
            seconds = (time.monotonic() - s.since) / (job.epoch - s.began_at)
            known.setdefault((), []).append(seconds)
    total = 0.0
    for job in jobs:
        s = status[job.run.path]
        if s.state in ("done", "failed"):
            continue
        each = next((sum(v) / len(v) for key in _likeness(job) if (v := known.get(key))), None)
        if each is None:
            return None
        total += each * max(job.config.epochs - job.epoch, 0.3)
    return total / workers


def _likeness(job: Job) -> list[tuple]:
    c = job.config
    return [(c.hash,), (c.world, c.method, c.encoder), (c.world, c.encoder), ()]
