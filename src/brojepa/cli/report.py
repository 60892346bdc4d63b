"""`brojepa report`: runs as tables."""

from __future__ import annotations

import sys

from brojepa.cli.parser import Parser
from brojepa.errors import unknown

EPILOG = """\
The paper's numbers are beside ours; = ↑ ↓ say whether our mean is within its standard deviation, above or below.
A row after ↳ is a changed config, named by its flags. CSV and JSON have every digit and say how runs differ from the
paper's protocol. A CSV of --runs can be given as a PATH later. ROW is a preset, a preset and its changed flags
(mnist/jepa-mlp,lr=2e-4), or the hash of a config."""


def report(argv: list[str]) -> int:
    """Show runs as tables beside the paper's numbers."""
    parser = Parser(prog="brojepa report", description=report.__doc__, epilog=EPILOG)
    parser.add_argument(
        "paths", nargs="*", default=["runs"], metavar="PATH",
        help="run directories, directories of them, files of --archive, or a CSV of runs; default runs",
    )  # fmt: skip
    parser.add_argument("--table", metavar="1|2", help="that table of the paper, row for row; default all runs found")
    parser.add_argument("--format", default="md", metavar="md|csv|latex|json", help="default md")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--intervals", action="store_true", help="95 %% intervals of the means, not standard deviations")
    what.add_argument("--per-action", action="store_true", help="accuracy of every action")
    what.add_argument("--runs", action="store_true", help="one line per run")
    what.add_argument("--archive", metavar="DIR", help="add the runs to DIR: a file per experiment, a line per run")
    what.add_argument("--compare", nargs=2, metavar="ROW", help="compare two rows over the seeds they share")
    parser.add_argument(
        "--within", type=int, metavar="SIZE", help="zero-shot over held-out actions of at most this size, not all"
    )
    parser.add_argument("--out", metavar="FILE", help="write to a file, not to the screen")
    args = parser.parse(argv)
    if args.table and args.compare:
        parser.error("argument --table: not allowed with argument --compare")
    for other in ("table", "out"):
        if args.archive is not None and getattr(args, other) is not None:
            parser.error(f"argument --archive: not allowed with argument --{other}")
    for other in ("per_action", "runs", "compare", "archive"):
        if args.within is not None and getattr(args, other):
            parser.error(f"argument --within: not allowed with argument --{other.replace('_', '-')}")

    from brojepa import report as reports
    from brojepa.files import place, write_atomically

    if args.format not in reports.FORMATS:
        raise unknown("format", args.format, reports.FORMATS)
    if args.table not in (None, *map(str, reports.TABLES)):
        raise unknown("table", args.table, map(str, reports.TABLES))
    if args.archive is not None:
        done = reports.archive(args.paths, args.archive)
        for remark in reports.remarks(done.found):
            print(f"brojepa: {remark}", file=sys.stderr)
        print("\n".join(map(str, done.files)) or f"{args.archive}: nothing new")
        return 0
    table = int(args.table) if args.table else None
    if args.compare:
        view: reports.View = reports.compare(args.paths, *args.compare)
    elif args.runs:
        view = reports.runs(args.paths, table)
    elif args.per_action:
        view = reports.per_action(args.paths, table)
    else:
        view = reports.table(args.paths, table, intervals=args.intervals, within=args.within)
    text = reports.FORMATS[args.format](view)
    for remark in view.remarks:
        print(f"brojepa: {remark}", file=sys.stderr)
    if args.out:
        write_atomically(place(args.out), text.encode())
    else:
        print(text, end="")
    return 0
