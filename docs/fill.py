"""Fill the tables of the documents, and results/README.md, from the runs and benchmarks in results/: `make docs`.

Rows that a person chose (ours in reproduction.md) stay; their numbers are written anew. Rows that
follow from the runs (the paper's tables, ablations, every run with learned angles) are made anew. tests/test_docs.py
checks them by itself.
"""

from __future__ import annotations

import re
import statistics
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from brojepa import report
from brojepa.algebra.modulus import infer_modulus
from brojepa.bench.results import Results, read
from brojepa.config import words, world_folder
from brojepa.presets import AUTO, PRESETS
from brojepa.report.archive import overview
from brojepa.report.records import NAMES, describe_changes
from brojepa.report.render import Grid, View
from brojepa.report.rows import Line
from brojepa.report.rows import paper_rows as rows_of_the_paper
from brojepa.runs import Run
from brojepa.runs.finding import runs_under
from brojepa.text import actions_text
from brojepa.worlds import view_recipe
from brojepa.worlds.recipe import Facts, recipe

sys.path.insert(0, str(Path(__file__).parent))
import reference

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "results"
PAGES = (
    "reproduction", "ablations", "odd-and-even", "algebra", "performance", "own-images", "recipes", "worlds",
    "processes",
)  # fmt: skip
FLAGS = 3  # that a row names, at most
TRIALS = 100  # seeds from here on have chosen the recipe for own images
Runs = dict[str, list[dict[str, Any]]]


def committed() -> Runs:
    """Results by what a table calls them; of each the seeds in order.

    That is preset and flags, as one would type them, or where these are many the preset and a link to the runs.
    """
    runs: Runs = {}
    for run in runs_under(RESULTS, []):
        header = run.header
        base = NAMES.get(run.config) or header["preset"] or header["base"]  # a preset may be younger than its run
        flags = words(run.config, PRESETS[base])
        file = run.path.parent.relative_to(ROOT).as_posix()
        link = f" [{file.partition(',')[2].removesuffix('.jsonl')}]({file})"
        name = f"`{base}`{link}" if len(flags) > FLAGS else f"`{' '.join([base, *flags])}`"
        runs.setdefault(name, []).append({**run.result, "config": header["config"]})
    return {name: sorted(done, key=lambda r: r["seed"]) for name, done in sorted(runs.items())}


def mean(values: Sequence[float | None], digits: int = 4) -> str:
    known = [v for v in values if v is not None]
    if len(known) < len(values):
        return "-"
    spread = f" ± {statistics.stdev(known):.{digits}f}" if len(known) > 1 else ""
    return f"{statistics.mean(known):.{digits}f}{spread}"


def between(text: str, mark: str, new: str) -> str:
    """The text with what stands between <!-- mark --> and <!-- /mark --> replaced."""
    start, end = f"<!-- {mark} -->\n", f"<!-- /{mark} -->"
    before, rest = text.split(start)
    return before + start + new + end + rest.split(end)[1]


def chosen(text: str, runs: Runs) -> str:
    """Rows name | seeds | seen | zero-shot | rollout | k-NN | kind, with their numbers anew."""

    def row(match: re.Match[str]) -> str:
        done = runs[match[1]]
        cells = [mean([r["metrics"][m] for r in done]) for m in ("seen", "zero_shot", "rollout", "knn")]
        return f"| {match[1]} | " + " | ".join([str(len(done)), *cells, done[0]["zero_shot_kind"]]) + " |"

    return re.sub(r"^\| (`\w+/[^`]+`[^|]*) \| .* \|$", row, text, flags=re.MULTILINE)


@dataclass(frozen=True)
class Shown(View):
    """Tables of a document."""

    tables: list[Grid]
    remarks: list[str] = field(default_factory=list)

    def grids(self, long_names: bool = False) -> list[Grid]:
        return self.tables


NEAR = 9  # the largest action that the paper holds out on MNIST


