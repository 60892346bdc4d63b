"""Trackers: what they are told is read back from what they wrote, by their own readers or by plain SQL. Each is tested
where it is installed; `make test-trackers` installs all."""

from __future__ import annotations

import json
import math
import os
import signal
import sqlite3
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import SMALL, one_line
from small_runs import EPOCHS, KINDS, Listen, same_run

import brojepa
from brojepa.errors import Interrupted, RequestError
from brojepa.figures.make import pictures
from brojepa.runs import Run
from brojepa.training import Callback, Tracker, train
from brojepa.training import tracking as room
from brojepa.training.tracking import TRACKERS, trackers

LEARNED = KINDS["learned-ema"]
MODULES = {"tensorboard": "tensorboard", "wandb": "wandb", "trackio": "trackio"}
pytestmark = pytest.mark.filterwarnings("default")  # what their packages warn of is not ours


@pytest.fixture(autouse=True)
def _own_home(tmp_path, monkeypatch):
    """No account, no settings, and a database of trackio's own."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("TRACKIO_DIR", str(tmp_path / "trackio"))
    for name in [each for each in os.environ if each.startswith("WANDB_")]:
        monkeypatch.delenv(name)
    if "trackio" in sys.modules:  # it reads TRACKIO_DIR when it is imported
        for module in [m for n, m in sys.modules.items() if n.startswith("trackio") and hasattr(m, "TRACKIO_DIR")]:
            monkeypatch.setattr(module, "TRACKIO_DIR", tmp_path / "trackio")


class Stops(Callback):
    """Ctrl-C in the middle of the second epoch."""

    def step(self, training):
        if (training.epoch, training.step) == (1, 2):
            signal.raise_signal(signal.SIGINT)


def watched(name: str, values: Any, out: Path) -> Run:
    """A run that is tracked, cut off, and goes on."""
    pytest.importorskip(MODULES[name])
    told = {"out": out, "device": "cpu", "quiet": True}
    with pytest.raises(Interrupted):
        train(values, callbacks=[*trackers(name, pictures), Stops()], **told)
    return train(values, callbacks=trackers(name, pictures), **told)


def numbers(row: dict[str, Any]) -> dict[str, float]:
    return {key: value for key, value in row.items() if isinstance(value, (int, float)) and key != "step"}


def wandb_records(file: Path) -> list[Any]:
    """What a .wandb file holds: a header, then blocks of 32 KiB with pieces of records, each after 7 bytes: a checksum,
    the piece's length, and whether it is whole (1), the first (2), a middle one (3) or the last (4)."""
    from wandb.proto.wandb_internal_pb2 import Record

    content, at, records, held = file.read_bytes(), 7, [], b""
    while at + 7 <= len(content):
        if 2**15 - at % 2**15 < 7:
            at += 2**15 - at % 2**15
            continue
        length, kind = int.from_bytes(content[at + 4 : at + 6], "little"), content[at + 6]
        held += content[at + 7 : at + 7 + length]
        at += 7 + length
        if kind in (1, 4):
            records.append(Record.FromString(held))
            held = b""
    return records


# Read back


def test_tensorboard_has_every_row_the_angles_the_config_and_the_pictures(small, uncut, tmp_path):
    run = watched("tensorboard", small(**LEARNED), tmp_path)
    same_run(run, uncut("learned-ema"))
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(run.path / "tensorboard"), {"histograms": 0, "scalars": 0, "images": 0, "tensors": 0})
    events.Reload()
    for row in run.metrics:
        for key, value in numbers(row).items():
            found = [event.value for event in events.Scalars(key) if event.step == row["epoch"]]
            if key != "images_per_second":
                assert found == [pytest.approx(value, rel=1e-5)], key
    histograms = events.Histograms("angles")
    assert [event.step for event in histograms] == list(range(1, EPOCHS + 1))
    assert histograms[-1].histogram_value.num == 8
    assert histograms[-1].histogram_value.sum == pytest.approx(sum(run.metrics[-1]["angles"]), abs=1e-4)
    for key, value in run.result["metrics"].items():
        assert events.Scalars(f"test/{key}")[-1].value == pytest.approx(value, rel=1e-5)
    (text,) = [event for tag in events.Tags()["tensors"] if tag.startswith("config") for event in events.Tensors(tag)]
    assert b"| action | mfr-learned |" in text.tensor_proto.string_val[0]
    assert set(events.Tags()["images"]) == {"curves", "accuracy"}
    assert events.Images("curves")[0].encoded_image_string.startswith(b"\x89PNG")


