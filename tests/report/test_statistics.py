"""Means, intervals and paired tests against independent references."""

from __future__ import annotations

import itertools
import math
import statistics as python_statistics

import numpy as np
import pytest
from helpers import checked
from hypothesis import given
from hypothesis import strategies as st

from brojepa.report.statistics import paired, sign_flip, summarise, t_quantile, t_two_sided

CRITICAL = {  # two-sided 95 % and 99 %, from printed tables of Student's t
    1: (12.706, 63.657), 2: (4.303, 9.925), 3: (3.182, 5.841), 4: (2.776, 4.604), 5: (2.571, 4.032),
    6: (2.447, 3.707), 9: (2.262, 3.250), 10: (2.228, 3.169), 20: (2.086, 2.845), 30: (2.042, 2.750),
    60: (2.000, 2.660), 120: (1.980, 2.617),
}  # fmt: skip


@pytest.mark.parametrize("dof", CRITICAL)
def test_quantiles_are_the_printed_ones(dof: int) -> None:
    assert round(t_quantile(0.975, dof), 3) == CRITICAL[dof][0]
    assert round(t_quantile(0.995, dof), 3) == CRITICAL[dof][1]
    assert t_quantile(0.025, dof) == pytest.approx(-t_quantile(0.975, dof))


@given(t=st.floats(0, 30), dof=st.integers(1, 200))
@checked
def test_tail_is_one_less_the_integral_of_the_density(t: float, dof: int) -> None:
    """With s = sqrt(dof) tan(u) the density becomes c cos(u)^(dof - 1), which Gauss-Legendre integrates to rounding."""
    nodes, weights = np.polynomial.legendre.leggauss(400)
    end = math.atan(t / math.sqrt(dof))
    u = (nodes + 1) * end / 2
    constant = math.exp(math.lgamma((dof + 1) / 2) - math.lgamma(dof / 2)) / math.sqrt(math.pi)
    inside = 2 * constant * float(weights @ np.cos(u) ** (dof - 1)) * end / 2
    assert t_two_sided(t, dof) == pytest.approx(1 - inside, abs=1e-11)
    assert t_two_sided(-t, dof) == t_two_sided(t, dof)


@given(t=st.floats(1e-6, 1e8))
@checked
def test_tails_have_closed_forms_for_one_and_two_degrees(t: float) -> None:
    """To the last digits far out too, where 1 less the rest would have lost them."""
    assert t_two_sided(t, 1) == pytest.approx(2 * math.atan2(1, t) / math.pi, rel=1e-12)
    square = 2 + t * t
    assert t_two_sided(t, 2) == pytest.approx(2 / (square * (1 + t / math.sqrt(square))), rel=1e-12)


@given(p=st.floats(1e-6, 1 - 1e-6).filter(lambda p: abs(p - 0.5) > 1e-3), dof=st.integers(1, 100))
@checked
def test_quantile_undoes_the_tail(p: float, dof: int) -> None:
    t = t_quantile(p, dof)
    assert math.copysign(1, t) == math.copysign(1, p - 0.5)
    assert t_two_sided(t, dof) == pytest.approx(2 * min(p, 1 - p), rel=1e-9)


@pytest.mark.parametrize("p", [0, 1, -0.5, math.nan])
def test_no_quantile_outside_of_probabilities(p: float) -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        t_quantile(p, 5)


def test_ends_of_the_tail() -> None:
    assert t_two_sided(0, 5) == 1
    assert t_two_sided(math.inf, 5) == t_two_sided(-math.inf, 5) == 0


@given(values=st.lists(st.floats(-1, 1), min_size=2, max_size=12))
@checked
def test_summary_is_that_of_pythons_own_statistics(values: list[float]) -> None:
    summary = summarise(values)
    assert summary.n == len(values)
    assert summary.mean == pytest.approx(python_statistics.mean(values), abs=1e-15)
    assert summary.std == pytest.approx(python_statistics.stdev(values), abs=1e-9)
    assert summary.low is not None
    assert summary.high is not None
    assert summary.low <= summary.mean <= summary.high


def test_one_value_has_no_spread() -> None:
    summary = summarise([0.5])
    assert (summary.n, summary.mean, summary.std, summary.low, summary.high) == (1, 0.5, None, None, None)


SLEEP = [0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0], [1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4]
"""Student's own data of 1908: hours of sleep gained with two drugs. The published paired test: t = 4.0621 with 9
degrees of freedom, p = 0.002833, mean difference 1.58, 95 % interval 0.7001 to 2.4599."""


def test_student_1908() -> None:
    found = paired(SLEEP[1], SLEEP[0])
    assert found.difference.mean == pytest.approx(1.58)
    assert found.difference.low == pytest.approx(0.7001142, abs=1e-7)
    assert found.difference.high == pytest.approx(2.4598858, abs=1e-7)
    assert found.t_test == pytest.approx(0.00283289, abs=1e-8)
    assert found.sign_flip == 2 * 2 / 2**10  # all nine positive differences, and the 0 with either sign


def test_equal_differences_have_no_spread_to_judge_by() -> None:
    assert paired([0.5, 0.25], [0.5, 0.25]).t_test == 1
    assert paired([0.5, 0.75], [0.25, 0.5]).t_test == 0


@given(differences=st.lists(st.integers(-30, 30), min_size=2, max_size=8))
@checked
def test_sign_flips_are_counted_right(differences: list[int]) -> None:
    """Whole numbers have exact sums; the same in hundredths have not, and must be counted alike."""
    found = abs(sum(differences))
    flips = itertools.product((-1, 1), repeat=len(differences))
    sums = [abs(sum(s * d for s, d in zip(signs, differences, strict=True))) for signs in flips]
    wanted = sum(s >= found for s in sums) / len(sums)
    assert sign_flip(differences) == sign_flip([d / 100 for d in differences]) == wanted


def test_sign_flips_of_many_pairs_are_not_tried() -> None:
    assert sign_flip([0.1] * 12) == 2 / 2**12
    assert sign_flip([0.1] * 21) is None
