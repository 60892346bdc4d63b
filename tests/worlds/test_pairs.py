"""Pairs of views of a thing, against plain code: numbered, looked up by pose, a block at a time."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from brojepa import PoseWorld
from brojepa.groups import parse
from brojepa.worlds import Sampling, pairs
from brojepa.worlds.facts import chooser


@pytest.mark.parametrize("count", [2, 3, 7])
def test_pairs_have_a_number_each(count):
    first, second = pairs.ordered(count, torch.arange(count * (count - 1)))
    plain = [(i, j) for i in range(count) for j in range(count) if i != j]
    assert list(zip(first.tolist(), second.tolist(), strict=True)) == plain


def test_all_pairs_and_some_are_of_one_thing():
    things = torch.tensor([4, 7, 4, 9, 7, 4])  # 9 has one view, and no pair
    first, second = pairs.every(things)
    plain = [(i, j) for t in (4, 7, 9) for i in range(6) for j in range(6) if i != j and things[i] == things[j] == t]
    assert list(zip(first.tolist(), second.tolist(), strict=True)) == plain
    for most in (1, 3, 100):
        some = list(zip(*(rows.tolist() for rows in pairs.some(things, most)), strict=True))
        assert some == plain[:: max(1, len(plain) // most)][:most]


@pytest.mark.parametrize("name", ["Z6", "Z3xZ4", "D4"])
def test_pairs_that_an_action_leads_to(name):
    group, rng = parse(name), torch.Generator().manual_seed(0)
    poses = group.sample(40, rng)  # some twice, some not at all
    things = torch.randint(3, (40,), generator=rng)
    k = group.sample(3, rng)
    plain = [
        (i, j) for i in range(40) for j in range(40)
        if i != j and things[i] == things[j]
        and any(float(group.distance(group.compose(one, poses[i]), poses[j])) < 1e-6 for one in k)
    ]  # fmt: skip
    assert plain
    assert list(zip(*(rows.tolist() for rows in pairs.led(things, poses, group, k)), strict=True)) == plain


def test_blocks_of_any_size_find_the_same(monkeypatch):
    rng = np.random.default_rng(0)
    images = rng.integers(0, 255, (90, 4, 4), dtype=np.uint8)
    poses, things = rng.uniform(0, 360, 90), np.arange(90) % 3
    found = []
    for block in (2**20, 100, 1):
        monkeypatch.setattr(pairs, "BLOCK", block)
        assert all(k.numel() <= max(block, 30) for _, k in pairs.apart(torch.tensor(poses[:30]), parse("SO2")))
        world = PoseWorld.from_arrays("turns", images, things, poses, "SO2")
        trained, _ = world.action_sets(chooser(world)({})[0])
        edges = world.edges(world.train, trained)
        found.append((world.reach, edges.start.tolist(), edges.stop.tolist(), edges.k.tolist()))
    assert found[0] == found[1] == found[2]


def test_memory_does_not_grow_with_the_square_of_views():
    """All pairs at once would be 40 GB and 14 GB."""
    count, rng = 100, np.random.default_rng(0)
    poses = np.stack(np.meshgrid(*[np.arange(count)] * 2), -1).reshape(-1, 2)[: 3 * 2**12]
    images = rng.integers(0, 255, (60_000, 1, 1), dtype=np.uint8)
    grid = PoseWorld.from_arrays("grid", images[: len(poses)], np.zeros(len(poses), int), poses, "Z100xZ100")
    config, _ = chooser(grid)({})
    assert set(config.train_actions) == {"+1:0", "-1:0", "0:+1", "0:-1"}
    trained, _ = grid.action_sets(config)
    assert len(grid.transitions(grid.train, trained, Sampling(with_targets=False, views=12))) == len(poses)
    steps = rng.uniform(-20, 20, 60_000)
    episodes = np.repeat(np.arange(2), 30_000)
    walk = PoseWorld.from_recording("walk", images, steps, episodes, "SO2", held_out_things=1)
    trained, unseen = walk.action_sets(chooser(walk)({})[0])
    assert trained
    assert unseen
