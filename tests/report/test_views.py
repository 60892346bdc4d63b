"""`brojepa report` as a user meets it: formats, per action, two rows compared, and what goes wrong."""

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
from conftest import largest_file
from helpers import says
from reporting import Cli, cells, line_of, write_run

from brojepa import report
from brojepa.errors import RunError
from brojepa.presets import PRESETS
from brojepa.report.records import METRICS

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
    "within": lambda path: report.table(path, within=3),
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
    rows = json.loads(view.json(), parse_constant=pytest.fail)
    lines = list(csv.DictReader(io.StringIO(view.csv())))
    assert len(lines) == len(rows) > 0
    for line, values in zip(lines, rows, strict=True):
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
        assert f" {title} & paper" in text


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
    rows = {line["action"]: line for line in report.per_action(tmp_path).rows()}
    assert list(rows) == ["-1", "+1", "+2", "+10"]
    assert rows["+2"]["mean"] == pytest.approx(0.55)
    assert rows["+2"]["std"] == pytest.approx(0.1 / math.sqrt(2))
    assert [line["trained"] for line in rows.values()] == [True, True, False, False]
    text = cli("report", tmp_path, "--per-action", "--table", "1").out
    assert line_of(text, "-1")[1] == "0.9000 ± 0.0000 *"
    assert line_of(text, "+2")[1] == "0.5500 ± 0.0707"


def test_per_action_needs_run_directories(cli: Cli, tmp_path: Path) -> None:
    write_run(tmp_path / "a", "mnist/jepa-mlp")
    write_run(tmp_path / "b", "mnist/jepa-mlp", seed=1)
    (tmp_path / "b.csv").write_text(report.runs(tmp_path / "b").csv())
    done = cli("report", tmp_path / "b.csv", "--per-action")
    assert (done.code, done.out) == (2, "")
    assert says(done.err, "CSV accuracies per action")
    done = cli("report", tmp_path / "a", tmp_path / "b.csv", "--per-action")
    assert done.code == 0
    assert says(done.err, "1 run CSV left out")


def test_zero_shot_within_a_size_is_the_mean_over_the_held_out_actions_up_to_it(cli: Cli, tmp_path: Path) -> None:
    measured = {"-3": 0.1, "-2": 0.2, "-1": 0.9, "+1": 0.8, "+2": 0.4, "+3": 0.7, "+9": 1.0}
    write_run(tmp_path / "digits", "mnist/jepa-mlp", zero_shot=0.48, per_action=measured)
    for size, mean in {2: 0.3, 3: 0.35, 9: 0.48, 30: 0.48}.items():
        (line,) = [r for r in report.table(tmp_path, 1, within=size).rows() if r["n"]]
        assert line["zero_shot"] == pytest.approx(mean)
        assert (line["seen"], line["rollout"], line["knn"]) == (report.table(tmp_path).rows()[0]["seen"], None, None)
    text = cli("report", tmp_path, "--table", "1", "--within", "2").out
    assert "zero-shot over actions up to ±2" in text
    assert line_of(text, "jepa-mlp")[5].split() == ["0.3000", "↑"]
    assert "rollout" not in text

    write_run(tmp_path / "torus", "torus/fast", per_action={"1:0": 0.9, "2:3": 0.8})
    assert says(cli("report", tmp_path, "--within", "3").err, "1 run left out")
    done = cli("report", tmp_path / "torus", "--within", "3")
    assert (done.code, done.out) == (2, "")
    assert says(done.err, "run directories cycle")


# Two rows compared


