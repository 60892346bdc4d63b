"""What worlds are made of and what is drawn from them: a split of images, and batches of transitions."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from brojepa.config import Config

if TYPE_CHECKING:
    from brojepa.worlds.labelled import LabelledTransitions


@dataclass(frozen=True, repr=False)
class Split:
    """images uint8 [count, channels, height, width] and the states they show, int64 [count]."""

    images: Tensor
    states: Tensor

    def __repr__(self) -> str:
        return f"Split of {len(self):,} images, {' x '.join(map(str, self.images.shape[1:]))}"

    def __len__(self) -> int:
        return len(self.states)

    def __getitem__(self, index: Tensor) -> Split:
        return Split(self.images[index], self.states[index])

    def to(self, device: torch.device) -> Split:
        return Split(self.images.to(device), self.states.to(device))

    @property
    def parts(self) -> tuple[Tensor, ...]:
        """Everything that it holds."""
        return self.images, self.states

    def hold_out(self, count: int, n: int, generator: torch.Generator) -> tuple[Split, Split]:
        """Split off `count` images (a fifth of all at most), every state in proportion and at least one of each.

        Images are ordered by their rank within their state after a shuffle, as a share of that state's images;
        the first `count` in that order are held out.
        """
        total = len(self)
        count = max(n, min(count, total // 5))
        order = torch.randperm(total, generator=generator)
        states = self.states[order]
        sizes = torch.bincount(states, minlength=n)
        by_state = states.argsort(stable=True)
        starts = sizes.cumsum(0) - sizes
        rank = torch.empty_like(states)
        rank[by_state] = torch.arange(total) - starts[states[by_state]]
        share = rank / sizes[states]
        held = order[share.argsort(stable=True)]
        return self[held[count:].sort().values], self[held[:count].sort().values]


@dataclass(frozen=True)
class Batch:
    """What a model is trained on in one step.

    images: the contexts, [batch, c, h, w], uint8 (float where warped).
    states: what they show, [batch].
    k: the actions, elements of the group, [batch, actions, ...].
    next_states: where these lead, [batch, actions].
    targets: images of the next states, [batch * actions, c, h, w], or None where none were drawn.
    rows, target_rows: where contexts and targets lie in their split, [batch] and [batch, actions], if they lie there.
    orbit, pose: which contexts show the same thing in poses that training actions connect, by a number each, [batch],
        and the element that leads to each from one of them, [batch, ...]; None where no such views were drawn.
    """

    images: Tensor
    states: Tensor
    k: Tensor
    next_states: Tensor
    targets: Tensor | None
    rows: Tensor | None = None
    target_rows: Tensor | None = None
    orbit: Tensor | None = None
    pose: Tensor | None = None


@dataclass(frozen=True)
class Sampling:
    """How transitions are drawn: the knobs of these names, and whether images of the next states are wanted."""

    every_action: bool = False
    even_states: bool = False
    repeat: int = 1
    walk: int = 1
    shift: int = 0
    warp: float = 0.0
    views: int = 1
    with_targets: bool = True

    @classmethod
    def of(cls, config: Config, with_targets: bool) -> Sampling:
        names = ("every_action", "even_states", "repeat", "walk", "shift", "warp", "views")
        return cls(**{name: getattr(config, name) for name in names}, with_targets=with_targets)

    @property
    def plain(self) -> Sampling:
        """The same on the images as they are."""
        return replace(self, even_states=False, repeat=1, shift=0, warp=0.0)


PLAIN = Sampling()


class Transitions:
    """Draws what a model is trained on, from one split and some actions. What `draw` returns is for `batch` alone.

    An epoch is drawn at once from one generator, so that a run is a function of config and seed, and an epoch that was
    cut off can be drawn again.
    """

    def __len__(self) -> int:
        """Contexts per epoch."""
        raise NotImplementedError

    def draw(self, generator: torch.Generator) -> Any:
        """An epoch."""
        raise NotImplementedError

    def batch(self, draw: Any, start: int, stop: int) -> Batch:
        """Contexts start to stop of an epoch."""
        raise NotImplementedError

    @property
    def images(self) -> int:
        """How many of these are different images."""
        return len(self)

    @property
    def labelled(self) -> LabelledTransitions | None:
        """These transitions where they pair images of labelled states, off which angles can be read; else None."""
        return None
