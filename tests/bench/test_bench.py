"""Benchmarks: every one works from the command line, and what a ratio is made of is right."""

from __future__ import annotations

import json
import math
import random
import re
import subprocess
import sys
from typing import Any

import pytest
import torch
from helpers import blobs, checked, says
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.flop_counter import FlopCounterMode

from brojepa.bench import BENCHMARKS, memory, pipeline, processes, relaxing, roofline, scale, seeds
from brojepa.bench.measured import Measured, Ratio, median_seconds
from brojepa.bench.results import Results, cell
from brojepa.bench.stacked import Stack
from brojepa.bench.stepping import Stepper, random_world
from brojepa.errors import RunError
from brojepa.presets import preset

CPU = torch.device("cpu")


def stepper(name: str = "mnist/bro-mlp-mfr-fixed", seed: int = 0, **changes: Any) -> Stepper:
    values = {"latent": 16, "batch_size": 32, "precision": "float32", **changes}
    return Stepper(preset(name).replace(**values), blobs(n=10, count=40), "cpu", seed)


# The command


@pytest.fixture(scope="module")
def quick(tmp_path_factory):
    """Every benchmark as a user runs it, at its smallest: the process and the file that it wrote."""
    out = tmp_path_factory.mktemp("bench") / "results.json"
    words = [sys.executable, "-m", "brojepa", "bench", "--quick", "--all", "--out", str(out), "--format", "md"]
    done = subprocess.run(words, capture_output=True, text=True)
    return done, out


def test_every_benchmark_works(quick):
    done, out = quick
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines() == [f"{name}: {title}" for name, title in BENCHMARKS.items()]
    data = json.loads(out.read_text())
    assert list(data["benchmarks"]) == list(BENCHMARKS)
    assert data["quick"] is True
    assert data["machine"]["cores"] >= 1
    assert data["machine"]["cpu"]
    assert data["versions"]["torch"] == torch.__version__
    assert data["threads"] >= 1
    for measured in data["benchmarks"].values():
        assert measured["rows"]
        assert measured["ratios"]
        assert measured["met"] == all(ratio["met"] is not False for ratio in measured["ratios"])
        for ratio in measured["ratios"]:
            assert math.isfinite(ratio["value"])
            assert (ratio["goal"] is None) == (ratio["met"] is None)
    assert [file.name for file in out.parent.iterdir()] == [out.name]


def test_a_missed_share_of_the_roofline_comes_with_a_profile(quick):
    measured = json.loads(quick[1].read_text())["benchmarks"]["roofline"]
    missed = {ratio["name"] for ratio in measured["ratios"] if ratio["met"] is False}
    assert measured["profiles"].keys() == missed
    for rows in measured["profiles"].values():
        assert sum(row["share"] for row in rows) <= 1 + 1e-9


def test_seeds_learn_the_same_however_they_are_trained(quick):
    rows = json.loads(quick[1].read_text())["benchmarks"]["seeds"]["rows"]
    assert len(rows) == 3
    assert all(row["loss off by"] < seeds.TOLERANCE for row in rows)


def test_saved_results_are_printed_again(quick, cli):
    done, out = quick
    assert cli("bench", "--read", out, "--format", "md") == (0, done.stdout, "")
    assert json.loads(cli("bench", "--read", out, "--format", "json").out) == json.loads(out.read_text())
    text = cli("bench", "--read", out).out
    assert all(f"\n{name}: " in text for name in BENCHMARKS)
    assert re.search(r"pipeline +training +[\d.]+ +>= 2", text)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ([], "nothing to measure: name some of pipeline, roofline"),
        (["pipline"], "unknown benchmark 'pipline': did you mean pipeline"),
        (["pipeline", "speed"], "unknown benchmark 'speed': "),
        (["pipeline", "--repeats", "0"], "--repeats must be at least 1, got 0"),
        (["pipeline", "--repeats", "few"], "--repeats 'few': expected integers"),
        (["pipeline", "--format", "xml"], "unknown format 'xml': choose from table, md, json"),
        (["pipeline", "--out", "nowhere/bench.json"], "there is no directory nowhere"),
        (["pipeline", "--device", "abacus"], "--device abacus is not available here"),
        (["--read", "nothing.json"], "no results at nothing.json"),
        (["--read", "other.json"], "other.json holds no results of brojepa bench"),
        (["pipeline", "--read", "other.json"], "--read prints what was saved"),
        (["relaxing", "--plot", "states.pdf"], "--plot states.pdf: the name must end in .png or .svg"),
        (["relaxing", "--plot", "nowhere/states.png"], "there is no directory nowhere"),
        (["pipeline", "--plot", "states.png"], "--plot states.png draws what relaxing measures: name it too"),
    ],
)
def test_wrong_requests_fail_with_one_line(cli, words, why, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "other.json").write_text("[1]")
    done = cli("bench", *words)
    assert (done.code, done.out) == (2, "")
    assert done.err.count("\n") == 1
    assert says(done.err, why), done.err
    assert [file.name for file in tmp_path.iterdir()] == ["other.json"]


