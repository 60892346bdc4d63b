"""Structure-aware fuzzing of every file that is read and of the command line: `python tests/faults/fuzz.py`, or
`make test-faults`.

Hypothesis draws what is wrong with a file that was right: a value of another kind, a key that is gone, a header that
lies, bytes that have flipped or are missing. A command then reads it in this process. It must end in time, with exit
code 0, 1 or 2, at most one line of error that is not "unexpected", no traceback, and less than 1 GB more memory.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import csv
import gzip
import io
import json
import os
import shutil
import signal
import struct
import sys
import tempfile
import time
import traceback
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from PIL import Image

from brojepa import config as knobs
from brojepa.cli import COMMANDS, main
from brojepa.figures import FIGURES
from brojepa.presets import PRESETS
from brojepa.runs import Run, checkpoint
from brojepa.worlds import idx
from brojepa.worlds.sources import MNIST

SECONDS = 30  # that one command may take
BYTES = 2**30  # that one command may take more than before
TRAIN = "--validation 10 --latent 8 --epochs 1 --batch-size 16 --precision float32 --device cpu --action mfr-learned"

ODD = st.sampled_from(
    [-1, 0, 1, 2, 3, 10**13, 2**63, -(2**64), 10**400, 1.5, 1e308, -1e-300, float("nan"), float("inf"), "", "x", "0",
     "1e5", "\0", "../../x", "é" * 300, "Z10", "Z0", "Z99999999999", "Z10xZ10", "SO2", "D4", "SO3", "mnist", "emnist",
     "mnist:0-6", "torus", "pose", "os:system", "+1", "nan", None, True, False, [], {}, [[]], [None], ["a"], [1, "a"],
     {"a": {"b": []}}]
)  # fmt: skip
JSON = st.recursive(
    ODD | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)


class Hang(BaseException):
    """A command that does not end."""


# Breaking things


def places(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where the values of a JSON document are."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield (*at, key)
        yield from places(inner, (*at, key))


def broken_document(draw: Any, document: Any) -> str:
    """A JSON document with one to three values changed or gone, or its text cut, nested or spoilt."""
    how = draw(st.integers(0, 19))
    if how == 0:
        return broken_bytes(draw, json.dumps(document).encode()).decode(errors="surrogateescape")
    if how == 1:
        return draw(st.sampled_from(["", "[" * 100_000, "{}", "[]", "null", "3", '"x"', "\ufeff{}", "NaN", "\0"]))
    changed = copy.deepcopy(document)
    for _ in range(draw(st.integers(1, 3))):
        everywhere = list(places(changed))
        if not everywhere:
            break
        *way, last = draw(st.sampled_from(everywhere))
        here = changed
        for key in way:
            here = here[key]
        if draw(st.integers(0, 5)) == 0:
            del here[last]
        else:
            here[last] = copy.deepcopy(draw(JSON))
    return json.dumps(changed)


def broken_bytes(draw: Any, content: bytes) -> bytes:
    """Bytes that have flipped, are missing or are too many."""
    how = draw(st.integers(0, 3))
    if how == 0 or not content:
        return content[: draw(st.integers(0, len(content)))]
    if how == 1:
        return content + draw(st.binary(max_size=20))
    spoilt = bytearray(content)
    for _ in range(draw(st.integers(1, 8))):
        spoilt[draw(st.integers(0, min(len(spoilt), 300) - 1) | st.integers(0, len(spoilt) - 1))] = draw(
            st.integers(0, 255)
        )
    return bytes(spoilt)


ARRAYS = st.tuples(
    st.sampled_from(["u1", "i8", "f4", "f8", "?", "c8", "U3", "M8[s]", "u2"]),
    st.lists(st.sampled_from([0, 1, 2, 3, 4, 8, 28, 60]), max_size=5).filter(lambda shape: np.prod(shape) < 1e6),
    st.sampled_from([0, 1, 3, 255, -1, 10**12]),
)


def odd_array(draw: Any) -> np.ndarray:
    kind, shape, value = draw(ARRAYS)
    with np.errstate(all="ignore"):
        return np.array([[value]]).astype(kind, casting="unsafe").ravel()[0] * np.ones(shape, kind) if kind in (
            "f4", "f8") else np.full(shape, 0 if kind in ("U3", "M8[s]") else 1).astype(kind)  # fmt: skip


# What is read


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


def reading(surroundings: Surroundings, draw: Any) -> list[Any]:
    """A command that reads the run."""
    run, a, b = surroundings.run, surroundings.place / "a.png", surroundings.place / "b.npy"
    commands = [
        ["eval", run], ["eval", run, "--json"], ["inspect", run], ["inspect", run, "--json"], ["infer", run, a, b],
        ["predict", run, a, "--action=1"], ["plan", run, a, b, "--allowed=1"], ["report", run],
        ["report", run, "--runs"], ["report", run, "--per-action", "--format", "csv"], ["report", run, "--within", "1"],
        surroundings.train,
        ["report", run, "--format", "json", "--intervals"],
    ]  # fmt: skip
    slow = [["figures", run, "--only", name, "--out", surroundings.place / "more"] for name in ("spectrum", "accuracy")]
    return draw(st.sampled_from(commands * 8 + slow))


def run_document(name: str) -> Callable[[Surroundings, Any], list[Any]]:
    def case(surroundings: Surroundings, draw: Any) -> list[Any]:
        file = surroundings.run / name
        spoilt = broken_document(draw, json.loads(file.read_text()))
        surroundings.spoil(file, spoilt.encode(errors="surrogateescape"))
        return reading(surroundings, draw)

    return case


def environment(surroundings: Surroundings, draw: Any) -> list[Any]:
    file = surroundings.run / "env.json"
    surroundings.spoil(file, broken_document(draw, json.loads(file.read_text())).encode(errors="surrogateescape"))
    if draw(st.integers(0, 3)):
        return draw(st.sampled_from([["report", surroundings.run, "--runs"], ["eval", surroundings.run]]))
    surroundings.spoil(surroundings.run / "result.json", b"")
    (surroundings.run / "result.json").unlink()
    return surroundings.train


def epochs(surroundings: Surroundings, draw: Any) -> list[Any]:
    file = surroundings.run / "metrics.jsonl"
    row = json.loads(file.read_text())
    lines = [
        broken_document(draw, row) if draw(st.booleans()) else json.dumps(row) for _ in range(draw(st.integers(0, 3)))
    ]
    surroundings.spoil(file, "\n".join(lines).encode(errors="surrogateescape"))
    slow = ["figures", surroundings.run, "--only", "training-curves,angles", "--out", surroundings.place / "more"]
    quick = ["sweep", "mnist/fast", *map(str, surroundings.train[1:-1]), "--seeds", "0", "--dry-run"]
    return slow if draw(st.integers(0, 5)) == 0 and {"training-curves", "angles"} <= FIGURES.keys() else quick


def weights(surroundings: Surroundings, draw: Any) -> list[Any]:
    """A checkpoint whose bytes, metadata or tensors are wrong, most of them with the right checksum."""
    of_state = draw(st.booleans())
    run = Run(surroundings.run)
    file = run.state_file if of_state else run.model_file
    if draw(st.integers(0, 3)) == 0:
        surroundings.spoil(file, broken_bytes(draw, file.read_bytes()))
    else:
        tensors, meta = checkpoint.load(file)
        if draw(st.booleans()):
            with contextlib.suppress(ValueError, RecursionError):
                meta = json.loads(broken_document(draw, meta))
        for _ in range(draw(st.integers(0, 2))):
            name = draw(st.sampled_from(sorted(tensors)))
            how = draw(st.integers(0, 4))
            if how == 0:
                del tensors[name]
            elif how == 1:
                tensors[name] = tensors[name].double() if tensors[name].is_floating_point() else tensors[name].float()
            elif how == 2:
                tensors[name] = torch.full_like(tensors[name], draw(st.sampled_from([0, 1, 3])))
            elif how == 3 and tensors[name].is_floating_point():
                tensors[name] = torch.full_like(
                    tensors[name], draw(st.sampled_from([float("nan"), float("inf"), 1e38]))
                )
            else:
                tensors[name] = tensors[name].reshape(-1)[: draw(st.integers(0, 5))].clone()
            if not tensors:
                break
        surroundings.spoil(file, file.read_bytes())
        checkpoint.save(file, tensors, meta)
    if not of_state:
        return reading(surroundings, draw)
    surroundings.spoil(surroundings.run / "result.json", b"")
    (surroundings.run / "result.json").unlink()
    return surroundings.train


def opening(surroundings: Surroundings, draw: Any, world: Path) -> list[Any]:
    """A command that reads a world."""
    train = ["train", "--world", world, *TRAIN.split(), "--out", surroundings.place / "more", "--quiet"]
    evaluate = ["eval", surroundings.run, "--data-dir", world]
    made = [["data", "check", f"{kind}:{world}"] for kind in ("rotation", "dihedral")]
    return draw(st.sampled_from([["data", "check", world], evaluate] * 5 + [train] + made))


def arrays(surroundings: Surroundings, draw: Any) -> list[Any]:
    if draw(st.integers(0, 2)) == 0:
        surroundings.spoil(surroundings.world, broken_bytes(draw, surroundings.world.read_bytes()))
    else:
        parts = dict(surroundings.parts)
        for _ in range(draw(st.integers(1, 2))):
            name = draw(st.sampled_from([*parts, "more", "../x"]))
            if draw(st.integers(0, 3)) == 0:
                parts.pop(name, None)
            else:
                parts[name] = odd_array(draw)
        content = io.BytesIO()
        np.savez(content, **parts)
        surroundings.spoil(surroundings.world, content.getvalue())
    return opening(surroundings, draw, surroundings.world)


def idx_files(surroundings: Surroundings, draw: Any) -> list[Any]:
    """IDX files, plain or packed, whose header or length is wrong."""
    file = surroundings.digits / draw(st.sampled_from(MNIST.files))
    content = file.read_bytes()
    how = draw(st.integers(0, 3))
    if how == 0:
        content = broken_bytes(draw, content)
    elif how == 1:
        sizes = draw(st.lists(st.sampled_from([0, 1, 3, 8, 60, 2**16, 2**31, 2**32 - 1]), max_size=6))
        content = bytes((0, 0, draw(st.sampled_from([8, 9, 13])), len(sizes))) + struct.pack(f">{len(sizes)}I", *sizes)
        content += draw(st.binary(max_size=64))
    elif how == 2:
        head = 4 + 4 * content[3]
        content = content[:head] + bytes(draw(st.sampled_from([0, 1, 3, 200, 255])) for _ in content[head:])
    if draw(st.booleans()):
        content = gzip.compress(content)
        content = broken_bytes(draw, content) if draw(st.booleans()) else content
    surroundings.spoil(file, content)
    return opening(surroundings, draw, surroundings.digits)


def broken_picture(draw: Any, content: bytes) -> bytes:
    """A PNG with spoilt bytes, or with a header that lies and has the right checksum, or a chunk of any kind."""
    how = draw(st.integers(0, 2))
    if how == 0:
        return broken_bytes(draw, content)

    def chunk(name: bytes, inside: bytes) -> bytes:
        return struct.pack(">I", len(inside)) + name + inside + struct.pack(">I", zlib.crc32(name + inside))

    sizes = st.sampled_from([0, 1, 8, 28, 5_000, 20_000, 2**31 - 1])
    depth, colour = draw(st.sampled_from([1, 2, 4, 8, 16, 32])), draw(st.sampled_from([0, 2, 3, 4, 6, 7]))
    head = chunk(
        b"IHDR", struct.pack(">IIBBBBB", draw(sizes), draw(sizes), depth, colour, 0, 0, draw(st.integers(0, 2)))
    )
    names = st.sampled_from([b"tRNS", b"PLTE", b"eXIf", b"iCCP", b"zTXt", b"acTL", b"pHYs", b"gAMA"])
    more = chunk(draw(names), draw(st.binary(max_size=40))) if how == 2 else b""
    return content[:8] + head + more + content[33:]


def pictures(surroundings: Surroundings, draw: Any) -> list[Any]:
    run, where = surroundings.run, draw(st.integers(0, 2))
    if where == 0:
        file = surroundings.place / "folder" / draw(st.sampled_from("xyz")) / f"{draw(st.integers(0, 4))}.png"
        surroundings.spoil(file, broken_picture(draw, file.read_bytes()))
        return ["data", "check", surroundings.place / "folder", *draw(st.sampled_from([[], ["--size", "8"]]))]
    file, other = surroundings.place / "a.png", surroundings.place / "b.png"
    if where == 2:
        file = surroundings.place / "a.npy"
        content = io.BytesIO()
        np.save(content, odd_array(draw))
        surroundings.spoil(file, broken_bytes(draw, file.read_bytes()) if draw(st.booleans()) else content.getvalue())
    else:
        surroundings.spoil(file, broken_picture(draw, file.read_bytes()))
    resize = draw(st.sampled_from([[], ["--resize"], ["--resize", "--invert"]]))
    words = [
        ["predict", run, file, "--action=1"],
        ["infer", run, file, other],
        ["plan", run, other, file, "--allowed=1"],
    ]
    return [*draw(st.sampled_from(words)), *resize]


def tables(surroundings: Surroundings, draw: Any) -> list[Any]:
    """CSV of runs: cells, columns and lines that are wrong."""
    rows = list(csv.reader(surroundings.table.open(newline="")))
    for _ in range(draw(st.integers(1, 3))):
        row = draw(st.sampled_from(rows))
        if draw(st.integers(0, 5)) == 0:
            rows.append(row[: draw(st.integers(0, len(row)))])
        elif row:
            i = draw(st.integers(0, len(row) - 1))
            if row[i].startswith("{"):
                row[i] = broken_document(draw, json.loads(row[i])) if row[i].endswith("}") else row[i]
            else:
                row[i] = str(draw(ODD | st.text(max_size=6)))
    text = io.StringIO()
    csv.writer(text).writerows(rows)
    content = text.getvalue().encode(errors="surrogateescape" if max(text.getvalue()) > "\udc00" else "replace")
    surroundings.spoil(surroundings.table, broken_bytes(draw, content) if draw(st.integers(0, 9)) == 0 else content)
    views = [[], ["--per-action"], ["--runs"], ["--table", "1"], ["--within", "2"], ["--format", "latex"],
             ["--compare", "mnist/fast", "mnist/fast"]]  # fmt: skip
    return ["report", surroundings.table, *draw(st.sampled_from(views))]


def drawings(surroundings: Surroundings, draw: Any) -> list[Any]:
    """A figure's data, and saved benchmarks."""
    if draw(st.booleans()):
        file = surroundings.place / "bench.json"
        file.write_text(broken_document(draw, json.loads(surroundings.bench.read_text())), errors="surrogateescape")
        return ["bench", "--read", file, "--format", draw(st.sampled_from(["table", "md", "json"]))]
    file = surroundings.drawn / "spectrum.npz"
    if draw(st.booleans()):
        surroundings.spoil(file, broken_bytes(draw, file.read_bytes()))
    else:
        with np.load(file) as data:
            parts = {name: data[name] for name in data.files}
        name = draw(st.sampled_from(sorted(parts)))
        text = broken_document(draw, json.loads(str(parts["json"])))
        parts[name] = np.array(text.replace("\0", "")) if name == "json" else odd_array(draw)
        content = io.BytesIO()
        np.savez(content, **parts)
        surroundings.spoil(file, content.getvalue())
    return ["figures", surroundings.drawn, "--out", surroundings.place / "more"]


