"""Cycles and circles side by side: tori."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import product

import torch
from torch import Tensor

from brojepa.errors import RequestError
from brojepa.groups.abelian import Abelian
from brojepa.groups.group import Element, Group, Irrep


@dataclass(frozen=True)
class Product(Abelian):
    """Cycles and circles side by side: a torus. Z10 x Z10 moves two digits at once. Elements are [..., factors].

    Args:
        factors: the groups, each a `Cyclic` or `SO2`.

    Raises:
        RequestError: fewer than two factors, or another kind of group.

    Examples:
        >>> from brojepa import Cyclic, Product
        >>> torus = Product((Cyclic(10), Cyclic(10)))
        >>> str(torus), torus.order, torus.write((3, -1))
        ('Z10xZ10', 100, '+3:-1')
    """

    factors: tuple[Group, ...]

    def __post_init__(self) -> None:
        if len(self.factors) < 2 or any(f.periods is None or f.shape for f in self.factors):
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
        return torch.float32 if any(f.dtype == torch.float32 for f in self.factors) else torch.int64

    @property
    def order(self) -> int | None:
        orders = [f.order for f in self.factors if f.order]
        return math.prod(orders) if len(orders) == len(self.factors) else None

    @property
    def periods(self) -> tuple[int, ...]:
        return tuple(p for f in self.factors for p in f.periods or ())

    @property
    def identity(self) -> Tensor:
        return torch.zeros(self.shape, dtype=self.dtype)

    @property
    def example(self) -> str:
        unit = [f.example.rpartition(",")[2] for f in self.factors]
        return ",".join(":".join(u if i == j else "0" for j, u in enumerate(unit)) for i in range(len(unit)))

    def _each(self, name: str, *elements: Tensor) -> list[Tensor]:
        """A method of each factor on its own part of the elements."""
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
        """Every element but the identity, each as its representative closest to 0."""
        if self.order is None:
            return ()
        return tuple(k for k in product(*(sorted(f.candidates().tolist()) for f in self.factors)) if any(k))

    def candidates(self) -> Tensor:
        return torch.cartesian_prod(*(f.candidates().to(self.dtype) for f in self.factors))

    def sample(self, count: int, generator: torch.Generator | None = None) -> Tensor:
        return torch.stack([f.sample(count, generator).to(self.dtype) for f in self.factors], -1)

    def irreps(self, highest: int | None = None) -> tuple[Irrep, ...]:
        """f and -f give the same real irrep; the one whose first non-self-inverse component is positive is listed."""
        ranges = []
        for factor in self.factors:
            own = [(i.frequency[0], i.dim) for i in factor.irreps(highest) if i.frequency]
            ranges.append([*(f for f, _ in own), *(-f for f, dim in own if dim == 2)])
        listed: dict[tuple[int, ...], Irrep] = {}
        for frequency in product(*ranges):
            negative = tuple(-f if -f in r else f for f, r in zip(frequency, ranges, strict=True))
            if negative not in listed:
                listed[frequency] = self._irrep(frequency, line=negative == frequency)
        return tuple(listed.values())

    def simple_irreps(self) -> tuple[Irrep, ...]:
        return tuple(i for i in self.irreps() if sum(map(bool, i.frequency or ())) < 2)

    def distance(self, a: Tensor, b: Tensor) -> Tensor:
        return torch.stack(self._each("distance", *torch.broadcast_tensors(a, b)), -1).square().sum(-1).sqrt()

    @property
    def buckets(self) -> int:
        return math.prod(f.residues for f in self.factors)

    def bucket(self, a: Tensor) -> Tensor:
        """The residues of the factors as the digits of a number, the last one fastest."""
        place = torch.zeros(a.shape[:-1], dtype=torch.long, device=a.device)
        for factor, residue in zip(self.factors, self._each("residue", a), strict=True):
            place = place * factor.residues + residue
        return place

    def apply(self, state, k):
        """States count through the product, the last factor fastest: of two digits, 37 is 3 and 7."""
        if self.order is None:
            raise RequestError(f"{self} moves no labelled states: it is continuous")
        result, weight = 0, 1
        for i, factor in reversed([*enumerate(self.factors)]):
            result = result + weight * factor.apply(state // weight % factor.residues, k[..., i])
            weight *= factor.residues
        return result

    def write(self, a: Element) -> str:
        return ":".join(f.write(part) for f, part in zip(self.factors, a, strict=True))

    def parse(self, word: str | int) -> Element:
        """A cycle's part is its representative closest to 0; degrees stay as they were written."""
        parts = [f.parse(part) for f, part in zip(self.factors, str(word).split(":"), strict=True)]
        return tuple(
            f.plain(f.canonical(f.tensor([part % f.cycle])[0])) if f.cycle else part
            for f, part in zip(self.factors, parts, strict=True)
        )
