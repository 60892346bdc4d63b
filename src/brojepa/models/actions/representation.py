"""Latent actions made of a group's irreducible representations: fixed, exact for every element, any group."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from brojepa.groups import Group
from brojepa.models.actions.blocks import BlockAction, computed_in
from brojepa.models.actions.parts import Part, parts_of


class Representation(BlockAction):
    """z -> rho(k) z with rho block-diagonal in irreducible representations of a group, so rho(a) rho(b) = rho(ab).

    Args:
        group: the group of the actions.
        copies: how many of each irreducible representation, by name: {"A1": 8, "E1": 16}, or in words, "8xA1 + 16xE1".
            They take up the latent dimensions in that order.

    Raises:
        RequestError: the group has no representation of such a name.

    Examples:
        >>> from brojepa import Dihedral, Representation
        >>> print(Representation(Dihedral(4), "2xA1 + 1xB2 + 2xE1"))
        D4: 2xA1 + 1xB2 + 2xE1
        irrep  dim  copies  latent dimensions
        A1       1       2  0-1
        B2       1       1  2
        E1       2       2  3-6
    """

    group: Group

    def __init__(self, group: Group, copies: Mapping[str, int] | str) -> None:
        super().__init__()
        self.group = group
        self.parts = parts_of(group, copies)
        self.dim = self.out_dim = sum(len(part.dims) for part in self.parts)

    def blocks(self, k: Tensor, dtype: torch.dtype = torch.float32) -> list[Tensor]:
        """The matrix of each part.

        Args:
            k: actions, [..., *group.shape].
            dtype: of the result; the matrices are computed in float32.

        Returns:
            One tensor per part, [..., irrep dim, irrep dim].
        """
        return [part.irrep.matrix(k).to(dtype) for part in self.parts]

    def inverse_blocks(self, blocks: list[Tensor]) -> list[Tensor]:
        return [block.mT for block in blocks]

    def move(self, z: Tensor, blocks: list[Tensor]) -> Tensor:
        parts = zip(self._split(z.to(computed_in(z))), blocks, strict=True)
        return torch.cat([(copies @ matrix.mT).flatten(-2) for copies, matrix in parts], -1).to(z.dtype)

    def nearness(self, z: Tensor, w: Tensor, k: Tensor) -> Tensor:
        """<act(z, k), w>: the action keeps lengths, so |act(z, k) - w|^2 is smallest where this is largest.

        Copies of a representation with matrices D add the sum over i, j of D_ij(k) times the sum over copies of w_i
        z_j. These are products of matrices; no action is carried out.

        Args:
            z: latents to start from, [..., dim].
            w: latents to reach, [..., dim].
            k: the actions to compare, [count, *group.shape].

        Returns:
            One number per action, [..., count].
        """
        total = z.new_zeros((), dtype=torch.float32)
        for part, a, b in zip(self.parts, self._split(w.float()), self._split(z.float()), strict=True):
            total = total + (a.mT @ b).flatten(-2) @ part.irrep.matrix(k).flatten(1).T
        return total

    def irrep_parts(self, group: Group) -> list[Part]:
        return self.parts

    def _split(self, z: Tensor) -> list[Tensor]:
        """The latent of each part: [..., dim] -> [..., copies, irrep dim]."""
        return [
            z[..., part.dims[0] : part.dims[-1] + 1].unflatten(-1, (part.copies, part.irrep.dim)) for part in self.parts
        ]
