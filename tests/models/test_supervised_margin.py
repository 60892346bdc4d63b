"""What training leads a classifier behind a rotation to, by a computation of its own: the least norm that is right
about the training actions by a margin.

Gradient descent on cross-entropy, once every image is right, turns slowly towards the classifier of largest margin
(Soudry et al., 2018, *The implicit bias of gradient descent on separable data*). Here images of a state are one point
and all states and both directions alike, so logits depend on the distance d from the state y to the state named alone:

    logit(d, k) = sum over frequencies f and waves m of g[f, m] cos(k f t - m t d),    t = 2 pi / n

with f of the rotation's planes, m of the wave that states make around them. Latents and weights multiply, so the norm
of both together is the sum of |g| (Srebro and Shraibman, 2005), and the least of it a linear program. It has more than
one solution; what is asked is what holds for all of them.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from scipy.optimize import linprog

from brojepa.models.actions.rotation import harmonics


class LeastNorm:
    """All classifiers of least norm that name the state after the training actions by a margin of 1."""

    def __init__(self, n: int, frequencies: frozenset[int], actions: tuple[int, ...] = (1, -1)) -> None:
        self.n, self.turn, self.d = n, 2 * np.pi / n, np.arange(n)
        self.f, self.m = (grid.ravel() for grid in np.meshgrid(sorted(frequencies), self.d, indexing="ij"))
        margins = np.concatenate([self.margins(k) for k in actions])
        self.a, self.b = np.hstack((-margins, margins)), -np.ones(len(margins))
        norm = np.ones(2 * len(self.f))
        self.a, self.b = np.vstack((self.a, norm)), np.append(self.b, linprog(norm, self.a, self.b).fun + 1e-7)

    def margins(self, k: int) -> np.ndarray:
        """Logit of the right state after k less that of each other, as rows over g."""
        waves = np.cos(k * self.f * self.turn - np.outer(self.d, self.m) * self.turn)
        return np.delete(waves[k % self.n] - waves, k % self.n, axis=0)

    def never_wrong(self, k: int) -> bool:
        """Whether each of them names the right state after k."""
        return all(linprog(np.append(row, -row), self.a, self.b).fun > 1e-3 for row in self.margins(k))

    def ever_right(self, k: int) -> bool:
        """Whether one of them does: the largest smallest margin that any has."""
        rows = np.hstack((-self.margins(k), self.margins(k), np.ones((self.n - 1, 1))))
        a = np.vstack((np.pad(self.a, ((0, 0), (0, 1))), rows))
        free = [(0, None)] * (2 * len(self.f)) + [(None, None)]
        goal = np.append(np.zeros(2 * len(self.f)), -1)
        best = linprog(goal, a, np.append(self.b, np.zeros(self.n - 1)), bounds=free)
        return -best.fun > 1e-3


least_norm = cache(LeastNorm)


@pytest.mark.parametrize("n", [10, 26])
def test_with_one_frequency_none_is_right_about_more_than_it_was_trained_on(n):
    one = least_norm(n, frozenset({1}))
    assert [k for k in range(1, n) if one.ever_right(k)] == [1, n - 1], "n - 1 is -1"


@pytest.mark.parametrize("n", [6, 10])
@pytest.mark.parametrize("lowest", [0, 1])
def test_with_all_frequencies_odd_actions_are_settled_and_even_ones_are_not(n, lowest):
    """Under odd actions a plane of frequency n/2 - f turns as the mirror image of one of frequency f, its sign changed,
    so ±1 leave open which of the two carries a wave; under even actions the sign stays, and one of them is wrong."""
    every = least_norm(n, frozenset(harmonics(n, 32, lowest).tolist()))
    assert [k for k in range(1, n) if every.never_wrong(k)] == list(range(1, n, 2))
    assert all(every.ever_right(k) for k in range(1, n))


@pytest.mark.parametrize("even", [(0,), (2, -2)])
def test_even_actions_in_training_settle_all(even):
    both = least_norm(10, frozenset(harmonics(10, 32, 1).tolist()), (1, -1, *even))
    assert all(both.never_wrong(k) for k in range(10))
