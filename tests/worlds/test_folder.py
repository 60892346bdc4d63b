"""A folder of images is a world at the first try: any layout, format and mode; what is wrong is one line."""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from conftest import SMALL, Cli, one_line
from helpers import refusal
from PIL import Image
from sklearn.datasets import load_digits

import brojepa
from brojepa.config import Config
from brojepa.errors import RequestError
from brojepa.figures.sources import Source
from brojepa.files import cache_dir
from brojepa.runs import Run
from brojepa.sweep.jobs import plan
from brojepa.sweep.local import check_worlds
from brojepa.worlds import folder, open_world
from brojepa.worlds.pictures import cycle_line, state_names

SCANS = load_digits()
PIXELS = (SCANS.images * 255 / 16).round().astype(np.uint8)
"""1,797 digits of 8 x 8."""


@pytest.fixture(scope="session")
def scans(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All of them as PNG, a sub-folder for each digit."""
    directory = tmp_path_factory.mktemp("folders") / "scans"
    for i, (image, y) in enumerate(zip(PIXELS, SCANS.target, strict=True)):
        (directory / str(y)).mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(directory / str(y) / f"{i}.png")
    return directory


def image(shade: int, mode: str = "L", size: tuple[int, int] = (6, 5)) -> Image.Image:
    """A small picture, wider than high, that differs from pixel to pixel."""
    values = (np.arange(size[0] * size[1]).reshape(size[1], size[0]) * 3 + shade) % 256
    return Image.fromarray(values.astype(np.uint8)).convert(mode)


def write(directory: Path, names: str = "a b c", count: int = 5, suffix: str = ".png", mode: str = "L") -> Path:
    """A folder of the small pictures."""
    for y, name in enumerate(names.split()):
        (directory / name).mkdir(parents=True, exist_ok=True)
        for i in range(count):
            image(60 * y + i, mode).save(directory / name / f"{i}{suffix}")
    return directory


# What is read


def test_png_of_every_digit_are_a_world(scans: Path) -> None:
    world = open_world(str(scans))
    assert (world.name, world.n, world.shape) == ("scans", 10, (1, 8, 8))
    assert world.source["names"] == list("0123456789")
    assert world.notes == ()
    assert len(world.train) + len(world.test) == 1797
    assert int(torch.bincount(world.test.states).min()) == 174 // 5
    threes = PIXELS[SCANS.target == 3]
    assert np.array_equal(world.test.images[world.test.states == 3, 0], threes[4::5])
    assert np.array_equal(world.train.images[world.train.states == 3, 0][:5], threes[[0, 1, 2, 3, 5]])


def test_the_command_trains_on_it_and_says_the_order(scans: Path, cli: Cli, tmp_path: Path) -> None:
    done = cli("train", "--world", scans, *SMALL, "--out", tmp_path)
    assert done.code == 0, done.err
    assert cycle_line(list("0123456789")) in done.out
    (result,) = tmp_path.rglob("result.json")
    found = json.loads(result.read_text())
    assert found["metrics"]["seen"] > 0.5
    assert json.loads((result.parent / "config.json").read_text())["world"]["names"][3] == "3"
    again = cli("eval", result.parent)
    assert "identical" in again.out, again


def test_train_and_test_may_lie_apart(tmp_path: Path) -> None:
    write(tmp_path / "train", count=3)
    write(tmp_path / "test", count=1)
    world = open_world(str(tmp_path))
    assert world.source["images"] == {"train": 9, "test": 3}
    shutil.rmtree(tmp_path / "test")
    write(tmp_path / "train", count=10)
    assert open_world(str(tmp_path)).source["images"] == {"train": 24, "test": 6}


def test_a_state_may_be_called_train(tmp_path: Path) -> None:
    assert open_world(str(write(tmp_path, "car train test"))).source["names"] == ["car", "test", "train"]


@pytest.mark.parametrize(
    ("names", "order"),
    [
        ("10 9 1", "1 9 10"),
        ("-1 2.5 2 -10", "-10 -1 2 2.5"),
        ("pear apple Fig", "apple Fig pear"),
        ("x10 x9 x1", "x1 x9 x10"),
        ("b 2 a 10", "2 10 a b"),
    ],
)
def test_the_order_of_the_cycle(tmp_path: Path, names: str, order: str) -> None:
    world = open_world(str(write(tmp_path, names)))
    assert world.source["names"] == order.split()
    first = image(60 * names.split().index(order.split()[0]))
    assert np.array_equal(world.train.images[world.train.states == 0][0, 0], np.asarray(first))


@pytest.mark.parametrize(
    ("suffix", "mode", "channels"),
    [
        (".png", "L", 1), (".png", "RGB", 1), (".png", "P", 1), (".png", "1", 1), (".bmp", "L", 1), (".bmp", "RGB", 1),
        (".JPG", "L", 1), (".jpeg", "RGB", 1), (".jpg", "CMYK", 1), (".webp", "RGB", 1),
    ],
)  # fmt: skip
def test_grey_in_any_format(tmp_path: Path, suffix: str, mode: str, channels: int) -> None:
    world = open_world(str(write(tmp_path, suffix=suffix, mode=mode)))
    assert world.shape == (channels, 5, 6)
    if suffix in (".png", ".bmp") and mode != "1":
        assert np.array_equal(world.train.images[0, 0], np.asarray(image(0)))


def test_one_colour_makes_all_rgb(tmp_path: Path) -> None:
    write(tmp_path)
    Image.new("RGB", (6, 5), (200, 10, 30)).save(tmp_path / "b" / "0.png")
    world = open_world(str(tmp_path))
    assert world.shape == (3, 5, 6)
    grey, red = world.train.images[0], world.train.images[world.train.states == 1][0]
    assert torch.equal(grey[0], grey[2])
    assert red[:, 0, 0].tolist() == [200, 10, 30]


def test_what_is_transparent_is_black_and_said(tmp_path: Path) -> None:
    write(tmp_path)
    picture = np.full((5, 6, 4), 200, np.uint8)
    picture[..., 3] = 255
    picture[0, 0, 3], picture[0, 1, 3] = 0, 128
    Image.fromarray(picture).save(tmp_path / "a" / "0.png")
    image(3, "LA").save(tmp_path / "a" / "1.png")
    world = open_world(str(tmp_path))
    assert world.shape == (1, 5, 6)
    assert world.train.images[0, 0, 0, :3].tolist() == [0, 100, 200]
    (note,) = world.notes
    assert "1 image" in note
    assert "black" in note


def test_16_bits_are_scaled_and_said(tmp_path: Path) -> None:
    write(tmp_path)
    values = np.arange(30, dtype=np.uint16).reshape(5, 6) * 2259
    Image.fromarray(values).save(tmp_path / "a" / "0.png")
    for _ in range(2):  # the second time from the cache
        world = open_world(str(tmp_path))
        assert abs(world.train.images[0, 0].numpy() * 257.0 - values).max() <= 129
        assert "16 bits" in world.notes[0]


def test_pictures_stand_as_their_camera_says(tmp_path: Path) -> None:
    write(tmp_path, suffix=".jpg")
    turned = Image.new("L", (5, 6), 200)
    exif = turned.getexif()
    exif[0x0112] = 6
    turned.save(tmp_path / "a" / "0.jpg", exif=exif)
    assert open_world(str(tmp_path)).shape == (1, 5, 6)


def test_other_files_are_ignored_and_counted(tmp_path: Path, cli: Cli) -> None:
    write(tmp_path)
    (tmp_path / "labels.csv").write_text("0")
    (tmp_path / "a" / "notes.txt").write_text("0")
    (tmp_path / "a" / ".DS_Store").write_text("0")
    (tmp_path / ".git").mkdir()
    assert "2 files" in open_world(str(tmp_path)).notes[0]
    told = cli("data", "list", tmp_path)
    assert told.code == 0
    assert "2 files" in told.out


# Sizes


def test_sizes_that_differ_name_two_files_and_the_flag(tmp_path: Path) -> None:
    write(tmp_path)
    image(0, size=(7, 5)).save(tmp_path / "b" / "3.png")
    said = refusal(tmp_path)
    assert "--size" in said
    assert str(tmp_path / "a" / "0.png") in said
    assert str(tmp_path / "b" / "3.png") in said
    assert open_world(str(tmp_path), size="5x6").shape == (1, 5, 6)


def test_images_are_resized_by_averages(tmp_path: Path) -> None:
    write(tmp_path)
    checks = np.indices((64, 64)).sum(0) % 2 * 255
    Image.fromarray(checks.astype(np.uint8)).save(tmp_path / "a" / "0.png")
    world = open_world(str(tmp_path), size=4)
    assert world.shape == (1, 4, 4)
    assert abs(world.train.images[0].float().mean() - 127.5) < 2, "not every sixteenth pixel"
    assert open_world(str(tmp_path), size="4x9").shape == (1, 4, 9)


def test_a_run_remembers_its_size(tmp_path: Path, scans: Path, cli: Cli) -> None:
    words = ("train", "--world", scans, *SMALL[:-5], "1", "--quiet", "--out", tmp_path)
    for size in ("12x10", "6", "6x6"):
        assert cli(*words, "--size", size).code == 0
    results = sorted(tmp_path.rglob("result.json"))
    assert len(results) == 2, "6 and 6x6 are one run"
    for result in results:
        assert cli("eval", result.parent).code == 0
    shapes = [json.loads((r.parent / "config.json").read_text())["world"]["shape"] for r in results]
    assert sorted(shapes) == [[1, 6, 6], [1, 12, 10]]


def test_a_sweep_over_sizes_has_a_run_for_each(scans: Path, tmp_path: Path) -> None:
    grid = {"world": [str(scans)], "size": ["6", "7"]}
    jobs = plan(["mnist/fast"], [0, 1], tmp_path, grid=grid)
    assert len({job.config.world for job in jobs}) == 2, "the same images in another size are other images"
    assert len({job.run.path for job in jobs}) == 4
    assert any(word == "--size=7" for word in jobs[-1].command())
    check_worlds(jobs)


def test_a_size_is_a_value_of_the_config() -> None:
    assert Config(size="28x28") == Config(size="28") == Config().replace(size=28)
    assert Config().hash == Config(size="").hash != Config(size="28").hash
    for wrong in ("0", "28x", "axb", "28x28x3", "-3", "99999", "1.5"):
        with pytest.raises(RequestError, match="--size"):
            Config(size=wrong)


def test_a_size_is_for_own_images(tiny: str, scans: Path, tmp_path: Path) -> None:
    for name in ("mnist", "rotation:mnist"):
        with pytest.raises(RequestError, match="--size"):
            open_world(name, size="6")
    assert open_world(f"rotation:{scans}", size="6").shape == (1, 6, 6)
    assert open_world(tiny, size="6x4").shape == (1, 6, 4)
    world = open_world(str(scans))
    with pytest.raises(RequestError, match="--size"):
        brojepa.train("mnist/fast", world=world, size=6, out=tmp_path)


# The cache


def test_images_are_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path)
    before = open_world(str(tmp_path))
    opened = []
    monkeypatch.setattr(folder, "_read", lambda *given: opened.append(given))
    again = open_world(str(tmp_path))
    shutil.copytree(tmp_path, tmp_path / "copy", ignore=lambda *_: ["copy"])
    moved = open_world(str(tmp_path / "copy"))
    assert torch.equal(before.train.images, again.train.images)
    assert before.source == again.source == moved.source
    assert not opened


def test_a_changed_image_is_seen_whatever_its_date(tmp_path: Path) -> None:
    write(tmp_path, suffix=".bmp")
    before, file = open_world(str(tmp_path)), tmp_path / "a" / "0.bmp"
    dated = file.stat()
    image(77).save(file)
    assert file.stat().st_size == dated.st_size
    os.utime(file, ns=(dated.st_atime_ns, dated.st_mtime_ns))
    after = open_world(str(tmp_path))
    assert before.source["sha256"] != after.source["sha256"]
    assert np.array_equal(after.train.images[0, 0], np.asarray(image(77)))


@pytest.mark.parametrize("damage", [lambda raw: raw[:-9], lambda raw: b"", lambda raw: raw[:200] + b"\7" + raw[201:]])
def test_a_damaged_cache_is_made_again(tmp_path: Path, damage: Callable[[bytes], bytes]) -> None:
    write(tmp_path)
    before = open_world(str(tmp_path))
    (file,) = (cache_dir() / "folders").glob("*.npz")
    whole = file.read_bytes()
    file.write_bytes(damage(whole))
    assert torch.equal(open_world(str(tmp_path)).train.images, before.train.images)
    assert file.read_bytes() == whole


def test_a_cache_that_cannot_be_written_is_no_reason_to_stop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert open_world(str(write(tmp_path / "world"))).n == 3


def test_the_cache_keeps_a_few(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder, "KEPT", 2)
    write(tmp_path)
    for size in (3, 4, 5):
        open_world(str(tmp_path), size=size)
    assert len(list((cache_dir() / "folders").iterdir())) == 2


def test_a_terminal_sees_how_far_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    ticks = iter(range(10**6))
    monkeypatch.setattr(folder.time, "monotonic", lambda: next(ticks))
    for stream, shown in ((Terminal(), True), (io.StringIO(), False)):
        with contextlib.redirect_stderr(stream):
            open_world(str(write(tmp_path)), size=5 + shown)
        assert ("###" in stream.getvalue()) == shown


# What is wrong


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda d: [shutil.rmtree(d / name) for name in "abc"], ("no IDX files", "sub-folder")),
        (lambda d: [shutil.rmtree(d / name) for name in "bc"], ("one state, a", "at least 2")),
        (lambda d: [[f.unlink() for f in (d / name).iterdir()] for name in "b"], ("b holds no images",)),
        (lambda d: (d / "d").mkdir(), ("d holds no images",)),
        (lambda d: (d / "b" / "0.png").unlink(), ("state b has 4 images", "5")),
        (lambda d: (d / "b" / "2.png").write_bytes(b""), ("b/2.png",)),
        (lambda d: (d / "b" / "2.png").write_text("no picture"), ("b/2.png", "not an image")),
        (lambda d: (d / "b" / "2.png").write_bytes((d / "a" / "2.png").read_bytes()[:-25]), ("b/2.png",)),
        (lambda d: (d / "b" / "2.png").write_bytes((d / "a" / "2.png").read_bytes()[:45]), ("b/2.png",)),
        (lambda d: Image.new("F", (6, 5)).save(d / "b" / "2.tiff") or (d / "b" / "2.tiff").rename(d / "b" / "2.png"),
         ("b/2.png",)),
        (lambda d: [write(d / "train"), write(d / "test", "a b"), [shutil.rmtree(d / n) for n in "abc"]],
         ("state c is in train but not in test",)),
        (lambda d: [write(d / "train"), write(d / "test", "a b c d"), [shutil.rmtree(d / n) for n in "abc"]],
         ("state d is in test but not in train",)),
        (lambda d: [write(d / "train", count=1), write(d / "test"), [shutil.rmtree(d / n) for n in "abc"]],
         ("state a has 1 image",)),
        (lambda d: [write(d / "test"), [shutil.rmtree(d / n) for n in "abc"]], ("no train folder",)),
        (lambda d: [image(0).save(d / "0.png"), [shutil.rmtree(d / n) for n in "abc"]], ("1 image but no sub",)),
    ],
)  # fmt: skip
def test_bad_folders_are_refused_in_a_line(tmp_path: Path, damage, words: tuple[str, ...]) -> None:
    damage(write(tmp_path / "bad"))
    said = refusal(tmp_path / "bad")
    for word in words:
        assert word in said


@pytest.mark.parametrize("limit", [20, 10])
def test_a_picture_bomb_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: int) -> None:
    """A picture above Pillow's limit, and above twice of it."""
    write(tmp_path)
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", limit)
    said = refusal(tmp_path)
    assert "pixels" in said
    assert "0.png" in said


def test_the_command_refuses_in_a_line(tmp_path: Path, cli: Cli) -> None:
    write(tmp_path / "bad")
    (tmp_path / "bad" / "b" / "2.png").write_text("no picture")
    assert "b/2.png" in one_line(cli("train", "--world", tmp_path / "bad", "--out", tmp_path / "out"), 2)
    assert not (tmp_path / "out").exists()


# What is shown


def test_data_lists_checks_and_shows_a_folder(scans: Path, cli: Cli, tmp_path: Path) -> None:
    for what in ("list", "check"):
        told = cli("data", what, scans)
        assert told.code == 0, told.err
        assert cycle_line(list("0123456789")) in told.out
    assert "1x5x5" in cli("data", "list", scans, "--size", "5").out
    shown = cli("data", "show", scans, "--out", tmp_path / "a.png")
    assert shown.code == 0, shown.err
    with Image.open(tmp_path / "a.png") as picture:
        assert picture.width > 500


def test_states_keep_their_names(tmp_path: Path, cli: Cli) -> None:
    world = write(tmp_path / "fruit", "fig apple pear", count=20)
    done = cli("train", "mnist/fast", "--world", world, *SMALL, "--out", tmp_path / "out")
    assert done.code == 0, done.err
    assert "apple, fig, pear, and back to apple" in done.out
    (result,) = (tmp_path / "out").rglob("result.json")
    told = cli("infer", result.parent, world / "fig" / "0.png", world / "pear" / "0.png")
    assert "0.png shows fig" in told.out, told
    way = cli("plan", result.parent, world / "fig" / "0.png", world / "pear" / "0.png", "--allowed=+2")
    assert "apple" in way.out
    source = Source(Run(result.parent), None, {})
    assert source.names == ["apple", "fig", "pear"]
    assert len(source.test) == 12
    assert open_world(str(world)).keep([2, 0], "two").source["names"] == ["pear", "apple"]
    assert "names" not in open_world(f"rotation:{world}").source
    assert state_names("any", 2, ["a", "b"]) == ["a", "b"]
    assert state_names("any", 3, ["a", "b"]) == ["0", "1", "2"]


def test_a_long_cycle_is_cut_short() -> None:
    line = cycle_line([str(i) for i in range(100)])
    assert "..., 99, and back to 0" in line
    assert "50" not in line
