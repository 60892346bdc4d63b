"""`brojepa data`: the images."""

from __future__ import annotations

import argparse
import sys

from brojepa.cli.parser import Parser
from brojepa.errors import MissingData, RequestError, unknown


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
