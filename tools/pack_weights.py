"""Put finished runs of presets into the package, for `brojepa.load("mnist/fast")`:

    python tools/pack_weights.py RUN ...

A run is measured again first and refused unless every number is that of its result.json. `make weights` trains and
packs.
"""

from __future__ import annotations

import sys
from pathlib import Path

from brojepa.errors import BrojepaError, RequestError
from brojepa.evaluation import agrees, evaluate_run
from brojepa.files import write_atomically
from brojepa.presets import PRESETS
from brojepa.runs import Run
from brojepa.runs.find import WEIGHTS
from brojepa.runs.hub import DECODER, FILES

LARGEST = 2_000_000  # bytes of a model in the package, with its decoder


def pack(run: Run, into: Path = WEIGHTS) -> Path:
    """Copy what a run needs to `into`, under the name of its preset; where it now lies."""
    preset = run.header.get("preset")
    if PRESETS.get(preset) != run.config:
        raise RequestError(f"{run.path} is not a run of a preset with nothing changed: train one first")
    files = [run.path / name for name in (*FILES, *DECODER) if (run.path / name).is_file()]
    if (size := sum(file.stat().st_size for file in files)) > LARGEST:
        raise RequestError(f"the files of {run.path} have {size:,} bytes, the package takes up to {LARGEST:,}")
    if not agrees(run.result, evaluate_run(run.path, device="cpu")):
        raise RequestError(f"{run.path} measures otherwise than its result.json says: train it again here")
    place = into / preset
    place.mkdir(parents=True, exist_ok=True)
    for file in files:
        write_atomically(place / file.name, file.read_bytes())
    return place


def main(paths: list[str]) -> int:
    try:
        for path in paths:
            print(pack(Run(Path(path))))
    except BrojepaError as error:
        print(f"pack_weights: {error}", file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
