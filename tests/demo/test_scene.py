"""What the page's answers say, against the model asked directly: no browser and no gradio."""

from __future__ import annotations

import base64
import io
import math
import sys
from importlib.util import find_spec

import numpy as np
import pytest
import torch
from conftest import Cli, one_line
from own_code import PARTS
from PIL import Image
from small_scenes import small

import brojepa
from brojepa.demo import images as pictures
from brojepa.demo import scene as brojepa_scene
from brojepa.demo import stage
from brojepa.demo.kinds import Labelled, Turned
from brojepa.errors import RequestError

FAST, TORUS, TURNS = "mnist/fast", "torus/fast", "rotation/fast"
ACTIONS = {FAST: [[3], [-4], [9]], TORUS: [[3, -4], [0, 7]], TURNS: [[50], [-175]]}


def opened(url: str) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(url.partition(",")[2]))))


def url(data: bytes) -> str:
    return "data:image/png;base64," + base64.b64encode(data).decode()


def png(pixels: np.ndarray, kind: str = "PNG") -> bytes:
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, kind)
    return file.getvalue()


@pytest.mark.parametrize("name", ACTIONS)
def test_an_answer_is_what_the_model_says(name):
    scene = small(name)
    model, group = brojepa.load(name, "cpu"), scene.group
    for k in ACTIONS[name]:
        for row in (0, 7, 100):
            side = scene.act({"test": row}, k)["sides"][0]
            element = tuple(k) if group.shape else k[0]
            with torch.no_grad():
                after = model.act(model.encode(scene.pool[row]), element)[0]
            assert np.array_equal(opened(side["decoded"]), model.decode(after)[0].numpy())
            if isinstance(scene, Labelled):
                with torch.no_grad():
                    assert side["after"] == scene.names[int(model.classify(after))]
                    chances = model.classifier(after).softmax(-1).reshape(scene.periods)
                wanted = [chances.sum(1 - i) if len(k) > 1 else chances for i in range(len(k))]
                for bars, exact in zip(side["bars"], wanted, strict=True):
                    assert [bar["chance"] for bar in bars] == pytest.approx(exact.tolist(), abs=1e-6)


@pytest.mark.parametrize("name", ACTIONS)
def test_predictions_are_mostly_right_though_the_actions_were_not_trained(name):
    scene = small(name)
    answers = [scene.act({"test": row}, k) for k in ACTIONS[name] for row in range(0, 100, 5)]
    assert not any(answer["trained"] for answer in answers)
    assert np.mean([answer["sides"][0]["is_right"] for answer in answers]) > 0.8


def test_trained_actions_are_marked():
    scene = small(FAST)
    assert scene.dials[0]["trained"] == [-1, 1]
    assert scene.act({"test": 0}, [1])["trained"]
    assert not scene.act({"test": 0}, [9])["trained"], "+9 is where -1 leads, but was never asked for"
    torus = small(TORUS)
    assert [dial["trained"] for dial in torus.dials] == [[-1, 1]] * 2
    assert torus.act({"test": 0}, [1, 0])["trained"]
    assert not torus.act({"test": 0}, [1, 1])["trained"]
    assert small(TURNS).dials[0]["trained"] == [-10, 10]


@pytest.mark.parametrize("name", ACTIONS)
def test_hands_that_turn_give_the_predicted_latent(name):
    """Each hand is a plane of the latent; turned by its angle it points to where the plane of the prediction points."""
    scene = small(name)
    actor = scene.actors[0]
    for k in ACTIONS[name]:
        element = tuple(k) if scene.group.shape else k[0]
        z = actor.encode(scene.pool[3][None])[0]
        after = actor.act(z, element).double().reshape(-1, 2)
        hands = actor.hands(z, element, scene.group)
        pointed = {tuple(np.round([np.cos(h["at"] + h["turn"]), np.sin(h["at"] + h["turn"])], 3)) for h in hands}
        exact = {tuple(np.round((plane / plane.norm()).numpy(), 3)) for plane in after}
        assert len(hands) == 32
        near = [min(np.hypot(a - c, b - d) for c, d in exact) for a, b in pointed]
        assert max(near) < 0.01


