"""Errors that a user can act on: one line, what was given, what is allowed, what to do next.

The command line prints the message and exits with `exit_code`; a library user catches `BrojepaError`.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class BrojepaError(Exception):
    """Base of every error that brojepa raises on purpose. Its message is one line that says what to do next.

    `exit_code` is what the command line exits with. `brojepa.errors` has the kinds: `RequestError` (2, the request was
    wrong), `RunError` (1, a valid request failed) and `Interrupted` (130, stopped by a signal after saving).

    Examples:
        >>> import brojepa
        >>> try:
        ...     brojepa.preset("mnist/fsat")
        ... except brojepa.BrojepaError as error:
        ...     print(error)
        unknown preset 'mnist/fsat': did you mean mnist/fast, emnist/fast or mnist/best?
    """

    exit_code = 1


class RequestError(BrojepaError, ValueError):
    """The request is wrong: a bad value, an unknown name, missing or invalid data."""

    exit_code = 2


class MissingData(RequestError):
    """A world's files are missing, not just damaged."""


class RunError(BrojepaError, RuntimeError):
    """A valid request failed while it ran: a diverged loss, a damaged checkpoint, a full disk."""

    exit_code = 1


class Interrupted(BrojepaError):
    """Stopped by a signal after saving; the same command resumes from there."""

    exit_code = 130


SHOWN = 8  # names suggested at most


def unknown(kind: str, given: str, allowed: Iterable[str]) -> RequestError:
    """The error for a name that does not exist, with the nearest names that do."""
    allowed = list(allowed)
    if near := nearest(given, allowed):
        hint = f"did you mean {either(near)}?"
    elif len(allowed) <= 12:
        hint = f"choose from {', '.join(allowed)}"
    else:
        hint = f"choose from {', '.join(allowed[:6])} and {len(allowed) - 6} more"
    return RequestError(f"unknown {kind} {given!r}: {hint}")


def either(names: list[str]) -> str:
    """Names to choose from: a, b or c."""
    return " or ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def nearest(given: str, allowed: Iterable[str]) -> list[str]:
    """Names that a mistyped one may mean, likeliest first. A name with a slash is looked up by both halves.

    >>> nearest("fast", ["mnist/fast", "mnist/best", "torus/fast"])
    ['mnist/fast', 'torus/fast']
    >>> nearest("mnist/bro", ["mnist/bro-mlp", "emnist/bro-mlp", "mnist/jepa-mlp"])
    ['mnist/bro-mlp']
    """
    allowed = list(allowed)
    halved = [name for name in allowed if "/" in name]
    if given and halved:
        begun = [name for name in halved if name.startswith(given)] if "/" in given else []
        half = [name for name in halved if given in name.split("/", 1)] if "/" not in given else []
        if found := begun or half:
            return found[:SHOWN]
    near = difflib.get_close_matches(given, allowed, n=3, cutoff=0.5)
    if "/" not in given:
        wanted = difflib.get_close_matches(given, {half for name in halved for half in name.split("/", 1)}, 1, 0.7)
        near = near or [name for name in halved if set(wanted) & set(name.split("/", 1))][:3]
    return near
