"""Worlds whose states are poses: a thing (a digit, an object) is shown in a pose, and an action moves the pose.

The pose g is an element of the world's group and action k leads to k g, of the same thing. No label says which state
an image shows; images are shown as they are needed, on the device, in batches.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from brojepa.errors import RequestError
from brojepa.groups import Element, Group
from brojepa.worlds.batches import PLAIN, Batch, Sampling, Split, Transitions
from brojepa.worlds.world import World

STAY = 0.9  # the chance that the next step of a walk repeats the action of the last: it gets somewhere

Show = Callable[[Split, Tensor], Tensor]
"""Things and their poses [count, ...] -> uint8 images [count, c, h, w]."""


@dataclass(frozen=True)
class PoseWorld(World):
    """A world of poses. Its splits hold things: their images unmoved, and a number that names each.

    show: things in poses, as images.
    candidates: poses among which a predicted one is looked for, [count, ...].
    measured: the actions that are measured.
    contexts: poses from which a thing is measured; on the candidates' grid where they are a grid, else drawn.
    views: images per epoch where there are fewer things.
    """

    show: Show = field(kw_only=True)
    candidates: Tensor = field(kw_only=True)
    measured: tuple[Element, ...] = field(kw_only=True)
    contexts: int = field(kw_only=True, default=1)
    views: int = field(kw_only=True, default=0)

    @property
    def actions(self) -> tuple[Element, ...]:
        return self.measured

    def hold_out(self, count: int, generator: torch.Generator) -> tuple[Split, Split]:
        """Things held out for validation; where there are few, as many new views of the same."""
        if self.views:
            return self.train, self.train
        return self.train.hold_out(count, int(self.train.states.max()) + 1, generator)

    def transitions(self, split: Split, actions: Sequence[Element], sampling: Sampling) -> PoseTransitions:
        if sampling != sampling.plain:
            flags = "--shift, --warp and --even-states"
            raise RequestError(f"{flags} are for labelled states, not for poses of {self.group}")
        return PoseTransitions(self, split, actions, sampling)

    @property
    def plain(self) -> bool:
        return False


@dataclass(frozen=True)
class PoseDraw:
    """An epoch: context [count], its pose [count, ...], and k [count, actions, ...]."""

    context: Tensor
    pose: Tensor
    k: Tensor


class PoseTransitions(Transitions):
    """Draws transitions of things in poses: the pose uniform over the group, k uniform over the actions or, with
    `every_action`, all of them; the target is the same thing in the pose that k leads to. With `walk` above 1, k are
    that many actions in a row, and the targets the thing after each of them."""

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
