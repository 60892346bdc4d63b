"""Worlds made from others and worlds of poses: what they show, what they draw, and how a model of one is measured."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from helpers import blobs, checked, says
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

import brojepa
from brojepa import groups
from brojepa.errors import RequestError
from brojepa.evaluation.retrieval import ByModel, ByPixels, retrieve
from brojepa.models.actions import BlockRotation, MLPAction, Representation, evenly
from brojepa.runs import Run
from brojepa.worlds import PoseTransitions, PoseWorld, Sampling, Split, derived, open_world
from brojepa.worlds.world import World


def opened(world: World):
    return lambda name: world


@pytest.fixture(scope="module")
def small() -> World:
    return blobs(n=4, count=12, size=8)


# Some of the states


def test_some_digits_are_a_cycle_of_their_own():
    whole, some = open_world("mnist"), open_world("mnist:0-6")
    assert (some.n, str(some.group)) == (7, "Z7")
    assert len(some.train) == int((whole.train.states < 7).sum())
    assert torch.equal(some.test.images, whole.test.images[whole.test.states < 7])
    assert some.mean != whole.mean


def test_states_are_counted_anew_in_the_order_given(small):
    some = derived.subset(small, "3,1")
    kept = (small.test.states == 3) | (small.test.states == 1)
    assert torch.equal(some.test.states, (small.test.states[kept] == 1).long())
    assert derived.subset(small, "b-d").n == 3, "letters count from a"


@pytest.mark.parametrize("states", ["2", "0-9", "1,1", "x-y-z", "", "3-1", "?"])
def test_states_that_are_not_there_are_refused(small, states):
    with pytest.raises(RequestError, match="world blobs:"):
        derived.subset(small, states)


# Side by side


def test_two_images_side_by_side_move_on_their_own_or_as_one_number():
    left, right = blobs(n=4, count=40, tests=30), blobs(n=3, count=60, seed=1, tests=40)
    worlds = {"a": left, "b": right}
    for make, law in ((derived.torus, "Z4xZ3"), (derived.pairs, "Z12")):
        world = make("a,b", worlds.__getitem__)
        assert (world.n, str(world.group), world.shape) == (12, law, (1, 8, 16))
        assert len(world.train) == max(len(left.train), len(right.train))
        halves = world.train.images.split(8, 3)
        states = world.train.states // 3, world.train.states % 3
        for half, base, state in zip(halves, (left, right), states, strict=True):
            known = zip(base.train.images, base.train.states.tolist(), strict=True)
            rows = {image.numpy().tobytes(): y for image, y in known}
            assert all(rows[image.numpy().tobytes()] == y for image, y in zip(half, state.tolist(), strict=True))
    again = derived.torus("a,b", worlds.__getitem__)
    assert torch.equal(again.test.images, derived.torus("a,b", worlds.__getitem__).test.images)


def test_one_world_is_not_two(small):
    with pytest.raises(RequestError, match=r"two worlds.* torus:mnist,emnist"):
        derived.torus("a", opened(small))


# Poses


def posed(small: World) -> list[PoseWorld]:
    return [derived.rotation("a", opened(small)), derived.dihedral("a", opened(small))]  # pyright: ignore[reportReturnType]


def test_a_thing_in_the_pose_of_the_identity_is_as_it_was(small):
    for world in posed(small):
        e = torch.as_tensor(world.group.identity).expand(len(small.test), *world.group.shape)
        assert torch.equal(world.show(small.test, e.to(world.group.dtype)), small.test.images)


@checked
@given(st.integers(0, 2**31))
def test_flipping_and_turning_pixels_is_an_action_of_the_group(seed):
    world = derived.dihedral("a", opened(blobs(n=4, count=12, size=8)))
    g = torch.Generator().manual_seed(seed)
    a, b = world.group.sample(24, g), world.group.sample(24, g)
    things = world.test
    once = Split(world.show(things, b), things.states)
    assert torch.equal(world.show(once, a), world.show(things, world.group.compose(a, b)))


@pytest.mark.parametrize("walk", [1, 5])
def test_targets_are_the_same_thing_where_the_actions_lead(small, walk):
    for world in posed(small):
        actions = [world.group.plain(k) for k in world.group.generators]
        transitions = PoseTransitions(world, world.train, actions, Sampling(walk=walk))
        draw = transitions.draw(torch.Generator().manual_seed(0))
        batch = transitions.batch(draw, 3, 11)
        assert batch.k.shape == (8, walk, *world.group.shape)
        assert batch.targets.shape == (8 * walk, *world.shape)
        assert set(world.group.bucket(draw.k).flatten().tolist()) <= set(
            world.group.bucket(transitions.actions).tolist()
        )
        for i in range(8):
            thing, pose = world.train[draw.context[3 + i : 4 + i]], draw.pose[3 + i]
            assert torch.equal(batch.images[i : i + 1], world.show(thing, pose[None]))
            for step in range(walk):
                pose = world.group.compose(draw.k[3 + i, step], pose)
                off = batch.targets[i * walk + step].int() - world.show(thing, pose[None])[0].int()
                assert off.abs().max() <= 1, "rounding of a pose that was added up in another order"


def test_every_thing_is_a_context_once_and_every_action_is_tried(small):
    world = posed(small)[1]
    actions = [world.group.plain(k) for k in world.group.generators]
    draw = PoseTransitions(world, world.train, actions, Sampling(every_action=True)).draw(
        torch.Generator().manual_seed(0)
    )
    assert sorted(draw.context.tolist()) == list(range(len(world.train)))
    assert torch.equal(draw.k, torch.tensor(actions).expand(len(world.train), 3, 2))


def test_a_walk_often_goes_on_as_it_began(small):
    world = posed(small)[0]
    k = PoseTransitions(world, world.train, (-10.0, 10.0), Sampling(walk=50)).draw(torch.Generator().manual_seed(0)).k
    stayed = float((k[:, 1:] == k[:, :-1]).float().mean())
    assert 0.92 < stayed < 0.98, "nine in ten stay, and half of the others draw the same again"


@pytest.mark.parametrize("action", ["rotation", "representation", "mlp"])
def test_a_walk_is_its_steps_one_after_another(action):
    g = torch.Generator().manual_seed(0)
    group = {"rotation": groups.SO2(), "representation": groups.SO3(), "mlp": groups.Dihedral(4)}[action]
    made_of = {
        "rotation": lambda: BlockRotation.of(group, evenly(group, 16)),
        "representation": lambda: Representation(group, evenly(group, 16)),
        "mlp": lambda: MLPAction(16, group, hidden=8),
    }
    latent_action, k = made_of[action](), group.sample(12, g).reshape(3, 4, *group.shape)
    z = torch.randn(3, 16, generator=g)
    seen = [z]
    for step in range(4):
        seen.append(latent_action.act(seen[-1], k[:, step]))
    seen = torch.stack(seen, 1)
    torch.testing.assert_close(latent_action.path(seen, k), seen, atol=1e-4, rtol=0)
    noisy = seen + torch.randn(seen.shape, generator=g)
    path = latent_action.path(noisy, k)
    for step in range(4):
        torch.testing.assert_close(path[:, step + 1], latent_action.act(path[:, step], k[:, step]), atol=1e-4, rtol=0)
    if action != "mlp":  # the nearest path to what was seen: no other start comes nearer on the whole
        for _ in range(20):
            start = path[:, 0] + 0.1 * torch.randn(3, 16, generator=g)
            other = latent_action.path(torch.cat((start[:, None], seen[:, 1:] * 0), 1) * 5, k)
            torch.testing.assert_close(other[:, 0], start, atol=1e-4, rtol=0)
            assert ((other - noisy).square().sum() > (path - noisy).square().sum()).item()


# Measuring


class Perfect:
    """A model whose latent is the pose itself, on every thing alike: shown images carry it in their first pixels."""

    device = torch.device("cpu")

    def __init__(self, group, error=None) -> None:
        self.action, self.error, self.group = Representation(group, evenly(group, 16)), error, group
        self.start = torch.randn(16, generator=torch.Generator().manual_seed(0))

    def encode(self, images: Tensor) -> Tensor:
        pose = self.group.elements[images[:, 0, 0, 0].long()]
        return self.action.act(self.start, pose)

    def act(self, z: Tensor, k: Tensor) -> Tensor:
        return self.action.act(z, k if self.error is None else self.group.compose(k, self.error))


def labelled_poses(count: int = 3) -> PoseWorld:
    """A world of D4 whose images say their pose: nothing to learn, everything to check the measuring by."""
    group = groups.Dihedral(4)

    def show(things: Split, pose: Tensor) -> Tensor:
        return group.bucket(pose)[:, None, None, None].expand(-1, 1, 2, 2).to(torch.uint8)

    split = Split(torch.zeros(count, 1, 2, 2, dtype=torch.uint8), torch.arange(count))
    return PoseWorld(
        "said", count, split, split, (0.0,), (1.0,), {}, group,
        show=show, candidates=group.elements, measured=group.actions, contexts=8,
    )  # fmt: skip


def test_a_model_that_is_right_is_found_right_and_one_that_is_wrong_wrong():
    world = labelled_poses()
    right = retrieve(ByModel(Perfect(world.group)), world, world.test, world.actions)
    assert right.rank.shape == (3 * 8, 7)
    assert right.summary(list(range(7))) == {
        "hit1": 1.0,
        "hit5": 1.0,
        "mrr": 1.0,
        "median_error": 0.0,
        "mean_error": 0.0,
    }
    wrong = retrieve(ByModel(Perfect(world.group, torch.tensor([2, 0]))), world, world.test, world.actions)
    found = wrong.summary(list(range(7)))
    assert found["hit1"] == 0
    assert found["mean_error"] == 1
    assert right.summary([]) is None


def test_the_rank_counts_candidates_that_are_nearer():
    world = labelled_poses()

    class Blind(Perfect):
        def encode(self, images):
            return super().encode(images) * 0 + images[:, 0, 0, :1].float() @ torch.ones(1, 16)

        def act(self, z, k):
            return z * 0 + torch.zeros(len(k), 16)  # always at the candidate of mark 0

    class Collapsed(Blind):
        def encode(self, images):
            return super().encode(images) * 0

    collapsed = retrieve(ByModel(Collapsed(world.group)), world, world.test, world.actions)
    assert collapsed.summary(list(range(7)))["hit1"] == 0, "what looks all alike is not found"
    found = retrieve(ByModel(Blind(world.group)), world, world.test, world.actions)
    true = found.rank - 1
    assert sorted(set(true.flatten().tolist())) == list(range(8)), "candidates are ranked by their number"


def test_pixels_are_the_ceiling_and_exact_where_pixels_move_exactly(small):
    turned, flipped = posed(small)
    found = retrieve(ByPixels(flipped, torch.device("cpu")), flipped, flipped.test, flipped.actions)
    assert found.summary(list(range(7)))["hit1"] == 1
    found = retrieve(ByPixels(turned, torch.device("cpu")), turned, turned.test, (90.0, 180.0, -90.0, 30.0))
    assert found.error[:, :3].median() == 0


# Through the command line, on small data


def trained(cli, out: Path, preset: str, world: str, words: str) -> Run:
    """The one run that a command leaves below `out`."""
    outcome = cli("train", preset, "--world", world, *words.split(), "--quiet", "--out", str(out))
    assert outcome.code == 0, outcome.err
    (path,) = out.glob("*/*/seed-0")
    return Run(path)


def test_a_world_of_turned_images_trains_and_is_measured(cli, tiny, tmp_path):
    run = trained(
        cli, tmp_path, "rotation/fast", f"rotation:{tiny}", "--encoder mlp --latent 24 --epochs 1 --batch-size 64"
    )
    result = run.result
    assert result["zero_shot_kind"] == "strict"
    assert len(result["per_action"]) == 179
    assert result["retrieval"]["ceiling"]["median_error"] <= 2
    assert set(result["retrieval"]) >= {"seen", "zero_shot", "on_grid", "off_grid"}
    again = cli("eval", str(run.path))
    assert again.code == 0
    assert "identical to result.json" in again.out


def test_flipped_images_are_told_apart_and_order_matters(cli, tiny, tmp_path):
    run = trained(
        cli, tmp_path, "dihedral/fast", f"dihedral:{tiny}", "--encoder mlp --epochs 40 --batch-size 48 --latent 32"
    )
    result = run.result
    assert result["metrics"]["zero_shot"] > 0.5 > 2 * result["chance"]
    model = brojepa.load(run.path, "cpu")
    world = open_world(f"dihedral:{tiny}")
    z = model.encode(world.test.images)
    r, s = torch.tensor([1, 0]), torch.tensor([0, 1])
    turned = Split(world.show(world.test, r.expand(len(z), 2)), world.test.states)
    goal = model.encode(world.show(turned, s.expand(len(z), 2)))
    right, wrong = model.act(model.act(z, r), s), model.act(model.act(z, s), r)
    nearer = (right - goal).norm(dim=1) < (wrong - goal).norm(dim=1)
    assert float(nearer.float().mean()) > 0.8


def test_a_torus_trains_on_its_generators_and_is_measured_on_the_rest(cli, tiny, tmp_path):
    run = trained(
        cli, tmp_path, "torus/fast", f"torus:{tiny},{tiny}", "--encoder mlp --latent 22 --epochs 20 --batch-size 48"
    )
    result = run.result
    assert len(result["per_action"]) == 8
    assert result["zero_shot_kind"] == "strict"
    assert result["metrics"]["zero_shot"] > 0.75 > 6 * result["chance"]


def test_the_angles_of_a_torus_can_be_learned(cli, tiny, tmp_path):
    run = trained(
        cli, tmp_path, "torus/fast", f"torus:{tiny},{tiny}", "--encoder mlp --latent 16 --action mfr-learned --epochs 2"
    )
    start, end = (np.array(row["angles"]) for row in (run.metrics[0], run.metrics[1]))
    assert end.shape == (8, 2)
    assert (start != end).all(), "both factors of every plane"
    found = brojepa.inspect(brojepa.load(run.path, "cpu"), open_world(f"torus:{tiny},{tiny}"))
    assert len(found["rotation"]["planes"]) == 8


def test_a_digit_and_a_letter_are_a_torus_of_their_own_cycles(letters):
    world = open_world("torus:mnist:0-1,emnist", letters)
    assert (str(world.group), world.shape, world.n) == ("Z2xZ26", (1, 28, 56), 52)


def test_objects_in_space_train_and_are_measured(cli, tmp_path, monkeypatch):
    for name, value in {"OBJECTS": 2, "VIEWS": 64, "SIZE": 12, "GRID": 40, "TURNS": 5, "STARTS": 2}.items():
        monkeypatch.setattr(derived, name, value)
    words = ["--encoder", "mlp", "--epochs", "1", "--batch-size", "16", "--json", "--out", str(tmp_path)]
    for target in (["--target", "relaxed", "--walk", "1", "--views", "4"], ["--target", "sampled", "--walk", "3"]):
        outcome = cli("train", "pose/fast", *words, *target)
        assert outcome.code == 0, outcome.err
        result = json.loads(outcome.out.splitlines()[-1])
        assert result["zero_shot_kind"] == "strict"
        assert result["retrieval"]["candidates"] == 40
        assert 0 < result["retrieval"]["zero_shot"]["median_error"] <= 180
        assert 0 < result["retrieval"]["refined"]["zero_shot"]["median_error"] <= 180


TORUS, FLIPPED, SMALL = ["--world", "torus:TINY,TINY"], ["--world", "dihedral:TINY"], ["--world", "DIGITS"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--world", "torus:TINY"], "name two worlds"),
        (["--world", "pairs:DIGITS,DIGITS"], "images of state"),
        (["--world", "pose:3"], "pose has no parts to name, write pose"),
        (["--world", "rotation:torus:TINY,TINY"], "name a world of plain images, as in rotation:mnist"),
        (["--world", "mnist:0"], "name two or more of them"),
        (["torus/fast", *TORUS, "--train-actions", "1,2"], "1 is not an action of Z3xZ3, write them as in 1:0,0:1"),
        (["torus/fast", *TORUS, "--target", "relaxed"], "--target relaxed is for cycles, not for Z3xZ3"),
        (["dihedral/fast", *FLIPPED, "--action", "mfr-learned"], "--action mfr-learned does not fit D4"),
        (["dihedral/fast", *FLIPPED, "--action", "lookup"], "the lookup embedding is for cycles, not for D4"),
        (["dihedral/fast", *FLIPPED, "--target", "mean"], "--target mean needs labelled states"),
        (["dihedral/fast", *FLIPPED, "--method", "supervised"], "--method supervised needs labelled states"),
        (["dihedral/fast", *FLIPPED, "--even-states"], "--even-states are for labelled states, not for poses"),
        (["mnist/fast", "--irreps", "10x1 + 10x2"], "--irreps '10x1 + 10x2' is for --action mfr-fixed"),
        (["mnist/bro-mlp-mfr-fixed", *SMALL, "--irreps", "10x1 + 10x2"], "makes 40 dimensions: use --latent 40"),
        (
            ["mnist/bro-mlp-mfr-fixed", *SMALL, "--irreps", "1x0 + 31x1"],
            "1 copies of 0, of dimension 1, do not fill planes",
        ),
        (["mnist/bro-mlp-mfr-fixed", *SMALL, "--irreps", "32 of 1"], "write copies x name"),
        (["mnist/bro-mlp-mfr-fixed", *SMALL, "--irreps", "32x7"], "unknown irreducible representation of Z10"),
        (["mnist/bro-mlp-mfr-fixed", *SMALL, "--walk", "3"], "--walk 3 is for worlds of poses"),
        (["dihedral/fast", "--walk", "3"], "--walk 3 draws one action per step: leave out --every-action"),
        (["rotation/fast", "--walk", "3"], "--walk 3 is for --target sampled"),
    ],
)
def test_what_a_world_cannot_do_is_refused_in_one_line(cli, tiny, digits, tmp_path, words, message):
    words = [word.replace("TINY", tiny).replace("DIGITS", str(digits)) for word in words]
    outcome = cli("train", *words, "--out", str(tmp_path))
    assert outcome.code == 2
    assert says(outcome.err, message), outcome.err
    assert outcome.err.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_irreps_of_a_cycle_make_up_its_latent(cli, digits, tmp_path):
    words = "--irreps 2x0+3x1+2x5 --latent 10 --epochs 1"
    run = trained(cli, tmp_path, "mnist/bro-mlp-mfr-fixed", str(digits), words)
    unit = 2 * np.pi / 10
    np.testing.assert_allclose(run.result["angles"], [0, unit, unit, unit, 5 * unit], atol=1e-6)
