"""A finished run, measured again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from brojepa.config import needs_emnist
from brojepa.errors import RequestError
from brojepa.evaluation.evaluator import METRICS, evaluator
from brojepa.files import remove_leftovers, write_json
from brojepa.runs import Result, Run
from brojepa.runs import threads as numbers
from brojepa.runs.devices import place
from brojepa.runs.find import find
from brojepa.runs.loading import load
from brojepa.worlds import World, open_world
from brojepa.worlds.sources import has_size

MEASURED = ("metrics", "per_action", "by_state", "retrieval", "equivariance", "zero_shot_kind")
"""The parts of a result that evaluating a run again gives."""
NOT_KEPT = ("world", "same_images")
"""What `evaluate_run` says of the images that it was given."""


def agrees(result: dict[str, Any], measured: dict[str, Any]) -> bool:
    """Whether a result has exactly the numbers that were measured again. A later version may measure more, and a result
    may have left some out."""
    if "evaluated" in result:
        before, now = result["metrics"], measured["metrics"]
        return all(before[name] == now[name] for name in METRICS if name in result["evaluated"])
    return all(_holds(result[key], measured.get(key)) for key in MEASURED if key in result)


def complete(run: Run, measured: dict[str, Any]) -> None:
    """Write what a run's result had left out."""
    result = {key: value for key, value in run.result.items() if key != "evaluated"}
    remove_leftovers(run.path)
    write_json(run.result_file, result | {key: value for key, value in measured.items() if key not in NOT_KEPT})


def _holds(old: Any, new: Any) -> bool:
    """Whether a stored value agrees with the new measurement."""
    if isinstance(old, dict) and isinstance(new, dict):
        return all(key in new and _holds(value, new[key]) for key, value in old.items())
    return old == new


def world_of(run: Run, data_dir: str | Path | None = None, world: World | None = None) -> World:
    """The world of a run, or the images in `data_dir`, or the world given; it must have the run's shape and states."""
    facts, name = run.header["world"], run.world_path
    if world is None:
        name = name if data_dir is None or needs_emnist(name) else str(data_dir)
        reading = run.config.reading
        if data_dir is not None and not needs_emnist(name) and not has_size(name):
            reading.pop("size")
        world = open_world(name, data_dir if needs_emnist(name) else None, **reading)
    if (world.n, list(world.shape)) != (facts["states"], facts["shape"]):
        both = ((world.n, world.shape), (facts["states"], facts["shape"]))
        given, wanted = (f"{n} states, {'x'.join(map(str, shape))}" for n, shape in both)
        raise RequestError(f"{name} has {given} images; {run.path} was trained on {wanted}")
    return world


def same_images(run: Run, world: World) -> bool:
    """Whether a world has the images that a run was trained on, as the run recorded them."""
    facts = run.header["world"]
    return all(facts.get(key) == value for key, value in world.facts.items() if key != "name")


def evaluate_run(
    path: str | Path,
    data_dir: str | Path | None = None,
    device: str = "auto",
    *,
    world: World | None = None,
    trust: bool = False,
    threads: int | None = None,
    listener: Callable[[float], None] | None = None,
) -> Result:
    """Evaluate a finished run again, on its own world or on other images.

    Args:
        path: a run directory, a preset whose weights are in the package, or hf://user/name.
        data_dir: where EMNIST is, or other images of the same shape.
        device: "auto", "cpu", "cuda" or "mps".
        world: a world in memory.
        trust: import the own code that the run names.
        threads: number of threads; default that of the run's first start.
        listener: is called now and then with the share that is done, 0 to 1.

    Returns:
        What was measured, as in `result.json`; `same_images` says whether the images are those of the run.

    Raises:
        RequestError: not a run, missing images, or own code that is not trusted.
        RunError: the run is not finished or is damaged.

    Examples:
        >>> import brojepa
        >>> measured = brojepa.evaluate_run("mnist/fast")  # doctest: +SKIP
        >>> measured["metrics"]["zero_shot"]  # doctest: +SKIP
        0.9954
    """
    run = find(path)
    with numbers.computing_with(numbers.choose(threads, run.environment)[0]):
        return _evaluated(run, data_dir, device, world, trust, listener)


def _evaluated(
    run: Run, data_dir: str | Path | None, device: str, world: World | None, trust: bool,
    listener: Callable[[float], None] | None,
) -> Result:  # fmt: skip
    model = load(run.path, device, trust=trust)
    config, world = run.config, world_of(run, data_dir, world)
    if config.eval_precision == "training":
        model.eval_precision = place(config, device, run.environment.get("precision")).precision
    train, _ = world.hold_out(config.validation, torch.Generator().manual_seed(run.header["seed"]))
    train_actions, test_actions = world.action_sets(config)
    measures = evaluator(world, train_actions, test_actions)
    if listener is not None and measures.estimate(model, train):
        measures.listener = listener
    measured = measures.test(model, train)
    same, kind = same_images(run, world), model.zero_shot_kind(test_actions)
    return Result({"world": world.title, "same_images": same, "zero_shot_kind": kind, **measured})
