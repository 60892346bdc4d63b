"""The interface of latent actions; subclass it for one of your own."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from brojepa.groups import Element, Group
from brojepa.models.actions.parts import Part

AT_ONCE = 16  # actions that `nearness` computes at once


class LatentAction(nn.Module):
    """A map (z, k) -> the latent predicted after action k. Subclass it for a latent action of your own.

    A subclass sets `dim` and `out_dim`, the latent dimensions read and written, and defines `act`. The two are equal
    unless the action cannot be repeated. The other methods have defaults that work for every action. Override them if
    you know more: `normalise`, `path`, `nearness`, `undecayed`, `logged`, `irrep_parts`, `period`.

    Examples:
        >>> import torch
        >>> from brojepa import LatentAction
        >>> class Shift(LatentAction):  # action k adds k to every number
        ...     dim = out_dim = 2
        ...     def act(self, z, k):
        ...         return z + torch.as_tensor(k)[..., None]
        >>> Shift()(torch.zeros(3, 2), torch.tensor([1, -1, 4])).tolist()
        [[1.0, 1.0], [-1.0, -1.0], [4.0, 4.0]]
    """

    dim: int
    out_dim: int

    def act(self, z: Tensor, k: Tensor | Element) -> Tensor:
        """The latents after action k.

        Args:
            z: latents, [..., dim].
            k: one plain element of the group, or a tensor of elements whose batch broadcasts with that of z,
                [..., *group.shape].

        Returns:
            Predicted latents, [..., out_dim].
        """
        raise NotImplementedError

    def forward(self, z: Tensor, k: Tensor | Element) -> Tensor:
        """The same as `act`.

        Args:
            z: latents, [..., dim].
            k: the action.

        Returns:
            Predicted latents, [..., out_dim].
        """
        return self.act(z, k)

    def normalise(self, z: Tensor) -> Tensor:
        """Latents scaled to the length that standard normal ones have on average, sqrt(dim).

        Args:
            z: latents, [..., dim].

        Returns:
            Latents of the same shape and direction.
        """
        return torch.nn.functional.normalize(z, dim=-1) * z.shape[-1] ** 0.5

    def path(self, latents: Tensor, k: Tensor) -> Tensor:
        """The latents that a walk predicts. By default the first latent, rolled forward.

        Args:
            latents: the latents seen on the walk, [batch, steps + 1, dim].
            k: its actions, [batch, steps, *group.shape].

        Returns:
            Predicted latents, the start included, [batch, steps + 1, dim].
        """
        path = [latents[:, 0]]
        for step in k.unbind(1):
            path.append(self.act(path[-1], step))
        return torch.stack(path, 1)

    def nearness(self, z: Tensor, w: Tensor, k: Tensor) -> Tensor:
        """How near each action brings z to w; larger is nearer. By default minus the squared distance.

        Args:
            z: latents to start from, [..., dim].
            w: latents to reach, [..., dim].
            k: the actions to compare, [count, *group.shape].

        Returns:
            One number per action, [..., count]. Only their order counts.
        """
        start, goal = z[..., None, :], w[..., None, :]
        return torch.cat([-(self.act(start, some) - goal).square().sum(-1) for some in k.split(AT_ONCE)], -1)

    def undecayed(self) -> list[nn.Parameter]:
        """The parameters without weight decay, trained at the rate of angles.

        Returns:
            A list, empty by default.
        """
        return []

    def logged(self) -> dict[str, Any]:
        """What a run records about the action after each epoch.

        Returns:
            Plain values by name, empty by default.
        """
        return {}

    def irrep_parts(self, group: Group) -> list[Part] | None:
        """Which latent dimensions hold which irreducible representations of a group.

        Args:
            group: the group.

        Returns:
            The parts in order, or None if the action has none.
        """
        return None

    @property
    def period(self) -> int | None:
        """The n for which k and k + n do the same to every latent; None if that is not certain."""
        return None

    @property
    def angles(self) -> Tensor | None:
        """Rotation angles per unit of action, [dim / 2] or [dim / 2, factors]; None if the action is not a rotation."""
        return None

    @property
    def learned_angles(self) -> bool:
        """Whether the angles are a parameter."""
        return False
