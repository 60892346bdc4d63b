"""Checks a user's views: images with a thing and a pose each, or episodes of images and actions."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from brojepa.errors import RequestError
from brojepa.groups import Group, parse
from brojepa.groups.group import SAME
from brojepa.worlds.arrays import as_images, as_numpy
from brojepa.worlds.views import Views, ViewWorld, distinct
from brojepa.worlds.world import content_sum, pixel_statistics

UNIT = 1e-3  # how far a quaternion's length may be from 1: numbers in files are rounded
MOST = 256  # different actions of a recording that are listed; if there are more, a spread of as many
LARGEST = 100_000  # elements of a finite group, which are listed


def poses(
    name: str, images: Any, things: Any, poses: Any, group: Group | str, *, held_out_things: int = -1,
    tolerance: float = 0.0, source: dict[str, Any] | None = None,
) -> ViewWorld:  # fmt: skip
    """A world of views, each of a thing in a pose. See `PoseWorld.from_arrays`."""
    law = parse(group) if isinstance(group, str) else group
    pixels, which = as_images(name, images, things)
    found = elements(f"{name}: poses", poses, law, len(which))
    numbers, counts = np.unique(which, return_counts=True)
    if len(counts) and counts.min() < 2:
        raise RequestError(
            f"{name}: thing {numbers[counts.argmin()]} has one view, a thing needs two or more views: leave it out"
        )
    views = Views(pixels, torch.from_numpy(which), found)
    return _world(name, views, law, None, held_out_things, tolerance, source)


def recording(
    name: str, images: Any, actions: Any, episode: Any, group: Group | str, *, held_out_things: int = -1,
    tolerance: float = 0.0, source: dict[str, Any] | None = None,
) -> ViewWorld:  # fmt: skip
    """A world of episodes. See `PoseWorld.from_recording`."""
    law = parse(group) if isinstance(group, str) else group
    pixels, which = as_images(name, images, episode)
    last = np.append(which[1:] != which[:-1], True) if len(which) else np.zeros(0, bool)
    if len(np.unique(which)) < last.sum():
        again = which[np.flatnonzero(last)]
        twice = next(e for i, e in enumerate(again) if e in again[:i])
        raise RequestError(f"{name}: the frames of episode {twice} do not follow one another: sort them by episode")
    if len(which) and (short := np.flatnonzero(np.diff(np.flatnonzero(np.insert(last, 0, True))) < 2)).size:
        first = which[np.flatnonzero(last)[short[0]]]
        raise RequestError(f"{name}: episode {first} has one frame, an episode needs two or more frames: leave it out")
    given = np.array(as_numpy(actions))
    if given.shape[:1] == which.shape and given.dtype.kind == "f":
        given[last] = 0  # nothing follows the last frame of an episode: files have NaN there
        if law.shape == (4,):
            given[last, ..., 0] = 1
    taken = elements(f"{name}: actions", given, law, len(which), between=True)
    frames = _along(law, taken, torch.from_numpy(last))
    used = taken[torch.from_numpy(~last)]
    listed = distinct(law, _some(law, used))
    views = Views(pixels, torch.from_numpy(which), frames)
    recorded = tuple(law.plain(k) for k in listed)
    return _world(name, views, law, recorded, held_out_things, tolerance, source)


def _some(law: Group, used: Tensor) -> Tensor:
    if law.order is not None:
        first = np.unique(law.residue(used).numpy(), return_index=True)[1]
        return used[torch.from_numpy(first)]
    return used[:: max(1, len(used) // MOST)][:MOST]


def _along(law: Group, actions: Tensor, last: Tensor) -> Tensor:
    """The pose of each frame, [count, ...]; the first of an episode is the identity. All episodes advance together."""
    pose = torch.as_tensor(law.identity, dtype=law.dtype).expand(actions.shape).clone()
    frame = torch.arange(len(actions))
    going = frame[~last & torch.cat((torch.ones(min(len(last), 1), dtype=torch.bool), last[:-1]))]
    while len(going):
        pose[going + 1] = law.compose(actions[going], pose[going])
        going = going[~last[going + 1]] + 1
    return pose


def _world(
    name: str, views: Views, law: Group, recorded: tuple | None, held_out: int, tolerance: float, source: dict | None
) -> ViewWorld:
    things = views.states.unique()
    if held_out == -1:
        held_out = 0 if recorded is None else len(things) // 5
    if not 0 <= held_out < len(things):
        what = "things" if recorded is None else "episodes"
        raise RequestError(f"--held-out-things {held_out}: {name} has {len(things)} {what}, hold out fewer")
    if not tolerance >= 0:
        raise RequestError(f"--tolerance must be 0 degrees or more, got {tolerance}")
    if not _moves(views, law):
        what = "thing are in one pose" if recorded is None else "episode show one pose: no action leads away"
        raise RequestError(f"{name}: all views of each {what}, there is nothing to learn: add views in other poses")
    order = things[torch.randperm(len(things), generator=torch.Generator().manual_seed(0))]
    train, test = (views.of(order[held_out:]), views.of(order[:held_out])) if held_out else (views, views)
    mean, std = pixel_statistics(train.images)
    facts = {"images": {"train": len(train), "test": len(test)}, **(source or {})}
    facts.setdefault("sha256", content_sum(views))
    return ViewWorld(
        name, 0, train, test, mean, std, facts, law, recorded=recorded, held_out=held_out, tolerance=tolerance
    )


def _moves(views: Views, law: Group) -> bool:
    """Whether any thing is shown in two poses."""
    things, which = views.states.unique(return_inverse=True)
    first = torch.full((len(things),), len(which)).scatter_reduce(0, which, torch.arange(len(which)), "amin")
    return bool((law.distance(views.poses, views.poses[first[which]]) > SAME).any())


def elements(where: str, values: Any, group: Group, count: int, between: bool = False) -> Tensor:
    """Elements of a group as arrays hold them, checked, [count, ...].

    between: they are actions, which a cycle counts from -(n - 1) to n - 1; poses from 0 to n - 1.
    """
    if not count:
        raise RequestError(f"{where.partition(':')[0]} is empty: it needs two or more images")
    if (group.order or 0) > LARGEST:
        raise RequestError(f"{where}: {group} has {group.order:,} elements, at most {LARGEST:,} are listed; use SO2")
    given = as_numpy(values)
    if given.ndim == 2 and not group.shape and given.shape[1] == 1:
        given = given[:, 0]
    if given.shape != (count, *group.shape):
        wanted = " x ".join(map(str, (count, *group.shape)))
        raise RequestError(f"{where} of shape {given.shape}: {group} needs {wanted}, one element per image")
    if given.dtype.kind not in "iuf":
        raise RequestError(f"{where} are {given.dtype}: {group} needs numbers")
    bad = ~np.isfinite(given.reshape(count, -1)).all(1)
    if bad.any():
        raise RequestError(f"{where}: row {bad.argmax()} is not a finite number")
    if group.dtype == torch.int64 and given.dtype.kind == "f" and (given != np.rint(given)).any():
        row = int((given != np.rint(given)).reshape(count, -1).any(1).argmax())
        raise RequestError(f"{where}: row {row} is {given[row]}, {group} needs whole numbers")
    found = torch.from_numpy(np.ascontiguousarray(given).astype(np.int64 if group.dtype == torch.int64 else np.float32))
    outside = _outside(found, group, between)
    if bool(outside.any()):
        row = int(outside.int().argmax())
        raise RequestError(f"{where}: row {row} is {given[row].tolist()}, {_allowed(group, between)}")
    if group.shape == (4,):
        found = torch.nn.functional.normalize(found, dim=-1)
    return group.canonical(found) if between else found


def _outside(found: Tensor, group: Group, between: bool) -> Tensor:
    """Which rows are not elements, [count]."""
    if group.shape == (4,):
        return (found.norm(dim=-1) - 1).abs() > UNIT
    if group.order is None and group.periods is None:
        return torch.zeros(len(found), dtype=torch.bool)
    limits = group.periods or _ranges(group)
    high = torch.tensor([limit if group.dtype == torch.int64 else torch.inf for limit in limits])
    parts = found.reshape(len(found), -1)
    return (
        (parts >= high) | (parts <= -high if between else parts < (0 if group.dtype == torch.int64 else -torch.inf))
    ).any(1)


def _ranges(group: Group) -> tuple[int, ...]:
    """How many values each number of a finite group's elements has."""
    return tuple(int(n) + 1 for n in group.elements.reshape(group.order or 0, -1).amax(0))


def _allowed(group: Group, between: bool) -> str:
    if group.shape == (4,):
        return "which is no unit quaternion w, x, y, z: divide it by its length"
    limits = group.periods or _ranges(group)
    low = [f"-{n - 1}" if between else "0" for n in limits]
    return f"{group} has " + " and ".join(f"{a} to {n - 1}" for a, n in zip(low, limits, strict=True))