@pytest.mark.parametrize("name", [FAST, TORUS])
def test_the_point_ends_at_the_state_that_is_predicted_and_moves_along_the_circle(name):
    scene = small(name)
    for k in ACTIONS[name]:
        side = scene.act({"test": 2}, k)["sides"][0]
        for i, circle in enumerate(side["circles"]):
            ring, path = np.array(circle["ring"]), np.array(circle["path"])
            nearest = circle["names"][int(np.linalg.norm(ring - path[-1], axis=1).argmin())]
            assert nearest == side["after"].split(" ")[i]
            length = np.linalg.norm(path, axis=1)
            assert length.std() < 0.1 * length.mean()
            turned = np.unwrap(np.arctan2(path[:, 1], path[:, 0]))
            exact = 2 * np.pi * k[i] / len(ring)
            assert turned[-1] - turned[0] == pytest.approx(exact, abs=0.15), "all the way, not the short way round"


def test_a_turned_image_runs_along_its_own_circle():
    scene = small(TURNS)
    assert isinstance(scene, Turned)
    answer = scene.act({"test": 5}, [90])
    (circle,) = answer["sides"][0]["circles"]
    ring, path = np.array(circle["ring"]), np.array(circle["path"])
    assert int(np.linalg.norm(ring - path[-1], axis=1).argmin()) in (17, 18, 19)
    assert np.array_equal(opened(answer["true_image"]), scene.turned(scene.pool[5], torch.tensor([90.0]))[0, 0].numpy())


def test_the_baseline_fails_where_the_model_does_not():
    scene = small(FAST)
    assert scene.facts["baseline"] == "mnist/jepa-mlp"
    answers = [scene.act({"test": row}, [4], both=True)["sides"] for row in range(0, 400, 10)]
    ours, theirs = ([sides[i]["is_right"] for sides in answers] for i in (0, 1))
    assert (np.mean(ours), np.mean(theirs)) == (pytest.approx(1, abs=0.06), pytest.approx(0, abs=0.3))
    assert answers[0][1]["hands"] == []
    assert len(answers[0][1]["circles"][0]["path"]) == 2, "it jumps"
    seen = [scene.act({"test": row}, [1], both=True)["sides"][1]["is_right"] for row in range(0, 400, 10)]
    assert np.mean(seen) > 0.9


def test_nearest_images_are_real_and_nearest():
    scene = small(FAST)
    side = scene.act({"test": 11}, [2])["sides"][0]
    actor = scene.actors[0]
    after = actor.act(actor.encode(scene.pool[11][None]), 2)
    order = (actor.z - after).norm(dim=1).argsort()[:5]
    assert np.array_equal(opened(side["nearest"]), torch.cat(list(scene.pool[order]), -1)[0].numpy())
    assert side["nearest_names"] == [str(int(y)) for y in scene.states[order]]


@pytest.mark.parametrize(("name", "allowed"), [(FAST, ["+3", "-4"]), (TORUS, ["1:0", "0:-1"]), (TURNS, ["10", "-45"])])
def test_plans_use_allowed_actions_and_arrive(name, allowed):
    scene = small(name)
    first, second = scene.first
    (side,) = scene.plan({"test": first}, {"test": second}, allowed)["sides"]
    assert side["reached"]
    words = {scene.word(k) for k in scene.group.check(allowed, "allowed")}
    assert set(side["words"]) <= words
    assert side["count"] == len(side["words"]) + 1 == len(side["names"])
    shape = scene.world.shape
    assert opened(side["decoded"]).shape[:2] == (shape[1], shape[2] * side["count"])


def test_plans_that_cannot_be_made_say_why():
    scene = small(FAST)
    first, second = scene.first  # 2 and 7
    (side,) = scene.plan({"test": first}, {"test": second}, ["+2"])["sides"]
    assert "+5" in side["error"] or "−5" in side["error"] or "-5" in side["error"]
    with pytest.raises(RequestError, match="allowed"):
        scene.plan({"test": first}, {"test": second}, [])
    baseline = scene.plan({"test": first}, {"test": second}, ["+1"], both=True)["sides"][1]
    assert not baseline.get("reached"), "its own word that it arrived does not count"


@pytest.mark.parametrize("name", ACTIONS)
def test_a_rollout_has_every_step_and_its_drift(name):
    scene = small(name)
    k = [1] if name == FAST else [0, 1] if name == TORUS else [10]
    answer = scene.roll({"test": 0}, k, 100)
    (side,) = answer["sides"]
    assert answer["steps"] == 100
    assert len(side["names"]) == len(side["drift"]) == len(side["right"]) == 101
    assert np.mean(side["right"]) > 0.9
    period = 10 if name != TURNS else 36
    assert side["names"][0] == side["names"][period]
    assert side["drift"][0] < 0.5
    assert scene.roll({"test": 0}, k, 10**9)["steps"] == 100
    assert scene.roll({"test": 0}, k, -3)["steps"] == 1


