"""A model in training: its data, its optimiser, one step."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterator
from typing import Any

import torch

from brojepa import processes
from brojepa.config import Config
from brojepa.errors import RequestError
from brojepa.evaluation import evaluator
from brojepa.models import Task, build, spectral
from brojepa.runs import devices
from brojepa.training import optimiser
from brojepa.worlds import Batch, Sampling, World


class Learner:
    """A model in training, with its data and its optimiser. It writes no files.

    Args:
        config: the config.
        world: the world to learn.
        seed: the source of all random numbers.
        device: "auto", "cpu", "cuda" or "mps".
        precision: of the encoder, if an earlier part of the same run chose one.

    Raises:
        RequestError: the config does not fit the world.

    Examples:
        >>> import brojepa
        >>> import torch
        >>> labels = torch.arange(60) % 3
        >>> images = torch.eye(8)[2 * labels][:, None].repeat(1, 8, 1)  # a bar whose place is the state
        >>> world = brojepa.World.from_arrays("bars", (images, labels), (images, labels))
        >>> learner = brojepa.Learner(brojepa.Config(batch_size=16), world, device="cpu")
        >>> epoch = learner.transitions.draw(learner.generator)
        >>> learner.learn(learner.transitions.batch(epoch, 0, 16))
        >>> learner.term_names
        ['loss', 'invariance', 'variance', 'covariance', 'probe']
    """

    def __init__(
        self, config: Config, world: World, seed: int = 0, device: str = "auto", precision: str | None = None
    ) -> None:
        """`precision` is that of an earlier part of the same run."""
        self.config, self.world, self.seed = config, world, seed
        self.placement = processes.first(lambda: devices.place(config, device, precision))
        self.train_actions, self.test_actions = world.action_sets(config)
        self.evaluator = evaluator(world, self.train_actions, self.test_actions)
        self.generator = torch.Generator().manual_seed(seed)
        train, held = world.hold_out(config.validation, self.generator)
        self.train_split, self.held = train.to(self.placement.device), held.to(self.placement.device)
        self.model = build(config, Task.of(world), self.generator, self.placement.precision).to(self.placement.device)
        processes.whole_batches(self.model)
        processes.spread(self.model)
        self.optimizer, self.rates = optimiser.optimizer(self.model, config)

        sampling = Sampling.of(config, self.model.wants_next_images)
        self.transitions = world.transitions(self.train_split, self.train_actions, sampling)
        validation = world.transitions(self.held, self.train_actions, sampling.plain)
        if config.angle_start == "spectral":
            self._start_angles()
        draw = validation.draw(self.generator)
        self.validation_batch = validation.batch(
            draw, 0, min(len(validation), max(len(self.held), config.validation))
        )  # fmt: skip

        self.batch_size = min(config.batch_size, len(self.transitions))
        if self.batch_size < processes.count():
            raise RequestError(
                f"a batch of {self.batch_size} for {processes.count()} processes: use fewer, or a larger --batch-size"
            )
        self.steps = len(self.transitions) // self.batch_size
        self.epoch, self.step = 0, 0
        self.term_names: list[str] = []
        self.log = torch.zeros(0)
        self.random = config.regulariser != "vicreg" or bool(config.own_parts)

    def _start_angles(self) -> None:
        """Start learned angles at turns estimated from pairs of images."""
        for theta in self.model.action.undecayed():
            labelled = self.transitions.labelled
            if labelled is None or self.world.group.cycle is None:
                raise RequestError(f"--angle-start spectral is for cycles, not for {self.world.group}: use random")
            theta.data.copy_(spectral.starting_angles(labelled, theta.numel(), self.generator))

    @contextlib.contextmanager
    def seeded(self) -> Iterator[None]:
        """Random numbers that a part of the model draws (a sketch, dropout) are a function of the run's seed and the
        step, so that an interrupted run continues identically."""
        if not self.random:
            yield
            return
        with torch.random.fork_rng(devices=_gpus(self.placement.device)):
            text = f"{self.seed} {self.epoch * self.steps + self.step} {self.model.training}"
            torch.manual_seed(int.from_bytes(hashlib.sha256(text.encode()).digest()[:7], "big"))
            yield

    def learn(self, batch: Batch) -> None:
        """Take one step of the optimiser.

        Args:
            batch: what to learn from.
        """
        done, total = self.epoch * self.steps + self.step, self.config.epochs * self.steps
        factor = optimiser.share_of_peak(self.config.schedule, done, total)
        for group, rate in zip(self.optimizer.param_groups, self.rates, strict=True):
            group["lr"] = rate * factor
        with self.seeded(), processes.together():
            terms = self.model.objective(batch, done / total)
        self.optimizer.zero_grad()
        (terms["loss"] + terms.get("probe", 0)).backward()
        processes.average(self.model.parameters())
        self.optimizer.step()
        self.model.after_step()
        if not len(self.log):
            self.term_names = list(terms)
            self.log = torch.zeros(self.steps, len(terms), device=self.placement.device)
        self.log[self.step] = torch.stack([t.detach() for t in terms.values()])

    @torch.no_grad()
    def validate(self) -> dict[str, Any]:
        """Measure on validation images."""
        self.model.eval()
        with self.seeded(), processes.together():
            return self.evaluator.validate(self.model, self.held, self.validation_batch)


def _gpus(device: torch.device) -> list[torch.device]:
    return [device] if device.type == "cuda" else []
