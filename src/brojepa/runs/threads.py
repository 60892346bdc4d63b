"""How many threads a run computes with. Sums that threads share differ in their last bits with the number of threads,
so a run keeps the number that it began with."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import Any

import torch

from brojepa.runs.waiting import politely
from brojepa.text import plural

MOST = 1024  # the largest number of threads that can be requested


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def from_environment() -> int | None:
    """The number that OMP_NUM_THREADS asks for; the first one if it lists several levels."""
    first = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    return int(first) if first.isascii() and first.isdigit() and 1 <= int(first) <= MOST else None


def choose(asked: int | None, environment: dict[str, Any]) -> tuple[int, str]:
    """The number of threads for a run, and what a user should know about it, if anything.

    Args:
        asked: the number that the user named; it is taken.
        environment: what `env.json` says; its `threads` are those that the run began with, which are kept unless they
            are more than there are cores. A new run takes what torch has.
    """
    before, here = environment.get("threads") or 0, torch.get_num_threads()
    if before < 1 or before == asked:
        return asked or here, ""
    differs = f"the run began with {plural(before, 'thread')}"
    if asked is not None:
        return asked, f"{differs}, not {asked}: the last bits of its numbers may differ from those of an uncut run"
    most = max(cores(), here)
    if before > most:
        return (
            most,
            f"{differs}, here are {most}: the last bits of its numbers may differ; --threads {before} keeps them",
        )
    return before, ""


@contextlib.contextmanager
def computing_with(number: int) -> Iterator[None]:
    """As a context manager: torch computes with this many threads, which do not spin on busy cores."""
    before = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        with politely(number, cores()):
            yield
    finally:
        torch.set_num_threads(before)


def set_threads(number: int | None) -> None:
    """This process and those it starts compute with this many threads; None changes nothing."""
    if number is not None:
        os.environ["OMP_NUM_THREADS"] = str(number)
        torch.set_num_threads(number)
