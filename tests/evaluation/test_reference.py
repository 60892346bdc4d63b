"""A finished run measured once more from its files alone, in NumPy: no line of the package computes here."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from conftest import SMALL, Cli
from safetensors.numpy import load_file

from brojepa import open_world


class Reference:
    """The encoder, the rotation and the classifier of a run of an MLP, in float64."""

    def __init__(self, run: Path) -> None:
        self.weights = {name: w.astype(np.float64) for name, w in load_file(run / "model.safetensors").items()}
        self.facts = json.loads((run / "config.json").read_text())["world"]
        self.angles = np.array(json.loads((run / "result.json").read_text())["angles"])

    def encode(self, images: np.ndarray) -> np.ndarray:
        """images [count, h, w], 0 to 255"""
        x = (images.reshape(len(images), -1) / 255 - self.facts["mean"][0]) / self.facts["std"][0]
        for layer in (1, 3, 5):
            x = x @ self.weights[f"encoder.net.{layer}.weight"].T + self.weights[f"encoder.net.{layer}.bias"]
            x = np.maximum(x, 0) if layer < 5 else x
        return x

    def act(self, z: np.ndarray, k: int) -> np.ndarray:
        """As complex numbers: every pair of entries is multiplied by exp(i k angle)."""
        turned = (z[:, 0::2] + 1j * z[:, 1::2]) * np.exp(1j * k * self.angles)
        return np.stack((turned.real, turned.imag), -1).reshape(len(z), -1)

    def classify(self, z: np.ndarray) -> np.ndarray:
        return (z @ self.weights["classifier.weight"].T + self.weights["classifier.bias"]).argmax(1)


def vote(query: np.ndarray, bank: np.ndarray, states: np.ndarray) -> np.ndarray:
    """The states of 20 nearest neighbours by cosine, weighted exp(cosine / 0.07), by sorting everything."""
    query, bank = (z / np.linalg.norm(z, axis=1, keepdims=True) for z in (query, bank))
    cosine = query @ bank.T
    found = []
    for row in cosine:
        near = np.argsort(-row)[:20]
        found.append(np.bincount(states[near], np.exp(row[near] / 0.07), 10).argmax())
    return np.array(found)


@pytest.fixture(scope="module", params=["mfr-learned", "mfr-fixed", "sfr-learned"])
def run(request, cli: Cli, digits: Path, tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("reference")
    words = [
        "train",
        "mnist/bro-mlp-mfr-fixed",
        "--world",
        digits,
        *SMALL,
        "--no-standardise",
        "--target",
        "mean",
        "--action",
        request.param,
        "--validation",
        "100",
        "--out",
        out,
    ]
    assert cli(*words, "--quiet").code == 0
    (result,) = out.rglob("result.json")
    return result.parent


def test_every_accuracy_is_that_of_numpy(run, digits, digit_arrays):
    reference, result = Reference(run), json.loads((run / "result.json").read_text())
    train_images, _, images, states = digit_arrays
    kept, _ = open_world(str(digits)).hold_out(100, torch.Generator().manual_seed(0))  # which images were trained on
    assert len(kept) == len(train_images) - 100
    z, y = reference.encode(images), states.astype(int)
    z_train, y_train = reference.encode(kept.images[:, 0].numpy()), kept.states.numpy()
    right = {k: reference.classify(reference.act(z, k)) == (y + k) % 10 for k in range(-9, 10) if k}
    one = 1 / len(y)  # float32 may see one image otherwise
    for k, hits in right.items():
        assert result["per_action"][f"{k:+d}"] == pytest.approx(hits.mean(), abs=one)
    seen, unseen = [right[k].mean() for k in (-1, 1)], [right[k].mean() for k in right if abs(k) > 1]
    metrics = result["metrics"]
    assert metrics["seen"] == pytest.approx(np.mean(seen), abs=one)
    assert metrics["zero_shot"] == pytest.approx(np.mean(unseen), abs=one)
    fitted = [reference.classify(reference.act(z_train, k)) == (y_train + k) % 10 for k in (-1, 1)]
    assert metrics["train"] == pytest.approx(np.mean(fitted), abs=1 / len(y_train))
    rolled, voted = [], []
    for k in (k for k in right if abs(k) > 1):
        here = z
        for _ in range(abs(k)):
            here = reference.act(here, int(np.sign(k)))
        rolled.append((reference.classify(here) == (y + k) % 10).mean())
        voted.append((vote(reference.act(z, k), z_train, y_train) == (y + k) % 10).mean())
    assert metrics["rollout"] == pytest.approx(np.mean(rolled), abs=one)
    assert metrics["knn"] == pytest.approx(np.mean(voted), abs=one)
    assert metrics["seen"] > 0.2, "a model that has learned something"
    by_state = np.array(result["by_state"]["accuracy"])
    for column, word in enumerate(result["by_state"]["actions"]):
        counts = [right[int(word)][y == s].mean() for s in range(10)]
        np.testing.assert_allclose(by_state[:, column], counts, atol=1 / np.bincount(y).min() + 1e-9)