def test_trackio_has_one_run_with_every_row(small, uncut, tmp_path, capsys):
    run = watched("trackio", small(**LEARNED), tmp_path / "runs")
    same_run(run, uncut("learned-ema"))
    assert capsys.readouterr().out == ""
    with sqlite3.connect(tmp_path / "trackio" / "brojepa.db") as base:
        rows = base.execute("SELECT run_name, step, metrics FROM metrics ORDER BY id").fetchall()
        (config,) = base.execute("SELECT config FROM configs").fetchall()
    identity = json.loads((run.path / "tracking.json").read_text())["id"]
    assert {name for name, _, _ in rows} == {f"{run.config.hash} seed 0 {identity}"}
    found = [(step, json.loads(text)) for _, step, text in rows]
    for row, (step, logged) in zip(run.metrics, found, strict=False):
        assert step == row["epoch"]
        assert {k: v for k, v in logged.items() if k in numbers(row)} == pytest.approx(numbers(row))
        assert sum(logged["angles"]["values"]) == 8
    step, last = found[-1]
    assert len(found) == EPOCHS + 1
    assert {key: last[f"test/{key}"] for key in run.result["metrics"]} == pytest.approx(run.result["metrics"])
    assert {"curves", "accuracy"} <= last.keys()
    assert len(list((tmp_path / "trackio" / "media").rglob("*.png"))) == 2
    assert json.loads(config[0])["action"] == "mfr-learned"


def test_wandb_writes_offline_files_of_one_run(small, uncut, tmp_path):
    run = watched("wandb", small(**LEARNED), tmp_path)
    same_run(run, uncut("learned-ema"))
    identity = json.loads((run.path / "tracking.json").read_text())["id"]
    files = sorted(run.path.glob(f"wandb/offline-run-*/run-{identity}.wandb"))
    assert len(files) == 2, "one for each start, of one run"
    rows: dict[int, dict[str, Any]] = {}
    configs, ids = [], set()
    for file in files:
        for record in wandb_records(file):
            if record.HasField("history"):
                row = {(i.key or ".".join(i.nested_key)): json.loads(i.value_json) for i in record.history.item}
                rows.setdefault(record.history.step.num, {}).update(row)
            if record.HasField("run"):
                ids.add(record.run.run_id)
                configs.append({i.key: json.loads(i.value_json) for i in record.run.config.update})
    assert ids == {identity}
    assert configs[0]["action"] == "mfr-learned"
    for row in run.metrics:
        logged = rows[row["epoch"]]
        assert {k: logged[k] for k in numbers(row)} == pytest.approx(numbers(row))
    last = rows[max(rows)]
    assert {key: last[f"test/{key}"] for key in run.result["metrics"]} == pytest.approx(run.result["metrics"])
    assert len(list(run.path.glob("wandb/offline-run-*/files/media/images/*.png"))) == 2


# All of them


@pytest.mark.parametrize("name", TRACKERS)
def test_a_run_that_was_begun_untracked_is_told_from_its_start(name, small, tmp_path, monkeypatch):
    """Tracking begins at the resume: earlier epochs are logged then, once."""
    pytest.importorskip(MODULES[name])
    logged: list[int] = []
    log = TRACKERS[name].log

    def note(self, step, numbers, angles):
        logged.append(step)
        log(self, step, numbers, angles)

    monkeypatch.setattr(TRACKERS[name], "log", note)
    told = {"out": tmp_path, "device": "cpu", "quiet": True}
    with pytest.raises(Interrupted):
        train(small(), callbacks=[Stops()], **told)
    train(small(), track=name, **told)
    assert logged == list(range(1, EPOCHS + 1))


def test_several_at_once_by_the_command_line(cli, digits, tmp_path):
    names = [name for name, module in MODULES.items() if _there(module)]
    if len(names) < 2:
        pytest.skip("fewer than two trackers are installed")
    done = cli("train", "--world", digits, *SMALL, "--out", tmp_path, "--json", *(f"--track={each}" for each in names))
    assert done.code == 0, done.err
    assert all(json.loads(line) for line in done.out.splitlines()), "nothing but JSON on stdout"
    (file,) = tmp_path.rglob("tracking.json")
    assert json.loads(file.read_text())["trackers"] == names
    again = cli("train", "--world", digits, *SMALL, "--out", tmp_path, "--quiet", "--track", ",".join(names))
    assert again == (0, "", ""), "a finished run is told to nobody"


def _there(module: str) -> bool:
    return find_spec(module) is not None


# Refused, and failing


def test_an_unknown_tracker_is_refused(cli, digits, tmp_path):
    line = one_line(cli("train", "--world", digits, "--out", tmp_path, "--track", "tensorbord"), 2)
    assert "did you mean tensorboard" in line
    for words in (",", "wandb,,trackio", ""):
        with pytest.raises(RequestError, match="unknown tracker ''"):
            trackers(words)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", TRACKERS)
