"""Encoders: any image, the right latent; and ResNet-18 is ResNet-18."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from brojepa.errors import RequestError
from brojepa.models.encoders import CNN, ENCODERS, MLP, Pixels, ResNet18

SHAPES = [(1, 28, 28), (3, 32, 32), (1, 8, 8), (4, 17, 9)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", ENCODERS)
@torch.no_grad()
def test_every_encoder_reads_any_size_and_channels(name, shape):
    encoder = ENCODERS[name](shape, 10)
    x = torch.randn(3, *shape, generator=torch.Generator().manual_seed(0))
    z = encoder.eval()(x)
    assert z.shape == (3, 10)
    assert encoder.dim == 10
    assert z.isfinite().all()
    assert not torch.allclose(z[0], z[1], atol=1e-4), "different images, different latents"
    alone = encoder(x[1:2])
    assert torch.allclose(alone[0], z[1], atol=1e-4), "an image's latent depends on no other image"


@pytest.mark.parametrize("name", ENCODERS)
@torch.no_grad()
def test_every_pixel_is_looked_at(name):
    """The latent answers to a change in each corner and the middle."""
    encoder = ENCODERS[name]((2, 12, 12), 6).eval()
    x = torch.randn(1, 2, 12, 12, generator=torch.Generator().manual_seed(0))
    before = encoder(x)
    for channel, row, column in [(0, 0, 0), (1, 0, 11), (0, 11, 0), (1, 11, 11), (1, 5, 6)]:
        other = x.clone()
        other[0, channel, row, column] += 20
        assert (encoder(other) - before).abs().max() > 1e-4


def test_pixels_are_the_pixels():
    x = torch.arange(2 * 3 * 4 * 5.0).reshape(2, 3, 4, 5)
    encoder = Pixels((3, 4, 5))
    assert encoder.dim == 60
    for memory_format in (torch.contiguous_format, torch.channels_last):
        assert torch.equal(encoder(x.contiguous(memory_format=memory_format)), x.reshape(2, 60))


def test_the_mlp_is_784_256_256_64():
    layers = [m for m in MLP((1, 28, 28), 64).modules() if not isinstance(m, nn.Sequential | nn.Identity | MLP)]
    kinds = [type(m).__name__ for m in layers]
    assert kinds == ["Flatten", "Linear", "ReLU", "Linear", "ReLU", "Linear"]
    sizes = [(m.in_features, m.out_features) for m in layers if isinstance(m, nn.Linear)]
    assert sizes == [(784, 256), (256, 256), (256, 64)]


@pytest.mark.parametrize("kind", ENCODERS)
def test_standardised_latents_have_mean_0_and_variance_1_over_the_batch(kind):
    torch.manual_seed(0)
    encoder = ENCODERS[kind]((1, 12, 12), 8, standardise=True).train()
    z = encoder(3 + 5 * torch.randn(64, 1, 12, 12))
    assert torch.allclose(z.mean(0), torch.zeros(8), atol=1e-4)
    assert torch.allclose(z.var(0, unbiased=False), torch.ones(8), atol=1e-2)
    plain = ENCODERS[kind]((1, 12, 12), 8)
    count = sum(p.numel() for p in plain.parameters())
    assert sum(p.numel() for p in encoder.parameters()) == count, "it has no parameters of its own"


def test_the_cnn_is_small_and_normalised():
    encoder = CNN((1, 28, 28), 64)
    assert sum(p.numel() for p in encoder.parameters()) < 1e6
    assert any(isinstance(m, nn.BatchNorm2d) for m in encoder.modules())


@pytest.mark.parametrize(("height", "width", "shrink"), [(12, 18, 3), (13, 20, 3), (9, 9, 2), (16, 40, 5)])
@torch.no_grad()
def test_a_cnn_that_shrinks_reads_the_means_of_blocks(height, width, shrink):
    """Those at the last rows and columns are of the pixels that there are."""
    x = torch.rand(2, 3, height, width, generator=torch.Generator().manual_seed(0))
    means = torch.stack([
        torch.stack([x[..., i : i + shrink, j : j + shrink].mean((-2, -1)) for j in range(0, width, shrink)], -1)
        for i in range(0, height, shrink)
    ], -2)  # fmt: skip
    torch.manual_seed(0)
    large = CNN((3, height, width), 8, pool=2, shrink=shrink).eval()
    small = CNN((3, *means.shape[2:]), 8, pool=2).eval()
    assert large.state_dict().keys() == small.state_dict().keys()
    small.load_state_dict(large.state_dict())
    assert torch.allclose(large(x), small(means), atol=1e-5)
    assert torch.allclose(large(x.contiguous(memory_format=torch.channels_last)), large(x), atol=1e-5)


def test_a_cnn_that_shrinks_images_to_nothing_is_refused():
    with pytest.raises(RequestError, match=r"--shrink 28 leaves 1 x 2 pixels.* shrink less"):
        CNN((1, 28, 56), 8, shrink=28)
    with pytest.raises(RequestError, match=r"1 x 20.*--encoder mlp"):
        CNN((1, 1, 20), 8)


def torchvision_resnet18(channels: int, dim: int) -> dict[str, tuple[int, ...]]:
    """Names and shapes of torchvision's resnet18 written from its structure, but for the 3x3 stem and the head."""
    state: dict[str, tuple[int, ...]] = {}

    def norm(name: str, width: int) -> None:
        for part in ("weight", "bias", "running_mean", "running_var"):
            state[f"{name}.{part}"] = (width,)
        state[f"{name}.num_batches_tracked"] = ()

    state["conv1.weight"] = (64, channels, 3, 3)
    norm("bn1", 64)
    inputs = 64
    for layer, width in enumerate((64, 128, 256, 512), 1):
        for block in (0, 1):
            name = f"layer{layer}.{block}"
            state[f"{name}.conv1.weight"] = (width, inputs, 3, 3)
            norm(f"{name}.bn1", width)
            state[f"{name}.conv2.weight"] = (width, width, 3, 3)
            norm(f"{name}.bn2", width)
            if block == 0 and layer > 1:
                state[f"{name}.downsample.0.weight"] = (width, inputs, 1, 1)
                norm(f"{name}.downsample.1", width)
            inputs = width
    state["fc.weight"], state["fc.bias"] = (dim, 512), (dim,)
    return state


