"""The unconstrained latent action, a network that reads the latent and an embedding of the action."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from brojepa.errors import RequestError, unknown
from brojepa.groups import Cyclic, Group
from brojepa.models.actions.base import LatentAction


class Additive(nn.Module):
    """k -> k v with one learned vector v, so that the embedding of +3 is three times that of +1; if an action has
    several coordinates (two digits, a rotation in space), one vector per coordinate."""

    def __init__(self, group: Group, dim: int) -> None:
        super().__init__()
        count = group.coordinates(torch.as_tensor(group.identity)).shape[-1]
        self.v = nn.Parameter(torch.randn(*((count,) if count > 1 else ()), dim))

    def forward(self, k: Tensor) -> Tensor:
        return k * self.v if self.v.ndim == 1 else k @ self.v


class Lookup(nn.Module):
    """One learned vector per action -(n-1)..(n-1); rows of unseen actions are never trained."""

    def __init__(self, group: Group, dim: int) -> None:
        super().__init__()
        self.group, self.table = group, nn.Embedding(group.buckets, dim)

    def forward(self, k: Tensor) -> Tensor:
        return self.table(self.group.bucket(k[..., 0].round().long()))


class Linear(nn.Module):
    """The number k through a small network."""

    def __init__(self, group: Group, dim: int) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(1, dim), nn.ReLU(), nn.Linear(dim, dim))

    def forward(self, k: Tensor) -> Tensor:
        return self.net(k)


def fourier_features(x: Tensor) -> Tensor:
    """sin x, cos x, sin 2x, cos 2x: [...] -> [..., 4]."""
    return torch.stack((x.sin(), x.cos(), (2 * x).sin(), (2 * x).cos()), -1)


class Fourier(nn.Module):
    """sin k, cos k, sin 2k, cos 2k, projected."""

    def __init__(self, group: Group, dim: int) -> None:
        super().__init__()
        self.project = nn.Linear(4, dim)

    def forward(self, k: Tensor) -> Tensor:
        return self.project(fourier_features(k[..., 0]))


class Hybrid(nn.Module):
    """A learned vector for the sign of k beside Fourier features of its magnitude."""

    def __init__(self, group: Group, dim: int) -> None:
        super().__init__()
        self.sign, self.project = nn.Embedding(3, dim // 2), nn.Linear(4, dim - dim // 2)

    def forward(self, k: Tensor) -> Tensor:
        k = k[..., 0]
        sign = self.sign(k.sign().long() + 1)
        return torch.cat((sign, self.project(fourier_features(k.abs()))), -1)


ACTIVATIONS = {"relu": nn.ReLU, "gelu": nn.GELU}
EMBEDDINGS = {"additive": Additive, "lookup": Lookup, "linear": Linear, "fourier": Fourier, "hybrid": Hybrid}


class MLPAction(LatentAction):
    """An MLP that reads the latent and an embedding of the action: the latent action without constraints.

    Args:
        dim: latent dimension that is read.
        group: the group of the actions, or n for the cycle of n.
        embedding: "additive", "lookup", "linear", "fourier" or "hybrid".
        out_dim: latent dimension that is written; default `dim`.
        hidden: width of the two hidden layers.
        embedding_dim: dimension of the embedding.
        scale: factor on the action's number before it is embedded.
        activation: "relu" or "gelu".

    Raises:
        RequestError: an unknown embedding, or one that does not fit the group.

    Examples:
        >>> import brojepa
        >>> import torch
        >>> action = brojepa.MLPAction(dim=8, group=10)
        >>> action.act(torch.randn(5, 8), 3).shape
        torch.Size([5, 8])
    """

    def __init__(
        self,
        dim: int,
        group: Group | int,
        embedding: str = "additive",
        *,
        out_dim: int | None = None,
        hidden: int = 256,
        embedding_dim: int = 32,
        scale: float = 1.0,
        activation: str = "relu",
    ) -> None:
        super().__init__()
        if embedding not in EMBEDDINGS:
            raise unknown("action embedding", embedding, EMBEDDINGS)
        if activation not in ACTIVATIONS:
            raise unknown("activation", activation, ACTIVATIONS)
        self.group = Cyclic(group) if isinstance(group, int) else group
        if embedding != "additive" and self.group.cycle is None:
            raise RequestError(f"the {embedding} embedding is for cycles, not for {self.group}: use additive")
        self.dim, self.out_dim = dim, out_dim or dim
        self.scale = 1.0 if embedding == "lookup" else scale
        self.embedding = EMBEDDINGS[embedding](self.group, embedding_dim)
        self.net = nn.Sequential(
            nn.Linear(dim + embedding_dim, hidden), ACTIVATIONS[activation](),
            nn.Linear(hidden, hidden), ACTIVATIONS[activation](),
            nn.Linear(hidden, self.out_dim),
        )  # fmt: skip

    def act(self, z: Tensor, k: Tensor | int) -> Tensor:
        k = self.group.coordinates(torch.as_tensor(k, device=z.device))
        first, *rest = self.net
        assert isinstance(first, nn.Linear)
        # the first layer reads z and k side by side: if many latents meet few actions, each is read only once
        x = F.linear(z, first.weight[:, : self.dim])
        x = x + F.linear(self.embedding(k * self.scale), first.weight[:, self.dim :], first.bias)
        for layer in rest:
            x = layer(x)
        return x
