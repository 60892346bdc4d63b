"""Worlds: the bundled files are the official ones, conventions are undone, bad data is refused."""

from __future__ import annotations

import gzip
import hashlib
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from conftest import Arrays, write_world
from helpers import random_arrays
from hypothesis import given, settings
from hypothesis import strategies as st

from brojepa.errors import MissingData, RequestError
from brojepa.worlds import Split, World, cache_dir, idx, known_split, open_world
from brojepa.worlds.sources import BUNDLED, EMNIST, MNIST

OFFICIAL = {  # sha256 of the unpacked files of MNIST as published
    "train-images-idx3-ubyte": "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
    "train-labels-idx1-ubyte": "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
    "t10k-images-idx3-ubyte": "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
    "t10k-labels-idx1-ubyte": "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
}


def refusal(name: object, data_dir: Path | None = None) -> str:
    """The one line that opening a world gives."""
    with pytest.raises(RequestError) as caught:
        open_world(str(name), data_dir)
    message = str(caught.value)
    assert "\n" not in message
    return message


def same(split: Split, images: np.ndarray, states: np.ndarray) -> bool:
    """Whether a split holds these images [count, h, w] or [count, h, w, c] and states, in this order."""
    images = images[:, None] if images.ndim == 3 else np.moveaxis(images, 3, 1)
    return np.array_equal(split.images.numpy(), images) and np.array_equal(split.states.numpy(), states)


# The bundled MNIST


@pytest.mark.parametrize("name", OFFICIAL)
def test_bundled_file_is_the_official_one(name: str) -> None:
    assert hashlib.sha256(gzip.decompress((BUNDLED / f"{name}.gz").read_bytes())).hexdigest() == OFFICIAL[name]


def test_bundle_is_small_and_carries_its_licence() -> None:
    assert sum(path.stat().st_size for path in BUNDLED.iterdir()) <= 12_000_000
    assert "Attribution-Share Alike 3.0" in (BUNDLED / "LICENSE.md").read_text()


def test_bundled_world_is_mnist() -> None:
    world = open_world("mnist")
    assert (world.name, world.n, world.shape) == ("mnist", 10, (1, 28, 28))
    assert world.source["images"] == {"train": 60_000, "test": 10_000}
    assert world.train.states[:10].tolist() == [5, 0, 4, 1, 9, 2, 1, 3, 1, 4]  # as printed in every tutorial
    assert torch.bincount(world.test.states).tolist() == [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]
    assert world.mean == pytest.approx([0.1307], abs=5e-5)
    assert world.std == pytest.approx([0.3081], abs=5e-5)


def test_bundled_world_takes_no_data_dir(digits: Path) -> None:
    assert "--world PATH" in refusal("mnist", digits)


@pytest.mark.parametrize("shape", [(9, 11), (8, 6, 3)])
def test_mean_and_std_are_those_of_the_training_pixels(shape: tuple[int, ...]) -> None:
    a, b, c, d = random_arrays(3, shape)
    a[..., :3] = 0  # not noise all over
    world = World.from_arrays("own", (a, b), (c, d))
    pixels = a.reshape(len(a), shape[0] * shape[1], -1).astype(np.float64) / 255
    assert world.mean == pytest.approx(pixels.mean((0, 1)), rel=1e-12)
    assert world.std == pytest.approx(pixels.std((0, 1)), rel=1e-12, abs=1 / 255)


def test_std_of_a_constant_channel_can_be_divided_by() -> None:
    a, b, c, d = random_arrays(2, (4, 4))
    assert World.from_arrays("own", (np.zeros_like(a), b), (c, d)).std[0] > 0


# EMNIST


def test_emnist_is_upright_and_counted_from_0(letters: Path, letter_arrays: Arrays) -> None:
    world = open_world("emnist", letters)
    a, b, c, d = letter_arrays
    assert (world.name, world.n, world.shape) == ("emnist", 26, (1, 28, 28))
    assert same(world.train, a, b)
    assert same(world.test, c, d)
    assert not np.array_equal(a, a.swapaxes(1, 2))
    assert world.source["split"] == "other"
    assert world.title == "emnist (other split)"


@pytest.mark.parametrize(
    ("train", "test", "sha256", "split"),
    [
        (124_800, 20_800, "0" * 64, "official"),
        (124_801, 20_800, "0" * 64, "other"),
        (20_800, 124_800, "0" * 64, "other"),
        (88_800, 14_800, "38c0dacdfbb7568132324ff6071a6f73b710392361f808dd4a0c5661309e0839", "rebuilt"),
        (124_800, 20_800, "38c0dacdfbb7568132324ff6071a6f73b710392361f808dd4a0c5661309e0839", "rebuilt"),
        (88_800, 14_800, "38c0dacdfbb7568132324ff6071a6f73b710392361f808dd4a0c5661309e0838", "other"),
    ],
)
def test_known_splits_have_names(train: int, test: int, sha256: str, split: str) -> None:
    assert known_split({"train": train, "test": test}, sha256) == split


