"""A regulariser of your own: what keeps the encoder from giving every image the same latent.

This one is the uniformity of Wang and Isola (2020): on the unit sphere, latents repel one another like charges. It
takes the place of VICReg's variance and covariance. On the command line, from this directory:
brojepa train mnist/fast --regulariser own_regulariser:Uniformity

    python examples/own_regulariser.py    some two minutes on two cores
"""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

import brojepa


class Uniformity(nn.Module):
    """The logarithm of the mean of exp(-t |a - b|^2) over pairs of latents, scaled to length 1."""

    def __init__(self, weight: float = 1.0, t: float = 2.0) -> None:  # brojepa calls it without arguments
        super().__init__()
        self.weight, self.t = weight, t

    def forward(self, z: Tensor) -> dict[str, tuple[float, Tensor]]:
        """Latents [batch, dim] -> named terms of the loss, a weight and a value each. The names become columns."""
        z = F.normalize(z, dim=1)
        squared = (2 - 2 * z @ z.T).clamp(min=0)  # |a - b|^2 of every pair, both of length 1
        first, second = torch.triu_indices(len(z), len(z), offset=1, device=z.device)
        value = (-self.t * squared[first, second]).logsumexp(0) - math.log(len(first))
        return {"uniformity": (self.weight, value)}


def main(out: str = "runs", epochs: int = 3, **knobs) -> brojepa.Run:
    """Train with it; further keyword arguments go to `brojepa.train`: world=, batch_size=, ..."""
    run = brojepa.train(
        "mnist/fast", regulariser="own_regulariser:Uniformity", epochs=epochs, out=out,
        callbacks=[brojepa.LiveTable()], **knobs,
    )  # fmt: skip
    for row in run.metrics:  # what metrics.jsonl holds, one row per epoch
        print(f"epoch {row['epoch']}: uniformity {row['uniformity']:.3f}, effective rank {row['effective_rank']:.1f}")
    print(f"zero-shot accuracy {run.result['metrics']['zero_shot']:.4f}")
    return run


if __name__ == "__main__":
    main()