def papers_tables() -> dict[str, str]:
    """The paper's tables with our rows in them, and the metrics that these leave out; changed configs aside, but where
    one takes the place of its preset. On letters zero-shot is over all held-out actions, and over those of MNIST."""

    def grids(number: int, within: int | None = None) -> list[Grid]:
        view = report.table(RESULTS, number, within=within)
        sections = [replace(s, lines=[line for line in s.lines if line.leads]) for s in view.sections]
        return replace(view, sections=sections).grids()

    digits, letters, near = grids(1), grids(2), grids(2, NEAR)
    header = [*letters[0].header[:6], f"up to ±{NEAR}", letters[0].header[6]]
    rows = [
        row if isinstance(row, str) or isinstance(other, str) else [*row[:6], other[5], row[6]]
        for row, other in zip(letters[0].rows, near[0].rows, strict=True)
    ]
    tables = {
        "table 1": replace(digits[0], notes=[]),
        "table 2": replace(letters[0], header=header, rows=rows, notes=[]),
        "other metrics 1": digits[1],
        "other metrics 2": letters[1],
    }
    return {mark: Shown([grid]).markdown() for mark, grid in tables.items()}


def ablations(number: int) -> str:
    """Every changed config of one of the paper's tables below the row that it was made from."""
    view, near = report.table(RESULTS, number), report.table(RESULTS, number, within=NEAR)
    pairs = list(zip(view.sections[0].lines, near.sections[0].lines, strict=True))
    changed = {line.name for line, _ in pairs if not line.leads}
    rows: list[list[str] | str] = []
    for line, close in pairs:
        if line.name in changed:
            zero_shot = [ours(line, "zero_shot"), *([ours(close, "zero_shot")] if number == 2 else [])]
            runs = [line.label, str(len(line.records)), line.distinct("epochs")]
            rows.append([*runs, ours(line, "seen"), *zero_shot, ours(line, "rollout"), ours(line, "knn")])
    header = ["row", "seeds", "epochs", "seen", "zero-shot", *([f"up to ±{NEAR}"] if number == 2 else [])]
    return Shown([Grid(view.sections[0].heading, [*header, "rollout", "k-NN"], rows)]).markdown()


def ours(line: Line, metric: str) -> str:
    return mean([getattr(record, metric) for record in line.records])


def parity() -> str:
    """Held-out actions of a supervised rotation, odd and even apart, with and without action 0."""
    row = "mnist/supervised-mlp-mfr-fixed"
    lines = {line.label: line for line in report.table(RESULTS, 1).sections[0].lines if line.name == row}
    rows = [
        "| trained on | seen | odd, held out | even, held out | zero-shot | paper | last epoch |",
        "|---|---|---|---|---|---|---|",
    ]
    for what, label in (("-1, +1", row.partition("/")[2]), ("-1, 0, +1", "↳ with-action-0")):
        line = lines[label]
        held_out = [{int(k): v for k, v in (r.per_action or {}).items() if not r.trained_on(k)} for r in line.records]
        halves = [[statistics.mean(v for k, v in t.items() if k % 2 == odd) for t in held_out] for odd in (1, 0)]
        paper = rows_of_the_paper()[row].metrics["zero_shot"] if line.leads else None
        theirs = f"{paper[0]:.4f} ± {paper[1]:.4f}" if paper else "-"
        last = mean([r.run.metrics[-1]["zero_shot"] for r in line.records if r.run])
        cells = [what, ours(line, "seen"), *map(mean, halves), ours(line, "zero_shot"), theirs, last]
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows) + "\n"


def departures() -> str:
    """In what the presets of the paper's rows differ from its plain protocol."""
    rows: dict[str, list[str]] = {}
    for name in rows_of_the_paper():
        changes = report.departures(name)
        if "test_actions" in changes:
            changes["test_actions"] = actions_text(changes["test_actions"])
        if changes:
            rows.setdefault(describe_changes(changes), []).append(f"`{name}`")
    lines = [f"| {', '.join(names)} | {what} |" for what, names in rows.items()]
    return "\n".join(["| presets | differ in |", "|---|---|", *lines]) + "\n"


def cycles(runs: Runs) -> str:
    rows = ["| run | states | seeds | cycle read off the angles |", "|---|---|---|---|"]
    for name, done in runs.items():
        if done[0]["config"]["action"] == "mfr-learned":
            found = ", ".join(str(infer_modulus(r["angles"])[0] or "none") for r in done)
            rows.append(f"| {name.replace('](', '](../')} | {round(1 / done[0]['chance'])} | {len(done)} | {found} |")
    return "\n".join(rows) + "\n"


BEST = "mnist/bro-resnet18-mfr-learned"  # the paper's best model, which we have trained for fewer epochs


