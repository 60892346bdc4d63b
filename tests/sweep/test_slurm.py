"""Sweeps on Slurm, as far as they go without one: requests, packs, what a task does when signalled, what is read back.

`test_slurm_for_real.py` has the rest, on a real one.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from conftest import Outcome
from helpers import ROOT, checked, says
from hypothesis import given
from hypothesis import strategies as st

from brojepa.errors import RequestError, RunError
from brojepa.files import read_json, write_json
from brojepa.sweep.jobs import LOG, Job, plan
from brojepa.sweep.slurm import Standing, parse_slurm, queue, states
from brojepa.sweep.slurm.pack import Pack
from brojepa.sweep.slurm.request import KEYS, Request
from brojepa.sweep.slurm.submit import packs_of, submit

PRESET = "mnist/bro-mlp-mfr-fixed"


def test_a_request_says_what_is_asked_and_leaves_the_rest_to_slurm():
    assert parse_slurm("") == Request()
    request = parse_slurm("partition=gpu,time=4:00:00,gpus=a100:1,cpus=8,mem=16G,account=me,qos=low,pack=3,parallel=10")
    assert request == Request("gpu", "me", "low", None, 240, "a100:1", 8, "16G", 3, 10)


@checked
@given(st.integers(1, 9), st.integers(0, 23), st.integers(0, 59), st.integers(0, 59))
def test_times_are_slurms(days, hours, minutes, seconds):
    for text, length in {
        f"{days}-{hours}": timedelta(days=days, hours=hours),
        f"{days}-{hours}:{minutes}": timedelta(days=days, hours=hours, minutes=minutes),
        f"{days}-{hours}:{minutes:02}:{seconds:02}": timedelta(days, seconds, 0, 0, minutes, hours),
        f"{days}:{minutes:02}:{seconds:02}": timedelta(hours=days, minutes=minutes, seconds=seconds),
        f"{minutes + 5}:{seconds:02}": timedelta(minutes=minutes + 5, seconds=seconds),
        f"{minutes + 5}": timedelta(minutes=minutes + 5),
    }.items():
        assert parse_slurm(f"time={text}").time == -(-length // timedelta(minutes=1)), text


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("partion=gpu", "unknown --slurm key 'partion': did you mean partition?"),
        ("gpu", "unknown --slurm key 'gpu': did you mean gpus"),
        ("gpus=1,", "unknown --slurm key ''"),
        ("gpus=1,gpus=2", "--slurm has gpus twice"),
        ("partition=", "--slurm partition=: expected a partition's name"),
        ("gpus=none", "--slurm gpus=none: expected a number of GPUs"),
        ("cpus=0", "--slurm cpus=0: expected a number of CPUs"),
        ("mem=16 GB", "--slurm mem=16 GB: expected memory"),
        ("time=4:00", "--slurm time=4:00: expected at least 5 minutes"),  # four minutes, as Slurm reads it
        ("time=4h", "--slurm time=4h: expected at least 5 minutes, as in"),
        ("time=1:2:3:4", "--slurm time=1:2:3:4: expected"),
        ("pack=-1", "--slurm pack=-1: expected a number of runs"),
    ],
)
def test_a_wrong_request_says_what_is_right(text, says):
    with pytest.raises(RequestError) as caught:
        parse_slurm(text)
    assert str(caught.value).startswith(says)
    assert "\n" not in str(caught.value)


def test_a_task_with_several_gpus_makes_a_run_in_as_many_processes():
    (job,) = plan([PRESET], [3])
    assert "torch.distributed.run" not in job.command()
    for text, count in {"": 1, "gpus=1": 1, "gpus=4": 4, "gpus=a100:2": 2}.items():
        assert parse_slurm(text).processes == count
    command = replace(job, processes=4).command()
    assert command[1:5] == ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=4"]
    assert command[5:] == job.command()[1:]


def test_every_key_is_documented():
    page = (ROOT / "docs" / "cluster.md").read_text()
    assert [key for key in KEYS if f"| `{key}` |" not in page] == []


@checked
@given(st.permutations(["mnist/bro-mlp-mfr-fixed", "mnist/bro-resnet18-mfr-fixed", "mnist/fast"]), st.integers(1, 9),
       st.none() | st.integers(1, 9))  # fmt: skip
def test_packs_hold_every_run_once_and_one_encoder_each(presets, seeds, size):
    jobs = plan(presets, range(seeds))
    packs = list(packs_of(jobs, size))
    assert Counter(job for pack in packs for job in pack) == Counter(jobs)
    for pack in packs:
        (encoder,) = {job.config.encoder for job in pack}
        assert len(pack) <= (size or {"mlp": 6}.get(encoder, 1))
    assert len(packs) == sum(-(-seeds // (size or each)) for each in (6, 1, 1))


def test_without_slurm_or_submitit_it_says_what_to_do(cli: Callable[..., Outcome], tmp_path, monkeypatch):
    words = ("sweep", PRESET, "--seeds", "0", "--out", tmp_path / "runs", "--slurm")
    monkeypatch.setenv("PATH", str(tmp_path))
    for also, expected in (((), "no Slurm here (srun not found)"), (("partion=x",), "did you mean partition?")):
        outcome = cli(*words, *also)
        assert outcome.code == 2
        assert says(outcome.err, expected), outcome.err
    monkeypatch.setitem(sys.modules, "submitit", None)
    outcome = cli(*words)
    assert outcome.code == 2
    assert says(outcome.err, "--slurm submitit pip install 'brojepa[cluster]'"), outcome.err
    assert not (tmp_path / "runs").exists()


# What a task does


@pytest.fixture
def task(tmp_path: Path) -> Callable[[Pack | None], subprocess.Popen[bytes]]:
    """Start a pack as submitit does on a node: unpickled in a process of its own, with submitit's signal handlers."""
    helpers = pytest.importorskip("submitit.helpers")
    folder = tmp_path / "task"
    folder.mkdir()

    def start(pack: Pack | None) -> subprocess.Popen[bytes]:
        if pack is not None:
            submission = helpers.DelayedSubmission(pack)
            submission.set_timeout(timeout_min=60, max_num_timeout=0)
            submission.dump(folder / "1_submitted.pkl")
        env = {**os.environ, "OMP_NUM_THREADS": "1", "SUBMITIT_EXECUTOR": "local", "SUBMITIT_LOCAL_JOB_ID": "1"}
        command = [sys.executable, "-m", "submitit.core._submit", str(folder)]
        with (folder / "log").open("ab") as log:
            return subprocess.Popen(command, env=env, stdout=log, stderr=log, start_new_session=True)

    return start


