"""A folder of images as a world: one sub-folder per state, or `train` and `test` with one per state in each.

Sub-folders whose names are numbers come first, in the order of these; the others follow by name, where numbers within
names count as numbers. Images are read in parallel, once: the cache keeps them under the sha256 of names
and contents.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import sys
import time
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

import numpy as np
from PIL import Image

from brojepa.errors import RequestError
from brojepa.files import cache_dir
from brojepa.text import plural
from brojepa.worlds import memory
from brojepa.worlds.arrays import EVERY, every_fifth
from brojepa.worlds.pictures import named, plain, quiet, resized
from brojepa.worlds.world import World

SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".webp")
FORMATS = ("PNG", "JPEG", "BMP", "WEBP")
VERSION = 1  # version of the cache: raise it when images are read differently
KEPT = 8  # folders in the cache
THREADS = 8
WIDE = 30  # letters of a progress bar

T = TypeVar("T")


@dataclass(frozen=True)
class Found:
    """The files of a folder: the names of its states in order, and the images of each split with their states.

    test: None if there is no test split.
    ignored: the number of other files and folders.
    """

    names: list[str]
    train: list[tuple[Path, int]]
    test: list[tuple[Path, int]] | None
    ignored: int


def read(directory: Path, size: tuple[int, int] | None = None) -> World:
    """The world in a folder of images.

    Args:
        directory: the folder.
        size: height and width that all images are resized to; without it they must be alike.

    Returns:
        The cycle of its states, with their names in `source`; grey if no image is coloured, else RGB.
    """
    found = scan(directory)
    files = [path for path, _ in found.train + (found.test or [])]
    labels = np.array([state for _, state in found.train + (found.test or [])], np.int64)
    images, deep, clear = _cached(directory, files, size)
    held = every_fifth(labels) if found.test is None else np.arange(len(labels)) >= len(found.train)
    train, test = ((images[mask], labels[mask]) for mask in (~held, held))
    world = World.assembled(directory.resolve().name, train, test, n=len(found.names), names=found.names, own=True)
    notes = (
        f"{directory}: ignored {plural(found.ignored, 'file')} besides the images",
        f"{directory}: {plural(deep, 'image')} of 16 bits a pixel scaled to 8",
        f"{directory}: {plural(clear, 'image')} transparent in places, which is read as black",
    )
    counts = (found.ignored, deep, clear)
    return replace(world, notes=tuple(note for note, count in zip(notes, counts, strict=True) if count))


def scan(directory: Path) -> Found:
    """The images of a folder, or an error that says what is missing."""
    folders, files, ignored = _look(directory)
    parts = {path.name: path for path in folders}
    split = "train" in parts and _holds_states(parts["train"])
    if not split and "test" in parts and _holds_states(parts["test"]):
        raise RequestError(f"{directory} has a test folder of states but no train folder: put the others in train")
    if split:
        if files:
            raise RequestError(f"{directory} has images beside train: put them in the sub-folder of their state")
        ignored += len(parts.keys() - {"train", "test"})
        train, more = _states(parts["train"])
        test, rest = _states(parts["test"]) if "test" in parts else (None, 0)
        ignored += more + rest
    elif folders:
        train, more = _states(directory)
        test, ignored = None, more
    else:
        what = f"{plural(len(files), 'image')} but no sub-folders" if files else "no IDX files and no folders of images"
        raise RequestError(f"{directory} holds {what}: put the images of each state in a sub-folder of its own")
    names = sorted(train, key=in_order)
    if len(names) < 2:
        raise RequestError(
            f"{directory} holds one state, {names[0]}: a cycle needs at least 2 states, a sub-folder of images each"
        )
    if test is not None and train.keys() != test.keys():
        one = sorted(train.keys() ^ test.keys(), key=in_order)[0]
        here, there = ("train", "test") if one in train else ("test", "train")
        raise RequestError(f"{directory}: state {one} is in {here} but not in {there}, each needs images in both")
    for name in names:
        least = EVERY if test is None else 2
        if len(train[name]) < least:
            hint = ", one of which is for test; or set test images apart in train and test" if test is None else ""
            raise RequestError(
                f"{directory}: state {name} has {plural(len(train[name]), 'image')}, each needs {least} or more{hint}"
            )
    pairs = [
        None if part is None else [(path, y) for y, name in enumerate(names) for path in part[name]]
        for part in (train, test)
    ]
    assert pairs[0] is not None
    return Found(names, pairs[0], pairs[1], ignored)


def in_order(name: str) -> tuple[bool, float, list[tuple[bool, int, str]], str]:
    """What names of states and files are sorted by: numbers first and by value, then by name."""
    number = float(name) if re.fullmatch(r"[+-]?\d+(\.\d+)?", name) else None
    pieces = [(not p.isdecimal(), int(p) if p.isdecimal() else 0, p) for p in re.split(r"(\d+)", name.casefold()) if p]
    return number is None, number or 0.0, pieces, name


def _look(directory: Path) -> tuple[list[Path], list[Path], int]:
    """The sub-folders and images of a directory, and the number of other entries; hidden ones do not count."""
    folders, files, others = [], [], 0
    try:
        entries = [path for path in directory.iterdir() if not path.name.startswith((".", "__MACOSX"))]
    except OSError as error:
        raise RequestError(f"cannot read {directory}: {error.strerror}") from None
    for path in entries:
        if path.suffix.lower() in SUFFIXES:
            files.append(path)
        elif path.is_dir():
            folders.append(path)
        else:
            others += 1
    return folders, sorted(files, key=lambda path: in_order(path.name)), others


def _holds_states(directory: Path) -> bool:
    folders, files, _ = _look(directory)
    return bool(folders) and not files


def _states(directory: Path) -> tuple[dict[str, list[Path]], int]:
    """The images of each state, and how many other things there are."""
    folders, loose, ignored = _look(directory)
    ignored += len(loose)
    if not folders:
        raise RequestError(f"{directory} is empty: put the images of each state in a sub-folder of its own")
    states = {}
    for folder in folders:
        deeper, files, others = _look(folder)
        if not files:
            raise RequestError(
                f"{folder} holds no images: put PNG, JPEG, BMP or WebP files of one state there, or remove it"
            )
        states[folder.name] = files
        ignored += others + len(deeper)
    return states, ignored


def _cached(directory: Path, files: Sequence[Path], size: tuple[int, int] | None) -> tuple[np.ndarray, int, int]:
    """The images of some files, [count, h, w] or [count, h, w, 3], how many had 16 bits and how many were transparent;
    from the cache where the same files were read before."""
    digest = hashlib.sha256(f"{VERSION} {size}".encode())
    sums = _each(_sum, files, f"{directory}: looking at")
    for path, one in zip(files, sums, strict=True):
        digest.update(f"{path.relative_to(directory)}\0{one}\n".encode(errors="surrogateescape"))
    file = cache_dir() / "folders" / f"{digest.hexdigest()[:32]}.npz"
    with contextlib.suppress(Exception):  # none there, or a damaged one: read the images again
        with file.open("rb") as raw, np.load(raw, allow_pickle=False) as data:
            images, (deep, clear) = data["images"], data["counts"].tolist()
        if images.dtype == np.uint8 and len(images) == len(files):
            file.touch()
            return images, deep, clear
    images, deep, clear = _read(directory, files, size)
    with contextlib.suppress(OSError):  # failing to write the cache is not an error
        _keep(file, images, np.array([deep, clear]))
    return images, deep, clear


def _keep(file: Path, images: np.ndarray, counts: np.ndarray) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    partial = file.with_name(f".{file.name}.{os.getpid()}.partial")
    try:
        with partial.open("wb") as raw:
            np.savez(raw, images=images, counts=counts)
        partial.replace(file)
    finally:
        partial.unlink(missing_ok=True)
    for old in sorted(file.parent.glob("*.npz"), key=lambda path: -path.stat().st_mtime)[KEPT:]:
        old.unlink(missing_ok=True)


def _sum(path: Path) -> str:
    with named(path):
        return hashlib.sha256(path.read_bytes()).hexdigest()


def _read(directory: Path, files: Sequence[Path], size: tuple[int, int] | None) -> tuple[np.ndarray, int, int]:
    def one(path: Path) -> tuple[np.ndarray, bool, bool]:
        with named(path), Image.open(path, formats=FORMATS) as image:
            image, deep, clear = plain(image)
            return np.asarray(resized(image, *size) if size else image), deep, clear

    images, deeps, clears = np.empty(0, np.uint8), 0, 0
    with quiet(), contextlib.closing(_each(one, files, f"{directory}: reading")) as results:
        for i, (pixels, deep, clear) in enumerate(results):
            if i == 0:
                memory.check(directory, len(files) * pixels.nbytes)
                images = np.empty((len(files), *pixels.shape), np.uint8)
            if pixels.shape[:2] != images.shape[1:3]:
                sizes = ["x".join(map(str, s)) for s in (images.shape[1:3], pixels.shape[:2])]
                raise RequestError(
                    f"{files[0]} is {sizes[0]} and {files[i]} is {sizes[1]} (height x width): bring all images to one "
                    f"size with --size, as in --size {sizes[0]}"
                )
            if pixels.ndim > images.ndim - 1:  # the first one with colours
                images = np.repeat(images[..., None], 3, 3)
            images[i] = pixels if pixels.ndim == images.ndim - 1 else pixels[..., None]
            deeps, clears = deeps + deep, clears + clear
    return images, deeps, clears


def _each(do: Callable[[Path], T], files: Sequence[Path], doing: str) -> Generator[T, None, None]:
    """Call a function for each file with several threads, in order; a terminal shows a progress bar."""
    live, shown = sys.stderr.isatty(), time.monotonic()
    pool = ThreadPoolExecutor(min(THREADS, os.cpu_count() or 1))
    try:
        for i, result in enumerate(pool.map(do, files)):
            yield result
            if live and time.monotonic() - shown > 0.2:
                shown, done = time.monotonic(), WIDE * (i + 1) // len(files)
                bar = "#" * done + "." * (WIDE - done)
                print(f"\r\x1b[K{doing} {len(files):,} images [{bar}]", end="", file=sys.stderr, flush=True)
    finally:
        pool.shutdown(cancel_futures=True)
        if live:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
