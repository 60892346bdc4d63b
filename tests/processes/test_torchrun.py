"""`torchrun -m brojepa train` from end to end: one run, one voice, and a killed process that costs nothing."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from helpers import ROOT
from small_runs import same_run

from brojepa.runs import Run
from brojepa.runs.finding import runs_under

WORDS = (
    "train", "mnist/fast", "--width", "1", "--batch-size", "24", "--validation", "30", "--precision", "float32",
    "--shift", "1", "--epochs",
)  # fmt: skip


def start(world: str, out: Path, epochs: int, count: int = 2, *more: str, **variables: str) -> subprocess.Popen[str]:
    launch = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={count}"] if count > 1 else []
    command = [
        sys.executable,
        *launch,
        "-m",
        "brojepa",
        *WORDS,
        str(epochs),
        "--world",
        world,
        "--out",
        str(out),
        *more,
    ]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1", **variables}
    return subprocess.Popen(command, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def done(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=240)
    return process.returncode, out, err


def said(err: str) -> list[str]:
    """What brojepa says, of all that torchrun says too."""
    return [line for line in err.splitlines() if line.startswith("brojepa: ")]


def the_run(out: Path) -> Run:
    (run,) = runs_under(out, [])
    return run


def children(process: subprocess.Popen[str]) -> list[int]:
    """The processes that torchrun has started, the first of the run first."""
    found = {}
    for pid in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split():
        words = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        rank = dict(word.split(b"=", 1) for word in words if b"=" in word).get(b"RANK")
        if rank is not None:
            found[int(rank)] = int(pid)
    return [found[rank] for rank in sorted(found)]


def after_epochs(count: int, out: Path, process: subprocess.Popen[str]) -> None:
    for _ in range(2400):
        files = [*out.glob("*/*/*/metrics.jsonl")]
        if files and len(files[0].read_text().splitlines()) >= count:
            return
        assert process.poll() is None, done(process)
        time.sleep(0.05)
    pytest.fail("no epoch was finished")


@pytest.fixture(scope="module")
def whole(tiny: str, tmp_path_factory: pytest.TempPathFactory) -> tuple[Run, str, str]:
    """A run of two processes, and what it printed."""
    out = tmp_path_factory.mktemp("whole")
    code, text, err = done(start(tiny, out, 40))
    assert code == 0, err
    return the_run(out), text, err


def test_one_run_is_made_and_one_process_speaks(whole):
    run, text, err = whole
    assert json.loads((run.path / "env.json").read_text())["processes"] == 2
    assert run.result["metrics"]["seen"] > 0.9
    assert text.count(" 40/40 ") == 1
    assert said(err) == []


def test_one_process_measures_the_same(whole, cli):
    outcome = cli("eval", whole[0].path, "--threads", "1", "--device", "cpu")
    assert outcome.code == 0, outcome
    assert "identical to result.json" in outcome.out


def test_a_run_cut_in_every_way_says_so_in_one_line_and_resumes_exactly(whole, tiny, tmp_path):
    """The first process killed, then the second, then all asked to stop."""
    for cut, epochs in ((0, 3), (1, 8), (None, 13)):
        process = start(tiny, tmp_path, 40)
        after_epochs(epochs, tmp_path, process)
        if cut is None:
            process.send_signal(signal.SIGTERM)
        else:
            os.kill(children(process)[cut], signal.SIGKILL)
        code, _, err = done(process)
        assert code == 1 if cut is not None else code != 0
        (line,) = said(err)
        assert ("stopped" if cut is None else "ended") in line
        assert "resumes" in line
        assert not the_run(tmp_path).done
    code, _, err = done(start(tiny, tmp_path, 40))
    assert code == 0, err
    same_run(whole[0], the_run(tmp_path))
    starts = json.loads((the_run(tmp_path).path / "env.json").read_text())["starts"]
    assert [start["processes"] for start in starts] == [2, 2, 2, 2]
    for begun, epochs in zip(starts[1:], (3, 8, 13), strict=True):
        assert begun["epoch"] >= epochs - 1  # the last may have been listed and not yet saved


def test_a_wrong_request_is_one_line(tiny, tmp_path):
    code, _, err = done(start(tiny, tmp_path, 2, 3, "--batch-size", "2"))
    assert code == 1
    assert len(said(err)) == 1
    assert "3 processes" in said(err)[0]
    code, _, err = done(start(tiny, tmp_path, 2, 2, "--no-such-flag"))
    assert len(said(err)) == 1


@pytest.mark.parametrize("other", [("--lr", "1e-3"), ("--evaluate", "seen")])
def test_processes_that_were_asked_for_different_runs_make_none(tiny, tmp_path, other):
    """As when two machines were given different commands."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    together = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "WORLD_SIZE": "2"}
    pair = [
        start(tiny, tmp_path, 2, 1, *words, **together, RANK=str(rank))
        for rank, words in enumerate([(), other])
    ]  # fmt: skip
    outcomes = [done(process) for process in pair]
    assert {code for code, _, _ in outcomes} == {2}, outcomes
    assert "the same command" in "".join(err for _, _, err in outcomes)
    assert not [*tmp_path.iterdir()]
