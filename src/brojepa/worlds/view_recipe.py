"""The recipe for views: knobs chosen by a few facts of a world of poses or recordings, and why, in one line."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from brojepa.config import ROTATIONS, Config
from brojepa.presets import VIEWS
from brojepa.worlds.recipe import encoder, explain, size_reasons
from brojepa.worlds.views import EPOCH, RECORDED

STEPS = 500  # of the optimiser, at least
EPOCHS = 4  # at least
LARGE = 48 * 48  # pixels from which the batch is halved
PLACES = 8  # side of the grid that the cnn pools to; with 3, it cannot tell neighbouring views of many things apart


@dataclass(frozen=True)
class Facts:
    """What a recipe depends on.

    images: in the training split.
    things: that they show, or episodes.
    shape: channels, height, width.
    group: by name.
    steps: words for the smallest actions that lead from view to view; of a recording, that for its own.
    reach: degrees within which two views are neighbours, in a continuous group.
    """

    images: int
    things: int
    shape: tuple[int, int, int]
    group: str
    steps: tuple[str, ...]
    reach: float | None = None


def places(facts: Facts, shrink: int) -> int:
    """The side of the grid that the cnn pools to: PLACES, or as many as it has, a quarter of the shrunk image's side.
    The test frames of a recording are new episodes, and a smaller grid generalises better to them."""
    most = VIEWS.pool if facts.steps == (RECORDED,) else PLACES
    return max(VIEWS.pool, min(most, min(facts.shape[1:]) // shrink // 4))


def recipe(facts: Facts, given: Mapping[str, Any]) -> tuple[Config, str]:
    """The config for a world of views, and why. Knobs that the user sets are kept."""
    read = encoder(facts.shape, given)
    shrink = max(1, given.get("shrink", read.get("shrink", 1)))
    batch = 128 if math.prod(side // shrink for side in facts.shape[1:]) >= LARGE else 256
    rotates = given.get("action", ROTATIONS[2]) in ROTATIONS
    chosen: dict[str, Any] = {
        "train_actions": facts.steps,
        "epochs": max(EPOCHS, math.ceil(STEPS * batch / max(EPOCH, facts.images))),
        "batch_size": batch,
        "target": "relaxed" if rotates else "sampled",
        "pool": places(facts, shrink),
        **read,
    }
    config = VIEWS.replace(**{**chosen, **given})
    near = "the smallest steps" if facts.reach is None else f"views up to {facts.reach:.3g} degrees apart"
    lines = "lines up all views of a thing" if config.target == "relaxed" else "relaxed ones need a rotation"
    reasons = [
        (("train_actions",), near),
        (("epochs", "batch_size"), f"at least {STEPS:,} steps"),
        (("target", *(["views"] if config.target == "relaxed" else [])), lines),
    ]
    if config.encoder == "cnn" and config.pool > VIEWS.pool:
        reasons.append((("pool",), "keeps places apart: neighbouring views look alike"))
    return config, explain([*reasons, *size_reasons(config, facts.shape)], config, given)
