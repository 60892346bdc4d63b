"""Retrieval between the candidates: finer and finer steps from the candidate that was found.

If candidates sample a continuous group and the true pose is not among them, even a perfect model is off by the distance
to the nearest candidate. So the search continues around the first candidate: the thing is shown in poses a step away on
all sides, the nearest latent is kept, and the step is halved. This equals retrieval among far more candidates, of which
only the promising ones are shown.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from brojepa.evaluation import equivariance
from brojepa.groups import Element, Group
from brojepa.worlds import PoseWorld, Split

STEPS = (6.0, 3.0, 1.5)
"""Degrees. The first is above half the distance between neighbours among 4,096 turns of space."""
ENTRIES = 2**21  # of the matrix of distances held at once
ACTIONS = 10
"""Of each set of actions, spread over it: every step shows a view in a dozen poses for each prediction."""
Show = Callable[[Tensor], Tensor]


def some_actions(actions: Sequence[Element]) -> list[Element]:
    """Up to ACTIONS of them, spread evenly over the list."""
    rows = torch.linspace(0, len(actions) - 1, min(ACTIONS, len(actions))).round().long()
    return [actions[int(i)] for i in rows]


def refine(group: Group, show: Show, goal: Tensor, found: Tensor, steps: Sequence[float] = STEPS) -> Tensor:
    """Poses whose latents are nearer to the goal than those of the poses found.

    Args:
        group: of the poses; `group.around` gives the poses a step away.
        show: poses [count, ...] -> the latents of the thing in these poses, [count, dim].
        goal: predicted latents, [count, dim].
        found: poses to start from, [count, ...].
        steps: how far to look from the best pose so far, one after the other.

    Returns:
        [count, ...], for each goal the nearest of all poses that were looked at.
    """
    least = (show(found) - goal).norm(dim=-1)
    for step in steps:
        near = group.around(found, step)  # [count, neighbours, ...]
        away = (show(near.flatten(0, 1)).unflatten(0, near.shape[:2]) - goal[:, None]).norm(dim=-1)
        best, at = away.min(1)
        nearer = best < least
        moved = near[torch.arange(len(near), device=near.device), at]
        found = torch.where(nearer.view(-1, *[1] * len(group.shape)), moved, found)
        least = torch.minimum(best, least)
    return found


def errors(
    read: Callable[[Tensor], Tensor], world: PoseWorld, thing: Split, goal: Tensor, true: Tensor, rows: int
) -> Tensor:
    """How far the poses found for the goals [count, dim] are from the true ones [count, ...], in degrees: [count].
    The search begins at the nearest candidate. `rows` views are shown at a time."""
    candidates = world.candidates.to(goal.device)

    def show(poses: Tensor) -> Tensor:
        parts = []
        for some in poses.split(rows):
            again = torch.zeros(len(some), dtype=torch.long, device=thing.images.device)
            parts.append(read(world.show(thing[again], some)))
        return torch.cat(parts)

    start = candidates[torch.cdist(goal, show(candidates)).argmin(1)]
    return world.group.distance(refine(world.group, show, goal, start), true)


def nearest(group: Group, candidates: Tensor, true: Tensor) -> Tensor:
    """How far the nearest candidate is from each true pose [count, ...], in degrees: [count]. No model that answers
    with a candidate errs by less."""
    parts = true.split(max(1, ENTRIES // len(candidates)))
    return torch.cat([group.distance(some[:, None], candidates[None]).amin(1) for some in parts])


def summary(error: Tensor, degrees: float | None) -> dict[str, float] | None:
    """The same statistics as for candidates, of errors [count]; None if there are none."""
    if not len(error):
        return None
    turn = {} if degrees is None else {"pre": equivariance.retrieval_error(error * degrees)}
    return {"median_error": float(error.median()), "mean_error": float(error.double().mean()), **turn}


def block(
    error: Tensor, least: Tensor, seen: int, degrees: float | None, steps: Sequence[float] = STEPS
) -> dict[str, Any]:
    """What `result.json` has under `refined`: of the errors [contexts, actions], and of the distances to the `nearest`
    candidates. The first `seen` actions were trained on."""

    def parts(of: Tensor) -> dict[str, Any]:
        return {
            "seen": summary(of[:, :seen].flatten(), degrees), "zero_shot": summary(of[:, seen:].flatten(), degrees)
        }  # fmt: skip

    return {"steps": list(steps), "predictions": error.numel(), **parts(error), "nearest_candidate": parts(least)}
