"""How close a training step comes to the peak arithmetic of this machine.

Every matrix product and convolution of a step, forward and backward, is recorded with its shapes, strides and
precision, then timed alone on like tensors. Their operations over their best times are the ceiling; the same
operations over the time of a step are what is reached. A small model leaves cores idle between its products, so it is
also stepped as `brojepa sweep` runs it, once on each core, against its products alone, run once on each core too.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map
from torch.utils.flop_counter import flop_registry

from brojepa.bench.measured import Effort, Measured, Ratio, seconds
from brojepa.bench.processes import fresh
from brojepa.bench.stepping import Stepper
from brojepa.config import Config
from brojepa.presets import preset
from brojepa.runs.threads import cores
from brojepa.training import profile as profiling
from brojepa.worlds import open_world

GOALS = {"mnist/bro-mlp-mfr-fixed": 0.5, "mnist/fast": 0.5, "mnist/bro-resnet18-mfr-fixed": 0.65}


@dataclass(frozen=True)
class Like:
    """A tensor's layout without its values."""

    shape: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: torch.dtype
    device: torch.device

    @classmethod
    def of(cls, value: Any) -> Any:
        if not isinstance(value, Tensor):
            return value
        return cls(tuple(value.shape), value.stride(), value.dtype, value.device)

    def make(self) -> Tensor:
        room = 1 + sum((size - 1) * step for size, step in zip(self.shape, self.stride, strict=True))
        return torch.randn(room, device=self.device).to(self.dtype).as_strided(self.shape, self.stride)


@dataclass
class Call:
    """An operation as a step calls it, its floating-point operations, and how often."""

    function: Any
    args: Sequence[Any]
    kwargs: dict[str, Any]
    flops: int
    count: int = 0

    def best_seconds(self, device: torch.device, enough: float) -> float:
        args, kwargs = (tree_map(lambda v: v.make() if isinstance(v, Like) else v, x) for x in (self.args, self.kwargs))
        times: list[float] = []
        while len(times) < 3 or sum(times) < enough:
            times.append(seconds(lambda: self.function(*args, **kwargs), device))
        return min(times)


class Recorder(TorchDispatchMode):
    """Counts the calls whose operations torch knows how to count: products and convolutions, forward and backward."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: dict[str, Call] = {}

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        out = func(*args, **kwargs)
        count = flop_registry.get(func._overloadpacket)
        if count is not None:
            like_args, like_kwargs = tree_map(Like.of, (list(args), kwargs))
            flops = count(*args, **kwargs, out_val=out)
            self.calls.setdefault(
                f"{func} {like_args} {like_kwargs}", Call(func, like_args, like_kwargs, flops)
            ).count += 1
        return out

    @property
    def flops(self) -> int:
        return sum(call.flops * call.count for call in self.calls.values())

    def best_seconds(self, device: torch.device, enough: float) -> float:
        """Of all calls, each at its best and alone."""
        with torch.no_grad():
            return sum(call.best_seconds(device, enough) * call.count for call in self.calls.values())


def measure(effort: Effort) -> Measured:
    world, rows, ratios, profiles = open_world("mnist"), [], [], {}
    for name, goal in GOALS.items():
        config = _config(name, effort.quick)
        training = Stepper(config, world, effort.device)
        training.advance(2)
        record = recorded(training)
        products = record.best_seconds(training.device, _enough(effort.quick))
        ways = [(config.encoder, 1, training.seconds_per_step(effort.repeats, _block(effort.quick)), products)]
        if config.encoder == "mlp" and training.device.type == "cpu":
            ways.append((f"{config.encoder}, a run on each core", cores(), *_side_by_side(name, effort)))
        for way, runs, step, products in ways:
            share = Ratio(way, products / step, least=goal)
            ratios.append(share)
            rows.append(
                {
                    "preset": name, "runs": runs, "precision": str(training.placement.precision).removeprefix("torch."),
                    "batch": training.batch_size, "GFLOP a step": record.flops / 1e9, "step, ms": 1000 * step,
                    "GFLOP/s": runs * record.flops / step / 1e9,
                    "ceiling, GFLOP/s": runs * record.flops / products / 1e9,
                    "share": share.value,
                }
            )  # fmt: skip
            if share.met is False:
                with profiling.profiler() as profiler:
                    training.advance(1 if effort.quick else 5)
                profiles[way] = profiling.as_rows(profiling.hottest(profiler))
    notes = ["ceiling: every product and convolution of the step alone, same shapes, strides and precision, best time"]
    return Measured(rows, ratios, notes, profiles)


def _config(name: str, quick: bool) -> Config:
    return preset(name).replace(batch_size=2) if quick else preset(name)


def _block(quick: bool) -> float:
    """Seconds of steps that are timed as one."""
    return 0.01 if quick else 0.3


def _enough(quick: bool) -> float:
    """Seconds for which an operation is repeated, at least."""
    return 0.0 if quick else 0.05


def _side_by_side(name: str, effort: Effort) -> tuple[float, float]:
    """Seconds of a step, and of its products alone, where every core has a run of its own, started together: the
    means over them."""
    arguments = {"name": name, "quick": effort.quick, "repeats": effort.repeats}
    with ThreadPoolExecutor(cores()) as pool:
        runs = [pool.submit(fresh, __name__, "on_one_thread", **arguments) for _ in range(cores())]
    steps, products = zip(*(run.result()[0] for run in runs), strict=True)
    return statistics.mean(steps), statistics.mean(products)


def on_one_thread(name: str, quick: bool, repeats: int) -> tuple[float, float]:
    """Seconds of a step on one thread, and of its products alone: what each of those processes measures."""
    torch.set_num_threads(1)
    training = Stepper(_config(name, quick), open_world("mnist"), "cpu")
    step = training.seconds_per_step(repeats, _block(quick))
    return step, recorded(training).best_seconds(training.device, _enough(quick))


def recorded(training: Stepper) -> Recorder:
    """The products and convolutions of one step."""
    with Recorder() as record:
        training.advance()
    return record
