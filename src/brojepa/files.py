"""Atomic writes: readers see the old file or the new one, never a partial one."""

from __future__ import annotations

import json
import math
import os
import re
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from brojepa.errors import RequestError, RunError


def write_atomically(path: Path, data: bytes) -> None:
    """Write data to path: all of it, or nothing.

    A file keeps its mode, and a link stays a link: its target is replaced. Devices and pipes are written to directly.
    """
    try:
        mode = path.stat().st_mode if path.exists() else None
        if mode is not None and stat.S_ISDIR(mode):
            raise RequestError(f"cannot write {path}: it is a directory, name a file")
        if mode is not None and not stat.S_ISREG(mode):
            with path.open("wb") as file:
                file.write(data)
            return
        _replace(Path(os.path.realpath(path)), data, mode)
    except OSError as error:
        raise RunError(
            f"cannot write {path}: {error.strerror}; free some space or name another --out, then repeat"
        ) from None


def _replace(path: Path, data: bytes, mode: int | None) -> None:
    """Put data beside path under another name, then in its place; never readable by more people than before."""
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    allowed = 0o666 if mode is None else stat.S_IMODE(mode)
    try:
        with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, allowed), "wb") as file:
            if mode is not None:
                partial.chmod(allowed)
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def remove_leftovers(directory: Path) -> None:
    """Remove what writers that were killed have left in a directory: partial files of processes that no longer live,
    and of this one, which has not begun to write there."""
    for file in directory.iterdir() if directory.is_dir() else ():
        form = re.fullmatch(r"\..+\.(\d{1,9})\.partial", file.name)
        if form and (int(form[1]) == os.getpid() or not _lives(int(form[1]))):
            file.unlink(missing_ok=True)


def _lives(process: int) -> bool:
    if os.name == "nt":  # there signal 0 is no question
        return True
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def place(given: str | Path) -> Path:
    """A path as a user typed it, with ~ expanded."""
    if given == "":
        raise RequestError("a path is empty: name a file or a directory, . for the current one")
    if "\0" in str(given):
        raise RequestError(f"{str(given)!r} is not a path: it has a null byte")
    try:
        return Path(given).expanduser()
    except RuntimeError as error:
        raise RequestError(f"{given}: {str(error).rstrip('.').lower()}, write the whole path") from None


def write_json(path: Path, value: Any) -> None:
    write_atomically(path, (json.dumps(value, indent=1, allow_nan=False) + "\n").encode())


def json_line(value: Any) -> str:
    """An answer in one line of JSON. Numbers that are not finite, as of a model that has run away, are null."""
    return json.dumps(_all_finite(value), allow_nan=False)


def _all_finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _all_finite(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_all_finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"), parse_float=_finite, parse_constant=_finite)
    except OSError as error:
        raise RunError(f"cannot read {path}: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise RunError(f"{path} is damaged ({error}): remove the run directory and train again") from None


def _finite(text: str) -> float:
    """A JSON number; NaN, Infinity and overflowing numbers are refused."""
    if not math.isfinite(number := float(text)):
        raise ValueError(f"{text} is no number")
    return number


Kinds = Mapping[str, tuple[type, ...]]
"""What values may be, by key; a key that is not there is fine."""

NUMBER = (int, float)
COUNT = (int,)
TEXT = (str,)
NONE = (type(None),)
TABLE = (dict,)
LIST = (list,)


def wrong_value(value: Any, kinds: Kinds) -> str:
    """The first value of a dictionary that is not of the kind it must be, in words; empty if all are."""
    for key, allowed in kinds.items():
        if key in value and not is_a(value[key], allowed):
            return f"{key} is {value[key]!r:.60}"
    return ""


def is_grid(value: Any) -> bool:
    """Whether a value from JSON is a list of numbers, or of equally long lists of numbers, without empty ones."""
    if not isinstance(value, list) or not value:
        return False
    rows = value if isinstance(value[0], list) else [value]
    return all(
        isinstance(row, list) and 0 < len(row) == len(rows[0]) and all(is_a(v, NUMBER) for v in row) for row in rows
    )


def is_a(value: Any, allowed: tuple[type, ...]) -> bool:
    """Whether a value from JSON is of a kind. `true` is not a number, and numbers must be finite."""
    finite = not isinstance(value, float) or math.isfinite(value)
    return isinstance(value, allowed) and finite and (not isinstance(value, bool) or bool in allowed)


def cache_dir() -> Path:
    """Where downloads and measurements of this machine are kept."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "brojepa"
