"""Exported graphs give what torch gives, for every encoder and latent action, and run where there is no brojepa."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from conftest import Cli, Outcome, files, one_line
from helpers import ROOT, config, model
from torch import nn

import brojepa
from brojepa.errors import RequestError, RunError
from brojepa.exporting import directory as room
from brojepa.exporting import formats
from brojepa.exporting.graphs import SlicedMaxPool, graphs_of
from brojepa.exporting.turns import polynomial
from brojepa.files import write_json
from brojepa.groups import SO3, parse
from brojepa.models import Task
from brojepa.runs import checkpoint, loading
from brojepa.runs.find import find, packed
from brojepa.runs.finding import runs_under
from brojepa.training import train

onnxruntime = pytest.importorskip("onnxruntime")
pytest.importorskip("onnxscript")


def task(group: str, channels: int = 1) -> Task:
    law = parse(group)
    states = law.order if group.startswith("Z") and law.order else 0
    mean, std = (0.2,) * channels, (0.4,) * channels
    return Task(states, (channels, 9, 12 if law.shape == (2,) and states else 9), mean, std, law)


ACTIONS = [
    *((group, "additive") for group in ("Z5", "Z3xZ4", "D4", "SO2", "SO3")),
    *((group, "mfr-fixed") for group in ("Z5", "Z3xZ4", "D4", "D3", "SO2", "SO3")),
    *((group, action) for group in ("Z5", "Z3xZ4", "SO2") for action in ("mfr-learned", "sfr-learned")),
    *(("Z5", action) for action in ("sfr-fixed", "lookup", "linear", "fourier", "hybrid")),
]


def difference(made: brojepa.Model, name: str, form: str, directory: Path) -> float:
    """Write a graph of a model and compare."""
    graph, path = graphs_of(made.eval())[name], directory / f"{name}.{form}"
    formats.write(formats.FORMATS[form], name, graph, path)
    return room.largest_difference(formats.FORMATS[form], graph, path)


@pytest.mark.parametrize("form", ["onnx", "pt2"])
@pytest.mark.parametrize(("group", "action"), ACTIONS)
def test_every_latent_action_exports(group, action, form, tmp_path):
    made = model(task(group), action=action, latent=24)
    assert set(graphs_of(made)) == {"encode", "act"} | ({"classify"} if made.task.n else set())
    assert difference(made, "act", form, tmp_path) <= 1e-5


ENCODERS: dict[str, dict[str, Any]] = {
    "mlp": {"encoder": "mlp"},
    "cnn": {"encoder": "cnn", "standardise": True},
    "cnn of colours, wide": {"encoder": "cnn", "width": 2, "channels": 3},
    "cnn that shrinks 9 x 9 by 2": {"encoder": "cnn", "shrink": 2},
    "resnet18": {"encoder": "resnet18", "standardise": True},
    "five versions, normalised": {"encoder": "cnn", "tta": 5, "normalise": True, "standardise": True},
    "pixels": {"encoder": "mlp", "method": "supervised", "action": "additive"},
}


@pytest.mark.parametrize("form", ["onnx", "pt2"])
@pytest.mark.parametrize("values", ENCODERS.values(), ids=ENCODERS)
def test_every_encoder_exports(values, form, tmp_path):
    values = dict(values)
    made = model(task("Z5", values.pop("channels", 1)), **values)
    assert difference(stirred(made), "encode", form, tmp_path) <= 1e-5


@pytest.mark.parametrize("form", ["onnx", "pt2"])
def test_a_supervised_model_exports_from_pixels_to_logits(form, tmp_path):
    """Its action leads from pixels to another dimension, which the classifier reads."""
    made = model(task("Z5"), method="supervised", action="additive")
    assert difference(made, "act", form, tmp_path) <= 1e-5
    assert difference(made, "classify", form, tmp_path) <= 1e-5


def test_normalised_latents_of_every_group_export(tmp_path):
    """Each irreducible representation's part is scaled on its own."""
    for group in ("Z5", "Z3xZ4", "D4", "SO2", "SO3"):
        assert difference(model(task(group), normalise=True, latent=24), "encode", "pt2", tmp_path) <= 1e-5


