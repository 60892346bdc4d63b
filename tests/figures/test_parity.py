"""Odd and even actions: all seeds of the committed runs, and what a cycle of odd length is told."""

from __future__ import annotations

import json

import numpy as np
import pytest
from helpers import ROOT, says

from brojepa.errors import RequestError
from brojepa.figures import FIGURES, parity
from brojepa.figures.choose import choose, find
from brojepa.figures.sources import Source

RESULTS = ROOT / "results"


def test_the_figure_shows_every_seed_of_both_configs():
    chosen = choose(FIGURES["parity"], find([RESULTS / "mnist"]).runs)
    data = parity.collect({role: Source(run, None, {}) for role, run in chosen.items() if run})
    for role, file in {"odd": "", "both": ",with-action-0"}.items():
        lines = (RESULTS / f"mnist/supervised-mlp-mfr-fixed{file}.jsonl").read_text().splitlines()
        runs = sorted(map(json.loads, lines), key=lambda run: run["seed"])
        assert data[f"{role}.seeds"] == [run["seed"] for run in runs] == list(range(6))
        assert data[f"{role}.trained"] == runs[0]["config"]["train_actions"]
        by_action = {int(k): [run["result"]["per_action"][k] for run in runs] for k in runs[0]["result"]["per_action"]}
        assert data[f"{role}.actions"] == sorted(by_action)
        expected = np.array([by_action[k] for k in sorted(by_action)]).T
        assert np.allclose(data[f"{role}.accuracy"], expected, atol=1e-6)


def test_a_cycle_of_odd_length_has_no_odd_and_even_actions():
    run = next(candidate.run for candidate in find([RESULTS / "mnist-0-6"]).runs)
    with pytest.raises(RequestError) as caught:
        parity.collect({"odd": Source(run, None, {})})
    assert says(str(caught.value), "7 even length")
