"""Parts by name: what a path names is imported and called, and whatever is wrong with it is one line."""

from __future__ import annotations

import sys

import pytest

from brojepa import parts
from brojepa.config import Config, is_own_world, options, world_code
from brojepa.errors import RequestError


def line(call, *arguments) -> str:
    """The one line that a call ends in."""
    with pytest.raises(RequestError) as caught:
        call(*arguments)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_path_is_told_from_a_name():
    for name in ("encoder", "action", "target", "regulariser"):
        for built_in in options(name):
            assert not parts.is_path(built_in)
            assert getattr(Config().replace(**{name: built_in}, latent=64), name) == built_in
    for path in ("mymodule:MyViT", "a.b.c:d", "_a1:_B"):
        assert parts.is_path(path)
    for other in ("", "mymodule", "mymodule:", ":MyViT", "a..b:c", "a:b:c", "a:b.c", "a/b:c", "1a:b", "a:b ", "a:b\n"):
        assert not parts.is_path(other), other


def test_a_value_that_is_neither_is_refused_with_both_ways():
    said = line(lambda: Config().replace(encoder="my module"))
    assert "--encoder" in said
    assert "package.module:name" in said
    assert "mlp" in line(lambda: Config().replace(encoder="mpl"))


@pytest.mark.parametrize("name", ["encoder", "action", "target", "regulariser"])
def test_a_config_keeps_a_path_and_names_its_own_parts(name):
    config = Config().replace(**{name: "mymodule:Mine"})
    assert config.own_parts == {name: "mymodule:Mine"}
    assert Config.from_dict(config.to_dict()) == config
    assert config.hash != Config().hash
    assert Config().own_parts == {}


def test_a_world_names_the_code_that_it_is_made_of():
    """Wherever in the name it stands: all of it would be run."""
    found = {
        "mnist": "", "mnist:0-6": "", "torus:mnist,emnist": "", "pairs:mnist": "", "rotation:mnist": "",
        "digits.npz": "", "mymodule:make": "mymodule:make", "torus:a:f,b.c:g": "a:f,b.c:g",
        "torus:mnist,b:g": "b:g", "rotation:a:f": "a:f", "rotation:pairs:a:f,b:g": "a:f,b:g",
    }  # fmt: skip
    for name, code in found.items():
        assert world_code(name) == code, name
        assert Config().replace(world=name).own_parts == ({"world": code} if code else {}), name
        assert is_own_world(name) == (bool(code) or name == "digits.npz"), name


def test_a_module_in_the_current_directory_is_found_and_the_path_left_alone(module):
    name, before = module("def Mine(shape, dim):\n    return shape, dim"), list(sys.path)
    assert parts.resolve("encoder", f"{name}:Mine").__name__ == "Mine"
    assert parts.make("encoder", f"{name}:Mine", (1, 2, 3), 4) == ((1, 2, 3), 4)
    assert sys.path == before


def test_what_is_installed_wins_over_a_file_of_the_same_name(module):
    import colorsys  # of the standard library, and in no other way in use

    del sys.modules["colorsys"]
    module("hsv_to_rgb = 'mine'", "colorsys")
    assert parts.resolve("encoder", "colorsys:hsv_to_rgb") != "mine"
    sys.modules["colorsys"] = colorsys


def test_what_own_code_adds_to_the_path_stays(module, tmp_path):
    name = module(f"import sys\nsys.path.insert(0, {str(tmp_path)!r})\nMine = 1")
    before = list(sys.path)
    assert parts.resolve("encoder", f"{name}:Mine") == 1
    assert sys.path == [str(tmp_path), *before]
    sys.path[:] = before


def test_own_code_may_import_its_neighbours_late(module):
    neighbour = module("value = 7")
    name, before = module(f"def Mine():\n    import {neighbour}\n    return {neighbour}.value"), list(sys.path)
    assert parts.make("world", f"{name}:Mine") == 7
    assert sys.path == before


