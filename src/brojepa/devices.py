"""Where and in which precision a run computes, chosen at run time and said with the reason."""

from __future__ import annotations

import os
import platform
import subprocess
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import numpy
import torch

from brojepa.config import Config
from brojepa.errors import RequestError


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
    if name.split(":")[0] not in available:
        raise RequestError(f"--device {name} is not available here: choose auto or {' or '.join(available)}")
    return torch.device(name)


def place(config: Config, device: str = "auto") -> Placement:
    """Device and precision of a run.

    bfloat16 pays where the hardware multiplies it faster and the encoder is large enough to gain: convolutions on
    recent CUDA devices and on CPUs with AMX or AVX-512 bf16.
    """
    where = choose_device(device)
    if config.precision != "auto":
        return Placement(where, getattr(torch, config.precision), "as asked")
    if config.encoder == "mlp":
        return Placement(where, torch.float32, "an MLP is too small to gain from bfloat16")
    if where.type == "cuda" and torch.cuda.is_bf16_supported(including_emulation=False):
        return Placement(where, torch.bfloat16, "this GPU multiplies bfloat16 faster")
    if where.type == "cpu" and _cpu_has_bf16():
        return Placement(where, torch.bfloat16, "this CPU multiplies bfloat16 faster")
    return Placement(where, torch.float32, "no fast bfloat16 on this device")


def _cpu_has_bf16() -> bool:
    return torch.cpu._is_amx_tile_supported() or torch.cpu._is_avx512_bf16_supported()


def environment(placement: Placement) -> dict[str, object]:
    """What `env.json` records: versions, device, threads and the commit where the code is a git checkout."""
    return {
        "brojepa": version("brojepa"),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": numpy.__version__,
        "platform": platform.platform(),
        "device": str(placement.device),
        "device_name": torch.cuda.get_device_name(placement.device)
        if placement.device.type == "cuda"
        else platform.processor() or platform.machine(),
        "precision": str(placement.precision).removeprefix("torch."),
        "precision_reason": placement.reason,
        "threads": torch.get_num_threads(),
        "cores": os.cpu_count(),
        "commit": _commit(),
    }


def _commit() -> str | None:
    here = Path(__file__).parent
    command = ["git", "-C", str(here), "rev-parse", "HEAD", "--show-toplevel"]
    try:
        lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split("\n")
    except (OSError, subprocess.CalledProcessError):
        return None
    inside = here == Path(lines[1]) / "src" / "brojepa"
    return lines[0] if inside else None
