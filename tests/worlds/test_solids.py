"""Solids and their views: a slow NumPy ray caster, turns about the viewing axis, occlusion, and no symmetry at all."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from brojepa.errors import RequestError
from brojepa.worlds import solids
from brojepa.worlds.solids import AMBIENT, LIGHT, Solids, objects, view

COUNT = 16
QUARTER = torch.tensor([[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
"""x to y: counter-clockwise as the viewer sees it."""
BEHIND = torch.diag(torch.tensor([-1.0, 1.0, -1.0]))
"""Half a turn about the vertical."""


def rotations(count: int, seed: int = 0) -> Tensor:
    """Uniform over SO(3), from unit quaternions: [count, 3, 3]."""
    q = torch.randn(count, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    w, x, y, z = (q / q.norm(dim=1, keepdim=True)).unbind(1)
    rows = (
        (1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)),
        (2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)),
        (2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)),
    )
    return torch.stack([torch.stack(row, -1) for row in rows], 1).float()


def balls(*rows: tuple[float, ...]) -> Solids:
    """One object from rows of x, y, z, radius, red, green, blue."""
    made = torch.tensor([rows])
    return Solids(made[..., :3], made[..., 3], made[..., 4:])


def views(things: Solids, which: int, rotation: Tensor, size: int = 32) -> Tensor:
    return view(things, torch.full((len(rotation),), which), rotation, size)


def by_numpy(things: Solids, which: int, rotation: Tensor, size: int) -> np.ndarray:
    """The same picture ray by ray and ball by ball in float64: [3, size, size], unrounded."""
    centres = things.centres[which].double().numpy() @ rotation.double().numpy().T
    radii, colours = things.radii[which].double().numpy(), things.colours[which].double().numpy()
    picture = np.zeros((3, size, size))
    for row in range(2 * size):
        for column in range(2 * size):
            x, y = (column + 0.5) / size - 1, 1 - (row + 0.5) / size
            nearest = -np.inf
            seen = np.zeros(3)
            for centre, radius, colour in zip(centres, radii, colours, strict=True):
                square = radius**2 - (x - centre[0]) ** 2 - (y - centre[1]) ** 2
                if square > 0 and centre[2] + square**0.5 > nearest:
                    nearest = centre[2] + square**0.5
                    normal = (np.array([x, y, nearest]) - centre) / radius
                    seen = colour * (AMBIENT + (1 - AMBIENT) * max(0.0, float(normal @ LIGHT)))
            picture[:, row // 2, column // 2] += 255 * seen / 4
    return picture


def agreement(a: Tensor, b: Tensor) -> float:
    """The share of values that are alike but for rounding; at an edge a ray may meet another ball."""
    return float(((a.int() - b.int()).abs() <= 1).double().mean())


@pytest.mark.parametrize("which", [0, 5])
def test_a_view_is_that_of_a_slow_ray_caster(which):
    things, rotation = objects(6), rotations(3)[1:2]
    difference = np.abs(views(things, which, rotation, 24)[0].numpy() - by_numpy(things, which, rotation[0], 24))
    assert (difference <= 0.51).mean() > 0.998
    assert difference.max() < 80


def test_the_ray_caster_agrees_for_many_parts_and_odd_sizes():
    rng = np.random.default_rng(0)
    rows = np.concatenate((rng.uniform(-0.5, 0.5, (21, 3)), rng.uniform(0.05, 0.4, (21, 1)), rng.random((21, 3))), 1)
    things = balls(*map(tuple, rows.tolist()))
    difference = np.abs(views(things, 0, torch.eye(3)[None], 15)[0].numpy() - by_numpy(things, 0, torch.eye(3), 15))
    assert (difference <= 0.51).mean() > 0.998


def test_rotations_act_from_the_left():
    things, first, second = objects(8), rotations(40, seed=1), rotations(40, seed=2)
    which = torch.arange(40) % 8
    turned = Solids(things.centres[which] @ first.mT, things.radii[which], things.colours[which])
    expected = view(turned, torch.arange(40), second)
    assert agreement(view(things, which, second @ first), expected) > 0.999
    assert agreement(view(things, which, first @ second), expected) < 0.95


@pytest.mark.parametrize("turns", [1, 2, 3])
def test_about_the_viewing_axis_the_silhouette_turns_and_so_do_the_colours_without_the_light(turns, monkeypatch):
    things, which, rotation = objects(8), torch.arange(64) % 8, rotations(64)
    turned = torch.linalg.matrix_power(QUARTER, turns) @ rotation
    seen, expected = (view(things, which, r).amax(1) > 0 for r in (turned, rotation))
    assert torch.equal(seen, torch.rot90(expected, turns, (1, 2)))
    lit = agreement(view(things, which, turned), torch.rot90(view(things, which, rotation), turns, (2, 3)))
    monkeypatch.setattr(solids, "AMBIENT", 1.0)
    flat = agreement(view(things, which, turned), torch.rot90(view(things, which, rotation), turns, (2, 3)))
    assert flat > 0.9999
    assert lit < 0.95


def test_the_nearer_ball_hides_the_farther_one():
    red_before_green = balls((0, 0, 0.4, 0.3, 1, 0, 0), (0, 0, -0.4, 0.5, 0, 1, 0))
    front, back = views(red_before_green, 0, torch.stack((torch.eye(3), BEHIND)))
    red, green, _ = front.bool()
    middle = green[16, 16], red[16, 16]
    assert middle == (False, True)
    assert green[16, 16 + 6]  # between the two radii the farther one looks out
    assert not red[16, 16 + 6]
    assert not back[0].any()
    assert back[1, 16, 16]


def test_balls_that_cross_are_seen_each_where_it_is_in_front():
    """A small ball whose centre is behind that of a large one, and yet looks out of its front."""
    front = views(balls((0, 0, 0, 0.6, 1, 0, 0), (0.5, 0, -0.05, 0.4, 0, 0, 1)), 0, torch.eye(3)[None])[0]
    assert front[0, 16, 16]
    assert not front[2, 16, 16]
    assert front[2, 16, 16 + 8]
    assert not front[0, 16, 16 + 8]


def test_the_light_comes_from_the_upper_left_and_stays_there():
    one = balls((0, 0, 0, 0.9, 1, 1, 1))
    still, *turned = views(one, 0, torch.cat((torch.eye(3)[None], rotations(5))))
    assert still[0, 8, 8] > 250
    assert still[0, 23, 23] < 160
    for picture in turned:
        assert torch.equal(picture, still)


def test_a_view_does_not_depend_on_the_rest_of_the_batch():
    things, which, rotation = objects(8), torch.arange(37) % 8, rotations(37)
    together = view(things, which, rotation)
    assert together.dtype == torch.uint8
    assert together.shape == (37, 3, 32, 32)
    alone = [view(things, which[i : i + 1], rotation[i : i + 1]) for i in range(37)]
    assert torch.equal(together, torch.cat(alone))
    assert torch.equal(view(things, which, rotation.double()), together)
    assert view(things, which[:0], rotation[:0], 16).shape == (0, 3, 16, 16)


def test_objects_are_the_same_every_time_and_fit_the_frame():
    things = objects(COUNT)
    for ours, again in zip(vars(things).values(), vars(objects(3)).values(), strict=True):
        assert torch.equal(ours[:3], again)
    assert 8 <= things.radii.shape[1] <= 14
    reach = things.centres.norm(dim=-1) + things.radii
    assert torch.allclose(reach.amax(1), torch.ones(COUNT))
    assert things.radii.min() > 0.05  # wider than a pixel of 32
    assert things.colours.min() >= 0
    assert things.colours.max() <= 1
    assert all(len(colours.unique(dim=0)) >= 4 for colours in things.colours)


def test_no_object_has_a_symmetry_even_without_its_colours():
    """A turn or mirror of an object to itself permutes its balls and keeps radii and distances. If the radius and
    the distances to all others tell every ball apart it fixes them all, and four of them, not in one plane, fix
    space. No ball hides within another.
    """
    for centres, radii in zip(objects(COUNT).centres, objects(COUNT).radii, strict=True):
        about = torch.cat((radii[:, None], torch.cdist(centres, centres).sort(1).values[:, 1:]), 1)
        apart = torch.cdist(about, about, p=float("inf")) + torch.eye(len(radii))
        assert apart.min() > 0.03
        assert ((torch.cdist(centres, centres) + radii > 1.05 * radii[:, None]) | torch.eye(len(radii)).bool()).all()
        assert torch.linalg.svdvals(centres - centres.mean(0))[2] > 0.15


@pytest.mark.parametrize("which", range(8))
def test_every_rotation_of_an_object_looks_different_and_so_does_every_other_object(which):
    things, rotation = objects(8), rotations(300, seed=which)
    angle = ((rotation.diagonal(dim1=1, dim2=2).sum(1) - 1) / 2).arccos()
    rotation = rotation[angle > 0.3]
    still = views(things, which, torch.eye(3)[None]).float()

    def nearest(things: Solids, other: int, count: int) -> float:
        return float((views(things, other, rotation[:count]).float() - still).abs().mean((1, 2, 3)).min())

    assert nearest(things, which, 300) > 5
    assert min(nearest(things, other, 50) for other in range(8) if other != which) > 5
    mirrored = Solids(things.centres * torch.tensor([-1.0, 1.0, 1.0]), things.radii, things.colours)
    assert nearest(mirrored, which, 300) > 5


def test_what_cannot_be_shown_is_refused():
    with pytest.raises(RequestError, match="0 objects"):
        objects(0)
    with pytest.raises(RequestError, match=r"\(2,\).*\(3, 3, 3\).*\[batch\].*\[batch, 3, 3\]"):
        view(objects(2), torch.tensor([0, 1]), rotations(3))
