"""SIGReg: the statistic against its definition and its closed form, and runs with it: seeded, resumed, exact."""

from __future__ import annotations

import signal

import numpy as np
import pytest
import torch
from helpers import batch, checked, model
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad
from small_runs import same_run

from brojepa.errors import Interrupted
from brojepa.models import SIGReg
from brojepa.models.losses import epps_pulley
from brojepa.runs import checkpoint
from brojepa.training import Callback, train


def by_quadrature(x: np.ndarray) -> float:
    """The integral of |empirical characteristic function - exp(-t^2 / 2)|^2 exp(-t^2 / 2), one column."""

    def integrand(t: float) -> float:
        return abs(np.exp(1j * t * x).mean() - np.exp(-(t**2) / 2)) ** 2 * np.exp(-(t**2) / 2)

    return quad(integrand, -12, 12, limit=400, epsabs=1e-11)[0]


def closed_form(x: np.ndarray) -> float:
    """The same integral, term by term: sums of Gaussians of differences and of values."""
    n, gaps = len(x), x[:, None] - x
    pairs = np.exp(-(gaps**2) / 2).sum() / n**2
    return np.sqrt(2 * np.pi) * (pairs - 2 / n * np.exp(-(x**2) / 4).sum() / np.sqrt(2) + 1 / np.sqrt(3))


def sample(rows: int, columns: int = 1, seed: int = 0) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(seed).normal(size=(rows, columns)))


@pytest.mark.parametrize("rows", [2, 5, 64, 300])
@pytest.mark.parametrize(
    "change", [lambda x: x, lambda x: 2 * x + 1, lambda x: 0.3 * x - 2, lambda x: 0 * x, lambda x: x**3 / 3]
)
def test_the_statistic_is_its_definition(rows, change):
    x = change(sample(rows, 3))
    wanted = np.mean([by_quadrature(column) for column in x.T.numpy()])
    assert np.mean([closed_form(column) for column in x.T.numpy()]) == pytest.approx(wanted, rel=1e-6)
    assert float(epps_pulley(x, knots=2001, reach=12.0)) == pytest.approx(wanted, rel=1e-4)
    assert float(epps_pulley(x)) == pytest.approx(wanted, rel=0.02, abs=1e-4), "17 knots are enough"


@checked
@given(st.integers(2, 40), st.integers(1, 5), st.integers(0, 99))
def test_rows_columns_and_signs_have_no_order(rows, columns, seed):
    x, g = sample(rows, columns, seed), torch.Generator().manual_seed(seed)
    value = float(epps_pulley(x))
    assert value >= 0
    assert float(epps_pulley(-x)) == pytest.approx(value)
    assert float(epps_pulley(x[torch.randperm(rows, generator=g)])) == pytest.approx(value)
    assert float(epps_pulley(x[:, torch.randperm(columns, generator=g)])) == pytest.approx(value)
    assert float(epps_pulley(torch.cat((x, x)))) == pytest.approx(value), (
        "the same rows twice are the same distribution"
    )


def test_it_is_smallest_for_a_standard_normal_and_grows_with_every_departure():
    x = sample(2000, 16)
    plain = float(epps_pulley(x))
    assert plain == pytest.approx(np.sqrt(2 * np.pi) * (1 - 1 / np.sqrt(3)) / 2000, rel=0.3), "its expectation"
    for worse in (
        [a * x for a in (1.2, 1.6, 2.5, 5)], [a * x for a in (0.85, 0.6, 0.3, 0)], [x + a for a in (0.2, 0.5, 1, 2)],
        [x.sign() * (1 - a) + x * a for a in (0.6, 0.3, 0)],
    ):  # fmt: skip
        values = [float(epps_pulley(y)) for y in worse]
        assert plain < values[0]
        assert values == sorted(values)


def test_its_gradient_is_that_of_finite_differences():
    for knots, reach in ((17, 5.0), (5, 2.0)):
        x = sample(6, 3).requires_grad_()
        assert torch.autograd.gradcheck(lambda x: epps_pulley(x, knots, reach), (x,), eps=1e-6, atol=1e-6)  # noqa: B023


