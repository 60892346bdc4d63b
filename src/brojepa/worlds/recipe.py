"""The recipe for own images: knobs chosen by a few facts of the world, and why, in one line.

It is meant to work on any images without tuning. Knobs that the user sets are kept.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from brojepa.config import ROTATIONS, Config, flag
from brojepa.presets import AUTO, preset

STEPS, EACH = 1500, 20  # steps of the optimiser, at least, and more for every state
EPOCHS, LONGEST = 10, 30  # at least, and where images are few; then each is shown several times per epoch
PLENTY = 20_000  # images that need little augmentation
UNEVEN = 1.5  # ratio of images between two states above which all states are shown equally often
LARGEST = 256  # dimensions of a latent
SIDE = 48  # pixels: larger images are shrunk to about this side, those from one and a half times this on
NARROW = 24  # pixels that are left of the shorter side
LINED_UP = 0.4  # relaxing steps, as a multiple of the square of the states


@dataclass(frozen=True)
class Facts:
    """What a recipe depends on.

    images: in the training split.
    states: labelled ones.
    least, most: images of the states that have the fewest and the most.
    shape: channels, height, width.
    cycle: whether the states form one, along which targets can be relaxed.
    shift, warp: the largest of each, up to what `augmentation` asks for, that keeps the states apart.
    """

    images: int
    states: int
    least: int
    most: int
    shape: tuple[int, int, int]
    cycle: bool = True
    shift: int = 0
    warp: float = 0.0


def augmentation(images: int, shape: tuple[int, int, int]) -> tuple[int, float]:
    """The shift in pixels and the warp that suit this many images, if neither confuses states. None if a side
    has fewer than 8 pixels."""
    few, side = images < PLENTY, min(shape[1:])
    return (max(1, side // (14 if few else 28)), 0.1 if few else 0.0) if side >= 8 else (0, 0.0)


def relaxing(states: int) -> int:
    """Relaxation steps that align a cycle of states. The slowest mode shrinks by cos^2(pi / states) in each,
    about exp(-(pi / states)^2)."""
    return math.ceil(LINED_UP * states**2)


def shrinking(shape: tuple[int, int, int]) -> int:
    """How far the cnn shrinks an image, so that about SIDE x SIDE pixels are left."""
    height, width = shape[1:]
    return max(1, min(math.floor(math.sqrt(height * width) / SIDE + 0.5), min(height, width) // NARROW))


def encoder(shape: tuple[int, int, int], given: Mapping[str, Any]) -> dict[str, Any]:
    """The encoder, if the preset's cannot be used, because a convolution halves the sides of an image; and how far it
    shrinks the images."""
    if min(shape[1:]) < 2:
        return {"encoder": "mlp"}
    return {"shrink": shrinking(shape)} if given.get("encoder", "cnn") == "cnn" else {}


def size_reasons(config: Config, shape: tuple[int, int, int]) -> list[tuple[Sequence[str], str]]:
    """Why `encoder` chose what it chose."""
    height, width = shape[1:]
    if min(height, width) < 2:
        return [(("encoder",), f"images of {height} x {width} are too thin for the cnn")]
    if config.shrink == 1:
        return []
    seen = " x ".join(str(math.ceil(side / config.shrink)) for side in (height, width))
    return [(("shrink",), f"{height} x {width} pixels take long: the cnn looks at {seen} means of them")]


def recipe(facts: Facts, given: Mapping[str, Any] | None = None) -> tuple[Config, str]:
    """The config for a world of labelled states, and why.

    Args:
        facts: what is known of the world.
        given: knobs that the user sets. They are kept and change no others, with two exceptions: given epochs
            are single passes, and an action that is not a rotation has no relaxed targets.
    """
    given = dict(given or {})
    batch = 64 if facts.images < 10_000 else 128 if facts.images < 30_000 else 256
    held = max(1, min(5000, facts.images // 10))
    steps, per_pass = STEPS + EACH * facts.states, (facts.images - max(held, facts.states)) / batch
    epochs = min(LONGEST, max(EPOCHS, math.ceil(steps / per_pass)))
    rotates = given.get("action", ROTATIONS[2]) in ROTATIONS
    relaxed = {"target": "relaxed", "relax_steps": relaxing(facts.states)}
    chosen: dict[str, Any] = {
        "epochs": epochs,
        "repeat": 1 if "epochs" in given else math.ceil(steps / (per_pass * epochs)),
        "batch_size": batch,
        "validation": held,
        "latent": min(LARGEST, max(64, facts.states + facts.states % 2)),
        "shift": facts.shift,
        "warp": facts.warp,
        "even_states": facts.most > UNEVEN * facts.least,
        **encoder(facts.shape, given),
        **(relaxed if facts.cycle and rotates else {"target": "mean"}),
    }
    config = preset(AUTO).replace(**{**chosen, **given})
    return config, _reason(facts, config, given)


def _reason(facts: Facts, config: Config, given: Mapping[str, Any]) -> str:
    """The chosen knobs as flags, and why; what the user set is left out."""
    shift, warp = augmentation(facts.images, facts.shape)
    lost = [name for name, less in (("shift", facts.shift < shift), ("warp", facts.warp < warp)) if less]
    apart = f"no more {' or '.join(lost)}: states would look alike" if lost else "states stay apart"
    relaxed = config.target == "relaxed"
    line = f"lines up all {facts.states} states" if relaxed else "relaxed ones need a rotation and a cycle"
    reasons = [
        (("epochs", "repeat", "batch_size"), f"at least {STEPS + EACH * facts.states:,} steps and {EPOCHS} epochs"),
        (("action", "target", *(["relax_steps"] if relaxed else [])), line),
        (("shift", "warp"), apart),
    ]
    if config.even_states:
        reasons.append((("even_states",), f"{facts.least:,} to {facts.most:,} images per state"))
    if config.latent > preset(AUTO).latent:
        reasons.append((("latent",), f"a plane for each frequency of {facts.states} states"))
    return explain([*reasons, *size_reasons(config, facts.shape)], config, given)


def explain(reasons: Sequence[tuple[Sequence[str], str]], config: Config, given: Mapping[str, Any]) -> str:
    """Flags and the reasons for them, in one line; those that the user gave are left out."""
    parts = []
    for names, why in reasons:
        flags = [_flag(name, getattr(config, name)) for name in names if name not in given]
        parts += [f"{' '.join(flags)} ({why})"] if flags else []
    return ", ".join(parts)


def _flag(name: str, value: Any) -> str:
    text = ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
    return flag(name) if value is True else f"{flag(name)}={text}" if text.startswith("-") else f"{flag(name)} {text}"
