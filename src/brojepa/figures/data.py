"""A figure's data as a file: arrays and a JSON text in one .npz, enough to draw it without weights or images."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np

from brojepa.errors import RequestError
from brojepa.figures import FIGURES

TEXT = "json"  # the entry that holds everything but arrays


def pack(data: dict[str, Any]) -> bytes:
    arrays = {name: value for name, value in data.items() if isinstance(value, np.ndarray)}
    rest = {name: value for name, value in data.items() if name not in arrays}
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays, **{TEXT: np.array(json.dumps(rest))})  # pyright: ignore[reportArgumentType]
    return buffer.getvalue()


def unpack(content: bytes, where: str | Path) -> dict[str, Any]:
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as file:
            data = {name: file[name] for name in file.files}
        data |= json.loads(str(data.pop(TEXT)))
    except Exception as error:  # a damaged zip can raise many kinds of exception
        raise RequestError(f"{where} is not a figure's data ({error}): draw the figure from its runs again") from None
    if not isinstance(data.get("figure"), str) or data["figure"] not in FIGURES:
        raise RequestError(f"{where} is for figure {data.get('figure')!r}, which does not exist here: update brojepa")
    return data


def is_data(path: Path) -> bool:
    """Whether a file looks like a figure's data, by its name alone: a directory may hold other .npz files."""
    return path.suffix == ".npz" and path.stem in FIGURES
