"""Exact evaluation: every image of a split with every action of a set, nothing sampled.

Always in float32 and in chunks, so memory does not grow with images times actions. What is counted is integers;
accuracies are their ratios.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from brojepa.assembly import action_sets
from brojepa.config import needs_emnist
from brojepa.errors import RequestError
from brojepa.groups import Element
from brojepa.models import Model, Supervised
from brojepa.neighbours import Neighbours
from brojepa.retrieval import ByModel, ByPixels, retrieve
from brojepa.runs import Run
from brojepa.worlds import Batch, Orbits, Split, World, open_world

ROWS = 4096  # latents acted on and classified at once


@dataclass(frozen=True)
class Latents:
    """A split after the encoder: latents [count, dim] and states [count]."""

    z: Tensor
    states: Tensor

    @classmethod
    def of(cls, model: Model, split: Split) -> Latents:
        return cls(model.encode(split.images), split.states.to(model.device))


def moved(model: Model, states: Tensor, k: Element) -> Tensor:
    """The states that an action leads to."""
    return model.group.apply(states, torch.as_tensor(k, device=states.device))


def count_right(model: Model, data: Latents, actions: Sequence[Element]) -> Tensor:
    """How many images of each state (row) are predicted right after each action (column): [n, actions]."""
    right = torch.zeros(model.task.n, len(actions), dtype=torch.long, device=data.z.device)
    for column, k in enumerate(actions):
        for z, y in zip(data.z.split(ROWS), data.states.split(ROWS), strict=True):
            hit = model.classify(model.act(z, k)) == moved(model, y, k)
            right[:, column] += torch.bincount(y[hit], minlength=model.task.n)
    return right


def accuracy(model: Model, data: Latents, actions: Sequence[Element]) -> float | None:
    """Share of right predictions over all images and actions; None for no actions."""
    return int(count_right(model, data, actions).sum()) / (len(data.z) * len(actions)) if actions else None


def rollout_accuracy(
    model: Model, data: Latents, primitives: Sequence[Element], actions: Sequence[Element]
) -> float | None:
    """Accuracy when each action is reached by repeating a primitive in latent space.

    None for a supervised model, and where some action is no repetition of a primitive."""
    plans = [plan for k in actions if (plan := model.group.rollout(k, primitives))]
    if isinstance(model, Supervised) or not actions or len(plans) < len(actions):
        return None
    wanted = Counter(plans)  # +3 and -7 may share a plan, and then the state they lead to
    right = 0
    for primitive in sorted({p for p, _ in wanted}):
        longest = max(steps for p, steps in wanted if p == primitive)
        for z, y in zip(data.z.split(ROWS), data.states.split(ROWS), strict=True):
            for steps in range(1, longest + 1):
                z = model.act(z, primitive)
                if (primitive, steps) in wanted:
                    hit = model.classify(z) == model.group.apply(y, primitive * steps)
                    right += wanted[primitive, steps] * int(hit.sum())
    return right / (len(data.z) * len(actions))


def bank(model: Model, data: Latents, actions: Sequence[Element]) -> Latents:
    """What k-NN looks predicted latents up in.

    JEPA predicts latents of images, so the bank is the training images' latents. A supervised model predicts in a
    space that only acted-on latents live in, so its bank is those of the training actions."""
    if not isinstance(model, Supervised):
        return data
    z = [torch.cat([model.act(part, k) for part in data.z.split(ROWS)]) for k in actions]
    return Latents(torch.cat(z), torch.cat([moved(model, data.states, k) for k in actions]))


def knn_accuracy(model: Model, data: Latents, bank: Latents, actions: Sequence[Element]) -> float | None:
    """Where actions come round (+3 is -7 of ten states, at fixed angles), those that are one are looked up once."""
    if not actions:
        return None
    neighbours, period = Neighbours(bank.z, bank.states, model.task.n), model.action.period
    right: dict[Element, int] = {}
    elements = [k % period if period else k for k in actions]
    for k, same in zip(actions, elements, strict=True):
        if same not in right:
            right[same] = 0
            for z, y in zip(data.z.split(ROWS), data.states.split(ROWS), strict=True):
                right[same] += int((neighbours.classify(model.act(z, k)) == moved(model, y, k)).sum())
    return sum(right[same] for same in elements) / (len(data.z) * len(actions))


def spread(z: Tensor) -> dict[str, float]:
    """Three signs of collapse.

    latent_std: standard deviation of length-1 latents over images, scaled so that isotropic latents have 1; it
    falls to 0 when all latents point one way. latent_scale: standard deviation of the latents themselves, which the
    variance term pulls to 1; rotations leave the origin in place, and latents that shrink into it keep their
    directions spread. effective_rank: the exponential of the entropy of the normalised singular values (Roy and
    Vetterli, 2007).
    """
    z = z.cpu().double()  # Apple's devices have no float64
    values = torch.linalg.svdvals(z - z.mean(0))
    share = values / values.sum().clamp(min=1e-30)
    return {
        "latent_std": float(torch.nn.functional.normalize(z, dim=1).std(0).mean() * z.shape[1] ** 0.5),
        "latent_scale": float(z.std(0).mean()),
        "effective_rank": float(torch.special.entr(share).sum().exp()),
    }


def collapsed(signs: dict[str, Any]) -> bool:
    """Whether `spread` says that latents no longer tell images apart."""
    return min(signs["latent_std"], signs["latent_scale"]) < 0.1 or signs["effective_rank"] < 1.1


class evaluating:
    """A model as it is measured: eval mode, float32, no gradient; left as it was found."""

    def __init__(self, model: Model) -> None:
        self.model, self.no_grad = model, torch.no_grad()

    def __enter__(self) -> Model:
        self.was = self.model.training, self.model.precision
        self.model.eval()
        self.model.precision = torch.float32
        self.no_grad.__enter__()
        return self.model

    def __exit__(self, *error: object) -> None:
        self.no_grad.__exit__(*error)
        self.model.train(self.was[0])
        self.model.precision = self.was[1]


def evaluate(
    model: Model, train: Split, test: Split, train_actions: Sequence[Element], test_actions: Sequence[Element]
) -> dict[str, Any]:
    """The paper's five accuracies, accuracy per action, and per state and action, as `result.json` has them."""
    with evaluating(model):
        fitted, held = Latents.of(model, train), Latents.of(model, test)
        actions = sorted({*train_actions, *test_actions})
        right = count_right(model, held, actions)
        total = torch.bincount(held.states, minlength=model.task.n)
        per_action = {k: int(count) / len(test) for k, count in zip(actions, right.sum(0), strict=True)}
        return {
            "metrics": {
                "train": accuracy(model, fitted, train_actions),
                "seen": _mean(per_action, train_actions),
                "zero_shot": _mean(per_action, test_actions),
                "rollout": rollout_accuracy(model, held, train_actions, test_actions),
                "knn": knn_accuracy(model, held, bank(model, fitted, train_actions), test_actions),
            },
            "per_action": {model.group.write(k): value for k, value in per_action.items()},
            "by_state": {
                "actions": [model.group.write(k) for k in actions],
                "accuracy": (right.cpu().double() / total.cpu()[:, None]).tolist(),
            },
            "chance": 1 / model.task.n,
        }


