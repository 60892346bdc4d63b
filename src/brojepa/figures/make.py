"""From runs to files: choose, collect, draw, write; one figure after another."""

from __future__ import annotations

import string
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from brojepa.errors import BrojepaError, RequestError
from brojepa.figures import FIGURES, MOST, Need, Spec, style
from brojepa.figures.choose import Candidate, choose, find, lacking, unsuited
from brojepa.figures.data import pack, unpack
from brojepa.figures.sources import Source
from brojepa.files import write_atomically
from brojepa.runs import Run
from brojepa.worlds import World

LETTERS = string.ascii_uppercase
"""What runs are called where a picture shows any number of them"""


@dataclass(frozen=True)
class Outcome:
    """The outcome for one figure.

    file: the PNG, or None if it was not drawn.
    missing: the runs it lacks.
    unsuited: a run that could fill their place, but its world is of a kind that the figure cannot show.
    others: the runs whose images differ from those they were trained on.
    redrawn: the data it was drawn from instead of runs.
    error: what went wrong with runs that are there.
    left_out: runs that do not fit into the picture.
    """

    name: str
    file: Path | None = None
    missing: tuple[Need, ...] = ()
    unsuited: Candidate | None = None
    others: tuple[Run, ...] = ()
    redrawn: Path | None = None
    error: BrojepaError | None = None
    left_out: int = 0


def make(
    paths: Sequence[Path],
    names: Sequence[str],
    out: Path,
    data_dir: str | Path | None,
    trust: bool = False,
    options: Mapping[str, Mapping[str, Any]] | None = None,
    remark: Callable[[str], None] = lambda text: None,
) -> Iterator[Outcome]:
    """Draw the named figures from the runs and data at the paths, each into out/NAME.png, .svg and .npz.

    Runs come first; data replace runs that are missing. If there are only data, their figures are drawn.
    `trust` runs the own code that a run names; `options` are more for `collect`, by the figure's module; `remark` is
    called with the reason for each run that cannot be read.
    """
    found, files, damaged = find(paths)
    for why in damaged:
        remark(f"left out: {why}")
    data: dict[str, Path] = {}
    for file in reversed(files):
        try:
            data[unpack(file.read_bytes(), file)["figure"]] = file
        except RequestError as error:
            if len(found) + len(files) == 1:
                raise
            remark(f"left out: {error}")
    if not found:
        names = [name for name in names if name in data] or names
    sources: dict[Path, Source] = {}
    worlds: dict[str, World] = {}

    def source(run: Run) -> Source:
        return sources.setdefault(run.path, Source(run, data_dir, worlds, trust))

    for name in names:
        spec = FIGURES[name]
        more = (options or {}).get(spec.module, {})
        choice = choose(spec, found)
        absent = lacking(spec, choice)
        try:
            if spec.every and found:
                chosen = {LETTERS[i]: source(each.run) for i, each in enumerate(found[:MOST])}
                yield Outcome(name, write(out, collect(name, chosen)), left_out=len(found) - len(chosen))
            elif choice and not absent:
                chosen = {role: source(run) for role, run in choice.items() if run}
                without = tuple(spec.needs[role] for role, run in choice.items() if not run)
                file = write(out, collect(name, chosen, **more))
                others = tuple(s.run for role, s in chosen.items() if spec.needs[role].weights and s.other_images)
                yield Outcome(name, file, without, others=others)
            elif name in data:
                yield Outcome(name, _redrawn(out, data[name]), redrawn=data[name])
            else:
                yield Outcome(name, missing=tuple(absent), unsuited=unsuited(spec, found))
        except BrojepaError as error:
            yield Outcome(name, error=error)


def _redrawn(out: Path, file: Path) -> Path:
    """A figure from its data alone, which may have been edited."""
    data = unpack(file.read_bytes(), file)
    try:
        return write(out, data)
    except BrojepaError:
        raise
    except Exception as error:  # wrong shapes and types can raise any exception
        why = " ".join(f"{type(error).__name__} {error}".split())
        raise RequestError(f"{file} cannot be drawn ({why:.100}): draw the figure from its runs again") from None


def collect(name: str, sources: dict[str, Source], **options: Any) -> dict[str, Any]:
    """All that the figure's drawing needs."""
    spec = FIGURES[name]
    labels = {role: spec.needs[role].label if role in spec.needs else role for role in sources}
    runs = {role: source.identity(labels[role]) for role, source in sources.items()}
    return {"figure": name, "runs": runs, **_module(spec).collect(sources, **spec.options, **options)}


def pictures(run: Run) -> dict[str, bytes]:
    """Figures of a finished run that need only its numbers: learning curves, and accuracy by state and action.

    Args:
        run: the run.

    Returns:
        PNGs by name, as trackers take them.

    Examples:
        >>> import brojepa
        >>> from pathlib import Path
        >>> run = brojepa.Run(Path("runs/mnist/fast/seed-0"))
        >>> sorted(brojepa.pictures(run))  # doctest: +SKIP
        ['accuracy', 'curves']
    """
    source = Source(run, None, {})
    wanted = {"curves": {LETTERS[0]: source}}
    if "per_action" in source.result:
        wanted["accuracy"] = {"bro": source}
    return {name: draw(unpack(pack(collect(name, chosen)), name))["png"] for name, chosen in wanted.items()}


def draw(data: dict[str, Any]) -> dict[str, bytes]:
    """The figure as PNG and SVG."""
    spec = FIGURES[data["figure"]]
    with style.language():
        figure = _module(spec).draw(data)
        return style.files(figure, spec.title, f"{spec.shows} Runs: {'; '.join(style.origins(data['runs']))}.")


def write(out: Path, data: dict[str, Any]) -> Path:
    """The data and what is drawn from them, as they are read back: drawing again gives the same."""
    packed = pack(data)
    name = data["figure"]
    drawn = draw(unpack(packed, name))
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RequestError(f"cannot write into {out}: {error.strerror}; name another directory with --out") from None
    for kind, content in {"npz": packed, **drawn}.items():
        write_atomically(out / f"{name}.{kind}", content)
    return out / f"{name}.png"


def _module(spec: Spec) -> Any:
    return import_module(f"brojepa.figures.{spec.module}")
