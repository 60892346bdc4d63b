"""The four reports: lines beside the paper's rows, single runs, accuracy per action, and two lines compared."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from brojepa.report.actions import in_order
from brojepa.report.records import FOUND, METRICS, Record, as_row, describe_changes
from brojepa.report.render import NOTHING, Grid, View, number, plus_minus, signed
from brojepa.report.rows import AgainstPaper, Line, Section, departures
from brojepa.report.statistics import CONFIDENCE, Paired, Summary, summarise
from brojepa.text import listed

MARKS = {"within": "=", "above": "↑", "below": "↓", None: ""}
TITLES = {
    "zero_shot": "zero-shot", "knn": "k-NN", "hit5": "hit@5", "mrr": "MRR", "median_error": "median error",
    "pre": "PRE", "r2_linear": "R2", "r2_two_layer": "R2, two layers", "d_lsbd": "D_LSBD", "error_ratio": "error ratio",
}  # fmt: skip
TRAINED = {True: " *", False: "", None: " ?"}
SIDE_BY_SIDE = 5  # lines in one grid of accuracies per action
INTERVAL = f"{CONFIDENCE:.0%}".replace("%", " %")


@dataclass(frozen=True)
class Table(View):
    """Mean and standard deviation over seeds, beside the paper's."""

    sections: list[Section]
    intervals: bool = False
    remarks: list[str] = field(default_factory=list)
    within: int | None = None

    @property
    def legend(self) -> str:
        ours = f"Mean [{INTERVAL} interval of the mean]" if self.intervals else "Mean ± sample standard deviation"
        return (
            f"{ours} over seeds; = our mean is within the paper's standard deviation, ↑ above it, ↓ below it. "
            "Epochs in brackets are the paper's."
        )

    def grids(self, long_names: bool = False) -> list[Grid]:
        return [grid for section in self.sections for grid in self._of_section(section, long_names)]

    def _of_section(self, section: Section, long_names: bool) -> list[Grid]:
        """Two grids, to fit a screen: seen and zero-shot, then the rest, which is not known `within` some actions; and
        a third of what retrieval and latents show, where that was measured."""
        first, second = ("seen", "zero_shot"), ("train", "rollout", "knn")
        headline: list[list[str] | str] = []
        others: list[list[str] | str] = []
        family, paper = None, any(line.paper for line in section.lines)
        for line in section.lines:
            if line.family != family:
                family = line.family
                headline.append(family)
                others.append(family)
            name = line.method if long_names else line.label
            kind = line.distinct("zero_shot_kind") or NOTHING
            headline.append([name, str(len(line.records)), _epochs(line), *self._cells(line, first, paper), kind])
            others.append([name, *self._cells(line, second, paper)])
        title, notes = section.heading, _notes(section.lines)
        header = ["row", "seeds", "epochs", *_columns(first, paper), "kind"]
        if self.within is not None:
            return [Grid(f"{title}, zero-shot over actions up to ±{self.within}", header, headline, notes)]
        grids = [Grid(title, header, headline, notes)]
        if any(line.against_paper(metric).ours for line in section.lines for metric in second) or paper:
            grids.append(Grid(f"{section.title}, the other metrics", ["row", *_columns(second, paper)], others))
        names = [name for name in FOUND if any(found(line, name) for line in section.lines)]
        if names:
            cells: list[list[str] | str] = [
                [line.method if long_names else line.label, *(self._ours(found(line, name)) for name in names)]
                for line in section.lines
            ]
            header = ["row", *(TITLES.get(name, name) for name in names)]
            grids.append(Grid(f"{section.title}, retrieval and latents", header, cells))
        return grids

    def _cells(self, line: Line, metrics: tuple[str, ...], with_paper: bool) -> list[str]:
        cells = []
        for metric in map(line.against_paper, metrics):
            ours = f"{self._ours(metric.ours)} {MARKS[metric.verdict]}".rstrip() if line.records else "no runs"
            cells.append(ours)
            if with_paper:
                cells.append(plus_minus(*metric.paper) if metric.paper else NOTHING)
        return cells

    def _ours(self, ours: Summary | None) -> str:
        if ours and self.intervals and ours.low is not None:
            return f"{number(ours.mean)} [{number(ours.low)}, {number(ours.high)}]"
        return plus_minus(ours.mean, ours.std) if ours else NOTHING

    def rows(self) -> list[dict[str, Any]]:
        return [self._row(section, line) for section in self.sections for line in section.lines]

    def _row(self, section: Section, line: Line) -> dict[str, Any]:
        values: dict[str, Any] = {
            "world": line.world,
            "chance": section.chance,
            "family": line.family,
            "row": line.name,
            "method": line.paper.method if line.paper else None,
            "config_hash": line.config_hash,
            "changes": describe_changes(line.changes),
            "preset_departs": describe_changes(departures(line.name)),
            "n": len(line.records),
            "seeds": line.seeds,
            "epochs": line.records[0].epochs if line.records else None,
            "paper_epochs": line.paper.epochs if line.paper else None,
            "split": line.split,
            "zero_shot_kind": line.distinct("zero_shot_kind") or None,
        }
        for metric in METRICS:
            values |= {f"{metric}{part}": value for part, value in _parts(line.against_paper(metric)).items()}
        for name in FOUND:
            ours = found(line, name)
            values |= {name: ours.mean if ours else None, f"{name}_std": ours.std if ours else None}
        return values | {"notes": line.notes()}


