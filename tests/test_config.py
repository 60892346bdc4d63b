"""Config: every bad value is refused by name, every good one survives the trip to JSON, and the hash names it."""

from __future__ import annotations

import json
import math
import os
import re
import subprocess
import sys

import pytest
from helpers import checked, says
from hypothesis import assume, given
from hypothesis import strategies as st

from brojepa.config import FIELDS, TYPES, Config, flag, options, parse
from brojepa.errors import RequestError

COUNTS = ("latent", "epochs", "batch_size", "validation")
WEIGHTS = ("invariance", "variance", "covariance", "consistency", "weight_decay")
RATES = ("lr", "angle_lr", "probe_lr")


def refused(message: str, **values) -> None:
    with pytest.raises(RequestError) as error:
        Config(**values)
    assert re.search(message, str(error.value)), str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", [name for name in FIELDS if options(name)])
def test_a_choice_outside_its_list_is_refused_with_the_list_or_the_nearest(name):
    allowed = [str(o) for o in options(name)]
    refused(
        rf"unknown value for {flag(name)} 'qqqq': choose from {', '.join(map(re.escape, allowed))}", **{name: "qqqq"}
    )
    near = allowed[0] + "x"
    if len(near) > 3:
        refused(rf"{flag(name)} '{near}': did you mean .*{re.escape(allowed[0])}", **{name: near})
    for wrong in (None, True, 7, ["mlp"]):
        refused(rf"{flag(name)}", **{name: wrong})
    for o in options(name):
        if not (name == "target" and o == "relaxed"):
            assert getattr(Config(**{name: o}), name) == o


@pytest.mark.parametrize(("name", "value", "message"), [
    *((name, 0, f"{flag(name)} must be at least [12], got 0") for name in COUNTS),
    *((name, -5, f"{flag(name)} must be at least [12], got -5") for name in COUNTS),
    ("batch_size", 1, "--batch-size must be at least 2, got 1"),  # one row has no variance
    ("latent", 1, "--latent must be at least 2, got 1"),
    *((name, -0.5, f"{flag(name)} must be at least 0, got -0.5") for name in WEIGHTS),
    *((name, -1, f"{flag(name)} must be at least 0, got -1") for name in ("relax_steps", "shift")),
    *((name, 0.0, f"{flag(name)} must be above 0, got 0.0") for name in RATES),
    *((name, -1e-3, f"{flag(name)} must be above 0, got -0.001") for name in RATES),
    ("ema_decay", 1.0, r"--ema-decay must be in \[0, 1\), got 1.0"),
    ("warp", -0.1, r"--warp must be in \[0, 0.5\], got -0.1"),
    ("warp", 0.6, r"--warp must be in \[0, 0.5\], got 0.6"),
    ("width", 2, "--width 2 is for --encoder cnn, got --encoder mlp"),
    ("shrink", 0, "--shrink must be at least 1, got 0"),
    ("shrink", 5000, "--shrink must be at most 4,096, got 5000"),
    ("shrink", 2, "--shrink 2 is for --encoder cnn, got --encoder mlp: use --size"),
    ("ema_decay", -0.1, r"--ema-decay must be in \[0, 1\), got -0.1"),
    ("train_actions", (), "--train-actions is empty"),
    ("train_actions", None, "--train-actions: expected a list of actions, got None"),
    ("train_actions", (1, 2.5), "--train-actions: expected a list of actions"),
    ("test_actions", "2,3", "--test-actions: expected a list of actions, got '2,3'"),
    ("composed_actions", (True,), "--composed-actions: expected a list of actions"),
    ("latent", 63, "--latent 63 is odd: mfr-fixed turns pairs of dimensions, use 64"),
    ("epochs", 2.0, "--epochs: expected int, got 2.0"),
    ("epochs", True, "--epochs: expected int, got True"),
    ("lr", "fast", "--lr: expected float, got 'fast'"),
    ("world", 3, "--world: expected str, got 3"),
    ("every_action", 1, "--every-action: expected bool, got 1"),
])  # fmt: skip
def test_a_bad_value_is_refused_with_its_flag_what_was_given_and_what_is_allowed(name, value, message):
    refused(message, **{name: value})


FLOATS = [name for name in FIELDS if TYPES[name] is float]


@pytest.mark.parametrize("value", [math.nan, math.inf])
@pytest.mark.parametrize("name", FLOATS)
def test_a_number_that_is_not_finite_is_refused(name, value):
    """No training can use one, and config.json cannot hold one."""
    refused(f"{flag(name)}.*{value}", **{name: value})


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"train_actions": (1, 2), "test_actions": (2, 3)}, r"actions \+2 are in --train-actions and --test-actions"),
        ({"target": "relaxed", "action": "additive"}, "--target relaxed needs a rotation, got --action additive"),
        ({"method": "supervised", "consistency": 1.0}, "--consistency needs --method jepa"),
        ({"latent": 7, "action": "sfr-learned"}, "--latent 7 is odd"),
    ],
)
def test_values_that_do_not_go_together_are_refused(values, message):
    refused(message, **values)


