"""The whole method in one file: learn +1 and -1 on digits, then do +2 to +9 and -2 to -9 without having seen them.

An encoder turns an image into a latent vector. An action k turns the planes of that vector by k times an angle per
plane. Training asks that the latent of a 3, turned by k = 1, lands on the latents of 4s; and 9 + 1 is 0. It never uses
another action than +1 and -1. Turns add up, so every other action then works too: that is what is measured at the end.

    python examples/minimal.py            about a minute on two cores

brojepa supplies the images and the rotation here. All else is plain torch.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

import brojepa

N, DIM, BATCH = 10, 64, 256  # states, latent dimensions, images per step
TRAINED = (-1, 1)
HELD_OUT = [k for k in range(-9, 10) if k not in (-1, 0, 1)]


def make_encoder() -> nn.Module:
    """Images [batch, 1, 28, 28] -> latents [batch, 64]."""
    return nn.Sequential(
        nn.Conv2d(1, 16, 4, stride=2, padding=1), nn.BatchNorm2d(16), nn.ReLU(),
        nn.Conv2d(16, 32, 3, stride=2, padding=1), nn.BatchNorm2d(32), nn.ReLU(),
        nn.Conv2d(32, 64, 3, padding=1), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(64 * 3 * 3, DIM),
        nn.BatchNorm1d(DIM, affine=False),  # every latent dimension has mean 0 and variance 1 over the batch
    )  # fmt: skip


def state_means(z: Tensor, states: Tensor) -> Tensor:
    """The mean latent of each digit in the batch, [10, 64]."""
    shows = F.one_hot(states, N).float()
    return shows.T @ z / shows.sum(0).clamp(min=1)[:, None]


def jepa_loss(z: Tensor, predicted: Tensor, target: Tensor) -> Tensor:
    """Predictions lie near their targets; latents keep their spread (variance) and differ (covariance)."""
    centred = z - z.mean(0)
    cov = centred.T @ centred / (len(z) - 1)
    invariance = (predicted - target).square().mean()
    variance = (1 - (cov.diagonal() + 1e-4).sqrt()).relu().mean()
    covariance = (cov - cov.diagonal().diag()).square().sum() / (DIM * (DIM - 1))
    return 25 * invariance + 25 * variance + covariance


def main(images: int | None = None, epochs: int = 3, seed: int = 0) -> dict[int, float]:
    """Train on the first `images` images (all by default); the accuracy on the test images after each action."""
    torch.manual_seed(seed)
    world = brojepa.open_world("mnist")
    x = (world.train.images[:images].float() / 255 - 0.13) / 0.31
    y = world.train.states[:images]
    k = torch.tensor(TRAINED)

    encoder = make_encoder()
    rotation = brojepa.BlockRotation.random(DIM)  # 32 planes, each with an angle that is learned
    probe = nn.Linear(DIM, N)  # reads the digit off a latent; no gradient flows from it into the encoder
    weights = [*encoder.parameters(), *probe.parameters()]
    optimizer = torch.optim.AdamW([{"params": weights}, {"params": rotation.parameters(), "weight_decay": 0.0}])
    steps = len(x) // BATCH
    rates = torch.optim.lr_scheduler.OneCycleLR(optimizer, [5e-3, 5e-2], epochs * steps)

    for epoch in range(1, epochs + 1):
        for rows in torch.randperm(len(x))[: steps * BATCH].split(BATCH):
            z = encoder(x[rows])
            after = (y[rows, None] + k) % N  # the digits that the actions lead to, [batch, 2]
            predicted = rotation(z[:, None], k)  # both actions on each latent, [batch, 2, 64]
            target = state_means(z.detach(), y[rows])[after]  # what they should give; no gradient
            loss = jepa_loss(z, predicted, target)
            read = F.cross_entropy(probe(predicted.detach()).flatten(0, 1), after.flatten())
            optimizer.zero_grad()
            (loss + read).backward()
            optimizer.step()
            rates.step()
        print(f"epoch {epoch} of {epochs}: loss {loss.item():.3f}")

    encoder.eval()
    x, y = (world.test.images.float() / 255 - 0.13) / 0.31, world.test.states
    with torch.no_grad():
        z = torch.cat([encoder(part) for part in x.split(1000)])
        right = {a: (probe(rotation(z, a)).argmax(1) == (y + a) % N).double().mean().item() for a in range(-9, 10)}
    for title, actions in (("seen", TRAINED), ("zero-shot", HELD_OUT)):
        print(f"{title:9}  {sum(right[a] for a in actions) / len(actions):.4f}")
        for a in actions:
            print(f"       {a:+d}  {right[a]:.4f}")
    return right


if __name__ == "__main__":
    main()
