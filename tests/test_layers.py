"""The house: few modules at the root, rooms in order, and no room that imports from one below it."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest
from helpers import ROOT

PACKAGE = ROOT / "src" / "brojepa"
ROOMS = (
    "processes", "groups", "worlds", "models", "runs", "evaluation", "algebra", "training", "sweep", "report",
    "figures", "exporting", "demo", "bench", "cli",
)  # fmt: skip
EXTRAS = {"e3nn", "h5py", "submitit", "matplotlib", "sklearn", "resource", "onnxruntime", "huggingface_hub"}
"""What a user may not have (`resource` on Windows), imported where it is needed."""


def room(path: Path) -> str:
    """The room a file is in; "" at the root of the package."""
    parts = path.relative_to(PACKAGE).parts
    return parts[0] if len(parts) > 1 else ""


def imports(tree: ast.Module) -> list[tuple[str, bool]]:
    """Every module imported, and whether it is imported inside a function."""
    inside = {
        id(node)
        for function in ast.walk(tree)
        if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
        for node in ast.walk(function)
    }
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [(alias.name, id(node) in inside) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            # `from brojepa import x` may name a room
            names = (
                [f"brojepa.{alias.name}" for alias in node.names] if node.module == "brojepa" else [node.module or ""]
            )
            found += [(name, id(node) in inside) for name in names]
    return found


def faults(source: str, path: Path) -> list[str]:
    """What a file may not do: import from a room below its own, or import lazily outside `cli/`."""
    here, wrong = room(path), []
    rank = -1 if not here else ROOMS.index(here)
    for name, lazy in imports(ast.parse(source)):
        package, _, rest = name.partition(".")
        if package == "brojepa":
            there = rest.partition(".")[0]
            door = not here and path.stem.startswith("__")  # what `import brojepa` and `python -m brojepa` open
            if there in ROOMS and ROOMS.index(there) > rank and not door:
                wrong.append(f"{path.name} in {here or 'the root'} imports {name}, which is below it")
        if lazy and here != "cli" and package not in EXTRAS:
            wrong.append(f"{path.name} imports {name} inside a function")
    return wrong


def own_files() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


@pytest.mark.parametrize("path", own_files(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_every_import_points_upwards(path):
    assert faults(path.read_text(), path) == []


def test_an_upward_room_and_a_lazy_import_are_noticed():
    file = PACKAGE / "models" / "model.py"
    assert faults("from brojepa.groups import Cyclic\nimport torch", file) == []
    assert faults("from brojepa.training import train", file)
    assert faults("from brojepa import algebra", file)
    assert faults("if TYPE_CHECKING:\n    from brojepa.runs import Run", file)
    assert faults("def f():\n    from brojepa.groups import Cyclic", file)
    assert faults("def f():\n    import submitit", file) == []
    assert faults("def f():\n    import torch", PACKAGE / "cli" / "train.py") == []
    assert faults("from brojepa.worlds import World", PACKAGE / "config.py")


def test_the_root_is_small_and_every_folder_is_a_room():
    modules = sorted(path.name for path in PACKAGE.glob("*.py"))
    assert len(modules) <= 8
    folders = {path.name for path in PACKAGE.iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert folders == {*ROOMS, "weights"}
    assert not list((PACKAGE / "weights").rglob("*.py")), "data, not a room"
    for name in ROOMS:
        assert ast.get_docstring(ast.parse((PACKAGE / name / "__init__.py").read_text())), f"{name} says what it is for"


def test_the_root_and_the_help_screen_need_no_torch():
    names = [path.stem for path in PACKAGE.glob("*.py") if not path.stem.startswith("_")]
    code = "import sys, brojepa, brojepa.cli, " + ", ".join(f"brojepa.{name}" for name in names)
    code += "; sys.exit(any(name in sys.modules for name in ('torch', 'numpy', 'PIL')))"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_the_tests_mirror_the_rooms():
    folders = {path.name for path in (ROOT / "tests").iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert folders - {"contracts", "faults"} == set(ROOMS)
