"""What figures read from a run: its numbers and, if weights are needed, its model and the latents of test images."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch

from brojepa import parts
from brojepa.config import Config, needs_emnist, words
from brojepa.errors import RequestError
from brojepa.evaluation import Latents, evaluating, same_images
from brojepa.figures.geometry import prototypes
from brojepa.models import Model, action_sets
from brojepa.presets import PRESETS
from brojepa.runs import Run
from brojepa.runs.finding import runs_under
from brojepa.runs.loading import load, task_of
from brojepa.runs.stored import is_stored, stored_runs
from brojepa.worlds import Split, World, open_world
from brojepa.worlds.pictures import state_names


class Source:
    """A run as a figure reads it. `worlds` keeps opened worlds, shared between the runs of one command.

    n is the number of labelled states, 0 in a world of poses; `seen` has the training actions in the words of the
    result. The test actions of a continuous group are not known without its world: the result's words are.
    """

    def __init__(self, run: Run, data_dir: str | Path | None, worlds: dict[str, World], trust: bool = False) -> None:
        self.run, self.data_dir, self.worlds, self.trust = run, data_dir, worlds, trust
        self.config = run.config
        self.other_images = False  # known once they are read
        task = task_of(run)
        self.n, self.group = task.n, task.group
        self.names = state_names(self.config.world, self.n, run.header["world"].get("names"))
        self.train_actions, self.test_actions = action_sets(self.config, self.group)
        self.seen = [self.group.write(k) for k in self.train_actions]

    @cached_property
    def result(self) -> dict[str, Any]:
        return self.run.result

    @cached_property
    def metrics(self) -> list[dict[str, Any]]:
        return self.run.metrics

    @property
    def unseen(self) -> list[str]:
        """The other actions that were measured, in the words of the result."""
        return [word for word in self.per_action if word not in self.seen]

    @property
    def per_action(self) -> dict[str, float]:
        """Accuracies by the words of the actions; an own evaluator need not give them."""
        if "per_action" not in self.result:
            raise RequestError(f"{self.run.path} was not measured action by action: its evaluator gives no per_action")
        return self.result["per_action"]

    @property
    def seeds(self) -> list[Run]:
        """The finished runs of the same config beside this one, itself included, by seed."""
        beside = self.run.path.parent
        runs = stored_runs(beside, []) if is_stored(beside) else runs_under(beside, [])
        same = [run for run in runs if run.done and run.config == self.config]
        return sorted(same, key=lambda run: run.header["seed"])

    @property
    def has_weights(self) -> bool:
        return self.run.model_file.is_file()

    @cached_property
    def model(self) -> Model:
        return load(self.run.path, "cpu", trust=self.trust)

    @property
    def test(self) -> Split:
        return self.world.test

    @cached_property
    def world(self) -> World:
        parts.check_trust(self.run.own_parts, self.run.path, self.trust)
        name, reading = self.run.world_path, self.config.reading
        place = f"{name} {reading}"
        if place not in self.worlds:
            self.worlds[place] = open_world(name, self.data_dir if needs_emnist(name) else None, **reading)
        world = self.worlds[place]
        if world.n != self.n:
            raise RequestError(
                f"{name} has {world.n} states, {self.run.path} was trained on {self.n}: restore the images"
            )
        self.other_images = not same_images(self.run, world)
        return world

    @cached_property
    def latents(self) -> Latents:
        with evaluating(self.model):
            return Latents.of(self.model, self.test)

    @property
    def z(self) -> np.ndarray:
        return self.latents.z.numpy()

    @property
    def states(self) -> np.ndarray:
        return self.latents.states.numpy()

    @cached_property
    def prototypes(self) -> np.ndarray:
        return prototypes(self.z, self.states, self.n)

    def act(self, z: torch.Tensor, k: int) -> torch.Tensor:
        with evaluating(self.model):
            return self.model.act(z, k)

    def classify(self, z: torch.Tensor) -> np.ndarray:
        with evaluating(self.model):
            return self.model.classify(z).numpy()

    def identity(self, label: str) -> dict[str, Any]:
        """What a figure's data record about the run, which is called `label`."""
        header = self.run.header
        base = header.get("preset") or header.get("base")
        # without the user's paths
        config = self.config.replace(world=Path(self.config.world.partition("@")[0]).stem)
        changes = words(config, PRESETS.get(base or "", Config()))
        return {
            "label": label,
            "words": " ".join((base or "", *changes)).strip(),
            "world": header["world"]["name"],
            "seed": header["seed"],
            "epochs": self.config.epochs,
            "states": self.names,
        }
