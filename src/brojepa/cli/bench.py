"""`brojepa bench`: how fast it is, and against what."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from brojepa.bench import BENCHMARKS
from brojepa.cli.parser import Parser, add_threads, integers, picture_file, threads
from brojepa.errors import Interrupted, RequestError, unknown
from brojepa.files import place

FORMATS = ("table", "md", "json")


def bench(argv: list[str]) -> int:
    """Measure speed and memory as ratios, on this machine."""
    lines = [f"  {name:<16} {title}" for name, title in BENCHMARKS.items()]
    parser = Parser(prog="brojepa bench", description=bench.__doc__, epilog="\n".join(("benchmarks:", *lines)))
    parser.add_argument("names", nargs="*", metavar="NAME", help="benchmarks; see below")
    parser.add_argument("--all", action="store_true", help="every benchmark")
    parser.add_argument("--repeats", metavar="INT", help="number of repeats, whose median is reported; default 5")
    parser.add_argument("--quick", action="store_true", help="tiny sizes: checks that it works, measures nothing")
    parser.add_argument("--full", action="store_true", help="really train mnist/fast for time-to-accuracy")
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda or mps; default auto")
    add_threads(parser)
    parser.add_argument("--format", default="table", metavar="|".join(FORMATS), help="what is printed; default table")
    parser.add_argument("--out", default="bench.json", metavar="FILE", help="where results go; default bench.json")
    parser.add_argument("--read", metavar="FILE", help="measure nothing: print results that were saved")
    parser.add_argument("--plot", metavar="FILE", help="draw what relaxing measured, as .png or .svg")
    args = parser.parse(argv)
    if args.format not in FORMATS:
        raise unknown("format", args.format, FORMATS)
    plot, asked = _plot(args.plot), threads(args.threads)
    if args.read:
        if args.names or args.all:
            raise RequestError("--read prints what was saved: give it without names and without --all")
        from brojepa.bench.results import read

        _show(read(place(args.read)), args.format, plot)
        return 0
    names = _names(args.names, args.all)
    if plot and "relaxing" not in names:
        raise RequestError(f"--plot {args.plot} draws what relaxing measures: name it too, or --all")
    repeats = integers("--repeats", args.repeats)[0] if args.repeats else 1 if args.quick else 5
    if repeats < 1:
        raise RequestError(f"--repeats must be at least 1, got {args.repeats}")
    out = place(args.out)
    if not out.parent.is_dir():
        raise RequestError(f"--out {args.out}: there is no directory {out.parent}, make it first")

    from brojepa.bench.measured import Effort
    from brojepa.runs.devices import choose_device
    from brojepa.runs.threads import set_threads

    set_threads(asked)
    choose_device(args.device)
    _show(_measure(names, Effort(repeats, args.quick, args.full, args.device), out), args.format, plot)
    return 0


def _plot(given: str | None) -> Path | None:
    """The path of the plot, checked before anything is measured."""
    if given is None:
        return None
    path = picture_file("--plot", given)
    if not path.parent.is_dir():
        raise RequestError(f"--plot {given}: there is no directory {path.parent}, make it first")
    return path


def _show(data: dict[str, Any], form: str, plot: Path | None) -> None:
    print(_formats()[form](data), end="")
    if plot is not None:
        if "relaxing" not in data["benchmarks"]:
            raise RequestError(f"--plot {plot}: these results have no relaxing; measure it with brojepa bench relaxing")
        from brojepa.bench.relaxing import CLOSE, MOST
        from brojepa.figures.relaxing import picture
        from brojepa.files import write_atomically

        drawn = picture(data["benchmarks"]["relaxing"]["rows"], CLOSE, MOST)
        write_atomically(plot, drawn[plot.suffix[1:]])


def _names(names: list[str], everything: bool) -> list[str]:
    for name in names:
        if name not in BENCHMARKS:
            raise unknown("benchmark", name, BENCHMARKS)
    if everything:
        return list(BENCHMARKS)
    if not names:
        raise RequestError(f"nothing to measure: name some of {', '.join(BENCHMARKS)}, or --all")
    return list(dict.fromkeys(names))


def _measure(names: list[str], effort: Any, out: Path) -> dict[str, Any]:
    """Measure and save one by one, so that results survive a later failure."""
    from brojepa.bench import run
    from brojepa.bench.machine import header
    from brojepa.files import write_json

    data = header(effort.quick)
    for name in names:
        print(f"{name}: {BENCHMARKS[name]}", file=sys.stderr, flush=True)
        begun = time.monotonic()
        try:
            measured = run(name, effort).to_dict()
        except KeyboardInterrupt:
            kept = f"; results so far ({', '.join(data['benchmarks'])}): {out}" if data["benchmarks"] else ""
            raise Interrupted(f"stopped in {name}{kept}") from None
        data["benchmarks"][name] = {**measured, "seconds": time.monotonic() - begun}
        write_json(out, data)
    return data


def _formats() -> dict[str, Callable[[dict[str, Any]], str]]:
    from brojepa.bench.results import Results

    return {
        "table": lambda data: Results(data).text(),
        "md": lambda data: Results(data).markdown(),
        "json": lambda data: json.dumps(data, indent=1) + "\n",
    }
