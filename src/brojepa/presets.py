"""Named configs, as data: the 38 rows of the paper's two tables, and ours.

The paper's rows are built from their names: method, encoder, latent action. What a row needs beyond the paper's
protocol (the defaults of `Config`) is in `departures` and nowhere else.
"""

from __future__ import annotations

from brojepa.config import Config
from brojepa.errors import unknown

PAPER_ROWS = {
    "mnist": (
        "supervised-mlp supervised-resnet18 jepa-mlp jepa-mlp-consistency jepa-resnet18 jepa-resnet18-consistency "
        "supervised-mlp-sfr-fixed supervised-mlp-sfr-learned supervised-mlp-mfr-fixed supervised-mlp-mfr-learned "
        "supervised-resnet18-sfr-fixed supervised-resnet18-sfr-learned "
        "supervised-resnet18-mfr-fixed supervised-resnet18-mfr-learned "
        "bro-mlp-sfr-fixed bro-mlp-sfr-learned bro-mlp-mfr-fixed bro-mlp-mfr-learned "
        "bro-resnet18-sfr-fixed bro-resnet18-sfr-learned bro-resnet18-mfr-fixed bro-resnet18-mfr-learned"
    ),
    "emnist": (
        "supervised-mlp supervised-resnet18 jepa-mlp jepa-mlp-consistency jepa-resnet18 jepa-resnet18-consistency "
        "supervised-mlp-sfr-fixed supervised-mlp-mfr-fixed supervised-resnet18-sfr-fixed supervised-resnet18-mfr-fixed "
        "bro-mlp-sfr-learned bro-mlp-mfr-fixed bro-mlp-mfr-learned "
        "bro-resnet18-sfr-learned bro-resnet18-mfr-fixed bro-resnet18-mfr-learned"
    ),
}


def paper_row(world: str, row: str) -> Config:
    """The paper's own protocol for one row: `bro-mlp-mfr-fixed`, `jepa-resnet18-consistency`, `supervised-mlp`, ..."""
    method, encoder, *rest = row.split("-")
    variant = "-".join(rest)
    values: dict[str, object] = {"world": world, "encoder": encoder}
    values["method"] = "supervised" if method == "supervised" else "jepa"
    values["action"] = "additive" if variant in ("", "consistency") else variant
    if method == "jepa":
        values["checkpoint"] = "last"
    if variant == "consistency":
        values |= {"consistency": 25.0, "epochs": 200 if encoder == "resnet18" else 25}
    return Config().replace(**values)


def departures(world: str, row: str) -> dict[str, object]:
    """How our preset of a row departs from the paper's protocol, or fills in what the paper leaves open."""
    method = row.split("-")[0]
    values: dict[str, object] = {}
    if row.endswith("consistency"):
        values |= CONSISTENCY
        if (
            world == "emnist"
        ):  # the actions of the first table, composed and held out: an MLP does not learn more of them
            values |= {"consistency": 100.0, "test_actions": tuple(k for k in range(-9, 10) if abs(k) > 1)}
    if row.startswith("supervised-mlp-mfr"):  # at 1e-4 it reaches half of the paper's zero-shot
        values |= {"lr": 3e-3}
    if method != "supervised" and world == "emnist":
        values |= EMNIST_JEPA
    if method != "supervised" and world == "emnist" and not row.endswith("sfr-learned"):
        values |= {"standardise": True}
    if method == "bro" and world == "mnist":
        values |= {"ema_decay": 0.5}
    if method == "bro" and world == "emnist":  # the official split is even, ours has nine times as many e as x
        values |= {"even_states": True}
    if method == "bro" and row.endswith("sfr-learned"):
        values |= {"angle_start": "spectral"}
    return values


CONSISTENCY: dict[str, object] = {
    "activation": "gelu", "embedding_scale": 0.3, "standardise": True,
    "lr": 3e-3, "probe_lr": 1.0, "schedule": "one-cycle",
}  # fmt: skip
EMNIST_JEPA: dict[str, object] = {"covariance_scale": "dim", "regularise": "context", "ema_decay": 0.99}

FAST = Config(
    encoder="cnn",
    standardise=True,
    action="mfr-learned",
    target="mean",
    target_encoder="stop-gradient",
    regularise="context",
    every_action=True,
    shift=1,
    epochs=5,
    batch_size=256,
    lr=5e-3,
    angle_lr=10.0,
    probe_lr=1.0,
    schedule="one-cycle",
    checkpoint="last",
)

ROBUST = FAST.replace(action="mfr-fixed", angle_lr=1.0, target="relaxed", epochs=12)

LETTERS = FAST.replace(world="emnist", action="mfr-fixed", target="relaxed", relax_steps=20, epochs=8)

TORUS = FAST.replace(
    world="torus", train_actions=("1:0", "-1:0", "0:1", "0:-1"), action="mfr-fixed", angle_lr=1.0, epochs=4
)
POSES = Config(
    encoder="cnn",
    standardise=True,
    target_encoder="stop-gradient",
    regularise="context",
    every_action=True,
    epochs=4,
    batch_size=256,
    lr=3e-3,
    schedule="one-cycle",
    checkpoint="last",
)
VIEWS = POSES.replace(target="relaxed", every_action=False)
TURNS: dict[str, object] = {"world": "rotation", "train_actions": (-10, 10)}
DIHEDRAL = POSES.replace(world="dihedral", train_actions=("r", "r3", "s"), epochs=3)
SPACE: dict[str, object] = {"world": "pose", "train_actions": ("x15", "x-15", "y15", "y-15", "z15", "z-15")}
POSE = VIEWS.replace(**SPACE, normalise=True, pool=8, views=32, epochs=2)
WALKS = POSES.replace(
    **SPACE, normalise=True, target_encoder="shared", every_action=False, walk=23, batch_size=12, epochs=3
)

