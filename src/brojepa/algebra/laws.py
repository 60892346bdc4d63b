"""How well a latent action obeys its group: composition, inverses, identity, return to the start.

Errors are mean squared distances divided by the spread of the latents, so that 0 is exact and 1 is no better than a
guess of the mean.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import torch
from torch import Tensor

from brojepa.groups import Element, Group
from brojepa.models import Model

ALL, DRAWN = 700, 50  # a group with more than `ALL` pairs of elements is measured on `DRAWN` of them
KEPT = 64  # acted-on latents that are cached, because actions repeat


def law(model: Model, z: Tensor) -> dict[str, float | None]:
    """Errors of the group law on latents z [count, dim], over all pairs of elements, or over some that are drawn;
    "pairs" then says how many.

    composition: act(act(z, b), a) against act(z, ab)
    commutation: act(act(z, b), a) against act(act(z, a), b)
    inverse: act(act(z, k), k^-1) against z, over all k but the identity
    identity: act(z, e) against z
    return, in a finite group: each generator, as often as its order, against z
    """
    group, spread = model.group, variance(z)
    a, b = pairs(group)
    once = lru_cache(KEPT)(lambda k: model.act(z, k))
    e, first, second, both = (
        [group.plain(k) for k in ks]
        for ks in (group.candidates()[:1], a, b, group.canonical(group.compose(a, b)))
    )  # fmt: skip
    composition, commutation = [], []
    for i, j, ij in zip(first, second, both, strict=True):
        done = model.act(once(j), i)
        composition.append(squared(done, once(ij)))
        commutation += [squared(done, model.act(once(i), j))] if i != j else []
    inverses = dict(zip(first, -a if group.periods else group.inverse(a), strict=True))  # -5 of +5, not +5 again
    inverse = [squared(model.act(once(k), back), z) for k, back in inverses.items() if k != e[0]]
    errors = {
        "composition": ratio(composition, spread),
        "inverse": ratio(inverse, spread),
        "identity": ratio([squared(once(e[0]), z)], spread),
        "commutation": ratio(commutation, spread),
    }
    if group.order is not None:
        errors["return"] = ratio([squared(_around(model, z, k), z) for k in group.one_way_generators()], spread)
    return errors if len(a) == (group.order or 0) ** 2 else {**errors, "pairs": len(a)}


def pairs(group: Group) -> tuple[Tensor, Tensor]:
    """Pairs of elements a and b, [count, *shape] each: all there are, or some that are drawn, the same each time."""
    if group.order and group.order**2 <= ALL:
        every = group.candidates()
        index = torch.cartesian_prod(torch.arange(len(every)), torch.arange(len(every)))
        return every[index[:, 0]], every[index[:, 1]]
    drawn = group.canonical(group.sample(2 * DRAWN, torch.Generator().manual_seed(0)))
    return drawn[:DRAWN], drawn[DRAWN:]


def _around(model: Model, z: Tensor, k: Element) -> Tensor:
    """z after k, as often as k's order."""
    group = model.group
    step, e = group.tensor([k])[0], group.candidates()[0]
    here, z = step, model.act(z, k)
    while not torch.equal(group.canonical(here), e):
        here, z = group.compose(step, here), model.act(z, k)
    return z


def variance(z: Tensor) -> float:
    """The spread of latents [count, dim]: the mean squared distance from their mean."""
    return float((z - z.mean(0)).square().sum(1).mean())


def squared(a: Tensor, b: Tensor) -> tuple[float, int]:
    """The sum of squared distances of rows, and their number."""
    return float((a - b).square().sum()), len(a)


def ratio(squares: Sequence[tuple[float, int]], spread: float) -> float | None:
    """The mean squared distance over a spread; None where a network's outputs have run away to infinity."""
    value = math.fsum(s for s, _ in squares) / max(sum(c for _, c in squares) * spread, 1e-30)
    return value if math.isfinite(value) else None
