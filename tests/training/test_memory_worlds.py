"""Worlds made in Python: trained on as they are, known by their content, and asked for again."""

from __future__ import annotations

import dataclasses
import inspect
from pathlib import Path

import numpy as np
import pytest
from helpers import blobs
from small_runs import Listen, same_run

import brojepa
from brojepa.errors import RequestError
from brojepa.runs import Run
from brojepa.worlds import Split, World, open_world

SMALL = {"latent": 8, "epochs": 1, "batch_size": 16, "precision": "float32", "device": "cpu"}


def trained(out: Path, world: object, config: str | brojepa.Config = "mnist/bro-mlp-mfr-fixed", **values):
    """A run, and whether it was trained or found."""
    ear = Listen()
    run = brojepa.train(config, world=world, out=out, callbacks=[ear], **{**SMALL, **values})
    return run, bool(ear.done)


def line(call, *arguments, **values) -> str:
    with pytest.raises(RequestError) as caught:
        call(*arguments, **values)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def again(world: World) -> World:
    """The same by way of a file."""
    arrays = [a for s in (world.train, world.test) for a in (s.images[:, 0].numpy(), s.states.numpy())]
    return World.from_arrays(world.name, (arrays[0].copy(), arrays[1]), (arrays[2], arrays[3]), n=world.n)


def test_the_same_content_is_the_same_run_and_other_content_another(tmp_path):
    world = blobs()
    run, found = trained(tmp_path, world)
    assert not found
    assert run.path.parts[-3] == "blobs"
    assert trained(tmp_path, again(world)) == (run, True)
    for other in (blobs(seed=1), relabelled(world), dataclasses.replace(world, test=world.train)):
        different, found = trained(tmp_path, other)
        assert not found
        assert different != run
    same_run(trained(tmp_path / "fresh", again(world))[0], run)


def relabelled(world: World) -> World:
    """The same images and counts, two states exchanged; it still says the old sum."""
    swap = np.array([1, 0, *range(2, world.n)])
    states = world.train.states.new_tensor(swap)[world.train.states]
    return dataclasses.replace(world, train=Split(world.train.images, states))


def test_worlds_that_say_nothing_of_their_content_are_told_apart(tmp_path):
    world = dataclasses.replace(blobs(), source={})
    run, _ = trained(tmp_path, world)
    assert trained(tmp_path, world) == (run, True)
    other, found = trained(tmp_path, relabelled(world))
    assert not found
    assert other != run
    assert brojepa.evaluate_run(run.path, world=world)["same_images"]
    assert not brojepa.evaluate_run(run.path, world=dataclasses.replace(blobs(seed=2), source={}))["same_images"]


@pytest.mark.parametrize("name", ["mnist", "mnist:0-4", "torus", "my:world", "a b", "x.npz"])
def test_a_world_in_memory_may_have_any_name(name, tmp_path):
    """Also that of a built-in one, which it is not."""
    world = dataclasses.replace(blobs(), name=name)
    run, _ = trained(tmp_path, world)
    assert "@" in run.config.world
    assert trained(tmp_path, world) == (run, True)
    assert "pass it again" in line(brojepa.evaluate_run, run.path)
    assert brojepa.evaluate_run(run.path, world=world)["metrics"] == run.result["metrics"]
    brojepa.load(run.path)


def test_the_run_of_the_preset_itself_is_not_in_the_way(tmp_path, digits):
    """The config that a world in memory is put into may have a run of its own in the same place."""
    config = brojepa.Config().replace(world=str(digits))
    first = brojepa.train(config, out=tmp_path, **SMALL)
    second = brojepa.train(config, world=blobs(), out=tmp_path, **SMALL)
    assert first != second
    assert second.result["world"] == "blobs"
    named = tmp_path / "mnist" / "bro-mlp-mfr-fixed" / "seed-0"
    named.mkdir(parents=True)
    (named / "config.json").write_text(first.config_file.read_text())
    values = {k: v for k, v in SMALL.items() if k == "device"}
    ear = Listen()
    ear.begin = _stop  # a whole preset would take long: that it began is enough
    with pytest.raises(KeyboardInterrupt):
        brojepa.train("mnist/bro-mlp-mfr-fixed", world=blobs(), out=tmp_path, callbacks=[ear], **values)


def _stop(*_):
    raise KeyboardInterrupt


def test_a_world_by_path_and_knobs_by_name(tmp_path, tiny):
    run, _ = trained(tmp_path, tiny, "mnist/fast", encoder="mlp")
    assert (run.config.epochs, run.config.encoder, run.header["base"]) == (1, "mlp", "mnist/fast")
    assert run.header["world_path"] == tiny
    assert trained(tmp_path, Path(tiny), "mnist/fast", encoder="mlp") == (run, True)
    config = brojepa.preset("mnist/fast").replace(world=tiny, encoder="mlp", epochs=1, latent=8, batch_size=16,
                                                  precision="float32")  # fmt: skip
    assert brojepa.train(config, out=tmp_path, device="cpu") == run
    assert brojepa.evaluate_run(run.path)["metrics"] == run.result["metrics"]
    other = brojepa.evaluate_run(run.path, world=open_world(tiny))
    assert other["metrics"] == run.result["metrics"]
    assert other["same_images"]


def test_an_unknown_knob_is_one_line_with_the_nearest(tmp_path):
    assert "epochs" in line(brojepa.train, "mnist/fast", out=tmp_path / "x", epcohs=3)
    assert "--latent" in line(brojepa.train, "mnist/fast", out=tmp_path / "x", latent="8")
    assert "no world at" in line(brojepa.train, "mnist/fast", out=tmp_path / "x", world="no/such.npz")
    assert not (tmp_path / "x").exists()


def test_no_knob_has_the_name_of_an_argument():
    arguments = {name for name, p in inspect.signature(brojepa.train).parameters.items() if p.kind is p.KEYWORD_ONLY}
    assert arguments & {f.name for f in dataclasses.fields(brojepa.Config)} == {"world"}


def test_evaluating_and_inspecting_ask_for_the_world(tmp_path):
    world = blobs()
    run, _ = trained(tmp_path, world)
    for call in (brojepa.evaluate_run, brojepa.inspect_run):
        said = line(call, run.path)
        for word in ("blobs", "made in Python", "world="):
            assert word in said
        assert "states" in line(call, run.path, world=blobs(n=4))
        assert "8x8" in line(call, run.path, world=blobs(size=9))
    measured = brojepa.evaluate_run(run.path, world=world)
    assert measured["metrics"] == run.result["metrics"]
    assert measured["same_images"]
    assert not brojepa.evaluate_run(run.path, world=blobs(seed=1))["same_images"]
    assert brojepa.inspect_run(run.path, world=world)["states"] == 5


def test_a_run_in_memory_goes_on_where_it_was_cut(tmp_path):
    def cut(training):
        if (training.epoch, training.step) == (1, 2):
            raise MemoryError

    world, ear = blobs(), Listen()
    ear.step = cut
    with pytest.raises(MemoryError):
        brojepa.train(world=world, out=tmp_path / "cut", callbacks=[ear], **{**SMALL, "epochs": 2, "encoder": "mlp"})
    runs = [trained(tmp_path / place, world, "mnist/fast", epochs=2, encoder="mlp")[0] for place in ("cut", "whole")]
    same_run(*runs)
    assert Run(runs[0].path).config.world == runs[1].config.world
