"""The interface of a group: its law on plain tensors, its real irreducible representations, its elements as text.

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

SAME = 1e-3  # degrees within which two elements are equal: float32 cannot resolve closer rotations in space

Element = Any
"""An element as plain Python, what a config or a result holds: an integer, a number, or a tuple of them."""


@dataclass(frozen=True)
class Irrep:
    """A real irreducible representation: elements [..., *shape] -> orthogonal matrices [..., dim, dim].

    commutant: the dimension of what commutes with all its matrices, 1 or, for a plane that turns one way, 2. Over all
    of a finite group's irreducible representations, dim ** 2 / commutant adds up to the order.
    frequency: one number per factor of a cycle, a circle or a torus, where a plane turns by frequency * element /
    period; None for other groups.
    """

    name: str
    dim: int
    matrix: Callable[[Tensor], Tensor]
    commutant: int = 1
    frequency: tuple[int, ...] | None = None


class Group:
    """A group whose elements are tensors of `shape` and `dtype`. Subclass it for a group of your own.

    Required: `identity`, `compose`, `inverse`, `generators`, `irreps`, `buckets`, `bucket`, `write`, `parse`; for a
    finite group `order` and `elements`, for a continuous one `sample`. The rest follows from these.

    Examples:
        >>> import brojepa
        >>> group = brojepa.Cyclic(10)
        >>> isinstance(group, brojepa.Group), group.order, group.abelian
        (True, 10, True)
        >>> group.compose(7, 5), group.inverse(3), group.write(3)
        (2, 7, '+3')
    """

    shape: tuple[int, ...] = ()
    dtype: torch.dtype = torch.int64
    order: int | None = None
    """How many elements there are; None for infinitely many."""
    buckets: int
    """How many entries the table of actions seen in training has."""
    identity: Any
    """The element that does nothing."""
    example = ""
    """Words for a few elements, for error messages; the last one is a small step."""
    periods: tuple[int, ...] | None = None
    """The period of each factor where elements are numbers that add up modulo it: (10,) for Z10, (360,) for degrees,
    (10, 26) for a torus. None for all other groups."""
    cycle: int | None = None
    """n where the group is one cycle of n; else None."""

    # The law

    def compose(self, a: Any, b: Any) -> Any:
        """ab: b, then a."""
        raise NotImplementedError

    def inverse(self, a: Any) -> Any:
        """The element that undoes a."""
        raise NotImplementedError

    @property
    def abelian(self) -> bool:
        """Whether ab = ba for all elements. In a finite group it is enough that the generators commute."""
        if self.order is None:
            return self.periods is not None
        a, b = self.generators[:, None], self.generators[None]
        return torch.equal(self.compose(a, b), self.compose(b, a))

    def distance(self, a: Tensor, b: Tensor) -> Tensor:
        """How far apart two elements are, in degrees where the group turns things, else 0 or 1: [...]."""
        different = self.compose(a, self.inverse(b)) != torch.as_tensor(self.identity, device=b.device)
        return (different.any(-1) if self.shape else different).float()

    def gap(self, a: Tensor, b: Tensor) -> Tensor:
        """The distance of two elements in natural units: steps of a cycle, added up over the factors of a torus,
        degrees of a turn, else 0 or 1: [...]."""
        return self.distance(a, b)

    def apply(self, state: Any, k: Any) -> Any:
        """The state, an integer, after action k, for groups that move labelled states."""
        raise NotImplementedError

    def rollout(self, k: Element, primitives: Sequence[Element]) -> tuple[Element, int] | None:
        """How to reach k by repeating one primitive: (primitive, steps), or None if that cannot be done."""
        return None

    # Elements

    @property
    def generators(self) -> Tensor:
        """Elements whose products reach all others, [count, *shape]; for a continuous group, turns by one degree."""
        raise NotImplementedError

    def one_way_generators(self) -> list[Element]:
        """The generators as plain elements, without those that undo an earlier one: 1 and not -1."""
        kept: list[Element] = []
        undone: set[Element] = set()
        for k, back in zip(self.generators, self.inverse(self.generators), strict=True):
            if self.plain(self.canonical(k)) not in undone:
                kept.append(self.plain(k))
            undone.add(self.plain(self.canonical(back)))
        return kept

    @property
    def elements(self) -> Tensor:
        """All elements of a finite group, [order, *shape], the identity first."""
        raise RequestError(f"{self} has no list of elements: it is continuous, use sample or grid")

    def candidates(self) -> Tensor:
        """Elements among which an action is searched for, [count, *shape], the identity first.

        All of a finite group, those of a cycle nearest to 0 first; every whole degree of the circle; 4,096 turns of
        space.
        """
        return self.elements

    def canonical(self, k: Tensor) -> Tensor:
        """Elements [..., *shape] in one form each; where they are numbers, the representative closest to 0.

        In Z10, 9 and 19 are both -1; 350 degrees are -10.
        """
        return self.compose(k, torch.as_tensor(self.identity, device=k.device))

    def sample(self, count: int, generator: torch.Generator | None = None) -> Tensor:
        """Elements drawn uniformly, [count, *shape]."""
        if self.order is None:
            raise NotImplementedError
        return self.elements[torch.randint(self.order, (count,), generator=generator)]

    def around(self, a: Tensor, degrees: float) -> Tensor:
        """Elements this far from a, on all sides, [..., count, *shape]; a itself where a group has no such steps."""
        return a[..., None] if not self.shape else a[..., None, :]

    def coordinates(self, a: Tensor) -> Tensor:
        """The element as numbers that a network can read, and that add up where that makes sense: [..., count]."""
        return a.float() if self.shape else a.float()[..., None]

    def undone(self, k: Tensor) -> Tensor:
        """The actions by which training undoes actions k: their inverses, in a cycle -k."""
        return self.inverse(k)

    def bucket(self, a: Tensor) -> Tensor:
        """Index of an element in the table of actions seen in training, [...]; continuous groups are binned to 0.1
        degrees."""
        raise NotImplementedError

    @property
    def residues(self) -> int:
        """How many different values `residue` has."""
        return self.buckets

    def residue(self, a: Tensor) -> Tensor:
        """As `bucket`, with one index per element. It differs for a cycle, where +9 and -1 of Z10 have two buckets."""
        return self.bucket(a)

    # Representations

    def irreps(self, highest: int | None = None) -> tuple[Irrep, ...]:
        """The real irreducible representations, the trivial one first; of a continuous group those up to frequency
        `highest`."""
        raise NotImplementedError

    def simple_irreps(self) -> tuple[Irrep, ...]:
        """The irreducible representations that a latent is built of if none are named: all, but for a product only
        those that turn under one factor."""
        return self.irreps()

    # Elements as plain Python and as text

    @property
    def actions(self) -> tuple[Element, ...]:
        """Every element of a finite group but the identity, as plain Python; a continuous group lists none."""
        if self.order is None:
            return ()
        return tuple(e for e in map(self.plain, self.elements) if e != self.plain(torch.as_tensor(self.identity)))

    def plain(self, a: Tensor) -> Element:
        """One element as plain Python: a number, or a tuple of numbers."""
        return tuple(a.tolist()) if self.shape else a.tolist()

    def tensor(self, elements: Sequence[Element]) -> Tensor:
        """Plain elements as a tensor [count, *shape]."""
        return torch.tensor(elements, dtype=self.dtype).reshape(-1, *self.shape)

    def write(self, a: Element) -> str:
        """A plain element as text, as `parse` reads it."""
        raise NotImplementedError

    def parse(self, word: str | int) -> Element:
        """The plain element that a word names; ValueError if it names none."""
        raise NotImplementedError

    def shared(self, some: Sequence[Element], others: Sequence[Element]) -> tuple[Element, ...]:
        """The plain elements that two sets share, however they are written: 10 and 370 degrees are one."""
        if not some or not others:
            return ()
        apart = self.distance(self.tensor(some)[:, None], self.tensor(others)[None])
        return tuple(k for k, same in zip(some, (apart < SAME).any(1).tolist(), strict=True) if same)

    def check(self, actions: Sequence[str | Element], name: str) -> tuple[Element, ...]:
        """The plain elements that words (or plain elements) name, or an error if one is repeated or names none."""
        elements = []
        for word in actions:
            try:
                elements.append(self.parse(self.write(word) if isinstance(word, tuple) else word))
            except (ValueError, TypeError, IndexError):
                raise RequestError(
                    f"{name}: {word} is not an action of {self}, write them as in {self.example}"
                ) from None
        if any(self.shared((k,), elements[:i]) for i, k in enumerate(elements)):
            raise RequestError(f"{name}: {','.join(map(self.write, elements))} names an action twice, list each once")
        return tuple(elements)


def rotation(turn: Tensor) -> Tensor:
    """The matrices that turn a plane, [...] radians -> [..., 2, 2]."""
    cos, sin = turn.cos(), turn.sin()
    return torch.stack((torch.stack((cos, -sin), -1), torch.stack((sin, cos), -1)), -2)
