"""Answers the page's questions with plain numbers, words and pictures.

An image is named by its source: {"test": row} of the pool, {"drawn": data URL} or {"file": data URL}. An action is a
list of numbers, one per dial. Answers are ready for JSON, one part per model on the page.
"""

from __future__ import annotations

import hashlib
import math
import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from brojepa.demo import images as pictures
from brojepa.demo.actor import Actor
from brojepa.errors import RequestError
from brojepa.groups import Element, Group
from brojepa.models import Model
from brojepa.models.planning import Plan
from brojepa.worlds import World

STEPS = 100  # of a rollout, at most
KEPT = 16  # images whose latents are cached


@dataclass(frozen=True)
class Shown:
    """An image that a visitor chose, uint8 [c, h, w]: its row in the pool, what was done to it, and its latents
    for the model (and the baseline), by label."""

    image: Tensor
    row: int | None
    note: str
    z: dict[str, Tensor]
    more: dict[str, Any]


class Scene:
    """A world and one or two models of it. A subclass knows what the states of its kind of world are.

    Args:
        world: what the models are of.
        trained: the actions trained on, plain elements.
        models: by what the page calls them; the first is the one that is shown, another is its baseline.
    """

    dials: list[dict[str, Any]]
    pool: Tensor

    def __init__(self, world: World, trained: Sequence[Element], models: dict[str, Model]) -> None:
        self.world, self.trained = world, tuple(trained)
        self.group: Group = world.group
        self.mean = sum(world.mean) / len(world.mean)
        self.fill()
        self.actors = [Actor(model, label, self.pool) for label, model in models.items()]
        self.known: OrderedDict[str, Shown] = OrderedDict()
        self.lock = threading.Lock()  # questions are answered in threads

    def fill(self) -> None:
        """Choose the pool and the dials."""
        raise NotImplementedError

    @property
    def facts(self) -> dict[str, Any]:
        """What the page must know at the start."""
        main = self.actors[0]
        return {
            "title": main.label,
            "baseline": self.actors[1].label if len(self.actors) > 1 else None,
            "shape": list(self.world.shape),
            "ink": pictures.takes_ink(self.world.shape, self.mean),
            "tests": len(self.pool),
            "dials": self.dials,
            "trained": sorted(map(self.group.write, self.trained), key=lambda word: "-" in word),
            "allowed": self.allowed,
            "first": self.first,
            "steps": STEPS,
            "largest": pictures.LARGEST,
            "decodes": main.model.decoder is not None,
            "labelled": bool(self.world.n),
        }

    @property
    def allowed(self) -> list[dict[str, Any]]:
        """The actions that a plan may use, and whether each is chosen at first."""
        raise NotImplementedError

    @property
    def first(self) -> tuple[int, int]:
        """Two rows of the pool to begin with, of which the second can be reached from the first."""
        raise NotImplementedError

    # Questions

    def act(self, source: dict[str, Any], k: Sequence[float], both: bool = False) -> dict[str, Any]:
        """Where an action leads from an image."""
        shown, action = self.look(source), self.element(k)
        sides = [self.predicted(actor, shown, action) for actor in self.chosen(both)]
        answer = {"image": pictures.png(shown.image), "note": shown.note, "word": self.word(action), "sides": sides}
        return answer | {"trained": self.is_trained(action), **self.truth(shown, action)}

    def plan(
        self, start: dict[str, Any], goal: dict[str, Any], allowed: list[str], both: bool = False
    ) -> dict[str, Any]:
        """Which action leads from one image to another, and the steps of a plan as pictures."""
        a, b = self.look(start), self.look(goal)
        if not allowed:
            raise RequestError("no action is allowed: choose one or more")
        elements = self.group.check(allowed, "allowed")
        answer: dict[str, Any] = {"from": pictures.png(a.image), "to": pictures.png(b.image), "sides": []}
        for actor in self.chosen(both):
            k = self.group.plain(actor.model.infer_action(a.z[actor.label], b.z[actor.label]))
            side: dict[str, Any] = {"label": actor.label, "action": self.word(k), "trained": self.is_trained(k)}
            try:
                way = self.way(actor, a.z[actor.label], b.z[actor.label], elements)
            except RequestError as error:
                answer["sides"].append(side | {"error": str(error)})
                continue
            z = way.latents
            side |= {
                "reached": way.reached and self.arrived(actor, z[-1], b),
                "distance": way.distance,
                "words": [self.word(step) for step in way.actions],
                "count": len(z),
                "decoded": actor.decoded(z),
                "nearest": pictures.png(self.pool[actor.nearest(z, 1)[:, 0]]),
                "names": self.names_of(actor, z, a),
            }
            answer["sides"].append(side)
        return answer

    def roll(self, source: dict[str, Any], k: Sequence[float], steps: int, both: bool = False) -> dict[str, Any]:
        """An action repeated on the model's own predictions, and how far they drift from the truth."""
        shown, action, steps = self.look(source), self.element(k), min(max(_whole(steps), 1), STEPS)
        sides = []
        for actor in self.chosen(both):
            z = actor.rollout(shown.z[actor.label], action, steps)
            drift, right = self.drift(actor, shown, action, z)
            sides.append({
                "label": actor.label,
                "decoded": actor.decoded(z),
                "nearest": pictures.png(self.pool[actor.nearest(z, 1)[:, 0]]),
                "names": self.names_of(actor, z, shown),
                "drift": [far if math.isfinite(far) else None for far in drift],
                "right": right,
            })  # fmt: skip
        return {"image": pictures.png(shown.image), "word": self.word(action), "steps": steps, "sides": sides}

    def warm_up(self) -> None:
        """Ask everything once: the first answer of a process takes longer than all others."""
        start, goal = ({"test": row} for row in self.first)
        stay = [0 for _ in self.dials]
        self.act(start, stay, both=True)
        self.plan(start, goal, [one["word"] for one in self.allowed if one["chosen"]], both=True)
        self.roll(start, stay, STEPS, both=True)

    # What the answers need

    def chosen(self, both: bool) -> list[Actor]:
        return self.actors if both else self.actors[:1]

    def look(self, source: dict[str, Any]) -> Shown:
        """The image of a source, as the models read it."""
        if not isinstance(source, dict):
            raise RequestError(f"{source!r:.60} is no image: choose one of test, drawn, file")
        key = hashlib.sha256(repr(sorted(source.items())).encode()).hexdigest()
        with self.lock:
            if (shown := self.known.pop(key, None)) is None:
                image, row, note = self._image(source)
                shown = Shown(
                    image, row, note, {actor.label: actor.encode(image[None])[0] for actor in self.actors}, {}
                )
            self.known[key] = shown
            while len(self.known) > KEPT:
                self.known.popitem(last=False)
        return shown

    def _image(self, source: dict[str, Any]) -> tuple[Tensor, int | None, str]:
        shape = self.world.shape
        if "test" in source:
            row = _whole(source["test"]) % len(self.pool)
            return self.pool[row], row, ""
        if "drawn" in source:
            drawn = np.asarray(pictures.read(source["drawn"], "the drawing").convert("L"))
            pixels = pictures.centred(drawn, shape)
            if not pixels.any():
                raise RequestError("nothing is drawn yet: draw with the mouse or a finger")
            return torch.from_numpy(pixels), None, ""
        if "file" in source:
            pixels, note = pictures.upload(pictures.read(source["file"]), shape, self.mean)
            return torch.from_numpy(np.ascontiguousarray(pixels)), None, note
        raise RequestError(f"{list(source)} is no image: choose one of test, drawn, file")

    def element(self, k: Sequence[float]) -> Element:
        """The action of the dials' numbers."""
        if len(k) != len(self.dials) or any(v not in dial["values"] for v, dial in zip(k, self.dials, strict=True)):
            ends = " and ".join(f"{dial['values'][0]} to {dial['values'][-1]}" for dial in self.dials)
            raise RequestError(f"action {k} is not on the dials, which go from {ends}")
        numbers = tuple(map(float if self.group.dtype.is_floating_point else int, k))
        return numbers if self.group.shape else numbers[0]

    def word(self, k: Element) -> str:
        return self.group.write(k).replace("-", "−")

    def is_trained(self, k: Element) -> bool:
        return bool(self.group.shared((k,), self.trained))

    # What a kind of world knows

    def truth(self, shown: Shown, k: Element) -> dict[str, Any]:
        """What the action really leads to."""
        raise NotImplementedError

    def predicted(self, actor: Actor, shown: Shown, k: Element) -> dict[str, Any]:
        """A model's prediction, with everything to draw."""
        z = shown.z[actor.label]
        after = actor.act(z, k)
        near = actor.nearest(after[None])[0]
        return {
            "label": actor.label,
            "decoded": actor.decoded(after[None]),
            "nearest": pictures.png(self.pool[near]),
            "nearest_names": self.pool_names(near),
            "hands": actor.hands(z, k, self.group),
            "circles": self.circles(actor, shown, z, after, k),
            **self.read(actor, shown, z, after, k),
        }

    def read(self, actor: Actor, shown: Shown, z: Tensor, after: Tensor, k: Element) -> dict[str, Any]:
        """What the latents before and after an action show."""
        raise NotImplementedError

    def circles(self, actor: Actor, shown: Shown, z: Tensor, after: Tensor, k: Element) -> list[dict[str, Any]]:
        raise NotImplementedError

    def way(self, actor: Actor, z: Tensor, goal: Tensor, allowed: Sequence[Element]) -> Plan:
        raise NotImplementedError

    def arrived(self, actor: Actor, z: Tensor, goal: Shown) -> bool:
        """Whether a latent [dim] shows the state of an image."""
        raise NotImplementedError

    def drift(self, actor: Actor, shown: Shown, k: Element, z: Tensor) -> tuple[list[float], list[bool]]:
        """Of each latent of a rollout [steps + 1, dim]: its distance from the true one, as a share of the distance
        between different states, and whether it is still read as the right state."""
        raise NotImplementedError

    def names_of(self, actor: Actor, z: Tensor, shown: Shown) -> list[str]:
        """What each latent [count, dim] is read as."""
        raise NotImplementedError

    def pool_names(self, rows: Tensor) -> list[str]:
        raise NotImplementedError


def _whole(number: Any) -> int:
    """A number that a question holds, as a whole one."""
    if not isinstance(number, (int, float)) or not math.isfinite(number):
        raise RequestError(f"{number!r:.60} is no number: load the page again")
    return int(number)
