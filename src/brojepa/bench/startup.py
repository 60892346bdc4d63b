"""Seconds from a command to its first result: the help screen, and the first training step of mnist/fast."""

from __future__ import annotations

import statistics
import tempfile

from brojepa.bench.measured import Effort, Measured, Ratio
from brojepa.bench.processes import run

HELP_GOAL, STEP_GOAL = 0.5, 5.0

# what `brojepa train` does, ended after the first step
FIRST_STEP = """
import os, sys
import brojepa
class Leave(brojepa.Callback):
    def step(self, training):
        os._exit(0)
brojepa.train("mnist/fast", out=sys.argv[1], device=sys.argv[2], callbacks=[Leave()], quiet=True)
sys.exit('no step was taken')
"""


def measure(effort: Effort) -> Measured:
    repeats = 1 if effort.quick else effort.repeats
    with tempfile.TemporaryDirectory() as out:
        train = ["-c", FIRST_STEP, out, effort.device]
        commands = {"brojepa --help": ["-m", "brojepa", "--help"], "brojepa train, first step": train}
        rows = []
        for name, words in commands.items():
            if not effort.quick:
                run(words)  # reads the files once, and measures the precision where that was not yet done
            taken = [run(words)[1] for _ in range(repeats)]
            rows.append({"command": name, "seconds": statistics.median(taken), "slowest": max(taken)})
    goals = (HELP_GOAL, STEP_GOAL)
    ratios = [Ratio(row["command"], row["seconds"], most=goal) for row, goal in zip(rows, goals, strict=True)]
    return Measured(rows, ratios, ["seconds, not ratios; files are in the system's cache"])
