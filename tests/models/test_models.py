"""Models: where gradients go and do not go, what each term of the objective is, what counts as zero-shot."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
import torch
from helpers import TASK, batch, config, gradients, images_of, model, number
from torch.nn import functional as F

from brojepa.errors import RequestError
from brojepa.groups import SO2, SO3, Cyclic, Dihedral, Product
from brojepa.models import JEPA, Supervised, Task, action_sets, losses
from brojepa.models.consistency import COMPARED
from brojepa.training import optimiser as optimisation

JEPAS = {
    "sampled-ema": {"action": "mfr-learned"},
    "sampled-stop": {"action": "sfr-learned", "target_encoder": "stop-gradient"},
    "mean-stop-cnn": {"encoder": "cnn", "action": "mfr-learned", "target": "mean", "target_encoder": "stop-gradient"},
    "mean-ema-context": {"action": "mfr-learned", "target": "mean", "regularise": "context"},
    "relaxed": {"action": "mfr-learned", "target": "relaxed", "relax_steps": 3},
    "additive-consistency": {"action": "additive", "consistency": 1.0},
}


def batch_for(m, **options):
    return batch(targets=isinstance(m, JEPA) and m.target.of_next_state, **options)


@pytest.fixture(params=JEPAS.values(), ids=JEPAS)
def jepa(request) -> JEPA:
    return model(**request.param).train()


# Where gradients go


def test_the_probe_sends_no_gradient_beyond_the_classifier(jepa):
    jepa.objective(batch_for(jepa))["probe"].backward()
    moved = {name for name, g in gradients(jepa).items() if g}
    assert moved == {"classifier.weight", "classifier.bias"}


def test_the_loss_sends_gradient_to_encoder_and_action_only(jepa):
    jepa.objective(batch_for(jepa))["loss"].backward()
    moved = {name.split(".")[0] for name, g in gradients(jepa).items() if g}
    assert moved == {"encoder", "action"}
    assert all(p.grad is None for p in (*jepa.classifier.parameters(), *(jepa.slow.parameters() if jepa.slow else ())))


@pytest.mark.parametrize("values", JEPAS.values(), ids=JEPAS)
def test_training_with_and_without_the_probe_gives_the_same_encoder_bit_for_bit(values):
    def trained(probe: bool) -> dict[str, torch.Tensor]:
        m = model(**values).train()
        optimizer, _ = optimisation.optimizer(m, config())
        for seed in range(3):
            terms = m.objective(batch_for(m, seed=seed))
            optimizer.zero_grad()
            (terms["loss"] + (terms["probe"] if probe else 0)).backward()
            optimizer.step()
            m.after_step()
        return m.state_dict()

    start, with_it, without = model(**values).state_dict(), trained(True), trained(False)
    for name, value in with_it.items():
        assert torch.equal(value, without[name]) != name.startswith("classifier."), name
    weights = [name for name in start if name.startswith("encoder.") and name.endswith("weight")]
    assert not any(torch.equal(start[name], with_it[name]) for name in weights), "it did train"


def test_the_target_carries_no_gradient():
    """Both sides come from one encoder here; the gradient must be that of the prediction's side alone."""
    m = model(action="mfr-fixed", target_encoder="stop-gradient", variance=0, covariance=0).train()
    b = batch()
    m.objective(b)["loss"].backward()
    got = [p.grad.clone() for p in m.encoder.parameters()]
    m.zero_grad()
    goal = m.embed(m.encoder, b.targets).detach()
    F.mse_loss(m.action.act(m.embed(m.encoder, b.images), b.k[:, 0]), goal).mul(25).backward()
    assert max(number(g.abs().max()) for g in got) > 1e-4
    for mine, p in zip(got, m.encoder.parameters(), strict=True):
        assert torch.allclose(mine, p.grad, atol=1e-6)


@pytest.mark.parametrize("action", ["mfr-learned", "additive"])
@pytest.mark.parametrize("encoder", ["mlp", "cnn"])
def test_a_supervised_model_trains_every_part_of_itself(action, encoder):
    m = model(method="supervised", action=action, encoder=encoder).train()
    terms = m.objective(batch_for(m))
    assert set(terms) == {"loss"}
    terms["loss"].backward()
    assert {name for name, g in gradients(m).items() if not g} == set()
    assert any(name.startswith("action.") for name in gradients(m))


