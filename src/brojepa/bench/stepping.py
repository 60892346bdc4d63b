"""Training stepped by hand: the loop's own steps, without a run directory, validation or checkpoints."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from brojepa.bench.measured import median_seconds, seconds
from brojepa.config import Config
from brojepa.training import Learner
from brojepa.worlds import Batch, Split, World, mapped
from brojepa.worlds.rows import from_array

SIDE = 28  # pixels, as MNIST
PIECE = 10_000  # images written at once


class Stepper(Learner):
    """A learner that is stepped by hand."""

    def __init__(self, config: Config, world: World, device: str = "auto", seed: int = 0) -> None:
        super().__init__(config, world, seed, device)
        self.model.train()
        self.drawn = self.transitions.draw(self.generator)

    @property
    def device(self) -> torch.device:
        return self.placement.device

    def advance(self, count: int = 1) -> None:
        """That many steps of the loop; at the end of the epoch it starts again."""
        for _ in range(count):
            start = self.step * self.batch_size
            self.learn(self.transitions.batch(self.drawn, start, start + self.batch_size))

    def learn(self, batch: Batch) -> None:
        """One step on a batch, however it was made."""
        super().learn(batch)
        self.step = (self.step + 1) % self.steps

    def validation(self) -> dict[str, Any]:
        """What the loop measures after an epoch."""
        measured = self.validate()
        self.model.train()
        return measured

    def seconds_per_step(self, repeats: int, at_least: float = 0.3) -> float:
        """The median over blocks of steps that take about `at_least` seconds each."""
        count = self._block(at_least)
        return median_seconds(lambda: self.advance(count), repeats, self.device) / count

    def _block(self, at_least: float) -> int:
        """How many steps take about that many seconds."""
        self.advance(2)
        return max(1, round(at_least / max(seconds(self.advance, self.device), 1e-6)))

    @staticmethod
    def in_turns(steppers: Sequence[Stepper], repeats: int, at_least: float) -> list[float]:
        """Seconds per step of each: the best of its blocks. They take turns, so what disturbs the machine for a while
        disturbs one block of many, and no best."""
        counts = [stepper._block(at_least) for stepper in steppers]
        best = [float("inf")] * len(counts)
        for _ in range(1 + repeats):
            for i, (stepper, count) in enumerate(zip(steppers, counts, strict=True)):
                taken = seconds(lambda s=stepper, c=count: s.advance(c), stepper.device)
                best[i] = min(best[i], taken / count)
        return best


def random_split(count: int, n: int, seed: int = 0) -> Split:
    """Noise: what an image shows does not change what a step costs."""
    g = torch.Generator().manual_seed(seed)
    images = torch.randint(256, (count, 1, SIDE, SIDE), dtype=torch.uint8, generator=g)
    return Split(images, torch.arange(count) % n)


def world_on_disk(folder: Path, images: int, n: int = 10, test: int | None = None) -> World:
    """`random_world` with its training images in a file of the folder."""
    folder.mkdir(exist_ok=True)
    file = folder / "images.npy"
    stored = np.lib.format.open_memmap(file, mode="w+", dtype=np.uint8, shape=(images, 1, SIDE, SIDE))
    for start in range(0, images, PIECE):
        some = min(PIECE, images - start)
        stored[start : start + some] = random_split(some, n, seed=start).images[:].numpy()
    stored.flush()
    del stored
    train = Split(from_array(mapped.array(file)), torch.arange(images) % n)
    return World("noise", n, train, random_split(test or 2 * n, n, seed=1), mean=(0.5,), std=(0.29,))


def random_world(images: int, n: int = 10, test: int | None = None) -> World:
    """A world of noise, with as many test images as asked for, or a few."""
    train, held = random_split(images, n), random_split(test or 2 * n, n, seed=1)
    return World("noise", n, train, held, mean=(0.5,), std=(0.29,))
