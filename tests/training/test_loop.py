"""Training: a run is a function of config and seed, leaves what it promises, learns, and says when it does not."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from helpers import config, model
from small_runs import EPOCHS, KINDS, STEPS, Listen, same_run

import brojepa
from brojepa.errors import RequestError
from brojepa.runs import checkpoint
from brojepa.training import Callback, Training, train
from brojepa.training import optimiser as optimisation
from brojepa.worlds import open_world

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


# Collapse


def test_a_collapse_is_warned_of_and_a_healthy_run_is_not(small, tmp_path):
    collapsed, healthy = Listen(), Listen()
    free = {"variance": 0.0, "covariance": 0.0, "target_encoder": "stop-gradient"}
    shared = {"batch_size": 32, "lr": 3e-3, "epochs": 3}
    run = train(small(**shared, **free), out=tmp_path, device="cpu", callbacks=[collapsed])
    assert any("collapsed" in text and "--variance" in text for text in collapsed.warnings)
    other = train(small(**shared), out=tmp_path, device="cpu", callbacks=[healthy])
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

    class Worsen(Callback):
        def epoch(self, training: Training, row: dict[str, Any]) -> None:
            training.rates = [1.0] * len(training.rates)

    for keep, wanted in (("best", 1), ("last", 2)):
        run = train(small(epochs=2, checkpoint=keep), out=tmp_path, device="cpu", callbacks=[Worsen()])
        assert run.metrics[1]["validation_loss"] > run.metrics[0]["validation_loss"]
        assert run.result["kept_epoch"] == wanted
        assert run.result["validation_loss"] == run.metrics[wanted - 1]["validation_loss"]


# The optimiser


def test_angles_have_no_weight_decay_and_each_part_its_own_rate():
    values = config(action="mfr-learned", lr=1e-3, angle_lr=3.0, probe_lr=7.0, weight_decay=0.5)
    m = model(action="mfr-learned")
    optimizer, rates = optimisation.optimizer(m, values)
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
    factors = [optimisation.share_of_peak("one-cycle", step, total) for step in range(total)]
    peak = factors.index(max(factors))
    assert factors[: peak + 1] == sorted(factors[: peak + 1])
    assert factors[peak:] == sorted(factors[peak:], reverse=True)
    assert all(0 <= f <= 1 + 1e-12 for f in factors), "--lr is the peak, and is not exceeded"
    assert max(factors) > 0.8
    assert factors[-1] < 0.5
    assert peak < total / 2
    assert {optimisation.share_of_peak("constant", step, total) for step in range(total)} == {1.0}


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
    monkeypatch.setattr("brojepa.training.loop.SAVE_EVERY", 0.0)
    run = train(small(batch_size=16), out=tmp_path, device="cpu")
    images = 16 * (480 // 16)
    spent = sum(images / row["images_per_second"] for row in run.metrics)
    assert 0.2 * run.result["seconds"] < spent <= run.result["seconds"]
