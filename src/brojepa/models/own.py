"""Parts of somebody's own, named by a path: made, and tried once on a few random numbers, so that a part that does not
do what its kind must is refused in one line before anything is trained."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from brojepa import parts
from brojepa.groups import Group
from brojepa.models.actions import LatentAction
from brojepa.models.encoders import Shape, standardiser
from brojepa.models.model import Task
from brojepa.models.targets import Target

TAKEN = ("loss", "invariance", "consistency", "probe", "epoch", "step")
"""Names that a regulariser's terms cannot have: other terms of the loss, and what a row of metrics begins with."""


class Encoder(nn.Module):
    """An own encoder, with the batch norm of --standardise after it."""

    def __init__(self, path: str, shape: Shape, dim: int, standardise: bool) -> None:
        super().__init__()
        net = parts.make("encoder", path, shape, dim)
        if not isinstance(net, nn.Module):
            raise parts.wrong("encoder", path, f"gave a {type(net).__name__}")
        self.dim, self.net, self.standardise = dim, net, standardiser(dim, standardise)
        was = net.training
        z = _tried("encoder", path, net.eval(), torch.randn(2, *shape))
        net.train(was)
        if _shape(z) != [2, dim]:
            raise parts.wrong("encoder", path, f"made {_shape(z)} of {[2, *shape]}, not {[2, dim]}")

    def forward(self, x: Tensor) -> Tensor:
        return self.standardise(self.net(x).float())


def action(path: str, dim: int, group: Group) -> LatentAction:
    """An own latent action."""
    made = parts.make("action", path, dim, group)
    if not isinstance(made, LatentAction):
        raise parts.wrong("action", path, f"gave a {type(made).__name__}")
    if getattr(made, "dim", None) != dim or not hasattr(made, "out_dim"):
        raise parts.wrong("action", path, f"must set dim to the {dim} that it was given, and out_dim")
    k = torch.as_tensor(group.identity).expand(2, 3, *group.shape)  # as training does: three actions on each latent
    z = _tried("action", path, made.act, torch.randn(2, 1, dim), k)
    if _shape(z) != [2, 3, made.out_dim]:
        raise parts.wrong("action", path, f"made {_shape(z)} of [2, 1, {dim}] and [2, 3], not {[2, 3, made.out_dim]}")
    return made


def regulariser(path: str, dim: int) -> nn.Module:
    """An own regulariser."""
    made = parts.make("regulariser", path)
    if not isinstance(made, nn.Module):
        raise parts.wrong("regulariser", path, f"gave a {type(made).__name__}")
    terms = _tried("regulariser", path, made, torch.randn(8, dim))
    if not isinstance(terms, dict) or not all(
        isinstance(term, tuple) and len(term) == 2 and _shape(term[1]) == [] for term in terms.values()
    ):
        raise parts.wrong("regulariser", path, f"returned {terms!r:.60}")
    if taken := [name for name in TAKEN if name in terms]:
        raise parts.wrong("regulariser", path, f"has a term named {taken[0]}, which every run has: name it otherwise")
    return made


def target(path: str, task: Task, dim: int) -> Target:
    """An own target."""
    made = parts.make("target", path, task, dim)
    if not isinstance(made, Target):
        raise parts.wrong("target", path, f"gave a {type(made).__name__}")
    return made


@torch.no_grad()
def _tried(kind: str, path: str, part: Callable[..., object], *arguments: Tensor) -> object:
    """What a part makes of arguments, or one line that says that it failed."""
    try:
        return part(*arguments)
    except Exception as error:  # own code may raise anything
        what = " and ".join(str(list(a.shape)) for a in arguments)
        raise parts.wrong(kind, path, f"failed on {what} ({type(error).__name__}: {error})") from error


def _shape(value: object) -> object:
    return list(value.shape) if isinstance(value, Tensor) else type(value).__name__
