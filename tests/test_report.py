"""`brojepa report`: tables as text, from runs and from their CSV, and what goes wrong."""

from __future__ import annotations

import csv
import io
import itertools
import json
import math
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import Outcome, largest_file
from helpers import checked
from hypothesis import given, settings
from hypothesis import strategies as st

from brojepa import report
from brojepa.config import Config
from brojepa.errors import BrojepaError
from brojepa.presets import PAPER_ROWS, PRESETS, paper_row
from brojepa.report.records import COLUMNS, METRICS, find, row
from brojepa.report.rows import paper_rows

Cli = Callable[..., Outcome]


# Runs


VALUES = {"train": 0.99, "seen": 0.98, "zero_shot": 0.97, "rollout": 0.96, "knn": 0.95}


def write_run(
    out: Path, config: str | Config, seed: int = 0, base: str | None = None, split: str | None = None,
    unfinished: bool = False, per_action: dict[str, float] | None = None, **metrics: float | None,
) -> Path:  # fmt: skip
    """The files of a run of a preset, or of a config made from `base`, as training leaves them."""
    name = config if isinstance(config, str) else None
    values = PRESETS[config] if isinstance(config, str) else config
    path = out / (name or f"{Path(values.world).stem}/{values.hash}") / f"seed-{seed}"
    path.mkdir(parents=True)
    states = 26 if values.world == "emnist" else 10
    header = {"preset": name, "base": name or base, "seed": seed, "config": values.to_dict()}
    (path / "config.json").write_text(json.dumps({**header, "world": {"name": values.world, "states": states}}))
    if unfinished:
        return path
    environment = {"torch": "2.13.0", "device": "cpu", "precision": "float32", "threads": 1, "commit": "abc"}
    (path / "env.json").write_text(json.dumps(environment))
    result = {
        "preset": name, "world": Path(values.world).stem, "split": split, "seed": seed, "config_hash": values.hash,
        "epochs": values.epochs, "kept_epoch": values.epochs, "target": values.target,
        "seconds": 61.5, "evaluation_seconds": 2.25, "images_per_second": 12345.678,
        "zero_shot_kind": "weak" if values.consistency else "strict", "metrics": {**VALUES, **metrics},
        "per_action": per_action or {"-1": 0.9, "+1": 0.8, "+2": 0.7}, "chance": 1 / states,
        "angles": None, "validation_loss": 0.125, "parameters": 1000,
    }  # fmt: skip
    (path / "result.json").write_text(json.dumps(result))
    return path


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]


def line_of(text: str, label: str, table: int = 0) -> list[str]:
    """The cells of the line with a label, in the n-th table that has one."""
    return [cells(line) for line in text.splitlines() if line.startswith(f"| {label} ")][table]


def notes_of(text: str, label: str) -> list[str]:
    """The notes of a line, in words."""
    told = dict(re.findall(r"^(\d+)\. (.*)$", text, re.MULTILINE))
    return [told[number] for number in line_of(text, label)[-1].split()]


# The paper's tables


def test_the_papers_rows_are_the_presets_in_order() -> None:
    assert list(paper_rows()) == [f"{world}/{name}" for world, names in PAPER_ROWS.items() for name in names.split()]
    best = paper_rows()["mnist/bro-resnet18-mfr-learned"]
    assert best.metrics["zero_shot"] == (0.9944, 0.0004)
    assert paper_rows()["emnist/supervised-mlp"].metrics.keys() == {"train", "seen", "zero_shot", "knn"}
    for name, paper in paper_rows().items():
        assert paper.epochs == (200 if name.endswith("resnet18-consistency") else 25)


@pytest.mark.parametrize(("table", "world", "count"), [(1, "mnist", 22), (2, "emnist", 16)])
def test_every_row_of_a_table_is_there_with_or_without_runs(tmp_path: Path, table: int, world: str, count: int) -> None:
    write_run(tmp_path, f"{world}/bro-mlp-mfr-fixed")
    view = report.table(tmp_path, table)
    names = [told["row"].removeprefix(f"{world}/") for told in view.rows()]
    assert names == PAPER_ROWS[world].split()
    assert len(names) == count
    text = view.markdown()
    for told in view.rows():
        line = line_of(text, told["row"].removeprefix(f"{world}/"))
        paper = f"{told['zero_shot_paper']:.4f} ± {told['zero_shot_paper_std']:.4f}"
        assert line[7] == paper
        assert (line[1], line[6]) == (("1", "0.9700") if told["n"] else ("0", "no runs"))
    for family in ("Supervised baselines + additive embedding", "Supervised baselines + block rotation", "BRo-JEPA"):
        assert text.count(f"| **{family}** |") == 2


