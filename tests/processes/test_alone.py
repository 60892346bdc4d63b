"""In one process everything is left as it is; and what several processes cannot do is refused."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest
import torch
from torch import nn

from brojepa import processes
from brojepa.errors import RequestError, RunError
from brojepa.processes import group, norm


def test_one_process_leaves_everything_as_it_is():
    z, net = torch.randn(6, 3, requires_grad=True), nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3))
    with processes.joined(), processes.together():
        assert (processes.count(), processes.rank()) == (1, 0)
        assert processes.part(6) == slice(None)
        assert processes.gather(z, slice(None), 6) is z
        before = torch.get_rng_state()
        with processes.apart(z.device):
            assert torch.equal(torch.get_rng_state(), before)
        processes.whole_batches(net)
        assert type(net[1]) is nn.BatchNorm1d
        assert processes.agree(True)
        assert not processes.agree(False)
        assert processes.first(lambda: 7) == 7


@pytest.mark.parametrize("count", [2, 3, 5])
@pytest.mark.parametrize(("rows", "unit"), [(37, 1), (5, 1), (1000, 128), (640, 128)])
def test_parts_are_whole_units_and_cover_every_row_once(monkeypatch, count, rows, unit):
    monkeypatch.setattr(group, "count", lambda: count)
    monkeypatch.setattr(group._Here, "together", True)
    covered = []
    for rank in range(count):
        monkeypatch.setattr(group, "rank", lambda rank=rank: rank)
        mine = range(rows)[processes.part(rows, unit)]
        assert len(mine)
        assert mine.start % unit == 0
        covered += mine
    assert covered == list(range(rows))


def test_too_few_rows_are_not_shared_out(monkeypatch):
    monkeypatch.setattr(group, "count", lambda: 4)
    monkeypatch.setattr(group._Here, "together", True)
    assert processes.part(3) == slice(None)
    assert processes.part(300, 128) == slice(None)
    with processes.alone():
        assert processes.part(300) == slice(None)


def test_a_batch_norm_of_another_kind_is_refused(monkeypatch):
    class Ghost(nn.BatchNorm1d):
        """One that does something else with a batch."""

    monkeypatch.setattr(norm, "count", lambda: 2)
    with pytest.raises(RequestError, match=r"1 is a Ghost.*nn\.BatchNorm1d"):
        processes.whole_batches(nn.Sequential(nn.Linear(2, 2), Ghost(2)))
    net = nn.Sequential(nn.Conv2d(1, 2, 1), nn.BatchNorm2d(2))
    names = list(net.state_dict())
    processes.whole_batches(net)
    assert isinstance(net[1], nn.BatchNorm2d)
    assert type(net[1]) is not nn.BatchNorm2d
    assert list(net.state_dict()) == names


def test_a_process_that_is_gone_is_one_line():
    with pytest.raises(RunError, match=r"has ended.*resumes") as caught, group._noticing():
        raise RuntimeError("Connection closed\nby peer")
    assert "\n" not in str(caught.value)


def test_several_processes_take_a_kind_of_device_not_one_of_them(monkeypatch):
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(RequestError, match="cuda:1"), processes.joined("cuda:1"):
        pass


def test_other_commands_are_not_for_torchrun(cli, monkeypatch):
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "2")
    outcome = cli("report")
    assert (outcome.code, outcome.err.count("\n")) == (2, 1)
    assert "torchrun" in outcome.err
    monkeypatch.setenv("RANK", "1")
    assert cli("report").err == ""


LAST_WORDS = """
import os, signal, sys
from brojepa.errors import RunError
from brojepa.processes import group
signal.signal(signal.SIGTERM, group._terminated)
if sys.argv[1] == "another has ended":
    try:
        with group._noticing():
            raise RuntimeError("connection closed by peer")
    except RunError as error:
        os.kill(os.getpid(), signal.SIGTERM)
        print(error)
else:
    os.kill(os.getpid(), signal.SIGTERM)
    print("alive")
"""


@pytest.mark.parametrize("why", ["another has ended", "somebody asked"])
def test_a_process_that_is_terminated_because_another_has_ended_still_says_so(why):
    """torchrun does so within a tenth of a second."""
    done = subprocess.run([sys.executable, "-c", LAST_WORDS, why], capture_output=True, text=True, timeout=120)
    if why == "another has ended":
        assert done.returncode == 0, done.stderr
        assert "resumes" in done.stdout
    else:
        assert (done.returncode, done.stdout) == (-signal.SIGTERM, "")
