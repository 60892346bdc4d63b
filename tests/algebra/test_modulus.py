"""The cycle that angles speak of: found where there is one, not where there is none, and never a wrong one."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import permutations

import numpy as np
import pytest
from helpers import checked
from hypothesis import given
from hypothesis import strategies as st

from brojepa.algebra.modulus import evidence, explained, indistinguishable, infer_modulus, nearest_harmonics
from brojepa.algebra.spacing import largest_slope
from brojepa.groups import Cyclic
from brojepa.training.display import angles_text


@st.composite
def harmonics(draw: st.DrawFn) -> tuple[int, list[int]]:
    n = draw(st.integers(1, 30))
    return n, draw(st.lists(st.integers(0, n - 1), min_size=1, max_size=32))


def angles_of(n: int, multiples: list[int] | np.ndarray, noise: float, rng: np.random.Generator) -> np.ndarray:
    """Harmonics as training leaves them: of either sign, whole turns away, with errors."""
    count = len(multiples)
    signs, turns = rng.choice([-1, 1], count), rng.integers(-2, 3, count)
    return signs * np.array(multiples) * 2 * np.pi / n + turns * 2 * np.pi + rng.normal(0, noise, count)


@checked
@given(harmonics(), st.integers(0, 2**32 - 1))
def test_the_modulus_is_read_off_noisy_harmonics(given, seed):
    """The smallest n of which all angles but an eighth are harmonics, or nothing; how often not nothing, is below."""
    n, multiples = given
    found, confidence = infer_modulus(angles_of(n, multiples, 0.001, np.random.default_rng(seed)))
    smallest = n // math.gcd(n, *multiples)
    beyond = {d: sum(m * d % n > 0 for m in multiples) for d in range(1, smallest) if smallest % d == 0}
    allowed = {smallest} | {d for d, left in beyond.items() if left <= len(multiples) / 8}
    assert found is None or found in allowed
    assert 0 <= confidence <= 1


@pytest.mark.parametrize("n", [7, 9, 10, 13, 26])
@pytest.mark.parametrize(("noise", "strays"), [(0.001, 0), (0.001, 2), (0.005, 1), (0.01, 0), (0.01, 2)])
def test_errors_and_strays_of_real_runs_do_not_mislead(n, noise, strays):
    """32 planes, harmonics repeated at random. In the worst case, three frequencies of Z_7 and errors of 0.01, it may
    be left open now and then, and so may one of ten where multiples are regular; never seen is a wrong one."""
    rng = np.random.default_rng(n)
    found = []
    for _ in range(10):
        angles = angles_of(n, rng.integers(1, n, 32), noise, rng)
        angles[:strays] = rng.uniform(0, 2 * np.pi, strays)
        found.append(infer_modulus(angles)[0])
    assert set(found) <= {n, None}
    assert found.count(n) >= (8 if noise == 0.01 else 10 if noise == 0.001 else 9)


@checked
@given(st.integers(0, 2**32 - 1), st.integers(1, 40))
def test_no_modulus_is_read_off_random_angles(seed, count):
    assert infer_modulus(np.random.default_rng(seed).uniform(-2 * np.pi, 2 * np.pi, count))[0] is None


def test_planes_that_agree_on_any_angle_are_no_cycle():
    """Training may pull all planes to one angle, or two; that alone says nothing."""
    rng = np.random.default_rng(0)
    assert infer_modulus(2.1 + rng.normal(0, 0.001, 32))[0] is None
    assert infer_modulus(np.repeat([2.1, 0.77], 16) + rng.normal(0, 0.001, 32))[0] is None


def test_the_modulus_does_not_depend_on_how_often_an_angle_is_there():
    angles = 2 * np.pi / 10 * np.array([1, 3, 4, 5]) + 0.001
    assert infer_modulus(angles)[0] == infer_modulus(np.tile(angles, 8))[0] == 10
    assert infer_modulus(np.full(32, 2.1))[0] is None  # one angle, however often, says little


def test_a_stray_angle_is_passed_over_and_many_are_not():
    angles = [*(2 * np.pi / 10 * np.arange(10)), 1.0]
    assert infer_modulus(angles)[0] == 10
    assert infer_modulus([*angles[:-1], 2 * np.pi / 50 + 0.001])[0] == 10  # near a fiftieth: not 50
    assert infer_modulus([*angles, 1.7, 2.3, 2.9, 0.4])[0] is None


def test_evidence_of_no_angles():
    assert (evidence([]) == 0).all()
    assert infer_modulus([])[0] is None


Draw = Callable[[np.random.Generator], np.ndarray]


def crowded(rng: np.random.Generator) -> np.ndarray:
    """In an interval of any width, anywhere."""
    start, width = rng.uniform(-np.pi, np.pi), 10 ** rng.uniform(-3, 0.5)
    return rng.uniform(start, start + width, 32)


def spaced(
    count: int, largest: float = np.pi, anywhere: bool = False, flipped: bool = False, noise: float = 0.0
) -> Draw:
    """Multiples of any angle, in float32; from any start; of any signs; with errors."""

    def draw(rng: np.random.Generator) -> np.ndarray:
        angles = np.arange(1, count + 1) * rng.uniform(0, largest) + anywhere * rng.uniform(0, 2 * np.pi)
        angles = angles * rng.choice([-1, 1], count) if flipped else angles
        angles = angles + rng.normal(0, noise, count)
        return angles.astype(np.float32).astype(float)

    return draw


def clusters(rng: np.random.Generator) -> np.ndarray:
    """One to four places where all angles lie, with errors."""
    places = rng.uniform(0, np.pi, rng.integers(1, 5))
    return rng.choice(places, 32) + rng.normal(0, 0.001, 32)


def unconverged(noise: float, *sizes: int, n: int = 10) -> Draw:
    """26 angles of n states, and clusters of these sizes anywhere."""

    def draw(rng: np.random.Generator) -> np.ndarray:
        away = np.repeat(rng.uniform(0, np.pi, len(sizes)), sizes)
        return np.concatenate([2 * np.pi / n * rng.integers(1, n, 26), away]) + rng.normal(0, noise, 32)

    return draw


FAMILIES: dict[str, tuple[Draw, set[int | None]]] = {
    "between 0 and 1": (lambda rng: rng.uniform(0, 1, 32), {None}),
    "anywhere": (lambda rng: rng.uniform(0, 2 * np.pi, 32), {None}),
    "few anywhere": (lambda rng: rng.uniform(0, 2 * np.pi, rng.integers(2, 9)), {None}),
    "crowded": (crowded, {None}),
    "spaced": (spaced(32), {None}),
    "narrowly spaced": (spaced(32, largest=1), {None}),
    "spaced, flipped": (spaced(32, flipped=True), {None}),
    "spaced from anywhere": (spaced(32, anywhere=True), {None}),
    "few spaced": (spaced(8), {None}),
    "spaced, with errors": (spaced(32, noise=0.001), {None}),
    "spaced and flipped, with errors": (spaced(16, flipped=True, noise=0.001), {None}),
    "few spaced, with errors": (spaced(8, noise=0.001), {None}),
    "few spaced from anywhere, with errors": (spaced(8, anywhere=True, noise=0.001), {None}),
    "five spaced, with errors": (spaced(5, noise=0.001), {None}),
    "clusters": (clusters, {None}),
    "a cluster beside ten states": (unconverged(0.001, 6), {None, 10}),
    "two clusters beside ten states": (unconverged(0.001, 3, 3), {None, 10}),
    "an exact cluster beside ten states": (unconverged(1e-7, 6), {None, 10}),
    "a cluster beside three states": (unconverged(0.001, 6, n=3), {None, 3}),
    "a cluster beside four states": (unconverged(0.001, 6, n=4), {None, 4, 2}),
    "a cluster beside five states": (unconverged(0.001, 6, n=5), {None, 5}),
    "two clusters beside five states": (unconverged(0.001, 3, 3, n=5), {None, 5}),
}


@pytest.mark.parametrize("family", FAMILIES)
def test_at_most_one_confident_answer_in_a_thousand_is_wrong(family):
    draw, right = FAMILIES[family]
    rng = np.random.default_rng(2024)
    found = [infer_modulus(draw(rng)) for _ in range(1000)]
    assert sum(n not in right for n, _ in found) <= 1
    assert all((confidence >= 0.999) == (n is not None) for n, confidence in found)


@pytest.mark.parametrize("planes", [1, 8, 32])
def test_fixed_harmonics_are_recognised_up_to_300(planes):
    """The first multiples of 2 pi / n, in float32: equally spaced, but by n exactly."""
    for n in range(2, 301):
        assert infer_modulus((2 * np.pi / n * np.arange(1, planes + 1)).astype(np.float32))[0] == n


@pytest.mark.parametrize(
    ("least", "most", "planes", "noise", "share"),
    [(7, 60, 32, 0.0015, 0.99), (60, 300, 32, 0.0015, 0.97), (10, 10, 32, 0.005, 0.99), (26, 26, 32, 0.005, 0.98)]
    + [(10, 10, planes, 0.0011, share) for planes, share in [(4, 0.86), (5, 0.93), (6, 0.9), (8, 0.95)]],
)
def test_learned_harmonics_are_recognised(least, most, planes, noise, share):
    """Harmonics drawn at random, with errors of up to the noise. A draw may be of a shorter cycle. Of few planes, some
    draws are neighbours, as 1, 2, 3 and 4: with errors these may be multiples of any angle, and are left open."""
    rng = np.random.default_rng(planes)
    right = 0
    for _ in range(200):
        n = int(rng.integers(least, most + 1))
        multiples = rng.integers(1, n, planes)
        found, _, reason = explained(2 * np.pi / n * multiples + rng.uniform(-noise, noise, planes))
        assert reason != "none", "a good model is never told that it has no cycle"
        smallest = n // math.gcd(n, *multiples.tolist())
        assert found in (smallest, None) or sum(m * found % n > 0 for m in multiples) <= planes / 8
        right += found == smallest
    assert right >= share * 200


def test_the_reason_tells_no_cycle_from_too_little_said():
    rng = np.random.default_rng(0)
    assert explained(rng.uniform(0, 2 * np.pi, 32))[2] == "none"
    assert explained(np.arange(1, 33) * 0.0731 + rng.normal(0, 0.001, 32))[2] == "many"  # 2 pi / 86, or not
    assert explained([2 * np.pi / 10 + 0.001])[2] == "many"
    assert explained([0.0, 0.0])[2] == "many"
    assert explained(2 * np.pi / 10 * np.array([1, 3, 4]))[2] is None


@checked
@given(st.integers(2, 40), st.lists(st.integers(-80, 80), min_size=1, max_size=8))
def test_states_that_look_alike_are_counted(n, multiples):
    """Against the turns themselves: states are alike where every plane is turned as far."""
    angles = 2 * np.pi / n * np.array(multiples)
    turned = np.exp(1j * np.outer(np.arange(n), angles)).round(6) + 0  # + 0: no negative zero
    distinct = len(np.unique(turned, axis=0))
    assert indistinguishable(angles, n) == n // distinct
    found, rest = nearest_harmonics(angles, n)
    assert (found == np.array(multiples) % n).all()
    assert np.allclose(rest, 0, atol=1e-9)


def test_an_angle_between_harmonics_tells_states_apart():
    gap = 2 * np.pi / 10
    assert indistinguishable([8 * gap + 0.01], 10) == 2
    assert indistinguishable([8 * gap + 0.2 * gap], 10) == 1


def test_training_tells_distances_as_shares_of_the_gap():
    """Within 0.02 of a multiple of 2 pi / 300 are all angles; what is near depends on the gap."""
    ten, many = 2 * np.pi / 10, 2 * np.pi / 300
    assert angles_text([ten + 0.0011, 4 * ten], Cyclic(10)) == (
        "2 of 2 angles near a multiple of 2π/10 (largest distance 0.0011, 0.0035 of half the gap); multiples 1, 4"
    )
    assert angles_text([1.5 * many - 1e-6, 4 * many], Cyclic(300)).startswith("1 of 2 angles near a multiple of 2π/300")


def test_neighbouring_multiples_with_errors_are_left_open_and_exact_ones_are_not():
    """1 to 8 times 2 pi / 10 is 1 to 8 times an angle near it as well, unless it is too near for that."""
    first = 2 * np.pi / 10 * np.arange(1, 9)
    rng = np.random.default_rng(0)
    assert explained(first)[0] == 10
    assert {explained(first + rng.normal(0, 0.001, 8))[2] for _ in range(20)} == {"many"}
    apart = 2 * np.pi / 10 * np.array([1, 1, 1, 3, 4, 4, 5, 5])
    assert {infer_modulus(apart + rng.normal(0, 0.001, 8))[0] for _ in range(20)} == {10}
    signs = rng.choice([-1, 1], 8)
    assert explained(signs * rng.permutation(first) + rng.normal(0, 0.001, 8))[0] is None


@checked
@given(st.integers(3, 40), st.integers(2, 6), st.integers(0, 2**32 - 1))
def test_the_order_taken_puts_the_spacing_farthest_away(n, count, seed):
    """Against all orders and signs: no way to number the angles has a larger slope."""
    rng = np.random.default_rng(seed)
    slots = np.arange(1, count + 1) * int(rng.integers(1, n)) % n
    classes = np.minimum(slots, n - slots)
    signs = np.where(slots == classes, 1, -1)
    weights, errors = np.arange(1, count + 1), rng.normal(0, 1, count)
    best = 0.0
    for order in permutations(range(count)):
        if (classes[list(order)] == classes).all():
            products = signs[list(order)] * weights[list(order)] * errors
            free = (classes == 0) | (2 * classes == n)
            most = np.where(free, np.abs(products), products).sum()
            least = np.where(free, -np.abs(products), products).sum()
            best = max(best, most, -least)
    found = largest_slope(signs * weights, classes, errors, classes, n)
    assert found == pytest.approx(best / (weights**2).sum())
