"""The command as its users meet it: screens, output, exit codes, and one line for whatever goes wrong."""

from __future__ import annotations

import json
import os
import pty
import re
import shutil
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pytest
from conftest import SMALL, Cli, Outcome, files, one_line, truncate
from helpers import ROOT, says
from small_runs import without_times

from brojepa import config as knobs
from brojepa.cli import COMMANDS
from brojepa.cli.parser import COMMON
from brojepa.presets import PHRASES, PRESETS, phrase
from brojepa.worlds.sources import EMNIST

# Screens


@pytest.mark.parametrize("words", [[], ["--help"], ["-h"], ["help"]])
def test_help_names_every_command(cli: Cli, words: list[str]) -> None:
    done = cli(*words)
    assert (done.code, done.err) == (0, "")
    for name in COMMANDS:
        assert re.search(rf"^  {name} +\S", done.out, re.MULTILINE)


def test_help_names_the_flag_for_the_version(cli: Cli) -> None:
    assert "--version" in cli("--help").out


@pytest.mark.parametrize("command", ["train", "sweep"])
def test_help_shows_the_common_knobs_and_help_all_every_one(cli: Cli, command: str) -> None:
    short, full = cli(command, "--help"), cli(command, "--help-all")
    assert (short.code, short.err, full.code, full.err) == (0, "", 0, "")
    shown = {name for name in knobs.FIELDS if re.search(rf"^  {knobs.flag(name)}\b", short.out, re.MULTILINE)}
    assert shown == set(COMMON)
    assert len(COMMON) == 10
    for name in knobs.FIELDS:
        assert re.search(rf"^  {knobs.flag(name)}\b", full.out, re.MULTILINE)
    assert "--help-all" in short.out
    assert cli(command, "--help").out == short.out  # what --help-all changes, it changes for itself


def test_help_names_every_preset_with_a_phrase(cli: Cli) -> None:
    full, short = cli("train", "--help-all").out, cli("train", "--help").out
    for name in PRESETS:
        assert re.search(rf"^  {name} +\S.*\S$", full, re.MULTILINE), name
        assert (f"  {name} " in short) == (name in PHRASES)
    phrases = {name: phrase(name) for name in PRESETS}
    for world in {name.partition("/")[0] for name in PRESETS}:
        said = [phrases[name] for name in PRESETS if name.startswith(f"{world}/")]
        assert len(set(said)) == len(said), said
    assert max(map(len, short.splitlines())) <= 120


def test_train_help_names_the_flags_of_a_run(cli: Cli) -> None:
    done = cli("train", "--help")
    for name in ("--seed", "--out", "--data-dir", "--quiet", "--json"):
        assert name in done.out


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help(cli: Cli, name: str) -> None:
    done = cli(name, "--help")
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith(f"usage: brojepa {name}")
    assert COMMANDS[name].__doc__ in done.out


def test_version(cli: Cli, brojepa_process: Cli) -> None:
    assert cli("--version") == brojepa_process("--version") == (0, f"brojepa {version('brojepa')}\n", "")


@pytest.mark.parametrize(
    "words",
    [
        ["--help"], ["train", "--help"], ["train", "mnist/fats"], ["train", "--latent", "3"],
        ["bench", "--help"], ["bench", "pipline"], ["bench", "--read", "nothing.json"],
    ],
)  # fmt: skip
def test_help_and_bad_words_do_not_wait_for_torch(words: list[str]) -> None:
    script = (
        "import sys\nfrom brojepa.cli import main\n"
        "try: main(sys.argv[1:])\nexcept SystemExit: pass\n"
        "sys.exit('torch' in sys.modules or 'numpy' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", script, *words], capture_output=True).returncode == 0


# Wrong requests


