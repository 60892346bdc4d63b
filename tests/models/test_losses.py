"""Every loss against a reference in NumPy loops, its gradient against finite differences."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from helpers import checked
from hypothesis import given
from hypothesis import strategies as st

from brojepa.models import losses

shapes = st.tuples(st.integers(2, 12), st.integers(2, 7))


def rows(*shape: int, seed: int = 0) -> torch.Tensor:
    """Rows in float64, dimensions of different spread and correlated, none of zero mean."""
    rng = np.random.default_rng(seed)
    mix = rng.normal(size=(shape[-1], shape[-1]))
    return torch.from_numpy(0.4 * rng.normal(size=shape) @ mix + rng.normal(size=shape[-1]))


def variance(z: torch.Tensor) -> torch.Tensor:
    return losses.variance(losses.sample_covariance(z))


def covariance(z: torch.Tensor, scale: losses.CovarianceScale = "mean") -> torch.Tensor:
    return losses.covariance(losses.sample_covariance(z), scale)


def invariance_by_loops(p: np.ndarray, t: np.ndarray, weight: np.ndarray | None = None) -> float:
    total = count = 0.0
    for place in np.ndindex(p.shape[:-1]):
        w = 1.0 if weight is None else weight[place]
        total += w * sum((p[place][i] - t[place][i]) ** 2 for i in range(p.shape[-1])) / p.shape[-1]
        count += w
    return total / max(count, 1)


def variance_by_loops(z: np.ndarray) -> float:
    hinges = [max(0.0, 1 - (z[:, i].var(ddof=1) + 1e-4) ** 0.5) for i in range(z.shape[1])]
    return sum(hinges) / len(hinges)


def covariance_by_loops(z: np.ndarray, scale: str) -> float:
    cov = np.cov(z, rowvar=False)
    dim = z.shape[1]
    total = sum(cov[i, j] ** 2 for i in range(dim) for j in range(dim) if i != j)
    return total / {"mean": dim * (dim - 1), "dim": dim}[scale]


@checked
@given(shapes, st.integers(0, 99))
def test_losses_equal_their_numpy_references(shape, seed):
    z, t = rows(*shape, seed=seed), rows(*shape, seed=seed + 100)
    assert float(losses.invariance(z, t)) == pytest.approx(invariance_by_loops(z.numpy(), t.numpy()))
    assert float(variance(z)) == pytest.approx(variance_by_loops(z.numpy()))
    for scale in ("mean", "dim"):
        wanted = covariance_by_loops(z.numpy(), scale)
        assert float(covariance(z, scale)) == pytest.approx(wanted)


@checked
@given(shapes, st.integers(0, 99))
def test_the_two_covariance_scales_differ_by_the_dimension_less_one(shape, seed):
    z = rows(*shape, seed=seed)
    ratio = float(covariance(z, "dim") / covariance(z, "mean"))
    assert ratio == pytest.approx(shape[1] - 1)
    cov = losses.sample_covariance(z)
    assert torch.equal(losses.covariance(cov), losses.covariance(cov, "mean")), "the mean is the default"


@checked
@given(st.integers(1, 6), st.integers(1, 3), st.integers(1, 5), st.data())
def test_weighted_invariance_leaves_rows_out(batch, actions, dim, data):
    weight = np.array(data.draw(st.lists(st.booleans(), min_size=batch * actions, max_size=batch * actions)), float)
    weight = weight.reshape(batch, actions)
    z, t = rows(batch, actions, dim), rows(batch, actions, dim, seed=1)
    got = losses.invariance(z, t, torch.from_numpy(weight))
    assert float(got) == pytest.approx(invariance_by_loops(z.numpy(), t.numpy(), weight))
    z.requires_grad_()
    losses.invariance(z, t, torch.from_numpy(weight)).backward()
    assert torch.equal(z.grad.abs().sum(-1) > 0, torch.from_numpy(weight) > 0)


def test_weights_of_one_change_nothing():
    z, t = rows(4, 2, 3), rows(4, 2, 3, seed=1)
    assert torch.allclose(losses.invariance(z, t, torch.ones(4, 2)), losses.invariance(z, t))


@pytest.mark.parametrize(
    "loss",
    [
        lambda z: losses.invariance(z, rows(7, 4, seed=9)),
        lambda z: losses.invariance(z, rows(7, 4, seed=9), torch.tensor([1.0, 0, 1, 1, 0, 1, 1]).double()),
        variance,
        lambda z: covariance(z, "mean"),
        lambda z: covariance(z, "dim"),
    ],
    ids=["invariance", "weighted", "variance", "covariance-mean", "covariance-dim"],
)
def test_gradients_are_those_of_finite_differences(loss):
    z = rows(7, 4).requires_grad_()
    loss(z).backward()
    at, numeric, h = z.detach(), torch.zeros_like(z), 1e-6
    for place in np.ndindex(*at.shape):
        step = torch.zeros_like(at)
        step[place] = h
        numeric[place] = (loss(at + step) - loss(at - step)) / (2 * h)
    assert z.grad.abs().max() > 1e-3
    assert torch.allclose(z.grad, numeric, rtol=1e-5, atol=1e-8)


def test_variance_is_zero_once_every_dimension_is_spread_and_one_where_none_is():
    spread = torch.randn(200, 5, generator=torch.Generator().manual_seed(0)) * 2
    assert float(variance(spread)) == 0
    half = spread.clone()
    half[:, :1] = 3.0
    assert float(variance(half)) == pytest.approx((1 - 1e-2) / 5, rel=1e-5)
    assert float(variance(torch.full((9, 5), 7.0))) == pytest.approx(1 - 1e-2), "std is sqrt(eps) there"


def test_variance_pushes_a_collapsed_dimension_apart():
    """The eps inside the root is what lets a nearly constant dimension have a gradient, and a finite one."""
    z = (1e-3 * rows(20, 3)).requires_grad_()
    variance(z).backward()
    assert torch.isfinite(z.grad).all()
    with torch.no_grad():
        assert variance(z - 0.01 * z.grad) < variance(z)


def test_covariance_is_zero_for_decorrelated_dimensions_however_spread():
    z = torch.tensor([[1.0, 3.0], [1.0, -3.0], [-1.0, 3.0], [-1.0, -3.0]]) + torch.tensor([5.0, -2.0])
    assert float(covariance(z)) == pytest.approx(0, abs=1e-12)
    repeated = z[:, [0, 0]]
    assert float(covariance(repeated)) == pytest.approx((4 / 3) ** 2), "two copies: their variance squared"


def test_all_losses_ignore_where_the_cloud_lies_but_not_its_scale():
    z, t = rows(8, 3), rows(8, 3, seed=1)
    for loss in (variance, covariance):
        assert torch.allclose(loss(z + 100), loss(z), rtol=1e-6)
    assert torch.allclose(losses.invariance(z + 3, t + 3), losses.invariance(z, t))
    assert torch.allclose(covariance(2 * z), 16 * covariance(z))
    assert torch.allclose(losses.invariance(2 * z, 2 * t), 4 * losses.invariance(z, t))
