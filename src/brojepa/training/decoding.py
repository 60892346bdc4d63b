"""`train_decoder`: a network that makes pictures of the latents of a finished run. The model does not change."""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Callable
from functools import cached_property
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional as F

from brojepa.errors import Interrupted, RequestError, RunError
from brojepa.evaluation import world_of
from brojepa.models import Model
from brojepa.models.decoder import Decoder, DecoderNet
from brojepa.runs import Run, checkpoint, decoders, hub
from brojepa.runs.devices import environment, place
from brojepa.runs.find import find, is_packed
from brojepa.runs.loading import load
from brojepa.runs.threads import choose, computing_with
from brojepa.training.signals import Signals
from brojepa.worlds import Sampling, Split, World

STEPS, BATCH, RATE = 2000, 128, 2e-3
MOST, HELD_OUT = 30_000, 5_000  # images to train on and to measure with, at most
BYTES = 2**28  # of images to train on, at most
CHUNK = 1024  # images decoded or encoded between two checks for signals
DARK = 1e-3  # the darkest pixel of the mean image that training starts from
ENCODING = 0.2  # roughly, the share of the time for preparing images and latents

Listener = Callable[[float], None]


def train_decoder(
    path: str | Path,
    *,
    seed: int = 0,
    steps: int = STEPS,
    data_dir: str | Path | None = None,
    device: str = "auto",
    world: World | None = None,
    trust: bool = False,
    threads: int | None = None,
    listener: Listener = lambda share: None,
) -> Decoder:
    """Train a decoder for a finished run, so that `load(path).decode(z)` makes pictures of latents.

    The run's model does not change. The decoder is saved next to it, or in the cache if the run is in the package or on
    the hub. A run that has a decoder keeps it.

    Args:
        path: a run directory, a preset whose weights are in the package, or hf://user/name.
        seed: of the decoder's first weights and of the order of images.
        steps: number of batches of 128 images.
        data_dir: where EMNIST is, or other images of the same shape.
        device: "auto", "cpu", "cuda" or "mps".
        world: a world in memory, for a run that was trained on one.
        trust: import the own code that the run names.
        threads: number of threads; default that of the run's first start.
        listener: is called now and then with the share that is done, 0 to 1.

    Returns:
        The decoder.

    Raises:
        RequestError: not a run, or missing images.
        RunError: the run is not finished, or its decoder is damaged.
        Interrupted: stopped by a signal; nothing is written.

    Examples:
        >>> import brojepa
        >>> decoder = brojepa.train_decoder("mnist/fast", device="cpu")  # it has one already
        >>> decoder(brojepa.load("mnist/fast", device="cpu").encode([[[0] * 28] * 28])).shape
        torch.Size([1, 1, 28, 28])
    """
    if steps < 1:
        raise RequestError(f"steps is {steps}: a decoder needs at least 1")
    run, file = find(path), decoder_file(path)
    model = load(run.path, device, trust=trust)
    if there := decoders.load(run, model):
        return there
    began = time.monotonic()
    with computing_with(choose(threads, run.environment)[0]), Signals() as signals:
        opened = world_of(run, data_dir, world)
        placed = place(run.config, device, run.environment.get("precision"))
        decoder = _Lesson(run, model, opened, seed, signals, listener).fit(steps, placed.precision)
        signals.at_once = True
        decoders.save(file, decoder, {"seconds": round(time.monotonic() - began, 1), "env": environment(placed)})
    return decoder


def decoder_file(path: str | Path) -> Path:
    """Where the decoder of a finished run is, or will be."""
    run = find(path)
    if run.header and not run.result:  # both raise an error if it does not exist
        raise RunError(f"{run.result_file} is empty: train the run again")
    borrowed = is_packed(run) or str(path).startswith(hub.SCHEME)
    return decoders.find(run) or (decoders.in_cache(run) if borrowed else run.path / decoders.FILE)


