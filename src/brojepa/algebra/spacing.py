"""The chance that equally spaced angles look like a cycle: explanations 3 and 4 of `modulus`.

Angles j * delta, j = 1 to J, with any delta, are near multiples of 2 pi / n if delta is. They are one witness,
their spacing; with a start of their own, two. This matters only if the angles could be equally spaced:

- `_fitted`: their multiples are a stretch of an arithmetic sequence. Then spacing and start are fitted to them, in the
  way that puts them farthest from the cycle, and must still be near it.
- `_shifts`: a shift leads from each angle to another, but for a few, far more exactly than n fits.
- `_reach`, `_window`: their multiples are so regular that multiples drawn at random would seldom be.
"""

from __future__ import annotations

import math

import numpy as np

LOOSE = 0.03  # odds of any multiples of any angle, with errors, to harmonics of a cycle, times the cycle's length
STRAY = 10  # an angle this many times farther off than half of them is a stray: errors and equal spacing make none
EXACT = 30  # equal spacing must explain angles this many times better than the cycle does


def spaced(
    angles: np.ndarray, multiples: np.ndarray, errors: np.ndarray, n: int, strays: int, finest: float, doubt: float
) -> float:
    """The chance, for one n, that angles with any equal spacing look like n; far less if these are not equally spaced.

    multiples, errors: of 2 pi / n, and how far each angle is from it, in radians. strays: how many of the farthest may
    be left out. finest: radians; no angle is trusted beyond this. doubt: the chance from which on n is not named; where
    it is reached, other ways to reach it are not looked at."""
    nearest = np.argsort(np.abs(errors), kind="stable")[: len(angles) - strays]
    kept, signed = angles[nearest], multiples[nearest]
    share = max(float(np.abs(errors[nearest]).max()), finest) * n / math.pi
    units = [u for u in range(1, n // 2 + 1) if math.gcd(u, n) == 1] or [1]
    both = np.concatenate([kept, -kept])
    tolerance = max(share * math.pi / n / EXACT, 2 * finest)
    start, anywhere = share / len(kept), 2 * share**2 / len(kept)
    if len(kept) >= 3 and not _shifts(both, tolerance):
        reach, chance = _reach(signed, n, units)
        start = share / reach * min(1.0, LOOSE / n / chance)
    if len(kept) <= 3 or not _shifts(kept, tolerance):
        length, chance = _window(signed, n, units)
        anywhere = 2 * share**2 / length * min(1.0, LOOSE / n / chance)
    likely = max(start, anywhere)
    if likely >= doubt:
        return likely
    far = np.abs(errors)
    near = far <= STRAY * max(float(np.median(far)), finest)
    return max(likely, _fitted(multiples[near], errors[near], n, finest))


def _fitted(multiples: np.ndarray, errors: np.ndarray, n: int, finest: float) -> float:
    """The chance where the multiples are, up to signs, exactly s + v, s + 2 v, ..., s + J v modulo n, for any s and v;
    else 0.

    Then the angles may be start + j * delta with errors of their own, near n because delta and the start are. Which
    angle is which j is open within a class of Z_n up to sign; the order is taken that puts delta, and the start,
    farthest from the cycle. So both are truly this near at most as often as this says, whatever the errors are.
    """
    count = len(multiples)
    classes = np.minimum(multiples, n - multiples)
    oriented = np.where(multiples == classes, errors, -errors)
    steps = np.arange(1, count + 1)
    middle = steps - steps.mean()
    marks = np.random.default_rng(0).integers(2**40, size=n // 2 + 1)
    marks = np.concatenate([marks, marks[1 : n - n // 2][::-1]])  # the same for a class and its mirror image
    chance = 0.0
    for v in range(1, n // 2 + 1):
        places = (np.arange(n)[:, None] + v * steps) % n
        for row in places[marks[places].sum(1) == marks[classes].sum()]:
            slots = np.minimum(row, n - row)
            signs = np.where(row == slots, 1, -1)
            slope = largest_slope(signs * middle, slots, oriented, classes, n) if count > 1 else 0.0
            start = largest_slope(signs, slots, oriented, classes, n)
            off = max(start + slope * middle[-1], finest) * n / math.pi
            chance = max(chance, off**2 / max(count - 1, 1))
            if row[0] == v % n:
                slope = largest_slope(signs * steps, slots, oriented, classes, n)
                chance = max(chance, max(slope, finest / count) * n / math.pi)
    return chance


def largest_slope(weights: np.ndarray, slots: np.ndarray, errors: np.ndarray, classes: np.ndarray, n: int) -> float:
    """The largest slope of errors over weights, by least squares, if each error goes with any weight of its class.

    Products are largest where both are in order. In the classes that are their own mirror images, signs are free."""
    weights, errors = (
        np.where((group == 0) | (2 * group == n), np.abs(values), values)
        for values, group in ((weights, slots), (errors, classes))
    )
    own = np.sort(slots)
    up = weights[np.lexsort((weights, slots))]
    rising, falling = errors[np.lexsort((errors, classes))], errors[np.lexsort((-errors, classes))]
    mirrored = (own == 0) | (2 * own == n)
    least = np.where(mirrored, -up * rising, up * falling)
    return float(max((up * rising).sum(), -least.sum()) / (weights**2).sum())


def _shifts(angles: np.ndarray, tolerance: float) -> bool:
    """Whether a shift of the circle leads from each angle to another one, but for the ends and one in eight."""
    angles = np.sort(np.remainder(angles, 2 * math.pi))
    count = len(angles)
    least = count - 2 - count // 8 if count > 8 else count - 2
    around = np.concatenate([angles - 2 * math.pi, angles, angles + 2 * math.pi])
    for first in angles[: 1 + count // 8 + 1]:
        shift = angles[angles - first > 2 * tolerance] - first
        goal = np.remainder(angles[None, :] + shift[:, None], 2 * math.pi)
        after = np.searchsorted(around, goal)
        far = np.minimum(np.abs(around[after] - goal), np.abs(goal - around[after - 1]))
        if ((far <= tolerance).sum(1) >= max(least, 1)).any():
            return True
    return False


def _reach(multiples: np.ndarray, n: int, units: list[int]) -> tuple[int, float]:
    """The least J for which the multiples are, for some unit u of Z_n, different ones of u, 2 u, ..., J u up to sign;
    and the chance that so small a J is found for as many multiples drawn at random."""
    turned = multiples[None, :] * np.array(units)[:, None] % n
    turned = np.sort(np.minimum(turned, n - turned), axis=1)
    nth = _occurrences(turned)
    inside = (turned > 0) & (2 * turned < n)
    values = np.where(
        inside, np.where(nth % 2 == 0, nth // 2 * n + turned, (nth + 1) // 2 * n - turned), turned + nth * n
    )
    reach = max(1, int(values.max(1).min()))
    k = np.arange(n // 2 + 1)
    inner = (k > 0) & (2 * k < n)
    room = np.maximum(0, (reach - k) // n + 1) + np.where(inner, np.maximum(0, (reach + k) // n), 0)
    return reach, _chance_of_room(room, np.where(inner, 2, 1) / n, len(multiples), len(units))


def _window(multiples: np.ndarray, n: int, units: list[int]) -> tuple[int, float]:
    """The same for different ones of s + u, s + 2 u, ..., s + L u, with any start s, and any u."""
    apart = math.gcd(n, *(multiples - multiples[0]).tolist())
    if apart > 1:
        multiples, n = (multiples - multiples[0]) % n // apart, n // apart
        units = [u for u in units if 2 * u <= n and math.gcd(u, n) == 1] or [1]
    turned = np.sort(multiples[None, :] * np.array(units)[:, None] % n, axis=1)
    nth = _occurrences(turned)
    ends = (turned[:, None, :] - turned[:, :, None]) % n + nth[:, None, :] * n
    length = int(ends.max(2).min()) + 1
    room = length // n + (np.arange(n) < length % n)
    return length, _chance_of_room(room, np.full(n, 1 / n), len(multiples), n * len(units))


def _occurrences(rows: np.ndarray) -> np.ndarray:
    """How many equal values stand before each value of the sorted rows."""
    place = np.broadcast_to(np.arange(rows.shape[1]), rows.shape)
    fresh = np.concatenate([np.ones((len(rows), 1), bool), np.diff(rows, axis=1) != 0], axis=1)
    return place - np.maximum.accumulate(np.where(fresh, place, 0), axis=1)


def _chance_of_room(room: np.ndarray, weights: np.ndarray, count: int, tries: int) -> float:
    """A bound on the chance that `count` draws of classes with these weights exceed no class's room, in any try.

    The chance is count! times the coefficient of x ** count in the product of the truncated exponential series of
    weight * x; a coefficient of a series without negative ones is at most its value at x over x ** count, for any x.
    """
    x = count * np.geomspace(0.5, 1e6, 60)
    total = np.full(len(x), math.lgamma(count + 1)) - count * np.log(x)
    for limit, weight in {*zip(room.tolist(), weights.tolist(), strict=True)}:
        same = int(((room == limit) & (weights == weight)).sum())
        powers = np.arange(limit + 1)
        logs = powers * np.log(weight * x)[:, None] - np.array([math.lgamma(m + 1) for m in powers])
        total += same * np.logaddexp.reduce(logs, axis=1)
    return math.exp(max(-600.0, min(0.0, float(total.min()) + math.log(tries))))