def stirred(made: brojepa.Model) -> brojepa.Model:
    """With batch norms that have seen something: those of a fresh model do nothing."""
    with torch.no_grad():
        for module in made.modules():
            if isinstance(module, (nn.BatchNorm1d, nn.BatchNorm2d)):
                assert module.running_mean is not None
                assert module.running_var is not None
                module.running_mean.normal_(0, 0.1)
                module.running_var.uniform_(0.5, 2)
    return made


@pytest.mark.parametrize(("side", "cells"), [(7, 3), (6, 3), (5, 4), (3, 3), (2, 3), (14, 3)])
def test_pooling_by_slices_has_the_bits_of_torch(side, cells):
    x = torch.randn(2, 3, side, side + 4)
    wanted = nn.AdaptiveMaxPool2d((cells, 2 * cells))(x)
    assert torch.equal(SlicedMaxPool((cells, 2 * cells))(x), wanted)
    assert torch.equal(SlicedMaxPool(cells)(x), nn.AdaptiveMaxPool2d(cells)(x))
    assert torch.equal(SlicedMaxPool((None, cells))(x), nn.AdaptiveMaxPool2d((None, cells))(x))


@pytest.mark.parametrize("degree", range(5))
def test_turns_as_polynomials_are_wigner_s(degree):
    """They agree with e3nn's, whose angles are only good to some 1e-5, and obey the law much better than these."""
    group = SO3()
    irrep = group.irreps(4)[degree]
    exact = polynomial(irrep).matrix
    a, b = nn.functional.normalize(group.sample(200, torch.Generator().manual_seed(degree)).double(), dim=-1).chunk(2)
    assert (exact(a) - irrep.matrix(a)).abs().max() < 1e-4
    law = exact(a) @ exact(b) - exact(group.compose(a, b))
    assert law.abs().max() < 1e-12
    assert (exact(a) @ exact(a).mT - torch.eye(2 * degree + 1)).abs().max() < 1e-12
    assert (exact(a.float()) - exact(a)).abs().max() < 2e-6


