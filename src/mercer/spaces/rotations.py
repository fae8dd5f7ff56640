"""Rotations of space, as matrices or as quaternions."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from array_api_compat import array_namespace, device
from numpy.typing import NDArray

from mercer._arrays import plain_lengths, row_maxima, unit_rows
from mercer._validation import refuse_rows
from mercer.contributions import Contributions
from mercer.laws import Law
from mercer.spaces.base import RadialSpace
from mercer.spaces.euclidean import Euclidean
from mercer.spaces.realisations.eigenfunctions import USUAL, LogWeights
from mercer.spaces.realisations.eigenmaps import HarmonicFunctions
from mercer.spaces.spherical import ZonalRealisation
from mercer.special import zonal
from mercer.special.heat_short_time import ClosedForm

#: Eigenvalues of the Laplacian of S^3, on unit quaternions, divided by those of the rotations.
_SCALE = 4.0


@dataclass(frozen=True, repr=False)
class Rotations(RadialSpace):
    """Rotations of three-dimensional space, the group SO(3).

    ``K = sum_l (2 l + 1) exp(-l (l + 1) t) sin((2 l + 1) a / 2) / sin(a / 2)`` is the heat kernel,
    with the angle a of the rotation that turns one point into the other.  It is a probability density
    with respect to the uniform distribution.  Rotations are unit quaternions, with q and -q
    identified, so their functions are the even levels of the sphere S^3; the Laplacian has the
    eigenvalues ``l (l + 1)``, with multiplicities ``(2 l + 1)^2``.

    Rows are rotation matrices, nine numbers row by row, or quaternions ``(w, x, y, z)`` of any
    non-zero length.  Quaternions can be compared with matrices.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.kernels import Heat
    >>> from mercer.spaces import Rotations
    >>> none, quarter, half = [1, 0, 0, 0], [1, 0, 0, 1], [0, 0, 0, -2]    # about the third axis
    >>> Heat(Rotations(), t=0.5)([none, quarter, half]).round(4)
    array([[1.    , 0.3235, 0.0226],
           [0.3235, 1.    , 0.3235],
           [0.0226, 0.3235, 1.    ]])
    >>> matrix = [[0, -1, 0, 1, 0, 0, 0, 0, 1]]
    >>> np.degrees(Rotations().distances(matrix, [none, quarter])).round(6)
    array([[90.,  0.]])
    """

    #: Columns of checked rows: quaternions.
    n = 4
    takes_sparse = False
    embeds_alike = True
    has_opposites = True
    common_invariant = 1.0
    separation = "folded"
    # Kernels are even functions w -> f(w), and parts of axes have the factor f'(w) / w.
    least_invariant = 1e-6

    def natural_time(self, n: int) -> float:
        """``log(9) / 2``, at which the first level weighs as much as the constant."""
        return math.log(9) / 2

    def dimension(self, n: int) -> int:
        """Three: see :meth:`Space.dimension`."""
        return 3

    def check(self, X: Any, name: str = "X") -> Any:
        """Validate dense rows of matrices or quaternions, and return unit quaternions.

        Their first non-zero component is positive.  See :meth:`RowSpace.check`.
        """
        if getattr(X, "ndim", 2) == 3:
            raise ValueError(
                f"{name} has 3 dimensions; give a row for each matrix: X.reshape(len(X), 9)"
            )
        X = super().check(X, name)
        X = unit_rows(X if X.shape[1] == 4 else _quaternions(X))
        sign = array_namespace(X).zeros_like(X[:, 0])
        for j in range(4):
            sign = array_namespace(X).where(sign == 0, X[:, j], sign)
        return array_namespace(X).where(sign[:, None] < 0, -X, X)

    def _check_dimension(self, columns: int, name: str) -> None:
        if columns not in (4, 9):
            raise ValueError(
                f"{name} has {columns} columns, but {self!r} takes 9, a matrix row by row, or 4, a "
                "quaternion (w, x, y, z)"
            )

    def _check_rows(self, X: Any, name: str) -> None:
        if X.shape[1] == 4:
            refuse_rows(row_maxima(X) == 0, name, "is all zeros; a quaternion has a length above zero")
            return
        xp = array_namespace(X)
        R = xp.reshape(X, (X.shape[0], 3, 3))
        with np.errstate(over="ignore", invalid="ignore"):
            products = R @ xp.matrix_transpose(R) - xp.eye(3, dtype=X.dtype, device=device(X))
            off = xp.max(xp.abs(xp.reshape(products, (X.shape[0], 9))), axis=1)
            turned = xp.linalg.cross(R[:, 0, :], R[:, 1, :])
        refuse_rows(
            ~(off <= float(xp.finfo(X.dtype).eps) ** 0.5), name,
            "is not an orthogonal matrix: its three rows must be unit vectors at right angles",
        )  # fmt: skip
        refuse_rows(
            xp.sum(turned * R[:, 2, :], axis=1) < 0, name, "is a reflection: its determinant is -1"
        )

    def isometry(self, rng: np.random.Generator) -> Callable[[Any], Any]:
        """See :meth:`Space.isometry`; one more rotation after each."""
        w, x, y, z = unit_rows(rng.normal(size=(1, 4)))[0]
        left = np.array([[w, -x, -y, -z], [x, w, -z, y], [y, z, w, -x], [z, -y, x, w]])
        right = np.array([[w, -x, -y, -z], [x, w, z, -y], [y, -z, w, x], [z, y, -x, w]])
        turn = (left @ right.T)[1:, 1:]  # v -> q v q^-1

        def turned(X: Any) -> Any:
            if X.shape[1] == 4:
                return X @ left.T
            return (turn @ X.reshape(-1, 3, 3)).reshape(-1, 9)

        return turned

    def embed(self, X: Any, Y: Any = None) -> tuple[Any, Any]:
        """Unit quaternions as they are: see :meth:`Embedding.embed`."""
        return X, X if Y is None else Y

    def are_apart(self, invariants: Any, own: Any, rounding: float) -> Any:
        """See :meth:`Embedding.are_apart`; q and -q are one point."""
        return super().are_apart(np.abs(invariants), own, rounding)

    def column_sums(self, X: Any, Y: Any, weights: Any) -> Any:
        """See :meth:`Embedding.column_sums`; sums for the three axes that are turned, not for columns.

        ``1 - w^2 = sum_c |X e_c - Y e_c|^2 / 8`` for rotations X and Y of invariant w, and axes e_c: the
        parts are those of w, to first order.
        """
        w = X @ Y.T
        w = np.where(np.abs(w) < self.least_invariant, self.least_invariant, w)
        entries = Euclidean().column_sums(_matrices(X), _matrices(Y), weights / (-16 * w))
        return entries.reshape(-1, 3, 3).sum(axis=1)

    def named_contributions(self, X: Any, found: tuple[Contributions, ...]) -> tuple[Contributions, ...]:
        """See :meth:`Space.named_contributions`; contributions of axes, not of columns."""
        return tuple(replace(own, kind="axis", names=["x", "y", "z"]) for own in found)

    def distances(self, X: Any, Y: Any = None) -> Any:
        """Angles in [0, pi] of the rotations that turn rows of X into rows of Y, in radians."""
        P, Q = self.check_pair(X, Y)
        Q = P if Q is None else Q
        xp = array_namespace(P)
        rows = (P[i : i + 1, :] for i in range(P.shape[0]))
        chords = ((plain_lengths(Q - p), plain_lengths(Q + p)) for p in rows)
        return xp.stack([4 * xp.atan2(xp.minimum(a, b), xp.maximum(a, b)) for a, b in chords])

    def realise(self, law: Law, n: int, normalized: bool = True) -> ZonalRealisation:
        """Even levels of S^3: see :meth:`Space.realise`."""
        return ZonalRealisation(self, _Quaternionic(law), n, normalized, _SCALE)

    def eigenfunctions(self, n: int, count: int | None, log_weights: LogWeights) -> HarmonicFunctions:
        """Harmonics of the even levels of S^3: see :meth:`Space.eigenfunctions`."""
        most = USUAL if count is None else count
        return HarmonicFunctions.of(self, 4, most, log_weights, step=2, scale=_SCALE, volume=1.0)


def _matrices(X: Any) -> Any:
    """Rotation matrices of unit quaternions, row by row."""
    w, x, y, z = X.T
    rows = [
        1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y),
        2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x),
        2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y),
    ]  # fmt: skip
    return np.stack(rows, axis=1)


def _quaternions(X: Any) -> Any:
    """Quaternions q of rotation matrices, as the row of ``4 q q'`` with the largest diagonal entry."""
    xp = array_namespace(X)
    a, b, c, d, e, f, g, h, i = (X[:, j] for j in range(9))
    rows = [
        [1 + a + e + i, h - f, c - g, d - b],
        [h - f, 1 + a - e - i, b + d, c + g],
        [c - g, b + d, 1 - a + e - i, f + h],
        [d - b, c + g, f + h, 1 - a - e + i],
    ]
    matrix = xp.stack([xp.stack(row, axis=1) for row in rows], axis=1)
    largest = xp.argmax(xp.stack([rows[j][j] for j in range(4)], axis=1), axis=1)
    chosen = xp.arange(4, device=device(X))[None, :] == largest[:, None]
    return xp.sum(xp.where(chosen[:, :, None], matrix, xp.zeros_like(matrix)), axis=1)


