"""Decoders: trained on the latents of a finished run, which stays as it is; saved beside it, found again, and refused
where they are damaged or another model's."""

from __future__ import annotations

import json
import shutil
import signal
from pathlib import Path

import numpy as np
import pytest
import torch
from conftest import Cli, files, one_line, truncate
from helpers import blobs, config

import brojepa
from brojepa.errors import Interrupted, RequestError, RunError
from brojepa.models.decoder import Decoder, DecoderNet
from brojepa.runs import checkpoint, decoders
from brojepa.training import train
from brojepa.training.decoding import train_decoder

QUICK = {"steps": 40, "device": "cpu"}


@pytest.fixture(scope="module")
def world() -> brojepa.World:
    return blobs(n=4, count=40, size=10, tests=10)


@pytest.fixture(scope="module")
def plain(world, tmp_path_factory) -> brojepa.Run:
    """A finished run without a decoder, never to be changed."""
    knobs = config(latent=16, epochs=4, batch_size=40, lr=3e-3)
    return train(knobs, world=world, out=tmp_path_factory.mktemp("plain"), device="cpu", quiet=True)


@pytest.fixture
def own(plain, tmp_path: Path) -> brojepa.Run:
    return brojepa.Run(shutil.copytree(plain.path, tmp_path / "own"))


def test_a_decoder_beats_the_mean_image_and_changes_nothing_of_the_model(own, world):
    before = {name: (own.path / name).read_bytes() for name in files(own.path)}
    decoder = train_decoder(own.path, world=world, **QUICK)
    about = decoder.about
    assert about["error"] < 0.5 * about["mean_image_error"]
    assert {name: (own.path / name).read_bytes() for name in before} == before
    assert {*files(own.path)} - {*before} == {"decoder.safetensors", "decoder.json"}
    model = brojepa.load(own.path, "cpu")
    assert not any("decoder" in name for name in model.state_dict())
    z = model.encode(world.test.images)
    shown = model.decode(z)
    assert (shown.dtype, shown.shape) == (torch.uint8, world.test.images.shape)
    error = ((shown.float() - world.test.images.float()) / 255).square().mean()
    assert float(error) == pytest.approx(about["error"], rel=0.02)  # here in steps of 1/255
    assert model.decode(model.rollout(z[:3], 1, 2)).shape == (3, 3, 1, 10, 10)
    assert model.decode(z[0]).shape == (1, 10, 10)
    kept = json.loads((own.path / "decoder.json").read_text())
    assert about.items() <= kept.items()
    assert kept["seconds"] > 0


def test_errors_are_those_of_an_independent_reference(own, world):
    """Of the mean image and of the mean image of each state, in NumPy."""
    about = train_decoder(own.path, world=world, **QUICK).about
    train_images, test_images = (s.images.numpy() / 255.0 for s in (world.train, world.test))
    mean = np.square(test_images - train_images.mean(0)).mean()
    states, shown = world.train.states.numpy(), world.test.states.numpy()
    of_state = np.stack([train_images[states == y].mean(0) for y in range(world.n)])
    assert about["mean_image_error"] == pytest.approx(mean, rel=1e-4)
    assert about["state_image_error"] == pytest.approx(np.square(test_images - of_state[shown]).mean(), rel=1e-4)


def test_a_seed_gives_the_same_bits_and_another_seed_others(plain, world, tmp_path: Path):
    made = {}
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        run = shutil.copytree(plain.path, tmp_path / name)
        train_decoder(run, world=world, seed=seed, **QUICK)
        tensors, about = checkpoint.load(run / "decoder.safetensors")
        made[name] = {key: t.numpy().tobytes() for key, t in tensors.items()}, about
    assert made["a"] == made["b"]
    assert made["a"][0]["start.weight"] != made["c"][0]["start.weight"]


def test_a_model_without_a_decoder_says_what_to_do(plain):
    model = brojepa.load(plain.path, "cpu")
    assert model.decoder is None
    with pytest.raises(RequestError, match="brojepa decode"):
        model.decode(torch.zeros(2, 16))


@pytest.mark.parametrize("z", [torch.zeros(2, 15), torch.zeros(()), torch.zeros(2, 16).long(), np.zeros((2, 16))])
def test_what_is_no_latent_is_refused(z):
    with pytest.raises(RequestError, match="16"):
        Decoder(DecoderNet(16, (1, 4, 4)), {})(z)


@pytest.mark.parametrize("shape", [(1, 1, 1), (3, 5, 7), (1, 28, 56), (4, 3, 200), (3, 65, 64)])
def test_every_size_of_image_comes_out(shape):
    assert Decoder(DecoderNet(6, shape), {})(torch.randn(3, 6)).shape == (3, *shape)
    assert Decoder(DecoderNet(6, shape), {})(torch.zeros(0, 6)).shape == (0, *shape)


@pytest.mark.parametrize("steps", [1, 3, 10, 19])
def test_few_steps_are_enough_to_have_a_decoder(own, world, steps):
    assert train_decoder(own.path, world=world, steps=steps, device="cpu").about["steps"] == steps


