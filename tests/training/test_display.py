"""What a run shows: bars that count evaluation, tables that fit, colours that can be refused, notebooks, and short
reprs."""

from __future__ import annotations

import contextlib
import io
import re

import pytest
import torch
from helpers import blobs
from small_runs import EPOCHS, KINDS, same_run

import brojepa
from brojepa.errors import RunError
from brojepa.evaluation import Evaluator, evaluator
from brojepa.runs import Run
from brojepa.training import Callback, JsonLines, LiveTable, display, train
from brojepa.training import screen as screens
from brojepa.training.screen import Notebook, Screen, Terminal, bar, progress_bar, screen


class Tty(io.StringIO):
    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal(monkeypatch):
    """A terminal of that many columns, on which every step is shown."""

    def make(columns: int) -> Tty:
        monkeypatch.setenv("COLUMNS", str(columns))
        monkeypatch.setenv("TERM", "xterm")
        monkeypatch.delenv("NO_COLOR", raising=False)
        monkeypatch.setattr(display, "EVERY", -1.0)
        return Tty()

    return make


def plain(text: str) -> str:
    return re.sub(r"\x1b\[\d*[mK]", "", text)


# Progress of the evaluation


class Shares(Callback):
    def __init__(self) -> None:
        self.shares: list[float] = []

    def evaluated(self, training, share):
        self.shares.append(share)


@pytest.mark.parametrize("kind", ["learned-ema", "supervised"])
def test_evaluation_says_how_far_it_has_come(kind, small, uncut, tmp_path):
    heard = Shares()
    run = train(small(**KINDS[kind]), out=tmp_path, device="cpu", callbacks=[heard], quiet=True)
    assert len(heard.shares) > 10
    assert heard.shares == sorted(heard.shares)
    assert 0 < heard.shares[0] < heard.shares[-1]
    assert heard.shares[-1] == pytest.approx(1)
    same_run(run, uncut(kind))


def test_evaluation_of_poses_says_how_far_it_has_come(tmp_path, digits):
    heard = Shares()
    config = brojepa.preset("rotation/fast").replace(
        world=f"rotation:{digits}", epochs=1, encoder="mlp", latent=16, precision="float32"
    )
    train(config, out=tmp_path, device="cpu", callbacks=[heard], quiet=True)
    assert heard.shares == sorted(heard.shares)
    assert heard.shares[-1] == pytest.approx(1)


def test_what_is_expected_adds_up_to_the_estimate_and_weighs_the_parts():
    class Own(Evaluator):
        def sample(self, model, train):
            return {"first": 1.0, "second": 3.0}

    own, heard = Own(None, (), ()), []
    own.listener = heard.append
    own.done("first", 1.0)
    assert heard == [], "nothing is known before the estimate"
    assert own.estimate(None, None) == 4.0  # pyright: ignore
    own.done("first", 0.5)
    own.done("second", 0.5)
    own.done("other", 0.5)
    assert heard == [pytest.approx(0.125), pytest.approx(0.625)]


def test_an_estimate_grows_with_the_work_and_leaves_the_model_as_it_was():
    world = blobs(n=5, count=60, tests=40)
    model = brojepa.build(
        brojepa.Config().replace(latent=8, precision="float32"), brojepa.Task.of(world), torch.Generator()
    )
    model.train()
    before = {name: t.clone() for name, t in model.state_dict().items()}
    measures = evaluator(world, (-1, 1), (2, -2))
    assert measures.estimate(model, world.train) > 0
    assert model.training
    assert all(torch.equal(t, before[name]) for name, t in model.state_dict().items())


def test_an_own_evaluator_need_not_say_anything(small, tmp_path, monkeypatch):
    monkeypatch.setattr(brojepa.LabelEvaluator, "sample", Evaluator.sample)
    heard, stream = Shares(), io.StringIO()
    train(small(epochs=1), out=tmp_path, device="cpu", callbacks=[heard, LiveTable(stream)])
    assert heard.shares == []
    assert "evaluating on the test split\n" in stream.getvalue()


# The table and the bar


