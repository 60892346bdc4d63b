"""Shared fixtures: three small worlds on disk, a trained run, and two ways to run the command.

`digits` is real MNIST cut down; `letters` has EMNIST's names, sizes of labels and orientation but not its images;
`tiny` is three noisy pictures.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from helpers import blobs, config
from own_code import module  # noqa: F401, a fixture
from small_runs import EPOCHS, KINDS

from brojepa import Config
from brojepa.cli import main
from brojepa.runs import Run
from brojepa.training import train
from brojepa.worlds import idx, open_world
from brojepa.worlds.sources import EMNIST, MNIST

torch.set_num_threads(1)

Arrays = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]
"""train images, train labels, test images, test labels"""


class Outcome(NamedTuple):
    """What a command did."""

    code: int
    out: str
    err: str


Cli = Callable[..., Outcome]
SMALL = ("--encoder", "mlp", "--latent", "32", "--epochs", "4", "--batch-size", "32", "--lr", "3e-3")
"""Under a second on the small digits, and well above chance"""


@pytest.fixture(autouse=True)
def _own_surroundings(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test sees the user's data or cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
    monkeypatch.delenv("BROJEPA_DATA", raising=False)


def write_world(directory: Path, names: tuple[str, ...], arrays: Arrays, suffix: str = "") -> Path:
    """Four IDX files."""
    directory.mkdir(parents=True, exist_ok=True)
    for name, array in zip(names, arrays, strict=True):
        idx.write(directory / f"{name}{suffix}", array)
    return directory


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


@contextlib.contextmanager
def largest_file(size: int) -> Iterator[None]:
    """The system refuses to let a file grow beyond this size: a full disk, at a place we choose."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.fixture(scope="session")
def digit_arrays() -> Arrays:
    """The first 60 training and 20 test images of every digit of MNIST, in MNIST's order."""
    mnist = open_world("mnist")
    arrays: list[np.ndarray] = []
    for split, count in ((mnist.train, 60), (mnist.test, 20)):
        states = split.states.numpy()
        chosen = np.sort(np.concatenate([np.flatnonzero(states == y)[:count] for y in range(10)]))
        arrays += [split.images[chosen, 0].numpy(), states[chosen].astype(np.uint8)]
    return arrays[0], arrays[1], arrays[2], arrays[3]


@pytest.fixture(scope="session")
def digits(digit_arrays: Arrays, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory of real MNIST, small: 600 training and 200 test images under MNIST's names."""
    return write_world(tmp_path_factory.mktemp("worlds") / "digits", MNIST.files, digit_arrays)


@pytest.fixture(scope="session")
def letter_arrays(digit_arrays: Arrays) -> Arrays:
    """26 states, upright: state y is a digit y % 10 with y // 10 bars above it; 10 training and 4 test images each."""
    arrays: list[np.ndarray] = []
    for source, labels, count in ((*digit_arrays[:2], 10), (*digit_arrays[2:], 4)):
        images = []
        for y in range(26):
            picture = source[labels == y % 10][:count].copy()
            for bar in range(y // 10):
                picture[:, 2 * bar] = 255
            images.append(picture)
        states = np.repeat(np.arange(26, dtype=np.uint8), count)
        order = np.random.default_rng(0).permutation(len(states))
        arrays += [np.concatenate(images)[order], states[order]]
    return arrays[0], arrays[1], arrays[2], arrays[3]


@pytest.fixture(scope="session")
def letters(letter_arrays: Arrays, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`letter_arrays` as EMNIST stores letters: its names, .gz, labels from 1, images transposed."""
    a, b, c, d = letter_arrays
    stored = (a.swapaxes(1, 2), b + 1, c.swapaxes(1, 2), d + 1)
    return write_world(tmp_path_factory.mktemp("worlds") / "letters", EMNIST.files, stored, ".gz")


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A world on disk: three noisy pictures, 60 training images of each."""
    world, path = blobs(n=3, count=60, size=8, tests=30), tmp_path_factory.mktemp("tiny") / "tiny.npz"
    parts = {"images": world.train.images, "labels": world.train.states}
    parts |= {"test_images": world.test.images, "test_labels": world.test.states}
    np.savez(
        path, **{key: value.squeeze(1).numpy() if value.ndim == 4 else value.numpy() for key, value in parts.items()}
    )
    return str(path)


@pytest.fixture(scope="session")
def cli() -> Callable[..., Outcome]:
    """Run the command in this process."""

    def run(*argv: object) -> Outcome:
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                code = main([str(a) for a in argv])
            except SystemExit as leave:  # argparse after --help
                code = int(leave.code or 0)
        return Outcome(code, out.getvalue(), err.getvalue())

    return run


@pytest.fixture
def brojepa_process() -> Callable[..., Outcome]:
    """Run the command as a process of its own; `prelude` is Python that runs first, `env` is added to."""

    def run(*argv: object, prelude: str = "", env: dict[str, str] | None = None) -> Outcome:
        words = ["-m", "brojepa", *map(str, argv)]
        if prelude:
            words = ["-c", f"{prelude}\nimport sys\nfrom brojepa.cli import main\nsys.exit(main())", *words[2:]]
        environment = {**os.environ, "OMP_NUM_THREADS": "1", **(env or {})}
        command = [sys.executable, *words]
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", env=environment, timeout=120)
        return Outcome(done.returncode, done.stdout, done.stderr)

    return run


def one_line(outcome: Outcome, code: int) -> str:
    """The single line of an error, and nothing on stdout."""
    assert outcome.code == code, outcome
    assert outcome.out == ""
    assert re.fullmatch(r"brojepa: [^\n]+\n", outcome.err), outcome.err
    assert "unexpected error" not in outcome.err
    return outcome.err


def files(directory: Path) -> list[str]:
    return sorted(str(path.relative_to(directory)) for path in directory.rglob("*") if path.is_file())


@pytest.fixture(scope="session")
def trained(cli: Cli, digits: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Outcome]:
    """A finished run, never to be changed, and what training it printed."""
    out = tmp_path_factory.mktemp("trained")
    outcome = cli("train", "mnist/fast", "--world", digits, *SMALL, "--seed", 7, "--out", out)
    assert outcome.code == 0, outcome.err
    (result,) = out.rglob("result.json")
    return result.parent, outcome


@pytest.fixture
def run(trained: tuple[Path, Outcome], tmp_path: Path) -> Path:
    """A copy of the finished run, under tmp_path / "out", to damage."""
    out = trained[0].parents[2]
    shutil.copytree(out, tmp_path / "out")
    return tmp_path / "out" / trained[0].relative_to(out)


@pytest.fixture
def train_again(cli: Cli, digits: Path, tmp_path: Path) -> Callable[..., Outcome]:
    """The command that made `run`, and more flags."""
    return lambda *more: cli(
        "train", "mnist/fast", "--world", digits, *SMALL, "--seed", 7, "--out", tmp_path / "out", *more
    )


@pytest.fixture(scope="session")
def small(digits: Path) -> Callable[..., Config]:
    """Configs on the small digits."""

    def of(**values: Any) -> Config:
        return config(**{"world": str(digits), "latent": 16, "epochs": EPOCHS, "batch_size": 120, "lr": 1e-3, **values})

    return of


@pytest.fixture(scope="session")
def uncut(small: Callable[..., Config], tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Run]:
    """The run of each kind that nothing disturbed, made once."""
    out, runs = tmp_path_factory.mktemp("uncut"), {}

    def run(kind: str) -> Run:
        if kind not in runs:
            runs[kind] = train(small(**KINDS[kind]), out=out, device="cpu")
        return runs[kind]

    return run
