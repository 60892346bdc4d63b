"""Worlds made from others: some of the states, two images side by side, digits turned and flipped, objects in space."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from brojepa.errors import RequestError
from brojepa.groups import SO2, SO3, Cyclic, Dihedral, Group, Product
from brojepa.worlds import solids, transforms
from brojepa.worlds.batches import Split
from brojepa.worlds.pictures import states_of
from brojepa.worlds.poses import PoseWorld
from brojepa.worlds.world import World, pixel_statistics

Open = Callable[[str], World]
"""Opens a world by name."""


def subset(world: World, states: str) -> World:
    """Some states of a world as a cycle of their own: digits 0-6, letters a-m, or a list 1,3,5."""
    name = f"{world.name}:{states}"
    return world.keep(states_of(name), name)


def side_by_side(name: str, left: World, right: World, law: Group) -> World:
    """Images of two worlds side by side; the state counts through both, the right one fastest. Every image of the
    larger world is used once, in an order drawn once and for all."""
    if left.shape[:2] != right.shape[:2]:
        raise RequestError(f"world {name}: {left.name} and {right.name} differ in channels or height")
    splits = []
    for number, part in enumerate(("train", "test")):
        generator = torch.Generator().manual_seed(number)
        a, b = getattr(left, part), getattr(right, part)
        count = max(len(a), len(b))
        i, j = (torch.randperm(count, generator=generator) % len(s) for s in (a, b))
        images = torch.cat((a.images[i], b.images[j]), 3)
        states = a.states[i] * right.n + b.states[j]
        sizes = torch.bincount(states, minlength=left.n * right.n)
        if int(sizes.min()) < 2 - number:
            raise RequestError(
                f"world {name}: the {part} split has {int(sizes.min())} images of state {int(sizes.argmin())} of "
                f"{len(sizes)}: more images are needed, or fewer states"
            )
        splits.append(Split(images, states))
    mean, std = pixel_statistics(splits[0].images)
    source: dict[str, Any] = {"images": {"train": len(splits[0]), "test": len(splits[1])}}
    source["sha256"] = [w.source.get("sha256") for w in (left, right)]
    if "split" in {**left.source, **right.source}:
        source["split"] = right.source.get("split", left.source.get("split"))
    notes = tuple(dict.fromkeys(left.notes + right.notes))
    return World(name, left.n * right.n, splits[0], splits[1], mean, std, source, law, notes)


def torus(parts: str, open_world: Open) -> World:
    """Two images side by side that move on their own: Z10 x Z10, or other worlds, as in torus:mnist,emnist."""
    left, right = _two(parts, "torus", open_world)
    return side_by_side(_named("torus", parts), left, right, Product((Cyclic(left.n), Cyclic(right.n))))


def pairs(parts: str, open_world: Open) -> World:
    """Two images side by side that count as one number: two digits are the cycle of 100."""
    left, right = _two(parts, "pairs", open_world)
    return side_by_side(_named("pairs", parts), left, right, Cyclic(left.n * right.n))


def _two(parts: str, name: str, open_world: Open) -> tuple[World, World]:
    names = parts.split(",") if parts else ["mnist", "mnist"]
    if len(names) != 2:
        raise RequestError(f"world {name}:{parts}: name two worlds, as in {name}:mnist,emnist")
    left = open_world(names[0])
    return left, left if names[1] == names[0] else open_world(names[1])


def _named(name: str, parts: str) -> str:
    return f"{name}:{parts}" if parts else name


FINE, COARSE = 2, 10  # degrees between candidates, and between the actions that repeat a training action
TESTED = 2000  # things that are tested, each shown in every candidate pose


def rotation(part: str, open_world: Open) -> World:
    """The digits of MNIST, or the images of another world, turned by any angle. Tests turns by every 2 degrees
    and searches among as many candidates."""
    grid = torch.arange(0, 360, FINE).float()
    turns = tuple(float(d) for d in range(FINE - 180, 181, FINE) if d)

    def show(things: Split, pose: Tensor) -> Tensor:
        return transforms.turn(things.images[:], torch.deg2rad(pose))

    return _posed(_named("rotation", part), open_world(part or "mnist"), SO2(), show, grid, turns)


def dihedral(part: str, open_world: Open) -> World:
    """The digits of MNIST, or the square images of another world, turned by quarters and flipped, pixel for pixel."""
    group, base = Dihedral(4), open_world(part or "mnist")
    if base.shape[1] != base.shape[2]:
        raise RequestError(f"world dihedral:{part}: images of {base.shape[1]} x {base.shape[2]} are not square")

    def show(things: Split, pose: Tensor) -> Tensor:
        return transforms.flip_turn(things.images[:], pose[..., 0], pose[..., 1])

    return _posed(_named("dihedral", part), base, group, show, group.elements, group.actions)


def _posed(name: str, base: World, law: Group, show, candidates: Tensor, measured: tuple) -> World:
    if not base.plain:
        raise RequestError(f"world {name}: name a world of plain images, as in {name.partition(':')[0]}:mnist")
    test = base.test[torch.arange(0, len(base.test), max(1, len(base.test) // TESTED))]
    source = {**base.source, "images": {"train": len(base.train), "test": len(test)}}
    source.pop("names", None)  # labels, which are not states here
    return PoseWorld(
        name, 0, base.train, test, base.mean, base.std, source, law, base.notes,
        show=show, candidates=candidates, measured=measured,
    )  # fmt: skip


OBJECTS, VIEWS, SIZE = 8, 5_000, 32
GRID, TURNS, STARTS = 4096, 200, 25  # candidates; turns that are tested, and start views of each object


def pose() -> World:
    """Objects made of coloured balls, seen from anywhere. Tests random turns, with 4,096
    evenly spread candidates; their start views are drawn separately from those of training."""
    group, things = SO3(), solids.objects(OBJECTS)

    def show(split: Split, pose: Tensor) -> Tensor:
        return solids.view(things.to(pose.device), split.states, group.matrix(pose), SIZE)

    which = torch.arange(OBJECTS)
    plain = Split(torch.zeros(OBJECTS, 3, SIZE, SIZE, dtype=torch.uint8), which)
    plain = Split(show(plain, group.identity.expand(OBJECTS, -1)), which)
    sample = plain[which.repeat(64)]
    mean, std = pixel_statistics(show(sample, group.grid(len(sample))))
    turns = tuple(group.plain(q) for q in group.sample(TURNS, torch.Generator().manual_seed(0)))
    return PoseWorld(
        "pose", 0, plain, plain, mean, std, {"images": {"train": VIEWS, "test": OBJECTS * STARTS}}, group,
        show=show, candidates=group.grid(GRID), measured=turns, contexts=STARTS, views=VIEWS,
    )  # fmt: skip
