"""Which augmentation a world can do with: tried on its own images, and given up where it confuses states."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import own_worlds
import pytest
import torch
from helpers import blobs

from brojepa.worlds import Split, World, open_world
from brojepa.worlds.facts import chooser, facts, first_of_each, harmless, in_blocks, shifted, told_apart, warped


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


def places(size: int, apart: int, states: int = 10) -> World:
    """A bar on noise, whose place is the state."""
    rng, labels = np.random.default_rng(0), np.arange(600) % states
    images = rng.integers(0, 40, (600, size, size), dtype=np.uint8)
    for image, y in zip(images, labels, strict=True):
        image[apart * y + 8 : apart * y + 8 + apart, size // 4 : size // 2] += 200
    return World.from_arrays("places", (images[:500], labels[:500]), (images[500:], labels[500:]))


@pytest.mark.parametrize(("size", "apart"), [(64, 3), (128, 9), (224, 10)])
def test_no_shift_reaches_from_one_place_to_the_next(size, apart):
    """The largest that is tried, a fourteenth of the side, is no multiple of their distance, or is one; images of more
    than 72 pixels are looked at in blocks."""
    found = facts(places(size, apart))
    assert found.shift < apart


def test_blocks_of_images_are_their_means():
    split = Split(torch.randint(256, (70, 3, 100, 90), dtype=torch.uint8), torch.arange(70) % 2)
    assert in_blocks(split, 1) is split
    small = in_blocks(split, 2)
    assert torch.equal(small.images, split.images.float().unflatten(3, (45, 2)).unflatten(2, (50, 2))
                       .mean((3, 5)).round().to(torch.uint8))  # fmt: skip
    assert torch.equal(small.states, split.states)


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
    assert told_apart(Split(images[:, 0], states), lambda _: images) == pytest.approx(right / 12)


def test_large_images_are_moved_a_few_at_a_time(monkeypatch):
    """The answer is the same, and memory holds a few: 500 photos of 512 x 512, moved nine ways, would be 28 GB."""
    sample = first_of_each(open_world("mnist").train, 40)
    moved = partial(shifted, by=2)
    whole = told_apart(sample, moved)
    counts: list[int] = []

    def counted(images: torch.Tensor) -> torch.Tensor:
        counts.append(len(images))
        return moved(images)

    monkeypatch.setattr("brojepa.worlds.facts.AT_ONCE", 3 * 28 * 28)
    assert told_apart(sample, counted) == whole
    assert counts == [3] * 13 + [1]


@pytest.mark.parametrize("shape", [(1, 1), (1, 64), (64, 1), (2, 2), (3, 7), (7, 9)])
def test_images_of_few_pixels_are_left_as_they_are(shape):
    rng = np.random.default_rng(0)
    images, states = rng.integers(0, 256, (60, *shape), dtype=np.uint8), np.arange(60) % 3
    world = World.from_arrays("small", (images, states), (images, states))
    assert (facts(world).shift, facts(world).warp) == (0, 0.0)


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
