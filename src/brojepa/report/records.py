"""Finished runs as flat records, read from run directories, from files of runs that `brojepa report --archive` writes,
and from the CSV of `brojepa report --runs`.

A record keeps its whole config. Its preset, and its changes from that, are computed from today's presets, whatever the
source of the record.
"""

from __future__ import annotations

import csv
import json
import math
import os
import re
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from brojepa.config import Config
from brojepa.errors import BrojepaError, RequestError, RunError
from brojepa.files import place
from brojepa.presets import PRESETS
from brojepa.report.actions import as_number, element
from brojepa.runs import Run
from brojepa.runs.finding import runs_under
from brojepa.runs.stored import SUFFIX, is_stored, stored_runs
from brojepa.text import listed, plural

METRICS = ("train", "seen", "zero_shot", "rollout", "knn")
FOUND = ("hit5", "mrr", "median_error", "refined", "pre", "r2_linear", "r2_two_layer", "d_lsbd", "error_ratio")
"""What is known of held-out actions where a result has retrieval, or of latents where it has their geometry."""
RECORDED = "recorded"  # the training actions of a config that trains on a recording's own steps
NAMES = {config: name for name, config in PRESETS.items()}


@dataclass(frozen=True)
class Record:
    """One finished run."""

    started_from: str | None
    config: Config
    world: str
    split: str | None
    seed: int
    epochs: int
    kept_epoch: int | None
    target: str
    zero_shot_kind: str
    train: float | None
    seen: float | None
    zero_shot: float | None
    rollout: float | None
    knn: float | None
    chance: float | None
    seconds: float | None
    evaluation_seconds: float | None
    images_per_second: float | None
    parameters: int | None
    validation_loss: float | None
    precision: str | None
    device: str | None
    threads: int | None
    torch: str | None
    commit: str | None
    source: str = field(compare=False)
    per_action: dict[str, float] | None = field(compare=False, default=None)
    found: dict[str, float] | None = field(compare=False, default=None)
    group: str | None = field(compare=False, default=None)
    trained: tuple[str, ...] | None = field(compare=False, default=None)
    run: Run | None = field(compare=False, default=None, repr=False)

    @property
    def preset(self) -> str | None:
        """The preset this is a run of, with nothing changed."""
        return NAMES.get(self.config)

    @property
    def base(self) -> str | None:
        """The preset that the config was made from, if there still is one of that name."""
        return self.preset or (self.started_from if self.started_from in PRESETS else None)

    @cached_property
    def changes(self) -> dict[str, Any]:
        """What differs from the base, or from the paper's plain protocol if there is none."""
        return difference(self.config, PRESETS[self.base] if self.base else Config())

    @cached_property
    def config_hash(self) -> str:
        return self.config.hash

    @property
    def key(self) -> tuple[Any, ...]:
        """Identifies a run: two records with the same key must agree."""
        return self.base, self.config, self.split, self.seed

    @property
    def metrics(self) -> tuple[float | None, ...]:
        return tuple(getattr(self, name) for name in METRICS)

    @cached_property
    def _trained(self) -> frozenset[Hashable]:
        words = self.config.train_actions if self.trained is None else self.trained
        return frozenset(element(word, self.group) for word in words)

    @property
    def tells_trained(self) -> bool:
        """Whether the record says which actions were trained on; recordings and old results do not."""
        return self.trained is not None or RECORDED not in self.config.train_actions

    def trained_on(self, action: str) -> bool | None:
        """Whether an action of `per_action` is one of the training actions, in whatever words these are written; None
        if that is not known."""
        return element(action, self.group) in self._trained if self.tells_trained else None

    @property
    def numbered(self) -> bool:
        """Whether there are accuracies per action, every action is a number, and it is known which were trained on."""
        return bool(self.per_action) and None not in map(as_number, self.per_action) and self.tells_trained

    def within(self, size: int) -> Record:
        """The same with zero-shot over held-out actions of at most this size.

        Every image meets every action, so zero-shot is the mean of their accuracies. Rollout and k-NN are not known per
        action, and a line of CSV knows nothing per action.
        """
        sizes = {action: abs(as_number(action) or 0) for action in self.per_action or {}}
        near = [v for k, v in (self.per_action or {}).items() if sizes[k] <= size and not self.trained_on(k)]
        return replace(self, zero_shot=sum(near) / len(near) if near else None, rollout=None, knn=None)


