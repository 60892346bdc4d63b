"""Reads actions in configs and results without torch: which are equal, and their order.

The same words mean the same as in `brojepa.groups`, whose `parse` needs torch; a test compares the two.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable

IDENTITY = "1"


def element(word: int | str, group: str | None = None) -> Hashable:
    """What a word means in the group of that name, to the digits that `result.json` keeps: equal for equal elements.

    Without a name the group is a cycle, where +9 and -1 stay two actions. A word that the group cannot read is
    kept as it is.
    """
    try:
        return _read(str(word), group or "Z")
    except ValueError:
        return str(word)


def _read(word: str, group: str) -> Hashable:
    if "x" in group:
        parts = zip(word.split(":"), group.split("x"), strict=True)
        return tuple(_read(part, factor) if factor == "SO2" else int(part) % int(factor[1:]) for part, factor in parts)
    if group == "SO2":
        return _rounded(float(word))
    if group == "SO3":
        return _turn_of_space(word)
    return _symmetry(word, int(group[1:])) if group.startswith("D") else int(word)


def _rounded(degrees: float) -> float:
    """The six digits with which angles are written."""
    return float(f"{degrees:.6g}")


def _turn_of_space(word: str) -> Hashable:
    """The axis and the degrees in [-180, 180); empty for the identity."""
    found = re.fullmatch(r"([xyz])([+-]?[\d.]+)", word)
    if not found:
        raise ValueError(word)
    degrees = _rounded((float(found[2]) + 180) % 360 - 180)
    return (found[1], -180.0 if degrees == 180 else degrees) if degrees else None


def _symmetry(word: str, n: int) -> Hashable:
    """How many turns, and how many flips before them."""
    found = re.fullmatch(r"(?:(r)([+-]?\d+)?)?(s?)", "" if word == IDENTITY else word)
    if not found or not word:
        raise ValueError(word)
    return int(found[2] or 1) % n if found[1] else 0, len(found[3])


def as_number(word: str) -> float | None:
    """The size and sign of an action that is a number, as in a cycle or on the circle; None for others."""
    try:
        return float(word)
    except ValueError:
        return None


def in_order(words: Iterable[str]) -> list[str]:
    """Each word once: numbers by value, those of a torus part by part, others as they come."""
    distinct = list(dict.fromkeys(words))
    parts = {word: [as_number(part) for part in word.split(":")] for word in distinct}
    if any(None in values for values in parts.values()):
        return distinct
    return sorted(distinct, key=lambda word: parts[word])  # pyright: ignore[reportArgumentType, reportCallIssue]