VALUES = st.sampled_from(
    ["", "0", "1", "2", "3", "-1", "+1", "8", "16", "1e-3", "1e30", "1e999", "nan", "inf", "-inf", "0x10", "1_0",
     "9" * 30, "9" * 5000, "1,2", "-1,1", "1:0", "r,s", "x", "é", "\0", "\n", "a\nb", "~", "~nobody/x", ".", "..", "/",
     "/dev/null", "/dev/full", "no/such/place", "{run}", "{world}", "{a}", "mnist", "mnist:0-3", "torus", "small.npz",
     "mnist/fast", "fast", "cnn", "mlp", "mfr-learned", "sfr-fixed", "additive", "relaxed", "mean", "spectral",
     "supervised", "jepa", "sigreg",
     "os:system", "json:loads", "cpu", "cuda:9", "auto", "true", "0-2", "2-0", "0-99999999", "md", "json", "csv",
     "--", "-", "--help", "-h", "=", "--=", "²", "1.5"]
)  # fmt: skip
BASES = {
    "train": ["--world", "{world}", *TRAIN.split(), "--out", "{place}/more", "--quiet"],
    "eval": ["{run}"], "inspect": ["{run}"], "infer": ["{run}", "{a}", "{b}"],
    "plan": ["{run}", "{a}", "{b}", "--allowed=1"], "predict": ["{run}", "{a}", "--action=1"],
    "report": ["{run}"], "figures": ["{run}", "--only", "spectrum", "--out", "{place}/more"],
    "sweep": ["mnist/fast", "--dry-run", "--out", "{place}/more", "--seeds", "0"],
    "data": ["check", "{world}"], "bench": ["--read", "{bench}"],
}  # fmt: skip
FLAGS = {
    "eval": "--data-dir --device --trust --json --threads",
    "report": "--table --format --intervals --per-action --runs --compare --within --out",
    "inspect": "--data-dir --device --json --threads --trust",
    "infer": "--invert --resize --device --json --threads", "plan": "--invert --resize --device --json --allowed",
    "predict": "--invert --resize --device --json --action --data-dir",
    "figures": "--only --data-dir --threads --trust",
    "data": "--data-dir --size --actions --seed --out", "bench": "--read --format --repeats --out --threads",
    "sweep": "--grid --jobs --gpus --seeds --device --slurm --threads --data-dir",
    "train": "--seed --device --data-dir --threads --json --profile",
}  # fmt: skip
HEAVY = ("--epochs", "--relax-steps", "--tta", "--walk", "--width")  # may make a right request that takes long