@pytest.mark.parametrize("below", ["", "emnist-letters", "emnist", "EMNIST/raw"])
def test_emnist_is_found_below_the_usual_names(letters: Path, tmp_path: Path, below: str) -> None:
    shutil.copytree(letters, tmp_path / "data" / below, dirs_exist_ok=True)
    assert len(open_world("emnist", tmp_path / "data").train) == 260


def test_emnist_plain_and_gz_are_one_world(letters: Path, tmp_path: Path) -> None:
    for path in letters.iterdir():
        (tmp_path / path.stem).write_bytes(gzip.decompress(path.read_bytes()))
    plain, packed = open_world("emnist", tmp_path), open_world("emnist", letters)
    assert plain.source == packed.source
    assert torch.equal(plain.train.images, packed.train.images)


def test_data_dir_goes_before_environment_before_cache(
    letters: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for place, extra in ((cache_dir(), 1), (tmp_path / "env", 2), (tmp_path / "given", 3)):
        shutil.copytree(letters, place)
        images, labels = idx.read(place / f"{EMNIST.files[2]}.gz")[0], idx.read(place / f"{EMNIST.files[3]}.gz")[0]
        idx.write(place / f"{EMNIST.files[2]}.gz", images[:-extra])  # told apart by how many test images they have
        idx.write(place / f"{EMNIST.files[3]}.gz", labels[:-extra])
    assert str(cache_dir()).startswith(str(tmp_path.parent))
    assert len(open_world("emnist").test) == 103
    monkeypatch.setenv("BROJEPA_DATA", str(tmp_path / "env"))
    assert len(open_world("emnist").test) == 102
    assert len(open_world("emnist", tmp_path / "given").test) == 101
    # a place that was named is the only one looked at: other data than asked for would be worse than none
    assert str(tmp_path / "empty") in refusal("emnist", tmp_path / "empty")


def test_absent_emnist_is_told_from_damaged(letters: Path, tmp_path: Path) -> None:
    with pytest.raises(MissingData) as caught:
        open_world("emnist")
    assert all(name in str(caught.value) for name in (*EMNIST.files, "data fetch emnist", "--data-dir", "BROJEPA_DATA"))
    shutil.copy(letters / f"{EMNIST.files[0]}.gz", tmp_path)
    with pytest.raises(RequestError, match=EMNIST.files[1]) as caught:
        open_world("emnist", tmp_path)
    assert not isinstance(caught.value, MissingData)


# Worlds of one's own


@pytest.mark.parametrize("n", [2, 7, 10, 26, 40])
@pytest.mark.parametrize("shape", [(28, 28), (5, 9), (6, 4, 1), (6, 4, 3), (6, 4, 4)], ids=str)
@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_own_idx_directory(tmp_path: Path, n: int, shape: tuple[int, ...], suffix: str) -> None:
    arrays = random_arrays(n, shape)
    world = open_world(str(write_world(tmp_path / "mine", MNIST.files, arrays, suffix)))
    channels = shape[2] if len(shape) == 3 else 1
    assert (world.name, world.n, world.shape) == ("mine", n, (channels, *shape[:2]))
    assert same(world.train, *arrays[:2])
    assert same(world.test, *arrays[2:])
    assert world.group.n == n


def test_own_directory_with_emnist_names_follows_emnist(tmp_path: Path) -> None:
    a, b, c, d = random_arrays(4, (6, 9))
    stored = (a.swapaxes(1, 2), b + 1, c.swapaxes(1, 2), d + 1)
    world = open_world(str(write_world(tmp_path / "mine", EMNIST.files, stored)))
    assert (world.n, world.shape) == (4, (1, 6, 9))
    assert same(world.train, a, b)
    assert same(world.test, c, d)


@pytest.mark.parametrize("n", [2, 7])
@pytest.mark.parametrize("shape", [(5, 9), (6, 4, 3)], ids=["grey", "colour"])
@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.int64])
def test_own_npz_with_test_images(tmp_path: Path, n: int, shape: tuple[int, ...], dtype: type) -> None:
    a, b, c, d = random_arrays(n, shape)
    np.savez(tmp_path / "mine.npz", images=a, labels=b.astype(dtype), test_images=c, test_labels=d.astype(dtype))
    world = open_world(str(tmp_path / "mine.npz"))
    assert (world.name, world.n) == ("mine", n)
    assert same(world.train, a, b)
    assert same(world.test, c, d)


