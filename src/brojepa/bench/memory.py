"""Peak memory of reading a world, of training and of evaluation, and how it grows.

Every measurement is a process of its own: its peak, less what it held after a first tiny step. Evaluation looks
at all images with all actions and must not hold them all at once.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import torch

from brojepa import evaluation
from brojepa.bench.measured import Effort, Measured, Ratio
from brojepa.bench.processes import fresh, mapped_memory, peak_memory
from brojepa.bench.stepping import Stepper, random_split, random_world, world_on_disk
from brojepa.presets import preset
from brojepa.runs.devices import choose_device
from brojepa.worlds import World

PRESET = "mnist/bro-mlp-mfr-fixed"
BASE = {"images": 60_000, "states": 10, "latent": 64}
QUICK = {"images": 600, "states": 5, "latent": 8}
STAGES = ("reading", "training", "evaluation")
ON_DISK = ("training on disk", "evaluation on disk")
COPIES = {"training": 1.35, "training on disk": 0.35}  # of the images that may be held; numbers drawn of each take 0.2
# How much more a stage may take when a size is doubled. Linear in images and latent dimension, where latents are
# what fills the memory; evaluation has twice the actions when there are twice the states, and must not grow.
GOALS = {"images": 2.1, "states": 1.2, "latent": 2.1}
TEST_SHARE = 60  # training images for each test image: evaluation looks up every test image among all training ones


def measure(effort: Effort) -> Measured:
    base, stages = (QUICK, STAGES[2:]) if effort.quick else (BASE, STAGES)
    doubled = ["images"] if effort.quick else list(BASE)
    rows, ratios = [], []
    for stage in (*stages, *(ON_DISK[1:] if effort.quick else ON_DISK)):
        first = _measure(stage, base, effort)
        rows.append({"stage": stage, **base, "MB": first / 1e6, "growth": None})
        for name in doubled if stage in STAGES[1:] else ["images"]:
            sizes = {**base, name: 2 * base[name]}
            held = _measure(stage, sizes, effort)
            growth = Ratio(f"{stage}: twice the {name}", held / first, most=GOALS[name])
            rows.append({"stage": stage, **sizes, "MB": held / 1e6, "growth": growth.value})
            ratios.append(growth)
            if name == "images" and stage in COPIES:
                copies = (held - first) / (base["images"] * 28 * 28)
                ratios.append(Ratio(f"{stage}: copies of the images", copies, most=COPIES[stage]))
    raw = base["images"] * 28 * 28 / 1e6
    notes = [
        f"{PRESET} on noise; training images of the first row: {raw:.0f} MB, and a test image for every {TEST_SHARE}",
        "peak of a process each, less that after imports and a tiny first step; of images on disk the system keeps in "
        "memory what it has room for, which is not counted",
        "copies: what twice the images take in addition, over their size",
    ]
    return Measured(rows, ratios, notes)


def _measure(stage: str, sizes: dict[str, int], effort: Effort) -> float:
    held, _ = fresh(__name__, "peak", stage=stage, device=effort.device, **sizes)
    return held


def peak(stage: str, images: int, states: int, latent: int, device: str) -> int:
    """Bytes that a stage takes in this process beyond imports and a tiny step: of a GPU, or else of this machine."""
    on_gpu = choose_device(device).type == "cuda"
    Stepper(preset(PRESET), random_world(200), device).advance(2)  # libraries that torch uses allocate on first use
    before = peak_memory()
    test = max(2 * states, images // TEST_SHARE)
    if stage == "reading":
        arrays: list[Any] = []
        for count in (images, test):
            split = random_split(count, states)
            arrays.append((split.images[:, 0].numpy(), split.states.numpy()))
        World.from_arrays("noise", *arrays, n=states)
        return peak_memory() - before
    config = preset(PRESET).replace(latent=latent)
    with tempfile.TemporaryDirectory() as folder:
        if stage in ON_DISK:
            world = world_on_disk(Path(folder), images, states, test)
        else:
            world = random_world(images, states, test)
        files = mapped_memory()
        _advance(Stepper(config, world, device), stage.startswith("evaluation"))
        files = mapped_memory() - files
    return torch.cuda.max_memory_allocated() if on_gpu else max(1, peak_memory() - before - files)


def _advance(training: Stepper, evaluate: bool) -> None:
    training.advance(5)
    if evaluate:
        training.validation()
        held = training.world.test.to(training.device)
        actions = training.train_actions, training.test_actions
        evaluation.evaluate(training.model, training.train_split, held, *actions)
