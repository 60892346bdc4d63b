"""The README says what is true: its numbers, its commands, its citations; and the first page's transcript."""

from __future__ import annotations

import json
import re
import statistics
from pathlib import Path

import pytest
from conftest import Cli

import brojepa
from brojepa.cli import COMMANDS
from brojepa.exporting.card import CITATION
from brojepa.report.records import Record, find
from brojepa.report.rows import paper_rows

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
START = (ROOT / "docs" / "start.md").read_text()
BEST = "mnist/bro-resnet18-mfr-learned"


@pytest.fixture(scope="module")
def records() -> list[Record]:
    return find([ROOT / "results"]).records


def rows(mark: str) -> list[list[str]]:
    table = README.split(f"<!-- {mark} -->\n")[1].split(f"<!-- /{mark} -->")[0]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()[2:]]


def test_the_first_table_is_that_of_the_committed_runs_and_the_paper(records):
    shown = {re.findall(r"`(.+)`", row[0])[0]: row[1:] for row in rows("four")}
    assert list(shown) == ["mnist/fast", BEST, "mnist/jepa-mlp", "mnist/supervised-mlp-mfr-fixed"]
    for name, (accuracy, time) in shown.items():
        done = [r for r in records if r.preset == name]
        if name == BEST:
            short = [r for r in records if r.base == name]
            mean, std = paper_rows()[name].metrics["zero_shot"]
            hours = 25 * statistics.median(r.seconds / r.epochs for r in short) / 3600
            assert not done
            assert {r.epochs for r in short} == {2}
            assert (accuracy, time) == (f"{mean:.4f} ± {std:.4f}", f"about {hours:.0f} h")
            continue
        reached = [r.zero_shot for r in done]
        assert sorted(r.seed for r in done) == list(range(6)), name
        assert {r.threads for r in done} == {2 if name == "mnist/fast" else 1}
        assert accuracy == f"{statistics.mean(reached):.4f} ± {statistics.stdev(reached):.4f}"
        assert time == f"{statistics.median(r.seconds for r in done):.0f} s"
    assert {r.threads for r in records if r.base == BEST} == {1}


def test_the_second_table_is_that_of_the_committed_runs(records):
    for name, _, accuracy, other, chance, *_ in rows("beyond"):
        for cell, preset in ((accuracy, name.strip("`")), (other, name.strip("`").replace("fast", "additive"))):
            done = [r for r in records if r.preset == preset]
            assert cell.startswith(f"{statistics.mean(r.zero_shot for r in done):.4f}")
        assert chance == f"{done[0].chance:.4f}"


def test_the_second_table_has_the_error_of_the_model_before_that_of_the_candidates():
    for name, *_, error, of_candidate in rows("beyond"):
        path = ROOT / "results" / f"{name.strip('`')}.jsonl"
        found = [json.loads(line)["result"]["retrieval"] for line in path.read_text().splitlines()]
        own = [(each.get("refined") or each)["zero_shot"]["median_error"] for each in found]
        assert error == f"{statistics.mean(own):.1f}°"
        assert of_candidate == f"{statistics.mean(each['zero_shot']['median_error'] for each in found):.1f}°"
        assert float(error[:-1]) <= float(of_candidate[:-1])


def test_the_transcript_is_of_the_committed_run(records):
    [run] = [r for r in records if (r.preset, r.seed) == ("mnist/fast", 0)]
    for name in ("train", "seen", "zero_shot", "rollout", "knn", "chance"):
        assert f"      {name.replace('_', '-'):<10} {getattr(run, name):.4f}" in START
    assert f"trained in {run.seconds:.1f} s ({run.images_per_second:,.0f} images/s)" in START


@pytest.mark.parametrize("text", [README, START], ids=["README", "start"])
def test_commands_take_the_flags_that_they_are_shown_with(text: str, cli: Cli):
    lines = re.findall(r"^    brojepa (\w+)(.*)$", text, re.MULTILINE)
    assert len(lines) >= 4
    for command, rest in lines:
        said = cli(command, "--help-all" if command in ("train", "sweep") else "--help").out
        words = rest.split("   ")[0].split("#")[0]
        assert command in COMMANDS
        assert all(re.search(rf"{flag}\b", said) for flag in re.findall(r"--[a-z-]+", words)), rest


def test_the_citations_are_there():
    assert CITATION in README
    assert "https://arxiv.org/abs/2606.01372" in README


def test_no_plane_of_the_example_stands_still():
    code = re.findall(r"```python\n(.*?)```", README, re.DOTALL)[1]
    space: dict = {"__name__": "mine"}
    exec(code, space)
    action = space["action"](64, brojepa.Cyclic(8))
    assert (action.angles.reshape(-1) % 6.2831853).min() > 0.1


def test_it_stays_short():
    assert len(README.splitlines()) <= 145
