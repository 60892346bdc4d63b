"""Groups: what actions are, how they combine, and how they can act on a latent space.

`Cyclic` and `SO2`, a `Product` of them (a torus), `Dihedral`, `SO3`; `parse` reads one from its name.
"""

from __future__ import annotations

import re

from brojepa.errors import RequestError
from brojepa.groups.abelian import SO2, Abelian, Cyclic
from brojepa.groups.dihedral import Dihedral
from brojepa.groups.group import Element, Group, Irrep
from brojepa.groups.product import Product
from brojepa.groups.so3 import SO3

__all__ = ["SO2", "SO3", "Abelian", "Cyclic", "Dihedral", "Element", "Group", "Irrep", "Product", "parse"]


def parse(name: str) -> Group:
    """The group of a name: Z10, SO2, D4, SO3, or a product as in Z10xZ26.

    >>> parse("Z10xZ26").order
    260
    """
    parts = name.split("x")
    if len(parts) > 1:
        return Product(tuple(parse(part) for part in parts))
    if name in ("SO2", "SO3"):
        return SO2() if name == "SO2" else SO3()
    match = re.fullmatch(r"([ZD])(\d{1,18})", name)
    if not match:
        raise RequestError(f"no group {name!r}: write Z10, SO2, D4, SO3, or a product as in Z10xZ26")
    return (Cyclic if match[1] == "Z" else Dihedral)(int(match[2]))