def test_own_npz_without_test_images_keeps_every_fifth_of_a_state_for_test(tmp_path: Path) -> None:
    images, labels, *_ = random_arrays(3, (4, 4), train=11)
    labels = np.random.default_rng(0).permutation(labels)
    np.savez_compressed(tmp_path / "mine.npz", images=images, labels=labels)
    world = open_world(str(tmp_path / "mine.npz"))
    seen = np.zeros(3, int)
    test = []
    for y in labels:  # the 5th, 10th, ... image of each state in file order
        seen[y] += 1
        test.append(seen[y] % 5 == 0)
    assert same(world.train, images[~np.array(test)], labels[~np.array(test)])
    assert same(world.test, images[test], labels[test])
    assert torch.bincount(world.test.states).tolist() == [2, 2, 2]


def test_other_images_have_another_hash(tmp_path: Path) -> None:
    a, b, c, d = random_arrays(3, (4, 4))
    hashes = []
    for change in (0, 1):
        a[0, 0, 0] = change
        np.savez(tmp_path / "mine.npz", images=a, labels=b, test_images=c, test_labels=d)
        hashes.append(open_world(str(tmp_path / "mine.npz")).source["sha256"])
        write_world(tmp_path / "mine", MNIST.files, (a, b, c, d))
        hashes.append(open_world(str(tmp_path / "mine")).source["sha256"])
    assert len(set(hashes)) == 4


# Bad data


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
        (GOOD | {"images": GOOD["images"] / 255}, "uint8"),
        (GOOD | {"test_images": GOOD["test_images"].astype(np.int32)}, "uint8"),
        (GOOD | {"labels": GOOD["labels"].astype(float)}, "labels integers"),
        (GOOD | {"labels": GOOD["labels"] * np.nan}, "labels integers"),
        (GOOD | {"labels": GOOD["labels"].astype(str)}, "labels integers"),
        (GOOD | {"labels": GOOD["labels"].astype(bool)}, "labels integers"),
        (GOOD | {"labels": GOOD["labels"][:-1]}, "one label an image"),
        (GOOD | {"labels": GOOD["labels"][:, None]}, "one label an image"),
        (GOOD | {"labels": np.array(3)}, "one label an image"),
        (GOOD | {"images": np.array(3, np.uint8)}, "one label an image"),
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


# Holding out


@st.composite
def labelled(draw: st.DrawFn) -> tuple[int, list[int]]:
    sizes = draw(st.lists(st.integers(2, 40), min_size=2, max_size=12))
    return len(sizes), draw(st.permutations([y for y, size in enumerate(sizes) for _ in range(size)]))


@settings(max_examples=100, deadline=None, derandomize=True)
@given(world=labelled(), count=st.integers(1, 200), seed=st.integers(0, 2**32))
def test_hold_out(world: tuple[int, list[int]], count: int, seed: int) -> None:
    n, labels = world
    total = len(labels)
    whole = Split(torch.arange(total).reshape(-1, 1, 1, 1), torch.tensor(labels))  # an image is its own number
    kept, held = whole.hold_out(count, n, torch.Generator().manual_seed(seed))
    numbers = [part.images.flatten().tolist() for part in (kept, held)]
    assert sorted(numbers[0] + numbers[1]) == list(range(total))
    assert len(held) == max(n, min(count, total // 5))
    for part, number in zip((kept, held), numbers, strict=True):
        assert part.states.tolist() == [labels[i] for i in number]
        assert set(part.states.tolist()) == set(range(n))
    size, taken = (torch.bincount(s, minlength=n).double() for s in (whole.states, held.states))
    share = len(held) / total
    assert ((taken - share * size).abs() <= torch.clamp(n * size / total, min=1) + 1e-9).all()
    again = whole.hold_out(count, n, torch.Generator().manual_seed(seed))
    assert torch.equal(again[1].images, held.images)
    assert torch.equal(again[0].images, kept.images)


def test_hold_out_is_random_and_fair() -> None:
    whole = Split(torch.arange(100).reshape(-1, 1, 1, 1), torch.arange(100) % 2)
    times = torch.zeros(100)
    for seed in range(1000):
        times[whole.hold_out(20, 2, torch.Generator().manual_seed(seed))[1].images.flatten()] += 1
    assert ((times - 200).abs() < 5 * (1000 * 0.2 * 0.8) ** 0.5).all()
