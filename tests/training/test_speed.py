"""What keeps a step fast and can be proved without a clock: it waits for nothing, does nothing an image at a time,
gathers from one tensor, and encodes no image more often than its preset needs."""

from __future__ import annotations

import gc
import sys
from collections import Counter

import pytest
import torch
from helpers import blobs
from torch.utils._python_dispatch import TorchDispatchMode

from brojepa import JEPA
from brojepa.bench.stepping import Stepper
from brojepa.presets import preset
from brojepa.training import Callback, train

PRESETS = [
    "mnist/fast", "emnist/fast", "mnist/bro-mlp-mfr-fixed", "mnist/bro-mlp-sfr-learned", "mnist/jepa-mlp",
    "mnist/jepa-mlp-consistency", "mnist/supervised-mlp", "mnist/supervised-mlp-mfr-learned",
]  # fmt: skip
WAITS = {"_local_scalar_dense", "nonzero", "masked_select", "equal", "unique_dim", "_unique2", "is_nonzero"}
"""Operations whose result the CPU must have before it goes on: on a GPU each is a full stop."""
READS = ("tolist", "numpy", "cpu", "__array__")
"""And the ways to look at a tensor that are no operations on a CPU."""


class Watch(TorchDispatchMode):
    """Every operation that reaches a device."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[str, tuple]] = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.calls.append((func._overloadpacket.__name__, args))
        return func(*args, **(kwargs or {}))

    @property
    def names(self) -> Counter[str]:
        return Counter(name for name, _ in self.calls)

    @property
    def waits(self) -> int:
        by_mask = sum(
            name in ("index", "index_put_", "_index_put_impl_") and any(i is not None and _mask(i) for i in args[1])
            for name, args in self.calls
        )
        return by_mask + sum(self.names[name] for name in WAITS)


def _mask(index: torch.Tensor) -> bool:
    return index.dtype in (torch.bool, torch.uint8)


def stepper(name: str, batch_size: int = 32, n: int = 10) -> Stepper:
    config = preset(name).replace(latent=16, batch_size=batch_size, precision="float32", world="mnist")
    return Stepper(config, blobs(n=n, count=40), "cpu")


def test_the_watch_sees_what_it_is_for():
    for wait in (lambda x: x.sum().item(), lambda x: bool(x.any()), lambda x: x[x > 0], lambda x: float(x[0])):
        with Watch() as watch:
            wait(torch.ones(3))
        assert watch.waits


@pytest.mark.parametrize("name", PRESETS)
def test_a_step_waits_for_nothing(name, monkeypatch):
    training = stepper(name)
    training.advance()
    for read in READS:
        monkeypatch.setattr(torch.Tensor, read, lambda *_: pytest.fail("a tensor was read in a step"), raising=False)
    with Watch() as watch:
        training.advance(3)
    assert watch.waits == 0


def test_the_loop_waits_for_nothing_between_its_looks_at_the_loss(digits, tmp_path):
    seen: list[int] = []

    class Look(Callback):
        def step(self, training):
            seen.append(watch.waits)
            watch.calls.clear()

    config = preset("mnist/fast").replace(world=str(digits), epochs=1, batch_size=32, precision="float32")
    with Watch() as watch:
        train(config, out=tmp_path, device="cpu", callbacks=[Look()])
    assert len(seen) == 15
    assert seen[1:] == [0] * 14


def python_calls(training: Stepper) -> int:
    """Function calls, of Python and from Python into C, of one step."""
    count = 0

    def see(frame, event, argument):
        nonlocal count
        count += event in ("call", "c_call")

    gc.disable()
    sys.setprofile(see)
    try:
        training.advance()
    finally:
        sys.setprofile(None)
        gc.enable()
    return count


@pytest.mark.parametrize("name", PRESETS)
def test_nothing_is_done_an_image_at_a_time(name):
    """Neither in Python nor by operations: a step with eight times the images has the same calls."""
    small, large = (stepper(name, batch_size) for batch_size in (16, 128))
    for training in (small, large):
        training.advance(2)
    assert python_calls(small) == python_calls(large)
    names = []
    for training in (small, large):
        with Watch() as watch:
            training.advance()
        names.append(watch.names)
    assert names[0] == names[1]


@pytest.mark.parametrize(
    ("name", "gathers"),
    [("mnist/fast", ["index_select"]), ("mnist/bro-mlp-mfr-fixed", ["index_select", "index_select"])],
)
def test_a_batch_is_gathered_from_one_tensor(name, gathers):
    """One indexing of the world's own images for the contexts, one for the targets where there are any, and no other
    operation touches that memory."""
    training = stepper(name)
    images = training.world.train.images.untyped_storage().data_ptr()  # held once: training has no copy
    for i in range(3):
        with Watch() as watch:
            training.transitions.batch(training.drawn, 32 * i, 32 * i + 32)
        found = [
            operation
            for operation, args in watch.calls
            if isinstance(args[0], torch.Tensor) and args[0].untyped_storage().data_ptr() == images
        ]
        assert found == gathers


@pytest.mark.parametrize(
    ("name", "encoder", "slow"),
    [
        ("mnist/fast", 1, 0), ("emnist/fast", 1, 0), ("mnist/bro-mlp-mfr-fixed", 1, 1), ("mnist/jepa-mlp", 1, 1),
        ("mnist/jepa-mlp-consistency", 1, 1), ("mnist/supervised-mlp-mfr-learned", 1, 0),
    ],
)  # fmt: skip
def test_encoder_passes_of_a_step(name, encoder, slow):
    training = stepper(name)
    passes: Counter[str] = Counter()
    training.model.encoder.register_forward_hook(lambda *_: passes.update(["encoder"]))
    if isinstance(training.model, JEPA) and training.model.slow is not None:
        training.model.slow.net.register_forward_hook(lambda *_: passes.update(["slow"]))
    training.advance(3)
    assert (passes["encoder"], passes["slow"]) == (3 * encoder, 3 * slow)
