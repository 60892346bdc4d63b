"""Training: one loop, readable top to bottom, whose whole state is in the checkpoint.

A run is a pure function of config, seed and number of threads: every random number comes from one generator, and an
epoch is drawn at its start, so a run interrupted at any step resumes exactly.
"""

from __future__ import annotations

import itertools
import math
import time
from datetime import datetime, timezone
from typing import Any

import numpy as np
import torch
from torch import nn

from brojepa import parts, processes
from brojepa.algebra.labelled import look_alikes
from brojepa.config import Config, world_code
from brojepa.errors import Interrupted, RequestError, RunError
from brojepa.evaluation import METRICS, collapsed
from brojepa.files import COUNT, LIST, NUMBER, TABLE, write_json
from brojepa.models import Model
from brojepa.presets import PRESETS
from brojepa.runs import Run, checkpoint, devices, loading
from brojepa.runs.run import wrong_epoch
from brojepa.training.callbacks import Callback
from brojepa.training.hints import hints, staleness
from brojepa.training.learner import Learner
from brojepa.training.signals import Signals
from brojepa.worlds import World

CHECK_EVERY = 100  # steps between checks that the loss is finite
SAVE_EVERY = 120.0  # seconds between checkpoints within an epoch
SAMPLE = 256  # training images used to check that batch norms are up to date


