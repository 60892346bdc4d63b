"""A run directory as its users meet it: starting again, damaged files, full disks, and evaluating again."""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import SMALL, Cli, Outcome, files, largest_file, one_line, truncate, write_world

from brojepa.errors import RunError
from brojepa.runs import Run, checkpoint
from brojepa.worlds import idx
from brojepa.worlds.sources import MNIST

# Starting again


def test_finished_run_says_so_and_is_left_alone(train_again: Callable[..., Outcome], run: Path) -> None:
    before = {name: ((run / name).stat().st_mtime_ns, (run / name).read_bytes()) for name in files(run)}
    done = train_again()
    assert (done.code, done.err) == (0, "")
    metrics = json.loads((run / "result.json").read_text())["metrics"]
    assert re.fullmatch(rf"{run} is finished: .*zero_shot {metrics['zero_shot']:.4f}.*\n", done.out)
    after = {name: ((run / name).stat().st_mtime_ns, (run / name).read_bytes()) for name in files(run)}
    before.pop("state/lock", None)
    after.pop("state/lock", None)
    assert after == before


def test_run_without_its_result_is_finished_again_alike(train_again: Callable[..., Outcome], run: Path) -> None:
    before = json.loads((run / "result.json").read_text())
    (run / "result.json").unlink()
    done = train_again()
    assert (done.code, done.err) == (0, "")
    assert "resuming at epoch 5" in done.out
    after = json.loads((run / "result.json").read_text())
    assert {**after, "evaluation_seconds": 0} == {**before, "evaluation_seconds": 0}


@pytest.mark.parametrize(
    ("edit", "expected"),
    [
        (lambda h: h["config"].update(lr=0.5), "config lr is 0.5 there and 0.003 here"),
        (lambda h: h.update(seed=8), "seed is 8 there and 7 here"),
        (lambda h: h["config"].pop("latent"), "config latent is 64 there and 32 here"),
    ],
)
@pytest.mark.parametrize("finished", [True, False])
def test_another_run_in_the_directory_is_not_touched(
    train_again: Callable[..., Outcome], run: Path, edit: Callable[[dict], object], expected: str, finished: bool
) -> None:
    header = json.loads((run / "config.json").read_text())
    edit(header)
    (run / "config.json").write_text(json.dumps(header))
    if not finished:
        (run / "result.json").unlink()
    line = one_line(train_again(), 2)
    assert f"{run} holds another run ({expected}): choose another --out" in line


def test_same_path_with_other_images_is_another_run(
    cli: Cli, digits: Path, trained: tuple[Path, Outcome], tmp_path: Path
) -> None:
    world = tmp_path / "digits"
    shutil.copytree(digits, world)
    words = ("train", "--world", world, *SMALL, "--epochs", 1, "--out", tmp_path / "out", "--quiet")
    assert cli(*words).code == 0
    images = idx.read(world / MNIST.files[0])[0].copy()
    images[0, 0, 0] ^= 1
    idx.write(world / MNIST.files[0], images)
    assert cli(*words).code == 0
    assert len(list((tmp_path / "out").rglob("result.json"))) == 2


def test_moved_images_are_the_same_run(cli: Cli, digits: Path, tmp_path: Path) -> None:
    first, second = tmp_path / "here" / "digits", tmp_path / "there" / "digits"
    shutil.copytree(digits, first)
    words = (*SMALL, "--epochs", 1, "--out", tmp_path / "out")
    assert cli("train", "--world", first, *words).code == 0
    second.parent.mkdir()
    first.rename(second)
    assert "is finished" in cli("train", "--world", second, *words).out
    (result,) = (tmp_path / "out").rglob("result.json")
    assert "no world at" in one_line(cli("eval", result.parent), 2)
    assert "identical to result.json" in cli("eval", result.parent, "--data-dir", second).out


def test_a_finished_run_is_not_returned_for_other_letters(cli: Cli, letters: Path, tmp_path: Path) -> None:
    """EMNIST is known by its name, so other files under that name are refused."""
    other = tmp_path / "letters"
    shutil.copytree(letters, other)
    words = ("train", "--world", "emnist", *SMALL, "--epochs", 1, "--out", tmp_path / "out", "--data-dir")
    assert cli(*words, other).code == 0
    (file,) = other.glob("*test-labels*")
    labels = idx.read(file)[0].copy()
    labels[0] = labels[0] % 26 + 1
    idx.write(file, labels)
    assert "holds another run" in one_line(cli(*words, other), 2)
    assert "not found" in one_line(cli(*words, tmp_path / "nowhere"), 2)


