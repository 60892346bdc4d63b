"""The documents' Python runs, and what they name exists. A small world stands in for MNIST where a block trains."""

from __future__ import annotations

import functools
import re
import runpy
import statistics
import sys
import textwrap
from pathlib import Path

import pytest

from brojepa import report
from brojepa.algebra.modulus import infer_modulus
from brojepa.bench import BENCHMARKS
from brojepa.bench.results import Results, read
from brojepa.cli import COMMANDS
from brojepa.config import words
from brojepa.figures import FIGURES
from brojepa.figures.choose import find
from brojepa.figures.data import unpack
from brojepa.parts import EXPECTED
from brojepa.presets import PRESETS
from brojepa.report.archive import experiment, read_names
from brojepa.report.records import find as find_records
from brojepa.report.rows import paper_rows
from brojepa.runs.finding import runs_under

ROOT = Path(__file__).parent.parent
FLAG = re.compile(r"(?<![\w-])--[a-z][a-z-]+")
DOCS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCKS = [
    pytest.param(block, id=f"{path.name}-{i}")
    for path in DOCS
    for i, block in enumerate(re.findall(r"```python\n(.*?)```", path.read_text(), re.DOTALL))
]


@pytest.mark.parametrize("block", BLOCKS)
def test_python_in_the_documents_runs(block, digits, tmp_path, monkeypatch, capsys):
    """As a script, mine.py. Where a block trains mnist/fast, on a few digits and for one epoch instead."""
    monkeypatch.chdir(tmp_path)
    small = f"brojepa.preset('mnist/fast').replace(world={str(digits)!r}, epochs=1, precision='float32')"
    code = block.replace('brojepa.train("mnist/fast"', f"brojepa.train({small}")
    code = code.replace('brojepa.open_world("mnist")', f"brojepa.open_world({str(digits)!r})")
    code = code.replace("epochs=8", "epochs=8, precision='float32'")
    (tmp_path / "mine.py").write_text(code)
    monkeypatch.delitem(sys.modules, "mine", raising=False)
    exec(compile(code, "mine.py", "exec"), {"__name__": "__main__"})
    if "print(" in block:
        assert capsys.readouterr().out


def test_the_table_of_parts_has_every_part_and_how_it_is_called():
    """docs/extending.md says what the error messages say."""
    page = (ROOT / "docs" / "extending.md").read_text()
    rows = re.findall(r"^\| \[.*\| `--(\w+)` \| `(\(.*?\))` \|", page, re.MULTILINE)
    assert dict(rows) == {kind: says.partition(" -> ")[0] for kind, says in EXPECTED.items()}


PRINTED = [
    pytest.param(block, says, id=f"{path.name}-{i}")
    for path in DOCS
    for i, (block, says) in enumerate(
        re.findall(r"```python\n([^`]*)```\n\nprints\n\n((?: {4}.*\n)+)", path.read_text())
    )
]


@pytest.mark.parametrize(("block", "says"), PRINTED)
def test_what_a_document_says_is_printed_is_printed(block, says, capsys):
    exec(compile(block, "document", "exec"), {})
    assert capsys.readouterr().out == textwrap.dedent(says)


def test_the_bars_of_the_documents_are_learned(tmp_path, monkeypatch, capsys):
    """docs/worlds.md promises a world that works: its own numbers must show it."""
    block = next(b.values[0] for b in BLOCKS if "bars.npz" in b.values[0])
    monkeypatch.chdir(tmp_path)
    space: dict = {}
    exec(compile(block.replace("epochs=8", "epochs=8, precision='float32'"), "document", "exec"), space)
    assert space["run"].result["metrics"]["zero_shot"] > 0.9


