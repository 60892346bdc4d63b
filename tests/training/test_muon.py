"""Muon against singular values, against a step written out in NumPy, and for which parameters it is."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from conftest import one_line
from torch import nn

from brojepa.models import Task, build
from brojepa.presets import preset
from brojepa.training import optimiser
from brojepa.training.muon import Muon, orthogonalised
from brojepa.worlds import open_world


@pytest.mark.parametrize("shape", [(24, 16), (16, 24), (48, 216), (1, 9), (9, 1), (5, 5)])
def test_singular_values_come_near_1_and_the_directions_stay(shape):
    matrix = torch.randn(shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    u, s, vt = torch.linalg.svd(matrix, full_matrices=False)
    got = orthogonalised(matrix)
    in_directions = u.T @ got @ vt.T
    values = in_directions.diagonal()
    assert torch.allclose(in_directions, torch.diag(values), atol=1e-9), "U and V are those of the matrix"
    clear = s / s.norm() > 0.02  # values that start near 0 need more iterations
    assert bool((values[clear] > 0.6).all())
    assert bool((values < 1.3).all())


def test_no_gradient_moves_nothing():
    assert orthogonalised(torch.zeros(3, 4)).abs().max() == 0


def test_two_steps_are_those_of_the_formula():
    g = torch.Generator().manual_seed(0)
    weight = nn.Parameter(torch.randn(6, 2, 1, 2, generator=g, dtype=torch.float64))
    bias = nn.Parameter(torch.randn(6, generator=g, dtype=torch.float64))
    groups = [{"params": [weight], "matrices": True, "lr": 0.1, "weight_decay": 0.5}, {"params": [bias], "lr": 0.01}]
    both, alone = Muon(groups, lr=0.01), nn.Parameter(bias.detach().clone())
    adamw = torch.optim.AdamW([alone], lr=0.01)
    w, momentum = weight.detach().numpy().reshape(6, 4).copy(), np.zeros((6, 4))
    for _ in range(2):
        weight.grad = torch.randn(weight.shape, generator=g, dtype=torch.float64)
        bias.grad = torch.randn(6, generator=g, dtype=torch.float64)
        alone.grad = bias.grad.clone()
        gradient = weight.grad.numpy().reshape(6, 4)
        both.step()
        adamw.step()
        momentum = 0.9 * momentum + gradient
        ahead = (gradient + 0.9 * momentum).T
        x = ahead / np.linalg.norm(ahead)
        for _ in range(5):
            a = x @ x.T
            x = 3.4445 * x + (-4.7750 * a + 2.0315 * a @ a) @ x
        w = w * (1 - 0.1 * 0.5) - 0.1 * (6 / 4) ** 0.5 * x.T
    assert np.allclose(weight.detach().numpy().reshape(6, 4), w, atol=1e-12)
    assert torch.equal(bias, alone), "all else is AdamW's"


def test_large_matrices_are_orthogonalised_in_the_encoders_precision_and_small_ones_are_not():
    for shape, large in (((256, 300), True), ((255, 300), False)):
        gradient = torch.randn(shape, generator=torch.Generator().manual_seed(0))
        moved = []
        for precision in (torch.float32, torch.bfloat16):
            weight = nn.Parameter(torch.zeros(shape))
            weight.grad = gradient.clone()
            Muon([{"params": [weight], "matrices": True, "weight_decay": 0.0}], precision, lr=1.0).step()
            assert weight.dtype == torch.float32
            moved.append(weight.detach())
        assert torch.equal(*moved) is not large
        values = [torch.linalg.svdvals(m) for m in moved]
        assert float((values[0] - values[1]).abs().max()) < 0.05
        assert float(nn.functional.cosine_similarity(*(m.flatten() for m in moved), dim=0)) > 0.999


def test_only_the_encoders_matrices_are_moved_by_muon(digits):
    config = preset("mnist/fast").replace(optimiser="muon")
    model = build(config, Task.of(open_world(str(digits))), torch.Generator().manual_seed(0))
    made, rates = optimiser.optimizer(model, config)
    of = {id(p): name for name, p in model.named_parameters()}
    matrices = {of[id(p)] for group in made.param_groups if group["matrices"] for p in group["params"]}
    assert matrices == {n for n, p in model.encoder.named_parameters(prefix="encoder") if p.ndim > 1}
    assert sorted(of.values()) == sorted(of[id(p)] for group in made.param_groups for p in group["params"])
    assert rates == pytest.approx([5e-3, 5e-2, 5e-3, 5e-2])


def test_an_unknown_optimiser_is_one_line(cli):
    assert "muon" in one_line(cli("train", "mnist/fast", "--optimiser", "muno"), 2)
