"""The pages of the command line and of the config, written from the parsers and from `Config`: `make docs`."""

from __future__ import annotations

import argparse
from typing import Any
from unittest.mock import patch

from brojepa import config as knobs
from brojepa.cli import COMMANDS
from brojepa.cli.parser import Parser
from brojepa.presets import PAPER_ROWS, PRESETS, RECOMMENDED, phrase

USE = {
    "train": "brojepa train --world photos/",
    "eval": "brojepa eval runs/mnist/fast/seed-0",
    "sweep": "brojepa sweep table1 --seeds 0-5 --jobs 2",
    "report": "brojepa report results --table 1",
    "figures": "brojepa figures runs/mnist/fast/seed-0",
    "data": "brojepa data show torus",
    "inspect": "brojepa inspect mnist/fast",
    "infer": "brojepa infer mnist/fast A.png B.png",
    "plan": "brojepa plan mnist/fast A.png B.png --allowed=+3,-4",
    "predict": "brojepa predict mnist/fast A.png --action +3",
    "export": "brojepa export mnist/fast --format onnx --out DIR",
    "push": "brojepa push runs/mnist/fast/seed-0 user/name",
    "decode": "brojepa decode runs/mnist/fast/seed-0",
    "bench": "brojepa bench --all",
    "demo": "brojepa demo",
}
"""An example of each command."""

MORE = {
    "train": "start.md", "eval": "evaluation.md", "sweep": "sweep.md", "report": "report.md", "figures": "figures.md",
    "data": "worlds.md", "inspect": "algebra.md", "infer": "algebra.md", "plan": "algebra.md", "predict": "algebra.md",
    "export": "export.md", "push": "export.md#the-hub", "decode": "decode.md", "bench": "performance.md",
    "demo": "demo.md",
}  # fmt: skip
"""The page that explains each command."""


class _Built(Exception):
    """A parser that is ready to parse."""


def parser(command: str) -> Parser:
    """The parser of a command, taken at the moment when it would parse."""

    def stop(self: Parser, argv: Any) -> None:
        raise _Built(self)

    with patch.object(Parser, "parse", stop):
        try:
            COMMANDS[command]([])
        except _Built as built:
            return built.args[0]
    raise AssertionError(f"{command} does not parse its words")


def cell(text: object) -> str:
    return str(text).replace("|", "\\|")


def row(action: argparse.Action) -> str:
    names = ", ".join(f"`{name}`" for name in action.option_strings) or f"`{action.metavar or action.dest}`"
    takes = "" if action.nargs == 0 or not action.option_strings else action.metavar or action.dest.upper()
    text = (action.help or "").replace("%%", "%")
    return f"| {names} | {f'`{cell(takes)}`' if takes else ''} | {cell(text)} |"


def commands() -> str:
    """docs/commands.md."""
    lines = [
        "# Command line",
        "",
        "`brojepa COMMAND --help` prints the same. `make docs` writes this page from the parsers.",
        "",
        f"- `brojepa train` alone trains `{RECOMMENDED}` on the bundled MNIST.",
        "- RUN is a run directory, a preset whose weights are in the package, or `hf://user/name`.",
        "- `--debug` shows the traceback of an error, `brojepa --version` the version.",
        "- Exit codes: 0 done, 1 the run failed, 2 the request was wrong, 130 interrupted and resumable, 141 stdout was closed.",  # noqa: E501
        "",
        "| command | what it does |",
        "|---|---|",
        *(f"| [`{name}`](#{name}) | {command.__doc__} |" for name, command in COMMANDS.items()),
        "",
    ]
    for name in COMMANDS:
        built = parser(name)
        knobbed = "--help-all" in built._option_string_actions
        hidden = {"help", *(knobs.FIELDS if knobbed else ())}
        actions = [a for a in built._actions if a.dest not in hidden and a.help is not argparse.SUPPRESS]
        lines += [f"## {name}", "", f"{built.description}", "", f"    {USE[name]}", ""]
        lines += ["| argument | takes | meaning |", "|---|---|---|", *map(row, actions), ""]
        if knobbed:
            lines += ["Every knob of the [config](config.md) is a flag too: `latent` is `--latent`.", ""]
        lines += [f"More: [{MORE[name].partition('#')[0]}]({MORE[name]})", ""]
    return "\n".join(lines)


def _kind(name: str) -> str:
    allowed = knobs.options(name)
    if allowed:
        own = ["package.module:name"] if name in knobs.PARTS else []
        return ", ".join(f"`{value}`" for value in (*allowed, *own))
    kind = knobs.TYPES[name]
    return kind.__name__ if isinstance(kind, type) and kind in (int, float, str, bool) else "list of actions"


def _default(value: object) -> str:
    text = ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
    return "" if value in ("", None) else f"`{text}`"


def config() -> str:
    """docs/config.md."""
    lines = [
        "# Config",
        "",
        "A run is a function of its config and its seed. Each knob below is a field of `brojepa.Config`, a keyword of "
        "`brojepa.train`, and a flag: `batch_size` is `--batch-size`, `standardise` is `--standardise` or "
        "`--no-standardise`. The defaults are the paper's protocol; [presets](#presets) change them. `make docs` "
        "writes this page from `Config`.",
        "",
        "    brojepa train mnist/fast --epochs 8 --regulariser sigreg --no-standardise",
    ]  # fmt: skip
    for name, field in knobs.FIELDS.items():
        if group := field.metadata["group"]:
            lines += [
                "",
                f"## {group.capitalize()}",
                "",
                "| knob | type or values | default | meaning |",
                "|---|---|---|---|",
            ]
        cells = (f"`{name}`", _kind(name), _default(field.default), cell(field.metadata["help"]))
        lines.append(f"| {' | '.join(cells)} |")
    paper = [f"{world}/{row}" for world, rows in PAPER_ROWS.items() for row in rows.split()]
    ordered = [*(name for name in PRESETS if name not in paper), *paper]
    lines += ["", "## Presets", "", "| preset | what it is |", "|---|---|"]
    lines += [f"| `{name}` | {phrase(name)} |" for name in ordered]
    return "\n".join(lines) + "\n"
