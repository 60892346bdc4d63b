"""A split of images, and the batches of transitions that are drawn from it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from brojepa.config import Config
from brojepa.worlds.rows import Rows, some

if TYPE_CHECKING:
    from brojepa.worlds.labelled import LabelledTransitions


@dataclass(frozen=True, repr=False)
class Split:
    """Images and the states that they show.

    Args:
        images: uint8, [count, channels, height, width]; a tensor, or `Rows` of images that are
            not copied into memory.
        states: int64, [count].

    Examples:
        >>> import brojepa
        >>> import torch
        >>> split = brojepa.Split(torch.zeros(6, 1, 4, 4, dtype=torch.uint8), torch.arange(6) % 3)
        >>> split
        Split of 6 images, 1 x 4 x 4
        >>> len(split[torch.tensor([0, 2])])
        2
    """

    images: Tensor | Rows
    states: Tensor

    def __repr__(self) -> str:
        return f"Split of {len(self):,} images, {' x '.join(map(str, self.images.shape[1:]))}"

    def __len__(self) -> int:
        return len(self.states)

    def __getitem__(self, index: Tensor) -> Split:
        return Split(self.images[index], self.states[index])

    def to(self, device: torch.device) -> Split:
        """The same split on a device.

        Args:
            device: the device.

        Returns:
            A split with both tensors there.
        """
        return Split(self.images.to(device), self.states.to(device))

    @property
    def parts(self) -> tuple[Tensor | Rows, ...]:
        """Everything that it holds."""
        return self.images, self.states

    def hold_out(self, count: int, n: int, generator: torch.Generator) -> tuple[Split, Split]:
        """Split off some images, each state in proportion and at least one of each.

        Images are ordered by their rank within their state after a shuffle, as a share of that state's images. The
        first `count` in that order are held out.

        Args:
            count: how many; at most a fifth of all.
            n: number of states.
            generator: shuffles the images.

        Returns:
            The remaining images, and those held out.
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
        kept = held[count:].sort().values
        return Split(some(self.images, kept), self.states[kept]), self[held[:count].sort().values]


@dataclass(frozen=True)
class Batch:
    """What a model is trained on in one step.

    Args:
        images: the contexts, [batch, c, h, w], uint8 (float if warped).
        states: what they show, [batch].
        k: the actions, elements of the group, [batch, actions, ...].
        next_states: the states these lead to, [batch, actions].
        targets: images of the next states, [batch * actions, c, h, w], or None if none were drawn.
        rows: where the contexts are in their split, [batch], if they are there.
        target_rows: where the targets are in their split, [batch, actions], if they are there.
        orbit: a number per context, the same for views of one thing that training actions connect, [batch]; or None.
        pose: the element that leads to each context from the start of its orbit, [batch, ...]; or None.

    Examples:
        >>> import brojepa
        >>> import torch
        >>> world = brojepa.open_world("mnist")
        >>> batch = world.examples([-1, 1], rows=5, generator=torch.Generator().manual_seed(0))
        >>> batch.images.shape, batch.k.tolist()[0]
        (torch.Size([5, 1, 28, 28]), [-1, 1])
        >>> bool(((batch.states[:, None] + batch.k) % 10 == batch.next_states).all())
        True
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
    """How transitions are drawn. The fields are the knobs of the same names in `Config`.

    Args:
        every_action: apply every action to every context, instead of one drawn at random.
        even_states: show every state equally often.
        repeat: how often each image is a context per epoch.
        walk: actions in a row from each context, in worlds of poses.
        shift: largest shift in pixels.
        warp: size of the random linear maps.
        views: views of a thing that are drawn together, in worlds of poses.
        with_targets: whether images of the next states are drawn too.
        shrink: side of the blocks of pixels whose means the model reads; warped images are made of such blocks.

    Examples:
        >>> import brojepa
        >>> brojepa.Sampling(shift=2, repeat=3, every_action=True).plain == brojepa.Sampling(every_action=True)
        True
    """

    every_action: bool = False
    even_states: bool = False
    repeat: int = 1
    walk: int = 1
    shift: int = 0
    warp: float = 0.0
    views: int = 1
    with_targets: bool = True
    shrink: int = 1

    @classmethod
    def of(cls, config: Config, with_targets: bool) -> Sampling:
        """The sampling that a config asks for.

        Args:
            config: the config.
            with_targets: whether the model wants images of the next states.

        Returns:
            The sampling.
        """
        names = ("every_action", "even_states", "repeat", "walk", "shift", "warp", "views", "shrink")
        return cls(**{name: getattr(config, name) for name in names}, with_targets=with_targets)

    @property
    def plain(self) -> Sampling:
        """The same without augmentation."""
        return replace(self, even_states=False, repeat=1, shift=0, warp=0.0)


PLAIN = Sampling()


class Transitions:
    """Draws what a model is trained on, from one split and some actions. Subclass it to draw differently.

    An epoch is drawn at once from one generator. So a run is a function of config and seed, and an epoch that was
    interrupted can be drawn again. `len` is the number of contexts per epoch.

    Examples:
        >>> import brojepa
        >>> import torch
        >>> world = brojepa.open_world("mnist")
        >>> transitions = world.transitions(world.test, (-1, 1), brojepa.Sampling())
        >>> epoch = transitions.draw(torch.Generator().manual_seed(0))
        >>> len(transitions), transitions.batch(epoch, 0, 32).images.shape
        (10000, torch.Size([32, 1, 28, 28]))
    """

    def __len__(self) -> int:
        """Contexts per epoch."""
        raise NotImplementedError

    def draw(self, generator: torch.Generator) -> Any:
        """Draw an epoch.

        Args:
            generator: the only source of random numbers.

        Returns:
            The epoch, for `batch` alone.
        """
        raise NotImplementedError

    def batch(self, draw: Any, start: int, stop: int) -> Batch:
        """Gather a part of an epoch.

        Args:
            draw: what `draw` returned.
            start: the first context.
            stop: the one after the last.

        Returns:
            The batch.
        """
        raise NotImplementedError

    @property
    def images(self) -> int:
        """How many different images these contexts are."""
        return len(self)

    @property
    def labelled(self) -> LabelledTransitions | None:
        """These transitions if they pair images of labelled states, from which angles can be estimated; else None."""
        return None
