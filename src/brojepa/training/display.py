"""What a run says while it trains: a table that grows by one row per epoch, or JSON lines.

On a terminal the row of the current epoch is rewritten in place as it goes; elsewhere only whole rows are printed.
"""

from __future__ import annotations

import json
import math
import sys
import time
from typing import Any, TextIO

from brojepa.algebra.modulus import SETTLED
from brojepa.runs import Run
from brojepa.text import actions_text, duration, fraction
from brojepa.training.callbacks import Callback, Progress
from brojepa.worlds.pictures import cycle_line


class JsonLines(Callback):
    """One JSON object per line on stdout: every epoch, then the result."""

    def epoch(self, training: Progress, row: dict[str, Any]) -> None:
        print(json.dumps(row), flush=True)

    def end(self, training: Progress, result: dict[str, Any]) -> None:
        print(json.dumps(result), flush=True)

    def found_done(self, run: Run) -> None:
        print(json.dumps(run.result), flush=True)


class LiveTable(Callback):
    """The live table, and at the end what was learned in words."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self.stream = stream or sys.stdout
        self.live = self.stream.isatty()
        self.shown = 0.0
        self.began, self.began_at = time.monotonic(), 0
        self.terms: list[str] | None = None

    def say(self, text: str) -> None:
        """Print a line of its own."""
        print(f"\r\x1b[K{text}" if self.live else text, file=self.stream, flush=True)

    def _passing(self, text: str) -> None:
        if self.live:
            print(f"\r\x1b[K{text}", end="", file=self.stream, flush=True)

    def begin(self, training: Progress, resumed: bool) -> None:
        config, world = training.config, training.world
        parameters = sum(p.numel() for p in training.model.parameters() if p.requires_grad)
        count = f"{len(training.transitions) // config.repeat:,} images"
        images = f"{count} of {world.n} states" if world.n else f"{count} of things in poses of {world.group}"
        changed = f"{config.hash} ({training.base}, changed)" if training.base else config.hash
        self.say(f"{training.preset or changed} seed {training.seed}: {world.title}, {images}")
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
        self.terms = None
        self.began, self.began_at = time.monotonic(), training.epoch * training.steps + training.step

    def _left(self, training: Progress) -> str:
        done = training.epoch * training.steps + training.step
        total = training.config.epochs * training.steps
        seconds = (time.monotonic() - self.began) * (total - done) / max(done - self.began_at, 1)
        return duration(seconds)

    def _head(self, training: Progress) -> list[str]:
        """The terms of the loss that have a column; the first time, the head of the table is printed."""
        if self.terms is None:
            self.terms = [name for name in training.term_names if name not in ("loss", "probe")]
            short = [name if len(name) < 7 else name[:3] for name in self.terms]
            heads = ["epoch", "loss", *short, "val loss", "seen", "zero-shot", "images/s", "left"]
            self.say("  ".join(f"{h:>9}" for h in heads))
        return self.terms

    def step(self, training: Progress) -> None:
        self._head(training)
        now = time.monotonic()
        if self.live and now - self.shown > 0.5:
            self.shown = now
            share = training.step / training.steps
            self._passing(
                f"{training.epoch + 1:>5}/{training.config.epochs:<3}  {share:>4.0%}   {self._left(training)} left"
            )

    def epoch(self, training: Progress, row: dict[str, Any]) -> None:
        values = [f"{row['epoch']}/{training.config.epochs}", f"{row['loss']:.4f}"]
        values += [f"{row[name]:.4f}" for name in self._head(training)]
        values += [f"{row['validation_loss']:.4f}", fraction(row["seen"]), fraction(row["zero_shot"])]
        values += [f"{row['images_per_second']:,.0f}", self._left(training)]
        self.say("  ".join(f"{v:>9}" for v in values))

    def warning(self, text: str) -> None:
        self.say(f"warning: {text}")

    def evaluate(self, training: Progress) -> None:
        self._passing("evaluating on the test split")

    def end(self, training: Progress, result: dict[str, Any]) -> None:
        self.say("")
        self.say(f"trained in {duration(result['seconds'])}, kept epoch {result['kept_epoch']}; accuracy:")
        for line in accuracies(result):
            self.say(line)
        if training.model.action.learned_angles:
            self.say(angles_text(result["angles"], training.world.group))
        self.say(f"{training.run.path}")

    def found_done(self, run: Run) -> None:
        metrics = run.result["metrics"]
        values = ", ".join(f"{name} {fraction(value)}" for name, value in metrics.items())
        self.say(f"{run.path} is finished: {values}")


def accuracies(result: dict[str, Any]) -> list[str]:
    """The accuracies, one per line, with what each was measured on; in a world of poses, retrieval and its errors."""
    kind = result["zero_shot_kind"]
    why = {"strict": "never given to the latent action in training", "weak": "used by an auxiliary loss in training"}
    notes = {
        "train": "training images, training actions",
        "seen": "test images, training actions",
        "zero_shot": f"test images, held-out actions; {kind}: {why.get(kind)}",
        "rollout": "the same by repeating a training action",
        "knn": "the same read by 20 nearest neighbours instead of the probe",
    }
    rows = [(name.replace("_", "-"), value, notes.get(name, "")) for name, value in result["metrics"].items()]
    rows.append(("chance", result.get("chance"), ""))
    lines = [f"  {name:<10} {value:.4f}  {note}".rstrip() for name, value, note in rows if value is not None]
    found = result.get("retrieval")
    if not found:
        return lines
    lines.append(f"  (the true next image found first among {found['candidates']} candidates)")
    for name in ("seen", "zero_shot", "on_grid", "off_grid", "ceiling"):
        if found.get(name):
            mrr, median, mean = (found[name][key] for key in ("mrr", "median_error", "mean_error"))
            where = f"{'pixels' if name == 'ceiling' else name.replace('_', '-'):<10}"
            lines.append(f"  {where} MRR {mrr:.4f}, error of the pose found: median {median:.4g}, mean {mean:.4g}")
    return lines


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
