"""`brojepa report --archive`: a file per experiment, a line per run; nothing is lost on the way or later."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from conftest import one_line
from hypothesis import given, settings
from hypothesis import strategies as st
from reporting import Cli, write_run

from brojepa import report
from brojepa.errors import RequestError, RunError
from brojepa.presets import PRESETS
from brojepa.report.archive import archive, experiment, read_names
from brojepa.report.names import _short
from brojepa.report.records import find
from brojepa.runs.finding import runs_under
from brojepa.runs.stored import StoredRun, unpack

JEPA = PRESETS["mnist/jepa-mlp"]
MANY = {"lr": 0.001, "epochs": 2, "schedule": "one-cycle", "probe_lr": 1.0}


def files_of(directory: Path) -> dict[str, object]:
    """The files of a run directory as JSON says them, whatever the spaces."""
    texts = {file.name: file.read_text() for file in directory.glob("*.json*")}
    lines = {name: [json.loads(line) for line in text.splitlines()] for name, text in texts.items()
             if name.endswith("l")}  # fmt: skip
    return {name: lines.get(name) or json.loads(text) for name, text in texts.items()}


def names(top: Path) -> list[str]:
    return sorted(file.relative_to(top).as_posix() for file in top.rglob("*.jsonl"))


def test_a_trained_run_is_unpacked_to_the_same_files(trained, cli: Cli, tmp_path: Path) -> None:
    """All that training and inspecting leave, weights, state and figures aside."""
    run = tmp_path / "run"
    shutil.copytree(trained[0], run)
    (run / "inspect.json").write_text(json.dumps({"planes": [1.5, None], "law": "Z3"}))
    done = cli("report", run, "--archive", tmp_path / "kept")
    assert done.code == 0, done
    (file,) = (tmp_path / "kept").rglob("*.jsonl")
    assert f"{file}: 1 run added, 1 in all" in done.out
    (line,) = file.read_text().splitlines()
    assert {"seed", "config", "environment", "epochs", "result", "inspect"} <= json.loads(line).keys()
    before = files_of(run)
    assert {"config.json", "env.json", "metrics.jsonl", "result.json", "inspect.json"} <= before.keys()
    assert unpack(json.loads(line)) == before
    (stored,) = runs_under(tmp_path / "kept", damaged := [])
    assert isinstance(stored, StoredRun)
    assert not damaged
    original = find([run]).records[0].run
    assert original is not None
    for part in ("header", "result", "metrics", "environment", "config"):
        assert getattr(stored, part) == getattr(original, part), part
    assert "zero-shot" in repr(stored)


def test_both_forms_make_the_same_reports(tmp_path: Path) -> None:
    for seed in range(3):
        write_run(tmp_path / "runs", "mnist/fast", seed, zero_shot=0.9 + seed / 100)
        write_run(tmp_path / "runs", JEPA.replace(lr=2e-4), seed, base="mnist/jepa-mlp")
    write_run(tmp_path / "runs", "emnist/fast", split="rebuilt")
    write_run(tmp_path / "runs", "emnist/jepa-mlp", split="official", unfinished=True)
    kept = archive(tmp_path / "runs", tmp_path / "kept")
    assert kept.found.unfinished == 1
    assert names(tmp_path / "kept") == ["emnist/fast.jsonl", "mnist/fast.jsonl", "mnist/jepa-mlp,lr=2e-4.jsonl"]
    for make in (report.table, report.runs, report.per_action):
        assert make(tmp_path / "kept").csv() == make(tmp_path / "runs").csv()
    one = report.runs(tmp_path / "kept" / "mnist" / "fast.jsonl")
    assert [row["seed"] for row in one.rows()] == [0, 1, 2]
    assert report.runs([tmp_path / "kept", tmp_path / "runs"]).csv() == report.runs(tmp_path / "runs").csv()


def test_adding_keeps_what_is_there(tmp_path: Path) -> None:
    for seed in (3, 0):
        write_run(tmp_path / "a", "mnist/fast", seed)
    write_run(tmp_path / "b", "mnist/fast", 1)
    archive(tmp_path / "a", tmp_path / "kept")
    first = (tmp_path / "kept/mnist/fast.jsonl").read_text().splitlines()
    (added,) = archive([tmp_path / "a", tmp_path / "b"], tmp_path / "kept").files
    assert (added.new, added.all) == (1, 3)
    lines = (tmp_path / "kept/mnist/fast.jsonl").read_text().splitlines()
    assert [json.loads(line)["seed"] for line in lines] == [0, 1, 3]
    assert set(first) < set(lines)
    assert archive(tmp_path / "a", tmp_path / "kept").files == []
    assert archive(tmp_path / "kept", tmp_path / "kept").files == []
    archive(tmp_path / "kept", tmp_path / "copy")
    assert (tmp_path / "copy/mnist/fast.jsonl").read_bytes() == (tmp_path / "kept/mnist/fast.jsonl").read_bytes()


def test_a_part_that_came_later_is_added_to_the_line(tmp_path: Path) -> None:
    run = write_run(tmp_path / "kept", "mnist/fast")  # a directory in the archive itself
    archive(tmp_path / "kept", tmp_path / "kept")
    (run / "inspect.json").write_text('{"law": "Z10"}')
    (added,) = archive(tmp_path / "kept", tmp_path / "kept").files
    assert (added.new, added.all) == (0, 1)
    assert json.loads((tmp_path / "kept/mnist/fast.jsonl").read_text())["inspect"] == {"law": "Z10"}


def test_a_run_that_disagrees_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    write_run(tmp_path / "a", "mnist/fast")
    archive(tmp_path / "a", tmp_path / "kept")
    before = (tmp_path / "kept/mnist/fast.jsonl").read_bytes()
    write_run(tmp_path / "b", "dihedral/fast")
    other = write_run(tmp_path / "b", "mnist/fast")
    (other / "env.json").write_text('{"torch": "3"}')
    with pytest.raises(RunError, match=r"(?s)b/mnist/fast/seed-0.*disagree in environment"):
        archive(tmp_path / "b", tmp_path / "kept")
    assert names(tmp_path / "kept") == ["mnist/fast.jsonl"]
    assert (tmp_path / "kept/mnist/fast.jsonl").read_bytes() == before


def test_the_same_seed_on_two_splits_is_two_runs(tmp_path: Path) -> None:
    for split in ("rebuilt", "official"):
        write_run(tmp_path / split, "emnist/fast", split=split)
    archive([tmp_path / "rebuilt", tmp_path / "official"], tmp_path / "kept")
    runs = [*runs_under(tmp_path / "kept", [])]
    assert {run.result["split"] for run in runs} == {"rebuilt", "official"}
    assert len({run.path for run in runs}) == 2


def test_names_say_up_to_three_flags_and_the_table_names_the_rest(tmp_path: Path) -> None:
    many = JEPA.replace(**MANY)
    runs = [
        write_run(tmp_path / "runs", config, base="mnist/jepa-mlp")
        for config in (JEPA.replace(standardise=True, train_actions=(-1, 0, 1), ema_decay=0.99), many)
    ]
    records = find(runs).records
    assert [experiment(record, {}) for record in records] == [
        "mnist/jepa-mlp,train-actions=-1_0_1,standardise=on,ema-decay=0.99", f"mnist/{many.hash}",
    ]  # fmt: skip
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "names.csv").write_text(f'hash,name,question\n{many.hash},"jepa-mlp,quick",Is it quick?\n')
    archive(runs, kept)
    assert "mnist/jepa-mlp,quick.jsonl" in names(kept)
    readme = (kept / "README.md").read_text()
    assert "| [jepa-mlp,quick](mnist/jepa-mlp,quick.jsonl) | Is it quick? | 0 | 0.9800 | 0.9700 |" in readme
    assert many.hash in (kept / "mnist/jepa-mlp,quick.jsonl").read_text()  # grep finds it


def test_two_configs_of_one_name_have_a_file_each(tmp_path: Path) -> None:
    close = [JEPA.replace(lr=rate) for rate in (0.00012345671, 0.00012345672)]
    runs = [write_run(tmp_path / "runs", config, base="mnist/jepa-mlp") for config in close]
    assert len({experiment(record, {}) for record in find(runs).records}) == 1
    archive(runs, tmp_path / "kept")
    archive(runs, tmp_path / "kept")
    assert len(names(tmp_path / "kept")) == 2
    assert {record.config for record in find([tmp_path / "kept"]).records} == {*close}


@given(st.floats(1e-9, 1e9))
@settings(max_examples=200, deadline=None)
def test_numbers_in_names_are_the_numbers(value: float) -> None:
    assert float(_short(value)) == float(f"{value:g}")
    assert len(_short(value)) <= len(f"{value:g}")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a,b\n1,2\n", "columns hash,name,question"),
        ("hash,name,question\nabc,../up,\n", "cannot name a file"),
        ("hash,name,question\nabc,a b,\n", "cannot name a file"),
        ("hash,name,question\nabc,/etc/x,\n", "cannot name a file"),
    ],
)
def test_a_bad_table_of_names_is_an_error(text: str, says: str, tmp_path: Path) -> None:
    (tmp_path / "names.csv").write_text(text)
    with pytest.raises(RequestError, match=says):
        read_names(tmp_path)


def test_damaged_lines_are_left_out_of_reports_and_never_written_over(cli: Cli, tmp_path: Path) -> None:
    for seed in (0, 1):
        write_run(tmp_path / "runs", "mnist/fast", seed)
    archive(tmp_path / "runs", tmp_path / "kept")
    file = tmp_path / "kept/mnist/fast.jsonl"
    damaged = file.read_text()[:-40]
    file.write_text(damaged)
    done = cli("report", tmp_path / "kept", "--runs")
    assert done.code == 0
    assert f"{file} line 2 is damaged" in done.err
    refused = one_line(cli("report", tmp_path / "runs", "--archive", tmp_path / "kept"), 1)
    assert f"{file} line 2 is damaged" in refused
    assert file.read_text() == damaged


def test_what_a_killed_archiver_left_is_removed_by_the_next(tmp_path: Path) -> None:
    write_run(tmp_path / "runs", "mnist/fast")
    left = tmp_path / "kept/mnist/.fast.jsonl.999999999.partial"
    left.parent.mkdir(parents=True)
    left.write_text('{"seed": 0, "con')
    archive(tmp_path / "runs", tmp_path / "kept")
    assert [file.name for file in left.parent.iterdir()] == ["fast.jsonl"]


@pytest.mark.parametrize(
    ("key", "value"),
    [("result", 3), ("result", []), ("epochs", None), ("epochs", [3]), ("environment", []), ("config", {"lr": "x"}),
     ("config", 1), ("world", {}), ("world", {"name": 3}), ("seed", "x")],
)  # fmt: skip
def test_wrong_types_in_a_line_are_one_line_and_never_written_over(cli: Cli, tmp_path: Path, key, value) -> None:
    write_run(tmp_path / "runs", "mnist/fast")
    archive(tmp_path / "runs", tmp_path / "kept")
    file = tmp_path / "kept/mnist/fast.jsonl"
    line = {**json.loads(file.read_text()), key: value}
    file.write_text(damaged := json.dumps(line) + "\n")
    refused = one_line(cli("report", tmp_path / "runs", "--archive", tmp_path / "kept"), 1)
    assert str(file) in refused
    assert file.read_text() == damaged
    drawn = cli("figures", tmp_path / "kept", "--out", tmp_path / "figures")
    assert drawn.code in (0, 1, 2)
    assert "unexpected" not in drawn.err


def test_bad_requests_are_one_line(cli: Cli, tmp_path: Path) -> None:
    write_run(tmp_path / "runs", "mnist/fast")
    (tmp_path / "runs.csv").write_text(report.runs(tmp_path / "runs").csv())
    (tmp_path / "other.jsonl").write_text('{"epoch": 1}\n')
    kept = tmp_path / "kept"
    assert "whole runs" in one_line(cli("report", tmp_path / "runs.csv", "--archive", kept), 2)
    assert "not a file of runs" in one_line(cli("report", tmp_path / "other.jsonl"), 2)
    assert "--archive" in cli("report", tmp_path / "runs", "--archive", kept, "--table", "1").err
    assert "--archive" in cli("report", tmp_path / "runs", "--archive", kept, "--runs").err
    assert not kept.exists()
    kept.write_text("")
    assert str(kept) in one_line(cli("report", tmp_path / "runs", "--archive", kept), 1)
    assert cli("report", tmp_path / "runs").err == ""  # other files of that suffix are nobody's runs


def test_figures_are_drawn_from_either_form(trained, cli: Cli, tmp_path: Path) -> None:
    archive(trained[0], tmp_path / "kept")
    (file,) = (tmp_path / "kept").rglob("*.jsonl")
    for name, source in (("a", trained[0]), ("b", tmp_path / "kept"), ("c", file)):
        assert cli("figures", source, "--only", "curves", "--out", tmp_path / name).code == 0
    drawn = {(tmp_path / name / "curves.png").read_bytes() for name in "abc"}
    assert len(drawn) == 1
    assert "with weights" in cli("figures", file, "--only", "circle", "--out", tmp_path / "d").out
