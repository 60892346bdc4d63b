"""Inverse dynamics and planning in latent space: which action leads from one latent to another, and which sequence of
allowed actions. Both are searches over the group; nothing is trained for them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from brojepa.errors import RequestError
from brojepa.groups import SO3, Abelian, Element, Group, Product
from brojepa.models.actions import BlockRotation, LatentAction, Representation

TURNS = 4096  # of space, spread evenly, among which one is looked for
AT_ONCE = 16  # actions that a network carries out in one go
TOLD = 16  # elements that an error message lists


def balanced(k: Any, n: Any) -> Any:
    """What k is modulo n, written in -(n-1)/2..n/2: 9 of 10 is -1, 350 of 360 degrees are -10. Numbers or tensors."""
    return n // 2 - (n // 2 - k) % n


def written(group: Group, k: Tensor) -> Tensor:
    """Elements [..., *shape] in one form each, as near 0 as they can be written where the group counts."""
    if not isinstance(group, Abelian):
        return group.compose(k, torch.as_tensor(group.identity, device=k.device))
    return balanced(k, torch.tensor(group.periods if group.shape else group.periods[0], device=k.device))


def candidates(group: Group) -> Tensor:
    """Elements among which an action is looked for, [count, *shape], the identity first.

    All of a finite group, a cycle's nearest to 0 first; every whole degree of the circle; 4,096 turns of space.
    """
    if isinstance(group, Product):
        return torch.cartesian_prod(*(candidates(factor).to(group.dtype) for factor in group.factors))
    if isinstance(group, SO3):
        return torch.cat((group.identity[None], group.grid(TURNS)))
    if isinstance(group, Abelian):
        k = written(group, torch.arange(group.periods[0]).to(group.dtype))
        return k[(2 * k.abs() + (k < 0)).argsort()]
    return group.elements


@torch.no_grad()
def infer_action(action: LatentAction, group: Group, z_from: Tensor, z_to: Tensor) -> Tensor:
    """The candidate k that brings act(z_from, k) nearest to z_to: latents [..., dim] -> [..., *shape].

    Representations keep lengths, so for them |act(z, k) - w|^2 is least where <act(z, k), w> is largest: products of
    matrices, no action is carried out. For other latent actions every candidate is tried.
    """
    k = candidates(group).to(z_from.device)
    if isinstance(action, Representation):
        nearness = _correlation(action, z_from.float(), z_to.float(), k)
    else:
        _check_stays(action)
        start, goal = z_from[..., None, :], z_to[..., None, :]
        parts = [-(action.act(start, some) - goal).square().sum(-1) for some in k.split(AT_ONCE)]
        nearness = torch.cat(parts, -1)
    return k[nearness.argmax(-1)]


def _correlation(action: Representation, z: Tensor, w: Tensor, k: Tensor) -> Tensor:
    """<act(z, k), w> for latents [..., dim] and every k [count, *shape]: [..., count].

    Planes that turn by t add Re w conj(z) exp(-i t). In general, copies of a representation with matrices D add the
    sum over i, j of D_ij(k) times the sum over copies of w_i z_j.
    """
    if isinstance(action, BlockRotation):
        (x, y), (u, v) = (latent.unflatten(-1, (-1, 2)).unbind(-1) for latent in (z, w))
        turn = action.turn(k).expand(-1, action.dim // 2)
        return (x * u + y * v) @ turn.cos().T + (x * v - y * u) @ turn.sin().T
    total = z.new_zeros(())
    for part in action.parts:
        here = slice(part.dims[0], part.dims[-1] + 1)
        a, b = (latent[..., here].unflatten(-1, (part.copies, part.irrep.dim)) for latent in (w, z))
        total = total + (a.mT @ b).flatten(-2) @ part.irrep.matrix(k).flatten(1).T
    return total


@dataclass(frozen=True)
class Plan:
    """A way from one latent to another.

    action: the element that leads there; actions: the allowed actions that compose to it, the first one first, as few
    as can be; all of them plain elements.
    latents: the rollout, [steps + 1, dim], from the first latent on.
    reached: whether no other element than the identity is left between the last latent and the goal.
    distance: from the last latent to the goal, as a share of the goal's length.
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
    ways = _shortest(group, allowed)
    if wanted not in ways:
        words = ",".join(map(group.write, allowed)) or "no actions"
        raise RequestError(
            f"{group.write(wanted)} cannot be reached by {words}, only {_told(group, ways)}: allow other actions"
        )
    latents = [z_from]
    for k in ways[wanted]:
        latents.append(action.act(latents[-1], k))
    rest = group.plain(infer_action(action, group, latents[-1], z_goal))
    distance = float((latents[-1] - z_goal).norm() / z_goal.norm().clamp(min=1e-12))
    return Plan(wanted, ways[wanted], torch.stack(latents), ways.get(rest) == (), distance)


def _shortest(group: Group, allowed: Sequence[Element]) -> dict[Element, tuple[Element, ...]]:
    """For every element that can be reached the shortest sequence of allowed actions: breadth first, all that are as
    far at once. Doing k where g has been done is compose(k, g)."""
    k = group.tensor(allowed)
    border = [group.plain(candidates(group)[0])]
    ways: dict[Element, tuple[Element, ...]] = {border[0]: ()}
    while border:
        reached = written(group, group.compose(k, group.tensor(border)[:, None]))
        found = []
        for here, row in zip(border, reached, strict=True):
            for step, there in zip(allowed, map(group.plain, row), strict=True):
                if there not in ways:
                    ways[there] = (*ways[here], step)
                    found.append(there)
        border = found
    return ways


def _told(group: Group, ways: dict[Element, tuple[Element, ...]]) -> str:
    names = [group.write(k) for k in sorted(ways)]
    return " ".join(names[:TOLD]) + (f" and {len(names) - TOLD} more" if len(names) > TOLD else "")


def _check_stays(action: LatentAction) -> None:
    if action.dim != action.out_dim:
        raise RequestError(
            f"this latent action leads from {action.dim} to {action.out_dim} dimensions, so it cannot be repeated or "
            "undone: use a model whose latent action stays in its latent space"
        )
