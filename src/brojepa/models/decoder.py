"""Pictures of latents: a small network that is trained on the latents of a finished model.

A decoder is not part of its model: a JEPA learns without one, and its weights do not change. A decoder cannot show what
a latent does not hold; it shows the mean of all images with that latent.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from brojepa.errors import RequestError

CELLS = 100  # of the coarse picture that is made first, at most; every later layer doubles its sides
CHANNELS = (16, 48, 24, 12)  # of the coarse picture, and after the layers that follow
AT_ONCE = 512  # latents decoded together


class DecoderNet(nn.Module):
    """Latents [batch, dim] -> logits of pixels [batch, *shape]: a linear map to a coarse picture, then convolutions
    that double its sides until it is as large as the images, and is cut to their size.

    `center` and `scale` [dim] bring latents to mean 0 and variance 1, whatever the encoder returns; `middle` has the
    logits of the mean image, to which the output is added.
    """

    def __init__(self, dim: int, shape: tuple[int, int, int]) -> None:
        super().__init__()
        self.dim, self.shape = dim, shape
        doublings = 0
        while math.prod(self._coarse(doublings)) > CELLS:
            doublings += 1
        first, second, *rest = CHANNELS
        self.coarse = (first, *self._coarse(doublings))
        self.center, self.scale = nn.Buffer(torch.zeros(dim)), nn.Buffer(torch.ones(dim))
        self.middle = nn.Buffer(torch.zeros(shape))
        self.start = nn.Linear(dim, math.prod(self.coarse))
        layers: list[nn.Module] = [nn.ReLU(), nn.Conv2d(first, second, 3, padding=1), nn.ReLU()]
        before = second
        for i in range(doublings):
            after = rest[min(i, len(rest) - 1)]
            layers += [nn.Conv2d(before, 4 * after, 3, padding=1), nn.PixelShuffle(2), nn.ReLU()]
            before = after
        self.layers = nn.Sequential(*layers, nn.Conv2d(before, shape[0], 3, padding=1))

    def _coarse(self, doublings: int) -> tuple[int, int]:
        height, width = (-(-side // 2**doublings) for side in self.shape[1:])
        return height, width

    def forward(self, z: Tensor) -> Tensor:
        coarse = self.start((z - self.center) / self.scale).unflatten(1, self.coarse)
        return self.layers(coarse)[..., : self.shape[1], : self.shape[2]] + self.middle


class Decoder:
    """A trained decoder and what is known of it. Not a module, so that it does not become a part of its model.

    about: the sha256 of the model it was trained for, how it was trained, and its error on images held out: the mean
    squared difference of pixels from 0 to 1, beside that of the mean image and, where states have labels, of the mean
    image of the right state.
    """

    def __init__(self, net: DecoderNet, about: dict[str, Any]) -> None:
        self.net, self.about = net.eval(), about

    def __repr__(self) -> str:
        shape = " x ".join(map(str, self.net.shape))
        error, mean = self.about.get("error", math.nan), self.about.get("mean_image_error", math.nan)
        return f"Decoder of {self.net.dim} dimensions to {shape}, error {error:.4f}, of the mean image {mean:.4f}"

    @torch.no_grad()
    def __call__(self, z: Tensor) -> Tensor:
        """Images uint8 [..., c, h, w] of latents [..., dim], on the device of the latents."""
        if not isinstance(z, Tensor) or not z.is_floating_point() or z.ndim < 1 or z.shape[-1] != self.net.dim:
            given = f"{list(z.shape)} of {str(z.dtype)[6:]}" if isinstance(z, Tensor) else f"{type(z).__name__}"
            raise RequestError(f"decode takes latents [..., {self.net.dim}] of floats, got {given}")
        flat = z.reshape(-1, self.net.dim).float()
        net = self.net.to(z.device)
        parts = [F.sigmoid(net(part)).mul_(255).round_().to(torch.uint8) for part in flat.split(AT_ONCE)]
        return torch.cat(parts).reshape(*z.shape[:-1], *net.shape)
