"""Worlds of views: existing images of things in known poses. Turntables, viewpoints, recordings.

A view shows a thing in a pose g, an element of the world's group; action k leads to the view of the same thing in pose
k g, if there is one. A recording is the same: an episode is a thing, and the actions up to a frame lead to its pose.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from brojepa.config import Config
from brojepa.errors import RequestError
from brojepa.groups import Element, Group
from brojepa.groups.group import SAME
from brojepa.worlds import pairs
from brojepa.worlds.batches import Batch, Sampling, Split, Transitions
from brojepa.worlds.rows import Rows, some
from brojepa.worlds.world import World, action_sets

EPOCH = 10_000  # least number of views per epoch
DRAWN = 256  # relative actions that stand for all of a continuous group
ONE = 1.0  # degrees: nearer actions of a continuous group count as one
SPARSE = 2.0  # times the usual reach, beyond which views of a thing are not neighbours, however few it has
FEW = 20  # with this many things or more, some are held out for validation


@dataclass(frozen=True)
class Views(Split):
    """Images of things: `states` says which thing each shows, `poses` [count, ...] in which pose. The frames of an
    episode follow one another."""

    poses: Tensor

    def __getitem__(self, index: Tensor) -> Views:
        return Views(self.images[index], self.states[index], self.poses[index])

    def to(self, device: torch.device) -> Views:
        return Views(self.images.to(device), self.states.to(device), self.poses.to(device))

    @property
    def parts(self) -> tuple[Tensor | Rows, ...]:
        return (*super().parts, self.poses)

    def of(self, things: Tensor) -> Views:
        """The views of some things, without a copy of their images."""
        rows = torch.isin(self.states, things).nonzero()[:, 0]
        return Views(some(self.images, rows), self.states[rows], self.poses[rows])


@dataclass(frozen=True)
class ViewWorld(World):
    """A world of views. Its splits are `Views`.

    recorded: the actions of a recording, each once; None where views are not frames.
    held_out: how many things the training split lacks; where 0, both splits are the same.
    tolerance: degrees up to which an action of a continuous group counts as one that was trained on; 0 is ONE, and
        `reach` where the action trained on is to stay.
    """

    train: Views
    test: Views
    recorded: tuple[Element, ...] | None = field(kw_only=True, default=None)
    held_out: int = field(kw_only=True, default=0)
    tolerance: float = field(kw_only=True, default=0.0)

    @property
    def plain(self) -> bool:
        return False

    @property
    def facts(self) -> dict[str, Any]:
        things = {part: len(split.states.unique()) for part, split in (("train", self.train), ("test", self.test))}
        return {**super().facts, "things": things, "held_out_things": self.held_out}

    @property
    def actions(self) -> tuple[Element, ...]:
        """Every element but the identity, each once; of a continuous group, some that lead from view to view."""
        group = self.group
        if group.order is not None:
            apart = group.canonical(group.elements)
        else:
            poses = self.test.poses
            start, stop = pairs.some(self.test.states, DRAWN)
            apart = distinct(group, group.compose(poses[stop], group.inverse(poses[start])))
        away = group.distance(apart, torch.as_tensor(group.identity, dtype=group.dtype)) > SAME
        return tuple(group.plain(k) for k in apart[away])

    def action_sets(self, config: Config) -> tuple[tuple[Element, ...], tuple[Element, ...]]:
        """The actions trained on, and all others that lead from view to view. The inverse of a training
        action is trained on too, because views are compared both ways."""
        group = self.group
        if self.recorded is not None:
            if config.train_actions != (RECORDED,):
                raise RequestError(
                    f"--train-actions {','.join(map(str, config.train_actions))}: {self.name} is a recording, which is "
                    f"trained on its own steps: leave the flag out, or write {RECORDED}"
                )
            config = config.replace(train_actions=(group.write(group.plain(torch.as_tensor(group.identity))),))
        train, test = action_sets(config, group, self.actions)
        forward = group.tensor(train if self.recorded is None else self.recorded)
        both = distinct(group, torch.cat((forward, group.inverse(forward))))
        test = tuple(k for k, seen in zip(test, self._near(group.tensor(test), both).tolist(), strict=True) if not seen)
        return tuple(group.plain(k) for k in both), test

    def smallest_steps(self) -> tuple[str, ...]:
        """What to train on by default, in words: the recorded steps; the generators of a finite group, or
        the smallest actions that lead from view to view where these lead nowhere; to stay, within `reach`."""
        group = self.group
        if self.recorded is not None:
            return (RECORDED,)
        if group.order is None:
            return (group.write(group.plain(torch.as_tensor(group.identity))),)
        steps, train = group.generators, self.train
        if not len(pairs.led(train.states, train.poses, group, steps)[0]):
            found = torch.zeros(group.residues, dtype=torch.bool)
            for rows in pairs.rows_per_thing(train.states):
                for _, k in pairs.apart(train.poses[rows], group):
                    found[group.residue(k)] = True
            apart = group.canonical(group.elements[found[group.residue(group.elements)]])
            away = pairs.away(apart, group)
            nearest = apart[away <= away.min()]
            steps = distinct(group, torch.cat((nearest, group.inverse(nearest))))
        return tuple(group.write(group.plain(k)) for k in steps)

    def hold_out(self, count: int, generator: torch.Generator) -> tuple[Views, Views]:
        """Things for validation: a fifth of them, up to `count` views. If things are few, or the test
        is on things that were trained on, all things are both trained on and used for validation."""
        things = self.train.states.unique()
        if not self.held_out or len(things) < FEW:
            return self.train, self.train
        kept = max(1, min(len(things) // 5, count * len(things) // len(self.train)))
        order = things[torch.randperm(len(things), generator=generator)]
        return self.train.of(order[kept:]), self.train.of(order[:kept])

    def transitions(self, split: Split, actions: Sequence[Element], sampling: Sampling) -> Transitions:
        if sampling != sampling.plain or sampling.walk > 1:
            flags = "--shift, --warp, --even-states and --walk"
            raise RequestError(f"{flags} are not for views of {self.group}: leave them out")
        assert isinstance(split, Views)
        edges = self.edges(split, actions)
        return ViewTransitions(split, self.group, edges, self.orbits(split, actions, edges), sampling)

    def trained(self, k: Tensor, actions: Sequence[Element]) -> Tensor:
        """Whether each of some relative actions [..., *shape] is one that was trained on, [...]."""
        return self._near(k, self.group.tensor(actions).to(k.device))

    def _near(self, k: Tensor, actions: Tensor) -> Tensor:
        reach = self.within(actions)
        near = torch.zeros(k.shape[: k.ndim - len(self.group.shape)], dtype=torch.bool, device=k.device)
        for one in actions:
            near |= self.group.distance(k, one.expand(k.shape)) <= reach
        return near

    def within(self, actions: Tensor) -> float:
        """Degrees up to which an action counts as one of these."""
        if self.group.order is not None:
            return SAME
        if self.tolerance:
            return max(self.tolerance, SAME)
        stay = torch.as_tensor(self.group.identity, dtype=self.group.dtype, device=actions.device)
        stays = self.group.distance(actions, stay.expand(actions.shape)) < SAME
        return self.reach if self.recorded is None and bool(stays.any()) else ONE

    @cached_property
    def reach(self) -> float:
        """Degrees within which two views are neighbours: half again the distance to the nearest, the median over views,
        or as far as it takes to connect all views of every thing, whichever is more. A thing with far fewer views than
        others does not count: at most SPARSE times as far as the median thing needs."""
        group, nearest, joined = self.group, [], []
        for rows in pairs.rows_per_thing(self.train.states):
            poses = self.train.poses[rows]

            def apart(i: int, poses: Tensor = poses) -> Tensor:
                return pairs.away(group.compose(poses, group.inverse(poses[i])), group)

            nearest += [pairs.away(k, group).amin(1) for _, k in pairs.apart(poses, group)]
            joined.append(pairs.connecting(len(rows), apart))
        shares = torch.tensor(joined)
        least = 1.5 * float(torch.cat(nearest).median())
        return max(least, SAME + min(float(shares.max()), SPARSE * float(shares.median())))

    def edges(self, split: Views, actions: Sequence[Element]) -> Edges:
        """The steps that training sees: from one view of a thing to another, a training action apart; of a recording,
        from each frame to the next."""
        group = self.group
        if self.recorded is not None:
            start = (split.states[1:] == split.states[:-1]).nonzero()[:, 0]
            stop = start + 1
        elif group.order is not None:
            start, stop = pairs.led(split.states, split.poses, group, group.tensor(actions))
        else:
            start, stop = self._near_pairs(split, actions)
        if not len(start):
            smallest = min(float(pairs.away(k, group).min()) for rows in pairs.rows_per_thing(split.states)
                           for _, k in pairs.apart(split.poses[rows], group))  # fmt: skip
            within = self.within(group.tensor(actions))
            unit = "degrees" if group.order is None else "steps"
            raise RequestError(
                f"{self.name}: no two views of a thing are a training action apart ({_words(group, actions)}); the "
                f"nearest two are {smallest:g} {unit} apart: choose other --train-actions"
                + ("" if group.order is not None else f", or a --tolerance above {within:g} degrees")
            )
        k = group.canonical(group.compose(split.poses[stop], group.inverse(split.poses[start])))
        return Edges(start, stop, k)

    def _near_pairs(self, split: Views, actions: Sequence[Element]) -> tuple[Tensor, Tensor]:
        """The rows of views of a thing about a training action apart, [pairs] twice."""
        start, stop = [], []
        for rows in pairs.rows_per_thing(split.states):
            for first, k in pairs.apart(split.poses[rows], self.group):
                i, j = self.trained(k, actions).nonzero().unbind(1)
                other = i + first != j
                start.append(rows[i[other] + first])
                stop.append(rows[j[other]])
        return torch.cat(start), torch.cat(stop)

    def orbits(self, split: Views, actions: Sequence[Element], edges: Edges) -> Tensor:
        """Which views of a thing training actions connect, by a number each, [count]. In a finite group they lead on
        through poses of which there is no view."""
        group = self.group
        if self.recorded is not None:
            return split.states
        if group.order is None:
            return pairs.components(len(split), edges.start, edges.stop)
        every = group.elements
        k = group.tensor(actions)
        place = group.residue(every)
        number = torch.empty(group.residues, dtype=torch.long)
        number[place] = torch.arange(len(every))
        reached = number[group.residue(group.compose(k[:, None], every[None]))]
        coset = pairs.components(len(every), torch.arange(len(every)).repeat(len(k)), reached.flatten())
        return split.states * len(every) + coset[number[group.residue(split.poses)]]

    def examples(self, actions: Sequence[Element], rows: int, generator: torch.Generator) -> Batch:
        """Test views and, for every action, the view of the same thing that it leads to; black if there is none."""
        split, group = self.test, self.group
        k = group.tensor(actions)
        context = torch.randperm(len(split), generator=generator)[:rows]
        reached = torch.zeros(len(context), len(k), *self.shape, dtype=torch.uint8)
        for i, row in enumerate(context):
            mates = (split.states == split.states[row]).nonzero()[:, 0]
            apart = group.distance(group.compose(k, split.poses[row])[:, None], split.poses[mates][None])
            nearest = apart.min(1)
            found = nearest.values <= (SAME if group.order is not None else self.tolerance or ONE)
            reached[i, found] = split.images[mates[nearest.indices[found]]]
        states = split.states[context]
        every = k.expand(len(context), *k.shape)
        return Batch(
            split.images[context], states, every, states[:, None].expand(every.shape[:2]), reached.flatten(0, 1)
        )


RECORDED = "recorded"
"""What --train-actions says of a recording: its own single steps."""


@dataclass(frozen=True)
class Edges:
    """Steps between views: rows [count] of the view before and after, and the action k [count, ...] between them."""

    start: Tensor
    stop: Tensor
    k: Tensor


@dataclass(frozen=True)
class ViewDraw:
    """An epoch: rows of contexts [count], and of the steps that are predicted [count], -1 for none."""

    context: Tensor
    edge: Tensor


class ViewTransitions(Transitions):
    """Draws steps between views that a training action connects, or, where no images of the next views are wanted, the
    views of an orbit, `views` in a row; each then comes with a step that training sees, if any leads from it."""

    def __init__(self, split: Views, group: Group, edges: Edges, orbits: Tensor, sampling: Sampling) -> None:
        self.split, self.group, self.sampling = split, group, sampling
        device = split.images.device
        order = edges.start.argsort(stable=True)
        self.edges = Edges(*(part[order].to(device) for part in (edges.start, edges.stop, edges.k)))
        self._leaving = torch.bincount(edges.start, minlength=len(split))
        self._first = self._leaving.cumsum(0) - self._leaving
        self._orbits = orbits.unique(return_inverse=True)[1]
        self.orbits = self._orbits.to(device)

    def __len__(self) -> int:
        return max(len(self.split), EPOCH)

    @property
    def images(self) -> int:
        return len(self.split)

    def draw(self, generator: torch.Generator) -> ViewDraw:
        count, device = len(self), self.split.images.device
        if self.sampling.with_targets:
            edge = _over_and_over(len(self.edges.start), count, generator)
            return ViewDraw(self.edges.start[edge.to(device)], edge.to(device))
        context = torch.cat([self._in_orbits(generator) for _ in range(-(-count // len(self.split)))])[:count]
        u = torch.rand(count, dtype=torch.float64, generator=generator)
        leaving = self._leaving[context]
        edge = torch.where(leaving > 0, self._first[context] + (u * leaving).long(), -1)
        return ViewDraw(context.to(device), edge.to(device))

    def _in_orbits(self, generator: torch.Generator) -> Tensor:
        """Every view once, in a random order that keeps about `views` views of an orbit together."""
        shuffled = torch.randperm(len(self._orbits), generator=generator)
        orbit = self._orbits[shuffled]
        by_orbit = orbit.argsort(stable=True)
        sizes = torch.bincount(orbit)
        starts = sizes.cumsum(0) - sizes
        rank = torch.empty_like(orbit)
        rank[by_orbit] = torch.arange(len(orbit)) - starts[orbit[by_orbit]]
        chunks = -(-sizes // self.sampling.views)  # of each orbit, as evenly as possible
        chunk = (chunks.cumsum(0) - chunks)[orbit] + rank % chunks[orbit]
        place = torch.randperm(int(chunks.sum()), generator=generator)
        return shuffled[place[chunk].argsort(stable=True)]

    def batch(self, draw: ViewDraw, start: int, stop: int) -> Batch:
        context, edge = draw.context[start:stop], draw.edge[start:stop]
        states = self.split.states[context]
        stay = torch.as_tensor(self.group.identity, dtype=self.group.dtype, device=states.device)
        leads = (edge >= 0).view(-1, *(1 for _ in self.group.shape))
        k = torch.where(leads, self.edges.k[edge.clamp(min=0)], stay)[:, None]
        images, next_states = self.split.images[context], states[:, None]
        if self.sampling.with_targets:
            rows = self.edges.stop[edge]
            return Batch(images, states, k, next_states, self.split.images[rows], context, rows[:, None])
        orbit, poses = self.orbits[context], self.split.poses[context]
        first = (orbit[:, None] == orbit).float().argmax(1)  # of each orbit, the first view in the batch
        pose = self.group.compose(poses, self.group.inverse(poses[first]))
        return Batch(
            images, states, k, next_states, None, context, orbit=orbit, pose=self.group.canonical(pose)
        )  # fmt: skip


def _over_and_over(total: int, count: int, generator: torch.Generator) -> Tensor:
    """`count` numbers below `total`: all of them in a random order, over and over."""
    rounds = [torch.randperm(total, generator=generator) for _ in range(-(-count // total))]
    return torch.cat(rounds)[:count]


def distinct(group: Group, k: Tensor) -> Tensor:
    """Distinct actions [count, ...], in canonical form."""
    kept: list[Tensor] = []
    for one in group.canonical(k):
        if not kept or bool((group.distance(torch.stack(kept), one.expand(len(kept), *one.shape)) > SAME).all()):
            kept.append(one)
    return torch.stack(kept)


def _words(group: Group, actions: Sequence[Element]) -> str:
    words = [group.write(k) for k in actions]
    return ", ".join(words if len(words) <= 6 else [*words[:6], "..."])
