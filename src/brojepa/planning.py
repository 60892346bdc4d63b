"""Inverse dynamics and planning in latent space: which action leads from one latent to another, and which sequence of
allowed actions. Both are searches over the group, in closed form; nothing is trained for them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from brojepa.actions import BlockRotation, LatentAction
from brojepa.errors import RequestError
from brojepa.groups import Cyclic, signed


def balanced(k: int, n: int) -> int:
    """The element of Z_n that k is, written in -(n-1)/2..n/2: 9 of 10 is -1."""
    low = (n - 1) // 2
    return (k + low) % n - low


def elements(group: Cyclic) -> tuple[int, ...]:
    """Every element of the group in the balanced range, nearest to the identity first."""
    return tuple(sorted((balanced(k, group.n) for k in range(group.n)), key=lambda k: (abs(k), k < 0)))


@torch.no_grad()
def infer_action(action: LatentAction, group: Cyclic, z_from: Tensor, z_to: Tensor) -> Tensor:
    """The element k that brings act(z_from, k) nearest to z_to: latents [..., dim] -> [...], in the balanced range.

    Rotations keep lengths, so for them |act(z, k) - w|^2 is least where the real part of sum_i w_i conj(z_i)
    exp(-i k theta_i) over the planes is largest: one product of matrices, no action is carried out.
    """
    candidates = torch.tensor(elements(group), device=z_from.device)
    if isinstance(action, BlockRotation):
        (x, y), (u, v) = (z.float().unflatten(-1, (-1, 2)).unbind(-1) for z in (z_from, z_to))
        turns = candidates[:, None].float() * action.angles
        nearness = (x * u + y * v) @ turns.cos().T + (x * v - y * u) @ turns.sin().T
    else:
        _check_stays(action)
        nearness = torch.stack([-(action.act(z_from, k) - z_to).square().sum(-1) for k in elements(group)], -1)
    return candidates[nearness.argmax(-1)]


@dataclass(frozen=True)
class Plan:
    """A way from one latent to another.

    action: the element that leads there; actions: the allowed actions that compose to it, as few as can be.
    latents: the rollout, [steps + 1, dim], from the first latent on.
    reached: whether no other element than the identity is left between the last latent and the goal.
    distance: from the last latent to the goal, as a share of the goal's length.
    """

    action: int
    actions: tuple[int, ...]
    latents: Tensor
    reached: bool
    distance: float


@torch.no_grad()
def plan(action: LatentAction, group: Cyclic, z_from: Tensor, z_goal: Tensor, allowed: Sequence[int]) -> Plan:
    """The shortest sequence of allowed actions from one latent [dim] to another, acted out and checked.

    Of two sequences of one length, the one that comes first in the order of `allowed` is taken.
    """
    _check_stays(action)
    allowed = group.check(allowed, "allowed")
    if z_from.ndim != 1 or z_from.shape != z_goal.shape:
        raise RequestError(
            f"a plan is from one latent to another, got shapes {list(z_from.shape)} and {list(z_goal.shape)}: "
            "give two vectors [dim]"
        )
    wanted = int(infer_action(action, group, z_from, z_goal))
    ways = _shortest(group, allowed)
    if wanted % group.n not in ways:
        reached = " ".join(signed(k) for k in sorted(balanced(k, group.n) for k in ways))
        words = ",".join(map(signed, allowed)) or "no actions"
        raise RequestError(f"{signed(wanted)} cannot be reached by {words}, only {reached}: allow other actions")
    actions, latents = ways[wanted % group.n], [z_from]
    for k in actions:
        latents.append(action.act(latents[-1], k))
    rest = int(infer_action(action, group, latents[-1], z_goal))
    distance = float((latents[-1] - z_goal).norm() / z_goal.norm().clamp(min=1e-12))
    return Plan(wanted, actions, torch.stack(latents), rest == group.identity, distance)


def _shortest(group: Cyclic, allowed: Sequence[int]) -> dict[int, tuple[int, ...]]:
    """For every element that can be reached the shortest sequence of allowed actions, breadth first."""
    ways: dict[int, tuple[int, ...]] = {group.identity: ()}
    queue = deque(ways)
    while queue:
        here = queue.popleft()
        for k in allowed:
            there = group.compose(here, k)
            if there not in ways:
                ways[there] = (*ways[here], k)
                queue.append(there)
    return ways


def _check_stays(action: LatentAction) -> None:
    if action.dim != action.out_dim:
        raise RequestError(
            f"this latent action leads from {action.dim} to {action.out_dim} dimensions, so it cannot be repeated or "
            "undone: use a model whose latent action stays in its latent space"
        )
