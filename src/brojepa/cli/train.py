"""`brojepa train` and `brojepa eval`: one run."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING

from brojepa.cli.parser import (
    RUN_HELP,
    Parser,
    add_knobs,
    add_threads,
    add_track,
    add_trust,
    given_knobs,
    join_negative,
    one_seed,
    threads,
)
from brojepa.files import json_line
from brojepa.presets import AUTO, RECOMMENDED, preset, recommended

if TYPE_CHECKING:
    from brojepa.runs import Run


def train(argv: list[str]) -> int:
    """Train a preset, or a config of your own."""
    parser = Parser(prog="brojepa train", usage="brojepa train [PRESET] [--FLAG VALUE ...]", description=train.__doc__)
    parser.add_argument(
        "preset", nargs="?", metavar="PRESET", help=f"a named config; default {RECOMMENDED}, for own images {AUTO}"
    )
    add_knobs(parser)
    run = parser.add_argument_group("run")
    run.add_argument("--seed", default="0", metavar="INT", help="default 0")
    run.add_argument("--out", default="runs", metavar="DIR", help="where run directories go; default runs")
    run.add_argument("--data-dir", metavar="DIR", help="where EMNIST is; default BROJEPA_DATA, then the cache")
    run.add_argument("--device", default="auto", help="auto, cpu, cuda or mps; default auto")
    add_threads(run, "number of threads; default as the run began, then OMP_NUM_THREADS, then the cores")
    run.add_argument(
        "--profile", action="store_true", help="profile a few steps: print where the time goes, and write a trace"
    )
    add_track(run, "log the run to these trackers; separate several with commas, or repeat the flag")
    run.add_argument(
        "--evaluate",
        metavar="METRICS",
        help="metrics to measure at the end: some of train,seen,zero-shot,rollout,knn; default all; brojepa eval adds "
        "the others later",
    )
    say = run.add_mutually_exclusive_group()
    say.add_argument("--quiet", action="store_true", help="print nothing but warnings and errors")
    say.add_argument("--json", action="store_true", help="print one JSON object per epoch, then the result")
    args = parser.parse(join_negative(argv))

    given = given_knobs(args)
    name = recommended(given.get("world", "mnist")) if args.preset is None else args.preset
    if name != AUTO:  # its knobs are known once the images are read
        preset(name).replace(**given)
    seed, asked = one_seed(args.seed), threads(args.threads)

    from brojepa.training import Callback, JsonLines, LiveTable, trackers
    from brojepa.training import train as train_run
    from brojepa.training.profile import Profile

    table = LiveTable()
    callbacks: list[Callback] = [] if args.quiet else [JsonLines() if args.json else table]
    if args.profile:
        callbacks.append(Profile(say=(lambda line: None) if args.quiet or args.json else table.say))
    callbacks += trackers(args.track, drawing()) if args.track else []
    where = {
        "out": args.out,
        "data_dir": args.data_dir,
        "device": args.device,
        "threads": asked,
        "evaluate": args.evaluate,
    }
    train_run(name, seed=seed, callbacks=callbacks, quiet=args.quiet, **where, **given)
    return 0


def drawing() -> Callable[[Run], Mapping[str, bytes]] | None:
    """The function that draws a finished run for trackers, if matplotlib is installed."""
    if find_spec("matplotlib") is None:
        return None
    from brojepa.figures.make import pictures

    return pictures


def evaluate(argv: list[str]) -> int:
    """Evaluate a run again, every test image with every action; add what --evaluate left out to result.json."""
    parser = Parser(prog="brojepa eval", description=evaluate.__doc__)
    parser.add_argument("run", metavar="RUN", help=RUN_HELP)
    parser.add_argument("--data-dir", metavar="DIR", help="where EMNIST is, or other images of the same shape")
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda or mps; default auto")
    add_threads(parser, "number of threads; default as the run began")
    add_trust(parser)
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    args = parser.parse(argv)
    asked = threads(args.threads)

    from brojepa.evaluation import agrees, complete, evaluate_run
    from brojepa.runs.find import find
    from brojepa.runs.result import accuracies
    from brojepa.training.screen import progress_bar

    run = find(args.run)
    with progress_bar("evaluating", sys.stderr) as tell:
        measured = evaluate_run(run.path, args.data_dir, args.device, trust=args.trust, threads=asked, listener=tell)
    compared = run.done and measured["same_images"]
    same = not compared or agrees(run.result, measured)
    added = compared and same and "evaluated" in run.result
    if added:
        complete(run, measured)
    otherwise = "result.json says otherwise: another device, torch version or number of threads?"
    if args.json:
        print(json_line(measured))
        if not same:
            print(f"brojepa: {otherwise}", file=sys.stderr)
        return int(not same)
    print(
        f"{args.run} on {measured['world']}"
        + ("" if measured["same_images"] else ", other images than it was trained on")
    )
    for line in accuracies(measured):
        print(line)
    if compared:
        print("added to result.json" if added else "identical to result.json" if same else otherwise)
    return int(not same)