def test_interrupted_run_exits_130_and_resumes(cli: Cli, digits: Path, tmp_path: Path) -> None:
    words = ["train", "--world", str(digits), *SMALL, "--epochs", "15", "--out", str(tmp_path), "--json"]
    command = [sys.executable, "-m", "brojepa", *words]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, text=True, env=environment, **pipes) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        first = json.loads(process.stdout.readline())
        process.send_signal(signal.SIGINT)
        rest = [json.loads(line) for line in process.stdout.read().splitlines()]
        error = process.stderr.read()
    assert process.returncode == 130
    assert re.fullmatch(r"brojepa: stopped [^\n]*the same command resumes it\n", error)
    assert not list(tmp_path.rglob("result.json"))
    last = [first, *rest][-1]["epoch"]
    done = cli(*words)
    assert (done.code, done.err) == (0, "")
    lines = [json.loads(line) for line in done.out.splitlines()]
    assert [line["epoch"] for line in lines[:-1]] == list(range(last + 1, 16))
    assert lines[-1]["epochs"] == 15


# Damaged files, full and unwritable disks


def empty(path: Path) -> None:
    path.write_bytes(b"")


def flip(path: Path) -> None:
    """One bit of a tensor: the file stays well-formed."""
    data = bytearray(path.read_bytes())
    data[-20] ^= 1
    path.write_bytes(data)


def forge(path: Path) -> None:
    """The metadata says another epoch."""
    data = path.read_bytes()
    assert data.count(b'\\"epoch\\": 4') >= 1
    path.write_bytes(data.replace(b'\\"epoch\\": 4', b'\\"epoch\\": 3'))


@pytest.mark.parametrize("damage", [truncate, empty, flip, forge])
def test_damaged_state_is_not_resumed(
    train_again: Callable[..., Outcome], run: Path, damage: Callable[[Path], None]
) -> None:
    (run / "result.json").unlink()
    damage(run / "state" / "latest.safetensors")
    line = one_line(train_again(), 1)
    assert f"{run / 'state' / 'latest.safetensors'} is truncated or was changed" in line
    assert not (run / "result.json").exists()


@pytest.mark.parametrize(
    ("tensors", "meta"),
    [
        ({}, {"epoch": 3}),  # with the rows of four epochs
        ({}, {"epoch": 5, "rows": "one more"}),  # of a run of four
        ({}, {"step": 10**6}),
        ({"log": (3, 2)}, {}),  # losses of steps that an epoch's end has not
        ({}, {"seconds": -1.0}),
    ],
)
def test_a_state_of_nowhere_in_its_run_is_not_resumed(
    train_again: Callable[..., Outcome], run: Path, tensors: dict[str, tuple[int, ...]], meta: dict[str, Any]
) -> None:
    """The checksum is right, and so is the type of each value: a program wrote it, but not for this run."""
    (run / "result.json").unlink()
    state = run / "state" / "latest.safetensors"
    held, about = checkpoint.load(state)
    rows = about["rows"] + about["rows"][-1:] if meta.get("rows") else about["rows"]
    shapes = {name: torch.zeros(shape) for name, shape in tensors.items()}
    checkpoint.save(state, held | shapes, about | meta | {"rows": rows})
    line = one_line(train_again(), 1)
    assert f"{state} does not fit its run" in line
    assert "train again" in line
    assert not (run / "result.json").exists()


@pytest.mark.parametrize("damage", [truncate, empty, flip])
def test_damaged_model_is_not_used(
    cli: Cli, train_again: Callable[..., Outcome], run: Path, damage: Callable[[Path], None]
) -> None:
    damage(run / "model.safetensors")
    expected = f"{run / 'model.safetensors'} is truncated or was changed"
    assert expected in one_line(cli("eval", run), 1)
    (run / "result.json").unlink()
    done = train_again("--quiet")
    assert expected in one_line(done, 1)
    assert not (run / "result.json").exists()


