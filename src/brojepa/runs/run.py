"""A run directory, `<out>/<world>/<preset or hash>/seed-<n>/`, whose files are the only state.

config.json env.json metrics.jsonl model.safetensors state/ result.json figures/
`result.json` is written last: its presence means done. Only one process at a time works on a run.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from brojepa import files
from brojepa.config import Config, world_code, world_folder
from brojepa.errors import BrojepaError, RequestError, RunError
from brojepa.files import COUNT, LIST, NONE, NUMBER, TABLE, TEXT, is_grid
from brojepa.presets import PRESETS
from brojepa.runs.result import Result, accuracies


@dataclass(frozen=True, repr=False)
class Run:
    """A run, known by its directory. `brojepa.train` returns one.

    Args:
        path: the run directory.

    Examples:
        >>> import brojepa
        >>> from pathlib import Path
        >>> run = brojepa.Run(Path(brojepa.__file__).parent / "weights" / "mnist" / "fast")
        >>> run.done, run.config.encoder
        (True, 'cnn')
        >>> round(run.result["metrics"]["zero_shot"], 2)
        1.0
    """

    path: Path

    def __repr__(self) -> str:
        """The directory, the config, the progress and the result of the run."""
        try:
            return "\n".join([f"Run {self.path}: {self._stands}", *(accuracies(self.result) if self.done else ())])
        except BrojepaError as error:
            return f"Run {self.path}: {error}"

    @property
    def _stands(self) -> str:
        if not self.has(self.config_file):
            return "not begun"
        config, header = self.config, self.header
        what = (
            f"{config.method} {config.encoder} {config.action} on {header['world'].get('name')}, seed {header['seed']}"
        )
        rows = "" if self.done else f" {len(self.metrics)} of"
        return f"{what},{rows} {config.epochs} epochs"

    @classmethod
    def locate(cls, out: str | Path, config: Config, preset: str | None, seed: int) -> Run:
        """Where the run of a config and a seed is kept. An unchanged preset gives the directory its name.

        Args:
            out: where run directories go.
            config: the config.
            preset: the preset that the config came from, if any.
            seed: the seed.

        Returns:
            The run; its directory need not exist.
        """
        if preset is not None and PRESETS.get(preset) == config:
            return cls(files.place(out) / preset / f"seed-{seed}")
        return cls(files.place(out) / world_folder(config.world) / config.hash / f"seed-{seed}")

    @classmethod
    def identify(cls, out: str | Path, config: Config, preset: str | None, seed: int, identity: str) -> Config:
        """The config with its world called by `identity`, which for own data is their content.

        A run that was begun when own data were known by their path keeps that.

        Args:
            out: where run directories go.
            config: the config.
            preset: the preset that it came from, if any.
            seed: the seed.
            identity: what to call the world.

        Returns:
            The config to train with.
        """
        before = cls.locate(out, config, preset, seed)
        return config if before.config_file.is_file() else config.replace(world=identity)

    @property
    def config_file(self) -> Path:
        """Config, seed, preset and the world's facts."""
        return self.path / "config.json"

    @property
    def metrics_file(self) -> Path:
        """One line per epoch."""
        return self.path / "metrics.jsonl"

    @property
    def model_file(self) -> Path:
        """The weights."""
        return self.path / "model.safetensors"

    @property
    def state_file(self) -> Path:
        """What exact resume needs."""
        return self.path / "state" / "latest.safetensors"

    @property
    def result_file(self) -> Path:
        """The result, written last."""
        return self.path / "result.json"

    @property
    def done(self) -> bool:
        """Whether the run is finished."""
        return self.has(self.result_file)

    def has(self, file: Path) -> bool:
        """Whether the run has a file.

        Args:
            file: its path.

        Returns:
            True if it is there.
        """
        return file.is_file()

    def read(self, file: Path) -> Any:
        """What a JSON file of the run holds.

        Args:
            file: its path.

        Returns:
            The value.

        Raises:
            RunError: the file is damaged.
        """
        return files.read_json(file)

    def _rows(self) -> Iterator[dict[str, Any]]:
        """The lines of `metrics.jsonl`, not checked."""
        for line in self.metrics_file.read_text(encoding="utf-8").splitlines():
            yield json.loads(line)

    @property
    def result(self) -> Result:
        """What `result.json` says."""
        if not self.done:
            raise RunError(f"{self.path} has no result.json: the run is not finished, train it to the end first")
        result = self.read(self.result_file)
        wrong = _wrong(result, ("metrics",), _RESULT)
        for part in ("metrics", "per_action"):
            values = {} if wrong else result.get(part, {})
            wrong = wrong or files.wrong_value(values, dict.fromkeys(values, NUMBER + NONE))
        table = {} if wrong else result.get("by_state", {})
        wrong = wrong or files.wrong_value(table, {"actions": LIST, "accuracy": LIST})
        odd = [] if wrong else [k for k in table.get("actions", []) if not isinstance(k, str)]
        wrong = wrong or (f"an action is {odd[0]!r:.60}" if odd else "")
        grids = {"angles": result.get("angles"), "accuracy": table.get("accuracy")} if not wrong else {}
        wrong = wrong or next((f"{k} is {v!r:.60}" for k, v in grids.items() if v is not None and not is_grid(v)), "")
        if wrong:
            raise RunError(f"{self.result_file} is not a run's result ({wrong}): remove it and train again")
        return Result(result)

    @property
    def header(self) -> dict[str, Any]:
        """What `config.json` says: config, seed, preset, and the world's facts."""
        if not self.has(self.config_file):
            raise RequestError(f"{self.path} is not a run directory: it has no config.json")
        header = self.read(self.config_file)
        wrong = _wrong(header, ("config", "seed", "world"), _HEADER) or _wrong(header["world"], ("name",), _FACTS)
        names = [] if wrong else header["world"].get("names", [])
        wrong = wrong or next((f"a name of a state is {name!r:.60}" for name in names if not isinstance(name, str)), "")
        if wrong:
            raise RunError(f"{self.config_file} is not a run's config ({wrong}): remove {self.path} and train again")
        return header

    @property
    def environment(self) -> dict[str, Any]:
        """What `env.json` says, or nothing before the run has started."""
        file = self.path / "env.json"
        environment = self.read(file) if self.has(file) else {}
        if wrong := _wrong(environment, (), _ENVIRONMENT):
            raise RunError(f"{file} does not describe a machine ({wrong}): remove it")
        return environment

    @property
    def config(self) -> Config:
        """The config that the run was trained with."""
        values = self.header["config"]
        try:
            return Config.from_dict(values)
        except RequestError as error:
            raise RunError(f"{self.config_file}: {error}") from None

    @property
    def world_path(self) -> str:
        """What opens the run's world: a name, or the path of its images when it was trained."""
        return self.header.get("world_path") or self.config.world

    @property
    def own_parts(self) -> dict[str, str]:
        """The paths of own code that the run uses, by kind of part."""
        return self.config.own_parts | ({"world": code} if (code := world_code(self.world_path)) else {})

    @property
    def metrics(self) -> list[dict[str, Any]]:
        """The epochs so far, one dictionary each."""
        if not self.has(self.metrics_file):
            return []
        rows = []
        try:
            for number, row in enumerate(self._rows(), 1):
                rows.append(row)
                if wrong := wrong_epoch(row):
                    raise ValueError(f"line {number}: {wrong}")
        except OSError as error:
            raise RunError(f"cannot read {self.metrics_file}: {error.strerror}") from None
        except (ValueError, RecursionError) as error:
            raise RunError(f"{self.metrics_file} is damaged ({error}): remove {self.path} and train again") from None
        return rows

    def write_metrics(self, rows: list[dict[str, Any]]) -> None:
        """Replace `metrics.jsonl` in one step.

        Args:
            rows: one dictionary per epoch.
        """
        text = "".join(json.dumps(row) + "\n" for row in rows)
        files.write_atomically(self.metrics_file, text.encode())

    @property
    def _lock(self) -> FileLock:
        return FileLock(self.state_file.parent / "lock", is_singleton=False)

    def make(self) -> None:
        """Make the directory.

        Raises:
            RunError: it cannot be written to.
        """
        try:
            self.state_file.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise RunError(f"cannot write to {self.path}: {error.strerror}; name another place with --out") from None

    @property
    def busy(self) -> bool:
        """Whether a process is using the run now."""
        if not self.state_file.parent.is_dir():
            return False
        lock = self._lock
        try:
            lock.acquire(timeout=0)
        except Timeout:
            return True
        lock.release()
        return False

    @contextmanager
    def claim(self) -> Iterator[None]:
        """Lock the run for this process, as a context manager.

        Returns:
            A context manager.

        Raises:
            RunError: another process holds it, or the directory cannot be written to.
        """
        self.make()
        lock = self._lock
        try:
            lock.acquire(timeout=1)  # `busy` may hold it for a moment
        except Timeout:
            raise RunError(
                f"{self.path} is being trained by another process: wait for it, or choose another --out"
            ) from None
        except OSError as error:
            raise RunError(f"cannot write to {self.path}: {error.strerror}; name another place with --out") from None
        try:
            for directory in (self.path, self.state_file.parent):
                files.remove_leftovers(directory)
            yield
        finally:
            lock.release()

    def check(self, header: dict[str, Any]) -> None:
        """Make sure that the directory does not hold another run.

        Args:
            header: parts of `config.json` that must be the same.

        Raises:
            RequestError: `config.json` exists and describes another run.
        """
        if self.config_file.is_file():
            here = self.header | {"config": self.config.to_dict()}  # with knobs added since
            for part, wanted in header.items():
                if here.get(part) != wanted:
                    difference = _difference(part, here.get(part), wanted)
                    raise RequestError(f"{self.path} holds another run ({difference}): choose another --out")


