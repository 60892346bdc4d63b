"""Learning curves of any runs, and the circle at the frequency that shows it, with own images in it."""

from __future__ import annotations

import re
import shutil

import numpy as np
import pytest
import torch
from conftest import one_line
from helpers import checked
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

import brojepa
from brojepa.errors import Interrupted, RequestError
from brojepa.figures import FIGURES, MOST, data, geometry
from brojepa.figures.make import collect, draw, pictures
from brojepa.figures.sources import Source
from brojepa.presets import preset
from brojepa.runs import Run
from brojepa.training import Callback, train

TINY = {"latent": 16, "epochs": 3, "batch_size": 50, "lr": 3e-3, "precision": "float32"}


@pytest.fixture(scope="session")
def rotations(digits, tmp_path_factory):
    """A run with fixed frequencies, one with learned ones, and one without a rotation."""
    out, made = tmp_path_factory.mktemp("rotations"), {}
    for name in ("mnist/bro-mlp-mfr-fixed", "mnist/bro-mlp-mfr-learned", "mnist/jepa-mlp"):
        made[name] = train(preset(name).replace(world=str(digits), **TINY), out=out, name=name, quiet=True)
    return made


def read(path):
    return data.unpack(path.read_bytes(), path)


# Curves


def test_the_curves_of_one_run_are_its_rows(cli, rotations, tmp_path):
    for name, run in rotations.items():
        out = tmp_path / name
        outcome = cli("figures", run.path, "--only", "curves", "--out", out)
        assert (outcome.code, outcome.out) == (0, f"curves: {out}/curves.png\n")
        content = read(out / "curves.npz")
        assert content["terms"] == ["invariance", "variance", "covariance"]
        for curve in ("loss", "validation_loss", "seen", "zero_shot", *content["terms"]):
            assert np.allclose(content[f"A.{curve}"], [row[curve] for row in run.metrics])
        assert ("A.angles" in content) == name.endswith("learned")
    assert content["runs"]["A"]["words"].startswith("mnist/jepa-mlp")


def test_several_runs_are_in_one_picture(cli, rotations, tmp_path):
    paths = [run.path for run in rotations.values()]
    assert cli("figures", *paths, "--only", "curves", "--out", tmp_path).code == 0
    content = read(tmp_path / "curves.npz")
    assert list(content["runs"]) == ["A", "B", "C"]
    for letter, run in zip("ABC", rotations.values(), strict=True):
        assert np.allclose(content[f"{letter}.zero_shot"], [row["zero_shot"] for row in run.metrics])
    assert draw(content).keys() == {"png", "svg"}


def test_more_runs_than_there_is_room_for_are_counted(cli, rotations, tmp_path):
    run = rotations["mnist/jepa-mlp"].path
    for i in range(MOST + 2):
        shutil.copytree(run, tmp_path / "runs" / str(i))
    outcome = cli("figures", tmp_path / "runs", "--only", "curves", "--out", tmp_path)
    assert outcome.out.endswith(f"of the first {MOST} of {MOST + 2} runs\n")
    assert len(read(tmp_path / "curves.npz")["runs"]) == MOST


def test_a_run_that_is_not_finished_has_curves_and_nothing_else(cli, digits, tmp_path):
    class Stops(Callback):
        def epoch(self, training, row):
            if row["epoch"] == 2:
                raise Interrupted("enough")

    config = preset("mnist/bro-mlp-mfr-learned").replace(world=str(digits), **TINY)
    with pytest.raises(Interrupted):
        train(config, out=tmp_path, callbacks=[Stops()], quiet=True)
    (run,) = (file.parent for file in tmp_path.rglob("config.json"))
    outcome = cli("figures", run, "--only", "curves,spectrum")
    assert outcome.code == 0
    curves, spectrum = outcome.out.splitlines()
    assert curves == f"curves: {run}/figures/curves.png"
    assert spectrum.startswith("spectrum: not drawn, it lacks")
    assert len(read(run / "figures" / "curves.npz")["A.loss"]) == 2