def test_drift_of_the_baseline_grows_beyond_that_of_the_model():
    sides = small(FAST).roll({"test": 0}, [3], 30, both=True)["sides"]
    ours, theirs = (side["drift"][-1] for side in sides)
    assert ours < 0.3 < theirs


def drawn(image: np.ndarray, scale: int, top: int, left: int) -> bytes:
    """An image of MNIST as a visitor might draw it: larger, and somewhere on the pad."""
    canvas = np.zeros((280, 280), np.uint8)
    large = np.kron(image, np.ones((scale, scale), np.uint8))
    rows, columns = (np.flatnonzero((large > 0).any(axis)) for axis in (1, 0))
    ink = large[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]
    canvas[top : top + ink.shape[0], left : left + ink.shape[1]] = ink[: 280 - top, : 280 - left]
    return png(canvas)


def test_a_drawing_is_centred_and_scaled_as_mnist_is():
    """MNIST's own images, enlarged and moved, come back as they were."""
    scene = small(FAST)
    right = []
    for row in range(0, 400, 8):
        image = scene.pool[row, 0].numpy()
        for scale, top, left in ((6, 2, 100), (9, 40, 10)):
            source = {"drawn": url(drawn(image, scale, top, left))}
            answer = scene.act(source, [0])
            seen = opened(answer["image"])
            right.append(answer["sides"][0]["before"] == scene.names[int(scene.states[row])])
            assert np.corrcoef(seen.ravel(), image.ravel())[0, 1] > 0.75
            assert not answer["known"]
    assert np.mean(right) > 0.95


def test_two_drawings_side_by_side_are_two_digits():
    scene, digits = small(TORUS), brojepa.open_world("mnist").test
    left, right = (np.asarray(Image.open(io.BytesIO(drawn(digits.images[i, 0].numpy(), 7, 20, 60)))) for i in (0, 1))
    answer = scene.act({"drawn": url(png(np.concatenate((left, right), 1)))}, [1, 1])
    assert answer["start"] == "7 2"
    assert answer["sides"][0]["after"] == "8 3"


def test_an_empty_pad_asks_for_a_drawing():
    with pytest.raises(RequestError, match="draw"):
        small(FAST).act({"drawn": url(png(np.zeros((280, 280), np.uint8)))}, [1])


def test_uploads_are_read_inverted_and_of_any_size():
    scene = small(FAST)
    image = scene.pool[9, 0].numpy()
    name = scene.names[int(scene.states[9])]
    as_it_is = scene.act({"file": url(png(image))}, [0])
    assert np.array_equal(opened(as_it_is["image"]), image)
    large = np.kron(255 - image, np.ones((11, 11), np.uint8))
    photo = scene.act({"file": url(png(large, "JPEG"))}, [0])
    assert photo["sides"][0]["before"] == name
    assert "inverted" in photo["note"]


def test_what_is_no_image_or_too_large_is_refused():
    scene = small(FAST)
    for bad, words in (
        (url(b"#!/bin/sh\necho hello"), "Pillow"),
        (url(png(np.zeros((28, 28), np.uint8))[:-30]), "upload"),
        ("data:image/png;base64,%%%%", "damaged"),
        ("file:///etc/passwd", "no file"),
        ("/etc/passwd", "no file"),
        ("data:image/png;base64," + "A" * 14_000_000, "10 MB"),
    ):
        with pytest.raises(RequestError, match=words):
            scene.act({"file": bad}, [1])
    with pytest.raises(RequestError, match="no image"):
        scene.act({"path": "/etc/passwd"}, [1])
    assert pictures.LARGEST == 10_000_000


def test_questions_of_a_wrong_form_are_refused():
    scene = small(FAST)
    for source in (None, 5, "x", [], {"file": 5}, {"drawn": []}, {"test": math.inf}, {"test": "0"}, {"test": None}):
        with pytest.raises(RequestError):
            scene.act(source, [1])
    with pytest.raises(RequestError, match="no number"):
        scene.roll({"test": 0}, [1], math.nan)


