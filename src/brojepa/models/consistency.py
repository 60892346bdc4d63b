"""Composition consistency: acting once with a composed action must land where repeating its primitive lands."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from brojepa.errors import RequestError
from brojepa.groups import Element, Group
from brojepa.models import losses

COMPARED = 8  # least number of composed actions that each image is compared on
FADE_IN = 0.3  # share of the run over which the term grows to its full weight


class Consistency:
    """Composition consistency: a term of the loss that teaches distant actions from near ones. It makes zero-shot weak.

    Args:
        group: the group of the actions.
        composed: the actions to teach.
        primitives: the training actions; each composed action must be a repetition of one of them.
        weight: of the term.

    Raises:
        RequestError: there is nothing to compose, or an action cannot be reached.

    Examples:
        >>> import brojepa
        >>> term = brojepa.Consistency(brojepa.Cyclic(10), composed=(2, 3), primitives=(-1, 1), weight=25.0)
        >>> term.steps.tolist()
        [2, 3]
    """

    def __init__(self, group: Group, composed: Sequence[Element], primitives: Sequence[Element], weight: float) -> None:
        if not composed:
            raise RequestError("--consistency has nothing to compose: give --composed-actions, or --test-actions")
        plans = []
        for k in composed:
            plan = group.rollout(k, primitives)
            if plan is None:
                raise RequestError(
                    f"--composed-actions: {group.write(k)} cannot be reached by repeating a training action"
                )
            plans.append(plan)
        repeated = sorted({primitive for primitive, _ in plans})
        self.weight = weight
        self.composed = group.tensor(composed)  # [actions, ...]
        self.repeated = group.tensor(repeated)  # the primitives that are repeated
        self.primitive = torch.tensor([repeated.index(primitive) for primitive, _ in plans])  # their indices there
        self.steps = torch.tensor([steps for _, steps in plans])
        self.longest = max(steps for _, steps in plans)

    def __call__(self, predict: Callable[[Tensor, Tensor], Tensor], z: Tensor, progress: float = 1.0) -> Tensor:
        """The distance for latents z [batch, dim]; `progress`, 0 to 1, is how far the run has come.

        The repeated side is the target: it carries no gradient, and no step may make it longer than z, or a network
        that has not yet learned its primitives would chase its own growing output. The side that acts once shapes
        encoder and action both. An image is compared on some of the composed actions, the next image on the next
        ones, so that a batch has them all. The term fades in over the first three tenths of the run: primitives are
        learned first, but the network sees the larger numbers from the start.
        """
        composed, repeated, primitive, steps = (
            part.to(z.device) for part in (self.composed, self.repeated, self.primitive, self.steps)
        )
        few = min(len(composed), max(COMPARED, math.ceil(len(composed) / len(z))))
        row = torch.arange(len(z), device=z.device)[:, None]
        mine = (row * few + torch.arange(few, device=z.device)) % len(composed)
        z = z[:, None]
        with torch.no_grad():
            length = z.norm(dim=-1, keepdim=True)
            path = [z.expand(-1, len(repeated), -1)]
            for _ in range(self.longest):
                ahead = predict(path[-1], repeated.expand(len(z), *repeated.shape))
                path.append(ahead * (length / ahead.norm(dim=-1, keepdim=True).clamp(min=1e-12)).clamp(max=1))
            goal = torch.stack(path)[steps[mine], row, primitive[mine]]
        return min(1.0, progress / FADE_IN) * losses.invariance(predict(z, composed[mine]), goal)
