"""Fill the tables of the documents, and results/README.md, from the runs and benchmarks in results/: `make docs`.

Rows that a person chose (ours in reproduction.md) stay; their numbers are written anew. Rows that
follow from the runs (the paper's tables, every run with learned angles) are made anew. tests/test_docs.py checks them
by itself.
"""

from __future__ import annotations

import re
import statistics
from pathlib import Path
from typing import Any

from brojepa import report
from brojepa.algebra.modulus import infer_modulus
from brojepa.bench.results import Results, read
from brojepa.config import words, world_folder
from brojepa.presets import AUTO, PRESETS
from brojepa.report.archive import overview
from brojepa.report.rows import paper_rows as rows_of_the_paper
from brojepa.runs import Run
from brojepa.runs.finding import runs_under

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "results"
PAGES = ("reproduction", "algebra", "performance", "own-images")
FLAGS = 3  # that a row names, at most
Runs = dict[str, list[dict[str, Any]]]


def committed() -> Runs:
    """Results by what a table calls them; of each the seeds in order.

    That is preset and flags, as one would type them, or where these are many the preset and a link to the runs.
    """
    runs: Runs = {}
    for run in runs_under(RESULTS, []):
        header = run.header
        base = header["preset"] or header["base"]
        flags = words(run.config, PRESETS[base])
        file = run.path.parent.relative_to(ROOT).as_posix()
        link = f" [{file.partition(',')[2].removesuffix('.jsonl')}]({file})"
        name = f"`{base}`{link}" if len(flags) > FLAGS else f"`{' '.join([base, *flags])}`"
        runs.setdefault(name, []).append({**run.result, "config": header["config"]})
    return {name: sorted(done, key=lambda r: r["seed"]) for name, done in sorted(runs.items())}


def mean(values: list[float | None], digits: int = 4) -> str:
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
    """Rows name | seeds | seen | zero-shot | rollout | k-NN | kind | ..., with their numbers anew."""

    def row(match: re.Match[str]) -> str:
        done, rest = runs[match[1]], match[2].split(" | ")[6:]
        cells = [mean([r["metrics"][m] for r in done]) for m in ("seen", "zero_shot", "rollout", "knn")]
        return f"| {match[1]} | " + " | ".join([str(len(done)), *cells, done[0]["zero_shot_kind"], *rest]) + " |"

    return re.sub(r"^\| (`\w+/[^`]+`[^|]*) \| (.*) \|$", row, text, flags=re.MULTILINE)


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
    rows = ["| preset | trained on | zero-shot | MLP action | chance | median error |", "|---|---|---|---|---|---|"]
    for world, small in (("rotation", "turns by ±10°"), ("pose", "turns by ±15° about x, y and z")):
        done, contrast = runs[f"`{world}/fast`"], runs[f"`{world}/additive`"]
        accuracy, other = (mean([r["metrics"]["zero_shot"] for r in each]) for each in (done, contrast))
        error = statistics.mean(r["retrieval"]["zero_shot"]["median_error"] for r in done)
        rows.append(f"| `{world}/fast` | {small} | {accuracy} | {other} | {done[0]['chance']:.4f} | {error:.0f}° |")
    return "\n".join(rows) + "\n"


def own() -> str:
    """Runs of the recipe for own images, a row per config, by the name of its world."""
    rows = [
        "| world | states or group | images | seeds | seen | zero-shot | epochs x repeat |",
        "|---|---|---|---|---|---|---|",
    ]
    configs: dict[tuple[str, str], list[Run]] = {}
    for run in runs_under(RESULTS, []):
        if run.header.get("base") == AUTO:
            configs.setdefault((world_folder(run.config.world), run.config.hash), []).append(run)
    for (world, _), runs in sorted(configs.items()):
        config, facts = runs[0].config, runs[0].header["world"]
        name = world if config.method == "jepa" else f"{world} `--method {config.method}`"
        seen, zero_shot = (mean([run.result["metrics"][metric] for run in runs]) for metric in ("seen", "zero_shot"))
        seeds = ", ".join(str(seed) for seed in sorted(run.header["seed"] for run in runs))
        count, length = f"{facts['images']['train']:,}", f"{config.epochs} x {config.repeat}"
        cells = (name, facts["states"] or facts["group"], count, seeds, seen, zero_shot, length)
        rows.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(rows) + "\n"


def ratios(bench: str) -> str:
    """The first table of the benchmarks, and the line that says where they were measured."""
    table = bench.split("\n\n**")[0]
    return f"{table}\n\n{bench.rstrip().splitlines()[-1]}\n"


def filled() -> dict[Path, str]:
    """Every file that is filled, as it should be."""
    runs = committed()
    text = {name: (ROOT / name).read_text() for name in ("README.md", *(f"docs/{page}.md" for page in PAGES))}
    text["docs/reproduction.md"] = chosen(text["docs/reproduction.md"], runs)
    text["README.md"] = between(between(text["README.md"], "four", four(runs)), "beyond", beyond(runs))
    tables = {"table 1": {"table": 1}, "table 2": {"table": 2}, "table 2 within 9": {"table": 2, "within": 9}}
    for mark, which in tables.items():
        table = report.table(RESULTS, **which).markdown()
        text["docs/reproduction.md"] = between(text["docs/reproduction.md"], mark, table)
    text["docs/algebra.md"] = between(text["docs/algebra.md"], "cycles", cycles(runs))
    text["docs/own-images.md"] = between(text["docs/own-images.md"], "own", own())
    bench = ratios(Results(read(RESULTS / "bench.json")).markdown())
    text["docs/performance.md"] = between(text["docs/performance.md"], "bench", bench)
    return {RESULTS / "README.md": overview(RESULTS), **{ROOT / name: page for name, page in text.items()}}


if __name__ == "__main__":
    for file, content in filled().items():
        file.write_text(content)
