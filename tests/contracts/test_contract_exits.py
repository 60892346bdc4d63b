"""Exit codes stay: 0 done, 1 the run failed, 2 the request was wrong, 130 interrupted; and an error is one line."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import observe
import pytest

import brojepa

SMALL = (
    "--encoder", "mlp", "--no-standardise", "--latent", "8", "--epochs", "1", "--batch-size", "40", "--precision",
    "float32", "--device", "cpu", "--target", "sampled", "--shift", "0", "--looks", "1", "--quiet",
    "--method", "supervised", "--action", "mfr-fixed",
)  # fmt: skip


@pytest.fixture
def world(tmp_path) -> Path:
    return observe.old_world(tmp_path.resolve())


def one_line(err: str) -> None:
    assert err.endswith("\n")
    assert len(err.splitlines()) == 1, err
    assert "Traceback" not in err


def test_train_and_eval_are_done(tmp_path, world):
    assert observe.call("train", "--world", world, *SMALL, "--out", tmp_path / "out") == (0, "", "")
    (result,) = (tmp_path / "out").rglob("result.json")
    code, out, err = observe.call("eval", result.parent, "--device", "cpu")
    assert (code, err) == (0, "")
    assert out


@pytest.mark.parametrize("words", [["--help"], ["--version"], [], *([name, "--help"] for name in observe.COMMANDS)])
def test_help_is_done(words):
    code, out, err = observe.call(*words)
    assert (code, err) == (0, "")
    assert out


WRONG = {
    "preset": ["train", "mnist/nothing"],
    "command": ["nothing"],
    "train flag": ["train", "--nothing", "1"],
    "eval flag": ["eval", "run", "--nothing"],
    "abbreviated flag": ["train", "--epoch", "1"],
    "name from a list": ["train", "--encoder", "nothing"],
    "number": ["train", "--epochs", "many"],
    "odd latent": ["train", "--latent", "3"],
    "negative rate": ["train", "--lr=-1"],
    "seed": ["train", "--seed=-1"],
    "world": ["train", "--world", "nothing"],
    "device": ["train", "--world", "{world}", *SMALL, "--device", "nothing"],
    "run": ["eval", "nowhere"],
    "inspected run": ["inspect", "nowhere"],
    "reported runs": ["report", "nowhere"],
    "no run": ["eval"],
    "two ways to speak": ["train", "--quiet", "--json"],
    "plan without actions": ["plan", "run", "a.png", "b.png"],
    "sweep of nothing": ["sweep"],
    "figure": ["figures", "--only", "nothing"],
    "data command": ["data", "nothing"],
    "benchmark": ["bench", "nothing"],
}


@pytest.mark.parametrize("words", WRONG.values(), ids=WRONG)
def test_a_wrong_request_is_2(words, world, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    code, out, err = observe.call(*(word.format(world=world) for word in words))
    assert (code, out) == (2, ""), err
    one_line(err)
    assert sorted(tmp_path.rglob("*")) == before, "nothing was written"


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


DAMAGES = {"cut": truncate, "gone": Path.unlink, "empty": lambda path: path.write_bytes(b"")}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_model_is_1(damage, world, tmp_path):
    run = observe.take_old_runs(tmp_path / "out", world)["finished"].path
    damage(run / "model.safetensors")
    code, out, err = observe.call("eval", run, "--device", "cpu")
    assert (code, out) == (1, "")
    one_line(err)


def test_a_changed_bit_is_1(world, tmp_path):
    file = observe.take_old_runs(tmp_path / "out", world)["finished"].path / "model.safetensors"
    data = bytearray(file.read_bytes())
    data[-1000] ^= 1
    file.write_bytes(data)
    code, out, err = observe.call("eval", file.parent, "--device", "cpu")
    assert (code, out) == (1, "")
    one_line(err)


def test_a_damaged_state_is_1(world, tmp_path):
    run = observe.take_old_runs(tmp_path / "out", world)["cut-off"]
    truncate(run.path / "state" / "latest.safetensors")
    plain = brojepa.Config().to_dict()
    changed = {name: value for name, value in run.config.to_dict().items() if value != plain[name]}
    words = [f"--{name.replace('_', '-')}={value}" for name, value in changed.items()]
    words += ["--encoder=mlp", "--device=cpu", "--seed=1", "--quiet", f"--out={tmp_path / 'out'}"]
    code, out, err = observe.call("train", "mnist/jepa-mlp", *words)
    assert (code, out) == (1, "")
    one_line(err)


def test_an_interrupted_run_is_130_and_goes_on(world, tmp_path):
    """With a real Ctrl-C, to a process of its own that has made its first epoch."""
    command = ["train", "--world", str(world), *SMALL, "--epochs", "100000", "--out", str(tmp_path / "out")]
    process = subprocess.Popen(
        [sys.executable, "-m", "brojepa", *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        cwd=tmp_path, env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    try:
        deadline = time.monotonic() + 240
        while not list((tmp_path / "out").rglob("metrics.jsonl")):
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < deadline
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=240)
    finally:
        process.kill()
        process.communicate()
    assert (process.returncode, out) == (130, "")
    one_line(err)
    (state,) = (tmp_path / "out").rglob("latest.safetensors")
    meta = observe.read_tensors(state)[1]
    assert meta["epoch"] == len(meta["rows"]) >= 1
