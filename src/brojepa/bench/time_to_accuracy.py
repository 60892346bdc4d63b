"""Seconds of training to the paper's best accuracy: mnist/fast against the paper's own recipe.

The paper's best zero-shot accuracy on MNIST is 0.9944, a ResNet-18 after 25 epochs. Its time here is extrapolated: a
measured step, times the steps of 25 epochs. That of mnist/fast too, unless it is really trained (`full`).
"""

from __future__ import annotations

import tempfile
from typing import Any

from brojepa.bench.measured import Effort, Measured, Ratio
from brojepa.bench.stepping import Stepper, random_world
from brojepa.presets import preset
from brojepa.training import train
from brojepa.worlds import World, open_world

OURS, PAPERS = "mnist/fast", "mnist/bro-resnet18-mfr-fixed"
ACCURACY, EPOCHS, GOAL = 0.9944, 25, 200


def measure(effort: Effort) -> Measured:
    world = random_world(600) if effort.quick else open_world("mnist")
    rows = [extrapolated(OURS, preset(OURS).epochs, world, effort), extrapolated(PAPERS, EPOCHS, world, effort)]
    ratios = [Ratio("extrapolated", rows[1]["seconds"] / rows[0]["seconds"], least=GOAL)]
    notes = [
        "seconds: a measured step times all steps, without validation and evaluation",
        f"the paper reports {ACCURACY} zero-shot for {PAPERS} after {EPOCHS} epochs",
    ]
    if effort.full:
        trained = really(OURS, effort)
        rows.append(trained)
        ratios.append(Ratio("trained", rows[1]["seconds"] / trained["seconds"], least=GOAL))
        ratios.append(Ratio("zero-shot of the trained run", trained["zero-shot"], least=ACCURACY))
    else:
        notes.append("accuracies are not measured here: --full trains the preset")
    return Measured(rows, ratios, notes)


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
        result = train(config, out=out, device=effort.device).result
    seconds = result["seconds"]
    steps = round(seconds * result["images_per_second"] / config.batch_size)
    return _row(name, "trained", config.batch_size, steps, seconds / steps, seconds, result["metrics"]["zero_shot"])


def _row(
    name: str, how: str, batch: int, steps: int, step: float, seconds: float, accuracy: float | None
) -> dict[str, Any]:
    return {
        "preset": name, "how": how, "batch": batch, "steps": steps, "step, ms": 1000 * step, "seconds": seconds,
        "zero-shot": accuracy,
    }  # fmt: skip
