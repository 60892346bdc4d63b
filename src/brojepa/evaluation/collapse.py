"""Signs that latents have collapsed: they no longer tell images apart."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor


def collapse_signs(z: Tensor) -> dict[str, float]:
    """Three signs of collapse.

    latent_std: standard deviation of length-1 latents over images, scaled so that isotropic latents have 1; it
    falls to 0 when all latents point one way. latent_scale: standard deviation of the latents themselves, which the
    variance term pulls to 1; rotations leave the origin in place, and latents that shrink into it keep their
    directions spread. effective_rank: the exponential of the entropy of the normalised singular values (Roy and
    Vetterli, 2007). All are nan if latents are not finite.
    """
    if not bool(z.isfinite().all()):
        return dict.fromkeys(("latent_std", "latent_scale", "effective_rank"), math.nan)
    z = z.cpu().double()  # Apple's devices have no float64
    values = torch.linalg.svdvals(z - z.mean(0))
    share = values / values.sum().clamp(min=1e-30)
    return {
        "latent_std": float(torch.nn.functional.normalize(z, dim=1).std(0).mean() * z.shape[1] ** 0.5),
        "latent_scale": float(z.std(0).mean()),
        "effective_rank": float(torch.special.entr(share).sum().exp()),
    }


FULL = 0.01  # of the variance term, the mean gap of standard deviations below 1: at most this is as good as none


def collapsed(row: dict[str, Any]) -> bool:
    """Whether `collapse_signs` say that latents no longer tell images apart; False if they were not measured.

    If an epoch's variance term is zero, latents were spread in training, and what looks like a collapse is a batch
    norm whose running statistics lag.
    """
    if "effective_rank" not in row or row.get("variance", 1.0) <= FULL:
        return False
    return min(row["latent_std"], row["latent_scale"]) < 0.1 or row["effective_rank"] < 1.1
