"""The algebra that a model has learned: its cycles, its geometry, how well the group law holds.

`inspect` measures on images; nothing is fitted. `describe` writes it as text.
"""

from __future__ import annotations

from functools import singledispatch
from pathlib import Path
from typing import Any

from brojepa.algebra.labelled import infer_accuracy, inspect_labelled
from brojepa.algebra.modulus import indistinguishable, infer_modulus
from brojepa.algebra.poses import inspect_poses
from brojepa.algebra.views import inspect_views
from brojepa.errors import RequestError
from brojepa.evaluation import evaluating, same_images, world_of
from brojepa.models import Model
from brojepa.runs.find import find
from brojepa.runs.loading import load
from brojepa.worlds import PoseWorld, Split, ViewWorld, World

__all__ = ["indistinguishable", "infer_accuracy", "infer_modulus", "inspect", "inspect_run"]


def inspect(model: Model, data: Split | World) -> dict[str, Any]:
    """Everything that `brojepa inspect` prints, as plain values.

    Args:
        model: a model whose latent action stays in its latent space. Only a rotation has a part about angles.
        data: images of labelled states, or a world, whose test split is used. A world of poses must be given whole.

    Returns:
        Values ready for JSON; None where a model lacks something.

    Raises:
        RequestError: the latent action leaves the latent space, or the data are of another kind of world.

    Examples:
        >>> import brojepa
        >>> import torch
        >>> model, world = brojepa.load("mnist/fast", device="cpu"), brojepa.open_world("mnist")
        >>> found = brojepa.inspect(model, world.test[torch.arange(500)])
        >>> found["rotation"]["modulus"]
        10
    """
    if model.action.dim != model.action.out_dim:
        raise RequestError(
            f"this latent action leads from {model.action.dim} to {model.action.out_dim} dimensions, so there is no "
            "algebra to inspect: choose a run whose latent action stays in its latent space"
        )
    with evaluating(model):
        return _inspected(data, model)


@singledispatch
def _inspected(data: Any, model: Model) -> dict[str, Any]:
    """Inspect a model on data, by the class of the data."""
    raise RequestError(f"nothing inspects a model on a {type(data).__name__}: give a world, or a split of its images")


@_inspected.register
def _(data: Split, model: Model) -> dict[str, Any]:
    _check_kind(model.task.n > 0, "a split")
    return inspect_labelled(model, data)


@_inspected.register
def _(data: World, model: Model) -> dict[str, Any]:
    _check_kind(model.task.n > 0 and data.group == model.group, data.name)
    return inspect_labelled(model, data.test)


@_inspected.register
def _(data: PoseWorld, model: Model) -> dict[str, Any]:
    _check_kind(model.task.n == 0 and data.group == model.group, data.name)
    return inspect_poses(model, data)


@_inspected.register
def _(data: ViewWorld, model: Model) -> dict[str, Any]:
    _check_kind(model.task.n == 0 and data.group == model.group, data.name)
    return inspect_views(model, data)


def _check_kind(same: bool, given: str) -> None:
    if not same:
        raise RequestError(f"this model is of another kind of world than {given}: give the world it was trained on")


def inspect_run(
    path: str | Path,
    data_dir: str | Path | None = None,
    device: str = "auto",
    *,
    world: World | None = None,
    trust: bool = False,
) -> dict[str, Any]:
    """`inspect` for a run, on the test images of its own world, of a directory, or of a world in memory.

    Args:
        path: a run directory, a preset whose weights are in the package, or hf://user/name.
        data_dir: where EMNIST is, or other images of the same shape.
        device: "auto", "cpu", "cuda" or "mps".
        world: a world in memory.
        trust: import the own code that the run names.

    Returns:
        As `inspect`, with the run and the world.

    Raises:
        RequestError: not a run, missing images, or own code that is not trusted.

    Examples:
        >>> import brojepa
        >>> brojepa.inspect_run("mnist/fast")["law"]["composition"]  # doctest: +SKIP
        3.2e-06
    """
    run = find(path)
    model, world = load(run.path, device, trust=trust), world_of(run, data_dir, world)
    same = same_images(run, world)
    return {"run": str(path), "world": world.title, "same_images": same, **inspect(model, world)}
