"""Trained weights in the package: they load in one line, measure what their result.json says, and commands fall back on
them."""

from __future__ import annotations

import json
import runpy
import shutil
from pathlib import Path

import pytest
import torch
from conftest import Cli, one_line
from helpers import ROOT, says
from PIL import Image

import brojepa
from brojepa.demo.staging import BASELINES
from brojepa.errors import RequestError
from brojepa.evaluation import Latents, agrees, count_right, evaluate_run, world_of
from brojepa.models import action_sets
from brojepa.runs import find
from brojepa.runs.devices import cpu_name

PACKED = find.packed()
pack = runpy.run_path(str(ROOT / "tools" / "pack_weights.py"))["pack"]


def test_the_package_has_weights_and_each_is_small():
    assert {"mnist/fast", "rotation/fast", "torus/fast", "dihedral/fast"} <= set(PACKED)
    assert set(BASELINES.values()) <= set(PACKED)
    for name in PACKED:
        run = find.find(name)
        assert brojepa.PRESETS[name] == run.config
        assert run.environment["torch"]
        decoder = find.hub.DECODER if name.endswith("/fast") else ()  # a baseline has none
        assert sorted(file.name for file in run.path.iterdir()) == sorted((*find.hub.FILES, *decoder))
        assert sum(file.stat().st_size for file in run.path.iterdir()) < 2_000_000


@pytest.mark.parametrize("name", [name for name in PACKED if name.endswith("/fast")])
def test_packed_decoders_reconstruct_test_images_better_than_the_mean_image(name):
    """On a few test images, as the decoder says of many."""
    run, model = find.find(name), brojepa.load(name, "cpu")
    assert model.decoder is not None
    world = world_of(run)
    images = world.examples(world.action_sets(run.config)[0], 200, torch.Generator().manual_seed(0)).images
    shown, truth = model.decode(model.encode(images)).float() / 255, images.float() / 255
    about = model.decoder.about
    assert about["error"] < 0.8 * about["mean_image_error"]
    assert float((shown - truth).square().mean()) == pytest.approx(about["error"], rel=0.15)


def same_machine(run: brojepa.Run) -> bool:
    """Another CPU or torch may round a latent the other way, and then one image in thousands is read otherwise."""
    made = run.environment
    return (made["torch"], made["device_name"]) == (torch.__version__, cpu_name())


