"""Images turned: by any angle with interpolation, and by the eight symmetries of the square exactly.

Pure functions of a batch, on the device of the images. Turns are counter-clockwise as an image is looked at, row 0 on
top, about the centre of the image.
"""

from __future__ import annotations

from functools import lru_cache

import torch
from torch import Tensor
from torch.nn import functional as F

from brojepa.errors import RequestError


def turn(images: Tensor, radians: Tensor) -> Tensor:
    """uint8 images [batch, c, h, w] turned by radians [batch]: bilinear, black outside, rounded to nearest.

    With coordinates from the centre, x to the right and y down, the turned image at (x, y) is the given one at
    (cos x - sin y, sin x + cos y). At quarter turns the error of these coordinates is far below half a grey level,
    so rounding gives back the very pixels: `torch.rot90` for a square image, and the image itself for 0.
    """
    batch, _, h, w = _check(images, radians)
    cos, sin = radians.cos().float()[:, None], radians.sin().float()[:, None]
    x = torch.arange(w, device=images.device) - (w - 1) / 2
    y = torch.arange(h, device=images.device) - (h - 1) / 2
    # grid_sample counts from -1 to 1 across the image; the sum of a row's and a column's share is no matrix product,
    # which a GPU or autocast may compute in fewer bits
    across = torch.stack((cos * x * (2 / w), sin * x * (2 / h)), -1).view(batch, 1, w, 2)
    down = torch.stack((sin * y * (-2 / w), cos * y * (2 / h)), -1).view(batch, h, 1, 2)
    return F.grid_sample(images.float(), across + down, align_corners=False).round_().to(torch.uint8)


def warp(images: Tensor, matrix: Tensor) -> Tensor:
    """Images [batch, c, h, w] under a linear map each, [batch, 2, 2]: bilinear, black outside, float from 0 to 255.

    With (x, y) from the centre and sides of length 2, the result at (x, y) is the given image at matrix (x, y).
    """
    _check(images, matrix[:, 0, 0])
    grid = F.affine_grid(F.pad(matrix, (0, 1)), list(images.shape), align_corners=False)
    return F.grid_sample(images.float(), grid, align_corners=False)


def block_means(images: Tensor, side: int) -> Tensor:
    """The means of blocks of side x side pixels, float [batch, c, h, w] -> [batch, c, ceil(h / side), ceil(w / side)];
    those at the last rows and columns are of the pixels that there are."""
    return F.avg_pool2d(images, side, ceil_mode=True, count_include_pad=False) if side > 1 else images


def flip_turn(images: Tensor, quarter: Tensor, flip: Tensor) -> Tensor:
    """Square images [batch, c, size, size] under the dihedral group D4: pixels are moved, never mixed.

    The element (r, s), integers of `quarter` and `flip` [batch], taken modulo 4 and 2, acts as T(r, s) = R^r F^s:
    s times flipped left to right, then turned by r quarters. So T(g) T(h) = T(g h) with the law
    (r1, s1) (r2, s2) = (r1 + (-1)^s1 r2, s1 + s2).
    """
    batch, c, h, w = _check(images, quarter, flip)
    if h != w:
        raise RequestError(f"images of {h} x {w} cannot be turned by quarters: give square ones")
    source = _pixels(h, images.device)[quarter % 4 + 4 * (flip % 2)]
    return images.flatten(2).gather(2, source[:, None].expand(batch, c, -1)).view_as(images)


@lru_cache(maxsize=8)
def _pixels(size: int, device: torch.device) -> Tensor:
    """For element r + 4 s, the pixel that each pixel of the moved image comes from: [8, size * size]."""
    here = torch.arange(size * size, device=device).view(size, size)
    return torch.stack([side.rot90(r) for side in (here, here.fliplr()) for r in range(4)]).flatten(1)


def _check(images: Tensor, *each: Tensor) -> torch.Size:
    """The shape of the images, if there is one number per image."""
    for values in each:
        if images.ndim != 4 or values.shape != images.shape[:1]:
            raise RequestError(
                f"images of shape {tuple(images.shape)} and one element each of shape {tuple(values.shape)}: "
                "need [batch, c, h, w] and [batch]"
            )
    return images.shape
