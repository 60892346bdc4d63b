"""Images that are read when needed: some rows of a tensor, or of an array that stays on disk."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from brojepa.errors import RunError

if TYPE_CHECKING:
    from brojepa.worlds.chunks import Chunks

PIECE = 1 << 22  # bytes read at once


class Rows:
    """Rows of a tensor of images [count, c, h, w], without a copy of them. It reads like a tensor: it has
    a length, a shape and a device, and gives rows, as a tensor, by number, slice, mask or tensor of numbers.

    Args:
        source: all images; its memory may be a file's, or it reads them from a file itself.
        index: which of them, [rows]; all if None.
        device: where to give them.
        unchanged: where the source is a file, which then stays where it is: an error if the file has changed.
    """

    def __init__(
        self, source: Tensor | Chunks, index: Tensor | None = None, device: torch.device | None = None,
        unchanged: Callable[[], None] | None = None,
    ) -> None:  # fmt: skip
        self.source, self.index, self.device, self.unchanged = source, index, device or source.device, unchanged
        self.shape = torch.Size((len(source) if index is None else len(index), *source.shape[1:]))
        self.dtype, self.ndim = source.dtype, source.ndim

    def __len__(self) -> int:
        return self.shape[0]

    @property
    def stays(self) -> bool:
        """Whether the source is larger than memory, and stays where it is."""
        return self.unchanged is not None

    def of(self, index: Tensor) -> Rows:
        """Some of these rows, by number."""
        index = index.to(self.source.device)
        return Rows(self.source, index if self.index is None else self.index[index], self.device, self.unchanged)

    def __getitem__(self, key: Any) -> Tensor:
        if isinstance(key, tuple):
            return self[key[0]][key[1:] if isinstance(key[0], int) else (slice(None), *key[1:])]
        if isinstance(key, int):
            return self[torch.tensor([range(len(self))[key]])][0]
        if isinstance(key, slice) and self.index is None and isinstance(self.source, Tensor):
            self._check()
            return self._given(self.source[key])
        if isinstance(key, slice):
            rows = torch.arange(*key.indices(len(self)))
        else:
            rows = torch.as_tensor(key)
            rows = rows.nonzero()[:, 0] if rows.dtype is torch.bool else torch.where(rows < 0, rows + len(self), rows)
        return self.index_select(0, rows.flatten()).unflatten(0, rows.shape)

    def index_select(self, dim: int, index: Tensor) -> Tensor:
        """Rows by number; `dim` is 0, as images are rows."""
        assert dim == 0
        index = index.to(self.source.device)
        self._check()
        return self._given(self.source.index_select(0, index if self.index is None else self.index[index]))

    def _check(self) -> None:
        """What is read of a file that has become shorter would end the process."""
        if self.unchanged is not None:
            self.unchanged()

    def _given(self, images: Tensor) -> Tensor:
        return images.contiguous().to(self.device)

    def split(self, size: int) -> Iterator[Rows]:
        """All rows, `size` at a time, still unread."""
        ends = ((start, min(start + size, len(self))) for start in range(0, len(self), size))
        return (self.of(torch.arange(*each)) for each in ends)

    def to(self, device: torch.device) -> Rows | Tensor:
        """The same on another device: as a tensor there, or, if the source stays where it is, given there."""
        if self.stays or device == self.device:
            return Rows(self.source, self.index, device, self.unchanged)
        moved = torch.empty(self.shape, dtype=self.dtype, device=device)
        size = some_at_once(self)
        for start in range(0, len(self), size):
            moved[start : start + size] = self[start : start + size]
        return moved

    def __iter__(self) -> Iterator[Tensor]:
        return (self[i] for i in range(len(self)))


def some_at_once(images: Tensor | Rows) -> int:
    """How many images are read at once when all are read."""
    return max(1, PIECE // math.prod(images.shape[1:]))


def from_array(array: np.ndarray) -> Tensor | Rows:
    """The images of an array: a copy, or, where it is mapped from a file, rows that stay there."""
    owner = _owner(array)
    if not isinstance(owner, np.memmap):
        return torch.from_numpy(array.copy())
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The given NumPy array is not writable")  # and nothing writes to it
        return Rows(torch.from_numpy(array), unchanged=Unchanged(Path(str(owner.filename))))


class Unchanged:
    """Checks that a file is as it is now. One that was replaced or removed stays as it was for whoever has it open."""

    def __init__(self, path: Path) -> None:
        self.path, self.before = path.resolve(), path.stat()

    def __call__(self, opening: bool = False) -> None:
        """An error if the file has changed; `opening`: or was replaced."""
        try:
            now, before = self.path.stat(), self.before
        except OSError:
            return
        same = (now.st_size, now.st_mtime_ns) == (before.st_size, before.st_mtime_ns)
        if not same and (opening or (now.st_dev, now.st_ino) == (before.st_dev, before.st_ino)):
            raise RunError(f"{self.path} has changed while it was read: put it back as it was, then repeat the command")


def _owner(array: Any) -> Any:
    """The array that another one is a view of."""
    while isinstance(array, np.ndarray) and not isinstance(array, np.memmap) and array.base is not None:
        array = array.base
    return array


def some(images: Tensor | Rows, index: Tensor) -> Rows:
    """Some images by number, without a copy."""
    return (images if isinstance(images, Rows) else Rows(images)).of(index)