@pytest.fixture(scope="session")
def exported(trained: tuple[Path, Outcome], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The small run in both formats, never to be changed."""
    out = tmp_path_factory.mktemp("exported")
    for form in ("onnx", "pt2"):
        brojepa.export(trained[0], out / form, form)
    return {form: out / form for form in ("onnx", "pt2")}


def test_the_command_writes_graphs_metadata_and_a_readme(trained, cli: Cli, tmp_path):
    done = cli("export", trained[0], "--format", "pt2", "--out", tmp_path / "away")
    assert done.code == 0, done.err
    assert files(tmp_path) == [f"away/{n}" for n in ("README.md", "act.pt2", "classify.pt2", "encode.pt2",
                                                     "metadata.json")]  # fmt: skip
    for name in ("encode", "act", "classify"):
        assert re.search(rf"^{name} .*largest difference \d\.\de", done.out, re.MULTILINE)
    about = json.loads((tmp_path / "away" / "metadata.json").read_text())
    run = brojepa.Run(trained[0])
    assert about["metrics"] == run.result["metrics"]
    assert about["group"] == "Z10"
    assert about["names"] == [str(y) for y in range(10)]
    assert about["image"] == {"dtype": "uint8", "shape": [1, 28, 28]}
    assert about["normalisation"]["mean"] == run.header["world"]["mean"]
    assert about["trained_actions"] == ["-1", "+1"]
    assert about["actions"]["+9"] == 9
    assert about["graphs"]["act"]["inputs"]["action"] == {"dtype": "int64", "shape": ["batch"]}
    assert about["brojepa"]
    (tmp_path / "empty").mkdir()
    said = cli("export", trained[0], "--format", "pt2", "--out", tmp_path / "empty", "--json")
    assert json.loads(said.out) == about


BLOCK = """
import sys
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {blocked}:
            raise ImportError(f"{{name}} is not to be imported")
sys.meta_path.insert(0, Blocked())
"""


@pytest.mark.parametrize("form", ["onnx", "pt2"])
def test_files_run_without_brojepa(form, exported, trained, digit_arrays, tmp_path):
    """As the README beside them says, on images of our own, in a process that cannot import brojepa; an ONNX file needs
    no torch either."""
    shutil.copytree(exported[form], tmp_path / "away")
    images = digit_arrays[2][:5, None]
    np.save(tmp_path / "away" / "images.npy", images)
    text = (tmp_path / "away" / "README.md").read_text()
    assert len(text.splitlines()) <= 30
    (code,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    load = "np.load('images.npy')" if form == "onnx" else "torch.from_numpy(__import__('numpy').load('images.npy'))"
    code, count = re.subn(r"images = \S+\(.*?\)  #.*", f"images = {load}", code)
    assert count == 1
    blocked = {"brojepa", "e3nn"} | ({"torch"} if form == "onnx" else set())
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", BLOCK.format(blocked=blocked) + code],
        capture_output=True, text=True, cwd=tmp_path / "away",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    made = brojepa.load(trained[0], "cpu")
    assert done.stdout.strip() == str([str(y) for y in made.classify(made.act(made.encode(images), -1)).tolist()])
    stopped = subprocess.run(
        [sys.executable, "-c", BLOCK.format(blocked=blocked) + "import brojepa"], capture_output=True
    )
    assert stopped.returncode, "the block blocks"


@pytest.mark.parametrize("form", ["onnx", "pt2"])
def test_the_batch_is_free_and_no_path_of_the_machine_is_inside(form, exported):
    read = formats.FORMATS[form].read(exported[form] / f"encode.{form}")
    for batch in (1, 2, 65):
        assert read(torch.zeros(batch, 1, 28, 28, dtype=torch.uint8)).shape == (batch, 32)
    for path in exported[form].glob(f"*.{form}"):
        parts = [path.read_bytes()]
        if form == "pt2":
            with zipfile.ZipFile(path) as archive:
                parts = [archive.read(name) for name in archive.namelist()]
        for place in (Path(brojepa.__file__).parent, Path(torch.__file__).parent):
            assert not any(str(place).encode() in part for part in parts)


def test_an_onnx_file_is_valid_and_names_its_batch(exported):
    onnx = pytest.importorskip("onnx")
    for name, outputs in (("encode", "latents"), ("act", "predicted"), ("classify", "logits")):
        graph = onnx.load(exported["onnx"] / f"{name}.onnx")
        onnx.checker.check_model(graph, full_check=True)
        assert [out.name for out in graph.graph.output] == [outputs]
        for value in (*graph.graph.input, *graph.graph.output):
            assert value.type.tensor_type.shape.dim[0].dim_param, "the batch is free"


def test_turns_of_space_are_exported_with_their_readme(tmp_path):
    """A continuous group: its words are those trained and measured, its elements quaternions."""
    pytest.importorskip("e3nn")
    wanted = config(world="pose", latent=24, train_actions=("x15", "y-15"), test_actions=("z90",))
    facts = {"name": "space", "states": 0, "shape": (1, 9, 9), "mean": (0.2,), "std": (0.4,), "group": "SO3"}
    run = untrained(tmp_path, wanted, facts)
    about = brojepa.export(run, tmp_path / "away", "pt2")
    assert set(about["actions"]) == {"x0", "x15", "y-15"}
    assert about["actions"]["x15"] == pytest.approx(SO3().parse("x15"))
    assert "quaternion" in (tmp_path / "away" / "README.md").read_text()
    assert about["metrics"] is None
    code = re.findall(r"```python\n(.*?)```", (tmp_path / "away" / "README.md").read_text(), re.DOTALL)[0]
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True,
                          cwd=tmp_path / "away")  # fmt: skip
    assert "torch.Size([2, 24])" in done.stdout, done.stderr


def untrained(directory: Path, wanted: brojepa.Config, facts: dict[str, Any]) -> Path:
    """A run directory with a model that was never trained, of a world with these facts."""
    run = brojepa.Run(directory / "untrained")
    run.make()
    write_json(run.config_file, {"preset": None, "seed": 0, "config": wanted.to_dict(), "world": facts})
    made = brojepa.build(wanted, Task.from_facts(facts), torch.Generator().manual_seed(0))
    checkpoint.save(run.model_file, loading.predicting_state(made), {})
    return run.path


@pytest.mark.slow
@pytest.mark.parametrize("form", ["onnx", "pt2"])
@pytest.mark.parametrize("name", ["mnist/bro-resnet18-mfr-fixed", "mnist/best", "pose/fast", "rotation/fast"])
def test_presets_export_at_full_size(name, form, tmp_path):
    """Untrained; the facts are those of the committed runs of their worlds."""
    committed = next(runs_under(ROOT / "results" / name.partition("/")[0], []))
    run = untrained(tmp_path, brojepa.preset(name), committed.header["world"])
    about = brojepa.export(run, tmp_path / "away", form)
    print(name, form, {graph: about["graphs"][graph]["largest_difference"] for graph in about["graphs"]})
    assert max(each["largest_difference"] for each in about["graphs"].values()) <= 1e-5


@pytest.mark.slow
@pytest.mark.parametrize("form", ["onnx", "pt2"])
@pytest.mark.parametrize("name", packed())
def test_packed_weights_export(name, form, tmp_path):
    about = brojepa.export(name, tmp_path / "away", form)
    print(name, form, {graph: about["graphs"][graph]["largest_difference"] for graph in about["graphs"]})
    assert about["metrics"] == find(name).result["metrics"]


def test_a_difference_above_the_limit_is_an_error_and_leaves_nothing(trained, cli: Cli, tmp_path, monkeypatch):
    class Off(nn.Module):
        def forward(self, latents: torch.Tensor, action: torch.Tensor) -> torch.Tensor:
            return latents + 2e-4

    def spoiled(made: brojepa.Model) -> dict[str, Any]:
        from dataclasses import replace

        found = graphs_of(made)
        return found | {"act": replace(found["act"], module=Off(), reference=lambda z, k: z)}

    monkeypatch.setattr(room, "graphs_of", spoiled)
    failed = one_line(cli("export", trained[0], "--format", "pt2", "--out", tmp_path / "away"), 1)
    assert "act.pt2" in failed
    assert re.search(r"\de-0[45]", failed)
    assert not list(tmp_path.iterdir())


def test_what_cannot_be_exported_is_one_line(trained, cli: Cli, tmp_path, monkeypatch):
    run, away = trained[0], tmp_path / "away"
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    for words, says in [
        ((run, "--format", "torchscript", "--out", away), "onnx, pt2"),
        ((run,), "--out"),
        ((tmp_path, "--out", away), "not a run directory"),
        ((run, "--out", tmp_path / "full"), "another --out"),
        ((run, "--out", tmp_path / "full" / "file"), "another --out"),
    ]:
        assert says in one_line(cli("export", *words), 2)
    assert "cannot write" in one_line(cli("export", run, "--format", "pt2", "--out", "/proc/away"), 1)
    monkeypatch.setattr(formats, "find_spec", lambda name: None)
    assert "brojepa[export]" in one_line(cli("export", run, "--out", away), 2)
    assert files(tmp_path) == ["full/file"]


def test_own_code_is_refused_without_trust(module, cli: Cli, tmp_path, tiny):
    """And exported with it; an action that cannot be traced is one line."""
    name = module(
        """
        import torch
        import brojepa

        class Shift(brojepa.LatentAction):
            def __init__(self, dim, group):
                super().__init__()
                self.dim = self.out_dim = dim
                self.step = torch.nn.Parameter(torch.ones(dim))

            def act(self, z, k):
                return z + torch.as_tensor(k)[..., None] * self.step

        class Reader(Shift):
            def act(self, z, k):
                k = torch.as_tensor(k)
                return z if float(k.sum()) > 100 else super().act(z, k)
        """,
    )
    runs = [
        train(
            config(world=tiny, action=f"{name}:{part}", epochs=1, batch_size=60), out=tmp_path / part, device="cpu"
        ).path
        for part in ("Shift", "Reader")
    ]
    words = ("--format", "pt2", "--out", tmp_path / "away")
    assert "--trust" in one_line(cli("export", runs[0], *words), 2)
    with pytest.raises(RequestError, match="trust"):
        brojepa.export(runs[0], tmp_path / "away", "pt2")
    assert not (tmp_path / "away").exists()
    assert cli("export", runs[0], *words, "--trust").code == 0
    with pytest.raises(RunError, match="act cannot be exported"):
        brojepa.export(runs[1], tmp_path / "other", "pt2", trust=True)
    assert not (tmp_path / "other").exists()
