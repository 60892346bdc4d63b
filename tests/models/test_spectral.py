"""Where learned angles start: read off pairs of images, on features whose turns are known, on digits and through a run;
or at a number."""

from __future__ import annotations

import json
import math

import pytest
import torch
from helpers import checked, says
from hypothesis import given
from hypothesis import strategies as st

from brojepa.config import Config
from brojepa.errors import RequestError, RunError
from brojepa.groups import Cyclic
from brojepa.models import Task, spectral
from brojepa.models.build import build
from brojepa.worlds import LabelledTransitions, open_world
from brojepa.worlds.world import Split


def circle(n: int, harmonics: list[int], count: int = 4000, noise: float = 0.3, seed: int = 0):
    """Features of count images of n states: a plane that turns by each harmonic, and noise in all dimensions."""
    g = torch.Generator().manual_seed(seed)
    y = torch.randint(n, (count,), generator=g)

    def of(states):
        angle = 2 * math.pi / n * states[:, None] * torch.tensor(harmonics)
        clean = torch.cat((angle.cos(), angle.sin()), 1)
        return clean + noise * torch.randn(clean.shape, generator=g)

    return of(y), of((y + 1) % n), g


@checked
@given(st.data())
def test_turns_of_known_planes_are_found(data):
    n = data.draw(st.integers(3, 16))
    harmonics = data.draw(st.lists(st.integers(1, (n - 1) // 2), min_size=1, max_size=4, unique=True))
    f, g, generator = circle(n, harmonics)
    found = spectral.turns(f, g, generator)
    wanted = torch.tensor(sorted(harmonics)) * 2 * math.pi / n
    assert found.shape == wanted.shape
    assert torch.allclose(found, wanted, atol=0.05)


def test_eigenvalues_are_those_of_an_independent_least_squares():
    g = torch.Generator().manual_seed(0)
    f, h = (torch.randn(500, 6, generator=g, dtype=torch.float64) for _ in range(2))
    grown = torch.cat((f, (spectral.RIDGE * f.square().mean() * 500) ** 0.5 * torch.eye(6, dtype=torch.float64)))
    solved = torch.linalg.lstsq(grown, torch.cat((h, torch.zeros(6, 6, dtype=torch.float64)))).solution
    wanted = torch.linalg.eigvals(solved)
    found = spectral.eigenvalues(f, h)
    assert torch.allclose(found.abs(), wanted.abs().sort(descending=True).values)
    assert torch.allclose(found.sum(), wanted.sum())


def test_nothing_is_found_in_pairs_that_have_nothing_to_do_with_each_other():
    g = torch.Generator().manual_seed(0)
    f, h = (torch.randn(2000, 20, generator=g) for _ in range(2))
    assert len(spectral.turns(f, h, g)) == 0


@pytest.mark.parametrize("n", [5, 7, 10])
@pytest.mark.parametrize("seed", [0, 1])
def test_digits_show_every_harmonic_before_any_training(digits, n, seed):
    """600 images; the lowest turn comes first. Never told n: it only sees pairs."""
    train = open_world(str(digits)).train
    keep = train.states < n
    transitions = LabelledTransitions(Split(train.images[keep], train.states[keep]), Cyclic(n), (-1, 1))
    angles = spectral.starting_angles(transitions, 8, torch.Generator().manual_seed(seed)) * n / (2 * math.pi)
    harmonics = n // 2
    assert torch.allclose(angles, 1.0 + torch.arange(8) % harmonics, atol=0.2)


def test_an_action_of_two_is_halved(digits):
    train = open_world(str(digits)).train
    transitions = LabelledTransitions(train, Cyclic(10), (-2, 2))
    (angle,) = spectral.starting_angles(transitions, 1, torch.Generator().manual_seed(0))
    assert float(angle) == pytest.approx(2 * math.pi / 10, abs=0.1)


def test_images_that_say_nothing_are_refused():
    g = torch.Generator().manual_seed(0)
    images = torch.full((400, 1, 8, 8), 7, dtype=torch.uint8)
    transitions = LabelledTransitions(Split(images, torch.arange(400) % 5), Cyclic(5), (1,))
    with pytest.raises(RunError, match="--angle-start random"):
        spectral.starting_angles(transitions, 1, g)


def test_a_run_starts_there(cli, digits, tmp_path):
    words = ["--world", digits, "--epochs", 1, "--latent", 8, "--quiet"]
    assert cli("train", "mnist/bro-mlp-sfr-learned", *words, "--out", tmp_path).code == 0
    (file,) = tmp_path.rglob("metrics.jsonl")
    (angle,) = json.loads(file.read_text().splitlines()[0])["angles"]
    assert angle == pytest.approx(2 * math.pi / 10, abs=0.1)
    start = {"--angle-start": "random"}
    assert cli("train", "mnist/bro-mlp-sfr-learned", *words, *sum(start.items(), ()), "--out", tmp_path).code == 0
    assert len(list(tmp_path.rglob("result.json"))) == 2


@pytest.mark.parametrize("action", ["sfr-learned", "mfr-learned"])
def test_learned_angles_start_at_a_number(action):
    config = Config(action=action, latent=8, angle_start="0.628")
    model = build(config, Task(10, (1, 28, 28), (0.0,), (1.0,)), torch.Generator().manual_seed(0))
    assert model.action.learned_angles
    assert model.action.angles.tolist() == pytest.approx([0.628] * 4)


@pytest.mark.parametrize("start", ["sideways", "nan", "inf", ""])
def test_an_angle_start_that_is_no_start(cli, start):
    answer = cli("train", "--angle-start", start)
    assert (answer.code, answer.err.count("\n")) == (2, 1)
    assert says(answer.err, f"--angle-start {start!r} random spectral radians")


def test_actions_of_0_are_passed_over_and_too_few_images_refused():
    split = Split(torch.randint(256, (12, 1, 8, 8), dtype=torch.uint8), torch.arange(12) % 3)
    with pytest.raises(RequestError, match="images"):
        spectral.starting_angles(LabelledTransitions(split, Cyclic(3), (1,)), 4, torch.Generator())
    with pytest.raises(RequestError, match="0"):
        spectral.starting_angles(LabelledTransitions(split, Cyclic(3), (0,)), 4, torch.Generator())
    test = open_world("mnist").test
    some = Split(test.images[:2000], test.states[:2000])
    with_0, without = (
        spectral.starting_angles(LabelledTransitions(some, Cyclic(10), actions), 4, torch.Generator().manual_seed(0))
        for actions in ((0, 1), (1,))
    )
    assert torch.equal(with_0, without)
