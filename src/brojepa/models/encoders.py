"""Encoders: images [batch, channels, height, width] -> latents [batch, dim].

`mlp` and `resnet18` are the paper's; `cnn` is small and fast. All take any image size and any channel count.
"""

from __future__ import annotations

import math

from torch import Tensor, nn
from torch.nn import functional as F

from brojepa.errors import RequestError
from brojepa.worlds.transforms import block_means

Shape = tuple[int, int, int]


class Pixels(nn.Module):
    """No encoder: the pixels themselves, flat. The supervised MLP reads these beside the action embedding."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.dim = math.prod(shape)

    def forward(self, x: Tensor) -> Tensor:
        return x.flatten(1)


def standardiser(dim: int, on: bool) -> nn.Module:
    """The last layer of an encoder: each latent dimension at mean 0 and variance 1 over the batch, or nothing."""
    return nn.BatchNorm1d(dim, affine=False) if on else nn.Identity()


class MLP(nn.Module):
    """Two hidden layers of 256 with ReLU: 784-256-256-64 on MNIST."""

    def __init__(self, shape: Shape, dim: int, standardise: bool = False, hidden: int = 256) -> None:
        super().__init__()
        self.dim = dim
        self.net = nn.Sequential(
            nn.Flatten(),
            nn.Linear(math.prod(shape), hidden), nn.ReLU(inplace=True),
            nn.Linear(hidden, hidden), nn.ReLU(inplace=True),
            nn.Linear(hidden, dim),
        )  # fmt: skip
        self.standardise = standardiser(dim, standardise)

    def forward(self, x: Tensor) -> Tensor:
        return self.standardise(self.net(x).float())


def conv(inputs: int, outputs: int, size: int, stride: int = 1) -> nn.Conv2d:
    return nn.Conv2d(inputs, outputs, size, stride, (size - 1) // 2, bias=False)


class CNN(nn.Module):
    """A 4x4 stride-2 stem and three 3x3 convolutions with batch norm, pooled to 3x3 (`pool`; more along a longer side)
    and projected. Channels are 24, 48, 96 and 96, times `width`. It reads the means of blocks of `shrink` x `shrink`
    pixels; those of the last rows and columns may hold fewer."""

    def __init__(
        self, shape: Shape, dim: int, standardise: bool = False, width: int = 1, pool: int = 3, shrink: int = 1
    ) -> None:
        super().__init__()
        height, breadth = (math.ceil(side / shrink) for side in shape[1:])
        least = min(height, breadth)
        if least < 2:
            if shrink > 1:
                raise RequestError(
                    f"--shrink {shrink} leaves {height} x {breadth} pixels, too few for the cnn: shrink less"
                )
            raise RequestError(f"images of {height} x {breadth} are too small for the cnn: use --encoder mlp")
        self.dim, self.shrink = dim, shrink
        a, b, c, d = (width * channels for channels in (24, 48, 96, 96))
        pooled = tuple(pool * side // least for side in (height, breadth))
        self.features = nn.Sequential(
            conv(shape[0], a, 4, 2), nn.BatchNorm2d(a), nn.ReLU(inplace=True),
            conv(a, b, 3), nn.MaxPool2d(2, ceil_mode=True), nn.BatchNorm2d(b), nn.ReLU(inplace=True),
            conv(b, c, 3), nn.BatchNorm2d(c), nn.ReLU(inplace=True),
            conv(c, d, 3), nn.AdaptiveMaxPool2d(pooled), nn.BatchNorm2d(d), nn.ReLU(inplace=True),
        )  # fmt: skip
        self.project = nn.Linear(math.prod(pooled) * d, dim)
        self.standardise = standardiser(dim, standardise)

    def forward(self, x: Tensor) -> Tensor:
        x = block_means(x, self.shrink)
        return self.standardise(self.project(self.features(x).flatten(1)).float())


class BasicBlock(nn.Module):
    """Two 3x3 convolutions and a skip."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1, self.bn1 = conv(inputs, outputs, 3, stride), nn.BatchNorm2d(outputs)
        self.conv2, self.bn2 = conv(outputs, outputs, 3), nn.BatchNorm2d(outputs)
        self.downsample = None
        if stride != 1 or inputs != outputs:
            self.downsample = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x: Tensor) -> Tensor:
        skip = x if self.downsample is None else self.downsample(x)
        x = F.relu(self.bn1(self.conv1(x)), inplace=True)
        return F.relu(self.bn2(self.conv2(x)) + skip, inplace=True)


class ResNet18(nn.Module):
    """ResNet-18 (He et al., 2016) with the paper's 3x3 stride-1 stem and no max-pool.

    Layers are named as torchvision names them, so its weights load with `strict=False` once `conv1` and `fc`,
    whose shapes differ, are left out.
    """

    def __init__(self, shape: Shape, dim: int, standardise: bool = False) -> None:
        super().__init__()
        self.dim = dim
        self.conv1, self.bn1 = conv(shape[0], 64, 3), nn.BatchNorm2d(64)
        self.layer1 = nn.Sequential(BasicBlock(64, 64, 1), BasicBlock(64, 64, 1))
        self.layer2 = nn.Sequential(BasicBlock(64, 128, 2), BasicBlock(128, 128, 1))
        self.layer3 = nn.Sequential(BasicBlock(128, 256, 2), BasicBlock(256, 256, 1))
        self.layer4 = nn.Sequential(BasicBlock(256, 512, 2), BasicBlock(512, 512, 1))
        self.fc = nn.Linear(512, dim)
        self.standardise = standardiser(dim, standardise)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.bn1(self.conv1(x)), inplace=True)
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.standardise(self.fc(x.mean((2, 3))).float())


ENCODERS = {"mlp": MLP, "cnn": CNN, "resnet18": ResNet18}