PRESETS: dict[str, Config] = {
    **{
        f"{world}/{row}": paper_row(world, row).replace(**departures(world, row))
        for world, rows in PAPER_ROWS.items()
        for row in rows.split()
    },
    "mnist/fast": FAST,
    "mnist/speedrun": FAST.replace(optimiser="muon", matrix_lr=15.0, batch_size=128, epochs=1),
    "mnist/best": FAST.replace(shift=2, warp=0.15, tta=5, epochs=45),
    "emnist/fast": LETTERS,
    "emnist/speedrun": LETTERS.replace(optimiser="muon", even_states=True, epochs=3),
    "emnist/best": LETTERS.replace(optimiser="muon", even_states=True, shift=2, warp=0.15, tta=5, epochs=12),
    "pairs/fast": FAST.replace(
        world="pairs", action="mfr-fixed", angle_lr=1.0, target="relaxed", relax_steps=4000, epochs=16
    ),
    "own/auto": ROBUST,
    "torus/fast": TORUS,
    "rotation/fast": VIEWS.replace(**TURNS),
    "dihedral/fast": DIHEDRAL,
    "pose/fast": POSE,
    "torus/additive": TORUS.replace(action="additive"),
    "rotation/additive": POSES.replace(**TURNS, action="additive"),
    "dihedral/additive": DIHEDRAL.replace(action="additive"),
    "pose/additive": WALKS.replace(action="additive"),
}
"""Every named config: the rows of the paper's tables, and ours. `preset` looks one up, `phrase` says what it is.

Examples:
    >>> import brojepa
    >>> brojepa.PRESETS["mnist/fast"].epochs
    5
"""
RECOMMENDED = "mnist/fast"
AUTO = "own/auto"
"""Where the recipe for own images starts; `recipes.recipe` chooses the rest by their number, states and size."""


PHRASES = {
    "mnist/fast": "digits, small CNN, learned angles: the recommended model, about a minute on two cores",
    "mnist/speedrun": "the same in one epoch, with Muon: the paper's accuracy in ten seconds on two cores",
    "mnist/best": "the same with more epochs, more augmentation and test-time augmentation: the most accurate",
    "emnist/fast": "letters: the recipe of mnist/fast for 26 states",
    "emnist/speedrun": "the same in three epochs",
    "emnist/best": "the same with more epochs, more augmentation and test-time augmentation: the most accurate",
    "pairs/fast": "two digits as one number from 0 to 99",
    "own/auto": "your own images: the recipe that is fitted to their number, size and states",
    "torus/fast": "two digits side by side, each with its own actions",
    "rotation/fast": "digits turned by any angle: SO(2)",
    "dihedral/fast": "digits turned by quarters and flipped: D4",
    "pose/fast": "objects turned in space: SO(3)",
    "torus/additive": "baseline of torus/fast: an MLP on an embedding of the action",
    "rotation/additive": "baseline of rotation/fast: an MLP on an embedding of the action",
    "dihedral/additive": "baseline of dihedral/fast: an MLP on an embedding of the action",
    "pose/additive": "baseline of pose/fast: an MLP on an embedding of the action",
}
_WORDS = {
    "supervised": "supervised", "jepa": "JEPA", "bro": "BRo-JEPA", "mlp": "MLP", "resnet18": "ResNet-18",
    "sfr": "one frequency", "mfr": "many frequencies", "fixed": "fixed angles", "learned": "learned angles",
    "consistency": "composition consistency",
}  # fmt: skip


def phrase(name: str) -> str:
    """What a preset is, in a few words; a row of the paper's tables says it by its name.

    >>> phrase("mnist/bro-mlp-mfr-fixed")
    'BRo-JEPA, MLP, many frequencies, fixed angles'
    """
    row = name.partition("/")[2].split("-")
    additive = ["additive embedding"] if len(row) == 2 or "consistency" in row else []
    return PHRASES.get(name) or ", ".join([_WORDS[word] for word in row[:2]] + additive + [_WORDS[w] for w in row[2:]])


def likeliest() -> list[str]:
    """Every preset, ours first: the order in which a mistyped name is compared with them."""
    return list(dict.fromkeys([*PHRASES, *PRESETS]))


def preset(name: str) -> Config:
    """The config of a preset.

    Args:
        name: such as "mnist/fast"; `brojepa.PRESETS` has all of them.

    Returns:
        The config; use `replace` to change it.

    Raises:
        RequestError: an unknown name; the message names the nearest ones.

    Examples:
        >>> import brojepa
        >>> brojepa.preset("mnist/fast").encoder
        'cnn'
    """
    if name not in PRESETS:
        raise unknown("preset", name, likeliest())
    return PRESETS[name]


def recommended(world: str) -> str:
    """The preset that is the starting point for a world when none is named."""
    own = f"{world.partition(':')[0]}/fast"
    return own if own in PRESETS else AUTO
