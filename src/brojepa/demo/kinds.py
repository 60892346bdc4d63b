"""The kinds of worlds that the page can show: labelled states that count in a cycle or a torus, and turned images."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from brojepa.demo import images as pictures
from brojepa.demo.actor import Actor, spread
from brojepa.demo.scene import Scene, Shown
from brojepa.errors import RequestError
from brojepa.figures.geometry import PCA, even_choice
from brojepa.groups import SO2, Cyclic, Element
from brojepa.models import Model
from brojepa.models.planning import Plan, shortest
from brojepa.worlds import PoseWorld, Split, World
from brojepa.worlds.pictures import state_names

POOL = 2000  # real images that predictions are compared with
BARS = 12  # at most this many states' probabilities are shown, the likeliest ones
CHIPS = 9  # a cycle's actions up to this are offered for plans
STEPS = ((1, 0), (-1, 0), (0, 1), (0, -1), (3, 0), (-4, 0), (0, 3), (0, -4), (1, 1), (2, 5))  # the same for a torus
THINGS, STEP = 30, 5  # of a world of turns: images in the pool, and the degrees between two views of one
TURNS = (1, 5, 10, 45, 90)  # degrees offered for plans


def scene(world: World, trained: Sequence[Element], models: dict[str, Model]) -> Scene:
    """The scene of a world; an error if the page cannot show its kind."""
    periods = world.group.periods
    if world.n and periods and len(periods) < 3 and world.group.order == world.n:
        return Labelled(world, trained, models)
    if isinstance(world, PoseWorld) and isinstance(world.group, SO2):
        return Turned(world, trained, models)
    raise RequestError(
        f"the demo shows worlds of labelled states, and turned images like rotation; {world.name} has "
        f"{'states' if world.n else 'poses'} of {world.group}: try mnist/fast, torus/fast or rotation/fast"
    )


class Labelled(Scene):
    """Labelled states that an action moves around a cycle, or around one cycle per factor."""

    def fill(self) -> None:
        world, n = self.world, self.world.n
        rows = even_choice(world.test.states.numpy(), max(1, POOL // n), n)
        self.pool, self.states = world.test.images[rows], world.test.states[rows]
        self.periods = self.group.periods or (n,)
        self.names = state_names(world.name, n, world.source.get("names"))
        self.coordinates = torch.stack(torch.unravel_index(torch.arange(n), self.periods), -1)  # [n, factors]
        self.parts, places = [self.names], [""]
        if len(self.periods) > 1:
            self.parts, places = [[str(c) for c in range(p)] for p in self.periods], ["left", "right"]
            self.names = [" ".join(map(str, row)) for row in self.coordinates.tolist()]
        self.dials = [
            {"label": places[i], "values": list(range(1 - p, p)), "trained": self._trained_on(i), "unit": ""}
            for i, p in enumerate(self.periods)
        ]
        self._rings: dict[str, list[tuple[PCA, np.ndarray]]] = {}
        self._means: dict[str, Tensor] = {}

    def _trained_on(self, factor: int) -> list[int]:
        """The values of one dial that were trained on with the others at 0."""
        found = []
        for k in self.trained:
            numbers = np.atleast_1d(k)
            if not np.delete(numbers, factor).any():
                found.append(int(numbers[factor]))
        return sorted(found)

    @property
    def allowed(self) -> list[dict[str, Any]]:
        every: list[Element]
        first: Sequence[Element]
        if self.group.shape:
            fits = [all(abs(a) < p for a, p in zip(k, self.periods, strict=True)) for k in STEPS]
            every, first = [k for k, good in zip(STEPS, fits, strict=True) if good], self.trained
        else:
            top = min(self.world.n - 1, CHIPS)
            every = [k for k in range(-top, top + 1) if k]
            first = tuple(k for k in (3, -4) if abs(k) <= top) or self.trained
        return [{"word": self.group.write(k), "trained": self.is_trained(k), "chosen": k in first} for k in every]

    @property
    def first(self) -> tuple[int, int]:
        """The first images of two states some way apart."""
        rows = [int((self.states == y).nonzero()[0, 0]) for y in (2 % self.world.n, (3 * self.world.n // 4))]
        return rows[0], rows[1]

    def means(self, actor: Actor) -> Tensor:
        """The mean latent of each state, [n, dim]."""
        if actor.label not in self._means:
            states = self.states.to(actor.z.device)
            self._means[actor.label] = torch.stack([actor.z[states == y].mean(0) for y in range(self.world.n)])
        return self._means[actor.label]

    def rings(self, actor: Actor) -> list[tuple[PCA, np.ndarray]]:
        """A view per factor, and the ring of its states in it."""
        if actor.label not in self._rings:
            means, found = self.means(actor), []
            for i, period in enumerate(self.periods):
                own = torch.stack([means[self.coordinates[:, i] == c].mean(0) for c in range(period)])
                ring = own.cpu().double().numpy()
                view = actor.view(ring - ring.mean(0) * (actor.angles is None), i, period)
                found.append((view, view(ring)))
            self._rings[actor.label] = found
        return self._rings[actor.label]

    def start(self, shown: Shown) -> int:
        """The state of an image: its label, else what the model reads."""
        if shown.row is not None:
            return int(self.states[shown.row])
        main = self.actors[0]
        return int(main.chances(shown.z[main.label]).argmax())

    def goal(self, shown: Shown, k: Element, times: int = 1) -> int:
        state = torch.tensor(self.start(shown))
        for _ in range(times):
            state = self.group.apply(state, self.group.tensor([k])[0])
        return int(state)

    def truth(self, shown: Shown, k: Element) -> dict[str, Any]:
        return {
            "start": self.names[self.start(shown)],
            "known": shown.row is not None,
            "right": self.names[self.goal(shown, k)],
        }

    def read(self, actor: Actor, shown: Shown, z: Tensor, after: Tensor, k: Element) -> dict[str, Any]:
        before, chances = actor.chances(z), actor.chances(after)
        best = int(chances.argmax())
        return {
            "before": self.names[int(before.argmax())],
            "before_chance": float(before.max()),
            "after": self.names[best],
            "chance": float(chances[best]),
            "is_right": best == self.goal(shown, k),
            "bars": self._bars(chances),
        }

    def _bars(self, chances: Tensor) -> list[list[dict[str, Any]]]:
        """Probabilities per factor, in the order of the states; only the likeliest if there are many."""
        table = chances.reshape(self.periods)
        groups = []
        for i, names in enumerate(self.parts):
            own = table.sum([j for j in range(len(self.periods)) if j != i]) if len(self.periods) > 1 else table
            rows = range(len(own)) if len(own) <= BARS else sorted(own.topk(BARS).indices.tolist())
            groups.append([{"name": names[y], "chance": float(own[y])} for y in rows])
        return groups

    def circles(self, actor: Actor, shown: Shown, z: Tensor, after: Tensor, k: Element) -> list[dict[str, Any]]:
        numbers = np.atleast_1d(k)
        found = []
        for i, (view, ring) in enumerate(self.rings(actor)):
            path = actor.path(view, z, after, k)
            found.append({"title": self.dials[i]["label"], "ring": ring.tolist(), "names": self.parts[i], "path": path,
                          "steps": int(numbers[i])})  # fmt: skip
        return found

    def way(self, actor: Actor, z: Tensor, goal: Tensor, allowed: Sequence[Element]) -> Plan:
        return actor.model.plan(z, goal, allowed)

    def arrived(self, actor: Actor, z: Tensor, goal: Shown) -> bool:
        return int(actor.chances(z).argmax()) == self.start(goal)

    def drift(self, actor: Actor, shown: Shown, k: Element, z: Tensor) -> tuple[list[float], list[bool]]:
        means = self.means(actor)
        state, step, goals = torch.tensor(self.start(shown)), self.group.tensor([k])[0], []
        for _ in range(len(z)):
            goals.append(int(state))
            state = self.group.apply(state, step)
        far = (z - means[goals]).norm(dim=1) / spread(means)
        right = actor.chances(z).argmax(-1) == torch.tensor(goals)
        return far.tolist(), right.tolist()

    def names_of(self, actor: Actor, z: Tensor, shown: Shown) -> list[str]:
        return [self.names[y] for y in actor.chances(z).argmax(-1).tolist()]

    def pool_names(self, rows: Tensor) -> list[str]:
        return [self.names[y] for y in self.states[rows].tolist()]


class Turned(Scene):
    """Images turned by any angle. A state is an angle: the image, really turned, is the right answer."""

    world: PoseWorld

    def fill(self) -> None:
        things = self.world.test[torch.linspace(0, len(self.world.test) - 1, THINGS).round().long().unique()]
        poses = torch.arange(0, 360, 2 * STEP).float()
        which = torch.arange(len(things)).repeat_interleave(len(poses))
        self.poses = poses.repeat(len(things))
        self.pool = self.world.show(things[which], self.poses)
        self.turns = torch.arange(0, 360, STEP).float()
        trained = [round(float(k)) for k in self.trained if float(k) == round(float(k))]
        self.dials = [{"label": "", "values": list(range(-180, 181, STEP)), "trained": trained, "unit": "°"}]

    @property
    def allowed(self) -> list[dict[str, Any]]:
        every = [float(sign * d) for d in TURNS for sign in (1, -1)]
        return [
            {"word": self.group.write(k), "trained": self.is_trained(k), "chosen": abs(k) in (10, 45)} for k in every
        ]

    @property
    def first(self) -> tuple[int, int]:
        """One digit in two poses."""
        return 5, 18

    def word(self, k: Element) -> str:
        return f"{super().word(k)}°"

    def turned(self, image: Tensor, degrees: Tensor) -> Tensor:
        """An image turned by each of some angles, [count, c, h, w]."""
        things = Split(image.expand(len(degrees), *image.shape), torch.zeros(len(degrees), dtype=torch.long))
        return self.world.show(things, degrees)

    def ring(self, actor: Actor, shown: Shown) -> Tensor:
        """Latents of an image turned all the way round, [count, dim]."""
        if actor.label not in shown.more:
            shown.more[actor.label] = actor.encode(self.turned(shown.image, self.turns))
        return shown.more[actor.label]

    def truth(self, shown: Shown, k: Element) -> dict[str, Any]:
        return {"true_image": pictures.png(self.turned(shown.image, torch.tensor([float(k) % 360]))[0])}

    def found(self, actor: Actor, shown: Shown, z: Tensor) -> Tensor:
        """The turns of the image whose latents are nearest to each of z [count, dim], from -175 to 180."""
        return self.group.canonical(self.turns[torch.cdist(z, self.ring(actor, shown)).argmin(1).cpu()])

    def read(self, actor: Actor, shown: Shown, z: Tensor, after: Tensor, k: Element) -> dict[str, Any]:
        found = float(self.found(actor, shown, after[None])[0])
        off = float(self.group.distance(torch.tensor(found), torch.tensor(float(k))))
        return {"after": self.word(found), "is_right": off <= STEP, "off": off}

    def circles(self, actor: Actor, shown: Shown, z: Tensor, after: Tensor, k: Element) -> list[dict[str, Any]]:
        ring = self.ring(actor, shown).cpu().double().numpy()
        view = actor.view(ring - ring.mean(0) * (actor.angles is None), 0, 360)
        every = 30 // STEP
        names = [f"{d:g}°" if i % every == 0 else "" for i, d in enumerate(self.turns.tolist())]
        return [{"title": "", "ring": view(ring).tolist(), "names": names, "path": actor.path(view, z, after, k),
                 "steps": float(k)}]  # fmt: skip

    def way(self, actor: Actor, z: Tensor, goal: Tensor, allowed: Sequence[Element]) -> Plan:
        """The fewest allowed turns that come nearest to the inferred turn."""
        degrees = [round(float(k)) for k in allowed]
        wanted = float(actor.model.infer_action(z, goal))
        ways = shortest(Cyclic(360), degrees)
        turns = torch.tensor(sorted(ways), dtype=torch.float32)
        best = int(turns[self.group.distance(turns, torch.tensor(wanted)).argmin()])
        latents = [z]
        for k in ways[best]:
            latents.append(actor.act(latents[-1], float(k)))
        rest = float(actor.model.infer_action(latents[-1], goal))
        off = float(self.group.distance(torch.tensor(rest), torch.tensor(0.0)))
        distance = float((latents[-1] - goal).norm() / goal.norm().clamp(min=1e-12))
        steps = tuple(float(k) for k in ways[best])
        return Plan(wanted, steps, torch.stack(latents), off <= max(STEP, min(map(abs, degrees)) / 2), distance)

    def arrived(self, actor: Actor, z: Tensor, goal: Shown) -> bool:
        """Two images may show different digits: it is enough that the model infers no remaining turn."""
        return True

    def drift(self, actor: Actor, shown: Shown, k: Element, z: Tensor) -> tuple[list[float], list[bool]]:
        ring = self.ring(actor, shown)
        true = (torch.arange(len(z)) * float(k)) % 360
        place = (true / STEP).round().long() % len(self.turns)
        exact = ring[place.to(ring.device)]
        far = (z - exact).norm(dim=1) / spread(ring)
        right = self.group.distance(self.found(actor, shown, z), true) <= STEP
        return far.tolist(), right.tolist()

    def names_of(self, actor: Actor, z: Tensor, shown: Shown) -> list[str]:
        return [self.word(float(k)) for k in self.found(actor, shown, z)]

    def pool_names(self, rows: Tensor) -> list[str]:
        return [""] * len(rows)
