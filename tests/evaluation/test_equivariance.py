"""The numbers that neighbouring papers print, against the same in plain NumPy."""

from __future__ import annotations

import math

import helpers
import numpy as np
import pytest
import torch

from brojepa import PoseWorld
from brojepa.evaluation import agrees, equivariance, evaluator
from brojepa.evaluation.retrieval import Ranks
from brojepa.groups import SO3, parse
from brojepa.models import Task
from brojepa.models.actions import BlockAction
from brojepa.runs import Result
from brojepa.worlds import derived


def grid(group: str, circle: int = 24) -> torch.Tensor:
    """All elements of a group, or some of a circle."""
    law = parse(group)
    return torch.arange(circle) * 360.0 / circle if law.order is None else law.elements


def turning(poses: np.ndarray, periods: tuple[int, ...], frequencies: tuple[int, ...], dim: int, seed: int):
    """Latents in which every factor turns a plane of its own, at some radius, in a random basis around an offset."""
    rng = np.random.default_rng(seed)
    turns = 2 * np.pi * poses.reshape(len(poses), -1) / np.array(periods) * np.array(frequencies)
    flat = np.concatenate([np.stack((np.cos(t + i), np.sin(t + i)), 1) * (2 + i) for i, t in enumerate(turns.T)], 1)
    basis = np.linalg.qr(rng.normal(size=(dim, dim)))[0][: flat.shape[1]]
    return flat @ basis + rng.normal(size=dim)


