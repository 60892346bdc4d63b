"""Own code by name: a part of a run is a built-in name or a path, `package.module:name`.

A run is a function of its config, so a part must be a string that another process can resolve again: `load`, `eval`,
resume, sweeps and Slurm. A path names what `from package.module import name` would import; the current directory
is searched last.

Importing a path runs somebody's code. Whoever trains with a path trusts it; a run directory may come from elsewhere,
so everything that reads one calls `check_trust` first.
"""

from __future__ import annotations

import hashlib
import importlib
import inspect
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from brojepa.errors import RequestError

FORM = "package.module:name"
_PATH = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*")
EXPECTED = {
    "encoder": "(shape, dim) -> an nn.Module from images [batch, *shape] to latents [batch, dim]",
    "action": "(dim, group) -> a brojepa.LatentAction",
    "regulariser": "() -> an nn.Module from latents [batch, dim] to {name: (weight, value)}",
    "target": "(task, dim) -> a brojepa.Target",
    "world": "() -> a brojepa.World",
}
"""How each kind of part is called, and what it must return."""


def is_path(name: str) -> bool:
    """Whether a name has the form of a path to own code."""
    return _PATH.fullmatch(name) is not None


def resolve(kind: str, path: str) -> Any:
    """What a path names, imported; the current directory is searched last."""
    module, _, name = path.partition(":")
    try:
        with _here_last():
            found = importlib.import_module(module)
    except ModuleNotFoundError as error:
        missing = error.name is not None and f"{module}.".startswith(f"{error.name}.")
        why = f"there is no module {error.name}" if missing else reason(error)
        hint = "run from its directory, or add that to PYTHONPATH; " if missing else ""
        raise _not_imported(kind, path, why, hint) from error
    except (Exception, SystemExit) as error:  # an own module may raise anything while it is imported
        raise _not_imported(kind, path, reason(error)) from error
    if not hasattr(found, name):
        raise RequestError(f"{kind} {path}: module {module} has no {name}, expected {EXPECTED[kind]}")
    return getattr(found, name)


@contextmanager
def _here_last() -> Iterator[None]:
    """Search the current directory too, last, for a while."""
    here = str(Path.cwd())
    added = here not in sys.path and "" not in sys.path
    if added:
        sys.path.append(here)
    try:
        yield
    finally:
        if added and here in sys.path:
            del sys.path[len(sys.path) - 1 - sys.path[::-1].index(here)]  # own code may have added it as well, before


def _not_imported(kind: str, path: str, why: str, hint: str = "") -> RequestError:
    return RequestError(f"{kind} {path} cannot be imported ({why}); {hint}expected {EXPECTED[kind]}")


def reason(error: BaseException) -> str:
    """An exception of somebody's code in one line."""
    return " ".join(f"{type(error).__name__}: {error}".split())


def make(kind: str, path: str, *arguments: Any) -> Any:
    """Call an own part; if that fails, one line says how it is called."""
    part = resolve(kind, path)
    try:
        inspect.signature(part).bind(*arguments)
    except (TypeError, ValueError) as error:
        raise RequestError(f"{kind} {path} cannot be called ({error}), expected {EXPECTED[kind]}") from None
    try:
        with _here_last():  # it may import more
            return part(*arguments)
    except RequestError:
        raise
    except (Exception, SystemExit) as error:  # own code may raise anything
        raise wrong(kind, path, f"failed ({reason(error)})") from error


def wrong(kind: str, path: str, what: str) -> RequestError:
    """The error for an own part that breaks the contract of its kind."""
    return RequestError(f"{kind} {path} {what}, expected {EXPECTED[kind]}")


def check_trust(parts: Mapping[str, str], where: object, trust: bool) -> None:
    """Raise an error if a run directory names own code and the user has not trusted it."""
    if parts and not trust:
        named = ", ".join(f"{kind} {path}" for kind, path in parts.items())
        raise RequestError(
            f"{where} runs code of its own ({named}): if you trust it, say so with --trust or trust=True"
        )


def sources(parts: Mapping[str, str]) -> dict[str, str]:
    """The sha256 of the file that each own part comes from, by path; parts without a file are left out. A world may
    be made of several, with commas between them."""
    sums = {}
    for kind, paths in parts.items():
        for path in paths.split(","):
            resolve(kind, path)
            file = getattr(sys.modules[path.partition(":")[0]], "__file__", None)
            if file:
                sums[path] = hashlib.sha256(Path(file).read_bytes()).hexdigest()
    return sums
