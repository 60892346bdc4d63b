"""Exact evaluation against references that go image by image in plain Python."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from helpers import TASK, blobs, checked, model
from hypothesis import given
from hypothesis import strategies as st

from brojepa import evaluation
from brojepa.config import Config
from brojepa.evaluation import (
    Latents,
    accuracy,
    bank,
    collapse_signs,
    collapsed,
    count_right,
    evaluate,
    evaluating,
    knn_accuracy,
    rollout_accuracy,
)
from brojepa.evaluation import knn as neighbours
from brojepa.evaluation.knn import Neighbours
from brojepa.models import Task, build

N = TASK.n


def latents(count: int = 23, dim: int = 8, seed: int = 0) -> Latents:
    g = torch.Generator().manual_seed(seed)
    return Latents(torch.randn(count, dim, generator=g), torch.randint(N, (count,), generator=g))


def state_of(m, z: torch.Tensor) -> int:
    logits = z.double().numpy() @ m.classifier.weight.double().numpy().T + m.classifier.bias.double().numpy()
    return int(logits.argmax())


@pytest.fixture(params=["mfr-fixed", "mfr-learned", "additive", "hybrid"])
def small(request):
    """An untrained model; its answers are arbitrary, which is what a reference needs. No gradient."""
    with torch.no_grad():
        yield model(action=request.param).eval()


def test_count_right_counts_each_image_with_each_action(small):
    data, actions = latents(), [-4, -1, 1, 3]
    wanted = np.zeros((N, 4), int)
    for i in range(len(data.z)):
        for j, k in enumerate(actions):
            wanted[data.states[i], j] += state_of(small, small.act(data.z[i], k)) == (int(data.states[i]) + k) % N
    assert count_right(small, data, actions).tolist() == wanted.tolist()
    assert wanted.sum() > 0
    assert accuracy(small, data, actions) == wanted.sum() / (23 * 4)
    assert accuracy(small, data, []) is None


@pytest.mark.parametrize(
    ("primitives", "actions"),
    [
        ((-1, 1), (-4, -3, -2, 2, 3, 4)),
        ((1,), (-4, -3, -2, 2, 3, 4)),  # +2 and -3 share a plan; both count
        ((2, -1), (3, -3, 1)),
        ((-2,), (1, 4)),
    ],
)
def test_rollout_repeats_a_primitive_until_the_action_is_reached(small, primitives, actions):
    data, right = latents(), 0
    for i in range(len(data.z)):
        for k in actions:
            same = sorted((p for p in primitives if p * k > 0), key=abs)
            p = same[0] if same else sorted(primitives, key=abs)[0]
            z, steps = data.z[i], 0
            while steps == 0 or (p * steps - k) % N:
                z, steps = small.act(z, p), steps + 1
            right += state_of(small, z) == (int(data.states[i]) + k) % N
    assert rollout_accuracy(small, data, primitives, actions) == pytest.approx(right / (23 * len(actions)), abs=1e-12)
    assert right > 0


def test_a_perfect_model_is_perfect_by_every_measure_also_with_a_single_primitive():
    """Latents on their circle and a classifier that reads it: whatever is not 1 is a fault of the counting."""
    with torch.no_grad():
        m = model(action="sfr-fixed", latent=2).eval()
        states = torch.arange(40) % N
        angle = 2 * math.pi / N * torch.arange(N)
        corners = torch.stack((angle.cos(), angle.sin()), 1)
        m.classifier.weight.copy_(corners)
        m.classifier.bias.zero_()
        data = Latents(corners[states], states)
        every = m.group.actions
        for primitives in ((1,), (-1,), (-1, 1), (2, -3)):
            assert rollout_accuracy(m, data, primitives, every) == 1
        assert accuracy(m, data, every) == 1
        assert knn_accuracy(m, data, data, every) == 1


def test_rollout_is_undefined_where_it_has_no_meaning(small):
    even = model(Task(6, (1, 8, 8), (0.3,), (0.4,))).eval()
    data = latents()
    with torch.no_grad():
        assert rollout_accuracy(even, data, (2,), (4, 3)) is None, "3 is out of reach of 2 on a cycle of 6"
        assert rollout_accuracy(even, data, (2,), (4, -2)) is not None
    assert rollout_accuracy(small, data, (1,), ()) is None
    assert rollout_accuracy(model(method="supervised").eval(), data, (-1, 1), (2,)) is None


# Nearest neighbours


def look_up(query: torch.Tensor, data: Latents) -> torch.Tensor:
    return Neighbours(data.z, data.states, N).classify(query)


def vote_by_sorting(query: torch.Tensor, data: Latents, n: int) -> list[int]:
    """All cosines, sorted; the 20 best vote with exp(cosine / 0.07)."""
    z, found = data.z.double().numpy(), []
    z = z / np.linalg.norm(z, axis=1, keepdims=True)
    for q in query.double().numpy():
        cosine = z @ (q / np.linalg.norm(q))
        votes = np.zeros(n)
        for i in sorted(range(len(z)), key=lambda i: -cosine[i])[:20]:
            votes[data.states[i]] += math.exp(cosine[i] / 0.07)
        found.append(int(votes.argmax()))
    return found


@pytest.mark.parametrize("size", [1, 7, 19, 20, 21, 127, 128, 129, 700, 3000])
def test_knn_is_the_vote_of_a_full_sort(size):
    data, query = latents(size, seed=1), latents(40, seed=2).z
    assert look_up(query, data).tolist() == vote_by_sorting(query, data, N)


@checked
@given(st.integers(1, 90), st.integers(1, 9), st.integers(1, 4), st.integers(1, 60), st.booleans(), st.integers(0, 99))
def test_knn_depends_on_no_group_or_chunk_size(size, group, tile, rows, apart, seed):
    data, query = latents(size, dim=3, seed=seed), latents(6, dim=3, seed=seed + 1).z
    if apart:  # states far from one another: most votes are known from the groups
        query, data = query + 1, Latents(data.z + 9 * torch.eye(N, 3)[data.states], data.states)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {"GROUP": group, "TILE": tile, "ROWS": rows, "GATHERED": 7 * rows}.items():
            patch.setattr(neighbours, name, value)
        assert look_up(query, data).tolist() == vote_by_sorting(query, data, N)


@checked
@given(
    st.integers(60, 300), st.integers(1, 3), st.floats(0, 3), st.floats(0, 0.2), st.floats(0, 0.2), st.integers(0, 99)
)
def test_votes_settled_by_the_means_are_those_of_a_full_sort(size, group, apart, mislabelled, stray, seed):
    """Clusters that lie close or apart, with members that carry another state's label, and bounds that allow strays."""
    generator = torch.Generator().manual_seed(seed)
    means = apart * torch.eye(3)
    shown, query = (torch.randint(3, (count,), generator=generator) for count in (size, 12))
    z, q = (means[s] + 0.3 * torch.randn(len(s), 3, generator=generator) for s in (shown, query))
    other = torch.rand(size, generator=generator) < mislabelled
    data = Latents(z, torch.where(other, torch.randint(3, (size,), generator=generator), shown))
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {"GROUP": group, "STRAY": stray, "ENOUGH": 90}.items():
            patch.setattr(neighbours, name, value)
        assert look_up(q, data).tolist() == vote_by_sorting(q, data, N)


