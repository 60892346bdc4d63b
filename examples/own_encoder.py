"""An encoder of your own: a small vision transformer in place of the convolutional network.

An encoder is a function of the image shape and the latent dimension that returns a torch module. Name it by its path,
"module:name". On the command line, from this directory: brojepa train mnist/fast --encoder own_encoder:vit

    python examples/own_encoder.py        a few minutes on two cores
"""

import torch
from torch import Tensor, nn

import brojepa


class ViT(nn.Module):
    """Patches of 7 x 7 pixels, two layers, and all patches together projected to the latent."""

    def __init__(self, shape: tuple[int, int, int], dim: int, width: int = 64, patch: int = 7) -> None:
        super().__init__()
        channels, height, sideways = shape
        count = (height // patch) * (sideways // patch)
        self.patches = nn.Conv2d(channels, width, patch, stride=patch)  # each patch becomes a vector
        self.places = nn.Parameter(torch.randn(count, width) / 2)  # which says where it lies
        layer = nn.TransformerEncoderLayer(
            width, nhead=4, dim_feedforward=2 * width, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
        )
        self.layers = nn.TransformerEncoder(layer, num_layers=2, norm=nn.LayerNorm(width), enable_nested_tensor=False)
        self.project = nn.Linear(count * width, dim)

    def forward(self, x: Tensor) -> Tensor:
        """Images [batch, channels, height, width], normalised -> latents [batch, dim]."""
        tokens = self.patches(x).flatten(2).transpose(1, 2) + self.places
        return self.project(self.layers(tokens).flatten(1))


def vit(shape: tuple[int, int, int], dim: int) -> nn.Module:
    """What `--encoder own_encoder:vit` calls. (A class with these two arguments would do as well.)"""
    return ViT(shape, dim)


def main(out: str = "runs", epochs: int = 5, **knobs) -> brojepa.Run:
    """Train with it; further keyword arguments go to `brojepa.train`: world=, batch_size=, ..."""
    run = brojepa.train(
        "mnist/fast", encoder="own_encoder:vit", epochs=epochs, out=out, callbacks=[brojepa.LiveTable()], **knobs
    )

    # A run directory names the code that it needs. Loading one runs that code, so say that you trust it.
    model = brojepa.load(run.path, trust=True)
    print(f"{sum(p.numel() for p in model.encoder.parameters()):,} parameters in {run.path}")
    print(f"zero-shot accuracy {run.result['metrics']['zero_shot']:.4f}")
    return run


if __name__ == "__main__":
    main()
