"""`brojepa report`: which runs make a line of a table, what is said of them, and the CSV that they make."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path

import numpy as np
import pytest
from helpers import checked, says
from hypothesis import given, settings
from hypothesis import strategies as st
from reporting import Cli, cells, line_of, notes_of, write_run

from brojepa import report
from brojepa.errors import BrojepaError
from brojepa.presets import AUTO, PAPER_ROWS, PRESETS, paper_row
from brojepa.report.archive import archive
from brojepa.report.records import COLUMNS, METRICS, as_row, find
from brojepa.report.rows import paper_rows

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
    names = [row["row"].removeprefix(f"{world}/") for row in view.rows()]
    assert names == PAPER_ROWS[world].split()
    assert len(names) == count
    text = view.markdown()
    for row in view.rows():
        line = line_of(text, row["row"].removeprefix(f"{world}/"))
        paper = f"{row['zero_shot_paper']:.4f} ± {row['zero_shot_paper_std']:.4f}"
        assert line[6] == paper
        assert (line[1], line[5].rstrip(" ↑↓")) == (("1", "0.9700") if row["n"] else ("0", "no runs"))
    for family in ("Supervised baselines + additive embedding", "Supervised baselines + block rotation", "BRo-JEPA"):
        assert text.count(f"| **{family}** |") == 2


def test_a_line_is_mean_and_sample_deviation_beside_the_papers(tmp_path: Path) -> None:
    seen = [0.971, 0.974, 0.978, 0.9731]
    for seed, value in enumerate(seen):
        write_run(tmp_path, "mnist/bro-mlp-mfr-fixed", seed, seen=value, zero_shot=0.9724)
    (row,) = report.table(tmp_path).rows()
    assert row["seeds"] == [0, 1, 2, 3]
    assert row["seen"] == pytest.approx(np.mean(seen))
    assert row["seen_std"] == pytest.approx(np.std(seen, ddof=1))
    half = 3.182446 * np.std(seen, ddof=1) / 2  # t of 0.975 at 3 degrees of freedom
    assert (row["seen_low"], row["seen_high"]) == pytest.approx((np.mean(seen) - half, np.mean(seen) + half))
    assert (row["seen_paper"], row["seen_paper_std"]) == (0.9724, 0.0014)
    assert row["seen_difference"] == pytest.approx(np.mean(seen) - 0.9724)
    assert row["seen_verdict"] == "above"
    mean, std = np.mean(seen), np.std(seen, ddof=1)
    text = report.table(tmp_path, 1).markdown()
    line = line_of(text, "bro-mlp-mfr-fixed")
    assert line[1:3] == ["4", "25"]
    assert line[3:5] == [f"{mean:.4f} ± {std:.4f} ↑", "0.9724 ± 0.0014"]
    assert line[5:] == ["0.9724 ± 0.0000 =", "0.9724 ± 0.0009", "strict"]
    assert "chance 0.1000" in text
    shown = line_of(report.table(tmp_path, 1, intervals=True).markdown(), "bro-mlp-mfr-fixed")
    assert shown[3] == f"{mean:.4f} [{mean - half:.4f}, {mean + half:.4f}] ↑"
    assert line_of(text, "bro-mlp-mfr-fixed", table=1)[3:5] == ["0.9600 ± 0.0000 ↓", "0.9722 ± 0.0011"]


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
    assert line_of(view.markdown(), "supervised-mlp")[3] == "0.9800 ↑"
    assert line_of(view.markdown(), "supervised-mlp", table=1)[3:5] == ["-", "-"]
    (row,) = view.rows()
    assert row["seen_std"] is row["seen_low"] is row["rollout"] is row["rollout_paper"] is None


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
    view = report.table(tmp_path, 2)
    (notes,) = [row["notes"] for row in view.rows() if row["n"]]
    assert "fewer seeds than the paper's six" in notes
    assert "3 epochs, 25 in the paper" in notes
    assert "rebuilt EMNIST split, the official one in the paper" in notes
    begun = f"config {changed.hash}, changed from {name}: "
    assert f"{begun}train-actions -2,1, normalise on, target relaxed, lr 0.001" in notes
    departs = [note for note in notes if note.startswith("preset departs from the paper's plain protocol: ")]
    assert departs
    text = view.markdown()
    split = "rebuilt EMNIST split, the official one in the paper"
    assert notes_of(text, "bro-mlp-mfr-fixed") == [split, *departs]  # the rest is in the row
    (line,) = [cells(line) for line in text.splitlines() if line.startswith("| bro-mlp-mfr-fixed, ")][:1]
    assert line[:3] == [
        "bro-mlp-mfr-fixed, train-actions=-2_1, normalise=on, target=relaxed, epochs=3, lr=1e-3", "1", "3 (25)",
    ]  # fmt: skip


def test_a_note_names_the_rows_it_is_about(tmp_path: Path) -> None:
    write_run(tmp_path, "emnist/supervised-mlp", split="rebuilt")
    write_run(tmp_path, "emnist/supervised-mlp-sfr-fixed", split="official")
    text = report.table(tmp_path, 2).markdown()
    assert notes_of(text, "supervised-mlp")
    assert not notes_of(text, "supervised-mlp-sfr-fixed")
    write_run(tmp_path / "b", "emnist/supervised-mlp", split="rebuilt")
    assert "- all rows: rebuilt EMNIST split" in report.table(tmp_path / "b", 2).markdown()


def test_a_departure_that_a_run_takes_back_is_not_noted(tmp_path: Path) -> None:
    name = "mnist/jepa-mlp-consistency"
    write_run(tmp_path, paper_row("mnist", "jepa-mlp-consistency"), base=name)
    write_run(tmp_path, name)
    exact, changed = report.table(tmp_path).rows()
    assert any("preset departs" in note for note in exact["notes"])
    assert not any("preset departs" in note for note in changed["notes"])
    assert f"changed from {name} to the paper's plain protocol: " in changed["notes"][-1]


def test_in_place_of_a_preset_stands_the_config_with_most_seeds_then_with_fewest_changes(tmp_path: Path) -> None:
    name = "mnist/bro-mlp-mfr-fixed"
    for lr in (1e-3, 2e-3, 3e-3, 4e-3):  # whatever the order of their hashes
        write_run(tmp_path, PRESETS[name].replace(lr=lr, epochs=2), base=name)
    near = PRESETS[name].replace(epochs=3)
    write_run(tmp_path, near, base=name)
    hashes = [row["config_hash"] for row in report.table(tmp_path).rows()]
    assert hashes[0] == near.hash
    many = PRESETS[name].replace(lr=5e-3, epochs=2, batch_size=64)
    for seed in range(2):
        write_run(tmp_path, many, seed, base=name)
    assert [row["config_hash"] for row in report.table(tmp_path).rows()] == [many.hash, *hashes]


def test_relaxed_targets_are_said_where_there_is_no_paper_row(tmp_path: Path) -> None:
    write_run(tmp_path, "emnist/fast", split="official")
    text = report.table(tmp_path).markdown()
    assert notes_of(text, "fast") == ["relaxed targets"]
    assert "| **Not in the paper** |" in text


def test_weak_zero_shot_is_said(tmp_path: Path) -> None:
    write_run(tmp_path, "mnist/jepa-mlp-consistency")
    assert line_of(report.table(tmp_path, 1).markdown(), "jepa-mlp-consistency")[-1] == "weak"


# Which runs make a line


def test_changed_configs_are_lines_of_their_own_below_the_preset(tmp_path: Path) -> None:
    name = "mnist/bro-mlp-mfr-fixed"
    changed = [PRESETS[name].replace(lr=lr) for lr in (0.1, 0.2)]
    write_run(tmp_path, changed[0], base=name, seen=0.1)
    for seed in (0, 1):
        write_run(tmp_path, changed[1], seed, base=name, seen=0.2)
    write_run(tmp_path, name, seen=0.3)
    hashes = [row["config_hash"] for row in report.table(tmp_path, 1).rows() if row["row"] == name]
    assert hashes == [PRESETS[name].hash, changed[1].hash, changed[0].hash]  # the preset, then by number of seeds
    text = report.table(tmp_path, 1).markdown()
    assert line_of(text, "bro-mlp-mfr-fixed")[3] == "0.3000 ↓"
    assert line_of(text, "↳ lr=0.2")[1:4] == ["2", "25", "0.2000 ± 0.0000 ↓"]
    assert not re.search("|".join(hashes), text)


def test_a_changed_config_has_the_name_of_its_file_in_an_archive(tmp_path: Path) -> None:
    name, many = "mnist/jepa-mlp", {"lr": 0.1, "epochs": 2, "schedule": "one-cycle", "probe_lr": 1.0}
    changed = PRESETS[name].replace(**many)
    write_run(tmp_path / "runs", changed, base=name)
    write_run(tmp_path / "runs", PRESETS[name].replace(lr=0.2), base=name)
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept/names.csv").write_text(f"hash,name,question\n{changed.hash},jepa-mlp,in-a-hurry,\n".replace(
        "jepa-mlp,in-a-hurry", '"jepa-mlp,in-a-hurry"'))  # fmt: skip
    archive(tmp_path / "runs", tmp_path / "kept")
    labels = [line.label for section in report.table(tmp_path / "kept").sections for line in section.lines]
    assert sorted(labels) == ["jepa-mlp, lr=0.2", "↳ in-a-hurry"]
    labels = [line.label for section in report.table(tmp_path / "runs").sections for line in section.lines]
    assert labels == ["jepa-mlp, lr=0.2", "↳ epochs=2, lr=0.1, probe-lr=1, schedule=one-cycle"]


def test_a_world_that_is_not_in_the_paper_has_no_column_for_it(tmp_path: Path) -> None:
    write_run(tmp_path, "mnist/fast")
    header = [line for line in report.table(tmp_path).markdown().splitlines() if line.startswith("| row ")]
    assert [cells(line) for line in header] == [
        ["row", "seeds", "epochs", "seen", "zero-shot", "kind"], ["row", "train", "rollout", "k-NN"],
    ]  # fmt: skip


def test_what_the_recipe_for_own_images_chose_is_not_in_the_name_of_a_row(tmp_path: Path) -> None:
    chosen = PRESETS[AUTO].replace(world="/data/mine.npz", epochs=30, shift=1)
    write_run(tmp_path, chosen, base=AUTO)
    write_run(tmp_path, chosen.replace(lr=0.1), base=AUTO)
    labels = [line.label for section in report.table(tmp_path).sections for line in section.lines]
    assert labels[0] == AUTO
    assert labels[1] in ("↳ lr=0.1", f"↳ lr={PRESETS[AUTO].lr:g}")  # whichever has the lower hash leads


def test_a_changed_config_stands_in_the_row_where_the_preset_has_no_runs(tmp_path: Path) -> None:
    name = "mnist/bro-resnet18-mfr-fixed"
    write_run(tmp_path, PRESETS[name].replace(epochs=2), base=name)
    text = report.table(tmp_path, 1).markdown()
    assert line_of(text, "bro-resnet18-mfr-fixed, epochs=2")[1:4] == ["1", "2 (25)", "0.9800 ↓"]
    assert "↳" not in text


def test_a_config_that_equals_a_preset_is_that_preset_however_it_was_made(tmp_path: Path) -> None:
    write_run(tmp_path / "a", PRESETS["mnist/bro-mlp-mfr-learned"], base="mnist/bro-mlp-mfr-fixed")
    write_run(tmp_path / "b", PRESETS["mnist/bro-mlp-mfr-learned"], seed=1)
    (row,) = report.table(tmp_path).rows()
    assert (row["row"], row["n"], row["changes"]) == ("mnist/bro-mlp-mfr-learned", 2, "")


def test_a_preset_that_has_changed_since_does_not_pass_for_itself(tmp_path: Path) -> None:
    """Whatever name a run was given, its values are compared with the preset of today."""
    path = write_run(tmp_path, "mnist/bro-mlp-mfr-fixed")
    header = json.loads((path / "config.json").read_text())
    header["config"]["lr"] = 0.5
    (path / "config.json").write_text(json.dumps(header))
    (row,) = report.table(tmp_path).rows()
    assert row["changes"] == "lr 0.5"
    header["preset"] = header["base"] = "mnist/forgotten"
    (path / "config.json").write_text(json.dumps(header))
    (row,) = report.table(tmp_path).rows()
    assert row["row"] == row["config_hash"]
    (note,) = row["notes"]
    assert re.fullmatch(rf"config {row['config_hash']}, changed from the defaults: (.*, )?lr 0.5", note)


def test_another_world_is_not_in_the_papers_tables(tmp_path: Path) -> None:
    own = PRESETS["mnist/bro-mlp-mfr-fixed"].replace(world="/data/mnist")
    write_run(tmp_path, own, base="mnist/bro-mlp-mfr-fixed")
    assert not any(row["n"] for row in report.table(tmp_path, 1).rows())
    (row,) = report.table(tmp_path).rows()
    assert (row["seen_paper"], row["changes"]) == (None, "world mnist")


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
    assert [row["n"] for row in report.table(paths).rows()] == [1]
    assert report.per_action(paths).remarks == []  # the run directory is taken, the CSV has no actions


def test_a_run_found_twice_with_other_numbers_is_an_error_that_names_both(cli: Cli, tmp_path: Path) -> None:
    first = write_run(tmp_path / "a", "mnist/jepa-mlp", knn=0.5)
    second = write_run(tmp_path / "b", "mnist/jepa-mlp", knn=0.25)
    done = cli("report", tmp_path)
    assert (done.code, done.out) == (1, "")
    assert says(done.err, f"{first} {second} mnist/jepa-mlp seed 0 disagree")


def test_unfinished_runs_are_counted_and_left_out(cli: Cli, tmp_path: Path) -> None:
    write_run(tmp_path, "mnist/jepa-mlp")
    for seed in (1, 2):
        write_run(tmp_path, "mnist/jepa-mlp", seed, unfinished=True)
    done = cli("report", tmp_path, tmp_path / "mnist", "--format", "json")
    assert done.code == 0
    assert says(done.err, "2 runs not finished, left out")
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
    assert as_row(from_run) == as_row(from_csv)
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
    (row,) = csv.DictReader(io.StringIO(report.runs(tmp_path).csv()))
    assert tuple(row) == COLUMNS
    assert (row["preset"], row["rollout"], row["knn"]) == ("mnist/jepa-mlp", "", "0.3333333333333333")
    assert (row["torch"], row["threads"], row["commit"]) == ("2.13.0", "1", "abc")


def damage(text: str, column: str, value: str) -> str:
    head, row = csv.reader(io.StringIO(text))
    row[COLUMNS.index(column)] = value
    out = io.StringIO()
    csv.writer(out).writerows([head, row])
    return out.getvalue()


@pytest.mark.parametrize(
    ("column", "value", "expected"),
    [
        ("seed", "zero", "'zero'"),
        ("seen", "nan", "seen is nan"),
        ("epochs", "", "no epochs"),
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
    assert says(done.err, f"{tmp_path / 'runs.csv'} line 2")
    assert says(done.err, expected), done.err