def plain_d_lsbd(z: np.ndarray, frequencies: int) -> tuple[float, list[int]]:
    """By the definition, for latents on a whole grid: [things, size of factor 1, ..., dim]."""
    scores, chosen = [], []
    sizes = z.shape[1:-1]
    for axis, size in enumerate(sizes):
        angle = 2 * np.pi * np.indices(sizes)[axis].ravel() / size
        found = {}
        for f in range(1, min(frequencies, size // 2) + 1):
            left = []
            for thing in z:
                part = (thing - thing.mean(axis=axis, keepdims=True)).reshape(-1, z.shape[-1])
                values, vectors = np.linalg.eigh(part.T @ part / len(part))
                plane = part @ vectors[:, [-1, -2]] / np.sqrt(2 * values[[-1, -2]])
                ways = []
                for sign in (-1, 1):
                    c, s = np.cos(sign * f * angle), np.sin(sign * f * angle)
                    back = np.stack((c * plane[:, 0] - s * plane[:, 1], s * plane[:, 0] + c * plane[:, 1]), 1)
                    ways.append(((back - back.mean(0)) ** 2).sum(1).mean())
                left.append(min(ways))
            found[f] = np.mean(left)
        best = min(found, key=found.__getitem__)
        scores.append(found[best])
        chosen.append(best)
    return float(np.mean(scores)), chosen


CASES = [("Z10", (10,), (3,)), ("Z5xZ7", (5, 7), (2, 1)), ("SO2", (24,), (4,))]


@pytest.mark.parametrize(("group", "sizes", "frequencies"), CASES)
def test_latents_that_turn_with_the_pose_have_d_lsbd_0_and_their_frequencies_are_found(group, sizes, frequencies):
    law, poses = parse(group), grid(group)
    z = torch.tensor(turning(poses.numpy(), law.periods or (), frequencies, 12, seed=0))
    found = equivariance.d_lsbd(law, z, poses, torch.zeros(len(z)))
    assert found["d_lsbd"] == pytest.approx(0, abs=1e-12)
    assert found["frequencies"] == list(frequencies)


@pytest.mark.parametrize(("group", "sizes", "frequencies"), CASES)
@pytest.mark.parametrize("noise", [0.3, 3.0])
def test_d_lsbd_is_that_of_the_definition(group, sizes, frequencies, noise):
    law, poses = parse(group), grid(group)
    rng = np.random.default_rng(1)
    each = [turning(poses.numpy(), law.periods or (), frequencies, 9, seed) for seed in range(3)]
    z = np.stack([one + noise * rng.normal(size=one.shape) for one in each])
    order = torch.randperm(3 * len(poses), generator=torch.Generator().manual_seed(0))
    rows = torch.tensor(z.reshape(-1, 9))[order]
    things = torch.arange(3).repeat_interleave(len(poses))[order]
    found = equivariance.d_lsbd(law, rows, torch.cat([poses] * 3)[order], things)
    score, chosen = plain_d_lsbd(z.reshape(3, *sizes, 9), equivariance.FREQUENCY)
    assert 1e-3 < score < 1
    assert found["d_lsbd"] == pytest.approx(score, rel=1e-9)
    assert found["frequencies"] == chosen


def test_d_lsbd_of_latents_that_do_not_turn_is_high_and_of_what_has_no_circle_is_none():
    law, poses = parse("Z72"), torch.arange(72)
    noise = torch.randn(72, 16, generator=torch.Generator().manual_seed(0))
    assert equivariance.d_lsbd(law, noise, poses, torch.zeros(72))["d_lsbd"] > 0.8
    assert equivariance.d_lsbd(law, torch.ones(72, 16), poses, torch.zeros(72))["d_lsbd"] == 1
    none = {"d_lsbd": None, "frequencies": None}
    assert equivariance.d_lsbd(law, noise[:30], poses[:30], torch.zeros(30)) == none, "half of the cycle is missing"
    assert equivariance.d_lsbd(law, noise * math.nan, poses, torch.zeros(72)) == none
    assert equivariance.d_lsbd(parse("Z2"), noise[:2], poses[:2], torch.zeros(2)) == none
    assert equivariance.d_lsbd(parse("D4"), noise[:8], parse("D4").elements, torch.zeros(8)) == none


def test_r2_is_that_of_its_definition_and_leaves_out_what_never_varies():
    rng = np.random.default_rng(0)
    true, read = rng.normal(size=(50, 3)), rng.normal(size=(50, 3))
    each = [
        1 - ((true[:, i] - read[:, i]) ** 2).sum() / ((true[:, i] - true[:, i].mean()) ** 2).sum() for i in range(3)
    ]
    assert equivariance.r2(torch.tensor(read), torch.tensor(true)) == pytest.approx(np.mean(each))
    still = np.concatenate((true, np.full((50, 1), 2.0)), 1)
    assert equivariance.r2(torch.tensor(np.c_[read, read[:, :1]]), torch.tensor(still)) == pytest.approx(np.mean(each))
    assert equivariance.r2(torch.ones(5, 1), torch.ones(5, 1)) is None


def test_the_linear_probe_is_least_squares_with_a_ridge():
    rng = np.random.default_rng(0)
    z, others = rng.normal(size=(80, 6)) + 3, rng.normal(size=(20, 6)) + 3
    targets = z @ rng.normal(size=(6, 2)) + rng.normal(size=(80, 2))
    x, y = z - z.mean(0), targets - targets.mean(0)
    ridge = np.sqrt(equivariance.RIDGE * (x**2).sum() / 6)
    weights = np.linalg.lstsq(np.r_[x, ridge * np.eye(6)], np.r_[y, np.zeros((6, 2))], rcond=None)[0]
    expected = (others - z.mean(0)) @ weights + targets.mean(0)
    read = equivariance.linear_probe(*(torch.tensor(part) for part in (z, targets, others)))
    np.testing.assert_allclose(read, expected, rtol=1e-9)


def test_two_layers_read_what_one_cannot_and_the_same_each_time():
    """Where the plane turns half as fast as the pose, its cosine is a square in the latents."""
    generator = torch.Generator().manual_seed(0)
    law = parse("SO2")
    poses = law.sample(1200, generator)
    half = torch.deg2rad(poses) / 2
    z = torch.stack((half.cos(), half.sin()), 1) + 0.01 * torch.randn(1200, 2, generator=generator)
    torch.manual_seed(3)
    before = torch.get_rng_state()
    with torch.no_grad():
        found = equivariance.probes(law, z[:800], poses[:800], z[800:], poses[800:])
    assert torch.equal(torch.get_rng_state(), before)
    linear, two = found["r2_linear"], found["r2_two_layer"]
    assert linear is not None
    assert two is not None
    assert linear < 0.9 < 0.97 < two < 1
    assert equivariance.probes(law, z[:800], poses[:800], z[800:], poses[800:]) == found
    nothing = {"r2_linear": None, "r2_two_layer": None}
    assert equivariance.probes(law, z[:800] * math.nan, poses[:800], z[800:], poses[800:]) == nothing
    assert equivariance.probes(parse("D4"), z[:8], parse("D4").elements, z[:8], parse("D4").elements) == nothing


def targets(group: str, poses: torch.Tensor) -> np.ndarray:
    found = equivariance.pose_targets(parse(group), poses)
    assert found is not None
    return found.numpy()


def test_the_targets_of_a_probe_are_circles_and_turns_of_space():
    pair = torch.tensor([[3, 20], [9, 1]])
    expected = np.c_[np.cos(2 * np.pi * pair.numpy() / [10, 26]), np.sin(2 * np.pi * pair.numpy() / [10, 26])]
    np.testing.assert_allclose(targets("Z10xZ26", pair), expected, atol=1e-12)
    quarter = torch.tensor([SO3().parse("z90")])
    turned = np.array([[0, -1, 0], [1, 0, 0], [0, 0, 1]]).reshape(1, 9)
    np.testing.assert_allclose(targets("SO3", quarter), turned, atol=1e-7)


def test_pre_is_one_less_the_squared_product_of_quaternions():
    group, generator = SO3(), torch.Generator().manual_seed(0)
    found, true = group.sample(200, generator), group.sample(200, generator)
    ranks = Ranks(torch.ones(200, 1), group.distance(found, true)[:, None], equivariance.degrees_per_gap(group))
    expected = np.mean(1 - (found.double().numpy() * true.double().numpy()).sum(1) ** 2)
    assert (ranks.summary([0]) or {})["pre"] == pytest.approx(expected, rel=1e-5)
    steps = Ranks(torch.ones(3, 1), torch.tensor([[0.0], [18], [36]]), equivariance.degrees_per_gap(parse("Z72")))
    assert (steps.summary([0]) or {})["pre"] == pytest.approx((0 + 0.5 + 1) / 3)
    assert equivariance.degrees_per_gap(parse("Z5xZ7")) is None
    assert "pre" not in (Ranks(torch.ones(3, 1), torch.ones(3, 1)).summary([0]) or {})


def test_the_ratio_of_errors_is_none_where_there_is_none():
    assert equivariance.error_ratio(0.2, 0.5) == pytest.approx(2.5)
    assert equivariance.error_ratio(0.0, 0.5) is None
    assert equivariance.error_ratio(None, 0.5) is None
    assert equivariance.error_ratio(0.5, None) is None


@pytest.mark.parametrize("group", ["Z10", "Z5xZ7", "SO2", "D4", "SO3"])
def test_the_models_own_action_leaves_nothing_where_latents_move_as_it_says(group):
    law = parse(group)
    model = helpers.model(
        Task(0, (1, 8, 8), (0.3,), (0.4,), law), train_actions=law.example.split(","), target="sampled"
    )
    action = model.eval().action
    assert isinstance(action, BlockAction)
    poses, generator = equivariance.around(law), torch.Generator().manual_seed(0)
    start = torch.randn(2, 8, generator=generator)
    with torch.no_grad():
        exact = torch.cat([model.act(z.expand(len(poses), -1), poses) for z in start])
        noisy = exact + 0.5 * torch.randn(exact.shape, generator=generator)
        things = torch.arange(2).repeat_interleave(len(poses))
        both = torch.cat((poses, poses))
        # the mean over a whole group is what the group leaves in place
        assert (equivariance.left_by_action(model, exact, both, things) or 0) < (1e-9 if group != "SO3" else 0.05)
        left = []
        for thing in range(2):
            z = noisy[things == thing].double().numpy()
            centred = z - z.mean(0)
            pairs = zip(poses, centred, strict=True)
            back = np.stack([np.linalg.inv(action.matrix(g).numpy()) @ row for g, row in pairs])
            left.append(((back - back.mean(0)) ** 2).sum() / (centred**2).sum())
        assert equivariance.left_by_action(model, noisy, both, things) == pytest.approx(np.mean(left), rel=1e-4)
        assert equivariance.left_by_action(model, noisy * math.nan, both, things) is None


# In results


def test_the_result_says_what_was_measured_and_nothing_of_what_was_not():
    result = {"metrics": {"seen": 0.5}, "equivariance": {"d_lsbd": None, "r2_linear": 0.25, "error_ratio": 1.5}}
    text = repr(Result(result))
    assert "R2 of the pose 0.250" in text
    assert "1.5 times" in text
    assert "LSBD" not in text
    assert "R2" not in repr(Result({"metrics": {"seen": 0.5}}))


def test_a_labelled_world_has_d_lsbd_of_its_states_and_the_ratio_of_its_errors():
    world = helpers.blobs(n=5, count=20)
    model = helpers.model(Task.of(world)).eval()
    measured = evaluator(world, (-1, 1), (2, 3)).test(model, world.train)
    z = model.encode(world.test.images).detach().double().numpy()
    means = np.stack([z[world.test.states.numpy() == state].mean(0) for state in range(5)])
    score, chosen = plain_d_lsbd(means[None], equivariance.FREQUENCY)
    found = measured["equivariance"]
    assert found["d_lsbd"] == pytest.approx(score, rel=1e-4)
    assert found["frequencies"] == chosen
    wrong = [1 - measured["metrics"][part] for part in ("seen", "zero_shot")]
    assert found["error_ratio"] == pytest.approx(wrong[1] / wrong[0])


def plain_r2(x: np.ndarray, y: np.ndarray, others: np.ndarray, wanted: np.ndarray) -> float:
    centred = x - x.mean(0)
    ridge = equivariance.RIDGE * (centred**2).sum() / x.shape[1] * np.eye(x.shape[1])
    off = (others - x.mean(0)) @ np.linalg.solve(centred.T @ centred + ridge, centred.T @ y) + y.mean(0) - wanted
    return float((1 - (off**2).sum(0) / ((wanted - wanted.mean(0)) ** 2).sum(0)).mean())


def test_views_have_probes_on_other_views_and_d_lsbd_of_their_things():
    n, things = 12, 4
    rng = np.random.default_rng(0)
    which, poses = np.repeat(np.arange(things), n), np.tile(np.arange(n), things)
    images = rng.integers(0, 256, (len(which), 8, 8)).astype(np.uint8)
    world = PoseWorld.from_arrays("table", images, which, poses, "Z12")
    model = helpers.model(Task.of(world), train_actions=(-1, 1), target="sampled").eval()
    measured = evaluator(world, (-1, 1), (2, 3)).test(model, world.train)
    found = measured["equivariance"]
    z = model.encode(world.test.images).detach().double()
    score, chosen = plain_d_lsbd(z.numpy().reshape(things, n, -1), equivariance.FREQUENCY)
    assert found["d_lsbd"] == pytest.approx(score, rel=1e-4)
    assert found["frequencies"] == chosen
    order = torch.randperm(len(z), generator=torch.Generator().manual_seed(0)).numpy()
    fitted, others = order[: len(z) // 2], order[len(z) // 2 :]
    turn = 2 * np.pi * poses / n
    wanted = np.stack((np.cos(turn), np.sin(turn)), 1)
    expected = plain_r2(z.numpy()[fitted], wanted[fitted], z.numpy()[others], wanted[others])
    assert found["r2_linear"] == pytest.approx(expected, rel=1e-3)
    retrieval = measured["retrieval"]
    assert found["error_ratio"] == pytest.approx(retrieval["zero_shot"]["mean_error"] / retrieval["seen"]["mean_error"])
    assert 0 < retrieval["zero_shot"]["pre"] < 1


def test_things_turned_by_the_computer_have_all_and_flips_what_needs_no_circle():
    base = helpers.blobs(n=4, count=12, size=8)
    world = derived.rotation("a", lambda name: base)
    assert isinstance(world, PoseWorld)
    model = helpers.model(Task.of(world), train_actions=("10", "-10"), target="sampled").eval()
    state = torch.get_rng_state()
    measured = evaluator(world, (10.0, -10.0), (40.0, 90.0)).test(model, world.train)
    assert torch.equal(torch.get_rng_state(), state)
    found = measured["equivariance"]
    assert found.keys() == {"error_ratio", "r2_linear", "r2_two_layer", "d_lsbd", "frequencies", "d_lsbd_of_action"}
    shown = []
    for i in range(len(world.test)):
        thing = world.test[torch.full((equivariance.POSES,), i)]
        shown.append(model.encode(world.show(thing, torch.arange(equivariance.POSES) * 10.0)).detach().double().numpy())
    score, _ = plain_d_lsbd(np.stack(shown), equivariance.FREQUENCY)
    assert found["d_lsbd"] == pytest.approx(score, rel=1e-4)
    flips = derived.dihedral("a", lambda name: base)
    model = helpers.model(Task.of(flips), train_actions=("r",), target="sampled").eval()
    measured = evaluator(flips, flips.actions[:1], flips.actions[1:]).test(model, flips.train)
    assert measured["equivariance"]["d_lsbd"] is None
    assert 0 < measured["equivariance"]["d_lsbd_of_action"] <= 1
    assert "pre" not in measured["retrieval"]["seen"]


def test_probes_are_fitted_on_training_things_and_read_those_held_out():
    rng = np.random.default_rng(0)
    which, poses = np.repeat(np.arange(5), 12), np.tile(np.arange(12) * 30.0, 5)
    images = rng.integers(0, 256, (60, 8, 8)).astype(np.uint8)
    world = PoseWorld.from_arrays("table", images, which, poses, "SO2", held_out_things=2)
    model = helpers.model(Task.of(world), train_actions=("30", "-30"), target="sampled").eval()
    found = evaluator(world, (30.0, -30.0), (60.0,)).test(model, world.train)["equivariance"]
    sides = []
    for views in (world.train, world.test):
        turn = np.deg2rad(views.poses.double().numpy())
        z = model.encode(views.images).detach().double().numpy()
        sides += [z, np.stack((np.cos(turn), np.sin(turn)), 1)]
    assert (len(sides[0]), len(sides[2])) == (36, 24)
    assert found["r2_linear"] == pytest.approx(plain_r2(*sides), rel=1e-3)


def test_the_poses_of_a_recording_start_anew_so_no_probe_reads_them():
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (60, 8, 8)).astype(np.uint8)
    world = PoseWorld.from_recording("walk", images, np.ones(60, int), np.repeat(np.arange(3), 20), "Z12")
    model = helpers.model(Task.of(world), train_actions=(-1, 1), target="sampled").eval()
    measured = evaluator(world, (-1, 1), (2, 3)).test(model, world.train)
    found = measured["equivariance"]
    assert found.keys() == {"error_ratio", "d_lsbd", "frequencies", "d_lsbd_of_action"}
    assert 0 < found["d_lsbd"] < 1
    assert measured["trained_actions"] == ["-1", "+1"]  # the config says no more than "recorded"


def test_evaluating_again_notices_another_number():
    old = {"metrics": {"seen": 0.5}, "equivariance": {"d_lsbd": 0.1}}
    assert agrees({"metrics": {"seen": 0.5}}, old), "from before it was measured"
    assert agrees(old, old)
    assert not agrees(old, old | {"equivariance": {"d_lsbd": 0.2}})