@pytest.mark.parametrize("path", DOCS, ids=lambda p: p.name)
def test_links_flags_and_presets_in_the_documents_exist(path, cli):
    text = path.read_text()
    for link in re.findall(r"\]\(([^)#:]+)\)", text):
        assert (path.parent / link).exists(), link
    torchruns = {"--nproc-per-node", "--nnodes", "--max-restarts"}
    known = {"--debug", "--version", "--logdir", "--extra-index-url", *torchruns}.union(
        *(FLAG.findall(cli(name, _whole_help(name)).out) for name in COMMANDS)
    )
    for found in set(FLAG.findall(text)):
        assert found in known, found  # or of pip and tensorboard, which the documents call
    for found in re.findall(r"brojepa train (\w+/[\w-]+)", text):
        assert found in PRESETS, found


def _whole_help(command: str) -> str:
    return "--help-all" if command in ("train", "sweep") else "--help"


def test_numbers_in_the_table_are_those_of_the_committed_runs():
    """Each row of our presets: its runs, seeds, then seen, zero-shot, rollout, k-NN and the kind."""
    runs = committed()
    rows = re.findall(r"^\| (`[^|]+) \|(.*)\|$", (ROOT / "docs/reproduction.md").read_text(), re.MULTILINE)
    assert len(rows) >= 8
    for name, cells in rows:
        done = named(name, runs)
        seeds, *accuracies, kind = [cell.strip() for cell in cells.split("|")][:6]
        assert len(done) == int(seeds), name
        for metric, cell in zip(("seen", "zero_shot", "rollout", "knn"), accuracies, strict=True):
            assert cell == told([run["metrics"][metric] for run in done], 4), (name, metric)
        assert {kind} == {run["zero_shot_kind"] for run in done}, name


def committed() -> dict[str, list[dict]]:
    """Results by preset and flags."""
    runs: dict[str, list[dict]] = {}
    for run in runs_under(ROOT / "results", damaged := []):
        of_today = (name for name, config in PRESETS.items() if config == run.config)
        base = next(of_today, run.header["preset"] or run.header["base"])
        name = " ".join([base, *words(run.config, PRESETS[base])])
        found = {**run.result, "config": run.header["config"], "where": run.path.parent, "epochs_seen": run.metrics}
        runs.setdefault(name, []).append(found)
    assert not damaged
    return runs


def named(cell: str, runs: dict[str, list[dict]]) -> list[dict]:
    """The runs that a row is about: `preset and flags`, or `preset` and a link to them."""
    name, link = re.fullmatch(r"`([^`]+)`(?: \[.+\]\((?:\.\./)?(.+)\))?", cell).groups()  # pyright: ignore
    if link is None:
        return runs[name]
    [(full, done)] = [(full, done) for full, done in runs.items() if done[0]["where"] == ROOT / link]
    assert full.startswith(f"{name} --"), cell
    return done


def told(values: list[float | None], digits: int) -> str:
    known = [v for v in values if v is not None]
    if len(known) < len(values):
        return "-"
    spread = f" ± {statistics.stdev(known):.{digits}f}" if len(known) > 1 else ""
    return f"{statistics.mean(known):.{digits}f}{spread}"


def rows_between(page: str, mark: str, skip: int = 2) -> list[list[str]]:
    text = (ROOT / "docs" / page).read_text().split(f"<!-- {mark} -->")[1].split(f"<!-- /{mark} -->")[0]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in text.strip().splitlines()[skip:]]


def test_what_the_worlds_reach_is_what_the_committed_runs_reached():
    runs, rows = committed(), rows_between("worlds.md", "reached")
    assert {"torus/fast", "rotation/fast", "dihedral/fast", "pose/fast"} <= {row[0].strip("`") for row in rows}
    for name, seeds, seen, zero_shot, chance, *errors in rows:
        done = named(name, runs)
        assert len(done) == int(seeds), name
        assert (seen, zero_shot) == tuple(told([r["metrics"][m] for r in done], 4) for m in ("seen", "zero_shot"))
        assert chance == f"{done[0]['chance']:.4f}"
        assert {r["zero_shot_kind"] for r in done} == {"strict"}
        parts = (("zero_shot",), ("refined", "zero_shot"), ("off_grid",), ("ceiling",))
        for path, cell in zip(parts, errors, strict=True):
            found = [functools.reduce(lambda at, key: (at or {}).get(key), path, r.get("retrieval")) for r in done]
            assert cell == told([(each or {}).get("median_error") for each in found], 1), (name, path)


