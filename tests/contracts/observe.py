"""What the contracts look at: flags, knobs, files, keys, tensors and bits, by names that a user may rely on.

`record.py` writes down what these functions see; the tests look again and compare. Whatever came since is allowed,
whatever is gone or different is not. Bits depend on the CPU and on torch's build: `machine()` names both.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import inspect
import io
import json
import math
import shutil
import signal
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor

import brojepa
from brojepa import config as knobs
from brojepa.cli import main
from brojepa.cli.parser import Parser
from brojepa.errors import Interrupted
from brojepa.runs.finding import runs_under

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
RECORDED = HERE / "recorded.json"
OLD_RUNS = HERE / "old-runs"

COMMANDS = (
    "train", "eval", "sweep", "report", "figures", "data", "inspect", "infer", "plan", "bench", "predict",
    "export", "push", "decode", "demo",
)  # fmt: skip
CALLED = ("train", "load", "open_world", "preset", "evaluate", "evaluate_run", "inspect")
TIMES = ("seconds", "evaluation_seconds", "images_per_second")
OF_THE_PATH = ("world", "config_hash")  # of a result: a world of one's own is named by where it is
NOT_KEPT = ("slow.", "target.")  # tensors that training needs and prediction does not

# Runs


def committed() -> list[brojepa.Run]:
    """The runs in results/."""
    return [*runs_under(ROOT / "results", [])]


SMALL: dict[str, Any] = {
    "latent": 16, "epochs": 4, "batch_size": 60, "validation": 60, "lr": 2e-3, "precision": "float32",
}  # fmt: skip
POSES: dict[str, Any] = {"train_actions": (-10, 10), "test_actions": (20, 30, 5), "target_encoder": "stop-gradient"}
KINDS: dict[str, dict[str, Any]] = {
    "fixed": {},
    "learned": {"action": "mfr-learned", "angle_range": "positive", "ema_decay": 0.5, "angle_lr": 5.0},
    "single": {"action": "sfr-fixed", "covariance_scale": "dim", "weight_decay": 0.1},
    "cnn": {
        "encoder": "cnn", "standardise": True, "action": "mfr-learned", "target": "mean", "regularise": "context",
        "target_encoder": "stop-gradient", "every_action": True, "shift": 1, "warp": 0.1, "looks": 5,
        "schedule": "one-cycle", "checkpoint": "last", "probe_lr": 1.0,
    },
    "mean": {"target": "mean", "target_encoder": "stop-gradient", "normalise": True},
    "relaxed": {"target": "relaxed", "every_action": True, "even_states": True, "shift": 2, "schedule": "one-cycle"},
    "spectral": {"action": "sfr-learned", "angle_start": "spectral"},
    "supervised": {"method": "supervised", "action": "additive"},
    "supervised-rotation": {"method": "supervised", "action": "mfr-fixed", "lr": 3e-3},
    "consistency": {
        "action": "additive", "consistency": 0.1, "activation": "gelu", "embedding_scale": 0.3, "standardise": True,
        "checkpoint": "last",
    },
    "lookup": {"action": "lookup"},
    "hybrid": {"action": "hybrid"},
    "torus": {"world": "torus:{1},{1}", "train_actions": ("1:0", "-1:0", "0:1", "0:-1"), "target": "mean"},
    "rotation": {"world": "rotation:{0}", **POSES},
    "rotation-walk": {"world": "rotation:{0}", **POSES, "walk": 4, "normalise": True, "target_encoder": "shared"},
    "dihedral": {"world": "dihedral:{0}", "train_actions": ("r", "r3", "s"), "every_action": True, "standardise": True},
}  # fmt: skip
"""Runs of under a second; {0} is where the small world is, {1} one of three states."""

SPACE: dict[str, Any] = {
    "world": "pose", "train_actions": ("x15", "x-15", "y15"), "test_actions": ("z90",), "walk": 3, "normalise": True,
    "target_encoder": "shared", "batch_size": 12, "validation": 12, "encoder": "cnn", "latent": 16,
}  # fmt: skip
"""Turns of space, a world too large to finish here: it is cut after `SPACE_STEPS`."""
SPACE_STEPS = 3

BUILT: dict[str, dict[str, Any]] = {
    "resnet18": {"encoder": "resnet18", "standardise": True, "action": "mfr-learned"},
    "space": SPACE,
    "linear": {"action": "linear"},
    "fourier": {"action": "fourier"},
    "supervised-resnet18": {"method": "supervised", "encoder": "resnet18", "action": "additive"},
}
"""Models whose tensors are looked at without training them."""
NEEDS_E3NN = ("space",)

OLD: dict[str, Any] = {
    "action": "mfr-learned", "latent": 8, "epochs": 3, "batch_size": 40, "validation": 40, "lr": 2e-3,
    "checkpoint": "last", "precision": "float32", "angle_start": "1.25",
}  # fmt: skip
OLD_SEEDS = {"finished": 0, "cut-off": 1}
OLD_CUT = 6  # steps, of 4 an epoch


def have_e3nn() -> bool:
    return find_spec("e3nn") is not None


def make_world(path: Path, n: int = 10, size: int = 12, train: int = 30, test: int = 8) -> Path:
    """A world on disk: state y is a noisy picture of its own. By integer arithmetic alone, so that it is the same
    with every version of numpy."""

    def noise(count: int, seed: int) -> np.ndarray:
        x = np.arange(count * size * size, dtype=np.uint64) + np.uint64(seed * 1_000_003)
        for _ in range(2):
            x = ((x ^ (x >> np.uint64(16))) * np.uint64(0x45D9F3B)) & np.uint64(0xFFFFFFFF)
        return (x >> np.uint64(12)).astype(np.int64).reshape(count, size, size)

    pictures = noise(n, 1) % 160
    parts = {}
    for prefix, each, seed in (("", train, 2), ("test_", test, 3)):
        labels = np.arange(n * each) * 7 % n if math.gcd(7, n) == 1 else np.arange(n * each) % n
        parts[f"{prefix}labels"] = labels
        parts[f"{prefix}images"] = (pictures[labels] + noise(n * each, seed) % 96).astype(np.uint8)
    np.savez(path, **parts)
    return path


def old_world(directory: Path) -> Path:
    """The world of the old runs."""
    return make_world(directory / "shapes.npz", n=5, size=6, train=40, test=10)


def small_worlds(directory: Path) -> tuple[Path, Path]:
    return make_world(directory / "shapes.npz"), make_world(directory / "three.npz", n=3, size=8, train=60, test=30)


RENAMED = {"looks": "tta"}
"""Knobs with a new name; the old one still works, as a hidden flag and in old configs."""


def config(values: dict[str, Any], *worlds: Path) -> brojepa.Config:
    values = {"world": "{0}", **SMALL, **values}
    return brojepa.Config().replace(**{**values, "world": values["world"].format(*worlds)})


class Cut(brojepa.Callback):
    """Says nothing; asks for a stop, as Ctrl-C does, after that many steps."""

    def __init__(self, after: int | None = None) -> None:
        self.after, self.heard = after, 0

    def step(self, training: object) -> None:
        self.heard += 1
        if self.heard == self.after:
            signal.raise_signal(signal.SIGINT)

    def warning(self, text: str) -> None:
        """Warnings are not what is recorded."""


def train(wanted: brojepa.Config, out: Path, seed: int = 0, cut: int | None = None) -> brojepa.Run:
    """The run, on one thread of the CPU; cut off after `cut` steps, if given."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return brojepa.train(wanted, seed=seed, out=out, device="cpu", callbacks=[Cut(cut)])
    except Interrupted:
        if cut is None:
            raise
        (found,) = out.rglob(f"seed-{seed}")
        return brojepa.Run(found)
    finally:
        torch.set_num_threads(before)