WRONG = [  # DIGITS stands for the path of the small world
    (["trian"], "unknown command 'trian': did you mean train?"),
    (["fly"], "choose from train, eval, sweep, report, figures, data"),
    (["--verison"], "unknown flag '--verison': did you mean --version"),
    (["train", "mnist/fsat"], "unknown preset 'mnist/fsat': did you mean mnist/fast"),
    (["train", "bro-mlp-mfr-fixed"], "did you mean mnist/bro-mlp-mfr-fixed or"),
    (["train", "fast"], "did you mean mnist/fast, emnist/fast"),
    (["train", "fats"], "did you mean mnist/fast"),
    (["train", "emnist"], "did you mean emnist/fast"),
    (["train", "mnist/bro"], "mnist/bro-mlp-sfr-fixed"),
    (["train", "mnist/bro"], "mnist/bro-resnet18-mfr-learned"),
    (["sweep", "fast"], "did you mean mnist/fast"),
    (["infer", "fast", "a.png", "b.png"], "mnist/fast"),
    (["train", "--epoch", "3"], "unknown flag '--epoch': did you mean --epochs"),
    (["train", "--learning-rate=3"], "unknown flag '--learning-rate'"),
    (["train", "-x"], "unknown flag '-x'"),
    (["train", "mnist/fast", "mnist/fast"], "unexpected 'mnist/fast'"),
    (["train", "--epochs"], "--epochs: expected one argument; see brojepa train --help"),
    (["train", "--epochs", "many"], "--epochs 'many': expected a number (int)"),
    (["train", "--epochs", "2.5"], "--epochs '2.5': expected a number (int)"),
    (["train", "--epochs", "0"], "--epochs must be at least 1, got 0"),
    (["train", "--epochs", "-3"], "--epochs must be at least 1, got -3"),
    (["train", "--batch-size", "1"], "--batch-size must be at least 2"),
    (["train", "--lr", "fast"], "--lr 'fast': expected a number (float)"),
    (["train", "--lr", "0"], "--lr must be above 0"),
    (["train", "--lr", "nan"], "--lr must be a finite number, got nan"),
    (["train", "--variance", "-1"], "--variance must be at least 0"),
    (["train", "--variance", "nan"], "--variance must be a finite number, got nan"),
    (["train", "--ema-decay", "1"], "--ema-decay must be in [0, 1)"),
    (["train", "--latent", "7"], "--latent 7 is odd: mfr-learned turns pairs of dimensions, use 8"),
    (["train", "--encoder", "cnm"], "unknown value for --encoder 'cnm': did you mean cnn"),
    (["train", "--action", "mfr"], "did you mean"),
    (["train", "--lowest-frequency", "2"], "unknown value for --lowest-frequency '2': choose from 0, 1"),
    (["train", "--world", "mnits"], "unknown world 'mnits': did you mean mnist"),
    (["train", "--world", "no/such/world"], "no world at no/such/world"),
    (["train", "--world", "emnist"], "EMNIST letters not found"),
    (["train", "--data-dir", "."], "--world PATH"),
    (["train", "--train-actions", "one"], "--train-actions: one is not an action of Z10, write them as in -1,1"),
    (["train", "--train-actions", ""], "--train-actions is empty"),
    (["train", "--train-actions", "-1,1,-1", "--world", "DIGITS"], "names an action twice"),
    (["train", "--train-actions", "-10,1", "--world", "DIGITS"], "-10 is outside the group"),
    (["train", "--test-actions", "2,10", "--world", "DIGITS"], "actions run from -9 to +9"),
    (["train", "--train-actions", "-1,1", "--test-actions", "1,2"], "actions +1 are in --train-actions and --test"),
    (["train", "--target", "relaxed", "--action", "additive"], "--target relaxed needs a rotation"),
    (["train", "--method", "supervised", "--consistency", "1"], "--consistency needs --method jepa"),
    (["train", "--consistency", "1", "--composed-actions", "99", "--world", "DIGITS"], "+99 is outside"),
    (["train", "--seed", "first"], "--seed 'first': expected an integer of 0 or more"),
    (["train", "--seed", "-1"], "--seed '-1': expected an integer of 0 or more"),
    (["train", "--seed", "1.5"], "--seed '1.5'"),
    (["train", "--seed", str(2**63)], "--seed '9223372036854775808'"),
    (["train", "--device", "tpu", "--world", "DIGITS"], "--device tpu is not available here: choose auto or"),
    (["train", "--quiet", "--json"], "not allowed with argument"),
    (["eval"], "arguments are required: RUN"),
    (["eval", "no/such/run"], "no/such/run is not a run directory"),
    (["eval", "."], "is not a run directory"),
    (["eval", ".", "--dat-dir", "x"], "unknown flag '--dat-dir': did you mean --data-dir"),
    (["data", "chekc"], "unknown data command 'chekc': did you mean check"),
    (["data", "check", "no/such/world"], "no world at no/such/world"),
    (["data", "check", "emnist"], "EMNIST letters not found"),
    (["data", "list", "emnist"], "EMNIST letters not found"),
    (["data", "check", "mnits"], "did you mean mnist"),
    (["data", "check", "mnist", "--data-dir", "x"], "is for emnist, not for mnist"),
    (["data", "check", "mnist:0-99999999999"], "mnist:0-99999999999"),
    (["data", "check", "mnist:" + "0-999998," * 3 + "1"], "states"),
    (["train", ""], "preset"),
    (["train", "--device", "cpu:x", "--world", "DIGITS"], "--device cpu:x"),
    (["train", "--device", "cpu:7", "--world", "DIGITS"], "--device cpu:7"),
    (["train", "--angle-start", "1e308"], "--angle-start '1e308'"),
    (["train", "--angle-start", "spectral", "--action", "mfr-learned", "--train-actions", "0", "--world", "DIGITS"],
     "moves something"),
    (["sweep", "mnist/fast", "--grid", "lr", "1e-4", "--grid", "lr", "1e-3"], "--grid lr"),
    (["report", ".", "--out", "."], "."),
]  # fmt: skip