def test_the_cycles_told_are_those_of_the_committed_angles():
    runs, rows = committed(), rows_between("algebra.md", "cycles")
    learned = [done for done in runs.values() if done[0]["config"]["action"] == "mfr-learned"]
    assert {named(row[0], runs)[0]["where"] for row in rows} == {done[0]["where"] for done in learned}
    for name, states, seeds, cycles in rows:
        done = sorted(named(name, runs), key=lambda r: r["seed"])
        assert (len(done), 1 / done[0]["chance"]) == (int(seeds), pytest.approx(int(states)))
        assert cycles == ", ".join(str(infer_modulus(r["angles"])[0] or "none") for r in done)


@pytest.mark.parametrize("number", [1, 2])
def test_the_papers_tables_have_every_row_and_the_numbers_of_the_committed_runs(number):
    lines = [line for line in report.table(ROOT / "results", number).sections[0].lines if line.leads]
    rows = [row for row in rows_between("reproduction.md", f"table {number}", 4) if not row[0].startswith("**")]
    assert [row[0] for row in rows] == [line.label for line in lines]
    assert [line.name for line in lines] == [name for name, row in paper_rows().items() if row.world == lines[0].world]
    for row, line in zip(rows, lines, strict=True):
        results = [record.run.result for record in line.records]
        assert (row[1], row[2].split()[0]) == (str(len(results)), str(results[0]["epochs"]))
        for metric, ours, paper in (("seen", row[3], row[4]), ("zero_shot", row[5], row[-2 if number == 1 else -1])):
            value, mark = ours.rsplit(" ", 1)
            assert value == told([result["metrics"][metric] for result in results], 4), (row[0], metric)
            mean, std = paper_rows()[line.name].metrics[metric]
            assert paper == f"{mean:.4f} ± {std:.4f}"
            gap = round(statistics.mean(result["metrics"][metric] for result in results) - mean, 4)
            assert mark == ("=" if abs(gap) <= std else "↑" if gap > 0 else "↓"), (row[0], metric)
        if number == 2:
            near = [
                statistics.mean(v for k, v in result["per_action"].items() if 2 <= abs(int(k)) <= 9)
                for result in results
            ]
            assert row[6].rsplit(" ", 1)[0] == told(near, 4), row[0]


@pytest.mark.parametrize("number", [1, 2])
def test_the_ablations_are_all_changed_configs_with_their_numbers(number):
    lines = report.table(ROOT / "results", number).sections[0].lines
    changed = {line.name for line in lines if not line.leads}
    lines = [line for line in lines if line.name in changed]
    rows = rows_between("ablations.md", f"ablations {number}", 4)
    assert [row[0] for row in rows] == [line.label for line in lines]
    for row, line in zip(rows, lines, strict=True):
        results = [record.run.result for record in line.records]
        assert row[1] == str(len(results))
        for metric, cell in (("seen", row[3]), ("zero_shot", row[4]), ("rollout", row[-2]), ("knn", row[-1])):
            assert cell == told([result["metrics"][metric] for result in results], 4), (row[0], metric)


