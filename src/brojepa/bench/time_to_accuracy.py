"""Seconds of training to the paper's accuracy: our recipes against the paper's own.

The paper's best models are ResNet-18s trained for 25 epochs. Their time here is extrapolated: a measured step, times
the steps of 25 epochs. So is that of our recipes, unless those on MNIST are really trained (`full`): by the command, in
a process of its own, so that start-up and evaluation are measured as well.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from brojepa.bench.measured import Effort, Measured, Ratio
from brojepa.bench.processes import run
from brojepa.bench.stepping import Stepper, random_world
from brojepa.presets import preset
from brojepa.runs import Run
from brojepa.worlds import World, open_world


@dataclass(frozen=True)
class Pair:
    """A recipe of ours and the paper's for the same world, its zero-shot accuracy, and how much faster ours must be."""

    ours: str
    papers: str
    accuracy: float
    goal: int


EPOCHS = 25  # of the paper's recipes
EVALUATION = 0.1  # of the training time of mnist/fast
PAIRS = (
    Pair("mnist/fast", "mnist/bro-resnet18-mfr-learned", 0.9944, 200),
    Pair("mnist/speedrun", "mnist/bro-resnet18-mfr-learned", 0.9944, 500),
    Pair("emnist/speedrun", "emnist/bro-resnet18-mfr-fixed", 0.9438, 300),
)
LETTERS = 99_248  # training images of the rebuilt EMNIST letters


def measure(effort: Effort) -> Measured:
    rows, ratios, papers = [], [], {}
    for pair in PAIRS:
        world = _world(pair, effort.quick)
        if pair.papers not in papers:
            papers[pair.papers] = extrapolated(pair.papers, EPOCHS, world, effort)
            rows.append(papers[pair.papers])
        paper = papers[pair.papers]["seconds"]
        ours = extrapolated(pair.ours, preset(pair.ours).epochs, world, effort)
        rows.append(ours)
        ratios.append(Ratio(f"{pair.ours}, extrapolated", paper / ours["seconds"], least=pair.goal))
        if effort.full and preset(pair.ours).world == "mnist":
            trained = really(pair.ours, effort)
            rows.append(trained)
            ratios.append(Ratio(f"{pair.ours}, trained", paper / trained["seconds"], least=pair.goal))
            ratios.append(Ratio(f"{pair.ours}, the whole command", paper / trained["whole command"]))
            ratios.append(Ratio(f"{pair.ours}, zero-shot", trained["zero-shot"], least=pair.accuracy))
            most = EVALUATION if pair is PAIRS[0] else None
            share = trained["evaluation"] / trained["seconds"]
            ratios.append(Ratio(f"{pair.ours}, evaluation as a share of training", share, most=most))
    notes = [
        "extrapolated: a measured step times all steps, without validation and evaluation",
        f"emnist: steps on noise of its size, {LETTERS:,} images of 26 states",
        *sorted({f"the paper reports {p.accuracy} zero-shot for {p.papers} after {EPOCHS} epochs" for p in PAIRS}),
    ]
    if not effort.full:
        notes.append("accuracies are not measured here: --full trains mnist/fast and mnist/speedrun")
    return Measured(rows, ratios, notes)


def _world(pair: Pair, quick: bool) -> World:
    letters = pair.ours.startswith("emnist")
    if quick:
        return random_world(600, 26 if letters else 10)
    return random_world(LETTERS + preset(pair.ours).validation, 26) if letters else open_world("mnist")


def extrapolated(name: str, epochs: int, world: World, effort: Effort) -> dict[str, Any]:
    config = preset(name).replace(batch_size=2) if effort.quick else preset(name)
    training = Stepper(config, world, effort.device)
    step = training.seconds_per_step(effort.repeats, at_least=0.01 if effort.quick else 0.5)
    steps = epochs * training.steps
    return _row(name, "extrapolated", training.batch_size, steps, step, steps * step, None)


def really(name: str, effort: Effort) -> dict[str, Any]:
    """A run of the preset to its end; its seconds have validation and checkpoints in them."""
    config = preset(name)
    with tempfile.TemporaryDirectory() as out:
        _, whole = run(["-m", "brojepa", "train", name, "--out", out, "--device", effort.device])
        result = Run(Path(out) / name / "seed-0").result
    seconds = result["seconds"]
    steps = round(seconds * result["images_per_second"] / config.batch_size)
    row = _row(name, "trained", config.batch_size, steps, seconds / steps, seconds, result["metrics"]["zero_shot"])
    return row | {"evaluation": result["evaluation_seconds"], "whole command": whole}


def _row(
    name: str, how: str, batch: int, steps: int, step: float, seconds: float, accuracy: float | None
) -> dict[str, Any]:
    return {
        "preset": name, "how": how, "batch": batch, "steps": steps, "step, ms": 1000 * step, "seconds": seconds,
        "zero-shot": accuracy, "evaluation": None, "whole command": None,
    }  # fmt: skip
