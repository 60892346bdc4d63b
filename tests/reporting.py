"""What the tests of `brojepa report` share: runs as files, and a table's cells."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

from conftest import Outcome

from brojepa.config import Config
from brojepa.presets import PRESETS

Cli = Callable[..., Outcome]


VALUES = {"train": 0.99, "seen": 0.98, "zero_shot": 0.97, "rollout": 0.96, "knn": 0.95}


def write_run(
    out: Path, config: str | Config, seed: int = 0, base: str | None = None, split: str | None = None,
    unfinished: bool = False, per_action: dict[str, float] | None = None, group: str | None = None,
    **metrics: float | None,
) -> Path:  # fmt: skip
    """The files of a run of a preset, or of a config made from `base`, as training leaves them."""
    name = config if isinstance(config, str) else None
    values = PRESETS[config] if isinstance(config, str) else config
    path = out / (name or f"{Path(values.world).stem}/{values.hash}") / f"seed-{seed}"
    path.mkdir(parents=True)
    states = 26 if values.world == "emnist" else 10
    header = {"preset": name, "base": name or base, "seed": seed, "config": values.to_dict()}
    facts = {"name": values.world, "states": states, **({"group": group} if group else {})}
    (path / "config.json").write_text(json.dumps({**header, "world": facts}))
    if unfinished:
        return path
    environment = {"torch": "2.13.0", "device": "cpu", "precision": "float32", "threads": 1, "commit": "abc"}
    (path / "env.json").write_text(json.dumps(environment))
    result = {
        "preset": name, "world": Path(values.world).stem, "split": split, "seed": seed, "config_hash": values.hash,
        "epochs": values.epochs, "kept_epoch": values.epochs, "target": values.target,
        "seconds": 61.5, "evaluation_seconds": 2.25, "images_per_second": 12345.678,
        "zero_shot_kind": "weak" if values.consistency else "strict", "metrics": {**VALUES, **metrics},
        "per_action": per_action or {"-1": 0.9, "+1": 0.8, "+2": 0.7}, "chance": 1 / states,
        "angles": None, "validation_loss": 0.125, "parameters": 1000,
    }  # fmt: skip
    (path / "result.json").write_text(json.dumps(result))
    return path


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]


def line_of(text: str, label: str, table: int = 0) -> list[str]:
    """The cells of the line with a label, in the n-th table that has one."""
    return [cells(line) for line in text.splitlines() if line.startswith(f"| {label} ")][table]


def notes_of(text: str, name: str) -> list[str]:
    """The notes below a table that are about a preset, or about all."""
    notes = re.findall(r"^- (.*?): (.*)$", text, re.MULTILINE)
    return [note for rows, note in notes if rows == "all rows" or name in rows.split(", ")]
