"""Training: the loop, the optimiser, and what a run says while it trains."""

from __future__ import annotations

from pathlib import Path

from brojepa.config import Config
from brojepa.presets import RECOMMENDED, preset
from brojepa.runs import Run, absolute_world, devices
from brojepa.training.display import Reporter, Silent
from brojepa.training.loop import Training
from brojepa.training.signals import Signals
from brojepa.worlds import open_world

__all__ = ["Reporter", "Silent", "Training", "train"]


def train(
    config: str | Config = RECOMMENDED,
    *,
    seed: int = 0,
    out: str | Path = "runs",
    data_dir: str | Path | None = None,
    device: str = "auto",
    reporter: Reporter | None = None,
    name: str | None = None,
) -> Run:
    """Train a preset or a config with one seed; the finished run.

    A finished run is returned as it is, an interrupted one is resumed. `name` is the preset that a config came from:
    where nothing was changed it names the run.
    """
    if isinstance(config, str):
        name, config = config, preset(config)
    reporter = reporter or Silent()
    config = absolute_world(config)
    run = Run.locate(out, config, name, seed)
    run.check({"config": config.to_dict(), "seed": seed})
    if run.done:
        reporter.already_done(run)
        return run
    world = open_world(config.world, data_dir)
    placement = devices.place(config, device, run.environment.get("precision"))
    training = Training(run, config, seed, world, placement, reporter, name)
    with run.claim(), Signals() as signals:
        if run.done:
            reporter.already_done(run)
            return run
        training.begin()
        training.fit(signals)
        signals.at_once = True
        training.finish()
    return run
