"""Fault injection through the command line: `python tests/faults/inject.py`, or `make test-faults`.

Every try begins a run, or a sweep, hurts it, gives the same command again until it is done, and compares with a run
that nothing disturbed: weights, state, metrics and result bit for bit, the same files, nothing partial. Whatever lies
in the directory after the fault must be whole. It prints a table: fault, tries, survived.

Commands are forked from this process, which has imported torch and computed nothing: real processes, signals and files
without seconds of imports. Write points are found by counting: `mkdir`, `open`, a write that has come half way, `fsync`
and `replace`, before and after each. Sweeps are processes of their own with their own fork server.
"""

from __future__ import annotations

import argparse
import contextlib
import errno
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
import torch
from small_runs import same_run

from brojepa.cli import main
from brojepa.runs import Run, checkpoint
from brojepa.training import loop
from brojepa.worlds import open_world

KINDS = {
    "learned": "--action mfr-learned",
    "saved at every step": "--action mfr-learned --normalise",
    "cnn": "--encoder cnn --action mfr-learned --target mean --target-encoder stop-gradient --shift 1 --warp 0.1 "
    "--every-action --schedule one-cycle --checkpoint last",
    "relaxed": "--target relaxed --every-action --even-states --schedule one-cycle",
    "supervised": "--method supervised --action sfr-learned",
    "consistency": "--action additive --consistency 0.1 --checkpoint last",
    "sigreg": "--regulariser sigreg",
    "poses": "--world dihedral:{world} --train-actions=r,r3,s --every-action",
    "muon": "--encoder cnn --optimiser muon --schedule one-cycle",
    "on disk": "--world {folder} --encoder cnn --shift 1",
}
COMMON = "--validation 40 --latent 8 --epochs 2 --batch-size 64 --lr 1e-3 --precision float32 --device cpu --quiet"
PATIENCE = 600.0  # seconds that a command may take, on a machine however busy
NOBODY = 65534


class Lost(Exception):
    """A promise that was not kept."""


def make_world(path: Path, train: int = 24, test: int = 6) -> Path:
    """Real MNIST digits of 14 x 14 pixels, the same number of each: a file, and beside it a folder of arrays."""
    mnist, parts = open_world("mnist"), {}
    for start, split, count in (("", mnist.train, train), ("test_", mnist.test, test)):
        states = split.states.numpy()
        chosen = np.sort(np.concatenate([np.flatnonzero(states == y)[:count] for y in range(10)]))
        parts[f"{start}images"] = split.images[chosen, 0, ::2, ::2].numpy()
        parts[f"{start}labels"] = states[chosen]
    np.savez(path, **parts)
    path.with_suffix("").mkdir()
    for name, array in parts.items():
        np.save(path.with_suffix("") / f"{name}.npy", array)
    return path


# Commands


def spawn(words: list[str], log: Path, prepare: Callable[[], None] | None = None) -> int:
    """A process that carries out a command; what it prints goes to a file."""
    process = os.fork()
    if process:
        return process
    code = 99
    try:
        file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
        for stream in (1, 2):
            os.dup2(file, stream)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        torch.set_num_threads(1)
        if prepare:
            prepare()
        sys.argv[1:] = words
        code = main()
        sys.stdout.flush()
        sys.stderr.flush()
    except BaseException:
        os.write(2, traceback.format_exc().encode())
    os._exit(code)


def ended(process: int, log: Path) -> int:
    """The exit code of a process, negative for a signal; it must end in time and print no traceback."""
    end = time.monotonic() + PATIENCE
    while (found := os.waitpid(process, os.WNOHANG))[0] == 0:
        if time.monotonic() > end:
            os.kill(process, signal.SIGKILL)
            os.waitpid(process, 0)
            raise Lost(f"it hangs: {log.read_text()[-300:]}")
        time.sleep(0.002)
    text = log.read_text() if log.is_file() else ""
    if "Traceback" in text or "unexpected error" in text:
        raise Lost(text[-600:])
    return os.waitstatus_to_exitcode(found[1])


# What must hold


def run_in(out: Path) -> Run:
    (file,) = out.rglob("config.json")
    return Run(file.parent)


