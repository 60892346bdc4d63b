"""The paper's latent action: planes that turn, for cycles and tori, by angles that may be learned."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import torch
from torch import Tensor, nn

from brojepa.errors import RequestError
from brojepa.groups import Cyclic, Group, Irrep
from brojepa.models.actions.blocks import BlockAction, computed_in
from brojepa.models.actions.parts import Part, parts_of

AngleRange = Literal["symmetric", "positive"]


def harmonics(n: int, blocks: int, lowest: int = 0) -> Tensor:
    """Frequencies of the multi-frequency rotation, [blocks]: i mod n/2, counted from `lowest` (0 in the paper).

    From 0 they run 0, 1, ..., ceil(n/2) - 1 and repeat; from 1 they run 1, ..., floor(n/2).
    """
    period = max(2, math.ceil(n / 2)) if lowest == 0 else max(1, n // 2)
    return torch.arange(blocks) % period + lowest


class BlockRotation(BlockAction):
    """z -> R(k theta) z with R block-diagonal in 2x2 rotations, so R(j) R(k) = R(j + k).

    With fixed angles of a known group, every k is exact. Learned angles are multiplied by k as they are, so their
    rounding error grows with k. Angles are float32, or float64 if z is; the result has the dtype of z.

    Args:
        theta: angles in radians, [dim / 2], or [1] for one angle shared by all planes. For a torus, one per factor,
            [dim / 2, factors]; their turns add up.
        dim: latent dimension, even; default two per angle.
        learned: make the angles a parameter.
        group: the group whose frequencies the angles are, if known; `print` then shows them as a table.

    Raises:
        RequestError: an odd dimension, or a wrong number of angles.

    Examples:
        >>> import torch
        >>> from brojepa import BlockRotation
        >>> rotation = BlockRotation.multi(dim=8, n=10, lowest=1)
        >>> z = torch.randn(5, 8)
        >>> torch.allclose(rotation.act(rotation.act(z, 4), 6), z, atol=1e-5)
        True
    """

    def __init__(
        self, theta: Tensor, dim: int | None = None, *, learned: bool = False, group: Group | None = None
    ) -> None:
        super().__init__()
        theta = torch.as_tensor(theta, dtype=torch.float32)
        theta = theta if theta.ndim == 2 else theta.reshape(-1)
        dim = 2 * len(theta) if dim is None else dim
        if dim < 2 or dim % 2:
            raise RequestError(f"a rotation needs an even latent dimension, got {dim}: use {max(2, dim + dim % 2)}")
        if len(theta) not in (1, dim // 2):
            raise RequestError(f"{dim // 2} planes need {dim // 2} angles or one shared angle, got {len(theta)}")
        self.dim = self.out_dim = dim
        self.theta = nn.Parameter(theta) if learned else nn.Buffer(theta)
        self.group = group
        fixed = None if group is None or learned else group.periods
        whole = None if fixed is None else torch.tensor(fixed if theta.ndim == 2 else fixed[0])
        self.periods = None if whole is None else nn.Buffer(whole, persistent=False)

    @classmethod
    def single(cls, dim: int, n: int) -> BlockRotation:
        """One fixed frequency for all planes: theta = 2 pi / n.

        Args:
            dim: latent dimension, even.
            n: length of the cycle.

        Returns:
            The rotation.
        """
        return cls(torch.tensor([2 * math.pi / n]), dim, group=Cyclic(n))

    @classmethod
    def multi(cls, dim: int, n: int, lowest: int = 0) -> BlockRotation:
        """One fixed frequency per plane: theta_i = 2 pi h_i / n, with the harmonics h_i in turn.

        Args:
            dim: latent dimension, even.
            n: length of the cycle.
            lowest: the first harmonic. 0 is the paper's formula and leaves planes that never turn; 1 is better.

        Returns:
            The rotation.
        """
        return cls(2 * math.pi / n * harmonics(n, dim // 2, lowest), dim, group=Cyclic(n))

    @classmethod
    def of(cls, group: Group, copies: Mapping[str, int] | str) -> BlockRotation:
        """Fixed frequencies of a cycle, the circle or a torus, from copies of their irreducible representations.

        Args:
            group: the group.
            copies: as in `Representation`. Representations of dimension 1 fill planes in pairs, so their number must be
                even.

        Returns:
            The rotation.

        Raises:
            RequestError: the group does not only turn planes, or copies do not fill planes.

        Examples:
            >>> from brojepa import BlockRotation, Cyclic
            >>> print(BlockRotation.of(Cyclic(10), "2x1 + 1x3"))
            Z10: 2x1 + 1x3
            irrep  dim  copies  latent dimensions
            1        2       2  0-3
            3        2       1  4-5
        """
        if group.periods is None:
            raise RequestError(f"{group} does not only turn planes: use Representation")
        theta = []
        for part in parts_of(group, copies):
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
        """Learned angles with a random start.

        Args:
            dim: latent dimension, even.
            shared: one angle for all planes.
            range: "symmetric" starts in [-2 pi, 2 pi], "positive" in [0, 2 pi].
            factors: number of angles per plane, one per factor of a torus.
            generator: draws the start; default torch's.

        Returns:
            The rotation.
        """
        u = torch.rand(1 if shared else dim // 2, *((factors,) if factors > 1 else ()), generator=generator)
        return cls(2 * math.pi * (2 * u - 1 if range == "symmetric" else u), dim, learned=True)

    def turn(self, k: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
        """By how much an action turns each plane.

        If the period is known, whole turns are removed while k is still exact.

        Args:
            k: actions, [...], or [..., factors] for a torus.
            dtype: precision of the result.

        Returns:
            Radians, [..., planes].
        """
        theta = self.theta.to(dtype)
        if self.periods is not None:
            k = k.fmod(self.periods)
            if dtype == torch.float64:  # the angles were rounded to float32
                whole = 2 * math.pi / self.periods.double()
                theta = (theta / whole).round() * whole
        return k[..., None].to(dtype) * theta if theta.ndim == 1 else k.to(dtype) @ theta.T

    def blocks(self, k: Tensor, dtype: torch.dtype = torch.float32) -> list[Tensor]:
        """Cosine and sine of each plane's turn.

        Args:
            k: actions, [..., *group.shape].
            dtype: precision of the result.

        Returns:
            Two tensors, [..., planes] each.
        """
        turn = self.turn(k, dtype)
        return [turn.cos(), turn.sin()]

    def inverse_blocks(self, blocks: list[Tensor]) -> list[Tensor]:
        return [blocks[0], -blocks[1]]

    def move(self, z: Tensor, blocks: list[Tensor]) -> Tensor:
        cos, sin = blocks  # (x, y) -> (x cos - y sin, y cos + x sin)
        xy = z.to(computed_in(z)).unflatten(-1, (-1, 2))
        return (xy * cos[..., None] + xy.flip(-1) * torch.stack((-sin, sin), -1)).flatten(-2).to(z.dtype)

    def nearness(self, z: Tensor, w: Tensor, k: Tensor) -> Tensor:
        """<act(z, k), w>: rotations keep lengths, so |act(z, k) - w|^2 is smallest where this is largest.

        With planes as complex numbers, a turn by t adds Re(w conj(z) exp(-i t)), so no action is carried out.

        Args:
            z: latents to start from, [..., dim].
            w: latents to reach, [..., dim].
            k: the actions to compare, [count, *group.shape].

        Returns:
            One number per action, [..., count].
        """
        (x, y), (u, v) = (latent.float().unflatten(-1, (-1, 2)).unbind(-1) for latent in (z, w))
        turn = self.turn(k).expand(-1, self.dim // 2)
        return (x * u + y * v) @ turn.cos().T + (x * v - y * u) @ turn.sin().T

    def undecayed(self) -> list[nn.Parameter]:
        return [self.theta] if isinstance(self.theta, nn.Parameter) else []

    def logged(self) -> dict[str, Any]:
        return {"angles": self.theta.tolist()} if self.learned_angles else {}

    @property
    def angles(self) -> Tensor:
        theta = self.theta.float()
        return theta.expand(self.dim // 2, *theta.shape[1:])

    @property
    def learned_angles(self) -> bool:
        return isinstance(self.theta, nn.Parameter)

    @property
    def period(self) -> int | None:
        return None if self.group is None or self.learned_angles else self.group.cycle

    def irrep_parts(self, group: Group) -> list[Part] | None:
        """The irreducible representations of a group that are nearest to the angles.

        Args:
            group: the group.

        Returns:
            The parts, or None if the group does not turn planes.

        Examples:
            >>> from brojepa import BlockRotation, Cyclic
            >>> [(part.irrep.name, part.dims) for part in BlockRotation.multi(8, n=4).irrep_parts(Cyclic(4))]
            [('0', (0, 1, 4, 5)), ('1', (2, 3, 6, 7))]
        """
        if group.periods is None:
            return None
        angles = self.angles.detach().cpu().double()
        periods = torch.tensor(group.periods, dtype=torch.float64)
        frequencies = (angles.reshape(self.dim // 2, -1) * periods / (2 * math.pi)).round()
        known = {i.frequency: i for i in group.irreps(int(frequencies.abs().max()) if group.order is None else None)}
        wraps = group.periods if group.order else [0] * len(group.periods)
        planes: dict[str, tuple[Irrep, list[int]]] = {}
        for plane, row in enumerate(frequencies.long().tolist()):
            irrep = next(known[f] for f in _written(row, wraps) if f in known)
            planes.setdefault(irrep.name, (irrep, []))[1].extend((2 * plane, 2 * plane + 1))
        return [Part(irrep, len(dims) // irrep.dim, tuple(dims)) for irrep, dims in planes.values()]

    def extra_repr(self) -> str:
        return f"dim={self.dim}, angles={len(self.theta)}, learned={self.learned_angles}"


def _written(frequency: list[int], wraps: Sequence[int]) -> list[tuple[int, ...]]:
    """The ways to write a frequency and its negative, which turns planes the other way round.

    wraps: per factor, the number of frequencies after which they repeat; 0 for never.
    """
    ways = []
    for sign in (1, -1):
        near = [sign * f - p * round(sign * f / p) if p else sign * f for f, p in zip(frequency, wraps, strict=True)]
        ways.append(tuple(near))
        ways.append(tuple(f + p if p and 2 * f == -p else f for f, p in zip(near, wraps, strict=True)))
    return ways
