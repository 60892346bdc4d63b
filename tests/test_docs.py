"""The documents' Python runs, and what they name exists. A small world stands in for MNIST where a block trains."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from brojepa.cli import COMMANDS
from brojepa.config import flag
from brojepa.presets import PRESETS

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
    """Where a block trains mnist/fast, on a few digits and for one epoch instead."""
    monkeypatch.chdir(tmp_path)
    small = f"brojepa.preset('mnist/fast').replace(world={str(digits)!r}, epochs=1, precision='float32')"
    code = block.replace('brojepa.train("mnist/fast"', f"brojepa.train({small}")
    code = code.replace('brojepa.open_world("mnist")', f"brojepa.open_world({str(digits)!r})")
    code = code.replace("epochs=8", "epochs=8, precision='float32'")
    exec(compile(code, "document", "exec"), {})
    if "print(" in block:
        assert capsys.readouterr().out


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
    known = {"--debug", "--version"}.union(*(FLAG.findall(cli(name, "--help").out) for name in COMMANDS))
    for found in set(FLAG.findall(text)):
        assert found in known, found
    for found in re.findall(r"brojepa train (\w+/[\w-]+)", text):
        assert found in PRESETS, found


def test_numbers_in_the_table_are_those_of_the_committed_runs():
    """Each row of the README's table: preset (and flags), then train, seen, zero-shot, rollout, k-NN."""
    runs = {}
    for file in (ROOT / "results").rglob("result.json"):
        config = json.loads((file.parent / "config.json").read_text())
        base = config["preset"] or config["base"]
        changed = {k: v for k, v in config["config"].items() if PRESETS[base].to_dict()[k] != v}
        flags = "".join(f" {flag(k)} {v}" for k, v in changed.items())
        runs[base + flags] = json.loads(file.read_text())
    rows = re.findall(r"^\| `([^`]+)` \|(.*)\|$", (ROOT / "README.md").read_text(), re.MULTILINE)
    assert len(rows) >= 10
    for name, cells in rows:
        result = runs[name]
        values = [cell.strip() for cell in cells.split("|")]
        told = [None if v == "-" else float(v) for v in values[:5]]
        metrics = [None if m is None else round(m, 4) for m in result["metrics"].values()]
        assert told == metrics, name
        assert values[5] == result["zero_shot_kind"], name
