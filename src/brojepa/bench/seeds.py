"""Six seeds of one preset: commands one after another, side by side as `brojepa sweep` runs them, and stacked in one
process.

Each way is timed twice: with start-up, from the first command to the last trained seed, and in training alone;
evaluation on the test split counts in neither. Which way a seed was trained must not change what it learned: the
validation losses are compared.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from brojepa.bench.measured import Effort, Measured, Ratio
from brojepa.bench.processes import fresh, run
from brojepa.bench.stepping import random_split
from brojepa.config import Config
from brojepa.errors import RunError
from brojepa.presets import preset
from brojepa.runs.threads import cores
from brojepa.sweep.jobs import Job, plan, tail
from brojepa.sweep.local import Local

PRESET = "mnist/bro-mlp-mfr-fixed"
GOAL = 1.8
# Of the validation loss, relative. Sums in another order differ in their last digit, and training magnifies that: noise
# of 1e-7 on the starting weights was measured to move this loss by 1e-3 in an epoch. The tests compare single steps.
TOLERANCE = 1e-2
POLL = 0.02


@dataclass(frozen=True)
class Way:
    """How seeds were trained: seconds with start-up and without, and every seed's validation loss."""

    name: str
    whole: float
    training: float
    losses: list[float]


def measure(effort: Effort) -> Measured:
    count, workers = (2, 2) if effort.quick else (6, min(6, cores()))
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        changes: dict[str, Any] = {"epochs": 1 if effort.quick else 2, "test_actions": (2,)}
        if effort.quick:
            changes["world"] = str(_small_world(place / "noise.npz"))
        ways = [
            commands(_jobs(count, changes, place / "alone", effort)),
            sweep(_jobs(count, changes, place / "side", effort), workers),
            stacked(count, preset(PRESET).replace(**changes), effort.device),
        ]
    return _compared(ways, count, changes["epochs"])


def _compared(ways: list[Way], count: int, epochs: int) -> Measured:
    alone, *together = ways
    rows = []
    for way in ways:
        off = np.abs(np.array(way.losses) / np.array(alone.losses) - 1).max()
        rows.append(
            {
                "way": way.name, "with start-up, s": way.whole, "training, s": way.training,
                "with start-up": alone.whole / way.whole, "training": alone.training / way.training,
                "loss off by": float(off),
            }
        )  # fmt: skip
    best = max(together, key=lambda way: alone.whole / way.whole)
    ratios = [
        Ratio("best way, with start-up", alone.whole / best.whole, least=GOAL),
        Ratio("best way, training alone", max(alone.training / way.training for way in together)),
    ]
    ratios.append(Ratio("validation loss, largest difference", max(r["loss off by"] for r in rows), most=TOLERANCE))
    note = f"{count} seeds of {PRESET} on {cores()} cores, epochs of each: {epochs}"
    return Measured(rows, ratios, [note])


def _jobs(count: int, changes: dict[str, Any], out: Path, effort: Effort) -> list[Job]:
    return plan([PRESET], range(count), out, changes=changes, device=effort.device)


def commands(jobs: Sequence[Job]) -> Way:
    """`brojepa train` for one seed after the other, each with all cores."""
    whole = sum(run(job.command()[1:])[1] for job in jobs)
    return _way("one after another", jobs, whole, 1)


def sweep(jobs: Sequence[Job], workers: int) -> Way:
    """As `brojepa sweep --jobs` does it; the seconds of training and evaluation are those of a lane."""
    local = Local(jobs, workers)
    begun = time.perf_counter()
    try:
        while not local.finished:
            local.step()
            time.sleep(POLL)
        whole = time.perf_counter() - begun
    finally:
        local.stop()
    for job in jobs:
        if not job.run.done:
            why = (tail(job) or ["it printed nothing"])[-1]
            raise RunError(f"{job.title} failed: {why}; try it alone, brojepa {' '.join(job.command()[3:])}")
    return _way(f"sweep, {workers} at once", jobs, whole, workers)


def _way(name: str, jobs: Sequence[Job], whole: float, lanes: int) -> Way:
    results = [job.run.result for job in jobs]
    training, evaluation = (sum(r[key] for r in results) / lanes for key in ("seconds", "evaluation_seconds"))
    return Way(name, whole - evaluation, training, [job.run.metrics[-1]["validation_loss"] for job in jobs])


def stacked(count: int, config: Config, device: str) -> Way:
    done, whole = fresh("brojepa.bench.stacked", "train", config=config.to_dict(), seeds=count, device=device)
    return Way("stacked", whole, done["seconds"], done["validation_losses"])


def _small_world(path: Path) -> Path:
    train, test = random_split(600, 10), random_split(40, 10, seed=1)
    np.savez(
        path,
        images=train.images[:, 0].numpy(),
        labels=train.states.numpy(),
        test_images=test.images[:, 0].numpy(),
        test_labels=test.states.numpy(),
    )
    return path
