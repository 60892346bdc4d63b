"""Worlds: the bundled files are the official ones, conventions are undone, images are held out fairly."""

from __future__ import annotations

import gzip
import hashlib
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from conftest import Arrays, write_world
from helpers import random_arrays, refusal, same
from hypothesis import given, settings
from hypothesis import strategies as st

from brojepa.errors import MissingData, RequestError
from brojepa.files import cache_dir
from brojepa.worlds import Split, World, idx, known_split, open_world
from brojepa.worlds.sources import BUNDLED, EMNIST, MNIST

OFFICIAL = {  # sha256 of the unpacked files of MNIST as published
    "train-images-idx3-ubyte": "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
    "train-labels-idx1-ubyte": "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
    "t10k-images-idx3-ubyte": "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
    "t10k-labels-idx1-ubyte": "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
}


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
    ("size", "train", "test", "sha256", "split"),
    [
        (28, {}, {}, "0" * 64, "official"),
        (2, {}, {}, "0" * 64, "other"),  # noise of the right counts
        (28, {3: 4_801}, {}, "0" * 64, "other"),
        (28, {3: 4_801, 4: 4_799}, {}, "0" * 64, "other"),
        (28, {}, {0: 801, 25: 799}, "0" * 64, "other"),
        (28, {25: 0, 0: 9_600}, {}, "0" * 64, "other"),
        (28, {26: 10}, {}, "0" * 64, "other"),
        (28, {3: 20}, {}, "38c0dacdfbb7568132324ff6071a6f73b710392361f808dd4a0c5661309e0839", "rebuilt"),
        (28, {}, {}, "38c0dacdfbb7568132324ff6071a6f73b710392361f808dd4a0c5661309e0839", "rebuilt"),
        (28, {3: 20}, {}, "38c0dacdfbb7568132324ff6071a6f73b710392361f808dd4a0c5661309e0838", "other"),
    ],
)
def test_known_splits_have_names(
    size: int, train: dict[int, int], test: dict[int, int], sha256: str, split: str
) -> None:
    """The official split, but for the counts of some letters."""

    def labels(each: int, others: dict[int, int]) -> np.ndarray:
        counts = dict.fromkeys(range(26), each) | others
        return np.repeat(list(counts), list(counts.values()))

    assert known_split((size, size), labels(4_800, train), labels(800, test), sha256) == split


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
    numbers = [part.images[:].flatten().tolist() for part in (kept, held)]
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
    assert torch.equal(again[0].images[:], kept.images[:])


def test_hold_out_is_random_and_fair() -> None:
    whole = Split(torch.arange(100).reshape(-1, 1, 1, 1), torch.arange(100) % 2)
    times = torch.zeros(100)
    for seed in range(1000):
        times[whole.hold_out(20, 2, torch.Generator().manual_seed(seed))[1].images.flatten()] += 1
    assert ((times - 200).abs() < 5 * (1000 * 0.2 * 0.8) ** 0.5).all()