def test_a_supervised_loss_is_the_cross_entropy_of_the_next_state():
    m, b = model(method="supervised", action="mfr-fixed"), batch(targets=False, every_action=True)
    z, rows = m.encode(b.images), []
    for i in range(len(b.states)):
        for j in range(2):
            logits = m.classifier(m.act(z[i], int(b.k[i, j])))
            rows.append(-logits.log_softmax(0)[int(b.states[i] + b.k[i, j]) % 5])
    assert number(m.objective(b)["loss"]) == pytest.approx(number(torch.stack(rows).mean()), rel=1e-5)


# What the objective is


@pytest.mark.parametrize("regularise", ["predicted", "context"])
@pytest.mark.parametrize("scale", ["mean", "dim"])
def test_the_objective_is_the_weighted_sum_of_its_terms_on_the_right_latents(regularise, scale):
    m = model(regularise=regularise, covariance_scale=scale, invariance=3, variance=5, covariance=7)
    b = batch()
    terms = m.objective(b)
    z, target = m.encode(b.images), m.target_latents(b.targets)
    predicted = torch.stack([m.act(z[i], int(b.k[i, 0])) for i in range(len(z))])
    regularised = predicted if regularise == "predicted" else z
    wanted = {
        "invariance": F.mse_loss(predicted, target),
        "variance": losses.variance(losses.sample_covariance(regularised)),
        "covariance": losses.covariance(losses.sample_covariance(regularised), scale),
        "probe": F.cross_entropy(m.classifier(predicted), b.next_states[:, 0]),
    }
    wanted["loss"] = 3 * wanted["invariance"] + 5 * wanted["variance"] + 7 * wanted["covariance"]
    assert terms.keys() == wanted.keys()
    for name, value in wanted.items():
        assert number(terms[name]) == pytest.approx(number(value), rel=1e-4), name


@pytest.mark.parametrize("off", ["variance", "covariance", "consistency"])
def test_a_term_of_weight_zero_is_not_computed(off):
    weights = {"invariance": 2.0, "variance": 2.0, "covariance": 2.0, "consistency": 2.0, off: 0.0}
    terms = model(action="additive", **weights).train().objective(batch())
    others = {"invariance", "variance", "covariance", "consistency"} - {off}
    assert set(terms) == others | {"loss", "probe"}
    assert number(terms["loss"]) == pytest.approx(2 * sum(number(terms[name]) for name in others), rel=1e-5)


def test_invariance_too_can_be_switched_off():
    m = model(action="mfr-learned", invariance=0.0, regularise="context").train()
    terms = m.objective(batch())
    terms["loss"].backward()
    assert number(terms["loss"]) == pytest.approx(
        25 * number(terms["variance"]) + number(terms["covariance"]), rel=1e-5
    )
    assert gradients(m)["action.theta"] == 0, "nothing but invariance reads the prediction here"


@pytest.mark.parametrize("target", ["sampled", "mean"])
def test_every_action_is_the_average_over_the_actions(target):
    m = model(target=target, target_encoder="stop-gradient", variance=0, covariance=0)
    both = batch(every_action=True, targets=target == "sampled")
    single = []
    for j in range(2):
        targets = None if both.targets is None else both.targets.unflatten(0, (-1, 2))[:, j]
        one = type(both)(both.images, both.states, both.k[:, j : j + 1], both.next_states[:, j : j + 1], targets)
        single.append(m.objective(one))
    terms = m.objective(both)
    for name in ("loss", "probe"):
        assert number(terms[name]) == pytest.approx((number(single[0][name]) + number(single[1][name])) / 2, rel=1e-5)


@pytest.mark.parametrize("target", ["mean", "relaxed"])
def test_predictions_whose_state_has_no_mean_are_left_out(target):
    m = model(target=target, target_encoder="stop-gradient", variance=0, covariance=0).train()
    b = batch(count=3, actions=(1,), targets=False)  # states 0 1 2, next 1 2 3: no image shows 3
    z = m.encode(b.images)
    if target == "mean":
        wanted = F.mse_loss(m.act(z[:2], 1), z[1:])
        assert number(m.objective(b)["invariance"]) == pytest.approx(number(wanted), rel=1e-5)
    else:
        m.objective(b)
        assert m.target.known.tolist() == [1, 1, 1, 0, 0]


# Composition consistency


