"""`JEPA`: the latent after an action is regressed on the latent of the next state."""

from __future__ import annotations

import functools
import operator
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from brojepa.models import losses
from brojepa.models.actions import LatentAction
from brojepa.models.consistency import Consistency
from brojepa.models.model import Model, Task
from brojepa.models.regularisers import Terms, VICReg
from brojepa.models.targets import EMAEncoder, Sampled, Target
from brojepa.worlds import Batch
from brojepa.worlds.rows import Rows


class JEPA(Model):
    """Joint-embedding prediction: act(encode(context), k) is regressed on the target latent of the next state.

    The classifier is a probe: it reads predicted latents and sends no gradient back.

    Args:
        encoder: maps normalised images to latents, as in `Model`.
        action: what an action does to a latent.
        task: what the model must know about its world.
        target: turns target latents into regression targets; default `Sampled`.
        slow: the target encoder; None means the encoder itself.
        shared: let the gradient flow into the targets too; only without `slow`.
        regulariser: maps latents [batch, dim] to {name: (weight, value)}; default `VICReg`.
        invariance: weight of the distance to the target.
        regularise: which latents the regulariser sees: "predicted", or "context" for those of the context images.
        walk: whether the actions of a batch follow one another.
        consistency: the composition-consistency term, if any.
        **options: `normalise`, `tta`, `precision` and `eval_precision`, as in `Model`.

    Examples:
        >>> import brojepa
        >>> from torch import nn
        >>> task = brojepa.Task(n=4, shape=(1, 8, 8), mean=(0.5,), std=(0.5,))
        >>> encoder = nn.Sequential(nn.Flatten(), nn.Linear(64, 6))
        >>> model = brojepa.JEPA(encoder, brojepa.BlockRotation.multi(6, n=4, lowest=1), task)
        >>> model.wants_next_images, model.probe
        (True, Linear(in_features=6, out_features=4, bias=True))
    """

    predicts_latents = True

    def __init__(
        self,
        encoder: nn.Module,
        action: LatentAction,
        task: Task,
        *,
        target: Target | None = None,
        slow: EMAEncoder | None = None,
        shared: bool = False,
        regulariser: nn.Module | None = None,
        invariance: float = 25.0,
        regularise: Literal["predicted", "context"] = "predicted",
        walk: bool = False,
        consistency: Consistency | None = None,
        **options: Any,
    ) -> None:
        super().__init__(encoder, action, task, **options)
        self.target, self.slow, self.shared = target or Sampled(), slow, shared
        self.regulariser = regulariser or VICReg()
        self.invariance, self.regularise, self.walk, self.consistency = invariance, regularise, walk, consistency

    @property
    def wants_next_images(self) -> bool:
        return self.target.of_next_state

    @property
    def probe(self) -> nn.Module | None:
        return self.classifier

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

    def target_latents(self, images: Tensor | Rows) -> Tensor:
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
        if self.walk:
            z_target = torch.cat((z[:, None], z_target), 1)  # the start is predicted too

            predicted = self.predict(z_target, batch.k, walk=True)
        else:
            predicted = self.predict(z[:, None], batch.k)
        with torch.set_grad_enabled(self.shared and torch.is_grad_enabled()):
            goal, weight = self.target(z_target, batch, self.action)
        flat = predicted.flatten(0, 1)
        regularised = flat if self.regularise == "predicted" else z
        if self.shared:
            regularised = goal.flatten(0, 1) if self.walk else torch.cat((regularised, goal.flatten(0, 1)))
        weighted: Terms = {"invariance": (self.invariance, losses.invariance(predicted, goal, weight))}
        weighted |= self.regulariser(regularised)
        if self.consistency is not None:
            weighted["consistency"] = (self.consistency.weight, self.consistency(self.predict, z, progress))
        loss = functools.reduce(operator.add, [weight * value for weight, value in weighted.values()])
        terms = {"loss": loss, **{name: value for name, (_, value) in weighted.items()}}
        if self.classifier is not None:
            terms["probe"] = F.cross_entropy(self.classifier(flat.detach()), batch.next_states.flatten())
        return terms
