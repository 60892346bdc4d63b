"""Bad data is refused: damaged, missing, swapped or contradictory files, each in one line that says what is wrong."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from conftest import Arrays, write_world
from helpers import random_arrays, refusal, same
from hypothesis import given, settings
from hypothesis import strategies as st

from brojepa.errors import RequestError
from brojepa.worlds import idx, open_world
from brojepa.worlds.sources import EMNIST, MNIST


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-7])


def swap(first: int, second: int) -> Callable[[Path], None]:
    def swap(directory: Path) -> None:
        a, b = directory / MNIST.files[first], directory / MNIST.files[second]
        a.rename(directory / "aside")
        b.rename(a)
        (directory / "aside").rename(b)

    return swap


def relabel(part: int, change: Callable[[np.ndarray], np.ndarray]) -> Callable[[Path], None]:
    def relabel(directory: Path) -> None:
        path = directory / MNIST.files[part]
        idx.write(path, change(idx.read(path)[0].copy()))

    return relabel


@pytest.mark.parametrize(
    ("damage", "expected"),
    [
        (lambda d: (d / MNIST.files[0]).unlink(), f"lacks the train images: {MNIST.files[0]}"),
        (lambda d: (d / MNIST.files[1]).unlink(), f"lacks the train labels: {MNIST.files[1]}"),
        (lambda d: (d / MNIST.files[2]).unlink(), f"lacks the test images: {MNIST.files[2]}"),
        (lambda d: (d / MNIST.files[3]).unlink(), f"lacks the test labels: {MNIST.files[3]}"),
        (lambda d: [p.unlink() for p in d.iterdir()], "no IDX files"),
        (lambda d: cut(d / MNIST.files[0]), "truncated"),
        (lambda d: cut(d / MNIST.files[3]), "truncated"),
        (lambda d: (d / MNIST.files[0]).write_bytes(b"\x1f\x8bnothing"), "damaged gzip"),
        (swap(0, 1), "swapped"),
        (swap(2, 3), "swapped"),
        (swap(0, 2), "images but"),
        (swap(1, 3), "images but"),
        (relabel(1, lambda y: y[:-1]), "images but"),
        (relabel(1, lambda y: np.where(y == 3, 2, y)), "state 3 has 0 images"),
        (relabel(3, lambda y: np.where(y == 4, 5, y)), "state 4 has 0 images"),
        (relabel(3, lambda y: np.where(y == 9, 200, y)), "state"),
        (relabel(0, lambda x: x[:, 1:]), "differ in shape"),
        (relabel(0, lambda x: np.repeat(x[..., None], 2, 3)), "1, 3 or 4 channels"),
        (lambda d: [relabel(i, lambda y: y * 0)(d) for i in (1, 3)], "at least 2 states"),
        (lambda d: [relabel(i, lambda y: y[:0])(d) for i in range(4)], "at least 2 states"),
        (lambda d: [relabel(i, lambda y: y[:0])(d) for i in (2, 3)], "0 images"),
    ],
)  # fmt: skip
def test_bad_idx_directory_is_refused(tmp_path: Path, digits: Path, damage, expected: str) -> None:
    shutil.copytree(digits, tmp_path / "bad")
    damage(tmp_path / "bad")
    assert expected in refusal(tmp_path / "bad")


@pytest.mark.parametrize(
    ("part", "label", "expected"), [(1, 0, "label 0"), (3, 0, "label 0"), (1, 27, "0 to 25"), (3, 255, "0 to 25")]
)
def test_labels_outside_the_alphabet_are_refused(
    tmp_path: Path, letters: Path, part: int, label: int, expected: str
) -> None:
    shutil.copytree(letters, tmp_path / "bad")
    path = tmp_path / "bad" / f"{EMNIST.files[part]}.gz"
    labels = idx.read(path)[0].copy()
    labels[5] = label
    idx.write(path, labels)
    assert expected in refusal("emnist", tmp_path / "bad")


def test_emnist_must_show_all_26_letters(tmp_path: Path, letter_arrays: Arrays) -> None:
    a, b, c, d = letter_arrays
    few = (a[b < 25].swapaxes(1, 2), b[b < 25] + 1, c[d < 25].swapaxes(1, 2), d[d < 25] + 1)
    write_world(tmp_path, EMNIST.files, few)
    assert "state 25 has 0 images" in refusal("emnist", tmp_path)


GOOD = dict(zip(("images", "labels", "test_images", "test_labels"), random_arrays(3, (5, 4)), strict=True))


def without(*keys: str) -> dict[str, np.ndarray]:
    return {key: value for key, value in GOOD.items() if key not in keys}


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ({}, "lacks images and labels"),
        (without("images"), "lacks images"),
        (without("labels"), "lacks labels: it holds images, test_images, test_labels"),
        (without("test_labels"), "only one of test_images and test_labels"),
        (without("test_images"), "only one of test_images and test_labels"),
        (GOOD | {"images": GOOD["images"] / 255}, None),
        (GOOD | {"images": GOOD["images"] / 256 - 0.5}, "floats from 0 to 1"),
        (GOOD | {"images": GOOD["images"].astype(float)}, "floats from 0 to 1"),
        (GOOD | {"images": GOOD["images"] * np.nan}, "floats from 0 to 1"),
        (GOOD | {"test_images": GOOD["test_images"].astype(np.int32)}, "uint8"),
        (GOOD | {"labels": GOOD["labels"].astype(float)}, "labels integers"),
        (GOOD | {"labels": GOOD["labels"] * np.nan}, "labels integers"),
        (GOOD | {"labels": GOOD["labels"].astype(str)}, "labels integers"),
        (GOOD | {"labels": GOOD["labels"].astype(bool)}, "labels integers"),
        (GOOD | {"labels": GOOD["labels"][:-1]}, "one label per image"),
        (GOOD | {"labels": GOOD["labels"][:, None]}, "one label per image"),
        (GOOD | {"labels": np.array(3)}, "one label per image"),
        (GOOD | {"images": np.array(3, np.uint8)}, "one label per image"),
        (GOOD | {"images": GOOD["images"].reshape(12, 20)}, "dimensions"),
        (GOOD | {"images": GOOD["images"][..., None, None]}, "dimensions"),
        (GOOD | {"test_labels": GOOD["test_labels"][:-1]}, "images but"),
        (GOOD | {"test_images": GOOD["test_images"][:, 1:]}, "differ in shape"),
        (GOOD | {"labels": GOOD["labels"].astype(np.int64) - 1}, "labels run from -1"),
        (GOOD | {"labels": np.array([10**15, *GOOD["labels"][1:]])}, "12 images for 10"),  # not a petabyte of counts
        (GOOD | {"labels": GOOD["labels"] * 2, "test_labels": GOOD["test_labels"] * 2}, "state 1 has 0 images"),
        (GOOD | {"labels": np.where(np.arange(12) < 9, GOOD["labels"], 0)}, None),
        (GOOD | {"labels": np.where(np.arange(12) < 5, GOOD["labels"], 0)}, "state 2 has 1 images"),
        (GOOD | {"labels": GOOD["labels"] * 0, "test_labels": GOOD["test_labels"] * 0}, "at least 2 states"),
        ({"images": GOOD["images"], "labels": GOOD["labels"]}, "test split"),  # 4 of a state: no fifth to test on
        (GOOD | {"labels": np.array([{}] * 12)}, "not a readable .npz"),  # would need unpickling
    ],
)  # fmt: skip
def test_bad_npz_is_refused(tmp_path: Path, content: dict[str, np.ndarray], expected: str | None) -> None:
    np.savez(tmp_path / "bad.npz", **content)
    if expected is None:
        assert open_world(str(tmp_path / "bad.npz")).n == 3
    else:
        assert expected in refusal(tmp_path / "bad.npz")


def test_file_that_is_no_npz_is_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "array.npy", GOOD["images"])
    (tmp_path / "text.npz").write_text("hello")
    (tmp_path / "empty.npz").write_bytes(b"")
    for path in tmp_path.iterdir():
        assert "not a readable .npz" in refusal(path)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(where=st.integers(0, 10**6), byte=st.integers(0, 255), cut=st.booleans())
def test_damaged_npz_is_refused_or_harmless(
    tmp_path_factory: pytest.TempPathFactory, where: int, byte: int, cut: bool
) -> None:
    path = tmp_path_factory.getbasetemp() / "damaged.npz"
    np.savez_compressed(path, **GOOD)
    raw = bytearray(path.read_bytes())
    where %= len(raw)
    raw[where:] = b"" if cut else bytes([byte]) + raw[where + 1 :]
    path.write_bytes(raw)
    try:
        world = open_world(str(path))
    except RequestError:
        refusal(path)
    else:
        assert same(world.train, GOOD["images"], GOOD["labels"])


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("mnits", "did you mean mnist"),
        ("EMNIST", "choose from mnist, emnist"),
        ("cifar", "mnist, emnist"),
        ("no/such/place", "no world at no/such/place"),
        ("missing.npz", "no world at missing.npz"),
    ],
)
def test_unknown_world_is_refused_with_what_there_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, expected: str
) -> None:
    monkeypatch.chdir(tmp_path)
    assert expected in refusal(name)
