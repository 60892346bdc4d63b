"""What algebra a model has learned, read out of it: its cycle, its geometry, how well the group law holds.

`inspect` measures, exactly, on the images of a split; nothing is fitted. Errors are mean squared distances divided by
a spread, so that 0 is exact and 1 is no better than a guess of the mean.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from brojepa.errors import RequestError
from brojepa.evaluation import ROWS, Latents, evaluating
from brojepa.models import Model
from brojepa.modulus import SETTLED, indistinguishable, infer_modulus, nearest_harmonics
from brojepa.planning import balanced, elements
from brojepa.runs import Run
from brojepa.worlds import Split, open_world

EACH = 100  # images of a state on which the law and long rollouts are measured, where they repeat actions
STEPS = (1, 10, 100, 1000)  # of the rollout whose drift is measured
HITS = (1, 5, 10)
USED = 0.01  # a plane with less than this share of an average plane's energy tells no states apart


def inspect(model: Model, split: Split) -> dict[str, Any]:
    """Everything `brojepa inspect` says, as plain values ready for JSON; None where a model has no such thing.

    The angles' part needs a block rotation; the rest any latent action that stays in its latent space.
    """
    n = model.task.n
    counts = torch.bincount(split.states, minlength=n)
    if len(counts) > n or int(counts.min()) == 0:
        raise RequestError(f"the split shows {int((counts > 0).sum())} states, this model needs images of all {n}")
    if model.action.dim != model.action.out_dim:
        raise RequestError(
            f"this latent action leads from {model.action.dim} to {model.action.out_dim} dimensions, so there is no "
            "algebra to inspect: choose a run whose latent action stays in its latent space"
        )
    with evaluating(model):
        data = Latents.of(model, split)
        prototypes = _prototypes(data, n)
        some = _some(data, n)
        return {
            "states": n,
            "images": len(split),
            "rotation": rotation(model, prototypes),
            "geometry": geometry(prototypes),
            "law": {"equivariance": _equivariance(model, data, prototypes), **law(model, some), "images": len(some.z)},
            "drift": drift(model, some, prototypes),
            "retrieval": retrieval(model, data, prototypes),
            "inference": _infer_accuracy(model, data, seed=0),
        }


def rotation(model: Model, prototypes: Tensor) -> dict[str, Any] | None:
    """Angles, the modulus they speak of, and where the prototypes [n, dim] have their energy; None for no rotation.

    Frequencies are those of the world's cycle, up to sign: a plane that turns by -j is the mirror image of one that
    turns by j. The modulus is inferred from the angles alone.
    """
    if model.action.angles is None:
        return None
    n, angles = model.task.n, model.action.angles.detach().cpu().double().numpy()
    modulus, confidence = infer_modulus(angles)
    centred = (prototypes - prototypes.mean(0)).cpu().double()
    energy = centred.square().unflatten(-1, (-1, 2)).sum((0, 2))
    energy = (energy / energy.sum().clamp(min=1e-300)).tolist()
    harmonics, residuals = nearest_harmonics(angles, n)
    own = nearest_harmonics(angles, modulus) if modulus else None
    planes = [
        {
            "angle": float(angle % (2 * math.pi)),
            "harmonic": int(harmonics[i]),
            "residual": float(residuals[i]),
            "inferred_harmonic": int(own[0][i]) if own else None,
            "inferred_residual": float(own[1][i]) if own else None,
            "energy": energy[i],
        }
        for i, angle in enumerate(angles)
    ]
    alike = indistinguishable([a for a, share in zip(angles, energy, strict=True) if share >= USED / len(angles)], n)
    return {
        "planes": planes,
        "learned": model.action.learned_angles,
        "modulus": modulus,
        "confidence": float(confidence),
        "settled": sum(abs(p["residual"]) <= SETTLED * math.pi / n for p in planes),
        "frequencies": _frequencies(planes, n),
        "alike": alike,
        "distinguishable": n // alike,
    }


def _frequencies(planes: Sequence[dict[str, Any]], n: int) -> list[dict[str, Any]]:
    """Planes by frequency, 0 to n / 2: how many, their share of the energy, their farthest angle's distance."""
    groups: dict[int, list[dict[str, Any]]] = {}
    for plane in planes:
        groups.setdefault(abs(balanced(plane["harmonic"], n)), []).append(plane)
    return [
        {
            "frequency": frequency,
            "planes": len(members),
            "energy": math.fsum(p["energy"] for p in members),
            "residual": max(abs(p["residual"]) for p in members),
        }
        for frequency, members in sorted(groups.items())
    ]