def test_a_tracker_that_is_not_installed_is_refused_at_the_start(name, cli, digits, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, TRACKERS[name].package, None)
    line = one_line(cli("train", "--world", digits, "--out", tmp_path, "--track", name), 2)
    assert f"pip install 'brojepa[{name}]'" in line
    assert not list(tmp_path.iterdir()), "before anything was begun"


class Memory(Tracker):
    """A tracker of one's own: keeps everything, and fails where it is told to."""

    name, package = "memory", "json"

    def __init__(self, fails: str = "", draw=None) -> None:
        super().__init__(draw)
        self.fails, self.told = fails, list[Any]()

    def _note(self, what: str, *rest: Any) -> None:
        if what == self.fails:
            raise OSError("no space left\non device")
        self.told.append((what, *rest))

    def open(self, training, identity, resumed):
        self._note("open", identity, resumed)

    def log(self, step, numbers, angles):
        self._note("log", step, numbers, angles)

    def end_with(self, step, numbers, pictures):
        self._note("end", step, numbers, pictures)

    def shut(self):
        self._note("shut")


def test_an_own_tracker_hears_the_run(small, tmp_path):
    mine = Memory()
    run = train(small(**LEARNED), out=tmp_path, device="cpu", callbacks=[mine], quiet=True)
    (opened, *logs, end, shut) = mine.told
    assert opened[2] is False
    assert [step for _, step, _, _ in logs] == list(range(1, EPOCHS + 1))
    assert np.allclose(logs[-1][3], run.metrics[-1]["angles"])
    assert all(math.isfinite(value) for _, _, row, _ in logs for value in row.values())
    assert end[2]["test/zero_shot"] == run.result["metrics"]["zero_shot"]
    assert shut == ("shut",)


@pytest.mark.parametrize("moment", ["open", "log", "end", "shut"])
def test_a_tracker_that_fails_warns_once_and_the_run_goes_on(moment, small, uncut, tmp_path):
    heard, bad, good = Listen(), Memory(moment), Memory()
    run = train(small(**LEARNED), out=tmp_path, device="cpu", callbacks=[heard, bad, good], quiet=True)
    same_run(run, uncut("learned-ema"))
    (line,) = [text for text in heard.warnings if "memory" in text]
    assert "no space left on device" in line
    assert "goes on without it" in line
    assert len(good.told) == EPOCHS + 3


def test_pictures_that_cannot_be_drawn_are_a_warning(small, tmp_path):
    def draw(run):
        raise ValueError("no ink")

    heard = Listen()
    run = train(small(), out=tmp_path, device="cpu", callbacks=[heard, Memory(draw=draw)], quiet=True)
    assert run.done
    assert [text for text in heard.warnings if "no ink" in text]


def test_a_damaged_file_beside_the_run_is_a_warning(small, tmp_path):
    heard = Listen()
    run = Run.locate(tmp_path, small(), None, 0)

    class Damages(Callback):
        def begin(self, training, resumed):
            (training.run.path / room.FILE).write_text("{")

    run = train(small(), out=tmp_path, device="cpu", callbacks=[Damages(), heard, Memory()], quiet=True)
    assert run.done
    assert len([text for text in heard.warnings if room.FILE in text]) == 1


def test_the_id_is_kept_and_shared(small, tmp_path):
    first, second = Memory(), Memory()
    second.name = "other"
    train(small(), out=tmp_path, device="cpu", callbacks=[first, second], quiet=True)
    assert first.told[0][1] == second.told[0][1]
    third = Memory()
    train(small(), out=tmp_path, device="cpu", seed=1, callbacks=[third], quiet=True)
    assert third.told[0][1] != first.told[0][1]


@pytest.mark.parametrize(
    ("environment", "file", "known"),
    [
        ({}, None, False),
        ({"WANDB_API_KEY": "x" * 40}, None, True),
        ({}, "machine api.wandb.ai login user password secret\n", True),
        ({}, "machine example.org login user password secret\n", False),
        ({"WANDB_BASE_URL": "https://wandb.mine.org/"}, "machine wandb.mine.org login u password s\n", True),
        ({}, "nonsense", False),
    ],
)
def test_a_key_is_looked_for_where_it_is_kept(environment, file, known, tmp_path, monkeypatch):
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    if file:
        (tmp_path / "netrc").write_text(file)
        (tmp_path / "netrc").chmod(0o600)
    assert room._has_key() is known


def test_trackers_are_public():
    assert issubclass(brojepa.Tracker, brojepa.Callback)
    assert brojepa.trackers is trackers
