"""A kind of world of one's own, with its own transitions and evaluator: it trains, and all that reads runs copes."""

from __future__ import annotations

import io
import json
from dataclasses import dataclass

import pytest
import torch
from helpers import blobs
from small_runs import same_run

import brojepa
from brojepa.errors import RequestError
from brojepa.evaluation import evaluating
from brojepa.training import JsonLines, LiveTable
from brojepa.worlds import World

SMALL = {"latent": 8, "epochs": 2, "batch_size": 16, "precision": "float32", "device": "cpu"} | {
    "encoder": "mlp", "target": "sampled",
}  # fmt: skip


@dataclass(frozen=True)
class Mirrored(World):
    """Blobs whose images may be mirrored on the way in."""

    def transitions(self, split, actions, sampling):
        return MirrorTransitions(split, self.group, actions, sampling.with_targets)


class MirrorTransitions(brojepa.Transitions):
    def __init__(self, split, group, actions, with_targets):
        self.split, self.group, self.actions = split, group, group.tensor(actions)
        self.with_targets = with_targets

    def __len__(self):
        return len(self.split) // 2

    def draw(self, generator):
        count = len(self.split)
        context = torch.randint(count, (len(self),), generator=generator)
        k = self.actions[torch.randint(len(self.actions), (len(self), 1), generator=generator)]
        target = torch.stack([
            (self.split.states == y).nonzero()[0, 0] for y in self.group.apply(self.split.states[context], k[:, 0])
        ])  # fmt: skip
        return context, k, target

    def batch(self, draw, start, stop):
        context, k, target = (part[start:stop] for part in draw)
        states = self.split.states[context]
        targets = self.split.images[target].flip(-1) if self.with_targets else None
        images = self.split.images[context].flip(-1)
        return brojepa.Batch(images, states, k, self.group.apply(states[:, None], k), targets)


@brojepa.evaluator.register(Mirrored)
class Least(brojepa.Evaluator):
    """Only what is asked for."""

    def validate(self, model, held, batch):
        z = model.encode(batch.images)
        target = model.target_latents(batch.targets).unflatten(0, batch.next_states.shape)
        return {"validation_loss": float(model.validate(z, target, batch)), "seen": None, "zero_shot": None}

    def test(self, model, train):
        with evaluating(model):
            z = model.encode(self.world.test.images)
            right = model.classify(model.act(z, 1)) == (self.world.test.states + 1) % self.world.n
        return {"metrics": {"seen": right.double().mean().item(), "zero_shot": None}}


def mirrored(**values) -> Mirrored:
    b = blobs(**values)
    return Mirrored("mirrored", b.n, b.train, b.test, b.mean, b.std)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return brojepa.train("mnist/fast", world=mirrored(), out=tmp_path_factory.mktemp("own"), **SMALL)


def test_it_trains_and_its_result_is_written(run, tmp_path):
    result = json.loads(run.result_file.read_text())
    assert result["metrics"].keys() == {"seen", "zero_shot"}
    assert result["zero_shot_kind"] == "strict"
    assert result["world"] == "mirrored"
    assert [row["seen"] for row in run.metrics] == [None, None]
    same_run(run, brojepa.train("mnist/fast", world=mirrored(), out=tmp_path, **SMALL))


def test_it_is_told_of(run, tmp_path, capsys):
    stream = io.StringIO()
    heard = [LiveTable(stream), JsonLines()]
    brojepa.train("mnist/fast", world=mirrored(), out=tmp_path, callbacks=heard, **SMALL)
    text = stream.getvalue()
    for word in ("mirrored", "2/2", "val loss", "seen", f"{run.result['metrics']['seen']:.4f}"):
        assert word in text
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert len(rows) == 3
    brojepa.train("mnist/fast", world=mirrored(), out=tmp_path, callbacks=[LiveTable(stream)], **SMALL)
    assert "is finished" in stream.getvalue()


def test_it_is_measured_again_loaded_and_reported(run, cli):
    again = brojepa.evaluate_run(run.path, world=mirrored())
    assert again["metrics"] == run.result["metrics"]
    assert again["same_images"]
    assert brojepa.load(run.path).task.n == 5
    assert brojepa.inspect_run(run.path, world=mirrored())["states"] == 5
    refused = cli("eval", run.path)
    assert refused.code == 2
    assert "made in Python" in refused.err
    for words in ((), ("--runs",), ("--runs", "--format", "csv"), ("--format", "json"), ("--per-action",)):
        told = cli("report", run.path.parents[2], *words)
        assert told.code == 0 or words == ("--per-action",), told
        assert "unexpected" not in told.err


def test_figures_draw_what_can_be_drawn(run, cli, tmp_path):
    drawn = cli("figures", run.path, "--out", tmp_path)
    lines = dict(line.split(": ", 1) for line in drawn.out.splitlines())
    assert "unexpected" not in drawn.err, drawn.err
    assert "per_action" in lines["accuracy"]
    assert "made in Python" in lines["circle-multi"]
    assert str(tmp_path) in lines["angles"]


def test_other_content_is_another_run(run):
    other = brojepa.train("mnist/fast", world=mirrored(seed=3), out=run.path.parents[2], **SMALL)
    assert other != run


def test_spectral_starts_are_refused_where_no_labels_are_paired(tmp_path):
    with pytest.raises(RequestError, match="--angle-start spectral"):
        brojepa.train("mnist/fast", world=mirrored(), out=tmp_path, angle_start="spectral", **SMALL)
    assert not list(tmp_path.iterdir())


def test_a_subclass_is_measured_as_its_parent_unless_it_has_its_own(tmp_path):
    @dataclass(frozen=True)
    class Same(World):
        pass

    b = blobs()
    same = Same("same", b.n, b.train, b.test, b.mean, b.std)
    result = brojepa.train("mnist/fast", world=same, out=tmp_path, **SMALL).result
    assert {"train", "seen", "zero_shot", "rollout", "knn"} <= result["metrics"].keys()


def test_what_is_no_world_is_refused():
    with pytest.raises(RequestError, match="register"):
        brojepa.evaluator(3, (1,), (2,))
