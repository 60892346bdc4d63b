"""What a classifier behind a rotation tends to, computed by itself: the least norm that tells ±1 apart by a margin.

Gradient descent on cross-entropy, once every image is right, turns slowly towards the classifier of largest margin
(Soudry et al., 2018, *The implicit bias of gradient descent on separable data*). Here images of a state are one point
and all states alike, so logits depend on the distance d from the state y to the state named alone:

    logit(d, k) = sum over frequencies f and waves m of g[f, m] cos(k f t - m t d),    t = 2 pi / n

with f of the rotation's planes, m of the wave that states make around them. Latents and weights multiply, so the norm
of both together is the sum of |g| (Srebro and Shraibman, 2005), and the least of it a linear program.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import linprog

from brojepa.actions.rotation import harmonics


def named(n: int, frequencies: set[int]) -> dict[int, int]:
    """The state, counted from y, that the classifier of least norm names after each action, trained on ±1."""
    turn, d = 2 * np.pi / n, np.arange(n)
    f, m = (grid.ravel() for grid in np.meshgrid(sorted(frequencies), d, indexing="ij"))

    def waves(k: int) -> np.ndarray:
        return np.cos(k * f * turn - np.outer(d, m) * turn)

    right = {k: np.delete(waves(k)[k % n] - waves(k), k % n, axis=0) for k in (1, -1)}
    margin = np.concatenate(list(right.values()))
    found = linprog(np.ones(2 * len(f)), A_ub=np.hstack((-margin, margin)), b_ub=-np.ones(len(margin)))
    assert found.success
    g = found.x[: len(f)] - found.x[len(f) :]
    return {k: int(np.argmax(waves(k) @ g)) for k in range(1 - n, n) if k}


@pytest.mark.parametrize("n", [10, 26])
def test_with_one_frequency_it_never_leaves_what_it_was_trained_on(n):
    says = named(n, {1})
    right = {k for k, state in says.items() if state == k % n}
    assert right == {1, -1, n - 1, 1 - n}, "n - 1 is -1"
    assert says[2] == 1, "after +2 it still says y + 1"


@pytest.mark.parametrize("n", [10, 26])
@pytest.mark.parametrize("lowest", [0, 1])
def test_with_all_frequencies_it_is_right_about_every_action(n, lowest):
    says = named(n, set(harmonics(n, 32, lowest).tolist()))
    assert says == {k: k % n for k in says}
