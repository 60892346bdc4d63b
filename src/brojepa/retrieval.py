"""Exact evaluation where a state is no label: is the true next image found among candidates?

A thing is shown in a context pose g, the latent is acted on with k, and the nearest latent of the same thing in the
candidate poses is found. The true pose is k g. Counted are whether the candidate nearest to the true pose is found
first (hit@1), the mean of 1 / its rank (MRR), and how far the found pose is from the true one, in degrees.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from brojepa.groups import Element
from brojepa.models import Model
from brojepa.worlds import Orbits, Split

LATENTS = 2**21  # entries of the prediction-by-candidate matrix held at once


@dataclass(frozen=True)
class Found:
    """Of every thing in its context poses with every action: the rank of the true candidate, from 1, and the error:
    [count, actions]."""

    rank: Tensor
    error: Tensor

    def summary(self, columns: list[int]) -> dict[str, float] | None:
        """Over some of the actions; None for none."""
        if not columns:
            return None
        rank, error = self.rank[:, columns].double(), self.error[:, columns]
        return {
            "hit1": float((rank == 1).double().mean()),
            "mrr": float((1 / rank).mean()),
            "median_error": float(error.median()),
            "mean_error": float(error.double().mean()),
        }


def retrieve(model: Model, world: Orbits, things: Split, actions: Sequence[Element], seed: int = 0) -> Found:
    """Every thing in `world.contexts` context poses (drawn by the seed; of the candidates, where these are a grid that
    the actions stay on) with every action."""
    group, device = world.group, model.device
    k = group.tensor(actions).to(device)
    candidates = world.candidates.to(device)
    generator = torch.Generator().manual_seed(seed)
    ranks, errors = [], []
    for i in range(len(things)):
        thing = things[torch.tensor([i])].to(device)
        shown = model.encode(world.show(thing[torch.zeros(len(candidates), dtype=torch.long)], candidates))
        start = context_poses(world, generator).to(device)
        z = model.encode(world.show(thing[torch.zeros(len(start), dtype=torch.long)], start))
        true = group.compose(k, start[:, None])  # [contexts, actions, ...]
        rank, error = _look_up(model.act(z[:, None], k), true, shown, candidates, group)
        ranks.append(rank)
        errors.append(error)
    return Found(torch.cat(ranks).cpu(), torch.cat(errors).cpu())


def context_poses(world: Orbits, generator: torch.Generator) -> Tensor:
    """Poses to start from: candidates, where the measured actions lead from one to another; else drawn."""
    if world.views:
        return world.group.sample(world.contexts, generator)
    return world.candidates[torch.randint(len(world.candidates), (world.contexts,), generator=generator)]


def _look_up(predicted: Tensor, true: Tensor, shown: Tensor, candidates: Tensor, group: Any) -> tuple[Tensor, Tensor]:
    """predicted [contexts, actions, dim], true poses [contexts, actions, ...], shown [candidates, dim]."""
    contexts, actions = predicted.shape[:2]
    predicted, true = predicted.flatten(0, 1), true.flatten(0, 1)
    ranks, errors = [], []
    for p, t in zip(*(x.split(max(1, LATENTS // len(shown))) for x in (predicted, true)), strict=True):
        away = torch.cdist(p, shown)
        off = group.distance(t[:, None], candidates)
        at = off.argmin(1)
        right = away.gather(1, at[:, None])
        ranks.append(1 + (away < right).sum(1))
        errors.append(off.gather(1, away.argmin(1, keepdim=True))[:, 0])
    return torch.cat(ranks).view(contexts, actions), torch.cat(errors).view(contexts, actions)
