"""Trackers: log a run to TensorBoard, Weights & Biases or Trackio as it trains.

Each gets the config, every epoch's row, the learned angles as a histogram, the final metrics, and pictures if it is
given a function that draws them. A tracker that fails warns once, and the run goes on without it.
"""

from __future__ import annotations

import contextlib
import io
import json
import netrc
import os
import uuid
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from brojepa.errors import RequestError, unknown
from brojepa.files import read_json, write_json
from brojepa.parts import reason
from brojepa.runs import Run
from brojepa.training.callbacks import Callback, Progress

PROJECT = "brojepa"
FILE = "tracking.json"  # in a run directory: the id under which trackers know the run, and which trackers do

Pictures = Callable[[Run], Mapping[str, bytes]]
"""Pictures of a finished run by name, each as PNG."""


class Tracker(Callback):
    """Logs a run to a tracker. For a tracker of your own, define `open`, `log`, `end_with` and `shut`.

    Args:
        pictures: draws a finished run; the pictures are logged at its end.

    Raises:
        RequestError: the tracker's package is not installed.

    Examples:
        >>> import brojepa
        >>> class Printed(brojepa.Tracker):
        ...     name = "printed"
        ...     def log(self, step, numbers, angles):
        ...         print(step, numbers["zero_shot"])
        >>> Printed().log(1, {"zero_shot": 0.98}, None)
        1 0.98
    """

    name = "tracker"
    package = "torch"
    """What is imported; it must be there when the tracker is made."""

    def __init__(self, pictures: Pictures | None = None) -> None:
        self.pictures, self.training, self.failed = pictures, None, False
        try:
            self.api: Any = import_module(self.package)
        except ImportError as error:
            why = "which is not installed" if isinstance(error, ModuleNotFoundError) else reason(error)
            raise RequestError(f"--track {self.name} needs {self.name}, {why}: {self.install}") from None

    @property
    def install(self) -> str:
        """The command that installs it."""
        return f"pip install 'brojepa[{self.name}]'"

    # A subclass defines these

    def open(self, training: Progress, identity: str, resumed: bool) -> None:
        """Begin a tracked run, or continue the one with this identity.

        Args:
            training: the run.
            identity: what the tracker knows the run by.
            resumed: whether it is known already.
        """
        raise NotImplementedError

    def log(self, step: int, numbers: Mapping[str, float], angles: np.ndarray | None) -> None:
        """Log an epoch.

        Args:
            step: the epoch.
            numbers: its numbers by name.
            angles: the learned angles, or None.
        """
        raise NotImplementedError

    def end_with(self, step: int, numbers: Mapping[str, float], pictures: Mapping[str, Image.Image]) -> None:
        """Log the final metrics.

        Args:
            step: the last epoch.
            numbers: the metrics by name.
            pictures: pictures by name.
        """
        raise NotImplementedError

    def shut(self) -> None:
        """Write what is left."""

    # Events of the run

    def begin(self, training: Progress, resumed: bool) -> None:
        self.training = training
        self._try(self._begin, training, resumed)

    def _begin(self, training: Progress, resumed: bool) -> None:
        identity, known = _identity(training.run, self.name)
        self.open(training, identity, known)
        for row in () if known else training.rows:  # epochs from before it was tracked
            self._log(row)

    def epoch(self, training: Progress, row: dict[str, Any]) -> None:
        self._try(self._log, row)

    def _log(self, row: dict[str, Any]) -> None:
        plain = {name: value for name, value in row.items() if name != "step"}  # a name that trackers reserve
        numbers = {name: float(value) for name, value in plain.items() if isinstance(value, (int, float))}
        angles = np.array(row["angles"], float).ravel() if "angles" in row else None
        self.log(row["epoch"], numbers, angles)

    def end(self, training: Progress, result: dict[str, Any]) -> None:
        self._try(self._end, training, result)

    def _end(self, training: Progress, result: dict[str, Any]) -> None:
        numbers = {f"test/{name}": value for name, value in result["metrics"].items() if value is not None}
        drawn = self.pictures(training.run) if self.pictures else {}
        self.end_with(result["epochs"], numbers, {name: Image.open(io.BytesIO(png)) for name, png in drawn.items()})

    def close(self) -> None:
        if self.training is not None:
            self._try(self.shut)
        self.training = None

    def _try(self, work: Callable[..., None], *arguments: Any) -> None:
        """Do something that may fail; report a failure once, and skip the rest."""
        if self.failed:
            return
        try:
            work(*arguments)
        except Exception as error:  # anything can fail: a full disk, no network, another version
            self.failed = True
            assert self.training is not None
            self.training.callbacks.warning(f"{self.name} failed ({reason(error):.200}): the run goes on without it")


class TensorBoard(Tracker):
    """Event files in the run directory: `tensorboard --logdir runs` shows all runs there."""

    name, package = "tensorboard", "torch.utils.tensorboard"
    writer: Any = None

    def open(self, training: Progress, identity: str, resumed: bool) -> None:
        where = training.run.path / "tensorboard"
        self.writer = self.api.SummaryWriter(str(where), purge_step=training.epoch + 1 if resumed else None)
        self.config = {name: _plain(value) for name, value in _config(training).items()}
        if not resumed:
            rows = "\n".join(f"| {name} | {value} |" for name, value in self.config.items())
            self.writer.add_text("config", f"| knob | value |\n|---|---|\n{rows}", 0)

    def log(self, step: int, numbers: Mapping[str, float], angles: np.ndarray | None) -> None:
        for name, value in numbers.items():
            self.writer.add_scalar(name, value, step)
        if angles is not None:
            self.writer.add_histogram("angles", angles, step)
        self.writer.flush()

    def end_with(self, step: int, numbers: Mapping[str, float], pictures: Mapping[str, Image.Image]) -> None:
        self.writer.add_hparams(self.config, dict(numbers), run_name=".", global_step=step)
        for name, picture in pictures.items():
            self.writer.add_image(name, np.asarray(picture.convert("RGB")), step, dataformats="HWC")

    def shut(self) -> None:
        if self.writer is not None:
            self.writer.close()


