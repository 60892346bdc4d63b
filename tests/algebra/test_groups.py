"""Inverse dynamics, planning and inspection beyond the cycle, by models without error: rho(pose) v for a fixed v."""

from __future__ import annotations

import itertools
import json
import math

import numpy as np
import pytest
import torch
from helpers import checked, says, settings
from hypothesis import example, given
from hypothesis import strategies as st
from torch import Tensor, nn

import brojepa
from brojepa.algebra import inspect
from brojepa.algebra.describe import describe
from brojepa.algebra.labelled import geometry
from brojepa.algebra.laws import law, pairs
from brojepa.errors import RequestError
from brojepa.figures import style
from brojepa.figures.algebra import draw
from brojepa.groups import SO2, SO3, Cyclic, Dihedral, Group, Product, parse
from brojepa.models import Model, Task
from brojepa.models.actions import BlockAction, BlockRotation, LatentAction, MLPAction, Representation, evenly
from brojepa.models.planning import infer_action, plan
from brojepa.runs import Run
from brojepa.worlds import PoseWorld, Split, open_world

D4, TORUS = Dihedral(4), Product((Cyclic(3), Cyclic(4)))
GROUPS = [D4, Dihedral(5), TORUS, SO2(), SO3()]
seeds = st.integers(0, 2**31)
few = settings(checked, max_examples=15)


def exact(group: Group, dim: int = 16) -> BlockAction:
    copies = evenly(group, dim)
    return BlockRotation.of(group, copies) if group.periods else Representation(group, copies)


class Says(nn.Module):
    """Images that say their pose, number by number -> rho(pose) v, the same v for all things."""

    def __init__(self, group: Group, action: LatentAction) -> None:
        super().__init__()
        self.group, self.action = group, action
        self.start = torch.randn(action.dim, generator=torch.Generator().manual_seed(0))

    def forward(self, x: Tensor) -> Tensor:
        return self.action.act(self.start, x.flatten(1).to(self.group.dtype).reshape(-1, *self.group.shape))


def posed(group: Group, count: int = 5) -> PoseWorld:
    """A world whose images are the numbers of their pose."""
    size = math.prod(group.shape)

    def show(things: Split, pose: Tensor) -> Tensor:
        return pose.float().reshape(len(things), 1, 1, size)

    finite = group.order is not None
    grid = group.elements if finite else group.grid(60) if isinstance(group, SO3) else torch.arange(0, 360, 6).float()
    some = group.actions if finite else tuple(group.plain(k) for k in group.candidates()[1::101])
    split = Split(torch.zeros(count, 1, 1, size), torch.arange(count))
    return PoseWorld(
        "said", count, split, split, (0.0,), (1 / 255,), {}, group,
        show=show, candidates=grid, measured=some, views=0 if finite else 1,
    )  # fmt: skip


class OfPoses(Model):
    """A model of images that are the numbers of a pose and no pixels: they are taken as they are."""

    def encode(self, images: Tensor) -> Tensor:
        return self.embed(self.encoder, images)


def ideal(group: Group, acts: LatentAction | None = None) -> Model:
    action, world = exact(group), posed(group)
    return OfPoses(Says(group, action), acts or action, Task(0, world.shape, world.mean, world.std, group))


class Undoes(Representation):
    """Does the inverse of what it is asked to."""

    def act(self, z, k):
        return super().act(z, self.group.inverse(torch.as_tensor(k)))


# Inverse dynamics


@pytest.mark.parametrize("group", [*GROUPS, parse("Z10xZ26"), parse("Z3xSO2")], ids=str)
def test_candidates_are_each_once_and_the_identity_is_first(group):
    found = group.candidates()
    assert found.dtype == group.dtype
    assert group.distance(found[0], torch.as_tensor(group.identity)) == 0
    assert len({group.plain(k) for k in found}) == len(found)
    if group.order:
        assert len(found) == group.order
        assert {group.plain(k) for k in found[1:]} == set(group.actions)
        assert torch.equal(group.canonical(group.compose(found, found[0])), found)