def test_a_module_in_a_package_of_the_current_directory(module, tmp_path):
    package = tmp_path / module("", "own_package_dir")
    package.mkdir()
    (tmp_path / "own_package_dir.py").unlink()
    (package / "inner.py").write_text("Mine = 5")
    assert parts.resolve("encoder", "own_package_dir.inner:Mine") == 5
    said = line(parts.resolve, "encoder", "own_package_dir.other:Mine")
    assert "no module own_package_dir.other" in said


@pytest.mark.parametrize("kind", parts.EXPECTED)
def test_a_module_that_is_not_there(kind, module):
    before = list(sys.path)
    said = line(parts.resolve, kind, "no_such_module_here:Mine")
    for word in (kind, "no_such_module_here:Mine", "no module", "directory", "PYTHONPATH", parts.EXPECTED[kind]):
        assert word in said
    assert sys.path == before


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("raise RuntimeError('two\\n  lines')", "RuntimeError: two lines"),
        ("import sys; sys.exit(3)", "SystemExit"),
        ("def broken(:", "SyntaxError"),
        ("import no_such_dependency", "No module named 'no_such_dependency'"),
        ("import own", "No module named 'own'"),  # the beginning of the module's own name
        ("from math import no_such_thing", "ImportError"),
    ],
)
def test_a_module_that_fails_on_import(text, word, module):
    name, before = module(text), list(sys.path)
    said = line(parts.resolve, "regulariser", f"{name}:Mine")
    for part in ("regulariser", f"{name}:Mine", word, parts.EXPECTED["regulariser"]):
        assert part in said
    assert "PYTHONPATH" not in said, "the module itself is there"
    assert sys.path == before


@pytest.mark.parametrize("kind", parts.EXPECTED)
def test_a_name_that_the_module_has_not(kind, module):
    name = module("Mine = 1")
    said = line(parts.resolve, kind, f"{name}:Yours")
    for word in (kind, f"{name}:Yours", "has no Yours", parts.EXPECTED[kind]):
        assert word in said


@pytest.mark.parametrize(
    "text",
    ["def Mine(): return 1", "def Mine(a): return 1", "def Mine(a, b, c): return 1", "def Mine(*, a, b): return 1",
     "class Mine: pass", "Mine = 7", "Mine = None"],
)  # fmt: skip
def test_what_cannot_be_called_as_its_kind_is(text, module):
    name = module(text)
    said = line(parts.make, "encoder", f"{name}:Mine", (1, 2, 3), 4)
    for word in ("encoder", f"{name}:Mine", "cannot be called", parts.EXPECTED["encoder"]):
        assert word in said


@pytest.mark.parametrize("raised", ["ValueError('two\\nlines')", "SystemExit(0)", "KeyError('x')"])
def test_what_fails_when_it_is_called(raised, module):
    name = module(f"def Mine(*given): raise {raised}")
    said = line(parts.make, "target", f"{name}:Mine", 1, 2)
    for word in ("target", f"{name}:Mine", "failed", raised.partition("(")[0], parts.EXPECTED["target"]):
        assert word in said


def test_a_wrong_request_of_own_code_is_passed_on(module):
    name = module("import brojepa.errors\ndef Mine(): raise brojepa.errors.RequestError('use 3')")
    assert line(parts.make, "world", f"{name}:Mine") == "use 3"


def test_trust_is_asked_for_where_there_is_own_code(tmp_path):
    parts.check_trust({}, tmp_path, False)
    parts.check_trust({"encoder": "a:b"}, tmp_path, True)
    said = line(parts.check_trust, {"encoder": "a:b", "world": "c:d"}, tmp_path, False)
    for word in (str(tmp_path), "encoder a:b", "world c:d", "--trust", "trust=True"):
        assert word in said


def test_the_sum_is_of_the_file(module, tmp_path):
    import hashlib

    one, two = module("Mine = 1"), module("Mine = 2")
    sums = parts.sources({"encoder": f"{one}:Mine", "world": f"{one}:Mine,{two}:Mine", "target": "sys:path"})
    files = {f"{name}:Mine": (tmp_path / f"{name}.py").read_bytes() for name in (one, two)}
    assert sums == {path: hashlib.sha256(content).hexdigest() for path, content in files.items()}
