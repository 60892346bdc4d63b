"""Labelled images and recordings in HDF5, in one piece, chunked and compressed: the same worlds as in memory."""

from __future__ import annotations

import copy
import os
import pickle
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from helpers import ROOT, blobs, random_arrays, refusal

import brojepa
from brojepa.errors import RequestError, RunError
from brojepa.runs import checkpoint
from brojepa.runs.finding import runs_under
from brojepa.worlds import mapped, memory, open_world
from brojepa.worlds.chunks import Chunks
from brojepa.worlds.rows import Rows
from brojepa.worlds.world import World

h5py = pytest.importorskip("h5py")

NAMES = ("images", "labels", "test_images", "test_labels")
LAYOUTS: dict[str, dict[str, Any]] = {
    "one piece": {},
    "chunks": {"chunks": (16, 3, 4)},
    "gzip": {"chunks": (8, 6, 7), "compression": "gzip"},
    "as h5py likes": {"compression": "lzf", "shuffle": True},
}
SMALL = ("--epochs", "2", "--latent", "8", "--batch-size", "16", "--device", "cpu", "--quiet")


def given(*names: str, shape: tuple[int, ...] = (6, 7)) -> dict[str, np.ndarray]:
    every = dict(zip(NAMES, random_arrays(4, shape, train=20, test=10), strict=True))
    return {name: every[name] for name in names or every}


