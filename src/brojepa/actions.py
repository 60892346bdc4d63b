"""Latent actions: (z, k) -> the latent predicted after action k.

`BlockRotation` is the paper's: the latent is cut into planes and action k turns plane i by k * theta_i, so
that acting with j and then k is acting with j + k, exactly and for every integer, trained on or not.
`MLPAction` is the unconstrained baseline: a network that reads the latent and an embedding of k.
"""

from __future__ import annotations

import math
from typing import Literal, cast

import torch
from torch import Tensor, nn

from brojepa.errors import RequestError, unknown

AngleRange = Literal["symmetric", "positive"]


def harmonics(n: int, blocks: int, lowest: int = 0) -> Tensor:
    """Frequencies of the multi-frequency rotation, [blocks]: i mod n/2, counted from `lowest` (0 in the paper).

    From 0 they run 0, 1, ..., ceil(n/2) - 1 and repeat; from 1 they run 1, ..., floor(n/2).
    """
    period = max(2, math.ceil(n / 2)) if lowest == 0 else max(1, n // 2)
    return torch.arange(blocks) % period + lowest


class LatentAction(nn.Module):
    """What every latent action offers: dimensions in and out, and `act`."""

    dim: int
    out_dim: int

    def act(self, z: Tensor, k: Tensor | int) -> Tensor:
        """The latent after action k: z [..., dim], k an integer or a tensor [...] -> [..., out_dim]."""
        raise NotImplementedError

    def forward(self, z: Tensor, k: Tensor | int) -> Tensor:
        return self.act(z, k)

    @property
    def angles(self) -> Tensor | None:
        """Rotation angles [dim / 2], or None where the action is not a rotation."""
        return None

    @property
    def learned_angles(self) -> bool:
        return False


class BlockRotation(LatentAction):
    """z -> R(k theta) z with R block-diagonal in 2x2 rotations, so R(j) R(k) = R(j + k).

    Args:
        theta: angles in radians, [dim / 2], or [1] for one angle shared by all planes.
        dim: latent dimension, even. May be left out where theta has one angle a plane.
        learned: make the angles a parameter.

    The angles, their sines and cosines are float32 whatever the dtype of z; the result has z's dtype.

    >>> import torch
    >>> from brojepa import BlockRotation
    >>> rotation = BlockRotation.multi(dim=8, n=10)
    >>> z = torch.randn(5, 8)
    >>> torch.allclose(rotation.act(rotation.act(z, 4), 6), z, atol=1e-5)
    True
    """

    def __init__(self, theta: Tensor, dim: int | None = None, *, learned: bool = False) -> None:
        super().__init__()
        theta = torch.as_tensor(theta, dtype=torch.float32).reshape(-1)
        dim = 2 * len(theta) if dim is None else dim
        if dim < 2 or dim % 2:
            raise RequestError(f"a rotation needs an even latent dimension, got {dim}: use {max(2, dim + dim % 2)}")
        if len(theta) not in (1, dim // 2):
            raise RequestError(f"{dim // 2} planes need {dim // 2} angles or one shared angle, got {len(theta)}")
        self.dim = self.out_dim = dim
        self.theta = nn.Parameter(theta) if learned else nn.Buffer(theta)

    @classmethod
    def single(cls, dim: int, n: int) -> BlockRotation:
        """One fixed frequency for all planes: theta = 2 pi / n."""
        return cls(torch.tensor([2 * math.pi / n]), dim)

    @classmethod
    def multi(cls, dim: int, n: int, lowest: int = 0) -> BlockRotation:
        """A fixed frequency for each plane: theta_i = 2 pi / n * harmonics(n)_i."""
        return cls(2 * math.pi / n * harmonics(n, dim // 2, lowest), dim)

    @classmethod
    def random(
        cls,
        dim: int,
        *,
        shared: bool = False,
        range: AngleRange = "symmetric",
        generator: torch.Generator | None = None,
    ) -> BlockRotation:
        """Learned angles that start uniform in [-2 pi, 2 pi] ("symmetric") or [0, 2 pi] ("positive")."""
        u = torch.rand(1 if shared else dim // 2, generator=generator)
        return cls(2 * math.pi * (2 * u - 1 if range == "symmetric" else u), dim, learned=True)

    def act(self, z: Tensor, k: Tensor | int) -> Tensor:
        turn = torch.as_tensor(k, device=z.device)[..., None].float() * self.theta.float()
        cos, sin = turn.cos(), turn.sin()
        x, y = z.float().unflatten(-1, (-1, 2)).unbind(-1)
        return torch.stack((x * cos - y * sin, x * sin + y * cos), -1).flatten(-2).to(z.dtype)

    def matrix(self, k: int) -> Tensor:
        """R(k theta) as a dense [dim, dim] matrix; act(z, k) == z @ matrix(k).T."""
        turn = k * cast(Tensor, self.angles)
        cos, sin = turn.cos(), turn.sin()
        blocks = torch.stack((torch.stack((cos, -sin), -1), torch.stack((sin, cos), -1)), -2)
        return torch.block_diag(*blocks)

    @property
    def angles(self) -> Tensor:
        return self.theta.float().expand(self.dim // 2)

    @property
    def learned_angles(self) -> bool:
        return isinstance(self.theta, nn.Parameter)

    def extra_repr(self) -> str:
        return f"dim={self.dim}, angles={len(self.theta)}, learned={self.learned_angles}"


class Additive(nn.Module):
    """k -> k v with one learned vector v, so that the embedding of +3 is three times that of +1."""

    def __init__(self, n: int, dim: int) -> None:
        super().__init__()
        self.v = nn.Parameter(torch.randn(dim))

    def forward(self, k: Tensor) -> Tensor:
        return k[..., None] * self.v


class Lookup(nn.Module):
    """A learned vector for each action -(n-1)..(n-1); rows of unseen actions are never trained."""

    def __init__(self, n: int, dim: int) -> None:
        super().__init__()
        self.n, self.table = n, nn.Embedding(2 * n - 1, dim)

    def forward(self, k: Tensor) -> Tensor:
        return self.table(k.round().long() + self.n - 1)


class Linear(nn.Module):
    """The number k through a small network."""

    def __init__(self, n: int, dim: int) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(1, dim), nn.ReLU(), nn.Linear(dim, dim))

    def forward(self, k: Tensor) -> Tensor:
        return self.net(k[..., None])


def fourier_features(x: Tensor) -> Tensor:
    """sin x, cos x, sin 2x, cos 2x: [...] -> [..., 4]."""
    return torch.stack((x.sin(), x.cos(), (2 * x).sin(), (2 * x).cos()), -1)


class Fourier(nn.Module):
    """sin k, cos k, sin 2k, cos 2k, projected."""

    def __init__(self, n: int, dim: int) -> None:
        super().__init__()
        self.project = nn.Linear(4, dim)

    def forward(self, k: Tensor) -> Tensor:
        return self.project(fourier_features(k))


class Hybrid(nn.Module):
    """A learned vector for the sign of k beside Fourier features of its magnitude."""

    def __init__(self, n: int, dim: int) -> None:
        super().__init__()
        self.sign, self.project = nn.Embedding(3, dim // 2), nn.Linear(4, dim - dim // 2)

    def forward(self, k: Tensor) -> Tensor:
        sign = self.sign(k.sign().long() + 1)
        return torch.cat((sign, self.project(fourier_features(k.abs()))), -1)


EMBEDDINGS = {"additive": Additive, "lookup": Lookup, "linear": Linear, "fourier": Fourier, "hybrid": Hybrid}


class MLPAction(LatentAction):
    """The unconstrained latent action: an MLP (two hidden layers of 256) reads z and an embedding of k.

    Args:
        dim: latent dimension read; `out_dim` the one written, the same unless given.
        n: number of states; `lookup` needs it.
        embedding: additive, lookup, linear, fourier or hybrid.
        scale: k is multiplied by this before it is embedded (lookup aside): 1 in the paper; 2 pi / n makes
            the Fourier features periodic in n.
    """

    def __init__(
        self,
        dim: int,
        n: int,
        embedding: str = "additive",
        *,
        out_dim: int | None = None,
        hidden: int = 256,
        embedding_dim: int = 32,
        scale: float = 1.0,
    ) -> None:
        super().__init__()
        if embedding not in EMBEDDINGS:
            raise unknown("action embedding", embedding, EMBEDDINGS)
        self.dim, self.out_dim = dim, out_dim or dim
        self.scale = 1.0 if embedding == "lookup" else scale
        self.embedding = EMBEDDINGS[embedding](n, embedding_dim)
        self.net = nn.Sequential(
            nn.Linear(dim + embedding_dim, hidden), nn.ReLU(),
            nn.Linear(hidden, hidden), nn.ReLU(),
            nn.Linear(hidden, self.out_dim),
        )  # fmt: skip

    def act(self, z: Tensor, k: Tensor | int) -> Tensor:
        k = torch.as_tensor(k, device=z.device, dtype=torch.float32)
        shape = torch.broadcast_shapes(z.shape[:-1], k.shape)
        e = self.embedding(k * self.scale).expand(*shape, -1)
        return self.net(torch.cat((z.expand(*shape, -1), e), -1))
