"""What the benchmarks share: effort, results, and a clock."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

import torch


@dataclass(frozen=True)
class Effort:
    """How hard to try. quick: tiny sizes, which prove that a benchmark works and measure nothing worth keeping.
    full: really train where a benchmark would otherwise extrapolate."""

    repeats: int = 5
    quick: bool = False
    full: bool = False
    device: str = "auto"


@dataclass(frozen=True)
class Ratio:
    """A number that a benchmark reports, and its goal, if there is one: the least or the most it should be."""

    name: str
    value: float
    least: float | None = None
    most: float | None = None

    @property
    def met(self) -> bool | None:
        if self.least is None and self.most is None:
            return None
        return (self.least is None or self.value >= self.least) and (self.most is None or self.value <= self.most)

    @property
    def goal(self) -> str | None:
        parts = [f"{sign} {bound:g}" for sign, bound in ((">=", self.least), ("<=", self.most)) if bound is not None]
        return " and ".join(parts) or None


@dataclass
class Measured:
    """Rows of what was measured, the ratios made of them, notes for the reader, and profiles if a goal of
    speed was missed."""

    rows: list[dict[str, Any]]
    ratios: list[Ratio]
    notes: list[str] = field(default_factory=list)
    profiles: dict[str, list[dict[str, Any]]] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        ratios = [{"name": r.name, "value": r.value, "goal": r.goal, "met": r.met} for r in self.ratios]
        met = all(r.met is not False for r in self.ratios)
        return {**asdict(self), "ratios": ratios, "met": met}


def synchronise(device: torch.device) -> None:
    """Wait for work queued on a device, so that the clock includes it."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    elif device.type == "mps":
        torch.mps.synchronize()


def seconds(call: Callable[[], object], device: torch.device) -> float:
    synchronise(device)
    begun = time.perf_counter()
    call()
    synchronise(device)
    return time.perf_counter() - begun


def median_seconds(call: Callable[[], object], repeats: int, device: torch.device) -> float:
    """The median of `repeats` calls after one that warms up."""
    call()
    return statistics.median(seconds(call, device) for _ in range(repeats))
