"""Errors that a user can act on: one line, what was given, what is allowed, what to do next.

The command line prints the message and exits with `exit_code`; a library user catches `BrojepaError`.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class BrojepaError(Exception):
    """Base of every error raised on purpose."""

    exit_code = 1


class RequestError(BrojepaError, ValueError):
    """What was asked for is wrong: a bad value, an unknown name, data that is not there or not valid."""

    exit_code = 2


class MissingData(RequestError):
    """A world's files are not there at all, as against there and damaged."""


class RunError(BrojepaError, RuntimeError):
    """A right request failed on the way: a diverged loss, a damaged checkpoint, a full disk."""

    exit_code = 1


class Interrupted(BrojepaError):
    """Stopped by a signal after saving; the same command goes on from there."""

    exit_code = 130


def unknown(kind: str, given: str, allowed: Iterable[str]) -> RequestError:
    """The error for a name that does not exist, with the nearest names that do."""
    allowed = list(allowed)
    near = difflib.get_close_matches(given, allowed, n=3, cutoff=0.5)
    if near:
        hint = f"did you mean {' or '.join(near)}?"
    elif len(allowed) <= 12:
        hint = f"choose from {', '.join(allowed)}"
    else:
        hint = f"choose from {', '.join(allowed[:6])} and {len(allowed) - 6} more"
    return RequestError(f"unknown {kind} {given!r}: {hint}")
