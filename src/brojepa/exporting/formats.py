"""Writes a graph to a file and runs it from there: ONNX, and PyTorch's own format, pt2."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import torch
from torch import Tensor
from torch.export import Dim, ExportedProgram
from torch.fx import GraphModule

from brojepa.errors import RequestError, RunError, unknown
from brojepa.exporting.graphs import Graph
from brojepa.parts import reason
from brojepa.text import listed

TRACED = 3  # the batch that is traced; 0 and 1 would be taken for constants


@dataclass(frozen=True)
class Format:
    """A file format.

    needs: the packages of the extra `[export]` that it takes.
    write: puts a traced graph into a file.
    read: runs such a file, without brojepa.
    """

    name: str
    needs: tuple[str, ...]
    write: Callable[[ExportedProgram, Graph, Path], None]
    read: Callable[[Path], Callable[..., Tensor]]


def _write_onnx(program: ExportedProgram, graph: Graph, path: Path) -> None:
    made = torch.onnx.export(
        program, input_names=list(graph.inputs), output_names=[graph.output], dynamo=True, verbose=False
    )
    assert made is not None
    for node in made.model.graph.all_nodes():
        node.metadata_props.clear()  # where each was in the source: paths of this machine
        node.doc_string = None
    made.save(path, external_data=False)


def _read_onnx(path: Path) -> Callable[..., Tensor]:
    import onnxruntime

    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    names = [given.name for given in session.get_inputs()]

    def run(*arguments: Tensor) -> Tensor:
        values = {name: value.numpy() for name, value in zip(names, arguments, strict=True)}
        return torch.from_numpy(session.run(None, values)[0])

    return run


def _write_pt2(program: ExportedProgram, graph: Graph, path: Path) -> None:
    for part in program.graph_module.modules():
        for node in part.graph.nodes if isinstance(part, GraphModule) else ():
            node.meta.pop("stack_trace", None)  # paths of this machine
    torch.export.save(program, path)


def _read_pt2(path: Path) -> Callable[..., Tensor]:
    return torch.export.load(path).module()


FORMATS = {
    "onnx": Format("onnx", ("onnx", "onnxscript", "onnxruntime"), _write_onnx, _read_onnx),
    "pt2": Format("pt2", (), _write_pt2, _read_pt2),
}


def format_named(name: str) -> Format:
    """The format of that name, if its packages are installed."""
    if name not in FORMATS:
        raise unknown("export format", name, FORMATS)
    missing = [package for package in FORMATS[name].needs if find_spec(package) is None]
    if missing:
        raise RequestError(
            f"{name} needs {listed(missing)}, not installed here: pip install 'brojepa[export]', or export to pt2"
        )
    return FORMATS[name]


def write(form: Format, name: str, graph: Graph, path: Path) -> None:
    """Trace a graph with a free batch size and put it into a file."""
    shapes = [{0: Dim("batch", min=1)} for _ in graph.inputs]
    try:
        with torch.no_grad(), _quiet():
            program = torch.export.export(graph.module, graph.arguments(TRACED), dynamic_shapes=shapes)
            form.write(program, graph, path)
    except OSError:
        raise
    except Exception as error:  # an own part may do something that cannot be traced
        raise RunError(f"{name} cannot be exported to {form.name}: {reason(error)[:300]}") from error


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence the exporters' own warnings and log lines."""
    loggers = [logging.getLogger(name) for name in ("torch.onnx", "torch.export", "torch.fx", "onnxscript", "onnx_ir")]
    before = [logger.level for logger in loggers]
    try:
        for logger in loggers:
            logger.setLevel(logging.CRITICAL)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, before, strict=True):
            logger.setLevel(level)
