"""Pairs of views of a thing: which there are, how far apart, and which of them steps connect.

A thing of v views has v^2 pairs. They are looked at a block at a time, so memory grows with the views alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from brojepa.groups import Group
from brojepa.groups.group import SAME

BLOCK = 2**20  # pairs looked at once


def rows_per_thing(things: Tensor) -> list[Tensor]:
    """The rows [views] of every thing, by the thing of each row [count]."""
    sizes = things.unique(return_counts=True)[1]
    return list(things.argsort(stable=True).split(sizes.tolist()))


def ordered(count: int, which: Tensor) -> tuple[Tensor, Tensor]:
    """Pairs by number: the first and the second of `count` views, which are two. There are count (count - 1), in the
    order of the first, then of the second."""
    first = which.div(count - 1, rounding_mode="floor")
    second = which % (count - 1)
    return first, second + (second >= first)


def every(things: Tensor) -> tuple[Tensor, Tensor]:
    """All pairs of rows that show the same thing: [pairs] twice."""
    pairs = []
    for rows in rows_per_thing(things):
        count = len(rows)
        pairs.append(
            [rows[i] for i in ordered(count, torch.arange(count * (count - 1)))] if count > 1 else [rows[:0]] * 2
        )
    first, second = (torch.cat(part) for part in zip(*pairs, strict=True))
    return first, second


def some(things: Tensor, most: int) -> tuple[Tensor, Tensor]:
    """Up to `most` pairs of rows that show the same thing, spread evenly over all such pairs."""
    rows = rows_per_thing(things)
    sizes = torch.tensor([len(own) * (len(own) - 1) for own in rows])
    ends = sizes.cumsum(0)
    total = int(ends[-1])
    which = torch.arange(0, total, max(1, total // most))[:most]
    thing = torch.searchsorted(ends, which, right=True)
    place = which - (ends - sizes)[thing]
    pairs = [tuple(rows[i][j] for j in ordered(len(rows[i]), place[thing == i])) for i in thing.unique().tolist()]
    first, second = (torch.cat(part) for part in zip(*pairs, strict=True))
    return first, second


def apart(poses: Tensor, group: Group) -> Iterator[tuple[int, Tensor]]:
    """The actions from views of a thing to all of them, some views at a time: the number of the first of these, and
    [some, views, ...]."""
    for start in range(0, len(poses), size := max(1, BLOCK // len(poses))):
        back = group.inverse(poses[start : start + size])
        yield start, group.compose(poses[None], back[:, None])


def away(k: Tensor, group: Group) -> Tensor:
    """How far each of some actions [..., *shape] leads, [...]; one that stays, infinitely far."""
    far = group.gap(k, torch.as_tensor(group.identity, dtype=group.dtype).expand(k.shape))
    return far.masked_fill(far <= SAME, torch.inf)


def led(things: Tensor, poses: Tensor, group: Group, k: Tensor) -> tuple[Tensor, Tensor]:
    """Every pair of rows that show the same thing, one of some actions of a finite group apart, k [actions, ...]: the
    row before and the one after, [pairs] twice, in their order. Looked up by pose, not pair by pair."""
    count, which = len(things), things.unique(return_inverse=True)[1] * group.residues
    here = which + group.residue(poses)
    order = here.argsort(stable=True)
    known, found = here[order], []
    for one in k:
        there = which + group.residue(group.compose(one, poses))
        low, high = (torch.searchsorted(known, there, right=right) for right in (False, True))
        sizes = high - low
        first = torch.arange(count).repeat_interleave(sizes)
        nth = torch.arange(len(first)) - (sizes.cumsum(0) - sizes)[first]
        found.append(first * count + order[low[first] + nth])
    pairs = torch.cat(found).unique()
    first, second = pairs.div(count, rounding_mode="floor"), pairs % count
    return first[first != second], second[first != second]


def components(count: int, start: Tensor, stop: Tensor) -> Tensor:
    """Which of `count` nodes edges connect: for each node the least number of its component, [count]."""
    label = torch.arange(count)
    while True:
        low = torch.minimum(label[start], label[stop])
        after = label.scatter_reduce(0, torch.cat((start, stop)), torch.cat((low, low)), "amin")
        after = after[after]
        if torch.equal(after, label):
            return label
        label = after


def connecting(count: int, apart: Callable[[int], Tensor]) -> float:
    """The shortest reach that connects all of `count` views: the longest edge of their minimum spanning tree. `apart`
    says how far all of them are from one, [count]."""
    longest, nearest = 0.0, apart(0)
    left = torch.ones(count, dtype=torch.bool)
    left[0] = False
    while bool(left.any()):
        one = int(nearest.masked_fill(~left, torch.inf).argmin())
        if not left[one]:  # all that are left are in poses that others have too
            break
        longest = max(longest, float(nearest[one]) if nearest[one] < torch.inf else 0.0)
        left[one] = False
        nearest = torch.minimum(nearest, apart(one))
    return longest