@pytest.mark.parametrize(("words", "expected"), WRONG, ids=[" ".join(words) for words, _ in WRONG])
def test_wrong_request_is_one_line_and_exit_2(
    cli: Cli, digits: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], expected: str
) -> None:
    monkeypatch.chdir(tmp_path)
    line = one_line(cli(*(digits if word == "DIGITS" else word for word in words)), 2)
    assert says(line, expected), line
    assert not [path for path in files(tmp_path) if not path.endswith("lock")]


@pytest.mark.parametrize(
    ("labels", "expected"), [([0] * 40, "at least 2 states"), ([0, 2] * 20, "state 1 has 0 images")]
)
def test_impossible_world_is_refused(cli: Cli, tmp_path: Path, labels: list[int], expected: str) -> None:
    np.savez(tmp_path / "own.npz", images=np.zeros((40, 8, 8), np.uint8), labels=np.array(labels))
    assert says(one_line(cli("train", "--world", tmp_path / "own.npz", "--out", tmp_path / "out"), 2), expected)


def test_debug_shows_the_traceback(brojepa_process: Cli) -> None:
    done = brojepa_process("train", "mnist/fsat", "--debug")
    assert done.code == 1  # Python's own
    assert done.err.startswith("Traceback")
    assert "RequestError: unknown preset 'mnist/fsat'" in done.err


# What a run prints


def test_table_is_plain_lines_when_not_on_a_terminal(trained: tuple[Path, Outcome]) -> None:
    path, done = trained
    assert (done.code, done.err) == (0, "")
    assert "\r" not in done.out
    assert "\x1b" not in done.out
    lines = done.out.splitlines()
    assert "seed 7: digits, 480 images of 10 states" in lines[0]
    assert lines[2] == "training on -1 +1; held out ±2..±9"
    head = next(i for i, line in enumerate(lines) if line.split()[:2] == ["epoch", "loss"])
    assert [line.split()[0] for line in lines[head + 1 : head + 5]] == ["1/4", "2/4", "3/4", "4/4"]
    rows = [json.loads(line) for line in (path / "metrics.jsonl").read_text().splitlines()]
    for line, row in zip(lines[head + 1 :], rows, strict=False):
        assert line.split()[1] == f"{row['loss']:.4f}"
    result = json.loads((path / "result.json").read_text())
    for name, value in result["metrics"].items():
        assert re.search(rf"^  {name.replace('_', '-')} +{value:.4f}", done.out, re.MULTILINE)
    assert "strict: never given to the latent action in training" in done.out
    assert lines[-1] == str(path)


