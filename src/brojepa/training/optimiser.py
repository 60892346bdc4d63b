"""The optimiser, its groups of parameters and how their rates go over a run."""

from __future__ import annotations

import torch

from brojepa.config import Config
from brojepa.models import Model


def share_of_peak(kind: str, step: int, total: int) -> float:
    """Learning rate at a step as a share of its peak: constant, or up over the first 20 % and down to 0."""
    if kind == "constant":
        return 1.0
    at = (step + 1) / total
    return min(at / 0.2, (1 - step / total) / 0.8, 1.0)


def optimizer(model: Model, config: Config) -> tuple[torch.optim.AdamW, list[float]]:
    """AdamW over three groups, weights, angles (no decay) and probe, and the peak rate of each."""
    probe = list(model.probe.parameters()) if model.probe is not None else []
    angles = model.action.undecayed()
    apart = {id(p) for p in (*probe, *angles)}
    weights = [p for p in model.parameters() if p.requires_grad and id(p) not in apart]
    groups = [
        ({"params": weights, "weight_decay": config.weight_decay}, config.lr),
        ({"params": angles, "weight_decay": 0.0}, config.lr * config.angle_lr),
        ({"params": probe, "weight_decay": config.weight_decay}, config.lr * config.probe_lr),
    ]
    groups = [(group, rate) for group, rate in groups if group["params"]]
    fused = model.device.type in ("cpu", "cuda")
    return torch.optim.AdamW([group for group, _ in groups], lr=config.lr, fused=fused), [rate for _, rate in groups]
