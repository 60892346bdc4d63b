"""Which irreducible representations a latent consists of, how many copies of each, and in which dimensions."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from brojepa.errors import RequestError, unknown
from brojepa.groups import Group, Irrep


@dataclass(frozen=True)
class Part:
    """Copies of one irreducible representation, and the latent dimensions they act on, in order."""

    irrep: Irrep
    copies: int
    dims: tuple[int, ...]


def parts_of(group: Group, copies: Mapping[str, int] | str) -> list[Part]:
    """The parts of a latent that holds copies of irreducible representations, by name or in words, in that order."""
    irreps = {i.name: i for i in group.irreps()}
    wanted = _read(copies) if isinstance(copies, str) else dict(copies)
    if group.order is None and all(re.fullmatch(r"-?\d+(:-?\d+)*", name) for name in wanted):
        highest = max((abs(int(f)) for name in wanted for f in name.split(":")), default=0)
        irreps = {i.name: i for i in group.irreps(highest)}
    parts, start = [], 0
    for name, count in wanted.items():
        if name not in irreps:
            raise unknown(f"irreducible representation of {group}", name, irreps)
        if count < 1:
            raise RequestError(f"{group}: {count} copies of {name}, give 1 or more")
        size = count * irreps[name].dim
        parts.append(Part(irreps[name], count, tuple(range(start, start + size))))
        start += size
    if not parts:
        raise RequestError(f"{group}: no irreducible representation given, write for example 8x{next(iter(irreps))}")
    return parts


def _read(text: str) -> dict[str, int]:
    """ "14x0 + 12x1" -> {"0": 14, "1": 12}."""
    copies: dict[str, int] = {}
    for term in text.split("+"):
        match = re.fullmatch(r"\s*(\d+)\s*x\s*([\w:-]+)\s*", term)
        if not match or match[2] in copies:
            raise RequestError(f"cannot read {text!r}: write copies x name, each name once, as in 14x0 + 12x1")
        copies[match[2]] = int(match[1])
    return copies


def evenly(group: Group, dim: int, highest: int | None = None) -> dict[str, int]:
    """Split `dim` as evenly as possible over the irreps; the remainder goes to the trivial one. For abelian groups,
    1-dimensional irreps are taken in pairs, and none above frequency `highest` is taken, where that is given.

    Irreps are those of `group.simple_irreps()`. The result has the number of copies by name.

    >>> from brojepa.groups import Cyclic
    >>> evenly(Cyclic(4), 14)  # of dimension 1, 2 and 1
    {'0': 6, '1': 2, '2': 4}
    """
    irreps = [i for i in group.simple_irreps() if highest is None or max(map(abs, i.frequency or (0,))) <= highest]
    step = {i.name: 1 if i.frequency is None else 2 // i.dim for i in irreps}  # copies taken at once
    copies = dict.fromkeys(step, 0)
    left = dim
    while any(step[i.name] * i.dim <= left for i in irreps[1:]):
        for i in irreps:
            if step[i.name] * i.dim <= left:
                copies[i.name] += step[i.name]
                left -= step[i.name] * i.dim
    copies[irreps[0].name] += left
    return {name: count for name, count in copies.items() if count}


def table(title: str, parts: list[Part]) -> str:
    """Which irreducible representation, how many copies, which latent dimensions."""
    lines = [f"{title}: " + " + ".join(f"{p.copies}x{p.irrep.name}" for p in parts)]
    lines.append("irrep  dim  copies  latent dimensions")
    for p in parts:
        lines.append(f"{p.irrep.name:<5}  {p.irrep.dim:>3}  {p.copies:>6}  {ranges(p.dims)}")
    return "\n".join(lines)


def ranges(numbers: tuple[int, ...]) -> str:
    """0, 1, 2, 5, 6 -> "0-2, 5-6"."""
    runs: list[list[int]] = []
    for i in numbers:
        if runs and i == runs[-1][1] + 1:
            runs[-1][1] = i
        else:
            runs.append([i, i])
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)
