"""Metrics of related papers: how well latents encode the pose, and whether they turn with it.

Functions of latents [count, dim] and poses [count, ...]; all are computed on the CPU and change no random
stream. A number that does not exist for a group, or for latents that are not finite, is None.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from brojepa.groups import SO3, Group, Product
from brojepa.models import Model
from brojepa.models.actions import BlockAction

VIEWS = 3000  # latents that a probe is fitted on, and as many that it is measured on
THINGS, POSES = 50, 36  # things, and poses of a continuous group, that D_LSBD is measured on
ORBIT = 500  # at most this many views of a thing
FREQUENCY = 10  # the highest that D_LSBD tries
FEWEST = 8  # fewest poses that determine the centre of a circle
HIDDEN, STEPS, BATCH, RATE = 128, 240, 256, 3e-3  # of the two-layer probe
RIDGE = 1e-3  # of both probes, as a share of the latents' mean variance


def pose_targets(group: Group, poses: Tensor) -> Tensor | None:
    """What a probe reads, [count, targets]: cosine and sine of the angle, of each factor of a product; the 9 entries of
    a turn of space. None for other groups."""
    if isinstance(group, SO3):
        return group.matrix(poses.cpu().double()).flatten(-2)
    if group.periods is None:
        return None
    turns = angles(group, poses)
    return torch.cat((turns.cos(), turns.sin()), 1)


def angles(group: Group, poses: Tensor) -> Tensor:
    """Poses of a cycle, a circle or a product of them in radians, [count, factors]."""
    assert group.periods is not None
    poses = poses.cpu().double().view(len(poses), -1)
    return 2 * math.pi * poses / torch.tensor(group.periods, dtype=torch.float64)


def r2(predicted: Tensor, true: Tensor) -> float | None:
    """The share of the variance that is predicted, averaged over targets. Those that never vary do not count."""
    off, around = (predicted - true).square().sum(0), (true - true.mean(0)).square().sum(0)
    varies = around > 1e-9 * len(true)
    return float((1 - off[varies] / around[varies]).mean()) if bool(varies.any()) else None


def linear_probe(z: Tensor, targets: Tensor, others: Tensor) -> Tensor:
    """Ridge regression of targets on latents, and what it reads from others."""
    centre, level = z.mean(0), targets.mean(0)
    x = z - centre
    gram = x.T @ x
    ridge = RIDGE * gram.trace() / len(gram) + 1e-12
    weights = torch.linalg.solve(gram + ridge * torch.eye(len(gram), dtype=z.dtype), x.T @ (targets - level))
    return (others - centre) @ weights + level


def two_layer_probe(z: Tensor, targets: Tensor, others: Tensor, seed: int = 0) -> Tensor:
    """The same by HIDDEN rectified units between two layers, trained by Adam on whitened latents: the directions that
    encode the pose need not be those that vary most."""
    generator = torch.Generator().manual_seed(seed)
    centre = z.mean(0)
    values, vectors = torch.linalg.eigh((z - centre).T @ (z - centre) / len(z))
    whiten = vectors / (values.clamp(min=0) + RIDGE * values.mean() + 1e-12).sqrt()
    x, y = (((part - centre) @ whiten).float() for part in (z, others))
    wanted = targets.float()
    sizes = ((x.shape[1], HIDDEN), (HIDDEN, targets.shape[1]))
    layers = [torch.randn(size, generator=generator) * (2 / size[0]) ** 0.5 for size in sizes]
    layers += [torch.zeros(size[1]) for size in sizes]
    batches = -(-len(x) // BATCH)
    epochs = -(-STEPS // batches)
    with torch.enable_grad():
        first, second, shift, level = layers = [layer.requires_grad_() for layer in layers]
        adam = torch.optim.Adam(layers, RATE)
        decay = torch.optim.lr_scheduler.CosineAnnealingLR(adam, epochs * batches)
        for _ in range(epochs):
            for rows in torch.randperm(len(x), generator=generator).split(BATCH):
                adam.zero_grad()
                read = torch.addmm(shift, x[rows], first).relu() @ second + level
                (read - wanted[rows]).square().mean().backward()
                adam.step()
                decay.step()
    with torch.no_grad():
        return (torch.addmm(shift, y, first).relu() @ second + level).double()


def probes(group: Group, z: Tensor, poses: Tensor, others: Tensor, other_poses: Tensor) -> dict[str, float | None]:
    """R2 of the pose, read from latents that the probes were not fitted on."""
    names = {"r2_linear": linear_probe, "r2_two_layer": two_layer_probe}
    fitted, measured = pose_targets(group, poses), pose_targets(group, other_poses)
    z, others = z.cpu().double(), others.cpu().double()
    finite = bool(z.isfinite().all() and others.isfinite().all())
    if fitted is None or measured is None or not finite or min(len(z), len(others)) < 2:
        return dict.fromkeys(names)
    return {name: r2(probe(z, fitted, others), measured) for name, probe in names.items()}


def around(group: Group) -> Tensor:
    """Poses spread evenly over a group, [count, ...]: all of a finite one, else POSES."""
    if group.order is not None:
        return group.elements
    if isinstance(group, SO3):
        return group.grid(POSES)
    if group.periods is not None and not group.shape:
        return (torch.arange(POSES) * group.periods[0] / POSES).to(group.dtype)
    return group.sample(POSES, torch.Generator().manual_seed(0))


def disentanglement(model: Model, z: Tensor, poses: Tensor, things: Tensor) -> dict[str, Any]:
    """`d_lsbd`, and the same with the model's own representation."""
    own = left_by_action(model, z, poses, things)
    return {**d_lsbd(model.group, z, poses, things), "d_lsbd_of_action": own}


