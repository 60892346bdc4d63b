"""Runs that are cut, crash or diverge: nothing bad is left on disk, and the same command makes the run that was not."""

from __future__ import annotations

import json
import math
import os
import shutil
import signal
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import torch
from small_runs import KINDS, Listen, same_run

import brojepa
from brojepa.errors import Interrupted, RequestError, RunError
from brojepa.runs import Run, checkpoint
from brojepa.training import Callback, Training, train


class Stop(Callback):
    """A real signal at a step, counted from the start of the run; what a user's Ctrl-C does."""

    def __init__(self, at: int, number: int = signal.SIGINT) -> None:
        self.at, self.number = at, number

    def step(self, training: Training) -> None:
        if training.epoch * training.steps + training.step == self.at:
            signal.raise_signal(self.number)


class Crash(Stop):
    """The process goes away at a step: nothing is saved any more."""

    def step(self, training: Training) -> None:
        if training.epoch * training.steps + training.step == self.at:
            raise MemoryError


# Cut and resumed


@pytest.mark.parametrize("cuts", [(1,), (2, 7), (4, 5), (8,), (12,)], ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_a_run_cut_anywhere_and_resumed_is_the_run_that_was_not(kind, cuts, small, uncut, tmp_path):
    """Step 1, mid-epoch, the last step of an epoch, of the run, and several cuts in one run."""
    for number, cut in zip((signal.SIGINT, signal.SIGTERM), cuts, strict=False):
        with pytest.raises(Interrupted, match="resumes"):
            train(small(**KINDS[kind]), out=tmp_path, device="cpu", callbacks=[Stop(cut, number)])
    ear = Listen()
    run = train(small(**KINDS[kind]), out=tmp_path, device="cpu", callbacks=[ear])
    assert ear.resumed == [True]
    same_run(run, uncut(kind))


@pytest.mark.parametrize("kind", ["learned-ema", "relaxed", "cnn-mean"])
@pytest.mark.parametrize("every_step", [True, False])
def test_a_run_that_crashed_goes_on_from_its_last_checkpoint(kind, every_step, small, uncut, tmp_path, monkeypatch):
    """Checkpoints at each step, or at epochs only; the crash comes six steps in, between two of them."""
    if every_step:
        monkeypatch.setattr("brojepa.training.loop.SAVE_EVERY", 0.0)
    for _ in range(2):
        with pytest.raises(MemoryError):
            train(small(**KINDS[kind]), out=tmp_path, device="cpu", callbacks=[Crash(6)])
    same_run(train(small(**KINDS[kind]), out=tmp_path, device="cpu"), uncut(kind))


def test_a_crash_between_the_model_and_the_checkpoint_does_no_harm(small, uncut, tmp_path):
    """The epoch's model is on disk, the state that led to it is not."""

    class Between(Callback):
        def epoch(self, training: Training, row: dict[str, Any]) -> None:
            if row["epoch"] == 2:
                raise MemoryError

    with pytest.raises(MemoryError):
        train(small(**KINDS["learned-ema"]), out=tmp_path, device="cpu", callbacks=[Between()])
    same_run(train(small(**KINDS["learned-ema"]), out=tmp_path, device="cpu"), uncut("learned-ema"))


def test_a_run_begun_before_a_knob_existed_goes_on(small, uncut, tmp_path):
    """A release that adds a knob keeps the hash of old configs, so what an older one cut must resume."""
    config = small(**KINDS["supervised"])
    with pytest.raises(Interrupted):
        train(config, out=tmp_path, device="cpu", callbacks=[Stop(7)])
    (run,) = map(Run, tmp_path.rglob("seed-0"))
    tensors, meta = checkpoint.load(run.state_file)
    header = json.loads(run.config_file.read_text())
    for old in (meta["config"], header["config"]):
        assert old.pop("even_states") is False
    checkpoint.save(run.state_file, tensors, meta)
    run.config_file.write_text(json.dumps(header))
    ear = Listen()
    same_run(train(config, out=tmp_path, device="cpu", callbacks=[ear]), uncut("supervised"))
    assert ear.resumed == [True]


def test_every_start_is_noted(small, tmp_path):
    """Where the run began stays; each start adds a line that says when, where and from which step."""
    config = small(**KINDS["supervised"])
    for cut in (2, 3):
        with pytest.raises(Interrupted):
            train(config, out=tmp_path, device="cpu", callbacks=[Stop(cut)])
        (file,) = tmp_path.rglob("env.json")
        environment = json.loads(file.read_text())
        file.write_text(json.dumps(environment | {"torch": "0.1"}))  # as another machine had it
    run = train(config, out=tmp_path, device="cpu")
    assert run.environment["torch"] == "0.1"
    assert [(s["epoch"], s["step"], s["torch"]) for s in run.environment["starts"]] == [
        (0, 0, torch.__version__), (0, 2, torch.__version__), (0, 3, torch.__version__),
    ]  # fmt: skip


def test_a_state_of_another_seed_is_refused(small, tmp_path):
    config = small(**KINDS["supervised"])
    with pytest.raises(Interrupted):
        train(config, out=tmp_path, device="cpu", callbacks=[Stop(7)])
    (state,) = tmp_path.rglob("latest.safetensors")
    tensors, meta = checkpoint.load(state)
    checkpoint.save(state, tensors, meta | {"seed": 1})
    with pytest.raises(RequestError, match="another config or seed"):
        train(config, out=tmp_path, device="cpu")


def test_signals_are_handled_as_before_once_a_run_is_over(small, uncut, tmp_path):
    before = [signal.getsignal(s) for s in (signal.SIGINT, signal.SIGTERM)]
    with pytest.raises(Interrupted):
        train(small(**KINDS["learned-ema"]), out=tmp_path, device="cpu", callbacks=[Stop(1)])
    assert [signal.getsignal(s) for s in (signal.SIGINT, signal.SIGTERM)] == before


@pytest.fixture(scope="module")
def command(digits) -> list[str]:
    """A command that takes about a second; the directory is to be added."""
    knobs = {"world": digits, "latent": 16, "epochs": 20, "batch-size": 48, "lr": 1e-3, "precision": "float32"}
    words = ["train", "mnist/bro-mlp-mfr-learned", *(w for name, v in knobs.items() for w in (f"--{name}", str(v)))]
    return [*words, "--device", "cpu", "--json", "--out"]


@pytest.fixture(scope="module")
def straight(command, cli, tmp_path_factory) -> Run:
    out = tmp_path_factory.mktemp("straight")
    assert cli(*command, out).code == 0
    return Run(next(out.rglob("result.json")).parent)


@pytest.mark.parametrize(("number", "code"), [("SIGINT", 130), ("SIGTERM", 130), ("SIGKILL", -9)])
def test_a_process_stopped_by_a_signal_is_resumed_by_the_same_command(number, code, command, straight, cli, tmp_path):
    """A real process and a real signal, sent once its first epoch is out."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(
        [sys.executable, "-m", "brojepa", *command, str(tmp_path)], env=environment, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    try:
        assert json.loads(process.stdout.readline())["epoch"] == 1
        process.send_signal(getattr(signal, number))
        _, err = process.communicate(timeout=240)
    finally:
        process.kill()
    assert process.returncode == code
    assert not list(tmp_path.rglob("result.json")), "it was not finished"
    if code == 130:
        assert "same command" in err
        assert len(err.splitlines()) == 1, err
    again = cli(*command, tmp_path)
    assert again.code == 0, again.err
    same_run(Run(next(tmp_path.rglob("result.json")).parent), straight)


def test_a_finished_run_is_left_as_it_is(small, uncut):
    run, ear = uncut("learned-ema"), Listen()
    before = {p: p.stat().st_mtime_ns for p in run.path.rglob("*.json*")}
    again = train(small(**KINDS["learned-ema"]), out=run.path.parents[2], device="cpu", callbacks=[ear])
    assert again == run
    assert ear.done == [run]
    assert ear.resumed == []
    assert {p: p.stat().st_mtime_ns for p in run.path.rglob("*.json*")} == before


def test_a_second_process_on_a_run_is_refused(small, digits, tmp_path, brojepa_process):
    seen = []

    class Meanwhile(Callback):
        def begin(self, training: Training, resumed: bool) -> None:
            changed = small().to_dict()
            words = ["--world", digits, "--device", "cpu", "--out", tmp_path, "--quiet"]
            for name in ("latent", "precision", "epochs", "batch_size", "lr", "ema_decay"):
                words += [f"--{name.replace('_', '-')}", changed[name]]
            seen.append(brojepa_process("train", "mnist/bro-mlp-mfr-fixed", *words))

    train(small(), out=tmp_path, device="cpu", callbacks=[Meanwhile()])
    assert seen[0].code == 1
    assert "another process" in seen[0].err
    assert len(list(tmp_path.rglob("result.json"))) == 1


def test_other_images_at_the_same_path_are_another_run(small, digits, tmp_path):
    """Own images are known by their content."""
    moved = tmp_path / "moved"
    shutil.copytree(digits, moved)
    with pytest.raises(Interrupted):
        train(small(world=str(moved)), out=tmp_path / "runs", device="cpu", callbacks=[Stop(2)])
    labels = moved / "train-labels-idx1-ubyte"
    raw = bytearray(labels.read_bytes())
    raw[-1] = (raw[-1] + 1) % 10
    labels.write_bytes(raw)
    ear = Listen()
    train(small(world=str(moved)), out=tmp_path / "runs", device="cpu", callbacks=[ear])
    assert ear.resumed == [False]
    assert len(list((tmp_path / "runs").rglob("config.json"))) == 2


# Divergence


def test_a_loss_that_is_not_finite_stops_the_run_and_names_where_and_what(small, tmp_path):
    with pytest.raises(RunError) as error:
        train(small(lr=1e30), out=tmp_path, device="cpu")
    text = str(error.value)
    assert "not finite at epoch 1, step 2 (" in text, "the first step that was bad, not the one that was looked at"
    for term in ("loss", "invariance", "variance", "covariance", "probe"):
        assert f"{term} " in text
    assert "inf" in text or "nan" in text
    assert "--lr" in text
    assert not list(tmp_path.rglob("result.json"))


@pytest.mark.parametrize("every_step", [True, False])
def test_what_is_on_disk_after_a_divergence_is_finite_and_goes_on(every_step, small, uncut, tmp_path, monkeypatch):
    """Weights spoiled in the middle of the second epoch; the next start goes on from before."""
    if every_step:
        monkeypatch.setattr("brojepa.training.loop.SAVE_EVERY", 0.0)

    class Spoil(Callback):
        def step(self, training: Training) -> None:
            if (training.epoch, training.step) == (1, 2):
                with torch.no_grad():
                    training.log[1, 0] = math.nan  # what a diverged step writes

    with pytest.raises(RunError, match="not finite at epoch 2, step 2"):
        train(small(**KINDS["learned-ema"]), out=tmp_path, device="cpu", callbacks=[Spoil()])
    run = Run(next(tmp_path.rglob("config.json")).parent)
    for file in (run.state_file, run.model_file):
        tensors, _ = checkpoint.load(file)
        assert all(t.isfinite().all() for t in tensors.values())
    z = brojepa.load(run.path, device="cpu").encode(np.zeros((1, 28, 28), np.uint8))
    assert z.isfinite().all()
    same_run(train(small(**KINDS["learned-ema"]), out=tmp_path, device="cpu"), uncut("learned-ema"))


def test_a_divergence_late_in_a_run_keeps_the_epochs_before_it(small, tmp_path):
    """The learning rate explodes after the first epoch."""

    class Explode(Callback):
        def epoch(self, training: Training, row: dict[str, Any]) -> None:
            training.rates = [1e30] * len(training.rates)

    with pytest.raises(RunError, match="not finite at epoch 2, step 2"):
        train(small(), out=tmp_path, device="cpu", callbacks=[Explode()])
    run = Run(next(tmp_path.rglob("config.json")).parent)
    assert len(run.metrics) == 1
    for file in (run.state_file, run.model_file):
        assert all(t.isfinite().all() for t in checkpoint.load(file)[0].values())