@few
@given(st.sampled_from(GROUPS[:-1]), seeds)
@example(SO3(), 0)
def test_the_action_that_was_done_is_inferred(group, seed):
    g, action = torch.Generator().manual_seed(seed), exact(group)
    every = group.candidates()
    k = every[torch.randint(len(every), (2, 3), generator=g)]
    z = torch.randn(2, 3, action.dim, generator=g)
    found = infer_action(action, group, z, action.act(z, k))
    assert found.shape == (2, 3, *group.shape)
    assert torch.equal(found, k)


@few
@given(st.sampled_from(["D4", "D7", "Z3xZ4", "SO2", "learned"]), seeds)
@example("SO3", 0)
def test_the_inferred_action_is_the_nearest_of_all_that_are_carried_out(name, seed):
    """The closed forms against every action carried out, on latents that no action leads between."""
    g = torch.Generator().manual_seed(seed)
    group = TORUS if name == "learned" else parse(name)
    action = BlockRotation.random(16, factors=2, generator=g) if name == "learned" else exact(group)
    z, w = torch.randn(2, 4, 16, generator=g)
    with torch.no_grad():
        far = (action.act(z[:, None], group.candidates()) - w[:, None]).norm(dim=-1)
        reached = action.act(z, infer_action(action, group, z, w))
    torch.testing.assert_close((reached - w).norm(dim=-1), far.amin(1), atol=1e-4, rtol=0)


def test_a_turn_between_the_candidates_is_found_to_the_nearest():
    for group, middle, most in ((SO2(), 0.3, 0.51), (SO3(), 10, 30)):
        action, g = exact(group), torch.Generator().manual_seed(0)
        z, k = torch.randn(40, 16, generator=g), group.sample(40, g)
        off = group.distance(infer_action(action, group, z, action.act(z, k)), k)
        assert off.median() < middle
        assert off.max() < most


def test_the_action_of_a_network_of_a_group_is_found_by_trying():
    torch.manual_seed(0)
    action = MLPAction(8, D4, hidden=16)
    z = torch.randn(30, 8)
    k = D4.elements[torch.arange(30) % 8]
    with torch.no_grad():
        assert torch.equal(infer_action(action, D4, z, action.act(z, k)), k)


# Planning


def square(word: str) -> np.ndarray:
    """What a word of D4 does to the corners of a square, as a matrix."""
    return {"r": np.array([[0, -1], [1, 0]]), "s": np.array([[1, 0], [0, -1]])}[word]


def done(words) -> np.ndarray:
    """The matrix of words done one after another: the last stands on the left."""
    matrix = np.eye(2, dtype=int)
    for word in words:
        matrix = square(word) @ matrix
    return matrix


@pytest.mark.parametrize("goal", D4.elements.tolist())
def test_a_plan_of_flips_and_turns_is_in_the_right_order_and_the_shortest(goal):
    model = ideal(D4)
    start = torch.tensor([1, 1])
    z = model.encode(posed(D4).show([0, 0], torch.stack((start, D4.compose(torch.tensor(goal), start)))))
    way = model.plan(z[0], z[1], ["r", "s"])
    words = [D4.write(k) for k in way.actions]
    wanted = done("r" * goal[0]) @ done("s" * goal[1])
    assert (done(words) == wanted).all()
    assert way.action == tuple(goal)
    assert way.reached
    assert way.distance < 1e-4
    for here, k, there in zip(way.latents, way.actions, way.latents[1:], strict=False):
        torch.testing.assert_close(model.act(here, k), there)
    for length in range(len(words)):
        assert not any((done(other) == wanted).all() for other in itertools.product("rs", repeat=length))


def test_actions_may_be_words_or_plain_elements_and_their_order_breaks_ties():
    model = ideal(D4)
    z = model.encode(posed(D4).show([0, 0], torch.tensor([[0, 0], [2, 0]])))
    for allowed, first in ((["r", "r-1"], (1, 0)), ([(3, 0), (1, 0)], (3, 0))):
        assert model.plan(*z, allowed).actions == (first, first)