def test_a_line_is_mean_and_sample_deviation_beside_the_papers(tmp_path: Path) -> None:
    seen = [0.971, 0.974, 0.978, 0.9731]
    for seed, value in enumerate(seen):
        write_run(tmp_path, "mnist/bro-mlp-mfr-fixed", seed, seen=value, zero_shot=0.9724)
    (told,) = report.table(tmp_path).rows()
    assert told["seeds"] == [0, 1, 2, 3]
    assert told["seen"] == pytest.approx(np.mean(seen))
    assert told["seen_std"] == pytest.approx(np.std(seen, ddof=1))
    half = 3.182446 * np.std(seen, ddof=1) / 2  # t of 0.975 at 3 degrees of freedom
    assert (told["seen_low"], told["seen_high"]) == pytest.approx((np.mean(seen) - half, np.mean(seen) + half))
    assert (told["seen_paper"], told["seen_paper_std"]) == (0.9724, 0.0014)
    assert told["seen_difference"] == pytest.approx(np.mean(seen) - 0.9724)
    assert told["seen_verdict"] == "above"
    mean, std = np.mean(seen), np.std(seen, ddof=1)
    text = report.table(tmp_path, 1).markdown()
    line = line_of(text, "bro-mlp-mfr-fixed")
    assert line[1:3] == ["4", "25"]
    assert line[3:6] == [f"{mean:.4f} ± {std:.4f}", "0.9724 ± 0.0014", f"{mean - 0.9724:+.4f} ↑"]
    assert line[6:10] == ["0.9724 ± 0.0000", "0.9724 ± 0.0009", "+0.0000 =", "strict"]
    assert "chance 0.1000" in text
    shown = line_of(report.table(tmp_path, 1, intervals=True).markdown(), "bro-mlp-mfr-fixed")
    assert shown[3] == f"{mean:.4f} [{mean - half:.4f}, {mean + half:.4f}]"
    assert line_of(text, "bro-mlp-mfr-fixed", table=1)[4:7] == ["0.9600 ± 0.0000", "0.9722 ± 0.0011", "-0.0122 ↓"]


@pytest.mark.parametrize(
    ("zero_shot", "verdict"),
    [(0.9733, "within"), (0.9715, "within"), (0.97334, "within"), (0.97336, "above"), (0.9714, "below")],
)
def test_verdict_is_the_papers_standard_deviation_to_its_four_decimals(
    tmp_path: Path, zero_shot: float, verdict: str
) -> None:
    """0.9724 ± 0.0009; in floating point 0.9733 is further from it than 0.0009."""
    write_run(tmp_path, "mnist/bro-mlp-mfr-fixed", zero_shot=zero_shot)
    assert report.table(tmp_path).rows()[0]["zero_shot_verdict"] == verdict


def test_one_seed_has_no_spread_and_no_number_is_a_dash(tmp_path: Path) -> None:
    write_run(tmp_path, "mnist/supervised-mlp", rollout=None)
    view = report.table(tmp_path)
    assert line_of(view.markdown(), "supervised-mlp")[3] == "0.9800"
    assert line_of(view.markdown(), "supervised-mlp", table=1)[4:7] == ["-", "-", ""]
    (told,) = view.rows()
    assert told["seen_std"] is told["seen_low"] is told["rollout"] is told["rollout_paper"] is None


# Notes


def test_a_run_by_the_papers_protocol_has_no_notes(tmp_path: Path) -> None:
    for seed in range(6):
        write_run(tmp_path, "mnist/supervised-mlp", seed)
    assert report.departures("mnist/supervised-mlp") == {}
    assert report.table(tmp_path).rows()[0]["notes"] == []


