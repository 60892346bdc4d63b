"""Exact evaluation if states are not labels: is the true next image found among candidates?

A thing is shown in a context pose g, the latent is acted on with k, and the nearest latent of the same thing in the
candidate poses is found. The true pose is k g. Measured are how often the candidate nearest to the true pose
is found first (hit@1), the mean of 1 / its rank (MRR), and the distance of the found pose from the true one, in degrees
and as prediction retrieval error (PRE).
The ceiling is the same measurement on pixels, which are really turned instead of predicted.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from brojepa.evaluation import equivariance, refine
from brojepa.evaluation.accuracy import ROWS, evaluating
from brojepa.evaluation.collapse import collapse_signs
from brojepa.evaluation.evaluator import Evaluator, evaluator
from brojepa.groups import Element
from brojepa.models import Model
from brojepa.worlds import Batch, PoseWorld, Split

SAMPLE = 64  # views timed to estimate the total
LATENTS = 2**21  # entries of the prediction-by-candidate matrix held at once


@dataclass(frozen=True)
class Ranks:
    """Of every thing in its context poses with every action: the rank of the true candidate, from 1, and the error:
    [count, actions]. `degrees` converts the error to degrees; None if it is not a turn."""

    rank: Tensor
    error: Tensor
    degrees: float | None = None

    def summary(self, columns: list[int]) -> dict[str, float] | None:
        """Over some of the actions; None for none."""
        if not columns:
            return None
        rank, error = self.rank[:, columns].double(), self.error[:, columns]
        turn = None if self.degrees is None else error * self.degrees
        return {
            "hit1": float((rank == 1).double().mean()),
            "hit5": float((rank <= 5).double().mean()),
            "mrr": float((1 / rank).mean()),
            "median_error": float(error.median()),
            "mean_error": float(error.double().mean()),
            **({} if turn is None else {"pre": equivariance.retrieval_error(turn)}),
        }


class ByModel:
    """Retrieval by a model: images become latents, and an action moves latents."""

    def __init__(self, model: Model) -> None:
        self.model, self.device = model, model.device

    def read(self, images: Tensor) -> Tensor:
        return self.model.encode(images)

    def predict(self, images: Tensor, k: Tensor) -> Tensor:
        """images [contexts, ...], k [actions, ...] -> [contexts, actions, dim]"""
        return self.model.act(self.model.encode(images)[:, None], k)


class ByPixels:
    """The ceiling: images are compared pixel by pixel, and an action moves the picture itself. If a thing looks
    alike in two poses (an upside-down 0), this confuses them too."""

    def __init__(self, world: PoseWorld, device: torch.device) -> None:
        self.world, self.device = world, device

    def read(self, images: Tensor) -> Tensor:
        return images.flatten(1).float()

    def predict(self, images: Tensor, k: Tensor) -> Tensor:
        every = images.repeat_interleave(len(k), 0)
        picture = Split(every, torch.zeros(len(every), dtype=torch.long, device=every.device))
        return self.read(self.world.show(picture, k.repeat(len(images), *(1 for _ in k.shape[1:])))).unflatten(
            0, (len(images), len(k))
        )


def retrieve(
    by: ByModel | ByPixels,
    world: PoseWorld,
    things: Split,
    actions: Sequence[Element],
    seed: int = 0,
    done: Callable[[float], None] = lambda share: None,
) -> Ranks:
    """Measure every thing in `world.contexts` context poses with every action. The poses are drawn by a fixed seed,
    from the candidates if these are a grid that the actions stay on. `done` gets the share of things measured."""
    group, device = world.group, by.device
    k = group.tensor(actions).to(device)
    candidates = world.candidates.to(device)
    generator = torch.Generator().manual_seed(seed)
    ranks, errors = [], []
    for i in range(len(things)):
        thing = things[torch.tensor([i])].to(device)
        start = context_poses(world, generator).to(device)
        shown, contexts = (world.show(_again(thing, len(poses)), poses) for poses in (candidates, start))
        true = group.compose(k, start[:, None])  # [contexts, actions, ...]
        rank, error = _look_up(by.predict(contexts, k), true, by.read(shown), candidates, group)
        ranks.append(rank)
        errors.append(error)
        done((i + 1) / len(things))
    degrees = equivariance.degrees_per_gap(group) if group.order is None else None
    return Ranks(torch.cat(ranks).cpu(), torch.cat(errors).cpu(), degrees)


def _again(thing: Split, count: int) -> Split:
    return thing[torch.zeros(count, dtype=torch.long, device=thing.images.device)]


def context_poses(world: PoseWorld, generator: torch.Generator) -> Tensor:
    """Poses to start from: candidates, if the measured actions lead from one to another; else drawn."""
    if world.views:
        return world.group.sample(world.contexts, generator)
    return world.candidates[torch.randint(len(world.candidates), (world.contexts,), generator=generator)]


def _look_up(predicted: Tensor, true: Tensor, shown: Tensor, candidates: Tensor, group: Any) -> tuple[Tensor, Tensor]:
    """predicted [contexts, actions, dim], true poses [contexts, actions, ...], shown [candidates, dim]."""
    contexts, actions = predicted.shape[:2]
    predicted, true = predicted.flatten(0, 1), true.flatten(0, 1)
    ranks, errors = [], []
    for p, t in zip(*(x.split(max(1, LATENTS // len(shown))) for x in (predicted, true)), strict=True):
        away = torch.cdist(p, shown)
        off = group.distance(t[:, None], candidates)
        at = off.argmin(1)
        right = away.gather(1, at[:, None])
        ranks.append((~(away > right)).sum(1))  # among equally near candidates the right one ranks last
        errors.append(off.gather(1, away.argmin(1, keepdim=True))[:, 0])
    return torch.cat(ranks).view(contexts, actions), torch.cat(errors).view(contexts, actions)


def validation(model: Model, batch: Batch, found: dict[str, Any]) -> dict[str, Any]:
    """The numbers of an epoch, from a batch of transitions and what retrieval found."""
    z = z_target = model.encode(batch.images)
    if batch.targets is not None:
        z_target = model.target_latents(batch.targets).unflatten(0, batch.next_states.shape)
    return {
        "validation_loss": float(model.validate(z, z_target, batch)),
        "seen": found["metrics"]["seen"],
        "zero_shot": found["metrics"]["zero_shot"],
        "median_error": (found["retrieval"]["zero_shot"] or {}).get("median_error"),
        **collapse_signs(z),
    }


@evaluator.register(PoseWorld)
class RetrievalEvaluator(Evaluator):
    """Measures worlds of poses: is the pose that the action leads to found first among the candidates?

    Args:
        world: the world of poses.
        train_actions: the actions trained on, plain elements.
        test_actions: the held-out actions.

    Examples:
        >>> import brojepa
        >>> world = brojepa.open_world("dihedral")
        >>> measures = brojepa.evaluator(world, [(1, 0)], [(2, 0)])
        >>> isinstance(measures, brojepa.RetrievalEvaluator)
        True
    """

    VALIDATED = 40  # things

    def validate(self, model: Model, held: Split, batch: Batch) -> dict[str, Any]:
        things = held[torch.arange(min(len(held), self.VALIDATED))]
        return validation(model, batch, self._measure(model, things, seed=1))

    def test(self, model: Model, train: Split) -> dict[str, Any]:
        with evaluating(model):
            measured = self._measure(model, self.world.test, 0, lambda share: self.done("model", share))
            if self.world.views:
                measured["retrieval"]["refined"] = self._refined(model)
            measured["equivariance"] = self._equivariance(model, train, measured["retrieval"])
            self.done("equivariance", 1.0)
        if self.test_actions and not self.world.views:
            pixels = ByPixels(self.world, model.device)
            things, done = self.world.test, lambda share: self.done("pixels", share)
            found = retrieve(pixels, self.world, things, self.test_actions, done=done)
            measured["retrieval"]["ceiling"] = found.summary(list(range(len(self.test_actions))))
        return measured

    def _refined(self, model: Model) -> dict[str, Any]:
        """The errors after searching around the candidate found, for some of the actions."""
        world, group, by = self.world, self.world.group, ByModel(model)
        sets = [refine.some_actions(actions) for actions in (self.train_actions, self.test_actions)]
        k = group.tensor([*sets[0], *sets[1]]).to(by.device)
        generator = torch.Generator().manual_seed(0)
        count, candidates = len(world.test), world.candidates.to(by.device)
        found, least = [], []
        for i in range(count):
            thing = world.test[torch.tensor([i])].to(by.device)
            start = context_poses(world, generator).to(by.device)
            goal = by.predict(world.show(_again(thing, len(start)), start), k)
            true = group.compose(k, start[:, None])
            error = refine.errors(by.read, world, thing, goal.flatten(0, 1), true.flatten(0, 1), ROWS)
            found.append(error.view(goal.shape[:2]))
            least.append(refine.nearest(group, candidates, true.flatten(0, 1)).view(goal.shape[:2]))
            self.done("refined", (i + 1) / count)
        degrees = equivariance.degrees_per_gap(group)
        return refine.block(torch.cat(found).cpu(), torch.cat(least).cpu(), len(sets[0]), degrees)

    def _equivariance(self, model: Model, train: Split, found: dict[str, Any]) -> dict[str, Any]:
        """Probes are fitted on training things in poses drawn at random, and read test things in others."""
        group, generator = self.world.group, torch.Generator().manual_seed(0)
        seen, unseen = (found[part] and found[part]["mean_error"] for part in ("seen", "zero_shot"))
        result: dict[str, Any] = {"error_ratio": equivariance.error_ratio(seen, unseen)}
        if equivariance.pose_targets(group, group.sample(1, generator)) is not None:
            drawn = []
            for things in (train, self.world.test):
                rows = torch.randint(len(things), (equivariance.VIEWS,), generator=generator)
                poses = group.sample(equivariance.VIEWS, generator)
                drawn += [self._latents(model, things, rows, poses), poses]
            result |= equivariance.probes(group, *drawn)
        count = min(len(self.world.test), equivariance.THINGS)
        poses = equivariance.around(group)
        things, poses = torch.arange(count).repeat_interleave(len(poses)), torch.cat([poses] * count)
        result |= equivariance.disentanglement(
            model, self._latents(model, self.world.test, things, poses), poses, things
        )
        return result

    def _latents(self, model: Model, things: Split, rows: Tensor, poses: Tensor) -> Tensor:
        """Latents of some things, each in a pose: [count, dim]."""
        parts = []
        for some, pose in zip(rows.split(ROWS), poses.split(ROWS), strict=True):
            shown = things[some.to(things.states.device)].to(model.device)
            parts.append(model.encode(self.world.show(shown, pose.to(model.device))))
        return torch.cat(parts)

    def sample(self, model: Model, train: Split) -> dict[str, float]:
        expected = {}
        with evaluating(model):
            expected["model"] = self._seconds(ByModel(model), [*self.train_actions, *self.test_actions])
            shown = self._shown(model)
            if self.world.views:
                actions = sum(len(refine.some_actions(a)) for a in (self.train_actions, self.test_actions))
                each = len(self.world.candidates) + 12 * len(refine.STEPS) * self.world.contexts * actions
                expected["refined"] = shown * len(self.world.test) * each
            expected["equivariance"] = shown * (2 * equivariance.VIEWS + equivariance.THINGS * equivariance.POSES)
        if self.test_actions and not self.world.views:
            expected["pixels"] = self._seconds(ByPixels(self.world, model.device), list(self.test_actions))
        return expected

    def _shown(self, model: Model) -> float:
        """Seconds that a view takes to be shown and encoded."""
        few, generator = torch.arange(SAMPLE) % len(self.world.test), torch.Generator().manual_seed(0)
        poses, times = self.world.group.sample(SAMPLE, generator), [time.perf_counter()]
        for _ in range(2):  # the first is slower
            self._latents(model, self.world.test, few, poses).sum().item()
            times.append(time.perf_counter())
        return (times[2] - times[1]) / SAMPLE

    def _seconds(self, by: ByModel | ByPixels, actions: list[Element]) -> float:
        """How long all things will take, by the last of a few."""
        few = self.world.test[torch.arange(min(len(self.world.test), 3))]
        times = [time.perf_counter()]
        retrieve(by, self.world, few, actions, done=lambda share: times.append(time.perf_counter()))
        return (times[-1] - times[-2]) * len(self.world.test)

    def _measure(
        self, model: Model, things: Split, seed: int, done: Callable[[float], None] = lambda share: None
    ) -> dict[str, Any]:
        group, actions = self.world.group, [*self.train_actions, *self.test_actions]
        found = retrieve(ByModel(model), self.world, things, actions, seed, done)
        seen = list(range(len(self.train_actions)))
        unseen = list(range(len(seen), len(actions)))
        repeated = [i for i in unseen if group.rollout(actions[i], self.train_actions)]
        parts = {"seen": seen, "zero_shot": unseen}
        if repeated:  # the grid that repeated training actions reach, and the rest
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
