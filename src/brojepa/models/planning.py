"""Inverse dynamics and planning in latent space: which action leads from one latent to another, and which sequence of
allowed actions. Both are searches over the group; nothing is trained for them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from brojepa.errors import RequestError
from brojepa.groups import Element, Group
from brojepa.models.actions import LatentAction

LISTED = 16  # elements that an error message lists


@torch.no_grad()
def infer_action(action: LatentAction, group: Group, z_from: Tensor, z_to: Tensor) -> Tensor:
    """The k among `group.candidates()` that brings act(z_from, k) nearest to z_to: latents [..., dim] ->
    [..., *shape]."""
    _check_stays(action)
    k = group.candidates().to(z_from.device)
    return k[action.nearness(z_from, z_to, k).argmax(-1)]


@dataclass(frozen=True)
class Plan:
    """A way from one latent to another, as `Model.plan` returns it.

    Args:
        action: the element that leads there.
        actions: the shortest sequence of allowed actions that composes to it, in order.
        latents: the latents along the way, [steps + 1, dim], from the first one on.
        reached: whether the identity is the best action between the last latent and the goal.
        distance: from the last latent to the goal, as a share of the goal's length.

    Examples:
        >>> import brojepa
        >>> model = brojepa.load("mnist/fast", device="cpu")
        >>> z = model.encode(brojepa.open_world("mnist").test.images[:2])  # a 7 and a 2
        >>> plan = model.plan(z[0], z[1], allowed=[3, -4])
        >>> plan.action, plan.actions, plan.reached
        (5, (3, -4, -4), True)
    """

    action: Element
    actions: tuple[Element, ...]
    latents: Tensor
    reached: bool
    distance: float


@torch.no_grad()
def plan(
    action: LatentAction, group: Group, z_from: Tensor, z_goal: Tensor, allowed: Sequence[Element | str]
) -> Plan:  # fmt: skip
    """The shortest sequence of allowed actions, plain elements or words, from one latent [dim] to another, acted out
    and checked.

    Of two sequences of one length, the one that comes first in the order of `allowed` is taken.
    """
    if group.order is None:
        raise RequestError(f"{group} is continuous and has no shortest plans: infer the one action that leads there")
    _check_stays(action)
    allowed = group.check(allowed, "allowed")
    if z_from.ndim != 1 or z_from.shape != z_goal.shape:
        raise RequestError(
            f"a plan is from one latent to another, got shapes {list(z_from.shape)} and {list(z_goal.shape)}: "
            "give two vectors [dim]"
        )
    wanted = group.plain(infer_action(action, group, z_from, z_goal))
    ways = shortest(group, allowed)
    if wanted not in ways:
        words = ",".join(map(group.write, allowed)) or "no actions"
        raise RequestError(
            f"{group.write(wanted)} cannot be reached by {words}, only {_listed(group, ways)}: allow other actions"
        )
    latents = [z_from]
    for k in ways[wanted]:
        latents.append(action.act(latents[-1], k))
    rest = group.plain(infer_action(action, group, latents[-1], z_goal))
    distance = float((latents[-1] - z_goal).norm() / z_goal.norm().clamp(min=1e-12))
    return Plan(wanted, ways[wanted], torch.stack(latents), ways.get(rest) == (), distance)


def shortest(group: Group, allowed: Sequence[Element]) -> dict[Element, tuple[Element, ...]]:
    """The shortest sequence of allowed actions per element that can be reached.

    Breadth first, all elements at one distance together: k done after g is compose(k, g).
    """
    k = group.tensor(allowed)
    border = [group.plain(group.candidates()[0])]
    ways: dict[Element, tuple[Element, ...]] = {border[0]: ()}
    while border:
        reached = group.canonical(group.compose(k, group.tensor(border)[:, None]))
        new = []
        for here, row in zip(border, reached, strict=True):
            for step, there in zip(allowed, map(group.plain, row), strict=True):
                if there not in ways:
                    ways[there] = (*ways[here], step)
                    new.append(there)
        border = new
    return ways


def _listed(group: Group, ways: dict[Element, tuple[Element, ...]]) -> str:
    names = [group.write(k) for k in sorted(ways)]
    return " ".join(names[:LISTED]) + (f" and {len(names) - LISTED} more" if len(names) > LISTED else "")


def _check_stays(action: LatentAction) -> None:
    if action.dim != action.out_dim:
        raise RequestError(
            f"this latent action leads from {action.dim} to {action.out_dim} dimensions, so it cannot be repeated or "
            "undone: use a model whose latent action stays in its latent space"
        )
