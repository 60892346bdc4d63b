"""Training: the loop, the optimiser, callbacks, and progress."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from brojepa import processes
from brojepa.config import Config, absolute_world, flag, is_own_world
from brojepa.errors import RequestError
from brojepa.evaluation import METRICS, chosen_metrics
from brojepa.presets import AUTO, preset, recommended
from brojepa.runs import Run
from brojepa.runs.threads import choose, computing_with
from brojepa.training.callbacks import Callback, Callbacks, Progress
from brojepa.training.display import JsonLines, LiveTable
from brojepa.training.learner import Learner
from brojepa.training.loop import Training
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
    """Train a preset or a config with one seed. A finished run is returned as it is; an interrupted one is resumed.

    Under torchrun every process calls this. Together they train one run; the first process writes it, shows progress
    and calls callbacks and trackers.

    Args:
        config: the name of a preset, or a `Config`. Without one, what is recommended for the world; for own images that
            is "own/auto", a recipe chosen by their number, states and size.
        seed: the source of all random numbers.
        out: where run directories go.
        data_dir: where EMNIST is.
        device: "auto", "cpu", "cuda" or "mps".
        callbacks: are notified while the run trains. `LiveTable`, which shows progress, is added.
        name: the preset that a config came from; it names the run if nothing was changed.
        world: a world in memory, or the name or path of one, instead of the config's.
        threads: number of threads; default that of the run's first start, else torch's.
        quiet: show nothing but warnings.
        track: trackers to log to: "tensorboard", "wandb", "trackio", or several.
        evaluate: metrics to measure at the end, such as "seen,zero-shot"; default all. `brojepa eval` adds the others
            later.
        **knobs: values of the config to change, such as `epochs=3`.

    Returns:
        The finished run.

    Raises:
        RequestError: a value that is not allowed, missing data, or a run of other data in the same place.
        RunError: training failed: the loss diverged, the disk is full.
        Interrupted: stopped by a signal, after saving.

    Examples:
        >>> import brojepa, tempfile
        >>> import numpy as np
        >>> labels = np.arange(60) % 3
        >>> images = np.zeros((60, 8, 8), dtype=np.uint8)
        >>> images[np.arange(60), 2 * labels] = 255
        >>> world = brojepa.World.from_arrays("lines", train=(images, labels), test=(images, labels))
        >>> with tempfile.TemporaryDirectory() as out:
        ...     run = brojepa.train("mnist/fast", world=world, encoder="mlp", epochs=1, out=out, quiet=True)
        ...     print(sorted(run.result["metrics"]))
        ['knn', 'rollout', 'seen', 'train', 'zero_shot']
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
    with processes.joined(device):
        if processes.rank():
            listeners = Callback()
        else:
            shown = quiet or any(isinstance(each, (LiveTable, JsonLines)) for each in callbacks)
            listeners = Callbacks([*(() if shown else (LiveTable(),)), *callbacks, *(trackers(track) if track else ())])
        try:
            return _made(
                config, seed, out, data_dir, device, listeners, name, in_memory, threads, wanted, chosen, knobs
            )
        finally:
            listeners.close()


def _made(
    config: Config, seed: int, out: str | Path, data_dir: str | Path | None, device: str, listeners: Callback,
    name: str | None, in_memory: World | None, threads: int | None, wanted: tuple[str, ...], chosen: bool,
    knobs: dict[str, Any],
) -> Run:  # fmt: skip
    """The run, trained in this process or together with others. chosen: the recipe for own images has the config."""
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
    facts = {"config": config.to_dict(), "seed": seed, "world": opened.facts}
    if processes.differs({**facts, "evaluate": wanted}):
        raise RequestError(
            "the processes have different configs, seeds or images: give all of them the same command and the same data"
        )
    processes.first(lambda: run.check(facts))
    if processes.first(lambda: run.done):
        listeners.found_done(run)
        return run
    own = path if path and is_own_world(path) else None
    number_of_processes = _other_processes(run)
    number, remark = choose(threads, run.environment)
    with computing_with(number):
        training = Training(run, config, seed, opened, device, listeners, name, own, why)
        training.evaluator.wanted = wanted
        with run.claim() if training.leads else nullcontext(), Signals() as signals:
            if processes.first(lambda: run.done):
                listeners.found_done(run)
                return run
            training.begin()
            for each in filter(None, (remark, number_of_processes)):
                listeners.warning(each)
            training.fit(signals)
            signals.at_once = True
            training.finish()
    return run


def _other_processes(run: Run) -> str:
    """A warning if a run resumes in more or fewer processes than it began with."""
    before, here = run.environment.get("processes", 1), processes.count()
    if not run.environment or before == here:
        return ""
    differ = "the last bits of its numbers may differ from those of an uncut run"
    return f"the run began with {before} {'process' if before == 1 else 'processes'}, not {here}: {differ}"
