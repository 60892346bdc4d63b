"""Checkpoints: safetensors, written atomically, that carry their own metadata and checksum.

safetensors runs no code when it is read. A checkpoint is one file, so its tensors and its metadata always belong
together; the sha256 over both detects damage and edits.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save as to_bytes
from torch import Tensor

from brojepa.errors import RunError
from brojepa.files import Kinds, write_atomically, wrong_value


def save(path: Path, tensors: dict[str, Tensor], meta: dict[str, Any]) -> None:
    """Tensors and JSON metadata in one safetensors file, atomically."""
    tensors = _apart({name: t.detach().cpu().contiguous() for name, t in tensors.items()})
    text = json.dumps(meta, sort_keys=True)
    write_atomically(path, to_bytes(tensors, {"meta": text, "sha256": _digest(tensors, text)}))


REMEDY = "remove the run directory and train again"


def checksum(path: Path) -> str:
    """The sha256 recorded in a checkpoint, not verified; empty if there is none."""
    try:
        with safe_open(path, "pt") as file:
            return (file.metadata() or {}).get("sha256", "")
    except FileNotFoundError:
        raise _absent(path) from None
    except (SafetensorError, OSError) as error:
        raise _damaged(path, error, REMEDY) from None


def load(path: Path, kinds: Kinds | None = None, remedy: str = REMEDY) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """What `save` wrote, on the CPU. The metadata must have these keys, with values of these kinds; `remedy` says what
    to do if the file is damaged."""
    try:
        with safe_open(path, "pt") as file:
            header = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118, not a dictionary
        whole = header.get("sha256") == _digest(tensors, header.get("meta", ""))
    except FileNotFoundError:
        raise _absent(path) from None
    except (SafetensorError, OSError) as error:
        raise _damaged(path, error, remedy) from None
    if not whole:
        raise _damaged(path, "its checksum does not match", remedy)
    try:
        meta = json.loads(header.get("meta", ""))
    except (ValueError, RecursionError) as error:
        raise _damaged(path, error, remedy) from None
    missing = [key for key in kinds or () if not isinstance(meta, dict) or key not in meta]
    wrong = f"no {missing[0]}" if missing else wrong_value(meta, kinds or {})
    if wrong:
        raise _damaged(path, f"its metadata have {wrong}" if missing else wrong, remedy)
    return tensors, meta


def _apart(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Copies of tensors that share memory, such as tied weights: safetensors does not accept shared ones."""
    owners: dict[int, str] = {}
    return {
        name: t if owners.setdefault(t.untyped_storage().data_ptr(), name) == name else t.clone()
        for name, t in tensors.items()
    }


def _absent(path: Path) -> RunError:
    return RunError(f"no checkpoint at {path}: train the run first")


def _damaged(path: Path, why: object, remedy: str) -> RunError:
    return RunError(f"{path} is truncated or was changed ({why}): {remedy}")


def _digest(tensors: dict[str, Tensor], text: str) -> str:
    digest = hashlib.sha256(text.encode())
    for name in sorted(tensors):
        t = tensors[name]
        digest.update(f"{name} {t.dtype} {tuple(t.shape)}".encode())
        digest.update(t.contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def optimizer_tensors(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """An optimiser's state as named tensors: `<parameter index>.<name>`."""
    state = optimizer.state_dict()["state"]
    return {f"{i}.{name}": torch.as_tensor(value) for i, slots in state.items() for name, value in slots.items()}


def restore_optimizer(optimizer: torch.optim.Optimizer, tensors: dict[str, Tensor]) -> None:
    state: dict[int, dict[str, Tensor]] = {}
    for key, value in tensors.items():
        index, name = key.split(".", 1)
        state.setdefault(int(index), {})[name] = value
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})
    for parameter, slots in optimizer.state.items():  # the fused step pairs elements by memory order, not by index
        for name, value in slots.items():
            if value.shape == parameter.shape:
                slots[name] = torch.empty_like(parameter).copy_(value)


def split_by_prefix(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """The tensors named `prefix.*`, without the prefix."""
    return {name[len(prefix) + 1 :]: t for name, t in tensors.items() if name.startswith(prefix + ".")}