def test_run_directory_holds_what_is_promised(trained: tuple[Path, Outcome], digits: Path) -> None:
    path, _ = trained
    assert files(path) == [
        "config.json", "env.json", "metrics.jsonl", "model.safetensors", "result.json", "state/latest.safetensors",
        *(["state/lock"] if (path / "state" / "lock").exists() else []),
    ]  # fmt: skip
    config = json.loads((path / "config.json").read_text())["config"]
    assert path.parts[-3:] == ("digits", knobs.Config.from_dict(config).hash, "seed-7")
    assert re.fullmatch(r"digits@[0-9a-f]{12}", config["world"]), "own images are known by their content"
    assert json.loads((path / "config.json").read_text())["world_path"] == str(digits.resolve())
    assert (config["latent"], config["epochs"], config["lr"]) == (32, 4, 3e-3)
    result = json.loads((path / "result.json").read_text())
    promised = (
        "preset world seed epochs seconds images_per_second zero_shot_kind metrics per_action angles validation_loss "
        "parameters"
    )
    assert set(promised.split()) <= set(result)
    assert set(result["metrics"]) == {"train", "seen", "zero_shot", "rollout", "knn"}
    assert list(result["per_action"]) == [f"{k:+d}" for k in range(-9, 10) if k]
    assert (result["world"], result["seed"], result["epochs"]) == ("digits", 7, 4)


def test_quiet_prints_nothing_and_json_prints_json(
    cli: Cli, trained: tuple[Path, Outcome], digits: Path, tmp_path: Path
) -> None:
    words = ("train", "mnist/fast", "--world", digits, *SMALL, "--seed", 7)
    assert cli(*words, "--out", tmp_path / "quiet", "--quiet") == (0, "", "")
    done = cli(*words, "--out", tmp_path / "json", "--json")
    assert (done.code, done.err) == (0, "")
    lines = [json.loads(line) for line in done.out.splitlines()]
    assert [line.get("epoch") for line in lines] == [1, 2, 3, 4, None]
    expected = json.loads((trained[0] / "result.json").read_text())
    (written,) = (tmp_path / "json").rglob("result.json")
    assert lines[-1] == json.loads(written.read_text())
    assert {k: v for k, v in lines[-1].items() if "second" not in k} == {
        k: v for k, v in expected.items() if "second" not in k
    }
    assert cli(*words, "--out", tmp_path / "json", "--json").out == json.dumps(lines[-1]) + "\n"
    assert cli(*words, "--out", tmp_path / "quiet", "--quiet") == (0, "", "")


