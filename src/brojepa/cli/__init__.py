"""The `brojepa` command. Thin: parse, call, print; one file per group of commands.

Exit codes: 0 done, 1 the run failed, 2 the request was wrong, 130 interrupted and resumable, 141 stdout was closed. An
error is one line on stderr; `--debug` shows the traceback.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Callable, Sequence

from brojepa.cli.bench import bench
from brojepa.cli.data import data
from brojepa.cli.decode import decode
from brojepa.cli.demo import demo
from brojepa.cli.export import export, push
from brojepa.cli.figures import figures
from brojepa.cli.inspect import infer, inspect, plan, predict
from brojepa.cli.report import report
from brojepa.cli.sweep import sweep
from brojepa.cli.train import evaluate, train
from brojepa.errors import BrojepaError, Interrupted, RequestError, unknown
from brojepa.presets import RECOMMENDED
from brojepa.text import open_streams


def main(argv: Sequence[str] | None = None) -> int:
    program = argv is None
    argv = list(sys.argv[1:] if argv is None else argv)
    debug = "--debug" in argv
    argv = [a for a in argv if a != "--debug"]
    open_streams()
    os.environ.setdefault("HF_HUB_VERBOSITY", "error")  # an error is one line, and ours
    if not sys.stderr.isatty():
        os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    try:
        code = _dispatch(argv)
        sys.stdout.flush()
        return code
    except BrokenPipeError:  # as in `brojepa report | head`: the reader has closed the pipe
        _drop_output()
        return 141
    except BrojepaError as error:
        if debug:
            raise
        word = "" if isinstance(error, Interrupted) else "error: "
        if program and not word:
            _ignore_more()
        _complain(f"{word}{error}", error)
        return error.exit_code
    except KeyboardInterrupt as error:
        if program:
            _ignore_more()
        _complain("interrupted; the same command resumes from the last checkpoint", error)
        return 130
    except OSError as error:  # the machine: a full disk behind the screen's output, a file that went away
        if debug:
            raise
        _drop_output()
        _complain(f"error: {error.strerror or error}" + (f": {error.filename}" if error.filename else ""), error)
        return 1
    except Exception as error:
        if debug:
            raise
        if _is_memory(error):
            _complain(f"error: not enough memory ({error!s:.120}): choose a smaller model, batch or world", error)
            return 1
        # a bug, or the machine
        _complain(f"unexpected error: {type(error).__name__}: {error}; repeat with --debug for the traceback", error)
        return 1


def _ignore_more() -> None:
    """Ignore a second Ctrl-C while this program reports the interruption and exits."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)


def _is_memory(error: Exception) -> bool:
    """Whether memory ran out: on a CPU only the text of torch's error tells."""
    words = ("can't allocate memory", "out of memory", "Storage size calculation overflowed", "invalid buffer size")
    return isinstance(error, MemoryError) or any(word.lower() in str(error).lower() for word in words)


def _drop_output() -> None:
    """Discard output that could not be written; otherwise Python would try again at exit."""
    with contextlib.suppress(OSError, ValueError):  # stdout is not a file
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _complain(text: str, error: BaseException) -> None:
    """One line on stderr; on a terminal it replaces a progress line. Of several processes one prints it: the
    first to fail, where they had joined, else the first of all."""
    if getattr(error, "said_elsewhere", _several() and os.environ["RANK"] != "0"):
        return
    clear = "\r\x1b[K" if sys.stderr.isatty() else ""
    print(f"{clear}brojepa: {' '.join(text.split())}", file=sys.stderr)


def _several() -> bool:
    """Whether torchrun started this process as one of several."""
    return "RANK" in os.environ and os.environ.get("WORLD_SIZE", "1") not in ("", "1")


def _dispatch(argv: list[str]) -> int:
    if not argv or argv[0] in ("-h", "--help", "help"):
        print(HELP)
        return 0
    if argv[0] == "--version":
        from importlib.metadata import version

        print(f"brojepa {version('brojepa')}")
        return 0
    name, rest = argv[0], argv[1:]
    if name not in COMMANDS:
        if name.startswith("-"):
            raise unknown("flag", name, ["--help", "--version", "--debug"])
        raise unknown("command", name, COMMANDS)
    if name != "train" and _several():
        raise RequestError(f"brojepa {name} runs in one process, not under torchrun: that is for brojepa train")
    return COMMANDS[name](rest)


COMMANDS: dict[str, Callable[[list[str]], int]] = {
    "train": train, "eval": evaluate, "sweep": sweep, "report": report, "figures": figures, "data": data,
    "inspect": inspect, "infer": infer, "plan": plan, "predict": predict, "export": export, "push": push,
    "decode": decode, "demo": demo, "bench": bench,
}  # fmt: skip

HELP = "\n".join(
    [
        "usage: brojepa COMMAND ... [--debug]",
        "       brojepa --version",
        "",
        "JEPA world models whose latent action is a group representation: BRo-JEPA and its baselines.",
        "",
        *(f"  {name:<8} {command.__doc__}" for name, command in COMMANDS.items()),
        "",
        f"'brojepa train' alone trains {RECOMMENDED} on the bundled MNIST. 'brojepa COMMAND --help' lists its options.",
    ]
)
