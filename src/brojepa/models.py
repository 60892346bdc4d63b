"""Models: an encoder, a latent action and a classifier, composed by constructor.

`JEPA` regresses the acted-on latent on a target latent; its probe reads latents without touching them.
`Supervised` trains the same parts on the label of the next state. Both predict through the same four methods:
`encode`, `act`, `classify`, `rollout`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from brojepa import losses, planning
from brojepa.actions import LatentAction
from brojepa.errors import RequestError
from brojepa.groups import Cyclic, Element, Group, parse
from brojepa.targets import SlowCopy, Target
from brojepa.worlds import Batch, Split, World

CHUNK = 128  # images encoded at once outside training; a CPU's caches hold a ResNet's activations of no more
COMPARED = 8  # composed actions that an image of a batch is compared on, at least, in the consistency term


@dataclass(frozen=True)
class Task:
    """What a model must know of its world: how many labelled states (0 where a state is no label), the image shape,
    the normalisation, and the group where it is not the cycle of the states."""

    n: int
    shape: tuple[int, int, int]
    mean: tuple[float, ...]
    std: tuple[float, ...]
    law: Group | None = None

    @property
    def group(self) -> Group:
        return self.law or Cyclic(self.n)

    @classmethod
    def of(cls, world: World) -> Task:
        return cls(world.labels, world.shape, world.mean, world.std, world.law)

    @classmethod
    def from_facts(cls, facts: dict[str, Any]) -> Task:
        """From what a run remembers of its world."""
        law = parse(facts["group"]) if "group" in facts else None
        return cls(facts["states"], tuple(facts["shape"]), tuple(facts["mean"]), tuple(facts["std"]), law)


class Model(nn.Module):
    """Encoder, latent action and classifier of one world. Latents are float32 whatever the encoder computes in.

    `precision` is the dtype of the encoder's arithmetic. `actions_used` remembers which actions training passed
    to the latent action: a buffer, so that it is saved and needs no synchronisation.
    """

    def __init__(self, encoder: nn.Module, action: LatentAction, task: Task) -> None:
        super().__init__()
        self.task, self.group = task, task.group
        self.encoder, self.action = encoder, action
        self.classifier = nn.Linear(action.out_dim, task.n) if task.n else None
        self.precision, self.normalise, self.looks = torch.float32, False, 1
        self.pixel_mean = nn.Buffer(255 * torch.tensor(task.mean)[:, None, None])
        self.pixel_std = nn.Buffer(255 * torch.tensor(task.std)[:, None, None])
        self.actions_used = nn.Buffer(torch.zeros(self.group.marks, dtype=torch.bool))

    @property
    def device(self) -> torch.device:
        return self.pixel_mean.device

    def encode(self, images: Tensor | np.ndarray) -> Tensor:
        """Images, uint8 (or 0 to 255), [count, h, w] or [count, c, h, w] -> latents [count, dim]."""
        if isinstance(images, np.ndarray) and not images.flags.writeable:
            images = images.copy()  # torch warns of arrays that it could not write to
        images = torch.as_tensor(images)
        if images.ndim == 3:
            images = images[:, None]
        if images.ndim != 4 or tuple(images.shape[1:]) != self.task.shape:
            given, wanted = ("x".join(map(str, s)) for s in (images.shape[1:], self.task.shape))
            raise RequestError(f"images are {given}, this model reads {wanted} (channels x height x width)")
        return self._in_chunks(self.encoder, images)

    def act(self, z: Tensor, k: Tensor | Element) -> Tensor:
        """Latents [..., dim] after action k, an element of the group or a tensor of them that broadcasts to [...]."""
        return self.action.act(z, k)

    def classify(self, z: Tensor) -> Tensor:
        """The state that each latent [..., dim] shows, [...]."""
        if self.classifier is None:
            raise RequestError("this model's world has no labelled states: compare latents with those of other images")
        return self.classifier(z).argmax(-1)

    def rollout(self, z: Tensor, k: Element, steps: int) -> Tensor:
        """Latents after 0, 1, ..., steps times action k: [steps + 1, ..., dim]."""
        path = [z]
        for _ in range(steps):
            path.append(self.act(path[-1], k))
        return torch.stack(path)

    def embed(self, encoder: nn.Module, images: Tensor) -> Tensor:
        """uint8 images through an encoder in the model's precision, latents float32."""
        x = (images.float() - self.pixel_mean).div_(self.pixel_std).contiguous(memory_format=torch.channels_last)
        with torch.autocast(x.device.type, dtype=torch.bfloat16, enabled=self.precision is torch.bfloat16):
            z = encoder(x).float()
        return self.action.normalise(z) if self.normalise else z

    def _in_chunks(self, encoder: nn.Module, images: Tensor) -> Tensor:
        return torch.cat([self._look(encoder, part.to(self.device)) for part in images.split(CHUNK)])

    def _look(self, encoder: nn.Module, images: Tensor) -> Tensor:
        """Latents of images, each the mean over `looks` at it."""
        if self.looks == 1:
            return self.embed(encoder, images)
        h, w = images.shape[2:]
        padded = F.pad(images, (1, 1, 1, 1))
        offsets = ((1, 1), (0, 1), (2, 1), (1, 0), (1, 2))
        z = torch.stack([self.embed(encoder, padded[..., y : y + h, x : x + w]) for y, x in offsets]).mean(0)
        return self.action.normalise(z) if self.normalise else z

    def predict(self, z: Tensor, k: Tensor, *, walk: bool = False) -> Tensor:
        """`act` as training calls it: remembers the actions. z [batch, 1, dim], k [batch, actions, ...] -> [batch,
        actions, dim]. In a walk, z [batch, 1 + actions, dim], the actions follow one another and are also undone."""
        if self.training:
            self.actions_used[self.group.mark(k).flatten()] = True
            if walk:
                self.actions_used[self.group.mark(self.group.inverse(k)).flatten()] = True
        return self.action.path(z, k) if walk else self.action.act(z, k)

    def objective(self, batch: Batch, progress: float = 1.0) -> dict[str, Tensor]:
        """Named terms of the loss on a batch; "loss" is what is minimised, "probe" trains the probe beside it.

        progress: how far the run has come, 0 to 1, for terms that fade in.
        """
        raise NotImplementedError

    def target_latents(self, images: Tensor) -> Tensor:
        """Latents that predictions are regressed on; the encoder's own where there is no target encoder."""
        return self.encode(images)

    def validate(self, z: Tensor, z_target: Tensor, batch: Batch) -> Tensor:
        """The loss on latents of the batch's context images, z [batch, dim], and of its targets."""
        raise NotImplementedError

    def after_step(self) -> None:
        """Called once the optimiser has stepped."""

    def zero_shot_kind(self, test_actions: Sequence[Element]) -> str:
        """Strict where training never passed a test action to the latent action, weak where it did; or "none"."""
        if not test_actions:
            return "none"
        used = self.actions_used[self.group.mark(self.group.tensor(test_actions).to(self.device))]
        return "weak" if bool(used.any()) else "strict"

    def inspect(self, data: Split | World) -> dict[str, Any]:
        """What algebra the model has learned, measured on images of its world: see `brojepa.inspect`."""
        from brojepa.algebra import inspect  # which measures models, so it cannot come first

        return inspect(self, data)

    def infer_action(self, z_from: Tensor, z_to: Tensor) -> Tensor:
        """The action that leads from one latent to another: [..., dim] twice -> [..., *group.shape]."""
        return planning.infer_action(self.action, self.group, z_from, z_to)

    def plan(self, z_from: Tensor, z_goal: Tensor, allowed: Sequence[Element | str]) -> planning.Plan:
        """The shortest sequence of allowed actions, plain elements or words, from one latent [dim] to another, acted
        out in latent space."""
        return planning.plan(self.action, self.group, z_from, z_goal, allowed)