def test_a_decoder_that_is_there_is_kept(own, world):
    train_decoder(own.path, world=world, **QUICK)
    before = (own.path / "decoder.safetensors").read_bytes()
    assert train_decoder(own.path, world=world, seed=5, steps=9).about["seed"] == 0
    assert (own.path / "decoder.safetensors").read_bytes() == before


def test_stopping_leaves_nothing(own, world, monkeypatch):
    before = files(own.path)

    def stop(share: float) -> None:
        if share > 0.5:
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(Interrupted):
        train_decoder(own.path, world=world, listener=stop, **QUICK)
    assert files(own.path) == before


def test_damaged_decoders_are_one_line_each(own, world):
    train_decoder(own.path, world=world, **QUICK)
    file = own.path / "decoder.safetensors"
    whole = file.read_bytes()
    tensors, about = checkpoint.load(file)
    first = next(iter(tensors))
    damages = {
        "truncated": lambda: truncate(file),
        "checksum": lambda: file.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1])),
        "another model": lambda: checkpoint.save(file, tensors, about | {"model": "0" * 64}),
        "no error": lambda: checkpoint.save(file, tensors, {k: v for k, v in about.items() if k != "error"}),
        "finite": lambda: checkpoint.save(file, tensors | {first: tensors[first] * float("nan")}, about),
        "fit": lambda: checkpoint.save(file, tensors | {first: tensors[first][:1]}, about),
        "does not fit": lambda: checkpoint.save(file, {k: v for k, v in tensors.items() if k != first}, about),
    }
    for word, damage in damages.items():
        damage()
        model = brojepa.load(own.path, "cpu")
        z = model.encode(world.test.images[:2])  # the model is whole, and predicts
        with pytest.raises(RequestError, match=word) as caught:
            model.decode(z)
        assert "brojepa decode" in str(caught.value)
        with pytest.raises(RunError, match=word):
            train_decoder(own.path, world=world, **QUICK)
        file.write_bytes(whole)
    assert brojepa.load(own.path, "cpu").decoder is not None


def test_a_run_of_the_package_keeps_its_decoder_in_the_cache(plain, world, monkeypatch):
    monkeypatch.setattr("brojepa.runs.find.WEIGHTS", plain.path.parent)
    before = files(plain.path)
    train_decoder(plain.path, world=world, **QUICK)
    assert files(plain.path) == before
    assert decoders.in_cache(plain).is_file()
    assert brojepa.load(plain.path, "cpu").decoder is not None


def test_views_that_are_all_in_both_splits_are_held_out_by_the_decoder(tmp_path: Path):
    """Three channels, 9 x 12, twelve poses of three things; no thing is held out."""
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (36, 9, 12, 3), np.uint8)
    views = brojepa.PoseWorld.from_arrays(
        "views", images, np.repeat(np.arange(3), 12), np.tile(np.arange(12), 3), "Z12"
    )
    knobs = config(encoder="mlp", latent=24, epochs=1, batch_size=36, target="sampled", action="mfr-fixed")
    run = train(knobs, world=views, out=tmp_path, device="cpu", quiet=True)
    about = train_decoder(run.path, world=views, **QUICK).about
    assert (about["images"], about["held_out_images"], about["state_image_error"]) == (33, 3, None)
    model = brojepa.load(run.path, "cpu")
    assert model.decode(model.encode(views.test.images[:2])).shape == (2, 3, 9, 12)


def test_the_command_from_end_to_end(trained, tmp_path: Path, cli: Cli):
    run = shutil.copytree(trained[0], tmp_path / "run")
    done = cli("decode", run, "--steps", 40, "--device", "cpu", "--seed", 3)
    assert (done.code, done.err) == (0, "")
    assert "mean image of the right state" in done.out
    assert done.out.endswith(f"{run / 'decoder.safetensors'}\n")
    again = cli("decode", run)
    assert again.code == 0
    assert "already" in again.out
    about = json.loads(cli("decode", run, "--json").out)
    assert (about["seed"], about["steps"]) == (3, 40)
    assert about["error"] < about["mean_image_error"]
    assert cli("eval", run).code == 0, "the model measures as before"


def test_bad_requests_are_one_line(trained, tmp_path: Path, cli: Cli):
    run = shutil.copytree(trained[0], tmp_path / "run")
    assert "--steps" in one_line(cli("decode", run, "--steps", "0"), 2)
    assert "--steps" in one_line(cli("decode", run, "--steps", "1-3"), 2)
    assert "--seed" in one_line(cli("decode", run, "--seed", "-1"), 2)
    assert "nowhere" in one_line(cli("decode", tmp_path / "nowhere"), 2)
    assert "mnist/fast" in one_line(cli("decode", "mnist/best"), 2)
    header = json.loads((run / "config.json").read_text())
    moved = header | {"world_path": str(tmp_path / "gone")}
    (run / "config.json").write_text(json.dumps(moved))
    assert "gone" in one_line(cli("decode", run), 2)
    (run / "result.json").unlink()
    assert "not finished" in one_line(cli("decode", run), 1)
    assert not list(run.glob("*decoder*"))
