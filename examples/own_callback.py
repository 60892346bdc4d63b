"""A callback of your own: it listens while a run trains and writes a CSV file, one line per epoch.

A callback is told when a run begins, after every step and epoch, and when it ends. It may read everything and changes
nothing, so a run with callbacks gives the same model as one without.

    python examples/own_callback.py       some thirty seconds on two cores
"""

import csv
from pathlib import Path

import brojepa

COLUMNS = ("epoch", "loss", "validation_loss", "seen", "zero_shot", "effective_rank", "images_per_second")


class CSV(brojepa.Callback):
    """Writes the numbers of each epoch to a file as soon as the epoch is over."""

    def __init__(self, path: str | Path) -> None:
        self.path, self.file, self.steps = Path(path), None, 0

    def begin(self, training: brojepa.Progress, resumed: bool) -> None:
        self.file = self.path.open("w", newline="")
        self.table = csv.DictWriter(self.file, COLUMNS, extrasaction="ignore")
        self.table.writeheader()
        self.table.writerows(training.rows)  # a run that goes on has epochs behind it

    def step(self, training: brojepa.Progress) -> None:
        self.steps += 1  # called often: do little here

    def epoch(self, training: brojepa.Progress, row: dict) -> None:
        self.table.writerow(row)  # a row of metrics.jsonl
        self.file.flush()

    def end(self, training: brojepa.Progress, result: dict) -> None:
        print(f"{self.steps} steps, zero-shot accuracy {result['metrics']['zero_shot']:.4f}, in {self.path}")

    def found_done(self, run: brojepa.Run) -> None:
        print(f"{run.path} was finished before: nothing to listen to")

    def close(self) -> None:
        """Called last, also where training failed or was interrupted."""
        if self.file is not None:
            self.file.close()


def main(out: str = "runs", epochs: int = 2, table: str = "epochs.csv", **knobs) -> CSV:
    """Train with two callbacks, the live table and this one; other keyword arguments go to `brojepa.train`."""
    heard = CSV(table)
    brojepa.train("mnist/fast", epochs=epochs, out=out, callbacks=[brojepa.LiveTable(), heard], **knobs)
    return heard


if __name__ == "__main__":
    main()
