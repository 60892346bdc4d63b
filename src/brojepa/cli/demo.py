"""`brojepa demo`: a page to play with a model."""

from __future__ import annotations

import re
import sys
from importlib.util import find_spec

from brojepa.cli.parser import RUN_HELP, Parser, add_threads, add_trust, threads
from brojepa.errors import RequestError
from brojepa.presets import RECOMMENDED


def demo(argv: list[str]) -> int:
    """Play with a model in the browser: draw, act, plan, roll out."""
    parser = Parser(prog="brojepa demo", description=demo.__doc__, epilog=AFTER)
    parser.add_argument("run", nargs="?", default=RECOMMENDED, metavar="RUN", help=f"{RUN_HELP}; default {RECOMMENDED}")
    parser.add_argument(
        "--baseline", metavar="RUN", help="another run of the same world to compare with; default the package's, if any"
    )
    parser.add_argument("--port", metavar="INT", help="default: the first free one from 7860")
    parser.add_argument("--no-browser", action="store_true", help="print the address, open no browser")
    parser.add_argument("--data-dir", metavar="DIR", help="where EMNIST is, or other images of the same shape")
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda or mps; default auto")
    add_threads(parser)
    add_trust(parser)
    args = parser.parse(argv)
    port, asked = _port(args.port), threads(args.threads)
    if find_spec("gradio") is None:
        raise RequestError("the demo needs gradio, which is not installed: pip install 'brojepa[demo]'")

    from brojepa.demo import serve, stage
    from brojepa.runs.threads import set_threads

    set_threads(asked)
    if sys.stderr.isatty():
        print(f"{args.run}: encoding test images ...", end="\r", file=sys.stderr, flush=True)
    scene = stage(args.run, args.baseline, args.data_dir, args.device, trust=args.trust)
    serve(scene, port, browser=not args.no_browser)
    return 0


AFTER = """\
The page is served on 127.0.0.1 only and contacts no other machine. It shows worlds of labelled
states (mnist, emnist, pairs, torus, your own images) and turned images (rotation)."""


def _port(text: str | None) -> int | None:
    if text is None:
        return None
    if not re.fullmatch(r"\d{1,5}", text) or not 1 <= int(text) <= 65535:
        raise RequestError(f"--port {text!r}: expected an integer from 1 to 65535")
    return int(text)
