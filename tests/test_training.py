"""Training: a run is a function of config and seed, however often it is cut; it learns, and says when it does not."""

from __future__ import annotations

import json
import math
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from helpers import config, model

import brojepa
from brojepa import checkpoint
from brojepa.errors import Interrupted, RequestError, RunError
from brojepa.progress import Reporter
from brojepa.runs import Run
from brojepa.training import Training, _optimizer, _schedule, train
from brojepa.worlds import open_world

KINDS: dict[str, dict[str, Any]] = {
    "learned-ema": {"action": "mfr-learned"},
    "cnn-mean": {
        "encoder": "cnn", "action": "mfr-learned", "target": "mean", "target_encoder": "stop-gradient", "shift": 1,
        "warp": 0.1, "width": 2, "every_action": True, "schedule": "one-cycle", "checkpoint": "last",
    },
    "relaxed": {"target": "relaxed", "every_action": True, "shift": 2, "schedule": "one-cycle"},
    "supervised": {"method": "supervised", "action": "sfr-learned"},
    "consistency": {"action": "additive", "consistency": 0.1, "checkpoint": "last"},
}  # fmt: skip
STEPS, EPOCHS = 4, 3  # 480 of the 600 digits are trained on, 120 at a time


class Stop(Reporter):
    """A real signal at a step, counted from the start of the run; what a user's Ctrl-C does."""

    def __init__(self, at: int, number: int = signal.SIGINT) -> None:
        self.at, self.number = at, number

    def progress(self, training: Training) -> None:
        if training.epoch * training.steps + training.step == self.at:
            signal.raise_signal(self.number)


class Crash(Stop):
    """The process goes away at a step: nothing is saved any more."""

    def progress(self, training: Training) -> None:
        if training.epoch * training.steps + training.step == self.at:
            raise MemoryError


class Listen(Reporter):
    def __init__(self) -> None:
        self.warnings: list[str] = []
        self.resumed: list[bool] = []
        self.done: list[Run] = []

    def started(self, training: Training, resumed: bool) -> None:
        self.resumed.append(resumed)

    def warning(self, text: str) -> None:
        self.warnings.append(text)

    def already_done(self, run: Run) -> None:
        self.done.append(run)


@pytest.fixture(scope="module")
def small(digits: Path):
    """Configs on the small digits."""

    def of(**values: Any) -> brojepa.Config:
        return config(**{"world": str(digits), "latent": 16, "epochs": EPOCHS, "batch_size": 120, "lr": 1e-3, **values})

    return of


@pytest.fixture(scope="module")
def uncut(small, tmp_path_factory):
    """The run of each kind that nothing disturbed, made once."""
    out, runs = tmp_path_factory.mktemp("uncut"), {}

    def run(kind: str) -> Run:
        if kind not in runs:
            runs[kind] = train(small(**KINDS[kind]), out=out, device="cpu")
        return runs[kind]

    return run


TIMES = ("seconds", "evaluation_seconds", "images_per_second")


def without_times(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if name not in TIMES}


def same_run(a: Run, b: Run) -> None:
    """Bit for bit: the model, the rows, the result, and the state one could go on from."""
    for file in ("model_file", "state_file"):
        one, two = checkpoint.load(getattr(a, file))[0], checkpoint.load(getattr(b, file))[0]
        assert one.keys() == two.keys()
        for name in one:
            assert one[name].dtype == two[name].dtype
            assert torch.equal(one[name], two[name]), f"{file} {name}"
    assert [without_times(row) for row in a.metrics] == [without_times(row) for row in b.metrics]
    assert without_times(a.result) == without_times(b.result)


# Cut and resumed


