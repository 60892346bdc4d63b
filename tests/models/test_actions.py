"""Latent actions: the rotation against matrices, NumPy and the group law; each embedding against its formula."""

from __future__ import annotations

import copy
import math
import pickle

import numpy as np
import pytest
import torch
from helpers import checked
from hypothesis import given
from hypothesis import strategies as st

from brojepa.errors import RequestError
from brojepa.groups import SO2, SO3, Cyclic, Dihedral, Product, parse
from brojepa.models.actions import (
    EMBEDDINGS,
    BlockAction,
    BlockRotation,
    LatentAction,
    MLPAction,
    Representation,
    evenly,
    fourier_features,
    harmonics,
)  # fmt: skip

dims = st.integers(1, 8).map(lambda planes: 2 * planes)
sizes = st.integers(2, 13)
steps = st.integers(-30, 30)


@st.composite
def rotations(draw) -> BlockRotation:
    """Any rotation: fixed or learned, one angle or one per plane."""
    dim, n = draw(dims), draw(sizes)
    g = torch.Generator().manual_seed(draw(st.integers(0, 999)))
    return draw(
        st.sampled_from(
            [
                BlockRotation.single(dim, n),
                BlockRotation.multi(dim, n),
                BlockRotation.multi(dim, n, lowest=1),
                BlockRotation.random(dim, generator=g),
                BlockRotation.random(dim, shared=True, range="positive", generator=g),
            ]
        )
    )


