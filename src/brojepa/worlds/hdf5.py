"""Recordings in HDF5, with the columns of stable-worldmodel: pixels and action, a row per frame, ep_offset and ep_len,
a row per episode; the group of the actions is an attribute of the file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from brojepa.errors import RequestError
from brojepa.worlds import memory

COLUMNS = ("pixels", "action", "ep_offset", "ep_len")
ENDINGS = (".h5", ".hdf5")


def read(path: Path) -> tuple[dict[str, np.ndarray], Any]:
    """The columns, and the attribute that names the group, or ""."""
    try:
        import h5py
    except ImportError:
        raise RequestError(f"{path}: HDF5 needs h5py: pip install 'brojepa[hdf5]'") from None
    try:
        with h5py.File(path, "r") as file:
            found = {key: column for key in COLUMNS if isinstance(column := file.get(key), h5py.Dataset)}
            missing = [key for key in COLUMNS if key not in found]
            if missing:
                raise RequestError(f"{path} lacks {' and '.join(missing)}: it holds {', '.join(file) or 'nothing'}")
            pixels = _on_disk(path, found["pixels"])
            held = [column for key, column in found.items() if pixels is None or key != "pixels"]
            memory.check(path, sum(column.size * column.dtype.itemsize for column in held))
            columns = {key: np.asarray(c) for key, c in found.items() if pixels is None or key != "pixels"}
            return columns | ({} if pixels is None else {"pixels": pixels}), file.attrs.get("group", "")
    except (OSError, RuntimeError, KeyError) as error:  # a file that cannot be read, or a link in it that leads nowhere
        raise RequestError(f"{path} is not a readable HDF5 file ({' '.join(str(error).split()):.200})") from None


def _on_disk(path: Path, column: Any) -> np.memmap | None:
    """Images mapped from the file, so that they are read only when needed; None if they are compressed or chunked."""
    place = column.id.get_offset() if column.chunks is None else None
    if place is None or column.dtype != np.uint8 or not column.size:
        return None
    mapped = np.memmap(path, np.uint8, "r", place, column.shape)
    return mapped if all(np.array_equal(mapped[i], column[i]) for i in (0, -1)) else None


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