def test_a_stop_keeps_what_was_measured(cli, tmp_path, monkeypatch):
    def run(name, effort):
        if name == "scale":
            raise KeyboardInterrupt
        return Measured([{"a": 1}], [Ratio("r", 2.0, least=1)])

    monkeypatch.setattr("brojepa.bench.run", run)
    done = cli("bench", "startup", "scale", "--out", tmp_path / "b.json")
    assert done.code == 130
    assert says(done.err, "stopped scale startup")
    assert list(json.loads((tmp_path / "b.json").read_text())["benchmarks"]) == ["startup"]


# What a ratio is made of


def test_goals():
    assert Ratio("a", 2.0).met is None
    assert (Ratio("a", 2.0, least=2).met, Ratio("a", 1.9, least=2).met) == (True, False)
    assert (Ratio("a", 2.0, most=2).met, Ratio("a", 2.1, most=2).met) == (True, False)
    assert Ratio("a", 2.0, least=1, most=3).goal == ">= 1 and <= 3"
    assert Measured([], [Ratio("a", 1.0), Ratio("b", 1.0, least=2)]).to_dict()["met"] is False


def test_the_clock_takes_the_median_after_warming_up(monkeypatch):
    now, cost = [0.0], iter([100.0, 1.0, 50.0, 3.0])
    monkeypatch.setattr("time.perf_counter", lambda: now[0])

    def call() -> None:
        now[0] += next(cost)

    assert median_seconds(call, 3, CPU) == 3.0


def test_a_disturbance_in_one_turn_changes_no_time(monkeypatch):
    now, costs = [0.0], {1: [1.0, 1.0, 1.0], 2: [2.0, 2.0, 90.0]}
    monkeypatch.setattr("time.perf_counter", lambda: now[0])

    class Slow:
        device = CPU

        def __init__(self, cost: int) -> None:
            self.costs = iter(costs[cost])

        def _block(self, at_least: float) -> int:
            return 4

        def advance(self, count: int) -> None:
            now[0] += count * next(self.costs)

    assert Stepper.in_turns([Slow(1), Slow(2)], 2, 0.1) == [1.0, 2.0]


@checked
@given(st.floats(-1, 3), st.floats(1e-6, 1e3), st.lists(st.integers(1, 10**6), min_size=2, max_size=8, unique=True))
def test_slope_and_steepest_of_a_power_law(power, scale_of, values):
    values = tuple(sorted(values))
    times = [scale_of * value**power for value in values]
    assert scale.slope(values, times) == pytest.approx(power, abs=1e-6)
    assert scale.steepest(values, times, power) == pytest.approx(1, rel=1e-6)
    times[-1] *= 4  # a cliff at the end
    assert scale.steepest(values, times, power) == pytest.approx(4, rel=1e-6)


@pytest.mark.parametrize("name", ["mnist/bro-mlp-mfr-fixed", "mnist/fast", "mnist/bro-resnet18-mfr-fixed"])
def test_operations_of_a_step_are_those_that_torch_counts(name):
    training = stepper(name, batch_size=4, action="mfr-fixed")  # with learned angles torch's own counter fails
    training.advance()
    with roofline.Recorder() as record:
        training.advance()
    with FlopCounterMode(display=False) as counter:
        training.advance()
    assert record.flops == counter.get_total_flops() > 0
    products = {call.function._overloadpacket.__name__ for call in record.calls.values()}
    assert {"mm", "addmm"} <= products
    assert ("convolution_backward" in products) == (name != "mnist/bro-mlp-mfr-fixed")


