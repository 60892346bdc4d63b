"""Images in an HDF5 file that are chunked or compressed, so that they cannot be mapped, and do not fit into
memory. To read them by index is slow, as it unpacks every chunk that it touches: what fits is read whole."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from brojepa.errors import RequestError, RunError
from brojepa.worlds.arrays import as_arrays
from brojepa.worlds.rows import Unchanged

UNPACKED = 1 << 26  # bytes of unpacked chunks that are kept: images in a row are often of one chunk


class Chunks:
    """What `Rows` read of a tensor [count, c, h, w], from an HDF5 file. Each process opens the file for itself, also
    one that was forked or that unpickled this.

    Args:
        path: the file.
        dataset: its images, uint8, in any of the shapes of `as_arrays`.
    """

    dtype, ndim, device = torch.uint8, 4, torch.device("cpu")

    def __init__(self, path: Path, dataset: Any) -> None:
        self.path, self.name, self.stored, self.unchanged = path.resolve(), dataset.name, dataset.shape, Unchanged(path)
        written = dataset.id.get_num_chunks()
        every = math.prod(-(-side // part) for side, part in zip(dataset.shape, dataset.chunks, strict=True))
        if written < every:
            raise RequestError(
                f"{path}: {written:,} of {every:,} chunks of {self.name[1:]} were written: write all images, or "
                "make the dataset smaller"
            )
        blank = np.broadcast_to(np.uint8(0), self.stored)  # takes no memory: its shape is checked
        pixels, _ = as_arrays(f"{path}: {self.name[1:]}", blank, np.zeros(len(blank), np.int64))
        self.shape = torch.Size(pixels.shape)
        self.at_once = max(math.prod(dataset.chunks), math.prod(self.stored[1:]))
        """Bytes that are read for one image."""
        self._opened: tuple[int, Any, Any] | None = None

    def __len__(self) -> int:
        return self.stored[0]

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_opened": None}

    def raw(self, rows: slice | np.ndarray) -> np.ndarray:
        """Images as the file holds them; numbers must rise."""
        import h5py

        if self._opened is None or self._opened[0] != os.getpid():
            self.unchanged(opening=True)
            file = h5py.File(self.path, "r", rdcc_nbytes=UNPACKED, rdcc_nslots=100_003)
            self._opened = os.getpid(), file, file[self.name]
        return self._opened[2][rows]

    def index_select(self, dim: int, index: Tensor) -> Tensor:
        """Images by number; `dim` is 0, as images are rows."""
        assert dim == 0
        rows, places = np.unique(index.numpy(), return_inverse=True)
        start, stop = (int(rows[0]), int(rows[-1]) + 1) if len(rows) else (0, 0)
        try:
            if stop - start <= 2 * len(rows):  # nearly all of a stretch, which is read much faster
                found = self.raw(slice(start, stop))[(rows - start)[places]]
            else:
                found = self.raw(rows)[places]
        except OSError as error:
            why = " ".join(str(error).split())
            raise RunError(f"{self.path} cannot be read ({why:.200}): put it back, then repeat the command") from None
        return torch.from_numpy(as_arrays(str(self.path), found, places)[0])
