"""The algebra of a model of views, measured on the views that exist."""

from __future__ import annotations

import itertools
import math
from typing import Any

import torch

from brojepa.algebra.laws import law, ratio, squared, variance
from brojepa.algebra.poses import ACTIONS, VIEWS, irrep_energy, spacing
from brojepa.evaluation import ViewEvaluator
from brojepa.models import Model
from brojepa.worlds import ViewWorld, pairs

PAIRS = 20_000  # of views, on which retrieval is measured
THINGS = VIEWS // 8  # at most, so that each has some views
BINS = 12  # of a continuous group's actions, by how far they turn


def inspect_views(model: Model, world: ViewWorld) -> dict[str, Any]:
    """`algebra.inspect` for a world of views: as for poses, with the actions between existing views."""
    group = world.group
    some = world.test.of(world.test.states.unique()[:THINGS])
    views = some[torch.linspace(0, len(some) - 1, min(VIEWS, len(some))).round().long().unique()]
    z = model.encode(views.images)
    spread, things = variance(z), len(world.test.states.unique())
    start, stop = pairs.every(views.states)
    k = group.canonical(group.compose(views.poses[stop], group.inverse(views.poses[start]))).to(model.device)
    start, stop = start.to(model.device), stop.to(model.device)
    after = model.act(z[start], k)
    measures: Any = ViewEvaluator(world, (), ())  # the decorator that registers it hides its class
    measured = measures.measure(model, world.test, PAIRS)["retrieval"]["zero_shot"]
    found = model.infer_action(z[start], z[stop])
    error = group.distance(found, k)
    apart = 0.0 if group.order else spacing(group.candidates(), group)
    right = int((error <= apart + 1e-3).sum())
    inferred = {"pairs": len(k), "right": right, "accuracy": right / len(k)}
    if not group.order:
        inferred |= {"spacing": apart, "median_error": float(error.median())}
    return {
        "group": str(group),
        "abelian": group.abelian,
        "states": 0,
        "images": len(views),
        "things": things,
        "parts": irrep_energy(model, z),
        "law": {"equivariance": ratio([squared(after, z[stop])], spread), **law(model, z), "images": len(views)},
        "actions": _actions(model, world, k, after, z[stop], spread),
        "retrieval": {**measured, "things": things, "candidates": len(world.test) // things},
        "inference": inferred,
    }


def _actions(model: Model, world: ViewWorld, k, after, seen, spread: float) -> list[dict[str, Any]]:
    """Some actions, or turns by how far they lead, and how well latents move with each."""
    group = world.group
    if group.order:
        place = group.residue(k)
        every = world.actions
        some = [(group.write(one), None, group.residue(group.tensor([one]))[0].to(k.device) == place)
                for one in every[:: math.ceil(len(every) / ACTIONS)]]  # fmt: skip
    else:
        far = group.distance(k, torch.as_tensor(group.identity, dtype=group.dtype, device=k.device).expand(k.shape))
        edges = torch.linspace(0, 180, BINS + 1)
        some = [(f"{low:.0f} to {high:.0f} degrees", (low + high) / 2, (far >= low) & (far < high))
                for low, high in itertools.pairwise(edges.tolist())]  # fmt: skip
    return [
        {"action": word, "degrees": size, "equivariance": ratio([squared(after[rows], seen[rows])], spread)}
        for word, size, rows in some
        if bool(rows.any())
    ]
