"""The optimiser, its groups of parameters and their learning-rate schedule."""

from __future__ import annotations

from typing import Any

import torch

from brojepa.config import Config
from brojepa.models import Model
from brojepa.training.adamw import AdamW
from brojepa.training.muon import Muon


def share_of_peak(kind: str, step: int, total: int) -> float:
    """Learning rate at a step as a share of its peak: constant, or up over the first 20 % and down to 0."""
    if kind == "constant":
        return 1.0
    at = (step + 1) / total
    return min(at / 0.2, (1 - step / total) / 0.8, 1.0)


def optimizer(model: Model, config: Config) -> tuple[torch.optim.AdamW, list[float]]:
    """The optimiser over groups of parameters, and the peak rate of each group.

    AdamW has three: weights, angles (no decay) and probe. Muon takes the encoder's weight matrices out of the first."""
    probe = list(model.probe.parameters()) if model.probe is not None else []
    angles = model.action.undecayed()
    muon = config.optimiser == "muon"
    matrices = [p for p in model.encoder.parameters() if muon and p.requires_grad and p.ndim > 1]
    apart = {id(p) for p in (*probe, *angles, *matrices)}
    weights = [p for p in model.parameters() if p.requires_grad and id(p) not in apart]
    decay = config.weight_decay
    groups: list[tuple[dict[str, Any], float]] = [
        ({"params": weights, "weight_decay": decay}, config.lr),
        ({"params": angles, "weight_decay": 0.0}, config.lr * config.angle_lr),
        ({"params": probe, "weight_decay": decay}, config.lr * config.probe_lr),
        ({"params": matrices, "weight_decay": decay, "matrices": True}, config.lr * config.matrix_lr),
    ]
    groups = [(group, rate) for group, rate in groups if group["params"]]
    options: dict[str, Any] = {"lr": config.lr, "fused": model.device.type in ("cpu", "cuda")}
    used = [group for group, _ in groups]
    optimiser = Muon(used, model.precision, **options) if muon else AdamW(used, **options)
    return optimiser, [rate for _, rate in groups]
