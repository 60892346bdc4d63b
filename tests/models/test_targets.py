"""Targets: the slow copy follows exactly, and relaxing is what its definition says, done naively."""

from __future__ import annotations

import math

import pytest
import torch
from helpers import checked
from hypothesis import example, given
from hypothesis import strategies as st
from torch import Tensor, nn

from brojepa.models.actions import BlockRotation
from brojepa.models.encoders import CNN
from brojepa.models.targets import BatchMean, EMAEncoder, Relaxed, Sampled, relax, state_means
from brojepa.worlds import Batch


def rows(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


# The slow copy


def trained(encoder: nn.Module, steps: int = 3) -> nn.Module:
    """Weights and batch-norm statistics that moved."""
    for step in range(steps):
        encoder.train()(rows(8, 1, 8, 8, seed=step))
        with torch.no_grad():
            for p in encoder.parameters():
                p.add_(rows(*p.shape, seed=step), alpha=0.1)
    return encoder


@pytest.mark.parametrize("decay", [0.0, 0.9, 0.996])
def test_the_slow_copy_averages_weights_and_statistics_and_copies_counters(decay):
    encoder = CNN((1, 8, 8), 4)
    slow = EMAEncoder(encoder, decay)
    expected = {name: t.clone().double() for name, t in encoder.state_dict().items()}
    for _ in range(3):
        trained(encoder, 1)
        slow.follow(encoder)
        for name, t in encoder.state_dict().items():
            if t.is_floating_point():
                expected[name] = decay * expected[name] + (1 - decay) * t.double()
            else:
                expected[name] = t
    got = slow.net.state_dict()
    assert got.keys() == expected.keys()
    buffers = {name for name, _ in encoder.named_buffers()}
    assert any("running_var" in name for name in buffers), "this encoder has statistics to follow"
    for name, t in got.items():
        assert torch.allclose(t.double(), expected[name].double(), rtol=1e-5, atol=1e-6), name
        if not t.is_floating_point():
            assert torch.equal(t, encoder.state_dict()[name]), name


def test_the_slow_copy_starts_equal_shares_nothing_and_wants_no_gradient():
    encoder = CNN((1, 8, 8), 4)
    slow = EMAEncoder(encoder, 0.9)
    assert all(
        torch.equal(a, b) for a, b in zip(slow.net.state_dict().values(), encoder.state_dict().values(), strict=True)
    )
    assert not any(p.requires_grad for p in slow.parameters())
    before = [p.clone() for p in slow.parameters()]
    trained(encoder)
    assert all(torch.equal(a, b) for a, b in zip(before, slow.parameters(), strict=True))
    assert all(p.requires_grad for p in encoder.parameters()), "following must not freeze the encoder"
    slow.follow(encoder)
    assert all(p.requires_grad for p in encoder.parameters())
    assert not any(torch.equal(a, b) for a, b in zip(before, slow.parameters(), strict=True))


# State means


@checked
@given(st.integers(2, 6), st.lists(st.integers(0, 5), min_size=1, max_size=20))
def test_state_means_are_means(n, states):
    states = torch.tensor(states) % n
    z = rows(len(states), 4)
    means, count = state_means(z, states, n)
    for y in range(n):
        mine = [z[i] for i in range(len(z)) if states[i] == y]
        assert count[y] == len(mine)
        wanted = torch.stack(mine).mean(0) if mine else torch.zeros(4)
        assert torch.allclose(means[y], wanted, atol=1e-6)


# Relaxing


def relax_naively(means: torch.Tensor, theta: torch.Tensor, actions, steps: int, *, kept: float = 0.5) -> torch.Tensor:
    """The definition: m(y) <- kept m(y) + (1 - kept) mean over k of R(k) m(y - k), with dense matrices."""
    n, rotation = len(means), BlockRotation(theta)
    m = means.double()
    for _ in range(steps):
        pulled = [sum(rotation.matrix(k).double() @ m[(y - k) % n] for k in actions) / len(actions) for y in range(n)]
        m = kept * m + (1 - kept) * torch.stack(pulled)
    norms = [t.double().unflatten(1, (-1, 2)).norm(dim=(0, 2)) for t in (means, m)]
    return (m.unflatten(1, (-1, 2)) * (norms[0] / norms[1])[:, None]).flatten(1)


@checked
@given(
    st.integers(2, 9),
    st.lists(st.integers(-8, 8), min_size=1, max_size=3, unique=True),
    st.sampled_from([0, 1, 2, 3, 7, 20]),
    st.integers(0, 99),
)
@example(10, [-1, 1], 20, 0)
@example(26, [-1, 1], 20, 0)
@example(9, [1], 5, 1)  # one way round only
@example(7, [-2, 1, 3], 4, 2)
def test_relaxing_is_its_definition_iterated(n, actions, steps, seed):
    theta = BlockRotation.random(6, generator=torch.Generator().manual_seed(seed)).angles.detach()
    theta = torch.cat((theta[:2], torch.tensor([2 * math.pi / n])))
    means = rows(n, 6, seed=seed)
    wanted = relax_naively(means, theta, actions, steps)
    assert torch.allclose(relax(means, theta, actions, steps).double(), wanted, atol=2e-3)


@pytest.mark.parametrize(("n", "actions"), [(10, (-1, 1)), (9, (-1, 1)), (5, (2,)), (26, (-1, 1, 7))])
def test_means_that_are_already_equivariant_stay(n, actions):
    rotation = BlockRotation.multi(12, n)
    origin = rows(12)
    means = torch.stack([rotation.act(origin, y) for y in range(n)])
    assert torch.allclose(relax(means, rotation.angles, actions, 50), means, atol=1e-3)
    disturbed = means + 0.3 * rows(n, 12, seed=1)
    relaxed = relax(disturbed, rotation.angles, actions, 50)
    off = [(torch.stack([rotation.act(m[0], y) for y in range(n)]) - m).abs().max() for m in (disturbed, relaxed)]
    assert off[1] < off[0] / 2, "and others come nearer to it"


@pytest.mark.parametrize("n", [5, 10, 26])
def test_each_plane_keeps_its_norm(n):
    means = rows(n, 8) * torch.tensor([1, 1, 5, 5, 0.1, 0.1, 2, 2])
    relaxed = relax(means, BlockRotation.multi(8, n).angles, (-1, 1), 20)
    before, after = (m.unflatten(1, (-1, 2)).norm(dim=(0, 2)) for m in (means, relaxed))
    assert torch.allclose(before, after, rtol=1e-3)
    assert not torch.allclose(means, relaxed, atol=0.1)


def test_a_plane_of_zeros_stays_finite():
    means = rows(10, 4)
    means[:, :2] = 0
    relaxed = relax(means, BlockRotation.multi(4, 10).angles, (-1, 1), 20)
    assert relaxed.isfinite().all()
    assert not relaxed[:, :2].any()


@pytest.mark.parametrize("steps", [19, 20])
def test_an_even_ring_does_not_split_into_two_halves(steps):
    """Without the half that is kept, states of even and of odd number agree among themselves only."""
    n, rotation = 10, BlockRotation.single(2, 10)
    turned_back = lambda m: torch.stack([rotation.act(m[y], -y) for y in range(n)])  # noqa: E731
    means = torch.stack([rotation.act(rows(2), y) * (1 if y % 2 else -1) for y in range(n)]) + 0.2 * rows(n, 2, seed=1)
    aligned = turned_back(relax(means, rotation.angles, (-1, 1), 40 * steps))
    assert torch.allclose(aligned, aligned[:1].expand(n, 2), atol=1e-2)
    split = turned_back(relax_naively(means, rotation.angles, (-1, 1), 40 * steps, kept=0).float())
    assert (split[0] - split[1]).abs().max() > 0.5, "the naive one without damping does split"


# The three targets

ROTATION = BlockRotation.multi(4, 5)


def moves(states: Tensor, next_states: Tensor) -> Batch:
    """A batch of which only the states matter."""
    nothing = torch.zeros(0)
    return Batch(nothing, states, nothing, next_states, None)


def test_sampled_targets_are_the_latents_of_the_next_states_themselves():
    z = rows(6, 2, 4)
    target, weight = Sampled()(z, moves(torch.zeros(6), torch.zeros(6, 2)), ROTATION)
    assert target is z
    assert weight is None
    assert Sampled.of_next_state


def test_batch_means_leave_out_states_that_the_batch_lacks():
    states = torch.tensor([0, 0, 1, 3, 3, 3])  # of 5 states, 2 and 4 are missing
    next_states = (states[:, None] + torch.tensor([-1, 1])) % 5
    z = rows(6, 4)
    target, weight = BatchMean(5)(z, moves(states, next_states), ROTATION)
    for i in range(6):
        for j in range(2):
            y = int(next_states[i, j])
            assert weight[i, j] == float(y in (0, 1, 3))
            if weight[i, j]:
                assert torch.allclose(target[i, j], z[states == y].mean(0), atol=1e-6)
    assert set(weight.flatten().tolist()) == {0.0, 1.0}


def relaxed_target(steps: int = 0) -> Relaxed:
    return Relaxed(5, 4, (-1, 1), steps, momentum=0.9)


def test_running_means_start_at_the_first_mean_and_then_move_by_the_momentum():
    target = relaxed_target()
    states = torch.tensor([0, 0, 2, 2])
    first, second = rows(4, 4), rows(4, 4, seed=1)
    target(first, moves(states, states[:, None]), ROTATION)
    assert torch.allclose(target.means[0], first[:2].mean(0), atol=1e-6)
    target(second, moves(torch.tensor([0, 0, 3, 3]), states[:, None]), ROTATION)
    assert torch.allclose(target.means[0], 0.9 * first[:2].mean(0) + 0.1 * second[:2].mean(0), atol=1e-6)
    assert torch.allclose(target.means[2], first[2:].mean(0), atol=1e-6), "absent from the second batch: unchanged"
    assert torch.allclose(target.means[3], second[2:].mean(0), atol=1e-6), "new: taken as it is"
    assert target.known.tolist() == [1, 0, 1, 1, 0]
    assert not target.means[1].any()


def test_running_means_do_not_move_in_eval_mode():
    target = relaxed_target().train()
    states = torch.arange(5)
    target(rows(5, 4), moves(states, states[:, None]), ROTATION)
    before = target.means.clone(), target.known.clone()
    target.eval()(rows(5, 4, seed=1), moves(states, states[:, None]), ROTATION)
    assert torch.equal(target.means, before[0])
    assert torch.equal(target.known, before[1])
    target.train()(rows(5, 4, seed=1), moves(states, states[:, None]), ROTATION)
    assert not torch.equal(target.means, before[0])


def test_relaxed_targets_are_the_relaxed_running_means_of_known_states():
    target = relaxed_target(steps=3)
    states = torch.tensor([0, 1, 2])  # 3 and 4 were never seen
    next_states = (states[:, None] + torch.tensor([-1, 1])) % 5
    got, weight = target(rows(3, 4), moves(states, next_states), ROTATION)
    wanted = relax_naively(target.means, ROTATION.angles, (-1, 1), 3)
    assert torch.allclose(got.double(), wanted[next_states], atol=1e-4)
    assert weight.tolist() == [[0, 1], [1, 1], [1, 0]]
    assert {"means", "known"} <= target.state_dict().keys(), "resuming needs them"


def test_tied_weights_move_once():
    encoder = nn.Sequential(nn.Linear(2, 2, bias=False), nn.Linear(2, 2, bias=False))
    encoder[1].weight = encoder[0].weight
    nn.init.zeros_(encoder[0].weight)
    slow = EMAEncoder(encoder, 0.75)
    nn.init.ones_(encoder[0].weight)
    slow.follow(encoder)
    assert slow.net[1].weight.unique().tolist() == [0.25]