@pytest.mark.parametrize(("channels", "dim"), [(1, 64), (3, 10)])
def test_resnet18_has_torchvisions_names_and_shapes(channels, dim):
    encoder = ResNet18((channels, 28, 28), dim)
    assert {n: tuple(t.shape) for n, t in encoder.state_dict().items()} == torchvision_resnet18(channels, dim)


def test_resnet18_has_torchvisions_number_of_parameters():
    """11,689,512 there, with a 7x7 stem on 3 channels and 1000 classes."""
    stem, head = 64 * 3 * 7 * 7, 1000 * 512 + 1000
    wanted = 11_689_512 - stem - head + 64 * 1 * 3 * 3 + 64 * 512 + 64
    assert sum(p.numel() for p in ResNet18((1, 28, 28), 64).parameters()) == wanted


@torch.no_grad()
def test_resnet18_keeps_the_full_resolution_to_the_end_of_layer1():
    """A 3x3 stride-1 stem and no max-pool: 28 28 14 7 4."""
    encoder, sizes = ResNet18((1, 28, 28), 64).eval(), []
    for layer in (encoder.conv1, encoder.layer1, encoder.layer2, encoder.layer3, encoder.layer4):
        layer.register_forward_hook(lambda *args: sizes.append(tuple(args[2].shape[2:])))
    encoder(torch.zeros(1, 1, 28, 28))
    assert sizes == [(28, 28), (28, 28), (14, 14), (7, 7), (4, 4)]
    assert not any(isinstance(m, nn.MaxPool2d) for m in encoder.modules())
    assert [m.bias for m in encoder.modules() if isinstance(m, nn.Conv2d)] == [None] * 20


@torch.no_grad()
def test_a_residual_block_adds_its_input():
    """With the second norm's scale at zero a block is relu of its skip."""
    block = ResNet18((1, 8, 8), 4).layer1[0].eval()
    block.bn2.weight.zero_()
    x = torch.randn(2, 64, 8, 8, generator=torch.Generator().manual_seed(0))
    assert torch.allclose(block(x), x.relu())
