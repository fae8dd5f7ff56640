"""Probabilities from decision values: a sigmoid for each pair of classes, and their coupling."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit, log_expit

from mercer.machines.blocks import solve_with
from mercer.machines.program import Array, Index, Program, Solution, balanced
from mercer.machines.rows import ComputedBlocks, MatrixRows

#: Parts that are held out in turn.
_FOLDS = 5
#: Rows whose sums of similarities differ by less, relative to the largest, count as equal.
_EQUAL = 1e-9
#: Probabilities of pairs stay away from 0 and 1 by this, as in libsvm, so that they can be coupled.
_LEAST = 1e-7


def out_of_fold(
    program: Program, rows: MatrixRows | ComputedBlocks, part: Index, solution: Solution, tol: float
) -> Array:
    """Decision values of held-out rows, whose boxes are set to [0, 0] in turn.

    Each fit starts from the solution on all rows, without the held-out part.
    """
    values = np.empty_like(program.p)
    for fold in range(_FOLDS):
        held_out = part == fold
        rest = program._replace(
            lower=np.where(held_out, 0.0, program.lower),
            upper=np.where(held_out, 0.0, program.upper),
        )
        found = solve_with(rest, rows, tol, start=balanced(np.where(held_out, 0.0, solution.b)))
        values[held_out] = found.values[held_out] + found.bias
    return values


def held_out_parts(program: Program, rows: MatrixRows | ComputedBlocks) -> Index:
    """The held-out part of each row.

    The rows of each class are dealt out in the order of ``sum_j C_j p_j k(x_i, x_j)``, with equal sums
    in the same part.  So the parts depend neither on the order of the rows nor on whether a row occurs
    twice or has weight two.
    """
    boxes = program.upper - program.lower
    sums = rows.values(boxes * program.p)
    least = _EQUAL * np.abs(sums).max()
    parts = np.zeros(len(sums), dtype=np.intp)
    for own in (program.p > 0, program.p < 0):
        members = np.flatnonzero(own & (boxes > 0))
        order = members[np.argsort(sums[members])]
        parts[order[1:]] = np.cumsum(np.diff(sums[order]) > least) % _FOLDS
    return parts


def fit_sigmoid(values: Array, positive: Any, weights: Array) -> tuple[float, float]:
    """Slope and offset of Platt's sigmoid, ``P(positive) = 1 / (1 + exp(-(slope v + offset)))``.

    Labels are smoothed by one row of each class, so that the sigmoid stays finite if the classes are
    separable.  A row of weight two counts as two rows; weights below 1 on average are divided by their
    mean, since their sum is unrelated to the number of rows.  The slope is not negative: if decision
    values are uninformative, those of held-out rows are slightly too low for their class, which lacks
    them, and probabilities are then the frequencies of the classes.
    """
    weights = weights * max(1.0, np.count_nonzero(weights) / weights.sum())
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