class WandB(Tracker):
    """Weights & Biases; without a key offline, in the run directory: `wandb sync` uploads it later."""

    name = package = "wandb"
    run: Any = None

    def open(self, training: Progress, identity: str, resumed: bool) -> None:
        mode = None if "WANDB_MODE" in os.environ or _has_key() else "offline"
        settings = self.api.Settings(silent=True, console="off", disable_git=True)
        self.run = self.api.init(
            project=os.environ.get("WANDB_PROJECT", PROJECT), name=_title(training), id=identity, resume="allow",
            dir=str(training.run.path), config=_config(training), mode=mode, settings=settings,
        )  # fmt: skip

    def log(self, step: int, numbers: Mapping[str, float], angles: np.ndarray | None) -> None:
        more = {} if angles is None else {"angles": self.api.Histogram(angles)}
        self.run.log({**numbers, **more}, step=step)

    def end_with(self, step: int, numbers: Mapping[str, float], pictures: Mapping[str, Image.Image]) -> None:
        shown = {name: self.api.Image(picture) for name, picture in pictures.items()}
        self.run.log({**numbers, **shown}, step=step + 1)
        self.run.summary.update(dict(numbers))

    def shut(self) -> None:
        if self.run is not None:
            self.run.finish()


class Trackio(Tracker):
    """Trackio's local database, in TRACKIO_DIR or its default place: `trackio show` opens it."""

    name = package = "trackio"
    run: Any = None

    def open(self, training: Progress, identity: str, resumed: bool) -> None:
        with contextlib.redirect_stdout(io.StringIO()):  # it prints, and stdout may be read by a program
            self.run = self.api.init(
                project=os.environ.get("TRACKIO_PROJECT", PROJECT), name=f"{_title(training)} {identity}",
                resume="allow", config={name: _plain(value) for name, value in _config(training).items()}, embed=False,
            )  # fmt: skip

    def log(self, step: int, numbers: Mapping[str, float], angles: np.ndarray | None) -> None:
        more = {} if angles is None else {"angles": self.api.Histogram(angles)}
        self.run.log({**numbers, **more}, step=step)

    def end_with(self, step: int, numbers: Mapping[str, float], pictures: Mapping[str, Image.Image]) -> None:
        shown = {name: self.api.Image(picture) for name, picture in pictures.items()}
        self.run.log({**numbers, **shown}, step=step)

    def shut(self) -> None:
        if self.run is not None:
            with contextlib.redirect_stdout(io.StringIO()):
                self.api.finish()


TRACKERS: dict[str, type[Tracker]] = {"tensorboard": TensorBoard, "wandb": WandB, "trackio": Trackio}


def trackers(names: str | Iterable[str], pictures: Pictures | None = None) -> list[Tracker]:
    """Callbacks that log to trackers.

    Args:
        names: "tensorboard", "wandb", "trackio", or several, separated by commas or as a list.
        pictures: draws a finished run as PNGs by name, such as `brojepa.pictures`.

    Returns:
        One callback per tracker.

    Raises:
        RequestError: an unknown tracker, or one that is not installed.

    Examples:
        >>> import brojepa
        >>> try:
        ...     brojepa.trackers("tensorbord")
        ... except brojepa.BrojepaError as error:
        ...     print(error)
        unknown tracker 'tensorbord': did you mean tensorboard?
    """
    texts = [names] if isinstance(names, str) else list(names)
    wanted = dict.fromkeys(word.strip() for text in texts for word in text.split(","))
    for name in wanted:
        if name not in TRACKERS:
            raise unknown("tracker", name, TRACKERS)
    return [TRACKERS[name](pictures) for name in wanted]


def _identity(run: Run, name: str) -> tuple[str, bool]:
    """The id under which trackers know a run, and whether this one does already; kept in the run directory."""
    file = run.path / FILE
    known = read_json(file) if file.is_file() else {}
    identity, names = str(known.get("id") or uuid.uuid4().hex[:10]), list(known.get("trackers") or ())
    if name not in names:
        write_json(file, {"id": identity, "trackers": [*names, name]})
    return identity, name in names


def _title(training: Progress) -> str:
    return f"{training.preset or training.config.hash} seed {training.seed}"


def _config(training: Progress) -> dict[str, Any]:
    """The config, and what else determines a run."""
    more = {"preset": training.preset, "base": training.base, "seed": training.seed, "hash": training.config.hash}
    return {**training.config.to_dict(), **more, "states": training.world.n, "group": str(training.world.group)}


def _plain(value: Any) -> Any:
    """A value as every tracker takes it."""
    return value if isinstance(value, (bool, int, float, str)) else json.dumps(value)


def _has_key() -> bool:
    """Whether this machine has a key for Weights & Biases."""
    if os.environ.get("WANDB_API_KEY"):
        return True
    host = os.environ.get("WANDB_BASE_URL", "https://api.wandb.ai").partition("//")[2].strip("/")
    file = Path(os.environ.get("NETRC", "~/.netrc")).expanduser()
    try:
        return file.is_file() and host in netrc.netrc(str(file)).hosts
    except (netrc.NetrcParseError, OSError):
        return False