class Training(Learner):
    """One run in progress: a learner, its directory, and its callbacks."""

    def __init__(
        self, run: Run, config: Config, seed: int, world: World, device: str, callbacks: Callback,
        name: str | None = None, world_path: str | None = None, why: str = "",
    ) -> None:  # fmt: skip
        super().__init__(config, world, seed, device, run.environment.get("precision"))
        self.run, self.callbacks, self.base, self.world_path, self.why = run, callbacks, name, world_path, why
        self.leads = processes.rank() == 0
        self.preset = name if name and PRESETS.get(name) == config else None
        self.seconds = 0.0
        self.estimated: float | None = None
        self.rows: list[dict[str, Any]] = []
        self.epoch_start = self.generator.get_state()

    @property
    def loss(self) -> float | None:
        """The mean loss of this epoch so far."""
        return float(self.log[: self.step, 0].mean()) if self.step and len(self.log) else None

    @property
    def evaluation_seconds(self) -> float:
        """About how long `finish` will take; estimated once."""
        if self.estimated is None:
            with self.seeded():
                self.estimated = self.evaluator.estimate(self.model, self.train_split)
        return self.estimated

    def begin(self) -> None:
        """Write the first files of a run directory, or load the state that is there."""
        header = {
            "preset": self.preset,
            "base": self.base,
            "seed": self.seed,
            "config": self.config.to_dict(),
            "world": self.world.facts,
            **({"world_path": self.world_path} if self.world_path else {}),
            **({"own_code": parts.sources(self.run_parts)} if self.run_parts else {}),
        }
        if not self.leads:
            pass
        elif not self.run.config_file.is_file():
            write_json(self.run.config_file, header)
        elif (before := self.run.header.get("own_code")) and before != header.get("own_code"):
            self.callbacks.warning(f"the own code of {self.run.path} has changed since the run began")
        resumed = processes.first(self.run.state_file.is_file)
        if resumed:
            self._restore()
        if self.leads:
            self._note_start()
        self.callbacks.begin(self, resumed)

    @property
    def run_parts(self) -> dict[str, str]:
        """Own code that the run is made with, by kind of part."""
        return self.config.own_parts | ({"world": code} if (code := world_code(self.world_path or "")) else {})

    def _note_start(self) -> None:
        """Write `env.json`: where the run began, and an entry per start."""
        now = devices.environment(self.placement)
        first = {**(self.run.environment or now)}
        starts: Any = first.pop("starts", [])
        date = datetime.now(timezone.utc).isoformat(timespec="seconds")
        start = {"date": date, "epoch": self.epoch, "step": self.step, **now}
        write_json(self.run.path / "env.json", {**first, "starts": [*starts, start]})

    def fit(self, signals: Signals) -> None:
        """Train the remaining epochs."""
        last_save = time.monotonic()
        while self.epoch < self.config.epochs:
            self.epoch_start = self.generator.get_state()
            draw: Any = self.transitions.draw(self.generator)
            self.model.train()
            begun, first, before_save = time.monotonic(), self.step, 0.0
            while self.step < self.steps:
                start = self.step * self.batch_size
                self.learn(self.transitions.batch(draw, start, start + self.batch_size))
                self.step += 1
                if self.step % CHECK_EVERY == 0:
                    self._check_finite()
                self.callbacks.step(self)
                stop = processes.agree(signals.requested)
                if stop or time.monotonic() - last_save > SAVE_EVERY:
                    before_save += time.monotonic() - begun
                    self.seconds += time.monotonic() - begun
                    self._check_finite()
                    self._save()
                    begun = last_save = time.monotonic()
                if stop:
                    processes.agree(True)  # the others wait until the first has saved
                    where = f"epoch {self.epoch + 1}, step {self.step}"
                    raise Interrupted(f"stopped at {where}; the same command resumes it")
            self._check_finite()
            taken = before_save + time.monotonic() - begun
            self._finish_epoch((self.step - first) * self.batch_size / max(taken, 1e-9))
            self.seconds += time.monotonic() - begun
            self._save()
            last_save = time.monotonic()
            if processes.agree(signals.requested) and self.epoch < self.config.epochs:
                raise Interrupted(f"stopped after epoch {self.epoch}; the same command resumes it")

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
        row |= self.validate()
        if not math.isfinite(row["validation_loss"]):
            raise RunError(f"the validation loss is not finite after epoch {self.epoch + 1}; try a smaller --lr")
        row |= self.model.action.logged()
        row["images_per_second"] = images_per_second
        best = min((r["validation_loss"] for r in self.rows), default=math.inf)
        if self.leads and (self.config.checkpoint == "last" or row["validation_loss"] < best):
            kept = {"epoch": row["epoch"], "validation_loss": row["validation_loss"]}
            checkpoint.save(self.run.model_file, loading.predicting_state(self.model), kept)
        self.rows.append(row)
        if self.leads:
            self.run.write_metrics(self.rows)
        self.epoch, self.step, self.log = self.epoch + 1, 0, torch.zeros(0)
        self.callbacks.epoch(self, row)
        if self._collapsed:
            self.callbacks.warning(
                f"the latents have collapsed (spread of their directions {row['latent_std']:.3f} and of themselves "
                f"{row['latent_scale']:.3f}, both near 1 when healthy; effective rank {row['effective_rank']:.1f} of "
                f"{self.config.latent}): {self._against_collapse}"
            )
        self._warn_of_look_alikes()

    @property
    def _collapsed(self) -> bool:
        return self.model.predicts_latents and collapsed(self.rows[-1])

    @property
    def _against_collapse(self) -> str:
        regulariser = self.config.regulariser
        if regulariser == "vicreg":
            return (
                "raise --variance, or lower --invariance" if self.config.variance else "raise --variance, 25 is usual"
            )
        return "raise --sigreg" if regulariser == "sigreg" else f"give {regulariser} more weight, or lower --invariance"

    def _warn_of_look_alikes(self) -> None:
        """Say once that learned angles have stayed, from one epoch to the next, where they cannot tell states apart."""
        group, n = self.world.group, self.world.n
        factors = len(group.periods or ())
        angles = [np.array(row["angles"]).reshape(-1, factors) for row in self.rows if "angles" in row and factors]
        alike = [look_alikes(each, group) for each in angles]
        stayed = [now > 1 and now == before for before, now in itertools.pairwise(alike)]
        if stayed and stayed[-1] and not any(stayed[:-1]):
            apart = n // alike[-1]
            which = f" (y and y + {apart} look alike)" if group.cycle else ""
            other = ", or --angle-start spectral" if group.cycle and self.config.angle_start != "spectral" else ""
            self.callbacks.warning(
                f"the angles have settled where only {apart} of {n} states can be told apart{which}: "
                f"try another --seed{other}"
            )

    def _save(self) -> None:
        """Everything that exact resume needs, in one file, by the first process."""
        if not self.leads:
            return
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
        file = self.run.state_file
        tensors, meta = processes.first(lambda: checkpoint.load(file, _STATE))
        try:
            before = Config.from_dict(meta["config"])  # with knobs added since
        except RequestError as error:
            raise RunError(f"{file}: {error}") from None
        if (before, meta["seed"]) != (self.config, self.seed):
            raise RequestError(f"{file} is of another config or seed: choose another --out")
        try:
            if wrong := next(filter(None, (wrong_epoch(row, "validation_loss") for row in meta["rows"])), None):
                raise ValueError(f"an epoch: {wrong}")
            if wrong := self._wrong_place(meta, tensors["log"]):
                raise ValueError(wrong)
            self.model.load_state_dict(checkpoint.split_by_prefix(tensors, "model"))
            checkpoint.restore_optimizer(self.optimizer, checkpoint.split_by_prefix(tensors, "optimizer"))
            self.generator.set_state(tensors["generator"])
            self.log = tensors["log"].to(self.placement.device)
        except (KeyError, TypeError, ValueError, RuntimeError, IndexError) as error:
            why = " ".join(f"{type(error).__name__} {error}".split())
            raise RunError(f"{file} does not fit its run ({why:.80}): remove {self.run.path} and train again") from None
        self.epoch, self.step, self.seconds = meta["epoch"], meta["step"], meta["seconds"]
        self.term_names, self.rows = meta["terms"], meta["rows"]
        if self.leads:
            self.run.write_metrics(self.rows)

    def _wrong_place(self, meta: dict[str, Any], log: torch.Tensor) -> str:
        """What cannot be of where a state says that the run was; empty if all can."""
        epoch, step, logged = meta["epoch"], meta["step"], (self.steps, len(meta["terms"]))
        if not 0 <= epoch <= self.config.epochs or len(meta["rows"]) != epoch:
            return f"epoch {epoch} of {self.config.epochs}, with rows of {len(meta['rows'])}"
        if not 0 <= step <= self.steps or tuple(log.shape) != (logged if step else (0,)):
            return f"step {step} of {self.steps}, with a log of {tuple(log.shape)}"
        return f"{meta['seconds']} seconds" if meta["seconds"] < 0 else ""

    def finish(self) -> None:
        """Evaluate the kept model exactly and write `result.json`."""
        begun = time.monotonic()
        self.callbacks.evaluate(self)
        kinds = {"epoch": COUNT, "validation_loss": NUMBER}
        tensors, kept = processes.first(lambda: checkpoint.load(self.run.model_file, kinds))
        loading.fill(self.model, tensors, self.run)
        self.model.eval()
        if self.leads and self.evaluation_seconds:
            self.evaluator.listener = self._evaluated
        with self.seeded(), processes.together():
            measured = self.evaluator.test(self.model, self.train_split)
        if not self.leads:
            return
        images = self.config.epochs * self.steps * self.batch_size
        angles = self.model.action.angles
        partial = len(self.evaluator.wanted) < len(METRICS)
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
            "images_per_second": images / max(self.seconds, 1e-9),
            "zero_shot_kind": self.model.zero_shot_kind(self.test_actions),
            **measured,
            **({"evaluated": list(self.evaluator.wanted)} if partial else {}),
            "angles": None if angles is None else angles.tolist(),
            "validation_loss": kept["validation_loss"],
            "parameters": sum(p.numel() for p in predicting_parameters(self.model)),
        }
        write_json(self.run.result_file, result)
        if not self._collapsed:
            labelled = bool(self.world.n)
            stale = self._staleness() if labelled else 0.0
            for hint in hints(self.config, self.world.group, self.rows, result, self.steps, stale, labelled):
                self.callbacks.hint(hint)
        self.callbacks.end(self, result)

    def _staleness(self) -> float:
        spread = torch.linspace(0, len(self.train_split) - 1, min(SAMPLE, len(self.train_split))).long()
        return staleness(self.model, self.train_split.images[spread.to(self.placement.device)])

    def _evaluated(self, share: float) -> None:
        with processes.alone():  # a callback is the first process's own
            self.callbacks.evaluated(self, share)


_STATE = {
    "config": TABLE, "seed": COUNT, "epoch": COUNT, "step": COUNT, "seconds": NUMBER, "terms": LIST, "rows": LIST,
}  # fmt: skip
"""What the metadata of a state are."""


def predicting_parameters(model: Model) -> list[nn.Parameter]:
    return [p for n, p in model.named_parameters() if not n.startswith("slow.")]
