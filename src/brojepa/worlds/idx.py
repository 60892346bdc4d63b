"""Reading and writing IDX, the format of MNIST and EMNIST: a magic number, the sizes, then the bytes.

Bytes 0-1 are zero, byte 2 is the type (0x08, unsigned byte, the only one used here), byte 3 the number of
dimensions; then one big-endian 32-bit size per dimension. Plain or gzip.
"""

from __future__ import annotations

import gzip
import hashlib
import math
import struct
import zlib
from pathlib import Path
from typing import BinaryIO

import numpy as np

from brojepa.errors import RequestError
from brojepa.worlds import memory

PIECE = 1 << 20  # bytes read at once


def read(path: Path) -> tuple[np.ndarray, str]:
    """The array in an IDX file and the sha256 of its unpacked bytes."""
    try:
        with path.open("rb") as file:
            packed = file.peek(2)[:2] == b"\x1f\x8b"
            with gzip.GzipFile(fileobj=file) if packed else file as stream:
                return _read(path, stream)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise RequestError(f"{path} is a damaged gzip file ({error}): get it again") from None
    except OSError as error:
        raise RequestError(f"cannot read {path}: {error.strerror}") from None


def _read(path: Path, stream: gzip.GzipFile | BinaryIO) -> tuple[np.ndarray, str]:
    """Read the header, then as many bytes as it says and one more: a small file may unpack to a very large one."""
    head = stream.read(4)
    rest = stream.read(4 * head[3]) if len(head) == 4 and 1 <= head[3] <= 4 else b""
    if head[:3] != b"\x00\x00\x08" or not rest or len(rest) < 4 * head[3]:
        raise RequestError(f"{path} is not an IDX file of bytes (it starts with {head.hex() or 'nothing'})")
    sizes = struct.unpack(f">{head[3]}I", rest)
    wanted, data = math.prod(sizes), bytearray()
    if isinstance(stream, gzip.GzipFile) or path.stat().st_size > wanted:  # else it is truncated
        memory.check(path, wanted)
    while len(data) <= wanted and (piece := stream.read(min(PIECE, wanted + 1 - len(data)))):
        data += piece
    if len(data) != wanted:
        what, held = ("truncated", str(len(data))) if len(data) < wanted else ("too long", "more")
        raise RequestError(
            f"{path} is {what}: its header says {' x '.join(map(str, sizes))}, it holds {held} bytes; get it again"
        )
    digest = hashlib.sha256(head + rest)
    digest.update(data)
    return np.frombuffer(data, np.uint8).reshape(sizes), digest.hexdigest()


def write(path: Path, array: np.ndarray) -> None:
    """Write an array of bytes as an IDX file, with gzip if the name ends in .gz."""
    array = np.ascontiguousarray(array, np.uint8)
    raw = bytes((0, 0, 8, array.ndim)) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()
    path.write_bytes(gzip.compress(raw, mtime=0) if path.suffix == ".gz" else raw)