def test_departures_are_what_a_preset_adds_to_the_paper() -> None:
    for name in paper_rows():
        found, plain = report.departures(name), paper_row(*name.split("/"))
        assert plain.replace(**found) == PRESETS[name]
        assert all(getattr(plain, knob) != value for knob, value in found.items())
    assert report.departures("mnist/jepa-mlp-consistency")
    assert report.departures("mnist/fast") == {}


def test_every_difference_from_the_paper_is_noted(tmp_path: Path) -> None:
    name = "emnist/bro-mlp-mfr-fixed"
    changed = PRESETS[name].replace(target="relaxed", epochs=3, lr=0.001, normalise=True, train_actions=(-2, 1))
    write_run(tmp_path, changed, base=name, split="rebuilt")
    notes = notes_of(report.table(tmp_path, 2).markdown(), "bro-mlp-mfr-fixed")
    assert "fewer seeds than the paper's six" in notes
    assert "3 epochs, 25 in the paper" in notes
    assert "rebuilt EMNIST split, the official one in the paper" in notes
    told = f"config {changed.hash}, changed from {name}: "
    assert f"{told}train-actions -2,1, normalise on, target relaxed, lr 0.001" in notes
    if report.departures(name):
        assert any(note.startswith("preset departs from the paper's plain protocol: ") for note in notes)


def test_a_departure_that_a_run_takes_back_is_not_noted(tmp_path: Path) -> None:
    name = "mnist/jepa-mlp-consistency"
    write_run(tmp_path, paper_row("mnist", "jepa-mlp-consistency"), base=name)
    write_run(tmp_path, name)
    exact, changed = report.table(tmp_path).rows()
    assert any("preset departs" in note for note in exact["notes"])
    assert not any("preset departs" in note for note in changed["notes"])
    assert f"changed from {name} to the paper's plain protocol: " in changed["notes"][-1]


def test_relaxed_targets_are_said_where_there_is_no_paper_row(tmp_path: Path) -> None:
    write_run(tmp_path, "emnist/fast", split="official")
    text = report.table(tmp_path).markdown()
    assert notes_of(text, "fast") == ["relaxed targets"]
    assert "| **Not in the paper** |" in text


def test_weak_zero_shot_is_said(tmp_path: Path) -> None:
    write_run(tmp_path, "mnist/jepa-mlp-consistency")
    assert line_of(report.table(tmp_path, 1).markdown(), "jepa-mlp-consistency")[9] == "weak"


# Which runs make a line


def test_changed_configs_are_lines_of_their_own_below_the_preset(tmp_path: Path) -> None:
    name = "mnist/bro-mlp-mfr-fixed"
    changed = [PRESETS[name].replace(lr=lr) for lr in (0.1, 0.2)]
    write_run(tmp_path, changed[0], base=name, seen=0.1)
    for seed in (0, 1):
        write_run(tmp_path, changed[1], seed, base=name, seen=0.2)
    write_run(tmp_path, name, seen=0.3)
    hashes = [told["config_hash"] for told in report.table(tmp_path, 1).rows() if told["row"] == name]
    assert hashes == [PRESETS[name].hash, changed[1].hash, changed[0].hash]  # the preset, then by number of seeds
    text = report.table(tmp_path, 1).markdown()
    assert line_of(text, "bro-mlp-mfr-fixed")[3] == "0.3000"
    assert line_of(text, f"↳ {changed[1].hash}")[1:4] == ["2", "25", "0.2000 ± 0.0000"]


def test_a_changed_config_stands_in_the_row_where_the_preset_has_no_runs(tmp_path: Path) -> None:
    name = "mnist/bro-resnet18-mfr-fixed"
    write_run(tmp_path, PRESETS[name].replace(epochs=2), base=name)
    text = report.table(tmp_path, 1).markdown()
    assert line_of(text, "bro-resnet18-mfr-fixed")[1:4] == ["1", "2", "0.9800"]
    assert "2 epochs, 25 in the paper" in notes_of(text, "bro-resnet18-mfr-fixed")
    assert "↳" not in text


def test_a_config_that_equals_a_preset_is_that_preset_however_it_was_made(tmp_path: Path) -> None:
    write_run(tmp_path / "a", PRESETS["mnist/bro-mlp-mfr-learned"], base="mnist/bro-mlp-mfr-fixed")
    write_run(tmp_path / "b", PRESETS["mnist/bro-mlp-mfr-learned"], seed=1)
    (told,) = report.table(tmp_path).rows()
    assert (told["row"], told["n"], told["changes"]) == ("mnist/bro-mlp-mfr-learned", 2, "")


