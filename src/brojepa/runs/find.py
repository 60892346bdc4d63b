"""Which run a name means: a run directory, a preset whose weights are in the package, or a model on the hub."""

from __future__ import annotations

from pathlib import Path

from brojepa.errors import RequestError, either, nearest
from brojepa.presets import PRESETS
from brojepa.runs import hub
from brojepa.runs.run import Run
from brojepa.text import listed

WEIGHTS = Path(__file__).parents[1] / "weights"
"""Where the package keeps trained weights: `<preset>/` with a run's config, model, result and environment."""


def packed() -> list[str]:
    """The presets whose trained weights are in the package."""
    return sorted(file.parent.relative_to(WEIGHTS).as_posix() for file in WEIGHTS.rglob("result.json"))


def is_packed(run: Run) -> bool:
    """Whether a run's weights are those in the package."""
    return WEIGHTS in run.path.parents


def find(name: str | Path) -> Run:
    """The run of a name: a run directory first, then a preset, then hf://user/name."""
    path, text = Path(name), str(name)
    if not text.strip():
        raise RequestError("the name of a run is empty: name a run directory, . for the current one, or a preset")
    if text.startswith(hub.SCHEME):
        return Run(hub.download(text))
    preset = path.as_posix()
    if (path / "config.json").is_file():
        return Run(path)
    if preset not in PRESETS:
        near = _runs_below(path) or ([] if path.exists() else nearest(preset, packed()))
        hint = f"; did you mean {either(near)}?" if near else ""
        raise RequestError(f"{path} is not a run directory: it has no config.json{hint}")
    if preset not in packed():
        raise RequestError(
            f"{preset} has no weights in the package ({listed(packed())} do): train it, then name its run directory"
        )
    return Run(WEIGHTS / preset)


def _runs_below(path: Path) -> list[str]:
    """The runs of the first seeds, if a directory holds seed directories."""
    return [str(file.parent) for file in sorted(path.glob("seed-*/config.json"))[:3]]
