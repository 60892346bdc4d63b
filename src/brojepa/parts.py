"""Own code by name: a part of a run is a built-in name or a path, `package.module:name`.

A run is a function of its config, so a part must be a string that another process can resolve again: `load`, `eval`,
resume, sweeps and Slurm. A path names what `from package.module import name` would import; the current directory
counts, after everything that is installed.

Importing a path runs somebody's code. Training with one is trust enough; a run directory that came from elsewhere is
not, so whatever reads one asks `check_trust` first.
"""

from __future__ import annotations

import hashlib
import importlib
import inspect
import re
import sys
from collections.abc import Mapping
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
    here = str(Path.cwd())
    added = here not in sys.path and "" not in sys.path
    if added:
        sys.path.append(here)
    try:
        found = importlib.import_module(module)
    except Exception as error:  # an own module may raise anything while it is imported
        missing = isinstance(error, ModuleNotFoundError) and error.name and module.startswith(error.name)
        why = f"there is no module {error.name}" if missing else f"{type(error).__name__}: {error}"  # pyright: ignore[reportAttributeAccessIssue]
        hint = "; run from the directory where it lies, or put that on PYTHONPATH" if missing else ""
        raise RequestError(f"{kind} {path} cannot be imported ({why}){hint}") from error
    finally:
        if added:
            sys.path.remove(here)
    if not hasattr(found, name):
        raise RequestError(f"{kind} {path}: module {module} has no {name}, expected {EXPECTED[kind]}")
    return getattr(found, name)


def make(kind: str, path: str, *arguments: Any) -> Any:
    """What calling an own part gives, or one line that says how it is called."""
    part = resolve(kind, path)
    try:
        inspect.signature(part).bind(*arguments)
    except (TypeError, ValueError) as error:
        raise RequestError(f"{kind} {path} cannot be called ({error}), expected {EXPECTED[kind]}") from None
    try:
        return part(*arguments)
    except RequestError:
        raise
    except Exception as error:  # own code may raise anything
        raise RequestError(f"{kind} {path} failed ({type(error).__name__}: {error})") from error


def wrong(kind: str, path: str, what: str) -> RequestError:
    """The error for an own part that does not do what its kind must."""
    return RequestError(f"{kind} {path} {what}, expected {EXPECTED[kind]}")


def check_trust(parts: Mapping[str, str], where: object, trust: bool) -> None:
    """An error where a run directory names own code and nobody has said to trust it."""
    if parts and not trust:
        named = ", ".join(f"{kind} {path}" for kind, path in parts.items())
        raise RequestError(
            f"{where} runs code of its own ({named}): if you trust it, say so with --trust or trust=True"
        )


def sources(parts: Mapping[str, str]) -> dict[str, str]:
    """The sha256 of the file that each own part comes from, by path; what has no file is left out."""
    sums = {}
    for kind, path in parts.items():
        resolve(kind, path)
        file = getattr(sys.modules[path.partition(":")[0]], "__file__", None)
        if file:
            sums[path] = hashlib.sha256(Path(file).read_bytes()).hexdigest()
    return sums
