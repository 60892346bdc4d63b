"""Where a run computes: chosen from what this machine has, and safe where its bfloat16 is not."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from brojepa.config import Config
from brojepa.errors import RequestError
from brojepa.files import cache_dir
from brojepa.runs import devices


def test_auto_takes_the_best_device_there_is_and_says_why():
    chosen = devices.place(Config())
    best = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    assert chosen.device.type == best
    assert chosen.precision is torch.float32, "an MLP has nothing to gain"
    assert best in str(chosen)
    assert "float32" in str(chosen)
    assert "MLP" in str(chosen)


def test_an_absent_device_is_refused_with_what_there_is():
    absent = "mps" if not torch.backends.mps.is_available() else "cuda"
    with pytest.raises(RequestError, match=rf"--device {absent} .*auto.*cpu"):
        devices.choose_device(absent)


def test_precision_as_asked_and_as_a_run_began_wins_over_what_is_measured():
    assert devices.place(Config(encoder="cnn", precision="float32"), "cpu").reason == "as asked"
    assert devices.place(Config(encoder="cnn"), "cpu", "bfloat16").precision is torch.bfloat16
    assert devices.place(Config(encoder="cnn"), "cpu", "float32").precision is torch.float32


def test_the_cpu_is_measured_once_in_a_process_of_its_own_and_remembered():
    """Asking must not end this process even where bfloat16 is an illegal instruction, and what it says must hold:
    a step in the chosen precision works."""
    if not (torch.cpu._is_amx_tile_supported() or torch.cpu._is_avx512_bf16_supported()):
        assert devices.place(Config(encoder="cnn"), "cpu").precision is torch.float32
        return
    chosen = devices.place(Config(encoder="cnn"), "cpu")
    (memory,) = cache_dir().glob("bfloat16-*.json")
    gain = json.loads(memory.read_text())
    assert (chosen.precision is torch.bfloat16) == (gain >= devices.WORTHWHILE)
    step = (
        "import torch; net = torch.nn.Linear(256, 256); x = torch.randn(64, 256)\n"
        f"with torch.autocast('cpu', dtype=torch.bfloat16, enabled={chosen.precision is torch.bfloat16}): y = net(x)\n"
        "y.float().sum().backward()"
    )
    assert subprocess.run([sys.executable, "-c", step], check=False).returncode == 0
    memory.write_text("3.0")
    assert devices.place(Config(encoder="cnn"), "cpu").precision is torch.bfloat16, "what is remembered is used"


@pytest.fixture
def announced(monkeypatch):
    """A CPU that says it has bfloat16."""
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: True)


@pytest.mark.parametrize(
    "probe", ["raise SystemExit(3)", "import os; os.abort()", "print('nan')", "print()", "print(0)"]
)
def test_a_measurement_that_fails_is_said_and_not_remembered(announced, monkeypatch, probe):
    monkeypatch.setattr(devices, "PROBE", probe)
    assert devices.place(Config(encoder="cnn"), "cpu").precision is torch.float32
    with pytest.raises(RequestError, match=r"--precision bfloat16.*CPU.*float32.*auto"):
        devices.place(Config(encoder="cnn", precision="bfloat16"), "cpu")
    assert not list(cache_dir().glob("*"))
    monkeypatch.setattr(devices, "PROBE", "print(2.5)")
    assert devices.place(Config(encoder="cnn"), "cpu").precision is torch.bfloat16


@pytest.mark.parametrize("content", ["", "{", "0.0", "-1", "NaN", '"fast"', "true", "[" * 100_000])
def test_a_damaged_memory_is_measured_anew(announced, monkeypatch, content):
    monkeypatch.setattr(devices, "PROBE", "print(2.5)")
    devices.place(Config(encoder="cnn"), "cpu")
    (memory,) = cache_dir().glob("bfloat16-*.json")
    memory.write_text(content)
    assert devices.place(Config(encoder="cnn"), "cpu").precision is torch.bfloat16
    assert json.loads(memory.read_text()) == 2.5


def test_measuring_imports_nothing_from_the_current_directory(announced, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", f"{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    Path("json.py").write_text("raise SystemExit('the wrong one')")
    monkeypatch.setattr(devices, "PROBE", "import json; print(json.loads('2.5'))")
    assert devices._measured() == (2.5, "")


def test_the_environment_of_a_run_is_recorded():
    facts = devices.environment(devices.place(Config(), "cpu"))
    assert facts["torch"] == torch.__version__
    assert facts["threads"] == torch.get_num_threads()
    assert facts["device"] == "cpu"
    said = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").is_file() else ""
    assert "model name" not in said or f": {facts['device_name']}\n" in said
    commit = facts["commit"]
    assert commit is None or (isinstance(commit, str) and len(commit) == 40)