def test_a_preset_that_has_changed_since_does_not_pass_for_itself(tmp_path: Path) -> None:
    """Whatever name a run was given, its values are compared with the preset of today."""
    path = write_run(tmp_path, "mnist/bro-mlp-mfr-fixed")
    header = json.loads((path / "config.json").read_text())
    header["config"]["lr"] = 0.5
    (path / "config.json").write_text(json.dumps(header))
    (told,) = report.table(tmp_path).rows()
    assert told["changes"] == "lr 0.5"
    header["preset"] = header["base"] = "mnist/forgotten"
    (path / "config.json").write_text(json.dumps(header))
    (told,) = report.table(tmp_path).rows()
    assert told["row"] == told["config_hash"]
    (note,) = told["notes"]
    assert re.fullmatch(rf"config {told['config_hash']}, changed from the defaults: (.*, )?lr 0.5", note)


def test_another_world_is_not_in_the_papers_tables(tmp_path: Path) -> None:
    own = PRESETS["mnist/bro-mlp-mfr-fixed"].replace(world="/data/mnist")
    write_run(tmp_path, own, base="mnist/bro-mlp-mfr-fixed")
    assert not any(told["n"] for told in report.table(tmp_path, 1).rows())
    (told,) = report.table(tmp_path).rows()
    assert (told["seen_paper"], told["changes"]) == (None, "world mnist")


def test_splits_are_not_mixed(tmp_path: Path) -> None:
    write_run(tmp_path / "a", "emnist/supervised-mlp", split="rebuilt", seen=0.1)
    write_run(tmp_path / "b", "emnist/supervised-mlp", split="official", seen=0.2)
    assert [(t["split"], t["seen"]) for t in report.table(tmp_path).rows()] == [("official", 0.2), ("rebuilt", 0.1)]
    with pytest.raises(BrojepaError, match=r"several splits \(official and rebuilt\)"):
        report.compare(tmp_path, "emnist/supervised-mlp", "emnist/supervised-mlp")


def test_a_run_found_twice_counts_once(tmp_path: Path) -> None:
    for place in ("a", "b"):
        write_run(tmp_path / place, "mnist/jepa-mlp")
    (tmp_path / "runs.csv").write_text(report.runs(tmp_path / "a").csv())
    paths = [tmp_path / "runs.csv", tmp_path, tmp_path / "a"]
    assert [told["n"] for told in report.table(paths).rows()] == [1]
    assert report.per_action(paths).remarks == []  # the run directory is taken, the CSV has no actions


def test_a_run_found_twice_with_other_numbers_is_an_error_that_names_both(cli: Cli, tmp_path: Path) -> None:
    first = write_run(tmp_path / "a", "mnist/jepa-mlp", knn=0.5)
    second = write_run(tmp_path / "b", "mnist/jepa-mlp", knn=0.25)
    done = cli("report", tmp_path)
    assert (done.code, done.out) == (1, "")
    assert f"{first} and {second} are the same run (mnist/jepa-mlp, seed 0) and disagree" in done.err


def test_unfinished_runs_are_counted_and_left_out(cli: Cli, tmp_path: Path) -> None:
    write_run(tmp_path, "mnist/jepa-mlp")
    for seed in (1, 2):
        write_run(tmp_path, "mnist/jepa-mlp", seed, unfinished=True)
    done = cli("report", tmp_path, tmp_path / "mnist", "--format", "json")
    assert (done.code, done.err) == (0, "brojepa: 2 runs not finished, left out\n")
    assert json.loads(done.out)[0]["seeds"] == [0]


# A CSV of runs


metric = st.none() | st.floats(0, 1)


