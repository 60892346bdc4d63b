"""What can be wrong with a file that was right: values of another kind, keys that are gone, headers that lie, bytes
that have flipped. Each function takes the `draw` of hypothesis, and what is right."""

from __future__ import annotations

import copy
import json
import struct
import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np
from hypothesis import strategies as st

ODD = st.sampled_from(
    [-1, 0, 1, 2, 3, 10**13, 2**63, -(2**64), 10**400, 1.5, 1e308, -1e-300, float("nan"), float("inf"), "", "x", "0",
     "1e5", "\0", "../../x", "é" * 300, "Z10", "Z0", "Z99999999999", "Z10xZ10", "SO2", "D4", "SO3", "mnist", "emnist",
     "mnist:0-6", "torus", "pose", "os:system", "+1", "nan", None, True, False, [], {}, [[]], [None], ["a"], [1, "a"],
     {"a": {"b": []}}]
)  # fmt: skip
JSON = st.recursive(
    ODD | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)


def places(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where the values of a JSON document are."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield (*at, key)
        yield from places(inner, (*at, key))


def broken_document(draw: Any, document: Any) -> str:
    """A JSON document with one to three values changed or gone, or its text cut, nested or spoilt."""
    how = draw(st.integers(0, 19))
    if how == 0:
        return broken_bytes(draw, json.dumps(document).encode()).decode(errors="surrogateescape")
    if how == 1:
        return draw(st.sampled_from(["", "[" * 100_000, "{}", "[]", "null", "3", '"x"', "\ufeff{}", "NaN", "\0"]))
    changed = copy.deepcopy(document)
    for _ in range(draw(st.integers(1, 3))):
        everywhere = list(places(changed))
        if not everywhere:
            break
        *way, last = draw(st.sampled_from(everywhere))
        here = changed
        for key in way:
            here = here[key]
        if draw(st.integers(0, 5)) == 0:
            del here[last]
        else:
            here[last] = copy.deepcopy(draw(JSON))
    return json.dumps(changed)


def broken_bytes(draw: Any, content: bytes) -> bytes:
    """Bytes that have flipped, are missing or are too many."""
    how = draw(st.integers(0, 3))
    if how == 0 or not content:
        return content[: draw(st.integers(0, len(content)))]
    if how == 1:
        return content + draw(st.binary(max_size=20))
    spoilt = bytearray(content)
    for _ in range(draw(st.integers(1, 8))):
        spoilt[draw(st.integers(0, min(len(spoilt), 300) - 1) | st.integers(0, len(spoilt) - 1))] = draw(
            st.integers(0, 255)
        )
    return bytes(spoilt)


ARRAYS = st.tuples(
    st.sampled_from(["u1", "i8", "f4", "f8", "?", "c8", "U3", "M8[s]", "u2"]),
    st.lists(st.sampled_from([0, 1, 2, 3, 4, 8, 28, 60]), max_size=5).filter(lambda shape: np.prod(shape) < 1e6),
    st.sampled_from([0, 1, 3, 255, -1, 10**12]),
)


def odd_array(draw: Any) -> np.ndarray:
    kind, shape, value = draw(ARRAYS)
    with np.errstate(all="ignore"):
        return np.array([[value]]).astype(kind, casting="unsafe").ravel()[0] * np.ones(shape, kind) if kind in (
            "f4", "f8") else np.full(shape, 0 if kind in ("U3", "M8[s]") else 1).astype(kind)  # fmt: skip


def broken_picture(draw: Any, content: bytes) -> bytes:
    """A PNG with spoilt bytes, or with a header that lies and has the right checksum, or a chunk of any kind."""
    how = draw(st.integers(0, 2))
    if how == 0:
        return broken_bytes(draw, content)

    def chunk(name: bytes, inside: bytes) -> bytes:
        return struct.pack(">I", len(inside)) + name + inside + struct.pack(">I", zlib.crc32(name + inside))

    sizes = st.sampled_from([0, 1, 8, 28, 5_000, 20_000, 2**31 - 1])
    depth, colour = draw(st.sampled_from([1, 2, 4, 8, 16, 32])), draw(st.sampled_from([0, 2, 3, 4, 6, 7]))
    head = chunk(
        b"IHDR", struct.pack(">IIBBBBB", draw(sizes), draw(sizes), depth, colour, 0, 0, draw(st.integers(0, 2)))
    )
    names = st.sampled_from([b"tRNS", b"PLTE", b"eXIf", b"iCCP", b"zTXt", b"acTL", b"pHYs", b"gAMA"])
    more = chunk(draw(names), draw(st.binary(max_size=40))) if how == 2 else b""
    return content[:8] + head + more + content[33:]
