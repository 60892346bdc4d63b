"""Reading the number of states off learned angles, without ever being told it."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

LARGEST = 64  # moduli that are tried
NEAR = 0.02  # radians; angles nearer than this to each other, up to sign, are one witness
FINEST = 1e-6  # radians; no angle is trusted beyond this
DOUBT = 1e-3  # the chance that we accept of finding a modulus where there is none


def evidence(angles: Sequence[float] | np.ndarray, largest: int = LARGEST) -> np.ndarray:
    """For n = 1 to `largest`: log10 of the chance that random angles are multiples of 2 pi / n as nearly as these.

    n times an angle is taken modulo a turn; its distance from 0, as a share of half a turn, is uniform between 0 and
    1 for a random angle. The largest share u of all angles speaks for n, and by chance d angles all stay below it with
    probability u ** d. Angles that share a multiple are no independent witnesses: d counts clusters of angles up to
    sign, which no rotation tells apart from its mirror image.

    A multiple of the right n has a larger u, because the same errors weigh more; a divisor has one if it leaves some
    angle unexplained. So the best n is the smallest that explains them all: even multiples of 2 pi / 10 speak for 5.
    """
    angles = np.asarray(angles, float).ravel()
    if not angles.size:
        return np.zeros(largest)
    folded = np.sort(np.abs(_wrapped(angles)))
    witnesses = 1 + int((np.diff(folded) > NEAR).sum())
    return witnesses * np.log10([_share(angles, n) for n in range(1, largest + 1)])


def infer_modulus(angles: Sequence[float] | np.ndarray, largest: int = LARGEST) -> tuple[int | None, float]:
    """(n, confidence): the n for which all angles are multiples of 2 pi / n, or None where chance does as well.

    Confidence is 1 minus the chance that so good an n is found, among all that are tried, for random angles; and for
    every divisor of n, that the angles which it leaves unexplained fit n so well. The latter guards against strays:
    nine angles in ten that are tenths of a turn, and one that is near a fiftieth, do not speak for 50.

    >>> infer_modulus([0.62832, 1.88496, -2.51327, 6.28319])[0]
    10
    >>> infer_modulus([1.25664, 2.51327, -3.76991, 5.02655, 0])[0]
    5
    >>> infer_modulus([0.3, 1.0, 1.9, 2.4, 5.1])[0] is None
    True
    """
    angles = np.unique(np.asarray(angles, float).ravel())
    scores = evidence(angles, largest)
    n = int(scores.argmin()) + 1
    share = _share(angles, n) if angles.size else 1.0
    within = share * math.pi / n
    chances = [10.0 ** scores[n - 1]]
    for divisor in (m for m in range(1, n) if n % m == 0):
        left = np.abs(_wrapped(divisor * angles)) > divisor * within
        chances.append(share ** int(left.sum()))
    chance = min(1.0, largest * max(chances))
    return (n if chance < DOUBT else None), 1 - chance


def _share(angles: np.ndarray, n: int) -> float:
    """The largest distance of n times an angle from a whole turn, as a share of half a turn."""
    return max(float(np.abs(_wrapped(n * angles)).max()), FINEST * n) / math.pi


def _wrapped(angles: np.ndarray) -> np.ndarray:
    """Angles in [-pi, pi]."""
    return np.remainder(angles + math.pi, 2 * math.pi) - math.pi