@given(values=st.fixed_dictionaries(dict.fromkeys(METRICS, metric)), seconds=st.floats(0, 1e9), seed=st.integers(0, 99))
@settings(checked, max_examples=15)
def test_csv_of_runs_gives_back_every_digit(tmp_path_factory: pytest.TempPathFactory, values, seconds, seed) -> None:
    out = tmp_path_factory.mktemp("csv")
    path = write_run(out, PRESETS["mnist/fast"].replace(lr=0.0123), seed, base="mnist/fast", **values)
    result = json.loads((path / "result.json").read_text())
    (path / "result.json").write_text(json.dumps({**result, "seconds": seconds, "validation_loss": None}))
    text = report.runs(out).csv()
    (out / "runs.csv").write_text(text)
    (from_run,), (from_csv,) = find([out]).records, find([out / "runs.csv"]).records
    assert row(from_run) == row(from_csv)
    assert from_csv.metrics == tuple(values[name] for name in METRICS)
    assert from_csv.seconds == seconds
    assert report.runs(out / "runs.csv").csv() == text


def test_reports_from_runs_and_from_their_csv_are_the_same(cli: Cli, tmp_path: Path) -> None:
    for seed in range(3):
        write_run(tmp_path, "mnist/jepa-mlp", seed, seen=0.9 + seed / 100)
        write_run(tmp_path, PRESETS["emnist/fast"].replace(lr=0.1), seed, base="emnist/fast", split="rebuilt")
    stored = tmp_path / "runs.csv"
    assert cli("report", tmp_path, "--runs", "--format", "csv", "--out", stored) == (0, "", "")
    for words in ([], ["--table", "1"], ["--format", "latex"], ["--format", "json"], ["--runs", "--format", "json"]):
        assert cli("report", tmp_path, *words) == cli("report", stored, *words)


def test_csv_of_runs_has_the_columns_in_order(tmp_path: Path) -> None:
    write_run(tmp_path, "mnist/jepa-mlp", rollout=None, knn=1 / 3)
    (told,) = csv.DictReader(io.StringIO(report.runs(tmp_path).csv()))
    assert tuple(told) == COLUMNS
    assert (told["preset"], told["rollout"], told["knn"]) == ("mnist/jepa-mlp", "", "0.3333333333333333")
    assert (told["torch"], told["threads"], told["commit"]) == ("2.13.0", "1", "abc")


def damage(text: str, column: str, value: str) -> str:
    head, told = csv.reader(io.StringIO(text))
    told[COLUMNS.index(column)] = value
    out = io.StringIO()
    csv.writer(out).writerows([head, told])
    return out.getvalue()


@pytest.mark.parametrize(
    ("column", "value", "expected"),
    [
        ("seed", "zero", "'zero'"),
        ("seen", "nan", "seen is nan"),
        ("chance", "", "no chance"),
        ("config", "{", "is not a run"),
        ("config", "[]", "is not a run"),
        ("config", '{"learning": 1}', "unknown config value 'learning'"),
    ],
)
def test_damaged_line_of_a_csv_is_named(cli: Cli, tmp_path: Path, column: str, value: str, expected: str) -> None:
    write_run(tmp_path, "mnist/jepa-mlp")
    (tmp_path / "runs.csv").write_text(damage(report.runs(tmp_path).csv(), column, value))
    done = cli("report", tmp_path / "runs.csv")
    assert (done.code, done.out) == (2, "")
    assert f"{tmp_path / 'runs.csv'} line 2 is not a run" in done.err
    assert expected in done.err


# Formats


@pytest.fixture
def several(tmp_path: Path) -> Path:
    """Runs with whatever makes a table hard to write: other worlds, changes, odd names, several seeds."""
    for seed in range(3):
        write_run(tmp_path, "mnist/supervised-mlp", seed, rollout=None, knn=0.3 + seed / 100)
        write_run(tmp_path, "mnist/jepa-mlp-consistency", seed, knn=0.4 - seed / 7)
        write_run(tmp_path, PRESETS["mnist/fast"].replace(lr=0.3), seed, base="mnist/fast")
    odd = PRESETS["mnist/fast"].replace(world="/data/a_b%|&#$~^{}.npz", test_actions=(2, -3))
    write_run(tmp_path, odd, base="mnist/fast")
    return tmp_path


VIEWS: dict[str, Callable[[Path], Any]] = {
    "table": report.table,
    "table 1": lambda path: report.table(path, 1),
    "table 2": lambda path: report.table(path, 2, intervals=True),
    "runs": report.runs,
    "per action": report.per_action,
    "compare": lambda path: report.compare(path, "mnist/supervised-mlp", "mnist/jepa-mlp-consistency"),
}


