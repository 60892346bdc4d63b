"""What the recipe for own images needs to know about a world, and which augmentation does not confuse its states.

A shift or a warp teaches an encoder what does not matter. But if a state is a place or an angle, it turns an image of
one state into an image of another. So augmentation is tried on a sample of the images.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping
from functools import partial, singledispatch
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from brojepa.config import Config
from brojepa.worlds import transforms, view_recipe
from brojepa.worlds.batches import Split
from brojepa.worlds.recipe import Facts, augmentation, recipe, shrinking
from brojepa.worlds.views import ViewWorld
from brojepa.worlds.world import World

SAMPLE = 500  # images that augmentation is tried on
SIDE = 32  # pixels, about: larger images are shrunk for that
AT_ONCE = 2**20  # pixels of images that are moved at once: ten times as many are made of them
CHUNK = 64  # images that are shrunk at once
LOST = 0.05  # the share of additional confused images that is too much


Choose = Callable[[Mapping[str, Any]], tuple[Config, str]]
"""Knobs that a user sets -> the whole config, and why the others are as they are."""


@singledispatch
def chooser(world: World) -> Choose:
    """The recipe for a world of own images: what chooses the knobs that a user does not set. Each kind of world has
    its own."""
    return partial(recipe, facts(world))


@chooser.register
def _(world: ViewWorld) -> Choose:
    return partial(view_recipe.recipe, view_facts(world))


def view_facts(world: ViewWorld) -> view_recipe.Facts:
    """The facts of a world of views."""
    train = world.train
    reach = None if world.recorded is not None or world.group.order else world.tolerance or world.reach
    things = len(train.states.unique())
    return view_recipe.Facts(len(train), things, world.shape, str(world.group), world.smallest_steps(), reach)


def facts(world: World) -> Facts:
    """The facts of a world of labelled states."""
    sizes = torch.bincount(world.train.states, minlength=world.n)
    least, most = int(sizes.min()), int(sizes.max())
    wanted, warp = augmentation(len(world.train), world.shape)
    block = shrinking(world.shape)  # images are looked at as the cnn reads them, which takes a fraction of the time
    blocks, warp = harmless(in_blocks(first_of_each(world.train, SAMPLE), block), math.ceil(wanted / block), warp)
    shift, cycle = min(wanted, blocks * block), world.group.cycle is not None
    return Facts(len(world.train), world.n, least, most, world.shape, cycle, shift, warp)


def in_blocks(split: Split, side: int) -> Split:
    """The images as the means of blocks of side x side pixels, rounded."""
    if side == 1:
        return split
    parts = [
        transforms.block_means(part[:].float(), side).round().to(torch.uint8) for part in split.images.split(CHUNK)
    ]
    return Split(torch.cat(parts), split.states)


def harmless(split: Split, shift: int, warp: float) -> tuple[int, float]:
    """The largest shift and warp, up to those given, that leave states as distinguishable as before. A smaller shift
    can confuse states where a larger one does not: states that are places 3 pixels apart look alike after 3, not 4."""
    sample = first_of_each(split, SAMPLE)
    plain = told_apart(sample, lambda images: images[:, None])
    harmful = (by for by in range(1, shift + 1) if told_apart(sample, partial(shifted, by=by)) < plain - LOST)
    shift = next(harmful, shift + 1) - 1
    if warp and told_apart(sample, partial(warped, by=warp)) < plain - LOST:
        warp = 0.0
    return shift, warp


def first_of_each(split: Split, count: int) -> Split:
    """About `count` images: the first ones of each state, the same number of all that have them; at least two each."""
    order = split.states.argsort(stable=True)
    states = split.states[order]
    sizes = torch.bincount(states)
    rank = torch.arange(len(states)) - (sizes.cumsum(0) - sizes)[states]
    return split[order[rank < max(2, count // len(sizes))]]


def told_apart(sample: Split, moved: Callable[[Tensor], Tensor]) -> float:
    """The share of images, as they are moved, whose nearest other image, moved in any of the same ways, shows the same
    state. moved: images -> [count, ways, c, h, w]; each image is asked in one of its ways, in turn. Exact: whole
    numbers."""
    pixels = sample.images[0].numel()
    parts = [_shrunk(moved(part[:])) for part in sample.images.split(max(1, AT_ONCE // pixels))]
    x = torch.cat(parts)
    count, ways = x.shape[:2]
    asked = x[torch.arange(count), torch.arange(count) % ways]
    x = x.flatten(0, 1)
    distance = (x.square().sum(1) - 2 * asked @ x.T).unflatten(1, (count, ways)).amin(2)
    distance.fill_diagonal_(torch.inf)
    return float((sample.states[distance.argmin(1)] == sample.states).double().mean())


def _shrunk(variants: Tensor) -> Tensor:
    """Images [count, ways, c, h, w] of about SIDE pixels, flat: [count, ways, pixels]."""
    factor = max(1, min(variants.shape[-2:]) // SIDE)
    flat = F.avg_pool2d(variants.flatten(0, 1).double(), factor, divisor_override=1).flatten(1)
    return flat.unflatten(0, variants.shape[:2])


def shifted(images: Tensor, by: int) -> Tensor:
    """Images moved to the eight sides and not at all, without the edges that come in: [count, 9, c, h, w]."""
    h, w = (side - 2 * by for side in images.shape[2:])
    places = itertools.product((0, by, 2 * by), repeat=2)
    return torch.stack([images[:, :, y : y + h, x : x + w] for y, x in places], 1)


def warped(images: Tensor, by: float) -> Tensor:
    """Images as they are, turned, stretched and sheared both ways, without the edges: [count, 7, c, h, w]."""
    kinds = torch.tensor([[[0.0, -1], [1, 0]], [[1, 0], [0, -1]], [[0, 1], [1, 0]]])
    maps = torch.eye(2) + by * torch.cat((torch.zeros(1, 2, 2), kinds, -kinds))
    each = [transforms.warp(images, one.expand(len(images), 2, 2)).round() for one in maps]
    top, left = (math.ceil(by * side / 2) for side in images.shape[2:])
    return torch.stack(each, 1)[..., top : images.shape[2] - top, left : images.shape[3] - left]
