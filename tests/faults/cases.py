"""What is broken, and the command that then reads it: a function per kind of file, and one for the command line."""

from __future__ import annotations

import contextlib
import csv
import gzip
import io
import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import torch
from broken import ODD, broken_bytes, broken_document, broken_picture, odd_array
from hypothesis import strategies as st
from surroundings import TRAIN, Surroundings

from brojepa import config as knobs
from brojepa.cli import COMMANDS
from brojepa.figures import FIGURES
from brojepa.presets import PRESETS
from brojepa.runs import Run, checkpoint
from brojepa.worlds.sources import MNIST


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


def on_disk(surroundings: Surroundings, draw: Any) -> list[Any]:
    """A folder of .npy files: bytes that are wrong, other arrays, headers that lie, files that are gone."""
    for _ in range(draw(st.integers(1, 2))):
        name = draw(st.sampled_from(sorted(surroundings.parts)))
        file, array = surroundings.disk / f"{name}.npy", surroundings.parts[name]
        how = draw(st.integers(0, 4))
        if how == 0:
            surroundings.spoil(file, broken_bytes(draw, file.read_bytes()))
        elif how == 1:
            surroundings.spoil(file, b"")
            np.save(file, odd_array(draw))
        elif how == 2:
            surroundings.spoil(file, b"")
            np.save(file, np.array([{}] * len(array), dtype=object) if draw(st.booleans()) else array[:-1])
        else:
            sizes = st.lists(st.sampled_from([-1, 0, 1, 3, 8, 12, 60, 10**12, 2**70, 8.0, True, "x"]), max_size=4)
            head = {"descr": draw(st.sampled_from(["|u1", "<i8", "<f4", "|O", "<M8[s]", "x", 3])),
                    "fortran_order": draw(st.booleans()), "shape": tuple(draw(sizes))}  # fmt: skip
            words = repr(head).encode().ljust(117) + b"\n"
            content = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(words)) + words + array.tobytes()
            surroundings.spoil(file, content)
    if draw(st.integers(0, 9)) == 0:
        surroundings.spoil(surroundings.disk / "labels.npy", b"")
        (surroundings.disk / "labels.npy").unlink()
    return opening(surroundings, draw, surroundings.disk)


def hdf5_files(surroundings: Surroundings, draw: Any) -> list[Any]:
    """Labelled images, or a recording: bytes that are wrong, other arrays, datasets that are gone or are groups."""
    columns = dict(surroundings.parts if draw(st.booleans()) else surroundings.recording)
    names, attributes = [*columns], {"group": "Z3"}
    for _ in range(draw(st.integers(0, 2))):
        name, how = draw(st.sampled_from(names)), draw(st.integers(0, 3))
        if how == 0:
            columns.pop(name, None)
        elif how == 1:
            attributes["group"] = draw(st.sampled_from(["", "Z0", "Z99999999999", "SO2", "D4", 3, 1.5, b"Z3", [1, 2]]))
        elif how == 2 and name in columns and columns[name].ndim:
            columns[name] = columns[name][:-1]
        else:
            columns[name] = odd_array(draw)
    content, chunks = io.BytesIO(), draw(st.sampled_from([None, True]))
    with h5py.File(content, "w") as file:
        for name, array in columns.items():
            if array.dtype.kind in "UM" or draw(st.integers(0, 19)) == 0:
                file.create_group(name)
            else:
                file.create_dataset(name, data=array, chunks=chunks if array.ndim and array.size else None)
        for name, value in attributes.items():
            file.attrs[name] = value
    whole = content.getvalue()
    surroundings.spoil(surroundings.hdf5, broken_bytes(draw, whole) if draw(st.booleans()) else whole)
    return opening(surroundings, draw, surroundings.hdf5)


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


def stored(surroundings: Surroundings, draw: Any) -> list[Any]:
    """A file of runs, a line each: values, lines and bytes that are wrong."""
    row = json.loads(surroundings.stored.read_text())
    lines = [broken_document(draw, row) for _ in range(draw(st.integers(1, 2)))]
    lines += [json.dumps(row)] * draw(st.integers(0, 1))
    surroundings.spoil(surroundings.stored, "\n".join(lines).encode(errors="surrogateescape"))
    views = [[], ["--per-action"], ["--runs"], ["--within", "2"], ["--format", "json"]]
    return ["report", surroundings.stored, *draw(st.sampled_from(views))]


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
     "/dev/null", "/dev/full", "hf://../..", "hf://a/b@../c", "no/such/place",
     "{run}", "{world}", "{a}", "mnist", "mnist:0-3", "torus", "small.npz",
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
    ".npz worlds": (2, arrays),
    "folders of .npy": (2, on_disk),
    "HDF5 files": (2, hdf5_files),
    "IDX, plain and .gz": (2, idx_files),
    "PNG and .npy images": (2, pictures),
    "CSV of runs": (1, tables),
    "files of runs": (1, stored),
    "figure data and saved benchmarks": (1, drawings),
    "the command line": (4, command_line),
}
"""What is broken, how often in proportion, and how."""