@pytest.mark.parametrize("name", VIEWS)
def test_markdown_tables_are_whole_and_aligned(several: Path, name: str) -> None:
    text = VIEWS[name](several).markdown()
    tables = re.findall(r"(?:^\|.*\|\n)+", text, re.MULTILINE)
    assert tables
    for table in tables:
        lines = table.splitlines()
        assert len({len(line) for line in lines}) == 1
        assert len({len(cells(line)) for line in lines}) == 1
        assert re.fullmatch(r"\|(-{3,}\|)+", lines[1])


@pytest.mark.parametrize("name", VIEWS)
def test_latex_tabulars_are_whole_and_escaped(several: Path, name: str) -> None:
    text = VIEWS[name](several).latex()
    bodies = re.findall(r"\\begin\{tabular\}\{(l+)\}\n(.*?)\\end\{tabular\}", text, re.DOTALL)
    assert len(bodies) == text.count(r"\begin{tabular}") > 0
    for columns, body in bodies:
        assert [body.count(rf"\{rule}rule") for rule in ("top", "bottom")] == [1, 1]
        for line in re.findall(r"^(.*) \\\\$", body, re.MULTILINE):
            spans = re.match(r"\\multicolumn\{(\d+)\}", line)
            count = int(spans[1]) if spans else len(re.findall(r"(?<!\\)&", line)) + 1
            assert count == len(columns)
    bare = re.sub(r"^% .*$", "", text, flags=re.MULTILINE)
    bare = re.sub(r"\\[&%$#_{}]", "", bare)
    assert not re.findall(r"[%#~^]", bare)
    assert bare.isascii()
    assert bare.count("$") % 2 == 0
    depth = list(itertools.accumulate({"{": 1, "}": -1}.get(letter, 0) for letter in bare))
    assert min(depth) == depth[-1] == 0


@pytest.mark.parametrize("name", VIEWS)
def test_csv_and_json_say_the_same(several: Path, name: str) -> None:
    view = VIEWS[name](several)
    told = json.loads(view.json(), parse_constant=pytest.fail)
    lines = list(csv.DictReader(io.StringIO(view.csv())))
    assert len(lines) == len(told) > 0
    for line, values in zip(lines, told, strict=True):
        assert list(line) == list(values)
        for key, value in values.items():
            if isinstance(value, float):
                assert float(line[key]) == value
            elif value is None:
                assert line[key] == ""


def test_latex_has_the_papers_methods_and_all_five_metrics(several: Path) -> None:
    text = report.table(several, 1).latex()
    assert r"MLP w/ multi-frequency rotation (MFR, fixed) & 0 & -- & no runs & 0.9724 $\pm$ 0.0014" in text
    for title in ("seen", "zero-shot", "train", "rollout", "k-NN"):
        assert f" {title} & paper & diff" in text


def test_out_writes_the_file_whole_or_not_at_all(cli: Cli, several: Path) -> None:
    printed = cli("report", several).out
    out = several / "table.md"
    assert cli("report", several, "--out", out) == (0, "", "")
    assert out.read_text() == printed
    with largest_file(100):
        done = cli("report", several, "--format", "csv", "--out", out)
    assert done.code == 1
    assert f"cannot write {out}" in done.err
    assert out.read_text() == printed
    assert [path.name for path in several.iterdir() if path.is_file()] == ["table.md"]


# Accuracy per action


def test_per_action_is_mean_and_deviation_over_seeds(cli: Cli, tmp_path: Path) -> None:
    for seed, value in enumerate((0.5, 0.6)):
        write_run(tmp_path, "mnist/jepa-mlp", seed, per_action={"-1": 0.9, "+1": 0.8, "+10": value, "+2": value})
    told = {line["action"]: line for line in report.per_action(tmp_path).rows()}
    assert list(told) == ["-1", "+1", "+2", "+10"]
    assert told["+2"]["mean"] == pytest.approx(0.55)
    assert told["+2"]["std"] == pytest.approx(0.1 / math.sqrt(2))
    assert [line["trained"] for line in told.values()] == [True, True, False, False]
    text = cli("report", tmp_path, "--per-action", "--table", "1").out
    assert line_of(text, "-1")[1] == "0.9000 ± 0.0000 *"
    assert line_of(text, "+2")[1] == "0.5500 ± 0.0707"


