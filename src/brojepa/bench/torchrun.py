"""One run in as many processes as there are cores, one thread each, against one process with as many threads."""

from __future__ import annotations

import json
import os
import sys
import time

import torch

from brojepa import processes
from brojepa.bench.measured import Effort, Measured, Ratio, synchronise
from brojepa.bench.processes import run
from brojepa.bench.stepping import Stepper, random_world
from brojepa.errors import RunError
from brojepa.presets import preset
from brojepa.runs.threads import cores

STEPS = {"mnist/bro-mlp-mfr-fixed": 20, "mnist/fast": 3, "mnist/bro-resnet18-mfr-fixed": 1}
"""Steps that are timed at once, by preset."""


def measure(effort: Effort) -> Measured:
    count = 2 if effort.quick else cores()
    rows, ratios = [], []
    for name in list(STEPS)[:1] if effort.quick else STEPS:
        one, several = (_step(name, number, count // number, effort) for number in (1, count))
        ratios.append(Ratio(f"{name}: {count} processes", one / several))
        rows.append({"preset": name, "processes": 1, "threads": count, "step, ms": 1000 * one})
        rows.append({"preset": name, "processes": count, "threads": 1, "step, ms": 1000 * several})
    return Measured(rows, ratios, ["times faster than one process with as many threads; the same batches, shared out"])


def _step(name: str, count: int, threads: int, effort: Effort) -> float:
    """Seconds of a step."""
    asked = {"name": name, "threads": threads, "repeats": effort.repeats, "device": effort.device}
    several = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={count}"] if count > 1 else []
    words = [*several, "-m", "brojepa.bench.torchrun", json.dumps({**asked, "quick": effort.quick})]
    try:
        out, _ = run(words)
    except RunError:  # the port that torchrun found free may be taken before it is used
        out, _ = run(words)
    return float(out.splitlines()[-1])


def step(name: str, threads: int, repeats: int, device: str, quick: bool) -> float:
    """Seconds of a step in this process, or in all that torchrun started: the best of some blocks,
    because other load on a core delays all processes."""
    torch.set_num_threads(threads)
    with processes.joined(device):
        training = Stepper(preset(name), random_world(600 if quick else 20_000), device)
        steps, times = 2 if quick else STEPS[name], []
        training.advance()
        for _ in range(repeats):
            begun = time.perf_counter()
            training.advance(steps)
            synchronise(training.device)
            times.append((time.perf_counter() - begun) / steps)
        return min(times)


if __name__ == "__main__":
    seconds = step(**json.loads(sys.argv[1]))
    if os.environ.get("RANK", "0") == "0":
        print(seconds)
