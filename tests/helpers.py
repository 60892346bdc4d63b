"""Shared by the tests: tiny builders of a task, models, batches and a world, and what opening a world gives."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import settings
from torch import Tensor

from brojepa.config import Config
from brojepa.errors import RequestError
from brojepa.models import Model, Task
from brojepa.models.build import build
from brojepa.worlds import Batch, Split, World, open_world

ROOT = Path(__file__).parents[1]
"""The repository."""

checked = settings(deadline=None, derandomize=True, database=None, max_examples=40)
"""Hypothesis, the same examples every time and without a clock."""


def says(text: str, expected: str) -> bool:
    """Whether a message says what it must, in whatever wording: every flag, number, name and quoted value of what is
    expected, and half of its other words of four letters or more."""
    words = [word.strip(",.;:?!()") for word in expected.split()]
    plain = [word for word in words if re.fullmatch(r"[a-z]+('s)?", word)]
    facts = [word for word in words if word not in plain]
    about = [word for word in plain if len(word) >= 4]
    return all(fact in text for fact in facts) and 2 * sum(word in text for word in about) >= len(about)


TASK = Task(n=5, shape=(1, 8, 8), mean=(0.3,), std=(0.4,))


def config(**values: Any) -> Config:
    """A small config; the encoder computes in float32 whatever the machine prefers."""
    return Config().replace(**{"latent": 8, "precision": "float32", **values})


def model(task: Task = TASK, seed: int = 0, **values: Any) -> Model:
    return build(config(**values), task, torch.Generator().manual_seed(seed))


def batch(
    task: Task = TASK, count: int = 40, actions: tuple[int, ...] = (-1, 1), *, every_action: bool = False,
    targets: bool = True, seed: int = 0,
) -> Batch:  # fmt: skip
    """A random batch; every state is there where count >= n."""
    g = torch.Generator().manual_seed(seed)
    states = torch.arange(count) % task.n
    k = torch.tensor(actions)
    k = k.expand(count, -1) if every_action else k[torch.randint(len(k), (count, 1), generator=g)]
    images = images_of(task, count, g)
    target_images = images_of(task, k.numel(), g) if targets else None
    return Batch(images, states, k, (states[:, None] + k) % task.n, target_images)


def images_of(task: Task, count: int, generator: torch.Generator) -> Tensor:
    return torch.randint(256, (count, *task.shape), dtype=torch.uint8, generator=generator)


def blobs(n: int = 5, count: int = 20, seed: int = 0, size: int = 8, tests: int = 6) -> World:
    """A world one can learn: state y is a noisy picture of its own; `count` training and `tests` test images of each
    state."""
    rng = np.random.default_rng(seed)
    shapes = rng.integers(0, 256, (n, size, size))

    def split(each: int) -> tuple[np.ndarray, np.ndarray]:
        states = rng.permutation(np.repeat(np.arange(n), each))
        noisy = shapes[states] + rng.normal(0, 40, (len(states), size, size))
        return noisy.clip(0, 255).astype(np.uint8), states

    return World.from_arrays("blobs", split(count), split(tests), n=n)


def gradients(model: torch.nn.Module) -> dict[str, float]:
    """The largest gradient of each parameter; 0 where there is none."""
    return {name: 0.0 if p.grad is None else float(p.grad.abs().max()) for name, p in model.named_parameters()}


def number(t: Tensor) -> float:
    """A scalar tensor as a number; float() warns where a gradient is wanted."""
    return t.detach().item()


def random_arrays(n: int, shape: tuple[int, ...], train: int = 4, test: int = 2) -> tuple[np.ndarray, ...]:
    """Noise that shows n states, `train` and `test` images of each."""
    rng = np.random.default_rng(n)
    parts = []
    for count in (train, test):
        parts += [rng.integers(0, 256, (n * count, *shape), np.uint8), np.tile(np.arange(n, dtype=np.uint8), count)]
    return tuple(parts)


def refusal(name: object, data_dir: Path | None = None) -> str:
    """The one line that opening a world gives."""
    with pytest.raises(RequestError) as caught:
        open_world(str(name), data_dir)
    message = str(caught.value)
    assert "\n" not in message
    return message


def same(split: Split, images: np.ndarray, states: np.ndarray) -> bool:
    """Whether a split holds these images [count, h, w] or [count, h, w, c] and states, in this order."""
    images = images[:, None] if images.ndim == 3 else np.moveaxis(images, 3, 1)
    return np.array_equal(split.images.numpy(), images) and np.array_equal(split.states.numpy(), states)
