"""A few faults and a few hundred bad inputs; `make test-faults` tries thousands."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent


def output(script: str, *words: str) -> str:
    command = [sys.executable, "-X", "utf8", str(HERE / script), *words]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=1200)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


def test_faults_of_every_kind_are_survived():
    rows = output("inject.py", "--most", "1", "--kinds", "learned", "--sweeps", "0").splitlines()
    counts = {cells[1].strip(): cells[2].strip() for cells in (row.split("|") for row in rows) if len(cells) == 5}
    assert {"kill -9 at every write point", "SIGTERM", "disk full at every write point"} <= counts.keys()
    assert int(counts["all"]) >= 9


def test_bad_input_is_answered_in_a_line():
    assert "0 wrong" in output("fuzz.py", "--inputs", "250", "--seed", "0")