def latents(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def by_numpy(z: np.ndarray, k: int, angles: np.ndarray) -> np.ndarray:
    """Planes as complex numbers, in float64: rows [rows, dim]."""
    planes = (z[:, 0::2] + 1j * z[:, 1::2]) * np.exp(1j * k * angles.astype(np.float64))
    return np.stack((planes.real, planes.imag), -1).reshape(z.shape)


@checked
@given(rotations(), steps)
@torch.no_grad()
def test_act_is_the_matrix_is_its_power_is_the_numpy_formula(rotation, k):
    z = latents(6, rotation.dim)
    acted = rotation.act(z, k)
    assert torch.allclose(acted, z @ rotation.matrix(k).T, atol=1e-4)
    one = rotation.matrix(1).double()
    power = torch.linalg.matrix_power(one, k)  # a negative power inverts
    assert torch.allclose(acted.double(), z.double() @ power.T, atol=1e-4)
    np.testing.assert_allclose(acted, by_numpy(z.double().numpy(), k, rotation.angles.numpy()), atol=1e-4)


@checked
@given(rotations(), steps, steps)
@torch.no_grad()
def test_acting_twice_is_acting_with_the_sum_in_either_order(rotation, j, k):
    z = latents(4, rotation.dim)
    after = rotation.act(z, j + k)
    assert torch.allclose(rotation.act(rotation.act(z, j), k), after, atol=1e-4)
    assert torch.allclose(rotation.act(rotation.act(z, k), j), after, atol=1e-4)


@checked
@given(rotations(), steps)
@torch.no_grad()
def test_there_is_an_identity_an_inverse_and_no_change_of_length(rotation, k):
    z = latents(4, rotation.dim)
    assert torch.equal(rotation.act(z, 0), z)
    assert torch.allclose(rotation.act(rotation.act(z, k), -k), z, atol=1e-5)
    lengths = [t.unflatten(1, (-1, 2)).norm(dim=-1) for t in (rotation.act(z, k), z)]
    assert torch.allclose(*lengths, atol=1e-5), "each plane keeps its length"
    m = rotation.matrix(k)
    assert torch.allclose(m @ m.T, torch.eye(rotation.dim), atol=1e-5)
    assert torch.det(m.double()) == pytest.approx(1, abs=1e-5)


@checked
@given(dims, st.integers(5, 26), steps)
@torch.no_grad()
def test_with_one_frequency_every_action_is_a_mixture_of_the_two_that_are_trained(dim, n, k):
    """Why a classifier of these latents that was trained on +1 and -1 knows nothing of other actions."""
    rotation, z, theta = BlockRotation.single(dim, n), latents(4, dim), 2 * math.pi / n
    ahead, back = (math.sin((1 + sign * k) * theta) / math.sin(2 * theta) for sign in (1, -1))
    assert torch.allclose(rotation.act(z, k), ahead * rotation.act(z, 1) + back * rotation.act(z, -1), atol=1e-4)


@checked
@given(dims, sizes, st.sampled_from([0, 1]), steps)
def test_fixed_angles_come_back_after_n_and_tell_all_states_apart(dim, n, lowest, k):
    z = latents(3, dim)
    for rotation in (BlockRotation.single(dim, n), BlockRotation.multi(dim, n, lowest)):
        assert torch.allclose(rotation.act(z, k + n), rotation.act(z, k), atol=1e-4)
    moved = [BlockRotation.single(dim, n).act(z, j) for j in range(n)]
    distance = torch.cdist(torch.stack(moved).flatten(1), torch.stack(moved).flatten(1))
    assert (distance + torch.eye(n) > 1e-2).all(), "no period shorter than n"


@checked
@given(rotations(), st.integers(1, 3), st.integers(1, 4))
@torch.no_grad()
def test_a_tensor_of_actions_broadcasts_against_latents(rotation, rows, columns):
    z, g = latents(rows, rotation.dim), torch.Generator().manual_seed(1)
    k = torch.randint(-9, 10, (rows, columns), generator=g)
    many = rotation.act(z[:, None], k)
    assert many.shape == (rows, columns, rotation.dim)
    for i in range(rows):
        for j in range(columns):
            assert torch.allclose(many[i, j], rotation.act(z[i], int(k[i, j])), atol=1e-6)
    assert torch.equal(rotation.act(z, 3), rotation.act(z, torch.tensor(3)))
    assert torch.equal(rotation.act(z[0], k[0]), many[0]), "one latent, several actions"


@pytest.mark.parametrize("shared", [False, True])
def test_gradients_of_latents_and_angles_are_those_of_finite_differences(shared):
    rotation = BlockRotation.random(6, shared=shared, generator=torch.Generator().manual_seed(3))
    z, k, w = latents(5, 6), torch.tensor([-3, -1, 0, 1, 4]), latents(5, 6, seed=2)
    z.requires_grad_()
    (rotation.act(z, k) * w).sum().backward()

    def value(latent: np.ndarray, theta: np.ndarray) -> float:
        angles = np.broadcast_to(theta, 3)
        return sum(float((by_numpy(latent[i : i + 1], int(k[i]), angles) * w[i].numpy()).sum()) for i in range(5))

    for tensor, index in ((z, 0), (rotation.theta, 1)):
        at = [z.detach().double().numpy(), rotation.theta.detach().double().numpy()]
        numeric = np.zeros(tuple(tensor.shape))
        for place in np.ndindex(*tensor.shape):
            ends = []
            for step in (1e-5, -1e-5):
                moved = [a.copy() for a in at]
                moved[index][place] += step
                ends.append(value(*moved))
            numeric[place] = (ends[0] - ends[1]) / 2e-5
        assert np.abs(numeric).max() > 0.1
        np.testing.assert_allclose(tensor.grad, numeric, atol=1e-3)


@pytest.mark.parametrize("k", [-7, 25])
def test_gradients_are_those_of_the_dense_matrix(k):
    rotation = BlockRotation.random(8, generator=torch.Generator().manual_seed(0))
    z, w = latents(4, 8), latents(4, 8, seed=1)
    fast = torch.autograd.grad((rotation.act(z, k) * w).sum(), rotation.theta)[0]
    dense = torch.autograd.grad((z @ rotation.matrix(k).T * w).sum(), rotation.theta)[0]
    assert fast.abs().min() > 0
    assert torch.allclose(fast, dense, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32, torch.float64])
