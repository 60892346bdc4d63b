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

import numpy as np

from brojepa import parts
from brojepa.config import WORLDS, is_own_world, needs_emnist, parse_size, world_code, world_folder
from brojepa.errors import MissingData, RequestError, unknown
from brojepa.files import cache_dir, place
from brojepa.worlds import derived, folder, idx
from brojepa.worlds.arrays import every_fifth
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
BUNDLED = Path(__file__).parent / "mnist"
LETTERS = 26

# sha256 over the sha256 sums of the four unpacked files, in the order of PARTS
MNIST_SHA256 = "c65580678af93f1ea48c2c0d01d543ec89307c6b8a0eb7ca542d7c18c5f4c681"
REBUILT_SHA256 = "38c0dacdfbb7568132324ff6071a6f73b710392361f808dd4a0c5661309e0839"


def known_split(counts: dict[str, int], sha256: str) -> str:
    """The name of an EMNIST letters split: official by its counts, rebuilt by its hash, or other."""
    if sha256 == REBUILT_SHA256:
        return "rebuilt"
    return "official" if counts == {"train": 124_800, "test": 20_800} else "other"


def search_path(data_dir: str | Path | None) -> list[Path]:
    """The directories in which EMNIST is looked for, best first."""
    given = data_dir or os.environ.get("BROJEPA_DATA")
    base = place(given) if given else cache_dir()
    return [base, base / "emnist-letters", base / "emnist", base / "EMNIST" / "raw"]


def open_world(name: str, data_dir: str | Path | None = None, *, size: str | int = "") -> World:
    """The world of a name in `WORLDS`, some states of one (`mnist:0-6`), the one at a path (a directory with a
    sub-folder of images per state or of IDX files, or an .npz), or the one that own code makes (`package.module:name`).

    Args:
        name: the name or the path.
        data_dir: where EMNIST lies.
        size: what the images of a folder are resized to, N or HxW.
    """
    base, _, rest = name.partition(":")
    if size != "" and not has_size(name):
        raise RequestError(f"--size {size} is for a folder of images, {name} is none: leave it out")
    if data_dir and not needs_emnist(name):
        raise RequestError(f"--data-dir {data_dir} is for emnist, not for {name}: for your own images use --world PATH")
    if base in WORLDS:

        def open_part(part: str) -> World:
            return open_world(part, data_dir if needs_emnist(part) else None, size=size if has_size(part) else "")

        return _named(base, rest, open_part, data_dir)
    path = place(name)
    if path.is_dir():
        layout = _layout(path)
        return _from_directory(path.resolve().name, path, layout) if layout else folder.read(path, parse_size(size))
    if path.is_file():
        return _from_npz(path)
    if parts.is_path(name):
        world = parts.make("world", name)
        if not isinstance(world, World):
            raise parts.wrong("world", name, f"gave a {type(world).__name__}")
        return world
    if re.fullmatch(r".+@[0-9a-f]{12}", name):
        raise RequestError(f"world {name} was made in Python and is not on disk: pass it again as world=...")
    if os.sep in name or path.suffix:
        raise RequestError(
            f"no world at {name}: give a directory with a sub-folder of images per state or of IDX files, or an .npz "
            "with images and labels"
        )
    raise unknown("world", name, WORLDS)


def has_size(name: str) -> bool:
    """Whether a world, or a part that it is made of, is a folder of images, which can be resized."""
    base, _, rest = name.partition(":")
    if base in WORLDS:
        return any(part and has_size(part) for part in rest.split(","))
    path = Path(name).expanduser()
    return path.is_dir() and _layout(path) is None


def _layout(directory: Path) -> Layout | None:
    """Whose names the IDX files of a directory have, if there are any."""
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
    """What a run calls its world: a built-in one by name, own data by their content, wherever they lie.

    The name is what opened it, None where it was made in memory. Whatever code has made is read whole: nothing else
    vouches for its content."""
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
        source["split"] = known_split({"train": len(arrays[1]), "test": len(arrays[3])}, sha256)
    return World.from_arrays(name, (arrays[0], arrays[1]), (arrays[2], arrays[3]), n=n, source=source)


def _from_npz(path: Path) -> World:
    """images, labels, and test_images, test_labels; without the latter every fifth image of a state is for test."""
    try:
        with path.open("rb") as raw, np.load(raw, allow_pickle=False) as file:
            data = {key: file[key] for key in file.files}
    except Exception as error:  # a damaged zip raises any of a dozen kinds, and np.load opens more than .npz
        raise RequestError(f"{path} is not a readable .npz file ({error})") from None
    missing = [key for key in ("images", "labels") if key not in data]
    if missing:
        raise RequestError(f"{path} lacks {' and '.join(missing)}: it holds {', '.join(data) or 'nothing'}")
    digest = hashlib.sha256()
    for key in sorted(data):
        digest.update(key.encode() + np.ascontiguousarray(data[key]).tobytes())
    images, labels = data["images"], data["labels"]
    if labels.ndim != 1 or images.shape[:1] != labels.shape:
        raise RequestError(f"{path}: {images.shape} images but {labels.shape} labels, need one label per image")
    if ("test_images" in data) != ("test_labels" in data):
        raise RequestError(f"{path} holds only one of test_images and test_labels: give both or neither")
    if "test_images" in data:
        train, test = (images, labels), (data["test_images"], data["test_labels"])
    else:
        held = every_fifth(labels)
        train, test = (images[~held], labels[~held]), (images[held], labels[held])
    return World.from_arrays(path.stem, train, test, source={"sha256": digest.hexdigest()})
