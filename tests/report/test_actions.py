"""Actions in words: the report, which knows no torch, agrees with the groups on which are the same, and orders them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from helpers import ROOT, checked
from hypothesis import given
from hypothesis import strategies as st
from reporting import Cli, line_of, write_run

from brojepa import groups, report
from brojepa.errors import RequestError, RunError
from brojepa.presets import PRESETS
from brojepa.report.actions import element, in_order

WORDS = {
    "Z10": ["-1", "+1", "1", "9", "+9", "-9", "0"],
    "SO2": ["2.5", "+2.5", "-10", "+10", "10", "370", "0", "0.1234567", "0.123457", "1e2", "100"],
    "Z10xZ10": ["1:0", "+1:0", "1:10", "-9:0", "0:-1", "0:9", "5:-5", "-5:5", "0:0"],
    "Z3xZ4": ["1:0", "-2:4", "2:-1", "-1:3", "1:2", "1:-2"],
    "Z4xSO2": ["1:2.5", "-3:+2.5", "1:-2.5", "0:10"],
    "D4": ["r", "r1", "r-3", "r5", "r3", "r-1", "s", "rs", "r1s", "r-3s", "r4", "r0", "1", "r4s"],
    "D3": ["r", "r-2", "r2", "r-1", "s", "r3s", "r3", "1"],
    "SO3": ["x15", "x-15", "x375", "x+15", "y15", "z-15", "x0", "y0", "z360", "x180", "x-180", "y180", "x1.5", "x1.50"],
}


@pytest.mark.parametrize("name", WORDS)
def test_words_are_the_same_action_where_the_group_writes_them_alike(name):
    group = groups.parse(name)
    written = {word: group.write(group.parse(word)) for word in WORDS[name]}
    for a in WORDS[name]:
        assert element(a, name) == element(written[a], name), a  # what result.json calls it
        for b in WORDS[name]:
            assert (element(a, name) == element(b, name)) == (written[a] == written[b]), (a, b)


@checked
@given(st.sampled_from("xyz"), st.integers(-7200, 7200), st.integers(-2, 2))
def test_turns_of_space_come_round_as_the_group_says(axis, tenths, turns):
    group, word = groups.parse("SO3"), f"{axis}{tenths / 10}"
    written = group.write(group.parse(f"{axis}{tenths / 10 + 360 * turns:.1f}"))
    assert element(word, "SO3") == element(written, "SO3")


def test_numbers_are_actions_too_and_what_no_group_reads_stands_for_itself():
    assert element(1) == element("+1") == element("1", "Z10")
    assert element(-10, "SO2") == element("-10", "SO2")
    assert element(1, "D4") == element("r4", "D4")
    assert element("0.5/0.5/0.5/0.5", "SO3") == "0.5/0.5/0.5/0.5"
    assert element("1:0") == "1:0"


def test_numbers_stand_by_value_tori_part_by_part_and_others_as_they_come():
    assert in_order(["+10", "-1", "+2", "-1", "+1"]) == ["-1", "+1", "+2", "+10"]
    assert in_order(["+2.5", "-10", "+10"]) == ["-10", "+2.5", "+10"]
    assert in_order(["+1:0", "0:+10", "-1:+2", "0:+2"]) == ["-1:+2", "0:+2", "0:+10", "+1:0"]
    assert in_order(["s", "r3", "r", "s", "1"]) == ["s", "r3", "r", "1"]
    assert in_order([]) == []


RUNS = {  # the group, the config's training actions, accuracies as training writes them, which of these were trained on
    "torus/fast": ("Z10xZ10", ("1:0", "-1:10"), {"0:+1": 0.1, "-1:0": 0.9, "+1:0": 0.8}, {"-1:0", "+1:0"}),
    "rotation/fast": ("SO2", (-10, "2.50"), {"-10": 0.9, "+2.5": 0.8, "-178": 0.1}, {"-10", "+2.5"}),
    "dihedral/fast": ("D4", ("r", "r-1", "s"), {"r": 0.9, "r3": 0.8, "s": 0.7, "rs": 0.1}, {"r", "r3", "s"}),
    "pose/fast": ("SO3", ("x15", "x345"), {"x15": 0.9, "x-15": 0.8, "0.5/0.5/0.5/0.5": 0.1}, {"x15", "x-15"}),
}


@pytest.mark.parametrize("name", RUNS)
def test_per_action_marks_what_was_trained_on_in_whatever_words(cli: Cli, tmp_path: Path, name: str) -> None:
    group, trained, measured, marked = RUNS[name]
    config = PRESETS[name].replace(train_actions=trained)
    write_run(tmp_path, config, base=name, per_action=measured, group=group)
    rows = report.per_action(tmp_path).rows()
    assert {row["action"] for row in rows if row["trained"]} == marked
    assert {row["action"]: row["mean"] for row in rows} == measured
    done = cli("report", tmp_path, "--per-action")
    assert (done.code, done.err) == (0, "")
    for action in measured:
        assert line_of(done.out, action)[1].endswith("*") == (action in marked)


def test_within_counts_degrees_and_leaves_out_what_was_trained_on_in_words(tmp_path: Path) -> None:
    config = PRESETS["rotation/fast"].replace(train_actions=("-10", "+2.50"))
    measured = {"-10": 0.9, "+2.5": 0.8, "-2": 0.4, "+5.5": 0.6, "+12": 0.1}
    write_run(tmp_path, config, base="rotation/fast", per_action=measured, group="SO2")
    (row,) = report.table(tmp_path, within=10).rows()
    assert row["zero_shot"] == pytest.approx(0.5)


def recording(out: Path, trained: list[str] | None) -> Path:
    """A run on a recording, whose config does not say what was trained on."""
    config = PRESETS["mnist/fast"].replace(world="walk.npz", train_actions=("recorded",))
    measured = {"-1": 0.9, "+1": 0.9, "+2": 0.4, "+3": 0.6}
    path = write_run(out, config, base="mnist/fast", per_action=measured, group="Z10")
    file = path / "result.json"
    extra = {} if trained is None else {"trained_actions": trained}
    file.write_text(json.dumps(json.loads(file.read_text()) | extra))
    return path


def test_what_a_recording_was_trained_on_is_marked_and_not_held_out(tmp_path: Path) -> None:
    recording(tmp_path, ["+1", "-1"])
    marked = {row["action"]: row["trained"] for row in report.per_action(tmp_path).rows()}
    assert marked == {"-1": True, "+1": True, "+2": False, "+3": False}
    (row,) = report.table(tmp_path, within=3).rows()
    assert row["zero_shot"] == pytest.approx(0.5)


def test_a_recording_that_does_not_say_what_it_was_trained_on_is_not_called_held_out(tmp_path: Path) -> None:
    recording(tmp_path, None)
    view = report.per_action(tmp_path)
    assert {row["trained"] for row in view.rows()} == {None}
    assert "? not known" in view.markdown()
    with pytest.raises(RequestError, match="within"):
        report.table(tmp_path, within=3)


@pytest.mark.parametrize("trained", ["+1", [1], {"+1": 1}])
def test_trained_actions_of_another_kind_are_an_error_of_one_line(tmp_path: Path, trained: Any) -> None:
    path = recording(tmp_path, trained)
    with pytest.raises(RunError, match="trained_actions") as error:
        report.per_action(tmp_path)
    assert str(path / "result.json") in str(error.value)


def test_the_committed_results_have_accuracies_per_action() -> None:
    view = report.per_action(ROOT / "results")
    trained = {}
    for row in view.rows():
        if row["trained"]:
            trained.setdefault((row["world"], row["row"], row["config_hash"]), set()).add(row["action"])
    assert trained["torus", "torus/fast", PRESETS["torus/fast"].hash] == {"+1:0", "-1:0", "0:+1", "0:-1"}
    assert trained["pose", "pose/fast", PRESETS["pose/fast"].hash] == set(PRESETS["pose/fast"].train_actions)
    assert trained["dihedral", "dihedral/fast", PRESETS["dihedral/fast"].hash] == {"r", "r3", "s"}
    assert trained["rotation", "rotation/fast", PRESETS["rotation/fast"].hash] == {"-10", "+10"}
    every = {(row["world"], row["row"], row["config_hash"]) for row in view.rows()}
    recordings = {key for key in every if key[0] == "steps"}  # a config says "recorded"; newer results name the actions
    assert trained.keys() | recordings == every
    steps = {"+1:0", "-1:0", "0:+1", "0:-1"}
    assert recordings
    assert all(trained.get(key, steps) == steps for key in recordings)
    assert view.markdown()