def test_model_of_another_config_does_not_fit(cli: Cli, run: Path) -> None:
    header = json.loads((run / "config.json").read_text())
    header["config"]["latent"] = 16
    (run / "config.json").write_text(json.dumps(header))
    assert "does not fit" in one_line(cli("eval", run), 1)


def test_run_without_a_model_cannot_be_evaluated(cli: Cli, run: Path) -> None:
    (run / "model.safetensors").unlink()
    assert "no checkpoint at" in one_line(cli("eval", run), 1)


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", "null", '"text"'])
@pytest.mark.parametrize("name", ["config.json", "result.json"])
def test_damaged_json_is_one_line(
    cli: Cli, train_again: Callable[..., Outcome], run: Path, name: str, content: str
) -> None:
    (run / name).write_text(content)
    assert str(run / name) in one_line(train_again(), 1)
    if name == "config.json":
        assert str(run / name) in one_line(cli("eval", run), 1)


def test_out_below_a_file_cannot_be_written(cli: Cli, digits: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    line = one_line(cli("train", "--world", digits, *SMALL, "--out", tmp_path / "file" / "runs"), 1)
    assert "cannot write to" in line
    assert "--out" in line
    assert (tmp_path / "file").read_text() == "mine"


@pytest.mark.parametrize(
    ("limit", "at"), [(200, "config.json"), (20_000, "model.safetensors"), (1_200_000, "latest.safetensors")]
)
def test_full_disk_is_one_line_and_leaves_nothing_half(
    cli: Cli, brojepa_process: Cli, digits: Path, trained: tuple[Path, Outcome], tmp_path: Path, limit: int, at: str
) -> None:
    sizes = {path.name: path.stat().st_size for path in trained[0].rglob("*") if path.is_file()}
    assert sizes["model.safetensors"] < 1_200_000 < sizes["latest.safetensors"]
    words = ("train", "mnist/fast", "--world", digits, *SMALL, "--seed", 7, "--out", tmp_path / "out", "--quiet")
    if at.startswith("model"):  # as a process of its own once, for the exit code that the shell sees
        prelude = f"import resource; resource.setrlimit(resource.RLIMIT_FSIZE, ({limit},) * 2)"
        line = one_line(brojepa_process(*words, prelude=prelude, env={"PYTHONDONTWRITEBYTECODE": "1"}), 1)
    else:
        with largest_file(limit):
            line = one_line(cli(*words), 1)
    assert "cannot write" in line
    assert at in line
    run = tmp_path / "out" / trained[0].relative_to(trained[0].parents[2])
    whole = {"config.json", "env.json", "metrics.jsonl", "model.safetensors", "state/lock"}
    assert set(files(tmp_path / "out")) <= {str((run / name).relative_to(tmp_path / "out")) for name in whole}
    for name in files(run):
        if name.endswith(".json"):
            json.loads((run / name).read_text())
        elif name.endswith(".safetensors"):
            assert (run / name).stat().st_size == sizes["model.safetensors"]

    assert cli(*words) == (0, "", "")
    again, before = (json.loads((path / "result.json").read_text()) for path in (run, trained[0]))
    assert (again["metrics"], again["validation_loss"]) == (before["metrics"], before["validation_loss"])


# eval


def test_eval_is_identical_to_the_result(cli: Cli, trained: tuple[Path, Outcome]) -> None:
    path, _ = trained
    result = json.loads((path / "result.json").read_text())
    done = cli("eval", path, "--json")
    assert (done.code, done.err) == (0, "")
    measured = json.loads(done.out)
    for key in ("metrics", "per_action", "by_state", "chance", "zero_shot_kind"):
        assert measured[key] == result[key]
    assert measured["same_images"] is True
    spoken = cli("eval", path)
    assert spoken.out.splitlines()[-1] == "identical to result.json"
    assert f"{result['metrics']['seen']:.4f}" in spoken.out


def test_eval_notices_another_result(cli: Cli, run: Path) -> None:
    result = json.loads((run / "result.json").read_text())
    result["metrics"]["seen"] += 1e-4
    (run / "result.json").write_text(json.dumps(result))
    done = cli("eval", run)
    assert done.code == 1
    assert "identical" not in done.out
    assert done.out.splitlines()[-1].startswith("result.json says otherwise")


def test_eval_notices_another_kind_of_zero_shot(cli: Cli, run: Path) -> None:
    result = json.loads((run / "result.json").read_text())
    (run / "result.json").write_text(json.dumps({**result, "zero_shot_kind": "weak"}))
    assert cli("eval", run).code == 1
    done = cli("eval", run, "--json")
    assert done.code == 1
    assert json.loads(done.out)["zero_shot_kind"] == "strict"
    assert "device" in done.err


def rewrite(run: Path, **changes: torch.Tensor | None) -> None:
    """The checkpoint with some tensors changed or, for None, without them; its checksum is right."""
    tensors, meta = checkpoint.load(run / "model.safetensors")
    tensors = {name: changes.get(name.replace(".", "_"), t) for name, t in tensors.items()}
    checkpoint.save(run / "model.safetensors", {n: t for n, t in tensors.items() if t is not None}, meta)


@pytest.mark.parametrize("name", ["actions_used", "classifier.weight", "encoder.net.1.weight", "pixel_mean"])
def test_a_model_that_lacks_a_tensor_is_not_filled_up_with_random_numbers(cli: Cli, run: Path, name: str) -> None:
    assert name in checkpoint.load(run / "model.safetensors")[0]
    rewrite(run, **{name.replace(".", "_"): None})
    assert name in one_line(cli("eval", run), 1)
    (run / "result.json").unlink()
    assert name in one_line(cli("infer", run, "a.npy", "b.npy"), 1)


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_model_of_numbers_that_are_none_is_refused(cli: Cli, run: Path, value: float) -> None:
    weight = checkpoint.load(run / "model.safetensors")[0]["classifier.weight"]
    weight[0, 0] = value
    rewrite(run, classifier_weight=weight)
    line = one_line(cli("eval", run), 1)
    assert "classifier.weight" in line
    assert "finite" in line


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("states", 10**12), ("states", 1e12), ("states", -1), ("states", "ten"), ("shape", [1, 10**6, 10**6]),
        ("shape", [1, 28]), ("shape", [1, 0, 28]), ("shape", 28), ("mean", []), ("mean", ["a"]), ("std", [0.0]),
        ("group", "Q8"), ("group", 3), ("group", "Z1000000000000"),
    ],
)  # fmt: skip
def test_a_world_that_cannot_be_is_one_line_and_takes_no_memory(cli: Cli, run: Path, key: str, value: Any) -> None:
    header = json.loads((run / "config.json").read_text())
    header["world"][key] = value
    (run / "config.json").write_text(json.dumps(header))
    assert str(run / "config.json") in one_line(cli("eval", run), 1)


