"""The geometry that figures need: prototypes, their cosines, principal components, an even choice of points."""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd

import numpy as np

from brojepa.errors import RequestError


def prototypes(z: np.ndarray, states: np.ndarray, n: int) -> np.ndarray:
    """The mean latent of each state, [n, dim]."""
    return np.stack([z[states == y].mean(0) for y in range(n)])


def cosines(vectors: np.ndarray) -> np.ndarray:
    """Cosine similarity of every pair of rows, [n, n]; 0 with a row of zeros."""
    length = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit = vectors / np.where(length > 0, length, 1)
    return unit @ unit.T


@dataclass(frozen=True)
class PCA:
    """Principal components: z -> (z - mean) @ axes.T; `shares` of the variance along each axis, largest first."""

    mean: np.ndarray
    axes: np.ndarray
    shares: np.ndarray

    @classmethod
    def of(cls, z: np.ndarray, count: int = 2) -> PCA:
        mean = z.mean(0, dtype=np.float64)
        centred = z - mean
        values, vectors = np.linalg.eigh(centred.T @ centred)
        total = max(float(values.sum()), 1e-300)
        return cls(mean, vectors[:, ::-1][:, :count].T, values[::-1][:count].clip(0) / total)

    def __call__(self, z: np.ndarray) -> np.ndarray:
        return (z - self.mean) @ self.axes.T

    def oriented(self, means: np.ndarray) -> PCA:
        """The signs that components leave open, chosen so that state 0 lies to the right and 1 follows it
        counterclockwise."""
        start, following = self(means[:2])
        right = -1.0 if start[0] < 0 else 1.0
        turned = right * (start[0] * following[1] - start[1] * following[0])
        return PCA(self.mean, self.axes * np.array([[right], [-1.0 if turned < 0 else 1.0]]), self.shares)


def frequencies(angles: np.ndarray, n: int) -> np.ndarray:
    """The multiple of a turn divided by n that each angle [planes] is nearest to, 0 to n - 1."""
    return np.rint(angles * n / (2 * np.pi)).astype(int) % n


def telling(present: np.ndarray, n: int) -> int:
    """Of the frequencies of planes, the lowest that tells all n states apart, a generator of the cycle; without
    one, the lowest that turns at all. Frequency f turns planes as n - f does, the other way round."""
    turning = sorted({min(f, n - f) for f in present.tolist()} - {0})
    if not turning:
        raise RequestError("no plane of this model turns: --frequency pca shows its principal components")
    return next((f for f in turning if gcd(f, n) == 1), turning[0])


def at_frequency(z: np.ndarray, means: np.ndarray, present: np.ndarray, frequency: int) -> PCA:
    """All planes that turn at one frequency, as one plane: they are turned so that state 0 lies to the right in each,
    and added up, each weighted by how far its states lie from its centre.

    A plane is a complex number w per latent, and its states' means lie near c exp(2 pi i f y / n): c is their Fourier
    coefficient, and what is added up is conj(c) w.

    Args:
        z: latents [count, dim], for the share of their variance that lies along each axis.
        means: of each state, [n, dim].
        present: the frequency of each plane, [dim / 2].
        frequency: the one that is shown, 1 to n / 2.
    """
    n = len(means)
    forward, backward = present == frequency, present == n - frequency
    planes = means[:, 0::2] + 1j * means[:, 1::2]
    planes = np.where(forward, planes, planes.conj()) * (forward | backward)
    coefficient = (planes * np.exp(-2j * np.pi * frequency * np.arange(n) / n)[:, None]).mean(0)
    weight = coefficient.conj() / max(float(np.linalg.norm(coefficient)), 1e-30)
    sign = np.where(forward, 1, -1)  # conj(w) turns the other way
    axes = np.stack((np.stack((weight.real, -sign * weight.imag), 1), np.stack((weight.imag, sign * weight.real), 1)))
    axes = axes.reshape(2, -1)
    total = max(float(z.var(0, dtype=np.float64).sum()), 1e-300)
    return PCA(np.zeros(z.shape[1]), axes, (z @ axes.T).var(0) / total)


def even_choice(states: np.ndarray, each: int, n: int) -> np.ndarray:
    """Indices of up to `each` rows of every state, evenly spread over the rows it has."""
    chosen = []
    for y in range(n):
        rows = np.flatnonzero(states == y)
        chosen.append(rows[np.linspace(0, len(rows) - 1, min(each, len(rows))).round().astype(int)])
    return np.sort(np.concatenate(chosen))
