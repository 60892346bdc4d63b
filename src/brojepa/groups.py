"""Actions and their law. A world's actions form a group; here the cycle Z_n.

The state y moves to (y + k) mod n under action k. Actions are written as signed integers -(n-1)..(n-1),
as in the paper: +9 and -1 are one element of Z_10 but two things one can ask a latent action to do, and
only the one that training asked for counts as seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from brojepa.errors import RequestError


def signed(k: int) -> str:
    """The way an action is written: "+3", "-1", "0"."""
    return f"{k:+d}" if k else "0"


@dataclass(frozen=True)
class Cyclic:
    """The cyclic group Z_n, n >= 2, with actions written as signed integers."""

    n: int

    def __post_init__(self) -> None:
        if self.n < 2:
            raise RequestError(f"a cycle needs at least 2 states, got {self.n}: the world must show two states or more")

    identity = 0

    @property
    def actions(self) -> tuple[int, ...]:
        """Every action but the identity, most negative first."""
        return tuple(k for k in range(1 - self.n, self.n) if k)

    def apply(self, state, k):
        """The state after action k; integers or integer tensors."""
        return (state + k) % self.n

    def compose(self, a: int, b: int) -> int:
        """The action that does a, then b, as an element 0..n-1."""
        return (a + b) % self.n

    def inverse(self, k: int) -> int:
        """The element 0..n-1 that undoes k."""
        return -k % self.n

    def check(self, actions: Sequence[int], name: str) -> tuple[int, ...]:
        """The actions as a tuple, or an error if one is repeated or outside the group."""
        for k in actions:
            if not -self.n < k < self.n:
                raise RequestError(
                    f"{name}: {signed(k)} is outside the group, with {self.n} states actions run from "
                    f"{signed(1 - self.n)} to {signed(self.n - 1)}"
                )
        if len(set(actions)) != len(actions):
            raise RequestError(f"{name}: {','.join(map(signed, actions))} names an action twice, list each once")
        return tuple(actions)

    def rollout(self, k: int, primitives: Sequence[int]) -> tuple[int, int] | None:
        """How to reach k by repeating one primitive: (primitive, steps), or None if that cannot be done.

        As in the paper, the smallest primitive of k's own sign; failing that, the others, around the cycle if need be.
        """
        for p in sorted(primitives, key=lambda p: (p * k < 0, abs(p))):
            for steps in range(1, self.n + 1):
                if (p * steps - k) % self.n == 0:
                    return p, steps
        return None