def test_per_action_needs_run_directories(cli: Cli, tmp_path: Path) -> None:
    write_run(tmp_path / "a", "mnist/jepa-mlp")
    write_run(tmp_path / "b", "mnist/jepa-mlp", seed=1)
    (tmp_path / "b.csv").write_text(report.runs(tmp_path / "b").csv())
    done = cli("report", tmp_path / "b.csv", "--per-action")
    assert (done.code, done.out) == (2, "")
    assert "accuracies per action are in result.json only: give run directories" in done.err
    done = cli("report", tmp_path / "a", tmp_path / "b.csv", "--per-action")
    assert (done.code, done.err) == (0, "brojepa: 1 run from CSV without accuracies per action left out\n")


# Two rows compared


def test_comparison_pairs_shared_seeds(cli: Cli, tmp_path: Path) -> None:
    name, changed = "mnist/jepa-mlp", PRESETS["mnist/jepa-mlp"].replace(lr=0.1)
    for seed, value in {0: 0.9, 1: 0.8, 2: 0.85, 7: 0.1}.items():
        write_run(tmp_path, name, seed, seen=value)
    for seed, value in {0: 0.7, 1: 0.65, 2: 0.75, 9: 0.99}.items():
        write_run(tmp_path, changed, seed, base=name, seen=value, rollout=None)
    view = report.compare(tmp_path, name, changed.hash)
    told = {line["metric"]: line for line in view.rows()}
    assert list(told) == ["train", "seen", "zero_shot", "knn"]  # no rollout to compare
    seen = told["seen"]
    differences = np.array([0.2, 0.15, 0.1])
    assert seen["seeds"] == [0, 1, 2]
    assert (seen["difference"], seen["std"]) == pytest.approx((0.15, 0.05))
    half = 4.302653 * 0.05 / math.sqrt(3)
    assert (seen["low"], seen["high"]) == pytest.approx((0.15 - half, 0.15 + half))
    t = differences.mean() / (0.05 / math.sqrt(3))
    assert seen["p_t_test"] == pytest.approx(2 / ((2 + t * t) * (1 + t / math.sqrt(2 + t * t))))  # 2 degrees of freedom
    assert seen["p_sign_flip"] == 2 / 8
    assert told["train"]["p_t_test"] == told["train"]["p_sign_flip"] == 1
    done = cli("report", tmp_path, "--compare", name, changed.hash)
    assert f"{name} less {changed.hash}, 3 shared seeds: 0, 1, 2" in done.out
    assert line_of(done.out, "seen")[1:5] == ["0.8500", "0.7000", "+0.1500", "0.0500"]


def test_comparison_that_cannot_be_made(cli: Cli, tmp_path: Path) -> None:
    changed = PRESETS["mnist/supervised-mlp"].replace(lr=0.1)
    write_run(tmp_path, "mnist/jepa-mlp", 0)
    write_run(tmp_path, "mnist/fast", 1)
    write_run(tmp_path, changed, 0, base="mnist/supervised-mlp")
    for names, expected in {
        ("mnist/jepa-mlp", "mnist/fast"): "mnist/jepa-mlp has seeds 0 and mnist/fast has 1: a comparison needs two",
        ("mnist/jepa-mpl", "mnist/fast"): "unknown row 'mnist/jepa-mpl': did you mean mnist/jepa-mlp",
        ("mnist/supervised-mlp", "mnist/fast"): f"only runs with changed values: name one by its hash, {changed.hash}",
    }.items():
        done = cli("report", tmp_path, "--compare", *names)
        assert (done.code, done.out) == (2, "")
        assert expected in done.err


# What goes wrong


WRONG = [  # RUNS stands for a directory with a run, EMPTY for one without
    (["RUNS", "--table", "3"], "unknown table '3': choose from 1, 2"),
    (["RUNS", "--format", "markdwon"], "unknown format 'markdwon': choose from md, csv, latex, json"),
    (["RUNS", "--format", "latx"], "unknown format 'latx': did you mean latex"),
    (["RUNS", "--per-actoin"], "unknown flag '--per-actoin': did you mean --per-action"),
    (["RUNS", "--compare", "mnist/fast"], "--compare: expected 2 arguments"),
    (["RUNS", "--runs", "--per-action"], "not allowed with argument --runs"),
    (["RUNS", "--table", "1", "--compare", "a", "b"], "--table: not allowed with argument --compare"),
    (["RUNS", "--runs", "--table", "2"], "none of these runs is in table 2"),
    ([], "no such path: runs"),
    (["no/such"], "no such path: no/such"),
    (["EMPTY"], "no runs under"),
    (["RUNS/other.csv"], "is not a CSV of runs"),
    (["RUNS/mnist/jepa-mlp/seed-0/result.json"], "is not a CSV of runs"),
    (["RUNS/unfinished"], "only 1 that are not finished"),
]


