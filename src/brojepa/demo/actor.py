"""A model on the page: its latents of real images, its predictions, and their geometry as numbers to draw."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from brojepa.demo.images import png
from brojepa.errors import RequestError
from brojepa.figures.geometry import PCA, at_frequency, frequencies, telling
from brojepa.groups import Element, Group
from brojepa.models import Model

NEAREST = 5  # real images shown beside a prediction
PLANES = 32  # clock hands shown at most
FRAMES = 24  # points of a path that is animated


class Actor:
    """One model, and a pool of real images whose latents it is compared with.

    label: what the page calls it.
    pool: uint8 images [count, c, h, w]; z: their latents.
    """

    def __init__(self, model: Model, label: str, pool: Tensor) -> None:
        if not model.predicts_latents or model.action.dim != model.action.out_dim:
            raise RequestError(f"{label} predicts states, not latents of images: the demo needs a JEPA")
        self.model, self.label, self.pool = model, label, pool
        self.z = self.encode(pool)
        angles = model.action.angles
        # by the shortest way per step: 324 degrees forward are 36 back
        self.angles = None if angles is None else _wrapped(angles.detach().cpu().double()).reshape(len(angles), -1)

    @torch.no_grad()
    def encode(self, images: Tensor) -> Tensor:
        return self.model.encode(images)

    @torch.no_grad()
    def act(self, z: Tensor, k: Element) -> Tensor:
        return self.model.act(z, k)

    @torch.no_grad()
    def rollout(self, z: Tensor, k: Element, steps: int) -> Tensor:
        return self.model.rollout(z, k, steps)

    def nearest(self, z: Tensor, count: int = NEAREST) -> Tensor:
        """Rows of the pool whose latents are nearest to each of z [n, dim]: [n, count]."""
        return torch.cdist(z, self.z).topk(min(count, len(self.z)), largest=False).indices.cpu()

    def decoded(self, z: Tensor) -> str | None:
        """Pictures of latents [count, dim] as one PNG, if the model has a decoder."""
        return png(self.model.decode(z)) if self.model.decoder is not None else None

    @torch.no_grad()
    def chances(self, z: Tensor) -> Tensor:
        """Probabilities of the states, [..., dim] -> [..., n]."""
        assert self.model.classifier is not None
        return self.model.classifier(z).softmax(-1).cpu()

    def turns(self, k: Element) -> np.ndarray | None:
        """The radians by which an action turns each plane, all its steps together; None if the model has no planes."""
        if self.angles is None:
            return None
        return (self.angles.numpy() * np.atleast_1d(np.array(k, float))).sum(-1)

    def hands(self, z: Tensor, k: Element, group: Group) -> list[dict[str, Any]]:
        """The planes of a latent [dim] as hands of clocks: direction, length (1 is the longest) and
        the turn of the action; grouped by frequency, slow ones first."""
        turn = self.turns(k)
        if turn is None or self.angles is None or group.periods is None:
            return []
        plane = _planes(z)
        size = np.abs(plane) / max(float(np.abs(plane).max()), 1e-12)
        every = [frequencies(self.angles[:, i].numpy(), n) for i, n in enumerate(group.periods)]
        folded = [np.minimum(f, n - f) for f, n in zip(every, group.periods, strict=True)]
        order = sorted(range(len(plane)), key=lambda i: ([int(f[i]) for f in folded], i))
        kept = set(np.argsort(-size)[:PLANES].tolist())
        return [
            {
                "frequency": ":".join(str(int(f[i])) for f in folded),
                "at": float(np.angle(plane[i])),
                "turn": float(turn[i]),
                "size": float(size[i]),
            }
            for i in order
            if i in kept
        ]

    def view(self, ring: np.ndarray, factor: int, period: int) -> PCA:
        """The plane in which the latents of a ring [count, dim] lie on a circle: all planes of the model that turn
        under one factor of the group and no other, at the lowest frequency that tells the ring's states apart. A model
        without planes is shown in its principal components."""
        if self.angles is not None:
            count = len(ring)
            step = self.angles.numpy() * (period / count)
            own = frequencies(step[:, factor], count)
            alone = self._alone(factor)
            present = np.where(alone, own, 0)
            if (present % count).any():
                return at_frequency(ring, ring, present, telling(present[alone], count))
        return PCA.of(ring).oriented(ring)

    def _alone(self, factor: int) -> np.ndarray:
        """Which planes turn under this factor alone."""
        assert self.angles is not None
        others = np.delete(self.angles.numpy(), factor, axis=1)
        return np.all(np.abs(np.sin(others / 2)) < 1e-2, axis=1)

    def path(self, view: PCA, z: Tensor, after: Tensor, k: Element) -> list[list[float]]:
        """The way of a latent [dim] to where an action takes it, as points of a view: along the circle if planes
        turn, and straight if the model jumps."""
        turn = self.turns(k)
        ends = view(torch.stack((z, after)).cpu().double().numpy())
        if turn is None:
            return ends.tolist()
        share = np.linspace(0, 1, FRAMES + 1)[:, None]
        planes = _planes(z)[None] * np.exp(1j * share * turn)
        rows = np.stack((np.real(planes), np.imag(planes)), -1).reshape(len(share), -1)
        return [*view(rows)[:-1].tolist(), ends[1].tolist()]


def _wrapped(angles: Tensor) -> Tensor:
    """Angles in [-pi, pi)."""
    return torch.remainder(angles + torch.pi, 2 * torch.pi) - torch.pi


def _planes(z: Tensor) -> np.ndarray:
    """A latent [dim] as complex numbers, one per plane."""
    pairs = z.cpu().double().numpy().reshape(-1, 2)
    return pairs[:, 0] + 1j * pairs[:, 1]


def spread(z: Tensor) -> float:
    """The mean distance between two different rows of z [count, dim]."""
    far = torch.cdist(z, z)
    return max(float(far.sum()) / max(len(z) * (len(z) - 1), 1), 1e-12)