@pytest.mark.parametrize("composed", [(2,), (-3,), (4,), (3, -2, 2, -4)])
@pytest.mark.parametrize("growth", [0.5, 3.0])
def test_consistency_is_the_distance_from_one_step_to_repeated_steps(composed, growth):
    """No repeated step is longer than the latent it started from, and none carries a gradient."""
    m, b = model(action="additive", consistency=1.0, composed_actions=composed).train(), batch()
    m.action.net[-1].weight.data *= growth
    z = m.encode(b.images)
    distances = []
    for k in composed:
        seq, length = z, z.norm(dim=1, keepdim=True)
        for _ in range(abs(k)):
            seq = m.act(seq, 1 if k > 0 else -1)
            seq = torch.where(seq.norm(dim=1, keepdim=True) > length, F.normalize(seq, dim=1) * length, seq)
        distances.append(F.mse_loss(m.act(z, k), seq.detach()))
    wanted = sum(distances) / len(composed)
    got = m.objective(b)["consistency"]
    assert number(got) == pytest.approx(number(wanted), rel=1e-4)
    assert number(got) > 1e-6
    m.zero_grad()
    wanted.backward()
    naive = {name: p.grad.clone() for name, p in m.named_parameters() if p.grad is not None}
    m.zero_grad()
    got.backward()
    assert {name.split(".")[0] for name in naive} == {"encoder", "action"}
    for name, p in m.named_parameters():
        if p.grad is not None:
            assert torch.allclose(naive[name], p.grad, rtol=1e-3, atol=1e-7)


def test_consistency_takes_composed_actions_in_turn():
    """Where there are more than an image is compared on: each image some, the batch all of them."""
    seen = []

    def watch(m, count: int) -> torch.Tensor:
        act = m.action.act
        m.action.act = lambda z, k: seen.append(k) or act(z, k)
        seen.clear()
        m.consistency(m.predict, torch.randn(count, 8, generator=torch.Generator().manual_seed(0)))
        return seen[-1]

    task = Task(26, (1, 8, 8), (0.3,), (0.4,))
    composed = {k for k in range(-25, 26) if abs(k) > 1}
    k = watch(model(task, action="additive", consistency=1.0).train(), 12)
    assert k.shape == (12, COMPARED)
    assert all(len(row.unique()) == COMPARED for row in k)
    assert {int(one) for one in k.flatten()} == composed
    assert all(int((k == one).sum()) == 2 for one in composed), "12 x 8 places, 48 actions"
    k = watch(model(task, action="additive", consistency=1.0).train(), 2)
    assert k.shape == (2, 24), "a small batch has them all as well"
    assert {int(one) for one in k.flatten()} == composed


def test_consistency_fades_in_over_three_tenths_of_the_run():
    m = model(action="additive", consistency=1.0).train()
    full = number(m.objective(batch())["consistency"])
    shares = [number(m.objective(batch(), at)["consistency"]) / full for at in (0.0, 0.15, 0.3, 0.7)]
    assert shares == pytest.approx([0, 0.5, 1, 1], abs=1e-5)


def test_a_rotation_is_consistent_by_construction():
    m = model(action="mfr-fixed", consistency=1.0).train()
    z = torch.randn(40, 8, generator=torch.Generator().manual_seed(0))
    assert number(m.consistency(m.predict, z)) == pytest.approx(0, abs=1e-10)


def test_a_composed_action_out_of_reach_is_refused():
    with pytest.raises(RequestError, match=r"--composed-actions: \+3 cannot be reached"):
        model(
            Task(6, (1, 8, 8), (0.3,), (0.4,)), action="additive", consistency=1.0, train_actions=(2, -2),
            composed_actions=(3,),
        )  # fmt: skip


def test_consistency_composes_turns_by_parts_of_a_degree():
    task = Task(0, (1, 8, 8), (0.3,), (0.4,), SO2())
    m = model(
        task, action="additive", consistency=1.0, train_actions=("2.5", "-2.5"), test_actions=("5", "-7.5"),
    ).train()  # fmt: skip
    z = torch.randn(6, 8, generator=torch.Generator().manual_seed(0))
    m.action.net[-1].weight.data *= 0.1  # so that no step is longer than z
    m.action.net[-1].bias.data.zero_()
    twice, thrice = m.rollout(z, 2.5, 2)[-1], m.rollout(z, -2.5, 3)[-1]
    wanted = (F.mse_loss(m.act(z, 5.0), twice) + F.mse_loss(m.act(z, -7.5), thrice)) / 2
    assert number(m.consistency(m.predict, z)) == pytest.approx(number(wanted), rel=1e-4)


