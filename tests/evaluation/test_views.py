"""Retrieval among views that were brought, and the means over orbits that they are trained on, against plain code."""

import json
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

import brojepa
from brojepa import SO3, BlockRotation, PoseWorld, Representation
from brojepa.algebra.views import inspect_views
from brojepa.config import Config
from brojepa.evaluation import ViewEvaluator
from brojepa.evaluation import views as evaluation_views
from brojepa.groups import Cyclic, Dihedral, parse
from brojepa.models.targets import OrbitMean
from brojepa.runs.result import accuracies
from brojepa.worlds import views


def latents_world(seed: int = 0, n: int = 8, things: int = 3):
    """A turntable with views missing, and a stand-in for a model whose latent of a view is drawn once and for all."""
    rng = np.random.default_rng(seed)
    which, pose = np.repeat(np.arange(things), n), np.tile(np.arange(n), things)
    kept = np.sort(rng.permutation(n * things)[: n * things - 5])
    images = np.zeros((len(kept), 4, 4), np.uint8)
    images[:, 0, 0] = np.arange(len(kept))
    world = PoseWorld.from_arrays("table", images, which[kept], pose[kept], f"Z{n}")
    z = torch.randn(len(kept), 8, generator=torch.Generator().manual_seed(seed))
    action = BlockRotation.multi(8, n=n, lowest=1)
    model = SimpleNamespace(device=torch.device("cpu"), act=action.act, action=action,
                            encode=lambda images: z[images[:, 0, 0, 0].long()])  # fmt: skip
    return world, z, model