@pytest.mark.parametrize("columns", [80, 60])
def test_everything_fits_the_terminal(columns, terminal, small, uncut, tmp_path):
    stream = terminal(columns)
    run = train(small(**KINDS["learned-ema"]), out=tmp_path, device="cpu", callbacks=[LiveTable(stream)])
    same_run(run, uncut("learned-ema"))
    text = plain(stream.getvalue())
    lines = re.split(r"[\r\n]+", text)
    too_long = [line for line in lines if len(line) > columns and " " in line.strip()]
    assert not too_long
    (head,) = [line for line in lines if line.split()[:2] == ["epoch", "loss"]]
    assert ("cov" in head) == (columns == 80)
    assert "zero-shot" in head
    bars = [line for line in lines if "━" in line or "─" in line]
    assert sum("loss" in line for line in bars) >= EPOCHS
    assert sum("evaluating" in line for line in bars) > 3
    assert all(line.endswith(" left") for line in bars)
    shares = [int(share) for share in re.findall(r" (\d+)%", text)]
    assert shares[-1] == 100


def test_the_bar_and_the_time_left_count_evaluation(terminal, small, tmp_path, monkeypatch):
    """Training takes a moment; evaluation is said to take an hour."""
    monkeypatch.setattr(brojepa.LabelEvaluator, "sample", lambda *_: {"encode": 1800.0, "neighbours": 1800.0})
    stream = terminal(80)
    train(small(), out=tmp_path, device="cpu", callbacks=[LiveTable(stream)])
    text = plain(stream.getvalue())
    training = re.findall(r"(\d+)%.*loss .* (\d+ (?:min|h)).* left", text)
    assert training
    assert {share for share, _ in training} == {"0"}
    rows = [line for line in text.splitlines() if re.match(rf"\r? +\d/{EPOCHS} +\d", line)]
    assert rows[-1].endswith("1.0 h")


def test_no_colour_where_none_is_wanted(terminal, small, tmp_path, monkeypatch):
    stream = terminal(80)
    train(small(epochs=1), out=tmp_path / "a", device="cpu", callbacks=[LiveTable(stream)])
    assert "\x1b[36m" in stream.getvalue()
    monkeypatch.setenv("NO_COLOR", "1")
    stream = Tty()
    train(small(epochs=1), out=tmp_path / "b", device="cpu", callbacks=[LiveTable(stream)])
    assert "\x1b[K" in stream.getvalue()
    assert not re.search(r"\x1b\[\d*m", stream.getvalue())


def test_a_dumb_terminal_and_a_file_get_plain_lines(monkeypatch):
    monkeypatch.setenv("TERM", "dumb")
    assert type(screen(Tty())) is Screen
    assert type(screen(io.StringIO())) is Screen
    monkeypatch.setenv("TERM", "xterm")
    assert type(screen(Tty())) is Terminal


def test_a_plain_table_fits_80_columns(small, tmp_path):
    stream = io.StringIO()
    train(small(**KINDS["learned-ema"]), out=tmp_path, device="cpu", callbacks=[LiveTable(stream)])
    lines = stream.getvalue().splitlines()
    head = next(i for i, line in enumerate(lines) if line.split()[:2] == ["epoch", "loss"])
    assert {len(line) for line in lines[head : head + EPOCHS + 1]} == {len(lines[head])}
    assert len(lines[head]) <= 80
    assert not set("\r\x1b") & set(stream.getvalue())
    assert sum(line.startswith("evaluating on the test split") for line in lines) == 1


@pytest.mark.parametrize("columns", [200, 80, 60, 40, 12, 1])
@pytest.mark.parametrize("share", [0, 0.5, 1, 1.2])
def test_a_bar_fits_and_keeps_its_last_note(columns, share):
    shown = Screen(Tty())
    shown.columns = columns
    line = bar(shown, "  2/5  ", share, ["5,230 images/s", "loss 1.726", "1 min 38 s left"])
    assert line.endswith("left")
    assert len(line) < max(columns, 40)
    assert f"{min(share, 1):.0%}" in line
    if columns >= 80:
        assert "images/s" in line
        assert ("━" in line, "─" in line) == (share > 0, share < 1)


def test_bars_are_ascii_where_the_stream_knows_no_others():
    stream = Tty()
    stream.encoding = "latin-1"  # pyright: ignore
    assert "#" in bar(Screen(stream), "x", 0.5, ["left"])


def test_the_bar_of_a_command_goes_away(monkeypatch):
    monkeypatch.setattr(screens, "EVERY", -1.0)
    monkeypatch.setenv("TERM", "xterm")
    stream = Tty()
    with progress_bar("evaluating", stream) as tell:
        tell(0.0)
        tell(0.5)
    assert " 50%" in stream.getvalue()
    assert stream.getvalue().endswith("\r\x1b[K")