def _mean(per_action: dict[Element, float], actions: Sequence[Element]) -> float | None:
    """Every action is measured on all images, so the mean over actions is the mean over all predictions."""
    return math.fsum(per_action[k] for k in actions) / len(actions) if actions else None


class ByLabel:
    """How a world of labelled states is measured: does the classifier read the state that the action leads to?"""

    def __init__(self, world: World, train_actions: Sequence[Element], test_actions: Sequence[Element]) -> None:
        self.world, self.train_actions, self.test_actions = world, train_actions, test_actions

    def validate(self, model: Model, held: Split, draw: Any, batch: Batch) -> dict[str, Any]:
        """The loss on transitions within the held-out images, accuracies on these, and signs of collapse."""
        z = model.encode(held.images)
        z_target = model.target_latents(held.images)[draw.context if draw.target is None else draw.target]
        data = Latents(z, held.states)
        return {
            "validation_loss": float(model.validate(z[draw.context], z_target, batch)),
            "seen": accuracy(model, data, self.train_actions),
            "zero_shot": accuracy(model, data, self.test_actions),
            **spread(z),
        }

    def test(self, model: Model, train: Split) -> dict[str, Any]:
        return evaluate(model, train, self.world.test.to(model.device), self.train_actions, self.test_actions)


class ByRetrieval:
    """How a world of poses is measured: is the pose that the action leads to found among candidates?"""

    VALIDATED = 40  # things

    def __init__(self, world: Orbits, train_actions: Sequence[Element], test_actions: Sequence[Element]) -> None:
        self.world, self.train_actions, self.test_actions = world, train_actions, test_actions

    def validate(self, model: Model, held: Split, draw: Any, batch: Batch) -> dict[str, Any]:
        z = model.encode(batch.images)
        assert batch.targets is not None
        z_target = model.target_latents(batch.targets).unflatten(0, batch.next_states.shape)
        things = held[torch.arange(min(len(held), self.VALIDATED))]
        found = self._measure(model, things, seed=1)
        return {
            "validation_loss": float(model.validate(z, z_target, batch)),
            "seen": found["metrics"]["seen"],
            "zero_shot": found["metrics"]["zero_shot"],
            "median_error": (found["retrieval"]["zero_shot"] or {}).get("median_error"),
            **spread(z),
        }

    def test(self, model: Model, train: Split) -> dict[str, Any]:
        with evaluating(model):
            measured = self._measure(model, self.world.test, seed=0)
        if self.test_actions and not self.world.views:
            found = retrieve(ByPixels(self.world, model.device), self.world, self.world.test, self.test_actions)
            measured["retrieval"]["ceiling"] = found.summary(list(range(len(self.test_actions))))
        return measured

    def _measure(self, model: Model, things: Split, seed: int) -> dict[str, Any]:
        group, actions = self.world.group, [*self.train_actions, *self.test_actions]
        found = retrieve(ByModel(model), self.world, things, actions, seed)
        seen = list(range(len(self.train_actions)))
        unseen = list(range(len(seen), len(actions)))
        repeated = [i for i in unseen if group.rollout(actions[i], self.train_actions)]
        parts = {"seen": seen, "zero_shot": unseen}
        if repeated:  # a grid that the training actions walk on, and what lies between
            parts |= {"on_grid": repeated, "off_grid": [i for i in unseen if i not in repeated]}
        summaries = {name: found.summary(columns) for name, columns in parts.items()}
        rows = {group.write(k): found.summary([i]) or {} for i, k in enumerate(actions)}
        hits = {name: summary and summary["hit1"] for name, summary in summaries.items()}
        return {
            "metrics": {
                "train": None, "seen": hits["seen"], "zero_shot": hits["zero_shot"], "rollout": None, "knn": None,
            },
            "retrieval": {
                "things": len(things), "contexts": self.world.contexts, "candidates": len(self.world.candidates),
                **summaries,
            },
            "per_action": {name: row["hit1"] for name, row in rows.items()},
            "error_per_action": {name: row["median_error"] for name, row in rows.items()},
            "chance": 1 / len(self.world.candidates),
        }  # fmt: skip