_HEADER: files.Kinds = {
    "config": TABLE, "seed": COUNT, "world": TABLE, "preset": TEXT + NONE, "base": TEXT + NONE, "world_path": TEXT,
    "own_code": TABLE,
}  # fmt: skip
_FACTS: files.Kinds = {
    "name": TEXT, "states": COUNT, "shape": LIST, "mean": LIST, "std": LIST, "group": TEXT, "images": TABLE,
    "names": LIST,
}  # fmt: skip
_RESULT: files.Kinds = {
    "metrics": TABLE, "per_action": TABLE, "seconds": NUMBER, "evaluation_seconds": NUMBER, "zero_shot_kind": TEXT,
    "chance": NUMBER, "angles": LIST + NONE, "by_state": TABLE, "retrieval": TABLE,
    "equivariance": TABLE, "evaluated": LIST,
}  # fmt: skip
_ENVIRONMENT: files.Kinds = {"precision": TEXT, "starts": LIST, "threads": COUNT, "processes": COUNT}
_ROW: files.Kinds = {
    "epoch": COUNT, "loss": NUMBER, "validation_loss": NUMBER, "seen": NUMBER + NONE, "zero_shot": NUMBER + NONE,
    "angles": LIST, "step": COUNT, "images_per_second": NUMBER, "variance": NUMBER, "latent_std": NUMBER,
    "latent_scale": NUMBER, "effective_rank": NUMBER,
}  # fmt: skip


def wrong_epoch(row: Any, *required: str) -> str:
    """What is wrong with a row of `metrics.jsonl`, in words; or nothing."""
    wrong = _wrong(row, required, _ROW)
    return wrong or ("" if is_grid(row.get("angles", [0])) else f"angles is {row['angles']!r:.60}")


def _wrong(value: Any, required: tuple[str, ...], kinds: files.Kinds) -> str:
    """What is wrong with a dictionary that was read, in words; or nothing."""
    if not isinstance(value, dict):
        return "no table of names and values"
    missing = [key for key in required if key not in value]
    return f"no {missing[0]}" if missing else files.wrong_value(value, kinds)


def _difference(part: str, here: Any, wanted: Any) -> str:
    if isinstance(here, dict) and isinstance(wanted, dict):
        name = next(key for key in {**here, **wanted} if here.get(key) != wanted.get(key))
        return f"{part} {name} is {here.get(name)} there and {wanted.get(name)} here"
    return f"{part} is {here} there and {wanted} here"
