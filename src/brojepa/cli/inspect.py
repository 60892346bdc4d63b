"""`brojepa inspect`, `infer`, `plan` and `predict`: the algebra of a trained model, and its uses."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from brojepa.cli.parser import RUN_HELP, Parser, add_threads, add_trust, join_negative, picture_file, threads
from brojepa.files import json_line
from brojepa.presets import PRESETS, RECOMMENDED

if TYPE_CHECKING:
    import numpy as np
    from torch import Tensor

    from brojepa.groups import Element
    from brojepa.models import Model
    from brojepa.runs import Run

BRIGHT = 0.5  # an image with a higher mean has a white background
APART = 0.3  # difference between the means of an image and of the model's world that suggests an inverted image


def inspect(argv: list[str]) -> int:
    """Read the algebra of a run: its group, geometry and laws."""
    parser = Parser(prog="brojepa inspect", description=inspect.__doc__)
    parser.add_argument("run", nargs="?", metavar="RUN", help=f"{RUN_HELP}; default {RECOMMENDED}")
    parser.add_argument("--data-dir", metavar="DIR", help="where EMNIST is, or other images of the same shape")
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda or mps; default auto")
    add_threads(parser)
    add_trust(parser)
    parser.add_argument("--json", action="store_true", help="print everything as JSON")
    parser.add_argument("--figure", metavar="FILE", help="draw it as well, .png or .svg")
    args = parser.parse(argv)
    args.run = RECOMMENDED if args.run is None else args.run
    file, asked = picture_file("--figure", args.figure) if args.figure else None, threads(args.threads)

    from brojepa.algebra import inspect_run
    from brojepa.algebra.describe import describe
    from brojepa.files import write_atomically
    from brojepa.runs.find import find
    from brojepa.runs.threads import set_threads

    set_threads(asked)
    run = find(args.run)
    found = inspect_run(run.path, args.data_dir, args.device, trust=args.trust) | {"run": args.run}
    _say_which(args.run, run)
    print(json_line(found) if args.json else "\n".join(describe(found)))
    if file:
        from brojepa.figures.algebra import picture

        write_atomically(file, picture(found, _names(run))[file.suffix[1:]])
    return 0


def infer(argv: list[str]) -> int:
    """Name the action that leads from one image to another."""
    parser = _two_images("infer", infer.__doc__)
    args = _parsed(parser, argv, 2)
    _, model, z, shown = _read(args)
    k = model.group.plain(model.infer_action(z[0], z[1]))
    if args.json:
        print(json_line({"from": shown[0], "to": shown[1], "action": _as_json(model, k)}))
        return 0
    _print_images(args, shown)
    print(f"action {model.group.write(k)}")
    return 0


def plan(argv: list[str]) -> int:
    """Plan a path from one image to another with allowed actions only."""
    parser = _two_images("plan", plan.__doc__)
    parser.add_argument(
        "--allowed", required=True, metavar="K,K,...", help="allowed actions, as in --allowed=+3,-4 or r,s"
    )
    args = _parsed(parser, join_negative(argv), 2)
    run, model, z, shown = _read(args)
    way = model.plan(z[0], z[1], args.allowed.split(","))
    states, write = _states(run, model, way.latents), model.group.write
    if args.json:
        answer = {"action": _as_json(model, way.action), "actions": [_as_json(model, k) for k in way.actions]}
        answer |= {"reached": way.reached, "distance": way.distance}
        print(json_line({"from": shown[0], "to": shown[1], **answer, "states": states}))
        return 0
    _print_images(args, shown)
    print(f"action {write(way.action)}, in {len(way.actions)} step{'' if len(way.actions) == 1 else 's'}:")
    for word, state in zip(["start", *map(write, way.actions)], states, strict=True):
        print(f"  {word:>5}  {state or ''}".rstrip())
    print(f"{'arrived' if way.reached else 'not arrived'}: {way.distance:.3f} of the goal latent's length away from it")
    return 0


def predict(argv: list[str]) -> int:
    """Predict the state that an action leads to from an image."""
    parser = _reader("predict", predict.__doc__, "+")
    parser.add_argument("--action", required=True, metavar="K", help="the action, as in --action=+3 or 1:0")
    parser.add_argument(
        "--out", metavar="FILE", help="draw each image, the action and the nearest test image, .png or .svg"
    )
    parser.add_argument("--data-dir", metavar="DIR", help="--out: where EMNIST is, or other images of the same shape")
    args = _parsed(parser, join_negative(argv))
    file, asked = picture_file("--out", args.out) if args.out else None, threads(args.threads)

    import torch

    from brojepa.files import write_atomically
    from brojepa.runs.find import find
    from brojepa.runs.loading import load
    from brojepa.runs.threads import set_threads

    set_threads(asked)
    run = find(args.run)
    model = load(run.path, args.device, trust=args.trust)
    (k,) = model.group.check([args.action], "--action")
    if model.classifier is None:
        return _predict_view(args, run, model, k, file)
    images = _images(args, model)
    with torch.no_grad():
        z = model.encode(images)
        after = model.act(z, k)
        chances, states = model.classifier(after).softmax(-1).max(-1)
    names, word = _names(run), model.group.write(k)
    shown, reached = _states(run, model, z), [names[y] for y in states.tolist()]
    answers = [
        {"image": path, "state": state, "action": _as_json(model, k), "after": then, "probability": round(chance, 6)}
        for path, state, then, chance in zip(args.images, shown, reached, chances.tolist(), strict=True)
    ]
    if file:
        from brojepa.evaluation.runs import same_images, world_of
        from brojepa.figures.predicted import nearest, picture

        world = world_of(run, args.data_dir)
        if not same_images(run, world):
            print(f"brojepa: {world.title} has other images than {args.run} was trained on", file=sys.stderr)
        near, found = nearest(model, world.test, after)
        titles = [(f"{a}", f"{b}, {c:.0%}", names[y]) for a, b, c, y in
                  zip(shown, reached, chances.tolist(), found, strict=True)]  # fmt: skip
        write_atomically(file, picture(torch.from_numpy(images), word, near, titles)[file.suffix[1:]])
    _say_which(args.run, run)
    if args.json:
        print(json_line(answers))
        return 0
    for line in answers:
        chance = f"(probability {line['probability']:.4f})"
        print(f"{line['image']} shows {line['state']}; {word} leads to {line['after']} {chance}")
    return 0


def _predict_view(args: argparse.Namespace, run: Run, model: Model, k: Any, file: Path | None) -> int:
    """`predict` where states have no labels: the known views whose latents are nearest."""
    import torch

    from brojepa.errors import RequestError
    from brojepa.evaluation.runs import world_of
    from brojepa.files import write_atomically
    from brojepa.worlds import ViewWorld

    world = world_of(run, args.data_dir)
    if not isinstance(world, ViewWorld):
        raise RequestError(f"{args.run} has no labelled states to name and no known views to compare with: try infer")
    images, group = _images(args, model), model.group
    with torch.no_grad():
        z, known = model.encode(images), model.encode(world.test.images)
        near = [torch.cdist(latents, known).min(1) for latents in (z, model.act(z, k))]
    views = world.test
    word = group.write(k)
    shown, reached = (
        [f"thing {views.states[i]}, {group.write(group.plain(views.poses[i]))}" for i in found.indices.cpu()]
        for found in near
    )
    length = known.norm(dim=1).mean()
    answers = [
        {"image": path, "nearest": at, "action": _as_json(model, k), "after": then, "distance": round(float(d), 6)}
        for path, at, then, d in zip(args.images, shown, reached, near[1].values / length, strict=True)
    ]
    if file:
        from brojepa.figures.predicted import picture

        titles = [(a, "", b) for a, b in zip(shown, reached, strict=True)]
        found = views.images[near[1].indices.cpu()]
        write_atomically(file, picture(torch.from_numpy(images), word, found, titles)[file.suffix[1:]])
    _say_which(args.run, run)
    if args.json:
        print(json_line(answers))
        return 0
    for line in answers:
        print(f"{line['image']} is nearest to {line['nearest']}; {word} leads to {line['after']} "
              f"({line['distance']:.3f} of a latent's length away)")  # fmt: skip
    return 0


def _two_images(name: str, description: str | None) -> Parser:
    return _reader(name, description, 2)


def _reader(name: str, description: str | None, images: int | str) -> Parser:
    """A command that reads a run and images."""
    parser = Parser(words_anywhere=True, prog=f"brojepa {name}", description=description)
    parser.add_argument("run", nargs="?", metavar="RUN", help=f"{RUN_HELP}; default {RECOMMENDED}")
    parser.add_argument("images", nargs=images, metavar="IMAGE", help="PNG, .npy, or another format that Pillow opens")
    parser.add_argument("--invert", action="store_true", help="the images are dark on white")
    parser.add_argument("--resize", action="store_true", help="bring images of another size to the model's")
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda or mps; default auto")
    add_threads(parser)
    add_trust(parser)
    parser.add_argument("--json", action="store_true", help="print the answer as JSON")
    return parser


def _parsed(parser: Parser, argv: list[str], count: int | None = None) -> argparse.Namespace:
    """The arguments of a command that reads images. The first word is a run unless it is a file; without a run, the
    weights in the package are used."""
    args = parser.parse(argv)
    words = [*([] if args.run is None else [args.run]), *args.images]
    named = words[0].startswith("hf://") or words[0] in PRESETS or Path(words[0]).is_dir()
    alone = not named and (Path(words[0]).is_file() or len(words) == count)
    args.run, args.images = (RECOMMENDED, words) if alone else (words[0], words[1:])
    if not args.images or (count and len(args.images) != count):
        parser.error(f"expected {count or 'one or more'} of IMAGE, got {len(args.images)}")
    return args


def _say_which(name: str, run: Run) -> None:
    """Print which model is used, if it is not from a run directory."""
    from brojepa.runs.find import is_packed

    if is_packed(run):
        print(f"brojepa: {name} from the package, seed {run.header['seed']}", file=sys.stderr)


def _images(args: argparse.Namespace, model: Model) -> np.ndarray:
    """The images as the model reads them, [count, c, h, w]; a line if they look inverted."""
    import numpy as np

    from brojepa.worlds.pictures import read_picture

    reading = {"invert": args.invert, "resize": args.resize}
    images = np.stack([read_picture(path, model.task.shape, **reading) for path in args.images])
    usual = sum(model.task.mean) / len(model.task.mean)
    for mean in images.mean((1, 2, 3)) / 255:
        if (mean > BRIGHT) != (usual > BRIGHT) and abs(mean - usual) > APART:
            hint = "without --invert" if args.invert else "with --invert"
            ours, theirs = ("bright", "dark") if mean > usual else ("dark", "bright")
            print(f"brojepa: the images are {ours} where the model's are {theirs}: try {hint}", file=sys.stderr)
            break
    return images


def _read(args: argparse.Namespace) -> tuple[Run, Model, Tensor, list[str | None]]:
    """The run, its model, the latents [2, dim] of both images, and the names of the states they show."""
    asked = threads(args.threads)

    import torch

    from brojepa.runs.find import find
    from brojepa.runs.loading import load
    from brojepa.runs.threads import set_threads

    set_threads(asked)
    run = find(args.run)
    model = load(run.path, args.device, trust=args.trust)
    with torch.no_grad():
        z = model.encode(_images(args, model))
    _say_which(args.run, run)
    return run, model, z, _states(run, model, z)


def _states(run: Run, model: Model, z: Tensor) -> list[str | None]:
    """The names of the states that latents [count, dim] show; None if the world has no labels."""
    if model.classifier is None:
        return [None] * len(z)
    if z.shape[-1] != model.classifier.in_features:  # its classifier reads acted-on latents, not these
        return [None] * len(z)
    names = _names(run)
    return [names[y] for y in model.classify(z).tolist()]


def _as_json(model: Model, k: Element) -> int | str:
    """An action in JSON: a cycle's is a number, another group's is written as --allowed reads it."""
    return model.group.write(k) if model.group.shape or not isinstance(k, int) else k


def _names(run: Run) -> list[str]:
    from brojepa.worlds.pictures import state_names

    facts = run.header["world"]
    return state_names(run.config.world, facts["states"], facts.get("names"))


def _print_images(args: argparse.Namespace, shown: list[str | None]) -> None:
    for path, state in zip(args.images, shown, strict=True):
        if state is not None:
            print(f"{path} shows {state}")
