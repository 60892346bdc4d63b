"""Many runs: what to run (`jobs`), on this machine (`local`) or on Slurm (`slurm/`), and their status (`display`).

The run directories are the only state. Finished runs are skipped, interrupted ones resumed. Training locks a run, so
two sweeps, or a sweep and the workers of a killed one, never train a run twice.
"""

from brojepa.sweep.jobs import TABLES, Job, Status, plan, select

__all__ = ["TABLES", "Job", "Status", "plan", "select"]