def on_terminal(*words: object) -> tuple[int, str]:
    """Exit code and everything a terminal gets from the command."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "brojepa", *map(str, words)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment) as process:
        os.close(theirs)
        seen = b""
        while True:
            try:
                piece = os.read(ours, 65536)
            except OSError:  # Linux: the other side is closed
                break
            if not piece:
                break
            seen += piece
    os.close(ours)
    return process.returncode, seen.decode()


def as_displayed(text: str) -> list[str]:
    """The lines that remain on the screen, without colours."""
    lines = []
    for line in re.sub(r"\x1b\[\d*m", "", text).replace("\r\n", "\n").split("\n"):
        shown = ""
        for part in line.split("\r"):
            shown = part.removeprefix("\x1b[K") if part.startswith("\x1b[K") else part + shown[len(part) :]
        lines.append(shown)
    return lines


def test_table_is_rewritten_in_place_on_a_terminal(digits: Path, tmp_path: Path) -> None:
    code, text = on_terminal("train", "--world", digits, *SMALL, "--out", tmp_path)
    assert code == 0
    plain = re.sub(r"\x1b\[\d*m", "", text)
    assert re.search(r"\r\x1b\[K +1/4 +[━─]+ +\d+%  [\d,]+ images/s  loss [\d.]+  \S+ s left", plain)
    assert "\r\x1b[Kevaluating on the test split" in plain
    screen = as_displayed(text)
    assert not [line for line in screen if "%" in line or "evaluating" in line or "\x1b" in line]
    assert [line.split()[0] for line in screen if re.match(r" +\d/4 ", line)] == ["1/4", "2/4", "3/4", "4/4"]
    assert any(re.match(r"  zero-shot +0\.\d{4}  test images", line) for line in screen)


def test_error_on_a_terminal_takes_the_place_of_the_passing_line(digits: Path, tmp_path: Path) -> None:
    code, text = on_terminal("train", "--world", digits, *SMALL, "--lr", "1e30", "--out", tmp_path)
    assert code == 1
    screen = [line for line in as_displayed(text) if line]
    assert screen[-1].startswith("brojepa: error: the loss is not finite")
    assert screen[-2].split()[:2] == ["epoch", "loss"]


# data


def test_data_list_and_check(cli: Cli, letters: Path, digits: Path) -> None:
    for words in (["data"], ["data", "check"]):
        done = cli(*words)
        assert (done.code, done.err) == (0, "")
        mnist, emnist, rest = done.out.splitlines()
        assert mnist.startswith("mnist: 60,000 training and 10,000 test images, 10 states, 1x28x28")
        assert mnist.endswith("whole") == (words[-1] == "check")
        assert emnist.startswith("emnist: EMNIST letters not found")
        assert rest == "torus, pairs, rotation, dihedral, pose: made when they are opened, nothing to download"
    done = cli("data", "check", "emnist", "--data-dir", letters)
    assert done.code == 0
    assert re.fullmatch(r"emnist \(other split\): 260 training and 104 test images, 26 states, .* whole\n", done.out)
    assert cli("data", "check", digits).out.startswith("digits: 600 training and 200 test images, 10 states")


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize("damage", ["missing", "truncated"])
def test_data_check_fails_where_files_are_damaged(
    cli: Cli, letters: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: str, named: bool
) -> None:
    shutil.copytree(letters, tmp_path / "bad")
    path = tmp_path / "bad" / f"{EMNIST.files[2]}.gz"
    if damage == "missing":
        path.unlink()
    else:
        truncate(path)
    monkeypatch.setenv("BROJEPA_DATA", str(tmp_path / "bad"))
    done = cli("data", "check", *(["emnist"] if named else []))
    assert done.code == 2
    assert re.fullmatch(rf"brojepa: error: .*{EMNIST.files[2]}.*\n", done.err)
    assert ("mnist: 60,000" in done.out) == (not named)
    assert cli("data", "list").code == 0  # a list only says so


# Worlds of every kind through the command


@pytest.mark.parametrize(
    ("n", "shape", "flags"),
    [
        (2, (12, 12), ["--encoder", "mlp", "--action", "mfr-fixed", "--batch-size", 8, "--lr", "1e-2"]),
        (7, (12, 10, 3), ["--encoder", "cnn", "--precision", "float32", "--batch-size", 16, "--lr", "3e-3"]),
        (
            5,
            (9, 9),
            ["--method", "supervised", "--encoder", "mlp", "--action", "additive", "--batch-size", 8, "--lr", "3e-3"],
        ),
    ],
    ids=["two states", "seven, colour, cnn", "five, supervised"],
)
def test_own_world_trains_and_evaluates(cli: Cli, tmp_path: Path, n: int, shape: tuple[int, ...], flags: list) -> None:
    rng = np.random.default_rng(0)
    prototypes = rng.integers(0, 200, (n, *shape))
    labels = np.tile(np.arange(n), 40)
    images = (prototypes[labels] + rng.integers(0, 50, (len(labels), *shape))).astype(np.uint8)
    np.savez(tmp_path / "own.npz", images=images, labels=labels)
    done = cli(
        "train", "--world", tmp_path / "own.npz", "--epochs", 8, "--latent", 16, *flags, "--out", tmp_path / "out"
    )
    assert (done.code, done.err) == (0, "")
    (path,) = (tmp_path / "out").rglob("result.json")
    result = json.loads(path.read_text())
    assert len(result["per_action"]) == 2 * (n - 1)
    assert (result["metrics"]["zero_shot"] is None) == (n == 2)
    assert result["metrics"]["seen"] > 0.9
    assert cli("eval", path.parent).out.splitlines()[-1] == "identical to result.json"


def test_what_an_evaluation_left_out_is_added_later(cli: Cli, digits: Path, tmp_path: Path) -> None:
    """Both runs are the same afterwards, but for times."""
    words = ("train", "--world", digits, *SMALL, "--out")
    assert cli(*words, tmp_path / "all").code == 0
    done = cli(*words, tmp_path / "some", "--evaluate", "zero-shot,seen")
    assert (done.code, done.err) == (0, "")
    assert "left out: train, rollout, knn" in done.out
    (whole,), (part,) = (list((tmp_path / name).rglob("result.json")) for name in ("all", "some"))
    wanted, some = (json.loads(path.read_text()) for path in (whole, part))
    assert some["evaluated"] == ["seen", "zero_shot"]
    left_out = {"train": None, "rollout": None, "knn": None}
    assert some["metrics"] == wanted["metrics"] | left_out
    assert None not in wanted["metrics"].values()
    assert "added to result.json" in cli("eval", part.parent).out
    assert without_times(json.loads(part.read_text())) == without_times(wanted)
    assert "identical to result.json" in cli("eval", part.parent).out


def test_eval_measures_in_the_precision_in_which_the_run_was_measured(cli: Cli, digits: Path, tmp_path: Path) -> None:
    """Probabilities of single precision differ: what agrees to the last digit was computed in the same precision."""
    words = ("train", "--world", digits, *SMALL, "--encoder", "cnn", "--precision", "bfloat16")
    done = cli(*words, "--eval-precision", "training", "--out", tmp_path / "out")
    if done.code == 2:
        pytest.skip(done.err)  # a CPU that cannot
    (path,) = (tmp_path / "out").rglob("result.json")
    assert cli("eval", path.parent).out.splitlines()[-1] == "identical to result.json"
    latents = {}
    for asked in ("training", "float32"):
        config = json.loads((path.parent / "config.json").read_text())
        config["config"]["eval_precision"] = asked
        (path.parent / "config.json").write_text(json.dumps(config))
        latents[asked] = json.loads(cli("eval", path.parent, "--json").out)["equivariance"]
    assert latents["training"] != latents["float32"]


def test_an_evaluation_with_another_number_adds_nothing(cli: Cli, digits: Path, tmp_path: Path) -> None:
    cli("train", "--world", digits, *SMALL, "--out", tmp_path / "out", "--evaluate", "seen")
    (path,) = (tmp_path / "out").rglob("result.json")
    result = json.loads(path.read_text())
    result["metrics"]["seen"] += 0.01
    path.write_text(json.dumps(result))
    assert cli("eval", path.parent).code == 1
    assert json.loads(path.read_text()) == result


@pytest.mark.parametrize("words", ["speed", "", "seen,,knn"])
def test_an_unknown_metric_is_refused_before_training(cli: Cli, tmp_path: Path, words: str) -> None:
    line = one_line(cli("train", "--evaluate", words, "--out", tmp_path / "out"), 2)
    assert "metric" in line
    assert "seen" in line
    assert not (tmp_path / "out").exists()


def test_emnist_trains_from_a_data_dir(cli: Cli, letters: Path, tmp_path: Path) -> None:
    words = ("--world", "emnist", "--data-dir", letters, *SMALL, "--out", tmp_path)
    done = cli("train", *words)
    assert (done.code, done.err) == (0, "")
    assert "emnist (other split)" in done.out
    (path,) = tmp_path.rglob("result.json")
    assert path.parts[-4] == "emnist"
    assert json.loads(path.read_text())["split"] == "other"
    assert "EMNIST letters not found" in one_line(cli("eval", path.parent), 2)
    assert "identical to result.json" in cli("eval", path.parent, "--data-dir", letters).out


@pytest.mark.parametrize("command", [["--help"], ["report", str(ROOT / "results")]])
def test_a_reader_that_has_seen_enough_is_no_error(command):
    words = [sys.executable, "-m", "brojepa", *command]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 141


@pytest.mark.parametrize("command", ["eval", "inspect", "decode"])
def test_an_empty_name_is_no_run(cli, command: str) -> None:
    done = cli(command, "")
    assert done.code == 2
    assert "empty" in done.err


def test_a_knob_is_given_once_to_a_sweep(cli, digits) -> None:
    words = ("sweep", "mnist/bro-mlp-mfr-fixed", "--world", digits, "--dry-run", "--grid", "lr", "1e-3")
    for more in (("--grid", "lr", "1e-4"), ("--lr", "1e-4")):
        done = cli(*words, *more)
        assert done.code == 2
        assert "lr" in done.err


# Streams


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_a_screen_without_plus_minus_signs_is_no_reason_to_fail(brojepa_process, trained, encoding) -> None:
    for words in (("report", trained[0]), ("train", "--help"), ("inspect", trained[0])):
        done = brojepa_process(*words, env={"PYTHONIOENCODING": encoding, "PYTHONUTF8": "0"})
        assert (done.code, done.err) == (0, "")
        assert done.out
        assert "?" not in done.out
    notes = brojepa_process("report", trained[0], env={"PYTHONIOENCODING": encoding, "PYTHONUTF8": "0"}).out
    assert "^ above" in notes, notes
    assert "v below" in notes, "one sign for both would say nothing"
    assert {"ascii": "+-", "latin-1": "�"}[encoding] in notes


def test_a_run_is_finished_where_the_screen_has_ascii_only(brojepa_process, tiny, tmp_path) -> None:
    words = ("train", "mnist/bro-mlp-mfr-fixed", "--world", tiny, "--latent", 8, "--epochs", 1, "--out", tmp_path)
    done = brojepa_process(*words, env={"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"})
    assert done.code == 0, done.err
    assert list(tmp_path.rglob("result.json"))


@pytest.mark.parametrize(("redirected", "code"), [(">&-", 0), (">&- 2>&-", 0), ("> /dev/full", 1)])
def test_output_that_is_closed_or_full_ends_in_order(trained, redirected: str, code: int) -> None:
    if "full" in redirected and not Path("/dev/full").exists():
        pytest.skip("no /dev/full")
    command = f"{sys.executable} -m brojepa report {trained[0]} {redirected}"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True)
    assert done.returncode == code, done.stderr
    assert "unexpected" not in done.stderr
    assert "Exception ignored" not in done.stderr
    assert len(done.stderr.splitlines()) == code


@pytest.mark.parametrize("command", [["infer"], ["plan", "--allowed=+1"]])
def test_actions_of_a_classifier_of_pixels_cannot_be_inferred(cli: Cli, tiny, tmp_path: Path, command) -> None:
    words = ("--world", tiny, "--latent", 8, "--epochs", 1, "--quiet", "--out", tmp_path / "out")
    assert cli("train", "mnist/supervised-mlp", *words).code == 0
    (result,) = (tmp_path / "out").rglob("result.json")
    np.save(tmp_path / "a.npy", np.full((8, 8), 128, np.uint8))
    images = (tmp_path / "a.npy", tmp_path / "a.npy")
    assert "latent" in one_line(cli(command[0], result.parent, *images, *command[1:]), 2)
