"""The cycle of a rotation: its length, inferred from the angles alone, and the states they cannot tell apart.

A cycle of n states turns every plane by a multiple of 2 pi / n. So n fits angles if n times each of them is near a
whole turn; the distance, as a share of half a turn, is the angle's share, 0 to 1. Many n fit a few angles. So an n is
accepted only if each of four other explanations would produce such angles with a chance below 1 in 1,000:

1. **The angles, or clusters of them, lie anywhere.** All angles that share a multiple of 2 pi / n, up to sign, are one
   witness: their mean. Witnesses at random have independent uniform shares, so K of them are all as near as u with
   chance u ** K. A multiple of 0 is no witness: an angle of 0 fits every n.
2. **The cycle is shorter, and a cluster of angles has not converged.** If a divisor m of n explains all but K' of the
   witnesses, these alone must support n: chance u' ** K', with u' the largest share among them.
3. **The angles are equally spaced, by anything.** Multiples of one angle are one witness, however many: if the first J
   multiples have shares of at most u, that angle has one of at most u / J.
4. **They are equally spaced, and do not start at 0.** Then spacing and start are two witnesses (`spacing.py`).

An n is also rejected if the angles left out as strays may belong to a longer cycle (`_longer`).

Each chance is corrected for the choices made by looking at the data: n times the sum of 1 / m over all m that are tried
(so that the chances of all n together stay below the doubt), 3 k (k - 1) for n = k m, and a binomial for the strays.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median
from typing import NamedTuple

import numpy as np

from brojepa.algebra.spacing import spaced

LARGEST = 360  # moduli that are tried
NEAR = 0.02  # radians; angles nearer than this to 0 do not turn
FINEST = 2.0**-23  # the error of an angle in float32, as a share of it
DOUBT = 1e-3  # the chance that we accept of naming a wrong modulus
STRAYS = 1 / 8  # the share of angles that may belong to no cycle
FITS = 0.5  # angles with larger shares are not harmonics
LONE = 1 / 12  # odds that one witness of at most three has not converged, to that it is a harmonic as the others are,
MANY = 1 / 5  # if at least this share of the angles supports it
LONGER = 0.02  # odds above which strays may be harmonics of a longer cycle
SETTLED = 0.1  # an angle nearer to a harmonic than this share of half the gap between harmonics has settled there

Angles = Sequence[float] | np.ndarray


class Fit(NamedTuple):
    """How n fits angles: log10 of the chance of explanation 1, and which angles are not strays."""

    n: int
    score: float
    kept: np.ndarray


def evidence(angles: Angles, largest: int = LARGEST) -> np.ndarray:
    """For n = 1 to `largest`: log10 of the chance that witnesses anywhere are multiples of 2 pi / n as nearly as these.

    0 where n does not fit. Up to an eighth of the angles may be strays: those that minimise the chance, corrected for
    that choice. A multiple of the right n has larger shares, because the same errors weigh more; a divisor has
    them if it leaves some angle unexplained. So the best n is the smallest that explains them all: even multiples of
    2 pi / 10 point to 5.
    """
    scores = np.zeros(largest)
    for fit in _fits(_different(angles), largest):
        scores[fit.n - 1] = fit.score
    return scores


def infer_modulus(angles: Angles, largest: int = LARGEST) -> tuple[int | None, float]:
    """The length n of the cycle that angles belong to, from the angles alone.

    All angles but a few are multiples of 2 pi / n. The page on algebra says when an n is certain enough to be named.

    Args:
        angles: radians.
        largest: the largest n to try.

    Returns:
        n, or None if none is certain, and the confidence, which is 0.999 or more if n is named.

    Examples:
        >>> from brojepa import infer_modulus
        >>> infer_modulus([0.62832, 1.88496, -2.51327, 6.28319])[0]
        10
        >>> infer_modulus([1.25664, 2.51327, -3.76991, 5.02655, 0])[0]
        5
        >>> infer_modulus([0.3, 1.0, 1.9, 2.4, 5.1])[0] is None
        True
    """
    n, confidence, _ = explained(angles, largest)
    return n, confidence


def explained(angles: Angles, largest: int = LARGEST) -> tuple[int | None, float, str | None]:
    """`infer_modulus`, and if that is None the reason: "none" if no n up to `largest` fits the angles, "many" if some
    do, but no better than they would by chance: the angles cannot tell which, or whether there is a cycle at all."""
    values = _different(angles)
    fits = sorted(_fits(values, largest), key=lambda fit: fit.score)
    least, tried = 1.0, sum(1 / m for m in range(1, largest + 1))
    for fit in fits:
        price = fit.n * tried
        chance = price * 10.0**fit.score
        if chance < DOUBT:
            chance = max(chance, _shorter(values, fit))
        if chance < DOUBT:
            longer = _longer(values, fit, largest)
            longer = longer / (1 + longer) if longer > LONGER else 0.0
            chance = max(chance, price * _spaced(values, fit, DOUBT / price), longer)
            if chance >= DOUBT:
                return None, 1 - min(1.0, chance), "many"
        least = min(least, chance)
        if chance < DOUBT:
            return fit.n, 1 - chance, None
    still = bool((np.abs(_wrapped(values)) <= NEAR).all())
    return None, 1 - least, "many" if fits or still else "none"


def nearest_harmonics(angles: Angles, n: int) -> tuple[np.ndarray, np.ndarray]:
    """The multiples j, 0 to n - 1, of 2 pi / n that angles are nearest to, and their signed distances in radians."""
    angles, gap = np.asarray(angles, float), 2 * math.pi / n
    nearest = np.round(angles / gap)
    return (nearest % n).astype(int), angles - nearest * gap


def indistinguishable(angles: Angles, n: int) -> int:
    """How many of n states look alike to rotations by these angles; 1 if all states can be told apart.

    If all angles are multiples j of 2 pi / n, then n / g steps turn no plane, where g is the greatest common divisor of
    n and all j. So the n states form n / g groups of g that no latent tells apart. If some angle is not a multiple, the
    answer is 1.

    Args:
        angles: radians.
        n: number of states.

    Returns:
        The size of a group of states that look alike.

    Examples:
        >>> import math
        >>> from brojepa import indistinguishable
        >>> indistinguishable([8 * 2 * math.pi / 10], n=10)  # 5 groups of 2: y and y + 5 look alike
        2
        >>> indistinguishable([8 * 2 * math.pi / 10, 5 * 2 * math.pi / 10], n=10)
        1
    """
    multiples, distances = nearest_harmonics(angles, n)
    if (np.abs(distances) > SETTLED * math.pi / n).any():
        return 1
    return math.gcd(n, *multiples.ravel().tolist())


def _different(angles: Angles) -> np.ndarray:
    return np.unique(np.asarray(angles, float).ravel())


def _fits(angles: np.ndarray, largest: int) -> list[Fit]:
    """Every n that fits all angles but strays, with the strays that minimise its chance."""
    count, numbers = len(angles), np.arange(1, largest + 1)
    if not count:
        return []
    folded = np.abs(_wrapped(angles))
    near = folded[None, :] * numbers[:, None] / (2 * math.pi)
    multiples = np.round(near)
    errors = 2 * (near - multiples)  # signed shares
    shares = np.maximum(np.abs(errors), _finest(angles) * numbers[:, None] / math.pi)
    order = np.sort(shares, axis=1)
    most = int(STRAYS * count)
    rows = np.flatnonzero(order[:, count - 1 - most] <= FITS)
    if not len(rows):
        return []
    shares, errors, order, numbers = shares[rows], errors[rows], order[rows], numbers[rows]
    multiples = multiples[rows].astype(int)
    width = int(multiples.max()) + 1
    keys = multiples + width * np.arange(len(rows))[:, None]
    finest = np.max(_finest(angles)) * numbers / math.pi
    best, strays = np.full(len(rows), np.inf), np.zeros(len(rows), int)
    for s in range(most + 1):
        limit = order[:, count - 1 - s]
        kept = shares <= limit[:, None]
        members = np.bincount(keys[kept], minlength=width * len(rows)).reshape(len(rows), width)
        sums = np.bincount(keys[kept], errors[kept], minlength=width * len(rows)).reshape(len(rows), width)
        means = np.abs(sums[:, 1:]) / np.maximum(members[:, 1:], 1)  # a multiple of 0 is no evidence
        witnesses = (members[:, 1:] > 0).sum(1)
        worst = np.maximum(means.max(1, initial=0), finest)
        choice = [math.comb(w + s, s) for w in witnesses.tolist()]
        score = np.log10(choice) + witnesses * np.log10(worst)
        score = np.where((witnesses > 0) & (limit <= FITS), score, np.inf)
        strays, best = np.where(score < best, s, strays), np.minimum(score, best)
    return [
        Fit(int(numbers[i]), min(float(best[i]), 0.0), shares[i] <= order[i, count - 1 - strays[i]])
        for i in np.flatnonzero(best < np.inf)
    ]


def _shorter(angles: np.ndarray, fit: Fit) -> float:
    """The chance that a divisor's cycle, and clusters that have not converged, look like n. 1 if it explains all."""
    n, finest = fit.n, float(_finest(angles).max())
    multiples, distances = nearest_harmonics(np.abs(_wrapped(angles)), n)
    near = fit.kept | (np.abs(distances) <= min(NEAR, FITS * math.pi / n))  # a cluster is taken whole
    witness = {
        j: max(abs(median(distances[near & (multiples == j)].tolist())), finest) * n / math.pi
        for j in {*multiples[fit.kept].tolist()} - {0}
    }
    chance = 0.0
    for k in (k for k in range(2, n + 1) if n % k == 0):  # the divisor is n / k
        left = [share for j, share in witness.items() if j % k]
        base = len(witness) - len(left)
        if base:
            speak = (near & (multiples % k > 0)).sum()
            few = len(left) == 1 and base <= 2 and speak >= MANY * len(angles)
            price = (LONE if few else 3) * k * (k - 1)  # 3: clusters count alone, together, or as strays
            chance = max(chance, price * max(left, default=1.0) ** len(left))
    return chance


