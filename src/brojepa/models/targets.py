"""Targets: the latents that predictions are regressed on, without gradient.

Two choices. Which encoder computes them: `EMAEncoder`, an exponential moving average of the encoder, or the encoder
itself with the gradient stopped. And which images: one of the next state (`Sampled`, the paper's), the mean over
those in the batch (`BatchMean`), or a running mean of each state, relaxed along the training actions (`Relaxed`);
if states are poses, a mean over the views of a thing that training actions connect (`OrbitMean`).
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from brojepa.errors import RequestError
from brojepa.groups import Group
from brojepa.models.actions import LatentAction
from brojepa.worlds import Batch


class EMAEncoder(nn.Module):
    """A target encoder: an exponential moving average of the encoder.

    Buffers are averaged too, because batch norm statistics must match the averaged weights.

    Args:
        encoder: the encoder to follow; it is copied.
        decay: share of the old weights that each step keeps, 0 to 1.

    Examples:
        >>> import brojepa
        >>> from torch import nn
        >>> encoder = nn.Linear(2, 1, bias=False)
        >>> nn.init.zeros_(encoder.weight).sum().item()
        0.0
        >>> slow = brojepa.EMAEncoder(encoder, decay=0.75)
        >>> _ = nn.init.ones_(encoder.weight)
        >>> slow.follow(encoder)
        >>> slow.net.weight.tolist()
        [[0.25, 0.25]]
    """

    def __init__(self, encoder: nn.Module, decay: float) -> None:
        super().__init__()
        self.net = copy.deepcopy(encoder).requires_grad_(False)
        self.decay = decay

    @torch.no_grad()
    def follow(self, encoder: nn.Module) -> None:
        """Move the average one step towards the encoder.

        Args:
            encoder: the encoder as it is now.
        """
        slow, fast = _tensors(self.net), _tensors(encoder)
        averaged, current = ([t for t in tensors if t.is_floating_point()] for tensors in (slow, fast))
        if averaged:  # an encoder may have no parameters
            torch._foreach_lerp_(averaged, current, 1 - self.decay)  # pyright: ignore[reportPrivateImportUsage]
        if len(averaged) < len(slow):
            for follower, leader in zip(slow, fast, strict=True):
                if not follower.is_floating_point():  # batch norm's count of batches
                    follower.copy_(leader)


def _tensors(net: nn.Module) -> list[Tensor]:
    """Parameters and buffers, tied ones once. `parameters` and `buffers` would take a tenth of a small step."""
    held = (t for m in net.modules() for own in (m._parameters, m._buffers) for t in own.values())
    return list({id(t): t for t in held if t is not None}.values())


def state_means(z: Tensor, states: Tensor, n: int) -> tuple[Tensor, Tensor]:
    """Mean latent of each state [n, dim] (0 where no row shows it) and how many rows do [n]."""
    # not one_hot, which synchronises with the device at every step to check its argument
    member = (states[:, None] == torch.arange(n, device=states.device)).to(z.dtype)
    count = member.sum(0)
    return member.T @ z / count.clamp(min=1)[:, None], count


def relax(means: Tensor, theta: Tensor, actions: Sequence[int], steps: int) -> Tensor:
    """Move every state's mean towards the means of the other states mapped by the actions, `steps` times.

    means [n, dim], theta [dim / 2]. One step is m(y) <- m(y) / 2 + mean over k of R(k) m(y - k) / 2, with the
    rotation R(k) by k theta. The step commutes with shifting the states, so the discrete Fourier transform over
    states diagonalises it: the mode of angle phi is multiplied by 1/2 + mean over k of exp(i k (theta - phi)) / 2,
    and any number of steps costs one transform. At the end each plane is scaled back to the norm it had.

    Keeping half of the old mean matters: without it, an even cycle splits into two halves that never mix.
    """
    n = len(means)
    c = torch.view_as_complex(means.unflatten(1, (-1, 2)).contiguous())
    phi = 2 * math.pi / n * torch.arange(n, device=means.device)
    k = torch.tensor(actions, dtype=torch.float32, device=means.device)
    phase = k[:, None, None] * (theta.to(means.dtype) - phi[:, None])
    gain = 0.5 + 0.5 * torch.polar(torch.ones_like(phase), phase).mean(0)
    relaxed = torch.fft.ifft(torch.fft.fft(c, dim=0) * gain**steps, dim=0)
    scale = c.abs().square().sum(0).sqrt() / relaxed.abs().square().sum(0).sqrt().clamp(min=1e-12)
    return torch.view_as_real(relaxed * scale).flatten(1)


class Target(nn.Module):
    """What a prediction is regressed on. Subclass it for a target of your own; it is constructed with (task, dim).

    `of_next_state` says which latents `forward` gets: those of images of the next states, [batch, actions, dim], if
    True; otherwise those of the context images, [batch, dim].

    Examples:
        >>> import brojepa
        >>> class Halved(brojepa.Target):
        ...     of_next_state = True
        ...     def __init__(self, task, dim):
        ...         super().__init__()
        ...     def forward(self, z, batch, action):
        ...         return z / 2, None
        >>> Halved(None, 4).of_next_state
        True
    """

    of_next_state = False

    def forward(self, z: Tensor, batch: Batch, action: LatentAction) -> tuple[Tensor, Tensor | None]:
        """Turn latents into regression targets.

        Args:
            z: latents of the target encoder, as `of_next_state` says.
            batch: states, actions and next states of the batch.
            action: the latent action.

        Returns:
            Targets [batch, actions, dim], and weights [batch, actions] or None. A weight of 0 leaves a prediction out.
        """
        raise NotImplementedError


class Sampled(Target):
    """The latent of one image of the next state: the paper's target.

    Examples:
        >>> import brojepa
        >>> import torch
        >>> z = torch.ones(2, 1, 4)
        >>> goal, weight = brojepa.Sampled()(z, None, None)
        >>> goal is z, weight
        (True, None)
    """

    of_next_state = True

    def forward(self, z, batch, action):
        return z, None


class BatchMean(Target):
    """The mean latent of the batch's images of the next state: the same expectation as `Sampled`, with less variance.

    Args:
        n: number of labelled states.

    Examples:
        >>> import brojepa
        >>> import torch
        >>> states, after = torch.tensor([0, 1, 1]), torch.tensor([[1], [0], [0]])
        >>> batch = brojepa.Batch(None, states, None, after, None)
        >>> goal, weight = brojepa.BatchMean(n=2)(torch.tensor([[0.0], [1.0], [3.0]]), batch, None)
        >>> goal.flatten().tolist()
        [2.0, 0.0, 0.0]
    """

    def __init__(self, n: int) -> None:
        super().__init__()
        self.n = n

    def forward(self, z, batch, action):
        means, count = state_means(z, batch.states, self.n)
        return means[batch.next_states], (count > 0).float()[batch.next_states]


class Relaxed(Target):
    """A running mean per state, relaxed along the training actions before it is used.

    Training on +1 and -1 aligns neighbouring states first and distant ones last: diffusion around the cycle, whose
    slowest mode takes on the order of n^2 steps. Relaxing runs that diffusion on n vectors instead of on the weights of
    a network. It uses only training actions, so zero-shot stays strict.

    Args:
        n: number of labelled states.
        dim: latent dimension.
        actions: the training actions.
        steps: relaxation steps; their number does not change the cost.
        momentum: share of a state's old mean that a batch keeps.

    Examples:
        >>> import brojepa
        >>> target = brojepa.Relaxed(n=10, dim=64, actions=(-1, 1), steps=40)
        >>> target.means.shape
        torch.Size([10, 64])
    """

    def __init__(self, n: int, dim: int, actions: Sequence[int], steps: int, momentum: float = 0.9) -> None:
        super().__init__()
        self.n, self.actions, self.steps, self.momentum = n, tuple(actions), steps, momentum
        self.means = nn.Buffer(torch.zeros(n, dim))
        self.known = nn.Buffer(torch.zeros(n))

    def forward(self, z, batch, action):
        if self.training:
            means, count = state_means(z, batch.states, self.n)
            here = (count > 0).float()
            step = here * torch.where(self.known > 0, 1 - self.momentum, 1.0)
            self.means.lerp_(means, step[:, None])
            self.known.copy_(torch.maximum(self.known, here))
        if action.angles is None:
            raise RequestError(f"relaxed targets need a rotation, not {type(action).__name__}")
        relaxed = relax(self.means, action.angles, self.actions, self.steps)
        return relaxed[batch.next_states], self.known[batch.next_states]


class OrbitMean(Target):
    """The counterpart of `Relaxed` for poses: the mean over the batch's views of a thing that training
    actions connect, each mapped to the predicted pose.

    A view in pose h g has the latent rho(h) z if the one in pose g has z, so rho(h)^-1 maps all views of an orbit to
    one latent, and their mean is the limit of relaxing along the training actions. h is a product of training
    actions, and rho of a product is the product of the rho: no other action is used, so zero-shot stays strict.
    """

    def __init__(self, group: Group) -> None:
        super().__init__()
        self.group = group

    def forward(self, z, batch, action):
        if batch.orbit is None or batch.pose is None:
            raise RequestError("relaxed targets need several views of a thing in a batch, and this world draws none")
        same = (batch.orbit[:, None] == batch.orbit).to(z.dtype)
        start = same @ action.act(z, self.group.undone(batch.pose)) / same.sum(1, keepdim=True)
        return action.act(action.act(start, batch.pose)[:, None], batch.k), None
