"""Epochs until held-out actions are as accurate as trained ones, against the number of states.

Training on +1 and -1 alone aligns distant states last, after a number of steps that grows like the square of the
number of states; relaxed targets are meant to avoid that. Digits and pairs of digits are cycles of 10 to 100 states; a
small MLP learns each with and without relaxing, on the same running means, and is measured on validation images.
"""

from __future__ import annotations

from typing import Any

from brojepa.bench.measured import Effort, Measured, Ratio
from brojepa.bench.stepping import Stepper, random_world
from brojepa.config import Config
from brojepa.presets import preset
from brojepa.worlds import World, open_world

WORLDS = {10: "mnist", **{10 * n: f"pairs:mnist:0-{n - 1},mnist" for n in (2, 3, 5)}, 100: "pairs"}
CLOSE, MOST = 0.02, 40  # how near zero-shot must come to seen, and after how many epochs we give up
WAYS = {"relaxed": 400, "not relaxed": 0}  # steps of relaxing


def measure(effort: Effort) -> Measured:
    worlds = {5: random_world(600, 5)} if effort.quick else {n: open_world(name) for n, name in WORLDS.items()}
    rows = []
    for n, world in worlds.items():
        for way, steps in WAYS.items():
            config = preset("pairs/fast").replace(
                encoder="mlp", shift=0, schedule="constant", lr=1e-3, relax_steps=steps,
                epochs=1 if effort.quick else MOST,
            )  # fmt: skip
            rows.append({"states": n, "targets": way, **until_close(config, world, effort.device)})
    most = max(worlds)
    last = next(row for row in rows if row["states"] == most)
    gap = Ratio(f"relaxed, {most} states: seen less zero-shot", last["seen"] - last["zero-shot"], most=CLOSE)
    return Measured(rows, [gap], _notes(effort.quick))


def until_close(config: Config, world: World, device: str) -> dict[str, Any]:
    """Train until zero-shot is within CLOSE of seen; None for the epochs if that does not happen in time."""
    training = Stepper(config, world, device)
    seen = zero_shot = 0.0
    for epoch in range(1, config.epochs + 1):
        training.advance(training.steps)
        training.drawn = training.transitions.draw(training.generator)
        measured = training.validation()
        seen, zero_shot = measured["seen"], measured["zero_shot"]
        if zero_shot >= seen - CLOSE and seen > 0.5:  # near chance both are low, and their difference means nothing
            return {"epochs": epoch, "seen": seen, "zero-shot": zero_shot}
    return {"epochs": None, "seen": seen, "zero-shot": zero_shot}


def _notes(quick: bool) -> list[str]:
    where = "noise" if quick else ", ".join(WORLDS.values())
    return [
        f"epochs until zero-shot is within {CLOSE} of seen, on validation images, seed 0; - where not in {MOST}",
        f"worlds: {where}; an MLP, fixed multi-frequency rotation, running means as targets, relaxed "
        f"{WAYS['relaxed']} steps or none, AdamW at 1e-3",
    ]