def geometry(prototypes: Tensor) -> dict[str, Any]:
    """Cosines of the prototypes [n, dim], and how circulant they are: 1 where they depend on y - x alone.

    1 - |C - P| / |C|, P being C with every entry replaced by the mean over its y - x modulo n: the nearest circulant.
    """
    unit = torch.nn.functional.normalize(prototypes.cpu().double(), dim=1)
    cosines = unit @ unit.T
    n = len(cosines)
    rows = torch.arange(n)
    shift = (rows - rows[:, None]) % n
    means = torch.zeros(n, dtype=torch.float64).scatter_add_(0, shift.flatten(), cosines.flatten()) / n
    distance = float((cosines - means[shift]).norm() / cosines.norm().clamp(min=1e-12))
    return {"circulant": 1 - distance, "cosines": cosines.tolist()}


def law(model: Model, data: Latents) -> dict[str, float | None]:
    """How well the latent action obeys the group, whatever the states are: errors over the spread of the latents.

    composition: act(act(z, a), b) against act(z, a + b); commutation: against act(act(z, b), a), over all pairs of
    elements. inverse: act(act(z, k), -k) against z, over all k but the identity; identity: act(z, 0) against z;
    return: n times +1 against z.
    """
    group, z = model.group, data.z
    all_k = elements(group)
    spread = float((z - z.mean(0)).square().sum(1).mean())
    once = {k: model.act(z, k) for k in all_k}

    def error(pairs: Iterator[tuple[Tensor, Tensor]]) -> float | None:
        return _ratio([_squared(a, b) for a, b in pairs], spread)

    composition, commutation = [], []
    for i, a in enumerate(all_k):
        for b in all_k[i:]:
            ab, ba = model.act(once[a], b), model.act(once[b], a)
            direct = once[balanced(group.compose(a, b), group.n)]
            composition += [_squared(ab, direct), _squared(ba, direct)] if a != b else [_squared(ab, direct)]
            commutation += [_squared(ab, ba)] if a != b else []
    around = z
    for _ in range(group.n):
        around = model.act(around, 1)
    return {
        "composition": _ratio(composition, spread),
        "inverse": error((model.act(once[k], -k), z) for k in all_k if k != group.identity),
        "identity": error(iter([(once[group.identity], z)])),
        "commutation": _ratio(commutation, spread),
        "return": error(iter([(around, z)])),
    }


def drift(model: Model, data: Latents, prototypes: Tensor) -> list[dict[str, Any]]:
    """Accuracy, and squared distance to the right prototype over their spread, after 1 to 1,000 times +1."""
    spread, z, rows = _spread(prototypes), data.z, []
    for step in range(1, max(STEPS) + 1):
        z = model.act(z, 1)
        if step in STEPS:
            goal = model.group.apply(data.states, step)
            right = int((model.classify(z) == goal).sum())
            distance = _ratio([_squared(z, prototypes[goal])], spread)
            rows.append({"steps": step, "accuracy": right / len(z), "distance": distance})
    return rows


