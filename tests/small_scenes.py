"""Scenes of the packed weights, with few images, made once."""

from __future__ import annotations

from functools import cache

import pytest

from brojepa.demo import kinds, stage
from brojepa.demo.scene import Scene


@cache
def small(name: str) -> Scene:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kinds, "POOL", 400)
        patch.setattr(kinds, "THINGS", 6)
        return stage(name, device="cpu")