def pack_of(jobs: list[Job], tmp_path: Path) -> Pack:
    return Pack({str(job.seed): job for job in jobs}, tmp_path / "failed.json")


def log(job: Job) -> str:
    return (job.run.path / LOG).read_text()


def test_a_task_signalled_like_by_slurm_saves_once_and_goes_on_when_it_is_started_again(task, digits, tmp_path):
    (job,) = plan([PRESET], [0], tmp_path / "runs", changes={"world": str(digits), "epochs": 40})
    process = task(pack_of([job], tmp_path))
    end = time.monotonic() + 240
    while not job.run.metrics and time.monotonic() < end:
        time.sleep(0.02)
    for number in (signal.SIGUSR2, signal.SIGTERM, signal.SIGCONT, signal.SIGTERM, signal.SIGUSR2):
        os.killpg(process.pid, number)  # every process of the job, training too
    assert process.wait(240) == 144, "how a local job of submitit asks to be queued again"
    assert not job.run.done
    assert not job.run.busy
    assert log(job).count("brojepa: stopped a") == 1

    assert task(None).wait(240) == 0
    assert job.run.done
    assert log(job).count("resuming at epoch") == 1
    assert [row["epoch"] for row in job.run.metrics] == list(range(1, 41))


def test_a_task_makes_no_finished_run_and_tries_a_wrong_one_once(task, tmp_path):
    changes = {"train_actions": (77, 78)}  # no actions of ten states
    done, wrong = plan([PRESET], [0, 1], tmp_path / "runs", changes=changes)
    done.run.make()
    write_json(done.run.result_file, {})
    assert task(pack_of([done, wrong], tmp_path)).wait(60) == 1
    assert read_json(tmp_path / "failed.json") == {"1": "exit code 2"}
    assert log(wrong).count("error: ") == 1
    assert not (done.run.path / LOG).exists()


