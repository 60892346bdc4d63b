"""One run on disk: its directory, its checkpoints, the device it computes on, and loading its model.

Reading a run directory needs no torch; `checkpoint`, `devices` and `loading` do.
"""

from brojepa.runs.result import Result
from brojepa.runs.run import Run

__all__ = ["Result", "Run"]
