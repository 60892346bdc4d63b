"""The exported functions of a model: encode, act and classify, each a module that can be traced, with the torch code
that it must agree with."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from brojepa.exporting.turns import with_exact_turns
from brojepa.models import Model
from brojepa.models.actions import BlockAction

SEED = 0  # of the numbers that a graph is tried on


@dataclass(frozen=True)
class Graph:
    """One function of a model.

    module: what is traced.
    reference: the same by the model itself.
    inputs: the names of the arguments, each with what makes one of that batch size.
    output: the name of the result.
    """

    module: nn.Module
    reference: Callable[..., Tensor]
    inputs: dict[str, Callable[[int], Tensor]]
    output: str

    def arguments(self, batch: int) -> tuple[Tensor, ...]:
        return tuple(make(batch) for make in self.inputs.values())


def graphs_of(model: Model) -> dict[str, Graph]:
    """The graphs of a model on the CPU and in eval mode, by name; classify only if it has a classifier."""
    model = with_exact_turns(model)
    ready = traceable(model)

    def images(batch: int) -> Tensor:
        return torch.randint(256, (batch, *model.task.shape), dtype=torch.uint8, generator=_generator(batch))

    def latents(batch: int) -> Tensor:
        return model.encode(images(batch))

    def actions(batch: int) -> Tensor:
        k = model.group.sample(batch, _generator(batch))
        k[1::2] = model.group.undone(k[1::2])  # in a cycle, negative numbers
        return k

    def predicted(batch: int) -> Tensor:
        return model.act(latents(batch), actions(batch))

    found = {
        "encode": Graph(_Encode(ready), model.encode, {"images": images}, "latents"),
        "act": Graph(_Act(ready), model.act, {"latents": latents, "action": actions}, "predicted"),
    }
    if model.classifier is not None and ready.classifier is not None:
        found["classify"] = Graph(_Classify(ready.classifier), model.classifier, {"latents": predicted}, "logits")
    return found


def _generator(batch: int) -> torch.Generator:
    return torch.Generator().manual_seed(SEED + batch)


class _Encode(nn.Module):
    """uint8 images [batch, c, h, w] -> latents [batch, dim]; all versions of an image are encoded at once."""

    def __init__(self, model: Model) -> None:
        super().__init__()
        self.model = model

    def forward(self, images: Tensor) -> Tensor:
        model = self.model
        versions = model.versions(images)
        z = model.embed(model.encoder, torch.cat(versions))
        if len(versions) == 1:
            return z
        z = z.unflatten(0, (len(versions), -1)).mean(0)
        return model.action.normalise(z) if model.normalise else z


class _Act(nn.Module):
    """Latents [batch, dim], actions [batch, *group.shape] -> latents after them, [batch, dim]."""

    def __init__(self, model: Model) -> None:
        super().__init__()
        self.action = model.action

    def forward(self, latents: Tensor, action: Tensor) -> Tensor:
        return self.action.act(latents, action)


class _Classify(nn.Module):
    """Latents [batch, dim] -> logits [batch, states]."""

    def __init__(self, classifier: nn.Module) -> None:
        super().__init__()
        self.classifier = classifier

    def forward(self, latents: Tensor) -> Tensor:
        return self.classifier(latents)


def traceable(model: Model) -> Model:
    """A copy that computes the same and can be traced."""
    model = copy.deepcopy(model)
    for name, module in list(model.named_modules()):
        if isinstance(module, nn.AdaptiveMaxPool2d):
            parent, _, child = name.rpartition(".")
            setattr(model.get_submodule(parent), child, SlicedMaxPool(module.output_size))
    action = model.action
    if isinstance(action, BlockAction) and action.group is not None:
        parts = action.irrep_parts(action.group)  # read off the angles: numbers, which a trace does not have
        object.__setattr__(action, "irrep_parts", lambda group: parts)
    return model


class SlicedMaxPool(nn.Module):
    """`nn.AdaptiveMaxPool2d` by slices, for ONNX, which lacks the operator; bit-identical for any size.

    Cell i of n along a side of length h is the largest of the entries floor(i h / n) to ceil((i + 1) h / n) - 1.
    """

    def __init__(self, size: int | tuple[int | None, ...] | None) -> None:
        super().__init__()
        self.size = tuple(size) if isinstance(size, (tuple, list)) else (size, size)

    def forward(self, x: Tensor) -> Tensor:
        for dim, cells in zip((-2, -1), self.size, strict=True):
            side = x.shape[dim]
            if cells is not None and cells != side:
                ends = [(i * side // cells, -(-(i + 1) * side // cells)) for i in range(cells)]
                x = torch.stack([x.narrow(dim, a, b - a).amax(dim) for a, b in ends], dim)
        return x