def test_where_states_lie_apart_the_bank_is_not_searched(monkeypatch):
    data, query = latents(6000, seed=1), latents(40, seed=2)
    data, query = (Latents(0.1 * d.z + torch.eye(N, 8)[d.states], d.states) for d in (data, query))
    monkeypatch.setattr(Neighbours, "_vote", lambda *_: pytest.fail("the vote was known"))
    assert torch.equal(look_up(query.z, data), query.states)


def test_a_stray_in_the_midst_of_another_state_is_not_overlooked():
    """Twenty images of state 1 lie on one point of state 0's cluster: a query there is a 1."""
    data = latents(6000, seed=1)
    data = Latents(0.1 * data.z + torch.eye(N, 8)[data.states], data.states)
    ones, zero = (data.states == 1).nonzero()[:20, 0], data.z[data.states == 0][0]
    data.z[ones] = zero
    assert look_up(zero[None], data).tolist() == vote_by_sorting(zero[None], data, N) == [1]


def test_padding_never_votes_even_where_every_similarity_is_negative():
    data = latents(130, seed=3)
    data = Latents(data.z.abs() + 0.1, data.states)
    query = -latents(30, seed=4).z.abs() - 0.1
    assert look_up(query, data).tolist() == vote_by_sorting(query, data, N)


def test_neighbours_crowded_into_one_group_are_all_found():
    """The nearest 60 lie side by side in the bank, so one group holds more than 20 of them."""
    data = latents(3000, seed=5)
    query = latents(1, seed=6).z
    data.z[256:316] = query + 0.05 * data.z[256:316]
    assert look_up(query, data).tolist() == vote_by_sorting(query, data, N)


