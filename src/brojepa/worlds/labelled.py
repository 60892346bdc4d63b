"""LabelledTransitions: which image, which action, which image of the state it leads to.

A whole epoch is drawn at once from one seeded generator, so it is a pure function of config and seed, and an
interrupted epoch can be drawn again. Images stay where they are, one tensor; a batch is gathered by index.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from brojepa.groups import Element, Group
from brojepa.worlds import transforms
from brojepa.worlds.batches import PLAIN, Batch, Sampling, Split, Transitions


@dataclass(frozen=True)
class LabelledDraw:
    """An epoch as indices: context [count], k [count, actions, ...], target [count, actions]; offsets of the shifts,
    0 to 2 * shift, [count, 1 + actions, 2], and linear maps, [count, images, 2, 2], the context's first."""

    context: Tensor
    k: Tensor
    target: Tensor | None = None
    offset: Tensor | None = None
    warp: Tensor | None = None


class LabelledTransitions(Transitions):
    """Draws transitions between labelled states: a context, an action, and an image of the state that it leads to.

    Actions are uniform, and so are the images of the next state. `every_action` pairs each context with all actions,
    `even_states` shows every state equally often, to within one.

    Args:
        split: the images to draw from.
        group: the group of the actions.
        actions: the actions to draw, plain elements.
        sampling: how to draw.

    Examples:
        >>> import brojepa
        >>> import torch
        >>> split = brojepa.Split(torch.zeros(6, 1, 4, 4, dtype=torch.uint8), torch.arange(6) % 3)
        >>> transitions = brojepa.LabelledTransitions(split, brojepa.Cyclic(3), (-1, 1))
        >>> batch = transitions.batch(transitions.draw(torch.Generator().manual_seed(0)), 0, 4)
        >>> batch.k.shape, batch.targets.shape
        (torch.Size([4, 1]), torch.Size([4, 1, 4, 4]))
    """

    def __init__(self, split: Split, group: Group, actions: Sequence[Element], sampling: Sampling = PLAIN) -> None:
        self.split, self.group, self.sampling = split, group, sampling
        self.actions = group.tensor(actions)
        states = split.states.cpu()
        self._states = states
        self._by_state = states.argsort(stable=True)
        self._sizes = torch.bincount(states, minlength=group.order or 0)
        self._starts = self._sizes.cumsum(0) - self._sizes

    def __len__(self) -> int:
        return len(self.split) * self.sampling.repeat

    @property
    def labelled(self) -> LabelledTransitions:
        return self

    def draw(self, generator: torch.Generator) -> LabelledDraw:
        """An epoch: every image as context, once or `repeat` times, each time in random order; or as many images with
        all states alike."""
        count, device = len(self), self.split.images.device
        context = torch.cat([self._once(generator) for _ in range(self.sampling.repeat)])
        if self.sampling.every_action:
            k = self.actions.expand(count, *self.actions.shape)
        else:
            k = self.actions[torch.randint(len(self.actions), (count, 1), generator=generator)]
        target = offset = warp = None
        if self.sampling.with_targets:
            state = self.group.apply(self._states[context][:, None], k)
            u = torch.rand(state.shape, dtype=torch.float64, generator=generator)
            target = self._by_state[self._starts[state] + (u * self._sizes[state]).long()].to(device)
        if self.sampling.shift:
            shape = (count, 1 + k.shape[1], 2)
            offset = torch.randint(2 * self.sampling.shift + 1, shape, generator=generator).to(device)
        if self.sampling.warp:
            shape = (count, 1 + (k.shape[1] if self.sampling.with_targets else 0), 2, 2)
            warp = (torch.eye(2) + self.sampling.warp * (2 * torch.rand(shape, generator=generator) - 1)).to(device)
        return LabelledDraw(context.to(device), k.to(device), target, offset, warp)

    def _once(self, generator: torch.Generator) -> Tensor:
        images = torch.randperm(len(self.split), generator=generator)
        if not self.sampling.even_states:
            return images
        return self._evened(images, torch.randperm(len(images), generator=generator))

    def _evened(self, images: Tensor, places: Tensor) -> Tensor:
        """As many images, of every state the same number: each state goes through its own in the order given, over
        and over where it has few, as far as it comes where it has many."""
        by_state = images[self._states[images].argsort(stable=True)]
        state, turn = places % len(self._sizes), places // len(self._sizes)
        return by_state[self._starts[state] + turn % self._sizes[state]]

    def batch(self, draw: LabelledDraw, start: int, stop: int) -> Batch:
        """Rows start to stop of the epoch, gathered."""
        context, k = draw.context[start:stop], draw.k[start:stop]
        changes = [None if c is None else c[start:stop] for c in (draw.offset, draw.warp)]
        states = self.split.states[context]
        targets = None
        target_rows = None if draw.target is None else draw.target[start:stop]
        if target_rows is not None:
            rest = (None if c is None else c[:, 1:].flatten(0, 1) for c in changes)
            targets = self._images(target_rows.flatten(), *rest)
        images = self._images(context, *(None if c is None else c[:, 0] for c in changes))
        return Batch(images, states, k, self.group.apply(states[:, None], k), targets, context, target_rows)

    def _images(self, index: Tensor, offset: Tensor | None, warp: Tensor | None) -> Tensor:
        images = self.split.images.index_select(0, index)
        if offset is not None:
            h, w = images.shape[2:]
            padded = F.pad(images, (self.sampling.shift,) * 4)
            windows = padded.unfold(2, h, 1).unfold(3, w, 1)  # a view, [count, c, 2 shift + 1, 2 shift + 1, h, w]
            images = windows[torch.arange(len(images), device=index.device), :, offset[:, 0], offset[:, 1]]
        return images if warp is None else warped(images, warp, self.sampling.shrink)


def warped(images: Tensor, maps: Tensor, shrink: int) -> Tensor:
    """Images under a linear map each, as `transforms.warp` makes them. Those whose blocks of `shrink` x `shrink` pixels
    are read by their means consist of such blocks: the means are warped, which takes a fraction of the time."""
    if shrink == 1:
        return transforms.warp(images, maps)
    height, width = images.shape[2:]
    small = transforms.warp(transforms.block_means(images.float(), shrink), maps)
    return small.repeat_interleave(shrink, 2)[:, :, :height].repeat_interleave(shrink, 3)[..., :width]
