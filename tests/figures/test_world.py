"""The picture of a world: every image is where its action leads, and what cannot be drawn is refused in one line."""

from __future__ import annotations

import sys

import numpy as np
import pytest
import torch
from helpers import blobs, says

from brojepa import groups
from brojepa.config import world_folder
from brojepa.figures import style, world
from brojepa.worlds import PoseWorld, Split, derived
from brojepa.worlds.world import World


@pytest.fixture
def solids(monkeypatch):
    for name, value in {"OBJECTS": 2, "VIEWS": 16, "SIZE": 12, "GRID": 40, "TURNS": 5, "STARTS": 2}.items():
        monkeypatch.setattr(derived, name, value)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory) -> str:
    """A world on disk with enough images for pairs of its three states."""
    blob, path = blobs(n=3, count=60, size=8, tests=30), tmp_path_factory.mktemp("tiny") / "tiny.npz"
    np.savez(
        path, images=blob.train.images[:, 0].numpy(), labels=blob.train.states.numpy(),
        test_images=blob.test.images[:, 0].numpy(), test_labels=blob.test.states.numpy(),
    )  # fmt: skip
    return str(path)


def numbers(count: int) -> np.ndarray:
    """Images that say a number: [count, 2, 4]."""
    return np.repeat(np.arange(count, dtype=np.uint8), 8).reshape(count, 2, 4)


def shown(figure, rows: int) -> np.ndarray:
    """The number that each image says, [rows, 1 + actions]."""
    (axes,) = figure.axes
    return np.array([int(image.get_array()[0, 0]) for image in axes.images]).reshape(rows, -1)


def test_every_image_shows_the_state_that_its_action_leads_to():
    states = np.arange(21) % 7
    split = numbers(7)[states], states
    seven, actions = World.from_arrays("seven", split, split), (-1, 1, 5, -6)
    found = shown(world.draw(seven, actions, (-1, 1)), world.ROWS)
    np.testing.assert_array_equal(found[:, 1:], (found[:, :1] + np.array(actions)) % 7)


def test_every_image_shows_the_thing_in_the_pose_that_its_action_leads_to():
    group = groups.Dihedral(4)

    def show(things: Split, pose: torch.Tensor) -> torch.Tensor:
        said = 8 * things.states + group.bucket(pose)
        return said[:, None, None, None].expand(-1, 1, 2, 2).to(torch.uint8)

    things = Split(torch.zeros(5, 1, 2, 2, dtype=torch.uint8), torch.arange(5))
    said = PoseWorld(
        "said", 5, things, things, (0.0,), (1.0,), {}, group,
        show=show, candidates=group.elements, measured=group.actions,
    )  # fmt: skip
    actions = ((1, 0), (0, 1), (3, 1))
    for thing, *rest in shown(world.draw(said, actions, ()), world.ROWS).tolist():
        turn, flip = thing % 8 // 2, thing % 2
        for (r, s), reached in zip(actions, rest, strict=True):
            assert reached // 8 == thing // 8, "the same thing"
            assert reached % 8 == 2 * ((r + (-1) ** s * turn) % 4) + (s + flip) % 2


def test_actions_stand_over_their_columns_and_trained_ones_are_blue():
    figure = world.draw(blobs(), (-1, 3, 1), (-1, 1))
    words = {text.get_text(): text.get_color() for text in figure.axes[0].texts if text.get_text()}
    assert list(words) == ["−1", "+3", "+1"]
    assert [colour == style.BLUE for colour in words.values()] == [True, False, True]


def test_few_images_make_few_rows():
    few = blobs(n=2, tests=1)
    assert shown(world.draw(few, (1,), ()), len(few.test)).shape == (2, 2)


def test_others_are_actions_that_are_measured_and_not_trained_on():
    five = blobs(n=5)
    assert world.trained_on("own.npz", five.group) == (-1, 1)
    drawn = [world.others(five, (-1, 1), seed) for seed in range(20)]
    assert all(len(set(ks)) == world.OTHERS and set(ks) <= {-4, -3, -2, 2, 3, 4} for ks in drawn)
    assert len(set(drawn)) > 1
    assert world.others(blobs(n=2), (-1, 1), 0) == ()
    both = groups.parse("Z2xZ3")
    assert world.trained_on("torus:a,b", both) == ((1, 0), (0, 1), (0, -1)), "in Z2, +1 and -1 are one"


def test_a_turn_of_many_letters_is_named_by_its_degrees():
    group = groups.SO3()
    half = np.deg2rad(40) / 2
    tilted = (float(np.cos(half)), *(float(np.sin(half) / np.sqrt(3)),) * 3)
    assert world.short_word(group, tilted) == "40°"
    assert world.short_word(group, group.parse("x-15")) == "x−15"


