"""What a run leaves stays: its files, the keys in them, the tensors of its model and, on the machine that recorded
them, every bit.

Bits depend on the CPU and on torch's build. Where `observe.machine()` is not the one recorded, the last losses must
be within 2 % and the accuracies within 0.05 instead: rounding that differs in the last place grows a little over a
run of a few steps, and a test image more or less is 0.01. Walks of normalised latents part faster: other instruction
sets of one CPU (AVX-512, AVX2, SSE) give losses up to 3.2 % apart, where the other kinds of run stay within 0.2 %.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

import observe
import pytest

import brojepa

RECORDED = json.loads(observe.RECORDED.read_text())
SAME_MACHINE = observe.machine() == RECORDED["machine"]


WALKS = {"rotation-walk": {"loss": 0.1, "accuracy": 0.1}}


class Made(NamedTuple):
    """A run of now, and what was recorded of its kind."""

    kind: str
    path: Path
    old: dict[str, Any]


@pytest.fixture(scope="module")
def worlds(tmp_path_factory) -> tuple[Path, Path]:
    return observe.small_worlds(tmp_path_factory.mktemp("contracts").resolve())


@pytest.fixture(scope="module", params=observe.KINDS)
def made(request, worlds, tmp_path_factory) -> Made:
    config = observe.config(observe.KINDS[request.param], *worlds)
    run = observe.train(config, tmp_path_factory.mktemp("out"))
    return Made(request.param, run.path, RECORDED["runs"][request.param])


def test_files_and_their_keys_stay(made):
    assert set(made.old["files"]) <= set(observe.files(made.path))
    assert observe.lost(made.old["shapes"], observe.documents(made.path)) == []


def test_tensors_of_the_model_stay(made):
    assert observe.tensor_shapes(observe.read_tensors(made.path / "model.safetensors")[0]) == made.old["tensors"]


def test_the_run_is_the_same(made):
    if SAME_MACHINE:
        assert observe.bits(made.path, made.old["shapes"]) == made.old["bits"]
    else:
        observe.near(observe.numbers(made.path), made.old["numbers"], **WALKS.get(made.kind, {}))


def test_the_model_that_is_loaded_is_the_one_that_was_kept(made):
    kept = observe.read_tensors(made.path / "model.safetensors")[0]
    state = brojepa.load(made.path, "cpu").state_dict()
    assert observe.tensor_bits({name: state[name] for name in kept}) == observe.tensor_bits(kept)


@pytest.mark.parametrize("name", observe.BUILT)
def test_tensors_of_models_that_are_long_to_train_stay(name, tmp_path):
    """A checkpoint with the tensors of then loads, and the model has no others."""
    if name in observe.NEEDS_E3NN and not observe.have_e3nn():
        pytest.skip("needs e3nn")
    old = RECORDED["built"][name]
    tensors = {key: observe.blank(said) for key, said in old.items()}
    tensors["pixel_std"] += 1  # images are divided by it
    assert observe.built(name, tmp_path / name, tensors) == old


@pytest.mark.skipif(not observe.have_e3nn(), reason="needs e3nn")
def test_the_first_steps_of_turns_of_space_are_the_same(tmp_path):
    tensors, losses = observe.space(tmp_path)
    if SAME_MACHINE:
        assert observe.tensor_bits(tensors) == RECORDED["space"]["bits"]
    else:
        first, *later = RECORDED["space"]["losses"]
        assert losses[0] == pytest.approx(first, rel=1e-4)
        assert losses[1:] == pytest.approx(later, rel=0.1)


def test_the_environment_names_the_commit_of_a_checkout(made):
    """Where the package is the one of this checkout."""
    package = Path(brojepa.__file__).parent
    asked = subprocess.run(["git", "-C", str(package), "rev-parse", "HEAD"], capture_output=True, text=True)
    if asked.returncode or package != observe.ROOT / "src" / "brojepa":
        pytest.skip("not a checkout")
    assert json.loads((made.path / "env.json").read_text())["commit"] == asked.stdout.strip()
