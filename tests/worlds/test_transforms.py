"""Turned images: against a NumPy formula pixel by pixel, torch.rot90, and the laws of the two groups."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from helpers import checked
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from brojepa.errors import RequestError
from brojepa.worlds.transforms import flip_turn, turn, warp

angles = st.floats(-20, 20)
sides = st.integers(1, 9)
elements = st.tuples(st.integers(0, 3), st.integers(0, 1))
ALL = [(r, s) for r in range(4) for s in range(2)]


def noise(*shape: int, seed: int = 0) -> Tensor:
    return torch.randint(256, shape, dtype=torch.uint8, generator=torch.Generator().manual_seed(seed))


def bumps(size: int = 40) -> Tensor:
    """One smooth picture without symmetry, dark at the rim: uint8 [1, 1, size, size]."""
    y, x = np.mgrid[:size, :size] - (size - 1) / 2
    spots = ((6, 3, 5, 200), (-5, -7, 4, 150), (-2, 8, 4, 100))
    picture = sum(a * np.exp(-((x - u) ** 2 + (y - v) ** 2) / (2 * s**2)) for u, v, s, a in spots)
    return torch.from_numpy(np.minimum(picture, 255).round().astype(np.uint8))[None, None]


def by_numpy(image: np.ndarray, radians: float) -> np.ndarray:
    """One channel in float64, unrounded: each pixel taken from where the opposite turn puts it in the plane."""
    h, w = image.shape
    turned = np.zeros((h, w))
    for i in range(h):
        for j in range(w):
            here = complex(j - (w - 1) / 2, (h - 1) / 2 - i)  # y up, as in the plane
            source = here * np.exp(-1j * radians)
            u, v = source.real + (w - 1) / 2, (h - 1) / 2 - source.imag
            for row in (math.floor(v), math.floor(v) + 1):
                for column in (math.floor(u), math.floor(u) + 1):
                    if 0 <= row < h and 0 <= column < w:
                        turned[i, j] += image[row, column] * (1 - abs(v - row)) * (1 - abs(u - column))
    return turned


def warped_by_numpy(image: np.ndarray, matrix: np.ndarray) -> np.ndarray:
    """One square channel in float64: each pixel taken, bilinearly, from where the matrix puts it."""
    size = len(image)
    middle = (size - 1) / 2
    warped = np.zeros((size, size))
    for i in range(size):
        for j in range(size):
            u, v = matrix @ (j - middle, i - middle) + middle
            for row in (math.floor(v), math.floor(v) + 1):
                for column in (math.floor(u), math.floor(u) + 1):
                    if 0 <= row < size and 0 <= column < size:
                        warped[i, j] += image[row, column] * (1 - abs(v - row)) * (1 - abs(u - column))
    return warped


def centre_of_mass(images: Tensor) -> complex:
    """Of one picture, from its middle, y up."""
    weights = images[0, 0].double()
    h, w = weights.shape
    x = torch.arange(w) - (w - 1) / 2
    y = (h - 1) / 2 - torch.arange(h)
    return complex((weights * x).sum(), (weights * y[:, None]).sum()) / float(weights.sum())


def compose(g: tuple[int, int], h: tuple[int, int]) -> tuple[int, int]:
    """g after h in D4, written for elements R^r F^s with F R = R^-1 F."""
    return (g[0] + (-h[0] if g[1] else h[0])) % 4, g[1] ^ h[1]


def act(images: Tensor, element: tuple[int, int]) -> Tensor:
    return flip_turn(images, *(torch.full((len(images),), part) for part in element))


@checked
@given(sides, sides, st.lists(angles, min_size=1, max_size=3))
def test_turn_is_the_numpy_formula(h, w, radians):
    images = noise(len(radians), 2, h, w)
    turned = turn(images, torch.tensor(radians, dtype=torch.float64))
    assert turned.dtype == torch.uint8
    for before, after, angle in zip(images.numpy(), turned.numpy(), radians, strict=True):
        for channel in range(2):
            np.testing.assert_allclose(after[channel], by_numpy(before[channel], angle), atol=0.501)


@checked
@given(st.integers(1, 65), st.lists(st.integers(-9, 9), min_size=1, max_size=4))
def test_quarter_turns_move_pixels_without_mixing_them(size, quarters):
    images = noise(len(quarters), 3, size, size)
    turned = turn(images, torch.tensor(quarters) * (math.pi / 2))
    for before, after, r in zip(images, turned, quarters, strict=True):
        assert torch.equal(after, torch.rot90(before, r, (1, 2)))


def test_no_turn_and_half_a_turn_are_exact_where_sides_differ():
    images = noise(2, 1, 28, 17)
    assert torch.equal(turn(images, torch.zeros(2)), images)
    assert torch.equal(turn(images, torch.full((2,), math.pi)), images.flip(2, 3))


@checked
@given(angles, angles)
def test_two_turns_are_close_to_the_turn_by_their_sum(a, b):
    picture = bumps()
    twice = turn(turn(picture, torch.tensor([a])), torch.tensor([b])).int()
    once = turn(picture, torch.tensor([a + b])).int()
    assert (twice - once).abs().max() <= 6
    assert (twice - turn(picture, torch.tensor([a + b + 0.3])).int()).abs().max() >= 20


@checked
@given(angles)
def test_the_centre_of_mass_turns_counter_clockwise_by_the_angle(angle):
    picture = bumps()
    expected = centre_of_mass(picture) * np.exp(1j * angle)
    assert abs(centre_of_mass(turn(picture, torch.tensor([angle]))) - expected) < 0.05


def test_every_image_turns_by_its_own_angle():
    images, radians = noise(7, 1, 12, 12), torch.linspace(-4, 4, 7)
    alone = [turn(images[i : i + 1], radians[i : i + 1]) for i in range(7)]
    assert torch.equal(turn(images, radians), torch.cat(alone))
    assert turn(images[:0], radians[:0]).shape == (0, 1, 12, 12)


@checked
@given(st.integers(1, 12), elements, elements)
def test_flip_turn_obeys_the_law_of_d4(size, g, h):
    images = noise(2, 3, size, size)
    assert torch.equal(act(act(images, h), g), act(images, compose(g, h)))


@pytest.mark.parametrize("element", ALL)
def test_flip_turn_is_a_flip_and_then_quarter_turns(element):
    r, s = element
    images = noise(3, 2, 9, 9)
    assert torch.equal(act(images, element), torch.rot90(images.flip(3) if s else images, r, (2, 3)))
    inverse = (r, 1) if s else (-r, 0)
    assert torch.equal(act(act(images, element), inverse), images)


def test_flip_turn_takes_one_element_an_image_and_all_eight_differ():
    images = noise(1, 1, 6, 6).expand(8, 1, 6, 6)
    quarter, flip = torch.tensor(ALL).unbind(1)
    moved = flip_turn(images, quarter, flip)
    assert torch.equal(moved, torch.cat([act(images[:1], element) for element in ALL]))
    assert len(moved.flatten(1).unique(dim=0)) == 8
    assert torch.equal(flip_turn(images, quarter - 4, flip + 2), moved)
    assert torch.equal(flip_turn(images, quarter, torch.zeros_like(flip)), turn(images, quarter * (math.pi / 2)))


def test_what_cannot_be_turned_is_refused():
    with pytest.raises(RequestError, match=r"\(2, 8, 8\).*\[batch, c, h, w\]"):
        turn(noise(2, 8, 8), torch.zeros(2))
    with pytest.raises(RequestError, match=r"shape \(3,\)"):
        turn(noise(2, 1, 8, 8), torch.zeros(3))
    one = torch.ones(2, dtype=torch.long)
    with pytest.raises(RequestError, match=r"shape \(1,\)"):
        flip_turn(noise(2, 1, 8, 8), one, one[:1])
    with pytest.raises(RequestError, match=r"8 x 9.*square"):
        flip_turn(noise(2, 1, 8, 9), one, one)


# Linear maps


@checked
@given(st.integers(2, 9), st.lists(st.floats(-1.5, 1.5), min_size=4, max_size=4))
def test_warp_is_the_numpy_formula(size, entries):
    image, matrix = noise(1, 2, size, size), torch.tensor(entries).view(1, 2, 2)
    for channel, got in zip(image[0], warp(image, matrix)[0], strict=True):
        assert np.allclose(got, warped_by_numpy(channel.numpy(), matrix[0].double().numpy()), atol=0.05)


def test_each_image_is_warped_by_its_own_map_and_the_unit_map_leaves_it():
    images = noise(3, 1, 8, 8)
    maps = torch.stack((torch.eye(2), -torch.eye(2), torch.eye(2).flip(0)))
    assert torch.allclose(warp(images, maps), torch.cat((
        images[:1], images[1:2].rot90(2, (2, 3)), images[2:].mT
    )).float(), atol=0.01)  # fmt: skip


def test_a_warp_needs_a_map_for_every_image():
    with pytest.raises(RequestError, match="one element each"):
        warp(noise(3, 1, 8, 8), torch.eye(2).expand(2, 2, 2))
