"""Worlds larger than memory: images stay on disk and are read by index, in batches.

Of a folder: images.npy and labels.npy, and test_images.npy and test_labels.npy or neither. The files are mapped into
memory, so the system keeps as much of them there as there is room, and no more. `hdf5` opens the same arrays in HDF5.
"""

from __future__ import annotations

import hashlib
import json
import math
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from brojepa.errors import RequestError, RunError
from brojepa.files import NUMBER, cache_dir, is_a, write_json
from brojepa.groups import Cyclic
from brojepa.worlds import memory
from brojepa.worlds.arrays import as_arrays, as_images, every_fifth
from brojepa.worlds.batches import Split
from brojepa.worlds.chunks import Chunks
from brojepa.worlds.rows import Rows, from_array, some, some_at_once
from brojepa.worlds.world import World, check_labels, histogram, histogram_statistics

READ = 1 << 22  # bytes hashed at once
LABELS = 24  # bytes of memory that a label takes while a world is read
Scan = tuple[str, tuple[float, ...], tuple[float, ...]]
"""The sha256 that identifies a world, and the mean and standard deviation of its training images' pixels."""


def is_mapped(directory: Path) -> bool:
    """Whether a directory is such a folder."""
    return (directory / "images.npy").is_file()


def read(directory: Path) -> World:
    """The world of a folder of arrays; without test files every fifth image of a state is for test."""
    tests = [file for file in ("test_images.npy", "test_labels.npy") if (directory / file).is_file()]
    if len(tests) == 1:
        raise RequestError(f"{directory} holds only one of test_images.npy and test_labels.npy: give both or neither")
    if not (directory / "labels.npy").is_file():
        raise RequestError(f"{directory} lacks labels.npy: it needs one label for each image of images.npy")
    files = [directory / file for file in ("images.npy", "labels.npy", *tests)]
    arrays = {file.stem: array(file) for file in files}
    for start in ("", "test_") if tests else ("",):
        images, labels = arrays[f"{start}images"], arrays[f"{start}labels"]
        if labels.shape == images.shape[:1]:  # else it is refused before it is read
            memory.check(directory / f"{start}labels.npy", LABELS * labels.size)
        if images.dtype != np.uint8:
            raise RequestError(f"{directory / f'{start}images.npy'} holds {images.dtype}: images on disk must be uint8")

    def scan(train: Tensor | Rows) -> Scan:
        assert isinstance(train, Rows), "it is mapped"

        def passes() -> Scan:
            sums = "".join(map(_sum, paths))
            found = histogram_statistics(_histogram(directory / "images.npy", train))
            return hashlib.sha256(sums.encode()).hexdigest(), *found

        paths = [file.resolve() for file in files]
        return scanned(paths, passes, train.shape[1])

    return assembled(directory.resolve().name, arrays, scan)


def assembled(name: str, arrays: Mapping[str, Any], scan: Callable[[Tensor | Rows], Scan]) -> World:
    """The world of arrays called images and labels, and test_images and test_labels or neither. Images that are on disk
    stay there.

    scan: gives, of the training images, what `Scan` is.
    """
    train = as_images(f"{name}, train split", arrays["images"], arrays["labels"])
    if "test_images" in arrays:
        test = as_images(f"{name}, test split", arrays["test_images"], arrays["test_labels"])
    else:
        held = torch.from_numpy(every_fifth(train[1]))
        (images, labels), rows = train, [(~held).nonzero()[:, 0], held.nonzero()[:, 0]]
        train, test = ((some(images, index), labels[index.numpy()]) for index in rows)
    n = int(max(labels.max(initial=0) for _, labels in (train, test))) + 1
    Cyclic(n)
    for part, (_, labels) in (("train", train), ("test", test)):
        check_labels(name, part, labels, n)
    if train[0].shape[1:] != test[0].shape[1:]:
        shapes = " and ".join("x".join(map(str, images.shape[1:])) for images, _ in (train, test))
        raise RequestError(f"{name}: training and test images differ in shape ({shapes}), they must be alike")
    sha256, mean, std = scan(train[0])
    splits = [Split(images, torch.from_numpy(labels)) for images, labels in (train, test)]
    source = {"images": {"train": len(splits[0]), "test": len(splits[1])}, "sha256": sha256}
    return World(name, n, splits[0], splits[1], mean, std, source)


def array(path: Path) -> np.ndarray:
    try:
        return np.load(path, mmap_mode="r", allow_pickle=False)
    except Exception as error:  # a damaged header raises any of a dozen kinds
        why = " ".join(str(error).split()) or type(error).__name__
        raise RequestError(f"{path} is not a readable .npy file ({why:.200})") from None


def scanned(paths: Sequence[Path], passes: Callable[[], Scan], channels: int) -> Scan:
    """What `passes` gives. It reads all images, so it is cached until a file changes."""
    facts = [[str(path), path.stat().st_size, path.stat().st_mtime_ns] for path in paths]
    notes = cache_dir() / "arrays" / f"{hashlib.sha256(json.dumps(facts[0][0]).encode()).hexdigest()[:16]}.json"
    known = _remembered(notes, facts, channels)
    if known is None:
        sha256, mean, std = passes()
        known = {"files": facts, "sha256": sha256, "mean": mean, "std": std}
        try:
            notes.parent.mkdir(parents=True, exist_ok=True)
            write_json(notes, known)
        except (OSError, RunError) as error:
            warnings.warn(f"cannot remember the sum of {paths[0]}: {error}", stacklevel=2)
    return known["sha256"], tuple(known["mean"]), tuple(known["std"])


def _remembered(notes: Path, facts: list[Any], channels: int) -> dict[str, Any] | None:
    """The cached result for the same files; None if there is none, or an invalid one."""
    try:
        known = json.loads(notes.read_text())
    except (OSError, ValueError, RecursionError):
        return None
    if not isinstance(known, dict) or known.get("files") != facts or not isinstance(known.get("sha256"), str):
        return None
    each = [known.get(key) for key in ("mean", "std")]
    whole = all(isinstance(v, list) and len(v) == channels and all(is_a(x, NUMBER) for x in v) for v in each)
    return known if whole else None


def content(arrays: Mapping[str, Any], keys: Iterable[str]) -> str:
    """The sha256 over names and bytes of arrays, read piece by piece."""
    digest = hashlib.sha256()
    for key in keys:
        digest.update(key.encode())
        array = arrays[key].source if isinstance(arrays[key], Rows) else np.ascontiguousarray(arrays[key])
        read = array.raw if isinstance(array, Chunks) else array.__getitem__
        step = max(1, READ // max(1, array.dtype.itemsize * math.prod(array.shape[1:])))
        for start in range(0, len(array), step):
            digest.update(np.ascontiguousarray(read(slice(start, start + step))).reshape(-1).view(np.uint8).data)
    return digest.hexdigest()


def _sum(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(READ):
            digest.update(piece)
    return digest.hexdigest()


def _histogram(path: Path, train: Rows) -> Tensor:
    """`histogram` of the training images. Each piece is mapped anew, so that memory does not fill up."""
    counts = torch.zeros(train.shape[1], 256, dtype=torch.long)
    for rows in torch.arange(len(train)).split(some_at_once(train)):
        pixels, _ = as_arrays(str(path), array(path), np.zeros(len(train.source), np.int64))
        counts += histogram(some(from_array(pixels), rows if train.index is None else train.index[rows]))
    return counts