def command_line(surroundings: Surroundings, draw: Any) -> list[Any]:
    """A right command with words that are added, changed or gone."""
    name = draw(st.sampled_from(sorted(BASES)))
    words = list(BASES[name])
    flags = FLAGS[name].split()
    if name in ("train", "sweep"):
        flags += [f for f in map(knobs.flag, knobs.FIELDS) if f not in HEAVY] * 2
    for _ in range(draw(st.integers(1, 3))):
        how = draw(st.integers(0, 5))
        if how == 0 and words:
            del words[draw(st.integers(0, len(words) - 1))]
        elif how == 1:
            words.insert(
                draw(st.integers(0, len(words))), draw(VALUES | st.sampled_from(sorted(PRESETS)) | st.text(max_size=5))
            )
        else:
            flag = draw(st.sampled_from(flags))
            words += draw(st.sampled_from([[flag], [flag, "\1"], [f"{flag}=\1"], [f"{flag}=\1"]]))
            words = [word.replace("\1", draw(VALUES)) for word in words]
    name = draw(st.sampled_from([name] * 30 + ["", "help", "trian", *COMMANDS])) if draw(st.booleans()) else name
    whole = {word.rpartition("=")[2].partition(":")[0] for word in words} & {"mnist", "torus"}
    if name == "train" and ("{world}" not in words or whole):
        words += ["--epochs", "0"]  # training on all of MNIST takes its time and is right
    if name == "sweep" and "--dry-run" not in words:
        words.append("--dry-run")
    if name == "bench" and "--read" not in words:
        words.append("--quick=1")
    if name == "data" and "fetch" in words:
        words = ["list"]
    known = {"{run}": surroundings.run, "{world}": surroundings.world, "{place}": surroundings.place,
             "{a}": surroundings.place / "a.png", "{b}": surroundings.place / "b.npy",
             "{bench}": surroundings.bench}  # fmt: skip
    for key, value in known.items():
        words = [word.replace(key, str(value)) for word in words]
    return [name, *(word for word in words if word != "--debug")]