def test_odd_and_even_actions_are_those_of_the_committed_runs():
    runs, rows = committed(), rows_between("odd-and-even.md", "parity")
    name = "mnist/supervised-mlp-mfr-fixed"
    changed = "--train-actions=-1,0,1 --checkpoint=last"
    for row, done in zip(rows, (runs[name], runs[f"{name} {changed}"]), strict=True):
        trained = {int(k) for k in row[0].split(", ")}
        assert trained == {*done[0]["config"]["train_actions"]}
        held_out = [{int(k): v for k, v in r["per_action"].items() if int(k) not in trained} for r in done]
        odd, even = ([statistics.mean(v for k, v in t.items() if k % 2 == rest) for t in held_out] for rest in (1, 0))
        every = [statistics.mean(t.values()) for t in held_out]
        assert row[2:5] == [told(values, 4) for values in (odd, even, every)]
        assert row[6] == told([r["epochs_seen"][-1]["zero_shot"] for r in done], 4)
    data = unpack((ROOT / "results/figures/parity.npz").read_bytes(), "parity")
    for k, mean in zip(data["both.actions"], data["both.accuracy"].mean(0), strict=True):
        word = f"{k:+d}" if k else "0"
        assert mean == pytest.approx(statistics.mean(r["per_action"][word] for r in done), abs=1e-4)


@pytest.mark.parametrize("page", ["reproduction", "ablations", "odd-and-even", "figures", "method"])
def test_tables_of_the_science_fit_a_screen_and_name_no_row_by_a_hash(page):
    text = (ROOT / "docs" / f"{page}.md").read_text()
    for rule in re.findall(r"^\|[-:|]+\|$", text, re.MULTILINE):
        assert rule.count("|") - 1 <= 8
    hashes = {record.config_hash for record in find_records([ROOT / "results"]).records}
    assert not [found for found in hashes if found in text]


def test_filling_the_documents_changes_nothing():
    """`make docs` was run after the last change of results/."""
    for file, text in runpy.run_path(str(ROOT / "docs" / "fill.py"))["filled"]().items():
        assert file.read_text() == text, file


def test_the_committed_runs_are_files_named_in_words():
    """A line per run in few files; directories are added with brojepa report DIR --archive results, then removed."""
    files = [file for file in (ROOT / "results").rglob("*") if file.is_file()]
    assert not [file for file in files if file.name in ("config.json", "result.json")]
    assert not [file for file in files if re.fullmatch(r"[0-9a-f]{8}\.jsonl", file.name)]
    names, records = read_names(ROOT / "results"), find_records([ROOT / "results"]).records
    assert len(files) < len(records) / 2
    for record in records:
        assert record.source.startswith(f"{ROOT}/results/{experiment(record, names)}.jsonl/"), record.source


def test_the_performance_page_shows_the_committed_benchmarks():
    data = read(ROOT / "results" / "bench.json")
    assert list(data["benchmarks"]) == list(BENCHMARKS)
    assert not data["quick"]
    shown = (ROOT / "docs" / "performance.md").read_text().split("<!-- bench -->\n")[1].split("<!-- /bench -->")[0]
    assert shown.split("\n\nMeasured ")[0] in Results(data).markdown()
    assert all(f"| {name} " in shown for name in BENCHMARKS)


def test_the_page_on_processes_shows_the_committed_benchmark():
    measured = read(ROOT / "results" / "bench.json")["benchmarks"]["torchrun"]["rows"]
    page = (ROOT / "docs" / "processes.md").read_text()
    shown = re.findall(r"^\| `([^`]+)` \| (\S+) ms \| (\S+) ms \|", page, re.MULTILINE)
    assert len(measured) == 2 * len(shown) > 0
    for row, (preset, *cells) in zip(zip(measured[::2], measured[1::2], strict=True), shown, strict=True):
        assert [one["preset"] for one in row] == [preset, preset]
        steps = [one["step, ms"] for one in row]
        assert [float(c.replace(",", "")) for c in cells] == pytest.approx(steps, abs=0.05, rel=0.01)


def test_the_documents_figures_are_drawn_again_from_their_data_alone():
    """A run there would come before the data, and draw less where it has no weights."""
    runs, files, _ = find([ROOT / "results/figures"])
    assert not runs
    assert sorted(unpack(file.read_bytes(), file)["figure"] for file in files) == sorted(FIGURES)
