"""`brojepa predict`: images in, states out; and images of another size or polarity for all commands."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from conftest import Arrays, Cli, Outcome, one_line
from helpers import blobs, config
from PIL import Image

import brojepa
from brojepa.training import train


@pytest.fixture
def pictures(digit_arrays: Arrays, tmp_path: Path) -> list[Path]:
    """Three test digits as PNG."""
    files = [tmp_path / f"{i}.png" for i in range(3)]
    for file, image in zip(files, digit_arrays[2], strict=False):
        Image.fromarray(image).save(file)
    return files


@torch.no_grad()
def test_states_and_probabilities_are_the_model_s(
    trained: tuple[Path, Outcome], pictures: list[Path], digit_arrays: Arrays, cli: Cli
) -> None:
    model = brojepa.load(trained[0])
    z = model.encode(digit_arrays[2][:3])
    after = model.act(z, 3)
    assert model.classifier is not None
    chances = model.classifier(after).softmax(1)
    said = json.loads(cli("predict", trained[0], *pictures, "--action", "+3", "--json").out)
    assert [line["image"] for line in said] == list(map(str, pictures))
    assert [line["state"] for line in said] == [str(y) for y in model.classify(z).tolist()]
    assert [line["after"] for line in said] == [str(y) for y in chances.argmax(1).tolist()]
    assert [line["probability"] for line in said] == pytest.approx(chances.amax(1).tolist(), abs=1e-5)
    assert all(line["action"] == 3 for line in said)
    told = cli("predict", trained[0], *pictures, "--action=+3").out.splitlines()
    for line, one in zip(told, said, strict=True):
        assert one["image"] in line
        assert f"shows {one['state']}" in line
        assert f"+3 leads to {one['after']}" in line
        assert f"{one['probability']:.4f}" in line
    back = json.loads(cli("predict", trained[0], pictures[0], "--action", "-3", "--json").out)
    assert back[0]["action"] == -3


def test_it_is_drawn_with_the_nearest_test_image(
    trained: tuple[Path, Outcome], pictures: list[Path], cli: Cli, tmp_path: Path
) -> None:
    for name in ("a.png", "a.svg"):
        done = cli("predict", trained[0], *pictures[:2], "--action", "+1", "--out", tmp_path / name)
        assert done.code == 0, done.err
    with Image.open(tmp_path / "a.png") as picture:
        assert picture.width > 500
        assert np.asarray(picture.convert("L")).std() > 10


def test_images_of_another_size_are_resized_if_asked(
    trained: tuple[Path, Outcome], pictures: list[Path], cli: Cli, tmp_path: Path
) -> None:
    with Image.open(pictures[0]) as image:
        image.resize((112, 112), Image.Resampling.NEAREST).save(tmp_path / "large.png")
    large, run = tmp_path / "large.png", trained[0]
    assert "--resize" in one_line(cli("predict", run, large, "--action", "+1"), 2)
    for words in (("predict", run, large, "--action", "+1"), ("infer", run, large, pictures[1]),
                  ("plan", run, large, pictures[1], "--allowed", "+1")):  # fmt: skip
        done = cli(*words, "--resize")
        assert done.code == 0, done.err
    plain, resized = (json.loads(cli("predict", run, path, "--action", "+1", "--resize", "--json").out)[0]
                      for path in (pictures[0], large))  # fmt: skip
    assert resized["state"] == plain["state"]
    assert resized["probability"] == pytest.approx(plain["probability"], abs=0.05)
    np.save(tmp_path / "large.npy", np.zeros((56, 56), np.uint8))
    assert cli("predict", run, tmp_path / "large.npy", "--action", "+1", "--resize").code == 0


def test_the_opposite_polarity_is_said_in_a_line(
    trained: tuple[Path, Outcome], pictures: list[Path], cli: Cli, tmp_path: Path
) -> None:
    with Image.open(pictures[0]) as image:
        Image.fromarray(255 - np.asarray(image)).save(tmp_path / "white.png")
    words = ("predict", trained[0], tmp_path / "white.png", "--action", "+1")
    done = cli(*words)
    assert done.code == 0
    assert done.err.count("\n") == 1
    assert "--invert" in done.err
    inverted = cli(*words, "--invert")
    assert not inverted.err
    assert inverted.out.replace("white", "0") == cli("predict", trained[0], pictures[0], "--action", "+1").out
    assert "without --invert" in cli("predict", trained[0], pictures[0], "--action", "+1", "--invert").err


def test_alpha_and_16_bits_are_read_as_training_reads_them(
    trained: tuple[Path, Outcome], pictures: list[Path], digit_arrays: Arrays, cli: Cli, tmp_path: Path
) -> None:
    pixels = digit_arrays[2][0]
    Image.fromarray(pixels.astype(np.uint16) * 257).save(tmp_path / "deep.png")
    clear = np.stack([np.full_like(pixels, 255)] * 3 + [pixels], -1)
    Image.fromarray(clear).save(tmp_path / "clear.png")
    plain, *others = (
        json.loads(cli("predict", trained[0], path, "--action", "+2", "--json").out)[0]
        for path in (pictures[0], tmp_path / "deep.png", tmp_path / "clear.png")
    )
    for other in others:
        assert {**other, "image": ""} == {**plain, "image": ""}


def test_what_cannot_be_predicted_is_one_line(
    trained: tuple[Path, Outcome], pictures: list[Path], cli: Cli, tiny: str, tmp_path: Path, monkeypatch
) -> None:
    run = trained[0]
    (tmp_path / "cut.png").write_bytes(pictures[0].read_bytes()[:-40])
    Image.new("F", (28, 28)).save(tmp_path / "float.tiff")
    for words, says in [
        (("predict", run, pictures[0]), "--action"),
        (("predict", run, "--action", "+1"), "IMAGE"),
        (("predict", run, pictures[0], "--action", "two"), "action"),
        (("predict", run, tmp_path / "cut.png", "--action", "+1"), "cut.png"),
        (("predict", run, tmp_path / "float.tiff", "--action", "+1"), "floating-point"),
        (("predict", run, tmp_path / "nowhere.png", "--action", "+1"), "No such file"),
        (("predict", run, pictures[0], "--action", "+1", "--out", "a.jpeg"), ".png or .svg"),
        (("predict", tmp_path, pictures[0], "--action", "+1"), "not a run directory"),
    ]:
        assert says in one_line(cli(*words), 2)
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 500)
    assert "pixels" in one_line(cli("predict", run, pictures[0], "--action", "+1"), 2)


def test_worlds_without_labels_are_refused_in_a_line(cli: Cli, tiny: str, tmp_path: Path) -> None:
    values = {"world": f"dihedral:{tiny}", "train_actions": ("r", "s"), "epochs": 1, "batch_size": 60}
    run = train(config(**values), out=tmp_path, device="cpu").path
    np.save(tmp_path / "a.npy", np.zeros((8, 8), np.uint8))
    assert "labelled states" in one_line(cli("predict", run, tmp_path / "a.npy", "--action", "r"), 2)


def test_a_supervised_model_predicts_but_has_no_nearest_image(cli: Cli, tmp_path: Path) -> None:
    world = blobs()
    run = train(config(method="supervised", epochs=1), world=world, out=tmp_path, device="cpu").path
    np.save(tmp_path / "a.npy", world.test.images[0, 0].numpy())
    assert cli("predict", run, tmp_path / "a.npy", "--action", "+1").code == 0
    refused = cli("predict", run, tmp_path / "a.npy", "--action", "+1", "--out", tmp_path / "a.png")
    assert "in Python" in one_line(refused, 2), "the world is not on disk"


def test_it_is_listed_in_the_help(cli: Cli) -> None:
    assert "  predict " in cli("--help").out
    assert cli("predict", "--help").code == 0
