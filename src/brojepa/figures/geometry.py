"""The little geometry that figures need: prototypes, their cosines, principal components, an even choice of points."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


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


def even_choice(states: np.ndarray, each: int, n: int) -> np.ndarray:
    """Indices of up to `each` rows of every state, evenly spread over the rows it has."""
    chosen = []
    for y in range(n):
        rows = np.flatnonzero(states == y)
        chosen.append(rows[np.linspace(0, len(rows) - 1, min(each, len(rows))).round().astype(int)])
    return np.sort(np.concatenate(chosen))
