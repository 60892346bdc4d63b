"""Plans against a breadth-first search over integers and matrices."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Sequence

import pytest
import torch

from brojepa.groups import Dihedral, Group, parse
from brojepa.models.actions import BlockRotation, Representation, evenly
from brojepa.models.planning import plan


def distances(start: Hashable, step: Callable, moves: Sequence) -> dict[Hashable, int]:
    """How many moves lead from a state to every other, by breadth-first search."""
    found, queue = {start: 0}, deque([start])
    while queue:
        here = queue.popleft()
        for move in moves:
            there = step(here, move)
            if there not in found:
                found[there] = found[here] + 1
                queue.append(there)
    return found


def latents(group: Group, dim: int) -> tuple[torch.nn.Module, torch.Tensor]:
    copies = evenly(group, dim)
    action = BlockRotation.of(group, copies) if group.periods else Representation(group, copies)
    start = torch.randn(dim, generator=torch.Generator().manual_seed(0))
    return action, action.act(start, group.elements)


@pytest.mark.parametrize(("n", "moves"), [(10, (3, -4)), (26, (5,)), (31, (7, 2)), (100, (9, -10)), (97, (1, -1, 13))])
def test_cycles(n, moves):
    group = parse(f"Z{n}")
    action, z = latents(group, n + n % 2)
    far = distances(0, lambda y, k: (y + k) % n, moves)
    assert len(far) == n
    places = {group.plain(k) % n: i for i, k in enumerate(group.elements)}
    for goal in range(0, n, max(1, n // 13)):
        way = plan(action, group, z[places[0]], z[places[goal]], list(moves))
        assert (len(way.actions), sum(way.actions) % n, way.reached) == (far[goal], goal, True)


def test_a_torus():
    group, moves = parse("Z7xZ12"), ((2, 1), (0, 5), (-1, 0))
    action, z = latents(group, 84)
    far = distances((0, 0), lambda y, k: ((y[0] + k[0]) % 7, (y[1] + k[1]) % 12), moves)
    assert len(far) == 84
    places = {(a % 7, b % 12): i for i, (a, b) in enumerate(group.elements.tolist())}
    for goal in list(far)[::11]:
        way = plan(action, group, z[places[0, 0]], z[places[goal]], list(moves))
        assert len(way.actions) == far[goal]
        assert tuple(sum(k[i] for k in way.actions) % m for i, m in ((0, 7), (1, 12))) == goal


def test_turns_and_flips():
    """D4 as permutations of a square's corners; the order of moves matters."""
    corners = {"r": (1, 2, 3, 0), "s": (0, 3, 2, 1)}
    far = distances((0, 1, 2, 3), lambda p, word: tuple(p[i] for i in corners[word]), ("r", "s"))
    assert len(far) == 8
    group = Dihedral(4)
    action, z = latents(group, 8)
    lengths = sorted(len(plan(action, group, z[0], goal, ["r", "s"]).actions) for goal in z)
    assert lengths == sorted(far.values())
