"""What the end of a run advises: said where it is true, silent where all is well, and a cure that cures."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import pytest
import torch
from helpers import model

from brojepa import Callback, Config, PoseWorld, World, preset, train
from brojepa.config import parse
from brojepa.groups import Cyclic
from brojepa.training.hints import ENOUGH, hints, staleness

ROWS = [{"seen": 0.97}, {"seen": 0.972}]
WELL: dict[str, Any] = {"metrics": {"seen": 0.97, "zero_shot": 0.968}, "angles": [2 * math.pi / 10 * k for k in (1, 3)]}
FAST = preset("mnist/fast")


def said(config: Config = FAST, rows=ROWS, result=WELL, steps: int = 200, stale: float = 0.0, n: int = 10) -> list[str]:
    return hints(config, Cyclic(n), rows, result, steps, stale)


def lagging(zero_shot: float | None) -> dict[str, Any]:
    return WELL | {"metrics": {"seen": 0.97, "zero_shot": zero_shot}}


def test_a_healthy_run_is_told_nothing():
    assert said() == []
    assert said(result=lagging(None)) == [], "two states have no held-out action"


@pytest.mark.parametrize(
    ("knobs", "flags"),
    [
        ({}, ["--target relaxed", "--relax-steps 40"]),
        ({"action": "mfr-fixed", "target": "relaxed", "relax_steps": 3}, ["--relax-steps 40"]),
        ({"target": "relaxed", "relax_steps": 40}, ["--action mfr-fixed"]),
        ({"action": "additive"}, ["--action mfr-fixed", "--target relaxed", "--relax-steps 40"]),
        ({"action": "mfr-fixed", "target": "relaxed", "relax_steps": 40}, ["--epochs 10"]),
        ({"method": "supervised"}, ["--method jepa"]),
    ],
)
def test_a_lag_is_cured_by_what_is_missing_and_by_nothing_that_is_there(knobs, flags):
    (hint,) = said(FAST.replace(**knobs), result=lagging(0.6))
    assert "zero-shot 0.6000 lags behind seen 0.9700" in hint
    assert re.findall(r"--[a-z-]+ \S+", hint) == flags


@pytest.mark.parametrize(
    ("knobs", "flag"),
    [
        ({"action": "additive", "target": "sampled"}, "--action mfr-fixed"),
        ({"action": "mfr-fixed", "target": "sampled"}, "--target relaxed"),
        ({"action": "mfr-fixed", "target": "relaxed"}, "--epochs 10"),
    ],
)
def test_a_lag_among_poses_has_its_own_cure(knobs, flag):
    config = FAST.replace(epochs=5, **knobs)
    (hint,) = hints(config, Cyclic(72), ROWS, lagging(0.6) | {"angles": None}, 200, 0.0, labelled=False)
    assert "zero-shot 0.6000 lags behind seen 0.9700" in hint
    assert re.findall(r"--[a-z-]+ \S+", hint) == [flag]
    assert hints(config, Cyclic(72), ROWS, WELL, 200, 0.0, labelled=False) == []
    (short,) = hints(config, Cyclic(72), [{"seen": 0.5}, {"seen": 0.6}], WELL, 200, 0.0, labelled=False)
    assert "--epochs 10" in short


def test_the_end_of_a_short_run_on_views_says_so(tmp_path):
    rng = np.random.default_rng(0)
    views = rng.integers(0, 256, (24, 8, 8), dtype=np.uint8)
    world = PoseWorld.from_arrays("table", views, np.repeat([0, 1], 12), np.tile(np.arange(12), 2), "Z12")
    heard: list[str] = []

    class Hear(Callback):
        def hint(self, text: str) -> None:
            heard.append(text)

    train(world=world, out=tmp_path, encoder="mlp", epochs=1, callbacks=[Hear()])
    assert any("--epochs" in line for line in heard)


def test_angles_in_between_are_reported_and_settled_ones_are_not():
    loose = WELL | {"angles": [2 * math.pi / 10 * k for k in (1, 3.4, 2)]}
    (hint,) = said(result=loose)
    assert "1 of 3 learned angles" in hint
    assert "--action mfr-fixed" in hint
    assert said(FAST.replace(action="mfr-fixed"), result=loose) == [], "fixed ones are where they were put"


def test_a_short_run_is_told_how_long_to_go_on():
    rising = [{"seen": 0.5}, {"seen": 0.6}]
    (hint,) = said(rows=rising, steps=3)
    assert "too short" in hint
    assert f"--epochs {math.ceil(ENOUGH / 3)}" in hint
    (hint,) = said(rows=rising, steps=1000)
    assert f"--epochs {2 * FAST.epochs}" in hint
    (hint,) = said(FAST.replace(epochs=1), rows=[{"seen": 0.6}], steps=4, stale=0.5)
    assert "batch norm" in hint
    assert "4 steps" in hint


class Hear(Callback):
    """Warnings and hints."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def warning(self, text: str) -> None:
        self.said.append(text)

    hint = warning


