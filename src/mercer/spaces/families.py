"""Any exponential family with few parameters, with the metric of its log-partition function."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer._arrays import Array
from mercer._threads import blas_in_one_thread
from mercer._validation import LARGEST, is_whole, refuse_rows
from mercer.engine import engine_for
from mercer.engine.operands import Invariants, Operand
from mercer.spaces.base import RadialSpace
from mercer.special.geodesics import Metric, NoGeodesic, lengths

#: Rows and columns of a tile; largest number of parameters of a family.
_TILE, _MOST = (16, 64), 3


@dataclass(frozen=True, repr=False)
class ExponentialFamily(RadialSpace):
    """An exponential family ``p(x | theta) = h(x) exp(<theta, T(x)> - A(theta))``, with Fisher metric.

    Rows are natural parameters.  The metric is the second derivative of the log-partition function,
    ``g_ij = d^2 A / d theta_i d theta_j``, found by automatic differentiation, and the invariant of two
    rows is their squared geodesic distance.  :class:`~mercer.kernels.Parametrix` is the approximate
    information diffusion kernel ``exp(-d(theta, theta')^2 / 4t)`` of any such family.

    With one parameter the distance is ``|int sqrt(A'')|``; with more, geodesics are polynomials of
    least energy, found by Newton's method.  A pair takes milliseconds.  The relative error of
    distances is below 1e-6, and usually below 1e-12, as for the Poisson, multinomial and normal
    families.  If the method does not converge for a pair, an error is raised after some seconds.  For
    multinomial and normal families use :class:`Simplex` and :class:`NormalFamily`, whose distances and
    heat kernels have closed forms.

    Parameters
    ----------
    log_partition : callable
        ``A``: takes a torch tensor of n numbers and returns a tensor with one, by functions of torch.
        It must be smooth.  Outside the parameter space it must be NaN or infinite, or its second
        derivative must not be positive definite.
    n : int, optional
        Number of parameters, at most 3; by default the number of columns.

    References
    ----------
    .. [1] J. Lafferty, G. Lebanon, "Information diffusion kernels", NIPS 15, 2003, equations 1, 2 and 7.
    .. [2] S. Amari, H. Nagaoka, "Methods of information geometry", AMS, 2000.

    Examples
    --------
    The Poisson family: ``A = exp(theta)`` at ``theta = log(rate)``, and distances are
    ``2 |sqrt(rate) - sqrt(rate')|``.

    >>> import torch
    >>> from mercer.spaces import ExponentialFamily
    >>> poisson = ExponentialFamily(lambda theta: theta.exp().sum(), n=1)
    >>> poisson.distances([[0.0]], [[0.0], [1.3862943611198906]]).round(9)    # rates 1 and 4
    array([[0., 2.]])
    """

    log_partition: Callable[[Any], Any]
    n: int | None = None
    computes_in_double = True
    takes_sparse = False
    sampled_columns = 2
    common_invariant = 0.0
    separation = "invariant"

    def __post_init__(self) -> None:
        if not callable(self.log_partition):
            raise TypeError(
                "log_partition must be a function from a torch tensor to one number, got "
                f"{self.log_partition!r}"
            )
        if not (self.n is None or (is_whole(self.n) and 1 <= self.n <= _MOST)):
            raise ValueError(f"n must be a whole number from 1 to {_MOST}, got {self.n!r}")

    def metric(self, X: Any) -> Array:
        """The Fisher metric at rows of natural parameters, shape (m, n, n).

        Examples
        --------
        >>> import torch
        >>> from mercer.spaces import ExponentialFamily
        >>> poisson = ExponentialFamily(lambda theta: torch.exp(theta).sum())
        >>> poisson.metric([[0.0], [2.0]]).ravel().round(4)
        array([1.    , 7.3891])
        """
        return self._derivatives(self.check(X, "X"), 0).values

    def distances(self, X: Any, Y: Any = None) -> Array:
        """Geodesic distances in the Fisher metric between the rows of X and those of Y."""
        P, Q = self.check_pair(X, Y)
        return _Parameters(self, P).lengths(P if Q is None else Q)

    def embed(self, X: Any, Y: Any = None) -> tuple[Any, Any]:
        left = _Parameters(self, X)
        return left, left if Y is None or Y is X else _Parameters(self, Y)

    def isometry(self, rng: np.random.Generator) -> None:
        """None is known for general families."""
        return

    def require_expansion(self, order: int) -> None:
        if order:
            raise ValueError(f"order must be 0: coefficients of the expansion are not known on {self!r}")

    def _scattered(self, shape: tuple[int, int], rng: np.random.Generator) -> Array:
        return rng.uniform(-1.0, 1.0, size=shape)

    def _check_rows(self, X: Any, name: str) -> None:
        if not engine_for(X).takes_operands:
            raise TypeError(f"distances of {self!r} are found for NumPy rows; give {name}.cpu().numpy()")
        if X.shape[1] > _MOST:
            raise ValueError(
                f"{name} has {X.shape[1]} columns; geodesics are found for {_MOST} parameters at most"
            )
        rows = np.asarray(X, dtype=float)
        self._check_function(rows[0])
        values = self._derivatives(rows, 0).values
        scales = np.sqrt(np.abs(np.diagonal(values, axis1=1, axis2=2)))  # which may differ by much
        with np.errstate(divide="ignore", invalid="ignore"):
            values = values / scales[:, :, None] / scales[:, None, :]
        finite = np.isfinite(values).all(axis=(1, 2), keepdims=True)
        least = np.linalg.eigvalsh(np.where(finite, values, 0.0))[:, 0]
        refuse_rows(
            ~(least > 0), name,
            "is not among the natural parameters of the family: the second derivative of its "
            "log-partition function is not finite and positive definite there in double precision",
        )  # fmt: skip

    def _check_function(self, row: Array) -> None:
        """Raise unless torch differentiates the log-partition function, and its value is one number."""
        import torch
        from torch.func import jacrev

        point = torch.tensor(row, dtype=torch.float64)
        try:
            value = self.log_partition(point)
            jacrev(self.log_partition)(point)
        except Exception as error:
            raise TypeError(
                "log_partition must be written with functions of torch, such as torch.exp, which "
                f"differentiates it; at {row} it raised {type(error).__name__}: {error}"
            ) from error
        if not isinstance(value, torch.Tensor) or value.numel() != 1 or value.is_complex():
            found = f"a tensor of shape {tuple(value.shape)}" if torch.is_tensor(value) else repr(value)
            raise TypeError(
                f"log_partition must return a torch tensor with one real number, got {found} at {row}; "
                "sums over the parameters end in .sum()"
            )

    def _value(self, theta: Any) -> Any:
        return self.log_partition(theta).reshape(())

    def _potential(self, X: Array) -> Array:
        """First derivatives of the log-partition function, whose derivatives are the metric."""
        import torch
        from torch.func import jacrev, vmap

        points = torch.tensor(X, dtype=torch.float64)
        return np.asarray(vmap(jacrev(self._value))(points).detach().numpy(force=True))

    def _derivatives(self, X: Array, orders: int = 2) -> Metric:
        """The metric and its derivatives up to an order."""
        import torch
        from torch.func import jacrev, vmap

        points = torch.tensor(X, dtype=torch.float64)
        outside = ~np.isfinite(vmap(self._value)(points).detach().numpy(force=True))
        found, function = [], jacrev(jacrev(self._value))
        for _ in range(orders + 1):
            found.append(vmap(function)(points).detach().numpy(force=True))
            function = jacrev(function)
        found[0][outside] = np.nan  # derivatives may be finite there: that of a logarithm is
        return Metric(*found, *[np.empty(0)] * (2 - orders))


@dataclass(frozen=True, eq=False)
class _Parameters(Operand):
    """Rows of natural parameters, for their squared distances."""

    family: ExponentialFamily
    rows: Array

    def invariants(self, other: _Parameters, symmetric: bool) -> Invariants:

        def write(rows: slice, columns: slice, out: NDArray[Any]) -> None:
            tile = _Parameters(self.family, self.rows[rows])
            # Squares of longer ones overflow in double precision; kernels are zero long before.
            out[:] = np.minimum(tile.lengths(other.rows[columns]), LARGEST) ** 2

        return Invariants((len(self.rows), len(other.rows)), np.dtype(float), _TILE, write)

    def lengths(self, other: Array) -> Array:
        """Distances of all pairs."""
        first, second = np.repeat(self.rows, len(other), axis=0), np.tile(other, (len(self.rows), 1))
        found, differ = np.zeros(len(first)), np.flatnonzero((first != second).any(axis=1))
        try:
            with blas_in_one_thread():  # matrices are small
                found[differ] = lengths(
                    self.family._derivatives, first[differ], second[differ], self.family._potential
                )
        except NoGeodesic as error:
            i, j = divmod(int(differ[error.pairs[0]]), len(other))
            raise ValueError(
                f"no shortest path was found between {self.rows[i]} and {other[j]}: the metric changes "
                "too much between them, rounding loses it, or points between them are not parameters of "
                "the family; use rows that are closer together, or a log_partition with full precision "
                "there"
            ) from None
        return found.reshape(len(self.rows), len(other))
