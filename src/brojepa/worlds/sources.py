"""Where worlds come from: the bundled MNIST, EMNIST letters on disk, worlds made from these, and your own files.

MNIST's and EMNIST's four IDX files share one reader; EMNIST's names mean EMNIST's conventions (images stored
transposed, labels counted from 1).
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from brojepa import parts
from brojepa.config import WORLDS, is_own_world, needs_emnist, parse_size, world_code, world_folder
from brojepa.errors import MissingData, RequestError, unknown
from brojepa.files import cache_dir, place
from brojepa.worlds import brought, derived, folder, hdf5, idx, mapped, npz
from brojepa.worlds.arrays import as_images, every_fifth, resized_arrays
from brojepa.worlds.rows import Rows
from brojepa.worlds.world import World, content_sum

PARTS = ("train images", "train labels", "test images", "test labels")


@dataclass(frozen=True)
class Layout:
    """Four file names and the conventions that go with them."""

    files: tuple[str, str, str, str]
    transposed: bool
    first_label: int


MNIST = Layout(
    ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"),
    transposed=False,
    first_label=0,
)
EMNIST = Layout(
    (
        "emnist-letters-train-images-idx3-ubyte",
        "emnist-letters-train-labels-idx1-ubyte",
        "emnist-letters-test-images-idx3-ubyte",
        "emnist-letters-test-labels-idx1-ubyte",
    ),
    transposed=True,
    first_label=1,
)
VIEWS: dict[str, Any] = {"group": "", "held_out_things": -1, "tolerance": 0.0}
BUNDLED = Path(__file__).parent / "mnist"
LETTERS = 26
OFFICIAL_TRAIN, OFFICIAL_TEST = 4_800, 800  # images of each letter in the official split

# sha256 over the sha256 sums of the four unpacked files, in the order of PARTS
MNIST_SHA256 = "c65580678af93f1ea48c2c0d01d543ec89307c6b8a0eb7ca542d7c18c5f4c681"
REBUILT_SHA256 = "38c0dacdfbb7568132324ff6071a6f73b710392361f808dd4a0c5661309e0839"


def known_split(size: tuple[int, ...], train: np.ndarray, test: np.ndarray, sha256: str) -> str:
    """The name of an EMNIST letters split: rebuilt by its hash; official if it has that split's size and counts
    (its hash is not known here); or other.

    Args:
        size: height and width of the images.
        train, test: labels from 0.
        sha256: over the sums of the four files.
    """
    if sha256 == REBUILT_SHA256:
        return "rebuilt"
    even = all(
        np.array_equal(np.bincount(labels, minlength=LETTERS), np.full(LETTERS, each))
        for labels, each in ((train, OFFICIAL_TRAIN), (test, OFFICIAL_TEST))
    )
    return "official" if even and size == (28, 28) else "other"


def search_path(data_dir: str | Path | None) -> list[Path]:
    """The directories in which EMNIST is looked for, best first."""
    given = data_dir or os.environ.get("BROJEPA_DATA")
    base = place(given) if given else cache_dir()
    return [base, base / "emnist-letters", base / "emnist", base / "EMNIST" / "raw"]


def open_world(
    name: str, data_dir: str | Path | None = None, *, size: str | int = "", group: str = "", held_out_things: int = -1,
    tolerance: float = 0.0,
) -> World:  # fmt: skip
    """Open a world by name or path.

    Args:
        name: a built-in world ("mnist", "torus", ...), some states of one ("mnist:0-6"), the path of your own images (a
            folder with a sub-folder per state, a directory of IDX files or of images.npy and labels.npy, an .npz or
            HDF5), or own code ("package.module:name").
        data_dir: where EMNIST is.
        size: resize the images of a folder or a file to N or HxW.
        group: the group of poses or of a recording, if the file does not name it.
        held_out_things: number of things, or episodes, for test only; -1 means no things, or a fifth of the episodes.
        tolerance: degrees within which two actions of a continuous group count as one; 0 lets the world decide.

    Returns:
        The world, in memory; images in .npy files and large ones in HDF5 stay on disk.

    Raises:
        RequestError: an unknown name, files that are missing or damaged, or an option that does not apply.

    Examples:
        >>> import brojepa
        >>> brojepa.open_world("mnist:0-6").n
        7
    """
    base, _, rest = name.partition(":")
    views = {"group": group, "held_out_things": held_out_things, "tolerance": tolerance}
    if views != VIEWS and not has_views(name):
        flag = next(key for key in views if views[key] != VIEWS[key])
        raise RequestError(
            f"--{flag.replace('_', '-')} {views[flag]} is for poses and recordings, {name} is neither: leave it out"
        )
    if size != "" and not has_size(name):
        raise RequestError(f"--size {size} is for a folder, an .npz or HDF5, which {name} is not: leave it out")
    if data_dir and not needs_emnist(name):
        raise RequestError(f"--data-dir {data_dir} is for emnist, not for {name}: for your own images use --world PATH")
    if base in WORLDS:

        def open_part(part: str) -> World:
            return open_world(part, data_dir if needs_emnist(part) else None, size=size if has_size(part) else "")

        return _named(base, rest, open_part, data_dir)
    path = place(name)
    if path.is_dir() and mapped.is_mapped(path):
        return mapped.read(path)
    if path.is_dir():
        layout = _layout(path)
        return _from_directory(path.resolve().name, path, layout) if layout else folder.read(path, parse_size(size))
    if path.is_file():
        read = _from_hdf5 if path.suffix.lower() in hdf5.ENDINGS else _from_npz
        return read(path, views, parse_size(size))
    if parts.is_path(name):
        world = parts.make("world", name)
        if not isinstance(world, World):
            raise parts.wrong("world", name, f"gave a {type(world).__name__}")
        return world
    if re.fullmatch(r".+@[0-9a-f]{12}", name):
        raise RequestError(f"world {name} was made in Python and is not on disk: pass it again as world=...")
    if os.sep in name or path.suffix:
        raise RequestError(
            f"no world at {name}: give a directory with a sub-folder of images per state, of IDX files or of "
            "images.npy and labels.npy, an .npz with images and labels, poses or actions, or HDF5 of labels or actions"
        )
    raise unknown("world", name, WORLDS)


def has_views(name: str) -> bool:
    """Whether a world is a file, which may hold poses or a recording."""
    return name.partition(":")[0] not in WORLDS and place(name).is_file()


def has_size(name: str) -> bool:
    """Whether a world, or a part that it is made of, is a folder of images or a file, which can be resized."""
    base, _, rest = name.partition(":")
    if base in WORLDS:
        return any(part and has_size(part) for part in rest.split(","))
    path = Path(name).expanduser()
    return path.is_file() or (path.is_dir() and _layout(path) is None and not mapped.is_mapped(path))


def _layout(directory: Path) -> Layout | None:
    """The layout that the IDX files of a directory are named by, if there are any."""
    return next((layout for layout in (MNIST, EMNIST) if any(_find(directory, f) for f in layout.files)), None)


def _named(name: str, rest: str, open_part: derived.Open, data_dir: str | Path | None) -> World:
    if name in ("mnist", "emnist"):
        world = _mnist() if name == "mnist" else _emnist(data_dir)
        return derived.subset(world, rest) if rest else world
    if name == "pose":
        if rest:
            raise RequestError(f"world {name}:{rest}: {name} has no parts to name, write {name}")
        return derived.pose()
    return DERIVED[name](rest, open_part)


DERIVED = {
    "torus": derived.torus, "pairs": derived.pairs, "rotation": derived.rotation, "dihedral": derived.dihedral,
}  # fmt: skip


def identity(name: str | None, world: World) -> str:
    """What a run calls its world: a built-in one by name, own data by their content, wherever they are.

    The name is what opened it, None if it was made in memory. A world that code has made is read whole: nothing else
    identifies its content."""
    if name is not None and not is_own_world(name):
        return name
    read = name is not None and not world_code(name)
    known = world.source.get("sha256") if read else content_sum(world.train, world.test)
    content = hashlib.sha256(json.dumps(known).encode()).hexdigest()
    return f"{world_folder(name or world.name)}@{content[:12]}"


def _mnist() -> World:
    world = _from_directory("mnist", BUNDLED, MNIST, n=10)
    if world.source["sha256"] != MNIST_SHA256:
        raise RequestError(f"the bundled MNIST in {BUNDLED} was changed: install brojepa again")
    return world


def _emnist(data_dir: str | Path | None) -> World:
    places = search_path(data_dir)
    for directory in places:
        if any(_find(directory, f) for f in EMNIST.files):
            return _from_directory("emnist", directory, EMNIST, n=LETTERS)
    raise MissingData(
        f"EMNIST letters not found in {places[0]}: run 'brojepa data fetch emnist', or put "
        f"{', '.join(EMNIST.files)} (plain or .gz) in a directory and name it with --data-dir or BROJEPA_DATA"
    )


def _find(directory: Path, name: str) -> Path | None:
    for path in (directory / name, directory / f"{name}.gz"):
        if path.is_file():
            return path
    return None


def _from_directory(name: str, directory: Path, layout: Layout, n: int | None = None) -> World:
    arrays, sums = [], []
    for part, file in zip(PARTS, layout.files, strict=True):
        path = _find(directory, file)
        if path is None:
            raise RequestError(f"{directory} lacks the {part}: {file} (plain or .gz)")
        array, sha256 = idx.read(path)
        if ("labels" in part and array.ndim != 1) or ("images" in part and array.ndim < 3):
            raise RequestError(f"{path} holds {array.ndim}-dimensional data, not {part}: are two files swapped?")
        arrays.append(array)
        sums.append(sha256)
    if layout.transposed:
        arrays[0::2] = [a.swapaxes(1, 2) for a in arrays[0::2]]
    if layout.first_label:
        for path, labels in zip(layout.files[1::2], arrays[1::2], strict=True):
            if labels.size and labels.min() < layout.first_label:
                raise RequestError(f"{directory / path}: label 0 found, EMNIST letters are labelled from 1")
        arrays[1::2] = [a.astype(np.int64) - layout.first_label for a in arrays[1::2]]
    sha256 = hashlib.sha256("".join(sums).encode()).hexdigest()
    source: dict[str, object] = {"sha256": sha256}
    if name == "emnist":
        source["split"] = known_split(arrays[0].shape[1:], arrays[1], arrays[3], sha256)
    return World.assembled(name, (arrays[0], arrays[1]), (arrays[2], arrays[3]), n=n, source=source, own=True)


def _from_npz(path: Path, views: dict[str, Any], size: tuple[int, int] | None) -> World:
    """images, labels, and test_images, test_labels; without the latter every fifth image of a state is for test. Or
    images, things, poses and group; or images, actions, episode and group."""
    kind, data = npz.read(path)
    source = {"sha256": mapped.content(data, sorted(data))}
    if size:
        for key in {"images", "test_images"} & data.keys():
            data[key] = resized_arrays(f"{path}: {key}", data[key], *size)
    if kind != "labels":
        views = {**views, "group": _group(path, views["group"], data.get("group", ""))}
        read = brought.poses if kind == "poses" else brought.recording
        images, what, which = (data[key] for key in npz.KEYS[kind])
        return read(path.stem, images, what, which, **views, source=source)
    _no_views(path, views)
    images, labels = data["images"], data["labels"]
    if "test_images" in data:
        train, test = (images, labels), (data["test_images"], data["test_labels"])
    else:
        held = every_fifth(labels)
        train, test = (images[~held], labels[~held]), (images[held], labels[held])
    return World.assembled(path.stem, train, test, source=source, own=True)


def _no_views(path: Path, views: dict[str, Any]) -> None:
    if views != VIEWS:
        raise RequestError(f"{path} holds labelled images: --group, --held-out-things and --tolerance are for poses")


def _group(path: Path, given: str, held: Any) -> str:
    """The group that a flag names, or the file itself: text or bytes, also as the one element of an array."""
    words = [word.decode() if isinstance(word, bytes) else str(word) for word in np.asarray(held).reshape(-1).tolist()]
    held = ",".join(words)
    if given and held and given != held:
        raise RequestError(f"--group {given}: {path} says {held}, leave the flag out")
    if not given and not held:
        raise RequestError(f"{path} does not say which group its actions are of: name it, as in --group Z72")
    return given or held


def _from_hdf5(path: Path, views: dict[str, Any], size: tuple[int, int] | None) -> World:
    """Labelled images or a recording; see `hdf5`."""
    file = hdf5.read(path, whole=size is not None)
    columns = dict(file.columns)
    if size:
        for key in set(hdf5.PICTURES) & columns.keys():
            columns[key] = resized_arrays(f"{path}: {key}", columns[key], *size)
    if file.labelled:
        _no_views(path, views)
        return mapped.assembled(path.stem, columns, file.scan)
    rows, episode = hdf5.frames(path, columns)
    views = {**views, "group": _group(path, views["group"], file.group)}
    images, actions = columns["pixels"], columns["action"][rows]
    if isinstance(images, np.memmap):
        images, _ = as_images(f"{path}: pixels", images, np.zeros(len(images), np.int64))
    if not np.array_equal(rows, np.arange(len(images))):
        images = images.of(torch.from_numpy(rows)) if isinstance(images, Rows) else images[rows]
    source = {"sha256": file.sha256(images)}
    return brought.recording(path.stem, images, actions, episode, **views, source=source)
