"""What is told of a run while it trains: a callback hears of the moments that matter, and changes nothing."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Sequence
from typing import Any, Protocol

from brojepa.config import Config
from brojepa.groups import Element
from brojepa.models import Model
from brojepa.runs import Run
from brojepa.runs.devices import Placement
from brojepa.worlds import Transitions, World


class Progress(Protocol):
    """A run in progress, as a callback may read it.

    run: its directory.
    config, seed: what it is a function of; `preset` names the config where it is a preset, `base` the one it came from.
    why: what the recipe for own images chose and why, in one line; empty where none did.
    world, transitions, model, placement: what is learned, what is drawn from it, by what, and where that computes.
    train_actions, test_actions: the actions trained on and held out.
    epoch, step: epochs finished, and steps taken in this one; `steps` make an epoch, `batch_size` images make a step.
    loss: the mean loss of this epoch so far, None before its first step; reading it waits for the device.
    evaluation_seconds: about how long evaluation will take, by a small piece of it; 0 where that is not known.
    callbacks: all who listen, as one; `callbacks.warning` tells them something.
    term_names: the names of the loss's terms, "loss" first; empty before the first step.
    rows: one dictionary per finished epoch, as `metrics.jsonl` has them.
    """

    run: Run
    config: Config
    seed: int
    preset: str | None
    base: str | None
    why: str
    world: World
    model: Model
    placement: Placement
    transitions: Transitions
    train_actions: tuple[Element, ...]
    test_actions: tuple[Element, ...]
    epoch: int
    step: int
    steps: int
    batch_size: int
    term_names: list[str]
    rows: list[dict[str, Any]]
    callbacks: Callback

    @property
    def loss(self) -> float | None: ...

    @property
    def evaluation_seconds(self) -> float: ...


class Callback:
    """The moments of a run; each does nothing unless a subclass says otherwise.

    >>> class Losses(Callback):
    ...     def epoch(self, training, row):
    ...         print(row["epoch"], row["loss"])
    """

    def begin(self, training: Progress, resumed: bool) -> None:
        """The run is about to train, from its start or from where it was cut off."""

    def step(self, training: Progress) -> None:
        """A step was taken. Called often: whatever waits for the device here slows training down."""

    def epoch(self, training: Progress, row: dict[str, Any]) -> None:
        """An epoch is over; `row` is its line of `metrics.jsonl`."""

    def evaluate(self, training: Progress) -> None:
        """Training is over, and the test split is about to be measured."""

    def evaluated(self, training: Progress, share: float) -> None:
        """A share of the evaluation is done, 0 to 1; not told by an own evaluator that gives no `sample`."""

    def warning(self, text: str) -> None:
        """Something a user should know, in one line."""

    def hint(self, text: str) -> None:
        """What the run lacked and the flag that cures it, in one line; after the test split is measured."""

    def end(self, training: Progress, result: dict[str, Any]) -> None:
        """The run is done; `result` is its `result.json`."""

    def found_done(self, run: Run) -> None:
        """The run was finished before; nothing is trained."""

    def close(self) -> None:
        """Called last, also where the run was cut off or failed."""


class Callbacks(Callback):
    """Several callbacks as one, in order. A warning that none of them takes is printed on stderr."""

    def __init__(self, callbacks: Sequence[Callback]) -> None:
        self.callbacks = callbacks

    def begin(self, training: Progress, resumed: bool) -> None:
        for callback in self.callbacks:
            callback.begin(training, resumed)

    def step(self, training: Progress) -> None:
        for callback in self.callbacks:
            callback.step(training)

    def epoch(self, training: Progress, row: dict[str, Any]) -> None:
        for callback in self.callbacks:
            callback.epoch(training, row)

    def evaluate(self, training: Progress) -> None:
        for callback in self.callbacks:
            callback.evaluate(training)

    def evaluated(self, training: Progress, share: float) -> None:
        for callback in self.callbacks:
            callback.evaluated(training, share)

    def warning(self, text: str) -> None:
        takers = [c for c in self.callbacks if type(c).warning is not Callback.warning]
        for callback in takers:
            callback.warning(text)
        if not takers:
            print(f"brojepa: warning: {text}", file=sys.stderr)

    def hint(self, text: str) -> None:
        for callback in self.callbacks:
            callback.hint(text)

    def end(self, training: Progress, result: dict[str, Any]) -> None:
        for callback in self.callbacks:
            callback.end(training, result)

    def found_done(self, run: Run) -> None:
        for callback in self.callbacks:
            callback.found_done(run)

    def close(self) -> None:
        with contextlib.ExitStack() as stack:  # one that fails keeps no other from closing
            for callback in reversed(self.callbacks):
                stack.callback(callback.close)
