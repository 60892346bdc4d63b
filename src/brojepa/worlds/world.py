"""A world in memory: a training and a test split of images, each image showing one of n states.

Checks what it is given, so that whatever holds a `World` can rely on it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from brojepa.errors import RequestError
from brojepa.groups import Cyclic, Element, Group
from brojepa.worlds.batches import Sampling, Split, Transitions
from brojepa.worlds.labelled import LabelledTransitions


@dataclass(frozen=True)
class World:
    """Images and states of two splits, and the group that acts on the states: the cycle of n, or another `law`.

    n: how many labelled states there are; 0 where a state is no label.
    mean, std: over the pixels (0 to 1) of the training split, one per channel.
    source: which data these are: counts, sha256, and the name of the split where it is a known one.

    A world of another kind is a subclass with `transitions`, and an evaluator registered for it.
    """

    name: str
    n: int
    train: Split
    test: Split
    mean: tuple[float, ...]
    std: tuple[float, ...]
    source: dict[str, Any] = field(default_factory=dict)
    law: Group | None = None

    @property
    def group(self) -> Group:
        return self.law or Cyclic(self.n)

    @property
    def actions(self) -> tuple[Element, ...]:
        """The actions that are measured."""
        return self.group.actions

    @property
    def facts(self) -> dict[str, Any]:
        """What a run remembers of its world; the group where it is not the cycle of the states."""
        plain = {"name": self.name, "states": self.n, "shape": list(self.shape)}
        plain |= {"mean": list(self.mean), "std": list(self.std), **self.source}
        return plain if self.law is None else {**plain, "group": str(self.law)}

    def hold_out(self, count: int, generator: torch.Generator) -> tuple[Split, Split]:
        """The training split without its validation images, and these."""
        return self.train.hold_out(count, self.n, generator)

    def transitions(self, split: Split, actions: Sequence[Element], sampling: Sampling) -> Transitions:
        """What draws transitions from a split of this world."""
        if sampling.walk > 1:
            raise RequestError(f"--walk {sampling.walk} is for worlds of poses, {self.name} has labelled states: use 1")
        return LabelledTransitions(split, self.group, actions, sampling)

    @property
    def plain(self) -> bool:
        """Whether this is a cycle of labelled states, which other worlds can be made from."""
        return self.law is None

    def keep(self, states: list[int], name: str) -> World:
        """The world of some of the states, counted anew in the order given."""
        if len(states) < 2 or len(set(states)) < len(states) or not set(states) <= set(range(self.n)):
            raise RequestError(
                f"world {name}: {self.name} has states 0 to {self.n - 1}, name two or more of them, each once"
            )
        place = torch.full((self.n,), -1)
        place[torch.tensor(states)] = torch.arange(len(states))
        train, test = (Split(s.images[place[s.states] >= 0], place[s.states][place[s.states] >= 0])
                       for s in (self.train, self.test))  # fmt: skip
        mean, std = pixel_statistics(train.images)
        counts = {"train": len(train), "test": len(test)}
        return World(name, len(states), train, test, mean, std, {**self.source, "images": counts})

    @property
    def shape(self) -> tuple[int, int, int]:
        """channels, height, width"""
        c, h, w = self.train.images.shape[1:]
        return c, h, w

    @property
    def title(self) -> str:
        split = self.source.get("split")
        return f"{self.name} ({split} split)" if split else self.name

    @classmethod
    def from_arrays(
        cls,
        name: str,
        train: tuple[np.ndarray, np.ndarray],
        test: tuple[np.ndarray, np.ndarray],
        *,
        n: int | None = None,
        source: dict[str, Any] | None = None,
    ) -> World:
        """A world from uint8 images [count, height, width] or [count, height, width, channels] and labels 0..n-1.

        n is one more than the largest label unless given.
        """  # fmt: skip
        given = (("train", *train), ("test", *test))
        for part, images, labels in given:
            _check_arrays(f"{name}, {part} split", images, labels)
        n = int(max(train[1].max(initial=0), test[1].max(initial=0))) + 1 if n is None else n
        Cyclic(n)
        parts = [_split(name, part, images, labels, n) for part, images, labels in given]
        if parts[0].images.shape[1:] != parts[1].images.shape[1:]:
            shapes = " and ".join("x".join(map(str, p.images.shape[1:])) for p in parts)
            raise RequestError(f"{name}: training and test images differ in shape ({shapes}), they must be alike")
        mean, std = pixel_statistics(parts[0].images)
        facts = {"images": {"train": len(parts[0]), "test": len(parts[1])}, **(source or {})}
        facts.setdefault("sha256", content_sum(*parts))
        return cls(name, n, parts[0], parts[1], mean, std, facts)


def _check_arrays(where: str, images: np.ndarray, labels: np.ndarray) -> None:
    if labels.ndim != 1 or images.ndim not in (3, 4):
        hint = ": are the image and label files swapped?" if labels.ndim > images.ndim else ""
        raise RequestError(
            f"{where}: images have {images.ndim} dimensions and labels {labels.ndim}, need 3 or 4 and 1{hint}"
        )
    if 0 in images.shape[1:]:
        raise RequestError(f"{where}: images of {' x '.join(map(str, images.shape[1:]))} have no pixels")
    if len(images) != len(labels):
        raise RequestError(f"{where}: {len(images)} images but {len(labels)} labels, files of different splits?")
    if images.dtype != np.uint8 or labels.dtype.kind not in "iu":
        raise RequestError(f"{where}: images must be uint8 and labels integers, got {images.dtype} and {labels.dtype}")
    if images.ndim == 4 and images.shape[3] not in (1, 3, 4):
        raise RequestError(f"{where}: images of shape {images.shape[1:]} must be height x width x 1, 3 or 4 channels")


def _split(name: str, part: str, images: np.ndarray, labels: np.ndarray, n: int) -> Split:
    where = f"{name}, {part} split"
    labels = labels.astype(np.int64)
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
    images = images[:, None] if images.ndim == 3 else np.moveaxis(images, 3, 1)
    return Split(torch.from_numpy(images.copy()), torch.from_numpy(labels))


def pixel_statistics(images: Tensor) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Exact mean and standard deviation of each channel over pixels scaled to 0..1, from a histogram."""
    levels = torch.arange(256, dtype=torch.float64) / 255
    means, stds = [], []
    for channel in images.unbind(1):
        share = torch.bincount(channel.flatten(), minlength=256).double() / channel.numel()
        mean = float((share * levels).sum())
        means.append(mean)
        stds.append(max(float((share * (levels - mean).square()).sum()) ** 0.5, 1 / 255))
    return tuple(means), tuple(stds)


def content_sum(*splits: Split) -> str:
    """The sha256 of images and states: what a world is known by, wherever it lies."""
    digest = hashlib.sha256()
    for split in splits:
        for part in (split.images, split.states):
            digest.update(f"{part.dtype} {tuple(part.shape)}".encode())
            digest.update(part.contiguous().numpy().data)
    return digest.hexdigest()