@pytest.mark.parametrize(("words", "expected"), WRONG, ids=[" ".join(words) for words, _ in WRONG])
def test_wrong_request_is_one_line_and_exit_2(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], expected: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    write_run(tmp_path / "some", "mnist/jepa-mlp")
    write_run(tmp_path / "some" / "unfinished", "mnist/fast", unfinished=True)
    (tmp_path / "some" / "other.csv").write_text("a,b\n1,2\n")
    done = cli("report", *(word.replace("RUNS", "some").replace("EMPTY", "empty") for word in words))
    assert (done.code, done.out) == (2, "")
    assert re.fullmatch(r"brojepa: error: [^\n]+\n", done.err)
    assert expected in done.err


@pytest.mark.parametrize(
    ("file", "text", "expected"),
    [
        ("result.json", "{", "is damaged"),
        ("result.json", "[]", "is not a run's result"),
        ("result.json", '{"metrics": {}}', "is not a run's result (no world)"),
        ("result.json", '{"metrics": []}', "is not a run's result"),
        ("config.json", "{", "is damaged"),
        ("config.json", '{"config": {"lr": -1}, "seed": 0, "world": {}}', "config.json: --lr must be above 0"),
        ("env.json", "{", "is damaged"),
    ],
)
def test_damaged_run_is_one_line_that_names_the_file(
    cli: Cli, tmp_path: Path, file: str, text: str, expected: str
) -> None:
    path = write_run(tmp_path, "mnist/jepa-mlp")
    (path / file).write_text(text)
    done = cli("report", tmp_path)
    assert (done.code, done.out) == (1, "")
    assert re.fullmatch(r"brojepa: error: [^\n]+\n", done.err)
    assert str(path / file) in done.err
    assert expected in done.err


def test_metric_that_is_no_number_is_refused(cli: Cli, tmp_path: Path) -> None:
    path = write_run(tmp_path, "mnist/jepa-mlp", seen=math.nan)
    done = cli("report", tmp_path)
    assert done.code == 1
    assert f"{path / 'result.json'} is not a run's result (seen is nan)" in done.err


# The real thing


def test_a_trained_run_is_reported(cli: Cli, digits: Path, tmp_path: Path) -> None:
    words = ("--encoder", "mlp", "--latent", "32", "--epochs", "1", "--batch-size", "32", "--quiet")
    assert cli("train", "--world", digits, *words, "--out", tmp_path) == (0, "", "")
    result = json.loads(next(tmp_path.rglob("result.json")).read_text())
    (told,) = json.loads(cli("report", tmp_path, "--format", "json").out)
    assert (told["world"], told["seeds"], told["epochs"]) == ("digits", [0], 1)
    assert told["chance"] == 0.1
    assert {name: told[name] for name in METRICS} == result["metrics"]
    (note,) = told["notes"]
    assert note.startswith(f"config {result['config_hash']}, changed from mnist/fast: world digits, encoder mlp")
    (run,) = json.loads(cli("report", tmp_path, "--runs", "--format", "json").out)
    for name in ("kept_epoch", "seconds", "images_per_second", "parameters", "validation_loss", "zero_shot_kind"):
        assert run[name] == result[name]
    assert run["threads"] == 1
    actions = {line["action"]: line["mean"] for line in report.per_action(tmp_path).rows()}
    assert actions == result["per_action"]


def test_report_does_not_wait_for_torch(several: Path) -> None:
    script = (
        "import sys\nfrom brojepa.cli import main\n"
        "code = main(['report', *sys.argv[1:]])\n"
        "sys.exit(code or 'torch' in sys.modules or 'numpy' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script, str(several)], capture_output=True)
    assert done.returncode == 0, done.stderr
