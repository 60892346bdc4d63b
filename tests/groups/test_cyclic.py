"""The cycle Z_n: the group's axioms, and how an action is reached by repeating another."""

from __future__ import annotations

import pytest
import torch
from helpers import checked
from hypothesis import assume, example, given
from hypothesis import strategies as st

from brojepa.errors import RequestError
from brojepa.groups import Cyclic
from brojepa.text import signed

sizes = st.integers(2, 27)


@st.composite
def cycles(draw, elements: int):
    n = draw(sizes)
    return Cyclic(n), *(draw(st.integers(1 - n, n - 1)) for _ in range(elements))


@checked
@given(cycles(3))
@example((Cyclic(2), 1, 1, -1))
@example((Cyclic(9), 8, 8, -8))
def test_the_axioms_of_an_abelian_group_hold(case):
    group, a, b, c = case
    assert group.compose(group.compose(a, b), c) == group.compose(a, group.compose(b, c))
    assert group.compose(a, b) == group.compose(b, a) in range(group.n)
    assert group.compose(a, group.identity) == a % group.n
    assert group.compose(a, group.inverse(a)) == group.identity
    assert group.inverse(group.inverse(a)) == a % group.n


@checked
@given(cycles(2))
def test_acting_on_states_is_a_group_action_by_permutations(case):
    group, a, b = case
    states = torch.arange(group.n)
    after = group.apply(states, a)
    assert sorted(after.tolist()) == states.tolist()
    assert torch.equal(group.apply(after, b), group.apply(states, group.compose(a, b)))
    assert torch.equal(group.apply(after, group.inverse(a)), states)
    assert after.tolist() == [group.apply(y, a) for y in range(group.n)]


def test_only_the_identity_fixes_a_state():
    for n in (2, 5, 10):
        group = Cyclic(n)
        assert all(group.apply(y, k) != y for k in group.actions for y in range(n))


@pytest.mark.parametrize("n", [2, 3, 10])
def test_the_actions_are_all_signed_numbers_but_zero(n):
    assert list(Cyclic(n).actions) == [*range(1 - n, 0), *range(1, n)]


@checked
@given(sizes.flatmap(lambda n: st.tuples(
    st.just(n), st.integers(1 - n, n - 1), st.lists(st.integers(1 - n, n - 1), max_size=4, unique=True)
)))  # fmt: skip
@example((10, 3, [2, 3]))  # 2 never reaches 3, but 3 does
@example((10, 0, [-1, 1]))
@example((10, -7, [1]))
@example((9, 3, [2]))
def test_a_plan_exists_exactly_when_one_primitive_repeated_reaches_the_action(case):
    n, k, primitives = case
    plan = Cyclic(n).rollout(k, primitives)
    reaching = {(p, s) for p in primitives for s in range(1, n + 1) if (p * s - k) % n == 0}
    if plan is None:
        assert not reaching
    else:
        assert plan in reaching
        p, steps = plan
        assert steps == min(s for q, s in reaching if q == p), "no detour around the cycle"
        same = [q for q in primitives if q * k > 0 and q in {r for r, _ in reaching}]
        if same:
            assert p in same
            assert abs(p) == min(map(abs, same)), "the smallest primitive of k's own sign comes first"


@checked
@given(cycles(1))
def test_steps_of_one_reach_every_action_in_as_many_steps_as_its_size(case):
    group, k = case
    assume(k)
    assert group.rollout(k, (-1, 1)) == group.rollout(k, (1, -1)) == ((1, k) if k > 0 else (-1, -k))


@pytest.mark.parametrize(("k", "primitives"), [(3, (2, -4)), (1, (5,)), (4, ()), (1, (0,))])
def test_what_no_primitive_reaches_has_no_plan(k, primitives):
    assert Cyclic(10).rollout(k, primitives) is None


@pytest.mark.parametrize(("k", "text"), [(3, "+3"), (-1, "-1"), (0, "0")])
def test_actions_are_written_with_their_sign(k, text):
    assert signed(k) == text


def test_check_lets_good_actions_pass_as_a_tuple():
    assert Cyclic(10).check([-9, 9, 0], "--train-actions") == (-9, 9, 0)


@pytest.mark.parametrize("k", [10, -10, 25])
def test_check_names_the_flag_the_action_and_the_range_when_it_is_outside(k):
    with pytest.raises(RequestError, match=rf"--train-actions: [+]?{k} .*-9 to \+9"):
        Cyclic(10).check((1, k), "--train-actions")


def test_check_refuses_an_action_named_twice():
    with pytest.raises(RequestError, match=r"--test-actions: \+2,\+3,\+2 .*twice"):
        Cyclic(10).check((2, 3, 2), "--test-actions")


@pytest.mark.parametrize("n", [1, 0, -3])
def test_a_cycle_needs_two_states(n):
    with pytest.raises(RequestError, match=rf"2 states.*{n}"):
        Cyclic(n)