def listing(out: Path) -> list[str]:
    return sorted(str(file.relative_to(out)) for file in out.rglob("*") if file.is_file())


def whole(out: Path) -> None:
    """Whatever has its final name can be read, however the writer ended."""
    for file in out.rglob("*.json*"):
        if not file.name.endswith(".partial"):
            [json.loads(line) for line in ([file.read_text()] if file.suffix == ".json" else file.open())]
    for file in out.rglob("*.safetensors"):
        checkpoint.load(file)


def same(out: Path, uncut: Path) -> None:
    """Bit for bit, the same files, nothing left over."""
    same_run(run_in(out), run_in(uncut))
    if listing(out) != listing(uncut):
        raise Lost(f"files: {sorted({*listing(out)} ^ {*listing(uncut)})}")


class Case:
    """A kind of run: its command, and the run that nothing disturbed."""

    def __init__(self, kind: str, place: Path, world: Path) -> None:
        self.kind, self.place = kind, place / kind.replace(" ", "-")
        self.place.mkdir()
        flags = KINDS[kind].format(world=world, folder=world.with_suffix("")).split()
        self.words = ["train", "--world", str(world), *COMMON.split(), *flags]
        self.count = 0
        self.uncut = self.place / "uncut"
        begun, points = time.monotonic(), self.place / "points"
        self.log = self.place / "log"
        if ended(
            spawn([*self.words, "--out", str(self.uncut)], self.log, self._prepare(lambda: watch(points))), self.log
        ):
            raise Lost(f"{kind} does not train: {self.log.read_text()}")
        self.seconds = time.monotonic() - begun
        self.points = points.read_text().split()

    @property
    def cache(self) -> Path:
        """A try's own, which begins empty: each writes to it what the undisturbed run did."""
        return self.log.with_suffix(".cache")

    def _prepare(self, hurt: Callable[[], None] | None) -> Callable[[], None]:
        cache = self.cache

        def prepare() -> None:
            os.environ["XDG_CACHE_HOME"] = str(cache)
            if self.kind == "saved at every step":
                loop.SAVE_EVERY = 0.0
            if hurt:
                hurt()

        return prepare

    @contextlib.contextmanager
    def fresh(self) -> Iterator[Path]:
        """A directory for a run, and an empty log."""
        self.count += 1
        out = self.place / str(self.count)
        self.log = self.place / f"{self.count}.log"
        yield out
        for path in (out, self.log, self.cache):
            shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)

    def begin(self, out: Path, hurt: Callable[[], None] | None = None) -> int:
        return spawn([*self.words, "--out", str(out)], self.log, self._prepare(hurt))

    def again(self, out: Path) -> None:
        """The same command once more: it ends well, and the run is the one that nothing disturbed."""
        whole(out)
        if code := ended(self.begin(out), self.log):
            raise Lost(f"exit code {code} on the second try: {self.log.read_text()[-400:]}")
        same(out, self.uncut)


# Write points


def watch(points: Path) -> None:
    """Write the names of all points that this process passes to a file."""
    names: list[str] = []
    at_points(names.append)

    def note(*_: object) -> None:
        points.write_text(" ".join(names))

    before = os._exit
    os._exit = lambda code: (note(), before(code))


def at_point(number: int, do: Callable[[], None]) -> None:
    """Do something where this process passes its n-th point."""
    passed = [0]

    def pass_(name: str) -> None:
        passed[0] += 1
        if passed[0] == number + 1:
            do()

    at_points(pass_)


