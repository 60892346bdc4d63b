"""Solids: 3D objects made of coloured balls, and pictures of them from any side.

An object is a bent body with a head and limbs, each in a colour of its own; no turn and no mirror takes it to itself.
`view` casts one ray per sample, straight along z, and shades what it meets under a light that stays with the camera: a
picture is a function of the turned object alone. x points right, y up, z to the viewer; the unit ball fills the frame.
"""

from __future__ import annotations

import colorsys
from dataclasses import dataclass
from math import sqrt

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from brojepa.errors import RequestError

BODIES = (
    (4, 3, 3, 2),
    (5, 2, 2, 3),
    (4, 2, 2, 2, 2),
    (3, 4, 3, 2),
    (6, 2, 2, 2),
    (4, 5, 3),
    (5, 4, 3),
    (3, 3, 2, 2, 2),
)
"""Balls of the body, the last being the head, then of each limb; every row adds up to 12."""

LIGHT = (-2 / sqrt(17), 2 / sqrt(17), 3 / sqrt(17))
"""The direction to the light: upper left, in front."""

AMBIENT = 0.35
"""What a side turned away from the light still shows."""

GRAZE = 1e-4
"""A ray that enters a ball less deep than this misses it; far below what a pixel shows."""


@dataclass(frozen=True)
class Solids:
    """Objects of balls, all within the unit ball: centres [count, parts, 3], radii [count, parts], colours 0 to 1
    [count, parts, 3]."""

    centres: Tensor
    radii: Tensor
    colours: Tensor

    def __len__(self) -> int:
        return len(self.radii)

    def __getitem__(self, index: Tensor) -> Solids:
        return Solids(self.centres[index], self.radii[index], self.colours[index])

    def to(self, device: torch.device) -> Solids:
        return Solids(self.centres.to(device), self.radii.to(device), self.colours.to(device))


def objects(count: int) -> Solids:
    """The first `count` objects of a fixed sequence, each scaled to the unit ball."""
    if count < 1:
        raise RequestError(f"{count} objects: ask for 1 or more")
    made = torch.from_numpy(np.stack([_object(i) for i in range(count)])).float()
    return Solids(made[..., :3], made[..., 3], made[..., 4:])


