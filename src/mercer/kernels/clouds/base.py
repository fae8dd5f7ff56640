"""The base class of kernels between clouds: weighted point sets, compared by a base kernel."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from typing import Any

import numpy as np
from array_api_compat import array_namespace
from numpy.typing import NDArray
from scipy import sparse

from mercer._arrays import Array, filled, is_watched, number, squared_lengths, to_double, to_single
from mercer._validation import check_choice
from mercer.contributions import Contributions
from mercer.engine import engine_for
from mercer.engine.clouds import Base, Clouds, exponentials, mean_products, mean_squares
from mercer.kernels import scale
from mercer.kernels.base import Kernel, nested_params
from mercer.kernels.euclidean import Gaussian
from mercer.kernels.structured import StructuredKernel
from mercer.spaces.clouds import check_clouds, check_one_place, naming_clouds
from mercer.spaces.realisations import sampling

#: For points with at most this many coordinates, Gaussian kernels are computed from differences.
_FEW_COORDINATES = 8
#: A variance below this fraction of the values of the base kernel is lost in their rounding errors.
_LEAST_VARIANCE = 1e-12


class CloudKernel(StructuredKernel):
    """Base class of kernels between clouds: finite sets of weighted points.

    Input is a list of clouds.  A cloud is an array of shape (k, d), of any size k, or a tuple
    ``(points, weights)``; an array of shape (m, k, d) is m clouds.  For a base kernel on strings,
    graph nodes or other objects a cloud is a list of these.  Weights are uniform by default; they must
    be non-negative and sum to 1.  Computations are in double precision; if all clouds are in single
    precision, so are the results.  For tensors, results are tensors on the same device, with
    derivatives with respect to points and hyperparameters.

    Parameters of the base kernel have nested names such as ``base__length_scale``.  They can be
    searched, but they are not part of ``theta``, and gradients do not include them.

    A subclass implements its values for pairs (:meth:`_pairs`) and for each cloud with itself
    (:meth:`_own`), by default as logarithms, so that normalised kernels do not overflow.
    """

    #: Whether the subclass computes logarithms of its values.
    _logarithmic = True

    #: Logarithms of normalised values are proportional to the range parameter to this power.
    _range_power: float | None = None
    _range_rows = 80

    base: Kernel
    rescale_weights: bool

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters of the kernel and, if deep, of the base kernel."""
        return nested_params(super().get_params(deep=False), "base", deep)

    def sample(self, size: int, rng: np.random.Generator, clusters: int | None = None) -> list[Any]:
        """See :class:`Kernel`; clouds of up to seven points, every second one with weights."""
        points, clouds = self.base.sample(2 * size, rng, clusters), []
        for i, k in enumerate(rng.integers(1, 8, size=size)):
            cloud = [points[j] for j in rng.choice(len(points), size=k, replace=False)]
            clouds.append((cloud, rng.dirichlet(np.ones(k))) if i % 2 else cloud)
        return clouds

    @abstractmethod
    def _pairs(self, P: Clouds, Q: Clouds | None) -> Any:
        """(Logarithms of) the values; if Q is None, with :meth:`_own` on the diagonal."""

    @abstractmethod
    def _own(self, P: Clouds) -> Any:
        """(Logarithm of) each k(x, x)."""

    def range_parameter(self) -> str | None:
        """See :class:`Kernel`; the continuous hyperparameter, if there is one."""
        return next(iter(self.continuous()), None)

    def _pairs_slope(self, P: Clouds, name: str) -> Array:
        """Derivative of :meth:`_pairs` of P with respect to the logarithm of a hyperparameter."""
        raise ValueError(f"{type(self).__name__} has no continuous hyperparameter {name!r}")

    def validate(self) -> None:
        owner = type(self).__name__
        if not isinstance(self.base, Kernel):
            raise TypeError(f"base of {owner} must be a kernel, such as Gaussian(), got {self.base!r}")
        if not self.base.positive_semidefinite:
            raise ValueError(f"base of {owner} must be positive semidefinite; {self.base!r} is not")
        self.base.validate()
        super().validate()
        check_choice(self, "rescale_weights", (True, False))

    def _check(self, X: Any, Y: Any) -> tuple[Clouds, Clouds | None]:
        P = self._check_one(X, "X")
        if Y is None:
            return P, None
        Q = self._check_one(Y, "Y")
        check_one_place(P, Q)
        if not isinstance(P.points, list) and P.points.shape[1] != Q.points.shape[1]:
            raise ValueError(
                f"clouds of X have points of dimension {P.points.shape[1]}, those of Y have "
                f"dimension {Q.points.shape[1]}; they must agree"
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
        watched = [each for each in self.continuous() if is_watched(getattr(self, each))]
        if watched and not engine_for(P.points).differentiable:
            raise TypeError(
                f"{watched[0]} is a tensor that requires a gradient, but the clouds are not tensors; "
                "give tensors for both, or detach it"
            )
        return P

    def value(self, name: str) -> Any:
        """A hyperparameter: a number, or a tensor if it is one that requires a gradient."""
        found = getattr(self, name)
        return found if is_watched(found) else number(found)

    def all_points(self, X: Any) -> Any:
        """The points of all clouds, checked, one after the other."""
        return self._check_one(X, "X").points

    def pair_similarities(
        self, X: Any, max_rows: int, rng: np.random.Generator
    ) -> tuple[scale.Similarities, int]:
        self.validate()
        P, most = self._check_one(X, "X").in_main_memory(), min(max_rows, self._range_rows)
        rows, keys = sampling.distinct_sample(len(P), lambda rows: _cloud_keys(P, rows), most, rng)
        P = P.select(rows)
        pairs = sampling.different_pairs(keys)

        def logarithms(kernel: Any) -> Array:
            kernel.validate()
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
        """A function that computes the Gram matrix of the base kernel between points of clouds."""
        base = self.base
        plain = type(base) is Gaussian and base.column_scales is None
        engine = engine_for(P.points)
        if plain and engine.takes_operands and P.points.shape[1] <= _FEW_COORDINATES:
            rate = 0.5 * base.inverse_square()

            def gram(X: Array, Y: Array, out: Array | None = None) -> Array:
                from mercer.compiled.measures import gaussian_block

                out = np.empty((len(X), len(Y))) if out is None else out
                gaussian_block(X, np.ascontiguousarray(Y.T), rate, out)
                return out

            return gram
        return lambda X, Y, out=None: to_double(engine.like_rows(base(X, Y), X))

    def _featured(self, P: Clouds, Q: Clouds | None) -> tuple[Clouds, Clouds | None] | None:
        """The clouds in explicit features; None if the base kernel has none."""
        features = self.base.explicit_features(P.points)
        if features is None or sparse.issparse(features):
            return None
        if Q is None:
            return replace(P, points=features), None
        return replace(P, points=features), replace(Q, points=self.base.explicit_features(Q.points))

    def inner_products(self, P: Clouds, Q: Clouds) -> Array:
        """Inner products of points of P with mean embeddings of Q, one row for each point."""
        alone = replace(P, weights=np.ones(len(P.weights)), starts=np.arange(len(P.weights) + 1))
        featured = self._featured(alone, Q)
        if featured is None:
            return mean_products(alone, Q, self.points_gram(P))
        points, others = featured
        assert others is not None
        return np.asarray(points.points @ others.sums(others.points).T)

    def own_products(self, P: Clouds) -> Array:
        """Inner products of points with the mean embeddings of their own clouds."""
        return self.inner_products(P, P)[np.arange(len(P.owners)), P.owners]

    def squared_norms(self, P: Clouds) -> Any:
        """Squared lengths of mean embeddings."""
        featured = self._featured(P, None)
        if featured is None:
            return mean_squares(P, self.points_gram(P))
        return squared_lengths(featured[0].sums(featured[0].points))

    def of_points(self, P: Clouds, sums: Array, exact: bool) -> tuple[Contributions, ...]:
        """Contributions of the points of each cloud, by their places in it."""
        values = np.zeros((len(P), int(P.sizes.max())))
        values[P.owners, np.arange(len(sums)) - P.starts[P.owners]] = sums
        return (Contributions("point", list(range(values.shape[1])), values, exact),)

    def centred(self, P: Clouds, Q: Clouds | None) -> tuple[Clouds, Clouds | None] | None:
        """The same, shifted to the origin to avoid rounding errors, for shift-invariant kernels."""
        featured = self._featured(P, Q)
        if featured is None:
            return None
        F, G = featured
        shift = array_namespace(F.points).mean((F if G is None else G).points, axis=0)
        return replace(F, points=F.points - shift), G and replace(G, points=G.points - shift)

    def check_variance(
        self, variance: float, P: Clouds, Q: Clouds | None, featured: tuple[Clouds, Clouds | None] | None
    ) -> None:
        """Raise for a variance that is lost in rounding errors of the base kernel or its features."""
        if featured is None:
            squares = [self.base.diag(Z.points) for Z in (P, Q) if Z is not None]
        else:
            squares = [squared_lengths(F.points) for F in featured if F is not None]
        largest = max(number(part.max()) for part in squares)
        least = _LEAST_VARIANCE * largest
        if not variance > least:
            raise ValueError(
                f"{self._limit(least)}: it is lost in rounding errors of the base kernel, whose values "
                f"reach {largest:.3g}"
            )

    def _limit(self, least: float) -> str:
        """Message with the limit of the hyperparameter for a variance above ``least``."""
        name = self.continuous()[0]
        return f"{name} of {type(self).__name__} must be above {least:.3g}, got {getattr(self, name)!r}"

    def _gram(self, P: Clouds, Q: Clouds | None) -> Any:
        values = self._pairs(P, Q)
        if self._logarithmic and self.normalized:
            own = values.diagonal() / 2 if Q is None else self._own(P) / 2
            values -= own[:, None] + (own if Q is None else self._own(Q) / 2)
        return in_precision(self._plain(values), P, Q)

    def _diagonal(self, P: Clouds) -> Any:
        if self._logarithmic and self.normalized:
            return in_precision(filled((len(P),), 1.0, P.points), P, None)
        return in_precision(self._plain(self._own(P)), P, None)

    def _slope(self, P: Clouds, name: str) -> Array:
        slope = self._pairs_slope(P, name)
        if self.normalized:
            own = np.diagonal(slope) / 2
            slope -= own[:, None] + own
        slope *= self._gram(P, None)
        return in_precision(slope, P, None)

    def _plain(self, values: Any) -> Any:
        """Values from their logarithms; NumPy's are computed in place."""
        if self._logarithmic:
            values = exponentials(values)
        if not array_namespace(values).isfinite(values).all():
            raise ValueError(f"values of {self!r} overflow; use normalized=True or other parameters")
        return values


def _cloud_keys(P: Clouds, rows: NDArray[np.intp]) -> NDArray[Any]:
    """Keys that are equal for equal clouds."""
    found = []
    for row in rows.tolist():
        part = slice(int(P.starts[row]), int(P.starts[row + 1]))
        points = P.points[part]
        own = points.tobytes() if isinstance(points, np.ndarray) else repr(points).encode()
        found.append(hash(own + P.weights[part].tobytes()))
    return np.array(found)


def in_precision(values: Any, P: Any, Q: Any) -> Any:
    """Values in single precision if all clouds are in single precision."""
    return to_single(values) if P.single and (Q is None or Q.single) else values