def found(line: Line, name: str) -> Summary | None:
    """One of FOUND over the runs of a line; None where a run does not have it."""
    values = [(record.found or {}).get(name) for record in line.records]
    known = [value for value in values if value is not None]
    return summarise(known) if known and len(known) == len(values) else None


def _parts(metric: AgainstPaper) -> dict[str, Any]:
    ours, paper = metric.ours, metric.paper
    return {
        "": ours.mean if ours else None,
        "_std": ours.std if ours else None,
        "_low": ours.low if ours else None,
        "_high": ours.high if ours else None,
        "_paper": paper[0] if paper else None,
        "_paper_std": paper[1] if paper else None,
        "_difference": metric.difference,
        "_verdict": metric.verdict,
    }


def _columns(metrics: tuple[str, ...], with_paper: bool) -> list[str]:
    return [title for m in metrics for title in (TITLES.get(m, m), *(["paper"] if with_paper else []))]


def _epochs(line: Line) -> str:
    epochs = line.distinct("epochs") or NOTHING
    same = not line.paper or epochs in (NOTHING, str(line.paper.epochs))
    return epochs if same else f"{epochs} ({line.paper.epochs})"  # pyright: ignore[reportOptionalMemberAccess]


def _notes(lines: list[Line]) -> list[str]:
    """What the rows do not show, each after the presets it is about: how these differ from the
    paper's protocol, and another split."""
    about: dict[str, list[str]] = {}
    shown = [line for line in lines if line.records]
    for line in shown:
        name, notes = line.name.removeprefix(f"{line.world}/"), []
        if line.split not in (None, "official"):
            notes.append(f"{line.split} EMNIST split, the official one in the paper")
        if line.leads and line.departs:
            notes.append(f"preset departs from the paper's plain protocol: {describe_changes(line.departs)}")
        if not line.paper and line.leads and line.records[0].config.target == "relaxed":
            notes.append("relaxed targets")
        for note in notes:
            about.setdefault(note, []).append(name)
    every = len(shown)
    return [f"{listed(dict.fromkeys(r)) if len(r) < every else 'all rows'}: {note}" for note, r in about.items()]


@dataclass(frozen=True)
class Runs(View):
    """One line per run. Markdown and LaTeX show the columns that tell runs apart; CSV and JSON show all."""

    sections: list[Section]
    remarks: list[str] = field(default_factory=list)

    def grids(self, long_names: bool = False) -> list[Grid]:
        header = ["row", "seed", "epochs", "kept", "kind", *(TITLES.get(m, m) for m in METRICS), "minutes", "images/s"]
        grids = []
        for section in self.sections:
            rows: list[list[str] | str] = []
            for line in section.lines:
                rows += [[line.label, *_of_run(record)] for record in line.records]
            grids.append(Grid(section.heading, header, rows))
        return grids

    def rows(self) -> list[dict[str, Any]]:
        return [as_row(record) for section in self.sections for line in section.lines for record in line.records]


