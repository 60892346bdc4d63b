"""Own images for the default recipe, written as a user would bring them: folders of PNGs and .npz files.

`python tests/own_worlds.py DIRECTORY [NAME...]` writes them; docs/own-images.md has what is reached on them.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import torch
from PIL import Image, ImageDraw

from brojepa.groups import SO3
from brojepa.worlds import Split, open_world, solids

FASHION = Path("/usr/share/datasets/fashion-mnist")
"""Where the Debian package dataset-fashion-mnist puts its files."""


def save(path: Path, train: Split, test: Split) -> None:
    """Grey images without their one channel, as most people have them."""
    images, test_images = (
        s.images.numpy()[:, 0] if s.images.shape[1] == 1 else s.images.numpy() for s in (train, test)
    )
    np.savez(path, images=images, labels=train.states.numpy(), test_images=test_images, test_labels=test.states.numpy())


def arrays(path: Path, images: np.ndarray, labels: np.ndarray) -> None:
    np.savez(path, images=images.astype(np.uint8), labels=labels)


def first_of_each(split: Split, count: int) -> Split:
    """The first `count` images of every state."""
    rows = [(split.states == y).nonzero()[:count, 0] for y in split.states.unique()]
    return split[torch.cat(rows).sort().values]


def digits(path: Path) -> None:
    """The 1,797 digits of scikit-learn, 8 x 8 pixels, as a folder of PNGs."""
    from sklearn.datasets import load_digits

    pixels, labels = load_digits(return_X_y=True)
    for i, (row, label) in enumerate(zip(pixels, labels, strict=True)):
        folder = path / str(label)
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray((row.reshape(8, 8) * 255 / 16).round().astype(np.uint8)).save(folder / f"{i}.png")


def few(path: Path, count: int = 100) -> None:
    """100 images of each digit of MNIST, and all its test images."""
    world = open_world("mnist")
    save(path, first_of_each(world.train, count), world.test)


def of_mnist(states: str) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        world = open_world(f"mnist:{states}")
        save(path, world.train, world.test)

    return write


def letters(path: Path) -> None:
    """1,000 images of each letter, fewer where there are fewer."""
    world = open_world("emnist")
    save(path, first_of_each(world.train, 1000), world.test)


def pairs(path: Path) -> None:
    world = open_world("pairs")
    save(path, world.train, world.test)


def colour(path: Path) -> None:
    """Digits of MNIST in a random colour on a random ground with noise, 32 x 32: 1,000 of each."""
    rng, world = np.random.default_rng(0), open_world("mnist")
    parts = []
    for split in (first_of_each(world.train, 1000), first_of_each(world.test, 200)):
        ink = np.pad(split.images.numpy()[:, 0] / 255, ((0, 0), (2, 2), (2, 2)))[..., None]
        count = len(ink)
        front, back = (rng.uniform(low, high, (count, 1, 1, 3)) for low, high in ((120, 255), (0, 110)))
        images = ink * front + (1 - ink) * back + rng.normal(0, 12, (count, 32, 32, 3))
        parts += [images.clip(0, 255).astype(np.uint8), split.states.numpy()]
    np.savez(path, **dict(zip(("images", "labels", "test_images", "test_labels"), parts, strict=True)))


def bars(path: Path, n: int = 16, each: int = 60, size: int = 32) -> None:
    """A bar through the middle at one of 16 angles, with noise: states that a turn would confuse."""
    rng = np.random.default_rng(1)
    labels = np.arange(n * each) % n
    y, x = np.mgrid[:size, :size] - (size - 1) / 2
    images = rng.normal(30, 25, (len(labels), size, size))
    for image, state in zip(images, labels, strict=True):
        angle = np.pi * (state + rng.uniform(-0.25, 0.25)) / n
        across = x * np.sin(angle) - y * np.cos(angle) + rng.uniform(-2, 2)
        image += 160 * (np.abs(across) < rng.uniform(1.5, 3)) * (np.hypot(x, y) < size / 2 - 2)
    arrays(path, images.clip(0, 255), labels)


def rows(path: Path, n: int = 7, each: int = 100) -> None:
    """A bar whose height is the state, two pixels apart: states that a shift would confuse."""
    rng = np.random.default_rng(2)
    labels = np.arange(n * each) % n
    images = rng.integers(0, 40, (len(labels), 16, 16))
    for image, state in zip(images, labels, strict=True):
        image[2 * state : 2 * state + 3, 4:12] += 200
    arrays(path, images, labels)


def textures(path: Path, n: int = 6, each: int = 80, size: int = 48) -> None:
    """Noise with one of six grain sizes, in any direction of brightness: no shape, no place."""
    rng = np.random.default_rng(3)
    labels = np.arange(n * each) % n
    f = np.hypot(np.fft.fftfreq(size)[:, None], np.fft.fftfreq(size)[None])
    images = np.empty((len(labels), size, size))
    for i, state in enumerate(labels):
        band = np.exp(-(((f - 0.04 * 1.45**state) / 0.03) ** 2))
        grain = np.fft.ifft2(np.fft.fft2(rng.normal(size=(size, size))) * band).real
        images[i] = 128 + 45 * grain / grain.std() * rng.uniform(0.6, 1)
    arrays(path, images.clip(0, 255), labels)


GLYPHS = "ABDEFGHJKLMN"


def glyphs(path: Path, each: int = 20, size: int = 64) -> None:
    """Twelve letters, 64 x 64, 20 of each, distorted: turned, stretched, moved, grey on grey; the last ones rarer."""
    from PIL import ImageFont

    rng = np.random.default_rng(4)
    images, labels = [], []
    for state, letter in enumerate(GLYPHS):
        for _ in range(each * (2 if state < 4 else 1)):
            canvas = Image.new("L", (size, size), 0)
            font = ImageFont.load_default(int(rng.integers(26, 46)))
            ImageDraw.Draw(canvas).text((size / 2, size / 2), letter, 255, font, anchor="mm")
            a, b, c, d = np.eye(2).ravel() + rng.uniform(-0.25, 0.25, 4)
            u, v = size / 2 + rng.uniform(-6, 6, 2)
            map_ = (a, b, u - a * size / 2 - b * size / 2, c, d, v - c * size / 2 - d * size / 2)
            ink = np.asarray(canvas.transform((size, size), Image.Transform.AFFINE, map_, Image.Resampling.BILINEAR))
            low, high = rng.uniform(0, 80), rng.uniform(140, 255)
            images.append(low + (high - low) * ink / 255 + rng.normal(0, 15, (size, size)))
            labels.append(state)
    arrays(path, np.stack(images).clip(0, 255), np.array(labels))


def turntable(path: Path, things: int = 12, n: int = 72, missing: float = 0.0) -> None:
    """Solids that no turn takes to themselves, on a turntable: n views each, or fewer, those lost drawn by chance."""
    group, made = SO3(), solids.objects(things)
    half = torch.arange(n) * math.pi / n
    turns = group.matrix(torch.stack((half.cos(), 0 * half, half.sin(), 0 * half), -1))  # about the upright axis
    images = torch.cat([solids.view(made, torch.full((n,), i), turns) for i in range(things)]).permute(0, 2, 3, 1)
    rng = np.random.default_rng(1)
    kept = np.concatenate([i * n + np.sort(rng.permutation(n)[: round(n * (1 - missing))]) for i in range(things)])
    np.savez(path, images=images.numpy()[kept], things=kept // n, poses=kept % n, group=f"Z{n}")


def steps(path: Path, episodes: int = 100, frames: int = 50) -> None:
    """Episodes of two digits side by side; each step moves one of them up or down by 1, in new handwriting."""
    split, rng = open_world("mnist").train, np.random.default_rng(0)
    of = [(split.states == y).nonzero()[:, 0].numpy() for y in range(10)]
    moves = np.array([[1, 0], [-1, 0], [0, 1], [0, -1]])
    actions = moves[rng.integers(4, size=(episodes, frames))]
    images = np.empty((episodes, frames, 28, 56), np.uint8)
    for episode in range(episodes):
        state = rng.integers(10, size=2)
        for frame in range(frames):
            rows = [rng.choice(of[y]) for y in state]
            images[episode, frame] = np.concatenate([split.images[r, 0].numpy() for r in rows], 1)
            state = (state + actions[episode, frame]) % 10
    which = np.repeat(np.arange(episodes), frames)
    np.savez(path, images=images.reshape(-1, 28, 56), actions=actions.reshape(-1, 2), episode=which, group="Z10xZ10")


WORLDS: dict[str, Callable[[Path], None]] = {
    "digits": digits, "mnist100.npz": few, "two.npz": of_mnist("0-1"), "three.npz": of_mnist("0-2"),
    "five.npz": of_mnist("0-4"), "letters.npz": letters, "hundred.npz": pairs, "colour.npz": colour,
    "bars.npz": bars, "rows.npz": rows, "textures.npz": textures, "glyphs.npz": glyphs,
    "turntable.npz": turntable, "turntable-third.npz": partial(turntable, missing=1 / 3), "steps.npz": steps,
}  # fmt: skip


def write(directory: Path, name: str) -> Path:
    """Where one of the worlds lies, written if it is not there."""
    path = directory / name
    if not path.exists():
        directory.mkdir(parents=True, exist_ok=True)
        WORLDS[name](path)
    return path


if __name__ == "__main__":
    for name in sys.argv[2:] or WORLDS:
        print(write(Path(sys.argv[1]), name))
