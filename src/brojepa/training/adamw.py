"""AdamW as torch computes it, with little around its kernel: a small network's step is short, and what torch's own
`step` and `zero_grad` do beside the kernel is a tenth of it. The numbers and the state are the same.

Parameters stay tensors of their own. In one flat tensor some of their last elements would be computed by the vector
part of the kernel and not by its scalar part, and their squares would differ in the last bit.
"""

from __future__ import annotations

from typing import Any

import torch


class AdamW(torch.optim.AdamW):
    """One call of the fused kernel per group of parameters, which count their steps together. It has no options but
    rate, decay, betas and eps."""

    def zero_grad(self, set_to_none: bool = True) -> None:
        for group in self.param_groups:
            for parameter in group["params"]:
                parameter.grad = None

    def step(self, closure: Any = None) -> None:
        with torch.no_grad():
            for group in self.param_groups:
                self._move(group)

    def _move(self, group: dict[str, Any]) -> None:
        if not group["fused"] or len({p.dtype for p in group["params"]}) > 1:
            self._move_by_torch(group)
            return
        moved = [p for p in group["params"] if p.grad is not None]
        if not moved:
            return
        states = [self.state[p] for p in moved]
        if not all(states):
            none = torch.zeros((), device=moved[0].device)
            for p, state in zip(moved, states, strict=True):
                if not state:
                    state |= {"step": none, "exp_avg": torch.zeros_like(p), "exp_avg_sq": torch.zeros_like(p)}
        steps, means, squares = ([state[name] for state in states] for name in ("step", "exp_avg", "exp_avg_sq"))
        for step in {id(step): step for step in steps}.values():
            step.add_(1)
        beta1, beta2 = group["betas"]
        torch._fused_adamw_(  # pyright: ignore[reportPrivateImportUsage]
            moved, [p.grad for p in moved], means, squares, [], steps, amsgrad=False, lr=group["lr"], beta1=beta1,
            beta2=beta2, weight_decay=group["weight_decay"], eps=group["eps"], maximize=False,
        )  # fmt: skip

    def _move_by_torch(self, group: dict[str, Any]) -> None:
        every, self.param_groups = self.param_groups, [group]
        try:
            super().step()
        finally:
            self.param_groups = every
