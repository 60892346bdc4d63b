"""`JEPA`: the latent after an action is regressed on the latent of the next state."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from brojepa.errors import RequestError
from brojepa.groups import Element
from brojepa.models import losses
from brojepa.models.actions import LatentAction
from brojepa.models.model import Model, Task
from brojepa.models.targets import EMAEncoder, Target
from brojepa.worlds import Batch

COMPARED = 8  # composed actions that an image of a batch is compared on, at least, in the consistency term


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
        slow: EMAEncoder | None,
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
