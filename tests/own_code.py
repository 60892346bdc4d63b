"""Own code for the tests: modules written into a directory, as a user has them beside their work."""

from __future__ import annotations

import importlib
import itertools
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from textwrap import dedent

import pytest

_numbers = itertools.count()

PARTS = """
import torch
from torch import nn
import brojepa

class MyViT(nn.Module):
    def __init__(self, shape, dim):
        super().__init__()
        size = shape[0] * shape[1] * shape[2]
        self.net = nn.Sequential(
            nn.Flatten(), nn.Linear(size, 32), nn.LayerNorm(32), nn.GELU(), nn.Dropout(0.2), nn.Linear(32, dim))

    def forward(self, x):
        return self.net(x)

def make_world():
    import numpy as np
    rng = np.random.default_rng(0)
    shapes = rng.integers(0, 256, (5, 8, 8))
    splits = []
    for each in (60, 40):
        states = rng.permutation(np.repeat(np.arange(5), each))
        splits.append(((shapes[states] + rng.normal(0, 30, (len(states), 8, 8))).clip(0, 255).astype(np.uint8), states))
    return brojepa.World.from_arrays("drawn", *splits)
"""
"""A module with an encoder that has dropout, and a world."""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., str]]:
    """Write a module into the current directory, which is the test's own; its name, a new one unless given."""
    monkeypatch.chdir(tmp_path)
    before = set(sys.modules)

    def write(text: str, name: str | None = None) -> str:
        name = name or f"own_code_{next(_numbers)}"
        (tmp_path / f"{name}.py").write_text(dedent(text))
        importlib.invalidate_caches()
        return name

    yield write
    for name in set(sys.modules) - before:
        if (getattr(sys.modules[name], "__file__", None) or "").startswith(str(tmp_path)):
            del sys.modules[name]