# What is read back


@pytest.fixture
def squeue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """A squeue that says what it is told to, for states that are hard to bring about."""
    program = tmp_path / "bin" / "squeue"
    program.parent.mkdir()
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")

    def says(text: str) -> None:
        program.write_text(f"#!/bin/sh\n{text}\n")
        program.chmod(0o755)

    return says


def test_how_runs_are_doing_is_read_from_files_and_the_queue(squeue, tmp_path):
    jobs = plan([PRESET], range(9), tmp_path)
    names = [f"mnist/bro-mlp-mfr-fixed/seed-{i}" for i in range(9)]
    old, new = "brojepa-20250101-000000-aaaa", "brojepa-20250101-000001-bbbb"
    (tmp_path / "slurm").mkdir()
    write_json(queue.record(tmp_path, old), [[names[1]], [names[6]], [names[7]]])
    write_json(queue.record(tmp_path, new), [names[:4], [names[4]], [names[5]], [names[6]]])
    write_json(queue.report(tmp_path, new, 0), {names[1]: "exit code 1"})
    for i in (0, 5):
        jobs[i].run.make()
        write_json(jobs[i].run.result_file, {})
    rows = (f"{new}|0|7_0|RUNNING", f"{new}|1|7_1|CANCELLED", f"{new}|2|7_2|COMPLETED", f"{new}|3|7_3|PENDING",
            f"{old}|0|3_0|FAILED", f"{old}|1|3_1|FAILED")  # fmt: skip
    squeue("".join(f"echo '{row}';" for row in rows))
    gone = "its job ended without a result"
    assert states(jobs, tmp_path) == [
        Standing("done"),
        Standing("failed", "7_0", "exit code 1", held=True),
        Standing("running", "7_0", held=True),
        Standing("queued", "7_0", held=True),
        Standing("failed", "7_1", f"{gone} (cancelled)"),
        Standing("done"),
        Standing("queued", "7_3", held=True),
        Standing("failed", "", f"{gone} (no longer known to squeue)"),
        Standing("new"),
    ]


def test_a_run_that_ends_while_slurm_is_asked_has_not_failed(squeue, tmp_path):
    (job,) = plan([PRESET], [0], tmp_path)
    job.run.make()
    name = "brojepa-20250101-000000-aaaa"
    (tmp_path / "slurm").mkdir()
    write_json(queue.record(tmp_path, name), [["mnist/bro-mlp-mfr-fixed/seed-0"]])
    squeue(f"touch {job.run.result_file}; echo '{name}|N/A|7|COMPLETED'")
    assert states([job], tmp_path) == [Standing("done")]


def test_when_slurm_does_not_answer_nothing_is_queued(squeue, tmp_path):
    pytest.importorskip("submitit")
    (job,) = plan([PRESET], [0], tmp_path)
    (tmp_path / "slurm").mkdir()
    write_json(queue.record(tmp_path, "brojepa-20250101-000000-aaaa"), [["mnist/bro-mlp-mfr-fixed/seed-0"]])
    squeue("echo 'slurm_load_jobs error: Unable to contact slurm controller' >&2; exit 1")
    (tmp_path / "bin" / "srun").symlink_to("squeue")
    with pytest.raises(RunError, match=r"Unable to contact slurm controller"):
        submit([job], Request(), tmp_path)
    assert len(list((tmp_path / "slurm").glob("brojepa-*"))) == 1
    (tmp_path / "file").touch()
    with pytest.raises(RunError, match=r"file/slurm: Not a directory"):
        submit([job], Request(), tmp_path / "file")
