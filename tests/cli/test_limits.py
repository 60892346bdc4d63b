"""Requests and files that ask for more than there is: one line, soon, and without the memory."""

from __future__ import annotations

import json
import os
import struct
import time
import zlib
from pathlib import Path

import numpy as np
import pytest
import torch
from conftest import SMALL, Cli, one_line
from PIL import Image

import brojepa
from brojepa.cli import _is_memory
from brojepa.errors import RequestError
from brojepa.files import json_line
from brojepa.runs import Run, checkpoint
from brojepa.worlds import memory


def picture(path: Path, width: int, height: int) -> Path:
    """A PNG of a few bytes that says it is so large."""

    def chunk(name: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))

    head = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", zlib.compress(b"\0" * 1000)) + chunk(b"IEND", b""))
    return path


@pytest.mark.parametrize("side", [12_000, 30_000])
def test_a_picture_that_unpacks_to_too_much_is_refused_at_every_door(cli: Cli, trained, tmp_path: Path, side) -> None:
    """Pillow warns of the first and refuses the second."""
    run, bomb = trained[0], picture(tmp_path / "bomb.png", side, side)
    good = tmp_path / "good.png"
    Image.new("L", (28, 28)).save(good)
    for k in "ab":
        for i in range(6):
            picture(tmp_path / "folder" / k / f"{i}.png", side, side)
    for words in (
        ("predict", run, bomb, "--action=1"),
        ("predict", run, good, bomb, "--action=1", "--resize"),
        ("infer", run, bomb, good),
        ("plan", run, good, bomb, "--allowed=1", "--resize"),
        ("train", "--world", tmp_path / "folder"),
        ("train", "--world", tmp_path / "folder", "--size", "8"),
        ("data", "show", tmp_path / "folder"),
    ):
        assert "pixels" in one_line(cli(*words), 2)
    model = brojepa.load(run)
    for images in (bomb, str(bomb), [good, bomb]):
        with pytest.raises(RequestError, match="pixels"):
            model.encode(images)


def test_what_is_no_file_and_arrays_of_any_size_are_no_images(cli: Cli, trained, tmp_path: Path) -> None:
    """Nobody writes to the pipe; the array has 3 GB and lies in a file that takes no room."""
    os.mkfifo(tmp_path / "pipe.png")
    assert "no file" in one_line(cli("predict", trained[0], tmp_path / "pipe.png", "--action=1"), 2)
    large = np.lib.format.open_memmap(tmp_path / "large.npy", mode="w+", dtype=np.uint8, shape=(3 * 10**9,))
    del large
    assert "pixels" in one_line(cli("predict", trained[0], tmp_path / "large.npy", "--action=1"), 2)


def test_a_picture_that_breaks_off_is_refused_also_when_pillow_has_opened_it(trained, tmp_path: Path) -> None:
    with Image.open(picture(tmp_path / "a.png", 28, 280)) as image, pytest.raises(RequestError, match="image 0"):
        brojepa.load(trained[0]).encode(image)


@pytest.mark.parametrize(
    "words",
    [
        ("--latent", "100000000000"), ("--width", "10000000", "--encoder", "cnn"), ("--walk", "1000000000"),
        ("--shift", "1000000000"), ("--out", ""), ("--out", "a\0b"), ("--world", ""), ("--world", "mnist:0-9999999999"),
    ],
    ids=str,
)  # fmt: skip
def test_sizes_that_cannot_be_are_refused_before_they_are_tried(cli: Cli, tiny: str, tmp_path: Path, words) -> None:
    begun = time.process_time()
    one_line(cli("train", "--world", tiny, *SMALL, "--out", tmp_path, *words), 2)
    assert time.process_time() - begun < 10
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("fact", [("states", 10**12), ("group", "Z1000000000000"), ("group", "Z10xZ99999999")], ids=str)
@pytest.mark.parametrize("command", ["eval", "inspect", "figures"])
def test_a_run_of_too_many_states_is_one_line(cli: Cli, run: Path, command, fact) -> None:
    header = json.loads((run / "config.json").read_text())
    header["world"][fact[0]] = fact[1]
    (run / "config.json").write_text(json.dumps(header))
    done = cli(command, run, *(["--only", "accuracy"] if command == "figures" else []))
    assert done.code == 1
    assert "does not describe a world" in done.out + done.err


def test_arrays_that_unpack_to_more_than_the_memory_are_not_unpacked(cli: Cli, tmp_path: Path, monkeypatch) -> None:
    file = tmp_path / "large.npz"
    np.savez_compressed(file, images=np.zeros((400, 100, 100), np.uint8), labels=np.arange(400) % 2)
    monkeypatch.setattr(memory, "available", lambda: 7e6)
    assert "GB" in one_line(cli("data", "check", file), 2)
    monkeypatch.setattr(memory, "available", lambda: 9e6)
    assert cli("data", "check", file).code == 0


@pytest.mark.parametrize("lr", ["1e30", "1e38"])
def test_steps_that_are_far_too_large_are_one_line(cli: Cli, tiny: str, tmp_path: Path, lr) -> None:
    words = ["train", "--world", tiny, "--validation", 30, "--epochs", 1, "--lr", lr, "--out", tmp_path, "--quiet"]
    assert "not finite" in one_line(cli(*words), 1)


def test_want_of_memory_is_told_from_a_bug() -> None:
    with pytest.raises(RuntimeError) as caught:
        torch.empty(2**50)
    assert _is_memory(caught.value)
    assert _is_memory(MemoryError())
    assert not _is_memory(RuntimeError("mat1 and mat2 shapes cannot be multiplied"))


@pytest.mark.parametrize("name", ["action.theta", "classifier.weight"])
def test_weights_too_large_to_compute_with_are_one_line(cli: Cli, run: Path, name) -> None:
    """They are finite themselves; what is computed from them is not, or is no angle."""
    tensors, meta = checkpoint.load(Run(run).model_file)
    large = next(key for key in sorted(tensors) if key.startswith(name) and tensors[key].is_floating_point())
    checkpoint.save(Run(run).model_file, {**tensors, large: torch.full_like(tensors[large], 1e38)}, meta)
    for command in ("eval", "inspect"):
        assert "too large" in one_line(cli(command, run), 1)


def test_an_answer_in_json_has_null_for_what_is_no_number() -> None:
    answer = {"a": [1.5, float("nan"), {"b": float("inf")}], "c": (True, None, -float("inf"), "x")}
    assert json.loads(json_line(answer)) == {"a": [1.5, None, {"b": None}], "c": [True, None, None, "x"]}
