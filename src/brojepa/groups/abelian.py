"""Groups whose elements are numbers that add up modulo a period: cycles and the circle; `product` has tori.

All their irreducible representations turn a plane by an angle linear in the element, or flip a line, or do nothing:
frequency f of a cycle of n turns by 2 pi f k / n, and the factors of a product add up.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from brojepa.errors import RequestError
from brojepa.groups.group import Group, Irrep, rotation
from brojepa.text import signed


class Abelian(Group):
    """A group whose elements are numbers that add up modulo `periods`, one per factor."""

    periods: tuple[int, ...]

    def turn(self, k: Tensor, frequency: Sequence[int]) -> Tensor:
        """The angle by which element k turns a plane of a frequency, one number per factor: [...] radians."""
        factors = zip(k.unbind(-1) if self.shape else (k,), frequency, self.periods, strict=True)
        # whole turns are taken off while k is still exact
        return torch.stack([(part * f % whole).float() * (2 * math.pi / whole) for part, f, whole in factors]).sum(0)

    def canonical(self, k: Tensor) -> Tensor:
        period = torch.tensor(self.periods if self.shape else self.periods[0], device=k.device)
        return period // 2 - (period // 2 - k) % period

    def gap(self, a: Tensor, b: Tensor) -> Tensor:
        away = self.canonical(self.compose(a, self.inverse(b))).abs().float()
        return away.sum(-1) if self.shape else away

    def candidates(self) -> Tensor:
        k = self.canonical(torch.arange(self.periods[0]).to(self.dtype))
        return k[(2 * k.abs() + (k < 0)).argsort()]

    def _irrep(self, frequency: tuple[int, ...], *, line: bool) -> Irrep:
        """line: the frequency is its own negative, so nothing turns; at most the sign changes."""
        dim, matrix = (1, self._sign) if line else (2, self._plane)
        return Irrep(":".join(map(str, frequency)), dim, partial(matrix, frequency), dim, frequency)

    def _sign(self, frequency: tuple[int, ...], k: Tensor) -> Tensor:
        return self.turn(k, frequency).cos()[..., None, None]

    def _plane(self, frequency: tuple[int, ...], k: Tensor) -> Tensor:
        return rotation(self.turn(k, frequency))


@dataclass(frozen=True)
class Cyclic(Abelian):
    """The cyclic group Z_n, n >= 2. The state y moves to (y + k) mod n under action k.

    Actions are written as signed integers -(n-1)..(n-1), as in the paper. +9 and -1 are one element of Z_10, but two
    different requests to a latent action. Only the one that training used counts as seen.

    Args:
        n: length of the cycle.

    Raises:
        RequestError: n is below 2.

    Examples:
        >>> from brojepa import Cyclic
        >>> group = Cyclic(10)
        >>> group.apply(8, 5), len(group.actions)
        (3, 18)
    """

    n: int

    def __post_init__(self) -> None:
        if self.n < 2:
            raise RequestError(f"a cycle needs at least 2 states, got {self.n}: the world must show two states or more")

    def __str__(self) -> str:
        return f"Z{self.n}"

    identity = 0
    example = "-1,1"

    @property
    def order(self) -> int:
        return self.n

    @property
    def cycle(self) -> int:
        return self.n

    @property
    def periods(self) -> tuple[int, ...]:
        return (self.n,)

    @property
    def actions(self) -> tuple[int, ...]:
        """Every action but the identity, most negative first."""
        return tuple(k for k in range(1 - self.n, self.n) if k)

    @property
    def elements(self) -> Tensor:
        return torch.arange(self.n)

    @property
    def generators(self) -> Tensor:
        return torch.tensor([1, -1])

    def apply(self, state, k):
        """The state after action k; integers or integer tensors."""
        return (state + k) % self.n

    def compose(self, a, b):
        """The action that does both, as an element 0..n-1; integers or integer tensors."""
        return (a + b) % self.n

    def inverse(self, a):
        """The element 0..n-1 that undoes a."""
        return -a % self.n

    def shared(self, some: Sequence[int], others: Sequence[int]) -> tuple[int, ...]:
        """By number: +9 and -1 of Z_10 are two actions."""
        return tuple(k for k in some if k in others)

    def undone(self, k: Tensor) -> Tensor:
        """-k, by number: undoing +1 is -1, and not +9."""
        return -k

    def irreps(self, highest: int | None = None) -> tuple[Irrep, ...]:
        top = self.n // 2 if highest is None else min(highest, self.n // 2)
        return tuple(self._irrep((f,), line=2 * f % self.n == 0) for f in range(top + 1))

    @property
    def buckets(self) -> int:
        return 2 * self.n - 1

    def bucket(self, a: Tensor) -> Tensor:
        return a + self.n - 1

    @property
    def residues(self) -> int:
        return self.n

    def residue(self, a: Tensor) -> Tensor:
        return a.long() % self.n

    def write(self, a: int) -> str:
        return signed(int(a))

    def parse(self, word: str | int) -> int:
        return int(word)

    def check(self, actions: Sequence[str | int], name: str) -> tuple[int, ...]:
        elements = super().check(actions, name)
        for k in elements:
            if not -self.n < k < self.n:
                raise RequestError(
                    f"{name}: {signed(k)} is outside the group, with {self.n} states actions run from "
                    f"{signed(1 - self.n)} to {signed(self.n - 1)}"
                )
        return elements

    def rollout(self, k: int, primitives: Sequence[int]) -> tuple[int, int] | None:
        """As in the paper, by the smallest primitive of k's own sign; failing that, by the others, around the cycle
        if need be."""
        for p in sorted(primitives, key=lambda p: (p * k < 0, abs(p))):
            for steps in range(1, self.n + 1):
                if (p * steps - k) % self.n == 0:
                    return p, steps
        return None


@dataclass(frozen=True)
class SO2(Abelian):
    """The circle: rotations of the plane, in degrees.

    Examples:
        >>> import torch
        >>> from brojepa import SO2
        >>> group = SO2()
        >>> group.compose(torch.tensor(350.0), torch.tensor(20.0)).item()
        10.0
        >>> group.distance(torch.tensor(350.0), torch.tensor(20.0)).item()
        30.0
    """

    dtype = torch.float32
    identity = 0.0
    periods = (360,)
    buckets = 3600
    example = "-10,10"

    def __str__(self) -> str:
        return "SO2"

    @property
    def generators(self) -> Tensor:
        return torch.tensor([1.0, -1.0])

    def compose(self, a, b):
        """Degrees in [0, 360)."""
        return (a + b) % 360

    def inverse(self, a):
        return -a % 360

    def sample(self, count: int, generator: torch.Generator | None = None) -> Tensor:
        return 360 * torch.rand(count, generator=generator)

    def around(self, a: Tensor, degrees: float) -> Tensor:
        return self.compose(a[..., None], torch.tensor([-degrees, degrees], device=a.device))

    def irreps(self, highest: int | None = None) -> tuple[Irrep, ...]:
        return tuple(self._irrep((f,), line=f == 0) for f in range((8 if highest is None else highest) + 1))

    def distance(self, a: Tensor, b: Tensor) -> Tensor:
        return ((a - b + 180) % 360 - 180).abs()

    def coordinates(self, a: Tensor) -> Tensor:
        """Radians in [-pi, pi)."""
        return torch.deg2rad((a.float() + 180) % 360 - 180)[..., None]

    def bucket(self, a: Tensor) -> Tensor:
        return (10 * a).round().long() % self.buckets

    def rollout(self, k: float, primitives: Sequence[float]) -> tuple[float, int] | None:
        """Whole multiples of a primitive, the smallest first, at most once around."""
        for p in sorted(primitives, key=lambda p: (p * k < 0, abs(p))):
            steps = round(k / p) if p else 0
            if 0 < steps <= 360 / abs(p) and math.isclose(p * steps, k, abs_tol=1e-6):
                return p, steps
        return None

    def write(self, a: float) -> str:
        return f"{a:+g}" if a else "0"

    def parse(self, word: str | float) -> float:
        if not math.isfinite(float(word)):
            raise ValueError(word)
        return float(word)
