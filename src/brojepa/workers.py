"""Processes for runs, each its own, that start warm.

Importing torch takes longer than the first epochs of a small run. On Linux a server process imports once and forks a
worker for every run; it trains nothing itself, so that no thread and no GPU is there to be torn by the fork. Elsewhere
a worker is a fresh Python.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
from collections.abc import Mapping, Sequence
from multiprocessing.process import BaseProcess
from pathlib import Path

METHOD = "forkserver" if sys.platform == "linux" else "spawn"


def start(words: Sequence[str], log: Path, threads: int, environment: Mapping[str, str]) -> BaseProcess:
    """A process that does what `brojepa WORDS` does, and appends what it prints to a log.

    Should this process end first, by an error, the worker is told to save and stop; should it be killed, the worker
    goes on."""
    context = multiprocessing.get_context(METHOD)
    context.set_forkserver_preload(["brojepa.training", "brojepa.cli"])
    everything = {**os.environ, **environment}  # the server has what was there when it started
    process = context.Process(target=_work, args=(list(words), str(log), threads, everything), daemon=True)
    process.start()
    return process


def _work(words: list[str], log: str, threads: int, environment: dict[str, str]) -> None:
    os.environ.clear()
    os.environ.update(environment)  # before torch looks for GPUs
    if hasattr(os, "setsid"):  # a Ctrl-C on the terminal is for the sweep, which passes it on once
        os.setsid()
    written = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
    for stream in (1, 2):
        os.dup2(written, stream)
    os.close(written)
    import torch

    from brojepa.cli import main

    torch.set_num_threads(threads)
    sys.exit(main(words))