def test_comparison_pairs_shared_seeds(cli: Cli, tmp_path: Path) -> None:
    name, changed = "mnist/jepa-mlp", PRESETS["mnist/jepa-mlp"].replace(lr=0.1)
    for seed, value in {0: 0.9, 1: 0.8, 2: 0.85, 7: 0.1}.items():
        write_run(tmp_path, name, seed, seen=value)
    for seed, value in {0: 0.7, 1: 0.65, 2: 0.75, 9: 0.99}.items():
        write_run(tmp_path, changed, seed, base=name, seen=value, rollout=None)
    view = report.compare(tmp_path, name, changed.hash)
    rows = {line["metric"]: line for line in view.rows()}
    assert list(rows) == ["train", "seen", "zero_shot", "knn"]  # no rollout to compare
    seen = rows["seen"]
    differences = np.array([0.2, 0.15, 0.1])
    assert seen["seeds"] == [0, 1, 2]
    assert (seen["difference"], seen["std"]) == pytest.approx((0.15, 0.05))
    half = 4.302653 * 0.05 / math.sqrt(3)
    assert (seen["low"], seen["high"]) == pytest.approx((0.15 - half, 0.15 + half))
    t = differences.mean() / (0.05 / math.sqrt(3))
    assert seen["p_t_test"] == pytest.approx(2 / ((2 + t * t) * (1 + t / math.sqrt(2 + t * t))))  # 2 degrees of freedom
    assert seen["p_sign_flip"] == 2 / 8
    assert rows["train"]["p_t_test"] == rows["train"]["p_sign_flip"] == 1
    for called in (changed.hash, f"{name},lr=0.1"):
        done = cli("report", tmp_path, "--compare", name, called)
        assert f"{name} less {called}, 3 shared seeds: 0, 1, 2" in done.out
    assert line_of(done.out, "seen")[1:5] == ["0.8500", "0.7000", "+0.1500", "0.0500"]


def test_comparison_that_cannot_be_made(cli: Cli, tmp_path: Path) -> None:
    changed = PRESETS["mnist/supervised-mlp"].replace(lr=0.1)
    write_run(tmp_path, "mnist/jepa-mlp", 0)
    write_run(tmp_path, "mnist/fast", 1)
    write_run(tmp_path, changed, 0, base="mnist/supervised-mlp")
    for names, expected in {
        ("mnist/jepa-mlp", "mnist/fast"): "mnist/jepa-mlp has seeds 0 and mnist/fast has 1: a comparison needs two",
        ("mnist/jepa-mpl", "mnist/fast"): "unknown row 'mnist/jepa-mpl': did you mean mnist/jepa-mlp",
        (
            "mnist/supervised-mlp",
            "mnist/fast",
        ): "changed values: name one of them, mnist/supervised-mlp,lr=0.1",
    }.items():
        done = cli("report", tmp_path, "--compare", *names)
        assert (done.code, done.out) == (2, "")
        assert says(done.err, expected), done.err


# What goes wrong


