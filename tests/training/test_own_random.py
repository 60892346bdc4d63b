"""Own parts may draw random numbers from torch: a run that was cut off still goes on bit for bit."""

from __future__ import annotations

import signal

import pytest
import torch
from small_runs import same_run

from brojepa.errors import Interrupted
from brojepa.training import Callback, Progress, train

SOURCE = """
import brojepa
import torch
from torch import nn

def dropped(shape, dim):
    return nn.Sequential(nn.Flatten(), nn.LazyLinear(64), nn.ReLU(), nn.Dropout(0.3), nn.Linear(64, dim))

class Noisy(brojepa.Target):
    of_next_state = True

    def __init__(self, task, dim):
        super().__init__()

    def forward(self, z, batch, action):
        return z + 0.1 * torch.randn_like(z), None
"""


class Cut(Callback):
    """Ctrl-C at a step, by somebody who draws random numbers as well."""

    def __init__(self, at: int) -> None:
        self.at = at

    def step(self, training: Progress) -> None:
        torch.rand(training.step)
        if training.epoch * training.steps + training.step == self.at:
            signal.raise_signal(signal.SIGINT)


@pytest.mark.parametrize("cut", [2, 4, 7])
def test_dropout_and_noise_are_the_same_in_a_run_that_was_cut(cut, small, tmp_path, monkeypatch):
    (tmp_path / "random_parts.py").write_text(SOURCE)
    monkeypatch.syspath_prepend(tmp_path)
    config = small(encoder="random_parts:dropped", target="random_parts:Noisy", regulariser="sigreg")
    whole = train(config, out=tmp_path / "whole", device="cpu")
    with pytest.raises(Interrupted, match="resumes"):
        train(config, out=tmp_path / "cut", device="cpu", callbacks=[Cut(cut)])
    same_run(train(config, out=tmp_path / "cut", device="cpu"), whole)
