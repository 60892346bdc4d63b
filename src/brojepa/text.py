"""Text for people: actions, counts, durations, lists."""

from __future__ import annotations

import codecs
import io
import math
import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any


def open_streams() -> None:
    """Make stdout and stderr accept any text: a terminal without a plus-minus sign shows +-, and a closed stream is
    replaced by /dev/null."""
    codecs.register_error("brojepa", _plainer)
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115, it stays open
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="brojepa")


PLAIN = {"±": "+-", "π": "pi", "−": "-", "↑": "^", "↓": "v", "↳": ">", "━": "#", "─": "-"}
"""Signs that we print, as a screen shows them that has letters only."""


def _plainer(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeEncodeError)
    return "".join(PLAIN.get(sign, "?") for sign in error.object[error.start : error.end]), error.end


def signed(k: int) -> str:
    """A number that is an action: "+3", "-1", "0"."""
    return f"{k:+d}" if k else "0"


MANY = 20  # more actions than this are not listed one by one


def actions_text(actions: Sequence[Any], group: Any = None) -> str:
    """Actions in words: "+1 -1", or a range if both signs of all numbers in it are present: "±2..±9"."""
    if not actions:
        return "no action"
    if not all(isinstance(k, int) for k in actions):
        shown = " ".join(group.write(k) for k in actions[:8])
        return shown if len(actions) <= 8 else f"{len(actions)} others"
    positive = sorted(k for k in actions if k > 0)
    stretch = positive == list(range(positive[0], positive[-1] + 1)) if positive else False
    if len(positive) > 2 and stretch and sorted(actions) == sorted([*positive, *(-k for k in positive)]):
        return f"±{positive[0]}..±{positive[-1]}"
    if len(actions) > MANY:
        return f"{len(actions)} actions from {signed(min(actions))} to {signed(max(actions))}"
    return " ".join(signed(k) for k in sorted(actions))


def fraction(value: float | None) -> str:
    """An accuracy with four digits, or a dash if there is none."""
    return "-" if value is None else f"{value:.4f}"


def plural(count: int, thing: str) -> str:
    """ "1 run", "12 runs"."""
    return f"{count} {thing}" if count == 1 else f"{count} {thing}s"


def listed(items: Iterable[object]) -> str:
    """ "0, 1, 2"."""
    return ", ".join(map(str, items))


def duration(seconds: float) -> str:
    """ "8.4 s", "3 min 20 s" or "2 h 5 min"."""
    if not math.isfinite(seconds):
        return "?"
    if seconds < 60:
        return f"{seconds:.1f} s"
    if seconds < 3600:
        return f"{int(seconds // 60)} min {int(seconds % 60)} s"
    return f"{int(seconds // 3600)} h {int(seconds % 3600 // 60)} min"