COLUMNS: tuple[str, ...] = (
    "preset", "base", "changes", "world", "split", "seed", "config_hash", "epochs", "kept_epoch", "target",
    "zero_shot_kind", *METRICS, "chance", "seconds", "evaluation_seconds", "images_per_second", "parameters",
    "validation_loss", "precision", "device", "threads", "torch", "commit", "config",
)  # fmt: skip
_TYPES = {f.name: f.type.removesuffix(" | None") for f in fields(Record) if isinstance(f.type, str)}
_STORED = [name for name in COLUMNS if name in _TYPES and name != "config"]
_REQUIRED = {f.name for f in fields(Record) if isinstance(f.type, str) and not f.type.endswith("None")}


def difference(config: Config, plain: Config) -> dict[str, Any]:
    """The values in which config differs from plain."""
    other = plain.to_dict()
    return {name: value for name, value in config.to_dict().items() if value != other[name]}


def describe_changes(changes: dict[str, Any]) -> str:
    """Config values in words: `schedule one-cycle, lr 0.001`."""
    return listed(f"{name.replace('_', '-')} {_in_words(value)}" for name, value in changes.items())


def _in_words(value: Any) -> str:
    if value is None:
        return "default"
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, list):
        return ",".join(map(str, value))
    if isinstance(value, float):
        return f"{value:g}"
    text = re.sub(r"@[0-9a-f]{12}$", "", str(value))  # own images, known by their content
    return Path(text).name if os.sep in text else text


class Found(NamedTuple):
    """The contents of some paths: finished runs, each once, how many are not finished, and why some cannot be read."""

    records: list[Record]
    unfinished: int
    damaged: tuple[str, ...] = ()


def find(paths: Iterable[str | Path], repeated: bool = False) -> Found:
    """The runs under paths: run directories, files of runs, directories of both at any depth, or CSV files.

    A run found several times counts once; with `repeated`, every time."""
    runs: dict[tuple[Any, ...], Record] = {}
    every: list[Record] = []
    unfinished: set[Path] = set()
    damaged: dict[str, None] = {}
    for path in map(place, paths):
        if not path.exists():
            raise RequestError(f"no such path: {path}; name run directories, directories of them, or a CSV of runs")
        here, cut_off, unread = _read(path)
        damaged |= dict.fromkeys(unread)
        if not here and unread:
            others = f", and {plural(len(unread) - 1, 'other run')} cannot be read" if len(unread) > 1 else ""
            raise RunError(unread[0] + others)
        if not here:
            left = f", only {len(cut_off)} that are not finished" if cut_off else ""
            raise RequestError(f"no runs under {path}{left}: train some with brojepa train --out DIR")
        every += here
        for record in here:
            known = runs.setdefault(record.key, record)
            if known.metrics != record.metrics:
                raise RunError(
                    f"{known.source} and {record.source} are the same run ({record.base or record.config_hash}, "
                    f"seed {record.seed}) and disagree: report one of them"
                )
            if known.per_action is None:
                runs[record.key] = record
        unfinished.update(directory.resolve() for directory in cut_off)
    return Found(every if repeated else list(runs.values()), len(unfinished), tuple(damaged))


