"""Runs of a second on the small digits, which the tests of training share: their kinds, and whether two are one."""

from __future__ import annotations

from typing import Any

import torch

from brojepa.runs import Run, checkpoint
from brojepa.training import Callback, Training

KINDS: dict[str, dict[str, Any]] = {
    "learned-ema": {"action": "mfr-learned"},
    "cnn-mean": {
        "encoder": "cnn", "action": "mfr-learned", "target": "mean", "target_encoder": "stop-gradient", "shift": 1,
        "warp": 0.1, "width": 2, "every_action": True, "schedule": "one-cycle", "checkpoint": "last",
    },
    "relaxed": {
        "target": "relaxed", "every_action": True, "even_states": True, "shift": 2, "schedule": "one-cycle",
    },
    "muon": {"encoder": "cnn", "optimiser": "muon", "lr": 5e-3, "schedule": "one-cycle"},
    "supervised": {"method": "supervised", "action": "sfr-learned"},
    "consistency": {"action": "additive", "consistency": 0.1, "checkpoint": "last"},
}  # fmt: skip
STEPS, EPOCHS = 4, 3  # 480 of the 600 digits are trained on, 120 at a time


class Listen(Callback):
    def __init__(self) -> None:
        self.warnings: list[str] = []
        self.resumed: list[bool] = []
        self.done: list[Run] = []

    def begin(self, training: Training, resumed: bool) -> None:
        self.resumed.append(resumed)

    def warning(self, text: str) -> None:
        self.warnings.append(text)

    def found_done(self, run: Run) -> None:
        self.done.append(run)


TIMES = ("seconds", "evaluation_seconds", "images_per_second")


def without_times(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if name not in TIMES}


def same_run(a: Run, b: Run) -> None:
    """Bit for bit: the model, the rows, the result, and the state one could go on from."""
    for file in ("model_file", "state_file"):
        one, two = checkpoint.load(getattr(a, file))[0], checkpoint.load(getattr(b, file))[0]
        assert one.keys() == two.keys()
        for name in one:
            assert one[name].dtype == two[name].dtype
            assert torch.equal(one[name], two[name]), f"{file} {name}"
    assert [without_times(row) for row in a.metrics] == [without_times(row) for row in b.metrics]
    assert without_times(a.result) == without_times(b.result)
