"""A finished run, measured again."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from brojepa.config import needs_emnist
from brojepa.errors import RequestError
from brojepa.evaluation.accuracy import LabelEvaluator
from brojepa.evaluation.retrieval import RetrievalEvaluator
from brojepa.groups import Element
from brojepa.models import action_sets
from brojepa.runs import Run
from brojepa.runs.loading import load
from brojepa.worlds import PoseWorld, World, open_world


def judge(
    world: World, train_actions: Sequence[Element], test_actions: Sequence[Element]
) -> LabelEvaluator | RetrievalEvaluator:
    """What measures a model of a world."""
    kind = RetrievalEvaluator if isinstance(world, PoseWorld) else LabelEvaluator
    return kind(world, train_actions, test_actions)  # pyright: ignore[reportArgumentType]


def world_of(run: Run, data_dir: str | Path | None = None) -> World:
    """The world of a run, or the images in `data_dir`, which must have its shape and number of states."""
    config, facts = run.config, run.header["world"]
    name = config.world if data_dir is None or needs_emnist(config.world) else str(data_dir)
    world = open_world(name, data_dir if needs_emnist(name) else None)
    if (world.labels, list(world.shape)) != (facts["states"], facts["shape"]):
        both = ((world.labels, world.shape), (facts["states"], facts["shape"]))
        given, wanted = (f"{n} states, {'x'.join(map(str, shape))}" for n, shape in both)
        raise RequestError(f"{name} has {given} images; {run.path} was trained on {wanted}")
    return world


def evaluate_run(path: str | Path, data_dir: str | Path | None = None, device: str = "auto") -> dict[str, Any]:
    """Evaluate a finished run again, as `result.json` was made: on its own world, or on the images in `data_dir`."""
    run = Run(Path(path))
    model = load(run.path, device)
    config, facts, world = run.config, run.header["world"], world_of(run, data_dir)
    train, _ = world.hold_out(config.validation, torch.Generator().manual_seed(run.header["seed"]))
    train_actions, test_actions = action_sets(config, world.group, world.actions)
    measured = judge(world, train_actions, test_actions).test(model, train)
    same = all(facts.get(key) == value for key, value in world.source.items())
    return {"world": world.title, "same_images": same, "zero_shot_kind": model.zero_shot_kind(test_actions), **measured}
