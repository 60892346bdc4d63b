"""The cycle that a rotation's angles speak of: its length, read off them alone, and the states it cannot tell apart."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

LARGEST = 64  # moduli that are tried
NEAR = 0.02  # radians; angles nearer than this to each other, up to sign, are one witness
FINEST = 1e-6  # radians; no angle is trusted beyond this
DOUBT = 1e-3  # the chance that we accept of finding a modulus where there is none
STRAYS = 1 / 8  # the share of angles that may belong to no cycle
SETTLED = 0.1  # an angle nearer to a harmonic than this share of half the gap between harmonics has settled there

Angles = Sequence[float] | np.ndarray


def evidence(angles: Angles, largest: int = LARGEST) -> np.ndarray:
    """For n = 1 to `largest`: log10 of the chance that random angles are multiples of 2 pi / n as nearly as these.

    n times an angle is taken modulo a turn; its distance from 0, as a share of half a turn, is uniform between 0 and
    1 for a random angle. Angles that share a multiple are no independent witnesses: what counts is the mean of each
    cluster of angles up to sign, which no rotation tells apart from its mirror image. If all but s of d clusters have
    shares of u or less, the chance is that of d - s or more successes in d trials with probability u. Which clusters
    are strays, at most an eighth of the angles, is what makes the chance least, and that choice is paid for.

    A multiple of the right n has a larger u, because the same errors weigh more; a divisor has one if it leaves some
    angle unexplained. So the best n is the smallest that explains them all: even multiples of 2 pi / 10 speak for 5.
    """
    means, sizes = _clusters(angles)
    return np.array([_chance(means, sizes, n)[0] for n in range(1, largest + 1)])


def infer_modulus(angles: Angles, largest: int = LARGEST) -> tuple[int | None, float]:
    """(n, confidence): the n for which all angles but a few are multiples of 2 pi / n, or None where none is certain.

    Confidence is 1 minus the chance that so good an n is found, among all that are tried, for random angles; and for
    every divisor of n, that the angles which it leaves unexplained fit n so well. The latter guards against strays:
    nine angles in ten that are tenths of a turn, and one that is near a fiftieth, speak for 10 and not for 50.

    >>> infer_modulus([0.62832, 1.88496, -2.51327, 6.28319])[0]
    10
    >>> infer_modulus([1.25664, 2.51327, -3.76991, 5.02655, 0])[0]
    5
    >>> infer_modulus([0.3, 1.0, 1.9, 2.4, 5.1])[0] is None
    True
    """
    means, sizes = _clusters(angles)
    tried: list[tuple[float, float, int]] = []  # the chance of being wrong, the evidence, n
    for n in range(1, largest + 1):
        score, share = _chance(means, sizes, n)
        fits = _shares(means, n) <= share
        chances = [10.0**score]
        for divisor in (m for m in range(1, n) if n % m == 0):
            left = fits & (_shares(means, divisor) > 1.000001 * share * divisor / n)  # as near, in radians
            chances.append(share ** int(sizes[left].sum()))
        tried.append((min(1.0, largest * max(chances)), score, n))
    certain = [(score, chance, n) for chance, score, n in tried if chance < DOUBT]
    if not certain:
        return None, 1 - min(tried)[0]
    _, chance, n = min(certain)
    return n, 1 - chance


def nearest_harmonics(angles: Angles, n: int) -> tuple[np.ndarray, np.ndarray]:
    """The multiples j, 0 to n - 1, of 2 pi / n that angles are nearest to, and their signed distances in radians."""
    angles, gap = np.asarray(angles, float), 2 * math.pi / n
    nearest = np.round(angles / gap)
    return nearest.astype(int) % n, angles - nearest * gap


def indistinguishable(angles: Angles, n: int) -> int:
    """How many of n states look alike to rotations by these angles: 1 where every state is told from every other.

    If all angles are multiples j of 2 pi / n, then n / g steps turn no plane, with g the greatest common divisor of n
    and all j; so the n states fall into n / g groups of g that no latent tells apart. Where some angle is no multiple
    the answer is 1: the states are apart, however close.

    >>> import math
    >>> indistinguishable([8 * 2 * math.pi / 10], n=10)  # 5 groups of 2: y and y + 5 look alike
    2
    >>> indistinguishable([8 * 2 * math.pi / 10, 5 * 2 * math.pi / 10], n=10)
    1
    """
    multiples, distances = nearest_harmonics(angles, n)
    if (np.abs(distances) > SETTLED * math.pi / n).any():
        return 1
    return math.gcd(n, *multiples.ravel().tolist())


def _clusters(angles: Angles) -> tuple[np.ndarray, np.ndarray]:
    """The mean of each cluster of angles up to sign, and how many different angles are in it."""
    folded = np.abs(_wrapped(np.unique(np.asarray(angles, float).ravel())))
    folded.sort()
    parts = np.split(folded, np.flatnonzero(np.diff(folded) > NEAR) + 1) if folded.size else []
    return np.array([part.mean() for part in parts]), np.array([len(part) for part in parts], int)


def _chance(means: np.ndarray, sizes: np.ndarray, n: int) -> tuple[float, float]:
    """`evidence` for one n, and the share u within which the clusters that are no strays lie."""
    shares, most = _shares(means, n), STRAYS * sizes.sum()
    best = (0.0, 1.0)
    for least in (1, 2):  # with and without the angles that stand alone
        kept = sizes >= least
        order = np.flatnonzero(kept)[np.argsort(-shares[kept], kind="stable")]
        for strays, worst in enumerate(order):
            if sizes[~kept].sum() + sizes[order[:strays]].sum() > most:
                break
            u, count = float(shares[worst]), len(order)
            tail = sum(math.comb(count, j) * u ** (count - j) * (1 - u) ** j for j in range(strays + 1))
            price = 2 * (strays + 1) * (strays + 2)  # the prices' inverses add up to 1
            best = min(best, (math.log10(max(price * tail, 1e-300)), u))
    return best


def _shares(angles: np.ndarray, n: int) -> np.ndarray:
    """The distance of n times each angle from a whole turn, as a share of half a turn."""
    return np.maximum(np.abs(_wrapped(n * angles)), FINEST * n) / math.pi


def _wrapped(angles: np.ndarray) -> np.ndarray:
    """Angles in [-pi, pi]."""
    return np.remainder(angles + math.pi, 2 * math.pi) - math.pi
