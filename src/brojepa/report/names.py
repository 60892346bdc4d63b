"""Names of changed configs: the flags that changed them, or the name of their file in an archive."""

from __future__ import annotations

import re
from typing import Any

from brojepa.presets import AUTO
from brojepa.report.records import Record, difference
from brojepa.runs.stored import SUFFIX

FLAGS = 3
"""Changed flags that a file's name says, at most"""


def changes(record: Record) -> dict[str, Any]:
    """The changed values, without the world, which tables and folders name."""
    return _without_world(record.changes)


def flags(record: Record) -> list[str]:
    """The changed values, short enough for a file name: lr=2e-4, train-actions=-1_0_1."""
    return _flags(changes(record))


def changed(record: Record, first: Record) -> str:
    """The name of a changed config below its preset: "with-action-0" in an archive, "lr=2e-4, epochs=5" elsewhere.

    The recipe for own images changes its preset by itself: there, what differs from the first config of the row."""
    if record.base == AUTO:
        return ", ".join(_flags(_without_world(difference(record.config, first.config))))
    return _archived(record) or ", ".join(flags(record))


def base_name(record: Record) -> str:
    """The preset without its world; "plain" for a config that was made from the defaults."""
    return record.base.partition("/")[2] if record.base else "plain"


def _archived(record: Record) -> str:
    """What the name of the run's file adds to the preset's; empty if that is just the flags."""
    file = record.run.path.parent if record.run else None
    if not file or file.suffix != SUFFIX or not changes(record):
        return ""
    added = file.stem.removeprefix(f"{base_name(record)},")
    return "" if added == ",".join(flags(record)) or record.config_hash in added else added


def _without_world(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if name != "world"}


def _flags(values: dict[str, Any]) -> list[str]:
    return [f"{name.replace('_', '-')}={_short(value)}" for name, value in values.items()]


def _short(value: Any) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, list):
        return "_".join(map(str, value))
    if isinstance(value, float):
        power = re.sub(r"e([+-])0*", r"e\1", f"{value:e}".replace("e+", "e"))
        power = re.sub(r"\.?0*e", "e", power)
        return min(f"{value:g}", power, key=len)
    return str(value)