# What a run leaves


def files(run: Path) -> list[str]:
    """Without the lock, which some systems take away."""
    return sorted(p.relative_to(run).as_posix() for p in run.rglob("*") if p.is_file() and p.name != "lock")


def shape(value: Any) -> Any:
    """The keys of a JSON value and the types behind them; of a list, its first element."""
    if isinstance(value, dict):
        return {key: shape(part) for key, part in value.items()}
    if isinstance(value, list):
        return [shape(part) for part in value[:1]]
    return type(value).__name__


def lost(old: Any, new: Any, where: str = "") -> list[str]:
    """Where a value that is there now breaks a shape that was recorded; keys may be added."""
    if isinstance(old, dict) and isinstance(new, dict):
        gone = [f"{where}.{key} is gone" for key in old if key not in new and RENAMED.get(key) not in new]
        return gone + [line for key in old if key in new for line in lost(old[key], new[key], f"{where}.{key}")]
    if isinstance(old, list) and isinstance(new, list):
        return [line for part in new for line in lost(old[0], part, f"{where}[]")] if old else []
    now = shape(new)
    return [] if old == now else [f"{where} was {old}, is {now}"]


def restricted(value: Any, old: Any) -> Any:
    """The part of a JSON value that was there when its shape was recorded."""
    if isinstance(old, dict):
        return {key: restricted(value[key if key in value else RENAMED[key]], part) for key, part in old.items()}
    if isinstance(old, list) and old:
        return [restricted(part, old[0]) for part in value]
    return value