def test_the_result_has_the_dtype_of_the_latent_and_no_more_error_than_its_rounding(dtype):
    rotation = BlockRotation.multi(16, 26)
    z = latents(50, 16).to(dtype)
    acted = rotation.act(z, 25)
    assert acted.dtype == dtype
    exact = by_numpy(z.double().numpy(), 25, rotation.angles.numpy())
    rounding = max(2 * torch.finfo(dtype).eps, 2e-5)  # half a unit in the last place of values up to 4; float32 angles
    np.testing.assert_allclose(acted.double(), exact, atol=rounding)


def test_angles_stay_float32_under_bfloat16_autocast():
    """In bfloat16, 25 * theta is off by up to 0.25 rad; in float32 by 1e-6."""
    rotation = BlockRotation.random(16, generator=torch.Generator().manual_seed(5))
    z = latents(50, 16)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        acted, matrix = rotation.act(z, 25), rotation.matrix(25)
        (rotation.act(z, 25) ** 2 * latents(50, 16, seed=1)).sum().backward()
    assert acted.dtype == matrix.dtype == rotation.theta.dtype == rotation.theta.grad.dtype == torch.float32
    exact = by_numpy(z.double().numpy(), 25, rotation.angles.detach().numpy())
    np.testing.assert_allclose(acted.detach(), exact, atol=5e-5)


