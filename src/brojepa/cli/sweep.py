"""`brojepa sweep`: many runs."""

from __future__ import annotations

import shlex
import signal
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from brojepa import config as knobs
from brojepa.cli.parser import (
    Parser,
    add_knobs,
    add_threads,
    add_track,
    given_knobs,
    integers,
    join_negative,
    threads,
)
from brojepa.cli.train import drawing
from brojepa.errors import Interrupted, RequestError, RunError, unknown
from brojepa.text import plural

if TYPE_CHECKING:
    from brojepa.sweep import Job

POLL = 0.2  # seconds between two checks of the processes
QUEUE_POLL = 10.0  # and between two checks of Slurm's queue


def sweep(argv: list[str]) -> int:
    """Train many presets with many seeds: a table of the paper, a pattern, a grid."""
    parser = Parser(prog="brojepa sweep", usage="brojepa sweep WHAT ... [--FLAG VALUE ...]", description=sweep.__doc__)
    parser.add_argument(
        "what", nargs="*", metavar="WHAT", help="table1, table2, presets or patterns like 'mnist/bro-*'"
    )
    many = parser.add_argument_group("sweep")
    many.add_argument("--seeds", default="0-5", metavar="INTS", help="such as 0-5 or 0,2,7; default 0-5, the paper's")
    many.add_argument(
        "--grid", nargs="+", action="append", default=[], metavar="KNOB VALUE",
        help="a knob and the values it takes, as in --grid lr 1e-4 3e-4; several grids multiply",
    )  # fmt: skip
    many.add_argument("--jobs", metavar="INT", help="runs at once; default one per core, at most 4")
    many.add_argument("--gpus", metavar="INTS", help="GPUs to use, such as 0-3, one per run; also sets --jobs")
    many.add_argument("--slurm", nargs="?", const="", metavar="KEY=VALUE,...", help="on Slurm: see docs/cluster.md")
    many.add_argument("--out", default="runs", metavar="DIR", help="where run directories go; default runs")
    many.add_argument("--data-dir", metavar="DIR", help="where EMNIST is; default BROJEPA_DATA, then the cache")
    many.add_argument("--device", default="auto", help="auto, cpu, cuda or mps; default auto")
    add_threads(many, "threads of each run; default OMP_NUM_THREADS, then the cores divided by the runs at once")
    add_track(many, "log every run to these trackers, as train --track does")
    many.add_argument("--dry-run", action="store_true", help="show what would run, and the status of each run")
    add_knobs(parser)
    args = parser.parse(join_negative(argv))
    if not args.what:
        raise RequestError("nothing to sweep: name table1, table2, presets or a pattern, as in 'brojepa sweep table1'")

    from brojepa.sweep import plan
    from brojepa.training import trackers

    track = ",".join(args.track) if args.track else None
    if track is not None:
        trackers(track)  # one that is unknown or not installed is an error before anything is started
    changes, grid = given_knobs(args), _grids(args.grid)
    if both := next((name for name in grid if name in changes), None):
        raise RequestError(f"{knobs.flag(both)} and --grid {both}: name all its values in --grid")
    jobs = plan(
        args.what, integers("--seeds", args.seeds), args.out, changes=changes, grid=grid,
        data_dir=args.data_dir, device=args.device, threads=threads(args.threads), track=track,
    )  # fmt: skip
    if args.dry_run:
        return _dry_run(jobs)
    if args.slurm is not None:
        return _on_slurm(jobs, args.slurm, args.out)
    gpus = integers("--gpus", args.gpus) if args.gpus else []
    workers = at_once(args.jobs, len(gpus))
    return here(jobs, workers, gpus)


def at_once(jobs: str | None, gpus: int = 0) -> int:
    """How many runs train at once: --jobs, else one per GPU named, else one per core, up to 4."""
    from brojepa.runs.threads import cores

    workers = integers("--jobs", jobs)[0] if jobs else gpus or min(4, cores())
    if workers < 1:
        raise RequestError(f"--jobs must be at least 1, got {jobs}")
    return workers


def _grids(given: list[list[str]]) -> dict[str, list[Any]]:
    grid: dict[str, list[Any]] = {}
    for words in given:
        name, values = _grid(words)
        if name in grid:
            raise RequestError(f"--grid {words[0]} is given twice: name all its values once")
        grid[name] = values
    return grid


