"""The processes of a run, and how they communicate."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch import distributed as dist
from torch.distributed.rendezvous import rendezvous

from brojepa.errors import RequestError, RunError

T = TypeVar("T")


class _Here:
    """What this process knows of the others."""

    store: Any = None  # kept by torchrun, so it outlives any of them
    left = False  # another process has ended
    together = False  # encoding is shared out
    encoded = 0  # parts encoded since `together` began


def count() -> int:
    """How many processes train this run."""
    return dist.get_world_size() if dist.is_initialized() else 1


def rank() -> int:
    """The number of this process; 0 is the one that writes and prints."""
    return dist.get_rank() if dist.is_initialized() else 0


@contextlib.contextmanager
def joined(device: str = "auto") -> Iterator[None]:
    """Join the processes that torchrun started, if it did. If several fail, the first reports why: the errors
    of the others are marked `said_elsewhere`."""
    if dist.is_initialized() or "RANK" not in os.environ or int(os.environ.get("WORLD_SIZE", "1")) < 2:
        yield
        return
    _join(device)
    before = signal.signal(signal.SIGTERM, _terminated) if _main_thread() else None
    try:
        yield
    except BaseException as error:
        error.said_elsewhere = not _first_to_fail()  # pyright: ignore[reportAttributeAccessIssue]
        raise
    if _main_thread():
        signal.signal(signal.SIGTERM, before)
    dist.destroy_process_group()


def _main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


def _terminated(*_: object) -> None:
    """When one process ends, torchrun terminates the others at once. They still report what happened; otherwise a
    signal ends a process as usual."""
    if not _Here.left:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTERM)


def _join(device: str) -> None:
    local, here = int(os.environ.get("LOCAL_RANK", "0")), int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    gpu = torch.cuda.is_available() and device in ("auto", "cuda")
    if device not in ("auto", "cpu", "cuda"):
        raise RequestError(f"--device {device}: several processes compute on cpu or cuda, one GPU each")
    if gpu and here > torch.cuda.device_count():
        raise RequestError(
            f"{here} processes for {torch.cuda.device_count()} GPUs: use --nproc-per-node {torch.cuda.device_count()}, "
            "or --device cpu"
        )
    if gpu:
        torch.cuda.set_device(local)
    try:
        _Here.store, number, total = next(rendezvous("env://"))
        backend = "cpu:gloo,cuda:nccl" if gpu else "gloo"
        dist.init_process_group(backend, store=_Here.store, rank=number, world_size=total)
    except (RuntimeError, ValueError, OSError) as error:
        raise RunError(f"the processes cannot reach each other ({' '.join(str(error).split()):.120})") from None


def _first_to_fail() -> bool:
    try:
        return _Here.store is None or _Here.store.add("failed", 1) == 1
    except RuntimeError:  # the store ended with the process that kept it
        return True


@contextlib.contextmanager
def _noticing() -> Iterator[None]:
    """Turn the end of another process into an error of one line."""
    try:
        yield
    except RuntimeError as error:
        _Here.left = True
        raise RunError(
            f"a process of the run has ended ({' '.join(str(error).split()):.100}): the same command resumes the run "
            "from its last checkpoint"
        ) from error


@contextlib.contextmanager
def together() -> Iterator[None]:
    """As a context manager: all processes do the same, and share out the encoding."""
    before, _Here.together, _Here.encoded = _Here.together, count() > 1, 0
    try:
        yield
    finally:
        _Here.together = before


@contextlib.contextmanager
def alone() -> Iterator[None]:
    """As a context manager: this process works alone, without the others."""
    before, _Here.together = _Here.together, False
    try:
        yield
    finally:
        _Here.together = before


def shared() -> bool:
    """Whether encoding is shared out at this moment."""
    return _Here.together


def part(rows: int, unit: int = 1) -> slice:
    """The rows of a batch that this process encodes, a multiple of `unit`; all, if they are too few to share out."""
    if not _Here.together or (units := -(-rows // unit)) < count():
        return slice(None)
    first, last = (units * r // count() for r in (rank(), rank() + 1))
    return slice(first * unit, min(last * unit, rows))


def gather(z: Tensor, mine: slice, rows: int) -> Tensor:
    """The results of all processes for their `part` of a batch, [rows, ...], in every process, with gradient."""
    return z if mine == slice(None) else _Gather.apply(z, mine, rows)  # pyright: ignore[reportReturnType]


class _Gather(torch.autograd.Function):
    """All processes go on alike with what was gathered, so each has the whole gradient of it already and needs its
    part. It is scaled up by the number of processes: `average` scales down, also what is alike in all of them."""

    @staticmethod
    def forward(ctx: Any, z: Tensor, mine: slice, rows: int) -> Tensor:
        ctx.mine = mine
        whole = z.new_zeros(rows, *z.shape[1:])
        whole[mine] = z
        return total(whole)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        return gradients[0][ctx.mine] * count(), None, None


def total(x: Tensor) -> Tensor:
    """The sum of a tensor over the processes, in place."""
    with _noticing():
        dist.all_reduce(x)
    return x


def average(parameters: Iterable[nn.Parameter]) -> None:
    """Gradients become their mean over the processes."""
    if count() == 1:
        return
    gradients = [p.grad for p in parameters if p.grad is not None]
    flat = total(torch.cat([g.flatten() for g in gradients])).div_(count())
    for g, mean in zip(gradients, flat.split([g.numel() for g in gradients]), strict=True):
        g.copy_(mean.view(g.shape))


def agree(wish: bool) -> bool:
    """Whether any process wants something; all processes must call this at the same point."""
    return wish if count() == 1 else bool(total(torch.tensor(int(wish))))


def first(call: Callable[[], T]) -> T:
    """The result of a call in the first process, or its error, in all of them."""
    if count() == 1:
        return call()
    outcome: list[Any] = [None, None]
    if rank() == 0:
        try:
            outcome[0] = call()
        except Exception as error:  # raised again, here as there
            outcome[1] = error
    with _noticing():
        dist.broadcast_object_list(outcome, device=torch.device("cpu"))
    if outcome[1] is not None:
        raise outcome[1]
    return outcome[0]


def differs(value: object) -> bool:
    """Whether any process has another value than the first; all processes must call this at the same point."""
    return agree(first(lambda: value) != value)


def spread(module: nn.Module) -> None:
    """Copy the first process's parameters and buffers to the others."""
    if count() > 1:
        with _noticing(), torch.no_grad():
            for tensor in (*module.parameters(), *module.buffers()):
                whole = tensor.contiguous()
                dist.broadcast(whole, 0)
                tensor.copy_(whole)


def apart(device: torch.device) -> contextlib.AbstractContextManager[None]:
    """Random numbers drawn meanwhile (dropout) differ between the processes that share a batch; those drawn afterwards
    are the same in all, as if none had been drawn."""
    return _drawing_apart(device) if _Here.together else contextlib.nullcontext()


@contextlib.contextmanager
def _drawing_apart(device: torch.device) -> Iterator[None]:
    _Here.encoded += 1
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed((torch.initial_seed() + 7919 * _Here.encoded + rank()) % 2**63)
        yield
