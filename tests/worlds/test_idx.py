"""IDX files: what is written is read, and whatever is wrong with a file is one line that says so."""

from __future__ import annotations

import gzip
import hashlib
import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from brojepa.errors import RequestError
from brojepa.worlds import World, idx

ARRAY = np.arange(2 * 3 * 4, dtype=np.uint8).reshape(2, 3, 4)
WHOLE = b"\0\0\x08\x03" + struct.pack(">3I", 2, 3, 4) + bytes(range(24))
SMALL = hnp.array_shapes(min_dims=1, max_dims=4, min_side=0, max_side=5)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("idx")


def refusal(path: Path) -> str:
    """The one line that reading gives."""
    with pytest.raises(RequestError) as caught:
        idx.read(path)
    message = str(caught.value)
    assert str(path) in message
    assert "\n" not in message
    return message


@pytest.mark.parametrize("suffix", ["", ".gz"])
@settings(max_examples=60, deadline=None, derandomize=True)
@given(array=hnp.arrays(np.uint8, SMALL))
def test_what_is_written_is_read_back(place: Path, suffix: str, array: np.ndarray) -> None:
    path = place / f"round-trip{suffix}"
    idx.write(path, array)
    read, _ = idx.read(path)
    assert read.dtype == np.uint8
    assert read.shape == array.shape
    assert np.array_equal(read, array)


def test_the_bytes_are_those_of_the_format(place: Path) -> None:
    plain, packed = place / "plain", place / "packed.gz"
    idx.write(plain, ARRAY)
    idx.write(packed, ARRAY)
    assert plain.read_bytes() == WHOLE
    assert packed.read_bytes()[:2] == b"\x1f\x8b"
    assert gzip.decompress(packed.read_bytes()) == WHOLE
    assert idx.read(plain)[1] == idx.read(packed)[1] == hashlib.sha256(WHOLE).hexdigest()


def test_a_transposed_view_is_written_as_it_looks(place: Path) -> None:
    idx.write(place / "view", ARRAY.swapaxes(1, 2))
    assert np.array_equal(idx.read(place / "view")[0], ARRAY.swapaxes(1, 2))


def test_gzip_is_known_by_its_content_not_its_name(place: Path) -> None:
    (place / "named.gz").write_bytes(WHOLE)
    (place / "unnamed").write_bytes(gzip.compress(WHOLE))
    for name in ("named.gz", "unnamed"):
        assert np.array_equal(idx.read(place / name)[0], ARRAY)


@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gzip"])
@pytest.mark.parametrize("length", range(len(WHOLE)))
def test_cut_anywhere_inside_the_data_is_refused(place: Path, pack, length: int) -> None:
    path = place / "cut"
    path.write_bytes(pack(WHOLE[:length]))
    message = refusal(path)
    assert ("truncated" if length >= 16 else "not an IDX file") in message


def test_gzip_cut_anywhere_is_refused(place: Path) -> None:
    packed = gzip.compress(WHOLE, mtime=0)
    path = place / "cut.gz"
    for length in range(len(packed)):
        path.write_bytes(packed[:length])
        assert ("gzip" if length >= 2 else "not an IDX file") in refusal(path)


@settings(max_examples=80, deadline=None, derandomize=True)
@given(where=st.integers(0, 10**6), bit=st.integers(0, 7))
def test_a_flipped_bit_in_gzip_never_gives_other_data(place: Path, where: int, bit: int) -> None:
    packed = bytearray(gzip.compress(WHOLE, mtime=0))
    packed[where % len(packed)] ^= 1 << bit
    path = place / "flipped.gz"
    path.write_bytes(packed)
    try:
        array, _ = idx.read(path)
    except RequestError:
        refusal(path)
    else:  # a bit of the gzip header that means nothing, such as its time
        assert np.array_equal(array, ARRAY)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", "starts with nothing"),
        (WHOLE + b"\0", "too long"),
        (gzip.compress(WHOLE + b"\0"), "too long"),
        (b"\x01" + WHOLE[1:], "starts with 01000803"),
        (b"\0\0\x0d" + WHOLE[3:], "not an IDX file of bytes"),  # floats
        (b"\0\0\x08\x00" + WHOLE[4:], "not an IDX file"),
        (b"\0\0\x08\x05" + WHOLE[4:], "not an IDX file"),
        (b"\0\0\x08\x03" + struct.pack(">3I", *[2**32 - 1] * 3), "truncated"),  # no overflow, nothing allocated
        (b"<!DOCTYPE html><html>404</html>", "not an IDX file"),
        (gzip.compress(WHOLE) + b"tail", "gzip"),
    ],
    ids=["empty", "long", "long-gz", "magic", "floats", "0-dims", "5-dims", "huge", "html", "gz-tail"],
)
def test_what_is_no_idx_file_is_refused(place: Path, content: bytes, expected: str) -> None:
    path = place / "bad"
    path.write_bytes(content)
    assert expected in refusal(path)


@pytest.mark.parametrize("kind", ["missing", "directory"])
def test_what_cannot_be_opened_is_refused(place: Path, kind: str) -> None:
    path = place / kind
    if kind == "directory":
        path.mkdir()
    assert "cannot read" in refusal(path)


def test_a_small_file_that_unpacks_to_a_large_one_is_read_no_further_than_its_header_says(tmp_path, monkeypatch):
    """500 MB of zeros behind a header that says four bytes."""
    path, read = tmp_path / "bomb.gz", []
    with gzip.open(path, "wb", compresslevel=1) as file:
        file.write(b"\0\0\x08\x01" + struct.pack(">I", 4))
        for _ in range(50):
            file.write(bytes(10_000_000))
    inner = gzip.GzipFile.read

    def counted(self, size=-1):
        assert size >= 0, "all of it was asked for"
        read.append(len(found := inner(self, size)))
        return found

    monkeypatch.setattr(gzip.GzipFile, "read", counted)
    with pytest.raises(RequestError, match="too long"):
        idx.read(path)
    assert sum(read) < 100


@pytest.mark.parametrize("shape", [(4, 0, 8), (4, 8, 0), (4, 8, 8, 0)])
def test_images_of_no_size_are_refused(shape):
    images, labels = np.zeros(shape, np.uint8), np.array([0, 1, 0, 1])
    with pytest.raises(RequestError, match="no pixels"):
        World.from_arrays("flat", (images, labels), (images, labels))