@pytest.mark.parametrize(("seed", "entries"), [(0, 2**21), (1, 2**21), (2, 40)])
def test_hits_ranks_and_errors_are_those_of_plain_code(monkeypatch, seed, entries):
    monkeypatch.setattr(evaluation_views, "ENTRIES", entries)  # a table of gaps, and pairs some at a time
    world, z, model = latents_world(seed)
    train, test = world.action_sets(Config(train_actions=(-1, 1)))
    found = ViewEvaluator(world, train, test).measure(model, world.test, 10**6)
    things, poses = world.test.states.numpy(), world.test.poses.numpy()
    rank, error, far, action = [], [], [], []
    for i in range(len(z)):
        for j in range(len(z)):
            if i == j or things[i] != things[j]:
                continue
            k = int(poses[j] - poses[i])
            mates = np.flatnonzero(things == things[i])
            away = np.linalg.norm(z[mates].numpy() - model.act(z[i], k).numpy(), axis=1)
            right = away[mates == j][0]
            rank.append(1 + int((away[mates != j] <= right).sum()))
            turn = abs(poses[mates[away.argmin()]] - poses[j])
            error.append(min(turn, 8 - turn))
            far.append(k % 8 not in (1, 7))
            action.append(k % 8)
    rank, error, far, action = map(np.array, (rank, error, far, action))
    assert {int(word) % 8 for word in found["per_action"]} == {*action.tolist()}
    for word, hit in found["per_action"].items():
        rows = action == int(word) % 8
        assert hit == pytest.approx((rank[rows] == 1).mean())
        assert found["error_per_action"][word] == np.sort(error[rows])[(rows.sum() - 1) // 2]
    for name, rows in (("seen", ~far), ("zero_shot", far)):
        summary = found["retrieval"][name]
        assert summary["hit1"] == pytest.approx((rank[rows] == 1).mean())
        assert summary["hit5"] == pytest.approx((rank[rows] <= 5).mean())
        assert summary["mrr"] == pytest.approx((1 / rank[rows]).mean())
        assert summary["mean_error"] == pytest.approx(error[rows].mean())
    assert found["retrieval"]["pairs"] == len(rank)
    assert set(found["per_action"]) <= {world.group.write(k) for k in (*train, *test)}


def test_views_that_are_one_picture_are_right_for_each_other():
    """A hand that turns half as fast as its pose: after half of the cycle it looks the same. The model is exact."""
    n, things = 8, 2
    pose = np.tile(np.arange(n), things)
    which, looks = np.repeat(np.arange(things), n), pose % (n // 2)
    images = np.zeros((len(pose), 4, 4), np.uint8)
    images[:, 0, 0], images[:, 1, 1] = looks, which
    world = PoseWorld.from_arrays("hand", images, which, pose, f"Z{n}")
    action = BlockRotation.multi(4, n=n // 2)
    start = torch.randn(things, 4, generator=torch.Generator().manual_seed(0))

    def encode(images):
        return action.act(start[images[:, 0, 1, 1].long()], images[:, 0, 0, 0].long())

    exact = SimpleNamespace(device=torch.device("cpu"), act=action.act, action=action, encode=encode)
    train, test = world.action_sets(Config(train_actions=(-1, 1)))
    found = ViewEvaluator(world, train, test).measure(exact, world.test, 10**6)
    for name in ("seen", "zero_shot"):
        summary = found["retrieval"][name]
        assert (summary["hit1"], summary["mrr"], summary["mean_error"]) == (1, 1, 0)
    assert found["retrieval"]["alike"] == found["retrieval"]["views"] == n * things
    assert found["chance"] == pytest.approx(2 / n)

    wrong = SimpleNamespace(**{**vars(exact), "act": lambda z, k: action.act(z, k + 1)})
    measured = ViewEvaluator(world, train, test).measure(wrong, world.test, 10**6)["retrieval"]
    assert (measured["zero_shot"]["hit1"], measured["zero_shot"]["mean_error"]) == (0, 1)


@pytest.mark.parametrize("group", ["Z12", "D6", "Z4xZ3"])
def test_things_that_look_more_alike_far_apart_are_counted(group):
    """By plain code, pair by pair. Images are noise, or brighter with every step, or both repeat after half a turn."""
    law, rng = parse(group), np.random.default_rng(0)
    elements = law.elements
    count = len(elements)
    noise, steps = rng.integers(0, 200, (count, 6, 6)), np.linspace(0, 200, count)[:, None, None] * np.ones((1, 6, 6))
    half = np.arange(count) % (count // 2)
    clean = np.concatenate([noise, steps, noise[half], steps[half]])
    images = np.clip(clean + rng.normal(0, 2, clean.shape), 0, 255).astype(np.uint8)
    poses = np.tile(elements.numpy(), (4, *[1] * (elements.ndim - 1)))
    world = PoseWorld.from_arrays("alike", images, np.repeat(np.arange(4), count), poses, group)
    wanted = 0
    for thing in range(4):
        x = images[thing * count : (thing + 1) * count].astype(float)
        by: dict[int, list[tuple[float, float]]] = {}
        for i in range(count):
            for j in range(count):
                k = int(law.residue(law.compose(elements[j], law.inverse(elements[i]))))
                by.setdefault(k, []).append((float(law.gap(elements[i], elements[j])), ((x[i] - x[j]) ** 2).sum()))
        means = [tuple(np.mean(part, 0)) for part in by.values()]
        step = min(gap for gap, _ in means if gap > 0)
        far, near = [off for gap, off in means if gap > 2 * step], [off for gap, off in means if gap == step]
        wanted += bool(far) and min(far) < 0.5 * min(near)
    assert evaluation_views.symmetric(law, world.test) == {"things": wanted, "of": 4}
    if group == "Z12":
        assert wanted == 2, "those that repeat"


def test_symmetric_things_are_only_spoken_of_where_views_are_confused():
    block = {"things": 3, "views": 36, "held_out_things": 0, "symmetric": {"things": 2, "of": 3}}
    for hit1, said in ((0.6, True), (0.99, False)):
        zero_shot = {"hit1": hit1, "mrr": 0.7, "median_error": 0.0, "mean_error": 1.0}
        lines = accuracies({"metrics": {}, "retrieval": {**block, "zero_shot": zero_shot}})
        assert any("2 of 3 things look more alike" in line for line in lines) == said


def test_a_picture_that_comes_twice_in_one_pose_is_no_other_pose(tmp_path):
    images = np.zeros((6, 4, 4), np.uint8)
    images[:, 0, 0] = [1, 1, 2, 1, 4, 5]  # the fourth shows what the first two do, in another pose
    world = PoseWorld.from_arrays("again", images, np.array([0, 0, 0, 0, 1, 1]), np.array([0, 0, 1, 2, 0, 1]), "Z4")
    assert evaluation_views.pictures(world.test.images).tolist() == [0, 0, 1, 0, 2, 3]
    z = torch.randn(6, 4, generator=torch.Generator().manual_seed(0))
    action = BlockRotation.multi(4, n=4)
    model = SimpleNamespace(device=torch.device("cpu"), act=action.act, action=action,
                            encode=lambda images: z[images[:, 0, 0, 0].long()])  # fmt: skip
    train, test = world.action_sets(Config(train_actions=(-1, 1)))
    assert ViewEvaluator(world, train, test).measure(model, world.test, 10**6)["retrieval"]["alike"] == 3


@pytest.mark.parametrize(
    ("group", "action"),
    [
        (Cyclic(6), BlockRotation.multi(8, n=6)),
        (Dihedral(4), Representation(Dihedral(4), "2xA1 + 1xB2 + 2xE1")),
        (parse("Z5xZ4"), BlockRotation.of(parse("Z5xZ4"), "2x0:0 + 2x1:0 + 2x0:1 + 2x1:1")),
        (SO3(), Representation(SO3(), "2x0 + 1x1 + 1x2")),
    ],
    ids=str,
)
def test_the_target_is_the_mean_of_an_orbit_carried_to_each_pose(group, action):
    generator = torch.Generator().manual_seed(0)
    z = torch.randn(10, action.dim, generator=generator)
    orbit, pose = torch.tensor([0, 0, 0, 1, 1, 1, 1, 2, 2, 2]), group.canonical(group.sample(10, generator))
    k = group.sample(20, generator).unflatten(0, (10, 2))
    goal, weight = OrbitMean(group)(z, SimpleNamespace(orbit=orbit, pose=pose, k=k), action)
    assert weight is None
    for i in range(10):
        back = [action.act(z[j], group.inverse(pose[j])) for j in range(10) if orbit[j] == orbit[i]]
        here = action.act(torch.stack(back).mean(0), pose[i])
        for a in range(2):
            torch.testing.assert_close(goal[i, a], action.act(here, k[i, a]), atol=1e-4, rtol=1e-4)
    exact = torch.stack([action.act(z[int(o)], h) for o, h in zip(orbit, pose, strict=True)])
    goal, _ = OrbitMean(group)(exact, SimpleNamespace(orbit=orbit, pose=pose, k=k), action)
    torch.testing.assert_close(goal, action.act(exact[:, None], k), atol=1e-4, rtol=1e-4)


def clock(path, n: int = 12, things: int = 3, size: int = 16) -> str:
    """Hands of a few lengths on a dial, with a mark beside the hand that tells left from right."""
    grid = np.linspace(-1, 1, size)
    images = []
    for length in np.linspace(0.5, 0.9, things):
        for a in 2 * np.pi * np.arange(n) / n:
            at = [(r * length * np.cos(a), r * length * np.sin(a)) for r in (0.3, 0.6, 1)]
            at.append((-0.6 * np.sin(a), 0.6 * np.cos(a)))
            images.append(sum(np.exp(-((grid - x) ** 2 + (grid[:, None] - y) ** 2) / 0.02) for x, y in at).clip(0, 1))
    np.savez(path, images=np.stack(images), things=np.repeat(np.arange(things), n), poses=np.tile(np.arange(n), things),
             group=f"Z{n}")  # fmt: skip
    return str(path)


def test_a_turntable_goes_through_every_command(cli, tmp_path):
    from PIL import Image

    world = clock(tmp_path / "clock.npz")
    done = cli("train", "--world", world, "--epochs", 3, "--batch-size", 64, "--out", tmp_path / "runs")
    assert done.code == 0, done.err
    assert "chosen for these images" in done.out
    assert "36 images" in done.out
    (result,) = (tmp_path / "runs").rglob("result.json")
    run, found = result.parent, json.loads(result.read_text())
    assert found["zero_shot_kind"] == "strict"
    assert found["metrics"]["zero_shot"] >= 0.9  # by chance 1/12
    assert (found["retrieval"]["things"], found["retrieval"]["held_out_things"]) == (3, 0)
    again = cli("eval", run)
    assert again.code == 0, again.err
    assert "identical" in again.out
    Image.fromarray((np.load(world)["images"][2] * 255).astype(np.uint8)).save(tmp_path / "two.png")
    said = cli("predict", run, tmp_path / "two.png", "--action", "+3", "--out", tmp_path / "after.png")
    assert said.code == 0, said.err
    assert "thing 0, +2; +3 leads to thing 0, +5" in said.out
    assert (tmp_path / "after.png").is_file()
    assert "equivariance" in cli("inspect", run).out
    assert cli("data", "show", world, "--out", tmp_path / "world.png").code == 0
    assert "clock" in cli("report", tmp_path / "runs").out


def test_a_run_on_views_that_was_cut_goes_on_bit_for_bit(tmp_path, monkeypatch):
    monkeypatch.setattr(views, "EPOCH", 600)
    world = clock(tmp_path / "clock.npz", n=6, things=2)
    knobs = {"world": world, "epochs": 2, "batch_size": 64, "quiet": True, "precision": "float32"}

    class Cut(brojepa.Callback):
        def step(self, training):
            if training.epoch == 1 and training.step == 3:
                raise KeyboardInterrupt

    whole = brojepa.train(out=tmp_path / "whole", **knobs)
    with pytest.raises(KeyboardInterrupt):
        brojepa.train(out=tmp_path / "cut", callbacks=[Cut()], **knobs)
    resumed = brojepa.train(out=tmp_path / "cut", **knobs)
    one, other = (load_file(run.model_file) for run in (whole, resumed))
    assert one.keys() == other.keys()
    assert all(torch.equal(tensor, other[name]) for name, tensor in one.items())


def test_the_time_that_measuring_takes_counts_all_its_parts():
    world, _, _ = latents_world()
    config = brojepa.preset("own/auto").replace(encoder="mlp", target="sampled", latent=8, precision="float32")
    model = brojepa.build(config, brojepa.Task.of(world), torch.Generator().manual_seed(0))
    measures, heard = ViewEvaluator(world, *world.action_sets(Config(train_actions=(-1, 1)))), []
    measures.listener = heard.append
    assert measures.estimate(model, world.train) > 0
    assert list(measures.expected) == ["pairs", "equivariance"]
    assert min(measures.expected.values()) > 0
    measures.test(model, world.train)
    assert len(heard) == 3 + 1
    assert heard == sorted(heard)
    assert heard[-1] == pytest.approx(1)


def test_many_things_with_few_views_each_are_inspected():
    """Among the first 256 of 1,200 views, spread over all, no two would show the same thing."""
    rng = np.random.default_rng(0)
    images = rng.integers(0, 255, (1200, 4, 4), dtype=np.uint8)
    world = PoseWorld.from_arrays("many", images, np.arange(1200) // 3, np.arange(1200) % 3, "Z3")
    config = brojepa.preset("rotation/fast").replace(train_actions=(-1, 1), latent=4, encoder="mlp")
    model = brojepa.build(config, brojepa.Task.of(world), torch.Generator().manual_seed(0)).eval()
    with torch.no_grad():
        found = inspect_views(model, world)
    assert found["inference"]["pairs"] > 100
    assert found["actions"]