def _read(path: Path) -> tuple[list[Record], list[Path], list[str]]:
    """The finished runs of a directory or a file, the directories of those that are not finished, and why others cannot
    be read."""
    damaged: list[str] = []
    if path.suffix == SUFFIX and path.is_file():
        if not is_stored(path):
            raise RequestError(f"{path} is not a file of runs: give one that brojepa report --archive wrote")
        runs: Iterable[Run] = stored_runs(path, damaged)
    elif path.is_file():
        return _read_csv(path), [], []
    else:
        runs = runs_under(path, damaged)
    finished: list[Record] = []
    cut_off: list[Path] = []
    for run in runs:
        try:
            if run.done:
                finished.append(_from_run(run))
            else:
                cut_off.append(run.path)
        except BrojepaError as error:
            damaged.append(str(error))
    return finished, cut_off, damaged


def _from_run(run: Run) -> Record:
    result, header, environment, config = run.result, run.header, run.environment, run.config
    try:
        values = {**environment, **result, **result["metrics"]}
        stored = {name: _checked(name, values.get(name)) for name in _STORED}
        per_action = {action: float(value) for action, value in result.get("per_action", {}).items()}
        trained = result.get("trained_actions")
        if trained is not None and not (isinstance(trained, list) and all(isinstance(k, str) for k in trained)):
            raise ValueError(f"trained_actions is {trained!r}")
        known = {
            "per_action": per_action or None, "found": _found(result) or None, "group": header["world"].get("group"),
            "trained": None if trained is None else tuple(trained),
        }  # fmt: skip
    except (ValueError, TypeError, AttributeError) as error:
        raise RunError(f"{run.result_file} is not a run's result ({error}): train the run again") from None
    base = header.get("base") or header.get("preset")
    return Record(started_from=base, config=config, source=str(run.path), run=run, **known, **stored)


def _found(result: dict[str, Any]) -> dict[str, float]:
    """The numbers of FOUND that a result has."""
    retrieval = result.get("retrieval") or {}
    refined = ((retrieval.get("refined") or {}).get("zero_shot") or {}).get("median_error")
    every = {**(retrieval.get("zero_shot") or {}), "refined": refined, **(result.get("equivariance") or {})}
    return {name: float(every[name]) for name in FOUND if every.get(name) is not None}


def _checked(name: str, value: Any) -> Any:
    """The value of a field, or an error if the field cannot have it."""
    if value is None:
        if name in _REQUIRED:
            raise ValueError(f"no {name}")
        return None
    allowed = {"int": int, "float": (int, float), "str": str}[_TYPES[name]]
    if not isinstance(value, allowed) or (isinstance(value, float) and not math.isfinite(value)):
        raise ValueError(f"{name} is {value!r}")
    return float(value) if _TYPES[name] == "float" else value


def as_row(record: Record) -> dict[str, Any]:
    """A record by the names of COLUMNS, which as CSV can be read again; changes in words."""
    made = {"changes": describe_changes(record.changes), "config": record.config.to_dict()}
    return {name: made[name] if name in made else getattr(record, name) for name in COLUMNS}


def _read_csv(path: Path) -> list[Record]:
    try:
        with path.open(newline="", encoding="utf-8") as file:
            lines = list(csv.reader(file))
    except OSError as error:
        raise RunError(f"cannot read {path}: {error.strerror}") from None
    except (UnicodeDecodeError, csv.Error):
        lines = []
    if not lines or tuple(lines[0]) != COLUMNS:
        raise RequestError(f"{path} is not a CSV of runs: give one that brojepa report --runs --format csv wrote")
    return [_from_csv(cells, f"{path} line {number}") for number, cells in enumerate(lines[1:], 2)]


def _from_csv(cells: list[str], source: str) -> Record:
    kinds = {"int": int, "float": float, "str": str}
    try:
        texts = dict(zip(COLUMNS, cells, strict=True))
        values = {name: kinds[_TYPES[name]](texts[name]) if texts[name] else None for name in _STORED}
        stored = {name: _checked(name, value) for name, value in values.items()}
        config = Config.from_dict(json.loads(texts["config"]))
    except (ValueError, TypeError) as error:
        raise RequestError(f"{source} is not a run ({error}): write the CSV again") from None
    return Record(started_from=texts["base"] or None, config=config, source=source, **stored)
