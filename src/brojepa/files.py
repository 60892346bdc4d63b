"""Atomic writes: readers see the old file or the new one, never a partial one."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from brojepa.errors import RunError


def write_atomically(path: Path, data: bytes) -> None:
    """The whole of data at path, or what was there before."""
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        try:
            with partial.open("wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            partial.replace(path)
        finally:
            partial.unlink(missing_ok=True)
    except OSError as error:
        raise RunError(f"cannot write {path}: {error.strerror}; make room or name another --out, then repeat") from None


def write_json(path: Path, value: Any) -> None:
    write_atomically(path, (json.dumps(value, indent=1, allow_nan=False) + "\n").encode())


def read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text())
    except OSError as error:
        raise RunError(f"cannot read {path}: {error.strerror}") from None
    except ValueError as error:
        raise RunError(f"{path} is damaged ({error}): remove the run directory and train again") from None


def cache_dir() -> Path:
    """Where downloads and measurements of this machine are kept."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "brojepa"
