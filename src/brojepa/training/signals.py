"""Ctrl-C and SIGTERM during a run: the loop stops at a point where it can resume."""

from __future__ import annotations

import signal
import threading
from typing import Any


class Signals:
    """SIGINT and SIGTERM during a run: remembered, so that the loop stops between two steps, or raised
    if `at_once` is set, or on the second one."""

    def __init__(self) -> None:
        self.requested, self.at_once = False, False
        self.handlers: dict[int, Any] = {}

    def __enter__(self) -> Signals:
        if threading.current_thread() is threading.main_thread():
            self.handlers = {s: signal.signal(s, self._handle) for s in (signal.SIGINT, signal.SIGTERM)}
        return self

    def _handle(self, *_: object) -> None:
        if self.at_once or self.requested:
            raise KeyboardInterrupt
        self.requested = True

    def __exit__(self, *_: object) -> None:
        for number, handler in self.handlers.items():
            signal.signal(number, handler)
