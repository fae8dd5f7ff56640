"""The quadratic program behind all support vector machines, and its certificate."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Index = NDArray[np.intp]


class Program(NamedTuple):
    """Maximise ``p'b - b'Kb/2 - epsilon |b|_1`` with ``lower <= b <= upper`` and ``sum b = total``.

    Classification has ``p = y`` and ``0 <= y b <= C``; regression ``p = y``, ``|b| <= C`` and a tube
    epsilon; novelty detection ``p = 0`` and ``0 <= b <= 1``.  A row with the box [0, 0] is not used,
    and its value ``(Kb)_i + bias`` is an out-of-sample prediction.
    """

    p: Array
    lower: Array
    upper: Array
    epsilon: float = 0.0
    total: float = 0.0


@dataclass
class Solution:
    """Coefficients, bias and certificate.

    Attributes
    ----------
    b : array of shape (m,)
    values : array of shape (m,)
        Values ``Kb`` at all rows, without the bias.
    bias : float
    objective : float
        The dual objective.
    gap : float
        Primal minus dual objective.
    rounding : float
        Largest amount by which rounding may have lowered the gap.
    objective_rounding : float
        Largest amount by which rounding may have changed the objective.
    roundings : int
        Largest number of rounding errors, of the largest possible value, by which the values are off.
    steps : int
    reached : bool
        Whether the relative gap is at most what was asked for.
    relative_gap : float
        Upper bound on the gap divided by the larger objective; includes rounding errors.
    """

    b: Array
    values: Array
    bias: float
    objective: float
    gap: float
    rounding: float = 0.0
    objective_rounding: float = 0.0
    roundings: int = 0
    steps: int = 0
    reached: bool = True
    relative_gap: float = field(init=False)

    def __post_init__(self) -> None:
        gap, least = self.gap + self.rounding, self.objective - self.objective_rounding
        if gap in (0.0, math.inf):
            self.relative_gap = gap
        elif least >= 0:  # both objectives are positive
            self.relative_gap = gap / (least + gap)
        else:  # of opposite signs, if the gap is large: it is at most twice the larger one
            size = abs(self.objective) - self.objective_rounding
            self.relative_gap = gap / max(size, gap / 2)

    @property
    def at_rounding(self) -> bool:
        """Whether no smaller gap can be told from rounding."""
        return self.gap <= self.rounding

    def is_settled(self, tol: float) -> bool:
        """Whether the relative gap is at most tol, or cannot be told from rounding."""
        return self.at_rounding or self.relative_gap <= tol


def certify(
    program: Program, b: Array, values: Array, diagonal: Array, roundings: int | None = None
) -> Solution:
    """The point b with ``values = Kb``, its bias, objective and gap, all in double precision.

    Values are off by ``roundings`` rounding errors, by default those of plain sums.
    """
    from mercer.compiled.machines.certificates import certificate

    roundings = int(np.count_nonzero(b)) if roundings is None else roundings
    bias, objective, gap, rounding, off = certificate(
        program.p, b, values, program.lower, program.upper, program.epsilon, program.total, diagonal,
        roundings,
    )  # fmt: skip
    return Solution(b, values, bias, objective, gap, rounding, off, roundings)


def kinks(program: Program, b: Array) -> tuple[Array, Array]:
    """Terms added to slopes when b rises and when it falls; infinite if it cannot."""
    epsilon = program.epsilon
    rise = np.where(b >= program.upper, -np.inf, np.where(b >= 0, -epsilon, epsilon))
    fall = np.where(b <= program.lower, np.inf, np.where(b > 0, -epsilon, epsilon))
    return rise, fall


def restarted(program: Program, solution: Solution) -> Array:
    """Starting coefficients from the solution of a program with other boxes and sum zero.

    Along a growing C they are scaled by the best factor, ``(p'b - epsilon |b|_1) / b'Kb``, as far as
    the boxes allow.  If boxes have shrunk, coefficients are clipped, and the larger of both sides is
    shrunk until the sum is zero again.
    """
    b = solution.b
    with np.errstate(divide="ignore", invalid="ignore"):
        room = np.where(b > 0, program.upper / b, program.lower / b)[b != 0]
    gain = float(program.p @ b) - program.epsilon * float(np.abs(b).sum())
    best = gain / max(float(b @ solution.values), 1e-300)
    b = np.clip(b * np.clip(best, 1.0, max(room.min(initial=np.inf), 1.0)), program.lower, program.upper)
    return balanced(b)


def balanced(b: Array) -> Array:
    """Coefficients of sum zero: those of the larger side are shrunk."""
    up, down = b[b > 0].sum(), -b[b < 0].sum()
    most = min(up, down)
    return b * np.where(b > 0, most / max(up, 1e-300), most / max(down, 1e-300))
