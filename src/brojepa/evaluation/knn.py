"""The vote of the nearest neighbours by cosine: exact, in bounded memory, and mostly without looking at neighbours.

A trained model's latents lie around the mean of their state, and angles obey the triangle inequality. So for most
queries the state with the nearest mean wins: 20 of its members are nearer than any member of another state can be. All
but a few stray members of a state are within a known angle of its mean, which bounds how near they can be; the strays
of all states are compared one by one.

For the remaining queries, the whole bank is searched. It is sorted by state and cut into groups of one state each. A
product of queries and bank, tile by tile, gives the best member of every group. The 20 nearest are in the 20 groups
with the best members; if these groups all show one state, so do the 20 nearest. Only for queries that are still open
are members compared.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

NEIGHBOURS, TEMPERATURE = 20, 0.07
ROWS = 1024  # queries at once
GROUP = 16  # bank entries whose best similarity stands for them
TILE = 64  # groups at once: their products with ROWS queries fit into a core's cache
GATHERED = 2**22  # entries of the bank's latents gathered at once for doubtful queries
ENOUGH = 1024  # members of a state searched for 20 near ones
STRAY = 0.01  # share of a state's members that may lie farther from its mean than the bound says
OPEN = 0.1  # share of the queries that may be left open
ROUNDING, ANGLE_ROUNDING = 1e-5, 1e-3  # more than rounding changes in a cosine, and in an angle near 0


def looked_at(n: int, count: int) -> float:
    """About how many vectors a query is compared with in a bank of that many states and entries: the means, some
    members of the nearest state and the strays; some queries meet the whole bank."""
    return n + min(count / n, ENOUGH) + (STRAY + OPEN) * count


class Neighbours:
    """A bank to look latents up in: z [count, dim], states [count] from 0 to n - 1.

    A state fills whole groups; its last one is padded with one of its members, which changes no group's best."""

    def __init__(self, z: Tensor, states: Tensor, n: int) -> None:
        sizes = torch.bincount(states, minlength=n)
        room = (sizes + GROUP - 1) // GROUP * GROUP
        self.states = torch.arange(n, device=states.device).repeat_interleave(room)
        place = torch.arange(len(self.states), device=states.device) - (room.cumsum(0) - room)[self.states]
        size = sizes[self.states]
        members = (sizes.cumsum(0) - sizes)[self.states] + torch.minimum(place, size - 1)
        self.z = F.normalize(z, dim=1)[states.argsort(stable=True)[members]]
        # the first member of every group of a tile, the second of every group, ...: a best of whole rows is fast
        self.tiles = [tile.transpose(0, 1).flatten(0, 1) for tile in self.z.unflatten(0, (-1, GROUP)).split(TILE)]
        self.again, self.n, self.count = place >= size, n, len(z)
        self.shown = self.states[::GROUP]
        members = self.z.split(room.tolist())
        self.members = [z[:size] for z, size in zip(members, sizes.tolist(), strict=True)]
        self.means = F.normalize(torch.stack([z.sum(0) for z in self.members]), dim=1)
        angles = [_angle(z @ mean) for z, mean in zip(self.members, self.means, strict=True)]
        self.radius = torch.stack([_all_but_strays(a) for a in angles])
        strays = [z[a > r] for z, a, r in zip(self.members, angles, self.radius, strict=True)]
        self.strays = torch.cat(strays)
        self.stray_states = torch.arange(n).repeat_interleave(torch.tensor([len(z) for z in strays])).to(states.device)

    def classify(self, query: Tensor) -> Tensor:
        """States by a vote of the 20 nearest, weighted exp(cosine / 0.07): latents [count, dim] -> [count]."""
        rows = F.normalize(query, dim=1)
        settled = [self._settle(part) for part in rows.split(ROWS)]
        state, open_ = (torch.cat(parts) for parts in zip(*settled, strict=True))
        at = open_.nonzero()[:, 0]
        votes = [self._vote(part) for part in rows[at].split(ROWS) if len(part)]
        return state.index_copy(0, at, torch.cat([state[:0], *votes]))

    def _settle(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """The state with the nearest mean, and whether that is open, because others may win."""
        cosine = rows @ self.means.T
        state = cosine.argmax(1)
        own = torch.arange(self.n, device=rows.device) == state[:, None]
        nearest = _angle(cosine).sub(self.radius + ANGLE_ROUNDING).clamp_(min=0).cos()  # only strays are nearer
        others = nearest.masked_fill(own, -1).amax(1)
        if len(self.strays):
            stray = (rows @ self.strays.T).masked_fill(self.stray_states == state[:, None], -1).amax(1)
            others = torch.maximum(others, stray)
        kept = torch.full_like(others, -2)
        for s in state.unique().tolist():
            at = (state == s).nonzero()[:, 0]
            kept[at] = self._twentieth(rows[at], self.members[s])
        return state, kept <= others + ROUNDING

    def _twentieth(self, rows: Tensor, members: Tensor) -> Tensor:
        """A cosine that at least 20 of these members reach, [rows]; -2 if there are too few."""
        groups = min(len(members), ENOUGH) // GROUP
        if groups < NEIGHBOURS:
            return rows.new_full((len(rows),), -2)
        best = (rows @ members[: groups * GROUP].T).unflatten(1, (GROUP, groups)).amax(1)
        return best.topk(NEIGHBOURS, dim=1, sorted=False).values.amin(1)

    def _vote(self, rows: Tensor) -> Tensor:
        near = min(NEIGHBOURS, self.count)
        best = self._best_of_groups(rows)
        groups = best.topk(min(near, best.shape[1]), dim=1, sorted=False).indices
        shown = self.shown[groups]
        state = shown[:, 0]
        agreed = (shown == state[:, None]).all(1) & (groups.shape[1] == near)
        doubtful = (~agreed).nonzero()[:, 0]
        some = max(1, GATHERED // (groups.shape[1] * GROUP * rows.shape[1]))
        votes = [self._look(rows[part], groups[part], near) for part in doubtful.split(some) if len(part)]
        return state.index_copy(0, doubtful, torch.cat([state[:0], *votes]))

    def _best_of_groups(self, rows: Tensor) -> Tensor:
        """The highest cosine within each group: [rows, groups]."""
        best = rows.new_empty(len(rows), len(self.shown))
        room = rows.new_empty(len(rows) * TILE * GROUP)
        for tile, each in zip(self.tiles, best.split(TILE, dim=1), strict=True):
            cosine = torch.mm(rows, tile.T, out=room[: len(rows) * len(tile)].view(len(rows), -1))
            torch.amax(cosine.unflatten(1, (GROUP, -1)), 1, out=each)
        return best

    def _look(self, rows: Tensor, groups: Tensor, near: int) -> Tensor:
        """The vote among all members of some groups, [rows, few]."""
        members = (groups[..., None] * GROUP + torch.arange(GROUP, device=groups.device)).flatten(1)
        cosine = torch.bmm(self.z[members], rows[..., None])[..., 0]
        top, place = cosine.masked_fill(self.again[members], -2).topk(near, dim=1)
        states = self.states[members.gather(1, place)]
        return rows.new_zeros(len(rows), self.n).scatter_add_(1, states, (top / TEMPERATURE).exp()).argmax(1)


def _angle(cosine: Tensor) -> Tensor:
    return cosine.clamp(-1, 1).acos()


def _all_but_strays(angles: Tensor) -> Tensor:
    """The angle within which almost all are; 0 if there are none."""
    return angles.kthvalue(max(1, int(len(angles) * (1 - STRAY)))).values if len(angles) else angles.new_zeros(())
