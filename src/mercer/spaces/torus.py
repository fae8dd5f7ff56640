"""The torus: rows of angles, or of other numbers with a period."""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from array_api_compat import array_namespace

from mercer._arrays import asarray_like
from mercer._validation import refuse_rows
from mercer.laws import Law
from mercer.spaces.base import RowSpace
from mercer.spaces.realisations.base import Realisation
from mercer.spaces.realisations.circles import Circle, TorusHeat, TorusMixture, wrapped
from mercer.spaces.realisations.eigenfunctions import USUAL, LogWeights
from mercer.spaces.realisations.lattice import LatticeSum, TorusFunctions, heaviest

_TURN = 2 * math.pi
#: Largest number of columns for which eigenfunctions are available.
_MOST_COLUMNS = 100
#: Smallest smoothness of Matern kernels: rougher ones mix times that underflow.
_LEAST_NU = 0.1


@dataclass(frozen=True, repr=False)
class Torus(RowSpace):
    """Angles: rows of real numbers, each taken modulo a period.

    ``K(x, y) = prod_j theta(x_j - y_j, t) / (2 pi)^p`` is the heat kernel, with the theta function
    ``theta(a, t) = sum_k exp(-k^2 t) cos(k a)`` over all integers k and angles ``2 pi x / period``.
    The Laplacian has the eigenvalues ``|k|^2`` at the points k of the lattice Z^p, with the
    eigenfunctions ``cos(k.x)`` and ``sin(k.x)``.

    Times and length scales are those of angles in radians, whatever the period.

    Parameters
    ----------
    period : float or tuple of floats
        The period of all columns, or of each: ``2 * pi`` for angles, 360 for degrees, 24 for the time of
        day in hours.
    n : int, optional
        Number of columns; by default that of the data, or of the periods.

    Examples
    --------
    >>> from mercer.kernels import Heat
    >>> from mercer.spaces import Torus
    >>> late, early, noon = [23.5], [0.5], [12.0]
    >>> Heat(Torus(period=24), t=0.1)([late, early, noon]).round(4)
    array([[1.    , 0.8425, 0.    ],
           [0.8425, 1.    , 0.    ],
           [0.    , 0.    , 1.    ]])
    """

    period: float | tuple[float, ...] = _TURN
    n: int | None = None
    computes_in_double = True
    takes_sparse = False
    sampled_columns = 3
    #: The space of one column, and its columns.
    factor = Circle()
    width = 1

    def __post_init__(self) -> None:
        many = not isinstance(self.period, numbers.Real)
        given: Any = self.period
        found = tuple(given) if many else (given,)
        if not found or not all(isinstance(p, numbers.Real) and 0 < float(p) < math.inf for p in found):
            raise ValueError(
                f"period must be a positive number, or one for each column: {self.period!r}"
            )
        if many:
            if self.n not in (None, len(found)):
                raise ValueError(f"period has {len(found)} numbers, but n is {self.n!r}; leave n out")
            object.__setattr__(self, "period", tuple(float(p) for p in found))
            object.__setattr__(self, "n", len(found))

    def natural_time(self, n: int) -> float:
        """``log(2 n)``, at which the first level weighs as much as the constant."""
        return math.log(2 * n)

    def check_matern(self, nu: float, length_scale: float) -> None:
        if nu < _LEAST_NU:
            raise ValueError(f"nu of Matern on {self!r} must be at least {_LEAST_NU}, got {nu!r}")

    def check(self, X: Any, name: str = "X") -> Any:
        """Validate dense rows and return angles in [-pi, pi], in double precision.

        See :meth:`RowSpace.check`.
        """
        X = super().check(X, name)
        xp = array_namespace(X)
        period = self._periods(X)
        part = xp.remainder(X, period)
        part = xp.where(part > period / 2, part - period, part)
        # Remainders of small negative numbers are rounded.
        return xp.where(xp.abs(X) <= period / 2, X, part) * (_TURN / period)

    def _periods(self, X: Any) -> Any:
        """Periods of the columns, in an array like X."""
        found = np.broadcast_to(np.asarray(self.period, dtype=float), (int(X.shape[1]),)).copy()
        return asarray_like(found, X)

    def _check_rows(self, X: Any, name: str) -> None:
        xp = array_namespace(X)
        rounding = float(xp.finfo(X.dtype).eps) * xp.abs(X)
        refuse_rows(
            xp.any(rounding > 1e-3 * self._periods(X), axis=1), name,
            "has a number so large that rounding hides the angle; give it modulo the period",
        )  # fmt: skip

    def _scattered(self, shape: tuple[int, int], rng: np.random.Generator) -> np.ndarray:
        return rng.uniform(-1, 2, size=shape) * self._periods(np.empty(shape))

    def isometry(self, rng: np.random.Generator) -> Callable[[Any], Any]:
        """See :meth:`Space.isometry`; a shift of each angle."""
        return lambda X: X + rng.uniform(size=X.shape[1]) * self._periods(X)

    def factors(self, X: Any) -> list[Any]:
        """Checked rows, column by column."""
        return [X[:, j : j + 1] for j in range(int(X.shape[1]))]

    def distances(self, X: Any, Y: Any = None) -> Any:
        """Distances between rows, ``sqrt(sum_j a_j^2)`` with the angles a_j between them, in radians.

        Examples
        --------
        >>> from mercer.spaces import Torus
        >>> Torus(period=360).distances([[350.0]], [[10.0]]).round(6)    # twenty degrees
        array([[0.349066]])
        """
        P, Q = self.check_pair(X, Y)
        xp = array_namespace(P)
        angles = wrapped(P[:, None, :] - (P if Q is None else Q)[None, :, :])
        return xp.sqrt(xp.sum(angles**2, axis=2))

    def realise(self, law: Law, n: int, normalized: bool = True) -> Realisation:
        """A product over the columns, or a sum over the lattice: see :meth:`Space.realise`."""
        if law.levels is not None:
            raise TypeError(
                f"weights by levels are for spheres; on {self!r} give a function of the eigenvalues"
            )
        try:
            single = len(law.times(n).times) == 1
        except TypeError:  # it mixes no diffusions
            return LatticeSum(self, law, n, normalized)
        return (TorusHeat if single else TorusMixture)(self, law, n, normalized)

    def eigenfunctions(self, n: int, count: int | None, log_weights: LogWeights) -> TorusFunctions:
        """Cosines and sines of the heaviest levels, whole ones: see :meth:`Space.eigenfunctions`."""
        if n > _MOST_COLUMNS:
            raise ValueError(f"eigenfunctions are for at most {_MOST_COLUMNS} columns, not {n}")
        lattice = heaviest(n, USUAL if count is None else count, log_weights)
        return TorusFunctions.of(replace(self, n=n), lattice)
