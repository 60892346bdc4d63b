"""Groups in which order does not matter: cycles, the circle, and products of them (tori).

All their irreducible representations turn a plane by an angle linear in the element, or flip a line, or do nothing:
frequency f of a cycle of n turns by 2 pi f k / n, and the factors of a product add up.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import torch
from torch import Tensor

from brojepa.errors import RequestError
from brojepa.groups.group import Element, Group, Irrep, rotation
from brojepa.text import signed


class Abelian(Group):
    """periods: how many units of each factor make a whole turn at frequency 1."""

    periods: tuple[int, ...]

    def turn(self, k: Tensor, frequency: Sequence[int]) -> Tensor:
        """The angle by which element k turns a plane of a frequency: [...] radians."""
        whole = self.periods[0]  # taken off while k is still exact
        return (k * frequency[0] % whole).float() * (2 * math.pi / whole)

    def _irrep(self, frequency: tuple[int, ...], line: bool) -> Irrep:
        name = ":".join(map(str, frequency))
        if line:  # a frequency that is its own mirror image: nothing turns, at most a sign
            return Irrep(name, 1, lambda k: self.turn(k, frequency).cos()[..., None, None], 1, frequency)
        return Irrep(name, 2, lambda k: rotation(self.turn(k, frequency)), 2, frequency)


@dataclass(frozen=True)
class Cyclic(Abelian):
    """The cyclic group Z_n, n >= 2. The state y moves to (y + k) mod n under action k.

    Actions are written as signed integers -(n-1)..(n-1), as in the paper: +9 and -1 are one element of Z_10 but two
    things one can ask a latent action to do, and only the one that training asked for counts as seen.
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

    def irreps(self, highest: int | None = None) -> tuple[Irrep, ...]:
        top = self.n // 2 if highest is None else min(highest, self.n // 2)
        return tuple(self._irrep((f,), line=2 * f % self.n == 0) for f in range(top + 1))

    @property
    def buckets(self) -> int:
        return 2 * self.n - 1

    def bucket(self, a: Tensor) -> Tensor:
        return a + self.n - 1

    def write(self, a: int) -> str:
        return signed(int(a))

    def parse(self, word: str | int) -> int:
        return int(word)

    def check(self, actions: Sequence[str | int], name: str) -> tuple[int, ...]:
        found = super().check(actions, name)
        for k in found:
            if not -self.n < k < self.n:
                raise RequestError(
                    f"{name}: {signed(k)} is outside the group, with {self.n} states actions run from "
                    f"{signed(1 - self.n)} to {signed(self.n - 1)}"
                )
        return found

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
    """The circle: turns of the plane, written in degrees."""

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