TARGETS: dict[str, tuple[int, Callable[[Surroundings, Any], list[Any]]]] = {
    "config.json": (3, run_document("config.json")),
    "result.json": (2, run_document("result.json")),
    "env.json": (1, environment),
    "metrics.jsonl": (1, epochs),
    "checkpoints": (3, weights),
    ".npz worlds and .npy": (2, arrays),
    "IDX, plain and .gz": (2, idx_files),
    "PNG and .npy images": (2, pictures),
    "CSV of runs": (1, tables),
    "figure data and saved benchmarks": (1, drawings),
    "the command line": (4, command_line),
}
"""What is broken, how often in proportion, and how."""


# Trying


def resident(peak: bool) -> int:
    """Bytes of memory that this process holds, or has held since the last reset; 0 where Linux does not say."""
    status = Path("/proc/self/status")
    word = "VmHWM" if peak else "VmRSS"
    lines = status.read_text().splitlines() if status.is_file() else []
    return next((1024 * int(line.split()[1]) for line in lines if line.startswith(word)), 0)


def reset_peak() -> None:
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def attempt(surroundings: Surroundings, words: list[Any]) -> str:
    """What is wrong with the way in which a command ended; or nothing."""

    def hang(*_: object) -> None:
        raise Hang

    before_handler = signal.signal(signal.SIGALRM, hang)
    reset_peak()
    before = resident(peak=False)
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    try:
        code, out, err = surroundings.call(words)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before_handler)
    more = resident(peak=True) - before
    if code not in (0, 1, 2):
        return f"ended with {code}"
    if "Traceback" in out + err or "unexpected error" in out + err:
        return err.strip()[-400:]
    errors = [line for line in err.splitlines() if line.startswith("brojepa: error")]
    if len(errors) > 1 or (code == 2 and not err + out):
        return f"exit code {code}, {len(errors)} errors: {err[-300:]}"
    return f"took {more / 2**20:,.0f} MB: {err[-200:]}" if more > BYTES else ""


