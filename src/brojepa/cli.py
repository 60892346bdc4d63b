"""The `brojepa` command. Thin: parse, call, print.

Flags of `train` are read off the fields of `Config`. Exit codes: 0 done, 1 the run failed, 2 the request was
wrong, 130 interrupted and resumable. An error is one line on stderr; `--debug` shows the traceback.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

from brojepa import config as knobs
from brojepa.errors import BrojepaError, Interrupted, MissingData, RequestError, unknown
from brojepa.presets import PRESETS, RECOMMENDED, preset, recommended


class Parser(argparse.ArgumentParser):
    """argparse with errors of one line and no guessing of abbreviations."""

    def __init__(self, **options: Any) -> None:
        super().__init__(allow_abbrev=False, formatter_class=argparse.RawDescriptionHelpFormatter, **options)

    def error(self, message: str) -> NoReturn:
        raise RequestError(f"{message}; see {self.prog} --help")

    def parse(self, argv: Sequence[str]) -> argparse.Namespace:
        args, rest = self.parse_known_args(argv)
        if rest:
            known = [s for s in self._option_string_actions if s.startswith("--")]
            given = rest[0].split("=")[0]
            raise (
                unknown("flag", given, known)
                if given.startswith("-")
                else RequestError(f"unexpected {given!r}; see {self.prog} --help")
            )
        return args


def main(argv: Sequence[str] | None = None) -> int:
    argv = list(sys.argv[1:] if argv is None else argv)
    debug = "--debug" in argv
    argv = [a for a in argv if a != "--debug"]
    try:
        return _dispatch(argv)
    except BrojepaError as error:
        if debug:
            raise
        word = "" if isinstance(error, Interrupted) else "error: "
        _complain(f"{word}{error}")
        return error.exit_code
    except KeyboardInterrupt:
        _complain("interrupted; the same command goes on from the last checkpoint")
        return 130
    except Exception as error:  # a bug, or the machine: still one line unless --debug
        if debug:
            raise
        _complain(f"unexpected error: {type(error).__name__}: {error}; repeat with --debug for the traceback")
        return 1


def _complain(text: str) -> None:
    """One line on stderr; on a terminal it takes the place of a passing line."""
    clear = "\r\x1b[K" if sys.stderr.isatty() else ""
    print(f"{clear}brojepa: {' '.join(text.split())}", file=sys.stderr)


def _dispatch(argv: list[str]) -> int:
    if not argv or argv[0] in ("-h", "--help", "help"):
        print(HELP)
        return 0
    if argv[0] == "--version":
        from importlib.metadata import version

        print(f"brojepa {version('brojepa')}")
        return 0
    name, rest = argv[0], argv[1:]
    if name not in COMMANDS:
        if name.startswith("-"):
            raise unknown("flag", name, ["--help", "--version", "--debug"])
        raise unknown("command", name, COMMANDS)
    return COMMANDS[name](rest)


def train(argv: list[str]) -> int:
    """Train a preset, or a config of your own."""
    parser = Parser(prog="brojepa train", description=train.__doc__, epilog=_preset_list())
    parser.add_argument("preset", nargs="?", metavar="PRESET", help=f"a named config; default {RECOMMENDED}")
    _add_knobs(parser)
    run = parser.add_argument_group("run")
    run.add_argument("--seed", default="0", metavar="INT", help="default 0")
    run.add_argument("--out", default="runs", metavar="DIR", help="where run directories go; default runs")
    run.add_argument("--data-dir", metavar="DIR", help="where EMNIST is; default BROJEPA_DATA, then the cache")
    run.add_argument("--device", default="auto", help="auto, cpu, cuda or mps; default auto")
    say = run.add_mutually_exclusive_group()
    say.add_argument("--quiet", action="store_true", help="print nothing but warnings and errors")
    say.add_argument("--json", action="store_true", help="print a JSON object an epoch and the result")
    args = parser.parse(_join_negative(argv))

    words = {k: v for k, v in vars(args).items() if k in knobs.FIELDS}
    given: dict[str, Any] = {k: v if isinstance(v, bool) else knobs.parse(k, v) for k, v in words.items()}
    name = args.preset or recommended(given.get("world", "mnist"))
    config = preset(name).replace(**given)
    try:
        seed = int(args.seed)
    except ValueError:
        seed = -1
    if not 0 <= seed < 2**63:
        raise RequestError(f"--seed {args.seed!r}: expected an integer of 0 or more")

    from brojepa import progress, training

    reporter = progress.Silent() if args.quiet else progress.JsonLines() if args.json else progress.Table()
    training.train(
        config, seed=seed, out=args.out, data_dir=args.data_dir, device=args.device, reporter=reporter, name=name
    )
    return 0


def evaluate(argv: list[str]) -> int:
    """Evaluate a run again: every test image with every action."""
    parser = Parser(prog="brojepa eval", description=evaluate.__doc__)
    parser.add_argument("run", metavar="RUN", help="a run directory")
    parser.add_argument("--data-dir", metavar="DIR", help="where EMNIST is, or other images of the same shape")
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda or mps; default auto")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    args = parser.parse(argv)

    from brojepa import progress
    from brojepa.evaluation import evaluate_run
    from brojepa.runs import Run

    run = Run(Path(args.run))
    measured = evaluate_run(run.path, args.data_dir, args.device)
    if args.json:
        print(json.dumps(measured))
        return 0
    print(
        f"{run.path} on {measured['world']}"
        + ("" if measured["same_images"] else ", other images than it was trained on")
    )
    for line in progress.accuracies(measured):
        print(line)
    if run.done and measured["same_images"]:
        same = all(run.result[key] == measured[key] for key in ("metrics", "per_action", "by_state"))
        print("identical to result.json" if same else "result.json says otherwise: another device or torch version?")
    return 0


def data(argv: list[str]) -> int:
    """List, fetch or check the images."""
    parser = Parser(prog="brojepa data", description=data.__doc__)
    commands = ("list", "fetch", "check")
    parser.add_argument("what", nargs="?", default="list", metavar="list|fetch|check", help="default list")
    parser.add_argument("world", nargs="?", metavar="WORLD", help="mnist, emnist or a path")
    parser.add_argument(
        "--data-dir", metavar="DIR", help="where EMNIST is or goes; default BROJEPA_DATA, then the cache"
    )
    parser.add_argument("--url", help="fetch the EMNIST archive from a mirror")
    args = parser.parse(argv)
    if args.what not in commands:
        raise unknown("data command", args.what, commands)
    if args.what == "fetch":
        return _fetch(args)

    from brojepa.worlds import open_world

    damaged = None
    for name in [args.world] if args.world else ["mnist", "emnist"]:
        try:
            world = open_world(name, args.data_dir if args.world or name == "emnist" else None)
        except RequestError as error:
            if args.world:
                raise
            print(f"{name}: {error}")
            damaged = damaged if isinstance(error, MissingData) else error
            continue
        images = world.source["images"]
        shape = "x".join(map(str, world.shape))
        line = (
            f"{world.title}: {images['train']:,} training and {images['test']:,} test images, {world.n} states, {shape}"
        )
        print(line + (f", sha256 {world.source['sha256'][:16]}, whole" if args.what == "check" else ""))
    if damaged and args.what == "check":
        raise damaged
    return 0


def _fetch(args: argparse.Namespace) -> int:
    if args.world != "emnist":
        raise RequestError(
            f"nothing to fetch for {args.world or 'no world'}: mnist is bundled, try 'brojepa data fetch emnist'"
        )
    from brojepa.worlds import search_path
    from brojepa.worlds.fetch import URL, fetch_emnist

    live = sys.stderr.isatty()

    def progress(have: int, total: int | None) -> None:
        if live:
            share = f"{have / total:.0%} of {total / 1e6:,.0f} MB" if total else f"{have / 1e6:,.0f} MB"
            print(f"\r\x1b[K{share}", end="", file=sys.stderr, flush=True)

    world = fetch_emnist(search_path(args.data_dir)[0], url=args.url or URL, progress=progress)
    if live:
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)
    images = f"{len(world.train):,} training and {len(world.test):,} test images"
    print(f"{world.title}: {images} in {search_path(args.data_dir)[0]}")
    return 0


def _add_knobs(parser: argparse.ArgumentParser) -> None:
    group: Any = parser
    for name, field in knobs.FIELDS.items():
        group = parser.add_argument_group(field.metadata["group"]) if field.metadata["group"] else group
        text = field.metadata["help"].replace("%", "%%")
        if knobs.TYPES[name] is bool:
            group.add_argument(
                knobs.flag(name), default=argparse.SUPPRESS, action=argparse.BooleanOptionalAction, help=text
            )
            continue
        allowed = knobs.options(name)
        metavar = "|".join(map(str, allowed)) if allowed else _metavar(name)
        group.add_argument(knobs.flag(name), default=argparse.SUPPRESS, metavar=metavar, help=text)


def _metavar(name: str) -> str:
    kind = knobs.TYPES[name]
    return {int: "INT", float: "FLOAT", str: "WORLD"}.get(kind, "K,K,...")


def _join_negative(argv: list[str]) -> list[str]:
    """`--train-actions -1,1` as `--train-actions=-1,1`: argparse takes a value with a leading minus for a flag."""
    joined: list[str] = []
    for word in argv:
        if joined and re.fullmatch(r"--[a-z-]+", joined[-1]) and re.match(r"-[\d.]", word):
            joined[-1] += "=" + word
        else:
            joined.append(word)
    return joined


def _preset_list() -> str:
    lines = ["presets (the paper's rows, and 'fast', our recipe; docs/recipes.md says how they differ):"]
    return "\n".join(lines + [f"  {name}" for name in sorted(PRESETS)])


COMMANDS: dict[str, Callable[[list[str]], int]] = {"train": train, "eval": evaluate, "data": data}

HELP = "\n".join(
    [
        "usage: brojepa COMMAND ... [--debug]",
        "",
        "Latent spaces that obey a rule: BRo-JEPA and its baselines.",
        "",
        *(f"  {name:<8} {command.__doc__}" for name, command in COMMANDS.items()),
        "",
        f"'brojepa train' alone trains {RECOMMENDED} on the bundled MNIST. 'brojepa COMMAND --help' says more.",
    ]
)


if __name__ == "__main__":
    sys.exit(main())
