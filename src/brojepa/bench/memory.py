"""Peak memory of reading a world, of training and of evaluation, and how it grows.

Every measurement is a process of its own: its peak, less what it held after a first tiny step. Evaluation looks
at all images with all actions and must not hold them all at once.
"""

from __future__ import annotations

from typing import Any

import torch

from brojepa import evaluation
from brojepa.bench.measured import Effort, Measured, Ratio
from brojepa.bench.processes import fresh, peak_memory
from brojepa.bench.stepping import Stepper, random_split, random_world
from brojepa.presets import preset
from brojepa.runs.devices import choose_device
from brojepa.worlds import World

PRESET = "mnist/bro-mlp-mfr-fixed"
BASE = {"images": 60_000, "states": 10, "latent": 64}
QUICK = {"images": 600, "states": 5, "latent": 8}
STAGES = ("reading", "training", "evaluation")
# How much more a stage may take when a size is doubled. Linear in images and latent dimension, where latents are
# what fills the memory; evaluation has twice the actions when there are twice the states, and must not care.
GOALS = {"images": 2.1, "states": 1.2, "latent": 2.1}
TEST_SHARE = 60  # training images for each test image: evaluation looks up every test image among all training ones


def measure(effort: Effort) -> Measured:
    base, stages = (QUICK, STAGES[2:]) if effort.quick else (BASE, STAGES)
    doubled = ["images"] if effort.quick else list(BASE)
    rows, ratios = [], []
    for stage in stages:
        first = _measure(stage, base, effort)
        rows.append({"stage": stage, **base, "MB": first / 1e6, "growth": None})
        for name in doubled if stage != "reading" else ["images"]:
            sizes = {**base, name: 2 * base[name]}
            held = _measure(stage, sizes, effort)
            growth = Ratio(f"{stage}: twice the {name}", held / first, most=GOALS[name])
            rows.append({"stage": stage, **sizes, "MB": held / 1e6, "growth": growth.value})
            ratios.append(growth)
    raw = base["images"] * 28 * 28 / 1e6
    notes = [
        f"{PRESET} on noise; training images of the first row: {raw:.0f} MB, and a test image for every {TEST_SHARE}",
        "peak of a process each, less that after imports and a tiny first step",
    ]
    return Measured(rows, ratios, notes)


def _measure(stage: str, sizes: dict[str, int], effort: Effort) -> float:
    held, _ = fresh(__name__, "peak", stage=stage, device=effort.device, **sizes)
    return held


def peak(stage: str, images: int, states: int, latent: int, device: str) -> int:
    """Bytes that a stage takes in this process beyond imports and a tiny step: of a GPU, or else of this machine."""
    on_gpu = choose_device(device).type == "cuda"
    Stepper(preset(PRESET), random_world(200), device).advance(2)  # the libraries behind torch allocate when first used
    before = peak_memory()
    test = max(2 * states, images // TEST_SHARE)
    if stage == "reading":
        arrays: list[Any] = []
        for count in (images, test):
            split = random_split(count, states)
            arrays.append((split.images[:, 0].numpy(), split.states.numpy()))
        World.from_arrays("noise", *arrays, n=states)
        return peak_memory() - before
    training = Stepper(preset(PRESET).replace(latent=latent), random_world(images, states, test), device)
    training.advance(5)
    if stage == "evaluation":
        training.validation()
        held = training.world.test.to(training.device)
        actions = training.train_actions, training.test_actions
        evaluation.evaluate(training.model, training.train_split, held, *actions)
    return torch.cuda.max_memory_allocated() if on_gpu else peak_memory() - before