def four(runs: Runs) -> str:
    """The README's first table: our fast model, the paper's best, and what fails; zero-shot and time."""
    rows = ["| model | zero-shot | time |", "|---|---|---|"]
    short = [r for name, done in runs.items() if name.startswith(f"`{BEST}") for r in done]
    hours = PRESETS[BEST].epochs * statistics.median(r["seconds"] / r["config"]["epochs"] for r in short) / 3600
    best = rows_of_the_paper()[BEST].metrics["zero_shot"]
    for name, what in (
        ("mnist/fast", "**BRo-JEPA, our small CNN**"),
        (BEST, "BRo-JEPA, ResNet-18: the paper's best"),
        ("mnist/jepa-mlp", "JEPA + additive embedding, MLP"),
        ("mnist/supervised-mlp-mfr-fixed", "supervised + rotation, MLP"),
    ):
        done = runs.get(f"`{name}`", [])
        accuracy = mean([r["metrics"]["zero_shot"] for r in done]) if done else f"{best[0]:.4f} ± {best[1]:.4f}"
        time = f"{statistics.median(r['seconds'] for r in done):.0f} s" if done else f"about {hours:.0f} h"
        rows.append(f"| {what}, `{name}` | {accuracy} | {time} |")
    return "\n".join(rows) + "\n"


def beyond(runs: Runs) -> str:
    """The README's second table: worlds whose group is continuous."""
    rows = [
        "| preset | trained on | zero-shot | MLP action | chance | median error | of the candidate |",
        "|---|---|---|---|---|---|---|",
    ]
    for world, small in (("rotation", "turns by ±10°"), ("pose", "turns by ±15° about x, y and z")):
        done, contrast = runs[f"`{world}/fast`"], runs[f"`{world}/additive`"]
        accuracy, other = (mean([r["metrics"]["zero_shot"] for r in each]) for each in (done, contrast))
        found = [r["retrieval"] for r in done]
        errors = [statistics.mean(part["zero_shot"]["median_error"] for part in parts)
                  for parts in ([each.get("refined", each) for each in found], found)]  # fmt: skip
        cells = [f"`{world}/fast`", small, accuracy, other, f"{done[0]['chance']:.4f}", *(f"{e:.1f}°" for e in errors)]
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows) + "\n"


def own() -> str:
    """Runs of today's recipe for own images, a row per config, by the name of its world."""
    rows = [
        "| world | states or group | images | seeds | seen | zero-shot | epochs x repeat |",
        "|---|---|---|---|---|---|---|",
    ]
    configs: dict[tuple[str, str], list[Run]] = {}
    for run in runs_under(RESULTS, []):
        if run.header.get("base") == AUTO and run.header["seed"] < TRIALS and todays(run):
            configs.setdefault((world_folder(run.config.world), run.config.hash), []).append(run)
    found: list[float] = []
    for (world, _), runs in sorted(configs.items()):
        config, facts = runs[0].config, runs[0].header["world"]
        name = world if config.method == "jepa" else f"{world} `--method {config.method}`"
        seen, zero_shot = (mean([run.result["metrics"][metric] for run in runs]) for metric in ("seen", "zero_shot"))
        seeds = ", ".join(str(seed) for seed in sorted(run.header["seed"] for run in runs))
        count, length = f"{facts['images']['train']:,}", f"{config.epochs} x {config.repeat}"
        cells = (name, facts["states"] or facts["group"], count, seeds, seen, zero_shot, length)
        rows.append(f"| {' | '.join(map(str, cells))} |")
        for run in runs if "recorded" in config.train_actions else ():
            found += [part["hit1"] for steps, part in run.result["retrieval"]["by_steps"].items() if steps != "1"]
    composed = f"Compositions of 2 to 10 steps find {min(found):.3f} to {max(found):.3f} of the frames of `steps`."
    return "\n".join([*rows, "", composed]) + "\n"


def todays(run: Run) -> bool:
    """Whether the recipe of today would train for so long, with such an encoder."""
    config, facts = run.config, run.header["world"]
    images, shape = facts["images"]["train"], tuple(facts["shape"])
    if facts["states"]:
        now, _ = recipe(Facts(images, facts["states"], 1, 1, shape, shift=config.shift, warp=config.warp))
    else:
        steps, things = tuple(map(str, config.train_actions)), facts["things"]["train"]
        now, _ = view_recipe.recipe(view_recipe.Facts(images, things, shape, facts["group"], steps), {})
    return all(getattr(now, knob) == getattr(config, knob) for knob in ("epochs", "repeat", "batch_size", "pool"))