def test_a_picture_that_unpacks_to_too_much_is_refused_and_a_large_one_is_shrunk_first():
    bomb = io.BytesIO()
    Image.new("1", (20_000, 20_000)).save(bomb, "PNG")
    for name in ("file", "drawn"):
        with pytest.raises(RequestError, match="pixels"):
            small(FAST).act({name: url(bomb.getvalue())}, [1])
    read = pictures.read(url(png(np.full((40, 6000, 3), 7, np.uint8))))
    assert (read.size, read.getextrema()) == ((pictures.SIDE, 14), ((7, 7),) * 3)


def test_actions_outside_the_group_are_refused():
    scene = small(FAST)
    for k in ([10], [1, 1], []):
        with pytest.raises(RequestError, match="action"):
            scene.act({"test": 0}, k)


def test_worlds_that_the_page_cannot_show_are_one_line(cli: Cli, trained, tmp_path):
    if find_spec("gradio") is None:
        pytest.skip("gradio is not installed")
    line = one_line(cli("demo", "dihedral/fast", "--no-browser"), 2)
    assert "dihedral" in line
    assert "rotation/fast" in line
    assert "another world" in one_line(cli("demo", "rotation/fast", "--baseline", "mnist/jepa-mlp"), 2)
    assert "--port" in one_line(cli("demo", "--port", "99999"), 2)
    assert "not a run directory" in one_line(cli("demo", tmp_path / "nowhere"), 2)


def test_own_runs_can_be_shown_with_what_they_have(trained):
    """A run without a decoder, on own images, and no baseline for them."""
    scene = stage(trained[0], device="cpu")
    assert (scene.facts["decodes"], scene.facts["baseline"]) == (False, None)
    answer = scene.act({"test": 0}, [1])
    assert answer["sides"][0]["decoded"] is None
    assert stage(trained[0], trained[0], device="cpu").facts["baseline"].endswith("seed 7")


def test_a_model_that_predicts_states_is_refused(cli: Cli, digits, tmp_path):
    done = cli("train", "mnist/supervised-mlp", "--world", digits, "--epochs", 1, "--out", tmp_path, "--quiet")
    assert done.code == 0
    (result,) = tmp_path.rglob("result.json")
    with pytest.raises(RequestError, match="JEPA"):
        stage(result.parent, device="cpu")


def test_without_gradio_the_command_says_what_to_install(cli: Cli, monkeypatch):
    monkeypatch.setattr(sys.modules["brojepa.cli.demo"], "find_spec", lambda name: None)
    assert "brojepa[demo]" in one_line(cli("demo"), 2)


def test_few_images_in_colour_with_long_names_are_shown(tmp_path):
    """Three states of own images, fewer than the nearest that are shown."""
    rng = np.random.default_rng(0)
    states = np.arange(60) % 3
    images = (rng.random((60, 8, 8, 3)) * 60 + 180 * np.eye(3)[states][:, None, None]).astype(np.uint8)
    names = ["a red one", "a green one", "a blue one"]
    world = brojepa.World.from_arrays("colours", (images, states), (images[:3], states[:3]), names=names)
    model = brojepa.build(brojepa.Config().replace(latent=8), brojepa.Task.of(world), torch.Generator().manual_seed(0))
    scene = brojepa_scene(world, (-1, 1), {"own": model.eval()})
    assert not scene.facts["ink"], "nobody draws in colour"
    answer = scene.act({"test": 1}, [2])
    assert (answer["start"], answer["right"]) == ("a green one", "a red one")
    assert len(answer["sides"][0]["nearest_names"]) == 3
    assert opened(answer["image"]).shape == (8, 8, 3)
    assert scene.roll({"test": 0}, [1], 7)["steps"] == 7
    assert {one["word"] for one in scene.facts["allowed"]} == {"-2", "-1", "+1", "+2"}


def test_a_world_of_own_code_is_not_run_without_trust(module, tmp_path):
    name = module(PARTS)
    wanted = brojepa.Config().replace(world=f"{name}:make_world", latent=8, epochs=1, batch_size=60)
    made = brojepa.train(wanted, out=tmp_path / "out", device="cpu", quiet=True)
    del sys.modules[name]
    (tmp_path / f"{name}.py").write_text("raise SystemExit('it ran')")
    with pytest.raises(RequestError, match="trust"):
        stage(made.path, device="cpu")
    (tmp_path / f"{name}.py").write_text(PARTS)
    assert stage(made.path, device="cpu", trust=True).act({"test": 0}, [1])["right"]
