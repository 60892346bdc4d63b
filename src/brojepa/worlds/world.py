"""A world in memory: a training and a test split of images, each image showing one of n states.

It checks its data, so that all code that uses a `World` can rely on them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from brojepa.config import Config
from brojepa.errors import RequestError
from brojepa.groups import Cyclic, Element, Group
from brojepa.text import actions_text, listed
from brojepa.worlds.arrays import as_arrays, every_fifth, from_items
from brojepa.worlds.batches import Batch, Sampling, Split, Transitions
from brojepa.worlds.labelled import LabelledTransitions
from brojepa.worlds.rows import Rows, some_at_once

MOST = 10  # names of states that are shown


@dataclass(frozen=True, repr=False)
class World:
    """Images and states of two splits, and the group that acts on the states.

    Make one with `open_world`, `World.from_arrays` or `World.from_dataset`. A world of another kind is a subclass with
    its own `transitions`, and an evaluator registered for it.

    Args:
        name: what the world is called.
        n: number of labelled states; 0 if states are not labels.
        train: the training split.
        test: the test split.
        mean: mean of each channel over the training images, for pixels from 0 to 1.
        std: standard deviation of each channel.
        source: what the data are: counts, sha256, the name of a known split, names of states.
        law: the group; None means the cycle of the n states.
        notes: what a user should know about how the data were read, one line each.

    Examples:
        >>> import brojepa
        >>> brojepa.open_world("mnist")
        World mnist: 10 states, images 1 x 28 x 28
          train    60,000 images
          test     10,000 images
          actions  ±1..±9, of the group Z10
    """

    name: str
    n: int
    train: Split
    test: Split
    mean: tuple[float, ...]
    std: tuple[float, ...]
    source: dict[str, Any] = field(default_factory=dict)
    law: Group | None = None
    notes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        """Its contents, one line each."""
        shape = " x ".join(map(str, self.shape))
        what = f"{self.n} states" if self.n else f"things in poses of {self.group}"
        lines = [
            f"{type(self).__name__} {self.title}: {what}, images {shape}",
            f"  train    {len(self.train):,} images",
            f"  test     {len(self.test):,} images",
            f"  actions  {actions_text(self.actions, self.group)}, of the group {self.group}",
        ]
        names = self.source.get("names")
        return "\n".join(
            [*lines, f"  names    {listed(names[:MOST])}{', ...' if names[MOST:] else ''}"] if names else lines
        )

    @property
    def group(self) -> Group:
        """The group of the actions."""
        return self.law or Cyclic(self.n)

    @property
    def actions(self) -> tuple[Element, ...]:
        """The actions that are measured."""
        return self.group.actions

    def action_sets(self, config: Config) -> tuple[tuple[Element, ...], tuple[Element, ...]]:
        """The actions that a config trains on and holds out.

        Args:
            config: the config.

        Returns:
            Training and test actions, plain elements.
        """
        return action_sets(config, self.group, self.actions)

    def examples(self, actions: Sequence[Element], rows: int, generator: torch.Generator) -> Batch:
        """A few test images with every action, and an image of what each leads to.

        Args:
            actions: the actions, plain elements.
            rows: number of test images.
            generator: draws the images.

        Returns:
            A batch, as in training.
        """
        transitions = self.transitions(self.test, actions, Sampling(every_action=True))
        return transitions.batch(transitions.draw(generator), 0, rows)

    @property
    def facts(self) -> dict[str, Any]:
        """What a run records about its world; the group only if it is not the cycle of the states."""
        plain = {"name": self.name, "states": self.n, "shape": list(self.shape)}
        plain |= {"mean": list(self.mean), "std": list(self.std), **self.source}
        return plain if self.law is None else {**plain, "group": str(self.law)}

    def hold_out(self, count: int, generator: torch.Generator) -> tuple[Split, Split]:
        """Set validation images apart.

        Args:
            count: how many; at most a fifth of the training split.
            generator: draws them.

        Returns:
            The training split without them, and these.
        """
        return self.train.hold_out(count, self.n, generator)

    def transitions(self, split: Split, actions: Sequence[Element], sampling: Sampling) -> Transitions:
        """The transitions of a split of this world.

        Args:
            split: the images to draw from.
            actions: the actions to draw, plain elements.
            sampling: how to draw.

        Returns:
            The transitions.

        Raises:
            RequestError: a kind of sampling that this world does not have.
        """
        if sampling.walk > 1:
            raise RequestError(f"--walk {sampling.walk} is for worlds of poses, {self.name} has labelled states: use 1")
        return LabelledTransitions(split, self.group, actions, sampling)

    @property
    def plain(self) -> bool:
        """Whether this is a cycle of labelled states, which other worlds can be made from."""
        return self.law is None

    def keep(self, states: list[int], name: str) -> World:
        """The world of some of the states.

        Args:
            states: the states to keep, in their new order; they are renumbered from 0.
            name: what the new world is called.

        Returns:
            A cycle of these states.

        Raises:
            RequestError: fewer than two states, one twice, or one that does not exist.

        Examples:
            >>> import brojepa
            >>> brojepa.open_world("mnist").keep([0, 2, 4, 6, 8], "evens").n
            5
        """
        if len(states) < 2 or len(set(states)) < len(states) or not set(states) <= set(range(self.n)):
            raise RequestError(
                f"world {name}: {self.name} has states 0 to {self.n - 1}, name two or more of them, each once"
            )
        place = torch.full((self.n,), -1)
        place[torch.tensor(states)] = torch.arange(len(states))
        train, test = (Split(s.images[place[s.states] >= 0], place[s.states][place[s.states] >= 0])
                       for s in (self.train, self.test))  # fmt: skip
        mean, std = pixel_statistics(train.images)
        source = {**self.source, "images": {"train": len(train), "test": len(test)}}
        if "names" in source:
            source["names"] = [source["names"][y] for y in states]
        return World(name, len(states), train, test, mean, std, source, notes=self.notes)

    @property
    def shape(self) -> tuple[int, int, int]:
        """channels, height, width"""
        c, h, w = self.train.images.shape[1:]
        return c, h, w

    @property
    def title(self) -> str:
        """The name, with the split if it is a known one."""
        split = self.source.get("split")
        return f"{self.name} ({split} split)" if split else self.name

    @classmethod
    def from_arrays(
        cls,
        name: str,
        train: tuple[Any, Any],
        test: tuple[Any, Any],
        *,
        n: int | None = None,
        source: dict[str, Any] | None = None,
        names: Sequence[str] | None = None,
    ) -> World:
        """A world from arrays or tensors: images and labels of two splits.

        Args:
            name: what the world is called.
            train: images and labels to train on. Images are uint8, or floats from 0 to 1; [count, h, w], [count, h, w,
                c] or [count, c, h, w] with 1, 3 or 4 channels. Labels are integers from 0 to n - 1.
            test: images and labels to test on.
            n: number of states; default one more than the largest label.
            source: more facts for a run to remember, as in `World.source`.
            names: what the states are called.

        Returns:
            The cycle of n states: +1 leads from label y to y + 1, and from n - 1 to 0.

        Raises:
            RequestError: images or labels that do not fit, or a state without images.

        Examples:
            >>> import brojepa
            >>> import numpy as np
            >>> labels = np.arange(60) % 3
            >>> images = np.zeros((60, 4, 4), dtype=np.uint8)
            >>> images[np.arange(60), labels] = 255  # a line whose height is the state
            >>> world = brojepa.World.from_arrays("lines", train=(images, labels), test=(images, labels))
            >>> world.n, world.shape
            (3, (1, 4, 4))
        """
        return cls.assembled(name, train, test, n, source, names)

    @classmethod
    def assembled(
        cls, name: str, train: tuple[Any, Any], test: tuple[Any, Any], n: int | None = None,
        source: dict[str, Any] | None = None, names: Sequence[str] | None = None, own: bool = False,
    ) -> World:  # fmt: skip
        """`from_arrays` for arrays that need not be copied.

        Args:
            name: what the world is called.
            train: images and states of the training split.
            test: those of the test split.
            n: the number of states; default one more than the largest label.
            source: more facts for a run to record.
            names: what the states are called.
            own: the arrays are not used elsewhere, so they need no copy.

        Returns:
            The world.

        Raises:
            RequestError: the arrays do not fit together.
        """
        given = [
            (part, *as_arrays(f"{name}, {part} split", *pair)) for part, pair in (("train", train), ("test", test))
        ]
        n = int(max(labels.max(initial=0) for _, _, labels in given)) + 1 if n is None else n
        Cyclic(n)
        parts = [_split(name, part, images, labels, n, own) for part, images, labels in given]
        if parts[0].images.shape[1:] != parts[1].images.shape[1:]:
            shapes = " and ".join("x".join(map(str, p.images.shape[1:])) for p in parts)
            raise RequestError(f"{name}: training and test images differ in shape ({shapes}), they must be alike")
        if names is not None and len(set(names)) != n:
            raise RequestError(f"{name}: {len(set(names))} different names for {n} states, give one each")
        mean, std = pixel_statistics(parts[0].images)
        facts = {"images": {"train": len(parts[0]), "test": len(parts[1])}, **(source or {})}
        facts |= {"names": [str(word) for word in names]} if names is not None else {}
        facts.setdefault("sha256", content_sum(*parts))
        return cls(name, n, parts[0], parts[1], mean, std, facts)

    @classmethod
    def from_dataset(
        cls, name: str, train: Any, test: Any = None, *, n: int | None = None, names: Sequence[str] | None = None
    ) -> World:
        """A world from map-style datasets, such as torchvision's. They are read once, into memory.

        Args:
            name: what the world is called.
            train: an object with a length whose items are (image, label) or {"image": ..., "label": ...}. An image is a
                Pillow image, a tensor or an array, as in `from_arrays`.
            test: the same for the test split; without it, every fifth image of each state is kept for it.
            n: number of states; default one more than the largest label.
            names: what the states are called; default `train.classes` if it has one name per state.

        Returns:
            The cycle of the labels, as `from_arrays` makes it.

        Raises:
            RequestError: items of another form, or images that do not fit.

        Examples:
            >>> import brojepa
            >>> import torch
            >>> items = [(torch.rand(1, 4, 4), i % 2) for i in range(20)]
            >>> world = brojepa.World.from_dataset("noise", items)
            >>> len(world.train), len(world.test)
            (16, 4)
        """
        first = from_items(f"{name}, train split", train)
        if test is not None:
            second = from_items(f"{name}, test split", test)
        else:
            held = every_fifth(first[1])
            first, second = (first[0][~held], first[1][~held]), (first[0][held], first[1][held])
        pairs = [(torch.from_numpy(images), labels) for images, labels in (first, second)]  # channels first
        states = int(max(labels.max(initial=0) for _, labels in pairs)) + 1 if n is None else n
        known = getattr(train, "classes", None)
        if names is None and isinstance(known, (list, tuple)) and len({str(word) for word in known}) == states:
            names = [str(word) for word in known]
        return cls.assembled(name, pairs[0], pairs[1], n=n, names=names, own=True)


def action_sets(
    config: Config, group: Group, measured: Sequence[Element] | None = None
) -> tuple[tuple[Element, ...], tuple[Element, ...]]:
    """The training and the test actions of a config: by default all that are measured and not trained on."""
    train = group.check(config.train_actions, "--train-actions")
    if config.test_actions is None:
        measured = group.actions if measured is None else measured
        seen = group.shared(measured, train)
        return train, tuple(k for k in measured if k not in seen)
    test = group.check(config.test_actions, "--test-actions")
    if both := group.shared(test, train):
        named = ",".join(map(group.write, both))
        raise RequestError(
            f"actions {named} are in --train-actions and --test-actions: "
            "an action trained on cannot be zero-shot, take it out of one"
        )
    return train, test


def _split(name: str, part: str, images: np.ndarray, labels: np.ndarray, n: int, own: bool) -> Split:
    check_labels(name, part, labels, n)
    return Split(torch.from_numpy(np.ascontiguousarray(images) if own else images.copy()), torch.from_numpy(labels))


def check_labels(name: str, part: str, labels: np.ndarray, n: int) -> None:
    """Raise an error if labels are not states, or a state has too few images."""
    where = f"{name}, {part} split"
    if len(labels) and not 0 <= labels.min() <= labels.max() < n:
        raise RequestError(f"{where}: labels run from {labels.min()} to {labels.max()}, {n} states need 0 to {n - 1}")
    least = 2 if part == "train" else 1
    if n > len(labels):  # before counting: one stray label of a billion must not fill the memory
        raise RequestError(f"{where}: {len(labels)} images for {n} states, each of 0 to {n - 1} needs {least} or more")
    counts = np.bincount(labels, minlength=n)
    if counts.min() < least:
        raise RequestError(
            f"{where}: state {counts.argmin()} has {counts.min()} images, each state 0 to {n - 1} needs {least} or more"
        )


def pixel_statistics(images: Tensor | Rows) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Exact mean and standard deviation of each channel over pixels scaled to 0..1, from a histogram."""
    return histogram_statistics(sum(map(histogram, images.split(some_at_once(images))), torch.zeros(1).long()))


def histogram(images: Tensor | Rows) -> Tensor:
    """How often each of 256 levels occurs in each channel of images, [channels, 256]."""
    return torch.stack([channel.flatten().bincount(minlength=256) for channel in images[:].unbind(1)])


def histogram_statistics(counts: Tensor) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """The same from counts [channels, 256]."""
    levels = torch.arange(256, dtype=torch.float64) / 255
    means, stds = [], []
    for channel in counts:
        share = channel.double() / channel.sum()
        mean = float((share * levels).sum())
        means.append(mean)
        stds.append(max(float((share * (levels - mean).square()).sum()) ** 0.5, 1 / 255))
    return tuple(means), tuple(stds)


def content_sum(*splits: Split) -> str:
    """The sha256 of images and states, which identifies a world wherever it is."""
    digest = hashlib.sha256()
    for split in splits:
        for part in split.parts:
            digest.update(f"{part.dtype} {tuple(part.shape)}".encode())
            for piece in part.split(some_at_once(part)):
                digest.update(piece[:].contiguous().numpy().data)
    return digest.hexdigest()