@pytest.mark.parametrize(("knob", "value"), [("latent", 10**9), ("lr", 10**400), ("lr", None), ("width", [1])])
def test_a_config_that_cannot_be_is_one_line(cli: Cli, run: Path, knob: str, value: Any) -> None:
    header = json.loads((run / "config.json").read_text())
    header["config"][knob] = value
    (run / "config.json").write_text(json.dumps(header))
    assert str(run / "config.json") in one_line(cli("eval", run), 1)


@pytest.mark.parametrize(
    ("key", "value"),
    [("epoch", "two"), ("rows", [1]), ("rows", None), ("config", []), ("config", {"lr": "x"}), ("seconds", [])],
)
def test_a_state_whose_metadata_cannot_be_is_one_line(
    train_again: Callable[..., Outcome], run: Path, key: str, value: Any
) -> None:
    (run / "result.json").unlink()
    file = run / "state" / "latest.safetensors"
    tensors, meta = checkpoint.load(file)
    checkpoint.save(file, tensors, {**meta, key: value})
    assert str(file) in one_line(train_again("--quiet"), 1)
    checkpoint.save(file, {n: t for n, t in tensors.items() if n != "generator"}, meta)
    assert "generator" in one_line(train_again("--quiet"), 1)


@pytest.mark.parametrize(
    ("key", "value"),
    [("validation_loss", None), ("latent_std", [0.1]), ("effective_rank", "high"), ("variance", {}), ("angles", ["x"])],
)
def test_a_state_with_an_epoch_that_cannot_be_is_one_line(
    train_again: Callable[..., Outcome], run: Path, key: str, value: Any
) -> None:
    (run / "result.json").unlink()
    file = run / "state" / "latest.safetensors"
    tensors, meta = checkpoint.load(file)
    meta["rows"][-1] |= {"effective_rank": 5.0, "latent_std": 1.0, "latent_scale": 1.0, key: value}
    checkpoint.save(file, tensors, meta)
    line = one_line(train_again("--quiet"), 1)
    assert str(file) in line
    assert key in line


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("metrics", {"seen": "high"}), ("metrics", []), ("per_action", {"+1": "x"}), ("angles", ["x"]), ("angles", []),
        ("angles", [[1], [1, 2]]), ("by_state", []), ("by_state", {"accuracy": [["x"]]}), ("seconds", "long"),
        ("by_state", {"accuracy": [[1.0]], "actions": [{}]}),
        ("zero_shot_kind", 1),
    ],
)  # fmt: skip
def test_a_result_that_cannot_be_is_one_line(cli: Cli, run: Path, key: str, value: Any) -> None:
    result = json.loads((run / "result.json").read_text())
    (run / "result.json").write_text(json.dumps({**result, key: value}))
    for command in ("eval", "report"):
        assert str(run / "result.json") in one_line(cli(command, run), 1)


