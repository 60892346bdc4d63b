"""Hints at the end of a run: what went wrong, in one line each, with the flag that fixes it."""

from __future__ import annotations

import copy
import math
from typing import Any

import torch
from torch import Tensor
from torch.nn.modules.batchnorm import _BatchNorm

from brojepa.algebra.modulus import SETTLED
from brojepa.config import ROTATIONS, Config
from brojepa.groups import Group
from brojepa.models import Model
from brojepa.text import fraction, plural
from brojepa.worlds.recipe import relaxing

LAGS = 0.02  # zero-shot may be this much below seen
RISING = 0.01  # accuracy gained in the last epoch above which a run was too short
STALE = 0.1  # of the latents' variance by which they change with a batch norm's statistics
FRESH = 100  # after this many steps a batch norm has forgotten its initial statistics
ENOUGH = 500  # steps that are advised, at least


def hints(
    config: Config, group: Group, rows: list[dict[str, Any]], result: dict[str, Any], steps: int, stale: float,
    labelled: bool = True,
) -> list[str]:  # fmt: skip
    """Lines for a run that is over.

    Args:
        config: of the run.
        group: what acts on its states, or poses.
        rows: its epochs, as `metrics.jsonl` has them.
        result: its `result.json`.
        steps: of the optimiser, per epoch.
        stale: what `staleness` found.
        labelled: whether states have labels; otherwise the accuracies are of retrieval.
    """
    lag = _lag(config, group, result) if labelled else _lag_of_poses(config, result)
    lines = [_too_short(config, rows, steps, stale), _unsettled(config, group, result) if labelled else "", lag]
    return [line for line in lines if line]


def _too_short(config: Config, rows: list[dict[str, Any]], steps: int, stale: float) -> str:
    total = steps * config.epochs
    enough = f"--epochs {max(2 * config.epochs, math.ceil(ENOUGH / steps))}"
    if stale > STALE and total < FRESH:
        return f"the statistics of the batch norms lag behind after only {plural(total, 'step')}: {enough}"
    before, last = [row["seen"] for row in [{"seen": 0.0}, *rows][-2:]]
    if last is None or last - before <= RISING or (len(rows) == 1 and total >= ENOUGH):
        return ""
    rose = f"validation accuracy rose from {fraction(before)} to {fraction(last)} in the last epoch"
    return f"the run was too short ({rose if len(rows) > 1 else plural(total, 'step')}): {enough}"


def _unsettled(config: Config, group: Group, result: dict[str, Any]) -> str:
    if not config.action.endswith("-learned") or result["angles"] is None or group.cycle is None:
        return ""
    unit = 2 * math.pi / group.cycle
    off = [abs(angle / unit - round(angle / unit)) for angle in result["angles"]]
    loose = sum(2 * share > SETTLED for share in off)
    if not loose:
        return ""
    fixed = "sfr-fixed" if config.action == "sfr-learned" else "mfr-fixed"
    return f"{loose} of {len(off)} learned angles have not settled at a multiple of 2π/{group.cycle}: --action {fixed}"


def _lag(config: Config, group: Group, result: dict[str, Any]) -> str:
    seen, zero_shot = result["metrics"]["seen"], result["metrics"]["zero_shot"]
    if seen is None or zero_shot is None or seen - zero_shot <= LAGS:
        return ""
    lag = f"zero-shot {fraction(zero_shot)} lags behind seen {fraction(seen)}"
    if config.method == "supervised":
        return f"{lag}, as nothing holds supervised latents to the group: --method jepa"
    if not group.cycle or config.own_parts:
        return ""
    wanted = {"action": "mfr-fixed", "target": "relaxed", "relax_steps": relaxing(group.cycle)}
    better = {
        "action": not config.action.startswith("mfr"),
        "target": config.target != "relaxed",
        "relax_steps": config.target != "relaxed" or config.relax_steps < wanted["relax_steps"],
    }
    flags = [f"--{name.replace('_', '-')} {wanted[name]}" for name, yes in better.items() if yes]
    if not flags and config.action != "mfr-fixed":
        flags = ["--action mfr-fixed"]
    if not flags:
        return f"{lag}, as the states are not all in line yet: --epochs {2 * config.epochs}"
    return f"{lag}, as training on {len(config.train_actions)} actions alone lines states up slowly: {' '.join(flags)}"


def _lag_of_poses(config: Config, result: dict[str, Any]) -> str:
    seen, zero_shot = result["metrics"]["seen"], result["metrics"]["zero_shot"]
    if seen is None or zero_shot is None or seen - zero_shot <= LAGS or config.own_parts:
        return ""
    lag = f"zero-shot {fraction(zero_shot)} lags behind seen {fraction(seen)}"
    if config.action not in ROTATIONS:
        return f"{lag}, as nothing holds the action to the group: --action mfr-fixed"
    if config.target != "relaxed":
        return f"{lag}, as single steps line views up slowly: --target relaxed"
    return f"{lag}, as the views are not all in line yet: --epochs {2 * config.epochs}"


@torch.no_grad()
def staleness(model: Model, images: Tensor) -> float:
    """How far latents change, as a share of their variance, if batch norms use the statistics of these images instead
    of their running ones; 0 for an encoder without batch norm."""
    model = copy.deepcopy(model).eval()
    norms = [m for m in model.encoder.modules() if isinstance(m, _BatchNorm)]
    if not norms or len(images) < 2:
        return 0.0
    kept = model.encode(images)
    for norm in norms:
        norm.train()
    now = model.encode(images)
    return float((kept - now).square().mean() / now.var(0).mean().clamp(min=1e-12))
