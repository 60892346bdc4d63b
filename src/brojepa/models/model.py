"""The base of all models: an encoder, a latent action and a classifier for one world, and how they predict."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from brojepa import processes
from brojepa.errors import RequestError
from brojepa.groups import Cyclic, Element, Group, parse
from brojepa.models import planning
from brojepa.models.actions import LatentAction
from brojepa.models.decoder import Decoder
from brojepa.worlds import Batch, World
from brojepa.worlds.arrays import as_batch
from brojepa.worlds.rows import Rows

CHUNK = 128  # images encoded at once outside training: a ResNet's activations for this many fit into a CPU's caches


@dataclass(frozen=True)
class Task:
    """What a model must know about its world.

    Args:
        n: number of labelled states; 0 if states are not labels.
        shape: channels, height and width of an image.
        mean: mean of each channel, for pixels from 0 to 1.
        std: standard deviation of each channel.
        law: the group of the actions; None means the cycle of the n states.

    Examples:
        >>> from brojepa import Task
        >>> task = Task(n=10, shape=(1, 28, 28), mean=(0.13,), std=(0.31,))
        >>> print(task.group)
        Z10
    """

    n: int
    shape: tuple[int, int, int]
    mean: tuple[float, ...]
    std: tuple[float, ...]
    law: Group | None = None

    @property
    def group(self) -> Group:
        """The group of the actions."""
        return self.law or Cyclic(self.n)

    @classmethod
    def of(cls, world: World) -> Task:
        """The task of a world.

        Args:
            world: the world.

        Returns:
            Its task.
        """
        return cls(world.n, world.shape, world.mean, world.std, world.law)

    @classmethod
    def from_facts(cls, facts: dict[str, Any]) -> Task:
        """The task of a world that a run recorded.

        Args:
            facts: what `config.json` says about the world.

        Returns:
            Its task.
        """
        law = parse(facts["group"]) if "group" in facts else None
        return cls(facts["states"], tuple(facts["shape"]), tuple(facts["mean"]), tuple(facts["std"]), law)


class Model(nn.Module):
    """An encoder, a latent action and a classifier for one world. `brojepa.load` returns one that is trained.

    Latents are float32, whatever precision the encoder computes in. `actions_used` records which actions training
    passed to the latent action. `decoder` makes pictures of latents; it is None unless one was trained.

    Args:
        encoder: maps normalised images [batch, *task.shape] to latents [batch, action.dim].
        action: what an action does to a latent.
        task: what the model must know about its world.
        normalise: scale every latent to a fixed length, by `action.normalise`.
        tta: test-time augmentation; 5 averages the latents of an image and its four one-pixel shifts.
        precision: of the encoder's arithmetic.
        eval_precision: of the same when `brojepa.evaluate` measures the model.

    Examples:
        >>> import brojepa
        >>> model = brojepa.load("mnist/fast", device="cpu")
        >>> images = brojepa.open_world("mnist").test.images[:3]
        >>> z = model.encode(images)
        >>> model.classify(z).tolist(), model.classify(model.act(z, 3)).tolist()
        ([7, 2, 1], [0, 5, 4])
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
        eval_precision: torch.dtype = torch.float32,
    ) -> None:
        super().__init__()
        self.task, self.group = task, task.group
        self.encoder, self.action = encoder, action
        self.normalise, self.tta = normalise, tta
        self.precision, self.eval_precision = precision, eval_precision
        self.channels_last = any(p.ndim == 4 and not p.is_contiguous() for p in encoder.parameters())
        self.classifier = nn.Linear(action.out_dim, task.n) if task.n else None
        self.pixel_mean = nn.Buffer(255 * torch.tensor(task.mean)[:, None, None])
        self.pixel_std = nn.Buffer(255 * torch.tensor(task.std)[:, None, None])
        self.actions_used = nn.Buffer(torch.zeros(self.group.buckets, dtype=torch.bool))
        self.decoder: Decoder | None = None
        self.no_decoder = "this model has no decoder: train one with 'brojepa decode RUN', then load it again"

    @property
    def device(self) -> torch.device:
        """The device that the model is on."""
        return self.pixel_mean.device

    def encode(self, images: Any) -> Tensor:
        """The latents of images.

        A loaded model is in eval mode and its latents carry no gradient; those of `embed` do.

        Args:
            images: an array or a tensor, [count, h, w] or [count, c, h, w], or one image [h, w] or [c, h, w]. Values
                are 0 to 255, or floats from 0 to 1. Or a Pillow image, the path of an image file, or a list of any of
                these.

        Returns:
            Latents [count, dim]; for one image, [1, dim].

        Raises:
            RequestError: the images do not have the shape that the model was trained on.
        """
        with torch.set_grad_enabled(self.training and torch.is_grad_enabled()):
            return self._in_chunks(self.encoder, as_batch(images, self.task.shape))

    def act(self, z: Tensor, k: Tensor | Element) -> Tensor:
        """The latents after an action.

        Args:
            z: latents, [..., dim].
            k: an element of the group, such as 3, or a tensor of elements that broadcasts with the latents.

        Returns:
            Predicted latents, [..., dim].
        """
        return self.action.act(z, k)

    def classify(self, z: Tensor) -> Tensor:
        """The state that each latent shows.

        Args:
            z: latents, [..., dim].

        Returns:
            States, [...].

        Raises:
            RequestError: the model's world has no labelled states.
        """
        if self.classifier is None:
            raise RequestError("this model's world has no labelled states: compare latents with those of other images")
        return self.classifier(z).argmax(-1)

    def rollout(self, z: Tensor, k: Element, steps: int) -> Tensor:
        """The latents along a repeated action.

        Args:
            z: latents to start from, [..., dim].
            k: the action to repeat.
            steps: how often.

        Returns:
            Latents after 0, 1, ..., steps times the action, [steps + 1, ..., dim].
        """
        path = [z]
        for _ in range(steps):
            path.append(self.act(path[-1], k))
        return torch.stack(path)

    def decode(self, z: Tensor) -> Tensor:
        """Pictures of latents.

        A picture shows what the latent holds about an image; the rest is the mean of all images with that latent.

        Args:
            z: latents, [..., dim].

        Returns:
            uint8 images, [..., c, h, w].

        Raises:
            RequestError: the model has no decoder; `brojepa decode RUN` trains one.
        """
        if self.decoder is None:
            raise RequestError(self.no_decoder)
        return self.decoder(z)

    def embed(self, encoder: nn.Module, images: Tensor) -> Tensor:
        """The latents of uint8 images through some encoder, in the model's precision, with gradient.

        Args:
            encoder: the encoder, such as `model.encoder` or a target encoder.
            images: uint8 images, [batch, c, h, w], on the model's device.

        Returns:
            Latents, float32 [batch, dim].
        """
        mine = processes.part(images.shape[0])  # if several processes train a run, each encodes a part
        part = images if mine == slice(None) else images[mine]
        x = part.to(torch.float32, copy=True).sub_(self.pixel_mean).div_(self.pixel_std)
        if self.channels_last:
            x = x.contiguous(memory_format=torch.channels_last)
        with self._arithmetic(x.device.type), processes.apart(x.device):
            z = processes.gather(encoder(x).float(), mine, images.shape[0])
        return self.action.normalise(z) if self.normalise else z

    def _arithmetic(self, device: str) -> contextlib.AbstractContextManager[Any]:
        """The encoder's precision; autocast, which takes a while to enter and leave, only where it changes anything."""
        half = self.precision is torch.bfloat16
        if half or torch.is_autocast_enabled(device):
            return torch.autocast(device, dtype=torch.bfloat16, enabled=half)
        return contextlib.nullcontext()

    def _in_chunks(self, encoder: nn.Module, images: Tensor | Rows) -> Tensor:
        mine = processes.part(images.shape[0], CHUNK)
        with processes.alone():
            parts = (images if mine == slice(None) else images[mine]).split(CHUNK)
            z = torch.cat([self._augmented(encoder, part[:].to(self.device)) for part in parts])
        return processes.gather(z, mine, images.shape[0])

    def _augmented(self, encoder: nn.Module, images: Tensor) -> Tensor:
        """Latents of images, each the mean over its `tta` versions."""
        if self.tta == 1:
            return self.embed(encoder, images)
        z = torch.stack([self.embed(encoder, version) for version in self.versions(images)]).mean(0)
        return self.action.normalise(z) if self.normalise else z

    def versions(self, images: Tensor) -> list[Tensor]:
        """The versions of images that test-time augmentation averages over.

        Args:
            images: [batch, c, h, w].

        Returns:
            `tta` tensors of that shape: the images, and the images moved by a pixel in four directions.
        """
        if self.tta == 1:
            return [images]
        h, w = images.shape[2:]
        padded = F.pad(images, (1, 1, 1, 1))
        offsets = ((1, 1), (0, 1), (2, 1), (1, 0), (1, 2))
        return [padded[..., y : y + h, x : x + w] for y, x in offsets]

    def predict(self, z: Tensor, k: Tensor, *, walk: bool = False) -> Tensor:
        """`act` as training calls it; it also records the actions.

        Args:
            z: latents, [batch, 1, dim]; in a walk, [batch, 1 + actions, dim].
            k: actions, [batch, actions, ...].
            walk: the actions follow one another, and are also undone.

        Returns:
            Predicted latents, [batch, actions, dim]; in a walk, with the start.
        """
        if self.training:
            self.actions_used[self.group.bucket(k).flatten()] = True
            if walk:
                self.actions_used[self.group.bucket(self.group.undone(k)).flatten()] = True
        return self.action.path(z, k) if walk else self.action.act(z, k)

    def objective(self, batch: Batch, progress: float = 1.0) -> dict[str, Tensor]:
        """The terms of the loss on a batch.

        Args:
            batch: what the world drew.
            progress: how far the run has come, 0 to 1, for terms that fade in.

        Returns:
            Terms by name. "loss" is minimised; "probe", if present, trains the probe beside it.
        """
        raise NotImplementedError

    @property
    def wants_next_images(self) -> bool:
        """Whether a batch must carry images of the next states."""
        return False

    @property
    def probe(self) -> nn.Module | None:
        """The classifier where it only reads latents; None if it is trained as part of the model."""
        return None

    def target_latents(self, images: Tensor | Rows) -> Tensor:
        """The latents that predictions are regressed on; the encoder's own if there is no target encoder.

        Args:
            images: uint8 images, [count, c, h, w].

        Returns:
            Latents, [count, dim].
        """
        return self.encode(images)

    def validate(self, z: Tensor, z_target: Tensor, batch: Batch) -> Tensor:
        """The loss on latents that are already computed.

        Args:
            z: latents of the batch's context images, [batch, dim].
            z_target: target latents, as the target wants them.
            batch: the batch that they belong to.

        Returns:
            The loss, a scalar.
        """
        raise NotImplementedError

    def after_step(self) -> None:
        """Called after each step of the optimiser."""

    def zero_shot_kind(self, test_actions: Sequence[Element]) -> str:
        """Whether zero-shot is strict: did training ever pass a test action to the latent action?

        Args:
            test_actions: the held-out actions, plain elements.

        Returns:
            "strict" if it did not, "weak" if it did, "none" without test actions.
        """
        if not test_actions:
            return "none"
        used = self.actions_used[self.group.bucket(self.group.tensor(test_actions).to(self.device))]
        return "weak" if bool(used.any()) else "strict"

    def infer_action(self, z_from: Tensor, z_to: Tensor) -> Tensor:
        """The action that leads from one latent to another.

        Args:
            z_from: latents to start from, [..., dim].
            z_to: latents to reach, [..., dim].

        Returns:
            The best of `group.candidates()`, [..., *group.shape].
        """
        return planning.infer_action(self.action, self.group, z_from, z_to)

    def plan(self, z_from: Tensor, z_goal: Tensor, allowed: Sequence[Element | str]) -> planning.Plan:
        """The shortest sequence of allowed actions from one latent to another, carried out in latent space.

        Args:
            z_from: the latent to start from, [dim].
            z_goal: the latent to reach, [dim].
            allowed: the actions to use, plain elements or words.

        Returns:
            The plan.

        Raises:
            RequestError: the group is continuous, or the allowed actions do not reach the goal.
        """
        return planning.plan(self.action, self.group, z_from, z_goal, allowed)
