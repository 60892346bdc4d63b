"""What measures a model of a world. Each kind of world has an evaluator; an own kind registers its own:

@brojepa.evaluator.register(MyWorld)
class MyEvaluator(brojepa.Evaluator): ...
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import singledispatch
from typing import Any

from brojepa.errors import RequestError
from brojepa.groups import Element
from brojepa.models import Model
from brojepa.worlds import Batch, Split


class Evaluator:
    """How models of one kind of world are measured.

    Args:
        world: what they are models of.
        train_actions, test_actions: the actions trained on and held out, plain elements.
    """

    def __init__(self, world: Any, train_actions: Sequence[Element], test_actions: Sequence[Element]) -> None:
        self.world, self.train_actions, self.test_actions = world, train_actions, test_actions

    def validate(self, model: Model, held: Split, batch: Batch) -> dict[str, Any]:
        """What is measured after every epoch, on images held out and transitions within them. Plain numbers; at least
        "validation_loss", "seen" and "zero_shot", of which the last two may be None."""
        raise NotImplementedError

    def test(self, model: Model, train: Split) -> dict[str, Any]:
        """What is measured at the end, on the test split, ready for JSON; at least "metrics", a dictionary of numbers
        with "seen" and "zero_shot". `train` holds the images trained on."""
        raise NotImplementedError


@singledispatch
def evaluator(world: Any, train_actions: Sequence[Element], test_actions: Sequence[Element]) -> Evaluator:
    """The evaluator of a world, by its class."""
    raise RequestError(f"nothing measures a {type(world).__name__}: register one with brojepa.evaluator.register")