def _longer(angles: np.ndarray, fit: Fit, largest: int) -> float:
    """The odds that the strays are the only angles of a cycle k n that are not angles of n, for any k.

    That is the chance of so few among multiples drawn at random, over the chance that strays are as near."""
    away = np.abs(nearest_harmonics(angles, fit.n)[1]) > FITS / 2 * math.pi / fit.n
    strays, count = angles[~fit.kept & away], len(angles)
    if not len(strays):
        return 0.0
    odds = 0.0
    for k in range(2, largest // fit.n + 1):
        share = float(np.abs(nearest_harmonics(strays, k * fit.n)[1]).max()) * k * fit.n / math.pi
        few = math.comb(count, len(strays)) * (k - 1) ** len(strays) / k**count
        odds = max(odds, few / max(k * (k - 1) * share ** len(strays), 1e-300))
    return odds


def _spaced(angles: np.ndarray, fit: Fit, doubt: float) -> float:
    """The chance that angles with any equal spacing look like n."""
    multiples, distances = nearest_harmonics(angles, fit.n)
    return spaced(angles, multiples, distances, fit.n, int(STRAYS * len(angles)), float(_finest(angles).max()), doubt)


def _finest(angles: np.ndarray) -> np.ndarray:
    """The finest resolution of an angle that is trusted, in radians."""

    return np.maximum(FINEST * np.abs(angles), 1e-9)


def _wrapped(angles: np.ndarray) -> np.ndarray:
    """Angles in [-pi, pi]."""
    return np.remainder(angles + math.pi, 2 * math.pi) - math.pi
