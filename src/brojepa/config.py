"""Every knob once. `Config` is what a run is a function of, together with a seed.

A frozen dataclass that validates itself. The command line, the presets, `config.json` and the run's hash are
all read off its fields; nothing here needs torch.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import re
import types
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from brojepa import parts
from brojepa.errors import RequestError, unknown
from brojepa.files import place
from brojepa.text import signed

Actions = tuple[int | str, ...]
WORLDS = ("mnist", "emnist", "torus", "pairs", "rotation", "dihedral", "pose")
ANGLE_STARTS = ("random", "spectral")
LARGEST = 4096  # pixels: the longest side of a resized image
ROTATIONS = ("sfr-fixed", "sfr-learned", "mfr-fixed", "mfr-learned")
LARGEST_SIZES = {
    "width": 128,
    "pool": 64,
    "shrink": LARGEST,
    "latent": 65_536,
    "walk": 1_024,
    "shift": LARGEST,
}  # larger models fit in no memory
PAIRS = ("batch_size", "latent", "views")  # at least two of each
LARGEST_ANGLE = 1e3  # radians; float32 cannot represent much larger angles exactly
EMBEDDINGS = ("additive", "lookup", "linear", "fourier", "hybrid")

# A part is one of these names, or a path to own code: see `parts`.
Encoder = Annotated[str, ("mlp", "cnn", "resnet18")]
Action = Annotated[str, (*ROTATIONS, *EMBEDDINGS)]
Target = Annotated[str, ("sampled", "mean", "relaxed")]
Regulariser = Annotated[str, ("vicreg", "sigreg")]


def needs_emnist(world: str) -> bool:
    """Whether a world is EMNIST or is made from it, so that `--data-dir` applies."""
    return "emnist" in world.replace(":", ",").split(",")


def is_own_world(name: str) -> bool:
    """Whether a world, or a part that it is made of, is own data or own code: nothing built in has its name."""
    base, _, rest = name.partition(":")
    if base not in WORLDS:
        return True
    return any(Path(part).is_absolute() for part in rest.split(",")) or bool(world_code(name))


def world_code(name: str) -> str:
    """The paths to own code that a world is, or is made of, with commas between them: `a:f,b:g` for `torus:a:f,b:g`."""
    base, _, rest = name.partition(":")
    if base in WORLDS:
        return ",".join(filter(None, map(world_code, rest.split(","))))
    return name if parts.is_path(name) else ""


def absolute_world(name: str) -> str:
    """A world with its own files named by their whole paths, so that it means the same everywhere."""
    base, colon, rest = name.partition(":")
    if base in WORLDS:
        return base + colon + ",".join(map(_absolute, rest.split(",")))
    return _absolute(name)


def _absolute(name: str) -> str:
    if not name or name.partition(":")[0] in WORLDS:
        return name
    path = place(name)
    return str(path.resolve()) if path.exists() else name


def world_folder(name: str) -> str:
    """What a world is called in a path: mnist, mnist-0-6, torus-mnist-emnist, and a file without its ending."""
    base, colon, rest = name.partition("@")[0].partition(":")
    if colon and (base in WORLDS or parts.is_path(name)):
        return _folder("-".join([base, *(Path(part).stem.replace(":", "-") for part in rest.split(","))]))
    return _folder(Path(name.partition("@")[0]).stem)


def _folder(name: str) -> str:
    """A name made safe for one directory: no slashes, control characters or dots alone."""
    name = re.sub(r"[\x00-\x1f\x7f/\\]", "-", name)
    return name if name.strip(". ") else "world"


def parse_size(size: str | int) -> tuple[int, int] | None:
    """Height and width that a size names, N or HxW; None for an empty one.

    >>> parse_size("32x48")
    (32, 48)
    """
    if size == "":
        return None
    form = re.fullmatch(r"(\d{1,5})(?:x(\d{1,5}))?", str(size).strip())
    height, width = (int(form[1]), int(form[2] or form[1])) if form else (0, 0)
    if not 1 <= height <= LARGEST or not 1 <= width <= LARGEST:
        raise RequestError(f"--size {size!r}: expected N or HxW in pixels, up to {LARGEST}, as in 28 or 32x48")
    return height, width


def knob(default: Any, help: str, group: str | None = None, formerly: str | None = None) -> Any:
    """A field with its help text; `group` begins a group of flags, `formerly` is a name that still works."""
    return field(default=default, metadata={"help": help, "group": group, "formerly": formerly})


@dataclass(frozen=True)
class Config:
    """Everything a run depends on except its seed. The defaults are the paper's protocol.

    Each field is a knob, a keyword of `brojepa.train` and a flag of `brojepa train`: `batch_size` is `--batch-size`.
    The page "Config" lists all of them with their defaults. A config checks itself and cannot be changed; `replace`
    makes another.

    Raises:
        RequestError: a value that is not allowed, or two that do not go together.

    Examples:
        >>> import brojepa
        >>> config = brojepa.Config(encoder="cnn", epochs=3)
        >>> config.latent, config.train_actions
        (64, (-1, 1))
        >>> config.replace(epochs=5).epochs
        5
    """

    world: str = knob(
        "mnist",
        "mnist, emnist, some of their states as in mnist:0-6, torus, pairs, rotation, dihedral, pose, a path to your "
        "own images (a directory with a sub-folder of images per state or of IDX files, an .npz or HDF5), or own code",
        "world",
    )
    size: str = knob(
        "", "resize the images of a folder or file to N or HxW pixels, height and width; default: as they are"
    )
    group: str = knob(
        "", "poses and recordings: the group, as in Z72, SO2, SO3 or Z10xZ10; default: what the file says"
    )
    held_out_things: int = knob(
        -1,
        "poses and recordings: things, or episodes, used only for test; -1: no things, a fifth of the episodes",
    )
    tolerance: float = knob(
        0.0,
        "views of a continuous group: largest difference in degrees at which the action between two views counts as a "
        "trained one; 0: 1 degree, or what connects the views of each thing if the trained action is the identity",
    )
    train_actions: Actions = knob((-1, 1), "actions trained on, as the world's group writes them: -1,1 or 1:0,0:1")
    test_actions: Actions | None = knob(None, "actions held out for zero-shot; default: all others but 0")
    validation: int = knob(5000, "training images held out for validation, at most a fifth of them")

    method: Literal["jepa", "supervised"] = knob("jepa", "regress latents, or classify the next state", "model")
    encoder: Encoder = knob("mlp", "image -> latent")
    width: int = knob(1, "channels of the cnn, as a multiple of 24, 48, 96 and 96")
    pool: int = knob(
        3,
        "side of the grid that the cnn pools to; a larger one, up to a quarter of the image, resolves poses better",
    )
    shrink: int = knob(
        1,
        "the cnn reads the means of blocks of N x N pixels: large images take less time; all commands still take "
        "images of the original size",
    )
    latent: int = knob(64, "latent dimension; even for rotations")
    standardise: bool = knob(False, "end the encoder with a batch norm: latents of mean 0 and variance 1")
    normalise: bool = knob(False, "L2-normalise latents, separately in each irrep block")
    tta: Literal[1, 5] = knob(
        1,
        "test-time augmentation: 1 = none, 5 = average latents over the image and four one-pixel shifts",
        formerly="looks",
    )
    action: Action = knob(
        "mfr-fixed", "latent action: single- or multi-frequency rotation, or an MLP with an action embedding"
    )
    angle_range: Literal["symmetric", "positive"] = knob(
        "symmetric", "learned angles start in [-2pi, 2pi] (symmetric) or [0, 2pi] (positive)"
    )
    angle_start: str = knob(
        "random",
        "where learned angles start: random, spectral (read off pairs of training images), or a number of radians",
    )
    lowest_frequency: Literal[0, 1] = knob(
        1, "fixed multi-frequency: harmonics 1 to N/2, or 0 to N/2 - 1 as in the paper's formula"
    )
    irreps: str = knob(
        "",
        "mfr-fixed: copies of the irreducible representations that make up the latent, as in '14x0 + 12x1'; default: "
        "all of them, as evenly as possible",
    )
    embedding_scale: float = knob(1.0, "the action number is multiplied by this before it is embedded")
    activation: Literal["relu", "gelu"] = knob("relu", "activation of that MLP's hidden layers")

    target: Target = knob(
        "sampled",
        "regression target: an image of the next state (sampled), the batch mean of that state (mean), or state "
        "means relaxed along the training actions (relaxed; in worlds of poses, means over the views of a thing)",
        "target",
    )
    target_encoder: Literal["ema", "stop-gradient", "shared"] = knob(
        "ema",
        "ema: moving average of the encoder; stop-gradient: the encoder, detached; shared: the encoder, with gradient",
    )
    ema_decay: float = knob(0.996, "decay of the moving average")
    relax_steps: int = knob(20, "relaxation steps for --target relaxed, where states are labelled")
    views: int = knob(12, "worlds of poses, --target relaxed: views of a thing that are drawn together")

    invariance: float = knob(25.0, "weight of the distance to the target", "loss")
    regulariser: Regulariser = knob("vicreg", "the loss that keeps latents from collapsing")
    variance: float = knob(25.0, "vicreg: weight of the variance term; 0 switches it off")
    covariance: float = knob(1.0, "vicreg: weight of the covariance term; 0 switches it off")
    covariance_scale: Literal["mean", "dim"] = knob(
        "mean", "vicreg: covariance term averaged over entries (mean) or summed over D (dim, as in the original)"
    )
    sigreg: float = knob(10.0, "sigreg: weight of the distance from an isotropic Gaussian")
    regularise: Literal["predicted", "context"] = knob("predicted", "the latents that the regulariser acts on")
    consistency: float = knob(0.0, "weight of the composition-consistency loss (makes zero-shot weak)")
    composed_actions: Actions | None = knob(None, "actions composed by that loss; default: the test actions")

    epochs: int = knob(25, "passes over the training images", "training")
    repeat: int = knob(
        1, "times each training image is shown per epoch; with few images, use this instead of many epochs"
    )
    batch_size: int = knob(128, "context images per step")
    every_action: bool = knob(False, "apply every training action to every context image, not one drawn at random")
    even_states: bool = knob(False, "show every state equally often, however many images it has")
    walk: int = knob(1, "worlds of poses: training actions in a row from each context; every step is predicted")
    shift: int = knob(0, "augmentation: move each training image by up to this many pixels")
    warp: float = knob(0.0, "augmentation: random affine warp, identity + U(-w, w) in each matrix entry")
    lr: float = knob(1e-4, "learning rate of AdamW (its peak for one-cycle)")
    weight_decay: float = knob(0.01, "weight decay of AdamW; never on angles")
    optimiser: Literal["adamw", "muon"] = knob(
        "adamw", "adamw; or muon, which moves the encoder's weight matrices by their momentum made orthogonal"
    )
    matrix_lr: float = knob(10.0, "muon: learning rate of the encoder's weight matrices, as a multiple of lr")
    angle_lr: float = knob(1.0, "learning rate of learned angles, as a multiple of lr")
    probe_lr: float = knob(10.0, "learning rate of the probe, as a multiple of lr")
    schedule: Literal["constant", "one-cycle"] = knob("constant", "learning rate over the run")
    checkpoint: Literal["best", "last"] = knob("best", "keep the epoch with the lowest validation loss, or the last")
    precision: Literal["auto", "float32", "bfloat16"] = knob(
        "auto", "arithmetic of the encoder; auto takes the faster one"
    )
    eval_precision: Literal["float32", "training"] = knob(
        "float32",
        "arithmetic of the evaluation at the end: float32, or that of training, in which a ResNet-18 is measured in "
        "half the time, and a few answers in a hundred thousand differ",
    )

    def __post_init__(self) -> None:
        if sides := parse_size(self.size):  # 28, "28" and "28x28" are one config
            object.__setattr__(self, "size", str(sides[0]) if sides[0] == sides[1] else f"{sides[0]}x{sides[1]}")
        for f in dataclasses.fields(self):
            object.__setattr__(self, f.name, _typed(f.name, getattr(self, f.name)))
        for name in ("width", "pool", "shrink", "epochs", "repeat", "validation", "walk", *PAIRS):
            self._at_least(name, 2 if name in PAIRS else 1)
        for name, most in LARGEST_SIZES.items():
            if getattr(self, name) > most:
                raise RequestError(f"{flag(name)} must be at most {most:,}, got {getattr(self, name)}")
        self._at_least("held_out_things", -1)
        for name in ("tolerance", "relax_steps", "shift", "invariance", "variance", "covariance", "sigreg",
                     "consistency", "weight_decay"):  # fmt: skip
            self._at_least(name, 0)
        for name in ("lr", "matrix_lr", "angle_lr", "probe_lr"):
            if not getattr(self, name) > 0:
                raise RequestError(f"{flag(name)} must be above 0, got {getattr(self, name)}")
        if not 0 <= self.ema_decay < 1:
            raise RequestError(f"--ema-decay must be in [0, 1), got {self.ema_decay}")
        if not self.train_actions:
            raise RequestError("--train-actions is empty: give at least one action, for example --train-actions=-1,1")
        both = sorted(set(self.train_actions) & set(self.test_actions or ()), key=str)
        if both:
            named = ",".join(signed(k) if isinstance(k, int) else k for k in both)
            raise RequestError(
                f"actions {named} are in --train-actions and --test-actions: "
                "an action trained on cannot be zero-shot, take it out of one"
            )
        if self.angle_start not in ANGLE_STARTS and self.first_angle is None:
            raise RequestError(
                f"--angle-start {self.angle_start!r}: expected random, spectral or a number of radians, like 0.628, "
                f"of at most {LARGEST_ANGLE:g}"
            )
        if not 0 <= self.warp <= 0.5:
            raise RequestError(f"--warp must be in [0, 0.5], got {self.warp}: 0.1 turns by up to about 6 degrees")
        if self.width > 1 and self.encoder != "cnn":
            raise RequestError(f"--width {self.width} is for --encoder cnn, got --encoder {self.encoder}")
        if self.shrink > 1 and self.encoder != "cnn":
            raise RequestError(f"--shrink {self.shrink} is for --encoder cnn, got --encoder {self.encoder}: use --size")
        if self.irreps and self.action != "mfr-fixed":
            raise RequestError(f"--irreps {self.irreps!r} is for --action mfr-fixed, got --action {self.action}")
        if self.walk > 1 and self.every_action:
            raise RequestError(f"--walk {self.walk} draws one action per step: leave out --every-action")
        if self.rotates and self.latent % 2 and not self.irreps:
            raise RequestError(
                f"--latent {self.latent} is odd: {self.action} turns pairs of dimensions, use {self.latent + 1}"
            )
        if self.target == "relaxed" and not self.rotates:
            raise RequestError(f"--target relaxed needs a rotation, got --action {self.action}: use {ROTATIONS[2]}")
        if self.method == "supervised" and self.consistency:
            raise RequestError("--consistency needs --method jepa: a supervised model has no latent to compose in")

    def _at_least(self, name: str, least: float) -> None:
        if not getattr(self, name) >= least:
            raise RequestError(f"{flag(name)} must be at least {least}, got {getattr(self, name)}")

    @property
    def rotates(self) -> bool:
        """Whether the latent action is one of the built-in rotations."""
        return self.action in ROTATIONS

    @property
    def reading(self) -> dict[str, Any]:
        """How the files of a world are read: what `open_world` takes."""
        return {name: getattr(self, name) for name in ("size", "group", "held_out_things", "tolerance")}

    @property
    def own_parts(self) -> dict[str, str]:
        """The parts that are own code, by kind: {"encoder": "mymodule:MyViT"}."""
        named = {name: value for name in PARTS if parts.is_path(value := getattr(self, name))}
        return named | ({"world": code} if (code := world_code(self.world)) else {})

    @property
    def first_angle(self) -> float | None:
        """Where every learned angle starts, in radians, if `angle_start` is a number."""
        try:
            angle = float(self.angle_start)
        except ValueError:
            return None
        return angle if abs(angle) <= LARGEST_ANGLE else None

    def replace(self, **changes: Any) -> Config:
        """A copy with some knobs changed.

        Args:
            **changes: new values by name.

        Returns:
            The new config.

        Raises:
            RequestError: an unknown name, or a value that is not allowed.
        """
        changes = {FORMERLY.get(name, name): value for name, value in changes.items()}
        for name in changes:
            if name not in FIELDS:
                raise unknown("config value", name, FIELDS)
        return dataclasses.replace(self, **changes)

    def to_dict(self) -> dict[str, Any]:
        """All knobs as plain values, as `config.json` holds them.

        Returns:
            Values by name.
        """
        return {name: list(v) if isinstance(v, tuple) else v for name, v in dataclasses.asdict(self).items()}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Config:
        """The config that `to_dict` described; knobs that are missing have their defaults.

        Args:
            values: values by name.

        Returns:
            The config.
        """
        return cls().replace(**values)

    @property
    def hash(self) -> str:
        """Eight hex digits that name this config: of the values that are not the default, so that a new knob does
        not rename old runs, each under the first name that its knob had."""
        plain = Config().to_dict()
        first = {new: old for old, new in FORMERLY.items()}
        changed = {first.get(k, k): v for k, v in self.to_dict().items() if v != plain[k]}
        return hashlib.sha256(json.dumps(changed, sort_keys=True).encode()).hexdigest()[:8]


_HINTS = get_type_hints(Config, include_extras=True)
TYPES = get_type_hints(Config)
FIELDS = {f.name: f for f in dataclasses.fields(Config)}
FORMERLY = {f.metadata["formerly"]: name for name, f in FIELDS.items() if f.metadata["formerly"]}
PARTS = tuple(name for name, kind in _HINTS.items() if get_origin(kind) is Annotated)
"""The knobs that take a built-in name or a path to own code."""


def flag(name: str) -> str:
    return "--" + name.replace("_", "-")


def options(name: str) -> tuple | None:
    """The values of a knob that has a list of them; a part may also be a path."""
    if name in PARTS:
        return _HINTS[name].__metadata__[0]
    return get_args(TYPES[name]) if get_origin(TYPES[name]) is Literal else None


def parse(name: str, text: str) -> Any:
    """The value that a piece of text gives a knob."""
    kind = TYPES[name]
    try:
        if _is_actions(kind):
            return tuple(_word(part.strip()) for part in text.split(",") if part.strip())
        if kind in (int, float):
            return kind(text)
    except ValueError:
        raise RequestError(f"{flag(name)} {text!r}: expected a number ({kind.__name__})") from None
    numbers = {str(option): option for option in options(name) or () if isinstance(option, int)}
    return numbers.get(text, text)


def _word(text: str) -> int | str:
    """An action as a config holds it: a number if it is one, else the word that its group reads."""
    return int(text) if text.lstrip("+-").isdecimal() else text


def words(config: Config, base: Config) -> list[str]:
    """The command-line words that turn the base into the config."""
    flags: list[str] = []
    for name in FIELDS:
        value = getattr(config, name)
        if value != getattr(base, name):
            text = ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
            flags.append(
                flag(name) if value is True else f"--no-{flag(name)[2:]}" if value is False else f"{flag(name)}={text}"
            )
    return flags


def _is_actions(kind: Any) -> bool:
    return kind == Actions or (get_origin(kind) in (Union, types.UnionType) and Actions in get_args(kind))


def _typed(name: str, value: Any) -> Any:
    """The value in the knob's type, or an error that says what is allowed."""
    kind, allowed = TYPES[name], options(name)
    if allowed:
        if name in PARTS and isinstance(value, str) and parts.is_path(value):
            return value
        if isinstance(value, (bool, list)) or value not in allowed:
            names = [*map(str, allowed), *([parts.FORM] if name in PARTS else [])]
            raise unknown(f"value for {flag(name)}", str(value), names)
        return value
    if _is_actions(kind):
        if value is None and kind != Actions:
            return None
        if isinstance(value, (list, tuple)) and all(type(k) in (int, str) for k in value):
            return tuple(value)
        raise RequestError(f"{flag(name)}: expected a list of actions, got {value!r}")
    if kind is float and type(value) is int:
        value = float(value) if abs(value) < 2**1000 else math.inf
    if type(value) is not kind:
        raise RequestError(f"{flag(name)}: expected {kind.__name__}, got {value!r}")
    if kind is float and not math.isfinite(value):
        raise RequestError(f"{flag(name)} must be a finite number, got {value}")
    return value
