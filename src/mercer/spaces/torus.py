"""The torus: rows of angles, or of other numbers with a period."""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from array_api_compat import array_namespace, device
from numpy.typing import NDArray
from scipy import sparse

from mercer._validation import refuse_rows
from mercer.engine import GramOptions, engine_for
from mercer.engine.equal import row_keys
from mercer.engine.operands import Differences
from mercer.laws import Law
from mercer.spaces.base import RowSpace
from mercer.spaces.realisations import sampling
from mercer.spaces.realisations.base import (
    FeatureMap,
    Moving,
    Realisation,
    Similarities,
    Slope,
    parameters,
)
from mercer.spaces.realisations.eigenfunctions import Eigenfunctions, LogWeights
from mercer.spaces.realisations.factors import FactorRealisation
from mercer.spaces.realisations.zonal import absolute_factor
from mercer.special import theta

Array = NDArray[np.float64]

_TURN = 2 * math.pi
#: Points of the lattice that are summed one by one, and what may be left out of their sum.
_MOST_POINTS = 20_000
_TRUNCATION = 1e-15
#: Usual number of eigenfunctions, and most columns that they are known for.
_USUAL, _MOST_COLUMNS = 500, 100
#: Least smoothness of Matern kernels: rougher ones mix times that are no longer numbers.
_LEAST_NU = 0.1


