"""Turns of space. Its representations are Wigner's matrices, from e3nn (the extra `[so3]`)."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from brojepa.errors import RequestError
from brojepa.groups.group import Element, Group, Irrep

AXES = "xyz"
CANDIDATES = 4096  # evenly spread rotations to search among


@dataclass(frozen=True)
class SO3(Group):
    """Rotations of space as unit quaternions w, x, y, z, [..., 4]; q and -q are the same rotation.

    Its representations need e3nn: `pip install 'brojepa[so3]'`.

    Examples:
        >>> import torch
        >>> from brojepa import SO3
        >>> group = SO3()
        >>> quarter = torch.tensor(group.parse("x90"))
        >>> round(group.angle(group.compose(quarter, quarter)).item())
        180
    """

    shape = (4,)
    dtype = torch.float32
    buckets = 1801
    example = "x15,x-15"

    def __str__(self) -> str:
        return "SO3"

    @property
    def identity(self) -> Tensor:
        return torch.tensor([1.0, 0, 0, 0])

    def compose(self, a: Tensor, b: Tensor) -> Tensor:
        a, b = torch.broadcast_tensors(a, b.to(a.device))
        w = a[..., 0] * b[..., 0] - (a[..., 1:] * b[..., 1:]).sum(-1)
        v = a[..., :1] * b[..., 1:] + b[..., :1] * a[..., 1:] + torch.linalg.cross(a[..., 1:], b[..., 1:])
        return torch.nn.functional.normalize(torch.cat((w[..., None], v), -1), dim=-1)

    def inverse(self, a: Tensor) -> Tensor:
        return a * torch.tensor([1.0, -1, -1, -1], device=a.device)

    @property
    def generators(self) -> Tensor:
        return self.tensor([self.parse(f"{axis}{degrees}") for axis in AXES for degrees in (1, -1)])

    def sample(self, count: int, generator: torch.Generator | None = None) -> Tensor:
        return torch.nn.functional.normalize(torch.randn(count, 4, generator=generator), dim=-1)

    def grid(self, count: int) -> Tensor:
        """Evenly spread rotations, [count, 4]: a super-Fibonacci spiral (Alexa, 2022)."""
        share = (torch.arange(count, dtype=torch.float64) + 0.5) / count
        first = 2 * math.pi * count * share / math.sqrt(2)
        second = 2 * math.pi * count * share / 1.533751168755204288118041
        inner, outer = share.sqrt(), (1 - share).sqrt()
        parts = (inner * first.sin(), inner * first.cos(), outer * second.sin(), outer * second.cos())
        return torch.stack(parts, -1).float()

    def around(self, a: Tensor, degrees: float) -> Tensor:
        """After `a`, a turn by this many degrees about each of 12 axes: the middles of a cube's edges, so that turns by
        these steps lie as densely packed as balls do."""
        edges = [(i, j, s, t) for i in range(3) for j in range(i) for s in (1, -1) for t in (1, -1)]
        axes = torch.zeros(len(edges), 3, device=a.device)
        for row, (i, j, s, t) in enumerate(edges):
            axes[row, i], axes[row, j] = s * math.sqrt(0.5), t * math.sqrt(0.5)
        half = math.radians(degrees) / 2
        turns = torch.cat((torch.full((len(axes), 1), math.cos(half), device=a.device), math.sin(half) * axes), 1)
        return self.compose(turns, a[..., None, :])

    def candidates(self) -> Tensor:
        return torch.cat((self.identity[None], self.grid(CANDIDATES)))

    def matrix(self, a: Tensor) -> Tensor:
        """The turns as they move points of space, [..., 3, 3]."""
        w, x, y, z = a.unbind(-1)
        rows = (
            (1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)),
            (2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)),
            (2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)),
        )
        return torch.stack([torch.stack(row, -1) for row in rows], -2)

    def irreps(self, highest: int | None = None) -> tuple[Irrep, ...]:
        """Degrees 0 to `highest`, of dimension 1, 3, 5, ..."""
        top = 3 if highest is None else highest
        return tuple(Irrep(str(degree), 2 * degree + 1, partial(_wigner, degree)) for degree in range(top + 1))

    def angle(self, a: Tensor) -> Tensor:
        """By how many degrees an element turns, 0 to 180: [...]."""
        return torch.rad2deg(2 * torch.atan2(a[..., 1:].norm(dim=-1), a[..., 0].abs()))

    def distance(self, a: Tensor, b: Tensor) -> Tensor:
        return self.angle(self.compose(a, self.inverse(b)))

    def coordinates(self, a: Tensor) -> Tensor:
        """The axis times the angle in radians, [..., 3]."""
        a = torch.where(a[..., :1] < 0, -a, a)
        axis = torch.nn.functional.normalize(a[..., 1:], dim=-1)
        return axis * torch.deg2rad(self.angle(a))[..., None]

    def bucket(self, a: Tensor) -> Tensor:
        """By the angle: if one element was used, all with the same angle count as used, to be on the safe side."""
        return (10 * self.angle(a)).round().long()

    def write(self, a: Element) -> str:
        for i, axis in enumerate(AXES):
            if all(abs(a[1 + j]) < 1e-6 for j in range(3) if j != i):
                degrees = math.degrees(2 * math.atan2(a[1 + i], a[0]))
                return f"{axis}{(degrees + 180) % 360 - 180:.6g}"
        return "/".join(f"{part:.6g}" for part in a)

    def parse(self, word: str | int) -> Element:
        """x15, degrees about an axis, or the quaternion w/x/y/z."""
        match = re.fullmatch(r"([xyz])([+-]?[\d.]+)", str(word))
        if not match:
            return _quaternion(str(word))
        half = math.radians(float(match[2])) / 2
        return (math.cos(half), *(math.sin(half) if axis == match[1] else 0.0 for axis in AXES))


def _quaternion(word: str) -> Element:
    """Four numbers, of length 1 but for rounding."""
    parts = tuple(map(float, word.split("/")))
    length = math.hypot(*parts)
    if len(parts) != 4 or not abs(length - 1) < 1e-3:
        raise ValueError(word)
    return tuple(part / length for part in parts)


def _wigner(degree: int, a: Tensor) -> Tensor:
    """Wigner's matrices of a degree: [..., 4] -> [..., 2 degree + 1, 2 degree + 1]."""
    try:
        from e3nn import o3
    except ImportError:
        raise RequestError("turns of space need e3nn: pip install 'brojepa[so3]'") from None
    return o3.wigner_D(degree, *o3.quaternion_to_angles(a.float()))
