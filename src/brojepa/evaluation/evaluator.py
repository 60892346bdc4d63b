"""Evaluators measure models. Each kind of world has one; register one for a kind of your own:

@brojepa.evaluator.register(MyWorld)
class MyEvaluator(brojepa.Evaluator): ...
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import singledispatch
from types import MappingProxyType
from typing import Any

from brojepa.errors import RequestError, unknown
from brojepa.groups import Element
from brojepa.models import Model
from brojepa.worlds import Batch, Split

METRICS = ("train", "seen", "zero_shot", "rollout", "knn")
"""The accuracies of a result. Each can be left out of an evaluation and added later."""


def chosen_metrics(words: str | Sequence[str]) -> tuple[str, ...]:
    """Metrics by their names, in the order of a result.

    >>> chosen_metrics("zero-shot,seen")
    ('seen', 'zero_shot')
    """
    names = [w.strip() for w in words.split(",")] if isinstance(words, str) else list(words)
    for name in names:
        if name.replace("-", "_") not in METRICS:
            raise unknown("metric", name, [metric.replace("_", "-") for metric in METRICS])
    return tuple(metric for metric in METRICS if metric in {name.replace("-", "_") for name in names})


class Evaluator:
    """Measures the models of one kind of world. Subclass it, and register it with `brojepa.evaluator.register`.

    Set `listener` to get the share of `test` that is done, after `estimate` was called. Set `wanted` to some of the
    metrics to let `test` leave out the others.

    Args:
        world: the world.
        train_actions: the actions trained on, plain elements.
        test_actions: the held-out actions.

    Examples:
        >>> import brojepa
        >>> issubclass(brojepa.LabelEvaluator, brojepa.Evaluator)
        True
    """

    listener: Callable[[float], None] | None = None
    wanted: Sequence[str] = METRICS
    expected: Mapping[str, float] = MappingProxyType({})

    def __init__(self, world: Any, train_actions: Sequence[Element], test_actions: Sequence[Element]) -> None:
        self.world, self.train_actions, self.test_actions = world, train_actions, test_actions

    def validate(self, model: Model, held: Split, batch: Batch) -> dict[str, Any]:
        """Measure after every epoch.

        Args:
            model: the model.
            held: the validation images.
            batch: transitions between them.

        Returns:
            Plain numbers: at least "validation_loss", "seen" and "zero_shot", of which the last two may be None.
        """
        raise NotImplementedError

    def test(self, model: Model, train: Split) -> dict[str, Any]:
        """Measure at the end, on the test split.

        Args:
            model: the model.
            train: the images trained on.

        Returns:
            Values ready for JSON: at least "metrics", a dictionary of numbers with "seen" and "zero_shot".
        """
        raise NotImplementedError

    def sample(self, model: Model, train: Split) -> dict[str, float]:
        """About how long each part of `test` will take, estimated from a small piece of each.

        Args:
            model: the model.
            train: the images trained on.

        Returns:
            Seconds by part, in order. Empty if unknown; then no progress is reported.
        """
        return {}

    def estimate(self, model: Model, train: Split) -> float:
        """About how long `test` will take.

        Args:
            model: the model.
            train: the images trained on.

        Returns:
            Seconds; 0 if unknown.
        """
        self.expected = self.sample(model, train)
        return sum(self.expected.values())

    def done(self, part: str, share: float) -> None:
        """`test` calls this to report progress.

        Args:
            part: the part, as in `sample`.
            share: the share of it that is done, 0 to 1.
        """
        if self.listener is not None and part in self.expected:
            names, total = list(self.expected), sum(self.expected.values())
            before = sum(self.expected[name] for name in names[: names.index(part)])
            self.listener((before + share * self.expected[part]) / max(total, 1e-9))


@singledispatch
def evaluator(world: Any, train_actions: Sequence[Element], test_actions: Sequence[Element]) -> Evaluator:
    """The evaluator of a world, chosen by its class.

    Args:
        world: the world.
        train_actions: the actions trained on, plain elements.
        test_actions: the held-out actions.

    Returns:
        The evaluator.

    Raises:
        RequestError: none is registered for the class.

    Examples:
        >>> import brojepa
        >>> world = brojepa.open_world("mnist")
        >>> type(brojepa.evaluator(world, (-1, 1), (2, 3))).__name__
        'LabelEvaluator'
    """
    raise RequestError(f"nothing measures a {type(world).__name__}: register one with brojepa.evaluator.register")