@pytest.mark.parametrize("world", ["rotation", "torus"])
def test_curves_are_for_every_world(world, cli, digits, tiny, tmp_path):
    made = f"rotation:{digits}" if world == "rotation" else f"torus:{tiny},{tiny}"
    values = {**TINY, "epochs": 1, "encoder": "mlp", "world": made, "batch_size": 40}
    run = train(preset(f"{world}/fast").replace(**values), out=tmp_path, quiet=True)
    assert cli("figures", run.path, "--only", "curves").code == 0
    assert (run.path / "figures" / "curves.png").is_file()


def test_what_trackers_are_given_is_png(rotations):
    drawn = pictures(rotations["mnist/bro-mlp-mfr-learned"])
    assert drawn.keys() == {"curves", "accuracy"}
    assert all(png.startswith(b"\x89PNG") for png in drawn.values())


# Geometry of the circle


@checked
@given(st.integers(0, 2**32 - 1), st.integers(3, 13))
def test_planes_of_one_frequency_add_up_to_a_circle(seed, n):
    """Latents made by rotating a random one: state y lies at the angle 2 pi f y / n, at one distance for all."""
    rng = np.random.default_rng(seed)
    present = rng.integers(0, n, 12)
    base = rng.normal(size=(12, 2)) @ [1, 1j]
    turned = base * np.exp(2j * np.pi * np.outer(np.arange(n), present) / n)
    means = np.stack((turned.real, turned.imag), -1).reshape(n, -1)
    for f in sorted({min(h, n - h) for h in present.tolist()} - {0}):
        plane = geometry.at_frequency(means, means, present, f)
        assert np.allclose(plane.axes @ plane.axes.T, np.eye(2), atol=1e-9)
        points = plane(means) @ [1, 1j]
        mine = np.isin(present, (f, n - f))
        radius = np.linalg.norm(base[mine])
        if 2 * f < n:  # at half a turn, states lie on a line
            assert np.allclose(points, radius * np.exp(2j * np.pi * f * np.arange(n) / n))
            assert plane.shares.sum() == pytest.approx(radius**2 / (abs(base[present > 0]) ** 2).sum())


@pytest.mark.parametrize(
    ("present", "n", "lowest"),
    [([2, 4, 3, 0], 10, 3), ([2, 9], 10, 1), ([2, 4], 10, 2), ([0, 4], 7, 3), ([5, 8], 10, 2)],
)
def test_the_lowest_frequency_that_tells_states_apart(present, n, lowest):
    assert geometry.telling(np.array(present), n) == lowest


def test_nothing_turns():
    with pytest.raises(RequestError, match="--frequency pca"):
        geometry.telling(np.array([0, 0]), 10)


@checked
@given(st.integers(-40, 40), st.integers(2, 13), st.floats(-0.2, 0.2))
def test_frequencies_are_the_nearest_multiples(multiple, n, off):
    angle = np.array([2 * np.pi * (multiple + off) / n])
    assert geometry.frequencies(angle, n) == [multiple % n]


# The figure


def source(run: Run) -> dict[str, Source]:
    return {"run": Source(run, None, {})}


def test_the_circle_is_at_frequency_1_unless_another_is_asked_for(cli, rotations, tmp_path):
    run = rotations["mnist/bro-mlp-mfr-fixed"]
    content = collect("circle-multi", source(run))
    assert content["frequency"] == 1
    model = brojepa.load(run.path)
    turned = torch.zeros(1, 16)
    turned[0, 0::2] = torch.rand(8)
    for f in (1, 2, 3):
        assert cli("figures", run.path, "--frequency", f, "--out", tmp_path / str(f)).code == 0
        shown = read(tmp_path / str(f) / "circle-multi.npz")
        assert shown["frequency"] == f
        plane = geometry.at_frequency(
            source(run)["run"].z,
            source(run)["run"].prototypes,
            geometry.frequencies(model.action.angles.numpy(), 10),
            f,
        )
        before, after = (plane(z.numpy()) @ [1, 1j] for z in (turned, model.act(turned, 1)))
        assert np.allclose(after, before * np.exp(2j * np.pi * f / 10), atol=1e-5), "the action turns the picture"


