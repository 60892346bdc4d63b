"""The request to Slurm: `--slurm partition=gpu,time=4:00:00,gpus=1`."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Any

from brojepa.errors import RequestError, unknown

NOTICE = 90  # a task is signalled to save this many seconds before its time limit


def _minutes(text: str) -> int:
    """Slurm's ways to write a time, in minutes: minutes[:seconds], hours:minutes:seconds, days-hours[:minutes[...]]."""
    form = re.fullmatch(r"(?:(\d+)-)?(\d+)(?::(\d+))?(?::(\d+))?", text)
    if not form:
        raise ValueError
    days, *rest = form.groups()
    parts = [int(part) for part in rest if part]
    if days is None and len(parts) < 3:
        parts = [0, *parts]
    hours, minutes, seconds = (*parts, 0, 0)[:3]
    total = math.ceil(((int(days or 0) * 24 + hours) * 60 + minutes) + seconds / 60)
    if total < 5:
        raise ValueError
    return total


def _count(text: str) -> int:
    if not re.fullmatch(r"[1-9]\d*", text):
        raise ValueError
    return int(text)


def _like(pattern: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if not re.fullmatch(pattern, text):
            raise ValueError
        return text

    return parse


def _key(default: Any, parse: Callable[[str], Any], wanted: str) -> Any:
    return field(default=default, metadata={"parse": parse, "wanted": wanted})


_name = _like(r"[^\s=]+")


@dataclass(frozen=True)
class Request:
    """What a task of the array gets, and how runs are put into tasks."""

    partition: str | None = _key(None, _name, "a partition's name")
    account: str | None = _key(None, _name, "an account's name")
    qos: str | None = _key(None, _name, "a quality of service")
    constraint: str | None = _key(None, _name, "features of a node, as in a100")
    time: int = _key(60, _minutes, "at least 5 minutes, as in 90 (minutes), 4:00:00 or 1-12 (days-hours)")
    gpus: str | None = _key(None, _like(r"([\w-]+:)?[1-9]\d*"), "a number of GPUs to a task, as in 1 or a100:1")
    cpus: int | None = _key(None, _count, "a number of CPUs to a task")
    mem: str | None = _key(None, _like(r"[1-9]\d*[KMGT]?"), "memory to a task, as in 16G")
    pack: int | None = _key(None, _count, "a number of runs to a task")
    parallel: int = _key(256, _count, "a number of tasks at once")

    @property
    def processes(self) -> int:
        """How many processes train a run together: one per GPU."""
        return int(self.gpus.rpartition(":")[2]) if self.gpus else 1

    def parameters(self, name: str) -> dict[str, Any]:
        """The parameters as submitit names them."""
        extra = {"requeue": True, **({"mem": self.mem} if self.mem else {})}
        given = {
            "partition": self.partition, "account": self.account, "qos": self.qos, "constraint": self.constraint,
            "gpus_per_node": self.gpus, "cpus_per_task": self.cpus,
            # Slurm 22.05 and later: a step does not take over the CPUs of its job by itself
            "srun_args": [f"--cpus-per-task={self.cpus}"] if self.cpus else None,
        }  # fmt: skip
        return {
            "job_name": name, "time": self.time, "array_parallelism": self.parallel, "signal_delay_s": NOTICE,
            "stderr_to_stdout": True, "additional_parameters": extra,
            **{key: value for key, value in given.items() if value is not None},
        }  # fmt: skip


KEYS = {f.name: f.metadata for f in fields(Request)}


def parse_slurm(text: str) -> Request:
    """`partition=gpu,time=4:00:00` as a request; nothing at all asks for Slurm's defaults.

    >>> parse_slurm("partition=gpu,time=4:00:00,gpus=1").time
    240
    """
    given: dict[str, Any] = {}
    for part in text.split(",") if text else ():
        key, _, value = part.partition("=")
        if key not in KEYS:
            raise unknown("--slurm key", key, KEYS)
        if key in given:
            raise RequestError(f"--slurm has {key} twice: give it once")
        try:
            given[key] = KEYS[key]["parse"](value)
        except ValueError:
            raise RequestError(f"--slurm {key}={value}: expected {KEYS[key]['wanted']}") from None
    return Request(**given)
