"""Exact evaluation: every image of a split with every action of a set, nothing sampled.

In float32, unless the config asks for the precision of training, and in chunks, so memory does not grow with images
times actions. It counts integers; accuracies are their ratios.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from brojepa.evaluation import equivariance
from brojepa.evaluation.collapse import collapse_signs
from brojepa.evaluation.evaluator import METRICS, Evaluator, evaluator
from brojepa.evaluation.knn import Neighbours, looked_at
from brojepa.groups import Element
from brojepa.models import Model
from brojepa.worlds import Batch, Split, World

ROWS = 4096  # latents acted on and classified at once; a multiple of the images that a model encodes at once
SAMPLE, QUERIES, BANK = 128, 512, 4096  # images, look-ups and bank size for the estimate of the total time

Done = Callable[[str, float], None]
"""Told that a share of a part is done, 0 to 1."""


@dataclass(frozen=True)
class Latents:
    """A split after the encoder: latents [count, dim] and states [count]."""

    z: Tensor
    states: Tensor

    @classmethod
    def of(cls, model: Model, split: Split, done: Callable[[int], None] = lambda count: None) -> Latents:
        """`done` is called repeatedly with the number of images encoded so far."""
        parts = []
        for images in split.images.split(ROWS):
            parts.append(model.encode(images))
            done(len(images))
        return cls(torch.cat(parts), split.states.to(model.device))


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

    None for a supervised model, and if some action is not a repetition of a primitive."""
    plans = [plan for k in actions if (plan := model.group.rollout(k, primitives))]
    if not model.predicts_latents or not actions or len(plans) < len(actions):
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
    """The latents that k-NN searches.

    JEPA predicts latents of images, so the bank is the training images' latents. A supervised model predicts in a
    space that only acted-on latents occupy, so its bank is those of the training actions."""
    if model.predicts_latents:
        return data
    z = [torch.cat([model.act(part, k) for part in data.z.split(ROWS)]) for k in actions]
    return Latents(torch.cat(z), torch.cat([moved(model, data.states, k) for k in actions]))


def knn_accuracy(
    model: Model, data: Latents, bank: Latents, actions: Sequence[Element], done: Done = lambda part, share: None
) -> float | None:
    """Equal actions (+3 and -7 of ten states, at fixed angles) are looked up once."""
    if not actions:
        return None
    neighbours = Neighbours(bank.z, bank.states, model.task.n)
    right: dict[Element, int] = {}
    elements = _distinct(model, actions)
    total, looked_up = len(set(elements)) * len(data.z), 0
    for k, same in zip(actions, elements, strict=True):
        if same not in right:
            right[same] = 0
            for z, y in zip(data.z.split(ROWS), data.states.split(ROWS), strict=True):
                right[same] += int((neighbours.classify(model.act(z, k)) == moved(model, y, k)).sum())
                looked_up += len(z)
                done("neighbours", looked_up / total)
    return sum(right[same] for same in elements) / (len(data.z) * len(actions))


def _distinct(model: Model, actions: Sequence[Element]) -> list[Element]:
    """The actions, those that are one written alike."""
    period = model.action.period
    return [k % period if period else k for k in actions]


class evaluating:
    """Set a model to eval mode, its `eval_precision` and no gradient, as a context manager; restores it afterwards."""

    def __init__(self, model: Model) -> None:
        self.model, self.no_grad = model, torch.no_grad()

    def __enter__(self) -> Model:
        self.was = self.model.training, self.model.precision
        self.model.eval()
        self.model.precision = self.model.eval_precision
        self.no_grad.__enter__()
        return self.model

    def __exit__(self, *error: object) -> None:
        self.no_grad.__exit__(*error)
        self.model.train(self.was[0])
        self.model.precision = self.was[1]


def evaluate(
    model: Model,
    train: Split,
    test: Split,
    train_actions: Sequence[Element],
    test_actions: Sequence[Element],
    done: Done = lambda part, share: None,
    wanted: Sequence[str] = METRICS,
) -> dict[str, Any]:
    """The paper's five accuracies, accuracy per action, and per state and action, as in `result.json`.

    Args:
        model: the model.
        train: the images trained on; encoded only if a wanted metric needs them.
        test: the images to test on.
        train_actions: the actions trained on, plain elements.
        test_actions: the held-out actions.
        done: is called with a part ("encode" or "neighbours") and the share of it that is done.
        wanted: the metrics to measure; the others are None.

    Returns:
        "metrics", "per_action", "by_state" and more, ready for JSON.

    Examples:
        >>> import brojepa
        >>> import torch
        >>> model, world = brojepa.load("mnist/fast", device="cpu"), brojepa.open_world("mnist")
        >>> few = world.test[torch.arange(100)]
        >>> found = brojepa.evaluate(model, world.train, few, (-1, 1), (2, 3), wanted=("seen",))
        >>> found["metrics"]["seen"] > 0.95, found["metrics"]["knn"]
        (True, None)
    """
    encoded, read_train = 0, "train" in wanted or "knn" in wanted
    train_only, test_only = (
        [k for k in acts if part in wanted] for part, acts in (("seen", train_actions), ("zero_shot", test_actions))
    )

    def count(images: int) -> None:
        nonlocal encoded
        encoded += images
        done("encode", encoded / (len(train) * read_train + len(test)))

    with evaluating(model):
        fitted = Latents.of(model, train, count) if read_train else None
        held = Latents.of(model, test, count)
        actions = sorted({*train_only, *test_only})
        right = count_right(model, held, actions)
        total = torch.bincount(held.states, minlength=model.task.n)
        per_action = {k: int(count) / len(test) for k, count in zip(actions, right.sum(0), strict=True)}
        seen, zero_shot = _mean(per_action, train_only), _mean(per_action, test_only)
        return {
            "metrics": {
                "train": accuracy(model, fitted, train_actions) if fitted and "train" in wanted else None,
                "seen": seen,
                "zero_shot": zero_shot,
                "rollout": rollout_accuracy(model, held, train_actions, test_actions) if "rollout" in wanted else None,
                "knn": knn_accuracy(model, held, bank(model, fitted, train_actions), test_actions, done)
                if fitted and "knn" in wanted
                else None,
            },
            "per_action": {model.group.write(k): value for k, value in per_action.items()},
            "by_state": {
                "actions": [model.group.write(k) for k in actions],
                "accuracy": (right.cpu().double() / total.cpu()[:, None]).tolist(),
            },
            "chance": 1 / model.task.n,
            "equivariance": {
                "error_ratio": equivariance.error_ratio(*(None if a is None else 1 - a for a in (seen, zero_shot))),
                **_disentanglement(model, held),
            },
        }


