"""`brojepa decode`: pictures of latents."""

from __future__ import annotations

import json
import sys
from typing import Any

from brojepa.cli.parser import RUN_HELP, Parser, add_threads, add_trust, integers, one_seed, threads
from brojepa.errors import RequestError


def decode(argv: list[str]) -> int:
    """Train a decoder for a finished run, to see what a latent holds."""
    parser = Parser(prog="brojepa decode", description=decode.__doc__, epilog=AFTER)
    parser.add_argument("run", metavar="RUN", help=RUN_HELP)
    parser.add_argument("--steps", default=None, metavar="INT", help="batches of 128 images; default 2000")
    parser.add_argument("--seed", default="0", metavar="INT", help="default 0")
    parser.add_argument("--data-dir", metavar="DIR", help="where EMNIST is, or other images of the same shape")
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda or mps; default auto")
    add_threads(parser, "number of threads; default as the run began")
    add_trust(parser)
    parser.add_argument("--json", action="store_true", help="print the decoder's description as JSON")
    args = parser.parse(argv)
    seed, asked = one_seed(args.seed), threads(args.threads)
    steps: dict[str, Any] = {} if args.steps is None else {"steps": _steps(args.steps)}

    from brojepa.training.decoding import decoder_file, train_decoder
    from brojepa.training.screen import progress_bar

    file = decoder_file(args.run)
    there = file.is_file()
    with progress_bar("decoding", sys.stderr) as tell:
        decoder = train_decoder(
            args.run, seed=seed, data_dir=args.data_dir, device=args.device, trust=args.trust, threads=asked,
            listener=tell, **steps,
        )  # fmt: skip
    about = decoder.about
    if args.json:
        print(json.dumps(about))
        return 0
    if there:
        print(f"{args.run} has a decoder already: remove {file} to train another")
    print(f"error on {about['held_out_images']:,} images held out, as a mean square of pixels from 0 to 1:")
    print(f"  {about['error']:.4f}  the decoder")
    if about["state_image_error"] is not None:
        print(f"  {about['state_image_error']:.4f}  the mean image of the right state")
    print(f"  {about['mean_image_error']:.4f}  the mean image")
    if not there:
        print(file)
    return 0


AFTER = """\
It is saved beside the run's model (in the cache, for a run of the package or the hub), and the model does not change:
  model = brojepa.load(RUN)
  pictures = model.decode(model.act(model.encode(images), 3))   uint8 [batch, channels, height, width]"""


def _steps(text: str) -> int:
    numbers = integers("--steps", text)
    if len(numbers) != 1 or not 1 <= numbers[0] <= 10**7:
        raise RequestError(f"--steps {text!r}: expected an integer from 1 to 10,000,000")
    return numbers[0]