@few
@given(st.integers(0, 11), st.integers(0, 11))
def test_a_plan_on_a_torus_moves_each_number(start, goal):
    action = exact(TORUS)
    z = action.act(torch.ones(16), TORUS.elements)
    way = plan(action, TORUS, z[start], z[goal], ["1:0", "0:-1"])
    ones, backs = way.actions.count((1, 0)), way.actions.count((0, -1))
    assert ((goal // 4 - start // 4) % 3, (start % 4 - goal % 4) % 4) == (ones, backs)
    assert way.reached
    assert len(way.latents) == 1 + ones + backs


def test_what_cannot_be_reached_is_said_with_what_can():
    action = exact(TORUS)
    z = action.act(torch.ones(16), TORUS.elements)
    with pytest.raises(RequestError, match=r"0:\+1 .*\+1:0, .*-1:0 0:0 \+1:0"):
        plan(action, TORUS, z[0], z[1], ["1:0"])
    large = parse("Z10xZ10")
    action = exact(large, 44)
    z = action.act(torch.ones(44), large.elements)
    with pytest.raises(RequestError, match=r"\+1:0 .* 0:\+1,\+2:0, .* 34 more") as said:
        plan(action, large, z[0], z[10], ["0:1", "2:0"])
    assert "\n" not in str(said.value)


@pytest.mark.parametrize(
    ("group", "allowed", "message"),
    [
        (SO2(), ["10"], "SO2 is continuous and has no shortest plans"),
        (SO3(), ["x15"], "SO3 is continuous and has no shortest plans"),
        (D4, ["q"], "q is not an action of D4, write them as in r,r-1,s"),
        (D4, [(1,)], "(1,) is not an action of D4"),
        (D4, [(1, 0), "r5"], "twice"),
        (TORUS, [(1, 0, 0)], "is not an action of Z3xZ4, write them as in 1:0,0:1"),
    ],
)
def test_plans_that_make_no_sense_are_refused(group, allowed, message):
    with pytest.raises(RequestError) as caught:
        plan(exact(group), group, torch.ones(16), torch.ones(16), allowed)
    assert says(str(caught.value), message), caught.value


# Inspection: poses


@pytest.mark.parametrize("group", [D4, Dihedral(5), SO2(), SO3()], ids=str)
def test_an_ideal_model_of_poses_has_no_error(group):
    found = inspect(ideal(group), posed(group))
    json.dumps(found, allow_nan=False)
    for name in ("equivariance", "composition", "inverse", "identity"):
        assert found["law"][name] < 1e-6, name
    assert ("return" in found["law"]) == (group.order is not None)
    assert ("pairs" in found["law"]) == (group.order is None)
    assert (found["law"]["commutation"] < 1e-6) == found["abelian"] == isinstance(group, SO2)
    assert found["inference"]["accuracy"] == 1
    assert found["retrieval"]["mrr"] > (0.999 if group.order else 0.5)
    assert sum(part["energy"] for part in found["parts"]) == pytest.approx(1)
    assert found["parts"][0]["energy"] < 1e-6, "what no action moves is the same in every pose"
    assert all(row["equivariance"] < 1e-6 for row in found["actions"])
    page = describe({"run": "r", "world": "w", **found})
    assert max(map(len, page)) <= 120
    assert any(line.startswith("It composes") for line in page)
    assert any("does not commute" in line for line in page) != found["abelian"]
    with style.language():
        figure = draw({"run": "r", "world": "w", **found}, [])
    titles = [axes.get_title() for axes in figure.axes]
    assert len(titles) == 2
    assert "equivariance error by action" in titles


def test_energy_is_shared_as_the_planes_are():
    """A plane that turns under all of a group has the variance of its radius, whatever the frequency."""
    model = ideal(D4)
    v = model.encoder.start = torch.tensor([float(len(p.dims)) for p in model.action.parts for _ in p.dims])
    found = inspect(model, posed(D4))["parts"]
    moving = sum(float(v[list(p.dims)].square().sum()) for p in model.action.parts[1:])
    for part, row in zip(model.action.parts[1:], found[1:], strict=True):
        assert row["energy"] == pytest.approx(float(v[list(part.dims)].square().sum()) / moving, abs=0.03)
        assert row["copies"] * row["dim"] == len(part.dims)


def test_an_action_in_the_wrong_order_is_found_out():
    found = inspect(ideal(D4, Undoes(D4, evenly(D4, 16))), posed(D4))
    assert found["law"]["composition"] > 0.1
    assert found["law"]["return"] < 1e-8
    assert found["law"]["equivariance"] > 0.1
    assert {row["action"] for row in found["actions"] if row["equivariance"] < 1e-6} == {"r2", "s", "rs", "r2s", "r3s"}
    assert "It does not compose: composition off" in " ".join(describe({"run": "r", "world": "w", **found}))


def test_a_network_of_poses_has_no_parts_and_everything_else():
    torch.manual_seed(0)
    found = inspect(ideal(D4, MLPAction(16, D4, hidden=8)), posed(D4))
    assert found["parts"] is None
    assert found["law"]["identity"] > 0.01
    assert "no representation to read" in describe({"run": "r", "world": "w", **found})[2]
    with style.language():
        assert len(draw({"run": "r", "world": "w", **found}, []).axes) == 2


def test_learned_angles_of_a_circle_are_told_by_their_nearest_frequency():
    model = ideal(SO2(), BlockRotation(torch.deg2rad(torch.tensor([0.0, 1, 2.1, -2, 3, 1, 1, 1])), learned=True))
    names = [(part["irrep"], part["copies"]) for part in inspect(model, posed(SO2()))["parts"]]
    assert names == [("0", 2), ("1", 4), ("2", 2), ("3", 1)]


def test_what_is_no_world_of_the_model_is_refused():
    with pytest.raises(RequestError, match="give the world"):
        inspect(ideal(D4), posed(D4).test)
    with pytest.raises(RequestError, match="kind of world"):
        inspect(ideal(D4), posed(Dihedral(5)))


# Inspection: tori, and the law


def torus(copies: str, group: Product = TORUS) -> tuple[Model, Split]:
    """A model without error of labelled states, and images with one pixel lit."""
    action = BlockRotation.of(group, copies)
    n = group.order or 0
    latents = action.act(torch.ones(action.dim), group.elements)
    encoder = nn.Linear(n, action.dim, bias=False)
    encoder.weight.data = latents.T.contiguous()
    model = Model(nn.Sequential(nn.Flatten(), encoder), action, Task(n, (1, 1, n), (0.0,), (1.0,), group))
    centred = latents - latents.mean(0)
    model.classifier.weight.data, model.classifier.bias.data = centred, torch.zeros(n)
    states = torch.arange(n).repeat(2)
    return model, Split((255 * nn.functional.one_hot(states, n)).to(torch.uint8)[:, None, None], states)


def test_an_ideal_torus_has_no_error_and_two_moduli():
    found = inspect(*torus("2x1:0 + 3x0:1 + 1x1:1 + 2x0:2"))
    json.dumps(found, allow_nan=False)
    for name in ("equivariance", "composition", "inverse", "identity", "commutation", "return"):
        assert found["law"][name] < 1e-8, name
    rotation = found["rotation"]
    assert rotation["modulus"] == [3, 4]
    assert (rotation["alike"], rotation["settled"]) == (1, 7)
    assert [(f["frequency"], f["planes"]) for f in rotation["frequencies"]] == [
        ("0:1", 3), ("0:2", 1), ("1:0", 2), ("1:1", 1),
    ]  # fmt: skip
    assert [f["energy"] for f in rotation["frequencies"]] == pytest.approx([3 / 7, 1 / 7, 2 / 7, 1 / 7], abs=1e-5)
    assert found["geometry"]["circulant"] == pytest.approx(1, abs=1e-5)
    assert found["retrieval"]["mrr"] == found["inference"]["accuracy"] == 1
    assert [row["accuracy"] for row in found["drift"]] == [1, 1, 1, 1]
    page = describe({"run": "r", "world": "w", **found})
    assert page[2].startswith("Factor 1: A cycle of length 3 (it is Z3), read off 7 fixed angles alone")
    assert "Factor 2: A cycle of length 4 (it is Z4)" in page[3]
    with style.language():
        assert len(draw({"run": "r", "world": "w", **found}, list(map(str, range(12)))).axes) == 7


@pytest.mark.parametrize("copies", ["1x1:0", "1x1:0 + 2x0:2", "2x0:2", "1x1:1", "1x0:1 + 2x0:0"])
def test_states_of_a_torus_that_look_alike_are_counted(copies):
    model, split = torus(copies)
    found = inspect(model, split)["rotation"]
    apart = {tuple(row) for row in model.encode(split.images).round(decimals=3).add(0.0).tolist()}
    assert found["distinguishable"] == len(apart)
    assert found["alike"] * len(apart) == 12


def test_cosines_of_a_torus_depend_on_what_leads_from_one_to_the_other():
    model, split = torus("1x1:0 + 1x0:1")
    z = model.encode(split.images[:12]).detach()
    assert geometry(z, TORUS)["circulant"] == pytest.approx(1, abs=1e-5)
    assert geometry(z)["circulant"] < 0.8
    assert geometry(z[torch.randperm(12, generator=torch.Generator().manual_seed(0))], TORUS)["circulant"] < 0.8


def test_pairs_are_all_or_drawn():
    assert len(pairs(D4)[0]) == 64
    assert len(pairs(parse("Z10xZ10"))[0]) == 50


def test_a_generator_that_does_not_come_back_breaks_the_return_by_as_much():
    """Of the torus' two generators one turns its plane by e too much, and is done three times."""
    e = 0.1
    model, _ = torus("1x1:0 + 1x0:1")
    model.action.theta = model.action.theta + torch.tensor([[e, 0], [0, 0]])
    z = torch.randn(50, 4, generator=torch.Generator().manual_seed(0))
    off = 4 * math.sin(3 * e / 2) ** 2 * float(z[:, :2].square().sum(1).mean()) / 2
    spread = float((z - z.mean(0)).square().sum(1).mean())
    assert law(model, z)["return"] == pytest.approx(off / spread, rel=1e-4)


# The command line


@pytest.fixture(scope="module")
def flipped(cli, tiny, tmp_path_factory):
    words = ["--encoder", "mlp", "--latent", "16", "--epochs", "2", "--batch-size", "48", "--quiet"]
    out = tmp_path_factory.mktemp("flipped")
    outcome = cli("train", "dihedral/fast", "--world", f"dihedral:{tiny}", *words, "--out", out)
    assert outcome.code == 0, outcome.err
    (path,) = out.glob("dihedral-*/*/seed-0")
    return path


def test_a_run_of_flipped_images_is_inspected_and_drawn(flipped, cli, tmp_path, tiny):
    page = cli("inspect", flipped, "--figure", tmp_path / "a.svg")
    assert page.code == 0, page.err
    assert "views of 90 test things, moved by D4" in page.out
    assert "irreducible representations" in page.out
    assert (tmp_path / "a.svg").read_bytes().startswith(b"<?xml")
    found = json.loads(cli("inspect", flipped, "--json").out)
    direct = brojepa.inspect(brojepa.load(flipped), open_world(f"dihedral:{tiny}"))
    assert {name: found[name] for name in direct} == json.loads(json.dumps(direct))
    whole = Run(flipped).result["retrieval"]
    assert found["retrieval"]["things"] == whole["things"] == 90
    parts = [whole["seen"]["mrr"] * 3, whole["zero_shot"]["mrr"] * 4]
    assert found["retrieval"]["mrr"] == pytest.approx(sum(parts) / 7, abs=1e-6)


def test_actions_between_images_without_labels_are_words(flipped, tiny, cli, tmp_path):
    world = open_world(f"dihedral:{tiny}")
    thing = world.test[torch.zeros(2, dtype=torch.long)]
    images = world.show(thing, torch.tensor([[0, 0], [1, 1]]))
    for name, image in zip("ab", images, strict=True):
        np.save(tmp_path / f"{name}.npy", image[0].numpy())
    two = (tmp_path / "a.npy", tmp_path / "b.npy")
    model = brojepa.load(flipped)
    word = model.group.write(model.group.plain(model.infer_action(*model.encode(images))))
    assert cli("infer", flipped, *two).out == f"action {word}\n"
    assert json.loads(cli("infer", flipped, *two, "--json").out) == {"from": None, "to": None, "action": word}
    way = json.loads(cli("plan", flipped, *two, "--allowed", "r,s", "--json").out)
    assert set(way["actions"]) <= {"r", "s"}
    told = cli("plan", flipped, *two, "--allowed", "r,s").out.splitlines()
    assert told[0].startswith(f"action {word}, in {len(way['actions'])} step")
    assert [line.strip() for line in told[1:-1]] == ["start", *way["actions"]]
    refused = cli("plan", flipped, *two, "--allowed=1,2")
    assert (refused.code, refused.err.count("\n")) == (2, 1)
    assert "2 is not an action of D4" in refused.err
