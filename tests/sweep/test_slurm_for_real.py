"""Sweeps on a real Slurm: brought up here, jobs preempted, ended, cancelled and queued again, brought down.

Not part of the usual tests: `make test-slurm`, or `pytest -m slurm` where Slurm and munge are installed.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from cluster_up import Slurm, missing
from conftest import Outcome

import brojepa
from brojepa.presets import preset
from brojepa.runs import Run
from brojepa.sweep import plan

pytestmark = pytest.mark.slurm

PRESET = "mnist/bro-mlp-mfr-fixed"
SECONDS = 8  # that a run trains for, time enough to be interrupted in


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Slurm]:
    if missing():
        pytest.fail(f"{', '.join(missing())} not installed: apt-get install slurm-wlm munge")
    with Slurm(tmp_path_factory.mktemp("slurm")) as up:
        yield up


@pytest.fixture(scope="module")
def epochs(digits: Path, tmp_path_factory: pytest.TempPathFactory) -> int:
    """How many of them take that many seconds here and now."""
    config = preset(PRESET).replace(world=str(digits), epochs=20)
    result = brojepa.train(config, out=tmp_path_factory.mktemp("measured")).result
    return max(20, round(SECONDS / (result["seconds"] / 20)))


class Sweep:
    """The command, as a process, over some seeds of one small preset; and the runs that it makes."""

    def __init__(self, slurm: Slurm, digits: Path, out: Path, seeds: int, epochs: int) -> None:
        self.slurm, self.digits, self.out = slurm, digits, out
        self.processes: list[subprocess.Popen[str]] = []
        self.words = [PRESET, "--world", digits, "--epochs", epochs, "--seeds", f"0-{seeds - 1}", "--out", out]
        changes = {"world": str(digits), "epochs": epochs}
        self.runs = [job.run for job in plan([PRESET], range(seeds), out, changes=changes)]

    def start(self, request: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "brojepa", "sweep", *map(str, self.words), "--slurm", request]
        env = {**self.slurm.environment, **os.environ, "PYTHONUNBUFFERED": "1"}
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env)
        self.processes.append(process)
        return process

    def close(self) -> None:
        """End what a failed test leaves running."""
        for process in self.processes:
            process.kill()
            process.communicate()

    def until_training(self, *runs: Run) -> None:
        self.slurm.wait(lambda: all(run.metrics for run in runs), "training", 60)

    def tasks(self) -> dict[Run, str]:
        """Slurm's number of the task of each run, where every run has one of its own."""
        (record,) = (self.out / "slurm").glob("brojepa-*.json")
        name, tasks = record.stem, json.loads(record.read_text())
        lines = self.slurm("squeue", "-h", "-r", f"--name={name}", "-o", "%K %i").splitlines()
        numbers = dict(line.split() for line in lines)
        return {Run(self.out / run): numbers[str(i)] for i, (run,) in enumerate(tasks)}


@pytest.fixture
def sweep_of(slurm: Slurm, digits: Path, epochs: int, tmp_path: Path) -> Iterator[Callable[..., Sweep]]:
    with contextlib.ExitStack() as stack:

        def make(seeds: int, epochs: int = epochs) -> Sweep:
            return stack.enter_context(contextlib.closing(Sweep(slurm, digits, tmp_path / "runs", seeds, epochs)))

        yield make


def finish(process: subprocess.Popen[str], seconds: float = 120) -> Outcome:
    out, err = process.communicate(timeout=seconds)
    return Outcome(process.returncode, out, err)


def line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline()


def starts(run: Run) -> int:
    """Processes that have worked on a run."""
    return log(run).count("training on -1 +1")


def log(run: Run) -> str:
    return (run.path / "log.txt").read_text()


def whole(run: Run) -> bool:
    """Done, with every epoch there once."""
    return run.done and [row["epoch"] for row in run.metrics] == list(range(1, run.config.epochs + 1))