def _disentanglement(model: Model, data: Latents) -> dict[str, Any]:
    """D_LSBD of the states' mean latents, if states are the elements of the group."""
    group, n = model.group, model.task.n
    if group.order != n:
        return {}
    z = torch.zeros(n, data.z.shape[1], dtype=torch.float64)
    z = z.index_add(0, data.states.cpu(), data.z.cpu().double()) / data.states.bincount(minlength=n).cpu()[:, None]
    shown = z.isfinite().all(1)
    if not bool(shown.any()):
        return {}
    return equivariance.disentanglement(model, z[shown], group.elements[shown], torch.zeros(n, dtype=torch.long)[shown])


def _mean(per_action: dict[Element, float], actions: Sequence[Element]) -> float | None:
    """Every action is measured on all images, so the mean over actions is the mean over all predictions."""
    return math.fsum(per_action[k] for k in actions) / len(actions) if actions else None


@evaluator.register(World)
class LabelEvaluator(Evaluator):
    """Measures worlds of labelled states: does the classifier read the state that the action leads to?

    Args:
        world: the world.
        train_actions: the actions trained on, plain elements.
        test_actions: the held-out actions.

    Examples:
        >>> import brojepa
        >>> import dataclasses
        >>> import torch
        >>> world = brojepa.open_world("mnist")
        >>> few = dataclasses.replace(world, test=world.test[torch.arange(100)])
        >>> measures = brojepa.LabelEvaluator(few, (-1, 1), (2, 3))
        >>> measures.wanted = ("seen", "zero_shot")
        >>> found = measures.test(brojepa.load("mnist/fast", device="cpu"), world.train)
        >>> found["metrics"]["zero_shot"] > 0.95
        True
    """

    def validate(self, model: Model, held: Split, batch: Batch) -> dict[str, Any]:
        """The loss on transitions within the held-out images, accuracies on these, and signs of collapse."""
        z = model.encode(held.images)
        z_target = model.target_latents(held.images)[batch.rows if batch.target_rows is None else batch.target_rows]
        data = Latents(z, held.states)
        return {
            "validation_loss": float(model.validate(z[batch.rows], z_target, batch)),
            "seen": accuracy(model, data, self.train_actions),
            "zero_shot": accuracy(model, data, self.test_actions),
            **collapse_signs(z),
        }

    def test(self, model: Model, train: Split) -> dict[str, Any]:
        test = self.world.test.to(model.device)
        return evaluate(model, train, test, self.train_actions, self.test_actions, self.done, self.wanted)

    def sample(self, model: Model, train: Split) -> dict[str, float]:
        """Everything else takes little time compared with encoding and searching neighbours."""
        few = train[torch.arange(min(len(train), SAMPLE), device=train.states.device)]
        with evaluating(model):
            latents, encode = _timed(lambda: Latents.of(model, few))
            # a trained model's latents lie near their states' means, so most votes need no search
            fitted = len(train) if model.predicts_latents else len(train) * len(self.train_actions)
            shown = min(model.task.n, max(2, BANK * model.task.n // fitted))  # states as large as the real ones
            states = torch.arange(BANK, device=model.device) % shown
            generator = torch.Generator().manual_seed(0)
            means, noise = (torch.randn(c, latents.z.shape[1], generator=generator) for c in (shown, BANK))
            z = means.to(model.device)[states] + 0.3 * noise.to(model.device)
            neighbours = Neighbours(z, states, shown)
            found, look_up = _timed(lambda: Latents(z, neighbours.classify(z[:QUERIES])))
        more = looked_at(model.task.n, fitted) / looked_at(shown, BANK)
        wanted = len(set(_distinct(model, self.test_actions))) * len(self.world.test)
        read_train = "train" in self.wanted or "knn" in self.wanted
        return {
            "encode": encode / len(few) * (len(train) * read_train + len(self.world.test)),
            "neighbours": look_up / len(found.states) * more * wanted * ("knn" in self.wanted),
        }


def _timed(work: Callable[[], Latents]) -> tuple[Latents, float]:
    """The result of some work, and the seconds it takes the second time."""
    work()
    begun = time.perf_counter()
    done = work()
    _ = done.z.sum().item(), done.states.sum().item()  # waits for the device
    return done, time.perf_counter() - begun