@pytest.mark.parametrize("nothing", [{"composed_actions": ()}, {"test_actions": ()}])
def test_a_consistency_loss_with_nothing_to_compose_is_refused(nothing):
    with pytest.raises(RequestError, match="compos"):
        model(action="additive", consistency=1.0, **nothing)


def test_every_composed_action_is_used_even_when_there_are_more_than_rows_in_a_batch():
    """Over a few steps; a batch may be smaller than the list."""
    torch.manual_seed(0)
    m = model(action="additive", consistency=1.0).train()
    for seed in range(30):
        m.objective(batch(count=2, seed=seed))
    assert m.actions_used.tolist() == [True] * 4 + [False] + [True] * 4


# What counts as zero-shot


@pytest.mark.parametrize(
    ("values", "test_actions", "kind"),
    [
        ({}, (-4, -3, -2, 2, 3, 4), "strict"),
        ({}, (4,), "strict"),  # +4 is -1 on the cycle of 5, but nobody ever asked for +4
        ({}, (1, 2), "weak"),  # trained on +1
        ({}, (), "none"),
        ({"target": "relaxed"}, (-4, -3, -2, 2, 3, 4), "strict"),
        ({"method": "supervised"}, (2, 3), "strict"),
        ({"action": "additive"}, (2, 3), "strict"),
        ({"action": "additive", "consistency": 1.0}, (2, 3), "weak"),
        ({"action": "additive", "consistency": 1.0, "composed_actions": (2,)}, (3, 4), "strict"),
        ({"action": "additive", "consistency": 1.0, "composed_actions": (2,)}, (2, 3), "weak"),
        ({"action": "mfr-fixed", "consistency": 1.0}, (2, 3), "weak"),
    ],
)
def test_the_kind_of_zero_shot_follows_from_what_training_passed_to_the_action(values, test_actions, kind):
    m = model(**values).train()
    for every in (False, True):
        m.objective(batch_for(m, every_action=every))
    assert m.zero_shot_kind(test_actions) == kind
    again = model(**values)
    again.load_state_dict(m.state_dict())
    assert again.zero_shot_kind(test_actions) == kind, "it is saved with the model"


def test_evaluating_an_action_is_not_training_on_it():
    m = model().train()
    m.objective(batch())
    m.eval()
    m.objective(batch(actions=(2,)))
    m.train()
    m.act(torch.zeros(3, 8), 3)
    m.rollout(torch.zeros(3, 8), 2, 2)
    assert m.zero_shot_kind((2, 3)) == "strict"


# Predicting


@pytest.mark.parametrize("values", [{}, {"encoder": "cnn"}, {"method": "supervised", "action": "additive"}])
@torch.no_grad()
def test_encode_takes_uint8_arrays_and_tensors_of_three_or_four_dimensions(values):
    m = model(**values).eval()
    images = images_of(TASK, 7, torch.Generator().manual_seed(0))
    z = m.encode(images)
    assert z.dtype == torch.float32
    x = (images.double() / 255 - TASK.mean[0]) / TASK.std[0]
    assert torch.allclose(z, m.encoder(x.float()), atol=1e-4), "pixels are scaled to 0..1 and normalised"
    for other in (images[:, 0], images.numpy(), images[:, 0].numpy(), images.float()):
        assert torch.equal(m.encode(other), z)
    assert len(m.encode(images[:0])) == 0


@torch.no_grad()
@pytest.mark.parametrize("normalise", [False, True])
def test_five_looks_are_the_mean_over_the_image_and_its_four_neighbours(normalise):
    once, five = (model(looks=looks, normalise=normalise).eval() for looks in (1, 5))
    images = torch.randint(256, (3, *once.task.shape), dtype=torch.uint8, generator=torch.Generator().manual_seed(1))
    views = [images]
    for axis, step in ((2, 1), (2, -1), (3, 1), (3, -1)):
        view = images.roll(step, axis)
        view.select(axis, 0 if step == 1 else -1).zero_()
        views.append(view)
    mean = torch.stack([once.encode(view) for view in views]).mean(0)
    mean = once.action.normalise(mean) if normalise else mean
    assert torch.allclose(five.encode(images), mean, atol=1e-5)
    assert not torch.allclose(five.encode(images), once.encode(images), atol=1e-3)
    assert torch.equal(five.embed(five.encoder, images), once.embed(once.encoder, images)), "training looks once"