def at_points(pass_: Callable[[str], None]) -> None:
    """Call something at every point where this process is about to change a file, half way, and when it has."""

    def around(name: str) -> None:
        plain = getattr(os, name)

        def wrapped(*args: Any, **options: Any) -> Any:
            if name == "open" and not args[1] & os.O_CREAT:
                return plain(*args, **options)
            pass_(f"{name}:before")
            result = plain(*args, **options)
            pass_(f"{name}:after")
            return result

        setattr(os, name, wrapped)

    for name in ("mkdir", "open", "fsync", "replace"):
        around(name)
    plain_open = os.fdopen

    class Halting:
        """A file whose writes pause half way."""

        def __init__(self, file: Any) -> None:
            self.file = file

        def write(self, data: bytes) -> None:
            self.file.write(data[: len(data) // 2])
            self.file.flush()
            pass_("write:half")
            self.file.write(data[len(data) // 2 :])

        def __getattr__(self, name: str) -> Any:
            return getattr(self.file, name)

        def __enter__(self) -> Halting:
            return self

        def __exit__(self, *_: object) -> None:
            self.file.close()

    os.fdopen = lambda *args, **options: (
        Halting(plain_open(*args, **options)) if args[1:2] == ("wb",) else plain_open(*args, **options)
    )


def kill_self() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def no_space() -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


# Faults: each gives the tries it makes of a case, as functions


def killed_at_points(case: Case, dice: random.Random) -> Iterator[Callable[[], None]]:
    for number in range(len(case.points)):

        def attempt(number: int = number) -> None:
            with case.fresh() as out:
                code = ended(case.begin(out, lambda: at_point(number, kill_self)), case.log)
                if code != -signal.SIGKILL:
                    raise Lost(f"point {number} was not reached: {code}")
                case.again(out)

        yield attempt


def full_at_points(case: Case, dice: random.Random) -> Iterator[Callable[[], None]]:
    for number, name in enumerate(case.points):
        if name.endswith(":after"):
            continue

        def attempt(number: int = number) -> None:
            with case.fresh() as out:
                code = ended(case.begin(out, lambda: at_point(number, no_space)), case.log)
                if code:  # making a directory that is there may fail
                    one_line(case, code)
                no_partial(out)
                case.again(out)

        yield attempt


def one_line(case: Case, code: int) -> None:
    """A command failed as it should: exit code 1, one line that says why, and nothing partial."""
    lines = [line for line in case.log.read_text().splitlines(True) if not line.startswith("brojepa: warning: ")]
    text = "".join(lines)
    if code != 1 or text.count("\n") != 1 or not text.startswith("brojepa: error: "):
        raise Lost(f"exit code {code}: {text[-300:]}")
    case.log.write_text("")


def no_partial(out: Path) -> None:
    if left := [file for file in listing(out) if file.endswith(".partial")]:
        raise Lost(f"left over: {left}")


def signalled(
    case: Case, dice: random.Random, tries: int, numbers: tuple[int, ...], allowed: tuple[int, ...], gap: float = 0.0
) -> Iterator[Callable[[], None]]:
    """Signals at random moments, `gap` seconds apart at most."""
    for _ in range(tries):

        def attempt() -> None:
            with case.fresh() as out:
                process = case.begin(out)
                time.sleep(dice.random() * 1.1 * case.seconds)
                for number in numbers:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(process, number)
                    time.sleep(dice.random() * gap)
                code = ended(process, case.log)
                if code not in allowed:
                    raise Lost(f"exit code {code}: {case.log.read_text()[-300:]}")
                case.log.write_text("")
                case.again(out)

        yield attempt


def killed_at_random(case: Case, dice: random.Random) -> Iterator[Callable[[], None]]:
    yield from signalled(case, dice, 50, (signal.SIGKILL,), (0, -signal.SIGKILL))


def terminated(case: Case, dice: random.Random) -> Iterator[Callable[[], None]]:
    yield from signalled(case, dice, 10, (signal.SIGTERM,), (0, 130, -signal.SIGTERM))


def interrupted(case: Case, dice: random.Random) -> Iterator[Callable[[], None]]:
    yield from signalled(case, dice, 5, (signal.SIGINT,), (0, 130))


def interrupted_twice(case: Case, dice: random.Random) -> Iterator[Callable[[], None]]:
    yield from signalled(case, dice, 10, (signal.SIGINT, signal.SIGINT), (0, 130), 0.01)


def stopped(case: Case, dice: random.Random) -> Iterator[Callable[[], None]]:
    yield from signalled(case, dice, 5, (signal.SIGSTOP, signal.SIGCONT), (0,), 0.1)


def limited(case: Case, dice: random.Random) -> Iterator[Callable[[], None]]:
    """The system lets no file grow beyond a size: below each of the run's own."""
    sizes = sorted({file.stat().st_size for file in case.uncut.rglob("*") if file.is_file() and file.stat().st_size})
    for size in sizes:

        def attempt(size: int = size) -> None:
            def limit() -> None:
                signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
                resource.setrlimit(resource.RLIMIT_FSIZE, (size - 1, resource.RLIM_INFINITY))

            with case.fresh() as out:
                one_line(case, ended(case.begin(out, limit), case.log))
                no_partial(out)
                case.again(out)

        yield attempt


def tmpfs_filled(case: Case, dice: random.Random) -> Iterator[Callable[[], None]]:
    """A small file system of its own that is full from the start, or is filled up while the run goes on."""
    needed = sum(file.stat().st_size for file in case.uncut.rglob("*") if file.is_file())
    for share in (0.1, 0.3, 0.5, 0.7, 0.9) if can_mount(case.place) else ():

        def attempt(share: float = share) -> None:
            with case.fresh() as out:
                out.mkdir()
                size = int(share * needed) // 4096 * 4096 + 8192
                mount("-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(out))
                try:
                    one_line(case, ended(case.begin(out), case.log))
                    no_partial(out)
                    mount("-o", "remount,size=100m", str(out))
                    case.again(out)
                finally:
                    subprocess.run(["umount", str(out)], check=True)

        yield attempt


def mount(*words: str) -> None:
    subprocess.run(["mount", *words], check=True, capture_output=True)


def can_mount(place: Path) -> bool:
    where = place / "mount"
    where.mkdir(exist_ok=True)
    done = subprocess.run(["mount", "-t", "tmpfs", "tmpfs", str(where)], capture_output=True)
    return done.returncode == 0 and subprocess.run(["umount", str(where)]).returncode == 0


def read_only(case: Case, dice: random.Random) -> Iterator[Callable[[], None]]:
    """Directories that cannot be written to, from the start or after a run was cut off. Root may write anywhere, so the
    command is nobody's."""

    def as_nobody() -> None:
        if os.geteuid() == 0:
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)

    def lock(out: Path, mode: int) -> None:
        for place in [out, *(path for path in out.rglob("*") if path.is_dir())]:
            place.chmod(mode)

    def prepare(*places: Path) -> None:
        for place in places:
            place.mkdir()
            if os.geteuid() == 0:
                os.chown(place, NOBODY, NOBODY)

    for number in (None, *range(len(case.points) // 3, len(case.points), max(1, len(case.points) // 4))):

        def attempt(number: int | None = number) -> None:
            with case.fresh() as out:
                prepare(out, case.cache)
                case.log.touch(0o666)
                case.log.chmod(0o666)
                if number is not None:
                    ended(case.begin(out, lambda: (as_nobody(), at_point(number, kill_self))), case.log)
                lock(out, 0o555)
                one_line(case, ended(case.begin(out, as_nobody), case.log))
                lock(out, 0o755)
                case.again(out)

        yield attempt


FAULTS: dict[str, Callable[[Case, random.Random], Iterator[Callable[[], None]]]] = {
    "kill -9 at every write point": killed_at_points,
    "kill -9 at random moments": killed_at_random,
    "SIGTERM": terminated,
    "SIGINT": interrupted,
    "SIGINT twice": interrupted_twice,
    "SIGSTOP and SIGCONT": stopped,
    "disk full at every write point": full_at_points,
    "files limited in size": limited,
    "a small file system that is full": tmpfs_filled,
    "read-only directories": read_only,
}


# Sweeps


class Sweep:
    """A sweep of a few runs in a process of its own, and the runs that nothing disturbed."""

    launch: tuple[str, ...] = ("-m", "brojepa")

    def __init__(self, place: Path, world: Path) -> None:
        self.place, self.count = place / type(self).__name__, 0
        self.place.mkdir()
        knobs = COMMON.replace("--quiet", "").replace("--epochs 2", "--epochs 60").split()
        self.words = [*self.command(), "--world", str(world), *knobs]
        self.uncut = self.place / "uncut"
        begun = time.monotonic()
        if self.start(self.uncut).wait(PATIENCE):
            raise Lost(f"it does not end well: {self.log.read_text()[-600:]}")
        self.seconds = time.monotonic() - begun

    def command(self) -> list[str]:
        return ["sweep", "mnist/bro-mlp-mfr-*", "--seeds", "0,1", "--jobs", "2"]

    def start(self, out: Path) -> subprocess.Popen[bytes]:
        self.log = Path(f"{out}.log")
        command = [sys.executable, *self.launch, *self.words, "--out", str(out)]
        with self.log.open("ab") as log:
            return subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)

    def fresh(self) -> Path:
        self.count += 1
        return self.place / str(self.count)

    def until_working(self, out: Path, sweep: subprocess.Popen[bytes]) -> None:
        end = time.monotonic() + PATIENCE
        while not [*out.rglob("metrics.jsonl")] and sweep.poll() is None and time.monotonic() < end:
            time.sleep(0.01)

    def finish(self, out: Path, *running: subprocess.Popen[bytes]) -> None:
        """The sweeps that still run end, and the same command makes everything that is not there."""
        for sweep in running:
            sweep.wait(PATIENCE)
        whole(out)
        code = self.start(out).wait(PATIENCE)
        text = self.log.read_text()
        if code or "Traceback" in text or "unexpected error" in text:
            raise Lost(f"exit code {code}: {text[-600:]}")
        for file in sorted(self.uncut.rglob("result.json")):
            same_run(Run(out / file.parent.relative_to(self.uncut)), Run(file.parent))
        ours, theirs = ({f for f in listing(place) if not f.endswith("log.txt")} for place in (out, self.uncut))
        if ours != theirs:
            raise Lost(f"files: {sorted(ours ^ theirs)}")
        shutil.rmtree(out)


def children(process: int) -> list[int]:
    """The processes that a process has started, on Linux."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            if int(stat.read_text().rpartition(")")[2].split()[1]) == process:
                found.append(int(stat.parent.name))
    return found


def hurt_sweep(sweep: Sweep, dice: random.Random, victim: str) -> None:
    out = sweep.fresh()
    process = sweep.start(out)
    sweep.until_working(out, process)
    time.sleep(dice.random())
    commands = {each: Path(f"/proc/{each}/cmdline").read_bytes() for each in children(process.pid)}
    servers = [each for each, command in commands.items() if b"forkserver" in command]
    workers = [each for server in servers for each in children(server)]
    victims = {"sweep": [process.pid], "worker": workers[:1], "forkserver": servers}[victim]
    if not victims:
        raise Lost(f"there is no {victim} to kill")
    for each in victims:
        os.kill(each, signal.SIGKILL)
    sweep.finish(out, process)


def two_sweeps(sweep: Sweep, dice: random.Random) -> None:
    out = sweep.fresh()
    first = sweep.start(out)
    time.sleep(dice.random() * sweep.seconds / 4)
    second = sweep.start(out)
    codes = [first.wait(PATIENCE), second.wait(PATIENCE)]
    if codes != [0, 0]:
        raise Lost(f"exit codes {codes}: {sweep.log.read_text()[-600:]}")
    sweep.finish(out)


class Torchrun(Sweep):
    """One run in two processes."""

    launch = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "-m", "brojepa")

    def command(self) -> list[str]:
        return ["train", "--encoder", "cnn", "--action", "mfr-learned", "--shift", "1"]


def kill_one_of_two(job: Sweep, dice: random.Random, rank: int) -> None:
    """The other process and torchrun end too, and the same command goes on."""
    out = job.fresh()
    process = job.start(out)
    job.until_working(out, process)
    time.sleep(dice.random() * job.seconds / 4)
    mark = f"RANK={rank}".encode()
    for each in children(process.pid):
        with contextlib.suppress(OSError):
            if mark in Path(f"/proc/{each}/environ").read_bytes().split(b"\0"):
                os.kill(each, signal.SIGKILL)
    process.wait(PATIENCE)
    said = [line for line in job.log.read_text().splitlines() if line.startswith("brojepa: error")]
    if process.returncode and len(said) != 1:  # the run may have been done already
        raise Lost(f"{len(said)} lines of error: {job.log.read_text()[-600:]}")
    job.log.write_text("")
    job.finish(out)


SWEEPS: dict[str, Callable[[Sweep, random.Random], None]] = {
    "killed sweep": lambda sweep, dice: hurt_sweep(sweep, dice, "sweep"),
    "killed worker of a sweep": lambda sweep, dice: hurt_sweep(sweep, dice, "worker"),
    "killed fork server of a sweep": lambda sweep, dice: hurt_sweep(sweep, dice, "forkserver"),
    "two sweeps at once": two_sweeps,
}
TORCHRUN: dict[str, Callable[[Sweep, random.Random], None]] = {
    "killed first process of two": lambda job, dice: kill_one_of_two(job, dice, 0),
    "killed second process of two": lambda job, dice: kill_one_of_two(job, dice, 1),
}


class Table:
    """Fault, tries, survived."""

    def __init__(self) -> None:
        self.rows: dict[str, list[int]] = {}
        self.lost: list[str] = []

    def count(self, fault: str, about: str, attempt: Callable[[], None]) -> None:
        row = self.rows.setdefault(fault, [0, 0])
        row[0] += 1
        try:
            attempt()
            row[1] += 1
        except Exception as error:
            self.lost.append(f"{fault}, {about}: {type(error).__name__}: {error}")
            print(f"LOST {self.lost[-1]}", flush=True)

    @property
    def totals(self) -> list[int]:
        return [sum(row[i] for row in self.rows.values()) for i in (0, 1)]

    def text(self) -> str:
        rows = [("fault", "tries", "survived"), ("---", "---:", "---:")]
        rows += [(name, f"{tries:,}", f"{survived:,}") for name, (tries, survived) in self.rows.items()]
        rows.append(("all", *(f"{total:,}" for total in self.totals)))
        return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def run(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--most", type=int, help="the most tries per fault and kind, drawn at random")
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--faults", help="only those whose names hold this word")
    parser.add_argument("--sweeps", type=int, default=6, help="tries of each fault of a sweep, and of two processes")
    args = parser.parse_args(argv)
    os.environ["OMP_NUM_THREADS"] = "1"
    torch.set_num_threads(1)  # a process that has started threads cannot be forked safely
    import_module("torch._dynamo")  # which the first optimiser imports
    table, begun = Table(), time.monotonic()
    print(f"seed {args.seed}", flush=True)
    with tempfile.TemporaryDirectory() as name:
        place = Path(name).resolve()
        place.chmod(0o755)
        os.environ["XDG_CACHE_HOME"] = str(place / "cache")
        world = make_world(place / "digits.npz")
        open_world(str(world))  # imports what reading does
        for kind in filter(None, args.kinds.split(",")):
            case = Case(kind, place, world)
            print(f"{kind}: {case.seconds:.2f} s, {len(case.points)} write points", flush=True)
            for fault, tries in FAULTS.items():
                if args.faults and args.faults not in fault:
                    continue
                dice = random.Random(f"{args.seed} {kind} {fault}")
                attempts = list(tries(case, dice))
                for attempt in attempts if args.most is None else dice.sample(attempts, min(args.most, len(attempts))):
                    table.count(fault, kind, attempt)
            print(f"{kind}: {table.totals[0]:,} tries so far, {table.totals[1]:,} survived", flush=True)
        if args.sweeps:
            for kind, faults in ((Sweep, SWEEPS), (Torchrun, TORCHRUN)):
                wanted = {fault: hurt for fault, hurt in faults.items() if not args.faults or args.faults in fault}
                if not wanted:
                    continue
                job = kind(place, world)
                for fault, hurt in wanted.items():
                    dice = random.Random(f"{args.seed} {fault}")
                    for _ in range(args.sweeps):
                        table.count(
                            fault, kind.__name__, lambda hurt=hurt, job=job, dice=dice: hurt(job, dice)
                        )  # fmt: skip
    print(f"\n{table.text()}\n\n{time.monotonic() - begun:.0f} s")
    return 1 if table.lost else 0


if __name__ == "__main__":
    sys.exit(run())
