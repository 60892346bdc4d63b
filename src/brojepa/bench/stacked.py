"""Seeds stacked in one process: every parameter gets a leading dimension of seeds, and `torch.func` maps the
objective over it. One of the two ways that the benchmark `seeds` tries; encoders without convolutions only.
"""

from __future__ import annotations

import time
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap

from brojepa.bench.measured import synchronise
from brojepa.bench.stepping import Stepper
from brojepa.config import Config
from brojepa.models import JEPA, Model
from brojepa.worlds import Batch, open_world


class Objective(nn.Module):
    """A model's objective as its forward pass, the form that `functional_call` takes."""

    def __init__(self, model: Model) -> None:
        super().__init__()
        self.model = model

    def forward(self, *batch: Tensor | None) -> Tensor:
        terms = self.model.objective(Batch(*batch))  # pyright: ignore[reportArgumentType]
        return terms["loss"] + terms["probe"]


class Stack:
    """Seeds trained in step: their parameters and buffers stacked, one optimiser, one backward pass."""

    def __init__(self, seeds: list[Stepper]) -> None:
        self.seeds, first = seeds, seeds[0]
        assert isinstance(first.model, JEPA), "the benchmark's preset"
        self.decay = first.model.slow.decay if first.model.slow else None
        states = [seed.model.state_dict() for seed in seeds]
        stacked = {name: torch.stack([state[name] for state in states]) for name in states[0]}
        own = dict(first.model.named_parameters())
        self.parameters = {name: stacked[name].requires_grad_(p.requires_grad) for name, p in own.items()}
        self.buffers = {name: t for name, t in stacked.items() if name not in own}
        self.optimizer = self._optimizer({id(p): self.parameters[name] for name, p in own.items()})
        self.objective = Objective(first.model)

    def _optimizer(self, stacked_of: dict[int, Tensor]) -> torch.optim.AdamW:
        """AdamW works on single numbers, so stacked groups do what the seeds' own would do."""
        groups = []
        for group, rate in zip(self.seeds[0].optimizer.param_groups, self.seeds[0].rates, strict=True):
            groups.append({**group, "lr": rate, "params": [stacked_of[id(p)] for p in group["params"]]})
        return torch.optim.AdamW(groups)

    def step(self) -> None:
        batches = []
        for seed in self.seeds:
            start = seed.step * seed.batch_size
            batches.append(seed.transitions.batch(seed.drawn, start, start + seed.batch_size))
            seed.step += 1
        columns = [[getattr(b, name) for b in batches] for name in ("images", "states", "k", "next_states", "targets")]
        stacked = [torch.stack(column) if column[0] is not None else None for column in columns]
        state = {f"model.{name}": t for name, t in (*self.parameters.items(), *self.buffers.items())}
        dims = (0, *(0 if part is not None else None for part in stacked))
        losses = vmap(lambda s, *b: functional_call(self.objective, s, b), in_dims=dims)(state, *stacked)
        self.optimizer.zero_grad()
        losses.sum().backward()
        self.optimizer.step()
        if self.decay is not None:
            self._follow(self.decay)

    @torch.no_grad()
    def _follow(self, decay: float) -> None:
        """The slow copies, as `EMAEncoder.follow` moves one."""
        state = {**self.parameters, **self.buffers}
        for name, slow in state.items():
            if name.startswith("slow.net."):
                slow.lerp_(state["encoder." + name.removeprefix("slow.net.")], 1 - decay)

    def unstack(self) -> None:
        """Give every seed its own state back."""
        state = {**self.parameters, **self.buffers}
        for i, seed in enumerate(self.seeds):
            seed.model.load_state_dict({name: t[i] for name, t in state.items()})


def train(config: dict[str, Any], seeds: int, device: str) -> dict[str, Any]:
    """Train seeds 0, 1, ... together; the seconds of it, and each seed's validation loss after the last epoch."""
    made = Config.from_dict(config)
    world = open_world(made.world)
    stack = Stack([Stepper(made, world, device, seed) for seed in range(seeds)])
    losses: list[float] = []
    begun = time.perf_counter()
    for epoch in range(made.epochs):
        for seed in stack.seeds:
            seed.step = 0
            if epoch:
                seed.drawn = seed.transitions.draw(seed.generator)
        for _ in range(stack.seeds[0].steps):
            stack.step()
        stack.unstack()
        losses = [seed.validation()["validation_loss"] for seed in stack.seeds]
    synchronise(stack.seeds[0].device)
    return {"seconds": time.perf_counter() - begun, "validation_losses": losses}