def _of_run(record: Record) -> list[str]:
    minutes = None if record.seconds is None else record.seconds / 60
    speed = NOTHING if record.images_per_second is None else f"{record.images_per_second:,.0f}"
    kept = NOTHING if record.kept_epoch is None else str(record.kept_epoch)
    return [
        str(record.seed), str(record.epochs), kept, record.zero_shot_kind,
        *map(number, record.metrics), number(minutes, 1), speed,
    ]  # fmt: skip


@dataclass(frozen=True)
class PerAction(View):
    """Accuracy of each action over seeds, for the lines that have it."""

    sections: list[Section]
    remarks: list[str] = field(default_factory=list)

    @property
    def legend(self) -> str:
        unknown = any(row["trained"] is None for row in self.rows())
        return "Mean ± sample standard deviation over seeds; * trained on" + (", ? not known." if unknown else ".")

    def grids(self, long_names: bool = False) -> list[Grid]:
        grids = []
        for section in self.sections:
            for i in range(0, len(section.lines), SIDE_BY_SIDE):
                lines = section.lines[i : i + SIDE_BY_SIDE]
                tables = [{row["action"]: row for row in _by_action(line)} for line in lines]
                actions = in_order(action for table in tables for action in table)
                rows: list[list[str] | str] = [[a, *(_accuracy(table.get(a)) for table in tables)] for a in actions]
                grids.append(Grid(f"{section.title}, per action", ["action", *(line.label for line in lines)], rows))
        return grids

    def rows(self) -> list[dict[str, Any]]:
        return [row for section in self.sections for line in section.lines for row in _by_action(line)]


def _accuracy(row: dict[str, Any] | None) -> str:
    return plus_minus(row["mean"], row["std"]) + TRAINED[row["trained"]] if row else NOTHING


def _by_action(line: Line) -> list[dict[str, Any]]:
    """One row per action, over the runs that measured it."""
    tables = [record.per_action for record in line.records if record.per_action]
    rows = []
    for action in in_order(action for table in tables for action in table):
        summary = summarise([table[action] for table in tables if action in table])
        rows.append({
            "world": line.world, "row": line.name, "config_hash": line.config_hash, "split": line.split,
            "action": action, "trained": line.records[0].trained_on(action), **vars(summary),
        })  # fmt: skip
    return rows


@dataclass(frozen=True)
class Comparison(View):
    """Two lines at the seeds they share, metric by metric: a less b."""

    a: str
    b: str
    seeds: list[int]
    means: dict[str, tuple[float, float]]
    metrics: dict[str, Paired]
    remarks: list[str] = field(default_factory=list)

    @property
    def legend(self) -> str:
        return (
            "diff is the mean over seeds of the first less the second, std the sample standard deviation of the "
            "differences; p is two-sided: paired t-test, and all flips of the signs of the differences."
        )

    def grids(self, long_names: bool = False) -> list[Grid]:
        header = ["metric", "first", "second", "diff", "std", f"{INTERVAL} interval", "p (t)", "p (flips)"]
        rows: list[list[str] | str] = []
        for metric, found in self.metrics.items():
            gap = found.difference
            bounds = f"[{signed(gap.low)}, {signed(gap.high)}]"
            rows.append([
                TITLES.get(metric, metric), *map(number, self.means[metric]), signed(gap.mean), number(gap.std),
                bounds, _p(found.t_test), _p(found.sign_flip),
            ])  # fmt: skip
        seeds = ", ".join(map(str, self.seeds))
        return [Grid(f"{self.a} less {self.b}, {len(self.seeds)} shared seeds: {seeds}", header, rows)]

    def rows(self) -> list[dict[str, Any]]:
        return [
            {
                "metric": metric, "first": self.a, "second": self.b, "seeds": self.seeds,
                "first_mean": self.means[metric][0], "second_mean": self.means[metric][1],
                "difference": found.difference.mean, "std": found.difference.std,
                "low": found.difference.low, "high": found.difference.high,
                "p_t_test": found.t_test, "p_sign_flip": found.sign_flip,
            }
            for metric, found in self.metrics.items()
        ]  # fmt: skip


def _p(value: float | None) -> str:
    if value is None:
        return NOTHING
    return f"{value:.4f}" if value >= 0.0001 else f"{value:.1e}"
