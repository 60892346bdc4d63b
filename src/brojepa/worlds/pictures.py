"""Between a model and a person: images from files, and what states are called."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from brojepa.errors import RequestError
from brojepa.worlds.derived import states_of

MODES = {1: "L", 3: "RGB", 4: "RGBA"}


def read_picture(path: str | Path, shape: tuple[int, int, int], *, invert: bool = False) -> np.ndarray:
    """One image, uint8 [channels, height, width] of the shape that is given, from a .npy or what Pillow opens.

    Colours become grey where the shape has one channel; nothing is resized.
    """
    path, (channels, height, width) = Path(path), shape
    pixels = _array(path) if path.suffix == ".npy" else _picture(path, MODES[channels])
    if pixels.ndim == 2:
        pixels = pixels[..., None]
    if pixels.shape != (height, width, channels):
        given = "x".join(map(str, pixels.shape))
        raise RequestError(f"{path} is {given}, this model reads {height}x{width}x{channels}: crop or scale it first")
    return np.moveaxis(255 - pixels if invert else pixels, 2, 0)


def state_names(world: str, n: int) -> list[str]:
    """What states are called: letters in EMNIST, numbers elsewhere; some of the states keep their names."""
    base, _, part = world.partition(":")
    states = states_of(world) if part and base in ("mnist", "emnist") else range(n)
    return [chr(ord("A") + y) if base == "emnist" else str(y) for y in states]


def _array(path: Path) -> np.ndarray:
    try:
        pixels = np.load(path, allow_pickle=False)
    except (OSError, ValueError) as error:
        raise RequestError(f"cannot read {path}: {error}") from None
    if not isinstance(pixels, np.ndarray) or pixels.dtype != np.uint8:
        raise RequestError(f"{path} holds {getattr(pixels, 'dtype', 'no array')}: save one image as uint8, 0 to 255")
    return pixels


def _picture(path: Path, mode: str) -> np.ndarray:
    try:
        from PIL import Image, UnidentifiedImageError
    except ImportError:
        raise RequestError(
            "reading pictures needs Pillow, which is not installed: pip install 'brojepa[figures]', or give a .npy"
        ) from None
    try:
        with Image.open(path) as image:
            if image.mode[0] in "IF":
                raise RequestError(f"{path} has more than 8 bits a pixel: save it with 8")
            return np.array(image.convert(mode))
    except UnidentifiedImageError:
        raise RequestError(f"{path} is no picture that Pillow can read: give a PNG or a .npy") from None
    except OSError as error:
        raise RequestError(f"cannot read {path}: {error.strerror or error}") from None