@checked
@given(st.permutations([0, 1, 2, 3]), st.sampled_from([torch.float32, torch.bfloat16]), st.booleans())
def test_a_like_tensor_has_the_layout(order, dtype, spread):
    tensor = torch.zeros(2, 3, 4, 5, dtype=dtype).permute(*order)
    tensor = tensor[:1].expand(7, -1, -1, -1) if spread else tensor
    made = roofline.Like.of(tensor).make()
    assert (made.shape, made.stride(), made.dtype) == (tensor.shape, tensor.stride(), dtype)
    assert roofline.Like.of([1]) == [1]


def test_the_textbook_feeds_transitions_of_the_same_world():
    training = stepper()
    items = pipeline.Textbook(training.train_split, training.world, (-1, 1))
    random.seed(0)
    mean, std = training.world.mean[0], training.world.std[0]
    batch = next(pipeline.batches(items, 32, 0, CPU))
    assert torch.equal(batch.next_states, (batch.states[:, None] + batch.k) % 10)
    assert set(batch.k.flatten().tolist()) == {-1, 1}
    ours = (training.train_split.images[:].double() / 255 - mean) / std
    assert batch.targets is not None
    for images, states in ((batch.images, batch.states), (batch.targets, batch.next_states[:, 0])):
        distance, nearest = torch.cdist(images.flatten(1).double(), ours.flatten(1)).min(1)
        assert distance.max() < 1e-4
        assert torch.equal(training.train_split.states[nearest], states)


def test_normalised_images_give_the_same_loss_as_ours():
    """The textbook's model gets floats and no normalisation of its own."""
    ours, theirs = stepper(), stepper()
    batch = ours.transitions.batch(ours.drawn, 0, 32)
    theirs.model.pixel_mean.zero_()
    theirs.model.pixel_std.fill_(1)
    change = lambda x: (x.float() - ours.model.pixel_mean) / ours.model.pixel_std  # noqa: E731
    normalised = type(batch)(change(batch.images), batch.states, batch.k, batch.next_states, change(batch.targets))
    wanted, found = (t.model.objective(b)["loss"] for t, b in ((ours, batch), (theirs, normalised)))
    assert torch.allclose(wanted, found, rtol=1e-5)


@pytest.mark.parametrize("changes", [{}, {"target_encoder": "stop-gradient"}, {"action": "mfr-learned"}])
def test_stacked_seeds_are_the_seeds_alone(changes):
    alone = [stepper(seed=seed, **changes) for seed in range(3)]
    start = [t.model.encoder.net[1].weight.clone() for t in alone]
    together = Stack([stepper(seed=seed, **changes) for seed in range(3)])
    for _ in range(8):
        together.step()
    together.unstack()
    for one, other, before in zip(alone, together.seeds, start, strict=True):
        one.advance(8)
        state, stacked = one.model.state_dict(), other.model.state_dict()
        assert state.keys() == stacked.keys()
        for name, tensor in state.items():
            assert torch.allclose(tensor.float(), stacked[name].float(), atol=1e-5), name
        assert (stacked["encoder.net.1.weight"] - before).abs().max() > 1e-4
        losses = [training.validation()["validation_loss"] for training in (one, other)]
        assert losses[0] == pytest.approx(losses[1], rel=1e-4)


def test_a_stepper_is_the_loop(tmp_path):
    """Its steps have the bits of the loop's own, and leave nothing behind."""
    from brojepa.training import Training, train

    end = {}

    class Loop(Training):
        def _finish_epoch(self, images_per_second):
            end.update({name: t.clone() for name, t in self.model.state_dict().items()})
            super()._finish_epoch(images_per_second)

    world = blobs(n=10, count=40)
    config = preset("mnist/bro-mlp-mfr-fixed").replace(latent=16, batch_size=32, epochs=1)
    mine = Stepper(config, world, "cpu")
    mine.advance(mine.steps)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("brojepa.training.Training", Loop)
        patch.setattr("brojepa.training.open_world", lambda *_, **__: world)
        train(config, out=tmp_path, device="cpu")
    assert end.keys() == mine.model.state_dict().keys()
    assert all(torch.equal(tensor, end[name]) for name, tensor in mine.model.state_dict().items())