# In Python and in notebooks


def test_training_in_python_shows_progress_unless_quiet(small, tmp_path, capsys):
    train(small(epochs=1), out=tmp_path / "a", device="cpu")
    assert "1/1" in capsys.readouterr().out
    train(small(epochs=1), out=tmp_path / "b", device="cpu", quiet=True)
    assert capsys.readouterr() == ("", "")
    train(small(epochs=1), out=tmp_path / "c", device="cpu", callbacks=[JsonLines()])
    assert all(line.startswith("{") for line in capsys.readouterr().out.splitlines())
    stream = io.StringIO()
    train(small(epochs=1), out=tmp_path / "d", device="cpu", callbacks=[LiveTable(stream)])
    assert capsys.readouterr().out == ""
    assert "1/1" in stream.getvalue()


def test_a_notebook_gets_one_output_that_is_replaced(small, tmp_path, monkeypatch):
    outputs: list[str] = []

    class Handle:
        def update(self, shown, raw):
            assert raw
            outputs[-1] = shown["text/plain"]

    def show(shown, raw, display_id):
        assert raw
        assert display_id
        outputs.append(shown["text/plain"])
        return Handle()

    monkeypatch.setattr(display, "EVERY", -1.0)
    monkeypatch.setattr(display, "screen", lambda stream: Notebook(show))
    train(small(), out=tmp_path, device="cpu")
    (text,) = outputs
    assert not set("\r\x1b") & set(text)
    assert f"{EPOCHS}/{EPOCHS}" in text
    assert "%" not in text, "the bar is gone"
    assert "zero-shot " in text


def test_no_notebook_is_seen_where_there_is_none():
    assert screens._notebook() is None


NOTEBOOK = """import brojepa
run = brojepa.train({config}, out={out!r}, device="cpu")
"""


def test_a_real_notebook_kernel_shows_one_output(digits, tmp_path):
    nbclient = pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    import nbformat

    config = f"brojepa.Config().replace(world={str(digits)!r}, epochs=2, latent=16, precision='float32')"
    code = NOTEBOOK.format(config=config, out=str(tmp_path))
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code), nbformat.v4.new_code_cell("run")])
    nbclient.NotebookClient(book, timeout=300, startup_timeout=300, kernel_name="python3").execute()
    (shown,) = [each for each in book.cells[0].outputs if each.get("name") != "stderr"]  # a kernel may warn there
    assert shown.output_type == "display_data"
    text = shown.data["text/plain"]
    assert "2/2" in text
    assert "trained in" in text
    assert not set("\r\x1b%") & set(text)
    assert book.cells[1].outputs[0].data["text/plain"].startswith("Run ")


# Reprs


def test_a_run_and_its_result_are_short_tables(trained):
    run = Run(trained[0])
    for shown in (repr(run), repr(run.result), repr(brojepa.evaluate_run(run.path))):
        assert len(shown.splitlines()) < 10
        assert f"{run.result['metrics']['zero_shot']:.4f}" in shown
    assert repr(run).startswith(f"Run {run.path}: jepa mlp mfr-learned on digits, seed 7, 4 epochs")
    assert run.result == dict(run.result), "it is a dictionary still"


def test_a_run_that_is_not_finished_says_how_far_it_is(small, tmp_path):
    class Stops(Callback):
        def epoch(self, training, row):
            if row["epoch"] == 2:
                raise RunError("enough")

    with pytest.raises(RunError), contextlib.redirect_stdout(io.StringIO()):
        train(small(), out=tmp_path, device="cpu", callbacks=[Stops()])
    (path,) = (file.parent for file in tmp_path.rglob("config.json"))
    assert repr(Run(path)).endswith(f"seed 0, 2 of {EPOCHS} epochs")
    assert repr(Run(tmp_path / "none")) == f"Run {tmp_path / 'none'}: not begun"
    (path / "config.json").write_text("{")
    assert repr(Run(path)).startswith(f"Run {path}: ")
    assert "\n" not in repr(Run(path))


@pytest.mark.parametrize("name", ["mnist", "rotation", "torus", "dihedral"])
def test_a_world_is_shown_in_a_few_lines(name):
    world = brojepa.open_world(name)
    lines = repr(world).splitlines()
    assert len(lines) <= 5
    assert name in lines[0]
    assert all(len(line) <= 80 for line in lines)
    assert f"{len(world.test):,}" in repr(world)
    assert "tensor" not in repr(world) + repr(world.train)
