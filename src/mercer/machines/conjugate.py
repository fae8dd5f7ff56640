"""Preconditioned conjugate gradients for several right-hand sides."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from mercer.machines.program import Array

Operator = Callable[[Array], Array]
#: Iterations after which the residual is computed anew, as its recurrence drifts.
_REFRESH = 50


def conjugate_gradients(
    operator: Operator, Y: Array, precondition: Operator, goal: float, max_iter: int
) -> tuple[Array, Array, int]:
    """Solve ``A x = y`` for each column until no residual is longer than the goal.

    Each column has its own steps; products with A are made for all of them at a time.

    Returns
    -------
    solution, residual, iterations
        The residual is computed from the solution, not by recurrence.
    """
    x = np.zeros_like(Y)
    r = Y.copy()
    done = 0
    while done < max_iter and np.linalg.norm(r, axis=0).max() > goal:
        z = precondition(r)
        p, rho = z, (r * z).sum(axis=0)
        for _ in range(min(_REFRESH, max_iter - done)):
            q = operator(p)
            step = _ratio(rho, (p * q).sum(axis=0))
            x += step * p
            r -= step * q
            done += 1
            if np.linalg.norm(r, axis=0).max() <= goal:
                break
            z = precondition(r)
            fresh = (r * z).sum(axis=0)
            p = z + _ratio(fresh, rho) * p
            rho = fresh
        r = Y - operator(x)
    return x, r, done


def _ratio(a: Array, b: Array) -> Array:
    """Quotients; zero for columns that are solved."""
    return np.divide(a, b, out=np.zeros_like(a), where=b > 0)
