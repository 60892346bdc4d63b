"""Time of a step beside busy processes, over that on a quiet machine."""

from __future__ import annotations

import contextlib
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator

import torch

from brojepa.bench.measured import Effort, Measured, Ratio
from brojepa.bench.stepping import Stepper, random_world
from brojepa.presets import preset
from brojepa.runs import waiting
from brojepa.runs.threads import cores
from brojepa.worlds import open_world

PRESETS = ("mnist/fast", "mnist/bro-mlp-mfr-fixed")
SLOWER, DEARER = 2.5, 1.05  # times a quiet step beside busy processes; times a plain step on a quiet machine
SETTLE = 4 * waiting.INTERVAL  # seconds in which the watch sees who else is there
CASES = [(beside, polite) for beside in (0, 1, 2) for polite in (True, False)]


def measure(effort: Effort) -> Measured:
    rows, ratios = [], []
    for name in PRESETS:
        config, world = preset(name), random_world(600) if effort.quick else open_world("mnist")
        stepper = Stepper(config.replace(batch_size=2) if effort.quick else config, world, effort.device)
        taken: dict[tuple[int, bool], list[float]] = {case: [] for case in CASES}
        for _ in range(1 if effort.quick else effort.repeats):
            for beside, polite in CASES:  # in turns, so that drift affects all alike
                taken[beside, polite].append(_step(stepper, beside, polite, effort.quick))
        step = {case: statistics.median(each) for case, each in taken.items()}
        rows += [
            {"preset": name, "busy processes": beside, "ms per step": 1000 * step[beside, True],
             "ms per step, always spinning": 1000 * step[beside, False]}
            for beside in (0, 1, 2)
        ]  # fmt: skip
        for beside in (1, 2):
            words = f"{name}, {beside} busy: times a quiet step"
            ratios.append(Ratio(words, step[beside, True] / step[0, True], most=SLOWER))
        ratios.append(Ratio(f"{name}, quiet: polite against spinning", step[0, True] / step[0, False], most=DEARER))
    return Measured(rows, ratios, [f"{torch.get_num_threads()} threads on {cores()} cores"])


def _step(stepper: Stepper, beside: int, polite: bool, quick: bool) -> float:
    with busy(beside), _waiting(polite):
        begun = time.monotonic()
        while time.monotonic() - begun < (0 if quick else SETTLE):
            stepper.advance()
        return stepper.seconds_per_step(1, at_least=0.01 if quick else 1.0)


def _waiting(polite: bool) -> contextlib.AbstractContextManager[None]:
    return waiting.politely(torch.get_num_threads(), cores()) if polite else contextlib.nullcontext()


@contextlib.contextmanager
def busy(count: int) -> Iterator[None]:
    """Processes that keep a core busy each. They end when this one ends, however it ends."""
    words = [sys.executable, "-S", "-c", f"import os\nwhile os.getppid() == {os.getpid()}: pass"]
    neighbours = [subprocess.Popen(words) for _ in range(count)]
    try:
        yield
    finally:
        for neighbour in neighbours:
            neighbour.kill()
            neighbour.wait()