def test_where_states_lie_apart_no_neighbour_is_looked_at(monkeypatch):
    data, query = latents(3000, seed=1), latents(40, seed=2)
    data, query = (Latents(0.1 * d.z + torch.eye(N, 8)[d.states], d.states) for d in (data, query))
    monkeypatch.setattr(neighbours, "GROUP", 8)
    monkeypatch.setattr(Neighbours, "_look", lambda *_: pytest.fail("the vote was known"))
    assert torch.equal(look_up(query.z, data), query.states)


def test_knn_ignores_the_length_of_latents():
    data, query = latents(200, seed=1), latents(40, seed=2).z
    stretched = Latents(data.z * torch.rand(200, 1, generator=torch.Generator().manual_seed(0)).add(0.1), data.states)
    assert torch.equal(look_up(query, data), look_up(3 * query, stretched))


def test_knn_accuracy_looks_predictions_up_in_the_bank(small):
    data, known, actions = latents(), latents(200, seed=1), (-2, 3)
    right = 0
    for k in actions:
        found = vote_by_sorting(small.act(data.z, k), known, N)
        right += sum(f == (int(y) + k) % N for f, y in zip(found, data.states, strict=True))
    assert knn_accuracy(small, data, known, actions) == right / (23 * 2)
    assert knn_accuracy(small, data, known, ()) is None


def test_actions_that_come_round_are_looked_up_once(monkeypatch):
    fixed, learned = (model(action=action).eval() for action in ("mfr-fixed", "mfr-learned"))
    data, known, actions = latents(), latents(200, seed=1), tuple(k for k in range(1 - N, N) if abs(k) > 1)
    looked: list[int] = []
    classify = Neighbours.classify
    monkeypatch.setattr(Neighbours, "classify", lambda self, q: looked.append(len(q)) or classify(self, q))
    with torch.no_grad():
        each = {k: knn_accuracy(fixed, data, known, (k,)) for k in actions}
        looked.clear()
        together = knn_accuracy(fixed, data, known, actions)
        assert len(looked) == len({k % N for k in actions}) < len(actions)
        assert together == pytest.approx(np.mean(list(each.values())))
        looked.clear()
        knn_accuracy(learned, data, known, actions)
        assert len(looked) == len(actions), "learned angles need not close"


