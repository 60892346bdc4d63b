"""A task of the job array: it trains a pack of runs one after another, and survives being stopped."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from brojepa.errors import RunError
from brojepa.files import write_json
from brojepa.sweep.jobs import LOG, TRIES, Job, describe
from brojepa.sweep.slurm.queue import ask

if TYPE_CHECKING:
    from submitit.helpers import DelayedSubmission


@dataclass
class Pack:
    """Runs for one task. submitit pickles it, and calls it on the node.

    submitit calls `checkpoint` on the signal that it asks Slurm for, before the time limit and at preemption. Slurm may
    also send SIGTERM: when the time of grace of a preempted job begins, and when a job is cancelled or queued again.
    """

    jobs: dict[str, Job]  # by the names that records have for runs
    report: Path  # where to say which runs failed
    child: subprocess.Popen[bytes] | None = field(default=None, init=False)
    stopping: bool = field(default=False, init=False)

    def __call__(self) -> None:
        signal.signal(signal.SIGTERM, self._terminated)
        self.report.unlink(missing_ok=True)
        failed: dict[str, str] = {}
        for name, job in self.jobs.items():
            why = self._train(job)
            if why:
                failed[name] = why
                write_json(self.report, failed)
        if failed:
            raise RunError(f"{len(failed)} of {len(self.jobs)} runs failed: {', '.join(failed)}")

    def _train(self, job: Job) -> str:
        """Why a run failed after all its tries, or nothing."""
        code = 0
        for _ in range(TRIES):
            if job.run.done:
                return ""
            code = self._process(job)
            if code in (0, 2):  # an invalid request would fail again
                break
        return describe(code) if code else ""

    def _process(self, job: Job) -> int:
        job.run.make()
        cpus = os.environ.get("SLURM_CPUS_PER_TASK")
        threads = str(max(1, int(cpus) // job.processes)) if cpus else None
        env = {**os.environ, "PYTHONSAFEPATH": "1"}  # nothing is imported from where the job was queued
        env |= {"OMP_NUM_THREADS": threads, "MKL_NUM_THREADS": threads} if threads else {}
        # Slurm may signal every process of a job, and training gives up unsaved on a second signal. So the child
        # inherits a mask that blocks Slurm's signals, which wait here until it is there, and gets one SIGINT from us.
        with (job.run.path / LOG).open("ab") as log, held_back(signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2):
            self.child = subprocess.Popen(job.command(), stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=env)
        # not `wait`: if a library has started threads, a signal to one of them does not end a blocking call
        while (code := self.child.poll()) is None:
            time.sleep(0.2)
        return code

    def _stop(self) -> None:
        """Have the child save and exit. Runs in signal handlers, so it leaves alone the lock that `poll` takes."""
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})  # for us and for scontrol, when it queues us again
        first, self.stopping = not self.stopping, True
        if self.child is None or self.child.returncode is not None:
            return
        with contextlib.suppress(ProcessLookupError, ChildProcessError):
            if first:
                os.kill(self.child.pid, signal.SIGINT)
            os.waitid(os.P_PID, self.child.pid, os.WEXITED | os.WNOWAIT)

    def _terminated(self, *_: object) -> None:
        if self.stopping:
            return
        self._stop()
        state = ask("squeue", "--noheader", f"--jobs={os.environ['SLURM_JOB_ID']}", "--format=%T")
        if state in ("RUNNING", "SIGNALING"):  # a time of grace: queue the job again while it can
            signal.raise_signal(_submitit_signal())
        sys.exit(130)  # Slurm has queued the job again itself, or someone has cancelled it

    def checkpoint(self) -> DelayedSubmission:
        """What to queue again: the same pack, whose finished runs it will skip."""
        from submitit.helpers import DelayedSubmission

        signal.pthread_sigmask(signal.SIG_BLOCK, {_submitit_signal()})  # a second signal must not interrupt this
        self._stop()
        return DelayedSubmission(replace(self))


def _submitit_signal() -> signal.Signals:
    import submitit

    return signal.Signals[f"SIG{submitit.JobEnvironment.USR_SIG}"]


@contextlib.contextmanager
def held_back(*numbers: signal.Signals) -> Iterator[None]:
    """As a context manager: signals are delivered afterwards; processes started meanwhile never get them."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
