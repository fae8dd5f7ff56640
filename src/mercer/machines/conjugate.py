"""Preconditioned conjugate gradients for several right-hand sides."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.linalg import LinAlgError

from mercer.machines.program import Array

Operator = Callable[[Array], Array]
#: Iterations after which the residual is computed anew, as its recurrence drifts.
_REFRESH = 50


def conjugate_gradients(
    operator: Operator, Y: Array, precondition: Operator, goals: Array, max_iter: int
) -> tuple[Array, Array, int]:
    """Solve ``A x = y`` for each column until its residual is no longer than its goal.

    Each column has its own steps; products with A are made for all of them at a time.

    Returns
    -------
    solution, residual, iterations
        The residual is computed from the solution, not by recurrence.

    Raises
    ------
    LinAlgError
        If a direction shows that A is not positive definite.
    """
    x, p, rho = np.zeros_like(Y), np.zeros_like(Y), np.zeros(Y.shape[1])
    r, exact, done = Y.copy(), True, 0
    while True:
        if done == max_iter or (np.linalg.norm(r, axis=0) <= goals).all():
            if exact:
                return x, r, done
            r, exact = Y - operator(x), True
            continue
        z = precondition(r)
        last, rho = rho, (r * z).sum(axis=0)
        p = z + _ratio(rho, last) * p
        q = operator(p)
        curvature = (p * q).sum(axis=0)
        if (curvature < 0).any():
            raise LinAlgError("the matrix is not positive definite")
        step = _ratio(rho, curvature)
        x += step * p
        done += 1
        exact = done % _REFRESH == 0
        r = Y - operator(x) if exact else r - step * q


def _ratio(a: Array, b: Array) -> Array:
    """Quotients; zero for columns that are solved."""
    return np.divide(a, b, out=np.zeros_like(a), where=b > 0)
