"""Twenty steps of small models, in however many processes this is started: losses, gradients and weights of each.

torchrun --nproc-per-node 2 stepped.py DIRECTORY
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

sys.path.insert(0, str(Path(__file__).parent))

from helpers import blobs, config

from brojepa import processes
from brojepa.training import Learner
from brojepa.worlds import World
from brojepa.worlds.poses import PoseWorld

STEPS = 20
SEEN = (0, 9, STEPS - 1)  # steps whose gradients are kept
CNN: dict[str, Any] = {"encoder": "cnn", "lr": 3e-5}
"""AdamW makes whole steps of gradients that are rounding errors, so a CNN in one process parts from itself where the
rows of its batches are permuted: the faster, the larger the rate."""
KINDS: dict[str, dict[str, Any]] = {
    "vicreg, ema": {},
    "vicreg, learned angles": {"action": "mfr-learned", "variance": 25.0, "covariance": 1.0, "probe_lr": 3.0},
    "sigreg": {"regulariser": "sigreg"},
    "mean": {"target": "mean", "target_encoder": "stop-gradient"},
    "relaxed": {"target": "relaxed", "every_action": True, "lr": 1e-4},
    "shared": {"target_encoder": "shared"},
    "supervised": {"method": "supervised"},
    "consistency": {"action": "additive", "consistency": 0.1},
    "cnn, vicreg, ema": CNN,
    "cnn, sigreg": {**CNN, "regulariser": "sigreg", "shift": 1},
    "cnn, mean": {**CNN, "target": "mean", "target_encoder": "stop-gradient", "warp": 0.1},
    "cnn, relaxed": {**CNN, "target": "relaxed"},
    "cnn, shared": {**CNN, "target_encoder": "shared"},
    "orbits": {"target": "relaxed", "views": 4, "train_actions": (-1, 1), "lr": 1e-4},
    "own": {"encoder": "stepped:encoder", "regulariser": "stepped:Spread"},
}
DROPOUT: dict[str, dict[str, Any]] = {"dropout": {"encoder": "stepped:dropping", "regulariser": "sigreg"}}
"""Draws other numbers in several processes than in one, so it is compared between the processes alone."""


def encoder(shape: tuple[int, int, int], dim: int) -> nn.Module:
    """Batch norm of three kinds: without weights, with a cumulative mean, without running statistics."""
    return nn.Sequential(
        nn.Conv2d(shape[0], 4, 3, bias=False), nn.BatchNorm2d(4, affine=False), nn.ReLU(), nn.Flatten(),
        nn.Linear(4 * (shape[1] - 2) * (shape[2] - 2), 16, bias=False), nn.BatchNorm1d(16, momentum=None), nn.ReLU(),
        nn.Linear(16, dim, bias=False), nn.BatchNorm1d(dim, track_running_stats=False),
    )  # fmt: skip


def dropping(shape: tuple[int, int, int], dim: int) -> nn.Module:
    return nn.Sequential(
        nn.Flatten(), nn.Dropout(), nn.Linear(shape[0] * shape[1] * shape[2], dim), nn.BatchNorm1d(dim)
    )


class Spread(nn.Module):
    """A regulariser that knows nothing of processes."""

    def forward(self, z: Tensor) -> dict[str, tuple[float, Tensor]]:
        return {"spread": (5.0, (1 - z.std(0)).relu().mean())}


def world(kind: str) -> World:
    if kind != "orbits":
        return blobs(count=60)
    thing, pose = np.repeat(np.arange(4), 12), np.tile(np.arange(12), 4)
    images = np.random.default_rng(0).integers(0, 256, (48, 8, 8), dtype=np.uint8)
    return PoseWorld.from_arrays("turntable", images, thing, pose, "Z12")


def stepped(kind: str, **changes: Any) -> dict[str, Any]:
    """The terms of every step, the gradients of the first, the tenth and the last, and the state after it."""
    values = {"batch_size": 37, "lr": 1e-3, **(KINDS | DROPOUT)[kind], **changes}  # 37 is shared out unevenly
    learner = Learner(config(**values), world(kind), seed=3, device="cpu")
    draw = learner.transitions.draw(learner.generator)
    learner.model.train()
    terms, gradients = [], {}
    for step in range(STEPS):
        learner.step = step % learner.steps
        start = learner.step * learner.batch_size
        learner.learn(learner.transitions.batch(draw, start, start + learner.batch_size))
        terms.append(learner.log[learner.step].clone())
        if step in SEEN:
            named = learner.model.named_parameters()
            gradients[step] = {name: p.grad.clone() for name, p in named if p.grad is not None}
    return {
        "terms": dict(zip(learner.term_names, torch.stack(terms).T, strict=True)),
        "gradients": gradients,
        "state": learner.model.state_dict(),
        "validation": learner.validate(),
    }


if __name__ == "__main__":
    torch.set_num_threads(1)
    with processes.joined("cpu"):
        done = {kind: stepped(kind) for kind in KINDS | DROPOUT}
        torch.save(done, Path(sys.argv[1]) / f"{processes.rank()}.pt")
