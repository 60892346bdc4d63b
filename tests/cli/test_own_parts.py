"""Own parts through the command, as a user has them: a module in the directory that one works in."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from conftest import Outcome, files, one_line
from own_code import PARTS
from small_runs import same_run

import brojepa
from brojepa.errors import RequestError
from brojepa.runs import Run

ENCODER = "mymodule:MyViT"
KNOBS = ("--encoder", ENCODER, "--latent", "8", "--batch-size", "48", "--precision", "float32", "--device", "cpu")
COMMAND = "import sys; sys.path.remove(''); from brojepa.cli import main; sys.exit(main())"  # as the console script


@pytest.fixture(scope="module")
def here(tmp_path_factory) -> Path:
    """Where the user works."""
    directory = tmp_path_factory.mktemp("here")
    (directory / "mymodule.py").write_text(PARTS)
    return directory


def command(directory: Path, *words: object, wait: bool = True, **env: str):
    """The console script as a process, in a directory."""
    process = subprocess.Popen(
        [sys.executable, "-c", COMMAND, *map(str, words)], cwd=directory, text=True, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, env={**os.environ, "OMP_NUM_THREADS": "1", **env},
    )  # fmt: skip
    if not wait:
        return process
    out, err = process.communicate(timeout=300)
    return Outcome(process.returncode, out, err)


def run_in(out: Path) -> Run:
    (config,) = out.rglob("config.json")
    return Run(config.parent)


@pytest.fixture(scope="module")
def run(here, digits) -> Run:
    """Trained by the command, with an encoder of one's own."""
    done = command(here, "train", "mnist/fast", "--world", digits, "--epochs", 2, "--out", "runs", "--quiet", *KNOBS)
    assert done.code == 0, done.err
    assert done.out == ""
    return run_in(here / "runs")


def test_the_run_says_what_it_was_made_of(run, here):
    header = json.loads(run.config_file.read_text())
    assert header["config"]["encoder"] == ENCODER
    assert header["own_code"] == {ENCODER: hashlib.sha256((here / "mymodule.py").read_bytes()).hexdigest()}
    assert header["base"] == "mnist/fast"
    assert run.done


@pytest.fixture
def at_home(here, monkeypatch):
    """This process works where the module lies."""
    monkeypatch.chdir(here)
    sys.modules.pop("mymodule", None)
    yield
    sys.modules.pop("mymodule", None)


def pictures(directory: Path) -> list[Path]:
    paths = [directory / f"{i}.npy" for i in range(2)]
    for i, path in enumerate(paths):
        np.save(path, np.full((28, 28), 40 * i, np.uint8))
    return paths


def test_what_reads_the_run_asks_for_trust(run, at_home, cli, tmp_path):
    images = pictures(tmp_path)
    commands = {
        "eval": (run.path,), "inspect": (run.path,), "infer": (run.path, *images),
        "plan": (run.path, *images, "--allowed=+1"),
    }  # fmt: skip
    for name, words in commands.items():
        said = one_line(cli(name, *words), 2)
        for word in (str(run.path), f"encoder {ENCODER}", "--trust"):
            assert word in said
    assert "mymodule" not in sys.modules, "nothing was imported"
    for name, words in commands.items():
        done = cli(name, *words, "--trust")
        assert done.code == 0, done.err
        assert done.out
    assert "identical to result.json" in cli("eval", run.path, "--trust").out


def test_figures_ask_for_trust(run, at_home, cli, tmp_path):
    refused = cli("figures", run.path, "--only", "circle-multi", "--out", tmp_path / "no")
    assert refused.code == 2
    assert f"encoder {ENCODER}" in refused.out
    assert "--trust" in refused.out
    assert "mymodule" not in sys.modules
    assert not files(tmp_path)
    drawn = cli("figures", run.path, "--only", "circle-multi", "--out", tmp_path, "--trust")
    assert drawn.code == 0, drawn
    assert (tmp_path / "circle-multi.png").is_file()


def test_the_process_refuses_and_elsewhere_says_where_to_go(run, here, tmp_path):
    said = one_line(command(here, "eval", run.path), 2)
    assert f"encoder {ENCODER}" in said
    done = command(here, "eval", run.path, "--trust")
    assert done.code == 0, done.err
    assert "identical to result.json" in done.out
    said = one_line(command(tmp_path, "eval", run.path, "--trust"), 2)
    for word in (ENCODER, "no module mymodule", "directory", "PYTHONPATH"):
        assert word in said


def test_load_asks_for_trust(run, at_home):
    with pytest.raises(RequestError, match=f"encoder {ENCODER}.*trust=True"):
        brojepa.load(run.path)
    assert "mymodule" not in sys.modules
    model = brojepa.load(run.path, trust=True)
    assert type(model.encoder.net).__name__ == "MyViT"
    assert brojepa.evaluate_run(run.path, trust=True)["metrics"] == run.result["metrics"]


def test_a_wrong_part_writes_nothing(at_home, cli, digits, tmp_path):
    for path in ("mymodule:MyVit", "mymodul:MyViT", "mymodule:make_world"):
        words = ("--world", digits, "--encoder", path, "--out", tmp_path / "out")
        said = one_line(cli("train", "mnist/fast", *words), 2)
        for word in ("encoder", path, "(shape, dim)"):
            assert word in said
        sweep = cli("sweep", "mnist/fast", *words, "--seeds", 0, "--jobs", 1) if path != "mymodule:make_world" else None
        assert sweep is None or path in one_line(sweep, 2)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("more", [(), ("--regulariser", "sigreg", "--epochs", 7)], ids=["vicreg", "sigreg"])