def test_an_odd_latent_is_fine_where_nothing_rotates():
    assert Config(latent=7, action="additive").latent == 7


def test_an_unknown_name_is_refused_with_the_nearest():
    with pytest.raises(RequestError, match=r"unknown config value 'epoch': did you mean epochs"):
        Config().replace(epoch=3)
    with pytest.raises(RequestError, match="unknown config value 'learning_rat'"):
        Config.from_dict({"learning_rat": 1})


def test_a_config_cannot_be_changed_in_place():
    with pytest.raises(AttributeError):
        Config().epochs = 3


def test_integers_become_floats_and_lists_tuples():
    config = Config(lr=1, train_actions=[-1, 1])
    assert config == Config(lr=1.0, train_actions=(-1, 1))
    assert type(config.lr) is float
    assert config.hash == Config(lr=1.0).hash
    assert hash(config) == hash(Config(lr=1.0)), "usable as a key"


def anything(name: str) -> st.SearchStrategy:
    """Values of a knob that are good by themselves."""
    if options(name):
        return st.sampled_from(options(name))
    if name == "train_actions":
        return st.lists(st.integers(-9, 9), min_size=1, max_size=3, unique=True).map(tuple)
    if name in ("test_actions", "composed_actions"):
        return st.none() | st.lists(st.integers(-9, 9), max_size=3, unique=True).map(tuple)
    if name == "angle_start":
        return st.sampled_from(["random", "spectral", "0.628"])
    if name == "ema_decay":
        return st.floats(0, 1, exclude_max=True)
    kinds = {
        int: st.integers(1, 500).map(lambda i: 2 * i),
        float: st.floats(1e-6, 1e6),
        bool: st.booleans(),
        str: st.sampled_from(["mnist", "emnist", "a dir/ü.npz"]),
    }
    return kinds[TYPES[name]]


@st.composite
def configs(draw) -> Config:
    names = draw(st.lists(st.sampled_from(list(FIELDS)), max_size=6, unique=True))
    values = {name: draw(anything(name)) for name in names}
    try:
        return Config(**values)
    except RequestError:
        assume(False)
        raise


@checked
@given(configs(), configs())
def test_a_config_survives_json_and_its_hash_tells_it_from_others(one, two):
    again = Config.from_dict(json.loads(json.dumps(one.to_dict())))
    assert again == one
    assert again.hash == one.hash
    assert re.fullmatch("[0-9a-f]{8}", one.hash)
    assert (one.hash == two.hash) == (one == two)


@pytest.mark.parametrize("name", FIELDS)
def test_every_knob_counts_in_the_hash(name):
    start = Config(action="additive", method="jepa", encoder="cnn")
    if options(name):
        other = next(o for o in options(name) if o != getattr(start, name) and o != "relaxed")
    elif "actions" in name:
        other = (3,)
    elif name == "irreps":
        start, other = Config(), "32x1"
    elif name in ("angle_start", "size"):
        other = "0.628" if name == "angle_start" else "28x32"
    else:
        other = {int: 62, float: 0.5, bool: True, str: "emnist"}[TYPES[name]]
    assert start.replace(**{name: other}).hash != start.hash


def test_the_hash_is_the_same_in_another_process_and_needs_no_torch():
    code = (
        "import sys; from brojepa.config import Config\n"
        "print(Config().hash, Config(train_actions=(-2, 2), lr=3).hash, 'torch' in sys.modules)"
    )
    for seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        out = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
        assert out.stdout.split() == [Config().hash, Config(train_actions=(-2, 2), lr=3).hash, "False"]


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("train_actions", "-1,1", (-1, 1)),
        ("train_actions", " 2, -3,", (2, -3)),
        ("test_actions", "", ()),
        ("epochs", "7", 7),
        ("lr", "1e-3", 1e-3),
        ("lr", "1", 1.0),
        ("encoder", "cnn", "cnn"),
        ("lowest_frequency", "1", 1),
    ],
)
def test_text_becomes_the_value_of_a_knob(name, text, value):
    assert parse(name, text) == value
    assert getattr(Config().replace(**{name: parse(name, text)}), name) == value


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("epochs", "2.5", "--epochs '2.5' int"),
        ("lr", "fast", "--lr 'fast' float"),
        ("lowest_frequency", "2", "--lowest-frequency '2' 0 1"),
    ],
)
def test_text_that_is_no_value_is_refused(name, text, message):
    with pytest.raises(RequestError) as caught:
        Config().replace(**{name: parse(name, text)})
    assert says(str(caught.value), message), caught.value
