"""What a kernel between clouds is: weighted point sets under a base kernel."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer._arrays import number
from mercer._validation import check_choice, check_positive
from mercer.engine.clouds import Base, Clouds
from mercer.kernels import scale
from mercer.kernels.base import Kernel
from mercer.kernels.euclidean import Gaussian
from mercer.kernels.structured import StructuredKernel
from mercer.spaces.clouds import check_clouds, naming_clouds
from mercer.spaces.realisations import sampling

Array = NDArray[np.float64]
#: Points with at most this many coordinates have Gaussian values from differences, which are exact.
_FEW_COORDINATES = 8
#: A variance below this fraction of the base kernel's values drowns in their rounding.
_LEAST_VARIANCE = 1e-12


class CloudKernel(StructuredKernel):
    """A kernel between clouds: finite sets of weighted points, compared by a base kernel.

    Points are given as a list of clouds.  A cloud is an array of shape (k, d), of any size k, or a
    tuple of two, ``(points, weights)``; an array of shape (m, k, d) is m clouds.  For a base kernel on
    strings, graph nodes or other objects a cloud is a list of these.  Weights are uniform by default,
    not negative, and sum to 1.  Everything is computed in double precision; clouds that are all in
    single precision have results in single precision.

    Parameters of the base kernel are reached by nested names, as ``base__length_scale``; they can be
    searched but are no part of ``theta``, and gradients do not see them.

    A subclass writes its values for pairs (:meth:`_pairs`) and for each cloud with itself
    (:meth:`_own`), as logarithms unless it says otherwise: a normalised kernel then does not suffer
    from plain values beyond the floating range.
    """

    #: Whether the subclass computes logarithms of its values.
    _logarithmic = True

    #: Logarithms of normalised values go like the range parameter to this power, if they do.
    _range_power: float | None = None
    _range_rows = 80

    base: Kernel
    rescale_weights: bool

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters of the kernel and, if deep, of its base kernel."""
        params: dict[str, Any] = super().get_params(deep=False)
        if deep and hasattr(self.base, "get_params"):
            params.update((f"base__{k}", v) for k, v in self.base.get_params().items())
        return params

    def sample(self, size: int, rng: np.random.Generator, clusters: int | None = None) -> list[Any]:
        """See :class:`Kernel`; clouds of up to seven points, every second one with weights."""
        points, clouds = self.base.sample(2 * size, rng, clusters), []
        for i, k in enumerate(rng.integers(1, 8, size=size)):
            cloud = [points[j] for j in rng.choice(len(points), size=k, replace=False)]
            clouds.append((cloud, rng.dirichlet(np.ones(k))) if i % 2 else cloud)
        return clouds

    @abstractmethod
    def _pairs(self, P: Clouds, Q: Clouds | None) -> Array:
        """(Logarithms of) the values; the diagonal is :meth:`_own` if Q is None."""

    @abstractmethod
    def _own(self, P: Clouds) -> Array:
        """(Logarithm of) each k(x, x)."""

    def _pairs_slope(self, P: Clouds, name: str) -> Array:
        """Derivative of :meth:`_pairs` of P by the logarithm of a hyperparameter."""
        raise ValueError(f"{type(self).__name__} has no continuous hyperparameter {name!r}")

    def _validate(self) -> None:
        owner = type(self).__name__
        if not isinstance(self.base, Kernel):
            raise TypeError(f"base of {owner} must be a kernel, such as Gaussian(), got {self.base!r}")
        if not self.base.positive_semidefinite:
            raise ValueError(f"base of {owner} must be positive semidefinite; {self.base!r} is not")
        if hasattr(self.base, "_validate"):
            self.base._validate()
        check_positive(self, *self.continuous())
        check_choice(self, "normalized", (True, False))
        check_choice(self, "rescale_weights", (True, False))

    def _check(self, X: Any, Y: Any) -> tuple[Clouds, Clouds | None]:
        P = self._check_one(X, "X")
        if Y is None:
            return P, None
        Q = self._check_one(Y, "Y")
        if isinstance(P.points, np.ndarray) and P.points.shape[1] != Q.points.shape[1]:
            raise ValueError(
                f"clouds of X have points of dimension {P.points.shape[1]}, those of Y of "
                f"{Q.points.shape[1]}; they must agree"
            )
        if isinstance(self.base, StructuredKernel):
            with naming_clouds(X=("X", P), Y=("Y", Q)):
                self.base._check(P.points, Q.points)
        return P, Q

    def _check_one(self, X: Any, name: str) -> Clouds:
        vectors = bool(self.base.requires_vector_input)
        P = check_clouds(X, name, vectors=vectors, rescale=bool(self.rescale_weights))
        with naming_clouds(X=(name, P)):
            self.base.diag(P.points)
        return P

    def pair_similarities(
        self, X: Any, max_rows: int, rng: np.random.Generator
    ) -> tuple[scale.Similarities, int]:
        """See :class:`Kernel`."""
        self._validate()
        P, most = self._check_one(X, "X"), min(max_rows, self._range_rows)
        rows, keys = sampling.distinct_sample(len(P), lambda rows: _cloud_keys(P, rows), most, rng)
        P = P.select(rows)
        pairs = sampling.different_pairs(keys)

        def logarithms(kernel: Any) -> Array:
            kernel._validate()
            logs = kernel._pairs(P, None)
            own = np.diagonal(logs) / 2
            return np.asarray(logs[pairs] - own[pairs[0]] - own[pairs[1]])

        if self._range_power is None:
            return lambda kernel: np.exp(logarithms(kernel)), len(rows)
        name, power = str(self.range_parameter()), self._range_power
        unit = number(getattr(self, name))
        logs = logarithms(self)
        return lambda kernel: np.exp(logs * (getattr(kernel, name) / unit) ** power), len(rows)

    def points_gram(self, P: Clouds) -> Base:
        """The base kernel's Gram matrix between points of clouds such as P."""
        base = self.base
        plain = type(base) is Gaussian and base.column_scales is None
        if plain and P.points.shape[1] <= _FEW_COORDINATES:
            rate = 0.5 * base.inverse_square()

            def gram(X: Array, Y: Array, out: Array | None = None) -> Array:
                from mercer.compiled.measures import gaussian_block

                out = np.empty((len(X), len(Y))) if out is None else out
                gaussian_block(X, np.ascontiguousarray(Y.T), rate, out)
                return out

            return gram
        return lambda X, Y, out=None: np.asarray(base(X, Y), dtype=np.float64)

    def _featured(self, P: Clouds, Q: Clouds | None) -> tuple[Clouds, Clouds | None] | None:
        """Clouds of explicit features, if the base kernel has them."""
        features = self.base.explicit_features(P.points)
        if not isinstance(features, np.ndarray):
            return None
        if Q is None:
            return replace(P, points=features), None
        return replace(P, points=features), replace(Q, points=self.base.explicit_features(Q.points))

    def centred(self, P: Clouds, Q: Clouds | None) -> tuple[Clouds, Clouds | None] | None:
        """The same moved to the origin, for what no shift changes: far from it, digits are lost."""
        featured = self._featured(P, Q)
        if featured is None:
            return None
        F, G = featured
        shift = (F if G is None else G).points.mean(axis=0)
        return replace(F, points=F.points - shift), G and replace(G, points=G.points - shift)

    def check_variance(
        self, variance: float, P: Clouds, Q: Clouds | None, featured: tuple[Clouds, Clouds | None] | None
    ) -> None:
        """Refuse a variance that drowns in the rounding of the base kernel's values, or of features."""
        if featured is None:
            squares = [self.base.diag(Z.points) for Z in (P, Q) if Z is not None]
        else:
            squares = [np.vecdot(F.points, F.points) for F in featured if F is not None]
        largest = max(float(np.max(part)) for part in squares)
        least = _LEAST_VARIANCE * largest
        if not variance > least:
            raise ValueError(
                f"{self._limit(least)}: it drowns in the rounding of the base kernel, whose values "
                f"reach {largest:.3g}"
            )

    def _limit(self, least: float) -> str:
        """What the scale must be for a variance above ``least``."""
        name = self.continuous()[0]
        return f"{name} of {type(self).__name__} must be above {least:.3g}, got {getattr(self, name)!r}"

    def _gram(self, P: Clouds, Q: Clouds | None) -> Array:
        values = self._pairs(P, Q)
        if self._logarithmic and self.normalized:
            own = np.diagonal(values).copy() if Q is None else self._own(P)
            values -= own[:, None] / 2 + (own if Q is None else self._own(Q)) / 2
        return in_precision(self._plain(values), P, Q)

    def _diagonal(self, P: Clouds) -> Array:
        if self._logarithmic and self.normalized:
            return in_precision(np.ones(len(P)), P, None)
        return in_precision(self._plain(self._own(P)), P, None)

    def _slope(self, P: Clouds, name: str) -> Array:
        slope = self._pairs_slope(P, name)
        if self.normalized:
            own = np.diagonal(slope) / 2
            slope -= own[:, None] + own
        slope *= self._gram(P, None)
        return in_precision(slope, P, None)

    def _plain(self, values: Array) -> Array:
        """Values from their logarithms, in place."""
        if self._logarithmic:
            with np.errstate(over="ignore", under="ignore"):
                np.exp(values, out=values)
        if not np.isfinite(values).all():
            raise ValueError(
                f"values of {self!r} exceed the floating range; use normalized=True or other parameters"
            )
        return values


def _cloud_keys(P: Clouds, rows: NDArray[np.intp]) -> NDArray[Any]:
    """What equal clouds have in common."""
    found = []
    for row in rows.tolist():
        part = slice(int(P.starts[row]), int(P.starts[row + 1]))
        points = P.points[part]
        own = points.tobytes() if isinstance(points, np.ndarray) else repr(points).encode()
        found.append(hash(own + P.weights[part].tobytes()))
    return np.array(found)


def in_precision(values: Array, P: Clouds, Q: Clouds | None) -> Array:
    """Values in single precision where all clouds are."""
    single = P.single and (Q is None or Q.single)
    return values.astype(np.float32) if single else values
