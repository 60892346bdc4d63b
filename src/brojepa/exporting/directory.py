"""`export`: a run as files that need no brojepa, checked against the model before they are kept."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from brojepa import files
from brojepa.errors import BrojepaError, RequestError, RunError
from brojepa.exporting.formats import Format, format_named, write
from brojepa.exporting.graphs import Graph, graphs_of
from brojepa.exporting.readme import readme
from brojepa.groups import Element, Group
from brojepa.models import Model
from brojepa.parts import reason
from brojepa.runs import Run
from brojepa.runs.find import find
from brojepa.runs.loading import load
from brojepa.worlds.pictures import state_names

BATCHES = (1, 7)  # sizes that a graph is compared at; neither is the one that is traced
LARGEST = 1e-5  # difference from torch, of the largest value where that is above 1


def export(run: str | Path, out: str | Path, format: str = "onnx", *, trust: bool = False) -> dict[str, Any]:
    """Write a run's model as graphs that other programs run: encode, act and classify, with a free batch size.

    Args:
        run: a run directory, a preset whose weights are in the package, or hf://user/name.
        out: a directory that does not exist or is empty. It gets one file per graph, metadata.json and README.md.
        format: "onnx" (needs `pip install 'brojepa[export]'`) or "pt2".
        trust: import the own code that the run names.

    Returns:
        What metadata.json says; `graphs` has the largest difference from torch of each.

    Raises:
        RequestError: not a run, an unknown format, or a directory that is not empty.
        RunError: a graph differs from torch by more than 1e-5. Nothing is written then.

    Examples:
        >>> import brojepa
        >>> about = brojepa.export("mnist/fast", "away", format="pt2")  # doctest: +SKIP
        >>> sorted(about["graphs"])  # doctest: +SKIP
        ['act', 'classify', 'encode']
    """
    form, source, place = format_named(format), find(run), files.place(out)
    if place.exists() and (not place.is_dir() or any(place.iterdir())):
        raise RequestError(f"{place} is there already: name another --out, or remove it")
    model = load(source.path, "cpu", trust=trust)
    with _whole_or_nothing(place) as partial:
        graphs = graphs_of(model)
        written = {name: _written(form, name, graph, partial) for name, graph in graphs.items()}
        about = {**_about(source, model), "format": form.name, "graphs": written}
        files.write_json(partial / "metadata.json", about)
        files.write_atomically(partial / "README.md", readme(about).encode())
    return about


@contextmanager
def _whole_or_nothing(place: Path) -> Iterator[Path]:
    """A directory beside the one wanted, which takes its place once everything is in it."""
    partial = place.with_name(f".{place.name}.{os.getpid()}.partial")
    try:
        partial.mkdir(parents=True)
        yield partial
        if place.is_dir():
            place.rmdir()  # it is empty
        partial.rename(place)
    except OSError as error:
        raise RunError(
            f"cannot write {place}: {error.strerror or error}; free some space or name another --out"
        ) from None
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _written(form: Format, name: str, graph: Graph, directory: Path) -> dict[str, Any]:
    """Write a graph, run it from its file, and describe it."""
    path = directory / f"{name}.{form.name}"
    write(form, name, graph, path)
    try:
        difference = largest_difference(form, graph, path)
    except BrojepaError:
        raise
    except Exception as error:  # the runtime may refuse the file with any exception
        raise RunError(f"{path.name} cannot be run: {reason(error)[:300]}") from error
    if not difference <= LARGEST:
        raise RunError(
            f"{path.name} differs from torch by {difference:.1e}, more than {LARGEST:.0e}: nothing was written, "
            "please report this with the run's config.json"
        )
    result = graph.reference(*graph.arguments(2))
    return {
        "file": path.name,
        "inputs": {name: _described(make(2)) for name, make in graph.inputs.items()},
        "outputs": {graph.output: _described(result)},
        "largest_difference": difference,
    }


@torch.no_grad()
def largest_difference(form: Format, graph: Graph, path: Path) -> float:
    """How far a file's results are from the model's, over all batch sizes; relative for values above 1."""
    run, largest = form.read(path), 0.0
    for batch in BATCHES:
        arguments = graph.arguments(batch)
        wanted, given = graph.reference(*arguments), run(*arguments)
        if (wanted.shape, wanted.dtype) != (given.shape, given.dtype):
            raise RunError(f"{path.name} gives {given.dtype} {list(given.shape)}, torch {list(wanted.shape)}")
        largest = max(largest, float((given - wanted).abs().max() / wanted.abs().max().clamp(min=1)))
    return largest


def _described(tensor: torch.Tensor) -> dict[str, Any]:
    return {"dtype": str(tensor.dtype).removeprefix("torch."), "shape": ["batch", *tensor.shape[1:]]}


def _about(run: Run, model: Model) -> dict[str, Any]:
    """What a user of the files must know about the model and its world."""
    header, config, task = run.header, run.config, model.task
    facts, result = header["world"], run.result if run.done else {}
    trained = model.group.check(config.train_actions, "train_actions")
    return {
        "brojepa": version("brojepa"),
        "preset": header.get("preset"),
        "seed": header["seed"],
        "config_hash": config.hash,
        "world": facts["name"],
        "states": task.n,
        "names": state_names(config.world, task.n, facts.get("names")) if task.n else [],
        "image": {"dtype": "uint8", "shape": list(task.shape)},
        "normalisation": {"mean": list(task.mean), "std": list(task.std), "in_graph": True},
        "group": str(model.group),
        "elements": ". ".join(" ".join((type(model.group).__doc__ or "").split()).split(". ")[:2]).rstrip(".") + ".",
        "trained_actions": [model.group.write(k) for k in trained],
        "actions": _actions(model.group, trained, result),
        "zero_shot_kind": result.get("zero_shot_kind"),
        "metrics": result.get("metrics"),
    }


def _actions(group: Group, trained: tuple[Element, ...], result: dict[str, Any]) -> dict[str, Element]:
    """Elements by their words: all of a finite group; of a continuous one those that were trained or measured."""
    elements = [group.plain(torch.as_tensor(group.identity)), *trained, *group.actions]
    if group.order is None:
        elements += [group.parse(word) for word in result.get("per_action", {})]
    return {group.write(k): k for k in elements}
