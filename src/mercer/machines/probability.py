"""Probabilities from decision values: a sigmoid for each pair of classes, and their coupling."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit, log_expit

from mercer.machines.blocks import solve_with
from mercer.machines.program import Array, Program, Solution, balanced
from mercer.machines.rows import ComputedBlocks, MatrixRows

#: Parts that are held out in turn.
_FOLDS = 5
#: Probabilities of pairs stay away from 0 and 1 by this, as in libsvm, so that they can be coupled.
_LEAST = 1e-7


def copies_of(weights: Array) -> Array:
    """Number of equal rows that each row stands for: its weight if all weights are whole, otherwise one.

    Rows are held out copy by copy, so that a row of weight two is worth two equal rows.  Equal rows are
    not held out together: with few distinct points none would be left to predict them from.  Weights
    that are not whole numbers do not count rows, whatever their size, and each row is held out as a
    whole.
    """
    whole = np.rint(weights)
    counts = np.allclose(weights, whole, rtol=1e-9, atol=0.0)
    return np.maximum(whole, 1.0) if counts else np.ones_like(weights)


def out_of_fold(
    program: Program, rows: MatrixRows | ComputedBlocks, shares: Array, solution: Solution, tol: float
) -> Array:
    """Decision values of all rows without each part, shape (m, parts).

    Boxes shrink by the shares of the part.  Each fit starts from the solution on all rows.
    """
    values = np.empty_like(shares)
    for part, kept in enumerate(1 - shares.T):
        rest = program._replace(lower=kept * program.lower, upper=kept * program.upper)
        found = solve_with(rest, rows, tol, start=balanced(kept * solution.b))
        values[:, part] = found.values + found.bias
    return values


def held_out_shares(program: Program, rows: MatrixRows | ComputedBlocks, copies: Array) -> Array:
    """Shares of each row's copies in the parts that are held out in turn, shape (m, parts).

    The copies of each class are dealt out in the order of ``sum_j C_j p_j k(x_i, x_j)``.  So the parts
    depend neither on the order of the rows nor on whether a row occurs twice or has weight two.  Rows
    that are left out of the fit are in no part.
    """
    boxes = program.upper - program.lower
    sums = rows.values(boxes * program.p)
    shares = np.zeros((len(sums), _FOLDS))
    for own in (program.p > 0, program.p < 0):
        members = np.flatnonzero(own & (boxes > 0))
        order = members[np.argsort(sums[members])]
        n = copies[order, None]
        # Of consecutive copies, each part has the first after so many others, and every fifth then on.
        before = (np.arange(_FOLDS) - (np.cumsum(n)[:, None] - n)) % _FOLDS
        shares[order] = ((n - 1 - before) // _FOLDS + 1) / n
    return shares


def fit_sigmoid(values: Array, positive: Any, weights: Array, rows: float) -> tuple[float, float]:
    """Slope and offset of Platt's sigmoid, ``P(positive) = 1 / (1 + exp(-(slope v + offset)))``.

    Labels are smoothed by one row of each class, so that the sigmoid stays finite if the classes are
    separable.  Weights that sum to less than the number of rows are scaled up to it: their sum is
    unrelated to that number.  The slope is not negative: if decision values are uninformative, those of
    held-out rows are slightly too low for their class, which lacks them, and probabilities are then the
    frequencies of the classes.
    """
    weights = weights * max(1.0, rows / weights.sum())
    plus, minus = weights[positive].sum(), weights[~positive].sum()
    target = np.where(positive, (plus + 1) / (plus + 2), 1 / (minus + 2))
    spread = max(float(np.abs(values[weights > 0]).max(initial=0.0)), 1e-300)
    v = np.where(weights > 0, values / spread, 0.0)

    def loss(theta: Array) -> tuple[float, Array]:
        z = theta[0] * v + theta[1]
        slopes = weights * (expit(z) - target)
        total = -(weights * (target * log_expit(z) + (1 - target) * log_expit(-z))).sum()
        return float(total), np.array([slopes @ v, slopes.sum()])

    start = np.array([0.0, np.log((plus + 1) / (minus + 1))])
    found = minimize(loss, start, jac=True, method="BFGS", options={"gtol": 1e-9 * weights.sum()}).x
    slope, offset = found if found[0] > 0 else start
    return float(slope / spread), float(offset)


def sigmoid(decisions: Array, sigmoids: Array) -> Array:
    """Probabilities of the first class of each pair."""
    return expit(decisions * sigmoids[:, 0] + sigmoids[:, 1])


def couple(first: Array, classes: int) -> Array:
    """Probabilities of classes from those of pairs (Wu, Lin and Weng 2004, second method).

    They minimise ``sum_ij (r_ji p_i - r_ij p_j)^2`` with ``sum p = 1``, where r_ij is the probability of
    class i against class j.

    Parameters
    ----------
    first : array of shape (m, n_pairs)
        Probabilities of the first class of each pair, in the order (0, 1), (0, 2), ..., (1, 2), ...
    classes : int

    Returns
    -------
    array of shape (m, classes)
    """
    r = np.zeros((len(first), classes, classes))
    i, j = np.triu_indices(classes, 1)
    first = np.clip(first, _LEAST, 1 - _LEAST)
    r[:, i, j], r[:, j, i] = first, 1 - first
    system = np.zeros((len(first), classes + 1, classes + 1))
    system[:, :classes, :classes] = -r * r.transpose(0, 2, 1)
    diagonal = np.arange(classes)
    system[:, diagonal, diagonal] = (r**2).sum(axis=1)
    system[:, :classes, classes] = system[:, classes, :classes] = 1.0
    right = np.zeros((len(first), classes + 1, 1))
    right[:, classes] = 1.0
    p = np.clip(np.linalg.solve(system, right)[:, :classes, 0], 0.0, None)
    return p / p.sum(axis=1, keepdims=True)
