"""`brojepa data`: the images."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

from brojepa.cli.parser import Parser, join_negative, one_seed, picture_file
from brojepa.config import WORLDS, absolute_world, world_folder
from brojepa.errors import MissingData, RequestError, unknown

if TYPE_CHECKING:
    from brojepa.worlds import World

COMMANDS = ("list", "show", "fetch", "check")
FILES = ("mnist", "emnist")  # the worlds that are files; the others are made
COLUMNS = 12  # actions that fit beside each other


def data(argv: list[str]) -> int:
    """List, show, fetch or check the images."""
    parser = Parser(prog="brojepa data", description=data.__doc__)
    parser.add_argument("what", nargs="?", default="list", metavar="|".join(COMMANDS), help="default list")
    parser.add_argument("world", nargs="?", metavar="WORLD", help=f"{', '.join(WORLDS)}, or a path")
    parser.add_argument(
        "--data-dir", metavar="DIR", help="where EMNIST is or goes; default BROJEPA_DATA, then the cache"
    )
    parser.add_argument("--size", default="", help="own images: resize them to N or HxW")
    parser.add_argument("--url", help="fetch the EMNIST archive from a mirror")
    parser.add_argument("--out", metavar="FILE", help="show: the picture, .png or .svg; default WORLD.png")
    parser.add_argument("--actions", metavar="K,K,...", help="show: these actions; default the trained and a few more")
    parser.add_argument("--seed", metavar="INT", help="show: which images, and which more actions; default 0")
    args = parser.parse(join_negative(argv))
    if args.what not in COMMANDS:
        raise unknown("data command", args.what, COMMANDS)
    for name in ("out", "actions", "seed"):
        if args.what != "show" and getattr(args, name) is not None:
            raise RequestError(f"--{name} is for 'brojepa data show WORLD', not for 'brojepa data {args.what}'")
    return {"show": _show, "fetch": _fetch}.get(args.what, _list)(args)


def _list(args: argparse.Namespace) -> int:
    from brojepa.worlds import open_world
    from brojepa.worlds.pictures import cycle_line

    damaged = None
    for name in [args.world] if args.world else FILES:
        try:
            data_dir = args.data_dir if args.world or name == "emnist" else None
            world = open_world(name, data_dir, size=args.size if args.world else "")
        except RequestError as error:
            if args.world:
                raise
            print(f"{name}: {error}")
            damaged = damaged if isinstance(error, MissingData) else error
            continue
        print(_line(world) + (_sums(world.source.get("sha256")) if args.what == "check" else ""))
        if world.plain and "names" in world.source:
            print(cycle_line(world.source["names"]))
        for note in world.notes:
            print(f"note: {note}")
    if not args.world:
        print(f"{', '.join(WORLDS[len(FILES) :])}: made when they are opened, nothing to download")
    if damaged and args.what == "check":
        raise damaged
    return 0


def _line(world: World) -> str:
    images = world.source["images"]
    states = f", {world.n} states" if world.n else " of things in poses"
    law = f" of {world.law}" if world.law else ""
    shape = "x".join(map(str, world.shape))
    return f"{world.title}: {images['train']:,} training and {images['test']:,} test images{states}{law}, {shape}"


def _sums(found: Any) -> str:
    """The sha256 sums of a world's data: its own, or those of the worlds it is made from."""
    sums = [found]
    while any(isinstance(part, list) for part in sums):
        sums = [s for part in sums for s in (part if isinstance(part, list) else [part])]
    named = " and ".join(dict.fromkeys(s[:16] for s in sums if s))
    return f", sha256 {named}, whole" if named else ", made without files"


def _show(args: argparse.Namespace) -> int:
    """Draw a world: images, and where a few actions lead."""
    if not args.world:
        raise RequestError("show which world? Name one, as in 'brojepa data show torus'")
    seed = one_seed(args.seed or "0")
    file = picture_file("--out", args.out or f"{world_folder(absolute_world(args.world))}.png")

    from brojepa.figures.world import others, picture, trained_on
    from brojepa.files import write_atomically
    from brojepa.worlds import open_world

    world = open_world(args.world, args.data_dir, size=args.size)
    trained = trained_on(args.world, world.group)
    actions = (*trained, *others(world, trained, seed))
    if args.actions is not None:
        words = [word.strip() for word in args.actions.split(",") if word.strip()]
        actions = world.group.check(words, "--actions")
    if not actions:
        raise RequestError(f"--actions is empty: name some, as in --actions={world.group.example}")
    if len(actions) > COLUMNS:
        raise RequestError(f"--actions names {len(actions)} actions, {COLUMNS} fit beside each other: name fewer")
    write_atomically(file, picture(world, actions, trained, seed)[file.suffix[1:]])
    print(f"{_line(world)}: {file}")
    return 0


def _fetch(args: argparse.Namespace) -> int:
    if args.world != "emnist":
        raise RequestError(
            f"nothing to fetch for {args.world or 'no world'}: mnist is bundled and others are made, try "
            "'brojepa data fetch emnist'"
        )
    from brojepa.worlds import search_path
    from brojepa.worlds.download import URL, fetch_emnist

    live = sys.stderr.isatty()

    def progress(have: int, total: int | None) -> None:
        if live:
            share = f"{have / total:.0%} of {total / 1e6:,.0f} MB" if total else f"{have / 1e6:,.0f} MB"
            print(f"\r\x1b[K{share}", end="", file=sys.stderr, flush=True)

    world = fetch_emnist(search_path(args.data_dir)[0], url=URL if args.url is None else args.url, progress=progress)
    if live:
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)
    images = f"{len(world.train):,} training and {len(world.test):,} test images"
    print(f"{world.title}: {images} in {search_path(args.data_dir)[0]}")
    return 0
