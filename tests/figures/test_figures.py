"""Figures: chosen from runs, collected right, drawn legibly, and drawn again from their data alone."""

from __future__ import annotations

import io
import math
import re
import shlex
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
import torch
from conftest import Outcome
from helpers import ROOT, checked, says
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

import brojepa
from brojepa import training
from brojepa.config import FIELDS, Config
from brojepa.figures import FIGURES, MOST, Need, Spec, data, geometry, paper_runs, style
from brojepa.figures.choose import Candidate, choose, fits, lacking
from brojepa.figures.make import collect
from brojepa.figures.sources import Source
from brojepa.presets import PRESETS, preset
from brojepa.runs import Run
from brojepa.training.decoding import train_decoder

Cli = Callable[..., Outcome]
TINY = {"latent": 16, "epochs": 2, "batch_size": 50, "lr": 3e-3, "precision": "float32"}
ALONE = ["jepa", "angles", "angles-positive", "accuracy", "parity", "spectrum", "curves"]
"""The figures that need no weights"""


def tiny_runs(world: Path) -> list[tuple[str, Config, int]]:
    """What the figures need, on a few images and for a moment."""
    return [(name, config.replace(world=str(world), **TINY), seed) for name, config, seed in paper_runs()]


@pytest.fixture(scope="session")
def runs(digits: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory that holds every run that the figures need."""
    out = tmp_path_factory.mktemp("runs")
    for name, config, seed in tiny_runs(digits):
        run = training.train(config, seed=seed, out=out, name=name)
        if name == FIGURES["decoded"].needs["run"].preset:
            train_decoder(run.path, steps=10, device="cpu")
    return out


@pytest.fixture(scope="session")
def drawn(cli: Cli, runs: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Outcome]:
    out = tmp_path_factory.mktemp("figures")
    return out, cli("figures", runs, "--out", out)


@pytest.fixture(scope="session")
def sources(runs: Path) -> Callable[[str], dict[str, Source]]:
    """The runs of a figure, ready to be read."""
    found = [candidate(file.parent) for file in sorted(runs.rglob("config.json"))]
    return lambda name: {r: Source(run, None, {}) for r, run in choose(FIGURES[name], found).items() if run}


def candidate(path: Path) -> Candidate:
    return Candidate.of(Run(path))


def one_line(outcome: Outcome, code: int = 2) -> str:
    assert outcome.code == code, outcome
    assert re.fullmatch(r"brojepa: [^\n]+\n", outcome.err), outcome.err
    assert "unexpected error" not in outcome.err
    return outcome.err


# Every figure, from runs to files


def test_every_figure_is_drawn_with_a_line_each(drawn):
    out, outcome = drawn
    assert (outcome.code, outcome.err) == (0, "")
    *lines, last = outcome.out.splitlines()
    assert lines == [f"{name}: {out / name}.png" for name in FIGURES if name != "curves"]
    assert last == f"curves: {out}/curves.png, of the first {MOST} of {len(paper_runs())} runs"
    assert sorted(p.name for p in out.iterdir()) == sorted(f"{n}.{k}" for n in FIGURES for k in ("npz", "png", "svg"))


@pytest.mark.parametrize("name", FIGURES)
def test_the_files_are_valid_small_and_described(name, drawn):
    out, _ = drawn
    with Image.open(out / f"{name}.png") as picture:
        assert picture.format == "PNG"
        assert picture.width >= 700
        assert FIGURES[name].shows in picture.info["Description"]
        shades = np.asarray(picture.convert("L"))
        assert 0.005 < (shades < 200).mean() < 0.7  # neither blank nor black
    root = ElementTree.fromstring((out / f"{name}.svg").read_bytes())
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    text = " ".join(t.strip() for t in root.itertext())
    assert FIGURES[name].shows in text
    assert "mnist/" in text  # which runs
    assert not re.search(r"\b20\d\d-\d\d", text)  # no date
    assert (out / f"{name}.svg").stat().st_size < 300_000
    assert (out / f"{name}.npz").stat().st_size < 150_000


def test_drawing_again_from_the_data_gives_the_same_bytes(cli, drawn, tmp_path):
    """One figure of each module."""
    out, _ = drawn
    names = list({spec.module: name for name, spec in FIGURES.items()}.values())
    for name in names:
        shutil.copy(out / f"{name}.npz", tmp_path)
    outcome = cli("figures", tmp_path)
    assert (outcome.code, outcome.err) == (0, "")
    lines = {f"{name}: {tmp_path / name}.png, from {tmp_path / name}.npz" for name in names}
    assert set(outcome.out.splitlines()) == lines
    assert len(list(tmp_path.iterdir())) == 3 * len(names)
    for file in tmp_path.iterdir():
        assert file.read_bytes() == (out / file.name).read_bytes(), file.name


def test_the_users_own_settings_do_not_change_a_figure(cli, drawn, tmp_path):
    import matplotlib as mpl

    with mpl.rc_context({"font.size": 30, "svg.hashsalt": "other", "axes.facecolor": "red"}):
        assert cli("figures", drawn[0] / "drift.npz", "--out", tmp_path).code == 0
        assert mpl.rcParams["font.size"] == 30
    assert (tmp_path / "drift.svg").read_bytes() == (drawn[0] / "drift.svg").read_bytes()


def test_one_run_draws_what_it_can_into_itself_and_names_what_is_missing(cli, runs, tmp_path):
    configs = {p.parent: Run(p.parent).config for p in runs.rglob("config.json")}
    wanted = ("jepa", "additive", (-1, 1))
    source = next(p for p, c in configs.items() if (c.method, c.action, c.train_actions) == wanted)
    run = tmp_path / "run"
    shutil.copytree(source, run)
    outcome = cli("figures", run, "--only", "drift,circle")
    assert outcome.code == 0
    first, second = outcome.out.splitlines()
    assert first == (
        f"drift: {run}/figures/drift.png, without BRo-JEPA, fixed angles (with weights): brojepa train "
        "mnist/bro-mlp-mfr-fixed; BRo-JEPA, learned angles (with weights): brojepa train mnist/bro-mlp-mfr-learned"
    )
    assert second == (
        "circle: not drawn, it lacks single-frequency (with weights): brojepa train mnist/bro-mlp-sfr-fixed"
    )
    assert sorted(p.suffix for p in (run / "figures").iterdir()) == [".npz", ".png", ".svg"]


def test_runs_without_weights_give_the_figures_that_need_numbers_only(cli, runs, tmp_path):
    for file in runs.rglob("*.json*"):
        place = tmp_path / "results" / file.relative_to(runs)
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, place)
    found = [candidate(file.parent) for file in (tmp_path / "results").rglob("config.json")]
    assert [name for name, spec in FIGURES.items() if not lacking(spec, choose(spec, found))] == ALONE
    outcome = cli("figures", tmp_path / "results", "--out", tmp_path / "out", "--only", "circle,jepa")
    assert outcome.code == 0
    assert outcome.out.splitlines() == [
        "circle: not drawn, it lacks single-frequency (with weights): brojepa train mnist/bro-mlp-sfr-fixed",
        f"jepa: {tmp_path}/out/jepa.png",
    ]


def test_paper_trains_the_runs_and_draws_from_them(cli, digits, tmp_path, monkeypatch):
    wanted = [run for run in tiny_runs(digits) if run[1].action == "mfr-learned"]
    monkeypatch.setattr(sys.modules["brojepa.cli.figures"], "paper_runs", lambda: wanted)
    words = ("figures", "--paper", "--runs-dir", tmp_path / "runs", "--only", "spectrum", "--out", tmp_path / "out")
    outcome = cli(*words)
    assert (outcome.code, outcome.err) == (0, "")
    assert f"{len(wanted)} runs done\n" in outcome.out
    assert (tmp_path / "out" / "spectrum.png").is_file()
    stamps = [p.stat().st_mtime_ns for p in sorted((tmp_path / "runs").rglob("result.json"))]
    assert cli(*words).code == 0
    assert [p.stat().st_mtime_ns for p in sorted((tmp_path / "runs").rglob("result.json"))] == stamps


def test_letters_and_few_coloured_states(cli, letters, tmp_path):
    """26 states with names of letters, and 3 states of colour images of another size."""
    rng = np.random.default_rng(0)
    labels = np.arange(60) % 3
    images = (rng.integers(0, 60, (60, 10, 10, 3)) + 60 * labels[:, None, None, None]).astype(np.uint8)
    np.savez(tmp_path / "three.npz", images=images, labels=labels)
    for world, only, more in (
        ("emnist", "examples,circle-multi,accuracy", {"data_dir": letters}),
        (str(tmp_path / "three.npz"), "examples,rollout-multi,drift", {}),
    ):
        out = tmp_path / Path(world).stem
        config = preset("mnist/bro-mlp-mfr-learned").replace(world=world, **TINY)
        run = brojepa.train(config, out=out, name="mnist/bro-mlp-mfr-learned", **more)
        extra = ("--data-dir", letters) if more else ()
        outcome = cli("figures", run.path, "--only", only, "--out", out / "figures", *extra)
        assert outcome.code == 0, outcome
        assert len(list((out / "figures").glob("*.png"))) == 3
    content = data.unpack((tmp_path / "emnist/figures/accuracy.npz").read_bytes(), "accuracy")
    assert content["runs"]["bro"]["states"][:2] == ["A", "B"]


# The list


def test_what_paper_trains_is_enough_for_every_figure(tmp_path):
    found = []
    for i, (name, config, seed) in enumerate(paper_runs()):
        assert name in PRESETS
        run = Run(tmp_path / str(i))
        run.path.mkdir()
        run.model_file.touch()
        found.append(Candidate(run, config, seed))
    assert len({(c.config, c.seed) for c in found}) == len(found)
    for spec in FIGURES.values():
        if any(need.decoder for need in spec.needs.values()):  # which is trained for a run that is there
            continue
        choice = choose(spec, found)
        assert None not in choice.values()
        for role, need in spec.needs.items():
            (exact,) = [c for c in found if c.run == choice[role]]
            assert (exact.config, exact.seed) == (need.config, need.seed)


NEEDS = {need.command: need for spec in FIGURES.values() for need in spec.needs.values()}


@pytest.mark.parametrize("command", NEEDS)
def test_the_command_that_is_named_makes_the_run(command, cli, monkeypatch):
    asked: list[tuple[Any, int]] = []

    def train(name: str, *, seed: int, callbacks: Any, quiet: bool, **rest: Any) -> None:
        knobs = {key: value for key, value in rest.items() if key in FIELDS}
        asked.append((preset(name).replace(**knobs), seed))

    monkeypatch.setattr(training, "train", train)
    program, *words = shlex.split(command)
    assert program == "brojepa"
    assert cli(*words).code == 0
    assert asked == [(NEEDS[command].config, NEEDS[command].seed)]


def test_help_names_every_figure_and_so_does_the_document(cli):
    said = cli("figures", "--help").out
    text = (ROOT / "docs" / "figures.md").read_text()
    for name in FIGURES:
        assert re.search(rf"^  {name} ", said, re.MULTILINE)
        assert f"`{name}`" in text


# Choosing


def candidates(tmp_path: Path, *rows: tuple[str, dict[str, Any], int]) -> list[Candidate]:
    found = []
    for i, (name, changes, seed) in enumerate(rows):
        run = Run(tmp_path / str(i))
        run.path.mkdir()
        run.model_file.touch()
        found.append(Candidate(run, preset(name).replace(**changes), seed))
    return found


def test_the_nearest_config_is_chosen_and_then_the_lowest_seed(tmp_path):
    name = "mnist/bro-mlp-sfr-fixed"
    spec = Spec("", "", "", {"run": Need("", name)})
    found = candidates(tmp_path, (name, {"epochs": 3}, 0), (name, {}, 4), (name, {}, 2), ("mnist/jepa-mlp", {}, 0))
    assert choose(spec, found)["run"] == found[2].run
    assert choose(spec, found[:1])["run"] == found[0].run
    assert choose(spec, found[3:])["run"] is None
    found[2].run.model_file.unlink()
    assert choose(spec, found)["run"] == found[1].run


def test_the_runs_of_a_figure_come_from_one_world(tmp_path):
    single, multi = "mnist/bro-mlp-sfr-fixed", "mnist/bro-mlp-mfr-fixed"
    spec = Spec("", "", "", {"a": Need("", single), "b": Need("", multi)})
    other = {"world": "emnist"}
    found = candidates(tmp_path, (single, {}, 0), (single, other, 0), (multi, other, 0))
    assert choose(spec, found) == {"a": found[1].run, "b": found[2].run}
    assert lacking(spec, choose(spec, found[:2])) == [spec.needs["b"]]


@pytest.mark.parametrize(
    ("name", "changes", "stands"),
    [
        ("mnist/jepa-mlp", {}, True),
        ("mnist/jepa-resnet18", {"epochs": 3}, True),
        ("mnist/jepa-mlp", {"variance": 0.0}, False),
        ("mnist/jepa-mlp-consistency", {}, False),
        ("mnist/supervised-mlp", {}, False),
        ("mnist/bro-mlp-mfr-fixed", {}, False),
    ],
)
def test_what_can_stand_for_a_jepa_with_additive_embedding(name, changes, stands):
    assert fits(FIGURES["drift"].needs["jepa"], preset(name).replace(**changes)) is stands


def test_where_angles_start_keeps_their_figures_apart():
    learned = preset("mnist/bro-mlp-mfr-learned")
    for start in ("symmetric", "positive"):
        config = learned.replace(angle_range=start)
        assert fits(FIGURES["angles"].needs["multi"], config) is (start == "symmetric")
        assert fits(FIGURES["angles-positive"].needs["multi"], config) is (start == "positive")
        assert fits(FIGURES["spectrum"].needs["run"], config)


# What is collected


def test_examples_hold_the_nearest_image_and_what_the_probe_reads(sources):
    chosen = sources("examples")
    content = collect("examples", chosen)
    for role, source in chosen.items():
        z, images = source.latents.z.double().numpy(), source.test.images[:, 0].numpy()
        for i, k in enumerate(content["actions"]):
            place = next(j for j in range(len(images)) if (images[j] == content["context"][i]).all())
            with torch.no_grad():
                ahead = source.model.act(source.latents.z[place], k)
            cosine = z @ ahead.double().numpy() / np.linalg.norm(z, axis=1) / float(ahead.norm())
            cosine[place] = -1
            assert (content[f"{role}.image"][i] == images[cosine.argmax()]).all()
            assert content[f"{role}.state"][i] == int(source.model.classify(ahead))
            assert content["right"][i] == (int(source.states[place]) + k) % 10


def test_the_matrices_are_cosines_of_mean_latents(sources):
    source = sources("prototypes")["single"]
    content = collect("prototypes", {"single": source})
    means = [np.mean([z for z, y in zip(source.z, source.states, strict=True) if y == s], axis=0) for s in range(10)]
    wanted = [[np.dot(a, b) / math.sqrt(np.dot(a, a) * np.dot(b, b)) for b in means] for a in means]
    assert np.allclose(content["single.cosine"], wanted, atol=1e-5)


def test_rollouts_are_the_models_own_and_say_what_was_trained(sources):
    for name in ("rollout", "rollout-multi"):
        chosen = sources(name)
        content = collect(name, chosen)
        source = chosen["run"]
        start = source.latents.z[list(source.states).index(0)]
        assert (content["actions"], content["seen"]) == ([1, -3], [True, False])
        for k, read, gap in zip(content["actions"], content["read"], content["gaps"], strict=True):
            with torch.no_grad():
                path = source.model.rollout(start, k, 10)
            assert read == source.model.classify(path).tolist()
            assert gap == pytest.approx(float((path[-1] - path[0]).norm() / start.norm()), abs=1e-5)
        assert content["paths"].shape == (2, 11, 2)


def test_drift_is_measured_as_evaluation_measures(sources):
    chosen = sources("drift")
    content = collect("drift", chosen)
    for role, source in chosen.items():  # 20 images of each state are fewer than are asked for: all are used
        assert content[f"{role}.accuracy"][1] == pytest.approx(source.result["per_action"]["+1"])
        assert content[f"{role}.distance"].shape == (101,)
    assert np.allclose(content["fixed.accuracy"][10::10], content["fixed.accuracy"][0])  # ten steps are none


def test_supervised_bars_are_shares_of_right_predictions(sources):
    chosen = sources("supervised")
    content = collect("supervised", chosen)
    assert content["actions"] == [-4, -3, -2, -1, 1, 2, 3, 4]
    table = chosen["run"].result["per_action"]
    assert content["right"] == pytest.approx([table[f"{k:+d}"] for k in content["actions"]])


def test_curves_are_the_rows_of_metrics(sources):
    for name in ("angles", "angles-positive", "jepa"):
        chosen = sources(name)
        content = collect(name, chosen)
        for role, source in chosen.items():
            for key in ("seen", "zero_shot", "loss", "validation_loss"):
                assert np.allclose(content[f"{role}.{key}"], [row[key] for row in source.run.metrics])
    assert content["run.cosine"].shape == (10, 10)


# Geometry


@checked
@given(st.integers(0, 2**32 - 1), st.integers(3, 40), st.integers(2, 12))
def test_pca_agrees_with_a_singular_value_decomposition(seed, count, dim):
    rng = np.random.default_rng(seed)
    z = (rng.normal(size=(count, dim)) * rng.uniform(0.1, 5, dim) + rng.normal(size=dim) * 10).astype(np.float32)
    pca = geometry.PCA.of(z)
    centred = z.astype(float) - z.astype(float).mean(0)
    _, values, axes = np.linalg.svd(centred, full_matrices=False)
    assert np.allclose(pca.shares, values[:2] ** 2 / (values**2).sum(), atol=1e-6)
    if values[0] > 1.01 * values[1] and values[1] > 1.01 * (values[2] if len(values) > 2 else 0):
        assert np.allclose(abs(pca(z)), abs(centred @ axes[:2].T), atol=1e-3 * values[0])


@checked
@given(st.integers(0, 2**32 - 1))
def test_orienting_turns_nothing_but_signs(seed):
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(30, 5))
    pca = geometry.PCA.of(z)
    turned = pca.oriented(z[:4])
    assert np.allclose(abs(turned(z)), abs(pca(z)))
    (x, y), (u, v) = turned(z[:2])
    assert x >= 0
    assert x * v - y * u >= 0


def test_collapsed_latents_are_drawn_not_divided_by_zero():
    assert (geometry.cosines(np.zeros((3, 4))) == 0).all()
    assert np.isfinite(geometry.PCA.of(np.ones((5, 4))).shares).all()


def test_an_even_choice_is_even():
    states = np.repeat(np.arange(3), (50, 7, 200))
    chosen = geometry.even_choice(states, 10, 3)
    assert np.bincount(states[chosen]).tolist() == [10, 7, 10]
    assert len(set(chosen.tolist())) == len(chosen)


# Colours and places


def lab(srgb: np.ndarray) -> np.ndarray:
    """CIE L*a*b*, D65; an independent road to distances between colours."""
    linear = np.where(srgb <= 0.04045, srgb / 12.92, ((srgb + 0.055) / 1.055) ** 2.4)
    xyz = linear @ np.array([[0.4124, 0.2126, 0.0193], [0.3576, 0.7152, 0.1192], [0.1805, 0.0722, 0.9505]])
    t = xyz / [0.9505, 1, 1.089]
    f = np.where(t > (6 / 29) ** 3, np.cbrt(t), t / (3 * (6 / 29) ** 2) + 4 / 29)
    return np.stack((116 * f[:, 1] - 16, 500 * (f[:, 0] - f[:, 1]), 200 * (f[:, 1] - f[:, 2])), 1)


DEUTERANOPIA = np.array([[0.367, 0.861, -0.228], [0.280, 0.673, 0.047], [-0.012, 0.043, 0.969]])  # Machado 2009
PROTANOPIA = np.array([[0.152, 1.053, -0.205], [0.115, 0.786, 0.099], [-0.004, -0.048, 1.052]])


@pytest.mark.parametrize("sight", [np.eye(3), DEUTERANOPIA, PROTANOPIA], ids=["usual", "deuteranopia", "protanopia"])
def test_states_have_colours_that_all_can_tell_apart(sight):
    colours = style.state_colours(10)
    assert colours.shape == (10, 3)
    linear = np.where(colours <= 0.04045, colours / 12.92, ((colours + 0.055) / 1.055) ** 2.4) @ sight.T
    linear = linear.clip(0, 1)
    seen = lab(np.where(linear <= 0.0031308, 12.92 * linear, 1.055 * linear ** (1 / 2.4) - 0.055))
    apart = np.linalg.norm(seen[:, None] - seen[None], axis=2) + 100 * np.eye(10)
    assert apart.min() > 8  # 2.3 is just noticeable


@checked
@given(st.integers(0, 2**32 - 1), st.integers(2, 26))
def test_discs_are_moved_apart_and_no_further_than_needed(seed, count):
    points = np.random.default_rng(seed).integers(0, 4, (count, 2)).astype(float)
    places = style.spread(points, 0.3)
    gaps = np.linalg.norm(places[:, None] - places[None], axis=2) + np.eye(count)
    assert gaps.min() > 0.28
    alone = (np.linalg.norm(points[:, None] - points[None], axis=2) + 9 * np.eye(count)).min(1) > 0.9
    assert np.linalg.norm(places - points, axis=1)[alone].max(initial=0) < 0.3


# Wrong requests


def test_wrong_requests_are_one_line(cli, runs, drawn, tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "notes.txt").write_text("x")
    (tmp_path / "broken.npz").write_bytes(b"PK not really")
    (tmp_path / "taken").write_text("x")
    np.savez(tmp_path / "other.npz", images=np.zeros(3))
    cases = [
        (["figures", tmp_path / "nowhere"], "no such path"),
        (["figures", tmp_path / "empty"], "no finished run and no figure data"),
        (["figures", tmp_path / "notes.txt"], "no figure data"),
        (["figures", tmp_path / "broken.npz"], "is not a figure's data"),
        (["figures", tmp_path / "other.npz"], "is not a figure's data"),
        (["figures", runs, "--only", "spectrm"], "unknown figure 'spectrm': did you mean spectrum"),
        (["figures", runs, "--only", ","], "--only names no figure"),
        (["figures", runs, "--olny", "x"], "unknown flag '--olny': did you mean --only"),
    ]
    for words, message in cases:
        assert says(one_line(cli(*words)), message)
    assert cli("figures", runs, "--only", "spectrum", "--out", tmp_path / "taken").code == 2


def test_data_of_a_figure_that_no_longer_exists(cli, tmp_path):
    (tmp_path / "old.npz").write_bytes(data.pack({"figure": "old", "runs": {}}))
    assert "'old'" in one_line(cli("figures", tmp_path / "old.npz"))


def test_nothing_to_draw_says_what_is_missing(cli, drawn, tmp_path):
    shutil.copy(drawn[0] / "spectrum.npz", tmp_path)
    outcome = cli("figures", tmp_path, "--only", "circle")
    assert outcome.code == 2
    assert "brojepa train mnist/bro-mlp-sfr-fixed" in outcome.out
    assert "no figure drawn" in outcome.err


def test_damaged_weights_spoil_one_figure_not_all(cli, runs, tmp_path):
    source = next(p.parent for p in runs.rglob("config.json") if Run(p.parent).config.action == "mfr-learned")
    run = tmp_path / "run"
    shutil.copytree(source, run)
    (run / "model.safetensors").write_bytes(b"\0" * 100)
    outcome = cli("figures", run, "--only", "spectrum,circle-multi")
    assert outcome.code == 1
    good, bad = outcome.out.splitlines()
    assert good == f"spectrum: {run}/figures/spectrum.png"
    assert bad.startswith("circle-multi: not drawn: ")
    assert "truncated" in bad


def test_without_matplotlib_one_line_says_how_to_get_it(brojepa_process, runs):
    outcome = brojepa_process("figures", runs, prelude="import sys\nsys.modules['matplotlib'] = None")
    assert "pip install 'brojepa[figures]'" in one_line(outcome)


def test_help_and_bad_names_wait_for_nothing(brojepa_process):
    check = "import atexit, sys\natexit.register(lambda: print({'torch', 'matplotlib', 'numpy'} & set(sys.modules)))"
    for words in (["figures", "--help"], ["figures", "--only", "x"]):
        assert brojepa_process(*words, prelude=check).out.endswith("set()\n")


def test_packing_keeps_everything():
    content = {"figure": "spectrum", "runs": {"run": {"seed": 1}}, "angles": np.arange(3.0), "list": [1, None, "±"]}
    back = data.unpack(data.pack(content), "here")
    assert (back.pop("angles") == content.pop("angles")).all()
    assert back == content
    assert data.pack(back) == data.pack(content)
    assert np.load(io.BytesIO(data.pack(content)), allow_pickle=False).files == ["json"]
