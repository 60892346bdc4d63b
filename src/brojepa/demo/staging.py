"""From the names of runs to a scene: which model is shown, and which baseline beside it."""

from __future__ import annotations

from pathlib import Path

from brojepa.demo.kinds import scene
from brojepa.demo.scene import Scene
from brojepa.errors import RequestError
from brojepa.evaluation import world_of
from brojepa.presets import RECOMMENDED
from brojepa.runs import Run
from brojepa.runs.find import find, packed
from brojepa.runs.loading import load

BASELINES = {"mnist": "mnist/jepa-mlp", "rotation": "rotation/additive", "torus": "torus/additive"}
"""The weights in the package that stand beside a model of a world: JEPA with an additive embedding of the action."""


def stage(
    name: str | Path = RECOMMENDED,
    baseline: str | Path | None = None,
    data_dir: str | Path | None = None,
    device: str = "auto",
    *,
    trust: bool = False,
) -> Scene:
    """The scene of a run: a run directory, a preset whose weights are in the package, or hf://user/name.

    Args:
        name: the run.
        baseline: another run of the same world to stand beside it; without one, that of the package for this world.
        data_dir: where EMNIST is, or other images of the same shape.
        device: "auto", "cpu", "cuda" or "mps".
        trust: import the own code that a run names.
    """
    run = find(name)
    models = {_label(name, run): load(run.path, device, trust=trust)}  # before its world: it may be own code
    world = world_of(run, data_dir)
    other = BASELINES.get(run.config.world) if baseline is None else baseline
    if baseline is not None or (other in packed() and str(other) != str(name)):
        beside = find(str(other))
        _check_same(run, beside)
        models[_label(str(other), beside, models)] = load(beside.path, device, trust=trust)
    return scene(world, world.action_sets(run.config)[0], models)


def _label(name: str | Path, run: Run, taken: dict | None = None) -> str:
    """The name of a run on the page: its preset, else its path."""
    label = run.header.get("preset") or str(name)
    return f"{label}, seed {run.header['seed']}" if label in (taken or {}) else label


def _check_same(run: Run, other: Run) -> None:
    ours, theirs = (
        [r.header["world"].get(key) for key in ("states", "shape", "group", "sha256")] for r in (run, other)
    )
    if ours != theirs:
        raise RequestError(
            f"--baseline {other.path} is of another world, {other.config.world}, than {run.config.world}: "
            f"name a run on {run.config.world}"
        )