def saved(path: Path, arrays: dict[str, Any], **layout: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    with h5py.File(path, "w") as file:
        for name, array in arrays.items():
            how = {**layout}
            if "chunks" in how:
                how["chunks"] = (*how["chunks"], *np.shape(array)[3:])
            file.create_dataset(name, data=array, **(how if name in ("images", "test_images", "pixels") else {}))
    return path


def little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """From here on chunked images do not fit into memory; all else does."""
    monkeypatch.setattr(memory, "fits", lambda size, free=None: free is not None)


@pytest.fixture
def little(monkeypatch):
    little_memory(monkeypatch)


@pytest.fixture
def reads(monkeypatch):
    """How many images each read of chunked images asks for."""
    found: list[int] = []
    real = Chunks.raw

    def raw(self, rows):
        images = real(self, rows)
        found.append(len(images))
        return images

    monkeypatch.setattr(Chunks, "raw", raw)
    return found


def same(one: World, two: World) -> None:
    assert (one.name, one.n, one.mean, one.std, one.facts) == (two.name, two.n, two.mean, two.std, two.facts)
    for a, b in ((one.train, two.train), (one.test, two.test)):
        for part, other in zip(a.parts, b.parts, strict=True):
            assert torch.equal(part[:], other[:])


@pytest.mark.parametrize("names", [(), ("images", "labels")])
@pytest.mark.parametrize("shape", [(6, 7), (6, 7, 3)])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_labelled_images_are_the_world_of_the_npz(tmp_path, monkeypatch, names, shape, layout):
    arrays = given(*names, shape=shape)
    np.savez(tmp_path / "own.npz", allow_pickle=False, **arrays)
    path = saved(tmp_path / "own.HDF5", arrays, **LAYOUTS[layout])
    npz = open_world(str(tmp_path / "own.npz"))
    whole = open_world(str(path))
    same(whole, npz)
    assert isinstance(whole.train.images, Rows) or layout != "one piece"
    little_memory(monkeypatch)
    kept = open_world(str(path))
    assert isinstance(kept.train.images, Rows)
    assert kept.train.images.stays
    same(kept, npz)


def test_floats_are_read_whole(tmp_path):
    arrays = given()
    arrays |= {name: arrays[name] / np.float32(255) for name in ("images", "test_images")}
    np.savez(tmp_path / "own.npz", allow_pickle=False, **arrays)
    path = saved(tmp_path / "own.h5", arrays, chunks=(8, 6, 7), compression="gzip")
    same(open_world(str(path)), open_world(str(tmp_path / "own.npz")))
    one, two = (open_world(str(tmp_path / f"own.{end}"), size="4x5") for end in ("h5", "npz"))
    same(one, two)
    assert one.shape == (1, 4, 5)


@pytest.mark.parametrize("changes", [(), ("--encoder", "cnn", "--shift", "1", "--target", "mean", "--every-action")])
def test_a_run_from_chunks_is_that_in_memory_bit_for_bit(tmp_path, little, cli, reads, changes):
    world = blobs(count=40)
    splits = {"images": world.train.images[:, 0], "labels": world.train.states}
    splits |= {"test_images": world.test.images[:, 0], "test_labels": world.test.states}
    arrays = {name: np.asarray(part) for name, part in splits.items()}
    np.savez(tmp_path / "blobs.npz", allow_pickle=False, **arrays)
    saved(tmp_path / "blobs.h5", arrays, chunks=(8, 8, 8), compression="gzip")
    runs = []
    for name in ("blobs.npz", "blobs.h5"):
        assert not reads
        words = ("mnist/fast", "--world", tmp_path / name, "--out", tmp_path / name[-3:], *SMALL, *changes)
        done = cli("train", *words)
        assert done.code == 0, done.err
        runs += runs_under(tmp_path / name[-3:], [])
    assert reads
    for file in ("model_file", "state_file"):
        one, two = (checkpoint.load(getattr(run, file))[0] for run in runs)
        assert one.keys() == two.keys()
        assert all(torch.equal(one[name], two[name]) for name in one)
    assert runs[0].result["metrics"] == runs[1].result["metrics"]
    assert cli("eval", runs[1].path, "--device", "cpu").code == 0


def recording() -> dict[str, np.ndarray]:
    """Five episodes of six frames on a cycle of 7; the second half of the file lies before the first, with a gap."""
    rng = np.random.default_rng(0)
    action = rng.choice([-1, 1], 32).astype(np.float32)
    pixels = rng.integers(0, 256, (32, 8, 8, 3), np.uint8)
    return {"pixels": pixels, "action": action, "ep_offset": np.array([20, 0, 6, 14, 26]), "ep_len": np.full(5, 6)}


@pytest.mark.parametrize("ordered", [True, False])
@pytest.mark.parametrize("layout", ["one piece", "gzip"])
def test_a_recording_that_stays_on_disk_is_that_in_memory(tmp_path, monkeypatch, cli, reads, layout, ordered):
    data = recording()
    if ordered:
        data |= {name: data[name][:30] for name in ("pixels", "action")}
        data |= {"ep_offset": np.arange(5) * 6}
    offset = np.sort(data["ep_offset"])
    rows = (offset[:, None] + np.arange(6)).ravel()
    frames = {"images": data["pixels"][rows], "actions": data["action"][rows], "episode": np.repeat(np.arange(5), 6)}
    np.savez(tmp_path / "walk.npz", allow_pickle=False, **frames, group="Z7")
    how = {"chunks": (4, 8, 8), "compression": "gzip"} if layout == "gzip" else {}
    path = str(saved(tmp_path / "walk.h5", data, **how))
    npz, whole = open_world(str(tmp_path / "walk.npz")), open_world(path, group="Z7")
    little_memory(monkeypatch)
    kept = open_world(path, group="Z7")
    assert isinstance(kept.train.images, Rows)
    assert kept.train.images.stays
    assert bool(reads) == (layout == "gzip")
    assert kept.facts == whole.facts
    for a, b in ((npz.train, kept.train), (npz.test, kept.test)):
        assert all(torch.equal(one[:], two[:]) for one, two in zip(a.parts, b.parts, strict=True))
    if ordered:
        return
    done = cli("train", "--world", path, "--group", "Z7", "--out", tmp_path / "out", *SMALL, "--encoder", "mlp")
    assert done.code == 0, done.err


def test_its_content_is_known_until_the_file_changes(tmp_path, monkeypatch, little):
    arrays, summed = given(), []
    path = saved(tmp_path / "own.h5", arrays, **LAYOUTS["gzip"])
    real = mapped.content
    monkeypatch.setattr(mapped, "content", lambda *args: summed.append(1) or real(*args))
    first = open_world(str(path))
    assert open_world(str(path)).facts == first.facts
    assert len(summed) == 1
    del first
    arrays["images"][0, 0, 0] ^= 1
    os.utime(saved(path, arrays, **LAYOUTS["gzip"]), ns=(1, 1))
    assert open_world(str(path)).source["sha256"]
    assert len(summed) == 2


def test_each_process_opens_chunks_for_itself(tmp_path, little):
    path = saved(tmp_path / "own.h5", given(), **LAYOUTS["gzip"])
    images = open_world(str(path)).train.images
    expected = images[torch.tensor([[5, 3], [3, 79]])]
    for other in (copy.copy(images), copy.deepcopy(images), pickle.loads(pickle.dumps(images))):
        assert isinstance(other, Rows)
        assert torch.equal(other[torch.tensor([[5, 3], [3, 79]])], expected)
    assert images[torch.zeros(0, dtype=torch.long)].shape == (0, 1, 6, 7)
    if hasattr(os, "fork"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of threads, which this child does not use
            child = os.fork()
        if child == 0:
            os._exit(0 if np.array_equal(images[5], expected[0, 0]) else 1)
        assert os.waitpid(child, 0)[1] == 0
        assert torch.equal(images[torch.tensor([[5, 3], [3, 79]])], expected)


@pytest.mark.parametrize("how", ["shorter", "other"])
@pytest.mark.parametrize("layout", ["one piece", "gzip"])
def test_a_file_that_changes_during_a_run_is_one_line(tmp_path, little, layout, how):
    path = saved(tmp_path / "own.h5", given(), **LAYOUTS[layout])
    content = path.read_bytes()

    class Change(brojepa.Callback):
        def step(self, training):
            if training.step == 2:
                path.write_bytes(content[:3000] if how == "shorter" else content[:-1] + b"\1")

    quick = {"latent": 8, "epochs": 2, "batch_size": 16, "precision": "float32", "device": "cpu", "quiet": True}
    with pytest.raises(RunError, match=r"own\.h5 has changed"):
        brojepa.train("mnist/fast", world=str(path), out=tmp_path, callbacks=[Change()], **quick)


def test_a_file_that_was_replaced_stays_what_it_was_where_it_is_open(tmp_path, little):
    path = saved(tmp_path / "own.h5", given(), **LAYOUTS["gzip"])
    images = open_world(str(path)).train.images
    before = images[:]
    other = pickle.dumps(images)
    saved(tmp_path / "new.h5", given("images", "labels"), **LAYOUTS["gzip"]).replace(path)
    assert torch.equal(images[:], before)
    with pytest.raises(RunError, match="has changed"):
        pickle.loads(other)[:]
    path.unlink()
    assert torch.equal(images[:], before)
    with pytest.raises(RunError, match="cannot be read"):
        pickle.loads(other)[:]


def bad(**changes: Any) -> dict[str, Any]:
    return {name: array for name, array in {**given(), **changes}.items() if array is not None}


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "nothing": ({}, "lacks pixels and action and ep_offset and ep_len: it holds nothing; or images and labels"),
    "no images": (bad(images=None), "lacks images: it holds"),
    "no labels": (bad(labels=None), "lacks labels: it holds"),
    "no test labels": (bad(test_labels=None), "only one of"),
    "no test images": (bad(test_images=None), "only one of"),
    "fewer labels": (bad(labels=np.zeros(79, int)), "one label per image"),
    "labels in columns": (bad(labels=np.zeros((80, 1), int)), "one label per image"),
    "one number": (bad(labels=3), "no rows"),
    "nothing in it": (bad(labels=h5py.Empty("i8")), "no rows"),
    "words": (bad(labels=np.array([b"a"] * 80)), "needs numbers"),
    "records": (bad(labels=np.zeros(80, [("a", int)])), "needs numbers"),
    "labels that are floats": (bad(labels=np.zeros(80)), "labels integers"),
    "labels that are no numbers": (bad(labels=np.full(80, np.nan)), "labels integers"),
    "labels that are true or false": (bad(labels=np.zeros(80, bool)), "labels integers"),
    "negative labels": (bad(labels=np.arange(80) % 4 - 1), "labels run from -1"),
    "a label of a billion": (bad(labels=np.r_[10**9, np.arange(79) % 4]), "80 images for 1000000001 states"),
    "a state that is missing": (bad(labels=np.arange(80) % 4 * 2, test_labels=np.arange(40) % 4 * 2), "state 1 has 0"),
    "wide numbers": (bad(images=np.zeros((80, 6, 7), np.int32)), "uint8"),
    "floats beyond 1": (bad(images=np.full((80, 6, 7), 1.5)), "floats from 0 to 1"),
    "negative floats": (bad(images=np.full((80, 6, 7), -0.5)), "floats from 0 to 1"),
    "no numbers": (bad(images=np.full((80, 6, 7), np.nan)), "floats from 0 to 1"),
    "flat images": (bad(images=np.zeros((80, 42), np.uint8)), "dimensions"),
    "five channels": (bad(images=np.zeros((80, 6, 7, 5), np.uint8)), "channels"),
    "images of two sizes": (bad(test_images=np.zeros((40, 6, 8), np.uint8)), "differ in shape"),
    "no image": (bad(images=np.zeros((0, 6, 7), np.uint8), labels=np.zeros(0, int)), "0 images for 4 states"),
    "a recording without lengths": ({"pixels": np.zeros((4, 8, 8), np.uint8), "images": np.zeros(3)}, "lacks action"),
    "actions in words": ({**recording(), "action": np.array([b"a"] * 32)}, "needs numbers"),
}


@pytest.mark.parametrize("chunked", [False, True])
@pytest.mark.parametrize("what", BAD)
def test_what_is_wrong_is_one_line(tmp_path, monkeypatch, what, chunked):
    arrays, says = BAD[what]
    saved(tmp_path / "own.h5", {} if chunked else arrays)
    if chunked:
        little_memory(monkeypatch)
        with h5py.File(tmp_path / "own.h5", "a") as file:
            for name, array in arrays.items():
                rows = isinstance(array, np.ndarray) and array.ndim > 1 and array.dtype == np.uint8
                file.create_dataset(name, data=array, **({"chunks": True} if rows and array.size else {}))
    assert says in refusal(tmp_path / "own.h5")


def test_files_that_are_damaged_or_lie_are_one_line(tmp_path, monkeypatch):
    path = saved(tmp_path / "own.h5", given(), **LAYOUTS["gzip"])
    content = path.read_bytes()
    (tmp_path / "text.h5").write_text("hello")
    (tmp_path / "short.h5").write_bytes(content[:-100])
    for name in ("text", "short"):
        assert "not a readable HDF5" in refusal(tmp_path / f"{name}.h5")
    with h5py.File(path) as file:
        at = file["images"].id.get_chunk_info(3).byte_offset
    path.write_bytes(content[: at + 8] + bytes(40) + content[at + 48 :])
    assert "not a readable HDF5" in refusal(path)  # in memory
    little_memory(monkeypatch)
    assert "not a readable HDF5" in refusal(path)  # by index
    path = tmp_path / "links.h5"
    with h5py.File(path, "w") as file:
        file["images"], file["labels"] = h5py.SoftLink("/images"), np.zeros(4, int)
    assert "HDF5" in refusal(path)
    with h5py.File(path, "w") as file:
        file.create_group("images")
        file["labels"] = np.zeros(4, int)
    assert "lacks images" in refusal(path)


def test_images_that_were_never_written_are_not_read(tmp_path, monkeypatch):
    """A file of a few kilobytes can declare more than any disk holds."""
    monkeypatch.setattr(memory, "available", lambda: 10**8)
    for count, side, says in ((10**5, 10**4, "chunks of images were written"), (10**15, 28, "one label per image")):
        with h5py.File(tmp_path / "own.h5", "w") as file:
            file.create_dataset("images", (count, side, side), np.uint8, chunks=(1, side, side))
            file["labels"] = np.arange(10**5) % 4
        assert says in refusal(tmp_path / "own.h5")
    with h5py.File(tmp_path / "own.h5", "w") as file:
        images = file.create_dataset("images", (4, 10_000, 10_000), np.uint8, chunks=(4, 10_000, 10_000))
        images.id.write_direct_chunk((0, 0, 0), b"0")
        file["labels"] = np.arange(4) % 2
    assert "needs 0.8 GB of memory" in refusal(tmp_path / "own.h5")  # a chunk is read at once


def test_options_of_poses_are_refused(tmp_path):
    path = str(saved(tmp_path / "own.h5", given()))
    with pytest.raises(RequestError, match="labelled images"):
        open_world(path, group="Z7")


LIMITED = """
import resource, sys
import torch, brojepa
from brojepa.worlds import memory
free, path = int(sys.argv[1]), sys.argv[2]
memory.available = lambda: free
import h5py
room = int(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmData"))) * 1024
resource.setrlimit(resource.RLIMIT_DATA, (room + 150 * 10**6, resource.RLIM_INFINITY))
world = brojepa.open_world(path)
batch = world.examples([1], rows=64, generator=torch.Generator().manual_seed(0))
print(int(batch.images.sum()))
"""
"""Opens a world where 150 MB of memory more than at the start are allowed."""


@pytest.mark.skipif(sys.platform != "linux", reason="Linux limits the memory of a process")
def test_chunks_larger_than_the_memory_allowed(tmp_path):
    """262 MB of images are read by index where 150 MB are allowed; whole they are refused by the system."""
    count, side = 4000, 256
    with h5py.File(tmp_path / "large.h5", "w") as file:
        images = file.create_dataset("images", (count, side, side), np.uint8, chunks=(8, side, side), compression="lzf")
        for start in range(0, count, 200):
            images[start : start + 200] = np.full((200, side, side), start // 200 + 1, np.uint8)
        file["labels"] = np.arange(count) % 4
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT / "src")}
    environment |= {"XDG_CACHE_HOME": str(tmp_path), "MALLOC_MMAP_THRESHOLD_": "131072"}
    for free, fits in ((3 * 10**8, True), (10**12, False)):
        command = [sys.executable, "-c", LIMITED, str(free), str(tmp_path / "large.h5")]
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        assert (done.returncode == 0) is fits, done.stderr
        assert fits or "allocate" in done.stderr
