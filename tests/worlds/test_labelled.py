"""LabelledTransitions: an epoch is whole, draws are fair, and augmentation is what it says."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from helpers import random_arrays

from brojepa.groups import Cyclic
from brojepa.worlds import LabelledTransitions, Sampling, Split, World, transforms


@pytest.fixture(scope="module")
def numbered() -> Split:
    """300 images of 7 states, 20 to 79 of each; the image's pixels spell its number."""
    sizes = [20, 25, 30, 40, 46, 60, 79]
    states = torch.repeat_interleave(torch.arange(7), torch.tensor(sizes))[torch.randperm(300, generator=seeded(1))]
    number = torch.arange(300)
    images = torch.stack((number // 256, number % 256), 1)[:, None, None, :].expand(-1, 1, 2, 2)
    return Split(images.to(torch.uint8).contiguous(), states)


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def numbers(images: torch.Tensor) -> torch.Tensor:
    """The numbers that images of `numbered` spell."""
    return images[:, 0, 0, 0].long() * 256 + images[:, 0, 0, 1].long()


@pytest.mark.parametrize("actions", [(-1, 1), (1,), (-6, 2, 5, 0)])
@pytest.mark.parametrize("every_action", [False, True])
def test_an_epoch(numbered: Split, actions: tuple[int, ...], every_action: bool) -> None:
    transitions = LabelledTransitions(numbered, Cyclic(7), actions, Sampling(every_action=every_action))
    draw = transitions.draw(seeded(0))
    width = len(actions) if every_action else 1
    contexts = []
    for start in range(0, len(transitions), 64):
        batch = transitions.batch(draw, start, start + 64)
        rows = min(64, 300 - start)
        assert batch.images.dtype == torch.uint8
        assert batch.k.shape == batch.next_states.shape == (rows, width)
        assert batch.targets is not None
        assert batch.targets.shape == (rows * width, 1, 2, 2)
        contexts += numbers(batch.images).tolist()
        assert torch.equal(batch.states, numbered.states[numbers(batch.images)])
        if every_action:
            assert (batch.k == torch.tensor(actions)).all()
        for i in range(rows):  # in plain arithmetic
            for j in range(width):
                expected = (int(batch.states[i]) + int(batch.k[i, j])) % 7
                assert int(batch.next_states[i, j]) == expected
                assert int(numbered.states[numbers(batch.targets)[i * width + j]]) == expected
    assert sorted(contexts) == list(range(300))
    assert contexts != sorted(contexts)


def chi_square(counts: torch.Tensor, expected: torch.Tensor | float) -> float:
    """The statistic, in standard deviations above its mean."""
    degrees = counts.numel() - 1
    return float((((counts - expected) ** 2 / expected).sum() - degrees) / (2 * degrees) ** 0.5)


def test_actions_and_targets_are_uniform(numbered: Split) -> None:
    actions = torch.tensor([-3, -1, 2])
    transitions = LabelledTransitions(numbered, Cyclic(7), actions.tolist())
    generator, of_action, of_target = seeded(0), torch.zeros(3), torch.zeros(300)
    expected = torch.zeros(300)
    sizes = torch.bincount(numbered.states)
    for _ in range(200):
        draw = transitions.draw(generator)
        assert draw.target is not None
        of_action += (draw.k == actions).sum(0)
        of_target += torch.bincount(draw.target.flatten(), minlength=300)
        reached = torch.bincount((numbered.states[draw.context] + draw.k[:, 0]) % 7, minlength=7)
        expected += (reached / sizes)[numbered.states]
    assert chi_square(of_action, 200 * 100) < 4
    assert abs(chi_square(of_target, expected)) < 4  # neither biased nor suspiciously even


def test_each_epoch_is_another_and_each_seed_is_the_same(numbered: Split) -> None:
    transitions = LabelledTransitions(numbered, Cyclic(7), (-1, 1), Sampling(shift=1))
    generator = seeded(3)
    first, second = transitions.draw(generator), transitions.draw(generator)
    again = LabelledTransitions(numbered, Cyclic(7), (-1, 1), Sampling(shift=1)).draw(seeded(3))
    for name in ("context", "k", "target", "offset"):
        assert torch.equal(getattr(first, name), getattr(again, name))
        assert not torch.equal(getattr(first, name), getattr(second, name))


def test_even_states_are_shown_equally_often(numbered: Split) -> None:
    """300 places for 7 states; a state with fewer images than places repeats them, one with more leaves some out."""
    transitions = LabelledTransitions(numbered, Cyclic(7), (-1, 1), Sampling(even_states=True))
    generator, shown = seeded(0), torch.zeros(300)
    for _ in range(200):
        draw = transitions.draw(generator)
        states = numbered.states[draw.context]
        places = torch.bincount(states, minlength=7)
        assert set(places.tolist()) == {300 // 7, 300 // 7 + 1}
        times = torch.bincount(draw.context, minlength=300)
        for state, size in enumerate(torch.bincount(numbered.states).tolist()):
            fair = int(places[state]) / size
            assert set(times[numbered.states == state].tolist()) <= {math.floor(fair), math.ceil(fair)}
        assert not torch.equal(states, states.sort().values)
        assert len(states[:100].unique()) == 7
        shown += times
    for state in range(7):
        of_state = shown[numbered.states == state]
        assert chi_square(of_state, of_state.mean()) < 4


def test_evening_states_that_are_even_shows_every_image_once() -> None:
    split = Split(torch.zeros(60, 1, 2, 2, dtype=torch.uint8), torch.arange(60) % 6)
    draw = LabelledTransitions(split, Cyclic(6), (1,), Sampling(even_states=True)).draw(seeded(0))
    assert sorted(draw.context.tolist()) == list(range(60))


def test_no_targets_where_none_are_wanted(numbered: Split) -> None:
    transitions = LabelledTransitions(numbered, Cyclic(7), (-1, 1), Sampling(with_targets=False, shift=1))
    draw = transitions.draw(seeded(0))
    batch = transitions.batch(draw, 0, 50)
    assert draw.target is None
    assert batch.targets is None
    assert torch.equal(batch.next_states, (batch.states[:, None] + batch.k) % 7)


def shifted(image: np.ndarray, down: int, right: int) -> np.ndarray:
    """[c, h, w] moved by whole pixels, zeros where nothing was."""
    moved = np.zeros_like(image)
    h, w = image.shape[1:]
    for y in range(h):
        for x in range(w):
            if 0 <= y - down < h and 0 <= x - right < w:
                moved[:, y, x] = image[:, y - down, x - right]
    return moved


@pytest.mark.parametrize("shift", [1, 2])
def test_shift_moves_whole_pixels_and_pads_zeros(shift: int) -> None:
    images, labels, *_ = random_arrays(4, (5, 6, 3), train=25)
    images = np.maximum(images, 1)
    split = World.from_arrays("own", (images, labels), (images, labels)).train
    transitions = LabelledTransitions(split, Cyclic(4), (-1, 1), Sampling(every_action=True, shift=shift))
    draw = transitions.draw(seeded(0))
    batch = transitions.batch(draw, 0, 100)
    assert batch.targets is not None
    assert draw.target is not None
    pairs = [*zip(draw.context, batch.images, strict=True), *zip(draw.target.flatten(), batch.targets, strict=True)]
    moves = []
    span = range(-shift, shift + 1)
    for index, got in pairs:
        source = split.images[index].numpy()
        found = [(a, b) for a in span for b in span if np.array_equal(shifted(source, a, b), got.numpy())]
        assert len(found) == 1  # noise: no two moves look alike
        moves += found
    assert len(set(moves)) == len(span) ** 2
    assert moves[:100] not in (moves[100::2], moves[101::2])  # context and targets move independently
    counts = torch.tensor([moves.count((a, b)) for a in span for b in span])
    assert chi_square(counts, 300 / len(span) ** 2) < 4


def test_without_shift_images_are_untouched(numbered: Split) -> None:
    transitions = LabelledTransitions(numbered, Cyclic(7), (1,))
    draw = transitions.draw(seeded(0))
    batch = transitions.batch(draw, 10, 20)
    assert torch.equal(batch.images, numbered.images[draw.context[10:20]])


@pytest.mark.parametrize("with_targets", [True, False])
def test_warps_are_drawn_near_the_unit_map_for_every_image(with_targets: bool) -> None:
    images = torch.randint(256, (40, 1, 6, 6), dtype=torch.uint8, generator=seeded(0))
    split = Split(images, torch.arange(40) % 4)
    transitions = LabelledTransitions(
        split, Cyclic(4), (-1, 1), Sampling(every_action=True, with_targets=with_targets, shift=1, warp=0.2)
    )
    draw = transitions.draw(seeded(1))
    assert draw.warp is not None
    assert draw.warp.shape == (40, 3 if with_targets else 1, 2, 2)
    away = (draw.warp - torch.eye(2)).abs()
    assert 0.15 < float(away.max()) <= 0.2
    assert torch.equal(draw.warp, transitions.draw(seeded(1)).warp)
    batch = transitions.batch(draw, 3, 9)
    plain = LabelledTransitions(
        split, Cyclic(4), (-1, 1), Sampling(every_action=True, with_targets=with_targets, shift=1)
    )
    unwarped = plain.batch(draw.__class__(draw.context, draw.k, draw.target, draw.offset), 3, 9)
    assert torch.equal(batch.images, transforms.warp(unwarped.images, draw.warp[3:9, 0]))
    if with_targets:
        assert batch.targets is not None
        assert torch.equal(batch.targets, transforms.warp(unwarped.targets, draw.warp[3:9, 1:].flatten(0, 1)))


@pytest.mark.parametrize(("height", "width", "shrink"), [(12, 18, 3), (13, 20, 3), (16, 8, 4)])
def test_warped_images_that_are_read_in_blocks_are_the_warped_means_of_blocks(height, width, shrink):
    """A model that reads the means of blocks reads what it would of small images, warped alike."""
    images = torch.randint(256, (6, 3, height, width), dtype=torch.uint8, generator=seeded(0))
    split = Split(images, torch.arange(6) % 3)
    sampling = Sampling(every_action=True, with_targets=False, warp=0.2, shrink=shrink)
    transitions = LabelledTransitions(split, Cyclic(3), (-1, 1), sampling)
    draw = transitions.draw(seeded(1))
    assert draw.warp is not None
    batch = transitions.batch(draw, 1, 5)
    assert batch.images.shape == (4, 3, height, width)
    rows = [[part.float().mean((-2, -1)) for part in band.split(shrink, 3)]
            for band in images[draw.context[1:5]].split(shrink, 2)]  # fmt: skip
    means = torch.stack([torch.stack(row, -1) for row in rows], -2)
    read = torch.stack([torch.stack([part.mean((-2, -1)) for part in band.split(shrink, 3)], -1)
                        for band in batch.images.split(shrink, 2)], -2)  # fmt: skip
    assert torch.allclose(read, transforms.warp(means, draw.warp[1:5, 0]), atol=1e-3)
    plain = LabelledTransitions(split, Cyclic(3), (-1, 1), Sampling(every_action=True, with_targets=False, warp=0.2))
    assert torch.equal(plain.draw(seeded(1)).warp, draw.warp), "it draws the same maps"
