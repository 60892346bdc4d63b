"""Training: the loop, the optimiser, callbacks, and what a run says while it trains."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from brojepa.config import Config, absolute_world, flag, is_own_world
from brojepa.errors import RequestError
from brojepa.evaluation import METRICS, chosen_metrics
from brojepa.presets import AUTO, preset, recommended
from brojepa.runs import Run
from brojepa.runs.threads import choose, computing_with
from brojepa.training.callbacks import Callback, Callbacks, Progress
from brojepa.training.display import JsonLines, LiveTable
from brojepa.training.loop import Learner, Training
from brojepa.training.signals import Signals
from brojepa.training.tracking import Tracker, trackers
from brojepa.worlds import World, open_world
from brojepa.worlds.facts import chooser
from brojepa.worlds.sources import identity

__all__ = ["Callback", "JsonLines", "Learner", "LiveTable", "Progress", "Tracker", "Training", "trackers", "train"]


def train(
    config: str | Config | None = None,
    *,
    seed: int = 0,
    out: str | Path = "runs",
    data_dir: str | Path | None = None,
    device: str = "auto",
    callbacks: Sequence[Callback] = (),
    name: str | None = None,
    world: World | str | Path | None = None,
    threads: int | None = None,
    quiet: bool = False,
    track: str | Sequence[str] = (),
    evaluate: str | Sequence[str] | None = None,
    **knobs: Any,
) -> Run:
    """Train a preset or a config with one seed; the finished run.

    A finished run is returned as it is, an interrupted one is resumed.

    Args:
        config: a preset's name, or a `Config`; without one, what is recommended for the world, which for own images is
            a recipe chosen by their number, states and size, "own/auto".
        seed: what all random numbers come from.
        out: where run directories go.
        data_dir: where EMNIST lies.
        device: "auto", "cpu", "cuda" or "mps".
        callbacks: who is told of the run while it trains; `LiveTable`, which shows progress, need not be named.
        name: the preset that a config came from; where nothing was changed it names the run.
        world: a world in memory, or the name or path of one, in place of the config's.
        threads: compute with this many; without it, with as many as the run began with, or as torch has.
        quiet: show nothing but warnings.
        track: trackers that are told of the run: "tensorboard", "wandb", "trackio", or several.
        evaluate: the metrics to measure at the end, "seen,zero-shot" for instance; without it, all. `brojepa eval` adds
            the others later.
        **knobs: values of the config to change: `train("mnist/fast", epochs=3)`.

    Raises:
        RequestError: a value that is not allowed, data that are not there, a run of other data in the same place.
        RunError: training failed: the loss diverged, the disk is full.
        Interrupted: stopped by a signal, after saving.

    Example:
        >>> run = train("mnist/fast", epochs=3, seed=1)  # doctest: +SKIP
        >>> run.result["metrics"]["zero_shot"]  # doctest: +SKIP
    """
    wanted = chosen_metrics(METRICS if evaluate is None else evaluate)
    in_memory = world if isinstance(world, World) else None
    if world is not None and in_memory is None:
        knobs["world"] = str(world)
    if config is None:
        config = AUTO if in_memory else recommended(knobs.get("world", "mnist"))
    if isinstance(config, str):
        name, config = config, preset(config)
        chosen = name == AUTO
    else:
        chosen = False
    config = config.replace(
        **({k: v for k, v in knobs.items() if k == "world" or k in config.reading} if chosen else knobs)
    )
    shown = quiet or any(isinstance(each, (LiveTable, JsonLines)) for each in callbacks)
    listeners = Callbacks([*(() if shown else (LiveTable(),)), *callbacks, *(trackers(track) if track else ())])
    try:
        path = None
        if in_memory is None:
            path = absolute_world(config.world)
            opened = open_world(path, data_dir, **config.reading)
            config, why = chooser(opened)(knobs) if chosen else (config, "")
            config = Run.identify(out, config.replace(world=path), name, seed, identity(path, opened))
        else:
            if given := [name for name, value in config.reading.items() if value != getattr(Config(), name)]:
                raise RequestError(
                    f"{flag(given[0])} is for images that are read, {in_memory.name} is in memory: leave it out"
                )
            config, why = chooser(in_memory)(knobs) if chosen else (config, "")
            opened, config = in_memory, config.replace(world=identity(None, in_memory))
        run = Run.locate(out, config, name, seed)
        run.check({"config": config.to_dict(), "seed": seed, "world": opened.facts})
        if run.done:
            listeners.found_done(run)
            return run
        own = path if path and is_own_world(path) else None
        number, remark = choose(threads, run.environment)
        with computing_with(number):
            training = Training(run, config, seed, opened, device, listeners, name, own, why)
            training.evaluator.wanted = wanted
            with run.claim(), Signals() as signals:
                if run.done:
                    listeners.found_done(run)
                    return run
                training.begin()
                if remark:
                    listeners.warning(remark)
                training.fit(signals)
                signals.at_once = True
                training.finish()
        return run
    finally:
        listeners.close()