@pytest.mark.parametrize("cuts", [(1,), (2, 7), (4, 5), (8,), (12,)], ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_a_run_cut_anywhere_and_resumed_is_the_run_that_was_not(kind, cuts, small, uncut, tmp_path):
    """Step 1, mid-epoch, the last step of an epoch, of the run, and several cuts in one run."""
    for number, cut in zip((signal.SIGINT, signal.SIGTERM), cuts, strict=False):
        with pytest.raises(Interrupted, match="resumes"):
            train(small(**KINDS[kind]), out=tmp_path, device="cpu", reporter=Stop(cut, number))
    ear = Listen()
    run = train(small(**KINDS[kind]), out=tmp_path, device="cpu", reporter=ear)
    assert ear.resumed == [True]
    same_run(run, uncut(kind))


@pytest.mark.parametrize("kind", ["learned-ema", "relaxed", "cnn-mean"])
@pytest.mark.parametrize("every_step", [True, False])
def test_a_run_that_crashed_goes_on_from_its_last_checkpoint(kind, every_step, small, uncut, tmp_path, monkeypatch):
    """Checkpoints at each step, or at epochs only; the crash comes six steps in, between two of them."""
    if every_step:
        monkeypatch.setattr("brojepa.training.SAVE_EVERY", 0.0)
    for _ in range(2):
        with pytest.raises(MemoryError):
            train(small(**KINDS[kind]), out=tmp_path, device="cpu", reporter=Crash(6))
    same_run(train(small(**KINDS[kind]), out=tmp_path, device="cpu"), uncut(kind))


def test_a_crash_between_the_model_and_the_checkpoint_does_no_harm(small, uncut, tmp_path):
    """The epoch's model is on disk, the state that led to it is not."""

    class Between(Reporter):
        def epoch(self, training: Training, row: dict[str, Any]) -> None:
            if row["epoch"] == 2:
                raise MemoryError

    with pytest.raises(MemoryError):
        train(small(**KINDS["learned-ema"]), out=tmp_path, device="cpu", reporter=Between())
    same_run(train(small(**KINDS["learned-ema"]), out=tmp_path, device="cpu"), uncut("learned-ema"))


def test_signals_are_handled_as_before_once_a_run_is_over(small, uncut, tmp_path):
    before = [signal.getsignal(s) for s in (signal.SIGINT, signal.SIGTERM)]
    with pytest.raises(Interrupted):
        train(small(**KINDS["learned-ema"]), out=tmp_path, device="cpu", reporter=Stop(1))
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
        _, err = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == code
    assert not list(tmp_path.rglob("result.json")), "it was not finished"
    if code == 130:
        assert "the same command resumes it" in err
        assert len(err.splitlines()) == 1, err
    again = cli(*command, tmp_path)
    assert again.code == 0, again.err
    same_run(Run(next(tmp_path.rglob("result.json")).parent), straight)


def test_a_finished_run_is_left_as_it_is(small, uncut):
    run, ear = uncut("learned-ema"), Listen()
    before = {p: p.stat().st_mtime_ns for p in run.path.rglob("*.json*")}
    again = train(small(**KINDS["learned-ema"]), out=run.path.parents[2], device="cpu", reporter=ear)
    assert again == run
    assert ear.done == [run]
    assert ear.resumed == []
    assert {p: p.stat().st_mtime_ns for p in run.path.rglob("*.json*")} == before


def test_a_second_process_on_a_run_is_refused(small, digits, tmp_path, brojepa_process):
    seen = []

    class Meanwhile(Reporter):
        def started(self, training: Training, resumed: bool) -> None:
            changed = small().to_dict()
            words = ["--world", digits, "--device", "cpu", "--out", tmp_path, "--quiet"]
            for name in ("latent", "precision", "epochs", "batch_size", "lr", "ema_decay"):
                words += [f"--{name.replace('_', '-')}", changed[name]]
            seen.append(brojepa_process("train", "mnist/bro-mlp-mfr-fixed", *words))

    train(small(), out=tmp_path, device="cpu", reporter=Meanwhile())
    assert seen[0].code == 1
    assert "is being trained by another process" in seen[0].err
    assert len(list(tmp_path.rglob("result.json"))) == 1


def test_a_run_directory_of_another_world_is_refused(small, digits, tmp_path):
    """The config has a path in it; the images behind that path may have changed."""
    moved = tmp_path / "moved"
    shutil.copytree(digits, moved)
    with pytest.raises(Interrupted):
        train(small(world=str(moved)), out=tmp_path / "runs", device="cpu", reporter=Stop(2))
    labels = moved / "train-labels-idx1-ubyte"
    raw = bytearray(labels.read_bytes())
    raw[-1] = (raw[-1] + 1) % 10
    labels.write_bytes(raw)
    with pytest.raises(RequestError, match=r"holds another run \(world sha256"):
        train(small(world=str(moved)), out=tmp_path / "runs", device="cpu")


# Seeds


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_seed_gives_the_same_run_and_another_seed_another(kind, small, uncut, tmp_path):
    torch.manual_seed(999)  # the global generator has no say
    same_run(train(small(**KINDS[kind]), out=tmp_path, device="cpu"), uncut(kind))
    if kind == "learned-ema":
        other = train(small(**KINDS[kind]), seed=1, out=tmp_path, device="cpu")
        one, two = (checkpoint.load(r.model_file)[0] for r in (uncut(kind), other))
        assert not torch.equal(one["encoder.net.1.weight"], two["encoder.net.1.weight"])
        assert not torch.equal(one["action.theta"], two["action.theta"])
        assert other.metrics[0]["loss"] != uncut(kind).metrics[0]["loss"]


# Divergence and collapse


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
        monkeypatch.setattr("brojepa.training.SAVE_EVERY", 0.0)

    class Spoil(Reporter):
        def progress(self, training: Training) -> None:
            if (training.epoch, training.step) == (1, 2):
                with torch.no_grad():
                    training.log[1, 0] = math.nan  # what a diverged step writes

    with pytest.raises(RunError, match="not finite at epoch 2, step 2"):
        train(small(**KINDS["learned-ema"]), out=tmp_path, device="cpu", reporter=Spoil())
    run = Run(next(tmp_path.rglob("config.json")).parent)
    for file in (run.state_file, run.model_file):
        tensors, _ = checkpoint.load(file)
        assert all(t.isfinite().all() for t in tensors.values())
    z = brojepa.load(run.path, device="cpu").encode(np.zeros((1, 28, 28), np.uint8))
    assert z.isfinite().all()
    same_run(train(small(**KINDS["learned-ema"]), out=tmp_path, device="cpu"), uncut("learned-ema"))


def test_a_divergence_late_in_a_run_keeps_the_epochs_before_it(small, tmp_path):
    """The learning rate explodes after the first epoch."""

    class Explode(Reporter):
        def epoch(self, training: Training, row: dict[str, Any]) -> None:
            training.rates = [1e30] * len(training.rates)

    with pytest.raises(RunError, match="not finite at epoch 2, step 2"):
        train(small(), out=tmp_path, device="cpu", reporter=Explode())
    run = Run(next(tmp_path.rglob("config.json")).parent)
    assert len(run.metrics) == 1
    for file in (run.state_file, run.model_file):
        assert all(t.isfinite().all() for t in checkpoint.load(file)[0].values())


def test_a_collapse_is_warned_of_and_a_healthy_run_is_not(small, tmp_path):
    collapsed, healthy = Listen(), Listen()
    free = {"variance": 0.0, "covariance": 0.0, "target_encoder": "stop-gradient"}
    shared = {"batch_size": 32, "lr": 3e-3, "epochs": 3}
    run = train(small(**shared, **free), out=tmp_path, device="cpu", reporter=collapsed)
    assert any("collapsed" in text and "--variance" in text for text in collapsed.warnings)
    other = train(small(**shared), out=tmp_path, device="cpu", reporter=healthy)
    assert healthy.warnings == []
    for r in (run, other):
        assert [row["epoch"] for row in r.metrics] == [1, 2, 3]
        assert all({"latent_std", "latent_scale", "effective_rank"} <= row.keys() for row in r.metrics)
    assert run.metrics[-1]["latent_scale"] < 0.1 < other.metrics[-1]["latent_scale"]
    assert 1 <= other.metrics[-1]["effective_rank"] <= 16


# What a run leaves behind


@pytest.mark.parametrize("kind", KINDS)
def test_result_has_what_the_contract_promises(kind, uncut, small):
    result, values = uncut(kind).result, small(**KINDS[kind])
    types = {
        "world": str, "seed": int, "epochs": int, "seconds": float, "images_per_second": float, "zero_shot_kind": str,
        "metrics": dict, "per_action": dict, "validation_loss": float, "parameters": int,
    }  # fmt: skip
    for name, kind_of in types.items():
        assert type(result[name]) is kind_of, name
    assert result["preset"] is None
    assert (result["seed"], result["epochs"]) == (0, EPOCHS)
    assert result["zero_shot_kind"] == ("weak" if values.consistency else "strict")
    assert set(result["metrics"]) == {"train", "seen", "zero_shot", "rollout", "knn"}
    for name, value in result["metrics"].items():
        if name == "rollout" and values.method == "supervised":
            assert value is None
        else:
            assert 0 <= value <= 1, name
    assert set(result["per_action"]) == {f"{k:+d}" for k in range(-9, 10) if k}
    seen = [result["per_action"][k] for k in ("-1", "+1")]
    assert result["metrics"]["seen"] == pytest.approx(sum(seen) / 2)
    assert result["seconds"] > 0
    assert result["images_per_second"] > 0
    loaded = brojepa.load(uncut(kind).path, device="cpu")
    angles = loaded.action.angles
    assert result["angles"] == (None if angles is None else angles.tolist())
    trainable = [p for n, p in loaded.named_parameters() if not n.startswith("slow.")]
    assert result["parameters"] == sum(p.numel() for p in trainable)


@pytest.mark.parametrize("kind", KINDS)
def test_metrics_have_a_row_an_epoch_with_every_term(kind, uncut, small):
    values, rows = small(**KINDS[kind]), uncut(kind).metrics
    assert [row["epoch"] for row in rows] == list(range(1, EPOCHS + 1))
    assert [row["step"] for row in rows] == [STEPS * e for e in range(1, EPOCHS + 1)]
    terms = {"loss", "validation_loss", "seen", "zero_shot", "latent_std", "effective_rank", "images_per_second"}
    if values.method == "jepa":
        terms |= {"invariance", "variance", "covariance", "probe"}
    if values.consistency:
        terms |= {"consistency"}
    for row in rows:
        assert terms <= row.keys()
        assert all(math.isfinite(row[name]) for name in terms)
        learned = values.action.endswith("learned")
        assert ("angles" in row) == learned
        if learned:
            assert len(row["angles"]) == (1 if values.action.startswith("sfr") else 8)
    if learned:
        assert rows[0]["angles"] != rows[1]["angles"], "they move"


@pytest.mark.parametrize("kind", ["learned-ema", "consistency"])
def test_the_kept_model_is_the_best_by_validation_loss_or_the_last(kind, uncut, small, tmp_path):
    run = uncut(kind)
    validation = [row["validation_loss"] for row in run.metrics]
    kept = EPOCHS if small(**KINDS[kind]).checkpoint == "last" else 1 + validation.index(min(validation))
    assert run.result["kept_epoch"] == kept
    assert run.result["validation_loss"] == validation[kept - 1]


def test_a_worse_epoch_does_not_replace_the_best(small, tmp_path):
    """The second epoch is spoiled by a learning rate far too high; the first must be kept, and the last where asked."""

    class Worsen(Reporter):
        def epoch(self, training: Training, row: dict[str, Any]) -> None:
            training.rates = [1.0] * len(training.rates)

    for keep, wanted in (("best", 1), ("last", 2)):
        run = train(small(epochs=2, checkpoint=keep), out=tmp_path, device="cpu", reporter=Worsen())
        assert run.metrics[1]["validation_loss"] > run.metrics[0]["validation_loss"]
        assert run.result["kept_epoch"] == wanted
        assert run.result["validation_loss"] == run.metrics[wanted - 1]["validation_loss"]


# The optimiser


def test_angles_have_no_weight_decay_and_each_part_its_own_rate():
    values = config(action="mfr-learned", lr=1e-3, angle_lr=3.0, probe_lr=7.0, weight_decay=0.5)
    m = model(action="mfr-learned")
    optimizer, rates = _optimizer(m, values)
    names = {id(p): n for n, p in m.named_parameters()}
    found = {}
    for group, rate in zip(optimizer.param_groups, rates, strict=True):
        for p in group["params"]:
            assert id(p) not in found
            found[id(p)] = True
            part = names[id(p)].split(".")[0]
            assert part != "slow"
            factor, decay = {"action": (3, 0.0), "classifier": (7, 0.5), "encoder": (1, 0.5)}[part]
            assert (rate, group["weight_decay"]) == (pytest.approx(1e-3 * factor), decay)
    assert {names[i] for i in found} == {n for n, p in m.named_parameters() if p.requires_grad}


@pytest.mark.parametrize("total", [5, 10, 12, 100, 1875])
def test_one_cycle_rises_to_its_peak_once_and_falls_towards_zero(total):
    factors = [_schedule("one-cycle", step, total) for step in range(total)]
    peak = factors.index(max(factors))
    assert factors[: peak + 1] == sorted(factors[: peak + 1])
    assert factors[peak:] == sorted(factors[peak:], reverse=True)
    assert all(0 <= f <= 1 + 1e-12 for f in factors), "--lr is the peak, and is not exceeded"
    assert max(factors) > 0.8
    assert factors[-1] < 0.5
    assert peak < total / 2
    assert {_schedule("constant", step, total) for step in range(total)} == {1.0}


def test_the_precision_that_auto_chooses_works_on_this_machine(digits, tmp_path, brojepa_process):
    """In a process of its own: bfloat16 on a CPU that only claims to have it ends in an illegal instruction."""
    words = ("--world", digits, "--encoder", "cnn", "--precision", "auto", "--epochs", 1, "--batch-size", 48, "--quiet")
    outcome = brojepa_process("train", "mnist/bro-mlp-mfr-fixed", *words, "--device", "cpu", "--out", tmp_path)
    assert outcome.code == 0, f"exit code {outcome.code}: {outcome.err}"
    assert len(list(tmp_path.rglob("result.json"))) == 1


# The Python interface


def test_a_trained_model_is_loaded_and_predicts_what_its_result_says(uncut, digits):
    run = uncut("learned-ema")
    m = brojepa.load(run.path, device="cpu")
    world = open_world(str(digits))
    with torch.no_grad():
        z = m.encode(world.test.images)
        assert z.shape == (200, 16)
        for k in (-7, 1, 2):
            right = m.classify(m.act(z, k)) == (world.test.states + k) % 10
            assert run.result["per_action"][f"{k:+d}"] == pytest.approx(right.double().mean().item())
        path = m.rollout(z, 1, 3)
        assert path.shape == (4, 200, 16)
        assert torch.allclose(path[3], m.act(z, 3), atol=1e-4)
    assert not m.training
    assert m.zero_shot_kind((2, 3)) == "strict"


def test_evaluating_a_run_again_gives_its_result(uncut):
    for kind in ("cnn-mean", "supervised"):
        run = uncut(kind)
        again = brojepa.evaluate_run(run.path, device="cpu")
        assert again["same_images"]
        assert {name: again[name] for name in ("metrics", "per_action", "by_state", "zero_shot_kind")} == {
            name: run.result[name] for name in ("metrics", "per_action", "by_state", "zero_shot_kind")
        }


def test_train_takes_the_name_of_a_preset_and_refuses_others(tmp_path):
    with pytest.raises(RequestError, match="unknown preset 'mnist/fsat': did you mean mnist/fast"):
        brojepa.train("mnist/fsat", out=tmp_path)
    assert not list(tmp_path.iterdir())


# It learns


def test_the_rule_is_learned_from_plus_and_minus_one(tmp_path):
    """3,000 real digits and a few seconds: far above chance on actions never given. A broken objective is not."""
    mnist = open_world("mnist")
    parts = {
        "images": mnist.train.images[:3000, 0], "labels": mnist.train.states[:3000],
        "test_images": mnist.test.images[:500, 0], "test_labels": mnist.test.states[:500],
    }  # fmt: skip
    np.savez(tmp_path / "small.npz", **{name: t.numpy() for name, t in parts.items()})
    values = config(
        world=str(tmp_path / "small.npz"), latent=64, target="relaxed", target_encoder="stop-gradient",
        regularise="context", every_action=True, epochs=4, batch_size=64, lr=2e-3, probe_lr=3.0, schedule="one-cycle",
    )  # fmt: skip
    result = train(values, out=tmp_path, device="cpu").result
    metrics = result["metrics"]
    assert min(metrics["seen"], metrics["zero_shot"], metrics["rollout"], metrics["knn"]) > 0.8, metrics
    assert min(result["per_action"].values()) > 0.7
    assert result["zero_shot_kind"] == "strict"


def test_speed_counts_the_whole_epoch_whatever_is_saved_on_the_way(small, tmp_path, monkeypatch):
    monkeypatch.setattr("brojepa.training.SAVE_EVERY", 0.0)
    run = train(small(batch_size=16), out=tmp_path, device="cpu")
    images = 16 * (480 // 16)
    spent = sum(images / row["images_per_second"] for row in run.metrics)
    assert 0.2 * run.result["seconds"] < spent <= run.result["seconds"]
