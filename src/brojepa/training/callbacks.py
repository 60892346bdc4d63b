"""Callbacks: notified of the events of a run while it trains; they change nothing."""

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
    """What a callback may read about a run in progress.

    Attributes:
        run: its directory.
        config: the config.
        seed: the seed.
        preset: the name of the config, if it is a preset.
        base: the preset that the config came from.
        why: what the recipe for own images chose and why, in one line; empty otherwise.
        world: what is learned from.
        model: what is trained.
        placement: device and precision.
        transitions: what is drawn from the world.
        train_actions: the actions trained on.
        test_actions: the held-out actions.
        epoch: epochs finished.
        step: steps taken in this epoch.
        steps: steps per epoch.
        batch_size: images per step.
        term_names: names of the loss terms, "loss" first; empty before the first step.
        rows: one dictionary per finished epoch, as in `metrics.jsonl`.
        callbacks: all listeners as one; `callbacks.warning` notifies them.
        loss: the mean loss of this epoch so far.
        evaluation_seconds: about how long the evaluation will take.

    Examples:
        >>> import brojepa
        >>> def share(training: brojepa.Progress) -> float:
        ...     return (training.epoch * training.steps + training.step) / (training.config.epochs * training.steps)
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
    def loss(self) -> float | None:
        """The mean loss of this epoch so far; None before its first step. Reading it waits for the device."""

    @property
    def evaluation_seconds(self) -> float:
        """About how long evaluation will take; 0 if unknown."""
        ...


class Callback:
    """An object that is notified while a run trains. Subclass it and define the methods you need.

    Examples:
        >>> import brojepa
        >>> class Losses(brojepa.Callback):
        ...     def epoch(self, training, row):
        ...         print(row["epoch"], row["loss"])
        >>> Losses().epoch(None, {"epoch": 1, "loss": 0.5})
        1 0.5
    """

    def begin(self, training: Progress, resumed: bool) -> None:
        """The run is about to train.

        Args:
            training: the run.
            resumed: whether it continues an interrupted run.
        """

    def step(self, training: Progress) -> None:
        """A step was taken. This is called often: waiting for the device here slows training down.

        Args:
            training: the run.
        """

    def epoch(self, training: Progress, row: dict[str, Any]) -> None:
        """An epoch is over.

        Args:
            training: the run.
            row: its line of `metrics.jsonl`.
        """

    def evaluate(self, training: Progress) -> None:
        """Training is over, and the test split is about to be measured.

        Args:
            training: the run.
        """

    def evaluated(self, training: Progress, share: float) -> None:
        """A part of the evaluation is done. An own evaluator without `sample` does not report this.

        Args:
            training: the run.
            share: the share that is done, 0 to 1.
        """

    def warning(self, text: str) -> None:
        """Something the user should know.

        Args:
            text: one line.
        """

    def hint(self, text: str) -> None:
        """What the run lacked, and the flag that helps. Called after the test split is measured.

        Args:
            text: one line.
        """

    def end(self, training: Progress, result: dict[str, Any]) -> None:
        """The run is done.

        Args:
            training: the run.
            result: its `result.json`.
        """

    def found_done(self, run: Run) -> None:
        """The run was finished before; nothing is trained.

        Args:
            run: the run.
        """

    def close(self) -> None:
        """Called last, also if the run was interrupted or failed."""


class Callbacks(Callback):
    """Several callbacks as one, in order. A warning that none of them handles is printed on stderr."""

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
        with contextlib.ExitStack() as stack:  # close the others even if one fails
            for callback in reversed(self.callbacks):
                stack.callback(callback.close)
