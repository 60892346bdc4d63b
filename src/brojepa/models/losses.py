"""The terms of the loss, as pure functions of latents, rows of [..., dim], or of their covariance.

VICReg (Bardes, Ponce and LeCun, 2022): invariance pulls the prediction to its target, variance keeps every
dimension spread, covariance keeps dimensions from repeating one another.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

CovarianceScale = Literal["mean", "dim"]


def invariance(predicted: Tensor, target: Tensor, weight: Tensor | None = None) -> Tensor:
    """Mean squared difference; `weight` [...] leaves rows out (0) or keeps them (1)."""
    if weight is None:
        return (predicted - target).square().mean()
    return ((predicted - target).square().mean(-1) * weight).sum() / weight.sum().clamp(min=1)


def sample_covariance(z: Tensor) -> Tensor:
    """Over the batch, [batch, dim] -> [dim, dim]: what the two terms below are functions of."""
    z = z - z.mean(0)
    return z.T @ z / (len(z) - 1)


def variance(cov: Tensor, threshold: float = 1.0, eps: float = 1e-4) -> Tensor:
    """Hinge on the standard deviation over the batch: mean over dimensions of max(0, threshold - std)."""
    return (threshold - (cov.diagonal() + eps).sqrt()).relu().mean()


def covariance(cov: Tensor, scale: CovarianceScale = "mean") -> Tensor:
    """Squared off-diagonal entries of the sample covariance.

    "mean": their mean over the D (D - 1) entries. "dim": their sum over D, as in the original VICReg,
    which is D - 1 times larger.
    """
    dim = len(cov)
    total = cov.square().sum() - cov.diagonal().square().sum()
    return total / (dim * (dim - 1) if scale == "mean" else dim)


def epps_pulley(x: Tensor, knots: int = 17, reach: float = 5.0) -> Tensor:
    """How far columns of x [batch, columns] are from N(0, 1): the mean of the distances of Epps and Pulley (1983).

    The integral over t of |mean of exp(i t x) - exp(-t^2 / 2)|^2 exp(-t^2 / 2), by the trapezoidal rule on [-reach,
    reach]. The integrand is even in t, so half of the interval is computed and counted twice. Times the batch, this is
    their test statistic; without that factor, batches of different sizes compare.
    """
    t = torch.linspace(0, reach, knots, device=x.device)
    gaussian = (-t.square() / 2).exp()
    phase = x[..., None] * t
    away = (phase.cos().mean(0) - gaussian).square() + phase.sin().mean(0).square()
    return 2 * torch.trapezoid(away * gaussian, t, dim=-1).mean()
