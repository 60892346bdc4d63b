"""The documents' Python runs, and what they name exists. A small world stands in for MNIST where a block trains."""

from __future__ import annotations

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
    known = {"--debug", "--version", "--logdir", "--extra-index-url"}.union(
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
        base = run.header["preset"] or run.header["base"]
        name = " ".join([base, *words(run.config, PRESETS[base])])
        found = {**run.result, "config": run.header["config"], "where": run.path.parent}
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


def rows_between(page: str, mark: str) -> list[list[str]]:
    text = (ROOT / "docs" / page).read_text().split(f"<!-- {mark} -->")[1].split(f"<!-- /{mark} -->")[0]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in text.strip().splitlines()[2:]]


def test_what_the_worlds_reach_is_what_the_committed_runs_reached():
    runs, rows = committed(), rows_between("worlds.md", "reached")
    assert {"torus/fast", "rotation/fast", "dihedral/fast", "pose/fast"} <= {row[0].strip("`") for row in rows}
    for name, seeds, seen, zero_shot, chance, *errors in rows:
        done = named(name, runs)
        assert len(done) == int(seeds), name
        assert (seen, zero_shot) == tuple(told([r["metrics"][m] for r in done], 4) for m in ("seen", "zero_shot"))
        assert chance == f"{done[0]['chance']:.4f}"
        assert {r["zero_shot_kind"] for r in done} == {"strict"}
        for part, cell in zip(("zero_shot", "off_grid", "ceiling"), errors, strict=True):
            found = [((r.get("retrieval") or {}).get(part) or {}).get("median_error") for r in done]
            assert cell == told(found, 1), (name, part)


def test_the_cycles_told_are_those_of_the_committed_angles():
    runs, rows = committed(), rows_between("algebra.md", "cycles")
    learned = [done for done in runs.values() if done[0]["config"]["action"] == "mfr-learned"]
    assert {named(row[0], runs)[0]["where"] for row in rows} == {done[0]["where"] for done in learned}
    for name, states, seeds, cycles in rows:
        done = sorted(named(name, runs), key=lambda r: r["seed"])
        assert (len(done), 1 / done[0]["chance"]) == (int(seeds), pytest.approx(int(states)))
        assert cycles == ", ".join(str(infer_modulus(r["angles"])[0] or "none") for r in done)


@pytest.mark.parametrize("number", [1, 2])
def test_the_reproduction_page_shows_the_tables_of_the_committed_runs(number):
    page = (ROOT / "docs" / "reproduction.md").read_text()
    assert report.table(ROOT / "results", table=number).markdown() in page


def test_filling_the_documents_changes_nothing():
    """`make docs` was run after the last change of results/."""
    for file, text in runpy.run_path(str(ROOT / "docs" / "fill.py"))["filled"]().items():
        assert file.read_text() == text, file


def test_the_committed_runs_are_files_named_in_words():
    """A line per run in few files; directories are added with brojepa report DIR --archive results, then removed."""
    files = [file for file in (ROOT / "results").rglob("*") if file.is_file()]
    assert not [file for file in files if file.name in ("config.json", "result.json")]
    assert len(files) < 120
    assert not [file for file in files if re.fullmatch(r"[0-9a-f]{8}\.jsonl", file.name)]
    names = read_names(ROOT / "results")
    for record in find_records([ROOT / "results"]).records:
        assert record.source.startswith(f"{ROOT}/results/{experiment(record, names)}.jsonl/"), record.source


def test_the_performance_page_shows_the_committed_benchmarks():
    data = read(ROOT / "results" / "bench.json")
    assert list(data["benchmarks"]) == list(BENCHMARKS)
    assert not data["quick"]
    shown = (ROOT / "docs" / "performance.md").read_text().split("<!-- bench -->\n")[1].split("<!-- /bench -->")[0]
    assert shown.split("\n\nMeasured ")[0] in Results(data).markdown()
    assert all(f"| {name} " in shown for name in BENCHMARKS)


def test_the_documents_figures_are_drawn_again_from_their_data_alone():
    """A run there would come before the data, and draw less where it has no weights."""
    runs, files, _ = find([ROOT / "results/figures"])
    assert not runs
    assert sorted(unpack(file.read_bytes(), file)["figure"] for file in files) == sorted(FIGURES)