def _grid(words: list[str]) -> tuple[str, list[Any]]:
    name, values = words[0].removeprefix("--").replace("-", "_"), words[1:]
    name = knobs.FORMERLY.get(name, name)
    if name not in knobs.FIELDS:
        raise unknown("knob in --grid", words[0], knobs.FIELDS)
    if not values:
        raise RequestError(f"--grid {words[0]} has no values: give some, as in --grid lr 1e-4 3e-4")
    if knobs.TYPES[name] is bool:
        switch = {"true": True, "false": False}
        for value in values:
            if value.lower() not in switch:
                raise unknown(f"value of {words[0]} in --grid", value, switch)
        return name, [switch[value.lower()] for value in values]
    return name, [knobs.parse(name, value) for value in values]


def _dry_run(jobs: Sequence[Job]) -> int:
    for job in jobs:
        begun = f"epoch {job.epoch}/{job.config.epochs}" if job.epoch else "new"
        standing = "damaged" if job.damage else "done" if job.run.done else begun
        print(f"{standing:<12} brojepa {shlex.join(job.command()[3:])}" + (f"  # {job.damage}" if job.damage else ""))
    done = sum(job.run.done and not job.damage for job in jobs)
    print(f"{plural(len(jobs), 'run')}, {done} done, {len(jobs) - done} to do")
    return 0


class _Stop:
    """SIGINT and SIGTERM, remembered."""

    def __init__(self) -> None:
        self.asked = False

    def __enter__(self) -> _Stop:
        self.before = {s: signal.signal(s, self._ask) for s in (signal.SIGINT, signal.SIGTERM)}
        return self

    def _ask(self, *_: object) -> None:
        self.asked = True

    def __exit__(self, *_: object) -> None:
        for number, handler in self.before.items():
            signal.signal(number, handler)


def here(jobs: Sequence[Job], workers: int, gpus: Sequence[int] = ()) -> int:
    """Run jobs on this machine, and show their progress."""
    from brojepa.sweep.display import Overview
    from brojepa.sweep.local import Local, check_worlds

    check_worlds(jobs)
    pictures = drawing() if any(job.track for job in jobs) else None
    local, overview = Local(jobs, workers, gpus, pictures=pictures), Overview(jobs, workers)
    with _Stop() as stop:
        while not local.finished and not stop.asked:
            local.step()
            overview.show(local.status)
            time.sleep(POLL)
        if stop.asked:
            local.stop()
    overview.show(local.status, last=True)
    return _verdict(jobs, local.status, stop.asked)


def _verdict(jobs: Sequence[Job], status: dict, interrupted: bool) -> int:
    from brojepa.sweep.display import failures

    done, failed = (sum(s.state == state for s in status.values()) for state in ("done", "failed"))
    if interrupted and done + failed < len(jobs):
        raise Interrupted(f"stopped with {done} of {plural(len(jobs), 'run')} done; the same command resumes")
    for line in failures(jobs, status):
        print(line)
    if failed:
        raise RunError(f"{failed} of {plural(len(jobs), 'run')} failed; the same command retries them")
    print(f"{plural(done, 'run')} done")
    return 0


def _on_slurm(jobs: Sequence[Job], asked: str, out: str) -> int:
    from brojepa.sweep import Status, slurm
    from brojepa.sweep.display import Overview
    from brojepa.sweep.local import check_worlds

    request, names = slurm.parse_slurm(asked), {"queued": "waiting", "new": "waiting"}
    check_worlds(jobs)
    with _Stop() as stop:
        submitted = slurm.submit(jobs, request, out)
        nothing = "nothing to queue: every run is done or in a job"
        print(f"queued {', '.join(submitted)}" if submitted else nothing, flush=True)
        overview = Overview(jobs, None)
        while True:
            standings = slurm.states(jobs, out)
            status = {
                job.run.path: Status(names.get(s.state, s.state), s.why) for job, s in zip(jobs, standings, strict=True)
            }
            overview.show(status)
            if stop.asked or not any(s.held for s in standings):
                break
            _sleep(QUEUE_POLL, stop)
    overview.show(status, last=True)
    if stop.asked and any(s.held for s in standings):
        held = sorted({s.job for s in standings if s.held})
        raise Interrupted(
            f"the jobs go on by themselves; repeat the command to see them, or cancel: scancel {' '.join(held)}"
        )
    return _verdict(jobs, status, stop.asked)


def _sleep(seconds: float, stop: _Stop) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end and not stop.asked:
        time.sleep(POLL)
