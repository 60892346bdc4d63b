"""Data of your own, made in memory: the hour hand of a clock, and a model that learns to add hours.

A world is images, the state that each shows (0 to n - 1), and the actions +k and -k that lead round the cycle of
states. Arrays are enough to make one. Files work too: brojepa train --world clocks.npz

    python examples/own_data.py           some ten seconds on two cores
"""

import numpy as np

import brojepa

HOURS, SIZE = 12, 28


def clocks(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """`count` clocks, uint8 [count, 28, 28], and their hours [count]. No two hands are quite alike."""
    rng = np.random.default_rng(seed)
    hours = np.arange(count) % HOURS
    turned = 2 * np.pi * hours / HOURS + rng.normal(0, 0.06, count)  # clockwise from 12 o'clock
    length, thickness = rng.uniform(8, 13, count), rng.uniform(1, 2.5, count)
    y, x = np.mgrid[:SIZE, :SIZE] - SIZE / 2 + 0.5
    along = x * np.sin(turned)[:, None, None] - y * np.cos(turned)[:, None, None]  # how far out in the hand's direction
    beside = np.abs(x * np.cos(turned)[:, None, None] + y * np.sin(turned)[:, None, None])
    hand = (along > -1) & (along < length[:, None, None]) & (beside < thickness[:, None, None])
    return (200 * hand + rng.uniform(0, 55, hand.shape)).astype(np.uint8), hours


def main(out: str = "runs", count: int = 6000, epochs: int = 6, **knobs) -> dict:
    """Train on -1 and +1 hours; what is measured on clocks that were drawn anew."""
    world = brojepa.World.from_arrays("clocks", train=clocks(count, seed=0), test=clocks(count // 5, seed=1))
    run = brojepa.train(
        "mnist/fast", world=world, epochs=epochs, batch_size=64, out=out, callbacks=[brojepa.LiveTable()], **knobs
    )

    # The run knows the world by its content, but cannot open it again: it lives here, so pass it.
    measured = brojepa.evaluate_run(run.path, world=world)
    print(f"{run.path}: zero-shot accuracy {measured['metrics']['zero_shot']:.4f}, same as in training:",
          measured["metrics"] == run.result["metrics"])  # fmt: skip

    # In five hours: an action that the model was never trained on.
    model = brojepa.load(run.path)
    images, hours = clocks(HOURS, seed=2)
    later = model.classify(model.act(model.encode(images), 5))
    for now, then in zip(hours.tolist(), later.tolist(), strict=True):
        print(f"{now or 12:2d} o'clock, and five hours later it is {then or 12}")
    return {**measured, "now": hours.tolist(), "later": later.tolist()}


if __name__ == "__main__":
    main()
