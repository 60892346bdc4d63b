"""Regularisers: what keeps latents from collapsing. Each is a module from latents [batch, dim] to named terms, a weight
and a value each: {"variance": (25.0, tensor)}. The names appear in the table and in `metrics.jsonl`.

`VICReg` (Bardes, Ponce and LeCun, 2022) asks for spread and uncorrelated dimensions. `SIGReg` (Balestriero and LeCun,
2025, *LeJEPA*) asks for an isotropic Gaussian.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from brojepa.models import losses

Terms = dict[str, tuple[float, Tensor]]
"""Terms of a loss by name: a weight and a value each."""


class VICReg(nn.Module):
    """Variance and covariance of the latents over the batch; a weight of 0 leaves a term out.

    Args:
        variance: weight of the hinge on every dimension's standard deviation.
        covariance: weight of the squared covariances between dimensions.
        scale: "mean" averages these over the D (D - 1) entries, "dim" divides their sum by D, as in the original.
    """

    def __init__(self, variance: float = 25.0, covariance: float = 1.0, scale: losses.CovarianceScale = "mean") -> None:
        super().__init__()
        self.variance, self.covariance = variance, covariance
        self.scale: losses.CovarianceScale = scale

    def forward(self, z: Tensor) -> Terms:
        terms: Terms = {}
        if self.variance or self.covariance:
            cov = losses.sample_covariance(z)
            if self.variance:
                terms["variance"] = (self.variance, losses.variance(cov))
            if self.covariance:
                terms["covariance"] = (self.covariance, losses.covariance(cov, self.scale))
        return terms


class SIGReg(nn.Module):
    """Sketched isotropic Gaussian: along random directions, latents are to be distributed as N(0, 1).

    Each direction is measured by the distance of Epps and Pulley (1983) between the empirical characteristic function
    of the projections and exp(-t^2 / 2), weighted by exp(-t^2 / 2) and integrated over t. New directions are drawn at
    every step, from torch's own generator: a run seeds that for each step from its seed.

    Args:
        weight: of the term. LeJEPA multiplies the distance by the batch size; here the weight does that.
        directions: drawn per step.
        knots: points of the integral over t in [0, reach]; the integrand is even.
        reach: where the integral ends.
    """

    def __init__(self, weight: float = 10.0, directions: int = 256, knots: int = 17, reach: float = 5.0) -> None:
        super().__init__()
        self.weight, self.directions, self.knots, self.reach = weight, directions, knots, reach

    def forward(self, z: Tensor) -> Terms:
        direction = nn.functional.normalize(torch.randn(z.shape[1], self.directions, device=z.device), dim=0)
        return {"sigreg": (self.weight, losses.epps_pulley(z.float() @ direction, self.knots, self.reach))}


REGULARISERS = {"vicreg": VICReg, "sigreg": SIGReg}
