"""Images that stay on disk: the same world as in memory, read by index."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from helpers import ROOT, blobs, random_arrays, refusal

import brojepa
from brojepa.errors import RunError
from brojepa.runs import Run, checkpoint
from brojepa.runs.finding import runs_under
from brojepa.worlds import mapped, memory, open_world
from brojepa.worlds.rows import Rows

NAMES = ("images", "labels", "test_images", "test_labels")
SMALL = {"latent": 8, "epochs": 2, "batch_size": 16, "precision": "float32", "device": "cpu", "quiet": True}


def saved(folder: Path, **arrays: np.ndarray) -> str:
    folder.mkdir(parents=True, exist_ok=True)
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array)
    return str(folder)


def given(*names: str, shape: tuple[int, ...] = (6, 7)) -> dict[str, np.ndarray]:
    """Images and labels of four states; of both splits, or of the one that is named."""
    arrays = random_arrays(4, shape, train=20, test=10)
    every: dict[str, np.ndarray] = dict(zip(NAMES, arrays, strict=True))
    return {name: every[name] for name in names or every}


@pytest.mark.parametrize("names", [(), ("images", "labels")])
@pytest.mark.parametrize("shape", [(6, 7), (6, 7, 3), (3, 6, 7)])
def test_a_folder_is_the_world_of_the_same_arrays_in_memory(tmp_path, names, shape):
    arrays = given(*names, shape=shape)
    np.savez(tmp_path / "own.npz", allow_pickle=False, **arrays)
    whole, kept = open_world(str(tmp_path / "own.npz")), open_world(saved(tmp_path / "own", **arrays))
    assert (kept.name, kept.n, kept.shape, kept.mean, kept.std) == (whole.name, 4, whole.shape, whole.mean, whole.std)
    for one, two in ((whole.train, kept.train), (whole.test, kept.test)):
        assert isinstance(two.images, Rows)
        assert torch.equal(one.states, two.states)
        assert torch.equal(one.images[:], two.images[:])


def test_rows_are_what_the_tensor_gives():
    source = torch.randint(256, (50, 1, 3, 3), dtype=torch.uint8)
    index = torch.randperm(50)[:20]
    rows, tensor = Rows(source, index), source[index]
    mask = torch.arange(20) % 3 == 0
    for key in (
        0,
        -1,
        slice(2, 9),
        slice(None, None, 4),
        torch.tensor([3, 3, 19]),
        mask,
        torch.tensor([[1, 2], [3, -4]]),
    ):
        assert torch.equal(rows[key], tensor[key]), key
    assert torch.equal(rows[:, 0], tensor[:, 0])
    assert torch.equal(rows[mask, 0], tensor[mask, 0])
    assert torch.equal(rows.of(torch.tensor([4, 2]))[:], tensor[[4, 2]])
    assert torch.equal(torch.cat([part[:] for part in rows.split(7)]), tensor)
    assert torch.equal(torch.stack([*rows]), tensor)
    assert rows.shape == tensor.shape


@pytest.mark.parametrize("changes", [{}, {"encoder": "cnn", "shift": 1, "target": "mean", "every_action": True}])
def test_a_run_on_disk_is_that_in_memory_bit_for_bit(tmp_path, changes):
    world = blobs(count=40)
    arrays = {"images": world.train.images[:, 0], "labels": world.train.states}
    arrays |= {"test_images": world.test.images[:, 0], "test_labels": world.test.states}
    path = saved(tmp_path / "blobs", **{name: array.numpy() for name, array in arrays.items()})
    runs = [brojepa.train(brojepa.Config(), world=w, out=tmp_path / str(i), **SMALL, **changes)
            for i, w in enumerate((world, path))]  # fmt: skip
    for file in ("model_file", "state_file"):
        one, two = (checkpoint.load(getattr(run, file))[0] for run in runs)
        assert all(torch.equal(one[name], two[name]) for name in one)
    assert runs[0].result["metrics"] == runs[1].result["metrics"]
    assert runs[0].result["by_state"] == runs[1].result["by_state"]
    z = brojepa.load(runs[1].path, "cpu").encode(open_world(path).test.images)
    assert len(z) == len(world.test)
    assert brojepa.evaluate_run(runs[1].path, device="cpu")["metrics"] == runs[1].result["metrics"]


def test_what_is_on_disk_need_not_fit_into_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(memory, "available", lambda: 5000)
    arrays = given()
    np.savez(tmp_path / "own.npz", allow_pickle=False, **arrays)
    assert "images.npy" in refusal(str(tmp_path / "own.npz"))
    assert len(open_world(saved(tmp_path / "own", **arrays)).train) == 80


def test_its_content_is_known_until_a_file_changes(tmp_path, monkeypatch):
    arrays, summed = given(), []
    path = saved(tmp_path / "own", **arrays)
    real = mapped._sum
    monkeypatch.setattr(mapped, "_sum", lambda file: summed.append(file.name) or real(file))
    first = open_world(path)
    assert summed == ["images.npy", "labels.npy", "test_images.npy", "test_labels.npy"]
    again = open_world(path)
    assert len(summed) == 4
    assert again.facts == first.facts
    arrays["images"][0, 0, 0] ^= 1
    saved(tmp_path / "own", **arrays)
    os.utime(tmp_path / "own" / "images.npy", ns=(1, 1))
    other = open_world(path)
    assert len(summed) == 8
    assert other.source["sha256"] != first.source["sha256"]
    for remembered in Path(os.environ["XDG_CACHE_HOME"]).rglob("arrays/*.json"):
        remembered.write_text(json.dumps({"files": 3}))
    assert open_world(path).facts == other.facts


def header(shape: str, kind: str = "|u1", behind: bytes = bytes(80 * 6 * 7)) -> bytes:
    """An .npy file that says any shape and kind of its bytes."""
    words = f"{{'descr': {kind!r}, 'fortran_order': False, 'shape': {shape}, }}".encode().ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(words).to_bytes(2, "little") + words + behind


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"labels": None}, "lacks labels.npy"),
        ({"images": header("(1000000000000, 6, 7)")}, "not a readable .npy"),
        ({"images": header("(80, -6, -7)")}, "not a readable .npy"),
        ({"images": header("(80.0, 6, 7)")}, "not a readable .npy"),
        ({"images": header("(80, 6, 7)", "|O", b"cos\nsystem\n(S'touch here'\ntR.")}, "not a readable .npy"),
        ({"labels": np.array([{}] * 80, dtype=object)}, "not a readable .npy"),
        ({"labels": np.full(80, 2**62)}, "needs 2 or more"),
        ({"labels": np.arange(81) % 4}, "80 images but 81 labels"),
        ({"test_labels": None}, "only one of"),
        ({"images": np.zeros((80, 6, 7), np.float32)}, "uint8"),
        ({"images": np.zeros((79, 6, 7), np.uint8)}, "79 images but 80 labels"),
        ({"test_images": np.zeros((40, 6, 8), np.uint8)}, "differ in shape"),
        ({"labels": np.zeros(80)}, "integers"),
        ({"labels": np.zeros(80, int)}, "state 1 has 0 images"),
        ({"images": b"\x93NUMPY\x01\x00"}, "not a readable .npy"),
        ({"images": b""}, "not a readable .npy"),
    ],
)
def test_what_is_wrong_is_one_line(tmp_path, changes, says):
    path = Path(saved(tmp_path / "own", **given()))
    for name, value in changes.items():
        file = path / f"{name}.npy"
        file.unlink()
        if isinstance(value, bytes):
            file.write_bytes(value)
        elif value is not None:
            np.save(file, value)
    assert says in refusal(str(path))


def test_arrays_in_fortran_order_are_the_same_world(tmp_path):
    arrays = given()
    one = open_world(saved(tmp_path / "one" / "own", **arrays))
    two = open_world(saved(tmp_path / "two" / "own", **{name: np.asfortranarray(a) for name, a in arrays.items()}))
    assert torch.equal(one.train.images[:], two.train.images[:])


def test_links_that_lead_nowhere_and_pipes_are_one_line(tmp_path):
    for name in ("images", "labels"):
        path = Path(saved(tmp_path / name, **given()))
        (path / f"{name}.npy").unlink()
        (path / f"{name}.npy").symlink_to(path / f"{name}.npy")
        refusal(str(path))
        (path / f"{name}.npy").unlink()
        os.mkfifo(path / f"{name}.npy")
        refusal(str(path))


def test_labels_that_do_not_fit_are_not_read(tmp_path, monkeypatch):
    monkeypatch.setattr(memory, "available", lambda: 3000)
    assert "labels.npy holds" in refusal(saved(tmp_path / "own", **given()))


@pytest.mark.parametrize("how", ["shorter", "other"])
def test_images_that_change_during_a_run_are_one_line(tmp_path, how):
    """A shorter file would end the process without a word, another one would be trained on."""
    path = Path(saved(tmp_path / "own", **given()))
    whole = (path / "images.npy").read_bytes()

    class Change(brojepa.Callback):
        def step(self, training):
            if training.step == 2:
                (path / "images.npy").write_bytes(whole[:200] if how == "shorter" else whole[:-1] + b"\0")

    with pytest.raises(RunError, match=r"images\.npy has changed"):
        brojepa.train("mnist/fast", world=path, out=tmp_path, callbacks=[Change()], **SMALL)
    (path / "images.npy").write_bytes(whole)
    brojepa.train("mnist/fast", world=path, out=tmp_path, **SMALL)


def test_images_that_were_replaced_or_removed_stay_what_they_were(tmp_path):
    path = Path(saved(tmp_path / "own", **given()))
    world = open_world(str(path))
    before = world.train.images[:]
    np.save(path / "new.npy", np.zeros((80, 6, 7), np.uint8))
    (path / "new.npy").replace(path / "images.npy")
    assert torch.equal(world.train.images[:], before)
    (path / "images.npy").unlink()
    assert torch.equal(world.train.images[:], before)


# Larger than memory

LIMITED = """
import resource, sys
import torch, brojepa.training
from brojepa.cli import main
torch.set_num_threads(1)
room = int(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmData"))) * 1024
resource.setrlimit(resource.RLIMIT_DATA, (room + int(sys.argv[1]), resource.RLIM_INFINITY))
sys.exit(main(sys.argv[2:]))
"""
"""The command in a process that may use only a given number of bytes more than at its start."""


def limited(room: int, world: Path, out: Path, cache: Path) -> subprocess.CompletedProcess[str]:
    own = "def encoder(shape, dim):\n    from torch import nn\n"
    own += "    return nn.Sequential(nn.AvgPool2d(16), nn.Flatten(), nn.Linear(64, dim))\n"
    (cache / "pooled.py").write_text(own)
    words = ["train", "mnist/fast", "--world", str(world), "--encoder", "pooled:encoder", "--target", "mean"]
    words += ["--warp", "0", "--shift", "0", "--validation", "400", "--looks", "1", "--epochs", "1"]
    words += ["--batch-size", "128", "--out", str(out), "--quiet", "--device", "cpu"]
    words += ["--evaluate", "train,seen,zero-shot"]  # neighbours are looked up in a table of its own size
    path = os.pathsep.join((str(ROOT / "src"), str(cache)))
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": path, "XDG_CACHE_HOME": str(cache)}
    environment["MALLOC_MMAP_THRESHOLD_"] = "131072"  # glibc returns freed tensors at once: the peak is always the same
    command = [sys.executable, "-c", LIMITED, str(room), *words]
    return subprocess.run(command, env=environment, capture_output=True, text=True)


@pytest.mark.skipif(sys.platform != "linux", reason="Linux limits the memory of a process")
def test_images_larger_than_the_memory_allowed(tmp_path):
    """328 MB of images where 260 MB of memory are allowed: from disk the run is made, the same bits as without a limit
    and in memory; as an .npz they are refused by the system."""
    count, side, room = 20_000, 128, 260 * 10**6
    labels = np.arange(count) % 4
    (tmp_path / "large").mkdir()
    shape = (count, side, side)
    images = np.lib.format.open_memmap(tmp_path / "large" / "images.npy", mode="w+", dtype=np.uint8, shape=shape)
    for start in range(0, count, 1000):
        some = slice(start, start + 1000)
        images[some] = np.arange(1000)[:, None, None] % 256
        for y in range(4):
            images[some][labels[some] == y, :, 32 * y : 32 * y + 32] = 255
    images.flush()
    np.save(tmp_path / "large" / "labels.npy", labels)
    done = limited(room, tmp_path / "large", tmp_path / "limited", tmp_path)
    assert done.returncode == 0, done.stderr
    np.savez(tmp_path / "large.npz", images=images, labels=labels)
    done = limited(room, tmp_path / "large.npz", tmp_path / "none", tmp_path)
    assert done.returncode != 0
    assert "allocate" in done.stderr
    done = limited(10**12, tmp_path / "large.npz", tmp_path / "whole", tmp_path)
    assert done.returncode == 0, done.stderr
    one, two = (next(iter(runs_under(tmp_path / part, []))) for part in ("limited", "whole"))
    assert isinstance(one, Run)
    same_run_but_its_name(one, two)


def same_run_but_its_name(one: Run, two: Run) -> None:
    for file in ("model_file", "state_file"):
        a, b = (checkpoint.load(getattr(run, file))[0] for run in (one, two))
        assert a.keys() == b.keys()
        assert all(torch.equal(a[name], b[name]) for name in a)
    assert one.result["metrics"] == two.result["metrics"]
