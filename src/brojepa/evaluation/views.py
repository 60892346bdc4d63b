"""Exact evaluation on a user's views: is the view that an action leads to found among those of its thing?

For each pair of views, the action between them is applied to the first one's latent, and the views of the thing are
ranked by their distance to the result. Every view in the true pose is right, and so is one that is the same picture:
no model can tell the two apart. Measured are hit@1, hit@5, the mean of 1 / rank (MRR) and how far the first pose is
from the true one: steps of a cycle, degrees of a turn, and the prediction retrieval error (PRE).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from hashlib import sha256
from typing import Any

import torch
from torch import Tensor

from brojepa.evaluation import equivariance
from brojepa.evaluation.accuracy import ROWS, evaluating
from brojepa.evaluation.evaluator import Evaluator, evaluator
from brojepa.evaluation.retrieval import Ranks, validation
from brojepa.groups import Group
from brojepa.groups.group import SAME
from brojepa.models import Model
from brojepa.worlds import Batch, Split, Views, ViewWorld, pairs
from brojepa.worlds.rows import Rows

PAIRS = 200_000  # pairs of views that are measured at most, as many of each thing
VALIDATED = 20_000  # the same after an epoch
HORIZON = 10  # steps of a recording that are composed at most
SAMPLE, TENTH = 64, 10  # views, and a share of the pairs, from which the total time is estimated
COMPARED = 200  # views of a thing that are compared pixel by pixel
ALIKE = 0.5  # times the difference between neighbours, below which distant views look more alike than these
ENTRIES = 2**21  # of the pair-by-view matrix held at once


@evaluator.register(ViewWorld)
class ViewEvaluator(Evaluator):
    """Measures worlds of views."""

    world: ViewWorld

    def validate(self, model: Model, held: Split, batch: Batch) -> dict[str, Any]:
        assert isinstance(held, Views)
        return validation(model, batch, self.measure(model, held, VALIDATED))

    def test(self, model: Model, train: Split) -> dict[str, Any]:
        with evaluating(model):
            measured = self.measure(model, self.world.test, PAIRS, lambda share: self.done("pairs", share))
            assert isinstance(train, Views)
            if self.world.group.order is not None and self.world.recorded is None:
                measured["retrieval"]["symmetric"] = symmetric(self.world.group, self.world.test)
            measured["equivariance"] = self._equivariance(model, train, measured["retrieval"])
            self.done("equivariance", 1.0)
            if self.world.group.order is not None:  # a config may say "recorded", and inverses are trained on too
                measured["trained_actions"] = [self.world.group.write(k) for k in self.train_actions]
            return measured

    def sample(self, model: Model, train: Split) -> dict[str, float]:
        """From a tenth of the pairs of one thing."""
        views = self.world.test
        things = views.states.unique()
        one = views.of(things[:1])
        few = one[torch.arange(min(len(one), SAMPLE))]
        with evaluating(model):
            _latents(model, few)
            encode = _seconds(lambda: _latents(model, few)) / len(few)
            looked_up = _seconds(lambda: measure_thing(model, self.world, one, max(1, PAIRS // len(things) // TENTH)))
        ranked = TENTH * max(0.0, looked_up - encode * len(one)) * len(things)
        probed = min(len(views), 3 * equivariance.VIEWS)
        return {"pairs": encode * len(views) + ranked, "equivariance": encode * probed}

    def _equivariance(self, model: Model, train: Views, found: dict[str, Any]) -> dict[str, Any]:
        """Probes are fitted on views of training things and read those of test things; if these are the same, they are
        fitted on half of the views and read the others. The poses of a recording start anew in every episode, so no
        probe can read them."""
        world, generator = self.world, torch.Generator().manual_seed(0)
        seen, unseen = (found[part] and found[part]["mean_error"] for part in ("seen", "zero_shot"))
        result: dict[str, Any] = {"error_ratio": equivariance.error_ratio(seen, unseen)}
        test = world.test.to(torch.device("cpu"))
        if world.recorded is None:
            order = torch.randperm(len(test), generator=generator)
            fitted, measured = train.to(torch.device("cpu")), test[order[: equivariance.VIEWS]]
            if world.held_out:
                fitted = fitted[torch.randperm(len(fitted), generator=generator)[: equivariance.VIEWS]]
            else:
                half = len(test) // 2
                fitted, measured = (test[part[: equivariance.VIEWS]] for part in (order[:half], order[half:]))
            z, others = _latents(model, fitted), _latents(model, measured)
            result |= equivariance.probes(world.group, z, fitted.poses, others, measured.poses)
        orbits = test[_some_orbits(test.states)]
        return result | equivariance.disentanglement(model, _latents(model, orbits), orbits.poses, orbits.states)

    def measure(
        self, model: Model, views: Views, most: int, done: Callable[[float], None] = lambda share: None
    ) -> dict[str, Any]:
        """On up to `most` pairs of views, what `test` measures. `done` is called with the share of things measured."""
        world, group = self.world, self.world.group
        things, found = views.states.unique(), []
        for i, thing in enumerate(things):
            found.append(measure_thing(model, world, views.of(thing[None]), max(1, most // len(things))))
            done((i + 1) / len(things))
        rank, error, k, steps, share, alike = (torch.cat(part) for part in zip(*found, strict=True))
        seen = steps == 1 if world.recorded is not None else world.trained(k, self.train_actions)
        still = group.distance(k, torch.as_tensor(group.identity, dtype=group.dtype).expand(k.shape)) <= SAME
        unseen = ~world.trained(k, self.train_actions) & ~still
        ranks = Ranks(rank[:, None], error[:, None], equivariance.degrees_per_gap(group))
        summaries = {"seen": _summary(ranks, seen), "zero_shot": _summary(ranks, unseen)}
        hits = {name: summary and summary["hit1"] for name, summary in summaries.items()}
        by_action = self._by_action(k) if group.order is not None else {}
        retrieval: dict[str, Any] = {
            "things": len(things), "views": len(views), "alike": int(alike.sum()), "pairs": len(rank),
            "held_out_things": world.held_out, "trained_on": "other things" if world.held_out else "the same things",
            **summaries,
        }  # fmt: skip
        if world.recorded is not None:
            by_steps = {h: _summary(ranks, steps == h) for h in range(1, HORIZON + 1)}
            retrieval["by_steps"] = {str(h): summary for h, summary in by_steps.items() if summary}
        return {
            "metrics": {
                "train": None, "seen": hits["seen"], "zero_shot": hits["zero_shot"], "rollout": None, "knn": None,
            },
            "retrieval": retrieval,
            "per_action": {name: float((ranks.rank[rows] == 1).double().mean()) for name, rows in by_action.items()},
            "error_per_action": {name: float(ranks.error[rows].median()) for name, rows in by_action.items()},
            "chance": float(share.double().mean()),
        }  # fmt: skip

    def _by_action(self, k: Tensor) -> dict[str, Tensor]:
        """The rows of every action of a finite group that was measured. Sorted once: a group may have thousands."""
        group, actions = self.world.group, (*self.train_actions, *self.test_actions)
        place, wanted = group.residue(k), group.residue(group.tensor(actions))
        order = place.argsort(stable=True)
        low, high = (torch.searchsorted(place[order], wanted, right=right).tolist() for right in (False, True))
        spans = zip(actions, low, high, strict=True)
        return {group.write(one): order[first:last] for one, first, last in spans if first < last}


def _seconds(work: Callable[[], Any]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def _latents(model: Model, views: Views) -> Tensor:
    return torch.cat([model.encode(images.to(model.device)) for images in views.images.split(ROWS)])


def _some_orbits(things: Tensor) -> Tensor:
    """Rows of the first things, with views of each spread over all that there are, as many as are soon encoded."""
    rows = torch.arange(0)
    for thing in things.unique()[: equivariance.THINGS]:
        each = (things == thing).nonzero()[:, 0]
        spread = torch.linspace(0, len(each) - 1, min(len(each), equivariance.ORBIT)).round().long()
        rows = torch.cat((rows, each[spread]))
        if len(rows) >= equivariance.VIEWS:
            break
    return rows


def _summary(ranks: Ranks, rows: Tensor) -> dict[str, float] | None:
    some = rows.nonzero()[:, 0]
    return Ranks(ranks.rank[some], ranks.error[some], ranks.degrees).summary([0]) if len(some) else None


def _spread(count: int, most: int) -> Tensor:
    """Up to `most` numbers below `count`, evenly."""
    return torch.linspace(0, count - 1, min(most, count), dtype=torch.float64).round().long()


def pictures(images: Tensor | Rows) -> Tensor:
    """Which picture each image is, by a number: the same for images that are equal."""
    numbers: dict[bytes, int] = {}
    some = (part[:].cpu().numpy() for part in images.split(ROWS))
    sums = (sha256(image.tobytes()).digest() for part in some for image in part)
    return torch.tensor([numbers.setdefault(one, len(numbers)) for one in sums])


def symmetric(group: Group, views: Views) -> dict[str, int]:
    """How many things look more alike some steps apart than one step apart, and of how many that were looked at. Things
    that are symmetric do, and then differ by noise alone. In a finite group; by mean squares of differences of pixels.
    """
    found, things = 0, views.states.unique()[: equivariance.THINGS]
    for thing in things:
        one = views.of(thing[None])
        some = one[_spread(len(one), COMPARED)].to(torch.device("cpu"))
        x, poses = some.images[:].double().flatten(1), some.poses
        squares = x.square().sum(1)
        off = (squares[:, None] + squares - 2 * x @ x.T).flatten()
        place = group.residue(group.compose(poses[None], group.inverse(poses)[:, None])).flatten()
        gap = group.gap(poses[:, None], poses[None]).flatten().double()
        count, total, gaps = (torch.bincount(place, part, group.residues) for part in (None, off, gap))
        off, gap = total[count > 0] / count[count > 0], gaps[count > 0] / count[count > 0]
        step = gap[gap > SAME].min() if bool((gap > SAME).any()) else torch.inf
        far = off[gap > 2 * step]
        found += bool(len(far) and far.min() < ALIKE * off[(gap > SAME) & (gap <= step + SAME)].min())
    return {"things": found, "of": len(things)}


def _gaps(group: Group, poses: Tensor, picture: Tensor) -> Callable[[Tensor], Tensor]:
    """How far the poses of some rows are from those of all views, rows [pairs] -> [pairs, count]; in a table where that
    fits. Of views that are the same picture, the nearest counts."""
    different = int(picture.max()) + 1

    def gaps(rows: Tensor) -> Tensor:
        gap = group.gap(poses[rows][:, None], poses[None])
        if different == len(poses):
            return gap
        least = gap.new_full((len(gap), different), gap.max().item() + 1)
        return least.scatter_reduce(1, picture.expand(gap.shape), gap, "amin")[:, picture]

    if len(poses) ** 2 > ENTRIES:
        return gaps
    table = gaps(torch.arange(len(poses), device=poses.device))
    return lambda rows: table[rows]


def measure_thing(model: Model, world: ViewWorld, views: Views, most: int) -> tuple[Tensor, ...]:
    """Up to `most` pairs of views of one thing, spread over all: the rank of the best right view, how far the first is
    from the true pose, the action [pairs, ...], the steps of a recording between the two (0 where it is none), and the
    share of views that are right; [pairs] each, on the CPU. Then which views are the same picture as one in another
    pose, [count]."""
    group, device = world.group, model.device
    views = views.to(device)
    z, poses = model.encode(views.images), views.poses
    count = len(views)
    if world.recorded is None:
        start, stop = pairs.ordered(count, _spread(count * (count - 1), most))
    else:
        steps = torch.arange(1, min(HORIZON, count - 1) + 1)
        start = torch.arange(count).repeat_interleave(len(steps))
        stop = start + steps.repeat(count)
        start, stop = start[stop < count], stop[stop < count]
        spread = _spread(len(start), most)
        start, stop = start[spread], stop[spread]
    start, stop = start.to(device), stop.to(device)
    k = group.canonical(group.compose(poses[stop], group.inverse(poses[start])))
    picture = pictures(views.images)
    gaps, parts = _gaps(group, poses, picture.to(device)), []
    for i, j, act in zip(*(x.split(max(1, ENTRIES // count)) for x in (start, stop, k)), strict=True):
        away = torch.cdist(model.act(z[i], act), z)
        off = gaps(j)
        right = off <= SAME
        best = away.masked_fill(~right, torch.inf).amin(1, keepdim=True)
        rank = 1 + ((away <= best) & ~right).sum(1)  # among equally near views a right one ranks last
        parts.append((rank, off.gather(1, away.argmin(1, keepdim=True))[:, 0], right.float().mean(1)))
    rank, error, share = (torch.cat(part).cpu() for part in zip(*parts, strict=True))
    steps = (stop - start).cpu() if world.recorded is not None else torch.zeros(len(rank), dtype=torch.long)
    return rank, error, k.cpu(), steps, share, _in_other_poses(group, poses.cpu(), picture)


def _in_other_poses(group: Group, poses: Tensor, picture: Tensor) -> Tensor:
    """Which views are the same picture as the first of that picture, in another pose, or have such views, [count]."""
    numbers = torch.arange(len(picture))
    first = torch.full_like(numbers, len(numbers)).scatter_reduce(0, picture, numbers, "amin")
    moved = group.gap(poses, poses[first[picture]]) > SAME
    return torch.bincount(picture[moved], minlength=len(picture))[picture] > 0