@dataclass(frozen=True, repr=False)
class Torus(RowSpace):
    """Angles: rows of real numbers, each taken modulo a period.

    ``K(x, y) = prod_j theta(x_j - y_j, t) / (2 pi)^p`` is the heat kernel, with the theta function
    ``theta(a, t) = sum_k exp(-k^2 t) cos(k a)`` over all integers k, once numbers with a period are
    turned into angles ``2 pi x / period``.  The Laplacian has the eigenvalues ``|k|^2`` at the points k
    of the lattice Z^p, with the eigenfunctions ``cos(k.x)`` and ``sin(k.x)``.

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
    #: Columns of a circle.
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

    @property
    def factor(self) -> _Circle:
        """The space of one column."""
        return _CIRCLE

    def natural_time(self, n: int) -> float:
        """``log(2 n)``, at which the first level weighs as much as the constant."""
        return math.log(2 * n)

    def check_matern(self, nu: float, length_scale: float) -> None:
        """See :meth:`Space.check_matern`."""
        if nu < _LEAST_NU:
            raise ValueError(f"nu of Matern on {self!r} must be at least {_LEAST_NU}, got {nu!r}")

    def check(self, X: Any, name: str = "X") -> Any:
        """Validate dense rows and return angles in [-pi, pi], in double precision.

        See :meth:`RowSpace.check`.
        """
        if sparse.issparse(X):
            raise TypeError(f"{name} is sparse; points of {self!r} are dense rows: give X.toarray()")
        X = super().check(X, name)
        xp = array_namespace(X)
        X = xp.astype(X, xp.float64, copy=False)
        period = self._periods(X)
        part = xp.remainder(X, period)
        return xp.where(part > period / 2, part - period, part) * (_TURN / period)

    def _periods(self, X: Any) -> Any:
        """Periods of the columns, in an array like X."""
        found = np.broadcast_to(np.asarray(self.period, dtype=float), (int(X.shape[1]),)).copy()
        return array_namespace(X).asarray(found, dtype=X.dtype, device=device(X))

    def _check_rows(self, X: Any, name: str) -> None:
        xp = array_namespace(X)
        rounding = float(xp.finfo(X.dtype).eps) * xp.abs(X)
        refuse_rows(
            xp.any(rounding > 1e-3 * self._periods(X), axis=1), name,
            "has a number so large that its digits do not tell the angle; give it modulo the period",
        )  # fmt: skip

    def restored(self, angles: Array) -> Array:
        """Rows of numbers with their periods, of checked ones."""
        return angles * (self._periods(angles) / _TURN)

    def _scattered(self, shape: tuple[int, int], rng: np.random.Generator) -> np.ndarray:
        return rng.uniform(-1, 2, size=shape) * self._periods(np.empty(shape))

    def isometry(self, rng: np.random.Generator) -> Callable[[Any], Any]:
        """See :meth:`Space.isometry`; a shift of each angle."""
        return lambda X: X + rng.uniform(size=X.shape[1]) * self._periods(X)

    def factors(self, X: Any) -> list[Any]:
        """Checked rows, column by column."""
        return [X[:, j : j + 1] for j in range(int(X.shape[1]))]

    def distances(self, X: Any, Y: Any = None) -> Array:
        """Distances between rows, ``sqrt(sum_j a_j^2)`` with the angles a_j between them, in radians.

        Examples
        --------
        >>> from mercer.spaces import Torus
        >>> Torus(period=360).distances([[350.0]], [[10.0]]).round(6)    # twenty degrees
        array([[0.349066]])
        """
        P, Q = self.check_pair(X, Y)
        return np.asarray(np.sqrt((_wrapped(P[:, None] - (P if Q is None else Q)) ** 2).sum(axis=2)))

    def realise(self, law: Law, n: int, normalized: bool = True) -> Realisation:
        """A product over the columns, or a sum over the lattice: see :meth:`Space.realise`."""
        if law.levels is not None:
            raise TypeError(
                f"weights by levels are for spheres; on {self!r} give a function of the eigenvalues"
            )
        try:
            law.times(n)
        except TypeError:  # it mixes no diffusions
            return LatticeSum(self, law, n, normalized)
        return TorusProduct(self, law, n, normalized)

    def eigenfunctions(self, n: int, count: int | None, log_weights: LogWeights) -> TorusFunctions:
        """Cosines and sines of the heaviest levels, whole ones: see :meth:`Space.eigenfunctions`."""
        if n > _MOST_COLUMNS:
            raise ValueError(f"eigenfunctions are for at most {_MOST_COLUMNS} columns, not {n}")
        lattice = _heaviest(n, _USUAL if count is None else count, log_weights)
        return TorusFunctions(replace(self, n=n), lattice)


def _wrapped(angle: Any) -> Any:
    """Differences of angles, brought to [-pi, pi]."""
    return angle - _TURN * array_namespace(angle).round(angle / _TURN)


class _Circle:
    """One column of angles; the invariant of a pair is the square of the difference."""

    def chart(self, X: Array) -> tuple[Array, Array]:
        """Angles, and factors of the points (one)."""
        return X, np.ones(len(X))

    def embed(self, X: Array, Y: Array) -> tuple[Differences, Differences]:
        """See :meth:`Embedding.embed`."""
        left = Differences(*self.chart(X))
        return left, left if Y is X else Differences(*self.chart(Y))

    def realise(self, law: Any, n: int) -> _CircleHeat:
        """A diffusion, by its one time."""
        return _CircleHeat(float(law.times(n)[0][0]))


_CIRCLE = _Circle()


@dataclass(frozen=True)
class _Angular:
    """A profile of the difference of two angles."""

    function: Callable[[Any], Any]
    error: float = 1e-15

    def apply(self, tile: NDArray[Any]) -> None:
        """See :class:`Profile`."""
        tile[...] = self.evaluate(tile)

    def evaluate(self, w: Any) -> Any:
        """See :class:`Profile`."""
        return self.function(_wrapped(w))


class _Squared(_Angular):
    """The same as a profile of the square of the difference."""

    def evaluate(self, w: Any) -> Any:
        """See :class:`Profile`."""
        return super().evaluate(array_namespace(w).sqrt(w))


@dataclass(frozen=True)
class _CircleHeat:
    """The heat kernel of a circle, normalised."""

    t: float

    @property
    def log_self_similarity(self) -> float:
        """See :class:`Realisation`."""
        return theta.log_theta_at_zero(self.t) - math.log(_TURN)

    def self_rise(self, slope: Slope) -> float:
        """Its derivative by the logarithm of a hyperparameter."""
        return theta.rise_at_zero(self.t) * slope.chain

    def log_profile(self) -> _Squared:
        """Logarithm of the kernel."""
        return _Squared(self._log)

    def log_slope_profile(self, slope: Slope) -> _Squared:
        """Derivative of the logarithm."""
        return _Squared(lambda angle: slope.chain * theta.theta_rise(angle, self.t))

    def gram(self, P: Any, Q: Any, moving: Sequence[Moving]) -> Any:
        """Gram matrix of tensors."""
        xp = array_namespace(P)
        profile = _Angular(lambda angle: xp.exp(self._log(angle)))
        return self._of_differences(P, Q, profile, GramOptions(parameters=parameters(moving)))

    def slope_profile(self, slope: Slope) -> _Angular:
        """Derivative of the kernel, for tensors."""

        def function(angle: Any) -> Any:
            exponential = array_namespace(angle).exp(self._log(angle))
            return slope.chain * theta.theta_rise(angle, self.t) * exponential

        return _Angular(function)

    def log(self, P: Any, Q: Any = None) -> Any:
        """Logarithm of the Gram matrix of tensors."""
        return self._of_differences(P, Q, _Angular(self._log), GramOptions())

    def _log(self, angle: Any) -> Any:
        return theta.log_theta(angle, self.t)

    @staticmethod
    def _of_differences(P: Any, Q: Any, profile: _Angular, options: GramOptions) -> Any:
        other = P if Q is None else Q
        return engine_for(P).apply(P - other[:, 0][None, :], profile, options)


class TorusProduct(FactorRealisation):
    """A law on the torus that mixes diffusions, each a product over the columns."""

    def __init__(self, space: Torus, law: Law, n: int, normalized: bool) -> None:
        super().__init__(space, law, n, normalized)
        self._torus, self._law = space, law

    def features(self, size: int, seed: int) -> LatticeMap:
        """See :class:`Realisation`; cosines and sines of whole levels."""
        log_weights = partial(_log_weights, self._law, self._n)
        points = _heaviest(self._n, size, log_weights)
        return LatticeMap.of(points, log_weights, self.log_self_similarity, self._normalized)


def _log_weights(law: Law, n: int, eigenvalues: Array) -> Array:
    return np.asarray(law.log_weights(eigenvalues, n), dtype=float)


def _heaviest(n: int, count: int, log_weights: LogWeights) -> NDArray[np.int64]:
    """Points k, one of each pair k and -k, of the heaviest levels with at most so many functions."""
    levels, numbers = theta.short_levels(n, _MOST_POINTS)
    logs = log_weights(levels.astype(float))
    order = np.argsort(-logs, kind="stable")
    order = order[np.isfinite(logs[order])]
    order = order[np.cumsum(numbers[order]) <= count]
    if not order.size:
        raise ValueError(
            f"the heaviest level of the torus has more than {count} functions; allow for more"
        )
    points = theta.half_lattice(n, int(levels[order].max()))
    return points[np.isin((points**2).sum(axis=1), levels[order])]


def _functions(points: NDArray[np.int64], P: Any) -> Any:
    """``sqrt(2) cos(k.x)`` and ``sqrt(2) sin(k.x)`` at each k, and 1 at k = 0, of mean square one."""
    xp = array_namespace(P)
    phase = P @ xp.asarray(points.T, dtype=P.dtype, device=device(P))
    zero = int((points == 0).all(axis=1).sum())  # the first, if it is there
    waves = [math.sqrt(2) * wave(phase[:, zero:]) for wave in (xp.cos, xp.sin)]
    return xp.concat([xp.ones_like(phase[:, :zero]), *waves], axis=1)


def _eigenvalues(points: NDArray[np.int64]) -> Array:
    """Eigenvalues of those functions."""
    found = (points**2).sum(axis=1).astype(float)
    return np.concatenate([found, found[found > 0]])


@dataclass(frozen=True, eq=False)
class LatticeMap(FeatureMap):
    """``F_x = (sqrt(a(|k|^2)) cos(k.x), sqrt(a(|k|^2)) sin(k.x))`` at points k of the lattice."""

    points: NDArray[np.int64]
    roots: Array
    error: float

    @classmethod
    def of(
        cls, points: NDArray[np.int64], log_weights: LogWeights, log_total: float, normalized: bool
    ) -> LatticeMap:
        """The map of a law with the value ``exp(log_total)`` at equal points."""
        n = points.shape[1]
        factor = absolute_factor(None if normalized else log_total, n)
        logs = log_weights(_eigenvalues(points)) - n * math.log(_TURN) - log_total
        shares = np.exp(logs)
        error = max(1 - math.fsum(shares), 0.0) + 8 * float(np.finfo(float).eps)
        return cls(points, np.sqrt(factor * shares), factor * error)

    @property
    def eigenvalues(self) -> Array:  # type: ignore[override]
        """Eigenvalue of the Laplacian of each feature."""
        return _eigenvalues(self.points)

    def __call__(self, P: Any) -> Any:
        """See :class:`FeatureMap`; differentiable where rows are tensors."""
        if P.shape[1] != self.points.shape[1]:
            raise ValueError(f"X has {P.shape[1]} columns, but {self.points.shape[1]} when fitted")
        values = _functions(self.points, P)
        xp = array_namespace(values)
        return values * xp.asarray(self.roots, dtype=values.dtype, device=device(values))


class LatticeSum(Realisation):
    """``sum_k a(|k|^2) cos(k.(x - y)) / (2 pi)^p`` over the points k of a lattice, one by one."""

    def __init__(self, space: Torus, law: Law, n: int, normalized: bool) -> None:
        self._n, self._normalized = n, normalized
        self._log_weights = partial(_log_weights, law, n)
        levels, numbers = theta.short_levels(n, _MOST_POINTS)
        logs = self._log_weights(levels.astype(float)) + np.log(numbers)
        if not np.isfinite(logs.max()):
            raise ValueError("a spectral law must give at least one level a positive, finite weight")
        self._log_total = float(np.logaddexp.reduce(logs)) - n * math.log(_TURN)
        shares = np.exp(logs - logs.max())
        shares /= shares.sum()
        more, many = theta.next_levels(n, int(levels[-1]))
        tail = np.logaddexp.reduce(self._log_weights(more.astype(float)) + np.log(many))
        if tail - np.logaddexp.reduce(logs) > math.log(_TRUNCATION):
            raise ValueError(
                f"the weights of {law.name} still matter at the eigenvalue {levels[-1]}: on {space!r} "
                f"with {n} columns more than {_MOST_POINTS} points of the lattice would have to be "
                "summed; take weights that fall faster, fewer columns, or Heat or Matern"
            )
        beyond = np.flatnonzero(np.cumsum(shares[::-1])[::-1] > _TRUNCATION)
        self._points = theta.half_lattice(n, int(levels[beyond[-1]]))

    @property
    def log_self_similarity(self) -> float:
        """See :class:`Realisation`."""
        return self._log_total

    @property
    def _map(self) -> LatticeMap:
        return LatticeMap.of(self._points, self._log_weights, self._log_total, self._normalized)

    def gram(self, P: Any, Q: Any = None, moving: Sequence[Moving] = ()) -> Any:
        """See :class:`Realisation`."""
        if moving:
            raise TypeError("a sum over the lattice is not differentiable in parameters; detach them")
        found = self._map
        left = found(P)
        if Q is not None:
            return left @ found(Q).T
        K = left @ left.T
        xp = array_namespace(K)
        same = xp.eye(K.shape[0], dtype=xp.int8, device=device(K)) > 0
        return xp.where(same, self.diagonal(P)[:, None], (K + K.T) / 2)

    def diagonal(self, P: Any, moving: Sequence[Moving] = ()) -> Any:
        """See :class:`Realisation`; all points are alike."""
        factor = absolute_factor(None if self._normalized else self._log_total, self._n)
        return factor * array_namespace(P).ones_like(P[:, 0])

    def slopes(self, P: Any, slopes: Sequence[Slope]) -> tuple[Any, list[Any]]:
        """See :class:`Realisation`."""
        found = self._map
        F, weights = found(P), found.roots**2 / (found.roots**2).sum()
        scores = [np.asarray(slope.scores(found.eigenvalues), dtype=float) for slope in slopes]
        if self._normalized:
            scores = [s - weights @ s for s in scores]
        return self.gram(P), [(F * s) @ F.T for s in scores]

    def pair_similarities(
        self, P: Any, max_rows: int, rng: np.random.Generator
    ) -> tuple[Similarities, int]:
        """See :class:`Realisation`."""
        rows, keys = sampling.distinct_sample(len(P), lambda rows: row_keys(P[rows]), max_rows, rng)
        i, j = sampling.different_pairs(keys)

        def similarities(other: LatticeSum) -> Array:
            found: Array = other.gram(P[rows])
            return sampling.thinned(found[i, j] / found[0, 0])

        return similarities, len(rows)

    def features(self, size: int, seed: int) -> LatticeMap:
        """See :class:`Realisation`; cosines and sines of whole levels."""
        points = _heaviest(self._n, size, self._log_weights)
        return LatticeMap.of(points, self._log_weights, self._log_total, self._normalized)


@dataclass(frozen=True, eq=False)
class TorusFunctions(Eigenfunctions):
    """Cosines and sines, orthonormal over the torus of angles, at some points of the lattice."""

    space: Torus
    lattice: NDArray[np.int64]

    def __post_init__(self) -> None:
        levels = np.unique((self.lattice**2).sum(axis=1))
        rest, numbers = theta.remaining_levels(self.lattice.shape[1], levels)
        object.__setattr__(self, "eigenvalues", _eigenvalues(self.lattice))
        object.__setattr__(self, "rest_eigenvalues", rest)
        object.__setattr__(self, "_numbers", numbers)

    @property
    def _volume(self) -> float:
        return float(_TURN ** self.lattice.shape[1])

    @property
    def mean_squares(self) -> Array:
        """See :class:`Eigenfunctions`."""
        numbers: Array = self._numbers  # type: ignore[attr-defined]
        return np.concatenate([np.ones(len(self.eigenvalues)), numbers]) / self._volume

    def check(self, X: Any, name: str = "X") -> Array:
        """See :class:`Eigenfunctions`."""
        found: Array = self.space.check(X, name)
        return found

    def points(self, checked: Array) -> Array:
        """See :class:`Eigenfunctions`."""
        return self.space.restored(checked)

    def values(self, checked: Array) -> Array:
        """See :class:`Eigenfunctions`."""
        return np.asarray(_functions(self.lattice, checked) / math.sqrt(self._volume))

    def rest(self, checked: Array) -> Array:
        """See :class:`Eigenfunctions`; squares of cosine and sine of a pair add up to a constant."""
        squares = self.mean_squares[len(self.eigenvalues) :]
        return np.broadcast_to(squares, (len(checked), len(squares)))

    @property
    def fingerprint(self) -> str:
        """See :class:`Eigenfunctions`."""
        return f"{self.space!r} {np.unique(self.eigenvalues).astype(int).tolist()}"
