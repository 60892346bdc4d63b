"""Data larger than memory are refused before they are read, by what their headers say."""

from __future__ import annotations

import gzip
import io
import struct
import zipfile
from pathlib import Path

import numpy as np
import pytest
from helpers import refusal
from PIL import Image

from brojepa.errors import RequestError
from brojepa.worlds import idx, memory, open_world
from brojepa.worlds.sources import MNIST


def header(shape: tuple[int, ...]) -> bytes:
    """The start of an .npy file, without its array."""
    raw = io.BytesIO()
    np.lib.format.write_array_header_1_0(raw, {"descr": "|u1", "fortran_order": False, "shape": shape})
    return raw.getvalue()


def test_an_npz_that_declares_more_than_there_is(tmp_path: Path) -> None:
    path = tmp_path / "huge.npz"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("images.npy", header((10**9, 1000, 1000)))
        archive.writestr("labels.npy", header((10**9,)))
    message = refusal(str(path))
    assert "huge.npz" in message
    assert "memory" in message
    assert "available" in message


def test_idx_files_that_declare_more_than_there_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in MNIST.files:
        sizes = (2**31, 2**10, 2**10) if "images" in name else (2**31,)
        raw = bytes((0, 0, 8, len(sizes))) + struct.pack(f">{len(sizes)}I", *sizes)
        (tmp_path / f"{name}.gz").write_bytes(gzip.compress(raw))
    assert "memory" in refusal(str(tmp_path))
    path = tmp_path / "plain"
    idx.write(path, np.zeros((4, 5, 5), np.uint8))
    monkeypatch.setattr(memory, "available", lambda: 199)
    with pytest.raises(RequestError, match="memory"):
        idx.read(path)


def test_a_folder_of_more_than_there_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for state in "ab":
        (tmp_path / "photos" / state).mkdir(parents=True)
        for i in range(5):
            Image.new("L", (30, 20), i).save(tmp_path / "photos" / state / f"{i}.png")
    monkeypatch.setattr(memory, "available", lambda: 2 * 10 * 600 - 1)
    assert "memory" in refusal(str(tmp_path / "photos"))
    monkeypatch.setattr(memory, "available", lambda: 2 * 10 * 600)
    assert len(open_world(str(tmp_path / "photos")).train) == 8


def test_memory_is_what_the_system_has_and_allows(tmp_path: Path) -> None:
    (tmp_path / "meminfo").write_text("MemTotal: 99 kB\nMemAvailable:     2048 kB\n")
    assert memory._meminfo(tmp_path / "meminfo") == 2048 * 1024
    assert memory._meminfo(tmp_path / "none") is None
    (tmp_path / "memory.max").write_text("max\n")
    (tmp_path / "memory.current").write_text("300\n")
    assert memory._cgroup(tmp_path) is None
    (tmp_path / "memory.max").write_text("1000\n")
    assert memory._cgroup(tmp_path) == 700
    free = memory.available()
    assert free is None or free > 10**8
    memory.check(Path("small"), 10**6)
    with pytest.raises(RequestError, match=r"1,000,000\.0 GB"):
        memory.check(Path("large"), 10**15)