@dataclass(frozen=True)
class Product(Abelian):
    """Cycles and circles side by side, a torus: Z10 x Z10 moves two digits at once. Elements [..., factors]."""

    factors: tuple[Cyclic | SO2, ...]

    def __post_init__(self) -> None:
        if len(self.factors) < 2 or not all(isinstance(f, (Cyclic, SO2)) for f in self.factors):
            raise RequestError(
                f"a product needs two or more cycles or circles, got {', '.join(map(str, self.factors))}"
            )

    def __str__(self) -> str:
        return "x".join(map(str, self.factors))

    @property
    def shape(self) -> tuple[int, ...]:
        return (len(self.factors),)

    @property
    def dtype(self) -> torch.dtype:
        return torch.float32 if any(isinstance(f, SO2) for f in self.factors) else torch.int64

    @property
    def order(self) -> int | None:
        return None if self.dtype == torch.float32 else math.prod(f.order for f in self.factors if f.order)

    @property
    def periods(self) -> tuple[int, ...]:
        return tuple(p for f in self.factors for p in f.periods)

    def turn(self, k: Tensor, frequency: Sequence[int]) -> Tensor:
        parts = [f.turn(k[..., i], frequency[i : i + 1]) for i, f in enumerate(self.factors)]
        return torch.stack(parts).sum(0)

    @property
    def identity(self) -> Tensor:
        return torch.zeros(self.shape, dtype=self.dtype)

    @property
    def example(self) -> str:
        unit = ["10" if isinstance(f, SO2) else "1" for f in self.factors]
        return ",".join(":".join(u if i == j else "0" for j, u in enumerate(unit)) for i in range(len(unit)))

    def _each(self, name: str, *elements: Tensor) -> list[Tensor]:
        """A method of every factor on its own part of the elements."""
        return [getattr(f, name)(*(e[..., i] for e in elements)) for i, f in enumerate(self.factors)]

    def compose(self, a: Tensor, b: Tensor) -> Tensor:
        return torch.stack(self._each("compose", *torch.broadcast_tensors(a, b.to(a.device))), -1)

    def inverse(self, a: Tensor) -> Tensor:
        return torch.stack(self._each("inverse", a), -1)

    @property
    def generators(self) -> Tensor:
        rows = [
            [g if i == j else 0 for j in range(len(self.factors))]
            for i, f in enumerate(self.factors)
            for g in f.generators.tolist()
        ]
        return torch.tensor(rows, dtype=self.dtype)

    @property
    def elements(self) -> Tensor:
        return torch.cartesian_prod(*(f.elements for f in self.factors))

    @property
    def actions(self) -> tuple[Element, ...]:
        """Every element but the identity, each as near 0 as it can be written."""
        every = product(*(range(-((f.n - 1) // 2), f.n // 2 + 1) for f in self.factors if isinstance(f, Cyclic)))
        return tuple(k for k in every if any(k)) if self.order else ()

    def sample(self, count: int, generator: torch.Generator | None = None) -> Tensor:
        return torch.stack([f.sample(count, generator).to(self.dtype) for f in self.factors], -1)

    def irreps(self, highest: int | None = None) -> tuple[Irrep, ...]:
        """Of a frequency and its negative one is listed, the one whose first number that is not its own mirror image
        is the smaller."""
        ranges = []
        for f in self.factors:
            top = f.irreps(highest)[-1].frequency[0]  # pyright: ignore[reportOptionalSubscript]
            even = isinstance(f, Cyclic) and 2 * top == f.n
            ranges.append([*range(top + 1), *range(-1, -top - (not even), -1)])
        found: dict[tuple[int, ...], Irrep] = {}
        for frequency in product(*ranges):
            mirror = tuple(0 if f == 0 else -f if -f in r else f for f, r in zip(frequency, ranges, strict=True))
            if mirror not in found:
                found[frequency] = self._irrep(frequency, line=mirror == frequency)
        return tuple(found.values())

    def distance(self, a: Tensor, b: Tensor) -> Tensor:
        return torch.stack(self._each("distance", *torch.broadcast_tensors(a, b)), -1).square().sum(-1).sqrt()

    @property
    def buckets(self) -> int:
        return math.prod(3600 if isinstance(f, SO2) else f.n for f in self.factors)

    def bucket(self, a: Tensor) -> Tensor:
        place = torch.zeros(a.shape[:-1], dtype=torch.long, device=a.device)
        for i, f in enumerate(self.factors):
            part = f.bucket(a[..., i]) if isinstance(f, SO2) else a[..., i].long() % f.n
            place = place * (3600 if isinstance(f, SO2) else f.n) + part
        return place

    def apply(self, state, k):
        """States count through the product, the last factor fastest: of two digits, 37 is 3 and 7."""
        if self.order is None:
            raise RequestError(f"{self} moves no labelled states: it is continuous")
        sizes = [f.n for f in self.factors if isinstance(f, Cyclic)]
        result, weight = 0, 1
        for i in reversed(range(len(sizes))):
            result = result + weight * ((state // weight % sizes[i] + k[..., i]) % sizes[i])
            weight *= sizes[i]
        return result

    def write(self, a: Element) -> str:
        return ":".join(f.write(part) for f, part in zip(self.factors, a, strict=True))

    def parse(self, word: str | int) -> Element:
        parts = str(word).split(":")
        found = [f.parse(part) for f, part in zip(self.factors, parts, strict=True)]
        return tuple(
            (k + (f.n - 1) // 2) % f.n - (f.n - 1) // 2 if isinstance(f, Cyclic) else k
            for f, k in zip(self.factors, found, strict=True)
        )
