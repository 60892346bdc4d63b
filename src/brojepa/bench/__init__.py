"""Benchmarks: each is a ratio of two things measured on one machine at one time, so they compare across machines.

One file per benchmark, each with `measure(effort) -> Measured`. Nothing here needs torch until one is run.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from brojepa.bench.measured import Effort, Measured

BENCHMARKS = {
    "pipeline": "our loop against a textbook Dataset and DataLoader feeding the same model",
    "roofline": "arithmetic of a training step against the best its own matrix products and convolutions reach",
    "seeds": "six seeds together against one after another",
    "torchrun": "one run in several processes against one process with as many threads",
    "time-to-accuracy": "our fast recipes against the paper's ResNet-18 ones",
    "memory": "peak memory, and how it grows with images, states and latent dimension",
    "scale": "time of a step against batch, latent dimension, states and images",
    "relaxing": "epochs until zero-shot reaches seen against the number of states, with and without relaxed targets",
    "busy": "time of a step beside busy processes, against a quiet machine",
    "startup": "seconds to the help screen and to the first training step",
}


def run(name: str, effort: Effort) -> Measured:
    """Measure one benchmark by its name."""
    return import_module(f"brojepa.bench.{name.replace('-', '_')}").measure(effort)