def retrieval(model: Model, data: Latents, prototypes: Tensor) -> dict[str, float]:
    """The rank of the next state's prototype among all, by distance to act(z, k), over all images and actions.

    mrr: the mean of 1 / rank; hit@k: the share of ranks up to k. Of prototypes as near, the right one comes last.
    """
    counts = torch.zeros(model.task.n, dtype=torch.long, device=data.z.device)
    for predicted, goal in _predictions(model, data):
        far = torch.cdist(predicted, prototypes, compute_mode="donot_use_mm_for_euclid_dist")
        rank = (~(far > far.gather(1, goal[:, None]))).sum(1)  # a distance that is no number counts as near
        counts += torch.bincount(rank - 1, minlength=len(counts))
    ranks, total = counts.tolist(), int(counts.sum())
    mrr = math.fsum(count / rank for rank, count in enumerate(ranks, 1)) / total
    return {"mrr": mrr, **{f"hit@{k}": sum(ranks[:k]) / total for k in HITS}}


def infer_accuracy(model: Model, split: Split, seed: int = 0) -> dict[str, Any]:
    """How often `model.infer_action` names the action between two images: each image with one other, drawn by seed."""
    with evaluating(model):
        return _infer_accuracy(model, Latents.of(model, split), seed)


def _infer_accuracy(model: Model, data: Latents, seed: int) -> dict[str, Any]:
    count = len(data.z)
    steps = torch.randint(1, max(count, 2), (count,), generator=torch.Generator().manual_seed(seed))
    other = ((torch.arange(count) + steps) % count).to(data.z.device)
    right = 0
    for rows in torch.arange(count, device=data.z.device).split(ROWS):
        k = model.infer_action(data.z[rows], data.z[other[rows]])
        right += int((model.group.apply(data.states[rows], k) == data.states[other[rows]]).sum())
    return {"pairs": count, "right": right, "accuracy": right / count, "seed": seed}


def inspect_run(path: str | Path, data_dir: str | Path | None = None, device: str = "auto") -> dict[str, Any]:
    """Inspect a run on the test images of its own world, or of the images in `data_dir`."""
    run = Run(Path(path))
    model = run.load(device)
    name = run.config.world if data_dir is None or run.config.world == "emnist" else str(data_dir)
    world = open_world(name, data_dir if name == "emnist" else None)
    if (world.n, world.shape) != (model.task.n, model.task.shape):
        both = ((world.n, world.shape), (model.task.n, model.task.shape))
        given, wanted = (f"{n} states, {'x'.join(map(str, shape))}" for n, shape in both)
        raise RequestError(f"{name} has {given} images; {run.path} was trained on {wanted}")
    return {"run": str(path), "world": world.title, **inspect(model, world.test)}


def _prototypes(data: Latents, n: int) -> Tensor:
    """The mean latent of each state, [n, dim]."""
    return torch.stack([data.z[data.states == y].mean(0) for y in range(n)])


def _some(data: Latents, n: int) -> Latents:
    """The first images of each state."""
    rows = torch.cat([(data.states == y).nonzero()[:EACH, 0] for y in range(n)])
    return Latents(data.z[rows], data.states[rows])


def _predictions(model: Model, data: Latents) -> Iterator[tuple[Tensor, Tensor]]:
    """Predicted latents and the states they should show, for every image and every action but the identity."""
    for k in model.group.actions:
        for z, y in zip(data.z.split(ROWS), data.states.split(ROWS), strict=True):
            yield model.act(z, k), model.group.apply(y, k)


def _equivariance(model: Model, data: Latents, prototypes: Tensor) -> float | None:
    """E |act(z, k) - prototype(y + k)|^2 over E |prototype - their mean|^2, over all images and actions."""
    squares = [_squared(predicted, prototypes[goal]) for predicted, goal in _predictions(model, data)]
    return _ratio(squares, _spread(prototypes))


def _spread(prototypes: Tensor) -> float:
    return float((prototypes - prototypes.mean(0)).square().sum(1).mean())


def _squared(a: Tensor, b: Tensor) -> tuple[float, int]:
    """The sum of squared distances of rows, and their number."""
    return float((a - b).square().sum()), len(a)


def _ratio(squares: Sequence[tuple[float, int]], spread: float) -> float | None:
    """The mean squared distance over a spread; None where a network's outputs have run away to infinity."""
    ratio = math.fsum(s for s, _ in squares) / max(sum(c for _, c in squares) * spread, 1e-30)
    return ratio if math.isfinite(ratio) else None
