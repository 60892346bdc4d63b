"""Threads wait politely: no spinning while other processes want the cores, and the same bits either way."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest
import torch
from small_runs import KINDS, same_run

from brojepa.bench.busy import busy
from brojepa.runs import threads, waiting
from brojepa.training import train

gnu_openmp = pytest.mark.skipif(
    not Path("/proc/self/maps").is_file() or waiting._gnu_openmp() is None, reason="torch uses another OpenMP here"
)


class Team:
    """Stands in for the threads, and counts."""

    def __init__(self, alive: list[Team]) -> None:
        self.alive = alive
        alive.append(self)

    def end(self) -> None:
        self.alive.remove(self)


def watch(shares: list[float], monkeypatch) -> list[int]:
    """How many teams there are after each look, where threads wait for such shares of the time."""
    clock, waited, alive, teams = [0.0], [0.0], [], []
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    each = waiting.Watch(lambda: Team(alive), lambda: waited[0], threads=2)
    for share in shares:
        clock[0] += 1
        waited[0] += 2 * share
        each.look()
        teams.append(len(alive))
    each.end()
    assert not alive
    return teams


def test_one_team_is_kept_from_the_first_busy_look_until_the_machine_is_quiet(monkeypatch):
    quiet, busy = 0.0, 0.5
    assert watch([quiet, busy, busy, quiet, busy], monkeypatch) == [0, 1, 1, 1, 1], "one quiet moment is not quiet"
    assert watch([busy] + [quiet] * waiting.PATIENCE, monkeypatch) == [1] * waiting.PATIENCE + [0]


def test_a_quiet_machine_keeps_no_team(monkeypatch):
    assert watch([0.02] * 20, monkeypatch) == [0] * 20


@gnu_openmp
def test_a_team_adds_threads_and_takes_them_away_again():
    library = waiting._gnu_openmp()
    assert library is not None
    before = len(list(waiting.TASKS.iterdir()))
    team = waiting.IdleTeam(library, 3)
    assert len(list(waiting.TASKS.iterdir())) == before + 3, "its own thread and two more"
    team.end()
    deadline = time.monotonic() + 60
    while len(list(waiting.TASKS.iterdir())) > before and time.monotonic() < deadline:
        time.sleep(0.01)
    assert len(list(waiting.TASKS.iterdir())) == before


@gnu_openmp
def test_waiting_for_a_core_is_noticed(monkeypatch):
    """As many busy processes as cores, and one more: our own thread has to wait."""
    made = []
    monkeypatch.setattr(waiting, "IdleTeam", lambda library, size: made.append(size) or Team([]))
    with busy(threads.cores() + 1), waiting.politely(2, threads.cores()):
        deadline = time.monotonic() + 120
        while not made and time.monotonic() < deadline:
            sum(range(10_000))
    assert made[:1] == [2]


def test_one_thread_waits_for_nobody():
    before = threading.active_count()
    with waiting.politely(1, 2):
        assert threading.active_count() == before


@gnu_openmp
def test_a_run_with_a_team_has_the_same_bits(small, tmp_path, monkeypatch):
    monkeypatch.setattr(waiting, "INTERVAL", 0.001)
    runs = []
    for name, busy_from in (("spinning", 1e9), ("polite", -1e9)):
        monkeypatch.setattr(waiting, "BUSY", busy_from)
        monkeypatch.setattr(waiting, "QUIET", -2e9)
        with threads.computing_with(2):
            runs.append(train(small(**KINDS["learned-ema"]), out=tmp_path / name, device="cpu", threads=2))
    same_run(*runs)
    assert torch.get_num_threads() >= 1