def judge(world: World, train_actions: Sequence[Element], test_actions: Sequence[Element]) -> ByLabel | ByRetrieval:
    """What measures a model of a world."""
    kind = ByRetrieval if isinstance(world, Orbits) else ByLabel
    return kind(world, train_actions, test_actions)  # pyright: ignore[reportArgumentType]


def world_of(run: Run, data_dir: str | Path | None = None) -> World:
    """The world of a run, or the images in `data_dir`, which must have its shape and number of states."""
    config, facts = run.config, run.header["world"]
    name = config.world if data_dir is None or needs_emnist(config.world) else str(data_dir)
    world = open_world(name, data_dir if needs_emnist(name) else None)
    if (world.labels, list(world.shape)) != (facts["states"], facts["shape"]):
        both = ((world.labels, world.shape), (facts["states"], facts["shape"]))
        given, wanted = (f"{n} states, {'x'.join(map(str, shape))}" for n, shape in both)
        raise RequestError(f"{name} has {given} images; {run.path} was trained on {wanted}")
    return world


def evaluate_run(path: str | Path, data_dir: str | Path | None = None, device: str = "auto") -> dict[str, Any]:
    """Evaluate a finished run again, as `result.json` was made: on its own world, or on the images in `data_dir`."""
    run = Run(Path(path))
    model = run.load(device)
    config, facts, world = run.config, run.header["world"], world_of(run, data_dir)
    train, _ = world.hold_out(config.validation, torch.Generator().manual_seed(run.header["seed"]))
    train_actions, test_actions = action_sets(config, world.group, world.actions)
    measured = judge(world, train_actions, test_actions).test(model, train)
    same = all(facts.get(key) == value for key, value in world.source.items())
    return {"world": world.title, "same_images": same, "zero_shot_kind": model.zero_shot_kind(test_actions), **measured}
