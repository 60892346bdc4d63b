"""Run directories of the past go on being good: one that is finished and one that was cut off within an epoch.

The finished one is without its state and the cut-off one without its model of epoch 1, which the last epoch writes
anew: both for their size. Their world is one's own and so named by its path: the copies name it where it is now.
"""

from __future__ import annotations

import json
from pathlib import Path

import observe
import pytest
import torch

import brojepa

RECORDED = json.loads(observe.RECORDED.read_text())
SAME_MACHINE = observe.machine() == RECORDED["machine"]


@pytest.fixture
def world(tmp_path) -> Path:
    return observe.old_world(tmp_path.resolve())


@pytest.fixture
def old(tmp_path, world) -> dict[str, brojepa.Run]:
    return observe.take_old_runs(tmp_path / "out", world)


@pytest.fixture(autouse=True)
def _one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def test_their_config_is_read(old):
    for name, run in old.items():
        assert run.config.hash == run.path.parent.name
        assert run.done == (name == "finished")
        assert len(run.metrics) == (3 if name == "finished" else 1)
    assert old["finished"].result["metrics"]


def test_the_finished_one_is_loaded(old, world):
    """As it was committed: a model needs no world."""
    model = brojepa.load(observe.OLD_RUNS / "finished", "cpu")
    images = brojepa.open_world(str(world)).test.images
    with torch.no_grad():
        z = model.encode(images)
        right = model.classify(model.act(z, 2)) == (brojepa.open_world(str(world)).test.states + 2) % 5
    assert z.shape == (50, 8)
    assert abs(float(right.float().mean()) - old["finished"].result["per_action"]["+2"]) <= 0.021


def test_the_finished_one_is_evaluated(old):
    measured = brojepa.evaluate_run(old["finished"].path, device="cpu")
    result = old["finished"].result
    assert measured["same_images"]
    if SAME_MACHINE:
        for part in ("metrics", "per_action", "by_state"):
            assert measured.get(part) == result.get(part)
    else:
        assert measured["metrics"] == pytest.approx(result["metrics"], abs=0.021)


def test_eval_says_whether_it_is_identical(old, tmp_path):
    """By what it prints of an untouched run and of one whose result was changed, and by its exit code."""
    run = old["finished"].path
    code, out, err = observe.call("eval", run, "--device", "cpu")
    assert err == ""
    assert code == 0 or not SAME_MACHINE
    result = json.loads((run / "result.json").read_text())
    result["metrics"]["seen"] = 0.123
    (run / "result.json").write_text(json.dumps(result))
    code, other, _ = observe.call("eval", run, "--device", "cpu")
    assert code == 1
    assert out.splitlines()[:-1] == other.splitlines()[:-1]
    if SAME_MACHINE:
        assert out.splitlines()[-1] != other.splitlines()[-1]


def test_commands_say_what_they_said_of_it(old, world):
    assert observe.lost(RECORDED["old_runs"]["said"], observe.said(old["finished"].path, world)) == []


def test_the_finished_one_is_not_trained_again(old, tmp_path, world):
    before = {name: (old["finished"].path / name).read_bytes() for name in observe.files(old["finished"].path)}
    assert observe.train(observe.config(observe.OLD, world), tmp_path / "out").path == old["finished"].path
    assert before == {name: (old["finished"].path / name).read_bytes() for name in observe.files(old["finished"].path)}


def test_the_cut_off_one_is_resumed_to_the_same_end(old, tmp_path, world):
    first = old["cut-off"].metrics
    run = observe.train(observe.config(observe.OLD, world), tmp_path / "out", observe.OLD_SEEDS["cut-off"])
    assert run.path == old["cut-off"].path
    assert run.done
    assert run.metrics[:1] == first, "the epoch from before the cut is as it was, its speed too"
    shapes = RECORDED["old_runs"]["shapes"]
    assert observe.lost(shapes, observe.documents(run.path)) == []
    if SAME_MACHINE:
        assert observe.bits(run.path, shapes) == RECORDED["old_runs"]["bits"]
    else:
        observe.near(observe.numbers(run.path), RECORDED["old_runs"]["numbers"])


def test_a_run_cut_off_now_is_as_it_was_then_and_has_the_same_end(old, tmp_path, world):
    """What is written within an epoch: the same tensors, of the same bits on the same machine."""
    config, seed = observe.config(observe.OLD, world), observe.OLD_SEEDS["cut-off"]
    cut = observe.train(config, tmp_path / "new", seed, observe.OLD_CUT)
    then, now = (observe.read_tensors(run.path / "state" / "latest.safetensors") for run in (old["cut-off"], cut))
    assert observe.tensor_shapes(then[0]) == observe.tensor_shapes(now[0])
    assert observe.lost(observe.shape(then[1]), now[1]) == []
    if SAME_MACHINE:
        assert observe.tensor_bits(then[0]) == observe.tensor_bits(now[0])
    resumed, uncut = (observe.train(config, tmp_path / place, seed).path for place in ("new", "uncut"))
    shapes = RECORDED["old_runs"]["shapes"]
    assert observe.bits(resumed, shapes) == observe.bits(uncut, shapes)


@pytest.mark.parametrize("settled", [True, False])
def test_report_lists_the_finished_one(old, tmp_path, settled):
    """Wherever it lies; the cut-off one has no result to list."""
    place = tmp_path / "out" if settled else observe.OLD_RUNS
    code, out, _ = observe.call("report", place, "--runs", "--format", "json")
    assert code == 0
    (row,) = json.loads(out)
    assert row["seed"] == 0
    assert row["zero_shot"] == old["finished"].result["metrics"]["zero_shot"]
    for form in ("md", "csv", "latex", "json"):
        code, out, _ = observe.call("report", place, "--format", form)
        assert code == 0
        assert out
