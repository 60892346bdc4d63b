"""Worlds larger than memory: a folder of .npy files whose images stay on disk and are read by index, in batches.

images.npy and labels.npy, and test_images.npy and test_labels.npy or neither. The files are mapped into memory, so the
system keeps as much of them there as there is room, and no more.
"""

from __future__ import annotations

import hashlib
import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from brojepa.errors import RequestError, RunError
from brojepa.files import NUMBER, cache_dir, is_a, write_json
from brojepa.groups import Cyclic
from brojepa.worlds import memory
from brojepa.worlds.arrays import as_arrays, every_fifth
from brojepa.worlds.batches import Split
from brojepa.worlds.rows import Rows, from_array, some, some_at_once
from brojepa.worlds.world import World, check_labels, histogram, histogram_statistics

READ = 1 << 22  # bytes hashed at once
LABELS = 24  # bytes of memory that a label takes while a world is read


def is_mapped(directory: Path) -> bool:
    """Whether a directory is such a folder."""
    return (directory / "images.npy").is_file()


def read(directory: Path) -> World:
    """The world of a folder of arrays; without test files every fifth image of a state is for test."""
    name = directory.resolve().name
    tests = [file for file in ("test_images.npy", "test_labels.npy") if (directory / file).is_file()]
    if len(tests) == 1:
        raise RequestError(f"{directory} holds only one of test_images.npy and test_labels.npy: give both or neither")
    if not (directory / "labels.npy").is_file():
        raise RequestError(f"{directory} lacks labels.npy: it needs one label for each image of images.npy")
    train = _pair(directory, "")
    if tests:
        test = _pair(directory, "test_")
    else:
        held = torch.from_numpy(every_fifth(train[1]))
        (images, labels), rows = train, [(~held).nonzero()[:, 0], held.nonzero()[:, 0]]
        train, test = ((images.of(index), labels[index.numpy()]) for index in rows)
    n = int(max(labels.max(initial=0) for _, labels in (train, test))) + 1
    Cyclic(n)
    for part, (_, labels) in (("train", train), ("test", test)):
        check_labels(name, part, labels, n)
    if train[0].shape[1:] != test[0].shape[1:]:
        shapes = " and ".join("x".join(map(str, images.shape[1:])) for images, _ in (train, test))
        raise RequestError(f"{name}: training and test images differ in shape ({shapes}), they must be alike")
    files = ["images.npy", "labels.npy", *tests]
    sha256, mean, std = _scanned(directory, files, train[0])
    splits = [Split(images, torch.from_numpy(labels)) for images, labels in (train, test)]
    source = {"images": {"train": len(splits[0]), "test": len(splits[1])}, "sha256": sha256}
    return World(name, n, splits[0], splits[1], mean, std, source)


def _pair(directory: Path, start: str) -> tuple[Rows, np.ndarray]:
    """Images that stay on disk, and labels."""
    images, labels = (array(directory / f"{start}{name}.npy") for name in ("images", "labels"))
    if labels.shape == images.shape[:1]:  # else it is refused before it is read
        memory.check(directory / f"{start}labels.npy", LABELS * labels.size)
    if images.dtype != np.uint8:
        raise RequestError(f"{directory / f'{start}images.npy'} holds {images.dtype}: images on disk must be uint8")
    pixels, labels = as_arrays(f"{directory / start}", images, labels)
    rows = from_array(pixels)
    assert isinstance(rows, Rows), "it is mapped"
    return rows, labels


def array(path: Path) -> np.ndarray:
    try:
        return np.load(path, mmap_mode="r", allow_pickle=False)
    except Exception as error:  # a damaged header raises any of a dozen kinds
        why = " ".join(str(error).split()) or type(error).__name__
        raise RequestError(f"{path} is not a readable .npy file ({why:.200})") from None


def _scanned(
    directory: Path, files: list[str], train: Rows
) -> tuple[str, tuple[float, ...], tuple[float, ...]]:  # fmt: skip
    """The sha256 over the files' sums, and the mean and standard deviation of the training images' pixels. Both need a
    pass over all images, so they are cached until a file changes."""
    paths = [(directory / file).resolve() for file in files]
    facts = [[str(path), path.stat().st_size, path.stat().st_mtime_ns] for path in paths]
    notes = cache_dir() / "arrays" / f"{hashlib.sha256(json.dumps(facts[0][0]).encode()).hexdigest()[:16]}.json"
    known = _remembered(notes, facts, train.shape[1])
    if known is None:
        sums = [_sum(path) for path in paths]
        mean, std = histogram_statistics(_histogram(directory / "images.npy", train))
        known = {"files": facts, "sha256": hashlib.sha256("".join(sums).encode()).hexdigest(), "mean": mean, "std": std}
        try:
            notes.parent.mkdir(parents=True, exist_ok=True)
            write_json(notes, known)
        except (OSError, RunError) as error:
            warnings.warn(f"cannot remember the sums of {directory}: {error}", stacklevel=2)
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