@pytest.mark.parametrize("name", ["TINY", "torus:TINY,TINY", "dihedral:TINY"])
def test_worlds_of_every_kind_are_drawn_into_a_file_of_their_name(cli, tiny, tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    done = cli("data", "show", name.replace("TINY", tiny))
    assert (done.code, done.err) == (0, "")
    (file,) = tmp_path.iterdir()
    assert file.name == name.replace(":", "-").replace(",", "-").replace("TINY", "tiny") + ".png"
    assert file.read_bytes().startswith(b"\x89PNG")
    assert done.out.endswith(f": {file.name}\n")


def test_letters_and_objects_are_drawn(cli, letters, solids, tmp_path):
    for name, *words in (["emnist", "--data-dir", letters], ["pose"]):
        done = cli("data", "show", name, *words, "--seed", 3, "--out", tmp_path / f"{name}.svg")
        assert (done.code, done.err) == (0, "")
        assert f"The world {name}" in (tmp_path / f"{name}.svg").read_text()


def test_the_seed_decides_which_images_are_drawn():
    a, b, c = (shown(world.draw(blobs(), (1, 2), (), seed), world.ROWS).tolist() for seed in (0, 0, 1))
    assert a == b != c


def test_no_directory_is_shown_in_a_picture(cli, tiny, tmp_path):
    done = cli("data", "show", f"rotation:{tiny}", "--actions", "-90,90", "--out", tmp_path / "a.svg")
    assert (done.code, done.err) == (0, "")
    text = (tmp_path / "a.svg").read_text()
    assert "The world rotation:tiny.npz, SO2" in text
    assert tiny.rsplit("/", 1)[0] not in text


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["show"], "show which world? Name one"),
        (["show", "tours"], "did you mean torus"),
        (["show", "TINY", "--out", "a.jpeg"], "--out a.jpeg: the name must end in .png or .svg"),
        (["show", "TINY", "--out", "no/such/a.png"], "cannot write no/such/a.png"),
        (["show", "TINY", "--seed", "-1"], "--seed '-1': expected an integer of 0 or more"),
        (["show", "TINY", "--actions", "7"], "--actions: +7 is outside the group"),
        (["show", "TINY", "--actions="], "--actions is empty: name some, as in --actions=-1,1"),
        (
            ["show", "dihedral:TINY", "--actions", "r,q"],
            "--actions: q is not an action of D4, write them as in r,r-1,s",
        ),
        (["show", "rotation:TINY", "--actions", ",".join(map(str, range(13)))], "names 13 actions, 12 fit"),
        (["list", "TINY", "--seed", "1"], "--seed is for 'brojepa data show WORLD', not for 'brojepa data list'"),
        (["fetch", "torus"], "nothing to fetch for torus: mnist is bundled and others are made"),
    ],
)
def test_what_cannot_be_drawn_is_refused_in_one_line(cli, tiny, tmp_path, monkeypatch, words, message):
    monkeypatch.chdir(tmp_path)
    done = cli("data", *(word.replace("TINY", tiny) for word in words))
    assert done.code == (1 if "cannot write" in message else 2)
    assert says(done.err, message), done.err
    assert done.err.count("\n") == 1
    assert not list(tmp_path.iterdir())


DRAWING = {  # every command that draws, up to the name of its picture
    "data": ["data", "show", "TINY", "--out"],
    "inspect": ["inspect", "RUN", "--figure"],
    "bench": ["bench", "relaxing", "--quick", "--plot"],
    "figures": ["figures", "RUN", "--out"],
}


@pytest.mark.parametrize("command", DRAWING)
def test_without_matplotlib_the_extra_is_named(command, cli, tiny, trained, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    given = {"TINY": tiny, "RUN": trained[0]}
    done = cli(*(given.get(word, word) for word in DRAWING[command]), "a.png")
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert "matplotlib" in done.err
    assert "brojepa[figures]" in done.err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("command", ["data", "inspect", "bench"])
def test_a_picture_is_png_or_svg_whoever_draws_it(command, cli, tiny, trained, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    given = {"TINY": tiny, "RUN": trained[0]}
    done = cli(*(given.get(word, word) for word in DRAWING[command]), "a.jpeg")
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    for word in (DRAWING[command][-1], "a.jpeg", ".png", ".svg"):
        assert word in done.err
    assert not list(tmp_path.iterdir())


def test_made_worlds_are_listed_and_checked(cli, tiny, solids):
    sums = cli("data", "check", tiny).out.split("sha256 ")[1]
    for name, shown in (
        (f"torus:{tiny},{tiny}", "180 training and 90 test images, 9 states of Z3xZ3, 1x8x16"),
        (f"dihedral:{tiny}", "180 training and 90 test images of things in poses of D4, 1x8x8"),
    ):
        assert cli("data", "list", name).out == f"{name}: {shown}\n"
        assert cli("data", "check", name).out == f"{name}: {shown}, sha256 {sums}"
    assert cli("data", "check", "pose").out.endswith("images of things in poses of SO3, 3x12x12, made without files\n")


def test_a_world_has_a_safe_name_for_files():
    assert world_folder("mnist:0-6") == "mnist-0-6"
    assert world_folder("rotation:emnist:a-m") == "rotation-emnist-a-m"
    assert world_folder("torus:some/where/a.npz,mnist") == "torus-a-mnist"
