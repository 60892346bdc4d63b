"""A latent action of your own: one learned rotation of the whole latent space, in place of planes that turn.

Action k is exp(k S) with one skew-symmetric matrix S, so that k actions in a row are the action k. Which planes turn
is learned as well, not only by how much. On the command line, from this directory:
brojepa train mnist/fast --action own_action:FreeRotation --angle-lr 1

    python examples/own_action.py         some two minutes on two cores
"""

import torch
from torch import Tensor, nn

import brojepa


class FreeRotation(brojepa.LatentAction):
    """z -> exp(k S) z. brojepa calls it with the latent dimension and the group of the world's actions."""

    def __init__(self, dim: int, group: brojepa.Group) -> None:
        super().__init__()
        if group.cycle is None:
            raise ValueError(f"FreeRotation is for cycles, not for {group}")
        self.dim = self.out_dim = dim  # latents read and latents written
        self.weight = nn.Parameter(torch.randn(dim, dim))

    def act(self, z: Tensor, k: Tensor | int) -> Tensor:
        """Latents [..., dim] after action k: one integer, or a tensor of integers that broadcasts to [...]."""
        which, place = torch.as_tensor(k, device=z.device).unique(return_inverse=True)  # few actions differ
        skew = (self.weight - self.weight.T) / self.dim**0.5
        turns = torch.matrix_exp(which[:, None, None] * skew)[place]  # [..., dim, dim]
        return (turns @ z[..., None]).squeeze(-1)

    def undecayed(self) -> list[nn.Parameter]:
        """No weight decay: it would slow the turns down. These parameters learn at `--angle-lr` times `--lr`."""
        return [self.weight]


def main(out: str = "runs", epochs: int = 3, **knobs) -> brojepa.Run:
    """Train with it; further keyword arguments go to `brojepa.train`: world=, batch_size=, ..."""
    run = brojepa.train(
        "mnist/fast", action="own_action:FreeRotation", angle_lr=1.0, epochs=epochs, out=out,
        callbacks=[brojepa.LiveTable()], **knobs,
    )  # fmt: skip

    # Loading the run imports the class above, so say that you trust it.
    model = brojepa.load(run.path, trust=True)
    z = torch.randn(5, model.action.dim)
    off = (model.act(model.act(z, 3), 4) - model.act(z, 7)).abs().max().item()
    print(f"+3 then +4 differs from +7 by {off:.1e}; zero-shot {run.result['metrics']['zero_shot']:.4f}")
    return run


if __name__ == "__main__":
    main()
