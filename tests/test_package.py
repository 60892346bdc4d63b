"""What is installed is whole: the wheel carries the data, its licence and the type marker."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

from brojepa.demo.page import FILES as PAGE
from brojepa.runs.find import packed
from brojepa.runs.hub import DECODER, FILES
from brojepa.worlds.sources import MNIST

ROOT = Path(__file__).parent.parent


def test_a_built_wheel_contains_the_data_and_the_command(tmp_path):
    source = tmp_path / "source"  # setuptools writes beside what it builds
    source.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    shutil.copytree(ROOT / "src", source / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "-w", str(tmp_path)]
    subprocess.run([*build, str(source)], check=True, capture_output=True)
    (wheel,) = tmp_path.glob("brojepa-*.whl")
    with zipfile.ZipFile(wheel) as file:
        names = set(file.namelist())
        entry = next(n for n in names if n.endswith("entry_points.txt"))
        assert "brojepa = brojepa.cli:main" in file.read(entry).decode()
    wanted = {f"brojepa/worlds/mnist/{name}.gz" for name in MNIST.files}
    wanted |= {f"brojepa/weights/{name}/{file}" for name in packed() for file in FILES}
    wanted |= {f"brojepa/weights/mnist/fast/{file}" for file in DECODER}
    wanted |= {f"brojepa/demo/{name}" for name in (*PAGE, "page.css")}
    assert wheel.stat().st_size <= 25_000_000
    assert wanted | {"brojepa/worlds/mnist/LICENSE.md", "brojepa/py.typed", "brojepa/report/paper.csv"} <= names
    with zipfile.ZipFile(wheel) as file:
        file.extractall(tmp_path / "installed")
    code = 'import brojepa; print(brojepa.__file__, brojepa.load("mnist/fast").action.dim)'
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "installed")}
    done = subprocess.run([sys.executable, "-c", code], env=environment, cwd=tmp_path, capture_output=True, text=True)
    assert done.stdout.split() == [str(tmp_path / "installed" / "brojepa" / "__init__.py"), "64"], done.stderr
