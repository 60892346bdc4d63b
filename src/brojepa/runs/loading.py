"""From a run directory to a model that is ready to predict."""

from __future__ import annotations

from pathlib import Path

import torch

from brojepa import parts
from brojepa.errors import RunError
from brojepa.models import Model, Task, build
from brojepa.runs import checkpoint
from brojepa.runs.devices import choose_device
from brojepa.runs.run import Run


def load(path: str | Path, device: str = "auto", *, trust: bool = False) -> Model:
    """The model of a run directory, ready to predict: `encode`, `act`, `classify`, `rollout`.

    Args:
        path: the run directory.
        device: "auto", "cpu", "cuda" or "mps".
        trust: import the own code that the run names; without it such a run is refused.
    """
    run = Run(Path(path))
    parts.check_trust(run.own_parts, run.path, trust)
    header = run.header
    model = build(run.config, Task.from_facts(header["world"]), torch.Generator())
    tensors, _ = checkpoint.load(run.model_file)
    try:
        model.load_state_dict({**model.state_dict(), **tensors})
    except RuntimeError:
        raise RunError(f"{run.model_file} does not fit {run.config_file}: remove {run.path} and train again") from None
    return model.to(choose_device(device)).eval()