@pytest.mark.parametrize("stage", memory.STAGES)
def test_stages_of_memory_run(stage):
    assert memory.peak(stage, images=300, states=5, latent=8, device="cpu") >= 0


def test_peak_memory_is_the_process_s_own():
    """It sees what was held for a moment, and nothing of what the process that started it holds."""
    held = bytearray(b"x" * 300_000_000)
    code = (
        "from brojepa.bench.processes import peak_memory as peak\n"
        "before = peak(); bytearray(b'x' * 100_000_000); print(before, peak() - before)"
    )
    before, grown = map(int, processes.run(["-c", code])[0].split())
    assert before < len(held)
    assert 100e6 <= grown < 250e6


def test_a_fresh_process_returns_and_fails_in_one_line():
    value, taken = processes.fresh("json", "loads", s="[1, 2]")
    assert value == [1, 2]
    assert taken > 0
    with pytest.raises(RunError, match=r"failed: .*JSONDecodeError"):
        processes.fresh("json", "loads", s="[1, 2")


def test_cells():
    assert [cell(v) for v in (None, 0.123456, 12345.6, 12345, "a")] == ["-", "0.1235", "12,346", "12,345", "a"]


def test_markdown_has_a_row_for_each_ratio():
    measured = Measured([{"x": 1, "y": 0.5}], [Ratio("r", 3.0, least=2), Ratio("s", 1.0, least=2)], ["a note"])
    data = {
        "date": "2026-01-01T00:00:00", "quick": False, "machine": {"cpu": "X", "cores": 2, "memory": 2**34},
        "versions": {"torch": "2"}, "threads": 2, "benchmarks": {"scale": measured.to_dict()},
    }  # fmt: skip
    text = Results(data).markdown()
    assert re.search(r"\| scale +\| r +\| 3 +\| >= 2 \| yes \|", text)
    assert re.search(r"\| scale +\| s +\| 1 +\| >= 2 \| no  \|", text)
    assert "- a note" in text
    assert "Measured 2026-01-01 on X, 2 cores, 16 GiB, 2 threads; torch 2." in text


def test_worlds_of_noise_have_the_size_asked_for():
    world = random_world(300, 7, 40)
    assert (len(world.train), len(world.test), world.n, world.shape) == (300, 40, 7, (1, 28, 28))
    assert world.train.states.unique().tolist() == list(range(7))


# Relaxing


def relaxed(**changes: Any):
    values = {"encoder": "mlp", "latent": 16, "shift": 0, "batch_size": 32, "epochs": 15, "lr": 3e-3, **changes}
    return relaxing.until_close(preset("pairs/fast").replace(**values), blobs(n=10, count=40), "cpu")


def test_epochs_are_counted_until_zero_shot_is_close_to_seen():
    reached, given_up = relaxed(), relaxed(epochs=1, lr=1e-9)
    assert 1 <= reached["epochs"] <= 15
    assert reached["zero-shot"] >= reached["seen"] - relaxing.CLOSE
    assert reached["seen"] > 0.5
    assert given_up["epochs"] is None


@pytest.mark.parametrize("kind", ["png", "svg"])
def test_epochs_are_drawn_from_saved_results(kind, quick, cli, tmp_path):
    picture = tmp_path / f"states.{kind}"
    assert cli("bench", "--read", quick[1], "--plot", picture).code == 0
    assert picture.read_bytes()[:8].lstrip(b"\x89<?").startswith({"png": b"PNG", "svg": b"xml"}[kind])
    saved = json.loads(quick[1].read_text())
    del saved["benchmarks"]["relaxing"]
    (tmp_path / "other.json").write_text(json.dumps(saved))
    refused = cli("bench", "--read", tmp_path / "other.json", "--plot", picture)
    assert refused.code == 2
    assert "these results have no relaxing" in refused.err
