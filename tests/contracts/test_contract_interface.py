"""What a user writes stays: public names, commands and flags, knobs and their values, presets, hashes of configs.

Names, flags, values and presets may be added; none may go or mean something else.
"""

from __future__ import annotations

import inspect
import json
from typing import Any

import observe
import pytest

import brojepa
from brojepa import errors

RECORDED = json.loads(observe.RECORDED.read_text())
GONE = {"train": "reporter keyword_only None"}
"""Parameters that others have replaced: `callbacks` takes any number of them."""


def test_public_names_stay():
    assert set(RECORDED["public"]) <= set(brojepa.__all__)
    for name in RECORDED["public"]:
        assert getattr(brojepa, name) is not None


@pytest.mark.parametrize("name", observe.CALLED)
def test_public_functions_are_called_as_before(name):
    """Every old parameter with its default, those given by place at their place; new ones have a default."""
    old, new = RECORDED["signatures"][name], observe.signatures()[name]
    places = [word for word in old if "positional" in word]
    assert [word for word in new if "positional" in word][: len(places)] == places
    assert set(old) - {GONE.get(name)} <= set(new)
    parameters = inspect.signature(getattr(brojepa, name)).parameters.values()
    known = {word.split()[0] for word in old}
    assert all(p.default is not p.empty or p.name in known or p.kind is p.VAR_KEYWORD for p in parameters)


@pytest.mark.parametrize("command", observe.COMMANDS)
def test_flags_stay(command):
    old, new = RECORDED["commands"][command], json.loads(json.dumps(observe.flags(command)))
    for flag in old["flags"]:
        dest = observe.RENAMED.get(flag["dest"], flag["dest"])
        same = [now for now in new["flags"] if now["dest"] == dest and _holds(flag, now)]
        assert same, f"brojepa {command}: {flag['options'] or flag['dest']} has changed"
    places, now = ([flag["dest"] for flag in each["flags"] if not flag["options"]] for each in (old, new))
    assert now[: len(places)] == places
    for flag in new["flags"]:
        assert not flag["required"] or flag["dest"] in {each["dest"] for each in old["flags"]}, flag
    for apart in old["exclusive"]:
        assert any(set(apart) <= set(group) for group in new["exclusive"]), apart


def _holds(old: dict[str, Any], new: dict[str, Any]) -> bool:
    if not set(old["options"]) <= set(new["options"]):
        return False
    choices = new["choices"] is None or (old["choices"] is not None and set(old["choices"]) <= set(new["choices"]))
    rest = ["kind", "default", "const", "type"]
    if not old["required"] or new["required"]:  # what had to be given may be left out, and means the same where given
        rest += ["nargs", "required"]
    return choices and all(old[name] == new[name] for name in rest)


@pytest.mark.parametrize("name", RECORDED["fields"])
def test_knobs_stay(name):
    old, new = RECORDED["fields"][name], observe.fields()[observe.RENAMED.get(name, name)]
    assert (old["default"], old["type"]) == (new["default"], new["type"])
    if old["values"] is None:
        assert new["values"] is None
    else:
        assert set(old["values"]) <= set(new["values"])


def test_presets_and_their_hashes_stay():
    now = observe.presets()
    assert {name: now.get(name) for name in RECORDED["presets"]} == RECORDED["presets"]


def test_committed_runs_are_named_by_their_configs():
    """The hash of every committed config is the one its run wrote down, and names the directory it would go to."""
    runs = observe.committed()
    assert len(runs) >= RECORDED["committed_runs"]
    for run in runs:
        header, config = run.header, run.config
        assert config.hash == run.result["config_hash"], run
        assert config.replace(**header["config"]) == config, run
        at = brojepa.Run.locate("results", config, header["preset"], header["seed"]).path
        assert at.parts[2:] == (at.parts[2], f"seed-{header['seed']}")
        assert at.parts[2] in (config.hash, str(header["preset"]).partition("/")[2]), run


def test_errors_keep_their_exit_codes():
    codes = {"BrojepaError": 1, "RunError": 1, "RequestError": 2, "MissingData": 2, "Interrupted": 130}
    assert {name: getattr(errors, name).exit_code for name in codes} == codes
    assert all(issubclass(getattr(errors, name), brojepa.BrojepaError) for name in codes)
