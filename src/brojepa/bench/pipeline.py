"""Images per second of training, fed by our loop and by a textbook Dataset and DataLoader.

The model, its objective and its optimiser are the same. The textbook's items are made one by one: an image, a random
action, a random image of the next state, both turned to floats and normalised; the loader collates them, in this
process or in workers, whichever is fastest.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from brojepa.bench.measured import Effort, Measured, Ratio, median_seconds
from brojepa.bench.stepping import Stepper
from brojepa.presets import preset
from brojepa.worlds import Batch, Split, World, open_world

PRESET = "mnist/bro-mlp-mfr-fixed"
GOAL, SHARE = 2, 0.02  # times as fast as the textbook; of a step that feeding it may take
Item = tuple[Tensor, int, int, int, Tensor]


class Textbook(Dataset[Item]):
    """One item at a time, the obvious way: context image, its state, action, next state, image of that."""

    def __init__(self, split: Split, world: World, actions: tuple[int, ...]) -> None:
        self.images, self.states, self.n, self.actions = split.images[:], split.states.tolist(), world.n, actions
        self.mean = torch.tensor(world.mean)[:, None, None]
        self.std = torch.tensor(world.std)[:, None, None]
        self.of_state: list[list[int]] = [[] for _ in range(world.n)]
        for i, state in enumerate(self.states):
            self.of_state[state].append(i)

    def __len__(self) -> int:
        return len(self.states)

    def __getitem__(self, i: int) -> Item:
        state, k = self.states[i], random.choice(self.actions)
        next_state = (state + k) % self.n
        target = random.choice(self.of_state[next_state])
        return self.normalised(i), state, k, next_state, self.normalised(target)

    def normalised(self, i: int) -> Tensor:
        return (self.images[i].float() / 255 - self.mean) / self.std


def batches(items: Textbook, size: int, workers: int, device: torch.device) -> Iterator[Batch]:
    """The loader's batches without end, as `Batch`."""
    loader = DataLoader(items, size, shuffle=True, drop_last=True, num_workers=workers)
    while True:
        for images, states, k, next_states, targets in loader:
            parts = (images, states, k[:, None], next_states[:, None], targets)
            yield Batch(*(part.to(device) for part in parts))


def measure(effort: Effort) -> Measured:
    config, world = preset(PRESET), open_world("mnist")
    steps, workers = (5, (0,)) if effort.quick else (80, (0, 1, 2))
    rows = []

    ours = Stepper(config, world, effort.device)

    def gather() -> None:
        for i in range(steps):
            ours.transitions.batch(ours.drawn, i * ours.batch_size, (i + 1) * ours.batch_size)

    def row(feed: str, train: float, alone: float) -> dict:
        images = steps * ours.batch_size
        return {"feed": feed, "images/s": images / train, "fed only, images/s": images / alone}

    train = median_seconds(lambda: ours.advance(steps), effort.repeats, ours.device)
    rows.append(row("ours", train, median_seconds(gather, effort.repeats, ours.device)))

    theirs = Stepper(config, world, effort.device)
    theirs.model.pixel_mean.zero_()  # their images are already normalised
    theirs.model.pixel_std.fill_(1)
    items = Textbook(theirs.train_split.to(torch.device("cpu")), world, theirs.train_actions)
    for count in workers:
        feed = batches(items, ours.batch_size, count, theirs.device)
        next(feed)  # starts the workers

        def learn(feed: Iterator[Batch] = feed) -> None:
            for _ in range(steps):
                theirs.learn(next(feed))

        def look(feed: Iterator[Batch] = feed) -> None:
            for _ in range(steps):
                next(feed)

        train = median_seconds(learn, effort.repeats, theirs.device)
        rows.append(row(f"textbook, {count} workers", train, median_seconds(look, effort.repeats, theirs.device)))
    first, *others = rows
    ratios = [
        Ratio("training", first["images/s"] / max(r["images/s"] for r in others), least=GOAL),
        Ratio("feeding alone", first["fed only, images/s"] / max(r["fed only, images/s"] for r in others)),
    ]
    share = first["images/s"] / first["fed only, images/s"]
    ratios.insert(1, Ratio("feeding, as a share of a step", share, most=SHARE))
    note = f"{1 - share:.0%} of our time is the model's own, which a faster feed cannot shorten"
    return Measured(rows, ratios, [f"{PRESET}, batches of {ours.batch_size}", note])
