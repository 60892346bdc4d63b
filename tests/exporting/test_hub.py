"""Runs go to the hub and come back, against a stand-in for its server on this machine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from conftest import Outcome, one_line
from helpers import config
from own_code import PARTS
from stand_in_hub import TOKEN, Hub, serving

import brojepa
from brojepa.exporting.card import card
from brojepa.runs import find
from brojepa.training import train

hf = pytest.importorskip("huggingface_hub")


@pytest.fixture
def hub() -> Iterator[Hub]:
    with serving() as state:
        yield state


@pytest.fixture
def run_here(hub: Hub, tmp_path: Path, brojepa_process) -> Callable[..., Outcome]:
    """A command of its own process that knows this hub and nothing of the user's."""
    surroundings = {
        "HF_ENDPOINT": hub.address, "HF_HOME": str(tmp_path / "home"), "HF_TOKEN": TOKEN, "HF_HUB_DISABLE_XET": "1",
        "HF_HUB_DISABLE_TELEMETRY": "1", "HF_HUB_OFFLINE": "0", "no_proxy": "127.0.0.1",
    }  # fmt: skip

    def run(*words: object, prelude: str = "", **more: str) -> Outcome:
        return brojepa_process(*words, prelude=prelude, env={**surroundings, **more})

    run.surroundings = surroundings  # pyright: ignore
    return run


def python(code: str, run_here: Callable[..., Outcome], cwd: Path) -> str:
    environment = {**os.environ, **run_here.surroundings, "OMP_NUM_THREADS": "1"}  # pyright: ignore
    done = subprocess.run([sys.executable, "-c", code], env=environment, cwd=cwd, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_run_goes_to_the_hub_and_comes_back(trained, hub: Hub, run_here, tmp_path: Path):
    done = run_here("push", trained[0], "me/digits")
    assert done.code == 0, done.err
    assert "hf://me/digits" in done.out
    files = hub.repos["me/digits"]
    assert set(files) == {"README.md", *find.hub.FILES}
    assert files["model.safetensors"] == (trained[0] / "model.safetensors").read_bytes()
    assert all(str(trained[0].parents[3]).encode() not in data for data in files.values()), "no path of this machine"
    files["optimizer.pt"] = b"something large"
    hub.asked.clear()
    code = "import brojepa, torch; m = brojepa.load('hf://me/digits'); torch.save(m.state_dict(), 'there.pt')"
    python(code, run_here, tmp_path)
    there, here = torch.load(tmp_path / "there.pt"), brojepa.load(trained[0]).state_dict()
    assert there.keys() == here.keys()
    assert all(torch.equal(there[name], here[name]) for name in here)
    assert hub.downloaded() == set(find.hub.FILES)

    hub.asked.clear()
    commit = hub.commit("me/digits")
    python(f"import brojepa; brojepa.load('hf://me/digits@{commit}')", run_here, tmp_path)
    assert not hub.downloaded(), "it is in the cache"
    again = run_here("push", "mnist/fast", "me/digits", "--private")
    assert again.code == 0, "a repository that is there is filled again"
    assert files["model.safetensors"] == find.find("mnist/fast").model_file.read_bytes()
    assert run_here("push", trained[0], "me/secret", "--private").code == 0
    assert hub.private == {"me/secret"}


def test_without_a_network_what_was_loaded_before_still_loads(trained, hub: Hub, run_here, digits: Path):
    assert run_here("push", trained[0], "me/digits").code == 0
    words = ("eval", "hf://me/digits", "--data-dir", digits, "--json")
    first = run_here(*words)
    assert first.code == 0, first.err
    assert json.loads(first.out)["metrics"] == brojepa.Run(trained[0]).result["metrics"]
    away = {"HF_ENDPOINT": "http://127.0.0.1:9"}  # nobody listens there
    assert run_here(*words, **away).out == first.out
    assert "not in the cache" in one_line(run_here("eval", "hf://me/other", **away), 1)
    assert "network" in one_line(run_here("push", trained[0], "me/digits", **away), 1)


def test_what_goes_wrong_with_the_hub_is_one_line(trained, run, hub: Hub, run_here):
    hub.repos["me/else"] = {"README.md": b"a model of another kind"}
    block = "import sys; sys.modules['huggingface_hub'] = None"
    (run / "result.json").unlink()
    for words, says, code in [
        (("eval", "hf://me/nothing"), "no me/nothing", 2),
        (("eval", "hf://me/else@v9"), "revision", 2),
        (("eval", "hf://me/else"), "config.json", 2),
        (("eval", "hf://else"), "user/name", 2),
        (("push", trained[0], "else"), "user/name", 2),
        (("push", run, "me/else"), "not finished", 1),
        (("push", "mnist/best", "me/else"), "train it", 2),
    ]:
        assert says in one_line(run_here(*words), code)
    assert "hf auth login" in one_line(run_here("push", trained[0], "me/else", HF_TOKEN="hf_wrong"), 2)
    for words in (("eval", "hf://me/else"), ("push", trained[0], "me/else")):
        assert "brojepa[hub]" in one_line(run_here(*words, prelude=block), 2)
    assert set(hub.repos) == {"me/else"}


def test_own_code_of_a_downloaded_run_is_refused_without_trust(module, hub: Hub, run_here, tiny: str, tmp_path: Path):
    name = module(PARTS)
    made = train(
        config(world=tiny, encoder=f"{name}:MyViT", epochs=1, batch_size=60), out=tmp_path / "out", device="cpu"
    )
    assert run_here("push", made.path, "me/own").code == 0
    text = hub.repos["me/own"]["README.md"].decode()
    assert f"{name}:MyViT" in text
    assert "trust=True" in text
    assert tiny not in hub.repos["me/own"]["config.json"].decode()
    (tmp_path / f"{name}.py").write_text("raise SystemExit('it ran')")
    words = ("eval", "hf://me/own", "--data-dir", tiny)
    for command in (words, ("export", "hf://me/own", "--format", "pt2", "--out", tmp_path / "away")):
        assert f"{name}:MyViT" in one_line(run_here(*command), 2)
    (tmp_path / f"{name}.py").write_text(PARTS)
    trusted = run_here(*words, "--trust")
    assert trusted.code == 0, trusted.err


@pytest.mark.parametrize("name", find.packed())
def test_a_card_carries_the_run_s_numbers(name: str, tmp_path: Path):
    run = find.find(name)
    text = card(run, "me/model", "mit")
    data = hf.ModelCard(text).data
    assert (data.license, data.library_name) == ("mit", "brojepa")
    found = {each.metric_name: each.metric_value for each in data.eval_results}
    said = {key.replace("_", "-"): value for key, value in run.result["metrics"].items() if value is not None}
    assert found == said
    for key, value in said.items():
        assert f"| {key} | {value:.4f} |" in text
    assert 'brojepa.load("hf://me/model")' in text
    assert "2606.01372" in text
    assert "@article" in text
    assert ("classify" in text) == bool(run.header["world"]["states"])


def test_names_of_repositories_are_checked():
    for wrong in ("me", "me/", "/digits", "me/a/b", "me/a--b", "me/..", "me/a b", ""):
        with pytest.raises(brojepa.BrojepaError, match="user/name"):
            brojepa.load(f"hf://{wrong}")
