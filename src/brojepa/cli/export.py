"""`brojepa export` and `brojepa push`: models for other programs and for the hub."""

from __future__ import annotations

import json

from brojepa.cli.parser import RUN_HELP, Parser, add_threads, add_trust, threads


def export(argv: list[str]) -> int:
    """Export a model as ONNX or pt2 graphs that run without brojepa."""
    parser = Parser(prog="brojepa export", description=export.__doc__)
    parser.add_argument("run", metavar="RUN", help=RUN_HELP)
    parser.add_argument("--format", default="onnx", metavar="onnx|pt2", help="ONNX, or PyTorch's pt2; default onnx")
    parser.add_argument("--out", required=True, metavar="DIR", help="a new or empty directory")
    add_trust(parser)
    add_threads(parser)
    parser.add_argument("--json", action="store_true", help="print metadata.json")
    args = parser.parse(argv)
    number = threads(args.threads)

    from brojepa.exporting import export as export_run
    from brojepa.runs.threads import set_threads

    set_threads(number)
    about = export_run(args.run, args.out, args.format, trust=args.trust)
    if args.json:
        print(json.dumps(about))
        return 0
    for name, graph in about["graphs"].items():
        shapes = " ".join(f"{key} {_shape(value)}" for key, value in graph["inputs"].items())
        ((result, value),) = graph["outputs"].items()
        print(f"{name:<8}  {shapes} -> {result} {_shape(value)}, largest difference {graph['largest_difference']:.1e}")
    print(args.out)
    return 0


def push(argv: list[str]) -> int:
    """Put a finished run on the Hugging Face hub, with a model card."""
    parser = Parser(prog="brojepa push", description=push.__doc__)
    parser.add_argument("run", metavar="RUN", help="a run directory, or a preset whose weights are in the package")
    parser.add_argument("name", metavar="USER/NAME", help="the repository; created if it does not exist")
    parser.add_argument("--license", default="mit", metavar="NAME", help="as the hub names them; default mit")
    parser.add_argument("--private", action="store_true", help="create it as a private repository")
    args = parser.parse(argv)

    from brojepa.exporting import push as push_run

    print(push_run(args.run, args.name, licence=args.license, private=args.private))
    print(f"load it with brojepa.load('hf://{args.name.removeprefix('hf://')}')")
    return 0


def _shape(described: dict) -> str:
    return f"{described['dtype']}[{', '.join(map(str, described['shape']))}]"
