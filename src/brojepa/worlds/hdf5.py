"""HDF5 files: labelled images under the names of an .npz, or a recording with the columns of stable-worldmodel: pixels
and action, a row per frame, ep_offset and ep_len, a row per episode; the group of the actions is an attribute."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from brojepa.errors import BrojepaError, RequestError
from brojepa.worlds import mapped, memory, npz
from brojepa.worlds.chunks import Chunks
from brojepa.worlds.rows import Rows
from brojepa.worlds.world import pixel_statistics

COLUMNS = ("pixels", "action", "ep_offset", "ep_len")
LABELLED = ("images", "labels", "test_images", "test_labels")
PICTURES = ("pixels", "images", "test_images")
ENDINGS = (".h5", ".hdf5")


@dataclass(frozen=True)
class Content:
    """What a file holds.

    Args:
        path: the file.
        labelled: whether it holds labelled images, not a recording.
        columns: arrays by name; images may be `Rows` that stay in the file.
        group: the attribute that names the group, or "".
    """

    path: Path
    labelled: bool
    columns: dict[str, Any]
    group: Any

    def scan(self, train: Tensor | Rows) -> mapped.Scan:
        """The sum of the file and the statistics of its training images."""
        return self._known(train, lambda: (self._content(), *pixel_statistics(train)), train.shape[1])

    def sha256(self, images: Any) -> str:
        """The sum alone."""
        return self._known(images, lambda: (self._content(), (), ()), 0)[0]

    def _known(self, images: Any, passes: Callable[[], mapped.Scan], channels: int) -> mapped.Scan:
        """Cached if images stay in the file, as reading all of them takes time."""
        stays = isinstance(images, Rows) and images.stays
        return mapped.scanned([self.path.resolve()], passes, channels) if stays else passes()

    def _content(self) -> str:
        with _readable(self.path):
            return mapped.content(self.columns, sorted(self.columns) if self.labelled else COLUMNS)


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    """A file that cannot be read is an error of one line: it is damaged, or a link in it leads nowhere."""
    try:
        yield
    except BrojepaError:
        raise
    except (OSError, RuntimeError, KeyError, TypeError, ValueError) as error:
        raise RequestError(f"{path} is not a readable HDF5 file ({' '.join(str(error).split()):.200})") from None


def read(path: Path, whole: bool) -> Content:
    """What a file holds. uint8 images that lie there in one piece stay there; so do those in chunks if they do not fit
    into memory, but for `whole`: they are to be resized."""
    try:
        import h5py
    except ImportError:
        raise RequestError(f"{path}: HDF5 needs h5py: pip install 'brojepa[hdf5]'") from None
    with _readable(path), h5py.File(path, "r") as file:
        labelled = "pixels" not in file and ("images" in file or "labels" in file)
        names = LABELLED if labelled else COLUMNS
        found = {key: column for key in names if isinstance(column := file.get(key), h5py.Dataset)}
        _check(path, found, labelled, list(file))
        columns: dict[str, Any] = {key: _in_one_piece(path, found[key]) for key in PICTURES if key in found}
        columns = {key: column for key, column in columns.items() if column is not None}
        held = {key: _size(key, column) for key, column in found.items() if key not in columns}
        if not whole and not memory.fits(sum(held.values())):
            for key in [key for key in held if key in PICTURES and found[key].chunks and found[key].dtype == np.uint8]:
                chunks = Chunks(path, found[key])
                columns[key] = Rows(chunks, unchanged=chunks.unchanged)
                held[key] = chunks.at_once
        memory.check(path, sum(held.values()))
        columns |= {key: np.asarray(column) for key, column in found.items() if key not in columns}
        group = file.attrs.get("group", "")

    return Content(path, labelled, columns, group)


def _check(path: Path, found: dict[str, Any], labelled: bool, holds: list[str]) -> None:
    missing = [key for key in (LABELLED[:2] if labelled else COLUMNS) if key not in found]
    if missing:
        hint = "" if labelled or found else "; or images and labels"
        raise RequestError(f"{path} lacks {' and '.join(missing)}: it holds {', '.join(holds) or 'nothing'}{hint}")
    for key, column in found.items():
        if not column.shape or column.dtype.kind not in "biuf":
            what = column.dtype if column.shape else "no rows"
            raise RequestError(f"{path}: {key} holds {what}, it needs numbers, one row per image or episode")
    if labelled:
        npz.check_labelled(path, {key: column.shape for key, column in found.items()})


def _size(key: str, column: Any) -> int:
    """Bytes of memory that a column takes."""
    return column.size * (mapped.LABELS if key in LABELLED and key not in PICTURES else column.dtype.itemsize)


def _in_one_piece(path: Path, column: Any) -> np.memmap | None:
    """Images mapped from the file, so that they are read only when needed; None if they are compressed or chunked."""
    place = column.id.get_offset() if column.chunks is None else None
    if place is None or column.dtype != np.uint8 or not column.size:
        return None
    found = np.memmap(path, np.uint8, "r", place, column.shape)
    return found if all(np.array_equal(found[i], column[i]) for i in (0, -1)) else None


def frames(path: Path, columns: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """The rows of all frames, episode after episode, and the episode of each: [frames] twice."""
    offset, length = (columns[key].reshape(-1) for key in COLUMNS[2:])
    total = min(len(columns["pixels"]), len(columns["action"]))
    whole = offset.shape == length.shape and all(part.dtype.kind in "iu" for part in (offset, length))
    inside = whole and not ((length < 0) | (offset < 0) | (length > total)).any() and (offset <= total - length).all()
    if not inside:
        raise RequestError(f"{path}: ep_offset and ep_len reach beyond the {total} frames, or are not whole numbers")
    order = np.argsort(offset, kind="stable")
    offset, length = offset[order].astype(np.int64), length[order].astype(np.int64)
    if (offset[1:] < (offset + length)[:-1]).any():
        raise RequestError(f"{path}: two episodes of ep_offset and ep_len share frames")
    episode = np.repeat(np.arange(len(order)), length)
    return np.arange(len(episode)) - np.repeat(length.cumsum() - length, length) + np.repeat(offset, length), episode
