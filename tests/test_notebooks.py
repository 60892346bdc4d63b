"""The notebooks in examples/ run, hold no outputs, and link to themselves on Colab."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
NOTEBOOKS = sorted((ROOT / "examples" / "notebooks").glob("*.ipynb"))
COLAB = "https://colab.research.google.com/github/brojepa/brojepa/blob/main/"
PRINTED = {"first_run": "+3", "own_data": "five hours later", "algebra": "a cycle of length 10"}
FEWER = {"COUNT, HOURS = 6000, 12": "COUNT, HOURS = 1200, 12", "epochs=6": "epochs=4, precision='float32'"}


def cells(path: Path, kind: str) -> list[str]:
    return ["".join(cell["source"]) for cell in json.loads(path.read_text())["cells"] if cell["cell_type"] == kind]


def test_there_are_three():
    assert {path.stem for path in NOTEBOOKS} == set(PRINTED)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_clean_and_installs_itself_on_colab(path):
    book = json.loads(path.read_text())
    assert (book["nbformat"], book["nbformat_minor"]) == (4, 5)
    assert len({cell["id"] for cell in book["cells"]}) == len(book["cells"])
    for cell in book["cells"]:
        assert cell.get("outputs", []) == []
        assert cell.get("execution_count") is None
    assert f"{COLAB}{path.relative_to(ROOT).as_posix()}" in cells(path, "markdown")[0]
    assert "google.colab" in cells(path, "code")[0]
    assert "git+https://github.com/brojepa/brojepa" in cells(path, "code")[0]
    assert path.stat().st_size < 20_000


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(path, digits, tmp_path, monkeypatch, capsys):
    """Every cell in order, the last line of each shown. Where one trains on MNIST, on a few digits for one epoch."""
    pytest.importorskip("matplotlib").use("Agg")
    monkeypatch.chdir(tmp_path)
    space: dict = {"__name__": "__main__"}
    short = f"brojepa.preset('mnist/fast').replace(world={str(digits)!r}, epochs=1, precision='float32')"
    for source in cells(path, "code"):
        code = source.replace('brojepa.train("mnist/fast", seed=0)', f"brojepa.train({short}, seed=0)")
        if path.stem == "first_run":
            code = code.replace('brojepa.open_world("mnist")', f"brojepa.open_world({str(digits)!r})")
        for long, few in FEWER.items():
            code = code.replace(long, few)
        tree = ast.parse(code)
        if isinstance(tree.body[-1], ast.Expr):
            exec(compile(ast.Module(tree.body[:-1], []), path.name, "exec"), space)
            shown = eval(compile(ast.Expression(tree.body[-1].value), path.name, "eval"), space)
            if shown is not None and not source.rstrip().endswith(";"):
                print(repr(shown))
        else:
            exec(compile(tree, path.name, "exec"), space)
    assert PRINTED[path.stem] in capsys.readouterr().out
    if path.stem == "own_data":
        right = [(now + 5) % 12 == later for now, later in zip(space["hours"], space["later"].tolist(), strict=True)]
        assert sum(right) >= 11