@dataclass(frozen=True)
class _Quaternionic(Law):
    """The weights of a law of the rotations on the even levels of S^3, and 0 on the odd ones."""

    law: Law

    def __post_init__(self) -> None:
        levels = self.law.levels
        found = {
            "name": self.law.name,
            "nonnegative": self.law.nonnegative,
            "least_levels": self.law.least_levels,
            "levels": None if levels is None else 2 * levels - 1,
        }
        for name, value in found.items():
            object.__setattr__(self, name, value)

    def log_weights(self, eigenvalues: NDArray[Any], dimension: int) -> NDArray[Any]:
        numbers = np.rint(np.sqrt(np.real(eigenvalues) + 1) - 1)
        # A list is read by levels: l (l + 1) is the eigenvalue of one on the sphere S^2.
        dimension = dimension if self.law.levels is None else 2
        weights = self.law.log_weights(eigenvalues / _SCALE, dimension)
        return np.where(numbers % 2 == 0, weights, -np.inf)

    def closed_form(self, n: int) -> ClosedForm | None:
        """See :class:`Law`; the mean of the law on S^3 at w and at -w has its even levels."""
        law = self.law.slower(_SCALE)
        whole = None if law is None else law.closed_form(n)
        if law is None or whole is None:
            return None
        unit = 1 + float(whole.function(np.zeros(1))[1, 0])
        origin = np.zeros(1)
        shift = float((self.law.log_weights(origin, n - 1) - law.log_weights(origin, n - 1))[0])
        shift += zonal.log_area(n) if law.density else 0.0

        def even(function: zonal.Function) -> zonal.Function:
            return lambda u: np.repeat(function(u).sum(axis=0, keepdims=True) / unit, 2, axis=0)

        def slope(normalized: bool) -> zonal.Function:
            value, rise = even(whole.function), even(whole.slope(False))
            top = float(rise(origin)[0, 0]) if normalized else 0.0
            return lambda u: rise(u) - top * value(u)

        log_value = whole.log_value + math.log(unit / 2) + shift
        return ClosedForm(even(whole.function), log_value, slope)