def muon(runs: Runs) -> str:
    """What Muon reaches beside AdamW, and in how many epochs."""
    rows = ["| preset | optimiser | epochs | seeds | seen | zero-shot | lowest |", "|---|---|---|---|---|---|---|"]
    for name in ("mnist/fast", "mnist/speedrun", "emnist/fast", "emnist/speedrun"):
        done = runs[f"`{name}`"]
        zero_shot = [r["metrics"]["zero_shot"] for r in done]
        cells = [
            name,
            PRESETS[name].optimiser,
            PRESETS[name].epochs,
            len(done),
            mean([r["metrics"]["seen"] for r in done]),
        ]
        rows.append(f"| {' | '.join(map(str, [*cells, mean(zero_shot), f'{min(zero_shot):.4f}']))} |")
    return "\n".join(rows) + "\n"


def reached(text: str, runs: Runs) -> str:
    """Rows of chosen presets with their numbers anew: the accuracies, and the median errors of the poses found."""
    rows = [
        "| preset | seeds | seen | zero-shot | chance | median error | refined | between | pixels |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for name in re.findall(r"^\| (`[^|]+`) \|", text.split("<!-- reached -->")[1], flags=re.MULTILINE):
        done = runs[name]
        found = [r.get("retrieval") or {} for r in done]
        refined = [each | {"refined": each.get("refined", {}).get("zero_shot", {})} for each in found]
        errors = [
            mean([(each.get(part) or {}).get("median_error") for each in refined], 1)
            for part in ("zero_shot", "refined", "off_grid", "ceiling")
        ]
        accuracies = [mean([r["metrics"][metric] for r in done]) for metric in ("seen", "zero_shot")]
        chance = f"{done[0]['chance']:.4f}"
        rows.append(f"| {' | '.join([name, str(len(done)), *accuracies, chance, *errors])} |")
    return between(text, "reached", "\n".join(rows) + "\n")


def ratios(bench: str) -> str:
    """The first table of the benchmarks, and the line that says where they were measured."""
    table = bench.split("\n\n**")[0]
    return f"{table}\n\n{bench.rstrip().splitlines()[-1]}\n"


def milliseconds(value: float) -> str:
    return f"{value:,.0f} ms" if value >= 100 else f"{value:.1f} ms"


def several(data: dict[str, Any]) -> str:
    """A step in one process and in several, by preset."""
    measured = data["benchmarks"]["torchrun"]["rows"]
    count = max(row["processes"] for row in measured)
    rows = [f"| preset | one process | {count} processes | times faster |", "|---|---|---|---|"]
    for preset in dict.fromkeys(row["preset"] for row in measured):
        one, many = (row["step, ms"] for row in measured if row["preset"] == preset)
        rows.append(f"| `{preset}` | {milliseconds(one)} | {milliseconds(many)} | {one / many:.2f} |")
    return "\n".join(rows) + "\n"


def filled() -> dict[Path, str]:
    """Every file that is filled, as it should be."""
    runs = committed()
    text = {name: (ROOT / name).read_text() for name in ("README.md", *(f"docs/{page}.md" for page in PAGES))}
    text["docs/reproduction.md"] = chosen(text["docs/reproduction.md"], runs)
    text["README.md"] = between(between(text["README.md"], "four", four(runs)), "beyond", beyond(runs))
    tables = papers_tables() | {"ablations 1": ablations(1), "ablations 2": ablations(2), "departures": departures()}
    for mark, table in tables.items():
        page = f"docs/{'reproduction' if mark in ('table 1', 'table 2') else 'ablations'}.md"
        text[page] = between(text[page], mark, table)
    text["docs/odd-and-even.md"] = between(text["docs/odd-and-even.md"], "parity", parity())
    text["docs/algebra.md"] = between(text["docs/algebra.md"], "cycles", cycles(runs))
    text["docs/own-images.md"] = between(text["docs/own-images.md"], "own", own())
    text["docs/worlds.md"] = reached(text["docs/worlds.md"], runs)
    text["docs/recipes.md"] = between(text["docs/recipes.md"], "muon", muon(runs))
    measured = read(RESULTS / "bench.json")
    bench = ratios(Results(measured).markdown())
    text["docs/processes.md"] = between(text["docs/processes.md"], "torchrun", several(measured))
    text["docs/performance.md"] = between(text["docs/performance.md"], "bench", bench)
    text["docs/commands.md"], text["docs/config.md"] = reference.commands(), reference.config()
    return {RESULTS / "README.md": overview(RESULTS), **{ROOT / name: page for name, page in text.items()}}


if __name__ == "__main__":
    for file, content in filled().items():
        file.write_text(content)
