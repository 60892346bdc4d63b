"""What the commands share: a strict parser, flags read off the fields of `Config`, lists of numbers, pictures."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NoReturn

from brojepa import config as knobs
from brojepa.errors import RequestError, unknown
from brojepa.files import place
from brojepa.presets import PAPER_ROWS, PRESETS, phrase

COMMON = (
    "world", "train_actions", "encoder", "latent", "action", "target", "regulariser", "epochs", "batch_size", "lr",
)  # fmt: skip
"""The knobs that `--help` shows; `--help-all` shows every one."""

RUN_HELP = "a run directory, a preset whose weights are in the package, or hf://user/name"


class Parser(argparse.ArgumentParser):
    """argparse with errors of one line and no guessing of abbreviations.

    words_anywhere: flags may be placed between optional positional arguments.
    """

    def __init__(self, *, words_anywhere: bool = False, **options: Any) -> None:
        self.words_anywhere = words_anywhere
        self.rare: list[argparse.Action] = []
        super().__init__(allow_abbrev=False, formatter_class=argparse.RawDescriptionHelpFormatter, **options)

    def error(self, message: str) -> NoReturn:
        raise RequestError(f"{message}; see {self.prog} --help")

    def format_help(self) -> str:
        """The help without rarely used flags."""
        texts = {action: action.help for action in self.rare}
        for action in texts:
            action.help = argparse.SUPPRESS
        try:
            return super().format_help()
        finally:
            for action, text in texts.items():
                action.help = text

    def parse(self, argv: Sequence[str]) -> argparse.Namespace:
        args, rest = (self.parse_known_intermixed_args if self.words_anywhere else self.parse_known_args)(argv)
        if rest:
            known = [s for s in self._option_string_actions if s.startswith("--")]
            given = rest[0].split("=")[0]
            raise (
                unknown("flag", given, known)
                if given.startswith("-")
                else RequestError(f"unexpected {given!r}; see {self.prog} --help")
            )
        for action in self._actions:  # argparse makes an empty list of `--flag=--`
            if action.nargs is None and getattr(args, action.dest, None) == []:
                self.error(f"argument {'/'.join(action.option_strings) or action.dest}: expected one argument")
        return args


class HelpAll(argparse.Action):
    """Prints the whole help: every knob, every preset."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        assert isinstance(parser, Parser)
        parser.rare.clear()
        parser.epilog = preset_list(every=True)
        parser.print_help()
        parser.exit()


def add_knobs(parser: Parser) -> None:
    """A flag for every knob; `--help` shows the common ones, `--help-all` all of them."""
    parser.add_argument("--help-all", action=HelpAll, nargs=0, help="show every knob and every preset, and exit")
    parser.epilog = preset_list()
    group: Any = parser
    for name, field in knobs.FIELDS.items():
        group = parser.add_argument_group(field.metadata["group"]) if field.metadata["group"] else group
        text = field.metadata["help"].replace("%", "%%")
        if knobs.TYPES[name] is bool:
            options: dict[str, Any] = {"action": argparse.BooleanOptionalAction}
        else:
            allowed = [*(knobs.options(name) or ()), *(["MODULE:NAME"] if name in knobs.PARTS else [])]
            options = {"metavar": "|".join(map(str, allowed)) if allowed else _metavar(name)}
        added = group.add_argument(knobs.flag(name), default=argparse.SUPPRESS, help=text, **options)
        if name not in COMMON:
            parser.rare.append(added)
        if field.metadata["formerly"]:
            old = knobs.flag(field.metadata["formerly"])
            group.add_argument(old, dest=name, default=argparse.SUPPRESS, help=argparse.SUPPRESS)


def given_knobs(args: argparse.Namespace) -> dict[str, Any]:
    """The knobs that the command line sets, as values of `Config`."""
    words = {k: v for k, v in vars(args).items() if k in knobs.FIELDS}
    return {k: v if isinstance(v, bool) else knobs.parse(k, v) for k, v in words.items()}


def add_trust(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--trust", action="store_true", help="import the own code that the run names, if any")


def add_threads(
    parser: argparse._ActionsContainer, words: str = "number of threads; default OMP_NUM_THREADS, then the cores"
) -> None:
    parser.add_argument("--threads", metavar="INT", help=words)


def add_track(parser: argparse._ActionsContainer, words: str) -> None:
    parser.add_argument("--track", action="append", metavar="tensorboard|wandb|trackio", help=words)


def threads(given: str | None) -> int | None:
    """The number of --threads, or None if it is not given."""
    if given is None:
        return None
    if not re.fullmatch(r"\d{1,4}", given) or not 1 <= int(given) <= 1024:
        raise RequestError(f"--threads {given!r}: expected an integer from 1 to 1024")
    return int(given)


def integers(flag: str, text: str) -> list[int]:
    """Integers of 0 or more, as in 3, 0,2,5 or 0-5."""
    numbers: list[int] = []
    for part in text.split(","):
        form = re.fullmatch(r"(\d{1,18})(?:-(\d{1,18}))?", part.strip())
        first, last = (int(form[1]), int(form[2] or form[1])) if form else (1, 0)
        if last < first or last - first > 10_000:
            raise RequestError(f"{flag} {text!r}: expected integers of 0 or more, as in 3, 0,2,5 or 0-5")
        numbers += range(first, last + 1)
    return list(dict.fromkeys(numbers))


def one_seed(text: str) -> int:
    try:
        seed = int(text)
    except ValueError:
        seed = -1
    if not 0 <= seed < 2**63:
        raise RequestError(f"--seed {text!r}: expected an integer of 0 or more")
    return seed


def picture_file(flag: str, given: str) -> Path:
    """The path of a picture, which ends in .png or .svg; an error without matplotlib."""
    path = place(given)
    if path.suffix not in (".png", ".svg"):
        raise RequestError(f"{flag} {given}: the name must end in .png or .svg")
    require("matplotlib")
    return path


def require(package: str, module: str | None = None) -> None:
    """Raise an error that says how to install a package that drawing needs, if it is missing."""
    if find_spec(module or package) is None:
        raise RequestError(f"drawing needs {package}, which is not installed: pip install 'brojepa[figures]'")


def _metavar(name: str) -> str:
    kind = knobs.TYPES[name]
    return {int: "INT", float: "FLOAT", str: name.replace("_", "-").upper()}.get(kind, "K,K,...")


def join_negative(argv: list[str]) -> list[str]:
    """`--train-actions -1,1` as `--train-actions=-1,1`: argparse mistakes a value with a leading minus for a flag."""
    joined: list[str] = []
    for word in argv:
        if joined and re.fullmatch(r"--[a-z-]+", joined[-1]) and re.match(r"-[\d.]", word):
            joined[-1] += "=" + word
        else:
            joined.append(word)
    return joined


def preset_list(every: bool = False) -> str:
    """The presets with a phrase each: ours, or all of them."""
    paper = [f"{world}/{row}" for world, rows in PAPER_ROWS.items() for row in rows.split()]
    named = [*(name for name in PRESETS if name not in paper), *(paper if every else ())]
    width = max(map(len, named))
    lines = ["presets:", *(f"  {name:<{width}}  {phrase(name)}" for name in named)]
    rest = f"  and the {len(paper)} rows of the paper's tables, such as {paper[-1]}: --help-all"
    return "\n".join(lines if every else [*lines, rest])
