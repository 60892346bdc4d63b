"""Regularisers keep latents from collapsing. Each is a module from latents [batch, dim] to named terms, a weight
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
    """Variance and covariance terms over the batch (Bardes, Ponce and LeCun, 2022). A weight of 0 switches a term off.

    Args:
        variance: weight of the hinge that keeps each dimension's standard deviation at 1 or above.
        covariance: weight of the squared covariances between dimensions.
        scale: "mean" averages them over the D (D - 1) entries, "dim" divides their sum by D, as in the original.

    Examples:
        >>> import brojepa
        >>> import torch
        >>> terms = brojepa.VICReg()(torch.zeros(8, 4))  # collapsed
        >>> {name: (weight, round(value.item(), 2)) for name, (weight, value) in terms.items()}
        {'variance': (25.0, 0.99), 'covariance': (1.0, 0.0)}
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
    """Sketched isotropic Gaussian: along random directions, latents should follow N(0, 1).

    Balestriero and LeCun, 2025. Each direction is measured by the Epps-Pulley (1983) distance between the
    characteristic function of the projections and exp(-t^2 / 2), weighted by exp(-t^2 / 2) and integrated over t.
    Directions are drawn anew at every step from torch's generator, which a run seeds from its seed and the step.

    Args:
        weight: of the term. LeJEPA multiplies the distance by the batch size; here the weight does that.
        directions: number of directions per step.
        knots: points of the integral over t in [0, reach].
        reach: where the integral ends.

    Examples:
        >>> import brojepa
        >>> import torch
        >>> _ = torch.manual_seed(0)
        >>> near, far = torch.randn(500, 8), torch.randn(500, 8) + 3
        >>> regulariser = brojepa.SIGReg()
        >>> bool(regulariser(near)["sigreg"][1] < regulariser(far)["sigreg"][1])
        True
    """

    def __init__(self, weight: float = 10.0, directions: int = 256, knots: int = 17, reach: float = 5.0) -> None:
        super().__init__()
        self.weight, self.directions, self.knots, self.reach = weight, directions, knots, reach

    def forward(self, z: Tensor) -> Terms:
        direction = nn.functional.normalize(torch.randn(z.shape[1], self.directions, device=z.device), dim=0)
        return {"sigreg": (self.weight, losses.epps_pulley(z.float() @ direction, self.knots, self.reach))}


REGULARISERS = {"vicreg": VICReg, "sigreg": SIGReg}
