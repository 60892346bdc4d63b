"""Structure-aware fuzzing of every file that is read and of the command line: `python tests/faults/fuzz.py`, or
`make test-faults`.

Hypothesis draws what is wrong with a file that was right: a value of another kind, a key that is gone, a header that
lies, bytes that have flipped or are missing. A command then reads it in this process. It must end in time, with exit
code 0, 1 or 2, at most one line of error that is not "unexpected", no traceback, and less than 1 GB more memory.

`broken.py` has what can be wrong, `cases.py` the commands that read it, `surroundings.py` what they read.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from cases import TARGETS
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from surroundings import Hang, Surroundings

SECONDS = 30  # of computing that one command may take
WAITING = 300  # seconds on the clock, of which a busy machine may leave it few
BYTES = 2**30  # that one command may take more than before


def resident(peak: bool) -> int:
    """Bytes of memory that this process holds, or has held since the last reset; 0 where Linux does not say."""
    status = Path("/proc/self/status")
    word = "VmHWM" if peak else "VmRSS"
    lines = status.read_text().splitlines() if status.is_file() else []
    return next((1024 * int(line.split()[1]) for line in lines if line.startswith(word)), 0)


def reset_peak() -> None:
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def attempt(surroundings: Surroundings, words: list[Any]) -> str:
    """What is wrong with the way in which a command ended; or nothing."""

    def hang(*_: object) -> None:
        raise Hang

    limits = ((signal.SIGPROF, signal.ITIMER_PROF, SECONDS), (signal.SIGALRM, signal.ITIMER_REAL, WAITING))
    handlers = [signal.signal(number, hang) for number, _, _ in limits]
    reset_peak()
    before = resident(peak=False)
    for _, timer, seconds in limits:
        signal.setitimer(timer, seconds)
    try:
        code, out, err = surroundings.call(words)
    finally:
        for (number, timer, _), handler in zip(limits, handlers, strict=True):
            signal.setitimer(timer, 0)
            signal.signal(number, handler)
    more = resident(peak=True) - before
    if code not in (0, 1, 2):
        return f"ended with {code}"
    if "Traceback" in out + err or "unexpected error" in out + err:
        return err.strip()[-400:]
    errors = [line for line in err.splitlines() if line.startswith("brojepa: error")]
    if len(errors) > 1 or (code == 2 and not err + out):
        return f"exit code {code}, {len(errors)} errors: {err[-300:]}"
    return f"took {more / 2**20:,.0f} MB: {err[-200:]}" if more > BYTES else ""


def fuzz(
    place: Path, inputs: int, start: int = 0, only: str | None = None, say: Callable[[str], None] = print
) -> list[str]:
    """Try this many inputs; what went wrong, one line per input."""
    surroundings, wrong = Surroundings(place), []
    total = sum(weight for weight, _ in TARGETS.values())
    before = Path.cwd()
    (place / "here").mkdir()
    os.chdir(place / "here")
    try:
        for name, (weight, case) in TARGETS.items():
            if only and only not in name:
                continue
            count, begun, codes = -(-inputs * weight // total), time.monotonic(), Counter()

            @seed(start)
            @settings(
                max_examples=count, deadline=None, database=None, phases=[Phase.generate],
                suppress_health_check=list(HealthCheck),
            )  # fmt: skip
            @given(st.data())
            def one(data: Any) -> None:
                try:
                    words = case(surroundings, data.draw)  # noqa: B023, called before the loop goes on
                    problem = attempt(surroundings, words)
                finally:
                    surroundings.mend()
                codes["wrong" if problem else "right"] += 1  # noqa: B023
                if problem:
                    wrong.append(f"{name}: brojepa {' '.join(map(str, words))[:300]!r}: {problem}")  # noqa: B023
                    say(f"WRONG {wrong[-1]}")

            one()
            taken = f"({time.monotonic() - begun:.0f} s)"
            say(f"| {name} | {codes['right'] + codes['wrong']:,} | {codes['wrong']} |  {taken}")
    finally:
        os.chdir(before)
    return wrong


def run(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--inputs", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--only", help="only what has this word in its name")
    args = parser.parse_args(argv)
    torch.set_num_threads(1)
    print(f"seed {args.seed}, {args.inputs:,} inputs\n| what is broken | inputs | wrong |", flush=True)
    with tempfile.TemporaryDirectory() as name:
        os.environ["XDG_CACHE_HOME"] = os.environ["HOME"] = name
        wrong = fuzz(Path(name).resolve(), args.inputs, args.seed, args.only, lambda text: print(text, flush=True))
    print(f"{len(wrong)} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(run())
