"""Reads an .npz of images. Headers are checked before anything is unpacked, because a small file may unpack to a very
large one."""

from __future__ import annotations

import math
import zipfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from brojepa.errors import RequestError
from brojepa.worlds import memory

KEYS = {
    "poses": ("images", "things", "poses"),
    "recording": ("images", "actions", "episode"),
    "labels": ("images", "labels"),
}
"""What it holds, by kind of world; beside labels, test_images and test_labels, both or neither."""


def read(path: Path) -> tuple[str, dict[str, np.ndarray]]:
    """The kind of world that an .npz holds, one of `KEYS`, and its arrays."""
    try:
        with path.open("rb") as raw, zipfile.ZipFile(raw) as file:
            sizes = {name.removesuffix(".npy"): _header(file, name) for name in file.namelist()}
        kind = next((kind for kind, (_, *keys) in KEYS.items() if any(key in sizes for key in keys)), "labels")
        _check(path, kind, sizes)
        with path.open("rb") as raw, np.load(raw, allow_pickle=False) as file:
            return kind, {key: file[key] for key in sizes}
    except RequestError:
        raise
    except Exception as error:  # a damaged zip can raise many kinds of exception
        why = " ".join(str(error).split()) or type(error).__name__
        raise RequestError(f"{path} is not a readable .npz file ({why:.200})") from None


def _header(file: zipfile.ZipFile, name: str) -> tuple[tuple[int, ...], int]:
    """The shape of an array, and how many bytes it takes."""
    with file.open(name) as stream:
        version = np.lib.format.read_magic(stream)
        reader = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, _, dtype = reader(stream)
    return shape, math.prod(shape) * dtype.itemsize


def _check(path: Path, kind: str, sizes: dict[str, tuple[tuple[int, ...], int]]) -> None:
    missing = [key for key in KEYS[kind] if key not in sizes]
    if missing:
        others = kind == "labels" and "images" in sizes
        hint = "; or things and poses, or actions and episode, in place of labels" if others else ""
        raise RequestError(f"{path} lacks {' and '.join(missing)}: it holds {', '.join(sizes) or 'nothing'}{hint}")
    memory.check(path, sum(size for _, size in sizes.values()))
    if kind == "labels":
        check_labelled(path, {key: shape for key, (shape, _) in sizes.items()})


def check_labelled(path: Path, shapes: Mapping[str, tuple[int, ...]]) -> None:
    """An error if arrays of these shapes are no labelled images."""
    if ("test_images" in shapes) != ("test_labels" in shapes):
        raise RequestError(f"{path} holds only one of test_images and test_labels: give both or neither")
    for start in ("", "test_") if "test_images" in shapes else ("",):
        images, labels = shapes[f"{start}images"], shapes[f"{start}labels"]
        if len(labels) != 1 or images[:1] != labels:
            raise RequestError(f"{path}: {images} images but {labels} labels, need one label per image")
