"""What commands read while they are tried: a small world, a run of it, images and tables, to be broken and mended."""

from __future__ import annotations

import contextlib
import io
import shutil
import traceback
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from brojepa.cli import main
from brojepa.worlds import idx
from brojepa.worlds.sources import MNIST

TRAIN = "--validation 10 --latent 8 --epochs 1 --batch-size 16 --precision float32 --device cpu --action mfr-learned"


class Hang(BaseException):
    """A command that does not end."""


class Surroundings:
    """A small world, a finished run of it and one that was cut off, images, and tables: to be broken and mended."""

    def __init__(self, place: Path) -> None:
        self.place = place
        rng = np.random.default_rng(0)
        states = np.arange(60) % 3
        shapes = rng.integers(0, 200, (3, 8, 8))
        self.images = (shapes[states] + rng.integers(0, 55, (60, 8, 8))).astype(np.uint8)
        self.parts = {
            "images": self.images,
            "labels": states,
            "test_images": self.images[:12],
            "test_labels": states[:12],
        }
        self.world = place / "small.npz"
        np.savez(self.world, **self.parts)
        self.disk = place / "disk"
        self.disk.mkdir()
        for name, array in self.parts.items():
            np.save(self.disk / f"{name}.npy", array)
        self.recording = {
            "pixels": self.images[..., None],
            "action": np.ones((60, 1), np.int64),
            "ep_offset": np.arange(0, 60, 12),
            "ep_len": np.full(5, 12),
        }
        self.hdf5 = place / "small.h5"
        self.hdf5.write_bytes(b"")
        self.train = ["train", "--world", self.world, *TRAIN.split(), "--out", place / "out", "--quiet"]
        assert self.call(self.train)[0] == 0
        (result,) = (place / "out").rglob("result.json")
        self.run = result.parent
        for name, image in zip("ab", self.images, strict=False):
            Image.fromarray(image).save(place / f"{name}.png")
            np.save(place / f"{name}.npy", image)
        self.digits = place / "digits"
        self.digits.mkdir()
        for name, array in zip(MNIST.files, self.parts.values(), strict=True):
            idx.write(self.digits / name, array.astype(np.uint8))
        for state in "xyz":
            (place / "folder" / state).mkdir(parents=True)
            for i in range(5):
                Image.fromarray(self.images[i]).save(place / "folder" / state / f"{i}.png")
        self.table = place / "runs.csv"
        assert self.call(["report", self.run, "--runs", "--format", "csv", "--out", self.table])[0] == 0
        assert self.call(["report", self.run, "--archive", place / "kept"])[0] == 0
        (self.stored,) = (place / "kept").rglob("*.jsonl")
        self.drawn = place / "figures"
        assert self.call(["figures", self.run, "--only", "spectrum", "--out", self.drawn])[0] == 0
        self.bench = Path(__file__).parents[2] / "results" / "bench.json"
        self.kept: dict[Path, bytes] = {}
        self.whole = {file: file.read_bytes() for file in self.run.rglob("*") if file.is_file()}

    def call(self, words: list[Any]) -> tuple[Any, str, str]:
        """A command in this process: its exit code, what it printed, and its errors."""
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                code: Any = main([str(word) for word in words])
            except SystemExit as leave:  # after --help
                code = leave.code or 0
            except (Hang, Exception):
                code = traceback.format_exc()[-900:]
        return code, out.getvalue(), err.getvalue()

    def spoil(self, file: Path, content: bytes) -> None:
        self.kept.setdefault(file, file.read_bytes())
        file.write_bytes(content)

    def mend(self) -> None:
        for file, content in {**self.kept, **self.whole}.items():
            file.write_bytes(content)
        self.kept.clear()
        for path in [*(self.place / "out").rglob(".*.partial"), self.place / "more"]:
            shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)