def test_several_frequencies_have_a_panel_each_unless_one_is_asked_for(rotations):
    run = rotations["mnist/bro-mlp-mfr-fixed"]
    content = collect("circle-multi", source(run))
    reads, present = source(run)["run"], geometry.frequencies(brojepa.load(run.path).action.angles.numpy(), 10)
    assert content["others"] == sorted({min(f, 10 - f) for f in present.tolist()} - {0, 1})
    for f, means in zip(content["others"], content["others.prototypes"], strict=True):
        plane = geometry.at_frequency(reads.z, reads.prototypes, present, f)
        assert np.allclose(means, plane(reads.prototypes), atol=1e-5)
    assert "others" not in collect("circle-multi", source(run), frequency="2")


def test_principal_components_where_they_are_asked_for(cli, rotations, tmp_path):
    run = rotations["mnist/bro-mlp-mfr-fixed"]
    assert cli("figures", run.path, "--frequency", "pca", "--out", tmp_path).code == 0
    shown = read(tmp_path / "circle-multi.npz")
    assert shown["frequency"] is None
    pca = geometry.PCA.of(source(run)["run"].z)
    assert np.allclose(shown["shares"], pca.shares)


def test_old_data_without_a_frequency_are_drawn(rotations):
    content = collect("circle-multi", source(rotations["mnist/bro-mlp-mfr-fixed"]), frequency="pca")
    with_it = draw(content)
    del content["frequency"]
    assert draw(content) == with_it


def test_own_images_are_placed_where_their_latents_lie(cli, rotations, digit_arrays, tmp_path):
    run, image = rotations["mnist/bro-mlp-mfr-fixed"], digit_arrays[2][3]
    Image.fromarray(image).save(tmp_path / "mine.png")
    Image.fromarray(255 - image).resize((56, 56), Image.Resampling.NEAREST).save(tmp_path / "large.png")
    words = ("figures", run.path, "--only", "circle-multi", "--out", tmp_path)
    assert cli(*words, "--image", tmp_path / "mine.png", "--image", tmp_path / "mine.png").code == 0
    content = read(tmp_path / "circle-multi.npz")
    assert (content["own.images"] == image).all()
    model, reads = brojepa.load(run.path, "cpu"), source(run)["run"]
    z = model.encode(image)
    plane = geometry.at_frequency(
        reads.z, reads.prototypes, geometry.frequencies(model.action.angles.numpy(), 10), content["frequency"]
    )
    assert np.allclose(content["own.points"], plane(z.numpy()), atol=1e-4)
    assert content["own.read"].tolist() == [int(model.classify(z))] * 2
    assert cli(*words, "--image", tmp_path / "large.png", "--invert").code == 0
    assert abs(read(tmp_path / "circle-multi.npz")["own.images"][0].astype(int) - image).mean() < 12


def test_wrong_requests_are_one_line(cli, rotations, tmp_path):
    run = rotations["mnist/bro-mlp-mfr-fixed"].path
    (tmp_path / "notes.txt").write_text("x")
    for words, says in (
        (["--frequency", "0"], "integer of 1 or more"),
        (["--frequency", "one"], "pca"),
        (["--image", tmp_path / "none.png"], "no such file"),
        (["--invert"], "--image"),
        (["--frequency", "1", "--only", "spectrum"], "circle-multi"),
    ):
        assert says in one_line(cli("figures", run, *words), 2)
    for words, says in (
        (["--frequency", "10"], "choose from 1, 2, 3, 4, 5"),
        (["--image", tmp_path / "notes.txt"], "notes.txt"),
    ):
        outcome = cli("figures", run, "--only", "circle-multi", *words)
        assert outcome.code == 2
        assert re.search(says, outcome.out)
    assert FIGURES["curves"].every
