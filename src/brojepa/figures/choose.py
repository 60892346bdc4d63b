"""Finds runs for figures on disk, and chooses by config which runs each figure is drawn from."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from brojepa.config import Config
from brojepa.errors import BrojepaError, RequestError, RunError
from brojepa.figures import KINDS, Need, Spec
from brojepa.figures.data import is_data
from brojepa.runs import Run, decoders
from brojepa.runs.finding import runs_in, walk
from brojepa.runs.stored import is_stored, stored_runs
from brojepa.text import plural

WEIGHTS = ("variance", "covariance", "consistency")  # only whether they are on matters


@dataclass(frozen=True)
class Candidate:
    """A run that was found; group and kind are those of its world."""

    run: Run
    config: Config
    seed: int
    group: str = ""
    kind: str = "cycle"
    done: bool = True

    @classmethod
    def of(cls, run: Run) -> Candidate:
        header = run.header
        states = header["world"].get("states")
        group = header["world"].get("group", f"Z{states}")
        kind = "poses" if not states else "cycle" if re.fullmatch(r"Z\d+", group) else "states"
        return cls(run, run.config, header["seed"], group, kind, run.done)

    @property
    def has_weights(self) -> bool:
        return self.run.model_file.is_file()

    @property
    def has_decoder(self) -> bool:
        return self.has_weights and decoders.find(self.run) is not None


class Found(NamedTuple):
    """The contents of some paths: finished runs, figure data, and why other runs cannot be read."""

    runs: list[Candidate]
    data: list[Path]
    damaged: list[str]


def find(paths: Sequence[Path]) -> Found:
    """Runs with an epoch or more, and figure data, at the paths or anywhere below them."""
    runs: dict[Path, Candidate] = {}
    data: dict[Path, None] = {}
    damaged: list[str] = []

    def read(run: Run) -> None:
        try:
            if run.result if run.done else run.has(run.metrics_file):  # one that can be read
                runs[run.path.resolve()] = Candidate.of(run)
        except BrojepaError as error:
            damaged.append(str(error))

    for path in paths:
        if not path.exists():
            raise RequestError(f"no such path: {path}; name run directories, or a directory that holds some")
        if is_stored(path):
            for run in stored_runs(path, damaged):
                read(run)
            continue
        if path.is_file() and path.suffix != ".npz":
            raise RequestError(f"{path} is not figure data (.npz): name run directories, or files that figures wrote")
        if path.is_file():
            data[path] = None
            continue
        if (path / "config.json").is_file():
            read(Run(path))
            continue
        for directory, _, names in walk(path, damaged):
            for run in runs_in(directory, names, damaged):
                if run.has(run.config_file):
                    read(run)
            data |= dict.fromkeys(directory / name for name in names if is_data(Path(name)))
    damaged = list(dict.fromkeys(damaged))
    if not runs and not data and damaged:
        more = f", and {plural(len(damaged) - 1, 'other run')} cannot be read" if len(damaged) > 1 else ""
        raise RunError(damaged[0] + more)
    if not runs and not data:
        where = ", ".join(map(str, paths))
        raise RequestError(f"no finished run and no figure data in {where}: train one first, or use --paper")
    return Found(list(runs.values()), list(data), damaged)


def fits(need: Need, config: Config) -> bool:
    """Whether a run with this config can fill the need: it agrees in all knobs that matter for the figure."""
    wanted = need.config
    if need.decoder:
        return config.method == wanted.method
    same = {*need.changes, *need.same} - {*WEIGHTS, "epochs"}
    return (
        config.method == wanted.method
        and config.action in (wanted.action, *need.actions)
        and all((getattr(config, name) > 0) == (getattr(wanted, name) > 0) for name in WEIGHTS)
        and all(_value(config, name) == _value(wanted, name) for name in same)
    )


def _value(config: Config, name: str) -> object:
    value = getattr(config, name)
    return sorted(value) if isinstance(value, tuple) else value


def distance(need: Need, config: Config) -> int:
    """The number of knobs, without the world, in which a config differs from the one that the need names."""
    wanted, here = need.config.to_dict(), config.to_dict()
    return sum(here[name] != wanted[name] for name in wanted if name != "world")


def choose(spec: Spec, found: Iterable[Candidate]) -> dict[str, Run | None]:
    """The best run for each role, all from one world that the figure can show, or None where there is none.

    The nearest config first, then the seed that is asked for, then the lowest. Of several worlds the one that fills
    most roles that must be filled, MNIST if it is as good as any.
    """
    worlds: dict[str, list[Candidate]] = {}
    for candidate in found:
        if candidate.done and _shows(spec, candidate):
            worlds.setdefault(candidate.config.world, []).append(candidate)

    def rank(world: str) -> tuple[Any, ...]:
        here = choices[world]
        absent = [need.optional for role, need in spec.needs.items() if here[role] is None]
        return absent.count(False), _empty(here), world != "mnist", absent.count(True), world

    choices = {w: {role: _best(need, worlds[w]) for role, need in spec.needs.items()} for w in worlds}
    return choices[min(choices, key=rank)] if choices else dict.fromkeys(spec.needs)


def _shows(spec: Spec, candidate: Candidate) -> bool:
    kinds = list(KINDS)
    return kinds.index(candidate.kind) <= kinds.index(spec.kind)


def unsuited(spec: Spec, found: Iterable[Candidate]) -> Candidate | None:
    """A run that would fit if the figure could show its kind of world; None if another run only lacks its weights."""
    able = [c for c in found if c.done and any(fits(need, c.config) for need in spec.needs.values())]
    return able[0] if able and not any(_shows(spec, c) for c in able) else None


def _empty(choice: dict[str, Run | None]) -> bool:
    return not any(choice.values())


def _best(need: Need, candidates: Iterable[Candidate]) -> Run | None:
    able = [c for c in candidates if fits(need, c.config) and (c.has_weights or not need.weights)]
    able = [c for c in able if c.has_decoder] if need.decoder else able
    actions = (need.config.action, *need.actions)

    def rank(c: Candidate) -> tuple[Any, ...]:
        action = actions.index(c.config.action) if c.config.action in actions else len(actions)
        return action, distance(need, c.config), c.seed != need.seed, c.seed, str(c.run.path)

    return min(able, key=rank).run if able else None


def lacking(spec: Spec, choice: dict[str, Run | None]) -> list[Need]:
    """The unfilled needs that prevent a figure: the required ones, or all if none is filled."""
    required = [need for role, need in spec.needs.items() if choice[role] is None and not need.optional]
    return required or ([*spec.needs.values()] if _empty(choice) else [])
