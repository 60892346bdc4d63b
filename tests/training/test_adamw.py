"""The optimiser against torch's own: the same bits, also where parameters begin late, and after a checkpoint."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from brojepa.runs.checkpoint import optimizer_tensors, restore_optimizer
from brojepa.training.adamw import AdamW

SIZES = ((7,), (33, 5), (16, 3, 4, 4), ())


def pair(kinds=(torch.float32,) * 4) -> tuple[list[nn.Parameter], list[nn.Parameter], torch.optim.Optimizer, AdamW]:
    """The same parameters twice, under torch's optimiser and under ours."""
    g = torch.Generator().manual_seed(0)
    ours = [nn.Parameter(torch.randn(s, generator=g).to(k)) for s, k in zip(SIZES, kinds, strict=True)]
    theirs = copy.deepcopy(ours)
    made = []
    for kind, parameters in ((torch.optim.AdamW, theirs), (AdamW, ours)):
        few, more = parameters[:1], parameters[1:]
        groups = [{"params": few, "lr": 0.1, "weight_decay": 0.0}, {"params": more, "betas": (0.8, 0.9)}]
        made.append(kind(groups, lr=0.01, fused=True))
    return theirs, ours, *made


def step(theirs, ours, reference, optimiser, seed: int, without: int | None = None) -> None:
    g = torch.Generator().manual_seed(seed)
    for i, (a, b) in enumerate(zip(theirs, ours, strict=True)):
        gradient = torch.randn(a.shape, generator=g).to(a.dtype)
        a.grad, b.grad = (None, None) if i == without else (gradient.clone(), gradient.clone())
    reference.step()
    optimiser.step()
    assert all(torch.equal(a, b) for a, b in zip(theirs, ours, strict=True))


@pytest.mark.parametrize("second", [torch.float32, torch.float64])
def test_steps_are_torchs_to_the_last_bit(second):
    both = pair((torch.float32, torch.float32, second, torch.float32))
    step(*both, seed=1, without=2)
    for seed in (2, 3, 4):
        step(*both, seed=seed)
    reference, optimiser = both[2:]
    for mine, theirs in zip(*(optimizer_tensors(o).items() for o in (optimiser, reference)), strict=True):
        assert mine[0] == theirs[0]
        assert torch.equal(mine[1], theirs[1]), mine[0]
    optimiser.zero_grad()
    assert all(p.grad is None for p in both[1])


def test_it_goes_on_from_a_checkpoint_and_from_one_of_torchs():
    theirs, ours, reference, optimiser = pair()
    step(theirs, ours, reference, optimiser, seed=1)
    for seed, source in ((2, optimiser), (3, reference)):
        restore_optimizer(optimiser, {name: t.clone() for name, t in optimizer_tensors(source).items()})
        step(theirs, ours, reference, optimiser, seed)


def test_no_gradients_move_nothing():
    _, ours, _, optimiser = pair()
    before = copy.deepcopy(ours)
    optimiser.step()
    assert all(torch.equal(a, b) for a, b in zip(before, ours, strict=True))
