"""Groups as tensors and their real irreducible representations: axioms, homomorphism, orthogonality, completeness."""

from __future__ import annotations

import math

import pytest
import torch
from helpers import checked
from hypothesis import given
from hypothesis import strategies as st

from brojepa.errors import RequestError
from brojepa.groups import SO2, SO3, Cyclic, Dihedral, Group, Product, parse

FINITE = [
    Cyclic(2), Cyclic(3), Cyclic(9), Cyclic(10), Dihedral(2), Dihedral(3), Dihedral(4), Dihedral(7), Dihedral(8),
    Product((Cyclic(2), Cyclic(2))), Product((Cyclic(3), Cyclic(4))), Product((Cyclic(10), Cyclic(26))),
    Product((Cyclic(2), Cyclic(3), Cyclic(4))),
]  # fmt: skip
CONTINUOUS = [SO2(), SO3(), Product((SO2(), SO2())), Product((Cyclic(5), SO2()))]
seeds = st.integers(0, 2**31)
groups = st.sampled_from(FINITE + CONTINUOUS)


def three(group: Group, seed: int, count: int = 6):
    generator = torch.Generator().manual_seed(seed)
    return (group.sample(count, generator) for _ in range(3))


def same(group: Group, a, b) -> bool:
    return bool((group.distance(torch.as_tensor(a), torch.as_tensor(b)) < 0.05).all())


@checked
@given(groups, seeds)
def test_the_axioms_hold_for_batches_of_elements(group, seed):
    a, b, c = three(group, seed)
    e = torch.as_tensor(group.identity)
    assert a.shape == (6, *group.shape)
    assert same(group, group.compose(group.compose(a, b), c), group.compose(a, group.compose(b, c)))
    assert same(group, group.compose(a, e), a)
    assert same(group, group.compose(e, a), a)
    assert same(group, group.compose(a, group.inverse(a)), e)
    assert same(group, group.compose(group.inverse(a), a), e)


@checked
@given(groups, seeds, st.integers(-12, 12))
def test_a_power_is_a_repeated_composition(group, seed, k):
    a, _, _ = three(group, seed)
    by_hand = group.compose(torch.as_tensor(group.identity), torch.as_tensor(group.identity))
    for _ in range(abs(k)):
        by_hand = group.compose(by_hand, a if k > 0 else group.inverse(a))
    assert same(group, group.power(a, k), by_hand)


@checked
@given(groups, seeds)
def test_irreps_are_orthogonal_and_multiply_as_elements_do(group, seed):
    a, b, _ = three(group, seed)
    ab = group.compose(a, b)
    for irrep in group.irreps():
        one, two = irrep.matrix(a), irrep.matrix(b)
        assert one.shape == (6, irrep.dim, irrep.dim)
        torch.testing.assert_close(one @ two, irrep.matrix(ab), atol=2e-4, rtol=0)
        torch.testing.assert_close(one @ one.mT, torch.eye(irrep.dim).expand(6, -1, -1), atol=1e-5, rtol=0)


@pytest.mark.parametrize("group", FINITE, ids=str)
def test_squared_dimensions_add_up_to_the_order_of_a_finite_group(group):
    irreps, elements = group.irreps(), group.elements
    assert len(elements) == group.order == len({group.bucket(e).item() for e in elements})
    assert sum(i.dim**2 / i.commutant for i in irreps) == group.order
    assert len({i.name for i in irreps}) == len(irreps)


@pytest.mark.parametrize("group", FINITE, ids=str)
def test_characters_of_different_irreps_are_orthogonal_and_their_squares_the_commutant(group):
    characters = torch.stack([i.matrix(group.elements).diagonal(dim1=-2, dim2=-1).sum(-1) for i in group.irreps()])
    gram = characters.double() @ characters.double().T / group.order
    wanted = torch.diag(torch.tensor([float(i.commutant) for i in group.irreps()])).double()
    torch.testing.assert_close(gram, wanted, atol=1e-5, rtol=0)


@pytest.mark.parametrize("group", FINITE, ids=str)
def test_the_generators_reach_every_element(group):
    reached = {group.plain(group.compose(torch.as_tensor(group.identity), torch.as_tensor(group.identity)))}
    while True:
        more = {
            group.plain(group.compose(g, torch.tensor(e, dtype=group.dtype))) for e in reached for g in group.generators
        }
        if more <= reached:
            break
        reached |= more
    assert len(reached) == group.order