def fuzz(
    place: Path, inputs: int, start: int = 0, only: str | None = None, say: Callable[[str], None] = print
) -> list[str]:
    """Try this many inputs; what went wrong, one line per input."""
    surroundings, wrong = Surroundings(place), []
    total = sum(weight for weight, _ in TARGETS.values())
    before = Path.cwd()
    (place / "here").mkdir()
    os.chdir(place / "here")
    try:
        for name, (weight, case) in TARGETS.items():
            if only and only not in name:
                continue
            count, begun, codes = -(-inputs * weight // total), time.monotonic(), Counter()

            @seed(start)
            @settings(
                max_examples=count, deadline=None, database=None, phases=[Phase.generate],
                suppress_health_check=list(HealthCheck),
            )  # fmt: skip
            @given(st.data())
            def one(data: Any) -> None:
                try:
                    words = case(surroundings, data.draw)  # noqa: B023, called before the loop goes on
                    problem = attempt(surroundings, words)
                finally:
                    surroundings.mend()
                codes["wrong" if problem else "right"] += 1  # noqa: B023
                if problem:
                    wrong.append(f"{name}: brojepa {' '.join(map(str, words))[:300]!r}: {problem}")  # noqa: B023
                    say(f"WRONG {wrong[-1]}")

            one()
            taken = f"({time.monotonic() - begun:.0f} s)"
            say(f"| {name} | {codes['right'] + codes['wrong']:,} | {codes['wrong']} |  {taken}")
    finally:
        os.chdir(before)
    return wrong


def run(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--inputs", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--only", help="only what has this word in its name")
    args = parser.parse_args(argv)
    torch.set_num_threads(1)
    print(f"seed {args.seed}, {args.inputs:,} inputs\n| what is broken | inputs | wrong |", flush=True)
    with tempfile.TemporaryDirectory() as name:
        os.environ["XDG_CACHE_HOME"] = os.environ["HOME"] = name
        wrong = fuzz(Path(name).resolve(), args.inputs, args.seed, args.only, lambda text: print(text, flush=True))
    print(f"{len(wrong)} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(run())
