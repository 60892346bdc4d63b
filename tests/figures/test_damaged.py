"""Runs that cannot be read, that are linked to, or whose images are others: each is named, the others are drawn."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from conftest import SMALL, Cli, one_line
from PIL import Image


@pytest.fixture
def own(cli: Cli, tiny: str, tmp_path: Path) -> tuple[Path, Path]:
    """A run, and the file that its images come from."""
    world = tmp_path / "own.npz"
    shutil.copy(tiny, world)
    flags = ("--action", "mfr-learned", "--normalise", "--validation", 30)
    assert cli("train", "--world", world, *SMALL, *flags, "--out", tmp_path / "out").code == 0
    (result,) = (tmp_path / "out").rglob("result.json")
    return result.parent, world


def turn_images(world: Path) -> None:
    with np.load(world) as data:
        parts = {key: data[key] for key in data.files}
    np.savez(world, **{key: value[:, ::-1] if value.ndim == 3 else value for key, value in parts.items()})


def test_other_images_are_said_wherever_they_are_looked_at(own, cli: Cli, tmp_path: Path) -> None:
    run, world = own
    first = cli("inspect", run).out.splitlines()[0]
    drawn = cli("figures", run, "--only", "spectrum,circle-multi").out
    assert "other images" not in first + drawn
    assert json.loads(cli("inspect", run, "--json").out)["same_images"] is True
    turn_images(world)
    assert cli("inspect", run).out.splitlines()[0].endswith("other images than it was trained on")
    assert json.loads(cli("inspect", run, "--json").out)["same_images"] is False
    numbers, images = cli("figures", run, "--only", "spectrum,circle-multi").out.splitlines()
    assert "other images" not in numbers, "drawn from the result alone"
    assert images.endswith(f"other images than {run} was trained on")
    Image.new("L", (8, 8)).save(tmp_path / "a.png")
    predicted = cli("predict", run, tmp_path / "a.png", "--action=1", "--out", tmp_path / "p.png")
    assert predicted.code == 0
    assert "other images" in predicted.err


@pytest.mark.parametrize("file", ["config.json", "result.json"])
@pytest.mark.parametrize("content", ["", "[]", '{"config": 3, "seed": 0, "world": {}, "metrics": 1}'])
def test_one_damaged_run_is_named_and_the_others_are_drawn(own, cli: Cli, tmp_path: Path, file, content) -> None:
    run, _ = own
    broken = tmp_path / "out" / "a-broken-one"
    shutil.copytree(run, broken)
    (broken / file).write_text(content)
    done = cli("figures", tmp_path / "out", "--out", tmp_path / "drawn", "--only", "spectrum")
    assert (tmp_path / "drawn" / "spectrum.png").is_file(), done
    assert done.code == 0
    assert str(broken / file) in done.err
    assert len(done.err.splitlines()) == 1
    alone = one_line(cli("figures", broken, "--only", "spectrum"), 1)
    assert str(broken / file) in alone


@pytest.mark.parametrize("figure", [["spectrum"], None, "gone"])
def test_damaged_data_of_a_figure_are_named_and_the_others_drawn(own, cli: Cli, tmp_path: Path, figure) -> None:
    run, _ = own
    made = tmp_path / "made"
    assert cli("figures", run, "--only", "spectrum", "--out", made).code == 0
    damaged = made / "circle-multi.npz"
    np.savez(damaged, json=np.array(json.dumps({"figure": figure})))
    done = cli("figures", made, "--out", tmp_path / "drawn")
    assert (tmp_path / "drawn" / "spectrum.png").is_file(), done
    assert str(damaged) in done.err
    assert str(damaged) in one_line(cli("figures", damaged), 2)


def test_runs_behind_links_are_drawn_and_circles_end(own, cli: Cli, tmp_path: Path) -> None:
    run, _ = own
    linked = tmp_path / "linked"
    linked.mkdir()
    (linked / "one").symlink_to(run)
    (linked / "circle").symlink_to(linked)
    done = cli("figures", linked, "--out", tmp_path / "drawn", "--only", "spectrum")
    assert (done.code, done.err) == (0, "")
    assert (tmp_path / "drawn" / "spectrum.png").is_file()
