"""The default recipe on own images, with no flag but the world: what docs/own-images.md promises."""

from __future__ import annotations

import json
from pathlib import Path

import own_worlds
import pytest
from helpers import blobs

import brojepa
from brojepa.runs import Run
from brojepa.sweep.jobs import plan
from brojepa.worlds import World


def metrics(world: str | Path | World, place: Path, **knobs) -> dict[str, float]:
    return brojepa.train(world=world, out=place, **knobs).result["metrics"]


# Fast: what is chosen, printed, kept and overridden


@pytest.fixture(scope="module")
def own(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("own") / "blobs.npz"
    world = blobs(n=5, count=40, tests=10)
    own_worlds.save(path, world.train, world.test)
    return path


SHORT = ("--epochs", 6, "--batch-size", 16, "--precision", "float32")


def test_the_command_says_what_it_chose_learns_and_keeps_the_knobs(cli, own, tmp_path):
    done = cli("train", "--world", own, *SHORT, "--out", tmp_path)
    assert done.code == 0, done.err
    (line,) = [line for line in done.out.splitlines() if line.startswith("chosen")]
    for flag in ("--action mfr-fixed", "--target relaxed", "--relax-steps 10", "--shift 1"):
        assert flag in line
    assert "--epochs" not in line, "that was the user's choice"
    (file,) = tmp_path.rglob("config.json")
    header = json.loads(file.read_text())
    assert header["base"] == "own/auto"
    chosen = {"relax_steps": 10, "target": "relaxed", "batch_size": 16, "epochs": 6, "repeat": 1, "validation": 20}
    assert chosen.items() <= header["config"].items()
    found = Run(file.parent).result["metrics"]
    assert found["seen"] > 0.9
    assert abs(found["seen"] - found["zero_shot"]) < 0.05
    again = cli("train", "--world", own, *SHORT, "--out", tmp_path)
    assert "is finished" in again.out


def test_python_and_a_sweep_make_the_same_run(own, tmp_path):
    knobs = {"epochs": 1, "batch_size": 16, "precision": "float32"}
    run = brojepa.train(world=own, out=tmp_path, **knobs)
    (job,) = plan(["own/auto"], [0], tmp_path, changes={"world": str(own), **knobs})
    assert job.run.path == run.path
    assert job.config == run.config
    same = ["--batch-size=16", "--epochs=1", "--precision=float32", "--repeat=1", f"--world={own}"]
    assert sorted(job.flags) == same, "what a process of its own is told, which chooses the rest again"


def test_a_named_preset_is_left_alone(own, tmp_path):
    (job,) = plan(["mnist/fast"], [0], tmp_path, changes={"world": str(own)})
    assert job.config.target == "mean"
    assert brojepa.preset("mnist/fast").replace(world=job.config.world) == job.config


def test_a_flag_that_does_not_fit_is_refused_in_a_line(cli, own, tmp_path):
    done = cli("train", "--world", own, "--epochs", 0, "--out", tmp_path)
    assert done.code == 2
    assert "--epochs" in done.err
    assert not list(tmp_path.iterdir())


# Slow: the promises. Times are for two quiet cores, so they are not asserted here.


@pytest.mark.slow
def test_fashion(tmp_path):
    if not own_worlds.FASHION.is_dir():
        pytest.skip("needs the Debian package dataset-fashion-mnist")
    found = metrics(own_worlds.FASHION, tmp_path)
    assert found["seen"] >= 0.915
    assert found["zero_shot"] >= found["seen"] - 0.01


@pytest.mark.slow
def test_the_digits_of_scikit_learn_as_a_folder(tmp_path):
    pytest.importorskip("sklearn")
    found = metrics(own_worlds.write(tmp_path, "digits"), tmp_path / "runs")
    assert min(found["seen"], found["zero_shot"]) >= 0.985


@pytest.mark.slow
def test_a_hundred_images_per_state(tmp_path):
    world = own_worlds.write(tmp_path, "mnist100.npz")
    found = metrics(world, tmp_path / "runs")
    supervised = metrics(world, tmp_path / "runs", method="supervised")
    assert found["zero_shot"] >= found["seen"] - 0.01
    assert found["seen"] >= supervised["seen"] - 0.01


OTHERS = "two three five hundred colour bars rows textures glyphs"


@pytest.mark.slow
@pytest.mark.parametrize("name", [f"{name}.npz" for name in OTHERS.split()])
def test_any_number_of_states_and_kind_of_image(tmp_path, name):
    found = metrics(own_worlds.write(tmp_path, name), tmp_path / "runs")
    assert found["seen"] > 0.9
    assert found["zero_shot"] is None or found["zero_shot"] >= found["seen"] - 0.02
