"""The algebra read out of a model: exact for models whose algebra is known, broken where it was broken."""

from __future__ import annotations

import itertools
import json
import math
from pathlib import Path

import helpers
import numpy as np
import pytest
import torch
from helpers import checked, says
from hypothesis import assume, given
from hypothesis import strategies as st
from PIL import Image
from torch import nn

import brojepa
from brojepa import BlockRotation, training
from brojepa.algebra import infer_accuracy, inspect
from brojepa.algebra.describe import describe
from brojepa.algebra.labelled import drift, geometry, look_alikes
from brojepa.errors import RequestError
from brojepa.evaluation import Latents
from brojepa.groups import Cyclic, Group, Product
from brojepa.models import Model, Task
from brojepa.text import signed
from brojepa.training import Callback
from brojepa.worlds import Split


class Ideal(nn.Module):
    """An image with pixel y lit -> (cos, sin) of y * angle in every plane."""

    def __init__(self, n: int, angles: torch.Tensor) -> None:
        super().__init__()
        turns = torch.arange(n)[:, None] * angles.double()
        self.latents = torch.stack((turns.cos(), turns.sin()), -1).flatten(1).float()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.flatten(1) @ self.latents


def ideal(n: int, frequencies: list[int], wrong: float = 0.0) -> Model:
    """A model without error; `wrong` is added to the angles that it acts with."""
    angles = 2 * math.pi / n * torch.tensor(frequencies, dtype=torch.float64)
    encoder = Ideal(n, angles)
    model = Model(encoder, BlockRotation(angles + wrong), Task(n, (1, 1, n), (0.0,), (1.0,)))
    model.classifier.weight.data = encoder.latents.clone()
    model.classifier.bias.data.zero_()
    return model


def pixels(n: int, each: int = 3) -> Split:
    states = torch.arange(n).repeat(each)
    return Split((255 * nn.functional.one_hot(states, n)).to(torch.uint8)[:, None, None], states)


def closest(k: int, n: int) -> int:
    """The number that is k modulo n and closest to 0; of two, the positive one."""
    return min((k % n, k % n - n), key=abs)


@st.composite
def cycles(draw: st.DrawFn) -> tuple[int, list[int]]:
    n = draw(st.integers(3, 26))
    return n, draw(st.lists(st.integers(0, n - 1), min_size=1, max_size=8))


few = helpers.settings(checked, max_examples=12)


@few
@given(cycles())
def test_an_ideal_model_has_no_error(cycle):
    n, frequencies = cycle
    assume(math.gcd(n, *frequencies) == 1)
    found = inspect(ideal(n, frequencies), pixels(n))
    for name in ("equivariance", "composition", "inverse", "identity", "commutation", "return"):
        assert found["law"][name] < 1e-8, name
    assert found["geometry"]["circulant"] == pytest.approx(1, abs=1e-4)
    assert found["retrieval"] == {"mrr": 1, "hit@1": 1, "hit@5": 1, "hit@10": 1}
    assert found["inference"]["right"] == found["inference"]["pairs"] == 3 * n
    assert [row["accuracy"] for row in found["drift"]] == [1, 1, 1, 1]
    rotation = found["rotation"]
    assert (rotation["alike"], rotation["distinguishable"]) == (1, n)
    assert rotation["modulus"] in (n, None)
    assert sum(f["energy"] for f in rotation["frequencies"]) == pytest.approx(1)
    assert [f["frequency"] for f in rotation["frequencies"]] == sorted({min(j, n - j) for j in frequencies})
    assert "It composes" in " ".join(describe({"run": "r", "world": "w", **found}))


