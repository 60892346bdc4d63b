"""Callbacks: which moments they hear of and in which order, and that a run is the same whoever listens."""

from __future__ import annotations

import inspect
import io
import re
import signal
from typing import get_type_hints

import pytest
import torch
from small_runs import EPOCHS, KINDS, STEPS, same_run

from brojepa.errors import Interrupted, RequestError
from brojepa.training import Callback, JsonLines, LiveTable, Progress, train

COLLAPSING = {"variance": 0.0, "covariance": 0.0, "target_encoder": "stop-gradient", "batch_size": 32, "lr": 3e-3}
"""One warning, at least: the latents collapse"""


class Note(Callback):
    """Writes every moment down."""

    def __init__(self, name: str = "", book: list[str] | None = None) -> None:
        self.name, self.book = name, [] if book is None else book

    def _note(self, what: str) -> None:
        self.book.append(f"{self.name}{what}")

    def begin(self, training, resumed):
        self._note(f"begin {resumed}")

    def step(self, training):
        self._note(f"step {training.epoch}.{training.step}")

    def epoch(self, training, row):
        assert training.rows[-1] is row
        self._note(f"epoch {row['epoch']}")

    def evaluate(self, training):
        assert not training.run.done
        self._note("evaluate")

    def end(self, training, result):
        assert training.run.result == result
        self._note("end")

    def found_done(self, run):
        self._note("found done")

    def close(self):
        self._note("close")


class Takes(Note):
    def warning(self, text):
        self._note(f"warning {text}")


WHOLE = ["begin False", *(
    moment for e in range(EPOCHS) for moment in (*(f"step {e}.{s}" for s in range(1, STEPS + 1)), f"epoch {e + 1}")
), "evaluate", "end", "close"]  # fmt: skip


def test_the_moments_come_in_order_and_to_several_in_turn(small, uncut, tmp_path):
    book: list[str] = []
    stream = io.StringIO()
    heard = [Note("a ", book), LiveTable(stream), Note("b ", book)]
    run = train(small(**KINDS["learned-ema"]), out=tmp_path, device="cpu", callbacks=heard)
    assert book == [f"{who} {moment}" for moment in WHOLE for who in "ab"]
    same_run(run, uncut("learned-ema"))
    lines = stream.getvalue().splitlines()
    assert sum(re.match(rf" *\d/{EPOCHS} ", line) is not None for line in lines) == EPOCHS
    assert lines[-1] == str(run.path)
    book.clear()
    train(small(**KINDS["learned-ema"]), out=tmp_path, device="cpu", callbacks=heard)
    assert book == ["a found done", "b found done", "a close", "b close"]


def test_who_listens_changes_no_bit_even_by_drawing(small, uncut, tmp_path):
    class Draws(Callback):
        def step(self, training):
            torch.randn(3)
            training.model.eval()
            training.model.train()

        def epoch(self, training, row):
            torch.manual_seed(int(torch.randint(99, ())))

    values = small(**KINDS["learned-ema"], regulariser="sigreg")
    runs = [
        train(values, out=tmp_path / str(i), device="cpu", callbacks=heard)
        for i, heard in enumerate([(), (Draws(),), (JsonLines(), Draws())])
    ]
    same_run(runs[0], runs[1])
    same_run(runs[0], runs[2])


def test_an_interrupted_run_is_closed_and_told_that_it_goes_on(small, tmp_path):
    class Stops(Note):
        def step(self, training):
            super().step(training)
            if len(self.book) == 3:
                signal.raise_signal(signal.SIGINT)

    stops, again = Stops(), Note()
    with pytest.raises(Interrupted):
        train(small(), out=tmp_path, device="cpu", callbacks=[stops])
    assert stops.book == ["begin False", "step 0.1", "step 0.2", "close"]
    train(small(), out=tmp_path, device="cpu", callbacks=[again])
    assert again.book == ["begin True", *WHOLE[WHOLE.index("step 0.3") :]]


