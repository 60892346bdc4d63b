"""Queueing the runs of a sweep as packs, each a task of one job array, through submitit.

Which task holds which run is written down before the job is queued, so that no run is queued twice.
"""

from __future__ import annotations

import contextlib
import io
import os
import secrets
import shutil
import signal
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from filelock import FileLock

from brojepa.errors import RequestError, RunError
from brojepa.files import place, write_json
from brojepa.sweep.jobs import Job
from brojepa.sweep.slurm import queue
from brojepa.sweep.slurm.pack import Pack, held_back
from brojepa.sweep.slurm.queue import Standing
from brojepa.sweep.slurm.request import Request

PACK = {"mlp": 6}  # default runs per task by encoder: an MLP trains faster than a queue moves
TIMEOUTS = 20  # times that a task may reach its time limit and be queued again


def submit(jobs: Sequence[Job], request: Request, out: str | Path) -> list[str]:
    """Queue the runs that are not done and that no job holds; Slurm's numbers of the new tasks."""
    submitit = _submitit()
    out = place(out).absolute()
    folder = out / "slurm"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RunError(f"cannot write to {folder}: {error.strerror}; name another place with --out") from None
    with FileLock(folder / "lock"):  # two commands at once must not both find a run free
        standings = zip(jobs, states(jobs, out), strict=True)
        free = [
            replace(job, processes=request.processes)
            for job, standing in standings
            if standing.state != "done" and not standing.held
        ]
        if not free:
            return []
        name = queue.PREFIX + time.strftime("%Y%m%d-%H%M%S-") + secrets.token_hex(2)
        packs = [
            Pack({_key(job): job for job in pack}, queue.report(out, name, i))
            for i, pack in enumerate(packs_of(free, request.pack))
        ]
        write_json(queue.record(out, name), [list(pack.jobs) for pack in packs])
        executor = submitit.SlurmExecutor(folder, max_num_timeout=TIMEOUTS)
        executor.update_parameters(**request.parameters(name))
        try:
            with _surroundings(), held_back(signal.SIGINT, signal.SIGTERM):  # submitit has files to write afterwards
                return [task.job_id for task in executor.submit_array(packs)]
        except submitit.core.utils.FailedJobError as error:
            queue.record(out, name).unlink()
            raise RequestError(f"Slurm refused the job: {' '.join(str(error).split())}") from None


def states(jobs: Sequence[Job], out: str | Path) -> list[Standing]:
    """The status of each run: files say what is done and what failed, squeue what waits and what runs."""
    found = queue.standings(place(out), [_key(job) for job in jobs if not job.run.done])
    for job in jobs:
        if _key(job) not in found and not job.run.done:
            found[_key(job)] = Standing("new")
        elif _key(job) not in found or _done_since(job):
            found[_key(job)] = Standing("done")
    return [found[_key(job)] for job in jobs]


def _done_since(job: Job) -> bool:
    """Whether a run has its result by now. It lists the directory: a network file system may cache for a while that a
    file was missing, and a finished job must not count as failed."""
    return job.run.path.is_dir() and job.run.result_file in job.run.path.iterdir()


def packs_of(jobs: Sequence[Job], size: int | None) -> Iterator[list[Job]]:
    """Jobs of one encoder together, `size` per task."""
    for encoder in dict.fromkeys(job.config.encoder for job in jobs):
        same = [job for job in jobs if job.config.encoder == encoder]
        step = size or PACK.get(encoder, 1)
        yield from (same[i : i + step] for i in range(0, len(same), step))


def _key(job: Job) -> str:
    return str(job.run.path.relative_to(job.out))


def _submitit() -> Any:
    try:
        import submitit
    except ImportError:
        raise RequestError("--slurm needs submitit: pip install 'brojepa[cluster]'") from None
    if not shutil.which("srun"):
        raise RequestError("no Slurm here (srun not found): use a login node or leave out --slurm")
    return submitit


@contextlib.contextmanager
def _surroundings() -> Iterator[None]:
    """As a context manager: removes the variables of a job that we may be in, which the new job would inherit, and
    silences error output that submitit prints before raising it."""
    from submitit.helpers import clean_env

    config = {key: os.environ[key] for key in ("SLURM_CONF",) if key in os.environ}
    with clean_env(), contextlib.redirect_stderr(io.StringIO()):
        os.environ.update(config)
        yield
