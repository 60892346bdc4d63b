"""Many runs: what to run (`jobs`), on this machine (`local`) or on Slurm (`slurm/`), and how they stand (`display`).

The run directories are the truth. What is finished is skipped, what was cut off is resumed, and the lock that
training takes on a run keeps two sweeps, or a sweep and what a killed one left running, from doing a run twice.
"""

from brojepa.sweep.jobs import TABLES, Job, Status, plan, select

__all__ = ["TABLES", "Job", "Status", "plan", "select"]
