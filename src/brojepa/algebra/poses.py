"""The algebra of a model of poses: which irreducible representations its latents use, and whether latents move as the
things that they show do.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from brojepa.algebra.laws import law, ratio, squared, variance
from brojepa.evaluation.retrieval import ByModel, retrieve
from brojepa.groups import Group
from brojepa.models import Model
from brojepa.models.actions import ranges
from brojepa.worlds import PoseWorld

VIEWS, ACTIONS = 256, 24  # test things in a pose, and actions on each, on which latents are compared
SHOWN, RANKED = 4000, 100  # candidate views, and things, that retrieval looks through
MEASURED = 200  # candidates whose nearest neighbour is looked for


@dataclass(frozen=True)
class Moves:
    """Latents of views of things, z [views, dim], and of the images that each action k [actions, ...] makes of them,
    after [actions, views, dim]."""

    z: Tensor
    k: Tensor
    after: Tensor

    @classmethod
    def of(cls, model: Model, world: PoseWorld) -> Moves:
        """Test things in poses drawn at random, the same each time, and up to 24 of the measured actions."""
        group, device = world.group, model.device
        k = group.tensor(world.actions[:: math.ceil(len(world.actions) / ACTIONS)]).to(device)
        things = world.test[torch.arange(VIEWS) % len(world.test)].to(device)
        pose = group.sample(VIEWS, torch.Generator().manual_seed(0)).to(device)
        after = [model.encode(world.show(things, group.compose(j, pose))) for j in k]
        return cls(model.encode(world.show(things, pose)), k, torch.stack(after))


def inspect_poses(model: Model, world: PoseWorld) -> dict[str, Any]:
    """`algebra.inspect` for a world of poses."""
    moves, group = Moves.of(model, world), model.group
    spread = variance(moves.z)
    squares = [squared(model.act(moves.z, k), after) for k, after in zip(moves.k, moves.after, strict=True)]
    sizes = group.distance(moves.k, torch.as_tensor(group.identity, device=moves.k.device))
    return {
        "group": str(group),
        "abelian": group.abelian,
        "states": 0,
        "images": VIEWS,
        "things": min(VIEWS, len(world.test)),
        "parts": irrep_energy(model, moves.z),
        "law": {"equivariance": ratio(squares, spread), **law(model, moves.z), "images": VIEWS},
        "actions": [
            {
                "action": group.write(group.plain(k)),
                "degrees": None if group.order else float(size),
                "equivariance": ratio([square], spread),
            }
            for k, size, square in zip(moves.k, sizes, squares, strict=True)
        ],
        "retrieval": retrieval(model, world),
        "inference": inference(model, moves),
    }


def irrep_energy(model: Model, z: Tensor) -> list[dict[str, Any]] | None:
    """The irreducible representations (of learned angles, the nearest) and their shares of the variance of latents z
    [count, dim]; None for a network."""
    parts = model.action.irrep_parts(model.group)
    if parts is None:
        return None
    energy = (z - z.mean(0)).square().sum(0).cpu().double()
    energy = energy / energy.sum().clamp(min=1e-300)
    return [
        {
            "irrep": part.irrep.name,
            "dim": part.irrep.dim,
            "copies": part.copies,
            "dimensions": ranges(part.dims),
            "energy": float(energy[list(part.dims)].sum()),
        }
        for part in parts
    ]


def retrieval(model: Model, world: PoseWorld) -> dict[str, Any]:
    """As `result.json` has it, on the first few test things with every action that is measured."""
    count = min(len(world.test), RANKED, max(2, SHOWN // len(world.candidates)))
    ranks = retrieve(ByModel(model), world, world.test[torch.arange(count)], world.actions)
    summary = ranks.summary(list(range(len(world.actions)))) or {}
    return {**summary, "things": count, "candidates": len(world.candidates)}


def inference(model: Model, moves: Moves) -> dict[str, Any]:
    """How often the action between two views of a thing is inferred, one action per view, in turn. In a continuous
    group an action is right within `spacing` degrees, the distance of the candidates from each other."""
    group, views = model.group, torch.arange(len(moves.z), device=moves.z.device)
    turn = views % len(moves.k)
    error = group.distance(model.infer_action(moves.z, moves.after[turn, views]), moves.k[turn])
    apart = 0.0 if group.order else spacing(group.candidates(), group)
    right = int((error <= apart + 1e-3).sum())
    counts = {"pairs": len(views), "right": right, "accuracy": right / len(views)}
    return counts if group.order else {**counts, "spacing": apart, "median_error": float(error.median())}


def spacing(elements: Tensor, group: Group) -> float:
    """How far an element is from the nearest other, in degrees: the median over the first of them."""
    some = elements[:MEASURED]
    far = group.distance(some[:, None], elements)
    far[torch.arange(len(some)), torch.arange(len(some))] = math.inf
    return float(far.amin(1).median())
