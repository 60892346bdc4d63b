"""Parts named by a path to own code. Each is built and tried once on a few random numbers, so that a part that breaks
its contract is refused in one line before training starts."""

from __future__ import annotations

import copy
from collections.abc import Callable

import torch
from torch import Tensor, nn

from brojepa import parts
from brojepa.groups import Group
from brojepa.models.actions import LatentAction
from brojepa.models.encoders import Shape, standardiser
from brojepa.models.model import Task
from brojepa.models.targets import Target
from brojepa.worlds import Batch

TAKEN = {
    "loss", "invariance", "consistency", "probe", "epoch", "step", "validation_loss", "seen", "zero_shot", "latent_std",
    "latent_scale", "effective_rank", "angles", "images_per_second",
}  # fmt: skip
"""Names in a run's metrics that a regulariser's terms cannot have."""


class Encoder(nn.Module):
    """An own encoder, with the batch norm of --standardise after it."""

    def __init__(self, path: str, shape: Shape, dim: int, standardise: bool) -> None:
        super().__init__()
        net = parts.make("encoder", path, shape, dim)
        if not isinstance(net, nn.Module):
            raise parts.wrong("encoder", path, f"gave a {type(net).__name__}")
        self.dim, self.net, self.standardise = dim, net, standardiser(dim, standardise)
        z = _tried("encoder", path, self._measured, _noise(2, *shape))
        if _shape(z) != [2, dim]:
            raise parts.wrong("encoder", path, f"made {_shape(z)} of {[2, *shape]}, not {[2, dim]}")

    def _measured(self, x: Tensor) -> object:
        """The latents in eval mode: batch norms do not update."""
        was = self.net.training
        z = self.net.eval()(x)
        self.net.train(was)
        return z

    def forward(self, x: Tensor) -> Tensor:
        return self.standardise(self.net(x).float())


def action(path: str, dim: int, group: Group, *, regressed: bool) -> LatentAction:
    """An own latent action; if its result is compared with latents, it must have their dimension."""
    made = parts.make("action", path, dim, group)
    if not isinstance(made, LatentAction):
        raise parts.wrong("action", path, f"gave a {type(made).__name__}")
    if getattr(made, "dim", None) != dim or not hasattr(made, "out_dim"):
        raise parts.wrong("action", path, f"must set dim to the {dim} that it was given, and out_dim")
    if regressed and made.out_dim != dim:
        raise parts.wrong("action", path, f"leads from {dim} to {made.out_dim} dimensions, --method jepa needs {dim}")
    k = torch.as_tensor(group.identity).expand(2, 3, *group.shape)  # as training does: three actions on each latent
    z = _tried("action", path, made.act, _noise(2, 1, dim), k)
    if _shape(z) != [2, 3, made.out_dim]:
        raise parts.wrong("action", path, f"made {_shape(z)} of [2, 1, {dim}] and [2, 3], not {[2, 3, made.out_dim]}")
    return made


def regulariser(path: str, dim: int) -> nn.Module:
    """An own regulariser."""
    made = parts.make("regulariser", path)
    if not isinstance(made, nn.Module):
        raise parts.wrong("regulariser", path, f"gave a {type(made).__name__}")
    terms = _tried("regulariser", path, _copied(made), _noise(8, dim))
    if not isinstance(terms, dict) or not all(_is_term(*item) for item in terms.items()):
        raise parts.wrong("regulariser", path, f"returned {' '.join(repr(terms).split()):.60}")
    if taken := sorted(TAKEN & terms.keys()):
        raise parts.wrong("regulariser", path, f"calls a term {', '.join(taken)}, which is the name of another")
    return made


def _is_term(name: object, term: object) -> bool:
    if not isinstance(name, str) or not isinstance(term, (tuple, list)) or len(term) != 2:
        return False
    return isinstance(term[0], (int, float)) and _shape(term[1]) == []


def target(path: str, task: Task, dim: int, action: LatentAction) -> Target:
    """An own target."""
    made = parts.make("target", path, task, dim)
    if not isinstance(made, Target):
        raise parts.wrong("target", path, f"gave a {type(made).__name__}")
    batch = _batch(task)
    z = _noise(2, 3, dim) if made.of_next_state else _noise(2, dim)
    goal = _tried("target", path, _copied(made), z, batch, action)
    shapes = [_shape(part) for part in goal] if isinstance(goal, tuple) and len(goal) == 2 else []
    if not shapes or shapes[0] != [2, 3, dim] or shapes[1] not in ("NoneType", [2, 3]):
        given = f"{shapes[0]} and {shapes[1]}" if shapes else f"a {type(goal).__name__}"
        raise parts.wrong("target", path, f"made {given} of {_shape(z)}, not {[2, 3, dim]} and [2, 3] or None")
    return made


def _batch(task: Task) -> Batch:
    """Two images with three identity actions each."""
    states, images = torch.zeros(2, dtype=torch.long), torch.zeros(6, *task.shape, dtype=torch.uint8)
    k = torch.as_tensor(task.group.identity).expand(2, 3, *task.group.shape)
    return Batch(images[:2], states, k, states[:, None].expand(2, 3), images)


def _noise(*shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(0))


def _copied(part: nn.Module) -> Callable[..., object]:
    """A copy, so that the trial changes neither the part's state nor its random numbers."""

    def call(*arguments: object) -> object:
        with torch.random.fork_rng(devices=[]):
            return copy.deepcopy(part)(*arguments)

    return call


@torch.no_grad()
def _tried(kind: str, path: str, part: Callable[..., object], *arguments: object) -> object:
    """The result of calling a part, or an error of one line."""
    try:
        return part(*arguments)
    except Exception as error:  # own code may raise anything
        what = " and ".join(str(_shape(a)) for a in arguments if isinstance(a, Tensor))
        raise parts.wrong(kind, path, f"failed on {what} ({parts.reason(error)})") from error


def _shape(value: object) -> object:
    return list(value.shape) if isinstance(value, Tensor) else type(value).__name__
