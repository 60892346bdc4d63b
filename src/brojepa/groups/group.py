"""What every group offers: its law on plain tensors, its real irreducible representations, its elements in words.

An element is a tensor of the group's `shape`, and a batch of them has that shape at the end: a cycle's elements are
integers, so a batch is [...]; a quaternion has 4 numbers, so a batch is [..., 4]. `compose(a, b)` does b first and
then a, so that representations multiply in the same order, rho(ab) = rho(a) rho(b).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from brojepa.errors import RequestError

Element = Any
"""An element as plain Python, what a config or a result holds: an integer, a number, or a tuple of them."""


@dataclass(frozen=True)
class Irrep:
    """A real irreducible representation: elements [..., *shape] -> orthogonal matrices [..., dim, dim].

    commutant: the dimension of what commutes with all its matrices, 1 or, for a plane that turns one way, 2. Over all
    of a finite group's irreducible representations, dim ** 2 / commutant adds up to the order.
    frequency: of each factor of an abelian group, whose matrices turn a plane; None for the others.
    """

    name: str
    dim: int
    matrix: Callable[[Tensor], Tensor]
    commutant: int = 1
    frequency: tuple[int, ...] | None = None


class Group:
    """A group whose elements are tensors of `shape` and `dtype`; `order` is None where there are infinitely many."""

    shape: tuple[int, ...] = ()
    dtype: torch.dtype = torch.int64
    order: int | None = None
    buckets: int
    identity: Any
    """The element that does nothing."""

    def compose(self, a: Any, b: Any) -> Any:
        """ab: b, then a."""
        raise NotImplementedError

    def inverse(self, a: Any) -> Any:
        raise NotImplementedError

    def power(self, a: Any, k: int) -> Any:
        """a taken k times; its inverse |k| times where k is negative."""
        base, result = (a if k >= 0 else self.inverse(a)), self.compose(self.identity, self.identity)
        for bit in reversed(f"{abs(k):b}"):
            result = self.compose(result, base) if bit == "1" else result
            base = self.compose(base, base)
        return result

    @property
    def generators(self) -> Tensor:
        """Elements whose products reach all others, [count, *shape]; for a continuous group, turns by a degree."""
        raise NotImplementedError

    @property
    def elements(self) -> Tensor:
        """All elements of a finite group, [order, *shape]."""
        raise RequestError(f"{self} has no list of elements: it is continuous, use sample or grid")

    def sample(self, count: int, generator: torch.Generator | None = None) -> Tensor:
        """Elements drawn uniformly, [count, *shape]."""
        if self.order is None:
            raise NotImplementedError
        return self.elements[torch.randint(self.order, (count,), generator=generator)]

    def irreps(self, highest: int | None = None) -> tuple[Irrep, ...]:
        """The real irreducible representations; of a continuous group those up to frequency `highest`."""
        raise NotImplementedError

    def distance(self, a: Tensor, b: Tensor) -> Tensor:
        """How far apart two elements are, in degrees where the group turns things, else 0 or 1: [...]."""
        different = self.compose(a, self.inverse(b)) != torch.as_tensor(self.identity, device=b.device)
        return (different.any(-1) if self.shape else different).float()

    def coordinates(self, a: Tensor) -> Tensor:
        """The element as numbers that a network can read, and that add up where that makes sense: [..., count]."""
        return a.float() if self.shape else a.float()[..., None]

    def bucket(self, a: Tensor) -> Tensor:
        """Where an element is marked as used in a table of `buckets` entries, [...]. Elements of a continuous group
        that are all but equal share an entry."""
        raise NotImplementedError

    # Elements as plain Python and in words

    @property
    def actions(self) -> tuple[Element, ...]:
        """Every element of a finite group but the identity, plainly; a continuous group lists none."""
        if self.order is None:
            return ()
        return tuple(e for e in map(self.plain, self.elements) if e != self.plain(torch.as_tensor(self.identity)))

    def plain(self, a: Tensor) -> Element:
        return tuple(a.tolist()) if self.shape else a.tolist()

    def tensor(self, elements: Sequence[Element]) -> Tensor:
        """Plain elements as a tensor [count, *shape]."""
        return torch.tensor(elements, dtype=self.dtype).reshape(-1, *self.shape)

    def write(self, a: Element) -> str:
        """A plain element in words, as `parse` reads them."""
        raise NotImplementedError

    def parse(self, word: str | int) -> Element:
        """The element that a word names, plainly; ValueError if it names none."""
        raise NotImplementedError

    example = ""
    """Words for a few elements, for error messages."""

    def check(self, actions: Sequence[str | Element], name: str) -> tuple[Element, ...]:
        """The plain elements that words (or plain elements) name, or an error if one is repeated or names none."""
        found = []
        for word in actions:
            try:
                found.append(self.parse(self.write(word) if isinstance(word, tuple) else word))
            except (ValueError, TypeError, IndexError):
                raise RequestError(f"{name}: {word} is no action of {self}, write them as in {self.example}") from None
        if len(set(found)) != len(found):
            raise RequestError(f"{name}: {','.join(map(self.write, found))} names an action twice, list each once")
        return tuple(found)

    def apply(self, state: Any, k: Any) -> Any:
        """The state, an integer, after action k, for groups that move labelled states."""
        raise NotImplementedError

    def rollout(self, k: Element, primitives: Sequence[Element]) -> tuple[Element, int] | None:
        """How to reach k by repeating one primitive: (primitive, steps), or None if that cannot be done."""
        return None


def rotation(turn: Tensor) -> Tensor:
    """The matrices that turn a plane, [...] radians -> [..., 2, 2]."""
    cos, sin = turn.cos(), turn.sin()
    return torch.stack((torch.stack((cos, -sin), -1), torch.stack((sin, cos), -1)), -2)
