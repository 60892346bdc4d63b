"""Rotations in space without angles. e3nn converts a quaternion to angles, checks them at run time and loses digits;
here Wigner's matrices are polynomials of the quaternion: exact to rounding, and traceable.

The matrix of degree 1 is the turn itself. That of degree l is a block of the product of those of degrees l - 1 and 1,
D_l = C' (D_(l-1) x D_1) C, where the columns of C are the Clebsch-Gordan coefficients.
"""

from __future__ import annotations

import copy
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor

from brojepa.errors import RequestError
from brojepa.groups import SO3, Irrep
from brojepa.models import Model
from brojepa.models.actions import Representation


def with_exact_turns(model: Model) -> Model:
    """The model; where it represents turns of space, a copy whose matrices are the polynomials."""
    if not isinstance(model.action, Representation) or not isinstance(model.action.group, SO3):
        return model
    model = copy.deepcopy(model)
    assert isinstance(model.action, Representation)
    model.action.parts = [replace(part, irrep=polynomial(part.irrep)) for part in model.action.parts]
    return model


def polynomial(irrep: Irrep) -> Irrep:
    """An irreducible representation of SO(3) with matrices that are polynomials of the quaternion."""
    couplings = [_coupling(degree) for degree in range(2, int(irrep.name) + 1)]
    return replace(irrep, matrix=partial(_wigner, int(irrep.name), couplings))


def _wigner(degree: int, couplings: list[Tensor], a: Tensor) -> Tensor:
    """Wigner's matrices of a degree: quaternions [..., 4] -> [..., 2 degree + 1, 2 degree + 1]."""
    if degree == 0:
        return torch.ones_like(a[..., :1, None])
    turn = SO3().matrix(a)
    matrix = turn
    for coupling in couplings:
        both = matrix[..., :, None, :, None] * turn[..., None, :, None, :]
        both = both.flatten(-4, -3).flatten(-2)
        coupling = coupling.to(a)
        matrix = coupling.mT @ both @ coupling
    return matrix


def _coupling(degree: int) -> Tensor:
    """Clebsch-Gordan coefficients from degrees degree - 1 and 1 to degree, [3 (2 degree - 1), 2 degree + 1]."""
    try:
        from e3nn import o3
    except ImportError:
        raise RequestError("turns of space need e3nn: pip install 'brojepa[so3]'") from None
    symbols = o3.wigner_3j(degree - 1, 1, degree, dtype=torch.float64)
    return ((2 * degree + 1) ** 0.5 * symbols).flatten(0, 1)
