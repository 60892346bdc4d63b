"""What `Representation` and `BlockRotation` share: a block-diagonal, orthogonal matrix per action."""

from __future__ import annotations

import torch
from torch import Tensor

from brojepa.errors import RequestError
from brojepa.groups import Element, Group
from brojepa.models.actions.base import LatentAction
from brojepa.models.actions.parts import table


def computed_in(z: Tensor) -> torch.dtype:
    """The precision in which latents are acted on: float64 for float64, else float32."""
    if not z.is_floating_point():
        raise RequestError(f"latents are {str(z.dtype).removeprefix('torch.')}, expected floats: give z.float()")
    return torch.float64 if z.dtype == torch.float64 else torch.float32


class BlockAction(LatentAction):
    """z -> rho(k) z with rho(k) orthogonal and block-diagonal. A subclass says what the blocks are.

    group: the group that rho represents, or None if it is not known.
    """

    group: Group | None

    def blocks(self, k: Tensor, dtype: torch.dtype = torch.float32) -> list[Tensor]:
        """What rho(k) is made of, as `move` and `inverse_blocks` take it.

        Args:
            k: actions, [..., *group.shape].
            dtype: of the result.

        Returns:
            Tensors that begin with the batch of k.
        """
        raise NotImplementedError

    def inverse_blocks(self, blocks: list[Tensor]) -> list[Tensor]:
        """The blocks of rho(k)^-1.

        Args:
            blocks: those of rho(k).

        Returns:
            As many tensors of the same shapes.
        """
        raise NotImplementedError

    def move(self, z: Tensor, blocks: list[Tensor]) -> Tensor:
        """rho(k) z, from the blocks of rho(k).

        Args:
            z: latents, [..., dim].
            blocks: as `blocks` returns them.

        Returns:
            Latents, [..., dim].
        """
        raise NotImplementedError

    def act(self, z: Tensor, k: Tensor | Element) -> Tensor:
        return self.move(z, self.blocks(torch.as_tensor(k, device=z.device), computed_in(z)))

    def matrix(self, k: Tensor | Element) -> Tensor:
        """rho(k) as a dense matrix: act(z, k) == z @ matrix(k).T.

        Args:
            k: one action.

        Returns:
            An orthogonal matrix, [dim, dim].
        """
        device = next((tensor.device for tensor in self.state_dict().values()), None)
        return self.act(torch.eye(self.dim, device=device), k).mT

    def path(self, latents: Tensor, k: Tensor) -> Tensor:
        """Map every latent of the walk back to its start by the inverse actions, average, and roll the average
        forward."""
        blocks = self.blocks(k, computed_in(latents))
        back = latents[:, -1:]
        for step in reversed(range(k.shape[1])):
            back = self.move(back, self.inverse_blocks([b[:, step, None] for b in blocks]))
            back = torch.cat((back, latents[:, step, None]), 1)
        path = [back.mean(1)]
        for step in range(k.shape[1]):
            path.append(self.move(path[-1], [b[:, step] for b in blocks]))
        return torch.stack(path, 1)

    def normalise(self, z: Tensor) -> Tensor:
        """Each irreducible representation's part on its own, if they are known. No action mixes the parts, so none may
        vanish."""
        parts = None if self.group is None else self.irrep_parts(self.group)
        if parts is None:
            return super().normalise(z)
        out = torch.empty_like(z)
        for part in parts:
            dims = torch.tensor(part.dims, device=z.device)
            out[..., dims] = super().normalise(z[..., dims])
        return out

    def __str__(self) -> str:
        parts = None if self.group is None else self.irrep_parts(self.group)
        return repr(self) if parts is None else table(str(self.group), parts)