@pytest.mark.parametrize("n", [7, 9, 10, 13, 26])
def test_the_modulus_of_an_ideal_model_is_that_of_its_world(n):
    found = inspect(ideal(n, list(range(1, n // 2 + 1))), pixels(n))
    assert found["rotation"]["modulus"] == n
    assert f"A cycle of length {n}" in " ".join(describe({"run": "r", "world": "w", **found}))


def test_energy_is_the_share_of_variance():
    """Every plane of an ideal model has radius 1 and mean 0, but for one that does not turn."""
    found = inspect(ideal(10, [0, 1, 9, 3]), pixels(10))
    assert [f["energy"] for f in found["rotation"]["frequencies"]] == pytest.approx([0, 2 / 3, 1 / 3], abs=1e-6)


def test_states_that_cannot_be_told_apart_are_named():
    found = inspect(ideal(10, [8]), pixels(10))
    assert (found["rotation"]["alike"], found["rotation"]["distinguishable"]) == (2, 5)
    assert found["retrieval"]["hit@1"] < 0.6
    assert found["inference"]["accuracy"] < 1
    assert "y and y + 5 look alike, 5 of 10 are distinguishable" in " ".join(
        describe({"run": "r", "world": "w", **found})
    )
    assert inspect(ideal(12, [4, 8]), pixels(12))["rotation"]["alike"] == 4


def test_a_wrong_angle_breaks_the_law_as_much_as_the_formula_says():
    """All planes turn by e too much: after k steps latents are 2 sin(k e / 2) off, and all have length 1."""
    n, e = 7, 0.02
    found = inspect(ideal(n, [1, 2, 3], wrong=e), pixels(n))
    assert found["law"]["return"] == pytest.approx(4 * math.sin(n * e / 2) ** 2, rel=1e-3)
    off = [4 * math.sin(k * e / 2) ** 2 for k in range(1 - n, n) if k]
    assert found["law"]["equivariance"] == pytest.approx(sum(off) / len(off), rel=1e-3)
    wrapped = [4 * math.sin((a + b - closest(a + b, n)) * e / 2) ** 2 for a in range(-3, 4) for b in range(-3, 4)]
    assert found["law"]["composition"] == pytest.approx(sum(wrapped) / len(wrapped), rel=1e-3)
    assert found["law"]["inverse"] < 1e-8
    assert found["drift"][1]["distance"] == pytest.approx(4 * math.sin(10 * e / 2) ** 2, rel=1e-3)
    assert "does not compose: return off" in " ".join(describe({"run": "r", "world": "w", **found}))


def test_a_network_has_no_angles_and_everything_else():
    model = helpers.model(action="additive")
    found = inspect(model, helpers.blobs().test)
    assert found["rotation"] is None
    assert all(value is not None for value in found["law"].values())
    assert found["law"]["identity"] > 0.01
    assert "no angles" in " ".join(describe({"run": "r", "world": "w", **found}))


def test_a_rollout_that_runs_away_is_valid_json():
    class Grows(BlockRotation):
        def act(self, z, k):
            return 2.0 * super().act(z, k)

    model = ideal(5, [1, 2])
    model.action = Grows(model.action.angles)
    found = inspect(model, pixels(5))
    assert found["drift"][-1]["distance"] is None
    json.dumps(found, allow_nan=False)
    assert "infinite" in "\n".join(describe({"run": "r", "world": "w", **found}))


def test_what_cannot_be_inspected_is_refused():
    with pytest.raises(RequestError, match="images of all 5"):
        inspect(ideal(5, [1]), pixels(5)[torch.tensor([0, 1, 2])])
    with pytest.raises(RequestError, match="64 to 8 dimensions"):
        inspect(helpers.model(method="supervised", encoder="mlp", action="additive"), helpers.blobs().test)


def test_cosines_are_circulant_where_they_depend_on_the_difference_alone():
    rng = np.random.default_rng(0)
    assert geometry(torch.eye(6))["circulant"] == 1
    assert geometry(torch.ones(6, 3))["circulant"] == pytest.approx(1)
    assert geometry(torch.from_numpy(rng.normal(size=(30, 4))))["circulant"] < 0.4
    z = ideal(10, [1, 3])
    order = torch.tensor([0, 2, 1, 3, 4, 5, 6, 7, 9, 8])
    assert geometry(z.encoder.latents)["circulant"] > 0.999
    assert geometry(z.encoder.latents[order])["circulant"] < 0.8


def test_inspecting_leaves_the_model_as_it_was():
    model = helpers.model().train()
    before = {k: v.clone() for k, v in model.state_dict().items()}
    inspect(model, helpers.blobs().test)
    assert model.training
    assert all(torch.equal(v, before[k]) for k, v in model.state_dict().items())


def test_drift_counts_steps_of_plus_one():
    model, split = ideal(5, [1, 2]), pixels(5)
    model.classifier.weight.data = model.classifier.weight.data.roll(1, 0)  # reads every state one too far
    z = model.encode(split.images)
    assert [row["accuracy"] for row in drift(model, Latents(z, split.states), z[:5])] == [0, 0, 0, 0]


# Inverse dynamics


@checked
@given(st.integers(2, 26), st.integers(0, 2**32 - 1))
def test_the_inferred_action_of_a_rotation_is_the_nearest(n, seed):
    """The closed form against every action carried out."""
    g = torch.Generator().manual_seed(seed)
    model = Model(nn.Identity(), BlockRotation.random(8, generator=g), Task(n, (1, 1, n), (0.0,), (1.0,)))
    z, w = torch.randn(2, 3, 4, 8, generator=g)
    with torch.no_grad():
        k = model.infer_action(z, w)
        all_k = range(-((n - 1) // 2), n // 2 + 1)
        nearest = torch.stack([(model.act(z, j) - w).norm(dim=-1) for j in all_k]).amin(0)
        assert k.shape == (3, 4)
        assert torch.allclose((model.act(z, k) - w).norm(dim=-1), nearest, atol=1e-4)
    assert set(k.flatten().tolist()) <= set(all_k)


@checked
@given(st.integers(2, 40))
def test_elements_are_each_once_and_small(n):
    group = brojepa.Cyclic(n)
    elements = group.candidates().tolist()
    assert sorted(e % n for e in elements) == list(range(n))
    assert all(-((n - 1) // 2) <= e <= n // 2 and group.canonical(torch.tensor(e + 3 * n)) == e for e in elements)
    assert elements == sorted(elements, key=lambda e: (abs(e), e < 0))


def test_the_action_of_a_network_is_found_by_trying():
    model = helpers.model(action="lookup")
    z = torch.randn(20, 8, generator=torch.Generator().manual_seed(0))
    k = torch.arange(20) % 5 - 2
    with torch.no_grad():
        assert torch.equal(model.infer_action(z, model.act(z, k)), k)


def test_the_pairs_are_the_same_each_time_and_of_two_images():
    model, split = ideal(5, [1]), pixels(5)
    assert infer_accuracy(model, split) == infer_accuracy(model, split) == {**infer_accuracy(model, split), "right": 15}
    model.action = BlockRotation(-model.action.angles)  # every action but the identity and its like is mirrored
    mirrored = infer_accuracy(model, split)
    assert mirrored["right"] < mirrored["pairs"] == 15


# Planning


@few
@given(st.integers(2, 14), st.data())
def test_a_plan_is_the_shortest_and_arrives(n, data):
    model = ideal(n, [1])
    allowed = data.draw(st.lists(st.integers(1 - n, n - 1), min_size=1, max_size=3, unique=True))
    start, goal = data.draw(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)))
    z = model.encoder.latents
    reachable = math.gcd(n, *allowed)
    if (goal - start) % reachable:
        listed = sorted(closest(k, n) for k in range(0, n, reachable))
        with pytest.raises(RequestError, match="cannot be reached") as error:
            model.plan(z[start], z[goal], allowed)
        assert " ".join(signed(k) for k in listed) + ":" in str(error.value)
        return
    plan = model.plan(z[start], z[goal], allowed)
    assert plan.reached
    assert plan.distance < 1e-4
    assert set(plan.actions) <= set(allowed)
    assert (start + sum(plan.actions)) % n == goal
    assert model.classify(plan.latents).tolist() == list(
        itertools.accumulate(plan.actions, lambda y, k: (y + k) % n, initial=start)
    )
    if len(plan.actions) < 6:  # nothing shorter does it
        for length in range(len(plan.actions)):
            for other in itertools.product(allowed, repeat=length):
                assert (start + sum(other) - goal) % n


def test_a_plan_says_where_it_did_not_arrive():
    """Angles that are off: -3 is near, but thirteen steps of +1 go around a cycle that does not close."""
    model = ideal(16, [1], wrong=0.06)
    plan = model.plan(model.encoder.latents[0], model.encoder.latents[12], [1])
    assert (plan.action, plan.actions) == (-3, (1,) * 13)
    assert not plan.reached
    left = 12 * math.pi / 8 - 13 * (math.pi / 8 + 0.06)
    assert plan.distance == pytest.approx(2 * abs(math.sin(left / 2)), rel=1e-3)
    assert len(plan.latents) == 14


@pytest.mark.parametrize(("allowed", "says"), [([], "no actions"), ([12], "outside the group"), ([1, 1], "twice")])
def test_bad_allowed_actions_are_refused(allowed, says):
    model = ideal(10, [1])
    with pytest.raises(RequestError, match=says):
        model.plan(*model.encoder.latents[:2], allowed)


# Training says when angles settle badly


@pytest.mark.parametrize("start", ["random", "spectral"])
def test_training_warns_once_of_angles_that_confuse_states(start, monkeypatch, digits, tmp_path):
    class Heard(Callback):
        said: list[str] = []  # noqa: RUF012

        def warning(self, text: str) -> None:
            self.said.append(text)

    monkeypatch.setattr("brojepa.models.spectral.starting_angles", lambda *_: torch.tensor([8 * math.pi / 5]))
    monkeypatch.setattr(
        BlockRotation, "random", lambda dim, **_: BlockRotation(torch.tensor([8 * math.pi / 5]), dim, learned=True)
    )
    config = helpers.config(
        world=str(digits), encoder="mlp", action="sfr-learned", epochs=3, angle_lr=1e-9, angle_start=start
    )
    training.train(config, out=tmp_path, callbacks=[Heard()])
    (text,) = [t for t in Heard.said if "look alike" in t]
    assert "only 5 of 10 states can be told apart" in text
    assert ("--angle-start spectral" in text) == (start == "random"), "no advice that was taken already"


# The command line


@pytest.fixture(scope="module")
def run(digits, tmp_path_factory) -> Path:
    config = helpers.config(world=str(digits), latent=16, encoder="mlp", action="mfr-fixed", epochs=3, lr=3e-3)
    return training.train(config, out=tmp_path_factory.mktemp("runs")).path


def brute_look_alikes(angles: np.ndarray, group: Group) -> int:
    """Elements that turn no plane, one by one."""
    turns = [np.array(k, ndmin=1) @ angles.T for k in group.elements.tolist()]
    return sum(bool(np.allclose(np.exp(1j * turn), 1, atol=1e-6)) for turn in turns)


@pytest.mark.parametrize(
    ("group", "harmonics", "alike"),
    [
        (Cyclic(10), [[8]], 2),
        (Cyclic(10), [[8], [5]], 1),
        (Product((Cyclic(10), Cyclic(10))), [[1, 0], [0, 1], [2, 1]], 1),
        (Product((Cyclic(10), Cyclic(10))), [[2, 0], [0, 1]], 2),
        (Product((Cyclic(10), Cyclic(10))), [[1, 0], [2, 0]], 10),
        (Product((Cyclic(10), Cyclic(4))), [[2, 0], [0, 2]], 4),
    ],
)
def test_states_that_look_alike_are_counted_by_the_group(group, harmonics, alike):
    angles = 2 * np.pi * np.array(harmonics) / np.array(group.periods)
    assert look_alikes(angles, group) == alike == brute_look_alikes(angles, group)
    assert look_alikes(angles + 0.2, group) == 1, "angles that have not settled tell states apart, however close"


def test_a_torus_is_warned_of_the_states_it_cannot_tell_apart(tiny, tmp_path):
    """Learned angles that all turn by the sum of both actions: 3 of 9 states."""
    heard = []

    class Heard(Callback):
        def warning(self, text):
            heard.append(text)

    changes = {"world": f"torus:{tiny},{tiny}", "action": "mfr-learned", "encoder": "mlp", "latent": 16, "epochs": 3}
    changes["angle_start"] = str(2 * math.pi / 3)
    config = brojepa.preset("torus/fast").replace(**changes, precision="float32", lr=1e-6, batch_size=90)
    training.train(config, out=tmp_path, device="cpu", callbacks=[Heard()])
    (text,) = [t for t in heard if "told apart" in t]
    assert "3 of 9" in text
    assert "y + " not in text
    assert "spectral" not in text


@pytest.fixture(scope="module")
def two(digit_arrays, tmp_path_factory) -> tuple[Path, Path]:
    """Two test images, as PNG and as .npy; beside them white.png, the first one in colour and dark on white."""
    place = tmp_path_factory.mktemp("images")
    a, b = digit_arrays[2][:2]
    Image.fromarray(a).save(place / "a.png")
    np.save(place / "b.npy", b)
    Image.fromarray(255 - a).convert("RGB").save(place / "white.png")
    return place / "a.png", place / "b.npy"


def test_inspect_prints_a_page_json_and_a_figure(run, cli, tmp_path):
    page = cli("inspect", run, "--figure", tmp_path / "a.png")
    assert page.code == 0, page.err
    assert "A cycle of length 10 (the world has 10 states), read off 8 fixed angles alone" in page.out
    assert max(map(len, page.out.splitlines()[1:])) <= 120
    with Image.open(tmp_path / "a.png") as image:
        assert image.width > 1000
    found = json.loads(cli("inspect", run, "--json").out)
    split = brojepa.open_world(json.loads((run / "config.json").read_text())["world_path"]).test
    direct = json.loads(json.dumps(brojepa.inspect(brojepa.load(run), split)))
    assert {name: found[name] for name in direct} == direct


def test_a_network_is_inspected_and_drawn(digits, cli, tmp_path):
    config = helpers.config(world=str(digits), encoder="mlp", action="additive", epochs=1)
    path = training.train(config, out=tmp_path).path
    done = cli("inspect", path, "--figure", tmp_path / "a.svg")
    assert done.code == 0, done.err
    assert (tmp_path / "a.svg").read_bytes().startswith(b"<?xml")


def test_infer_and_plan_read_images(run, two, digit_arrays, cli):
    model = brojepa.load(run)
    z = model.encode(digit_arrays[2][:2])
    a, b = model.classify(z).tolist()
    k = int(model.infer_action(z[0], z[1]))
    done = cli("infer", run, *two)
    assert done.code == 0, done.err
    assert done.out.splitlines() == [f"{two[0]} shows {a}", f"{two[1]} shows {b}", f"action {signed(k)}"]
    assert json.loads(cli("infer", run, *two, "--json").out) == {"from": str(a), "to": str(b), "action": k}
    way = json.loads(cli("plan", run, *two, "--allowed=+3,-4", "--json").out)
    assert (sum(way["actions"]) - k) % 10 == 0
    assert len(way["states"]) == len(way["actions"]) + 1
    told = cli("plan", run, *two, "--allowed", "-4,+3")
    assert f"in {len(way['actions'])} step" in told.out


def test_dark_on_white_is_noticed_and_inverted(run, two, cli):
    white = [two[0].with_name("white.png")] * 2
    shown = cli("infer", run, two[0], two[0])
    assert "--invert" not in shown.err
    assert "try with --invert" in cli("infer", run, *white).err
    inverted = cli("infer", run, *white, "--invert")
    assert inverted.out.replace("white.png", "a.png") == shown.out
    assert not inverted.err


def test_wrong_requests_are_answered_in_a_line(run, two, cli, tmp_path):
    Image.new("L", (20, 28)).save(tmp_path / "small.png")
    (tmp_path / "text.png").write_text("no picture")
    np.save(tmp_path / "float.npy", np.zeros((28, 28)))
    for words, expected in [
        (("infer", run, two[0], tmp_path / "small.png"), "is 28x20x1, this model reads 28x28x1"),
        (("infer", run, two[0], tmp_path / "text.png"), "no picture that Pillow can read"),
        (("infer", run, two[0], tmp_path / "nowhere.png"), "No such file"),
        (("infer", run, two[0], tmp_path / "nowhere.npy"), "No such file"),
        (("infer", run, two[0], tmp_path / "float.npy"), "save one image as uint8"),
        (("plan", run, *two, "--allowed=two"), "two is not an action of Z10, write them as in -1,1"),
        (("plan", run, *two), "--allowed"),
        (("inspect", run, "--figure", "a.jpeg"), "must end in .png or .svg"),
        (("inspect", tmp_path), "not a run directory"),
    ]:
        done = cli(*words)
        assert done.code == 2, words
        assert says(done.err, expected), done.err
        assert done.err.count("\n") == 1