WRONG = [  # RUNS stands for a directory with a run, EMPTY for one without
    (["RUNS", "--table", "3"], "unknown table '3': choose from 1, 2"),
    (["RUNS", "--format", "markdwon"], "unknown format 'markdwon': choose from md, csv, latex, json"),
    (["RUNS", "--format", "latx"], "unknown format 'latx': did you mean latex"),
    (["RUNS", "--per-actoin"], "unknown flag '--per-actoin': did you mean --per-action"),
    (["RUNS", "--compare", "mnist/fast"], "--compare: expected 2 arguments"),
    (["RUNS", "--runs", "--per-action"], "not allowed with argument --runs"),
    (["RUNS", "--table", "1", "--compare", "a", "b"], "--table: not allowed with argument --compare"),
    (["RUNS", "--within", "1"], "--within 1: give the largest held-out action to count, 2 or more"),
    (["RUNS", "--within", "2", "--runs"], "--within: not allowed with argument --runs"),
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
    assert says(done.err, expected), done.err


@pytest.mark.parametrize(
    ("file", "text", "expected"),
    [
        ("result.json", "{", "is damaged"),
        ("result.json", "[]", "is not a run's result"),
        ("result.json", '{"metrics": {}}', "is not a run's result (no world)"),
        ("result.json", '{"metrics": []}', "is not a run's result"),
        ("config.json", "{", "is damaged"),
        (
            "config.json",
            '{"config": {"lr": -1}, "seed": 0, "world": {"name": "mnist"}}',
            "config.json: --lr must be above 0",
        ),
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
    assert says(done.err, expected), done.err


def test_metric_that_is_no_number_is_refused(cli: Cli, tmp_path: Path) -> None:
    path = write_run(tmp_path, "mnist/jepa-mlp", seen=math.nan)
    done = cli("report", tmp_path)
    assert done.code == 1
    assert str(path / "result.json") in done.err
    assert "nan" in done.err.lower()


# The real thing


def test_a_trained_run_is_reported(cli: Cli, digits: Path, tmp_path: Path) -> None:
    words = ("--encoder", "mlp", "--latent", "32", "--epochs", "1", "--batch-size", "32", "--quiet")
    assert cli("train", "--world", digits, *words, "--out", tmp_path) == (0, "", "")
    result = json.loads(next(tmp_path.rglob("result.json")).read_text())
    (row,) = json.loads(cli("report", tmp_path, "--format", "json").out)
    assert (row["world"], row["seeds"], row["epochs"]) == ("digits", [0], 1)
    assert row["chance"] == 0.1
    assert {name: row[name] for name in METRICS} == result["metrics"]
    assert row["notes"][0].startswith(f"config {result['config_hash']}, changed from own/auto: world digits, ")
    assert "encoder mlp" in row["notes"][0]
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


# What cannot be read, and links


def test_a_damaged_run_is_left_out_with_its_reason_and_the_others_are_reported(cli: Cli, tmp_path: Path) -> None:
    for seed in range(3):
        write_run(tmp_path, "mnist/jepa-mlp", seed)
    bad = tmp_path / "mnist/jepa-mlp/seed-1/result.json"
    bad.write_text("{")
    done = cli("report", tmp_path, "--format", "json")
    assert done.code == 0
    assert json.loads(done.out)[0]["seeds"] == [0, 2]
    assert str(bad) in done.err
    assert "left out" in done.err
    assert len(done.err.splitlines()) == 1


def test_links_to_runs_are_followed_each_once_and_not_in_circles(cli: Cli, tmp_path: Path) -> None:
    elsewhere, here = tmp_path / "elsewhere", tmp_path / "here"
    write_run(elsewhere, "mnist/jepa-mlp", 0)
    path = write_run(elsewhere, "mnist/jepa-mlp", 1)
    here.mkdir()
    (here / "linked").symlink_to(elsewhere, target_is_directory=True)
    (here / "one").symlink_to(path, target_is_directory=True)
    (elsewhere / "round").symlink_to(here, target_is_directory=True)
    done = cli("report", here, "--format", "json")
    assert (done.code, done.err) == (0, "")
    assert json.loads(done.out)[0]["seeds"] == [0, 1]


# Retrieval and latents


def test_what_retrieval_and_latents_show_has_a_table_and_columns(tmp_path: Path) -> None:
    for seed in range(2):
        path = write_run(tmp_path, "pose/fast", seed) / "result.json"
        seen, unseen = ({"hit5": hit, "median_error": 3 * hit} for hit in (0.9, 0.5 + seed / 5))
        refined = {"seen": {"median_error": 1.0}, "zero_shot": {"median_error": 2.0 + seed}}
        retrieval = {"seen": seen, "zero_shot": unseen, "refined": refined}
        measured = {"error_ratio": 4.0, "r2_linear": -0.5, "d_lsbd": None, "frequencies": [1]}
        path.write_text(json.dumps({**json.loads(path.read_text()), "retrieval": retrieval, "equivariance": measured}))
    write_run(tmp_path, "pose/additive")
    view = report.table(tmp_path)
    _, table = view.markdown().split("pose, retrieval and latents")
    header = next(cells(line) for line in table.splitlines() if line.startswith("| row"))
    assert header == ["row", "hit@5", "median error", "refined", "R2", "error ratio"]
    assert line_of(table, "fast")[1:] == [
        "0.6000 ± 0.1414", "1.8000 ± 0.4243", "2.5000 ± 0.7071", "-0.5000 ± 0.0000", "4.0000 ± 0.0000",
    ]  # fmt: skip
    assert line_of(table, "additive")[1:] == ["-"] * 5
    row, other = view.rows()
    assert (row["hit5"], row["refined"], row["refined_std"]) == pytest.approx((0.6, 2.5, math.sqrt(0.5)))
    assert row["d_lsbd"] is other["hit5"] is None
    path.write_text(path.read_text().replace("-0.5", '"many"'))
    with pytest.raises(RunError, match="many"):
        report.table(path.parent)
