"""Estimates angles from pairs of images before training, so that learned angles need not start at random.

Images of a state y and of the state y + k that action k leads to are drawn at random, as training draws them. The
linear map A that best predicts features of the second from features of the first turns the features' own planes by
the angles that a rotation will have to learn: on states alone k is a permutation, its eigenvalues lie on the unit
circle, and least squares on features shrinks them towards 0 but leaves their angles (Schmid, 2010, *Dynamic mode
decomposition*). It uses neither the number of states nor held-out actions.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from brojepa.errors import RequestError, RunError
from brojepa.worlds import LabelledTransitions

PAIRS = 100_000  # pairs drawn, at least
WIDTH = 1024  # random features, at most one to every 8 images
LEAST = 16  # images, for two features
RIDGE = 1e-3  # of the features' mean variance
CLEAR = 2.0  # an eigenvalue counts if it is this many times the largest one of shuffled pairs


def features(images: Tensor, width: int, generator: torch.Generator) -> Tensor:
    """Centred random ReLU features of images [count, c, h, w] -> [count, width]."""
    x = images.flatten(1).float()
    x = (x - x.mean()) / x.std().clamp(min=1e-6)
    weights = torch.randn(x.shape[1], width, generator=generator) / x.shape[1] ** 0.5
    f = torch.relu(x @ weights.to(x.device) + torch.randn(width, generator=generator).to(x.device) / 2)
    return f - f.mean(0)


def eigenvalues(f: Tensor, g: Tensor) -> Tensor:
    """Eigenvalues of the ridge regression from rows of f to rows of g, largest first."""
    covariance = f.T @ f / len(f)
    covariance.diagonal().add_(RIDGE * covariance.diagonal().mean().clamp(min=1e-12))
    values = torch.linalg.eigvals(torch.linalg.solve(covariance, f.T @ g / len(f)).cpu().double())
    return values[values.abs().argsort(descending=True)]


def turns(f: Tensor, g: Tensor, generator: torch.Generator) -> Tensor:
    """The angles in (0, pi] by which pairs turn planes of the features, smallest first: those of eigenvalues
    clearly above the ones that the same rows give when paired at random."""
    noise = eigenvalues(f, g[torch.randperm(len(g), generator=generator).to(g.device)]).abs().max()
    values = eigenvalues(f, g)
    angles = values[values.abs() > CLEAR * noise].angle()
    return angles[angles > 0].sort().values.float()


def starting_angles(transitions: LabelledTransitions, count: int, generator: torch.Generator) -> Tensor:
    """Where `count` learned angles start: the lowest turn that one unit of action makes, then the others in order,
    over and over.

    The lowest comes first because the others are multiples of it: a single plane that turns by it tells all states
    apart, which a plane that turns twice as far may not.
    """
    moving = [k for k in transitions.actions.tolist() if k]
    if not moving:
        raise RequestError("--angle-start spectral needs a training action that moves something, not 0: use random")
    if len(transitions.split) < LEAST:
        count = len(transitions.split)
        raise RequestError(f"--angle-start spectral needs {LEAST} training images or more, got {count}: use random")
    k = min(moving, key=lambda k: (abs(k), -k))
    images, single = transitions.split.images[:], LabelledTransitions(transitions.split, transitions.group, (k,))
    f = features(images, min(WIDTH, len(images) // 8), generator)
    reached, draws = torch.zeros_like(f), math.ceil(PAIRS / len(images))
    for _ in range(draws):
        draw = single.draw(generator)
        assert draw.target is not None
        reached[draw.context] += f[draw.target[:, 0]] / draws
    angles = turns(f, reached, generator)
    if not len(angles):
        raise RunError("no turn stands out in the pairs of images: use --angle-start random")
    return angles[torch.arange(count) % len(angles)] / k
