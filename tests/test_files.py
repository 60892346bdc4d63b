"""Files are replaced whole, and what a name stands for stays what it was: a link, a pipe, a device, a mode."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from brojepa import Config, files
from brojepa.config import world_folder
from brojepa.errors import RequestError, RunError
from brojepa.runs import Run
from brojepa.sweep.jobs import plan


def test_a_link_stays_a_link_and_leads_to_the_new_content(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "file").write_text("old")
    for name, goal in (("link", "real/file"), ("dangling", "real/new")):
        (tmp_path / name).symlink_to(goal)
        files.write_atomically(tmp_path / name, b"new")
        assert (tmp_path / name).is_symlink()
        assert (tmp_path / goal).read_bytes() == b"new"
    assert sorted(p.name for p in tmp_path.rglob("*")) == ["dangling", "file", "link", "new", "real"]


def test_a_pipe_is_written_through(tmp_path):
    pipe, read = tmp_path / "pipe", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: read.append(pipe.read_bytes()))
    reader.start()
    files.write_atomically(pipe, b"x" * 200_000)
    reader.join(10)
    assert read == [b"x" * 200_000]
    assert stat.S_ISFIFO(pipe.stat().st_mode)


@pytest.mark.skipif(not Path("/dev/full").is_char_device(), reason="no /dev/full")
def test_a_device_that_takes_nothing_is_an_error_and_stays_a_device():
    with pytest.raises(RunError, match="cannot write /dev/full"):
        files.write_atomically(Path("/dev/full"), b"data")
    assert Path("/dev/full").is_char_device()
    files.write_atomically(Path("/dev/null"), b"data")
    assert Path("/dev/null").is_char_device()


def test_a_file_keeps_its_mode_and_a_new_one_has_the_usual(tmp_path):
    secret, plain = tmp_path / "secret", tmp_path / "plain"
    secret.write_text("old")
    secret.chmod(0o600)
    plain.touch()
    for path in (secret, tmp_path / "new"):
        files.write_atomically(path, b"new")
    assert stat.S_IMODE(secret.stat().st_mode) == 0o600
    assert (tmp_path / "new").stat().st_mode == plain.stat().st_mode


@pytest.mark.parametrize("name", [".", "", "folder"])
def test_a_directory_is_refused_and_nothing_is_left(tmp_path, monkeypatch, name):
    (tmp_path / "here" / "folder").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "here")
    with pytest.raises(RequestError, match="directory"):
        files.write_atomically(Path(name), b"data")
    assert [p.name for p in tmp_path.rglob("*")] == ["here", "folder"]


def test_what_killed_writers_left_goes_when_the_run_starts_again(tmp_path):
    run = Run(tmp_path / "run")
    run.make()
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    gone = [run.path / f".result.json.{dead.pid}.partial", run.state_file.parent / f".x.{os.getpid()}.partial"]
    kept = [run.path / f".result.json.{os.getppid()}.partial", run.path / "a.partial", run.path / "model.safetensors"]
    for file in (*gone, *kept):
        file.touch()
    with run.claim():
        assert not any(file.exists() for file in gone)
        assert all(file.exists() for file in kept)


@pytest.mark.parametrize(
    "name", ["...npz", "..", ".", "", "/", "@x", "..@0123456789ab", "a\nb.npz", "torus:...npz,a/.."]
)
def test_no_world_leads_out_of_the_place_for_runs(tmp_path, name):
    folder = world_folder(name)
    assert folder.strip(". ")
    assert folder.isprintable()
    run = Run.locate(tmp_path / "out", Config(world=name), None, 0)
    assert run.path.resolve().parents[2] == (tmp_path / "out").resolve()


def test_a_tilde_is_a_home_wherever_runs_go(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    assert Run.locate("~/x", Config(), None, 0).path.is_relative_to(tmp_path / "x")
    (job,) = plan(["mnist/fast"], [0], "~/x")
    assert job.out == tmp_path / "x"
    assert str(tmp_path / "x") in job.command()
    with pytest.raises(RequestError, match="~nobody-of-that-name"):
        files.place("~nobody-of-that-name/x")