class Supervised(Model):
    """Classifies the next state with cross-entropy; the gradient runs through classifier, action and encoder."""

    def objective(self, batch: Batch, progress: float = 1.0) -> dict[str, Tensor]:
        return {"loss": self._loss(self.embed(self.encoder, batch.images), batch)}

    def validate(self, z, z_target, batch):
        return self._loss(z, batch)

    def _loss(self, z: Tensor, batch: Batch) -> Tensor:
        assert self.classifier is not None, "build admits supervised models for labelled states only"
        logits = self.classifier(self.predict(z[:, None], batch.k))
        return F.cross_entropy(logits.flatten(0, 1), batch.next_states.flatten())


@dataclass(frozen=True)
class Objective:
    """Weights and choices of JEPA's loss. `composed` are the actions of the composition-consistency term."""

    invariance: float = 25.0
    variance: float = 25.0
    covariance: float = 1.0
    covariance_scale: losses.CovarianceScale = "mean"
    regularise: str = "predicted"
    walk: bool = False
    consistency: float = 0.0
    composed: tuple[Element, ...] = ()
    primitives: tuple[Element, ...] = ()


class JEPA(Model):
    """Joint-embedding prediction: act(encode(context), k) is regressed on the target latent of the next state.

    target: how targets are made of latents; slow: the target encoder, or None for the encoder itself, whose gradient
    is stopped unless it is `shared`.
    """

    def __init__(
        self,
        encoder: nn.Module,
        action: LatentAction,
        task: Task,
        target: Target,
        slow: SlowCopy | None,
        weights: Objective,
        shared: bool = False,
    ) -> None:
        super().__init__(encoder, action, task)
        self.target, self.slow, self.weights, self.shared = target, slow, weights, shared
        if weights.consistency and not weights.composed:
            raise RequestError("--consistency has nothing to compose: give --composed-actions, or --test-actions")
        plans = {k: self.group.rollout(k, weights.primitives) for k in weights.composed}
        for k, plan in plans.items():
            if plan is None:
                raise RequestError(
                    f"--composed-actions: {self.group.write(k)} cannot be reached by repeating a training action"
                )
        # the primitives that are repeated, and for each composed action: itself, its primitive's place there, its steps
        self.repeated = torch.tensor(sorted({plan[0] for plan in plans.values() if plan}), dtype=torch.long)
        rows = [[k, self.repeated.tolist().index(plan[0]), plan[1]] for k, plan in plans.items() if plan]
        self.plans = torch.tensor(rows, dtype=torch.long).reshape(-1, 3).T
        self.longest_plan = max((plan[1] for plan in plans.values() if plan), default=0)

    def objective(self, batch: Batch, progress: float = 1.0) -> dict[str, Tensor]:
        if self.shared and batch.targets is not None:
            both = self.embed(self.encoder, torch.cat((batch.images, batch.targets)))
            z, z_target = both.tensor_split([len(batch.images)])
            return self._terms(z, z_target.unflatten(0, batch.next_states.shape), batch, progress)
        z = self.embed(self.encoder, batch.images)
        with torch.no_grad():
            if batch.targets is not None:
                z_target = self.embed(self._target_encoder, batch.targets).unflatten(0, batch.next_states.shape)
            elif self.slow is None:
                z_target = z.detach()
            else:
                z_target = self.embed(self.slow.net, batch.images)
        return self._terms(z, z_target, batch, progress)

    def target_latents(self, images: Tensor) -> Tensor:
        return self._in_chunks(self._target_encoder, images)

    def validate(self, z, z_target, batch):
        return self._terms(z, z_target, batch)["loss"]

    def after_step(self) -> None:
        if self.slow is not None:
            self.slow.follow(self.encoder)

    @property
    def _target_encoder(self) -> nn.Module:
        return self.encoder if self.slow is None else self.slow.net

    def _terms(self, z: Tensor, z_target: Tensor, batch: Batch, progress: float = 1.0) -> dict[str, Tensor]:
        """z [batch, dim]; z_target as `Target` wants it."""
        w = self.weights
        if w.walk:
            z_target = torch.cat((z[:, None], z_target), 1)  # the start is predicted as well
            predicted = self.predict(z_target, batch.k, walk=True)
        else:
            predicted = self.predict(z[:, None], batch.k)
        with torch.set_grad_enabled(self.shared and torch.is_grad_enabled()):
            goal, weight = self.target(z_target, batch.states, batch.next_states, self.action.angles)
        flat = predicted.flatten(0, 1)
        regularised = flat if w.regularise == "predicted" else z
        if self.shared:
            regularised = goal.flatten(0, 1) if w.walk else torch.cat((regularised, goal.flatten(0, 1)))
        terms = {"invariance": losses.invariance(predicted, goal, weight)}
        if w.variance or w.covariance:
            cov = losses.sample_covariance(regularised)
            if w.variance:
                terms["variance"] = losses.variance(cov)
            if w.covariance:
                terms["covariance"] = losses.covariance(cov, w.covariance_scale)
        if w.consistency:
            terms["consistency"] = min(1.0, progress / 0.3) * self._consistency(z)
        loss = torch.stack([getattr(w, name) * term for name, term in terms.items()]).sum()
        terms = {"loss": loss, **terms}
        if self.classifier is not None:
            terms["probe"] = F.cross_entropy(self.classifier(flat.detach()), batch.next_states.flatten())
        return terms

    def _consistency(self, z: Tensor) -> Tensor:
        """Acting once with a composed action must land where repeating its primitive lands.

        The repeated side is the target: it carries no gradient, and no step may make it longer than z, or a network
        that has not yet learned its primitives would chase its own growing output. The side that acts once shapes
        encoder and action both. An image is compared on some of the composed actions, the next image on the next
        ones, so that a batch has them all. The term fades in over the first three tenths of the run: primitives are
        learned first, but not without ever having seen the numbers that are to come.
        """
        (composed, primitive, steps), repeated = self.plans.to(z.device), self.repeated.to(z.device)
        few = min(len(composed), max(COMPARED, math.ceil(len(composed) / len(z))))
        row = torch.arange(len(z), device=z.device)[:, None]
        mine = (row * few + torch.arange(few, device=z.device)) % len(composed)
        z = z[:, None]
        with torch.no_grad():
            length = z.norm(dim=-1, keepdim=True)
            path = [z.expand(-1, len(repeated), -1)]
            for _ in range(self.longest_plan):
                ahead = self.predict(path[-1], repeated.expand(len(z), -1))
                path.append(ahead * (length / ahead.norm(dim=-1, keepdim=True).clamp(min=1e-12)).clamp(max=1))
            goal = torch.stack(path)[steps[mine], row, primitive[mine]]
        return losses.invariance(self.predict(z, composed[mine]), goal)