def test_preempted_tasks_go_on_where_they_were_and_no_run_is_made_twice(
    slurm: Slurm, sweep_of: Callable[..., Sweep], tmp_path: Path
) -> None:
    sweep = sweep_of(seeds=3)
    rivals = {line(process): process for process in [sweep.start("time=60,cpus=1,pack=2") for _ in range(2)]}
    second, first = (rivals[text] for text in sorted(rivals))
    assert re.fullmatch(r"nothing to queue: .*\nqueued (\d+)_0, \1_1\n", "".join(sorted(rivals)))

    time.sleep(0.5)  # until it watches
    second.send_signal(signal.SIGINT)
    left = finish(second)
    assert left.code == 130
    assert re.search(r"cancel: scancel \d+_0 \d+_1$", left.err.strip())

    packed, waiting, single = sweep.runs
    sweep.until_training(packed, single)  # an interrupted command leaves the jobs alone
    slurm("sbatch", "--partition=urgent", "--exclusive", "--output=/dev/null", "--wrap=sleep 1")
    outcome = finish(first)
    assert outcome.code == 0, outcome
    assert all(map(whole, sweep.runs))
    assert [starts(run) for run in (packed, waiting, single)] == [2, 1, 2]
    for run in (packed, single):
        assert len(re.findall("stopped (at|after) epoch", log(run))) == 1, "saved when told to"
        assert log(run).count("resuming at epoch") == 1

    alone = brojepa.train(single.config.replace(world=str(sweep.digits)), seed=2, out=tmp_path / "alone")
    assert alone.result["per_action"] == single.result["per_action"], "the same bits as without Slurm"

    again = finish(sweep.start("time=60"))
    assert (again.code, again.out.splitlines()[0]) == (0, "nothing to queue: every run is done or in a job")


def test_a_task_told_to_end_saves_and_only_a_cancelled_one_stays_away(
    slurm: Slurm, sweep_of: Callable[..., Sweep]
) -> None:
    sweep = sweep_of(seeds=3)
    first = sweep.start("time=60,cpus=1,pack=1")
    sweep.until_training(*sweep.runs)
    tasks = sweep.tasks()
    warned, requeued, cancelled = sweep.runs
    slurm("scancel", "--signal=TERM", tasks[warned])  # what a cluster without the user's signal sends at preemption
    slurm("scontrol", "requeue", tasks[requeued])
    slurm("scancel", tasks[cancelled])

    outcome = finish(first)
    assert outcome.code == 1
    assert whole(warned)
    assert whole(requeued)
    assert not cancelled.done
    assert "its job ended without a result (cancelled)" in outcome.out
    assert "1 of 3 runs failed" in outcome.err

    assert finish(sweep.start("time=60,cpus=1")).code == 0
    assert whole(cancelled)
    for run in sweep.runs:
        assert starts(run) == 2
        assert len(re.findall("stopped (at|after) epoch", log(run))) == 1
        assert log(run).count("resuming at epoch") == 1


def test_a_failed_run_is_tried_once_more_and_does_not_hold_up_its_pack(sweep_of: Callable[..., Sweep]) -> None:
    sweep = sweep_of(seeds=2, epochs=2)
    broken, fine = sweep.runs
    broken.state_file.parent.mkdir(parents=True)
    broken.state_file.write_bytes(b"no checkpoint")  # so that it cannot go on
    outcome = finish(sweep.start("cpus=1,pack=2"))
    assert outcome.code == 1
    assert whole(fine)
    assert log(broken).count("brojepa: error:") == 2
    assert "exit code 1" in outcome.out
    assert starts(fine) == 1


def test_what_slurm_refuses_is_one_line_and_leaves_nothing_behind(sweep_of: Callable[..., Sweep]) -> None:
    sweep = sweep_of(seeds=1)
    outcome = finish(sweep.start("partition=nowhere"))
    assert outcome.code == 2
    assert len(outcome.err.splitlines()) == 1
    assert "Slurm refused the job" in outcome.err
    assert "invalid partition" in outcome.err
    assert not list((sweep.out / "slurm").glob("brojepa-*"))


def test_a_run_uses_all_gpus_of_its_task_and_goes_on_when_it_is_queued_again(sweep_of: Callable[..., Sweep]) -> None:
    """The node has none, but says that it has two: each gets a process, which then computes on the CPU."""
    sweep = sweep_of(seeds=1)
    (run,) = sweep.runs
    process = sweep.start("gpus=2,cpus=2")
    sweep.until_training(run)
    sweep.slurm("scontrol", "requeue", sweep.slurm("squeue", "-h", "-o", "%i"))
    outcome = finish(process, 240)
    assert outcome.code == 0, outcome
    assert whole(run)
    environment = run.environment
    assert [start["processes"] for start in environment["starts"]] == [2, 2]
    assert environment["threads"] == 1
    assert log(run).count("brojepa: stopped a") == 1
    assert "resuming at epoch" in log(run)