def test_a_killed_run_goes_on_to_the_same_bits(more, here, at_home, cli, digits, tmp_path):
    """The encoder has dropout; the process is killed once its first epoch is out."""
    words = ["train", "mnist/fast", "--world", digits, "--epochs", 8, *KNOBS, *more, "--json", "--out"]
    process = command(here, *words, tmp_path / "cut", wait=False)
    try:
        assert json.loads(process.stdout.readline())["epoch"] == 1
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=240)
    finally:
        process.kill()
    cut = run_in(tmp_path / "cut")
    assert not cut.done
    for place in ("cut", "whole"):
        assert cli(*words, tmp_path / place).code == 0
    assert len(cut.environment["starts"]) == 2
    same_run(cut, run_in(tmp_path / "whole"))


def test_changed_code_is_warned_of_on_resume(cli, digits, module, tmp_path):
    name = module(PARTS)
    words = ["train", "mnist/fast", "--world", digits, "--epochs", 2, "--quiet", "--out", tmp_path / "out", *KNOBS]
    words[words.index(ENCODER)] = f"{name}:MyViT"
    assert cli(*words).err == ""
    run = run_in(tmp_path / "out")
    run.result_file.unlink()
    assert cli(*words).err == "", "the same code"
    run.result_file.unlink()
    with (tmp_path / f"{name}.py").open("a") as file:
        file.write("\n# more\n")
    again = cli(*words)
    assert again.code == 0
    assert len(again.err.splitlines()) == 1
    for word in ("warning", "own code", "changed", str(run.path)):
        assert word in again.err


def test_a_sweep_trains_in_its_workers(here, digits, run, tmp_path):
    words = ("--world", digits, "--epochs", 2, "--out", tmp_path, *KNOBS)
    done = command(here, "sweep", "mnist/fast", *words, "--seeds", "0-1", "--jobs", 2)
    assert done.code == 0, done
    assert "2 runs done" in done.out
    first, second = sorted(tmp_path.rglob("seed-*"))
    same_run(Run(first), run)
    assert Run(second).header["own_code"] == run.header["own_code"]


# A world of one's own


def test_a_world_of_own_code(here, at_home, cli, tmp_path):
    small = ("--epochs", 1, "--latent", 8, "--batch-size", 16, "--encoder", "mlp", "--quiet", "--out", tmp_path)
    assert cli("train", "mnist/fast", "--world", "mymodule:make_world", *small).code == 0
    run = run_in(tmp_path)
    assert run.path.parts[-3] == "mymodule-make_world"
    assert run.header["world_path"] == "mymodule:make_world"
    assert list(run.header["own_code"]) == ["mymodule:make_world"]
    sys.modules.pop("mymodule")
    for name in ("eval", "inspect"):
        said = one_line(cli(name, run.path), 2)
        assert "world mymodule:make_world" in said
        assert "--trust" in said
    assert "mymodule" not in sys.modules
    assert "identical to result.json" in cli("eval", run.path, "--trust").out
    assert cli("data", "list", "mymodule:make_world").out.startswith("drawn")


@pytest.mark.parametrize("world", ["rotation:mymodule:make_world", "torus:mymodule:make_world,mymodule:make_world"])
def test_a_world_made_of_own_code_needs_trust_as_well(world, here, at_home, cli, tmp_path):
    small = ("--epochs", 1, "--latent", 8, "--batch-size", 16, "--encoder", "mlp", "--quiet", "--out", tmp_path)
    done = cli("train", "--world", world, *small)
    assert done.code == 0, done
    run = run_in(tmp_path)
    assert run.header["own_code"].keys() == {"mymodule:make_world"}
    sys.modules.pop("mymodule")
    assert "mymodule:make_world" in one_line(cli("eval", run.path), 2)
    assert "mymodule" not in sys.modules, "nothing was imported"
    with pytest.raises(RequestError, match="trust"):
        brojepa.load(run.path)
    assert "identical to result.json" in cli("eval", run.path, "--trust").out


# A knob that was renamed


def test_looks_is_tta(cli, digits, tmp_path):
    words = ("train", "mnist/fast", "--world", digits, "--epochs", 1, "--latent", 8, "--encoder", "mlp", "--quiet")
    assert cli(*words, "--tta", 5, "--out", tmp_path).code == 0
    run = run_in(tmp_path)
    before = run.result_file.stat().st_mtime_ns
    assert cli(*words, "--looks", 5, "--out", tmp_path).code == 0
    assert run_in(tmp_path) == run
    assert run.result_file.stat().st_mtime_ns == before
    assert run.header["config"]["tta"] == 5
    header = run.header
    header["config"]["looks"] = header["config"].pop("tta")
    run.config_file.write_text(json.dumps(header))
    assert run.config.tta == 5
    assert run.config.hash == run.path.parent.name
    assert "identical to result.json" in cli("eval", run.path).out
    assert cli(*words, "--tta", 5, "--out", tmp_path).code == 0
    assert run_in(tmp_path) == run


def test_looks_is_tta_everywhere(cli, tmp_path):
    plain = brojepa.preset("mnist/fast")
    assert plain.replace(looks=5) == plain.replace(tta=5)
    old = {**plain.to_dict(), "looks": 5}
    del old["tta"]
    assert brojepa.Config.from_dict(old) == plain.replace(tta=5)
    assert brojepa.Config.from_dict(old).hash == plain.replace(tta=5).hash
    assert "--looks" not in cli("train", "--help-all").out
    sweep = cli("sweep", "mnist/fast", "--seeds", 0, "--grid", "looks", 1, 5, "--dry-run", "--out", tmp_path)
    assert "--tta=5" in sweep.out, sweep
    assert "--tta" in one_line(cli("train", "--looks", 3, "--out", tmp_path), 2)
