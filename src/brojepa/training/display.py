"""The output of a run while it trains: a table that grows by one row per epoch, or JSON lines.

On a terminal or in a notebook a bar below the table shows progress, evaluation included; elsewhere only
whole rows are printed.
"""

from __future__ import annotations

import json
import math
import time
from typing import Any, TextIO

from brojepa.algebra.modulus import SETTLED
from brojepa.runs import Run
from brojepa.runs.result import accuracies
from brojepa.text import actions_text, duration, fraction
from brojepa.training.callbacks import Callback, Progress
from brojepa.training.screen import EVERY, bar, screen
from brojepa.worlds.pictures import cycle_line


class JsonLines(Callback):
    """Prints one JSON object per line: every epoch, then the result.

    Examples:
        >>> import brojepa
        >>> brojepa.JsonLines().epoch(None, {"epoch": 1, "loss": 0.5})
        {"epoch": 1, "loss": 0.5}
    """

    def epoch(self, training: Progress, row: dict[str, Any]) -> None:
        print(json.dumps(row), flush=True)

    def end(self, training: Progress, result: dict[str, Any]) -> None:
        print(json.dumps(result), flush=True)

    def found_done(self, run: Run) -> None:
        print(json.dumps(run.result), flush=True)


class LiveTable(Callback):
    """Shows a table that grows by one row per epoch, and the results at the end.

    It fits the terminal, or 80 columns elsewhere. Columns that do not fit are left out; `metrics.jsonl` has all of
    them.

    Args:
        stream: where to print; default stdout.

    Examples:
        >>> import brojepa, io
        >>> stream = io.StringIO()
        >>> brojepa.LiveTable(stream).say("hello")
        >>> stream.getvalue()
        'hello\\n'
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        self.screen = screen(stream)
        self.shown = 0.0
        self.began, self.began_at = time.monotonic(), 0
        self.evaluation, self.evaluation_began = 0.0, 0.0  # how long it will take in seconds, and when it began
        self.columns: dict[str, int] | None = None

    def say(self, text: str, look: str = "", indent: int = 2) -> None:
        """Print a line of its own.

        Args:
            text: the line.
            look: a style, such as "bold".
            indent: spaces before continuation lines.
        """
        self.screen.line(text, look, indent)

    def begin(self, training: Progress, resumed: bool) -> None:
        config, world = training.config, training.world
        parameters = sum(p.numel() for p in training.model.parameters() if p.requires_grad)
        count = f"{training.transitions.images // config.repeat:,} images"
        images = f"{count} of {world.n} states" if world.n else f"{count} of things in poses of {world.group}"
        changed = f"{config.hash} ({training.base}, changed)" if training.base else config.hash
        self.say(f"{training.preset or changed} seed {training.seed}: {world.title}, {images}", "bold")
        for note in world.notes:
            self.say(f"note: {note}")
        if world.plain and "names" in world.source:
            self.say(cycle_line(world.source["names"]))
        self.say(
            f"{config.method} {config.encoder} {config.action}, {parameters:,} parameters, on {training.placement}"
        )
        self.say(
            f"training on {actions_text(training.train_actions, world.group)}; "
            f"held out {actions_text(training.test_actions, world.group)}"
        )
        if training.why:
            self.say(f"chosen for these images: {training.why}")
        if resumed:
            self.say(f"resuming at epoch {training.epoch + 1}, step {training.step + 1}")
        self.columns = None
        self.evaluation = training.evaluation_seconds  # it samples the evaluation, so call it before the clock starts
        self.began, self.began_at = time.monotonic(), training.epoch * training.steps + training.step

    def _left(self, training: Progress) -> tuple[float, float]:
        """The seconds left of training and evaluation, and the share that is done."""
        done = training.epoch * training.steps + training.step
        total = training.config.epochs * training.steps
        each = (time.monotonic() - self.began) / max(done - self.began_at, 1)
        whole = each * total + self.evaluation
        return whole - each * done, each * done / max(whole, 1e-9)

    def _head(self, training: Progress) -> dict[str, int]:
        """The columns and their widths; the first time, the head of the table is printed."""
        if self.columns is None:
            terms = [name for name in training.term_names if name not in ("loss", "probe")]
            epochs = training.config.epochs
            widths = {"epoch": max(7, len(f"{epochs}/{epochs}")), "loss": 7, **dict.fromkeys(terms, 6)}
            widths |= {"validation_loss": 8, "seen": 6, "zero_shot": 9, "left": 8, "images_per_second": 8}
            for name in ("images_per_second", *reversed(terms), "left"):
                if sum(widths.values()) + 2 * len(widths) - 2 > self.screen.columns:
                    del widths[name]
            names = {"validation_loss": "val loss", "zero_shot": "zero-shot", "images_per_second": "images/s"}
            names |= {name: name if len(name) <= 6 else name[:3] for name in terms}
            self.columns = widths
            self._row({name: names.get(name, name) for name in widths}, "dim")
        return self.columns

    def _row(self, values: dict[str, str], look: str = "") -> None:
        assert self.columns is not None
        self.say("  ".join(f"{values[name]:>{width}}" for name, width in self.columns.items()), look)

    def step(self, training: Progress) -> None:
        self._head(training)
        now = time.monotonic()
        if self.screen.live and now - self.shown > EVERY:
            self.shown = now
            left, share = self._left(training)
            done = training.epoch * training.steps + training.step - self.began_at
            rate = done * training.batch_size / max(now - self.began, 1e-9)
            label = f"{training.epoch + 1:>3}/{training.config.epochs:<3}"
            notes = [f"{rate:,.0f} images/s", f"loss {training.loss:.4g}", f"{duration(left)} left"]
            self.screen.passing(bar(self.screen, label, share, notes), "cyan")

    def epoch(self, training: Progress, row: dict[str, Any]) -> None:
        columns, (left, _) = self._head(training), self._left(training)
        values = {name: _short(row[name]) for name in columns if isinstance(row.get(name), float)}
        values |= {"seen": fraction(row["seen"]), "zero_shot": fraction(row["zero_shot"])}
        values |= {"epoch": f"{row['epoch']}/{training.config.epochs}", "left": _about(left)}
        self._row({**values, "images_per_second": f"{row['images_per_second']:,.0f}"})

    def warning(self, text: str) -> None:
        self.say(f"warning: {text}", "yellow")

    def hint(self, text: str) -> None:
        self.say(f"hint: {text}")

    def evaluate(self, training: Progress) -> None:
        text = f"evaluating on the test split{f', about {_about(self.evaluation)}' if self.evaluation >= 1 else ''}"
        self.evaluation_began = time.monotonic()
        if self.screen.live:
            self.screen.passing(text, "cyan")
        else:
            self.say(text)

    def evaluated(self, training: Progress, share: float) -> None:
        now = time.monotonic()
        if self.screen.live and now - self.shown > EVERY:
            self.shown = now
            trained, taken = self.evaluation_began - self.began, now - self.evaluation_began
            left = taken * (1 - share) / share if share > 0.1 else self.evaluation * (1 - share)
            whole = (trained + share * self.evaluation) / (trained + self.evaluation)
            self.screen.passing(bar(self.screen, "evaluating", whole, [f"{duration(left)} left"]), "cyan")

    def end(self, training: Progress, result: dict[str, Any]) -> None:
        self.say("")
        rate = f"{result['images_per_second']:,.0f} images/s"
        self.say(f"trained in {duration(result['seconds'])} ({rate}), kept epoch {result['kept_epoch']}; accuracy:")
        for line in accuracies(result):
            self.say(line, "green" if line.startswith("  zero-shot ") else "", indent=21)
        if training.model.action.learned_angles:
            self.say(angles_text(result["angles"], training.world.group))
        self.say(f"{training.run.path}", "dim")

    def found_done(self, run: Run) -> None:
        metrics = run.result["metrics"]
        values = ", ".join(f"{name} {fraction(value)}" for name, value in metrics.items())
        self.say(f"{run.path} is finished: {values}")


def _short(value: float) -> str:
    """A number in about six characters."""
    return f"{value:.4f}" if abs(value) < 100 else f"{value:.4g}"


def _about(seconds: float) -> str:
    """A duration in eight characters."""
    if not seconds < 3600:
        return f"{seconds / 3600:.1f} h"
    return f"{seconds:.0f} s" if seconds < 60 else f"{seconds / 60:.1f} min"


def angles_text(angles: list, group: Any) -> str:
    """How near learned angles lie to multiples of 2 pi / n, for each factor of a torus.

    Any angle is within half the gap of a multiple, so distances are shares of that: near is a tenth or less.
    """
    rows = [a if isinstance(a, list) else [a] for a in angles]
    lines = []
    for n, column in zip(group.periods, zip(*rows, strict=True), strict=True):
        unit = 2 * math.pi / n
        off = [abs(a - unit * round(a / unit)) for a in column]
        harmonics = sorted({round(a / unit) % n for a in column})
        near = sum(o <= SETTLED * unit / 2 for o in off)
        what = f"{near} of {len(column)} angles near a multiple of 2π/{n}"
        what += f" (largest distance {max(off):.4f}, {max(off) / (unit / 2):.4f} of half the gap)"
        lines.append(f"{what}; multiples {', '.join(map(str, harmonics))}")
    return "\n".join(lines)
