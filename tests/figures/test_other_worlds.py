"""Figures of runs whose world is no plain cycle of digits: what makes sense is drawn, and the rest says why not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import Outcome
from helpers import ROOT

import brojepa
from brojepa.config import Config
from brojepa.figures import FIGURES, KINDS, data
from brojepa.figures.choose import Candidate, choose, lacking, unsuited
from brojepa.presets import PRESETS, preset
from brojepa.runs import Run
from brojepa.worlds.pictures import state_names

Cli = Callable[..., Outcome]
TINY: dict[str, Any] = {
    "encoder": "mlp", "latent": 16, "epochs": 1, "batch_size": 50, "lr": 3e-3, "precision": "float32",
    "target_encoder": "stop-gradient",
}  # fmt: skip
MADE: dict[str, tuple[str, tuple[int | str, ...], str]] = {  # the world, training actions, its group as one line has it
    "torus": ("torus:{0},{0}", ("1:0", "-1:0", "0:1", "0:-1"), "Z3xZ3 states"),
    "rotation": ("rotation:{0}", (-10, 10), "SO2 poses"),
    "dihedral": ("dihedral:{0}", ("r", "r-1", "s"), "D4 poses"),
}


@pytest.fixture(scope="module")
def made(tiny: str, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Run]:
    """A run of each world, trained once."""
    out, runs = tmp_path_factory.mktemp("made"), {}

    def run(name: str) -> Run:
        if name not in runs:
            world, actions, _ = MADE[name]
            config = Config(world=world.format(tiny), train_actions=actions, **TINY)
            runs[name] = brojepa.train(config, out=out)
        return runs[name]

    return run


def lines(outcome: Outcome) -> dict[str, str]:
    return dict(line.split(": ", 1) for line in outcome.out.splitlines())


def content(directory: Path, name: str) -> dict[str, Any]:
    return data.unpack((directory / f"{name}.npz").read_bytes(), name)


@pytest.mark.parametrize("name", MADE)
def test_what_suits_a_run_is_drawn_and_the_rest_says_what_it_is_for(name, made, cli: Cli, tmp_path):
    run = made(name)
    only = "accuracy,prototypes,circle-multi,rollout-multi,drift"
    outcome = cli("figures", run.path, "--only", only, "--out", tmp_path)
    assert (outcome.code, outcome.err) == (0, "")
    found = lines(outcome)
    assert list(found) == only.split(",")
    labelled = name == "torus"
    for figure, line in found.items():
        drawn = figure == "accuracy" or (labelled and figure == "prototypes")
        assert (tmp_path / f"{figure}.png").is_file() is drawn
        if not drawn:
            assert MADE[name][2] in line
            assert str(run.path) in line
            assert KINDS[FIGURES[figure].kind] in line


@pytest.mark.parametrize("name", MADE)
def test_accuracy_is_the_results_and_marks_trained_actions(name, made, cli: Cli, tmp_path):
    run = made(name)
    assert cli("figures", run.path, "--only", "accuracy", "--out", tmp_path).code == 0
    found = content(tmp_path, "accuracy")
    table, actions = found["bro.accuracy"], found["bro.actions"]
    if name == "torus":
        np.testing.assert_allclose(table, run.result["by_state"]["accuracy"], rtol=1e-6)
        assert found["bro.seen"] == ["+1:0", "-1:0", "0:+1", "0:-1"]
    else:
        assert dict(zip(actions, table[0].tolist(), strict=True)) == pytest.approx(run.result["per_action"])
        assert found["bro.seen"] == {"rotation": ["-10", "+10"], "dihedral": ["r", "r3", "s"]}[name]
        assert found["runs"]["bro"]["states"] == []
    if name == "rotation":
        assert actions == sorted(actions, key=float)


def test_a_pose_run_has_learning_curves_without_a_matrix(tiny, cli: Cli, tmp_path):
    wanted = FIGURES["jepa"].needs["run"].config
    config = wanted.replace(world=f"rotation:{tiny}", **TINY)
    run = brojepa.train(config, out=tmp_path)
    outcome = cli("figures", run.path, "--only", "jepa", "--out", tmp_path / "figures")
    assert outcome.code == 0, outcome
    found = content(tmp_path / "figures", "jepa")
    assert "run.cosine" not in found
    assert np.allclose(found["run.seen"], [row["seen"] for row in run.metrics])
    assert (found["seen"], found["unseen"]) == ("±1 ±2 ±4", "±3")


@pytest.mark.parametrize("world", ["dihedral", "pose", "rotation", "torus", "pairs"])
def test_accuracy_of_the_committed_runs_is_drawn(world, cli: Cli, tmp_path):
    outcome = cli("figures", ROOT / "results" / world, "--only", "accuracy", "--out", tmp_path)
    assert (outcome.code, outcome.err) == (0, "")
    found = content(tmp_path, "accuracy")
    assert set(found["bro.seen"]) < set(found["bro.actions"])


def test_nothing_drawn_is_an_error_that_says_so_once(made, cli: Cli, tmp_path):
    outcome = cli("figures", made("dihedral").path, "--only", "circle-multi", "--out", tmp_path)
    assert outcome.code == 2
    assert outcome.out.count("\n") == outcome.err.count("\n") == 1
    assert "D4" in outcome.out
    assert "no figure drawn" in outcome.err


# Choosing


def candidate(tmp_path: Path, world: str, kind: str, weights: bool = True) -> Candidate:
    run = Run(tmp_path / world)
    run.path.mkdir()
    if weights:
        run.model_file.touch()
    return Candidate(run, PRESETS["mnist/bro-mlp-mfr-fixed"].replace(world=world), 0, "", kind)


def test_a_run_that_the_figure_can_show_is_chosen_before_others(tmp_path):
    spec = FIGURES["circle-multi"]
    poses, torus = candidate(tmp_path, "dihedral", "poses"), candidate(tmp_path, "a-torus", "states")
    letters = candidate(tmp_path, "emnist", "cycle")
    assert choose(spec, [poses, torus, letters])["run"] == letters.run
    assert choose(spec, [poses, torus])["run"] is None
    assert unsuited(spec, [poses, torus]) == poses
    assert choose(FIGURES["prototypes"], [poses, torus])["multi"] == torus.run
    assert choose(FIGURES["accuracy"], [poses])["bro"] == poses.run


def test_a_run_that_lacks_only_its_weights_is_asked_for(tmp_path):
    spec = FIGURES["circle-multi"]
    found = [candidate(tmp_path, "dihedral", "poses"), candidate(tmp_path, "mnist", "cycle", weights=False)]
    assert lacking(spec, choose(spec, found)) == [spec.needs["run"]]
    assert unsuited(spec, found) is None


@pytest.mark.parametrize(("name", "kind"), [("torus", "states"), ("rotation", "poses"), ("dihedral", "poses")])
def test_the_kind_of_a_run_is_read_off_its_world(name, kind, made):
    found = Candidate.of(made(name))
    assert (found.kind, found.group) == (kind, MADE[name][2].split()[0])


# Some of the states


def test_some_of_the_states_keep_their_names():
    assert state_names("emnist", 26)[:3] == ["A", "B", "C"]
    assert state_names("emnist:a-m", 13) == list("ABCDEFGHIJKLM")
    assert state_names("emnist:x-z,b", 4) == list("XYZB")
    assert state_names("mnist:3-5", 3) == ["3", "4", "5"]
    assert state_names("torus:mnist,emnist", 260)[:2] == ["0", "1"]
    assert state_names("data/letters.npz", 3) == ["0", "1", "2"]


def test_some_letters_are_looked_for_where_data_dir_says(cli: Cli, letters, tmp_path):
    config = preset("mnist/bro-mlp-mfr-learned").replace(world="emnist:c-f", **TINY)
    run = brojepa.train(config, out=tmp_path, data_dir=letters)
    outcome = cli("figures", run.path, "--only", "circle-multi", "--out", tmp_path / "figures", "--data-dir", letters)
    assert (outcome.code, outcome.err) == (0, "")
    assert content(tmp_path / "figures", "circle-multi")["runs"]["run"]["states"] == ["C", "D", "E", "F"]
