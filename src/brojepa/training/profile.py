"""Where the time of a training step goes: a window of steps under torch's profiler.

`Profile` is a callback like any other, so a profiled run gives the same results.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch.profiler import profile

from brojepa.errors import RunError
from brojepa.runs import Run
from brojepa.training.callbacks import Callback, Progress

WARM_UP, WINDOW = 20, 20  # steps before the window, and in it
SHOWN = 15  # operators in the table


@dataclass(frozen=True)
class Hot:
    """An operator: its calls, the seconds in itself and not in what it calls, and their share of all such seconds."""

    op: str
    calls: int
    seconds: float
    share: float


def hottest(profiler: profile, count: int = SHOWN) -> list[Hot]:
    """The operators with the most time of their own: on the GPU where there is one, else on the CPU."""
    events = profiler.key_averages()
    on_gpu = any(e.self_device_time_total for e in events)
    times = {e: e.self_device_time_total if on_gpu else e.self_cpu_time_total for e in events}
    total = sum(times.values()) or 1.0
    first = sorted(events, key=lambda e: -times[e])[:count]
    return [Hot(e.key, e.count, times[e] / 1e6, times[e] / total) for e in first]


def as_rows(hot: list[Hot]) -> list[dict[str, Any]]:
    return [asdict(h) for h in hot]


def table(hot: list[Hot]) -> list[str]:
    """Lines of text: operator, calls, milliseconds of its own, share."""
    lines = [f"{'op':<40} {'calls':>7} {'self ms':>9} {'share':>6}"]
    return lines + [f"{h.op[:40]:<40} {h.calls:>7,} {1000 * h.seconds:>9.1f} {h.share:>6.1%}" for h in hot]


def profiler() -> profile:
    os.environ.setdefault("KINETO_LOG_LEVEL", "6")  # otherwise it prints to stderr when it starts and stops
    return profile(activities=torch.profiler.supported_activities())


class Profile(Callback):
    """Profiles a window of the first epoch that it sees, writes `profile/trace.json` into the run directory and says
    where the time went.

    The window opens after 20 steps, or after half of a shorter epoch, and closes 20 steps later or where the epoch
    ends. `say` prints a line.
    """

    def __init__(self, say: Callable[[str], object]) -> None:
        self.say = say
        self.seen = 0
        self.profiler: profile | None = None
        self.done = False

    def close(self) -> None:
        if self.profiler is not None:  # the run was cut off inside the window
            self.profiler.stop()
            self.profiler = None

    def step(self, training: Progress) -> None:
        if self.done:
            return
        self.seen += 1
        left = training.steps - training.step
        if self.profiler is None:
            if left and (self.seen >= WARM_UP or left <= training.steps // 2):
                self.opened_at, self.began = self.seen, time.perf_counter()
                self.profiler = profiler()
                self.profiler.start()
        elif self.seen - self.opened_at == WINDOW or not left:
            self._finish(training, self.profiler)

    def _finish(self, training: Progress, finished: profile) -> None:
        self.profiler, self.done = None, True
        finished.stop()
        seconds, steps = time.perf_counter() - self.began, self.seen - self.opened_at
        file = training.run.path / "profile" / "trace.json"
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            finished.export_chrome_trace(str(file))
        except (OSError, RuntimeError) as error:
            raise RunError(
                f"cannot write {file}: {error}; free some space or name another --out, then repeat"
            ) from None
        first = training.step - steps + 1
        self.say(
            f"profile of steps {first} to {training.step}, {1000 * seconds / steps:.1f} ms each with the profiler on"
        )
        for line in table(hottest(finished)):
            self.say(line)
        self.say(f"{file}: open it in chrome://tracing or ui.perfetto.dev")

    def end(self, training: Progress, result: dict[str, Any]) -> None:
        if not self.done:
            self.say("nothing was profiled: that takes an epoch of at least two steps, try a smaller --batch-size")

    def found_done(self, run: Run) -> None:
        self.say("nothing was trained, so there is nothing to profile: name another --out or --seed")
