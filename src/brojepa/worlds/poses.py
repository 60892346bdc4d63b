"""Worlds whose states are poses: a thing (a digit, an object) is shown in a pose, and an action moves the pose.

The pose g is an element of the world's group and action k leads to k g, of the same thing. No label says which state
an image shows; images are shown as they are needed, on the device, in batches.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from brojepa.errors import RequestError
from brojepa.groups import Element, Group
from brojepa.worlds import brought
from brojepa.worlds.batches import PLAIN, Batch, Sampling, Split, Transitions
from brojepa.worlds.views import ViewWorld
from brojepa.worlds.world import World

REPEATS, WORDS = 36, 3  # a view of an orbit is WORDS training actions away, each repeated fewer times
STAY = 0.9  # the chance that a step of a walk repeats the last action, so that walks get far

Show = Callable[[Split, Tensor], Tensor]
"""Things and their poses [count, ...] -> uint8 images [count, c, h, w]."""


@dataclass(frozen=True, repr=False)
class PoseWorld(World):
    """A world of things in poses. Its splits hold the things: their unmoved images, and a number that names each.

    Make one from your own views with `PoseWorld.from_arrays` or `PoseWorld.from_recording`.

    Args:
        name: what the world is called.
        n: 0, since poses are not labels.
        train: the things to train on.
        test: the things to test on.
        mean: mean of each channel.
        std: standard deviation of each channel.
        source: what the data are.
        law: the group of the poses.
        notes: what a user should know about the data.
        show: a function from things and poses to images.
        candidates: poses among which a predicted one is searched, [count, ...].
        measured: the actions to measure.
        contexts: number of poses from which each thing is measured.
        views: images per epoch, if there are fewer things.

    Examples:
        >>> import brojepa
        >>> brojepa.open_world("dihedral").group
        Dihedral(n=4)
    """

    show: Show = field(kw_only=True)
    candidates: Tensor = field(kw_only=True)
    measured: tuple[Element, ...] = field(kw_only=True)
    contexts: int = field(kw_only=True, default=1)
    views: int = field(kw_only=True, default=0)

    @classmethod
    def from_arrays(  # pyright: ignore[reportIncompatibleMethodOverride]
        cls, name: str, images: Any, things: Any, poses: Any, group: Group | str, *, held_out_things: int = 0,
        tolerance: float = 0.0,
    ) -> ViewWorld:  # fmt: skip
        """A world of views that exist as images: a turntable, photographs from known viewpoints.

        Args:
            name: what the world is called.
            images: as in `World.from_arrays`.
            things: integers [count], which thing an image shows. Things may lack some views.
            poses: the pose of each, [count, ...]: integers for Z72, degrees for SO2, unit quaternions w, x, y, z for
                SO3.
            group: the group of the poses, or its name.
            held_out_things: number of things for test only.
            tolerance: for a continuous group, degrees within which the action between two views counts as a training
                action.

        Returns:
            A world in which action k leads from a view in pose g to a view of the same thing in pose k g.

        Raises:
            RequestError: arrays that do not fit each other or the group.

        Examples:
            >>> import brojepa
            >>> import numpy as np
            >>> images = np.stack([np.roll(np.eye(8, dtype=np.uint8) * 255, i, axis=1) for i in range(8)] * 2)
            >>> things, poses = np.repeat([0, 1], 8), np.tile(np.arange(8), 2)
            >>> world = brojepa.PoseWorld.from_arrays("rolled", images, things, poses, "Z8")
            >>> str(world.group), world.n
            ('Z8', 0)
        """
        return brought.poses(
            name, images, things, poses, group, held_out_things=held_out_things, tolerance=tolerance
        )  # fmt: skip

    @classmethod
    def from_recording(
        cls, name: str, images: Any, actions: Any, episode: Any, group: Group | str, *, held_out_things: int = -1,
        tolerance: float = 0.0,
    ) -> ViewWorld:  # fmt: skip
        """A world of recorded episodes. Training uses single steps; zero-shot is every composition of several.

        Args:
            name: what the world is called.
            images: the frames, as in `World.from_arrays`; those of an episode are consecutive.
            actions: what leads from each frame to the next, [count, ...], elements of the group. The action of an
                episode's last frame is ignored.
            episode: integers [count], the episode of each frame.
            group: the group of the actions, or its name.
            held_out_things: number of episodes for test only; -1 means a fifth.
            tolerance: as in `from_arrays`.

        Returns:
            A world whose things are the episodes.

        Raises:
            RequestError: arrays that do not fit each other or the group.

        Examples:
            >>> import brojepa
            >>> import numpy as np
            >>> images = np.stack([np.roll(np.eye(8, dtype=np.uint8) * 255, i, axis=1) for i in range(8)] * 5)
            >>> actions, episode = np.ones(40, dtype=int), np.repeat(np.arange(5), 8)
            >>> world = brojepa.PoseWorld.from_recording("rolled", images, actions, episode, "Z8")
            >>> str(world.group)
            'Z8'
        """
        return brought.recording(
            name, images, actions, episode, group, held_out_things=held_out_things, tolerance=tolerance
        )  # fmt: skip

    @property
    def actions(self) -> tuple[Element, ...]:
        return self.measured

    def hold_out(self, count: int, generator: torch.Generator) -> tuple[Split, Split]:
        """Set things apart for validation; if there are few, use new views of the same things.

        Args:
            count: how many things.
            generator: draws them.

        Returns:
            The things to train on, and those to validate on.
        """
        if self.views:
            return self.train, self.train
        return self.train.hold_out(count, int(self.train.states.max()) + 1, generator)

    def transitions(self, split: Split, actions: Sequence[Element], sampling: Sampling) -> Transitions:
        """The transitions of a split of this world.

        Args:
            split: the things to draw from.
            actions: the actions to draw, plain elements.
            sampling: how to draw.

        Returns:
            The transitions.

        Raises:
            RequestError: augmentation, which is for labelled states.
        """
        if sampling != sampling.plain:
            flags = "--shift, --warp and --even-states"
            raise RequestError(f"{flags} are for labelled states, not for poses of {self.group}")
        return (PoseTransitions if sampling.with_targets else OrbitTransitions)(self, split, actions, sampling)

    @property
    def plain(self) -> bool:
        return False


def powers(group: Group, actions: Tensor) -> Tensor:
    """Each action repeated 0, 1, ..., REPEATS - 1 times, [actions, REPEATS, ...]."""
    table = [torch.as_tensor(group.identity, dtype=group.dtype).expand(actions.shape)]
    for _ in range(REPEATS - 1):
        table.append(group.compose(actions, table[-1]))
    return torch.stack(table, 1)


@dataclass(frozen=True)
class OrbitDraw:
    """An epoch of views, several in a row of one thing: context [count], which orbit [count], the pose the orbit starts
    from and what leads from there to the view, [count, ...] each, and k [count, actions, ...]."""

    context: Tensor
    orbit: Tensor
    start: Tensor
    pose: Tensor
    k: Tensor


class OrbitTransitions(Transitions):
    """Draws views of things, `views` in a row of one: the first in a pose uniform over the group, the others where
    training actions lead from it, WORDS of them, each repeated any number of times. So far poses are in one batch with
    near ones, and nothing but training actions leads from one to another."""

    def __init__(self, world: PoseWorld, split: Split, actions: Sequence[Element], sampling: Sampling) -> None:
        if sampling.walk > 1:
            raise RequestError(f"--walk {sampling.walk} is for --target sampled; relaxed targets have --views")
        self.world, self.split, self.sampling = world, split, sampling
        self.group: Group = world.group
        self.actions = self.group.tensor(actions)
        self.powers = powers(self.group, self.actions)

    def __len__(self) -> int:
        return max(len(self.split), self.world.views * self.sampling.views)

    def draw(self, generator: torch.Generator) -> OrbitDraw:
        count, device, views = len(self), self.split.images.device, self.sampling.views
        orbits = -(-count // views)
        orbit = torch.arange(orbits).repeat_interleave(views)[:count]
        thing = torch.randperm(max(orbits, len(self.split)), generator=generator)[:orbits] % len(self.split)
        start = self.group.sample(orbits, generator)
        pose = self.powers[0, 0].expand(count, *self.group.shape)
        for _ in range(WORDS):
            which = torch.randint(len(self.actions), (count,), generator=generator)
            times = torch.randint(REPEATS, (count,), generator=generator)
            pose = self.group.compose(self.powers[which, times], pose)
        k = drawn_actions(self.actions, count, self.sampling.every_action, generator)
        return OrbitDraw(*(t.to(device) for t in (thing[orbit], orbit, start[orbit], pose, k)))

    def batch(self, draw: OrbitDraw, start: int, stop: int) -> Batch:
        rows = slice(start, stop)
        things, pose, k = self.split[draw.context[rows]], draw.pose[rows], draw.k[rows]
        images = self.world.show(things, self.group.compose(pose, draw.start[rows]))
        states = things.states
        after = states[:, None].expand(k.shape[:2])
        return Batch(images, states, k, after, None, orbit=draw.orbit[rows], pose=self.group.canonical(pose))


def drawn_actions(actions: Tensor, count: int, every: bool, generator: torch.Generator) -> Tensor:
    """For each of `count` contexts all actions, or one drawn at random: [count, actions, ...]."""
    if every:
        return actions.expand(count, *actions.shape)
    return actions[torch.randint(len(actions), (count, 1), generator=generator)]


@dataclass(frozen=True)
class PoseDraw:
    """An epoch: context [count], its pose [count, ...], and k [count, actions, ...]."""

    context: Tensor
    pose: Tensor
    k: Tensor


class PoseTransitions(Transitions):
    """Draws things in poses: a thing in a uniform pose, an action, and the same thing in the pose that it leads to.

    `every_action` pairs each context with all actions. With `walk` above 1, the actions are that many in a row, and the
    targets show the thing after each of them.

    Args:
        world: the world of poses.
        split: the things to draw from.
        actions: the actions to draw, plain elements.
        sampling: how to draw.

    Examples:
        >>> import brojepa
        >>> import torch
        >>> world = brojepa.open_world("dihedral")
        >>> transitions = brojepa.PoseTransitions(world, world.test, [(1, 0), (0, 1)])
        >>> batch = transitions.batch(transitions.draw(torch.Generator().manual_seed(0)), 0, 8)
        >>> batch.images.shape, batch.k.shape
        (torch.Size([8, 1, 28, 28]), torch.Size([8, 1, 2]))
    """

    def __init__(self, world: PoseWorld, split: Split, actions: Sequence[Element], sampling: Sampling = PLAIN) -> None:
        self.world, self.split = world, split
        self.every_action, self.walk = sampling.every_action, sampling.walk
        self.group: Group = world.group
        self.actions = self.group.tensor(actions)

    def __len__(self) -> int:
        return max(len(self.split), self.world.views)

    def draw(self, generator: torch.Generator) -> PoseDraw:
        count, device = len(self), self.split.images.device
        context = torch.randperm(count, generator=generator) % len(self.split)
        pose = self.group.sample(count, generator)
        if self.every_action:
            k = self.actions.expand(count, *self.actions.shape)
        else:
            which = torch.randint(len(self.actions), (count, self.walk), generator=generator)
            turns = torch.rand(count, self.walk, generator=generator) >= STAY
            turns[:, 0] = True
            last = (turns * torch.arange(self.walk)).cummax(1).values  # the step at which the action was last drawn
            k = self.actions[which.gather(1, last)]
        return PoseDraw(context.to(device), pose.to(device), k.to(device))

    def batch(self, draw: PoseDraw, start: int, stop: int) -> Batch:
        things, pose, k = self.split[draw.context[start:stop]], draw.pose[start:stop], draw.k[start:stop]
        reached = self.group.compose(k, pose[:, None]) if self.walk == 1 else self._along(pose, k)
        again = torch.arange(len(things), device=k.device).repeat_interleave(k.shape[1])
        targets = self.world.show(things[again], reached.flatten(0, 1))
        states = things.states
        return Batch(self.world.show(things, pose), states, k, states[:, None].expand(k.shape[:2]), targets)

    def _along(self, pose: Tensor, k: Tensor) -> Tensor:
        """The poses after each of the actions in a row, [count, walk, ...]."""
        poses = []
        for step in k.unbind(1):
            pose = self.group.compose(step, pose)
            poses.append(pose)
        return torch.stack(poses, 1)
