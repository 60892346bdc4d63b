"""Where a run computes: chosen from what this machine has, and safe where its bfloat16 is not."""

from __future__ import annotations

import json
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
    with pytest.raises(RequestError, match=rf"--device {absent} is not available here: choose auto or .*cpu"):
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
    memory.write_text("0.0")
    with pytest.raises(RequestError, match="--precision bfloat16: bfloat16 fails on this CPU, use float32 or auto"):
        devices.place(Config(encoder="cnn", precision="bfloat16"), "cpu")


def test_the_environment_of_a_run_is_recorded():
    facts = devices.environment(devices.place(Config(), "cpu"))
    assert facts["torch"] == torch.__version__
    assert facts["threads"] == torch.get_num_threads()
    assert facts["device"] == "cpu"
    said = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").is_file() else ""
    assert "model name" not in said or f": {facts['device_name']}\n" in said
    commit = facts["commit"]
    assert commit is None or (isinstance(commit, str) and len(commit) == 40)
