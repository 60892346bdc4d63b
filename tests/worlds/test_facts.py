"""Which augmentation a world can do with: tried on its own images, and given up where it confuses states."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import own_worlds
import pytest
import torch
from helpers import blobs

from brojepa.worlds import World, open_world
from brojepa.worlds.facts import chooser, facts, first_of_each, harmless, shifted, told_apart, warped


def open_own(place: Path, name: str) -> World:
    return open_world(str(own_worlds.write(place, name)))


def test_a_shift_is_given_up_where_the_place_is_the_state(tmp_path):
    world = open_own(tmp_path, "rows.npz")
    found = facts(world)
    assert found.shift == 0
    assert found.warp == 0.1
    assert chooser(world)({})[0].shift == 0


def test_a_turn_is_given_up_where_the_angle_is_the_state(tmp_path):
    found = facts(open_own(tmp_path, "bars.npz"))
    assert found.warp == 0
    assert found.shift == 2


def test_digits_keep_both():
    sample = first_of_each(open_world("mnist").train, 1000)
    assert harmless(sample, 2, 0.1) == (2, 0.1)


def test_facts_are_counts_and_sizes():
    world = blobs(n=5, count=20, size=8)
    found = facts(world)
    assert (found.images, found.states, found.least, found.most) == (100, 5, 20, 20)
    assert found.shape == (1, 8, 8)
    assert found.cycle


def test_told_apart_is_the_nearest_other_image():
    """Against a loop over pairs."""
    rng = np.random.default_rng(0)
    images = torch.from_numpy(rng.integers(0, 256, (12, 3, 1, 4, 4), dtype=np.uint8))
    states = torch.arange(12) % 3
    right = 0
    for i in range(12):
        far = {
            j: min(float(((images[i, i % 3].double() - images[j, way].double()) ** 2).sum()) for way in range(3))
            for j in range(12)
            if j != i
        }
        right += int(states[min(far, key=lambda j: far[j])] == states[i])
    assert told_apart(states, images) == pytest.approx(right / 12)


def test_moved_images_are_crops_and_maps_of_the_image():
    images = torch.randint(0, 256, (3, 2, 10, 12), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    moved = shifted(images, 2)
    assert moved.shape == (3, 9, 2, 6, 8)
    assert torch.equal(moved[:, 4], images[:, :, 2:-2, 2:-2])
    turned = warped(images, 0.1)
    assert turned.shape == (3, 7, 2, 8, 10)
    assert torch.equal(turned[:, 0], images[:, :, 1:-1, 1:-1].float())


def test_a_few_of_each_state_are_looked_at():
    split = open_world("mnist").test
    sample = first_of_each(split, 50)
    assert torch.bincount(sample.states).tolist() == [5] * 10
    few = blobs(n=5, count=3).train
    assert len(first_of_each(few, 2)) == 10
