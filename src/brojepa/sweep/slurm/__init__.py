"""Runs on a Slurm cluster, through submitit: `brojepa sweep ... --slurm partition=gpu,time=4:00:00,gpus=1`.

The runs of a sweep are cut into packs, each a task of one job array that makes its runs one after another. A task that
is preempted or reaches its time limit saves, is queued again and goes on.
"""

from brojepa.sweep.slurm.queue import Standing
from brojepa.sweep.slurm.request import Request, parse_slurm
from brojepa.sweep.slurm.submit import states, submit

__all__ = ["Request", "Standing", "parse_slurm", "states", "submit"]
