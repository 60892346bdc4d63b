"""How the threads of a step wait for each other when other processes want the cores too.

GNU OpenMP's threads spin for milliseconds before they sleep. On a quiet machine that is fastest. Beside a busy process
it is ten times slower: a thread that spins takes the core from the one it waits for. GNU OpenMP hardly spins
while it manages more threads than there are cores. So while this process waits for cores, it keeps an idle team of
threads, one more than the cores; when the machine is quiet again, the team ends. The team computes nothing, and sums
are divided as before, so the numbers have the same bits either way.
"""

from __future__ import annotations

import contextlib
import ctypes
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

INTERVAL = 0.2  # seconds between looks
BUSY, QUIET = 0.1, 0.05  # share of the time for which a thread waits for a core: from where spinning harms, and not
PATIENCE = 5  # quiet looks in a row until the team ends

TASKS, MAPS = Path("/proc/self/task"), Path("/proc/self/maps")


class IdleTeam:
    """A team of OpenMP threads that sleep. It belongs to a thread of its own and ends with it."""

    def __init__(self, library: ctypes.CDLL, threads: int) -> None:
        self.ready, self.leave = threading.Event(), threading.Event()
        self.thread = threading.Thread(target=self._keep, args=(library, threads), name="idle team", daemon=True)
        self.thread.start()
        self.ready.wait()

    def _keep(self, library: ctypes.CDLL, threads: int) -> None:
        nothing = ctypes.CDLL(None).free  # free(NULL), on every thread of the team
        library.GOMP_parallel(nothing, None, ctypes.c_uint(threads), ctypes.c_uint(0))
        self.ready.set()
        self.leave.wait()

    def end(self) -> None:
        self.leave.set()
        self.thread.join()


class Watch:
    """Keeps an idle team while threads of this process wait for cores.

    Args:
        team: makes the idle team.
        waited: seconds that the threads of this process have waited for a core so far, all together.
        threads: how many threads compute.
    """

    def __init__(self, team: Callable[[], IdleTeam], waited: Callable[[], float], threads: int) -> None:
        self.make, self.waited, self.threads = team, waited, threads
        self.team: IdleTeam | None = None
        self.quiet_looks = 0
        self.before = time.monotonic(), waited()

    def look(self) -> None:
        now = time.monotonic(), self.waited()
        share = (now[1] - self.before[1]) / max(now[0] - self.before[0], 1e-9) / self.threads
        self.before = now
        self.quiet_looks = self.quiet_looks + 1 if share < QUIET else 0
        if self.team is None and share > BUSY:
            self.team = self.make()
        elif self.quiet_looks >= PATIENCE:
            self.end()

    def end(self) -> None:
        if self.team is not None:
            self.team.end()
            self.team = None


@contextlib.contextmanager
def politely(threads: int, cores: int) -> Iterator[None]:
    """As a context manager: threads do not spin while other processes want the cores. Does nothing with one thread,
    without GNU OpenMP, or if the system does not report how long threads wait."""
    library = _gnu_openmp() if threads > 1 else None
    if library is None or _waited() is None:
        yield
        return
    extra = max(2, cores - threads + 2)
    watch = Watch(lambda: IdleTeam(library, extra), lambda: _waited() or 0.0, threads)
    over = threading.Event()

    def go_on() -> None:
        while not over.wait(INTERVAL):
            watch.look()
        watch.end()

    watcher = threading.Thread(target=go_on, name="watch", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()


def _gnu_openmp() -> ctypes.CDLL | None:
    """The library that torch has loaded; None if it uses another."""
    lines = MAPS.read_text().splitlines() if MAPS.is_file() else []
    path = next((line.split(maxsplit=5)[-1] for line in lines if "libgomp" in line), None)
    return ctypes.CDLL(path) if path else None


def _waited() -> float | None:
    """Seconds for which threads of this process waited for a core; None if the system does not report it."""
    total, known = 0, False
    for task in TASKS.iterdir() if TASKS.is_dir() else ():
        with contextlib.suppress(OSError, ValueError, IndexError):  # the thread has ended meanwhile
            total += int((task / "schedstat").read_text().split()[1])
            known = True
    return total / 1e9 if known else None
