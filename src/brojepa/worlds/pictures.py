"""Images from files and from Pillow, and names of states."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError

from brojepa.errors import RequestError

TINT = 2  # levels by which the channels of a grey pixel may differ after JPEG or WebP compression
MOST = 1_000_000  # states that a name may list: more than any world has images for
LISTED = 30  # states of a cycle that are all named


class Plain(NamedTuple):
    """An image of 8 bits per pixel, grey ("L") where it has no colours and "RGB" where it has; whether it had 16 bits,
    and whether parts of it were transparent."""

    image: Image.Image
    deep: bool = False
    clear: bool = False


def plain(image: Image.Image) -> Plain:
    """An image of any mode as models read it: upright as its EXIF data say, 16 bits scaled to 8, and black where it is
    transparent, as the paper's images are black where nothing is drawn."""
    image = ImageOps.exif_transpose(image)
    deep = image.mode.startswith("I")
    if deep:
        values = np.asarray(image).astype(np.int64)
        if values.size and not 0 <= values.min() <= values.max() <= 65535:
            raise ValueError("it has more than 16 bits a pixel")
        image = Image.fromarray(((values + 128) // 257).astype(np.uint8))
    if image.mode == "F":
        raise ValueError("its pixels are floating-point numbers")
    clear = False
    if image.has_transparency_data:
        image = image.convert("RGBA")
        clear = np.asarray(image.getchannel("A")).min(initial=255) < 255
        image = Image.alpha_composite(Image.new("RGBA", image.size, (0, 0, 0, 255)), image)
    if image.mode != "L":
        image = image.convert("L" if image.mode == "1" else "RGB")
    if image.mode == "RGB":
        pixels = np.asarray(image)
        image = image.convert("L") if np.ptp(pixels, axis=2).max(initial=0) <= TINT else image
    return Plain(image, deep, bool(clear))


def resized(image: Image.Image, height: int, width: int) -> Image.Image:
    """An image stretched or shrunk to a size; shrinking averages pixels."""
    return image if image.size == (width, height) else image.resize((width, height), Image.Resampling.BILINEAR)


def read_picture(
    path: str | Path, shape: tuple[int, int, int], *, invert: bool = False, resize: bool = False
) -> np.ndarray:
    """One image, uint8 [channels, height, width] of the shape that is given, from a .npy or what Pillow opens.

    Colours become grey where the shape has one channel.

    Args:
        path: the file.
        shape: channels, height and width that the model reads.
        invert: the image is dark on white and the model's are not, or the other way round.
        resize: bring an image of another size to the model's; without it, it is an error.
    """
    path = Path(path)
    if path.exists() and not path.is_file():  # a pipe may never end, or never begin
        raise RequestError(f"{path} is no file: give a PNG or a .npy")
    with quiet(), named(path):
        if path.suffix == ".npy":
            return _fitted(_array(path), shape, str(path), invert, resize)
        with Image.open(path) as image:
            return fit(image, shape, str(path), invert=invert, resize=resize)


def fit(
    image: Image.Image, shape: tuple[int, int, int], where: str, *, invert: bool = False, resize: bool = False
) -> np.ndarray:
    """A Pillow image as uint8 [channels, height, width] of the shape given; `where` names it in an error."""
    image = image.convert("RGBA") if shape[0] == 4 else plain(image).image.convert({1: "L", 3: "RGB"}[shape[0]])
    return _fitted(np.array(image), shape, where, invert, resize)


def _fitted(pixels: np.ndarray, shape: tuple[int, int, int], where: str, invert: bool, resize: bool) -> np.ndarray:
    """An array [height, width] or [height, width, channels], at most resized, in the shape given."""
    channels, height, width = shape
    pixels = pixels[..., 0] if pixels.ndim == 3 and pixels.shape[2] == 1 else pixels
    if resize and pixels.shape[2:] in ((), (3,), (4,)):
        pixels = np.array(resized(Image.fromarray(pixels), height, width))
    pixels = pixels[..., None] if pixels.ndim == 2 else pixels
    if pixels.shape != (height, width, channels):
        given = "x".join(map(str, pixels.shape))
        raise RequestError(
            f"{where} is {given}, this model reads {height}x{width}x{channels}: crop or scale it first, or use --resize"
        )
    return np.moveaxis(255 - pixels if invert else pixels, 2, 0)


@contextmanager
def quiet() -> Iterator[None]:
    """Silence Pillow's warnings, except the one about too many pixels, which becomes an error."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", Image.DecompressionBombWarning)
        yield


@contextmanager
def named(path: Path | BinaryIO | str) -> Iterator[None]:
    """Turn any failure to read an image into one line that names the file."""
    try:
        yield
    except RequestError:
        raise
    except UnidentifiedImageError:
        raise RequestError(f"{path} is not an image that Pillow can read: give a PNG or a .npy") from None
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        raise RequestError(
            f"{path} has more than {Image.MAX_IMAGE_PIXELS:,} pixels, Pillow's limit: shrink it first"
        ) from None
    except OSError as error:
        raise RequestError(f"cannot read {path}: {error.strerror or error}") from None
    except Exception as error:  # a damaged image can raise many kinds of exception
        raise RequestError(f"cannot read {path}: {error or type(error).__name__}") from None


def state_names(world: str, n: int, names: Sequence[str] | None = None) -> list[str]:
    """Names of states: the world's own, else letters for EMNIST and numbers otherwise; a subset keeps its names.

    Args:
        world: its name, as a config has it.
        n: how many states it has.
        names: the world's own names, if it has any: `world.source.get("names")`.
    """
    if names and len(names) == n:
        return list(names)
    base, _, part = world.partition(":")
    states = states_of(world) if part and base in ("mnist", "emnist") else range(n)
    return [chr(ord("A") + y) if base == "emnist" else str(y) for y in states]


def states_of(name: str) -> list[int]:
    """The states of the larger world that a name like mnist:0-6 keeps."""
    found: list[int] = []
    for part in name.partition(":")[2].split(","):
        ends = [y for end in part.split("-") if (y := _state(end.strip())) is not None]
        if len(ends) != len(part.split("-")) or len(ends) > 2:
            raise RequestError(f"world {name:.60}: write states as in 0-6, a-m or 1,3,5")
        if ends[-1] - ends[0] + len(found) >= MOST:
            raise RequestError(f"world {name:.60}: names {MOST:,} states or more, name those that there are")
        found += range(ends[0], ends[-1] + 1)
    return found


def _state(text: str) -> int | None:
    if text.isdecimal():
        return int(text)
    return ord(text.lower()) - ord("a") if len(text) == 1 and text.isascii() and text.isalpha() else None


def cycle_line(names: Sequence[str]) -> str:
    """The order of a cycle in words: where +1 leads from each state."""
    shown = list(names) if len(names) <= LISTED else [*names[: LISTED - 2], "...", names[-1]]
    return f"+1 leads along: {', '.join(shown)}, and back to {names[0]}"


def _array(path: Path) -> np.ndarray:
    try:
        pixels = np.load(path, mmap_mode="r", allow_pickle=False)  # its size is looked at before it is read
    except (OSError, ValueError) as error:
        raise RequestError(f"cannot read {path}: {error}") from None
    if not isinstance(pixels, np.ndarray) or pixels.dtype != np.uint8:
        raise RequestError(f"{path} holds {getattr(pixels, 'dtype', 'no array')}: save one image as uint8, 0 to 255")
    if Image.MAX_IMAGE_PIXELS and pixels.size > 4 * Image.MAX_IMAGE_PIXELS:
        raise Image.DecompressionBombError
    return np.array(pixels)
