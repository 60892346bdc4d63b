"""The symmetries of a regular polygon: turns and flips, whose order matters."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from brojepa.errors import RequestError
from brojepa.groups.group import Element, Group, Irrep, rotation


@dataclass(frozen=True)
class Dihedral(Group):
    """The symmetries of a regular polygon: r turns by 1/n, s flips, and s r s = r^-1.

    The element r^a s^b (flip b times, then turn a times) is the pair (a, b), [..., 2]. D4 moves the pixels of a square
    image.

    Args:
        n: number of corners.

    Raises:
        RequestError: n is too small.

    Examples:
        >>> import torch
        >>> from brojepa import Dihedral
        >>> group = Dihedral(4)
        >>> turn, flip = torch.tensor([1, 0]), torch.tensor([0, 1])
        >>> group.write(group.plain(group.compose(flip, turn))), group.abelian
        ('r3s', False)
    """

    n: int
    shape = (2,)
    example = "r,r-1,s"

    def __post_init__(self) -> None:
        if self.n < 2:
            raise RequestError(f"a dihedral group needs n of 2 or more, got {self.n}")

    def __str__(self) -> str:
        return f"D{self.n}"

    @property
    def order(self) -> int:
        return 2 * self.n

    @property
    def identity(self) -> Tensor:
        return torch.zeros(2, dtype=torch.int64)

    def compose(self, a: Tensor, b: Tensor) -> Tensor:
        turn = torch.where(a[..., 1] % 2 == 0, a[..., 0] + b[..., 0], a[..., 0] - b[..., 0])
        return torch.stack((turn % self.n, (a[..., 1] + b[..., 1]) % 2), -1)

    def inverse(self, a: Tensor) -> Tensor:
        turn = torch.where(a[..., 1] % 2 == 0, -a[..., 0], a[..., 0])
        return torch.stack((turn % self.n, a[..., 1] % 2), -1)

    @property
    def elements(self) -> Tensor:
        return torch.cartesian_prod(torch.arange(self.n), torch.arange(2))

    @property
    def generators(self) -> Tensor:
        return torch.tensor([[1, 0], [self.n - 1, 0], [0, 1]])

    def irreps(self, highest: int | None = None) -> tuple[Irrep, ...]:
        """A1 and A2, for even n also B1 and B2, all of dimension 1; and the planes E1, E2, ..."""
        signs = [("A1", 0, 0), ("A2", 0, 1), *([("B1", 1, 0), ("B2", 1, 1)] if self.n % 2 == 0 else [])]
        lines = [Irrep(name, 1, partial(_sign, by_turn, by_flip)) for name, by_turn, by_flip in signs]
        top = math.ceil(self.n / 2) - 1 if highest is None else min(highest, math.ceil(self.n / 2) - 1)
        planes = [Irrep(f"E{f}", 2, partial(_plane, 2 * math.pi * f / self.n)) for f in range(1, top + 1)]
        return (*lines, *planes)

    @property
    def buckets(self) -> int:
        return self.order

    def bucket(self, a: Tensor) -> Tensor:
        return 2 * (a[..., 0] % self.n) + a[..., 1] % 2

    def write(self, a: Element) -> str:
        turn = {0: "", 1: "r"}.get(a[0], f"r{a[0]}")
        return turn + "s" * a[1] or "1"

    def parse(self, word: str | int) -> Element:
        match = re.fullmatch(r"(?:(r)([+-]?\d+)?)?(s?)", str(word)) if word else None
        if str(word) == "1":
            return (0, 0)
        if not match:
            raise ValueError(word)
        return (int(match[2] or 1) % self.n if match[1] else 0, len(match[3]))


def _sign(by_turn: int, by_flip: int, a: Tensor) -> Tensor:
    """-1 for each turn, each flip, or both, where they count: [..., 2] -> [..., 1, 1]."""
    return 1 - 2 * ((by_turn * a[..., 0] + by_flip * a[..., 1]) % 2).float()[..., None, None]


def _plane(step: float, a: Tensor) -> Tensor:
    """A plane that is flipped and then turns by `step` radians per turn: [..., 2] -> [..., 2, 2]."""
    turned = rotation(step * a[..., 0].float())
    return turned * torch.stack((torch.ones_like(a[..., 1]), 1 - 2 * (a[..., 1] % 2)), -1)[..., None, :]