class Digits:
    """Training on the digits of scikit-learn, 8 x 8 pixels."""

    def __init__(self, place) -> None:
        data = pytest.importorskip("sklearn.datasets").load_digits()
        images, labels = (data.images * 255 / 16).round().astype(np.uint8), data.target
        self.world = World.from_arrays("digits", (images[:1400], labels[:1400]), (images[1400:], labels[1400:]))
        self.place = place

    def __call__(self, **knobs) -> tuple[dict[str, Any], list[str]]:
        ear = Hear()
        run = train("mnist/fast", world=self.world, out=self.place, callbacks=[ear], device="cpu",
                    **{"precision": "float32", **knobs})  # fmt: skip
        return run.result["metrics"], ear.said


@pytest.fixture(scope="module")
def digits(tmp_path_factory):
    return Digits(tmp_path_factory.mktemp("runs"))


def advised(*hints: str) -> dict[str, Any]:
    """The knobs that hints advise."""
    pairs = [pair for hint in hints for pair in re.findall(r"--([a-z-]+) (\S+)", hint)]
    return {name.replace("-", "_"): parse(name.replace("-", "_"), value) for name, value in pairs}


def test_a_run_of_a_few_steps_is_called_short_not_collapsed_and_its_cure_cures(digits):
    _, warnings = digits(epochs=1, batch_size=64)
    assert not any("collapsed" in line for line in warnings)
    (lag,) = [line for line in warnings if "batch norm" in line]
    assert advised(lag)["epochs"] > 20
    metrics, after = digits(batch_size=64, **advised(*warnings))
    assert not any("batch norm" in line or "too short" in line for line in after)
    assert metrics["seen"] > 0.95


def test_the_cure_of_a_lag_closes_it(digits):
    short = {"epochs": 5, "batch_size": 64}
    before, warnings = digits(**short)
    (lag,) = [line for line in warnings if "lags behind" in line]
    loose = [line for line in warnings if "learned angles" in line]
    assert before["seen"] - before["zero_shot"] > 0.1
    after, warnings = digits(**short, **advised(lag, *loose))
    assert after["seen"] - after["zero_shot"] < 0.02
    assert not any("lags behind" in line or "learned angles" in line for line in warnings)


def test_statistics_are_stale_where_they_are_not_those_of_the_images():
    net = model(encoder="cnn", standardise=True).eval()
    images = torch.randint(0, 256, (64, 1, 8, 8), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    before = {name: value.clone() for name, value in net.state_dict().items()}
    assert staleness(net, images) > 0.1
    net.train()
    for _ in range(100):
        net.encode(images)
    assert staleness(net, images) < 1e-3
    net.load_state_dict(before)
    staleness(net, images)
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items()), "measured on a copy"
    assert staleness(model(encoder="mlp"), images) == 0
