"""Retrieval that goes on between the candidates, against brute force over far more of them."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from brojepa import build, evaluator
from brojepa.evaluation import refine
from brojepa.groups import SO2, SO3, Cyclic
from brojepa.models import Task
from brojepa.presets import PRESETS
from brojepa.runs.result import accuracies
from brojepa.worlds import open_world

GROUP = SO3()


def latents(poses, tilt=0.0):
    """Matrices of turns, bent a little, so that the nearest latent is not always that of the nearest pose."""
    z = GROUP.matrix(poses).flatten(-2)
    return z + tilt * (3 * z).sin().roll(1, -1)


def near(poses, degrees, count, generator):
    """Turns within some degrees of poses, [poses, count, 4]."""
    axes = torch.nn.functional.normalize(torch.randn(len(poses), count, 3, generator=generator), dim=-1)
    half = torch.deg2rad(degrees * torch.rand(len(poses), count, 1, generator=generator) ** (1 / 3)) / 2
    return GROUP.compose(torch.cat((half.cos(), half.sin() * axes), -1), poses[:, None])


@pytest.mark.parametrize("tilt", [0.0, 0.15])
def test_the_pose_found_is_the_one_that_brute_force_finds(tilt):
    generator = torch.Generator().manual_seed(0)
    goal = latents(GROUP.sample(150, generator), tilt) + 0.15 * torch.randn(150, 9, generator=generator)
    grid = GROUP.grid(4096)
    coarse = grid[torch.cdist(goal, latents(grid, tilt)).argmin(1)]
    found = refine.refine(GROUP, lambda poses: latents(poses, tilt), goal, coarse)
    dense = torch.cat((near(coarse, 30.0, 20_000, generator), coarse[:, None]), 1)  # half a degree apart at the middle
    away = (latents(dense, tilt) - goal[:, None]).norm(dim=-1)
    brute = dense[torch.arange(len(dense)), away.argmin(1)]
    apart, before = GROUP.distance(found, brute), GROUP.distance(coarse, brute)
    assert float(before.median()) > 5
    assert float(apart.median()) < 1.5
    assert float(apart.quantile(0.9)) < 4
    assert bool((apart < before + 1).all())
    left = (latents(found, tilt) - goal).norm(dim=-1)
    assert bool((left <= (latents(coarse, tilt) - goal).norm(dim=-1)).all()), "never further than where it began"


def test_an_exact_model_errs_by_the_grid_before_and_hardly_after():
    generator = torch.Generator().manual_seed(1)
    true, grid = GROUP.sample(300, generator), GROUP.grid(4096)
    coarse = grid[torch.cdist(latents(true), latents(grid)).argmin(1)]
    found = refine.refine(GROUP, latents, latents(true), coarse)
    assert 7 < float(GROUP.distance(coarse, true).median()) < 8.5
    assert float(GROUP.distance(found, true).median()) < 1
    assert float(GROUP.distance(found, true).max()) < 6


def test_the_nearest_candidate_is_as_far_as_the_angle_between_quaternions(monkeypatch):
    """2 arccos |p . q|, in blocks of any size."""
    true, grid = GROUP.sample(300, torch.Generator().manual_seed(4)), GROUP.grid(4096)
    angle = torch.rad2deg(2 * (true.double() @ grid.double().T).abs().amax(1).clamp(max=1).acos())
    for entries in (1, 10_000, 2**21):
        monkeypatch.setattr(refine, "ENTRIES", entries)
        assert torch.allclose(refine.nearest(GROUP, grid, true), angle.float(), atol=0.02)
    assert 7 < float(angle.median()) < 8.5


def test_the_block_splits_errors_by_what_was_trained_on():
    error, least = torch.tensor([[1.0, 5.0, 7.0], [3.0, 9.0, 11.0]]), torch.tensor([[1.0, 2.0, 3.0], [1.0, 4.0, 5.0]])
    found = refine.block(error, least, 1, 1.0)
    assert (found["seen"]["mean_error"], found["zero_shot"]["mean_error"], found["predictions"]) == (2.0, 8.0, 6)
    nearest = found["nearest_candidate"]
    assert (nearest["seen"]["mean_error"], nearest["zero_shot"]["mean_error"]) == (1.0, 3.5)
    assert refine.block(error[:, :1], least[:, :1], 1, None)["zero_shot"] is None


def test_a_model_that_turns_too_far_is_off_by_just_that():
    true, grid = GROUP.sample(200, torch.Generator().manual_seed(2)), GROUP.grid(4096)
    wrong = GROUP.compose(GROUP.tensor([GROUP.parse("y12")]), true)
    coarse = grid[torch.cdist(latents(wrong), latents(grid)).argmin(1)]
    found = refine.refine(GROUP, latents, latents(wrong), coarse)
    assert float(GROUP.distance(found, true).median()) == pytest.approx(12, abs=0.5)


def test_steps_lead_all_around():
    poses = GROUP.sample(5, torch.Generator().manual_seed(3))
    steps = GROUP.around(poses, 6.0)
    assert steps.shape == (5, 12, 4)
    assert torch.allclose(GROUP.distance(steps, poses[:, None]), torch.tensor(6.0), atol=1e-2)
    assert torch.allclose(GROUP.coordinates(GROUP.around(GROUP.identity, 6.0)).sum(0), torch.zeros(3), atol=1e-5)
    assert SO2().around(torch.tensor([10.0, 359.0]), 2.0).tolist() == [[8.0, 12.0], [357.0, 1.0]]
    assert Cyclic(10).around(torch.tensor([3]), 2.0).tolist() == [[3]]


def test_some_actions_are_spread_over_all():
    assert refine.some_actions([1, -1]) == [1, -1]
    assert refine.some_actions(list(range(200)))[:3] == [0, 22, 44]
    assert len(refine.some_actions(list(range(200)))) == refine.ACTIONS
    assert refine.some_actions([]) == []


def test_a_result_has_both_and_the_parts_of_the_estimate_are_heard():
    world = open_world("pose")
    few = world.test[torch.arange(2)]
    world = dataclasses.replace(world, test=few, candidates=GROUP.grid(200), measured=world.measured[:5], contexts=2)
    config = PRESETS["pose/fast"].replace(precision="float32")
    model = build(config, Task.of(world), torch.Generator().manual_seed(0))
    train_actions, test_actions = world.action_sets(config)
    measures = evaluator(world, train_actions, test_actions)
    heard: list[float] = []
    measures.listener = heard.append
    assert measures.estimate(model, world.train) > 0
    assert list(measures.expected) == ["model", "refined", "equivariance"]
    result = measures.test(model, world.train)
    assert heard == sorted(heard)
    assert heard[-1] == pytest.approx(1)
    found = result["retrieval"]
    assert {"hit1", "hit5", "mrr", "median_error", "mean_error", "pre"} <= set(found["zero_shot"])
    assert found["refined"]["steps"] == list(refine.STEPS)
    assert found["refined"]["predictions"] == 2 * 2 * (6 + 5)
    for part in ("seen", "zero_shot"):
        assert 0 < found["refined"][part]["median_error"] <= 180
        assert 0 < found["refined"][part]["pre"] <= 1
        assert 0 < found["refined"]["nearest_candidate"][part]["median_error"] < found[part]["median_error"]
    again = evaluator(world, train_actions, test_actions).test(model, world.train)
    assert again == result


def test_the_report_begins_with_the_error_of_the_model():
    """Then comes that of the candidates, beside what the best of them would have."""
    errors = {"median_error": 11.0, "mean_error": 15.0}
    found = {"seen": {"hit1": 0.5, "hit5": 0.9, "mrr": 0.7, **errors}, "zero_shot": None, "candidates": 4096}
    refined = {"seen": {"median_error": 6.5, "mean_error": 9.0}, "zero_shot": None}
    for more, said in ({}, False), ({"nearest_candidate": {"seen": {"median_error": 7.75}, "zero_shot": None}}, True):
        lines = accuracies({"metrics": {}, "retrieval": {**found, "refined": {**refined, **more}}})
        own, candidate = (
            next(i for i, line in enumerate(lines) if word in line) for word in ("refined", "candidate found")
        )
        assert own < candidate
        assert "median 6.5" in lines[own]
        assert "median 11" in lines[candidate]
        assert ("7.75" in lines[candidate]) == said
    assert not any("candidate found" in line for line in accuracies({"metrics": {}, "retrieval": found}))