@pytest.mark.parametrize("line", ["[]", '{"angles": [[1], [1, 2]]}', '{"loss": "low"}', '{"epoch": 1.5}', "{"])
def test_epochs_that_cannot_be_are_one_line(run: Path, line: str) -> None:
    with (run / "metrics.jsonl").open("a") as file:
        file.write(line)
    with pytest.raises(RunError, match=re.escape(str(run / "metrics.jsonl"))):
        _ = Run(run).metrics


@pytest.mark.parametrize("content", ["[]", '{"starts": 3}', '{"precision": 16}'])
def test_a_machine_that_cannot_be_is_one_line(train_again: Callable[..., Outcome], run: Path, content: str) -> None:
    (run / "result.json").unlink()
    (run / "env.json").write_text(content)
    assert str(run / "env.json") in one_line(train_again("--quiet"), 1)


def test_eval_on_other_images(cli: Cli, trained: tuple[Path, Outcome], digit_arrays, tmp_path: Path) -> None:
    """Upside down is other images of the same shape; test images of the training split are too. A directory may be
    called as it likes."""
    path, _ = trained
    a, b, c, d = digit_arrays
    write_world(tmp_path / "not-emnist", MNIST.files, (a[:, ::-1], b, c[:, ::-1], d))
    write_world(tmp_path / "seen", MNIST.files, (a, b, a, b))
    seen = {}
    for name in ("not-emnist", "seen"):
        done = cli("eval", path, "--data-dir", tmp_path / name, "--json")
        assert (done.code, done.err) == (0, "")
        measured = json.loads(done.out)
        assert (measured["same_images"], measured["world"]) == (False, name)
        seen[name] = measured["metrics"]["seen"]
    assert seen["seen"] > seen["not-emnist"] + 0.1
    spoken = cli("eval", path, "--data-dir", tmp_path / "not-emnist").out
    assert "other images than it was trained on" in spoken
    assert "result.json" not in spoken


def test_eval_on_images_of_another_kind_is_refused(
    cli: Cli, trained: tuple[Path, Outcome], digit_arrays, letters: Path, tmp_path: Path
) -> None:
    path, _ = trained
    a, b, c, d = digit_arrays
    write_world(tmp_path / "small", MNIST.files, (a[:, 2:, 2:], b, c[:, 2:, 2:], d))
    write_world(tmp_path / "few", MNIST.files, (a[b < 9], b[b < 9], c[d < 9], d[d < 9]))
    for place, given in ((tmp_path / "small", "10 states, 1x26x26"), (tmp_path / "few", "9 states, 1x28x28"),
                         (letters, "26 states, 1x28x28")):  # fmt: skip
        line = one_line(cli("eval", path, "--data-dir", place), 2)
        assert f"{given} images" in line
        assert "was trained on 10 states, 1x28x28" in line
    assert "no world at" in one_line(cli("eval", path, "--data-dir", tmp_path / "missing"), 2)


def test_eval_without_its_world_is_refused(cli: Cli, run: Path) -> None:
    header = json.loads((run / "config.json").read_text())
    header["world_path"] = str(run / "gone")
    (run / "config.json").write_text(json.dumps(header))
    assert "no world at" in one_line(cli("eval", run), 2)
