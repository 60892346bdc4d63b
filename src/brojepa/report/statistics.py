"""Small-sample statistics over seeds: means with Student-t intervals, and paired comparisons.

Pure Python: a handful of seeds needs no library. Tails are computed directly, so small p-values keep their digits.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

CONFIDENCE = 0.95
MOST_FLIPPED = 20  # pairs; 2^20 sums take a second


@dataclass(frozen=True)
class Summary:
    """Mean, sample standard deviation (divided by n - 1) and 95 % interval of the mean; one value has only a mean."""

    n: int
    mean: float
    std: float | None = None
    low: float | None = None
    high: float | None = None


def summarise(values: Sequence[float]) -> Summary:
    n = len(values)
    mean = math.fsum(values) / n
    if n == 1:
        return Summary(n, mean)
    std = math.sqrt(math.fsum((v - mean) ** 2 for v in values) / (n - 1))
    half = t_quantile((1 + CONFIDENCE) / 2, n - 1) * std / math.sqrt(n)
    return Summary(n, mean, std, mean - half, mean + half)


@dataclass(frozen=True)
class Paired:
    """Differences of two runs at the same seeds: their summary and two-sided p-values for "no difference"."""

    difference: Summary
    t_test: float
    sign_flip: float | None


def paired(a: Sequence[float], b: Sequence[float]) -> Paired:
    """Compare a with b, pair by pair; two pairs or more."""
    differences = [x - y for x, y in zip(a, b, strict=True)]
    summary = summarise(differences)
    if not summary.std:  # all differences are equal, so there is no variance
        p = 1.0 if summary.mean == 0 else 0.0
    else:
        p = t_two_sided(summary.mean / (summary.std / math.sqrt(summary.n)), summary.n - 1)
    return Paired(summary, p, sign_flip(differences))


def sign_flip(differences: Sequence[float]) -> float | None:
    """Share of all 2^n ways to flip signs whose sum is at least as far from 0 as the sum found.

    Exact: if the two are alike, each difference is as likely to have come out with the other sign. With n pairs it
    cannot fall below 2 / 2^n. None if there are too many pairs to try every way."""
    if len(differences) > MOST_FLIPPED:
        return None
    sums = [0.0]
    for d in differences:
        sums = [s + d for s in sums] + [s - d for s in sums]
    slack = 1e-12 * math.fsum(map(abs, differences))  # equal sums differ by rounding
    found = abs(sums[0])
    return sum(abs(s) >= found - slack for s in sums) / len(sums)


def t_two_sided(t: float, dof: float) -> float:
    """Probability that Student's t is at least |t| away from 0: I_x(dof / 2, 1 / 2) at x = dof / (dof + t^2)."""
    if math.isinf(t):
        return 0.0
    return _beta(dof / 2, 0.5, dof / (dof + t * t), t * t / (dof + t * t))


def t_quantile(p: float, dof: float) -> float:
    """The value that Student's t stays below with probability p, by bisection."""
    if not 0 < p < 1:
        raise ValueError(f"a probability between 0 and 1 is needed, got {p}")
    tail = 2 * min(p, 1 - p)
    low, high = 0.0, 1.0
    while t_two_sided(high, dof) > tail:
        low, high = high, 2 * high
    for _ in range(200):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        low, high = (middle, high) if t_two_sided(middle, dof) > tail else (low, middle)
    return math.copysign((low + high) / 2, p - 0.5)


def _beta(a: float, b: float, x: float, y: float) -> float:
    """Regularised incomplete beta function I_x(a, b), given y = 1 - x as well so that neither end loses digits.

    The continued fraction converges fast below (a + 1) / (a + b + 2); above it, I_x(a, b) = 1 - I_y(b, a)."""
    if x == 0 or y == 0:
        return float(y == 0)
    if x > (a + 1) / (a + b + 2):
        return 1 - _beta(b, a, y, x)
    log = a * math.log(x) + b * math.log(y) + math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
    return math.exp(log) / (a * _fraction(a, b, x))


def _fraction(a: float, b: float, x: float) -> float:
    """1 + d1 / (1 + d2 / (1 + ...)), whose inverse is the sum in I_x(a, b): evaluated forwards after Lentz."""
    tiny = 1e-300
    value = upper = 1.0
    lower = 0.0
    for i in range(1, 10_000):
        m = i // 2
        if i % 2:
            d = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        else:
            d = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        lower = 1 / ((1 + d * lower) or tiny)
        upper = (1 + d / upper) or tiny
        value *= upper * lower
        if abs(upper * lower - 1) < 1e-15:
            return value
    raise ArithmeticError(f"incomplete beta function at a={a}, b={b}, x={x} does not converge")