@pytest.mark.parametrize("n", [2, 3, 5, 10, 26, 27])
def test_harmonics_are_the_papers_formula(n):
    """theta_i = 2 pi / N * (i mod N / 2), from 0; for odd N the half is rounded up so that frequencies are whole."""
    got = harmonics(n, 40).tolist()
    if n == 2:  # the formula would give nothing but 0: no action at all
        assert got == [0, 1] * 20
    else:
        assert got == [i % -(-n // 2) for i in range(40)]
    assert n in (2, 3) or set(got) == {f for f in range(n) if f < n / 2}


@pytest.mark.parametrize("n", [2, 3, 5, 10, 27])
def test_harmonics_from_one_run_to_the_half_and_never_stand_still(n):
    got = harmonics(n, 40, lowest=1).tolist()
    assert set(got) == set(range(1, n // 2 + 1))
    assert got[: n // 2] == sorted(set(got)), "in order, then repeating"


def test_the_papers_two_worlds_have_the_papers_angles():
    mnist, emnist = BlockRotation.multi(64, 10), BlockRotation.multi(64, 26)
    np.testing.assert_allclose(mnist.angles, [2 * math.pi / 10 * (i % 5) for i in range(32)], rtol=1e-6)
    np.testing.assert_allclose(emnist.angles, [2 * math.pi / 26 * (i % 13) for i in range(32)], rtol=1e-6)
    np.testing.assert_allclose(BlockRotation.single(64, 10).angles, [math.pi / 5] * 32, rtol=1e-6)


@pytest.mark.parametrize(("range_", "low"), [("symmetric", -2 * math.pi), ("positive", 0.0)])
def test_learned_angles_start_uniform_in_their_range(range_, low):
    angles = BlockRotation.random(4000, range=range_, generator=torch.Generator().manual_seed(0)).angles.detach()
    share = ((angles - low) / (2 * math.pi - low)).sort().values
    assert 0 <= share[0] < 0.01
    assert 0.99 < share[-1] <= 1
    uniform = (torch.arange(2000) + 0.5) / 2000
    assert (share - uniform).abs().max() < 0.05, "Kolmogorov-Smirnov distance"


def test_learned_angles_are_a_parameter_and_follow_the_generator():
    def draw(seed: int, **options: bool) -> torch.Tensor:
        return BlockRotation.random(8, generator=torch.Generator().manual_seed(seed), **options).theta

    assert isinstance(draw(0), torch.nn.Parameter)
    assert torch.equal(draw(0), draw(0))
    assert not torch.equal(draw(0), draw(1))
    assert draw(0, shared=True).shape == (1,)
    assert BlockRotation.random(8).learned_angles
    fixed = BlockRotation.multi(8, 10)
    assert not fixed.learned_angles
    assert not list(fixed.parameters())
    assert "theta" in fixed.state_dict(), "fixed angles are saved with the model"


def test_a_shared_angle_turns_every_plane_alike_and_gathers_every_planes_gradient():
    shared = BlockRotation(torch.tensor([0.7]), dim=6, learned=True)
    apart = BlockRotation(torch.full((3,), 0.7), learned=True)
    z, w = latents(4, 6), latents(4, 6, seed=1)
    assert torch.equal(shared.act(z, 2), apart.act(z, 2))
    assert shared.angles.tolist() == apart.angles.tolist()
    for rotation in (shared, apart):
        (rotation.act(z, 2) * w).sum().backward()
    assert float(shared.theta.grad) == pytest.approx(float(apart.theta.grad.sum()), rel=1e-5)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: BlockRotation.multi(7, 10), r"even latent dimension, got 7: use 8"),
        (lambda: BlockRotation.single(1, 10), r"even latent dimension, got 1: use 2"),
        (lambda: BlockRotation.random(5), r"even latent dimension, got 5: use 6"),
        (lambda: BlockRotation(torch.zeros(0)), r"even latent dimension, got 0: use 2"),
        (lambda: BlockRotation(torch.zeros(3), dim=8), r"4 planes need 4 angles or one shared angle, got 3"),
        (lambda: BlockRotation.of(Dihedral(4), "2xE1"), r"D4 does not only turn planes: use Representation"),
    ],
)
def test_a_rotation_that_cannot_be_says_what_would_do(build, message):
    with pytest.raises(RequestError, match=message):
        build()


# The unconstrained action and its embeddings


def embed(action: MLPAction, *k: int) -> torch.Tensor:
    """What the network of `action` is given for k, as its embedding puts it out."""
    seen = []
    handle = action.embedding.register_forward_hook(lambda _, inputs, output: seen.append(output))
    with torch.no_grad():
        action.act(torch.zeros(len(k), action.dim), torch.tensor(k))
    handle.remove()
    return seen[0]


def mlp(embedding: str, **options) -> MLPAction:
    torch.manual_seed(0)
    return MLPAction(6, 10, embedding, hidden=16, embedding_dim=8, **options)


def test_the_additive_embedding_is_exactly_linear():
    one, three, minus, zero = embed(mlp("additive"), 1, 3, -1, 0)
    assert one.abs().min() > 0
    assert torch.equal(three, 3 * one)
    assert torch.equal(minus, -one)
    assert not zero.any()


def test_the_lookup_embedding_has_a_row_for_every_signed_action():
    action = mlp("lookup", scale=0.1)  # scale must not move the rows
    rows = embed(action, *range(-9, 10))
    assert torch.equal(rows, action.embedding.table.weight)
    assert len(rows.unique(dim=0)) == 19
    with pytest.raises(IndexError):
        action.act(torch.zeros(1, 6), 10)


def test_the_linear_embedding_reads_the_number_itself():
    action = mlp("linear")
    a, b = action.embedding.net[0], action.embedding.net[2]
    k = np.array([[-4.0], [0.0], [7.0]])
    hidden = np.maximum(k @ a.weight.detach().double().numpy().T + a.bias.detach().numpy(), 0)
    wanted = hidden @ b.weight.detach().double().numpy().T + b.bias.detach().numpy()
    np.testing.assert_allclose(embed(action, -4, 0, 7), wanted, atol=1e-5)


@pytest.mark.parametrize("scale", [1.0, 2 * math.pi / 10])
def test_the_fourier_embedding_projects_two_sines_and_cosines(scale):
    action = mlp("fourier", scale=scale)
    x = np.array([-9, 2, 5]) * scale
    features = np.stack((np.sin(x), np.cos(x), np.sin(2 * x), np.cos(2 * x)), 1)
    np.testing.assert_allclose(fourier_features(torch.tensor(x)), features, atol=1e-12)
    weight, bias = (
        p.detach().double().numpy() for p in (action.embedding.project.weight, action.embedding.project.bias)
    )
    np.testing.assert_allclose(embed(action, -9, 2, 5), features @ weight.T + bias, atol=1e-5)


def test_scaled_fourier_features_have_the_worlds_period_and_unscaled_do_not():
    periodic, plain = mlp("fourier", scale=2 * math.pi / 10), mlp("fourier")
    assert torch.allclose(*embed(periodic, 3, -7), atol=1e-5)
    assert not torch.allclose(*embed(plain, 3, -7), atol=1e-2)


def test_the_hybrid_embedding_keeps_sign_and_magnitude_apart():
    plus, minus, other, zero = embed(mlp("hybrid"), 4, -4, 6, 0)
    sign, magnitude = slice(0, 4), slice(4, 8)
    assert torch.equal(plus[magnitude], minus[magnitude])
    assert not torch.equal(plus[sign], minus[sign])
    assert torch.equal(plus[sign], other[sign])
    assert not torch.allclose(plus[magnitude], other[magnitude])
    assert not torch.equal(zero[sign], plus[sign])
    assert not torch.equal(zero[sign], minus[sign])


@pytest.mark.parametrize("embedding", ["additive", "linear", "fourier"])
def test_scale_multiplies_the_number_before_it_is_embedded(embedding):
    half, full = mlp(embedding, scale=0.5), mlp(embedding)
    assert torch.allclose(embed(half, 8), embed(full, 4), atol=1e-6)
    assert not torch.allclose(embed(half, 8), embed(full, 8), atol=1e-3)


@pytest.mark.parametrize("embedding", ["additive", "lookup", "linear", "fourier", "hybrid"])
@torch.no_grad()
def test_every_embedding_broadcasts_as_a_rotation_does(embedding):
    action, z, k = mlp(embedding, out_dim=5), latents(3, 6), torch.tensor([[-1, 1], [2, -9], [0, 4]])
    many = action.act(z[:, None], k)
    assert many.shape == (3, 2, 5)
    for i in range(3):
        for j in range(2):
            assert torch.allclose(many[i, j], action.act(z[i], int(k[i, j])), atol=1e-6)
    assert torch.allclose(action.act(z, 3), action.act(z, torch.tensor([3, 3, 3])), atol=1e-6)
    assert action(z, 3).shape == (3, 5)
    assert action.angles is None
    assert not action.learned_angles


@torch.no_grad()
def test_the_network_reads_latent_and_embedding_side_by_side():
    action, z, k = mlp("additive"), latents(3, 6), torch.tensor([4, -1, 0])
    side_by_side = torch.cat((z, embed(action, 4, -1, 0)), 1)
    assert torch.allclose(action.act(z, k), action.net(side_by_side), atol=1e-6)


def test_the_network_reads_the_latent_and_the_action():
    action, z = mlp("additive"), latents(4, 6)
    assert not torch.allclose(action.act(z, 1), action.act(z, -1), atol=1e-3)
    assert not torch.allclose(action.act(z, 1), action.act(z.flip(0), 1), atol=1e-3)
    shapes = [tuple(p.shape) for p in MLPAction(64, 10).net.parameters() if p.ndim == 2]
    assert shapes == [(256, 64 + 32), (256, 256), (64, 256)]


def test_the_activation_of_the_network_is_a_choice():
    z, k = latents(4, 6), torch.tensor([9, -2, 1, 0])
    for name, function in (("relu", torch.relu), ("gelu", torch.nn.functional.gelu)):
        action = mlp("additive", activation=name)
        first, _, second, _, last = action.net
        x = function(first(torch.cat((z, embed(action, 9, -2, 1, 0)), 1)))
        assert torch.allclose(action.act(z, k), last(function(second(x))), atol=1e-6)
    with pytest.raises(RequestError, match=r"unknown activation 'glu': did you mean gelu"):
        mlp("additive", activation="glu")


def test_an_unknown_embedding_is_refused_with_the_nearest():
    with pytest.raises(RequestError, match=r"unknown action embedding 'fourrier': did you mean fourier\?"):
        MLPAction(6, 10, "fourrier")
    with pytest.raises(RequestError, match="choose from additive, lookup, linear, fourier, hybrid"):
        MLPAction(6, 10, "zzz")


# What every latent action offers


class Shift(LatentAction):
    """Adds k to every number: what a user would write, and nothing more."""

    dim = out_dim = 4

    def act(self, z, k):
        return z + torch.as_tensor(k)[..., None]


TORUS = parse("Z3xZ4")
KINDS = {
    "fixed": (BlockRotation.multi(8, 10), Cyclic(10)),
    "learned": (BlockRotation.random(8, generator=torch.Generator().manual_seed(0)), Cyclic(10)),
    "shared": (BlockRotation.random(8, shared=True, generator=torch.Generator().manual_seed(0)), Cyclic(10)),
    "torus": (BlockRotation.of(TORUS, evenly(TORUS, 8)), TORUS),
    "circle": (BlockRotation.of(SO2(), "1x1 + 2x2 + 2x0"), SO2()),
    "dihedral": (Representation(Dihedral(4), evenly(Dihedral(4), 8)), Dihedral(4)),
    "cycle": (Representation(Cyclic(10), "2x0 + 2x1 + 2x5"), Cyclic(10)),
    "space": (Representation(SO3(), "2x0 + 2x1"), SO3()),
    **{name: (mlp(name), Cyclic(10)) for name in EMBEDDINGS},
    "own": (Shift(), Cyclic(10)),
}
kinds = pytest.mark.parametrize(("action", "group"), KINDS.values(), ids=KINDS)


@kinds
@torch.no_grad()
def test_every_latent_action_survives_pickling_and_copying(action, group):
    z, k = latents(5, action.dim), group.sample(5, torch.Generator().manual_seed(0))
    for twin in (copy.deepcopy(action), pickle.loads(pickle.dumps(action))):
        assert torch.equal(twin.act(z, k), action.act(z, k))
        assert str(twin) == str(action)
        assert twin.state_dict().keys() == action.state_dict().keys()
        assert [p.requires_grad for p in twin.parameters()] == [p.requires_grad for p in action.parameters()]
        assert (twin.logged(), len(twin.undecayed())) == (action.logged(), len(action.undecayed()))


@kinds
@torch.no_grad()
def test_the_nearest_action_is_the_one_with_the_least_distance(action, group):
    z, w = latents(2, 3, action.dim), latents(2, 3, action.dim, seed=1)
    k = group.sample(40, torch.Generator().manual_seed(0))
    near = action.nearness(z, w, k)
    far = (action.act(z[..., None, :], k) - w[..., None, :]).norm(dim=-1)
    assert near.shape == far.shape == (2, 3, 40)
    chosen = far.gather(-1, near.argmax(-1, keepdim=True))[..., 0]
    torch.testing.assert_close(chosen, far.amin(-1), atol=1e-4, rtol=0)


@kinds
def test_hooks_say_what_an_action_learns_and_logs(action, group):
    learned = isinstance(action, BlockRotation) and action.learned_angles
    assert action.undecayed() == ([action.theta] if learned else [])
    assert action.logged() == ({"angles": action.theta.tolist()} if learned else {})
    parts = action.irrep_parts(group)
    assert (parts is None) == (not isinstance(action, BlockAction))
    if parts is not None:
        assert sorted(d for part in parts for d in part.dims) == list(range(action.dim))
        assert all(part.copies * part.irrep.dim == len(part.dims) for part in parts)


def test_only_a_fixed_rotation_of_one_cycle_has_a_period():
    assert {name: action.period for name, (action, _) in KINDS.items() if action.period} == {"fixed": 10}


def test_a_rotation_and_a_representation_stand_side_by_side():
    assert not issubclass(BlockRotation, Representation)
    assert issubclass(BlockRotation, BlockAction)
    assert issubclass(Representation, BlockAction)


def test_a_rotation_has_no_parts_of_a_group_that_flips():
    assert BlockRotation.multi(8, 10).irrep_parts(Dihedral(4)) is None


@pytest.mark.parametrize("group", [Cyclic(10), SO2(), TORUS], ids=str)
def test_a_rotation_and_a_representation_of_the_same_irreps_act_alike(group):
    copies = evenly(group, 16)
    one, two = BlockRotation.of(group, copies), Representation(group, copies)
    z, k = latents(6, 16), group.sample(6, torch.Generator().manual_seed(0))
    torch.testing.assert_close(one.act(z, k), two.act(z, k), atol=1e-4, rtol=0)
    torch.testing.assert_close(one.normalise(z), two.normalise(z))
    assert str(one) == str(two)
    walk, steps = latents(2, 4, 16), group.sample(6, torch.Generator().manual_seed(1)).reshape(2, 3, *group.shape)
    torch.testing.assert_close(one.path(walk, steps), two.path(walk, steps), atol=1e-4, rtol=0)


def test_evenly_splits_the_dimensions():
    assert evenly(Cyclic(4), 14) == {"0": 6, "1": 2, "2": 4}
    assert evenly(Dihedral(4), 16) == {"A1": 3, "A2": 3, "B1": 3, "B2": 3, "E1": 2}
    assert evenly(TORUS, 16) == {"0:0": 4, "0:1": 2, "0:2": 4, "1:0": 2}


# Far actions and other precisions


@pytest.mark.parametrize("k", [10**6, 2**24 + 1, 10**12 + 3, -(10**6) - 7])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_far_actions_of_a_known_group_are_exact(k, dtype):
    z = torch.randn(4, 16, dtype=dtype)
    for rotation in (BlockRotation.multi(16, 10), BlockRotation.single(16, 10), BlockRotation.of(Cyclic(10), "8x1")):
        near = rotation.act(z, k % 10)
        assert torch.allclose(rotation.act(z, k), near, atol=1e-5 if dtype == torch.float32 else 1e-12)
    torus = BlockRotation.of(Product((Cyclic(10), Cyclic(7))), "4x1:1 + 4x0:1")
    far, near = torch.tensor([k, -k]), torch.tensor([k % 10, -k % 7])
    assert torch.allclose(torus.act(z, far), torus.act(z, near), atol=1e-5 if dtype == torch.float32 else 1e-12)


@pytest.mark.parametrize("learned", [True, False])
def test_float64_latents_are_turned_in_float64(learned):
    rotation = BlockRotation(torch.tensor([0.3, 1.7]), learned=learned).double()
    z = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda z: rotation.act(z, torch.tensor([1, 2, -5])), z)
    if learned:
        assert torch.autograd.gradcheck(lambda theta: torch.func.functional_call(rotation, {"theta": theta}, (z, 3)),
                                        rotation.theta.detach().requires_grad_())  # fmt: skip
    fixed = BlockRotation.multi(8, 7)
    z = torch.randn(5, 8, dtype=torch.float64)
    assert torch.allclose(fixed.act(fixed.act(z, 3), 4), z, rtol=0, atol=1e-14)
    for action in (fixed, Representation(Dihedral(4), "4xE1")):
        assert action.act(z, torch.zeros(2, dtype=torch.int64) if action is not fixed else 0).dtype == torch.float64


@pytest.mark.parametrize("action", [BlockRotation.multi(4, 5), Representation(Cyclic(5), "2x1")])
def test_latents_that_are_no_floats_are_refused(action):
    with pytest.raises(RequestError, match="int64"):
        action.act(torch.ones(2, 4, dtype=torch.int64), 1)