def test_descending_it_makes_collapsed_latents_gaussian():
    torch.manual_seed(0)
    z = (0.05 * torch.randn(256, 4) + torch.tensor([1.0, 0.0, -1.0, 2.0])).requires_grad_()
    optimizer, term = torch.optim.Adam([z], lr=0.05), SIGReg(directions=64)
    for _ in range(300):
        optimizer.zero_grad()
        term(z)["sigreg"][1].backward()
        optimizer.step()
    z = z.detach()
    assert z.mean(0).abs().max() < 0.15
    assert (torch.cov(z.T) - torch.eye(4)).abs().max() < 0.3


def test_it_draws_new_directions_from_the_generator_and_looks_along_all():
    z, term = sample(50, 6).float(), SIGReg(weight=3.0)
    torch.manual_seed(1)
    first, second = (term(z)["sigreg"] for _ in range(2))
    torch.manual_seed(1)
    again = term(z)["sigreg"]
    assert first[0] == 3.0
    assert torch.equal(first[1], again[1])
    assert first[1] != second[1]
    turn = torch.linalg.qr(torch.from_numpy(np.random.default_rng(1).normal(size=(6, 6))).float()).Q
    many = SIGReg(directions=4000)
    for one, two in ((z, z @ turn), (z * torch.arange(6), z * torch.arange(6) @ turn)):
        assert float(many(one)["sigreg"][1]) == pytest.approx(float(many(two)["sigreg"][1]), rel=0.1)


def test_its_weight_is_in_the_loss():
    torch.manual_seed(0)
    terms = model(regulariser="sigreg", sigreg=4.0).objective(batch())
    assert terms.keys() >= {"loss", "invariance", "sigreg"}
    assert "variance" not in terms
    assert torch.allclose(terms["loss"], 25 * terms["invariance"] + 4 * terms["sigreg"])


# Runs


class Stop(Callback):
    def __init__(self, at: int) -> None:
        self.at = at

    def step(self, training):
        if training.epoch * training.steps + training.step == self.at:
            signal.raise_signal(signal.SIGINT)


@pytest.mark.parametrize("kind", [{}, {"regularise": "context", "target_encoder": "shared"}])
def test_a_run_is_a_function_of_its_seed_and_leaves_the_users_generator(kind, small, tmp_path):
    config = small(regulariser="sigreg", epochs=2, **kind)
    torch.manual_seed(1)
    before = torch.get_rng_state()
    one = train(config, out=tmp_path / "one", device="cpu")
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(2)
    same_run(one, train(config, out=tmp_path / "two", device="cpu"))
    for cut in (1, 3, 4, 6):
        torch.manual_seed(cut)
        with pytest.raises(Interrupted):
            train(config, out=tmp_path / "cut", device="cpu", callbacks=[Stop(cut)])
    same_run(one, train(config, out=tmp_path / "cut", device="cpu"))


def test_other_seeds_and_steps_draw_other_directions(small, tmp_path, monkeypatch):
    drawn: list[torch.Tensor] = []
    plain = SIGReg.forward

    def forward(self, z):
        drawn.append(torch.randn(3, generator=torch.default_generator.clone_state()))
        return plain(self, z)

    monkeypatch.setattr(SIGReg, "forward", forward)
    for seed in (0, 1):
        train(small(regulariser="sigreg", epochs=2), seed=seed, out=tmp_path, device="cpu")
    assert len(drawn) == 2 * (2 * 4 + 2), "a draw for each step and each validation"
    assert len({tuple(d.tolist()) for d in drawn}) == len(drawn)


def test_the_state_of_a_run_with_it_holds_nothing_more(small, tmp_path):
    runs = [train(small(regulariser=r, epochs=1), out=tmp_path, device="cpu") for r in ("vicreg", "sigreg")]
    one, two = (checkpoint.load(run.state_file)[0].keys() for run in runs)
    assert one == two
    assert runs[0].path != runs[1].path
    assert [set(run.metrics[0]) & {"variance", "sigreg"} for run in runs] == [{"variance"}, {"sigreg"}]