def documents(run: Path) -> dict[str, Any]:
    """The JSON of a run directory, and what its checkpoints say of themselves."""
    found: dict[str, Any] = {name: json.loads((run / f"{name}.json").read_text()) for name in ("config", "env")}
    found["env"].pop("commit")  # None outside of a checkout
    found["metrics"] = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    found["result"] = json.loads((run / "result.json").read_text())
    for name, file in (("model", "model.safetensors"), ("state", "state/latest.safetensors")):
        if (run / file).is_file():
            found[name] = read_tensors(run / file)[1]
    return found


def read_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    with safe_open(path, "pt") as file:
        names = list(file.keys())
        return {name: file.get_tensor(name) for name in names}, json.loads(file.metadata()["meta"])


def write_tensors(path: Path, tensors: dict[str, Tensor], meta: dict[str, Any]) -> None:
    """A checkpoint in the format that runs have: safetensors, with metadata and a sha256 over both."""
    text = json.dumps(meta, sort_keys=True)
    digest = _digest(tensors, hashlib.sha256(text.encode()))
    save_file(tensors, path, {"meta": text, "sha256": digest})


def _digest(tensors: dict[str, Tensor], digest: Any) -> str:
    for name in sorted(tensors):
        t = tensors[name].contiguous()
        digest.update(f"{name} {t.dtype} {tuple(t.shape)}".encode())
        digest.update(t.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def tensor_shapes(tensors: dict[str, Tensor]) -> dict[str, str]:
    """Each tensor as "float32 256 144", by name."""
    return {
        name: " ".join([str(t.dtype).removeprefix("torch."), *map(str, t.shape)]) for name, t in sorted(tensors.items())
    }


def blank(said: str) -> Tensor:
    """Zeros of a shape that `tensor_shapes` wrote."""
    kind, *sides = said.split()
    return torch.zeros([int(side) for side in sides], dtype=getattr(torch, kind))


def tensor_bits(tensors: dict[str, Tensor]) -> str:
    return _digest(tensors, hashlib.sha256())


def json_bits(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def bits(run: Path, shapes: dict[str, Any]) -> dict[str, str]:
    """The tensors, the rows and the result as three sums, without times and places and what was added since."""
    seen = documents(run)
    rows = [restricted(row, shapes["metrics"][0]) for row in seen["metrics"]]
    result = restricted(seen["result"], shapes["result"])
    return {
        "tensors": tensor_bits(read_tensors(run / "model.safetensors")[0]),
        "metrics": json_bits([_without(row, TIMES) for row in rows]),
        "result": json_bits(_without(result, (*TIMES, *OF_THE_PATH))),
    }


def _without(values: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if key not in names}


def numbers(run: Path) -> dict[str, dict[str, float | None]]:
    """Last losses and final accuracies: what another machine must come near to."""
    seen = documents(run)
    losses = {key: value for key, value in seen["metrics"][-1].items() if key in ("loss", "validation_loss")}
    return {"losses": losses, "accuracies": seen["result"]["metrics"]}


def near(new: dict[str, Any], old: dict[str, Any], loss: float = 0.02, accuracy: float = 0.05) -> None:
    """Losses within a share, and accuracies within a distance, of those recorded on another machine."""
    for name, value in old["losses"].items():
        assert math.isclose(new["losses"][name], value, rel_tol=loss), (name, new, old)
    for name, value in old["accuracies"].items():
        now = new["accuracies"][name]
        assert now is None if value is None else abs(now - value) <= accuracy, (name, new, old)


def machine() -> str:
    """The CPU and the torch that bits depend on."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.is_file() else []
    said = {line.split(":", 1)[0].strip(): line.split(":", 1)[1].strip() for line in reversed(lines) if ":" in line}
    able = hashlib.sha256(said.get("flags", "").encode()).hexdigest()[:12]
    return (
        f"{said.get('model name')}, flags {able}, {torch.backends.cpu.get_cpu_capability()}, torch {torch.__version__}"
    )


# Models that are built and not trained


def built(name: str, directory: Path, tensors: dict[str, Tensor] | None = None) -> dict[str, str]:
    """The tensors of the model that loads from a run directory with this config and these tensors."""
    directory.mkdir(parents=True)
    wanted = brojepa.Config().replace(**{**SMALL, **BUILT[name]})
    facts = {"name": "made", "states": 10, "shape": [1, 12, 12], "mean": [0.5], "std": [0.25]}
    if name == "space":
        facts |= {"states": 0, "shape": [3, 32, 32], "mean": [0.1] * 3, "std": [0.2] * 3, "group": "SO3"}
    header = {"preset": None, "base": None, "seed": 0, "config": wanted.to_dict(), "world": facts}
    (directory / "config.json").write_text(json.dumps(header))
    write_tensors(directory / "model.safetensors", tensors or {}, {"epoch": 1, "validation_loss": 0.0})
    state = brojepa.load(directory, "cpu").state_dict()
    return tensor_shapes({key: t for key, t in state.items() if not key.startswith(NOT_KEPT)})


def space(out: Path) -> tuple[dict[str, Tensor], list[float]]:
    """A run of turns of space, cut off after a few steps: its model, and the losses of those steps."""
    run = train(brojepa.Config().replace(**{**SMALL, **SPACE}), out, cut=SPACE_STEPS)
    tensors, meta = read_tensors(run.path / "state" / "latest.safetensors")
    assert (meta["epoch"], meta["step"]) == (0, SPACE_STEPS)
    kept = {name: t for name, t in tensors.items() if name.startswith("model.") or name == "log"}
    return kept, tensors["log"][:SPACE_STEPS, meta["terms"].index("loss")].tolist()


# Old runs


def take_old_runs(out: Path, world: Path) -> dict[str, brojepa.Run]:
    """Copies of the old runs where training would put them, their world named by where it is now."""
    wanted, runs = config(OLD, world), {}
    for name, seed in OLD_SEEDS.items():
        runs[name] = brojepa.Run.locate(out, wanted, None, seed)
        shutil.copytree(OLD_RUNS / name, runs[name].path)
        named(runs[name].path, str(world))
    return runs


def named(run: Path, world: str) -> None:
    """Name the world of a run directory anew, in its config and in its state: one's own is named by its path."""
    header = json.loads((run / "config.json").read_text())
    header["config"]["world"] = world
    (run / "config.json").write_text(json.dumps(header, indent=1) + "\n")
    state = run / "state" / "latest.safetensors"
    if state.is_file():
        tensors, meta = read_tensors(state)
        meta["config"]["world"] = world
        write_tensors(state, tensors, meta)


# The interface


class Caught(BaseException):
    """The parser of a command, at the moment when it would parse."""

    def __init__(self, parser: Parser) -> None:
        self.parser = parser


def parser_of(command: str) -> Parser:
    def catch(self: Parser, _: object) -> None:
        raise Caught(self)

    with mock.patch.object(Parser, "parse", catch):
        try:
            main([command])
        except Caught as caught:
            return caught.parser
    raise AssertionError(f"brojepa {command} parses nothing")


def flags(command: str) -> dict[str, Any]:
    """Every flag and positional of a command, and which exclude each other."""
    parser = parser_of(command)
    found = [
        {
            "dest": action.dest,
            "options": list(action.option_strings),
            "kind": type(action).__name__.strip("_"),
            "default": action.default,
            "nargs": action.nargs,
            "required": action.required,
            "const": action.const,
            "choices": None if action.choices is None else list(action.choices),
            "type": getattr(action.type, "__name__", None),
        }
        for action in parser._actions
    ]
    apart = [[action.dest for action in group._group_actions] for group in parser._mutually_exclusive_groups]
    return {"flags": found, "exclusive": apart}


def fields() -> dict[str, Any]:
    """Every knob: its default, the default's type, and the values of a fixed list."""
    plain = brojepa.Config().to_dict()
    return {
        f.name: {"default": plain[f.name], "type": shape(plain[f.name]), "values": _listed(f.name)}
        for f in dataclasses.fields(brojepa.Config)
    }


def _listed(name: str) -> list[Any] | None:
    values = knobs.options(name)
    return None if values is None else list(values)


def presets() -> dict[str, str]:
    return {name: preset.hash for name, preset in sorted(brojepa.PRESETS.items())}


def signatures() -> dict[str, list[str]]:
    """The parameters of public functions: name, kind and default."""
    return {
        name: [
            f"{p.name} {p.kind.name.lower()}" + ("" if p.default is p.empty else f" {p.default!r}")
            for p in inspect.signature(getattr(brojepa, name)).parameters.values()
        ]
        for name in CALLED
    }


def call(*argv: object) -> tuple[int, str, str]:
    """The command in this process: exit code, stdout, stderr."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = main([str(word) for word in argv])
        except SystemExit as leave:
            code = int(leave.code or 0)
    return code, out.getvalue(), err.getvalue()


def said(run: Path, world: Path) -> dict[str, Any]:
    """What the commands that read a run print as JSON."""
    with np.load(world) as data:
        pictures = [run / f"{i}.npy" for i in (0, 1)]
        for i, path in enumerate(pictures):
            np.save(path, data["test_images"][i])
    asked = {
        "eval": (run,), "inspect": (run,), "infer": (run, *pictures), "plan": (run, *pictures, "--allowed=+1,-1"),
    }  # fmt: skip
    answers = {}
    for command, words in asked.items():
        code, out, err = call(command, *words, "--json", "--device", "cpu")
        assert code == 0 or (command == "eval" and code == 1), err  # 1 where another machine rounds otherwise
        answers[command] = json.loads(out)
    code, out, err = call("report", run, "--runs", "--format", "json")
    assert code == 0, err
    for path in pictures:
        path.unlink()
    return {**answers, "report": json.loads(out)}
