"""`brojepa figures`: runs as pictures."""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from brojepa.cli.parser import Parser, add_threads, add_trust, require, threads
from brojepa.cli.sweep import at_once, here
from brojepa.errors import RequestError, unknown
from brojepa.figures import FIGURES, KINDS, MOST, Need, paper_runs
from brojepa.files import place
from brojepa.runs.find import find, packed
from brojepa.runs.hub import SCHEME

if TYPE_CHECKING:
    from brojepa.figures.make import Outcome


def figures(argv: list[str]) -> int:
    """Draw the paper's figures, and ours, from runs."""
    lines = [f"  {name:<15} {spec.title}" for name, spec in FIGURES.items()]
    parser = Parser(prog="brojepa figures", description=figures.__doc__, epilog="\n".join(("figures:", *lines)))
    parser.add_argument(
        "paths", nargs="*", metavar="PATH", help="runs, directories with runs, or figure data; default runs"
    )
    parser.add_argument("--only", metavar="NAME,...", help="these figures; default all whose runs exist")
    parser.add_argument(
        "--out", metavar="DIR", help="default: figures/, or figures/ inside the one run named, or where the data are"
    )
    parser.add_argument("--paper", action="store_true", help="first train every run that the figures need")
    parser.add_argument("--runs-dir", default="runs", metavar="DIR", help="where --paper trains; default runs")
    parser.add_argument("--jobs", metavar="INT", help="runs at once for --paper; default one per core, at most 4")
    parser.add_argument("--data-dir", metavar="DIR", help="where EMNIST is; default BROJEPA_DATA, then the cache")
    circle = parser.add_argument_group("circle and circle-multi")
    circle.add_argument(
        "--frequency",
        metavar="INT|pca",
        help="the frequency to show; default the lowest that tells states apart",
    )
    circle.add_argument("--image", action="append", metavar="FILE", help="put your own image into it; may be repeated")
    circle.add_argument("--invert", action="store_true", help="your images are dark on white")
    add_threads(parser)
    add_trust(parser)
    args = parser.parse(argv)
    options, asked = _circle(args), threads(args.threads)
    names = _names(",".join(_CIRCLES) if options and args.only is None else args.only)
    if options and not {*names} & {*_CIRCLES}:
        raise RequestError(f"--frequency, --image and --invert are for {' and '.join(_CIRCLES)}: add one to --only")
    require("matplotlib")
    require("scikit-learn", module="sklearn")

    if args.paper:
        _train(args, asked)
    places = args.paths if args.paths and not args.paper else [*args.paths, args.runs_dir]
    paths = [_run_or_place(given) for given in places]

    from brojepa.figures.make import make
    from brojepa.runs.threads import set_threads

    set_threads(asked)
    outcomes = []
    circle, out = {"circle": options}, _out(args.out, [place(given) for given in places])
    for outcome in make(paths, names, out, args.data_dir, args.trust, circle, _remark):
        print(_line(outcome), flush=True)
        outcomes.append(outcome)
    if not any(o.file or o.error for o in outcomes):
        raise RequestError("no figure drawn: the lines above say why; --paper trains the runs of all figures")
    return max((o.error.exit_code for o in outcomes if o.error), default=0)


def _run_or_place(given: str) -> Path:
    """Where runs are: a path, or that of a run in the package or on the hub."""
    path = place(given)
    return path if path.exists() or not (given in packed() or given.startswith(SCHEME)) else find(given).path


def _remark(text: str) -> None:
    print(f"brojepa: {text}", file=sys.stderr)


_CIRCLES = tuple(name for name, spec in FIGURES.items() if spec.module == "circle")


def _circle(args: argparse.Namespace) -> dict[str, Any]:
    """The options of the circle, checked."""
    if args.frequency not in (None, "pca") and not re.fullmatch(r"[1-9]\d{0,8}", args.frequency):
        raise RequestError(f"--frequency {args.frequency!r}: expected an integer of 1 or more, or pca")
    if args.invert and not args.image:
        raise RequestError("--invert is for your own images: name one with --image")
    for path in args.image or ():
        if not Path(path).is_file():
            raise RequestError(f"--image {path}: there is no such file")
    given = {"frequency": args.frequency, "images": args.image, "invert": args.invert}
    return {name: value for name, value in given.items() if value}


def _names(only: str | None) -> list[str]:
    names = [name.strip() for name in only.split(",") if name.strip()] if only is not None else list(FIGURES)
    for name in names:
        if name not in FIGURES:
            raise unknown("figure", name, FIGURES)
    if not names:
        raise RequestError(f"--only names no figure: choose from {', '.join(FIGURES)}")
    return names


def _out(given: str | None, paths: list[Path]) -> Path:
    if given is not None:
        return place(given)
    if len(paths) == 1:
        (path,) = paths
        if (path / "config.json").is_file():
            return path / "figures"
        if path.is_file():
            return path.parent
        if any((path / f"{name}.npz").is_file() for name in FIGURES):
            return path
    return Path("figures")


def _train(args: argparse.Namespace, asked: int | None) -> None:
    from brojepa.sweep import Job

    where = {"out": args.runs_dir, "data_dir": args.data_dir, "threads": asked}
    jobs = [Job.of(name, config.to_dict(), seed, **where) for name, config, seed in paper_runs()]
    here(jobs, at_once(args.jobs))


def _with(need: Need) -> str:
    """What a run must have besides its numbers."""
    if need.decoder:
        return " (with weights, and a decoder by 'brojepa decode RUN')"
    return " (with weights)" if need.weights else ""


def _line(outcome: Outcome) -> str:
    if outcome.error:
        return f"{outcome.name}: not drawn: {outcome.error}"
    lacks = "; ".join(f"{need.label}{_with(need)}: {need.command}" for need in outcome.missing)
    if outcome.unsuited:
        run, what = outcome.unsuited, "poses" if outcome.unsuited.kind == "poses" else "states"
        wanted = KINDS[FIGURES[outcome.name].kind]
        return f"{outcome.name}: not drawn: it is for {wanted}, and {run.run.path} is of {run.group} {what}"
    if not outcome.file:
        return f"{outcome.name}: not drawn, it lacks {lacks}"
    room = f", of the first {MOST} of {MOST + outcome.left_out} runs" if outcome.left_out else ""
    origin = f", from {outcome.redrawn}" if outcome.redrawn else ""
    others = "".join(f", other images than {run.path} was trained on" for run in outcome.others)
    return f"{outcome.name}: {outcome.file}{room}{origin}{f', without {lacks}' if lacks else ''}{others}"
