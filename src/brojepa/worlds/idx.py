"""Reading and writing IDX, the format of MNIST and EMNIST: a magic number, the sizes, then the bytes.

Bytes 0-1 are zero, byte 2 is the type (0x08, unsigned byte, the only one used here), byte 3 the number of
dimensions; then one big-endian 32-bit size a dimension. Plain or gzip.
"""

from __future__ import annotations

import gzip
import hashlib
import math
import struct
import zlib
from pathlib import Path

import numpy as np

from brojepa.errors import RequestError


def read(path: Path) -> tuple[np.ndarray, str]:
    """The array in an IDX file and the sha256 of its unpacked bytes."""
    try:
        raw = path.read_bytes()
        if raw[:2] == b"\x1f\x8b":
            raw = gzip.decompress(raw)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise RequestError(f"{path} is a damaged gzip file ({error}): get it again") from None
    except OSError as error:
        raise RequestError(f"cannot read {path}: {error.strerror}") from None
    if len(raw) < 4 or raw[:3] != b"\x00\x00\x08" or not 1 <= raw[3] <= 4 or len(raw) < 4 + 4 * raw[3]:
        raise RequestError(f"{path} is not an IDX file of bytes (it starts with {raw[:4].hex() or 'nothing'})")
    sizes = struct.unpack(f">{raw[3]}I", raw[4 : 4 + 4 * raw[3]])
    data = np.frombuffer(raw, np.uint8, offset=4 + 4 * raw[3])
    if len(data) != math.prod(sizes):
        what = "truncated" if len(data) < math.prod(sizes) else "too long"
        raise RequestError(
            f"{path} is {what}: its header says {' x '.join(map(str, sizes))}, it holds {len(data)} bytes; get it again"
        )
    return data.reshape(sizes), hashlib.sha256(raw).hexdigest()


def write(path: Path, array: np.ndarray) -> None:
    """Write an array of bytes as an IDX file, gzip if the name ends so."""
    array = np.ascontiguousarray(array, np.uint8)
    raw = bytes((0, 0, 8, array.ndim)) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()
    path.write_bytes(gzip.compress(raw, mtime=0) if path.suffix == ".gz" else raw)
