"""Every public name says what it takes and returns, and shows an example that runs. The API pages are made of it.

The examples are doctests, which pytest runs with the rest.
"""

from __future__ import annotations

import inspect
import re
from typing import Any

import pytest

import brojepa

NAMES = [name for name in brojepa.__all__ if name != "PRESETS"]  # a dictionary, described where it is made
ELSEWHERE = {"Config"}  # whose fields have a page of their own
MAIN = (
    "Model", "World", "PoseWorld", "Run", "BlockRotation", "Representation", "LatentAction", "Callback", "Target",
    "Split", "Sampling", "Transitions", "Evaluator", "Task", "EMAEncoder", "Config",
)  # fmt: skip
METHODS = [
    pytest.param(owner, name, id=f"{owner}.{name}")
    for owner in MAIN
    for name, member in vars(getattr(brojepa, owner)).items()
    if not name.startswith("_") and name != "extra_repr"
    if inspect.isfunction(member) or isinstance(member, (classmethod, staticmethod))
]
SECTIONS = ("Args", "Attributes", "Returns", "Raises", "Examples")
ERRORS = {"RequestError", "RunError", "Interrupted"}


def sections(member: Any) -> dict[str, str]:
    """The sections of a docstring by name; the text before them is ""."""
    parts = re.split(rf"^({'|'.join(SECTIONS)}):$", inspect.getdoc(member) or "", flags=re.MULTILINE)
    return {"": parts[0].strip(), **dict(zip(parts[1::2], parts[2::2], strict=True))}


def parameters(member: Any) -> list[str]:
    """What a caller gives, with the stars that a docstring has; nothing where only a base class takes anything."""
    try:
        given = inspect.signature(member).parameters.values()
    except ValueError:
        return []
    stars = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    names = [stars.get(each.kind, "") + each.name for each in given if each.name != "self"]
    return [] if set(names) <= {"*args", "**kwargs"} else names


def check(member: Any, said: dict[str, str], *, returns: bool) -> None:
    assert said[""], "no summary"
    assert re.findall(r"^    (\*{0,2}\w+): \S", said.get("Args", ""), re.MULTILINE) == parameters(member)
    assert ("Returns" in said) == returns
    assert set(re.findall(r"^    (\w+): ", said.get("Raises", ""), re.MULTILINE)) <= ERRORS


def returns(function: Any) -> bool:
    return inspect.signature(function).return_annotation not in (None, "None", inspect.Signature.empty)


@pytest.mark.parametrize("name", NAMES)
def test_a_public_name_says_what_it_takes_and_returns_and_shows_an_example(name):
    member = getattr(brojepa, name)
    said = sections(member)
    if inspect.isclass(member):
        assert member.__doc__, "no docstring of its own"
    if name not in ELSEWHERE:
        check(member, said, returns=not inspect.isclass(member) and returns(member))
    assert ">>> " in said.get("Examples", ""), "no example"


@pytest.mark.parametrize(("owner", "name"), METHODS)
def test_a_method_of_the_main_classes_says_what_it_takes_and_returns(owner, name):
    member = getattr(getattr(brojepa, owner), name)
    plain = inspect.unwrap(getattr(member, "__func__", member))
    said = sections(member)
    # where a method takes over its base's docstring it may have no annotations of its own
    check(member, said, returns=returns(plain) or ("Returns" in said and not plain.__doc__))


def test_the_pages_of_the_api_have_every_public_name_once(monkeypatch):
    from runpy import run_path

    from test_links import ROOT

    pages = run_path(str(ROOT / "tools" / "site_pages.py"))["API"]
    listed = [name for _, names in pages.values() for name in names.split()]
    assert sorted(listed) == sorted(brojepa.__all__)