@pytest.mark.parametrize("name", [name for name in PACKED if find.find(name).header["world"]["states"]])
def test_packed_weights_still_measure_what_their_result_says(name):
    """Every test image with a share of the actions; the slow tests take all actions and the training images."""
    run = find.find(name)
    model, world = brojepa.load(name, "cpu"), world_of(run)
    train, test = action_sets(run.config, world.group, world.actions)
    actions = [*train, *test[:: max(1, len(test) // 12)]]
    with torch.no_grad():
        right = count_right(model, Latents.of(model, world.test), actions).sum(0)
    measured = {world.group.write(k): int(count) / len(world.test) for k, count in zip(actions, right, strict=True)}
    said = {word: run.result["per_action"][word] for word in measured}
    assert measured == (said if same_machine(run) else pytest.approx(said, abs=1e-3))


def test_packed_poses_still_measure_what_their_result_says():
    run = find.find("dihedral/fast")
    again = evaluate_run("dihedral/fast", device="cpu")
    if same_machine(run):
        assert agrees(run.result, again)
    assert again["metrics"] == pytest.approx(run.result["metrics"], abs=2e-3)


@pytest.mark.slow
@pytest.mark.parametrize("name", PACKED)
def test_packed_weights_give_their_result_to_the_last_digit(name):
    run = find.find(name)
    again = evaluate_run(name, device="cpu")
    if same_machine(run):
        assert agrees(run.result, again)
    assert again["metrics"] == pytest.approx(run.result["metrics"], abs=2e-3)


def test_a_later_version_may_measure_more_and_nothing_else():
    """A result from before hit@5 still agrees; another number, or one that is gone, does not."""
    result = {"metrics": {"seen": 0.5, "rollout": None}, "seconds": 3.0}
    assert agrees(result, {"metrics": {"seen": 0.5, "rollout": None, "hit5": 1.0}, "retrieval": {"mrr": 1.0}})
    for metrics in ({"seen": 0.5 + 1e-12, "rollout": None}, {"seen": 0.5, "rollout": 0.5}, {"seen": 0.5}, None):
        assert not agrees(result, {"metrics": metrics})


@pytest.fixture
def digit(tmp_path: Path) -> Path:
    Image.fromarray(brojepa.open_world("mnist").test.images[0, 0].numpy()).save(tmp_path / "seven.png")
    return tmp_path / "seven.png"


def test_commands_take_the_packed_weights_where_no_run_is_named(digit: Path, cli: Cli, tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for words in (("predict", digit), ("predict", "mnist/fast", digit), ("predict", "--action=+3", digit)):
        done = cli(*words, "--action", "+3", "--json")
        assert done.code == 0, done.err
        (answer,) = json.loads(done.out)
        assert (answer["state"], answer["after"]) == ("7", "0")
        assert says(done.err, "mnist/fast package, seed 0")
    assert len(json.loads(cli("predict", digit, digit, "--action", "+3", "--json").out)) == 2
    assert "action 0" in cli("infer", digit, digit).out
    assert "arrived" in cli("plan", digit, digit, "--allowed", "+1").out
    assert cli("infer", "mnist/fast", "--json", digit, digit).code == 0


def test_inspect_takes_the_packed_weights_where_no_run_is_named(cli: Cli, digits: Path):
    done = cli("inspect", "--data-dir", digits, "--json")
    assert (done.code, json.loads(done.out)["run"]) == (0, "mnist/fast")
    assert "from the package" in done.err


def test_figures_draw_the_packed_weights_into_the_current_directory(cli: Cli, tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert cli("figures", "mnist/fast", "--only", "accuracy").code == 0
    assert (tmp_path / "figures" / "accuracy.png").is_file()
    assert "mnist/fastest" in one_line(cli("figures", "mnist/fastest"), 2)


def test_a_run_directory_comes_before_the_package(trained, digit: Path, cli: Cli, tmp_path: Path, monkeypatch):
    """Also one that has the name of a preset."""
    done = cli("predict", trained[0], digit, "--action", "+3")
    assert (done.code, done.err) == (0, "")
    (tmp_path / "mnist").mkdir()
    shutil.copytree(trained[0], tmp_path / "mnist" / "fast")
    monkeypatch.chdir(tmp_path)
    assert brojepa.load("mnist/fast").action.dim == 32
    assert cli("predict", "mnist/fast", digit, "--action", "+3").err == ""
    (tmp_path / "mnist" / "fast" / "config.json").unlink()  # a directory that holds runs, and is none
    assert brojepa.load("mnist/fast").action.dim == 64


def test_what_is_not_there_is_one_line(digit: Path, cli: Cli, tmp_path: Path):
    assert "mnist/fast" in one_line(cli("inspect", "mnist/best"), 2)
    with pytest.raises(RequestError, match="train it"):
        brojepa.load("mnist/best")
    with pytest.raises(RequestError, match="not a run directory"):
        brojepa.load("mnist/fastest")
    for words in (("infer", digit), ("infer", "mnist/fast", digit), ("infer", tmp_path, digit)):
        assert "IMAGE" in one_line(cli(*words), 2)
    assert "IMAGE" in one_line(cli("predict", "mnist/fast", "--action", "+1"), 2)
    assert "nowhere" in one_line(cli("predict", "nowhere", digit, "--action", "+1"), 2)
    assert "unexpected" in one_line(cli("infer", "mnist/fast", digit, digit, digit), 2)


def test_a_directory_of_runs_offers_its_seeds(trained, digit: Path, cli: Cli):
    above = trained[0].parent
    line = one_line(cli("infer", above, digit, digit), 2)
    assert "not a run directory" in line
    assert f"{above}/seed-7" in line


def test_packing_takes_runs_of_presets(trained, tmp_path: Path):
    with pytest.raises(RequestError, match="nothing changed"):
        pack(brojepa.Run(trained[0]), tmp_path / "into")


@pytest.mark.slow
def test_packing_takes_runs_that_measure_as_they_say(tmp_path: Path):
    run = brojepa.Run(shutil.copytree(find.find("dihedral/fast").path, tmp_path / "run"))
    assert pack(run, tmp_path / "into") == tmp_path / "into" / "dihedral" / "fast"
    for name in (*find.hub.FILES, *find.hub.DECODER):
        assert (tmp_path / "into/dihedral/fast" / name).read_bytes() == (run.path / name).read_bytes()
    result = run.result
    result["metrics"]["seen"] += 1e-6
    run.result_file.write_text(json.dumps(result))
    with pytest.raises(RequestError, match="otherwise"):
        pack(run, tmp_path / "other")
    assert not (tmp_path / "other").exists()