def d_lsbd(group: Group, z: Tensor, poses: Tensor, things: Tensor) -> dict[str, Any]:
    """D_LSBD (Tonnaer and others, 2022) of a cycle, a circle or a product of them, and the frequency of each factor.

    Of each factor and thing: latents less the mean over the factor are brought into the plane of their two principal
    components, each scaled to variance 1/2, and turned back by a frequency times their angle. What is left of their
    variance, 0 to 1, is averaged over things; the frequency with the least counts. The result is the mean over factors.
    Orbits with half of their poses missing are left out.
    """
    nothing = {"d_lsbd": None, "frequencies": None}
    z, things = z.cpu().double(), things.cpu()
    if group.periods is None or not bool(z.isfinite().all()):
        return nothing
    turns = angles(group, poses)
    best = []
    for factor, each in enumerate(group.factors if isinstance(group, Product) else (group,)):
        period, enough = group.periods[factor], FEWEST if each.order is None else each.order // 2 + 1
        tries = torch.tensor([f for f in range(1, FREQUENCY + 1) if 2 * f <= period])
        left = [
            rest
            for thing in things.unique()
            if (rest := _turned_back(z[things == thing], turns[things == thing], factor, enough, tries)) is not None
        ]
        if not left or period < 3:  # a cycle of two turns nothing: it flips a line
            return nothing
        least = torch.stack(left).mean(0).min(0)
        best.append((float(least.values), int(tries[least.indices])))
    return {"d_lsbd": math.fsum(value for value, _ in best) / len(best), "frequencies": [f for _, f in best]}


def _turned_back(z: Tensor, turns: Tensor, factor: int, enough: int, tries: Tensor) -> Tensor | None:
    """Of the latents of one thing, the variance left by each frequency, [frequencies]; None if poses are too few."""
    others = turns[:, [i for i in range(turns.shape[1]) if i != factor]]
    orbit = (others / 1e-6).round().unique(dim=0, return_inverse=True)[1] if others.shape[1] else torch.zeros(len(z))
    parts = []
    for one in orbit.unique():
        rows = (orbit == one).nonzero()[:, 0]
        distinct = (turns[rows, factor] % (2 * math.pi) / 1e-6).round().unique()
        if len(distinct) >= enough:
            parts.append((z[rows] - z[rows].mean(0), turns[rows, factor]))
    if not parts:
        return None
    centred, angle = (torch.cat(part) for part in zip(*parts, strict=True))
    u, values, _ = torch.linalg.svd(centred, full_matrices=False)
    if len(values) < 2 or values[1] <= 1e-6 * values[0]:
        return torch.ones(len(tries), dtype=torch.float64)  # no plane: nothing turns
    plane = u[:, :2] * (len(u) / 2) ** 0.5
    points = torch.complex(plane[:, 0], plane[:, 1])
    turn = torch.exp(1j * tries[:, None] * angle)  # a plane has no front: it may turn either way
    back = torch.stack((turn @ points, turn.conj() @ points)) / len(points)
    return points.abs().square().mean() - back.abs().square().amax(0)


def left_by_action(model: Model, z: Tensor, poses: Tensor, things: Tensor) -> float | None:
    """The same with the model's own representation, of any group, on the whole latent in place of a plane.

    For each thing, the inverse of their pose acts on latents less their mean; the share of variance left, 0 to 1, is
    averaged over things. None if the action is not an orthogonal representation.
    """
    action, group = model.action, model.group
    if not isinstance(action, BlockAction) or not bool(z.isfinite().all()):
        return None
    z, poses, things = z.float().to(model.device), poses.to(model.device), things.to(model.device)
    left = []
    for thing in things.unique():
        rows = (things == thing).nonzero()[:, 0]
        if len(rows) < 2:
            continue
        centred = z[rows] - z[rows].mean(0)
        back = model.act(centred, group.canonical(group.inverse(poses[rows]))).cpu().double()
        around = centred.cpu().double().square().sum()
        left.append(float((back - back.mean(0)).square().sum() / around) if around > 0 else 1.0)
    return math.fsum(left) / len(left) if left else None


def degrees_per_gap(group: Group) -> float | None:
    """How many degrees of a turn one unit of `Group.gap` is; None if a gap is not a turn."""
    if isinstance(group, SO3):
        return 1.0
    return 360 / group.periods[0] if group.periods is not None and len(group.periods) == 1 else None


def retrieval_error(degrees: Tensor) -> float:
    """PRE, the prediction retrieval error of SIE (Garrido and others, 2023): the mean of 1 - <p, q>^2 over the unit
    quaternions p and q of the pose found and the true one, which is the squared sine of half the angle between them."""
    return float(torch.deg2rad(degrees.double() / 2).sin().square().mean())


def error_ratio(seen: float | None, unseen: float | None) -> float | None:
    """How many times larger the error is on held-out actions than on those trained on; None if there is none."""
    return None if not seen or unseen is None else unseen / seen