@pytest.mark.parametrize("group", FINITE + CONTINUOUS, ids=str)
def test_every_action_is_read_back_from_its_words_and_the_group_from_its_name(group):
    assert parse(str(group)) == group
    some = group.actions or [group.plain(g) for g in group.generators]
    for k in some[:60]:
        assert group.parse(group.write(k)) == pytest.approx(k, abs=1e-5)
    assert len(set(some)) == len(some)


def test_a_finite_groups_actions_are_all_elements_but_the_identity():
    for group in FINITE:
        if not isinstance(group, Cyclic):
            buckets = {group.bucket(torch.tensor(k)).item() for k in group.actions}
            assert len(buckets) == len(group.actions) == group.order - 1
            assert group.bucket(torch.as_tensor(group.identity)).item() not in buckets


def test_order_matters_in_a_dihedral_group_and_a_flip_reverses_a_turn():
    group = Dihedral(5)
    r, s = torch.tensor([1, 0]), torch.tensor([0, 1])
    assert group.compose(r, s).tolist() != group.compose(s, r).tolist()
    assert group.compose(group.compose(s, r), s).tolist() == group.inverse(r).tolist()
    assert group.write(group.plain(group.compose(r, s))) == "rs"


@checked
@given(seeds)
def test_quaternions_are_the_turns_of_space_that_their_matrices_are(seed):
    group = SO3()
    a, b, _ = three(group, seed)
    torch.testing.assert_close(group.matrix(a) @ group.matrix(b), group.matrix(group.compose(a, b)), atol=1e-5, rtol=0)
    cosine = (group.matrix(a).diagonal(dim1=-2, dim2=-1).sum(-1) - 1) / 2
    torch.testing.assert_close(group.angle(a), torch.rad2deg(cosine.clamp(-1, 1).acos()), atol=0.1, rtol=0)
    v = group.coordinates(a)
    skew = torch.linalg.cross(v[:, None, :].expand(-1, 3, -1), torch.eye(3).expand(6, 3, 3)).mT
    torch.testing.assert_close(torch.linalg.matrix_exp(skew), group.matrix(a), atol=1e-4, rtol=0)


def test_a_turn_about_z_moves_x_to_y():
    group = SO3()
    turn = group.matrix(torch.tensor(group.parse("z90")))
    torch.testing.assert_close(turn @ torch.tensor([1.0, 0, 0]), torch.tensor([0.0, 1, 0]), atol=1e-6, rtol=0)


def test_the_grid_of_turns_leaves_no_gap():
    group = SO3()
    grid, drawn = group.grid(4096), group.sample(300, torch.Generator().manual_seed(0))
    nearest = group.distance(drawn[:, None], grid).min(1).values
    assert nearest.max() < 15
    assert nearest.median() < 9


@checked
@given(st.integers(2, 12), st.integers(2, 12), seeds)
def test_a_torus_moves_both_numbers_of_a_state(n, m, seed):
    group = Product((Cyclic(n), Cyclic(m)))
    generator = torch.Generator().manual_seed(seed)
    states = torch.arange(n * m)
    k = torch.stack(
        [torch.randint(-n, n, (n * m,), generator=generator), torch.randint(-m, m, (n * m,), generator=generator)], -1
    )
    after = group.apply(states, k)
    assert torch.equal(after // m, (states // m + k[:, 0]) % n)
    assert torch.equal(after % m, (states % m + k[:, 1]) % m)


def test_angles_between_turns_are_the_shorter_way_round():
    assert SO2().distance(torch.tensor(350.0), torch.tensor(10.0)) == 20
    half = SO3().distance(SO3().tensor([SO3().parse("x170")]), SO3().tensor([SO3().parse("x-170")]))
    assert math.isclose(half.item(), 20, abs_tol=1e-3)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: parse("Q8"), "no group 'Q8': write Z10"),
        (lambda: Dihedral(1), "n of 2 or more, got 1"),
        (lambda: Product((Cyclic(3),)), "two or more cycles"),
        (lambda: Product((Cyclic(3), Dihedral(4))), "two or more cycles or circles, got Z3, D4"),
        (lambda: SO3().elements, "SO3 has no list of elements"),
        (lambda: Dihedral(4).check(("r", "q"), "--train"), "--train: q is no action of D4, write them as in r,r-1,s"),
        (lambda: Product((Cyclic(9), Cyclic(9))).check((1,), "--t"), "1 is no action of Z9xZ9, write .* as in 1:0,0:1"),
        (lambda: Dihedral(4).check(("r", "r5"), "--train-actions"), "names an action twice"),
        (lambda: SO3().check(("w5",), "--train-actions"), "w5 is no action of SO3"),
    ],
)  # fmt: skip
def test_what_is_no_group_or_element_is_refused(call, message):
    with pytest.raises(RequestError, match=message):
        call()
