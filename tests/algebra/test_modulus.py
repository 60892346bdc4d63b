"""The cycle that angles speak of: found where there is one, not where there is none, and never a wrong one."""

from __future__ import annotations

import math

import numpy as np
import pytest
from helpers import checked
from hypothesis import given
from hypothesis import strategies as st

from brojepa.algebra.modulus import evidence, indistinguishable, infer_modulus, nearest_harmonics


@st.composite
def harmonics(draw: st.DrawFn) -> tuple[int, list[int]]:
    n = draw(st.integers(1, 30))
    return n, draw(st.lists(st.integers(0, n - 1), min_size=1, max_size=32))


def angles_of(n: int, multiples: list[int] | np.ndarray, noise: float, rng: np.random.Generator) -> np.ndarray:
    """Harmonics as training leaves them: of either sign, whole turns away, with errors."""
    count = len(multiples)
    signs, turns = rng.choice([-1, 1], count), rng.integers(-2, 3, count)
    return signs * np.array(multiples) * 2 * np.pi / n + turns * 2 * np.pi + rng.normal(0, noise, count)


@checked
@given(harmonics(), st.integers(0, 2**32 - 1))
def test_the_modulus_is_read_off_noisy_harmonics(given, seed):
    """The smallest n of which all angles but an eighth are harmonics. Nothing, where there are few different ones, or
    where few of them are no harmonics of a divisor already."""
    n, multiples = given
    found, confidence = infer_modulus(angles_of(n, multiples, 0.001, np.random.default_rng(seed)))
    smallest = n // math.gcd(n, *multiples)
    different = len({min(m, n - m) for m in multiples})
    beyond = {d: sum(m * d % n > 0 for m in multiples) for d in range(1, smallest) if smallest % d == 0}
    allowed = {smallest} | {d for d, left in beyond.items() if left <= len(multiples) / 8}
    assert found in allowed or (found is None and (different < 4 or min(beyond.values()) < 3))
    assert 0 <= confidence <= 1


@pytest.mark.parametrize("n", [7, 9, 10, 13, 26])
@pytest.mark.parametrize(("noise", "strays"), [(0.001, 0), (0.001, 2), (0.005, 1), (0.01, 0), (0.01, 2)])
def test_errors_and_strays_of_real_runs_do_not_mislead(n, noise, strays):
    """32 planes, harmonics repeated at random. In the worst case, three frequencies of Z_7 and errors of 0.01, it may
    be left open now and then; what is never seen is a wrong one."""
    rng = np.random.default_rng(n)
    found = []
    for _ in range(10):
        angles = angles_of(n, rng.integers(1, n, 32), noise, rng)
        angles[:strays] = rng.uniform(0, 2 * np.pi, strays)
        found.append(infer_modulus(angles)[0])
    assert set(found) <= {n, None}
    assert found.count(n) >= (8 if noise == 0.01 else 10)


@checked
@given(st.integers(0, 2**32 - 1), st.integers(1, 40))
def test_no_modulus_is_read_off_random_angles(seed, count):
    assert infer_modulus(np.random.default_rng(seed).uniform(-2 * np.pi, 2 * np.pi, count))[0] is None


def test_planes_that_agree_on_any_angle_are_no_cycle():
    """Training may pull all planes to one angle, or two; that alone says nothing."""
    rng = np.random.default_rng(0)
    assert infer_modulus(2.1 + rng.normal(0, 0.001, 32))[0] is None
    assert infer_modulus(np.repeat([2.1, 0.77], 16) + rng.normal(0, 0.001, 32))[0] is None


def test_the_modulus_does_not_depend_on_how_often_an_angle_is_there():
    angles = 2 * np.pi / 10 * np.array([1, 3, 4, 5]) + 0.001
    assert infer_modulus(angles)[0] == infer_modulus(np.tile(angles, 8))[0] == 10
    assert infer_modulus(np.full(32, 2.1))[0] is None  # one angle, however often, says little


def test_a_stray_angle_is_passed_over_and_many_are_not():
    angles = [*(2 * np.pi / 10 * np.arange(10)), 1.0]
    assert infer_modulus(angles)[0] == 10
    assert infer_modulus([*angles[:-1], 2 * np.pi / 50 + 0.001])[0] == 10  # near a fiftieth: not 50
    assert infer_modulus([*angles, 1.7, 2.3, 2.9, 0.4])[0] is None


def test_evidence_of_no_angles():
    assert (evidence([]) == 0).all()
    assert infer_modulus([])[0] is None


@checked
@given(st.integers(2, 40), st.lists(st.integers(-80, 80), min_size=1, max_size=8))
def test_states_that_look_alike_are_counted(n, multiples):
    """Against the turns themselves: states are alike where every plane is turned as far."""
    angles = 2 * np.pi / n * np.array(multiples)
    turned = np.exp(1j * np.outer(np.arange(n), angles)).round(6) + 0  # + 0: no negative zero
    distinct = len(np.unique(turned, axis=0))
    assert indistinguishable(angles, n) == n // distinct
    found, rest = nearest_harmonics(angles, n)
    assert (found == np.array(multiples) % n).all()
    assert np.allclose(rest, 0, atol=1e-9)


def test_an_angle_between_harmonics_tells_states_apart():
    gap = 2 * np.pi / 10
    assert indistinguishable([8 * gap + 0.01], 10) == 2
    assert indistinguishable([8 * gap + 0.2 * gap], 10) == 1
