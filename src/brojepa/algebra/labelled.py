"""The algebra of a model with labelled states: its cycles, its geometry, how well the group law holds.

`inspect_labelled` measures on the images of a split; nothing is fitted. Errors are mean squared distances divided by a
spread, so that 0 is exact and 1 is no better than a guess of the mean. This file is for cycles and tori of
labelled states; `poses` is for worlds without labels.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from brojepa.algebra.laws import law, ratio, squared, variance
from brojepa.algebra.modulus import NEAR, SETTLED, explained, nearest_harmonics
from brojepa.errors import RequestError
from brojepa.evaluation import ROWS, Latents, evaluating, moved
from brojepa.groups import Cyclic, Group
from brojepa.models import Model
from brojepa.models.actions import LatentAction
from brojepa.worlds import Split

EACH, LAW = 100, 2600  # images per state, and in all, for the law and long rollouts
STEPS = (1, 10, 100, 1000)  # of the rollout whose drift is measured
HITS = (1, 5, 10)
USED = 0.01  # a plane with less than this share of an average plane's energy tells no states apart


def inspect_labelled(model: Model, split: Split) -> dict[str, Any]:
    """`algebra.inspect` for a world of labelled states."""
    n, group = model.task.n, model.group
    counts = torch.bincount(split.states, minlength=n)
    if len(counts) > n or int(counts.min()) == 0:
        raise RequestError(f"the split shows {int((counts > 0).sum())} states, this model needs images of all {n}")
    data = Latents.of(model, split)
    prototypes = _prototypes(data, n)
    some = _some(data, n)
    return {
        "group": str(group),
        "abelian": group.abelian,
        "states": n,
        "images": len(split),
        "rotation": rotation(model, prototypes),
        "geometry": geometry(prototypes, group),
        "law": {"equivariance": _equivariance(model, data, prototypes), **law(model, some.z), "images": len(some.z)},
        "drift": drift(model, some, prototypes),
        "retrieval": retrieval(model, data, prototypes),
        "inference": _infer_accuracy(model, data, seed=0),
    }


def rotation(model: Model, prototypes: Tensor) -> dict[str, Any] | None:
    """Angles, the modulus inferred from them, and the prototypes' [n, dim] energy by frequency; None without rotation.

    Frequencies are those of the world's group, up to sign: a plane that turns by -j is the mirror image of one that
    turns by j. The modulus is inferred from the angles alone. What is a number for a cycle is a list for a torus, with
    one number per factor.
    """
    group, periods, theta = model.group, model.group.periods, model.action.angles
    if theta is None or periods is None:
        return None
    angles = theta.detach().cpu().double().numpy().reshape(-1, len(periods))
    factors = [_factor(angles[:, i], n, alone=not group.shape) for i, n in enumerate(periods)]

    def value(name: str, *plane: int) -> Any:
        values = [f[name][plane[0]] if plane else f[name] for f in factors]
        return values if group.shape else values[0]

    centred = (prototypes - prototypes.mean(0)).cpu().double()
    energy = centred.square().unflatten(-1, (-1, 2)).sum((0, 2))
    energy = (energy / energy.sum().clamp(min=1e-300)).tolist()
    far = np.abs([f["residual"] for f in factors])  # [factors, planes]
    settled = np.all(far <= SETTLED * math.pi / np.array(periods)[:, None], axis=0)
    used = np.array(energy) >= USED / len(energy)
    alike = look_alikes(angles[used], group)
    names = ("angle", "harmonic", "residual", "inferred_harmonic", "inferred_residual")
    return {
        "planes": [{**{name: value(name, i) for name in names}, "energy": share} for i, share in enumerate(energy)],
        "learned": model.action.learned_angles,
        "modulus": value("modulus"),
        "confidence": value("confidence"),
        "reason": value("reason"),
        "settled": int(settled.sum()),
        "frequencies": _frequencies(model.action, group, energy, far.max(0)),
        "alike": alike,
        "distinguishable": model.task.n // alike,
    }


def _factor(angles: np.ndarray, n: int, *, alone: bool) -> dict[str, Any]:
    """The angles [planes] of one factor, the multiples of 2 pi / n next to them, and the same for the modulus
    inferred from them. If there are other factors, planes that do not turn under this one tell nothing about it."""
    away = np.abs(np.remainder(angles + math.pi, 2 * math.pi) - math.pi)
    modulus, confidence, reason = explained(angles if alone else angles[away > NEAR])
    harmonics, residuals = nearest_harmonics(angles, n)
    own = [part.tolist() for part in nearest_harmonics(angles, modulus)] if modulus else [[None] * len(angles)] * 2
    return {
        "angle": (angles % (2 * math.pi)).tolist(),
        "harmonic": harmonics.tolist(),
        "residual": residuals.tolist(),
        "inferred_harmonic": own[0],
        "inferred_residual": own[1],
        "modulus": modulus,
        "confidence": float(confidence),
        "reason": reason,
    }


def look_alikes(angles: np.ndarray, group: Group) -> int:
    """How many states look alike to rotations by these angles, [planes, factors]: that many elements turn no plane.

    1 if all states can be told apart, if some angle has not settled at a frequency of the group, or if the
    group is continuous.
    """
    if group.periods is None or group.order is None:
        return 1
    near = [nearest_harmonics(angles[:, i], n) for i, n in enumerate(group.periods)]
    if any((np.abs(far) > SETTLED * math.pi / n).any() for (_, far), n in zip(near, group.periods, strict=True)):
        return 1
    harmonics = np.stack([multiples for multiples, _ in near])  # [factors, planes]
    share = group.elements.double().numpy().reshape(group.order, -1) / np.array(group.periods)
    turns = share @ harmonics
    return int((np.abs(turns - turns.round()) < 1e-6).all(1).sum())


def _frequencies(action: LatentAction, group: Group, energy: list[float], far: np.ndarray) -> list[dict[str, Any]]:
    """Planes by frequency up to sign: how many, their share of the energy, their farthest angle's distance."""
    planes = {part.irrep: sorted({dim // 2 for dim in part.dims}) for part in action.irrep_parts(group) or ()}
    return [
        {
            "frequency": irrep.name if group.shape else int(irrep.name),
            "planes": len(members),
            "energy": math.fsum(energy[i] for i in members),
            "residual": float(far[members].max()),
        }
        for irrep, members in sorted(planes.items(), key=lambda item: item[0].frequency or ())
    ]


def geometry(prototypes: Tensor, group: Group | None = None) -> dict[str, Any]:
    """Cosines of the prototypes [n, dim], and how circulant they are: 1 where they depend on y - x alone.

    1 - |C - P| / |C|, P being C with every entry replaced by the mean over all with its y - x, the element that leads
    from x to y: the nearest circulant. The group is the cycle of n unless given.
    """
    unit = torch.nn.functional.normalize(prototypes.cpu().double(), dim=1)
    cosines = unit @ unit.T
    n = len(cosines)
    group, rows = group or Cyclic(n), torch.arange(n)
    reached = group.apply(rows[:, None], group.elements)  # [x, element]
    shift = torch.empty_like(reached).scatter_(1, reached, rows.expand(n, n))
    means = torch.zeros(n, dtype=torch.float64).scatter_add_(0, shift.flatten(), cosines.flatten()) / n
    distance = float((cosines - means[shift]).norm() / cosines.norm().clamp(min=1e-12))
    return {"circulant": 1 - distance, "cosines": cosines.tolist()}


def drift(model: Model, data: Latents, prototypes: Tensor) -> list[dict[str, Any]]:
    """Accuracy, and squared distance to the right prototype over their spread, after 1 to 1,000 times the first
    generator, +1 in a cycle."""
    spread, z, goal, rows = variance(prototypes), data.z, data.states, []
    (k, *_) = model.group.one_way_generators()
    for step in range(1, max(STEPS) + 1):
        z, goal = model.act(z, k), moved(model, goal, k)
        if step in STEPS:
            right = int((model.classify(z) == goal).sum())
            distance = ratio([squared(z, prototypes[goal])], spread)
            rows.append({"steps": step, "accuracy": right / len(z), "distance": distance})
    return rows


def retrieval(model: Model, data: Latents, prototypes: Tensor) -> dict[str, float]:
    """The rank of the next state's prototype among all, by distance to act(z, k), over all images and actions.

    mrr: the mean of 1 / rank; hit@k: the share of ranks up to k. Of equally near prototypes, the right one comes last.
    """
    counts = torch.zeros(model.task.n, dtype=torch.long, device=data.z.device)
    for predicted, goal in _predictions(model, data):
        far = torch.cdist(predicted, prototypes, compute_mode="donot_use_mm_for_euclid_dist")
        rank = (~(far > far.gather(1, goal[:, None]))).sum(1)  # NaN counts as near
        counts += torch.bincount(rank - 1, minlength=len(counts))
    ranks, total = counts.tolist(), int(counts.sum())
    mrr = math.fsum(count / rank for rank, count in enumerate(ranks, 1)) / total
    return {"mrr": mrr, **{f"hit@{k}": sum(ranks[:k]) / total for k in HITS}}


def infer_accuracy(model: Model, split: Split, seed: int = 0) -> dict[str, Any]:
    """How often `model.infer_action` names the action between two images.

    Args:
        model: the model.
        split: images of labelled states; each is paired with one other.
        seed: draws the pairs.

    Returns:
        "pairs", "right", "accuracy" and "seed".

    Examples:
        >>> import brojepa
        >>> import torch
        >>> model, world = brojepa.load("mnist/fast", device="cpu"), brojepa.open_world("mnist")
        >>> found = brojepa.infer_accuracy(model, world.test[torch.arange(200)])
        >>> found["pairs"], found["accuracy"] > 0.9
        (200, True)
    """
    with evaluating(model):
        return _infer_accuracy(model, Latents.of(model, split), seed)


def _infer_accuracy(model: Model, data: Latents, seed: int) -> dict[str, Any]:
    count = len(data.z)
    ahead = torch.randint(1, max(count, 2), (count,), generator=torch.Generator().manual_seed(seed))
    other = ((torch.arange(count) + ahead) % count).to(data.z.device)
    right = 0
    for rows in torch.arange(count, device=data.z.device).split(ROWS):
        k = model.infer_action(data.z[rows], data.z[other[rows]])
        right += int((model.group.apply(data.states[rows], k) == data.states[other[rows]]).sum())
    return {"pairs": count, "right": right, "accuracy": right / count, "seed": seed}


def _prototypes(data: Latents, n: int) -> Tensor:
    """The mean latent of each state, [n, dim]."""
    return torch.stack([data.z[data.states == y].mean(0) for y in range(n)])


def _some(data: Latents, n: int) -> Latents:
    """The first images of each state."""
    each = min(EACH, math.ceil(LAW / n))
    rows = torch.cat([(data.states == y).nonzero()[:each, 0] for y in range(n)])
    return Latents(data.z[rows], data.states[rows])


def _predictions(model: Model, data: Latents) -> Iterator[tuple[Tensor, Tensor]]:
    """Predicted latents and the states they should show, for every image and every action but the identity."""
    for k in model.group.actions:
        for z, y in zip(data.z.split(ROWS), data.states.split(ROWS), strict=True):
            yield model.act(z, k), moved(model, y, k)


def _equivariance(model: Model, data: Latents, prototypes: Tensor) -> float | None:
    """E |act(z, k) - prototype(y + k)|^2 over E |prototype - their mean|^2, over all images and actions."""
    squares = [squared(predicted, prototypes[goal]) for predicted, goal in _predictions(model, data)]
    return ratio(squares, variance(prototypes))
