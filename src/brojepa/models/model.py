"""What every model is: an encoder, a latent action and a classifier of one world, and how it predicts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from brojepa.errors import RequestError
from brojepa.groups import Cyclic, Element, Group, parse
from brojepa.models import planning
from brojepa.models.actions import LatentAction
from brojepa.models.decoder import Decoder
from brojepa.worlds import Batch, World
from brojepa.worlds.arrays import as_batch

CHUNK = 128  # images encoded at once outside training; a CPU's caches hold a ResNet's activations of no more


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
        return cls(world.n, world.shape, world.mean, world.std, world.law)

    @classmethod
    def from_facts(cls, facts: dict[str, Any]) -> Task:
        """From what a run remembers of its world."""
        law = parse(facts["group"]) if "group" in facts else None
        return cls(facts["states"], tuple(facts["shape"]), tuple(facts["mean"]), tuple(facts["std"]), law)


class Model(nn.Module):
    """Encoder, latent action and classifier of one world. Latents are float32 whatever the encoder computes in.

    Args:
        encoder: images [batch, *task.shape], normalised floats -> latents [batch, action.dim].
        action: what an action does to a latent.
        task: what the model must know of its world.
        normalise: scale every latent to a fixed length, by `action.normalise`.
        tta: test-time augmentation; 5 averages the latents of an image and its four one-pixel shifts.
        precision: of the encoder's arithmetic.

    `actions_used` remembers which actions training passed to the latent action: a buffer, so that it is saved and needs
    no synchronisation. `decoder` makes pictures of latents, where one has been trained.
    """

    predicts_latents = False
    """Whether predictions are latents of images, to be regressed on, looked up and rolled out."""

    def __init__(
        self,
        encoder: nn.Module,
        action: LatentAction,
        task: Task,
        *,
        normalise: bool = False,
        tta: int = 1,
        precision: torch.dtype = torch.float32,
    ) -> None:
        super().__init__()
        self.task, self.group = task, task.group
        self.encoder, self.action = encoder, action
        self.normalise, self.tta, self.precision = normalise, tta, precision
        self.channels_last = any(p.ndim == 4 and not p.is_contiguous() for p in encoder.parameters())
        self.classifier = nn.Linear(action.out_dim, task.n) if task.n else None
        self.pixel_mean = nn.Buffer(255 * torch.tensor(task.mean)[:, None, None])
        self.pixel_std = nn.Buffer(255 * torch.tensor(task.std)[:, None, None])
        self.actions_used = nn.Buffer(torch.zeros(self.group.buckets, dtype=torch.bool))
        self.decoder: Decoder | None = None

    @property
    def device(self) -> torch.device:
        return self.pixel_mean.device

    def encode(self, images: Any) -> Tensor:
        """Latents of images. In eval mode, as `load` gives a model, they carry no gradient; `embed` gives ones that do.

        Args:
            images: [count, h, w], [count, c, h, w], or one image [h, w] or [c, h, w]; an array or a tensor of numbers
                from 0 to 255, or of floats from 0 to 1. Or a Pillow image, the path of an image file, or a list of any.

        Returns:
            Latents [count, dim]; of one image, [1, dim].
        """
        with torch.set_grad_enabled(self.training and torch.is_grad_enabled()):
            return self._in_chunks(self.encoder, as_batch(images, self.task.shape))

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

    def decode(self, z: Tensor) -> Tensor:
        """Pictures of latents [..., dim], uint8 [..., c, h, w]: what the latent holds of an image, and for the rest the
        mean of all images that have it. A decoder is trained by `brojepa decode`."""
        if self.decoder is None:
            raise RequestError("this model has no decoder: train one with 'brojepa decode RUN', then load it again")
        return self.decoder(z)

    def embed(self, encoder: nn.Module, images: Tensor) -> Tensor:
        """uint8 images through an encoder in the model's precision, latents float32."""
        x = (images.float() - self.pixel_mean).div_(self.pixel_std)
        if self.channels_last:
            x = x.contiguous(memory_format=torch.channels_last)
        with torch.autocast(x.device.type, dtype=torch.bfloat16, enabled=self.precision is torch.bfloat16):
            z = encoder(x).float()
        return self.action.normalise(z) if self.normalise else z

    def _in_chunks(self, encoder: nn.Module, images: Tensor) -> Tensor:
        return torch.cat([self._augmented(encoder, part.to(self.device)) for part in images.split(CHUNK)])

    def _augmented(self, encoder: nn.Module, images: Tensor) -> Tensor:
        """Latents of images, each the mean over its `tta` versions."""
        if self.tta == 1:
            return self.embed(encoder, images)
        z = torch.stack([self.embed(encoder, version) for version in self.versions(images)]).mean(0)
        return self.action.normalise(z) if self.normalise else z

    def versions(self, images: Tensor) -> list[Tensor]:
        """The `tta` versions of images: as they are, and moved by a pixel in four directions."""
        if self.tta == 1:
            return [images]
        h, w = images.shape[2:]
        padded = F.pad(images, (1, 1, 1, 1))
        offsets = ((1, 1), (0, 1), (2, 1), (1, 0), (1, 2))
        return [padded[..., y : y + h, x : x + w] for y, x in offsets]

    def predict(self, z: Tensor, k: Tensor, *, walk: bool = False) -> Tensor:
        """`act` as training calls it: remembers the actions. z [batch, 1, dim], k [batch, actions, ...] -> [batch,
        actions, dim]. In a walk, z [batch, 1 + actions, dim], the actions follow one another and are also undone."""
        if self.training:
            self.actions_used[self.group.bucket(k).flatten()] = True
            if walk:
                self.actions_used[self.group.bucket(self.group.undone(k)).flatten()] = True
        return self.action.path(z, k) if walk else self.action.act(z, k)

    def objective(self, batch: Batch, progress: float = 1.0) -> dict[str, Tensor]:
        """Named terms of the loss on a batch; "loss" is what is minimised, "probe" trains the probe beside it.

        progress: how far the run has come, 0 to 1, for terms that fade in.
        """
        raise NotImplementedError

    @property
    def wants_next_images(self) -> bool:
        """Whether a batch must carry images of the next states."""
        return False

    @property
    def probe(self) -> nn.Module | None:
        """The classifier where it only reads latents; None where it is trained as part of the model."""
        return None

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
        used = self.actions_used[self.group.bucket(self.group.tensor(test_actions).to(self.device))]
        return "weak" if bool(used.any()) else "strict"

    def infer_action(self, z_from: Tensor, z_to: Tensor) -> Tensor:
        """The action that leads from one latent to another: [..., dim] twice -> [..., *group.shape]."""
        return planning.infer_action(self.action, self.group, z_from, z_to)

    def plan(self, z_from: Tensor, z_goal: Tensor, allowed: Sequence[Element | str]) -> planning.Plan:
        """The shortest sequence of allowed actions, plain elements or words, from one latent [dim] to another, acted
        out in latent space."""
        return planning.plan(self.action, self.group, z_from, z_goal, allowed)