def view(solids: Solids, which: Tensor, rotation: Tensor, size: int = 32) -> Tensor:
    """Pictures uint8 [batch, 3, size, size] of the objects `which` [batch], long, turned by `rotation` [batch, 3, 3].

    A ball at c is shown at R c, so R2 R1 shows the object turned by R1, then by R2. Each pixel is the mean of 2 x 2
    rays; a ray shows the colour of the nearest ball times AMBIENT + (1 - AMBIENT) max(0, normal . light).
    """
    if which.ndim != 1 or rotation.shape != (len(which), 3, 3):
        raise RequestError(
            f"objects of shape {tuple(which.shape)} and rotations of shape {tuple(rotation.shape)}: "
            "need [batch] and [batch, 3, 3]"
        )
    # a piece of the batch at a time: on a CPU what its cache holds, elsewhere 64 MB, enough to keep it busy
    meetings = 2**20 if which.device.type == "cpu" else 2**24
    piece = max(1, meetings // (solids.radii.shape[1] * 4 * size**2))
    pieces = zip(which.split(piece), rotation.float().split(piece), strict=True)
    return torch.cat([_picture(solids[index], turned, size) for index, turned in pieces])


def _picture(solids: Solids, rotation: Tensor, size: int) -> Tensor:
    """One object per rotation: uint8 [batch, 3, size, size]."""
    radii = solids.radii
    centres = (rotation[:, None] * solids.centres[:, :, None]).sum(-1)  # no matmul: a GPU may round those to ten bits
    x = (torch.arange(2 * size, device=rotation.device) + 0.5) / size - 1
    y = x.flip(0)
    height, part = _nearest(centres, radii, x, y)

    def of_part(values: Tensor) -> Tensor:
        """values [batch, parts] of the part that each ray met: [batch, rows, columns]"""
        return values.gather(1, part.flatten(1)).view_as(height)

    def to_light(x: Tensor, y: Tensor, z: Tensor) -> Tensor:
        return LIGHT[0] * x + LIGHT[1] * y + LIGHT[2] * z

    # (point - centre) / radius is the normal
    point, centre = to_light(x, y[:, None], height - 2), to_light(*centres.unbind(-1))
    lambert = (point * of_part(1 / radii)).sub_(of_part(centre / radii)).clamp_(min=0)
    shade = lambert.mul_(1 - AMBIENT).add_(AMBIENT).mul_(height.clamp(0, 1)).mul_(255)
    rays = torch.stack([of_part(colour) * shade for colour in solids.colours.unbind(2)], 1)
    return F.avg_pool2d(rays, 2).round_().to(torch.uint8)


def _nearest(centres: Tensor, radii: Tensor, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """What the rays at columns x and rows y meet first: z + 2, which is 1 to 3 or below 0 for nothing, and the part.

    A ball at (a, b, c) of radius r is entered at z = c + sqrt(r^2 - (x - a)^2 - (y - b)^2). The number of the part
    takes the place of the last bits of z + 2, so that one maximum finds both; it is many times faster than argmax.
    Both results are [batch, rows, columns].
    """
    parts = radii.shape[1]
    bits = (1 << (parts - 1).bit_length()) - 1
    across = radii[..., None].square() - (x - centres[..., :1]).square()
    down = (y - centres[..., 1:2]).square()
    depth = across[:, :, None] - down[..., None]  # [batch, parts, rows, columns], the square of it
    depth = depth.clamp_(min=GRAZE**2).sqrt_()  # not of 0 or less, which is slow on some CPUs
    height = F.threshold(depth, 1.001 * GRAZE, -4.0, inplace=True).add_(centres[..., 2:, None] + 2)
    number = torch.arange(parts, dtype=torch.int32, device=x.device)[:, None, None]
    height.view(torch.int32).bitwise_and_(~bits).bitwise_or_(number)
    height = height.amax(1)
    return height, height.view(torch.int32).bitwise_and(bits).long()


def _object(index: int) -> np.ndarray:
    """Object number `index`: centre, radius and colour of each ball, [parts, 7]."""
    rng = np.random.RandomState((2, index))  # the generator whose numbers NumPy promises never to change
    body, *limbs = BODIES[index % len(BODIES)]
    radii = 0.30 * rng.uniform(0.82, 0.92) ** np.arange(body)
    radii[-1] = rng.uniform(0.30, 0.38)  # the head
    spine = _chain(np.zeros(3), np.array([0.0, 1.0, 0.0]), radii, _somewhere(rng) * 0.35)
    chains, widths, groups = [spine], [radii], [0] * (body - 1) + [1]
    around = rng.uniform(0, 2 * np.pi) + 2.4 * np.arange(len(limbs))
    roots = rng.permutation(np.linspace(0, body - 2, len(limbs)).round().astype(int))
    for i, (length, angle, root) in enumerate(zip(limbs, around, roots, strict=True)):
        thin = rng.uniform(0.16, 0.24) * rng.uniform(0.88, 1.1) ** np.arange(length)
        away = np.array([np.cos(angle), rng.uniform(-0.6, 0.4), np.sin(angle)])
        away /= np.linalg.norm(away)
        chains.append(_chain(spine[root] + 0.9 * radii[root] * away, away, thin, _somewhere(rng) * 0.45))
        widths.append(thin)
        groups += [2 + i] * length
    centres, radii = np.concatenate(chains), np.concatenate(widths)
    reach = radii[:, None]
    centres -= ((centres + reach).max(0) + (centres - reach).min(0)) / 2
    scale = 1 / (np.linalg.norm(centres, axis=1) + radii).max()
    colours = [_colour(0.11 * index + 0.382 * g) for g in groups]
    return np.column_stack((centres * scale, radii * scale, colours))


def _chain(start: np.ndarray, direction: np.ndarray, radii: np.ndarray, bend: np.ndarray) -> np.ndarray:
    """Balls one after the other that overlap a little, ever more bent: centres [parts, 3]."""
    centres = [start]
    for gap in 0.7 * (radii[1:] + radii[:-1]):
        direction = (direction + bend) / np.linalg.norm(direction + bend)
        centres.append(centres[-1] + gap * direction)
    return np.stack(centres)


def _somewhere(rng: np.random.RandomState) -> np.ndarray:
    """A random direction, [3]."""
    v = rng.normal(size=3)
    return v / np.linalg.norm(v)


def _colour(hue: float) -> tuple[float, float, float]:
    return colorsys.hsv_to_rgb(hue % 1, 0.8, 1.0)
