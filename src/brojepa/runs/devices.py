"""Device and precision of a run, chosen at run time and recorded with the reason."""

from __future__ import annotations

import hashlib
import json
import math
import os
import platform
import subprocess
import sys
import tempfile
import warnings
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import numpy
import torch

from brojepa import parts, processes
from brojepa.config import Config
from brojepa.errors import RequestError, RunError
from brojepa.files import NUMBER, cache_dir, is_a, write_json


@dataclass(frozen=True)
class Placement:
    """A device, the encoder's precision, and why."""

    device: torch.device
    precision: torch.dtype
    reason: str

    def __str__(self) -> str:
        return f"{self.device}, {str(self.precision).removeprefix('torch.')} ({self.reason})"


def choose_device(name: str = "auto") -> torch.device:
    """The device of that name; "auto" takes CUDA, then Apple's MPS, then the CPU."""
    available = ["cpu"]
    if torch.backends.mps.is_available():
        available.insert(0, "mps")
    if torch.cuda.is_available():
        available.insert(0, "cuda")
    if name == "auto":
        return torch.device(available[0])
    kind, colon, number = name.partition(":")
    count = torch.cuda.device_count() if kind == "cuda" else 1
    if kind not in available or (colon and not (number.isascii() and number.isdigit() and int(number) < count)):
        raise RequestError(f"--device {name} is not available here: choose auto or {' or '.join(available)}")
    return torch.device(name)


def place(config: Config, device: str = "auto", before: str | None = None) -> Placement:
    """Device and precision of a run; `before` is the precision that it started with, if it did.

    bfloat16 pays where the hardware multiplies it faster and the encoder is large enough to gain: convolutions on
    recent CUDA devices, and on CPUs where a measurement says so.
    """
    where = choose_device(device)
    if config.precision != "auto":
        if config.precision == "bfloat16" and where.type == "cpu":
            gain, reason = _cpu_bf16_gain()
            if gain == 0:
                raise RequestError(f"--precision bfloat16: {reason}, use float32 or auto")
        return Placement(where, getattr(torch, config.precision), "as asked")
    if before in ("float32", "bfloat16"):
        return Placement(where, getattr(torch, before), "as the run began")
    if parts.is_path(config.encoder):
        return Placement(where, torch.float32, "an own encoder, unless --precision asks for bfloat16")
    if config.encoder == "mlp":
        return Placement(where, torch.float32, "an MLP is too small to gain from bfloat16")
    if where.type == "cuda" and torch.cuda.is_bf16_supported(including_emulation=False):
        return Placement(where, torch.bfloat16, "this GPU multiplies bfloat16 faster")
    if where.type == "cpu":
        gain, reason = _cpu_bf16_gain()
        return Placement(where, torch.bfloat16 if gain >= WORTHWHILE else torch.float32, reason)
    return Placement(where, torch.float32, "no fast bfloat16 on this device")


WORTHWHILE = 1.2  # bfloat16 must be this many times faster on a CPU to be chosen

# A training step in both precisions, by turns; prints how many times faster bfloat16 is.
PROBE = """
import time, torch
from torch import nn
layers = nn.Conv2d(64, 64, 3, padding=1), nn.ReLU(), nn.Conv2d(64, 64, 3, 2, 1), nn.Flatten(), nn.Linear(3136, 64)
net = nn.Sequential(*layers).to(memory_format=torch.channels_last)
x = torch.randn(64, 64, 14, 14).to(memory_format=torch.channels_last)
def seconds(low):
    begun = time.perf_counter()
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=low):
        y = net(x)
    y.float().sum().backward()
    return time.perf_counter() - begun
pairs = [(seconds(False), seconds(True)) for _ in range(9)]
print(sorted(a / b for a, b in pairs[2:])[3])
"""


def _cpu_bf16_gain() -> tuple[float, str]:
    """How many times faster bfloat16 is on this CPU, also in words.

    Measured, not read from the CPU's flags: some virtual machines announce AMX and then crash with an illegal
    instruction, so the measurement runs in its own process. It takes a few seconds and is cached. A failure is not
    cached, because it may have been a lack of memory.
    """
    if not (torch.cpu._is_amx_tile_supported() or torch.cpu._is_avx512_bf16_supported()):
        return 0.0, "this CPU has no bfloat16 arithmetic"
    memory = cache_dir() / f"bfloat16-{_machine()}.json"
    gain = _remembered(memory)
    if gain is None:
        gain, why = _measured()
        if gain == 0:
            return gain, f"bfloat16 fails on this CPU ({why})"
        try:
            memory.parent.mkdir(parents=True, exist_ok=True)
            write_json(memory, gain)
        except (OSError, RunError) as error:
            warnings.warn(f"cannot remember the measured precision: {error}", stacklevel=2)
    return gain, f"bfloat16 takes {1 / gain:.2f} of float32's time on this CPU"


def _remembered(memory: Path) -> float | None:
    """The gain that was measured before; None if there is none, or the file is damaged."""
    try:
        gain = json.loads(memory.read_text())
    except (OSError, ValueError, RecursionError):
        return None
    return float(gain) if is_a(gain, NUMBER) and 0 < gain < 1e6 else None


def _measured() -> tuple[float, str]:
    """The gain, measured in its own process; if that fails, 0 and the reason.

    It starts in an empty directory, because Python imports from the current one, which may hold a torch.py."""
    paths = [str(Path(path).absolute()) for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    with tempfile.TemporaryDirectory() as empty:
        command = [sys.executable, "-c", PROBE]
        probe = subprocess.run(command, capture_output=True, text=True, cwd=empty, env=environment)
    if probe.returncode:
        return 0.0, f"measuring ended with exit code {probe.returncode}"
    try:
        gain = float(probe.stdout.split()[-1])
    except (ValueError, IndexError):
        gain = math.nan
    return (gain, "") if 0 < gain < 1e6 else (0.0, f"measuring gave {probe.stdout.strip()!r:.40}")


def cpu_name() -> str:
    return _cpu("model name") or platform.processor() or platform.machine()


def _machine() -> str:
    """A name for this CPU and torch, for what is remembered about them."""
    facts = (cpu_name(), _cpu("flags"), platform.node(), torch.__version__)
    return hashlib.sha256("\n".join(facts).encode()).hexdigest()[:16]


def _cpu(fact: str) -> str:
    """What the system reports about its first core; empty if nothing."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.is_file() else []
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith(fact)), "")


def environment(placement: Placement) -> dict[str, object]:
    """What `env.json` records: versions, device, threads and the commit where the code is a git checkout."""
    return {
        "brojepa": version("brojepa"),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": numpy.__version__,
        "platform": platform.platform(),
        "device": str(placement.device),
        "device_name": torch.cuda.get_device_name(placement.device) if placement.device.type == "cuda" else cpu_name(),
        "precision": str(placement.precision).removeprefix("torch."),
        "precision_reason": placement.reason,
        "threads": torch.get_num_threads(),
        "processes": processes.count(),
        "cores": os.cpu_count(),
        "commit": _commit(),
    }


def _commit() -> str | None:
    here = Path(__file__).parents[1]  # the package
    command = ["git", "-C", str(here), "rev-parse", "HEAD", "--show-toplevel"]
    try:
        lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split("\n")
    except (OSError, subprocess.CalledProcessError):
        return None
    inside = here == Path(lines[1]) / "src" / "brojepa"
    return lines[0] if inside else None
