"""Latent actions: (z, k) -> the latent predicted after action k.

`Representation` cuts the latent into blocks and lets k multiply each by a matrix of one of its group's irreducible
representations, so that acting with b and then a is acting with ab, exactly, trained on or not. `BlockRotation`, the
paper's, is the case of cycles and tori: every block is a plane that turns, and its angle may be learned.
`MLPAction` is the unconstrained baseline: a network that reads the latent and an embedding of k.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, cast

import torch
from torch import Tensor, nn

from brojepa.errors import RequestError, unknown
from brojepa.groups import Abelian, Cyclic, Group, Irrep, Product
from brojepa.groups.group import rotation

AngleRange = Literal["symmetric", "positive"]


def harmonics(n: int, blocks: int, lowest: int = 0) -> Tensor:
    """Frequencies of the multi-frequency rotation, [blocks]: i mod n/2, counted from `lowest` (0 in the paper).

    From 0 they run 0, 1, ..., ceil(n/2) - 1 and repeat; from 1 they run 1, ..., floor(n/2).
    """
    period = max(2, math.ceil(n / 2)) if lowest == 0 else max(1, n // 2)
    return torch.arange(blocks) % period + lowest


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
        self.parts = _parts(group, copies)
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


def _parts(group: Group, copies: Mapping[str, int] | str) -> list[Part]:
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


class BlockRotation(Representation):
    """z -> R(k theta) z with R block-diagonal in 2x2 rotations, so R(j) R(k) = R(j + k).

    Args:
        theta: angles in radians, [dim / 2], or [1] for one angle shared by all planes; for a torus one for each
            factor, [dim / 2, factors], whose turns add up.
        dim: latent dimension, even. May be left out where theta has one angle a plane.
        learned: make the angles a parameter.
        group: whose frequencies the angles are, where that is known; `print` then shows them as a table.

    The angles, their sines and cosines are float32 whatever the dtype of z; the result has z's dtype.

    >>> import torch
    >>> from brojepa import BlockRotation
    >>> rotation = BlockRotation.multi(dim=8, n=10)
    >>> z = torch.randn(5, 8)
    >>> torch.allclose(rotation.act(rotation.act(z, 4), 6), z, atol=1e-5)
    True
    """

    def __init__(
        self, theta: Tensor, dim: int | None = None, *, learned: bool = False, group: Abelian | None = None
    ) -> None:
        LatentAction.__init__(self)
        theta = torch.as_tensor(theta, dtype=torch.float32)
        theta = theta if theta.ndim == 2 else theta.reshape(-1)
        dim = 2 * len(theta) if dim is None else dim
        if dim < 2 or dim % 2:
            raise RequestError(f"a rotation needs an even latent dimension, got {dim}: use {max(2, dim + dim % 2)}")
        if len(theta) not in (1, dim // 2):
            raise RequestError(f"{dim // 2} planes need {dim // 2} angles or one shared angle, got {len(theta)}")
        self.dim = self.out_dim = dim
        self.theta = nn.Parameter(theta) if learned else nn.Buffer(theta)
        self.group = group  # pyright: ignore[reportAttributeAccessIssue]

    @classmethod
    def single(cls, dim: int, n: int) -> BlockRotation:
        """One fixed frequency for all planes: theta = 2 pi / n."""
        return cls(torch.tensor([2 * math.pi / n]), dim, group=Cyclic(n))

    @classmethod
    def multi(cls, dim: int, n: int, lowest: int = 0) -> BlockRotation:
        """A fixed frequency for each plane: theta_i = 2 pi / n * harmonics(n)_i."""
        return cls(2 * math.pi / n * harmonics(n, dim // 2, lowest), dim, group=Cyclic(n))

    @classmethod
    def of(cls, group: Abelian, copies: Mapping[str, int] | str) -> BlockRotation:
        """Fixed frequencies of a cycle, the circle or a torus, as `Representation` takes them. Copies of a
        representation of dimension 1 are laid into planes by twos, so there must be an even number of them."""
        theta = []
        for part in _parts(group, copies):
            if len(part.dims) % 2:
                raise RequestError(
                    f"{group}: {part.copies} copies of {part.irrep.name}, of dimension 1, do not fill planes: "
                    f"use {part.copies + 1}"
                )
            frequency = torch.tensor(part.irrep.frequency, dtype=torch.float64)
            angles = frequency * 2 * math.pi / torch.tensor(group.periods)
            theta += [angles] * (len(part.dims) // 2)
        theta = torch.stack(theta)
        return cls(theta if group.shape else theta[:, 0], group=group)

    @classmethod
    def random(
        cls,
        dim: int,
        *,
        shared: bool = False,
        range: AngleRange = "symmetric",
        factors: int = 1,
        generator: torch.Generator | None = None,
    ) -> BlockRotation:
        """Learned angles that start uniform in [-2 pi, 2 pi] ("symmetric") or [0, 2 pi] ("positive")."""
        u = torch.rand(1 if shared else dim // 2, *((factors,) if factors > 1 else ()), generator=generator)
        return cls(2 * math.pi * (2 * u - 1 if range == "symmetric" else u), dim, learned=True)

    def turn(self, k: Tensor) -> Tensor:
        """By how much k turns each plane: k [...], or [..., factors] for a torus -> [..., planes] radians."""
        theta = self.theta.float()
        return k[..., None].float() * theta if theta.ndim == 1 else k.float() @ theta.T

    def normalise(self, z: Tensor) -> Tensor:
        """Frequency by frequency where they are known, else all planes together."""
        return LatentAction.normalise(self, z) if self.group is None else super().normalise(z)

    def _blocks(self, k: Tensor) -> list[Tensor]:
        turn = self.turn(k)
        return [turn.cos(), turn.sin()]

    def _undone(self, blocks: list[Tensor]) -> list[Tensor]:
        return [blocks[0], -blocks[1]]

    def _move(self, z: Tensor, blocks: list[Tensor]) -> Tensor:
        cos, sin = blocks
        x, y = z.float().unflatten(-1, (-1, 2)).unbind(-1)
        return torch.stack((x * cos - y * sin, x * sin + y * cos), -1).flatten(-2).to(z.dtype)

    def matrix(self, k: Tensor | int) -> Tensor:
        turn = self.turn(torch.as_tensor(k, device=self.theta.device)).expand(self.dim // 2)
        return torch.block_diag(*rotation(turn))

    @property
    def angles(self) -> Tensor:
        theta = self.theta.float()
        return theta.expand(self.dim // 2, *theta.shape[1:])

    @property
    def learned_angles(self) -> bool:
        return isinstance(self.theta, nn.Parameter)

    @property
    def parts(self) -> list[Part]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The irreducible representations that the angles are those of, to the nearest."""
        group = cast(Abelian, self.group)
        angles = self.angles.detach().cpu().double()
        periods = torch.tensor(group.periods, dtype=torch.float64)
        frequencies = (angles.reshape(self.dim // 2, -1) * periods / (2 * math.pi)).round()
        planes: dict[str, tuple[Irrep, list[int]]] = {}
        known = {i.frequency: i for i in group.irreps(int(frequencies.abs().max()) if group.order is None else None)}
        for plane, row in enumerate(frequencies.long().tolist()):
            irrep = next(known[f] for f in _mirrors(group, row) if f in known)
            planes.setdefault(irrep.name, (irrep, []))[1].extend((2 * plane, 2 * plane + 1))
        return [Part(irrep, len(dims) // irrep.dim, tuple(dims)) for irrep, dims in planes.values()]

    def __str__(self) -> str:
        return repr(self) if self.group is None else table(str(self.group), self.parts)

    def extra_repr(self) -> str:
        return f"dim={self.dim}, angles={len(self.theta)}, learned={self.learned_angles}"


def _mirrors(group: Abelian, frequency: list[int]) -> list[tuple[int, ...]]:
    """The ways to write a frequency and its mirror image, which turns planes the other way round."""
    wraps = [p if group.order is not None else 0 for p in group.periods]
    ways = []
    for sign in (1, -1):
        near = [sign * f - p * round(sign * f / p) if p else sign * f for f, p in zip(frequency, wraps, strict=True)]
        ways.append(tuple(near))
        ways.append(tuple(f + p if p and 2 * f == -p else f for f, p in zip(near, wraps, strict=True)))
    return ways


class Additive(nn.Module):
    """k -> k v with one learned vector v, so that the embedding of +3 is three times that of +1; where an action has
    several coordinates (two digits, a turn of space), a vector for each."""

    def __init__(self, group: Group, dim: int) -> None:
        super().__init__()
        count = group.coordinates(torch.as_tensor(group.identity)).shape[-1]
        self.v = nn.Parameter(torch.randn(*((count,) if count > 1 else ()), dim))

    def forward(self, k: Tensor) -> Tensor:
        return k * self.v if self.v.ndim == 1 else k @ self.v


class Lookup(nn.Module):
    """A learned vector for each action -(n-1)..(n-1); rows of unseen actions are never trained."""

    def __init__(self, group: Cyclic, dim: int) -> None:
        super().__init__()
        self.group, self.table = group, nn.Embedding(group.marks, dim)

    def forward(self, k: Tensor) -> Tensor:
        return self.table(self.group.mark(k[..., 0].round().long()))


class Linear(nn.Module):
    """The number k through a small network."""

    def __init__(self, group: Cyclic, dim: int) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(1, dim), nn.ReLU(), nn.Linear(dim, dim))

    def forward(self, k: Tensor) -> Tensor:
        return self.net(k)


def fourier_features(x: Tensor) -> Tensor:
    """sin x, cos x, sin 2x, cos 2x: [...] -> [..., 4]."""
    return torch.stack((x.sin(), x.cos(), (2 * x).sin(), (2 * x).cos()), -1)


class Fourier(nn.Module):
    """sin k, cos k, sin 2k, cos 2k, projected."""

    def __init__(self, group: Cyclic, dim: int) -> None:
        super().__init__()
        self.project = nn.Linear(4, dim)

    def forward(self, k: Tensor) -> Tensor:
        return self.project(fourier_features(k[..., 0]))


class Hybrid(nn.Module):
    """A learned vector for the sign of k beside Fourier features of its magnitude."""

    def __init__(self, group: Cyclic, dim: int) -> None:
        super().__init__()
        self.sign, self.project = nn.Embedding(3, dim // 2), nn.Linear(4, dim - dim // 2)

    def forward(self, k: Tensor) -> Tensor:
        k = k[..., 0]
        sign = self.sign(k.sign().long() + 1)
        return torch.cat((sign, self.project(fourier_features(k.abs()))), -1)


EMBEDDINGS = {"additive": Additive, "lookup": Lookup, "linear": Linear, "fourier": Fourier, "hybrid": Hybrid}


class MLPAction(LatentAction):
    """The unconstrained latent action: an MLP (two hidden layers of 256) reads z and an embedding of k.

    Args:
        dim: latent dimension read; `out_dim` the one written, the same unless given.
        group: of the actions, or the number of states of a cycle.
        embedding: additive for every group; lookup, linear, fourier or hybrid for cycles.
        scale: k is multiplied by this before it is embedded (lookup aside): 1 in the paper; 2 pi / n makes
            the Fourier features periodic in n.
    """

    def __init__(
        self,
        dim: int,
        group: Group | int,
        embedding: str = "additive",
        *,
        out_dim: int | None = None,
        hidden: int = 256,
        embedding_dim: int = 32,
        scale: float = 1.0,
    ) -> None:
        super().__init__()
        if embedding not in EMBEDDINGS:
            raise unknown("action embedding", embedding, EMBEDDINGS)
        self.group = Cyclic(group) if isinstance(group, int) else group
        if embedding != "additive" and not isinstance(self.group, Cyclic):
            raise RequestError(f"the {embedding} embedding is for cycles, not for {self.group}: use additive")
        self.dim, self.out_dim = dim, out_dim or dim
        self.scale = 1.0 if embedding == "lookup" else scale
        self.embedding = EMBEDDINGS[embedding](self.group, embedding_dim)
        self.net = nn.Sequential(
            nn.Linear(dim + embedding_dim, hidden), nn.ReLU(),
            nn.Linear(hidden, hidden), nn.ReLU(),
            nn.Linear(hidden, self.out_dim),
        )  # fmt: skip

    def act(self, z: Tensor, k: Tensor | int) -> Tensor:
        k = self.group.coordinates(torch.as_tensor(k, device=z.device))
        shape = torch.broadcast_shapes(z.shape[:-1], k.shape[:-1])
        e = self.embedding(k * self.scale).expand(*shape, -1)
        return self.net(torch.cat((z.expand(*shape, -1), e), -1))