def test_encode_takes_an_array_that_cannot_be_written_to():
    """What np.frombuffer and memory maps give; torch warns about it, and there is nothing the caller did wrong."""
    m, images = model().eval(), images_of(TASK, 2, torch.Generator().manual_seed(0)).numpy()
    fixed = np.frombuffer(images.tobytes(), np.uint8).reshape(images.shape)
    assert torch.equal(m.encode(fixed), m.encode(images))


@pytest.mark.parametrize("shape", [(8, 9), (8,), (3, 8, 9), (3, 2, 8, 8), (3, 8, 8, 1), (1, 3, 1, 8, 8)])
def test_encode_refuses_images_of_another_shape_and_names_both(shape):
    with pytest.raises(RequestError, match="this model reads 1x8x8"):
        model().encode(torch.zeros(shape, dtype=torch.uint8))


@torch.no_grad()
def test_encoding_in_chunks_changes_nothing(monkeypatch):
    m, images = model(encoder="cnn").eval(), images_of(TASK, 23, torch.Generator().manual_seed(0))
    whole = m.encode(images)
    monkeypatch.setattr("brojepa.models.model.CHUNK", 5)
    assert torch.allclose(m.encode(images), whole, atol=1e-6)
    assert m.encode(images).shape == (23, 8)


@pytest.mark.parametrize("action", ["mfr-fixed", "additive"])
@torch.no_grad()
def test_rollout_has_the_start_and_every_step(action):
    m, z = model(action=action), torch.randn(4, 8, generator=torch.Generator().manual_seed(0))
    path = m.rollout(z, -2, 3)
    assert path.shape == (4, 4, 8)
    assert torch.equal(path[0], z)
    for i in range(3):
        assert torch.equal(path[i + 1], m.act(path[i], -2))
    assert torch.equal(m.rollout(z, 1, 0), z[None])


@torch.no_grad()
def test_classify_is_the_largest_logit():
    m, z = model(), torch.randn(6, 3, 8, generator=torch.Generator().manual_seed(0))
    logits = z.numpy() @ m.classifier.weight.numpy().T + m.classifier.bias.numpy()
    assert m.classify(z).tolist() == logits.argmax(-1).tolist()


def test_building_depends_on_the_generator_and_on_nothing_else():
    torch.manual_seed(1)
    first, state = model(action="mfr-learned").state_dict(), torch.get_rng_state()
    torch.manual_seed(2)
    second, other = model(action="mfr-learned").state_dict(), model(action="mfr-learned", seed=1).state_dict()
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert not torch.equal(first["encoder.net.1.weight"], other["encoder.net.1.weight"])
    torch.manual_seed(1)
    assert torch.equal(torch.get_rng_state(), state), "the global generator is left alone"


def test_the_supervised_mlp_reads_pixels_beside_the_action():
    """The paper's supervised MLP has one network; with a rotation there must be a latent to turn."""
    pixels, rotated = model(method="supervised", action="additive"), model(method="supervised", action="mfr-fixed")
    assert isinstance(pixels, Supervised)
    assert pixels.action.dim == 64
    assert not list(pixels.encoder.parameters())
    assert rotated.action.dim == 8
    assert list(rotated.encoder.parameters())


# Cost


@pytest.mark.parametrize(
    ("values", "own", "slow"),
    [
        ({}, 1, 1),
        ({"target_encoder": "stop-gradient"}, 2, 0),
        ({"target": "mean"}, 1, 1),
        ({"target": "mean", "target_encoder": "stop-gradient"}, 1, 0),
        ({"target": "relaxed", "target_encoder": "stop-gradient"}, 1, 0),
        ({"target": "mean", "target_encoder": "stop-gradient", "consistency": 1.0, "action": "additive"}, 1, 0),
        ({"method": "supervised"}, 1, None),
    ],
)
@pytest.mark.parametrize("every_action", [False, True])
def test_a_step_encodes_no_more_often_than_it_must(values, own, slow, every_action):
    m = model(**values).train()
    calls = {"own": 0, "slow": 0}
    m.encoder.register_forward_hook(lambda *_: calls.update(own=calls["own"] + 1))
    if slow:
        m.slow.net.register_forward_hook(lambda *_: calls.update(slow=calls["slow"] + 1))
    m.objective(batch_for(m, every_action=every_action))
    assert calls == {"own": own, "slow": slow or 0}


