"""A run keeps the number of threads that it began with: another number gives other last bits."""

from __future__ import annotations

import json
import signal

import pytest
import torch
from conftest import SMALL, Outcome, one_line
from small_runs import KINDS, same_run

from brojepa.errors import Interrupted
from brojepa.runs import Run, checkpoint, threads
from brojepa.sweep.local import Local
from brojepa.training import Callback, train

STOP = """
import signal
import brojepa.training.loop as loop
before = loop.Learner.learn
def learn(self, batch):
    before(self, batch)
    if (self.epoch, self.step) == (1, 2):
        signal.raise_signal(signal.SIGTERM)
loop.Learner.learn = learn
"""
COMMANDS = ["train", "eval", "sweep", "inspect", "predict", "infer", "plan", "figures", "bench"]


class Stop(Callback):
    def step(self, training) -> None:
        if training.step == 2:
            signal.raise_signal(signal.SIGINT)


@pytest.fixture
def two_threads(monkeypatch):
    """This process computes with two threads, on a machine that has as many cores."""
    monkeypatch.setattr(threads, "cores", lambda: 2)
    with threads.computing_with(2):
        yield


@pytest.mark.parametrize("kind", ["learned-ema", "cnn-mean"])
def test_a_run_of_one_thread_resumed_where_there_are_two_is_the_same(kind, small, uncut, two_threads, tmp_path):
    with threads.computing_with(1), pytest.raises(Interrupted):
        train(small(**KINDS[kind]), out=tmp_path / "cut", device="cpu", callbacks=[Stop()])
    run = train(small(**KINDS[kind]), out=tmp_path / "cut", device="cpu")
    assert [start["threads"] for start in run.environment["starts"]] == [1, 1]
    assert torch.get_num_threads() == 2, "as it was"
    with threads.computing_with(1):
        straight = uncut(kind)
    same_run(run, straight)


def test_the_number_of_threads_does_matter(small, two_threads, tmp_path):
    """Otherwise the tests above could not fail. Which sums torch divides differs from CPU to CPU."""

    def weights(kind, number):
        run = train(small(**KINDS[kind]), out=tmp_path / str(number), device="cpu", threads=number)
        return checkpoint.load(run.model_file)[0]

    for kind in ("cnn-mean", "consistency", "learned-ema"):
        one, two = weights(kind, 1), weights(kind, 2)
        if not all(torch.equal(one[name], two[name]) for name in one):
            return
    pytest.fail("no kind of run depends on the number of threads")


def test_a_process_resumes_with_the_threads_of_the_first(brojepa_process, digits, tmp_path):
    words = ["train", "--world", digits, *SMALL, "--out", tmp_path]
    assert brojepa_process(*words, prelude=STOP, env={"OMP_NUM_THREADS": "1"}).code == 130
    assert brojepa_process(*words, env={"OMP_NUM_THREADS": "2"}).code == 0
    (result,) = tmp_path.rglob("result.json")
    assert [start["threads"] for start in Run(result.parent).environment["starts"]] == [1, 1]
    again = brojepa_process("eval", result.parent, env={"OMP_NUM_THREADS": "2"})
    assert again.code == 0
    assert "identical" in again.out


@pytest.mark.parametrize(
    ("asked", "began", "here", "cores", "number", "says"),
    [
        (None, None, 2, 2, 2, ""),
        (3, None, 2, 2, 3, ""),
        (None, 1, 2, 2, 1, ""),
        (None, 4, 1, 8, 4, ""),
        (None, 4, 4, 2, 4, ""),  # OMP_NUM_THREADS=4 on two cores, as the run began
        (None, 8, 2, 2, 2, "began with 8 threads"),
        (2, 8, 1, 2, 2, "began with 8 threads, not 2"),
        (8, 8, 1, 2, 8, ""),
        (None, -1, 2, 2, 2, ""),
    ],
)
def test_the_number_is_kept_where_it_can_be(monkeypatch, asked, began, here, cores, number, says):
    monkeypatch.setattr(threads, "cores", lambda: cores)
    with threads.computing_with(here):
        chosen, remark = threads.choose(asked, {} if began is None else {"threads": began})
    assert chosen == number
    assert says in remark
    assert bool(says) == bool(remark)


def test_a_number_that_cannot_be_kept_is_said_in_a_line(cli, run, train_again, monkeypatch) -> None:
    (run / "result.json").unlink()
    environment = json.loads((run / "env.json").read_text())
    (run / "env.json").write_text(json.dumps({**environment, "threads": 500}))
    done: Outcome = train_again()
    assert done.code == 0
    assert "warning: the run began with 500 threads" in done.out


@pytest.mark.parametrize("value", ["0", "-1", "x", "", "1.5", "99999", "²"])
@pytest.mark.parametrize(
    "command",
    ["train", "eval", "sweep", "inspect", "predict", "infer", "plan", "figures", "bench", "decode", "demo", "export"],
)
def test_threads_that_cannot_be_are_one_line(cli, trained, tmp_path, command, value) -> None:
    words = {
        "train": [], "sweep": ["mnist/fast"], "predict": [trained[0], "a.png", "--action=1"], "figures": [trained[0]],
        "infer": [trained[0], "a.png", "b.png"], "plan": [trained[0], "a.png", "b.png", "--allowed=1"],
        "bench": ["startup"], "export": [trained[0], "--out", tmp_path / "graphs"],
    }.get(command, [trained[0]])  # fmt: skip
    assert "1 to 1024" in one_line(cli(command, *words, f"--threads={value}"), 2)


def test_a_sweep_gives_each_run_the_threads_that_are_asked_for(monkeypatch, cli, digits, tmp_path) -> None:
    monkeypatch.setattr(threads, "cores", lambda: 8)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    assert Local([], 2).threads == 4
    monkeypatch.setenv("OMP_NUM_THREADS", "3,2")
    assert Local([], 2).threads == 3
    monkeypatch.setenv("OMP_NUM_THREADS", "many")
    assert Local([], 2).threads == 4
    words = ["mnist/fast", "--world", digits, *SMALL, "--seeds", "0", "--out", tmp_path]
    assert cli("sweep", *words, "--threads", 2).code == 0
    (result,) = tmp_path.rglob("result.json")
    assert Run(result.parent).environment["threads"] == 2
    assert "--threads 2" in cli("sweep", *words, "--threads", 2, "--dry-run").out