def test_the_bank_is_the_latents_for_jepa_and_acted_on_latents_for_supervised(small):
    data = latents(7)
    assert bank(small, data, (-1, 1)) is data
    m = model(method="supervised", action="additive", latent=6).eval()  # reads 64 pixels, predicts in 6 dimensions
    data = latents(7, dim=64)
    got = bank(m, data, (-1, 1))
    assert got.z.shape == (14, 6)
    for i in range(14):
        k = (-1, 1)[i // 7]
        assert torch.allclose(got.z[i], m.act(data.z[i % 7], k), atol=1e-5)
        assert got.states[i] == (data.states[i % 7] + k) % N


# Collapse


def test_spread_is_its_definition():
    z = latents(60).z * torch.tensor([3, 2, 1, 1, 1, 0.5, 0.1, 0.01]) + 0.3
    found = collapse_signs(z)
    x = z.double().numpy()
    unit = np.array([row / math.sqrt(sum(v * v for v in row)) for row in x])
    assert found["latent_scale"] == pytest.approx(np.mean([x[:, i].std(ddof=1) for i in range(8)]), rel=1e-4)
    assert found["latent_std"] == pytest.approx(
        math.sqrt(8) * np.mean([unit[:, i].std(ddof=1) for i in range(8)]), rel=1e-4
    )
    p = np.linalg.svd(x - x.mean(0), compute_uv=False)
    p /= p.sum()
    assert found["effective_rank"] == pytest.approx(math.exp(-sum(v * math.log(v) for v in p)), rel=1e-4)


def test_spread_tells_healthy_latents_from_collapsed_ones():
    g = torch.Generator().manual_seed(0)
    healthy = torch.randn(2000, 16, generator=g)
    well = collapse_signs(healthy)
    assert well["latent_std"] == pytest.approx(1, abs=0.05)
    assert well["latent_scale"] == pytest.approx(1, abs=0.05)
    assert well["effective_rank"] == pytest.approx(16, abs=0.2)
    assert not collapsed(well)
    line = torch.randn(500, 1, generator=g) * torch.randn(1, 16, generator=g)
    for name, sick in {
        "a point": torch.ones(50, 16),
        "a point far from the origin": healthy * 1e-2 + 10,
        "the origin, directions still spread": healthy * 1e-2,
        "a line": line,
    }.items():
        assert collapsed(collapse_signs(sick)), name
    assert collapse_signs(line)["effective_rank"] == pytest.approx(1, abs=0.01)
    assert collapse_signs(1e-6 * healthy)["effective_rank"] == pytest.approx(16, abs=0.2), (
        "rank does not depend on scale"
    )


# The whole


@pytest.mark.parametrize("training", [True, False])
def test_evaluating_leaves_the_model_as_it_found_it(training):
    m = model(encoder="cnn").train(training)
    m.precision = torch.bfloat16
    with evaluating(m) as inside:
        assert not inside.training
        assert not inside.encoder.training
        assert inside.precision is torch.float32
        assert not torch.is_grad_enabled()
    assert m.training is m.encoder.training is training
    assert m.precision is torch.bfloat16
    assert torch.is_grad_enabled()
    with pytest.raises(KeyError), evaluating(m):
        raise KeyError
    assert m.training is training
    assert m.precision is torch.bfloat16
    assert torch.is_grad_enabled()


def test_evaluating_computes_in_the_precision_that_the_config_asks_for():
    task, generator = Task(n=10, shape=(1, 28, 28), mean=(0.1,), std=(0.3,)), torch.Generator()
    for asked, used in (("float32", torch.float32), ("training", torch.bfloat16)):
        m = build(Config(encoder="cnn", eval_precision=asked), task, generator, torch.bfloat16)
        with evaluating(m):
            assert m.precision is used
        assert m.precision is torch.bfloat16


@pytest.fixture(scope="module")
def world():
    return blobs()


@pytest.mark.parametrize("values", [{"action": "mfr-learned"}, {"action": "additive", "method": "supervised"}])
def test_evaluate_reports_the_five_accuracies_and_each_action(values, world):
    m = model(Task.of(world), **values).train()
    m.precision = torch.bfloat16
    result = evaluate(m, world.train, world.test, (-1, 1), (-3, 2))
    m.eval()
    m.precision = torch.float32
    with torch.no_grad():
        fitted, held = Latents.of(m, world.train), Latents.of(m, world.test)
        each = {k: accuracy(m, held, [k]) for k in (-3, -1, 1, 2)}
        assert result["per_action"] == {"-3": each[-3], "-1": each[-1], "+1": each[1], "+2": each[2]}
        metrics = result["metrics"]
        assert list(metrics) == ["train", "seen", "zero_shot", "rollout", "knn"]
        assert metrics["train"] == accuracy(m, fitted, (-1, 1))
        assert metrics["seen"] == pytest.approx((each[-1] + each[1]) / 2)
        assert metrics["zero_shot"] == pytest.approx((each[-3] + each[2]) / 2)
        assert metrics["rollout"] == rollout_accuracy(m, held, (-1, 1), (-3, 2))
        assert metrics["knn"] == knn_accuracy(m, held, bank(m, fitted, (-1, 1)), (-3, 2))
    table = np.array(result["by_state"]["accuracy"])
    assert result["by_state"]["actions"] == ["-3", "-1", "+1", "+2"]
    assert table.shape == (N, 4)
    sizes = np.bincount(world.test.states, minlength=N)
    np.testing.assert_allclose(sizes @ table / sizes.sum(), [each[k] for k in (-3, -1, 1, 2)])
    assert result["chance"] == 1 / N


def test_without_test_actions_only_what_was_seen_is_measured(world):
    result = evaluate(model(Task.of(world)), world.train, world.test, (-1, 1), ())
    assert result["metrics"]["seen"] is not None
    assert [result["metrics"][name] for name in ("zero_shot", "rollout", "knn")] == [None] * 3


def test_evaluation_does_not_depend_on_chunk_sizes(world, monkeypatch):
    m = model(Task.of(world), encoder="cnn")
    actions = m.group.actions
    whole = evaluate(m, world.train, world.test, (-1, 1), [k for k in actions if abs(k) > 1])
    sums = whole.pop("equivariance")  # on some CPUs a convolution rounds otherwise in batches of another size
    monkeypatch.setattr(evaluation, "ROWS", 7)
    for name, value in {"ROWS": 5, "GROUP": 3, "TILE": 2, "GATHERED": 333}.items():
        monkeypatch.setattr(neighbours, name, value)
    monkeypatch.setattr("brojepa.models.model.CHUNK", 11)
    chunked = evaluate(m, world.train, world.test, (-1, 1), [k for k in actions if abs(k) > 1])
    assert chunked.pop("equivariance") == {name: pytest.approx(value, rel=1e-5) for name, value in sums.items()}
    assert chunked == whole
