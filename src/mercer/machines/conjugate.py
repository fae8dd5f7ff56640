"""Preconditioned conjugate gradients for several right-hand sides."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from array_api_compat import array_namespace
from scipy.linalg import LinAlgError

from mercer._arrays import on_cpu, placed
from mercer.machines.program import Array

Operator = Callable[[Any], Any]
#: Iterations after which the residual is recomputed, because its recurrence drifts.
_REFRESH = 50


def conjugate_gradients(
    operator: Operator,
    Y: Any,
    precondition: Operator,
    goals: Array,
    max_iter: int,
    exact_operator: Operator | None = None,
) -> tuple[Any, Any, int]:
    """Solve ``A x = y`` for each column until its residual is at most its goal.

    Each column has its own steps; products with A are computed for all columns at once, with the array
    library and on the device of Y.

    Parameters
    ----------
    operator : callable
        Products with A, perhaps in single precision.
    Y : array of shape (m, p)
    precondition : callable
        Products with an approximate inverse of A.
    goals : array of shape (p,)
    max_iter : int
    exact_operator : callable, optional
        Products with A for recomputed residuals; by default ``operator``.

    Returns
    -------
    solution, residual, iterations
        The residual is computed from the solution, not by recurrence.

    Raises
    ------
    LinAlgError
        If a direction shows that A is not positive definite.
    """
    exact_operator = exact_operator or operator
    xp = array_namespace(Y)
    x, p, rho = xp.zeros_like(Y), xp.zeros_like(Y), np.zeros(Y.shape[1])
    r, exact, done = Y, True, 0
    while True:
        if done == max_iter or (np.sqrt(_inner(r, r)) <= goals).all():
            if exact:
                return x, r, done
            r, exact = Y - exact_operator(x), True
            continue
        z = precondition(r)
        last, rho = rho, _inner(r, z)
        p = z + placed(_ratio(rho, last), z) * p
        q = operator(p)
        curvature = _inner(p, q)
        if (curvature < 0).any():
            raise LinAlgError("the matrix is not positive definite")
        step = placed(_ratio(rho, curvature), p)
        x = x + step * p
        done += 1
        exact = done % _REFRESH == 0
        r = Y - exact_operator(x) if exact else r - step * q


def _inner(a: Any, b: Any) -> Array:
    """Inner products of columns."""
    return np.asarray(on_cpu(array_namespace(a).sum(a * b, axis=0)), dtype=float)


def _ratio(a: Array, b: Array) -> Array:
    """Quotients; zero for columns that are solved."""
    return np.divide(a, b, out=np.zeros_like(a), where=b > 0)
