"""What every latent action offers."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class LatentAction(nn.Module):
    """What every latent action offers: dimensions in and out, and `act`."""

    dim: int
    out_dim: int

    def act(self, z: Tensor, k: Tensor | int) -> Tensor:
        """The latent after action k: z [..., dim], k an integer or a tensor [...] -> [..., out_dim]."""
        raise NotImplementedError

    def normalise(self, z: Tensor) -> Tensor:
        """Latents [..., dim] of the length that standard normal ones have on average."""
        return torch.nn.functional.normalize(z, dim=-1) * z.shape[-1] ** 0.5

    def path(self, latents: Tensor, k: Tensor) -> Tensor:
        """What several actions in a row make of the first of the latents seen on the way: latents [batch, steps + 1,
        dim], k [batch, steps, ...] -> [batch, steps + 1, dim]."""
        path = [latents[:, 0]]
        for step in k.unbind(1):
            path.append(self.act(path[-1], step))
        return torch.stack(path, 1)

    def forward(self, z: Tensor, k: Tensor | int) -> Tensor:
        return self.act(z, k)

    @property
    def angles(self) -> Tensor | None:
        """Rotation angles [dim / 2], or None where the action is not a rotation."""
        return None

    @property
    def learned_angles(self) -> bool:
        return False

    @property
    def period(self) -> int | None:
        """The n for which k and k + n do the same to every latent, where that is certain."""
        return None