@pytest.mark.parametrize("moment", ["begin", "step", "epoch", "evaluate", "end"])
def test_a_callback_that_raises_ends_the_run_and_all_are_closed(moment, small, tmp_path):
    class Own(Exception):
        pass

    def fails(*_):
        raise Own("mine")

    bad, before, after = Note("bad "), Note(), Note()
    setattr(bad, moment, fails)
    with pytest.raises(Own, match="mine"):
        train(small(epochs=1), out=tmp_path, device="cpu", callbacks=[before, bad, after])
    assert [note.book[-1] for note in (before, bad, after)] == ["close", "bad close", "close"]
    assert moment in before.book[-2]
    assert not any(moment in line for line in after.book if moment != "epoch")
    assert len(list(tmp_path.rglob("result.json"))) == (moment == "end")
    assert train(small(epochs=1), out=tmp_path, device="cpu").done, "the run is not locked and goes on"


def test_all_are_closed_where_one_fails_to_and_where_the_request_is_wrong(small, tmp_path):
    class Stuck(Note):
        def close(self):
            super().close()
            raise OSError("stuck")

    book: list[str] = []
    heard = [Note("a ", book), Stuck("b ", book), Note("c ", book)]
    with pytest.raises(OSError, match="stuck"):
        train(small(epochs=1, shift=1, batch_size=600), out=tmp_path, device="cpu", callbacks=heard)
    assert book[-3:] == ["a close", "b close", "c close"]
    note = Note()
    with pytest.raises(RequestError):
        train(small(world="no/such.npz"), out=tmp_path, device="cpu", callbacks=[note])
    assert note.book == ["close"]


# Warnings


def warned(values, out, capsys, *callbacks: Callback) -> list[str]:
    train(values, out=out, device="cpu", callbacks=callbacks, quiet=True)
    return [line for line in capsys.readouterr().err.splitlines() if "collapsed" in line]


def test_a_warning_is_printed_once_where_none_takes_it(small, tmp_path, capsys):
    values = small(**{**COLLAPSING, "epochs": 2})
    alone = warned(values, tmp_path / "alone", capsys)
    assert alone
    assert all("warning" in line for line in alone)
    assert len(warned(values, tmp_path / "json", capsys, JsonLines(), Note(), Note())) == len(alone)


def test_a_warning_that_is_taken_is_not_printed_as_well(small, tmp_path, capsys):
    values, stream, takes = small(**{**COLLAPSING, "epochs": 2}), io.StringIO(), [Takes(), Takes()]
    assert warned(values, tmp_path, capsys, takes[0], LiveTable(stream), takes[1], JsonLines()) == []
    heard = [[line for line in t.book if line.startswith("warning")] for t in takes]
    assert heard[0]
    assert heard[0] == heard[1]
    assert len(set(heard[0])) == len(heard[0]), "each once"
    assert stream.getvalue().count("warning: the latents have collapsed") == len(heard[0])


# What a callback may read


def test_all_that_a_callback_may_read_is_there_and_documented(small, tmp_path):
    properties = {name for name, value in vars(Progress).items() if isinstance(value, property)}
    names, seen = get_type_hints(Progress).keys() | properties, []

    class Reads(Callback):
        def begin(self, training, resumed):
            seen.append({name: getattr(training, name) for name in names})
            seen[0]["rows"] = list(training.rows)

        def step(self, training):
            assert training.term_names[0] == "loss"

        def end(self, training, result):
            seen.append({name: getattr(training, name) for name in names})

    train(small(epochs=1), out=tmp_path, device="cpu", callbacks=[Reads()])
    first, last = seen
    assert (first["epoch"], first["step"], first["rows"], first["term_names"]) == (0, 0, [], [])
    assert (last["epoch"], last["step"], len(last["rows"]), last["steps"]) == (1, 0, 1, STEPS)
    for name in names:
        assert re.search(rf"\b{name}\b", Progress.__doc__ or ""), name
    described = re.findall(r"^ {4}([a-z_]+(?:, [a-z_]+)*): ", inspect.getdoc(Progress) or "", re.M)
    assert described
    assert {word for words in described for word in words.split(", ")} <= names
