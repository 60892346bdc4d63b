"""The recipe for own images: what it chooses for which facts, and that a user's word counts."""

from __future__ import annotations

import itertools
import math

import pytest

from brojepa.config import Config
from brojepa.errors import RequestError
from brojepa.presets import AUTO, preset
from brojepa.worlds import view_recipe
from brojepa.worlds.recipe import EPOCHS, NARROW, SIDE, Facts, augmentation, recipe, shrinking

FEW = Facts(1437, 10, 130, 150, (1, 8, 8), shift=1, warp=0.1)
MANY = Facts(60_000, 10, 6000, 6000, (1, 28, 28), shift=1)


def steps(facts: Facts, config: Config) -> int:
    held = max(facts.states, min(config.validation, facts.images // 5))
    count = (facts.images - held) * config.repeat
    return config.epochs * (count // min(config.batch_size, count))


SIZES = itertools.product((20, 200, 1437, 9999, 10_000, 60_000, 500_000), (2, 3, 10, 26, 100, 1000))


@pytest.mark.parametrize(("images", "states"), [(i, n) for i, n in SIZES if i >= 4 * n])
def test_every_size_of_world_has_enough_steps_in_a_table_that_can_be_read(images, states):
    facts = Facts(images, states, images // states, images // states, (1, 28, 28))
    config, why = recipe(facts)
    least = 1500 + 20 * states
    assert steps(facts, config) >= 0.9 * least
    assert steps(facts, config) <= 2 * least or config.epochs == EPOCHS, "no more than is asked for"
    assert EPOCHS <= config.epochs <= 30
    assert config.batch_size <= max(64, images // 40)
    assert f"--epochs {config.epochs}" in why
    assert "\n" not in why


def test_targets_are_relaxed_until_all_states_are_in_line():
    """The slowest mode of a step is multiplied by cos^2(pi / n): what is left of it after all steps is little."""
    for n in (2, 3, 5, 10, 26, 100, 360):
        config, _ = recipe(Facts(100 * n, n, 100, 100, (1, 28, 28)))
        assert config.target == "relaxed"
        assert config.action == "mfr-fixed"
        assert abs(math.cos(math.pi / n)) ** (2 * config.relax_steps) < 0.03


def test_states_without_a_cycle_have_plain_means():
    config, why = recipe(Facts(60_000, 100, 600, 600, (1, 28, 56), cycle=False))
    assert config.target == "mean"
    assert "--target mean" in why
    assert "relax-steps" not in why


def test_a_given_knob_changes_itself_and_nothing_else():
    plain, _ = recipe(FEW)
    for knob, value in {"batch_size": 16, "shift": 0, "lr": 1e-3, "latent": 32, "encoder": "mlp"}.items():
        config, why = recipe(FEW, {knob: value})
        assert config == plain.replace(**{knob: value}) != plain
        assert f"--{knob.replace('_', '-')} " not in why, "what the user chose needs no reason"
    assert recipe(FEW, {"epochs": 3})[0] == plain.replace(epochs=3, repeat=1), "passes over the images, as ever"
    with pytest.raises(RequestError, match="epochs"):
        recipe(FEW, {"epochs": 0})


def test_an_action_that_is_no_rotation_has_targets_that_go_with_it():
    config, _ = recipe(FEW, {"action": "additive"})
    assert (config.action, config.target) == ("additive", "mean")


def test_few_images_are_augmented_more_and_tiny_ones_not_moved():
    assert augmentation(1000, (1, 28, 28)) == (2, 0.1)
    assert augmentation(60_000, (1, 28, 28)) == (1, 0.0)
    assert augmentation(1000, (1, 8, 8))[0] == 1
    assert augmentation(1000, (1, 4, 40)) == (0, 0.0)
    assert augmentation(1000, (1, 1, 64)) == (0, 0.0)
    assert augmentation(1000, (3, 64, 64))[0] == 4


def test_what_was_given_up_and_why_is_said():
    _, why = recipe(Facts(1437, 10, 130, 150, (1, 28, 28), shift=0, warp=0.1))
    assert "no more shift" in why
    assert "--even-states" in recipe(Facts(1000, 4, 50, 500, (1, 28, 28)))[1]
    assert not recipe(FEW)[0].even_states
    assert "--latent 100" in recipe(Facts(60_000, 100, 600, 600, (1, 28, 56)))[1]


def test_the_recipe_is_the_preset_where_nothing_is_special():
    changed = {k for k, v in recipe(MANY)[0].to_dict().items() if v != preset(AUTO).to_dict()[k]}
    assert changed <= {"epochs", "relax_steps"}


def test_images_one_pixel_high_have_an_encoder_that_can_read_them():
    config, why = recipe(Facts(640, 8, 80, 80, (1, 1, 64)))
    assert config.encoder == "mlp"
    assert "--encoder mlp" in why
    assert "1 x 64" in why
    views = view_recipe.Facts(640, 8, (1, 64, 1), "Z12", ("+1", "-1"))
    assert view_recipe.recipe(views, {})[0].encoder == "mlp"
    assert "--encoder mlp" in view_recipe.recipe(views, {})[1]
    assert "--encoder" not in recipe(FEW)[1]


SHAPES = {
    (28, 28): 1, (48, 48): 1, (64, 64): 1, (71, 71): 1, (28, 56): 1, (72, 72): 2, (96, 96): 2, (128, 128): 3,
    (160, 224): 4, (224, 224): 5, (480, 640): 12, (1, 5000): 1, (20, 2000): 1, (64, 2000): 2,
}  # fmt: skip


@pytest.mark.parametrize(("side", "shrink"), SHAPES.items(), ids=str)
def test_large_images_are_shrunk_and_why_is_said(side, shrink):
    labelled, views = Facts(1437, 10, 130, 150, (3, *side)), view_recipe.Facts(1440, 20, (3, *side), "Z72", ("+1",))
    for choose in (lambda given: recipe(labelled, given), lambda given: view_recipe.recipe(views, given)):
        config, why = choose({})
        assert config.shrink == shrink
        assert (f"--shrink {shrink} ({side[0]} x {side[1]} pixels" in why) == (shrink > 1)
        assert choose({"shrink": 2})[0].shrink == 2 if min(side) > 1 else True
        assert "--shrink" not in choose({"shrink": 2 if min(side) > 1 else 1})[1], "what the user chose needs no reason"
        for encoder in ("mlp", "resnet18"):
            config, why = choose({"encoder": encoder})
            assert config.shrink == 1
            assert "--shrink" not in why


@pytest.mark.parametrize("height", range(1, 700, 7))
def test_what_the_cnn_looks_at_is_neither_large_nor_thin(height):
    for width in (height, 2 * height, 5 * height, 900):
        shrink = shrinking((3, height, width))
        thinner = min(height, width) / shrink
        assert shrink == 1 or thinner >= NARROW
        assert height * width / shrink**2 < (1.5 * SIDE) ** 2 or thinner < 2 * NARROW
        assert shrink == 1 or height * width / shrink**2 >= (0.74 * SIDE) ** 2


def test_places_and_batches_of_views_are_those_of_the_shrunk_images():
    def chosen(side: int, **given: object) -> Config:
        return view_recipe.recipe(view_recipe.Facts(1440, 20, (1, side, side), "Z72", ("+1", "-1")), given)[0]

    assert (chosen(64).pool, chosen(64).batch_size) == (8, 128)
    assert (chosen(128).pool, chosen(128).batch_size) == (8, 256)  # 43 x 43
    assert (chosen(128, shrink=1).pool, chosen(128, shrink=1).batch_size) == (8, 128)
    assert (chosen(128, shrink=8).pool, chosen(128, shrink=8).batch_size) == (4, 256)


def test_views_are_told_apart_by_the_places_that_the_cnn_keeps():
    def chosen(height: int, width: int, given: dict[str, object] | None = None) -> tuple[Config, str]:
        return view_recipe.recipe(view_recipe.Facts(1440, 20, (1, height, width), "Z72", ("+1", "-1")), given or {})

    for (height, width), places in {(8, 8): 3, (16, 16): 4, (28, 56): 7, (40, 32): 8, (128, 128): 8}.items():
        config, why = chosen(height, width)
        assert config.pool == places
        assert (f"--pool {places}" in why) == (places > 3)
    config, why = chosen(32, 32, {"pool": 3})
    assert config.pool == 3
    assert "--pool" not in why
    assert "--pool" not in chosen(32, 32, {"encoder": "mlp"})[1]
    frames = view_recipe.Facts(5000, 100, (1, 28, 56), "Z10xZ10", ("recorded",))
    assert view_recipe.recipe(frames, {})[0].pool == 3, "test episodes show other images than those trained on"


@pytest.mark.parametrize("images", [24, 1440, 7200, 100_000])
@pytest.mark.parametrize("side", [16, 32, 128])
def test_views_of_every_size_have_enough_steps(images, side):
    facts = view_recipe.Facts(images, 20, (1, side, side), "Z72", ("+1", "-1"))
    config, why = view_recipe.recipe(facts, {})
    count = max(10_000, images)
    done = config.epochs * (count // config.batch_size)
    assert done >= 0.95 * view_recipe.STEPS
    assert done <= 1.3 * view_recipe.STEPS or config.epochs == view_recipe.EPOCHS
    assert f"{view_recipe.STEPS} steps" in why
