"""Latent actions made of a group's irreducible representations: fixed, exact for every element, any group."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from brojepa.errors import RequestError, unknown
from brojepa.groups import Abelian, Group, Irrep, Product
from brojepa.models.actions.base import LatentAction


@dataclass(frozen=True)
class Part:
    """Copies of one irreducible representation, and the latent dimensions they act on, in order."""

    irrep: Irrep
    copies: int
    dims: tuple[int, ...]


class Representation(LatentAction):
    """z -> rho(k) z with rho block-diagonal in irreducible representations of a group, so rho(a) rho(b) = rho(ab).

    Args:
        group: the group of the actions.
        copies: how many of each irreducible representation, by name: {"A1": 8, "E1": 16}, or the same in words,
            "8xA1 + 16xE1". They take up the latent dimensions in that order.

    >>> from brojepa.groups import Dihedral
    >>> print(Representation(Dihedral(4), "2xA1 + 1xB2 + 2xE1"))
    D4: 2xA1 + 1xB2 + 2xE1
    irrep  dim  copies  latent dimensions
    A1       1       2  0-1
    B2       1       1  2
    E1       2       2  3-6
    """

    def __init__(self, group: Group, copies: Mapping[str, int] | str) -> None:
        super().__init__()
        self.group = group
        self.parts = parts_of(group, copies)
        self.dim = self.out_dim = sum(len(part.dims) for part in self.parts)

    def act(self, z: Tensor, k: Tensor | int) -> Tensor:
        return self._move(z, self._blocks(torch.as_tensor(k, device=z.device)))

    def path(self, latents: Tensor, k: Tensor) -> Tensor:
        """Every latent has a say: each is led back to the start by undoing the actions, and their mean goes the way."""
        blocks = self._blocks(k)
        back = latents[:, -1:]
        for step in reversed(range(k.shape[1])):
            back = self._move(back, self._undone([b[:, step, None] for b in blocks]))
            back = torch.cat((back, latents[:, step, None]), 1)
        path = [back.mean(1)]
        for step in range(k.shape[1]):
            path.append(self._move(path[-1], [b[:, step] for b in blocks]))
        return torch.stack(path, 1)

    def normalise(self, z: Tensor) -> Tensor:
        """Each irreducible representation's part on its own: no action mixes them, so no part may vanish."""
        out = torch.empty_like(z)
        for part in self.parts:
            dims = torch.tensor(part.dims, device=z.device)
            out[..., dims] = super().normalise(z[..., dims])
        return out

    def _blocks(self, k: Tensor) -> list[Tensor]:
        """What an action is made of, for `_move`: the matrix of each part."""
        return [part.irrep.matrix(k) for part in self.parts]

    def _undone(self, blocks: list[Tensor]) -> list[Tensor]:
        return [block.mT for block in blocks]

    def _move(self, z: Tensor, blocks: list[Tensor]) -> Tensor:
        moved = []
        for part, matrix in zip(self.parts, blocks, strict=True):
            copies = z[..., part.dims[0] : part.dims[-1] + 1].float().unflatten(-1, (part.copies, part.irrep.dim))
            moved.append((copies @ matrix.mT).flatten(-2))
        return torch.cat(moved, -1).to(z.dtype)

    def matrix(self, k: Tensor | int) -> Tensor:
        """rho(k) as a dense [dim, dim] matrix; act(z, k) == z @ matrix(k).T."""
        return self.act(torch.eye(self.dim), k).mT

    def __str__(self) -> str:
        return table(str(self.group), self.parts)


def parts_of(group: Group, copies: Mapping[str, int] | str) -> list[Part]:
    irreps = {i.name: i for i in group.irreps()}
    wanted = _read(copies) if isinstance(copies, str) else dict(copies)
    if group.order is None and all(re.fullmatch(r"-?\d+(:-?\d+)*", name) for name in wanted):
        highest = max((abs(int(f)) for name in wanted for f in name.split(":")), default=0)
        irreps = {i.name: i for i in group.irreps(highest)}
    parts, start = [], 0
    for name, count in wanted.items():
        if name not in irreps:
            raise unknown(f"irreducible representation of {group}", name, irreps)
        if count < 1:
            raise RequestError(f"{group}: {count} copies of {name}, give 1 or more")
        size = count * irreps[name].dim
        parts.append(Part(irreps[name], count, tuple(range(start, start + size))))
        start += size
    if not parts:
        raise RequestError(f"{group}: no irreducible representation given, write for example 8x{next(iter(irreps))}")
    return parts


def _read(text: str) -> dict[str, int]:
    """ "14x0 + 12x1" -> {"0": 14, "1": 12}."""
    found: dict[str, int] = {}
    for term in text.split("+"):
        match = re.fullmatch(r"\s*(\d+)\s*x\s*([\w:-]+)\s*", term)
        if not match or match[2] in found:
            raise RequestError(f"cannot read {text!r}: write copies x name, each name once, as in 14x0 + 12x1")
        found[match[2]] = int(match[1])
    return found


def evenly(group: Group, dim: int) -> dict[str, int]:
    """Copies of a group's irreducible representations that share out `dim` dimensions, as even as they go; what is left
    over goes to the first, which does nothing. Of a product, only those that turn under one factor. An abelian group's
    come as planes, those of dimension 1 by twos."""
    irreps = [i for i in group.irreps() if not isinstance(group, Product) or sum(map(bool, i.frequency or ())) < 2]
    at_once = {i.name: 2 // i.dim if isinstance(group, Abelian) else 1 for i in irreps}
    copies = dict.fromkeys(at_once, 0)
    left = dim
    while any(at_once[i.name] * i.dim <= left for i in irreps[1:]):
        for i in irreps:
            if at_once[i.name] * i.dim <= left:
                copies[i.name] += at_once[i.name]
                left -= at_once[i.name] * i.dim
    copies[irreps[0].name] += left
    return {name: count for name, count in copies.items() if count}


def table(title: str, parts: list[Part]) -> str:
    """Which irreducible representation, how many copies, which latent dimensions."""
    lines = [f"{title}: " + " + ".join(f"{p.copies}x{p.irrep.name}" for p in parts)]
    lines.append("irrep  dim  copies  latent dimensions")
    for p in parts:
        lines.append(f"{p.irrep.name:<5}  {p.irrep.dim:>3}  {p.copies:>6}  {ranges(p.dims)}")
    return "\n".join(lines)


def ranges(numbers: tuple[int, ...]) -> str:
    """0, 1, 2, 5, 6 -> "0-2, 5-6"."""
    runs: list[list[int]] = []
    for i in numbers:
        if runs and i == runs[-1][1] + 1:
            runs[-1][1] = i
        else:
            runs.append([i, i])
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)
