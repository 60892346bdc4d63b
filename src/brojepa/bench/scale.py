"""Time of a training step against batch, latent dimension, number of states and number of images.

A step should grow with its batch and its latents in proportion at most, and not at all with how many states and
images there are; and it should grow smoothly. Worlds are of noise.
"""

from __future__ import annotations

import itertools
import math
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from brojepa.bench.measured import Effort, Measured, Ratio
from brojepa.bench.stepping import Stepper, random_world, world_on_disk
from brojepa.presets import preset

PRESET = "mnist/bro-mlp-mfr-fixed"
IMAGES, STATES = 20_000, 10  # where they are not what is varied
CLIFF = 1.5


@dataclass(frozen=True)
class Series:
    """What is varied, over which values (and which when quick), and the power of it that a step may grow with."""

    name: str
    values: tuple[int, ...]
    quick: tuple[int, ...]
    power: float
    config: dict[str, Any]


SERIES = [
    Series("batch", (32, 64, 128, 256, 512, 1024, 2048, 4096), (8, 16), 1.0, {}),
    Series("latent", (16, 32, 64, 128, 256, 512, 1024), (8, 16), 1.0, {}),
    Series("states", (2, 5, 10, 26, 100, 300, 1000), (2, 5), 0.1, {}),
    Series("states, mean targets", (2, 5, 10, 26, 100, 300, 1000), (2, 5), 0.1, {"target": "mean"}),
    Series("images", (1000, 10_000, 100_000, 1_000_000), (300, 600), 0.1, {}),
    Series("images on disk", (1000, 10_000, 100_000, 1_000_000), (300, 600), 0.1, {}),
]


def measure(effort: Effort) -> Measured:
    rows, ratios = [], []
    for series in SERIES:
        values = series.quick if effort.quick else series.values
        with tempfile.TemporaryDirectory() as folder:
            steppers = [stepper(series, value, effort, Path(folder)) for value in values]
            times = Stepper.in_turns(steppers, effort.repeats, at_least=0.01 if effort.quick else 0.2)
        for value, training, time in zip(values, steppers, times, strict=True):
            per_image = 1e6 * time / training.batch_size
            rows.append({"varied": series.name, "value": value, "step, ms": 1000 * time, "us an image": per_image})
        ratios.append(Ratio(f"{series.name}: slope", slope(values, times), most=series.power + 0.1))
        ratios.append(Ratio(f"{series.name}: steepest", steepest(values, times, series.power), most=CLIFF))
    notes = [
        f"{PRESET}, {IMAGES:,} images of {STATES} states of noise unless stated otherwise",
        "times: the best of several blocks of steps, all values of a series in turns",
        "slope: of log time over log value; steepest: the largest growth between neighbours, over what the goal allows",
    ]
    return Measured(rows, ratios, notes)


def stepper(series: Series, value: int, effort: Effort, folder: Path) -> Stepper:
    knob = {"batch": "batch_size", "latent": "latent"}.get(series.name)
    changes = {**series.config, **({knob: value} if knob else {})}
    states = value if series.name.startswith("states") else STATES
    images = value if series.name.startswith("images") else 600 if effort.quick else IMAGES
    on_disk = series.name == "images on disk"
    world = world_on_disk(folder / str(value), images, states) if on_disk else random_world(images, states)
    return Stepper(preset(PRESET).replace(**changes), world, effort.device)


def slope(values: tuple[int, ...], times: list[float]) -> float:
    """The power of the value that time grows with, by least squares."""
    return float(np.polyfit(np.log(values), np.log(times), 1)[0])


def steepest(values: tuple[int, ...], times: list[float], power: float) -> float:
    """The largest growth of time from one value to the next, over the growth of value ** power: 1.5 is a cliff."""
    growth = [math.log(b / a) for a, b in itertools.pairwise(times)]
    allowed = [power * math.log(b / a) for a, b in itertools.pairwise(values)]
    return math.exp(max(g - a for g, a in zip(growth, allowed, strict=True)))
