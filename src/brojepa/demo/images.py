"""Images in and out of a page: a visitor's drawings and uploads as a model reads them, and pictures for the page."""

from __future__ import annotations

import base64
import binascii
import io

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from brojepa.errors import RequestError
from brojepa.worlds.pictures import fit, named, plain, quiet

LARGEST = 10_000_000  # bytes of a file that a page takes
SIDE = 2048  # pixels: a larger image is shrunk before anything is done with it
INK = 24  # levels above the background from which a pixel counts as ink
INSIDE = 20 / 28  # the share of an image's height that a digit of MNIST fills
BRIGHT, APART = 0.5, 0.3  # means of pixels: above the first an image is bright; far from the world's, it is inverted


def read(url: str, what: str = "the upload") -> Image.Image:
    """The image in a data URL, at most SIDE pixels wide and high. An error if it is too large or not an image."""
    if not isinstance(url, str):
        raise RequestError(f"{what} is no file: choose a PNG or JPEG image")
    head, _, text = url.partition(",")
    if not head.startswith("data:") or not head.endswith(";base64"):
        raise RequestError(f"{what} is no file: choose a PNG or JPEG image")
    if len(text) > LARGEST * 4 // 3 + 4:
        raise RequestError(f"{what} has more than {LARGEST // 10**6} MB: choose a smaller image")
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise RequestError(f"{what} is damaged: choose it again") from None
    with quiet(), named(what):
        image = Image.open(io.BytesIO(data))
        if image.mode in ("L", "LA", "RGB", "RGBA"):  # others cannot be averaged
            image.thumbnail((SIDE, SIDE), Image.Resampling.BOX)
        image.load()
        return image


def upload(image: Image.Image, shape: tuple[int, int, int], mean: float) -> tuple[np.ndarray, str]:
    """A picture of any size as uint8 [c, h, w] of a model's shape, and what was done to it.

    mean: of the pixels of the model's world, 0 to 1. A bright picture for a dark world is inverted, and for
        a dark world of one channel the drawing is centred, as MNIST's digits are.
    """
    with quiet(), named("the upload"):
        given = plain(image).image
        light = float(np.asarray(given).mean()) / 255
        invert = (light > BRIGHT) != (mean > BRIGHT) and abs(light - mean) > APART
        note = "dark on white, so it was inverted" if invert else ""
        if takes_ink(shape, mean) and given.size != (shape[2], shape[1]):
            grey = np.asarray(given.convert("L"))
            return centred(255 - grey if invert else grey, shape), note
        return fit(given, shape, "the upload", invert=invert, resize=True), note


def takes_ink(shape: tuple[int, int, int], mean: float) -> bool:
    """Whether a world's images look drawn with white ink on black, so that a visitor can draw one."""
    return shape[0] == 1 and mean <= BRIGHT and shape[2] % shape[1] == 0


def centred(pixels: np.ndarray, shape: tuple[int, int, int]) -> np.ndarray:
    """What is drawn, light on dark [height, width], as MNIST's digits are made: the ink is cut out, scaled to 20 of 28
    pixels and moved so that its centre of mass is in the middle. An image twice as wide as high is two such cells."""
    cells = shape[2] // shape[1]
    parts = np.array_split(pixels, cells, axis=1)
    return np.concatenate([_cell(part, shape[1]) for part in parts], axis=1)[None]


def _cell(pixels: np.ndarray, side: int) -> np.ndarray:
    light = pixels.astype(np.float32)
    light = np.clip(light - np.median(np.concatenate((light[0], light[-1], light[:, 0], light[:, -1]))), 0, 255)
    rows, columns = (np.flatnonzero((light > INK).any(axis)) for axis in (1, 0))
    if not len(rows):
        return np.zeros((side, side), np.uint8)
    ink = light[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]
    scale = INSIDE * side / max(ink.shape)
    size = max(1, round(ink.shape[1] * scale)), max(1, round(ink.shape[0] * scale))
    small = np.asarray(Image.fromarray(ink.astype(np.uint8)).resize(size, Image.Resampling.BOX), np.float32)
    small *= 255 / max(float(small.max()), 1.0)
    weight = small / small.sum()
    middle = (weight.sum(1) @ np.arange(size[1]), weight.sum(0) @ np.arange(size[0]))
    top, left = (
        min(max(round(side / 2 - at), 0), side - length)
        for at, length in zip(middle, small.shape, strict=True)
    )  # fmt: skip
    cell = np.zeros((side, side), np.uint8)
    cell[top : top + size[1], left : left + size[0]] = small.round().astype(np.uint8)
    return cell


def png(images: Tensor) -> str:
    """Images, uint8 [c, h, w] or side by side [count, c, h, w], as the data URL of one PNG."""
    strip = torch.cat(list(images), -1) if images.ndim == 4 else images
    pixels = strip.to("cpu", torch.uint8).movedim(0, -1).numpy()
    file = io.BytesIO()
    Image.fromarray(pixels[..., 0] if pixels.shape[2] == 1 else pixels).save(file, "PNG", compress_level=1)
    return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode()