class _Lesson:
    """Images of a run's world and their latents, and what is learned from them."""

    def __init__(self, run: Run, model: Model, world: World, seed: int, signals: Signals, listener: Listener) -> None:
        self.run, self.model, self.world, self.seed = run, model, world, seed
        self.signals, self.listener = signals, listener
        self.generator = torch.Generator().manual_seed(seed)
        most = min(MOST, max(BATCH, BYTES // math.prod(world.shape)))
        self.train, self.held_out = _apart(
            self._drawn(world.train, most), self._drawn(world.test, min(HELD_OUT, most)), self.generator
        )

    @cached_property
    def mean_image(self) -> Tensor:
        return self._mean(self.train.images[:])

    def _mean(self, images: Tensor) -> Tensor:
        """The mean of images, 0 to 1; the mean of all training images if there are none."""
        if not len(images):
            return self.mean_image
        return torch.stack([part.float().sum(0) for part in images.split(CHUNK)]).sum(0) / (255 * len(images))

    def _look(self, share: float) -> None:
        if self.signals.requested:
            raise Interrupted("interrupted: no decoder was written; the same command starts again")
        self.listener(share)

    def _drawn(self, split: Split, most: int) -> Split:
        """Images that the run was trained on: distinct ones, up to this many."""
        actions, _ = self.world.action_sets(self.run.config)
        transitions = self.world.transitions(split, actions, Sampling(with_targets=False))
        draw, count = transitions.draw(self.generator), min(len(transitions), most)
        parts = []
        for start in range(0, count, CHUNK):
            self._look(0.0)
            batch = transitions.batch(draw, start, min(start + CHUNK, count))
            parts.append(Split(batch.images.to(torch.uint8), batch.states))
        whole = Split(torch.cat([part.images for part in parts]), torch.cat([part.states for part in parts])).to(CPU)
        return whole[
            torch.tensor(list(dict(zip(reversed(_names(whole)), reversed(range(count)), strict=True)).values()))
        ]

    def _latents(self, images: Tensor, share: float) -> Tensor:
        """The latents of images, on the CPU."""
        parts = []
        for part in images.split(CHUNK):
            self._look(share * ENCODING)
            parts.append(self.model.encode(part).cpu())
        return torch.cat(parts)

    def fit(self, steps: int, precision: torch.dtype) -> Decoder:
        """A decoder after this many steps, with its error on held-out images."""
        device, images = self.model.device, self.train.images[:]
        z = self._latents(images, 0.5)
        net = self._untrained(z).to(device)
        optimiser = torch.optim.AdamW(net.parameters(), lr=RATE, weight_decay=0.01)
        total = max(4, steps)  # fewer steps are too few for a warm-up
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, RATE, total, pct_start=max(0.1, 2 / total))
        order = torch.empty(0, dtype=torch.long)
        for step in range(steps):
            self._look(ENCODING + (1 - ENCODING) * step / steps)
            while len(order) < BATCH:
                order = torch.cat((order, torch.randperm(len(z), generator=self.generator)))
            rows, order = order[:BATCH], order[BATCH:]
            with torch.autocast(device.type, dtype=torch.bfloat16, enabled=precision is torch.bfloat16):
                logits = net(z[rows].to(device)).float()
            loss = F.binary_cross_entropy_with_logits(logits, images[rows].to(device).float() / 255)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            schedule.step()
        decoder = Decoder(net.cpu(), {"model": checkpoint.checksum(self.run.model_file), "seed": self.seed})
        decoder.about |= {"steps": steps, "images": len(images), "held_out_images": len(self.held_out)}
        decoder.about |= self._errors(net)
        if not math.isfinite(decoder.about["error"]):
            raise RunError("the decoder diverged: are the latents of this run finite? try another seed")
        return decoder

    def _untrained(self, z: Tensor) -> DecoderNet:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(int(torch.randint(2**62, (), generator=self.generator)))
            net = DecoderNet(z.shape[1], self.world.shape)
        net.center.copy_(z.mean(0))
        net.scale.copy_(z.std(0, correction=0).clamp(min=1e-6))
        net.middle.copy_(self.mean_image.clamp(DARK, 1 - DARK).logit())
        return net

    @torch.no_grad()
    def _errors(self, net: DecoderNet) -> dict[str, float | None]:
        """Mean squared errors on images held out: of the decoder, of the mean image and, where states have labels, of
        the mean image of the right state, which is the best possible if a latent holds nothing but the state."""
        n, z = self.world.n, self._latents(self.held_out.images[:], 1.0)
        of_state = torch.stack([self._mean(self.train.images[self.train.states == y]) for y in range(n)]) if n else None
        sums = [0.0, 0.0, 0.0]
        for rows in torch.arange(len(z)).split(CHUNK):
            images = self.held_out.images[rows].float() / 255
            guesses = [F.sigmoid(net(z[rows])), self.mean_image]
            guesses += [] if of_state is None else [of_state[self.held_out.states[rows]]]
            for i, guess in enumerate(guesses):
                sums[i] += float((guess - images).square().mean((1, 2, 3)).sum())
        error, mean, state = (total / len(z) for total in sums)
        return {"error": error, "mean_image_error": mean, "state_image_error": state if n else None}


CPU = torch.device("cpu")


def _names(split: Split) -> list[bytes]:
    """A name for each image, the same for the same pixels."""
    return [hashlib.blake2b(image.numpy().tobytes(), digest_size=16).digest() for image in split.images]


def _apart(train: Split, test: Split, generator: torch.Generator) -> tuple[Split, Split]:
    """Images to train on and others to measure with: the test images that training does not have, or a tenth of all
    if it has all of them."""
    known = set(_names(train))
    fresh = torch.tensor([name not in known for name in _names(test)])
    if bool(fresh.any()):
        return train, test[fresh.nonzero()[:, 0]]
    order = torch.randperm(len(train), generator=generator)
    held = max(1, len(train) // 10)
    if held >= len(train):
        raise RequestError(f"{len(train)} image is too few for a decoder: it needs one to train on and one to measure")
    return train[order[held:]], train[order[:held]]
