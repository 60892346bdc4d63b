"""Record the contracts anew: `python tests/contracts/record.py`.

Do this only where a change is meant: the tests compare with what is recorded. The old run directories stay as they
are, so that runs of the past go on being read; `--old-runs` makes new ones.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import observe

import brojepa


def interface() -> dict[str, Any]:
    return {
        "public": sorted(brojepa.__all__),
        "signatures": observe.signatures(),
        "commands": {command: observe.flags(command) for command in observe.COMMANDS},
        "fields": observe.fields(),
        "presets": observe.presets(),
        "committed_runs": len(observe.committed()),
    }


def runs(place: Path) -> dict[str, Any]:
    """Each kind of run: its files, keys, tensors, bits and numbers."""
    worlds, found = observe.small_worlds(place), {}
    for kind, values in observe.KINDS.items():
        run = observe.train(observe.config(values, *worlds), place / kind).path
        shapes = observe.shape(observe.documents(run))
        found[kind] = {
            "files": observe.files(run),
            "shapes": shapes,
            "tensors": observe.tensor_shapes(observe.read_tensors(run / "model.safetensors")[0]),
            "bits": observe.bits(run, shapes),
            "numbers": observe.numbers(run),
        }
    return found


def make_old_runs(place: Path) -> None:
    """A finished run without its state and a cut-off one without its model, each left out for its size."""
    world = observe.old_world(place)
    shutil.rmtree(observe.OLD_RUNS, ignore_errors=True)
    for name, seed in observe.OLD_SEEDS.items():
        cut = observe.OLD_CUT if name == "cut-off" else None
        run = observe.train(observe.config(observe.OLD, world), place / name, seed, cut).path
        observe.named(run, world.name)
        left_out = "state" if name == "finished" else "model.safetensors"
        shutil.copytree(run, observe.OLD_RUNS / name, ignore=shutil.ignore_patterns("lock", left_out))


def old_runs(place: Path) -> dict[str, Any]:
    """What the old runs give: the cut-off one at its end, and what commands say of the finished one."""
    world = observe.old_world(place)
    wanted, taken = observe.config(observe.OLD, world), observe.take_old_runs(place / "old", world)
    finished, cut = taken["finished"].path, taken["cut-off"].path
    observe.train(wanted, place / "old", observe.OLD_SEEDS["cut-off"])
    uncut = observe.train(wanted, place / "uncut", observe.OLD_SEEDS["cut-off"]).path
    shapes = observe.shape(observe.documents(cut))
    assert observe.bits(cut, shapes) == observe.bits(uncut, shapes)
    return {
        "shapes": shapes,
        "bits": observe.bits(cut, shapes),
        "numbers": observe.numbers(cut),
        "said": observe.shape(observe.said(finished, world)),
    }


def written(value: Any, indent: int = 0) -> str:
    """JSON, a line for whatever fits on one."""
    line = json.dumps(value)
    if not isinstance(value, (dict, list)) or indent + len(line) <= 230:
        return line
    pad = " " * (indent + 1)
    if isinstance(value, list):
        return "[\n" + ",\n".join(pad + written(part, indent + 1) for part in value) + "\n" + " " * indent + "]"
    parts = [f"{pad}{json.dumps(key)}: {written(part, indent + 1)}" for key, part in value.items()]
    return "{\n" + ",\n".join(parts) + "\n" + " " * indent + "}"


def main(argv: list[str]) -> None:
    with tempfile.TemporaryDirectory() as made:
        place = Path(made).resolve()
        if "--old-runs" in argv:
            (place / "make").mkdir()
            make_old_runs(place / "make")
        built = {name: observe.built(name, place / "built" / name) for name in observe.BUILT}
        cut = observe.space(place / "space")
        recorded = {
            "machine": observe.machine(),
            **interface(),
            "runs": runs(place),
            "built": built,
            "space": {"bits": observe.tensor_bits(cut[0]), "losses": cut[1]},
            "old_runs": old_runs(place),
        }
    observe.RECORDED.write_text(written(recorded) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
