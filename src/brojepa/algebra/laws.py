"""How well a latent action obeys its group, whatever images show: it composes, undoes, does nothing, comes back.

Errors are mean squared distances divided by the spread of the latents, so that 0 is exact and 1 is no better than a
guess of the mean.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import torch
from torch import Tensor

from brojepa.groups import Abelian, Element, Group
from brojepa.models import Model
from brojepa.models.planning import candidates, written

ALL, DRAWN = 700, 50  # where there are more pairs of elements than the first, so many are drawn instead
KEPT = 64  # acted-on latents that are held, as actions come again and again


def law(model: Model, z: Tensor) -> dict[str, float | None]:
    """Errors on latents z [count, dim], over all pairs of elements or, as "pairs" then says, so many that are drawn.

    composition: act(act(z, b), a) against act(z, ab); commutation: against act(act(z, a), b). inverse: act(z, k) undone
    against z, over all k but the identity; identity: act(z, e) against z; return, where the group is finite: each
    generator, as often as its order, against z.
    """
    group, spread = model.group, variance(z)
    a, b = pairs(group)
    once = lru_cache(KEPT)(lambda k: model.act(z, k))
    e, first, second, both = (
        [group.plain(k) for k in ks]
        for ks in (candidates(group)[:1], a, b, written(group, group.compose(a, b)))
    )  # fmt: skip
    composition, commutation = [], []
    for i, j, ij in zip(first, second, both, strict=True):
        done = model.act(once(j), i)
        composition.append(squared(done, once(ij)))
        commutation += [squared(done, model.act(once(i), j))] if i != j else []
    undone = dict(zip(first, -a if isinstance(group, Abelian) else group.inverse(a), strict=True))
    inverse = [squared(model.act(once(k), back), z) for k, back in undone.items() if k != e[0]]
    errors = {
        "composition": ratio(composition, spread),
        "inverse": ratio(inverse, spread),
        "identity": ratio([squared(once(e[0]), z)], spread),
        "commutation": ratio(commutation, spread),
    }
    if group.order is not None:
        errors["return"] = ratio([squared(_around(model, z, k), z) for k in steps(group)], spread)
    return errors if len(a) == (group.order or 0) ** 2 else {**errors, "pairs": len(a)}


def pairs(group: Group) -> tuple[Tensor, Tensor]:
    """Pairs of elements a and b, [count, *shape] each: all there are, or some that are drawn, the same each time."""
    if group.order and group.order**2 <= ALL:
        every = candidates(group)
        index = torch.cartesian_prod(torch.arange(len(every)), torch.arange(len(every)))
        return every[index[:, 0]], every[index[:, 1]]
    drawn = written(group, group.sample(2 * DRAWN, torch.Generator().manual_seed(0)))
    return drawn[:DRAWN], drawn[DRAWN:]


def abelian(group: Group) -> bool:
    """Whether the order of two actions makes no difference."""
    a, b = pairs(group)
    return bool((group.distance(group.compose(a, b), group.compose(b, a)) < 0.1).all())


def steps(group: Group) -> list[Element]:
    """The generators, plainly, without those that undo one that came before."""
    kept: list[Element] = []
    undone: set[Element] = set()
    for k, back in zip(group.generators, group.inverse(group.generators), strict=True):
        if group.plain(written(group, k)) not in undone:
            kept.append(group.plain(k))
        undone.add(group.plain(written(group, back)))
    return kept


def _around(model: Model, z: Tensor, k: Element) -> Tensor:
    """z after k, as often as k's order."""
    group = model.group
    step, e = group.tensor([k])[0], candidates(group)[0]
    here, z = step, model.act(z, k)
    while not torch.equal(written(group, here), e):
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
