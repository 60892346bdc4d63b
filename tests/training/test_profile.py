"""A profiled run writes a trace, says where the time went, and computes what it would have anyway."""

from __future__ import annotations

import json
import re

import pytest
import torch
from helpers import config
from safetensors.torch import load_file

from brojepa.errors import Interrupted
from brojepa.training import Callback, train
from brojepa.training.profile import WINDOW, Profile

SMALL = ["--epochs", 1, "--batch-size", 120, "--encoder", "mlp"]


def steps_in(trace) -> int:
    """How often AdamW stepped in a trace."""
    events = json.loads(trace.read_text())["traceEvents"]
    return sum(e.get("name", "").startswith("Optimizer.step#") for e in events)


def small(digits, **values):
    return config(world=str(digits), epochs=2, **{"batch_size": 120, **values})


@pytest.mark.parametrize(
    ("batch_size", "window"),
    [(120, 2), (480, 0), (8, WINDOW), (16, 15)],  # 480 images: epochs of 4, 1, 60 and 30 steps
)
def test_a_profiled_run_has_the_bits_of_one_that_is_not(digits, tmp_path, batch_size, window):
    wanted = small(digits, batch_size=batch_size)
    plain = train(wanted, out=tmp_path / "plain", device="cpu")
    profiled = train(wanted, out=tmp_path / "profiled", device="cpu", callbacks=[Profile(print)])
    a, b = load_file(plain.model_file), load_file(profiled.model_file)
    assert a.keys() == b.keys()
    assert all(torch.equal(a[name], b[name]) for name in a)
    assert plain.result["metrics"] == profiled.result["metrics"]
    trace = profiled.path / "profile" / "trace.json"
    assert trace.exists() == (window > 0)
    assert not window or steps_in(trace) == window


def test_the_table_says_where_the_time_went(digits, tmp_path):
    lines: list[str] = []
    run = train(small(digits), out=tmp_path, device="cpu", callbacks=[Profile(lines.append)])
    start = next(i for i, line in enumerate(lines) if line.startswith("profile of steps 3 to 4, "))
    rows = [re.fullmatch(r"(\S.*\S) +([\d,]+) +([\d.]+) +([\d.]+)%", line) for line in lines[start + 2 : start + 17]]
    assert all(rows)
    shares = [float(row[4]) for row in rows if row]
    assert shares == sorted(shares, reverse=True)
    assert 50 < sum(shares) <= 100.5
    assert any("addmm" in row[1] for row in rows if row)
    assert any(str(run.path / "profile" / "trace.json") in line for line in lines)


def test_a_run_cut_inside_the_window_leaves_no_profiler_on(digits, tmp_path):
    class Cut(Callback):
        def step(self, training):
            if training.step == 3:
                raise Interrupted("cut")

    with pytest.raises(Interrupted):
        train(small(digits), out=tmp_path, device="cpu", callbacks=[Profile(print), Cut()])
    assert not torch.autograd.profiler._is_profiler_enabled
    # the resumed run is profiled, from a profiler that can start
    run = train(small(digits), out=tmp_path, device="cpu", callbacks=[Profile(print)])
    assert (run.path / "profile" / "trace.json").is_file()


def test_the_flag(cli, digits, tmp_path):
    words = ["train", "--world", digits, *SMALL, "--out", tmp_path, "--profile"]
    first = cli(*words)
    assert first.code == 0
    assert "profile of steps" in first.out
    (trace,) = tmp_path.rglob("trace.json")
    assert trace.parent.name == "profile"
    again = cli(*words)
    assert (again.code, "nothing to profile" in again.out) == (0, True)


def test_quiet_stays_quiet(cli, digits, tmp_path):
    words = ["train", "--world", digits, *SMALL, "--out", tmp_path, "--profile"]
    assert cli(*words, "--quiet") == (0, "", "")
    assert list(tmp_path.rglob("trace.json"))
