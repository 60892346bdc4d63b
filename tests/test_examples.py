"""The examples run, are as short as they promise, and what they show is true. Small data stand in for MNIST."""

from __future__ import annotations

import csv
import importlib
import json
from types import ModuleType

import pytest
from helpers import ROOT

import brojepa

EXAMPLES = ROOT / "examples"
NAMES = sorted(path.stem for path in EXAMPLES.glob("*.py"))


@pytest.fixture
def example(tmp_path, monkeypatch):
    """An example by name, imported as a script in its own directory would be; runs go to a directory of their own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(EXAMPLES)
    return importlib.import_module


@pytest.fixture
def small(example) -> dict:
    """What makes a run small: 720 clocks, and float32 whatever the machine prefers."""
    clocks = example("own_data").clocks
    world = brojepa.World.from_arrays("clocks", train=clocks(720, seed=0), test=clocks(120, seed=1))
    return {"world": world, "batch_size": 32, "precision": "float32"}


def zero_shot(run: brojepa.Run) -> float:
    assert run.result["zero_shot_kind"] == "strict"
    return run.result["metrics"]["zero_shot"]


CHANCE = 1 / 12


@pytest.mark.parametrize("name", NAMES)
def test_an_example_is_short_and_says_how_it_is_run(name):
    text = (EXAMPLES / f"{name}.py").read_text()
    assert len(text.splitlines()) <= (100 if name == "minimal" else 60)
    assert f"    python examples/{name}.py " in text.split('"""')[1]
    assert 'if __name__ == "__main__":\n    main()\n' in text


def mean(right: dict[int, float], actions: list[int]) -> float:
    return sum(right[k] for k in actions) / len(actions)


def test_the_minimal_example_learns_from_few_images(example, capsys):
    minimal: ModuleType = example("minimal")
    right = minimal.main(images=2048, epochs=5)
    assert mean(right, [-1, 1]) > 0.8
    assert mean(right, minimal.HELD_OUT) > 0.25
    printed = capsys.readouterr().out.splitlines()
    assert [line for line in printed if line.startswith(("seen", "zero-shot"))]
    assert all(any(line.split() == [f"{k:+d}", f"{right[k]:.4f}"] for line in printed) for k in right if k)


@pytest.mark.slow
def test_the_minimal_example_reaches_what_it_promises(example):
    minimal = example("minimal")
    assert mean(minimal.main(), minimal.HELD_OUT) >= 0.95


def test_the_own_encoder_is_trained_and_loaded_again(example, small, capsys):
    run = example("own_encoder").main(epochs=8, **small)
    assert zero_shot(run) > 2 * CHANCE
    header = json.loads((run.path / "config.json").read_text())
    assert header["config"]["encoder"] == "own_encoder:vit"
    assert list(header["own_code"]) == ["own_encoder:vit"]
    with pytest.raises(brojepa.BrojepaError, match=r"own_encoder:vit.*--trust"):
        brojepa.load(run.path)
    assert "own_encoder:vit" in capsys.readouterr().out


def test_the_own_data_are_learned_and_an_unseen_action_is_right(example):
    measured = example("own_data").main(count=1200, epochs=4, precision="float32")
    assert measured["same_images"]
    assert measured["metrics"]["zero_shot"] > 0.9
    right = [(now + 5) % 12 == later for now, later in zip(measured["now"], measured["later"], strict=True)]
    assert sum(right) >= 11


def test_the_own_action_is_a_group_of_rotations_and_is_learned(example, small):
    run = example("own_action").main(epochs=3, **small)
    assert zero_shot(run) > 0.5
    model = brojepa.load(run.path, trust=True)
    z = model.encode(small["world"].test.images[:5])
    assert (model.act(model.act(z, 3), 4) - model.act(z, 7)).abs().max() < 1e-3
    assert (model.act(z, 3).norm(dim=1) / z.norm(dim=1) - 1).abs().max() < 1e-4


def test_the_own_regulariser_is_a_column_of_the_table(example, small, capsys):
    run = example("own_regulariser").main(epochs=3, **small)
    assert zero_shot(run) > 0.4
    assert all("uniformity" in row and "variance" not in row for row in run.metrics)
    assert "  uni  " in capsys.readouterr().out


def test_the_own_callback_hears_every_epoch_and_step(example, small, tmp_path):
    heard = example("own_callback").main(epochs=2, **small)
    rows = list(csv.DictReader((tmp_path / "epochs.csv").read_text().splitlines()))
    assert [row["epoch"] for row in rows] == ["1", "2"]
    (metrics,) = tmp_path.rglob("metrics.jsonl")
    told = [json.loads(line) for line in metrics.read_text().splitlines()]
    assert [float(row["zero_shot"]) for row in rows] == [row["zero_shot"] for row in told]
    assert heard.steps == told[-1]["step"]
    assert heard.file.closed
    again = example("own_callback").main(epochs=2, **small)
    assert (again.steps, again.file) == (0, None)  # the run was finished: nothing to hear
