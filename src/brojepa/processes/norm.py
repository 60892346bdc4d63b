"""Batch norm over the whole batch, of which each process has a part. Tensor names do not change."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.modules.batchnorm import _BatchNorm

from brojepa.errors import RequestError
from brojepa.processes.group import count, rank, shared, total


class _Normalised(torch.autograd.Function):
    """x [batch, channels, ...] with mean 0 and variance 1 in each channel, over all processes; then weight and bias.

    With x' the normalised x and g the gradient of x', that of x is (g - mean of g - x' mean of (g x')) / std, the means
    again over all processes.
    """

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        others = [0, *range(2, x.ndim)]
        var, mean = torch.var_mean(x.float(), others, correction=0)
        size = mean.new_tensor([x.numel() / len(mean)])
        table = mean.new_zeros(count(), 2 * len(mean) + 1)
        table[rank()] = torch.cat((mean, var, size))
        means, variances, sizes = total(table).split((len(mean), len(mean), 1), 1)
        share = sizes / sizes.sum()
        mean = (means * share).sum(0)
        var = ((variances + (means - mean).square()) * share).sum(0)
        y = F.batch_norm(x, mean, var, weight, bias, False, 0.0, eps)
        ctx.save_for_backward(x, weight, mean, (var + eps).rsqrt(), sizes.sum())
        ctx.biased = bias is not None
        size = sizes.sum()
        ctx.mark_non_differentiable(mean, var, size)
        return y, mean, var, size

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor | None, Tensor | None, None]:
        x, weight, mean, scale, size = ctx.saved_tensors
        others, wide = [0, *range(2, x.ndim)], (1, -1, *(1,) * (x.ndim - 2))
        g = gradients[0].float()
        away = x.float() - mean.view(wide)
        bias_gradient = g.sum(others)
        weight_gradient = (g * away).sum(others) * scale
        sums = total(torch.cat((bias_gradient, weight_gradient))) / size
        level, along = sums.tensor_split(2)
        gain = scale if weight is None else scale * weight
        inner = torch.addcmul(g - level.view(wide), away, (-along * scale).view(wide))
        return (
            (inner * gain.view(wide)).to(x.dtype),
            None if weight is None else weight_gradient,
            bias_gradient if ctx.biased else None,
            None,
        )


class _Whole(_BatchNorm):
    """Batch norm that uses the statistics of the whole batch while a batch is shared out in training."""

    def forward(self, input: Tensor) -> Tensor:
        if not (shared() and (self.training or self.running_mean is None)):
            return super().forward(input)
        self._check_input_dim(input)
        y, mean, var, size = _Normalised.apply(input, self.weight, self.bias, self.eps)  # pyright: ignore
        if self.training and self.running_mean is not None and self.running_var is not None:
            assert self.num_batches_tracked is not None
            self.num_batches_tracked.add_(1)
            step = 1 / self.num_batches_tracked if self.momentum is None else self.momentum
            with torch.no_grad():
                self.running_mean.lerp_(mean, step)
                self.running_var.lerp_(var * (size / (size - 1)), step)
        return y


WHOLE: dict[type[nn.Module], type[nn.Module]] = {
    kind: type(f"Whole{kind.__name__}", (_Whole, kind), {})
    for kind in (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)
}  # fmt: skip


def whole_batches(model: nn.Module) -> None:
    """Make the batch norms of a model use whole batches, if several processes share them out."""
    if count() == 1:
        return
    for name, module in model.named_modules():
        if type(module) in WHOLE:
            module.__class__ = WHOLE[type(module)]
        elif isinstance(module, _BatchNorm) and not isinstance(module, _Whole):
            raise RequestError(
                f"{name} is a {type(module).__name__}, which knows its own part of a batch alone: in several processes "
                "use nn.BatchNorm1d, 2d or 3d, or train in one process"
            )