@pytest.mark.parametrize("values", [*JEPAS.values(), {"method": "supervised", "action": "mfr-learned"}])
def test_a_step_asks_no_tensor_for_its_value(values, monkeypatch):
    """On a GPU each such question waits for all the work that was queued."""
    m = model(**values).train()
    optimizer, _ = optimisation.optimizer(m, config())
    b = batch_for(m)

    def step() -> None:
        terms = m.objective(b)
        optimizer.zero_grad()
        (terms["loss"] + terms.get("probe", 0)).backward()
        optimizer.step()
        m.after_step()

    def asked(*_: object) -> None:
        raise AssertionError("a tensor was asked for its value")

    for question in ("item", "tolist", "__bool__", "__float__", "numpy", "cpu"):
        monkeypatch.setattr(torch.Tensor, question, asked)
    with pytest.raises(AssertionError):  # the guard works
        float(b.states[0])
    step()


# Which actions are the same


@pytest.mark.parametrize(
    ("group", "train", "test"),
    [
        (Product((Cyclic(10), Cyclic(10))), ("1:0",), ("+1:0",)),
        (Product((Cyclic(10), Cyclic(10))), ("1:0",), ("11:-10",)),
        (Dihedral(4), ("r", "s"), ("r5",)),
        (SO2(), (10,), ("10.0",)),
        (SO2(), (10, -10), (370,)),
        (SO2(), (10,), (-350, 20)),
        (SO3(), ("x15",), ("x375",)),
        (SO3(), ("x15",), ("x-345",)),
        (Cyclic(10), (1,), ("+1",)),
    ],
)
def test_an_action_in_both_sets_is_refused_however_it_is_written(group, train, test):
    with pytest.raises(RequestError, match="zero-shot"):
        action_sets(config(train_actions=train, test_actions=test), group)
    with pytest.raises(RequestError, match="twice"):
        action_sets(config(train_actions=(*train, *test)), group)


def test_actions_that_differ_are_in_one_set_each():
    assert action_sets(config(train_actions=(-1,), test_actions=(9, 2)), Cyclic(10)) == ((-1,), (9, 2))
    assert action_sets(config(train_actions=(370,)), SO2(), (10.0, 20.0)) == ((370.0,), (20.0,))
    assert action_sets(config(train_actions=("x15",), test_actions=("y15", "x-15")), SO3())


@pytest.mark.parametrize("n", [5, 8])
def test_walks_around_a_turntable_undo_an_action_by_its_negative(n):
    m = model(Task(0, (1, 8, 8), (0.3,), (0.4,), Cyclic(n)), walk=3).train()
    others = [k for k in Cyclic(n).actions if abs(k) > 1]
    m.predict(torch.randn(2, 4, 8), torch.tensor([[1, 1, -1], [-1, 1, 1]]), walk=True)
    assert m.zero_shot_kind(others) == "strict"
    m.predict(torch.randn(1, 2, 8), torch.tensor([[3]]), walk=True)
    assert m.zero_shot_kind((-3,)) == "weak"
    assert m.zero_shot_kind((3 - n, n - 3)) == "strict"


# Copies and gradients


@pytest.mark.parametrize("values", [*JEPAS.values(), {"method": "supervised", "action": "mfr-learned"}])
def test_models_can_be_pickled_and_copied(values):
    m = model(**values).train()
    b = batch_for(m)
    for other in (pickle.loads(pickle.dumps(m)), copy.deepcopy(m)):
        assert torch.equal(other.objective(b)["loss"], m.objective(b)["loss"])
        other.after_step()


def test_encode_carries_a_gradient_in_training_only():
    images = images_of(TASK, 300, torch.Generator().manual_seed(0))
    m = model()
    assert m.train().encode(images).requires_grad
    z = m.eval().encode(images)
    assert not z.requires_grad
    assert m.embed(m.encoder, images).requires_grad
    assert torch.allclose(m.embed(m.encoder, images), z, atol=1e-5)
    z.requires_grad_()
    m.act(z, 1).sum().backward()
    assert z.grad is not None, "the action is differentiable at any time"
