"""From a run directory to a model that is ready to predict."""

from __future__ import annotations

import math
from pathlib import Path

import torch
from torch import Tensor

from brojepa import parts
from brojepa.config import Config
from brojepa.errors import RequestError, RunError
from brojepa.files import COUNT, NUMBER, is_a
from brojepa.models import Model, Task, build
from brojepa.runs import checkpoint, decoders
from brojepa.runs.devices import choose_device
from brojepa.runs.find import find
from brojepa.runs.run import Run
from brojepa.worlds.pictures import MOST

LARGE = 2**24  # numbers in an image that any checkpoint may be for; and float32 counts no angle beyond it
TRIED = 64  # elements of a group that are tried when a model is loaded


def load(path: str | Path, device: str = "auto", *, trust: bool = False) -> Model:
    """The model of a run, ready to predict: `encode`, `act`, `classify`, `rollout`, and `decode` if it has a decoder.

    Args:
        path: a run directory; a preset whose weights are in the package, such as "mnist/fast"; or "hf://user/name".
        device: "auto", "cpu", "cuda" or "mps".
        trust: import the own code that the run names; without it such a run is refused.

    Returns:
        The model, in eval mode.

    Raises:
        RequestError: no run there, or one with own code that is not trusted.
        RunError: a checkpoint that is damaged or does not fit.

    Examples:
        >>> import brojepa
        >>> model = brojepa.load("mnist/fast", device="cpu")
        >>> print(model.group, model.action.dim)
        Z10 64
    """
    run = find(path)
    parts.check_trust(run.own_parts, run.path, trust)
    where, config, task = choose_device(device), run.config, task_of(run)
    tensors, _ = checkpoint.load(run.model_file)
    _check_sizes(run, config, task, tensors)
    model = build(config, task, torch.Generator())
    fill(model, tensors, run)
    try:
        model.decoder = decoders.load(run, model)
    except RunError as error:  # the model itself is fine: only `decode` needs it
        model.no_decoder = str(error)
    model = model.to(where).eval()
    _check_latents(model, run)
    return model


def task_of(run: Run) -> Task:
    """The task of a run's world, as the run recorded it."""
    facts = run.header["world"]
    try:
        task = Task.from_facts(facts)
        right = (
            0 <= task.n <= MOST
            and len(task.shape) == 3
            and all(is_a(size, COUNT) and size > 0 for size in task.shape)
            and all(len(each) == task.shape[0] and all(is_a(v, NUMBER) for v in each) for each in (task.mean, task.std))
            and all(each > 0 for each in task.std)
            and (task.group.order or 0) <= MOST
        )
    except (KeyError, TypeError, RequestError) as error:
        raise RunError(f"{run.config_file} does not describe a world ({error}): train the run again") from None
    if not right:
        raise RunError(f"{run.config_file} does not describe a world ({facts!r:.60}): train the run again")
    return task


def _check_sizes(run: Run, config: Config, task: Task, tensors: dict[str, Tensor]) -> None:
    """Raise an error if config.json asks for a model much larger than the checkpoint, before it fills the memory."""
    used, weights = tensors.get("actions_used"), sum(t.numel() for t in tensors.values())
    if (
        (used is not None and len(used) != task.group.buckets)
        or (task.n and len(tensors.get("classifier.bias", ())) != task.n)
        or max(config.latent, config.width) > weights
        or math.prod(task.shape) > max(weights, LARGE)
    ):
        raise _misfit(run)


def fill(model: Model, tensors: dict[str, Tensor], run: Run) -> None:
    """Load a checkpoint's tensors into a model. All that prediction needs must be there, and finite."""
    missing = sorted(predicting_state(model).keys() - tensors.keys())
    if missing:
        raise RunError(f"{run.model_file} lacks {missing[0]}: remove {run.path} and train again")
    broken = sorted(name for name, t in tensors.items() if t.is_floating_point() and not bool(t.isfinite().all()))
    if broken:
        raise RunError(f"{run.model_file} holds numbers that are not finite in {broken[0]}: train the run again")
    try:
        model.load_state_dict({**model.state_dict(), **tensors})
    except RuntimeError:
        raise _misfit(run) from None


def _check_latents(model: Model, run: Run) -> None:
    """Raise an error if numbers that are finite themselves are so large that what is computed from them is not."""
    elements = model.group.candidates()
    some = elements[:: max(1, len(elements) // TRIED)].to(model.device)
    noise = torch.randint(256, (2, *model.task.shape), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        z = model.encode(noise)  # not blank images, which an encoder of one's own may divide by the contrast of
        made = [z, model.act(z[:, None], some)]
        if model.classifier is not None:
            made.append(model.classifier(made[-1]))
    angles = model.action.angles
    if not all(bool(t.isfinite().all()) for t in made) or (angles is not None and bool((angles.abs() > LARGE).any())):
        raise RunError(f"{run.model_file} holds numbers too large to compute with: train the run again")


def predicting_state(model: Model) -> dict[str, Tensor]:
    """The tensors that prediction needs: all but the target encoder, running targets and the regulariser."""
    return {n: t for n, t in model.state_dict().items() if not n.startswith(("slow.", "target.", "regulariser."))}


def _misfit(run: Run) -> RunError:
    return RunError(f"{run.model_file} does not fit {run.config_file}: remove {run.path} and train again")
