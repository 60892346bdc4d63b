"""Training: one loop, readable top to bottom, whose whole state is in the checkpoint.

A run is a pure function of config and seed: every random number comes from one generator, and an epoch is drawn
at its start, so a run cut at any step goes on exactly where it was.
"""

from __future__ import annotations

import itertools
import math
import time
from typing import Any

import torch
from torch import Tensor, nn

from brojepa import evaluation
from brojepa.algebra.modulus import indistinguishable
from brojepa.config import Config
from brojepa.errors import Interrupted, RequestError, RunError
from brojepa.files import write_json
from brojepa.groups import Cyclic
from brojepa.models import JEPA, Model, Task, spectral
from brojepa.models.build import action_sets, build
from brojepa.presets import PRESETS
from brojepa.runs import Run, checkpoint, devices
from brojepa.training import optimiser as optimisation
from brojepa.training.display import Reporter
from brojepa.training.signals import Signals
from brojepa.worlds import LabelledTransitions, PoseTransitions, PoseWorld, Split, World

CHECK_EVERY = 100  # steps between looks at whether the loss is finite
SAVE_EVERY = 120.0  # seconds between checkpoints within an epoch


class Training:
    """One run in progress: model, optimiser, generator, and how far it has come."""

    def __init__(
        self,
        run: Run,
        config: Config,
        seed: int,
        world: World,
        placement: devices.Placement,
        reporter: Reporter,
        name: str | None,
    ) -> None:
        self.run, self.config, self.seed, self.reporter = run, config, seed, reporter
        self.world, self.placement = world, placement
        self.base = name
        self.preset = name if name and PRESETS.get(name) == config else None
        self.train_actions, self.test_actions = action_sets(config, world.group, world.actions)
        self.judge = evaluation.judge(world, self.train_actions, self.test_actions)
        self.generator = torch.Generator().manual_seed(seed)
        train, held = world.hold_out(config.validation, self.generator)
        self.train_split, self.held = train.to(placement.device), held.to(placement.device)
        self.model = build(config, Task.of(world), self.generator).to(placement.device)
        self.model.precision = placement.precision
        self.optimizer, self.rates = optimisation.optimizer(self.model, config)

        self.transitions = self._transitions(
            self.train_split, shift=config.shift, warp=config.warp, even_states=config.even_states
        )
        validation = self._transitions(self.held)
        if config.angle_start == "spectral" and self.model.action.learned_angles:
            if not isinstance(self.transitions, LabelledTransitions) or not isinstance(world.group, Cyclic):
                raise RequestError(f"--angle-start spectral is for cycles, not for {world.group}: use random")
            theta = self.model.action.theta
            start = spectral.starting_angles(self.transitions, theta.numel(), self.generator)  # pyright: ignore[reportCallIssue]
            theta.data.copy_(start)  # pyright: ignore[reportCallIssue]
        self.validation_draw: Any = validation.draw(self.generator)
        checked = min(len(validation), max(len(self.held), config.validation))
        self.validation_batch = validation.batch(self.validation_draw, 0, checked)

        self.batch_size = min(config.batch_size, len(self.transitions))
        self.steps = len(self.transitions) // self.batch_size
        self.epoch, self.step, self.seconds = 0, 0, 0.0
        self.term_names: list[str] = []
        self.log = torch.zeros(0)
        self.rows: list[dict[str, Any]] = []
        self.epoch_start = self.generator.get_state()

    def _transitions(self, split: Split, **changed: Any) -> LabelledTransitions | PoseTransitions:
        if isinstance(self.world, PoseWorld):
            if any(changed.values()):
                flags = "--shift, --warp and --even-states"
                raise RequestError(f"{flags} are for labelled states, not for poses of {self.world.group}")
            ways = {"every_action": self.config.every_action, "walk": self.config.walk}
            return PoseTransitions(self.world, split, self.train_actions, **ways)
        with_targets = isinstance(self.model, JEPA) and self.model.target.of_next_state
        return LabelledTransitions(
            split, self.world.group, self.train_actions,
            every_action=self.config.every_action, with_targets=with_targets, **changed,
        )  # fmt: skip

    def begin(self) -> None:
        """Write what a run directory starts with, or take up the state that is there."""
        header = {
            "preset": self.preset,
            "base": self.base,
            "seed": self.seed,
            "config": self.config.to_dict(),
            "world": self.world.facts,
        }
        self.run.check({"world": header["world"]})
        if not self.run.config_file.is_file():
            write_json(self.run.config_file, header)
        write_json(self.run.path / "env.json", devices.environment(self.placement))
        resumed = self.run.state_file.is_file()
        if resumed:
            self._restore()
        self.reporter.started(self, resumed)

    def fit(self, signals: Signals) -> None:
        """Epochs from where the run stands to the end."""
        last_save = time.monotonic()
        while self.epoch < self.config.epochs:
            self.epoch_start = self.generator.get_state()
            draw: Any = self.transitions.draw(self.generator)
            self.model.train()
            begun, first, before_save = time.monotonic(), self.step, 0.0
            while self.step < self.steps:
                start = self.step * self.batch_size
                self._train_step(self.transitions.batch(draw, start, start + self.batch_size))
                self.step += 1
                if self.step % CHECK_EVERY == 0:
                    self._check_finite()
                self.reporter.progress(self)
                if signals.requested or time.monotonic() - last_save > SAVE_EVERY:
                    before_save += time.monotonic() - begun
                    self.seconds += time.monotonic() - begun
                    self._check_finite()
                    self._save()
                    begun = last_save = time.monotonic()
                if signals.requested:
                    where = f"epoch {self.epoch + 1}, step {self.step}"
                    raise Interrupted(f"stopped at {where}; the same command resumes it")
            self._check_finite()
            taken = before_save + time.monotonic() - begun
            self._finish_epoch((self.step - first) * self.batch_size / max(taken, 1e-9))
            self.seconds += time.monotonic() - begun
            self._save()
            last_save = time.monotonic()
            if signals.requested and self.epoch < self.config.epochs:
                raise Interrupted(f"stopped after epoch {self.epoch}; the same command resumes it")

    def _train_step(self, batch) -> None:
        done, total = self.epoch * self.steps + self.step, self.config.epochs * self.steps
        factor = optimisation.share_of_peak(self.config.schedule, done, total)
        for group, rate in zip(self.optimizer.param_groups, self.rates, strict=True):
            group["lr"] = rate * factor
        terms = self.model.objective(batch, done / total)
        self.optimizer.zero_grad()
        (terms["loss"] + terms.get("probe", 0)).backward()
        self.optimizer.step()
        self.model.after_step()
        if not len(self.log):
            self.term_names = list(terms)
            self.log = torch.zeros(self.steps, len(terms), device=self.placement.device)
        self.log[self.step] = torch.stack([t.detach() for t in terms.values()])

    def _check_finite(self) -> None:
        """Stop at the first step whose terms are not all finite; what is on disk is from before it."""
        bad = (~self.log[: self.step].isfinite().all(1)).nonzero()
        if len(bad):
            step = int(bad[0])
            terms = ", ".join(f"{n} {v:.4g}" for n, v in zip(self.term_names, self.log[step].tolist(), strict=True))
            kept = f"the last good checkpoint is kept in {self.run.path}; " if self.run.state_file.is_file() else ""
            raise RunError(
                f"the loss is not finite at epoch {self.epoch + 1}, step {step + 1} ({terms}); {kept}"
                "try a smaller --lr or other loss weights"
            )

    def _finish_epoch(self, images_per_second: float) -> None:
        """Validate, write the epoch's row, keep the model if it is the best so far."""
        row = {"epoch": self.epoch + 1, "step": (self.epoch + 1) * self.steps}
        row |= dict(zip(self.term_names, self.log.cpu().double().mean(0).tolist(), strict=True))
        row |= self._validate()
        if not math.isfinite(row["validation_loss"]):
            raise RunError(f"the validation loss is not finite after epoch {self.epoch + 1}; try a smaller --lr")
        if self.model.action.learned_angles:
            row["angles"] = self.model.action.theta.tolist()  # pyright: ignore[reportCallIssue]
        row["images_per_second"] = images_per_second
        best = min((r["validation_loss"] for r in self.rows), default=math.inf)
        if self.config.checkpoint == "last" or row["validation_loss"] < best:
            kept = {"epoch": row["epoch"], "validation_loss": row["validation_loss"]}
            checkpoint.save(self.run.model_file, predicting_state(self.model), kept)
        self.rows.append(row)
        self.run.write_metrics(self.rows)
        self.epoch, self.step, self.log = self.epoch + 1, 0, torch.zeros(0)
        self.reporter.epoch(self, row)
        if isinstance(self.model, JEPA) and evaluation.collapsed(row):
            self.reporter.warning(
                f"the latents have collapsed (spread of their directions {row['latent_std']:.3f} and of themselves "
                f"{row['latent_scale']:.3f}, both near 1 when healthy; effective rank {row['effective_rank']:.1f} of "
                f"{self.config.latent}): raise --variance, or lower --invariance"
            )
        self._warn_of_look_alikes()

    def _warn_of_look_alikes(self) -> None:
        """Say once that learned angles have stayed, from one epoch to the next, where they cannot tell states apart."""
        n = self.world.n
        alike = [indistinguishable(row["angles"], n) for row in self.rows if "angles" in row]
        stayed = [now > 1 and now == before for before, now in itertools.pairwise(alike)]
        if stayed and stayed[-1] and not any(stayed[:-1]):
            other = "" if self.config.angle_start == "spectral" else ", or --angle-start spectral"
            self.reporter.warning(
                f"the angles have settled where only {n // alike[-1]} of {n} states can be told apart (y and "
                f"y + {n // alike[-1]} look alike): try another --seed{other}"
            )

    @torch.no_grad()
    def _validate(self) -> dict[str, Any]:
        return self.judge.validate(self.model.eval(), self.held, self.validation_draw, self.validation_batch)

    def _save(self) -> None:
        """Everything that exact resume needs, in one file."""
        tensors = {
            **{f"model.{name}": t for name, t in self.model.state_dict().items()},
            **{f"optimizer.{name}": t for name, t in checkpoint.optimizer_tensors(self.optimizer).items()},
            "generator": self.epoch_start if self.step else self.generator.get_state(),
            "log": self.log,
        }
        meta = {
            "config": self.config.to_dict(), "seed": self.seed, "epoch": self.epoch, "step": self.step,
            "seconds": self.seconds, "terms": self.term_names, "rows": self.rows,
        }  # fmt: skip
        checkpoint.save(self.run.state_file, tensors, meta)

    def _restore(self) -> None:
        tensors, meta = checkpoint.load(self.run.state_file)
        if (Config.from_dict(meta["config"]), meta["seed"]) != (self.config, self.seed):  # with the knobs since
            raise RequestError(f"{self.run.state_file} is of another config or seed: choose another --out")
        self.model.load_state_dict(checkpoint.split_by_prefix(tensors, "model"))
        checkpoint.restore_optimizer(self.optimizer, checkpoint.split_by_prefix(tensors, "optimizer"))
        self.generator.set_state(tensors["generator"])
        self.log = tensors["log"].to(self.placement.device)
        self.epoch, self.step, self.seconds = meta["epoch"], meta["step"], meta["seconds"]
        self.term_names, self.rows = meta["terms"], meta["rows"]
        self.run.write_metrics(self.rows)

    def finish(self) -> None:
        """Evaluate the kept model exactly and write `result.json`."""
        begun = time.monotonic()
        self.reporter.evaluating(self)
        tensors, kept = checkpoint.load(self.run.model_file)
        self.model.load_state_dict(tensors, strict=False)
        measured = self.judge.test(self.model, self.train_split)
        images = self.config.epochs * self.steps * self.batch_size
        angles = self.model.action.angles
        result = {
            "preset": self.preset,
            "world": self.world.name,
            "split": self.world.source.get("split"),
            "seed": self.seed,
            "config_hash": self.config.hash,
            "epochs": self.config.epochs,
            "kept_epoch": kept["epoch"],
            "target": self.config.target + (f" x{self.config.relax_steps}" if self.config.target == "relaxed" else ""),
            "seconds": self.seconds,
            "evaluation_seconds": time.monotonic() - begun,
            "images_per_second": images / self.seconds,
            "zero_shot_kind": self.model.zero_shot_kind(self.test_actions),
            **measured,
            "angles": None if angles is None else angles.tolist(),
            "validation_loss": kept["validation_loss"],
            "parameters": sum(p.numel() for p in predicting_parameters(self.model)),
        }
        write_json(self.run.result_file, result)
        self.reporter.finished(self, result)


def predicting_state(model: Model) -> dict[str, Tensor]:
    """The tensors that prediction needs: all but the target encoder and running targets."""
    return {n: t for n, t in model.state_dict().items() if not n.startswith(("slow.", "target."))}


def predicting_parameters(model: Model) -> list[nn.Parameter]:
    return [p for n, p in model.named_parameters() if not n.startswith("slow.")]
