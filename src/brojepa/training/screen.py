"""Where progress is shown: on a terminal, in a notebook, or as plain lines. Needs nothing but Python."""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TextIO

from brojepa.text import duration

COLUMNS = 80
BLOCKS = "━─"
EVERY = 0.25  # seconds between two updates of a bar
LOOKS = {"bold": "1", "dim": "2", "green": "32", "yellow": "33", "cyan": "36"}
WIDEST, NARROWEST = 30, 8  # of a bar, in characters


class Screen:
    """Plain lines, as a file or a pipe gets them. Progress is not shown."""

    live = False
    columns = COLUMNS

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream
        known = "utf" in (getattr(stream, "encoding", None) or "").lower()
        self.marks = BLOCKS if known else "#."  # characters of a bar: done, and to do

    def line(self, text: str, look: str = "", indent: int = 2) -> None:
        """Text that stays. If a screen wraps it, `indent` is for all lines but the first."""
        print(text, file=self.stream, flush=True)

    def passing(self, text: str, look: str = "") -> None:
        """A line that the next one replaces."""


class Terminal(Screen):
    """Lines that can be rewritten in place; colours unless NO_COLOR is set."""

    live = True

    @property
    def columns(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        return shutil.get_terminal_size((COLUMNS, 24)).columns

    def line(self, text: str, look: str = "", indent: int = 2) -> None:
        options: dict[str, Any] = {"break_long_words": False, "break_on_hyphens": False}
        width, gap = self.columns, " " * indent
        lines = [
            part
            for whole in text.split("\n")
            for part in textwrap.wrap(whole, width, subsequent_indent=gap, **options) or [""]
        ]
        print("\n".join(f"\r\x1b[K{painted(part, look)}" for part in lines), file=self.stream, flush=True)

    def passing(self, text: str, look: str = "") -> None:
        print(f"\r\x1b[K{painted(text[: self.columns - 1], look)}", end="", file=self.stream, flush=True)


class Notebook(Screen):
    """One output of a notebook cell, replaced as it grows."""

    live = True

    def __init__(self, display: Callable[..., Any]) -> None:
        self.display, self.marks = display, BLOCKS
        self.lines: list[str] = []
        self.handle: Any = None

    def line(self, text: str, look: str = "", indent: int = 2) -> None:
        self.lines.append(text)
        self._show(self.lines)

    def passing(self, text: str, look: str = "") -> None:
        self._show([*self.lines, text])

    def _show(self, lines: Sequence[str]) -> None:
        shown = {"text/plain": "\n".join(lines)}
        if self.handle is None:
            self.handle = self.display(shown, raw=True, display_id=True)
        else:
            self.handle.update(shown, raw=True)


def screen(stream: TextIO | None = None) -> Screen:
    """Where to show progress: the stream given, else the notebook that Python runs in, else stdout."""
    if stream is None and (display := _notebook()):
        return Notebook(display)
    where: TextIO = stream or sys.stdout
    return Terminal(where) if where.isatty() and os.environ.get("TERM") != "dumb" else Screen(where)


def _notebook() -> Callable[..., Any] | None:
    """The display of a notebook, if this is one and its output is not redirected. A notebook has IPython imported."""
    there = type(sys.stdout).__module__.startswith("ipykernel.") and "IPython.display" in sys.modules
    return sys.modules["IPython.display"].display if there else None


def painted(text: str, look: str) -> str:
    """Text in a colour, or as it is."""
    return f"\x1b[{LOOKS[look]}m{text}\x1b[0m" if look and text and not os.environ.get("NO_COLOR") else text


@contextmanager
def progress_bar(label: str, stream: TextIO) -> Iterator[Callable[[float], None]]:
    """A progress bar on a terminal, as a context manager; call its value with the share that is done."""
    shown_on, began, shown = screen(stream), time.monotonic(), 0.0

    def tell(share: float) -> None:
        nonlocal shown
        now = time.monotonic()
        if now - shown > EVERY and share > 0:
            shown = now
            left = (now - began) * (1 - share) / share
            shown_on.passing(bar(shown_on, label, share, [f"{duration(left)} left"]), "cyan")

    try:
        yield tell
    finally:
        if shown:
            shown_on.passing("")


def bar(screen: Screen, label: str, share: float, notes: Sequence[str]) -> str:
    """A progress line: a label, a bar, a percentage and notes, as many of these as fit."""
    room = screen.columns - 3  # Ctrl-C echoes two characters after it
    percent, notes = f"{min(share, 1):4.0%}", list(notes)
    while (rest := room - len("  ".join((label, percent, *notes))) - 2) < NARROWEST and len(notes) > 1:
        notes.pop(0)
    width = max(0, min(WIDEST, rest))
    done = round(min(share, 1) * width)
    return "  ".join((label, screen.marks[0] * done + screen.marks[1] * (width - done), percent, *notes))
