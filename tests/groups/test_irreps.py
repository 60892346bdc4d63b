"""Groups as tensors and their real irreducible representations: axioms, homomorphism, orthogonality, completeness,
and the facts that a group knows of itself."""

from __future__ import annotations

import copy
import math
import pickle

import pytest
import torch
from helpers import checked, says
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


@pytest.mark.parametrize("group", FINITE + CONTINUOUS, ids=str)
def test_a_group_knows_whether_order_matters(group):
    """Against all pairs of elements of a finite group, and pairs that are drawn from a continuous one."""
    if group.order:
        a, b = group.elements[:, None], group.elements[None]
    else:
        a, b, _ = three(group, seed=0, count=200)
    assert group.abelian == same(group, group.compose(a, b), group.compose(b, a))
    assert group.periods is None or group.abelian


def test_cycles_and_periods():
    facts = {str(g): (g.cycle, g.periods, g.abelian) for g in FINITE + CONTINUOUS}
    assert facts["Z10"] == (10, (10,), True)
    assert facts["SO2"] == (None, (360,), True)
    assert facts["Z10xZ26"] == (None, (10, 26), True)
    assert facts["Z5xSO2"] == (None, (5, 360), True)
    assert facts["D2"] == (None, None, True)
    assert facts["D4"] == (None, None, False)
    assert facts["SO3"] == (None, None, False)


@checked
@given(st.sampled_from([g for g in FINITE + CONTINUOUS if g.periods]), seeds)
def test_the_canonical_form_is_the_same_element_and_closest_to_zero(group, seed):
    a, b, _ = three(group, seed)
    half = torch.tensor(group.periods if group.shape else group.periods[0]) / 2
    far = a + 2 * b * torch.tensor(group.periods if group.shape else group.periods[0])
    if group.order is None:
        far = a - 2 * 2 * half  # twice around, where float32 is still exact enough
    near = group.canonical(far)
    assert near.dtype == group.dtype
    assert (near.abs() <= half + 1e-3).all()
    assert same(group, near, a)
    assert torch.equal(group.canonical(near), near)


def test_canonical_forms_by_hand():
    assert Cyclic(10).canonical(torch.tensor([9, 5, -5, 14, 16])).tolist() == [-1, 5, 5, 4, -4]
    assert SO2().canonical(torch.tensor([350.0, 180, -190])).tolist() == [-10, 180, 170]
    assert parse("Z3xZ10").canonical(torch.tensor([2, 9])).tolist() == [-1, -1]
    assert Dihedral(4).canonical(torch.tensor([7, 3])).tolist() == [3, 1]


def test_generators_come_without_those_that_undo_an_earlier_one():
    one_way = {str(g): g.one_way_generators() for g in FINITE + CONTINUOUS}
    assert one_way["Z2"] == one_way["Z10"] == [1]
    assert one_way["D4"] == one_way["Z3xZ4"] == [(1, 0), (0, 1)]
    assert one_way["SO2"] == [1.0]
    assert [SO3().write(k) for k in one_way["SO3"]] == ["x1", "y1", "z1"]


@pytest.mark.parametrize("group", FINITE, ids=str)
def test_a_residue_is_one_index_per_element(group):
    assert sorted(group.residue(group.elements).tolist()) == list(range(group.residues))
    assert group.residues == group.order


def test_a_cycle_has_a_bucket_per_sign_and_a_residue_per_element():
    group, k = Cyclic(10), torch.tensor([9, -1])
    assert group.bucket(k).tolist() == [18, 8]
    assert group.residue(k).tolist() == [9, 9]
    assert (group.buckets, group.residues) == (19, 10)
    turns = parse("Z5xSO2")
    assert turns.buckets == 5 * 3600
    assert turns.bucket(torch.tensor([[-1.0, 0.14], [1, -0.1]])).tolist() == [4 * 3600 + 1, 3600 + 3599]


def test_simple_irreps_of_a_product_turn_under_one_factor():
    assert [i.name for i in parse("Z3xZ4").simple_irreps()] == ["0:0", "0:1", "0:2", "1:0"]
    assert Dihedral(4).simple_irreps() != ()
    assert [i.name for i in Cyclic(5).simple_irreps()] == ["0", "1", "2"]


@pytest.mark.parametrize("group", FINITE + CONTINUOUS, ids=str)
def test_irreps_survive_pickling_and_copying(group):
    a, _, _ = three(group, seed=0)
    for irrep in group.irreps(2):
        for twin in (pickle.loads(pickle.dumps(irrep)), copy.deepcopy(irrep)):
            assert (twin.name, twin.dim, twin.commutant, twin.frequency) == (
                irrep.name, irrep.dim, irrep.commutant, irrep.frequency,
            )  # fmt: skip
            assert torch.equal(twin.matrix(a), irrep.matrix(a))


@pytest.mark.parametrize("group", [g for g in FINITE + CONTINUOUS if g.shape and g.periods], ids=str)
def test_of_a_frequency_and_its_negative_the_positive_one_is_listed(group):
    listed = {i.frequency for i in group.irreps(3)}
    for frequency in listed:
        signed = [f for f, p in zip(frequency, group.periods, strict=True) if group.order is None or 2 * f % p]
        assert all(f > 0 for f in [f for f in signed if f][:1])


@checked
@given(groups, seeds)
def test_irreps_are_orthogonal_and_multiply_as_elements_do(group, seed):
    a, b, _ = three(group, seed)
    ab = group.compose(a, b)
    for irrep in group.irreps():
        one, two = irrep.matrix(a), irrep.matrix(b)
        assert one.shape == (6, irrep.dim, irrep.dim)
        torch.testing.assert_close(one @ two, irrep.matrix(ab), atol=2e-4, rtol=0)
        # Wigner's matrices come from Euler angles in float32: of 40,000 turns the worst is off by 3e-5
        torch.testing.assert_close(one @ one.mT, torch.eye(irrep.dim).expand(6, -1, -1), atol=1e-4, rtol=0)


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
        (lambda: Dihedral(4).check(("r", "q"), "--train"), "--train: q is not an action of D4 r,r-1,s"),
        (lambda: Product((Cyclic(9), Cyclic(9))).check((1,), "--t"), "1 is not an action of Z9xZ9 1:0,0:1"),
        (lambda: Dihedral(4).check(("r", "r5"), "--train-actions"), "names an action twice"),
        (lambda: SO3().check(("w5",), "--train-actions"), "w5 is not an action of SO3"),
    ],
)  # fmt: skip
def test_what_is_no_group_or_element_is_refused(call, message):
    with pytest.raises(RequestError) as caught:
        call()
    assert says(str(caught.value), message), caught.value


@pytest.mark.parametrize("group", FINITE + CONTINUOUS, ids=str)
def test_every_element_is_read_back_as_it_is_written(group: Group):
    """Not only the generators: what is measured are elements of all kinds."""
    elements = group.sample(50, torch.Generator().manual_seed(0))
    again = group.tensor([group.parse(group.write(group.plain(k))) for k in elements])
    assert float(group.distance(again, elements).max()) < 1e-2


@pytest.mark.parametrize("word", ["1/0/0", "2/0/0/0", "0/0/0/0", "nan/0/0/1", "1/0/0/0/0", "1/0/0/x", "x", "w15"])
def test_what_is_no_turn_of_space_is_refused(word):
    with pytest.raises(RequestError, match="action of SO3"):
        SO3().check([word], "--action")
