"""Spaces: sets of points, their validation, and the kernels that laws become on them."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from scipy import sparse
from sklearn.preprocessing import StandardScaler

from mercer._arrays import (
    as_sparse_as,
    constant_rows,
    finite_rows,
    in_one_precision,
    is_single,
    to_double,
    to_single,
)
from mercer._repr import constructor_call
from mercer._validation import as_rows, check_one_device, refuse_rows
from mercer.contributions import Contributions
from mercer.engine import Engine, Extent, engine_for
from mercer.profiles import Separation
from mercer.spaces.realisations.eigenfunctions import Eigenfunctions, LogWeights

if TYPE_CHECKING:
    from mercer.laws import Law
    from mercer.spaces.realisations.base import Realisation


class Space(ABC):
    """A set of points with a geometry; frozen, hashable, and shared rather than copied."""

    #: Weights of the edges between points, where the space is a graph.
    adjacency: Any = None
    #: Largest angle between two points in degrees, where the invariant of a pair is its cosine.
    widest_angle: float | None = None

    #: Whether distances depend on differences of points alone, as in flat space.
    is_flat = False

    @property
    def title(self) -> str:
        """Name of the space in running text."""
        return type(self).__name__.lower()

    def __repr__(self) -> str:
        return constructor_call(self)

    def __sklearn_clone__(self) -> Self:
        # Spaces are immutable and may hold large decompositions: clones of a kernel share them.
        return self

    #: Whether points are rows of numbers, which scikit-learn may check.
    requires_vector_input = True
    #: Whether rows may come as a sparse matrix.
    takes_sparse = False
    #: Whether the space needs double precision.
    computes_in_double = False

    @abstractmethod
    def check(self, X: Any, name: str = "X") -> Any:
        """Validate points and return them in the form that the space computes with.

        This is the one place where input is checked.  Errors name the row and say what to do.
        """

    @property
    def embedding(self) -> Embedding | None:
        """Embedding whose matrix product gives invariants; None if one number is not enough."""
        return None

    def check_pair(self, X: Any, Y: Any) -> tuple[Any, Any]:
        """Validate two sets of points; the second is returned as None if it is the first."""
        P = self.check(X, "X")
        return P, None if Y is None or Y is X else self.check(Y, "Y")

    def columns(self, P: Any) -> int:
        """Number of columns of checked points, which determines the kernel together with a law."""
        return int(P.shape[1])

    def engine(self, P: Any) -> Engine:
        """The engine that computes with checked points."""
        return engine_for(P)

    def like_points(self, values: Any, X: Any) -> Any:
        """Results as an array of the kind of X, and in its precision if the space needs double."""
        return engine_for(X).like_rows(to_single(values) if self.rounds(X) else values, X)

    def rounds(self, X: Any) -> bool:
        """Whether results of points X are computed in double precision and rounded to single."""
        return self.computes_in_double and is_single(X)

    def named_contributions(self, X: Any, found: tuple[Contributions, ...]) -> tuple[Contributions, ...]:
        """Contributions of features of points X, with the names of the features."""
        return tuple(c for c in found if c.kind != "column" or len(c.names) == np.shape(X)[1])

    def fixed_columns(self, given: int | None = None) -> int:
        """The number of columns, of the space or otherwise of the data; 0 for points without columns."""
        return 0

    def natural_time(self, n: int) -> float | None:
        """Unit of diffusion times for n columns, around which similarities vary most; or None."""
        return None

    def in_natural_units(self) -> Space:
        """The space for times in natural units, in which each factor of a product has its own."""
        return self

    @property
    def whole(self) -> Space:
        """The space that this one is a part of, and whose kernels it has."""
        return self

    def operator(self, name: Any) -> Any:
        """A symmetric matrix on the points, for spaces that are graphs."""
        raise TypeError(f"space must be a Graph, got {self!r}")

    def divergence_unit(self, n: int) -> float:
        """Unit of the symmetrised Kullback-Leibler divergence, for spaces of distributions."""
        raise TypeError(f"space must be Simplex(), NormalFamily() or NormalProduct(), got {self!r}")

    def require_vectors(self) -> None:
        """Raise unless points are vectors, of any length or unit vectors."""
        raise TypeError(f"space must be Euclidean(), Sphere() or Simplex(), got {self!r}")

    def require_unit_vectors(self) -> None:
        """Raise unless points are unit vectors, so that kernels may be functions of an angle."""
        raise TypeError(f"space must be Sphere() or Simplex(), got {self!r}")

    def require_expansion(self, order: int) -> None:
        """Raise unless the short-time expansion of the heat kernel is known to an order."""
        self.require_unit_vectors()

    def directions(self) -> Space:
        """The space of directions of rows: itself, if points are unit vectors."""
        raise TypeError(f"space must be Euclidean(), Sphere() or Simplex(), got {self!r}")

    def of_table(self) -> Space | None:
        """The space of rows with centred and scaled columns; None if columns must not be changed."""
        return None

    def column_scaler(self, with_mean: bool) -> StandardScaler | None:
        """The transformer that brings columns to one scale; None if they must not be changed."""
        return None

    def check_time(self, t: float) -> None:  # noqa: B027 (most spaces take all)
        """Raise for diffusion times that are too short for the arithmetic of the space."""

    def check_matern(self, nu: float, length_scale: float) -> None:  # noqa: B027 (the same)
        """Raise for smoothness and length scales that the space cannot compute."""

    def dimension(self, n: int) -> int:
        """Dimension of the manifold of rows with n columns."""
        return n

    def sample(self, size: int, rng: np.random.Generator, clusters: int | None = None) -> Any:
        """Draw points for the contract tests, scattered or in the given number of clusters."""
        raise TypeError(f"{type(self).__name__} cannot be sampled; write sample, or give points")

    def isometry(self, rng: np.random.Generator) -> Callable[[Any], Any] | None:
        """Draw a map of points that leaves every kernel of the space unchanged, if one is known."""
        return None

    def distances(self, X: Any, Y: Any = None) -> Any:
        """Distances between the points of X and of Y (default X), an array of shape (m, p)."""
        raise TypeError(
            f"{self!r} has no distances of its own; those in feature space are rkhs.distances(k(X))"
        )

    def realise(self, law: Law, n: int, normalized: bool = True) -> Realisation:
        """Turn a law into a kernel between points of the space.

        Parameters
        ----------
        law : Law
        n : int
            Number of columns.
        normalized : bool
            Divide by the value at equal points.
        """
        raise TypeError(
            f"{self!r} has no Laplacian, so a law on its spectrum is not defined; use another kernel"
        )

    def eigenfunctions(
        self, n: int, count: int | None, log_weights: LogWeights
    ) -> Eigenfunctions | None:
        """Eigenfunctions of the Laplacian with the largest weights under a law; None if unknown.

        Parameters
        ----------
        n : int
            Number of columns.
        count : int or None
            Largest number to return; None for all, or for the usual number if there are too many.
        log_weights : callable
            From eigenvalues to the logarithms of the law's weights.
        """
        return None

    def factor_eigenfunctions(
        self, n: Any, count: int, log_weights: LogWeights
    ) -> Eigenfunctions | None:
        """Eigenfunctions of the space as a factor of a product."""
        return self.eigenfunctions(n, count, log_weights)


class RowSpace(Space):
    """A space of rows of numbers; a subclass says which rows are points (:meth:`_check_rows`)."""

    #: Number of columns, or None to take it from the data.
    n: int | None
    #: Fewest columns that make sense.
    least_dimension = 1
    takes_sparse = True
    #: Columns of sampled points, unless the space fixes their number.
    sampled_columns = 5

    @abstractmethod
    def _check_rows(self, X: Any, name: str) -> None:
        """Raise for finite rows that are not points of the space."""

    def _may_refuse(self, extent: Extent) -> bool:
        """Tell whether some finite rows of this extent may not be points of the space."""
        return True

    def _completed(self, X: Any, name: str) -> Any:
        """Finite rows, with empty rows replaced by a point of the space, if there is a natural one."""
        return X

    def check(self, X: Any, name: str = "X") -> Any:
        """Validate rows and return them as a floating array (dense or CSR).

        Parameters
        ----------
        X : array-like, sparse matrix, data frame or array-API array of shape (m, n)
            One row per point.
        name : str
            What to call it in messages.

        Returns
        -------
        array of shape (m, n), float32 or float64
            The latter where the space needs double precision.
        """
        engine = engine_for(X)
        given, X = X, as_rows(engine.borrow(X), name)
        if sparse.issparse(X) and not self.takes_sparse:
            raise TypeError(f"{name} is sparse; points of {self!r} are dense rows: give X.toarray()")
        self._check_dimension(int(X.shape[1]), name)
        extent = (engine if X is given else engine_for(X)).extent(X)
        if extent is None or not math.isfinite(extent.largest) or self._may_refuse(extent):
            refuse_rows(~finite_rows(X), name, "contains NaN or infinity; drop or impute such rows")
            X = self._completed(X, name)
            self._check_rows(X, name)
        return to_double(X) if self.computes_in_double else X

    def fixed_columns(self, given: int | None = None) -> int:
        n = given if self.n is None else self.n
        if n is None:
            raise ValueError(
                f"{self!r} has no dimension of its own: give it the number of columns, n, or give X"
            )
        return int(n)

    def sample(self, size: int, rng: np.random.Generator, clusters: int | None = None) -> Any:
        rows = self._scattered((size, self.n or self.sampled_columns), rng)
        if clusters is None:
            return self._onto(rows)
        centres = rows[rng.integers(0, clusters, size=size)]
        return self._onto(centres * (1 + 1e-4 * rng.uniform(size=centres.shape)))

    def _scattered(self, shape: tuple[int, int], rng: np.random.Generator) -> np.ndarray:
        return rng.normal(size=shape)

    def _onto(self, rows: np.ndarray) -> np.ndarray:
        """Rows of numbers moved to points of the space."""
        return rows

    def isometry(self, rng: np.random.Generator) -> Callable[[Any], Any] | None:
        """See :class:`Space`; a rotation."""
        return lambda X: X @ random_rotation(X.shape[1], rng)

    def check_pair(self, X: Any, Y: Any) -> tuple[Any, Any]:
        """See :class:`Space`; both sets must have the same columns, in arrays of one library."""
        P, Q = super().check_pair(X, Y)
        if Q is None:
            return P, None
        if P.shape[1] != Q.shape[1]:
            raise ValueError(f"X has {P.shape[1]} columns, Y has {Q.shape[1]}; they must agree")
        check_one_device(P, Q)
        if engine_for(P) is not engine_for(Q):
            P, Q = as_sparse_as(Q, P), as_sparse_as(P, Q)
            if engine_for(P) is not engine_for(Q):
                raise TypeError("X and Y must be arrays of one library")
        return in_one_precision(P, Q)

    def _check_dimension(self, columns: int, name: str) -> None:
        space = type(self).__name__
        if self.n is not None and columns != self.n:
            raise ValueError(f"{name} has {columns} columns, but {self!r} has dimension {self.n}")
        if columns < self.least_dimension:
            raise ValueError(
                f"{name} has n_features = {columns}; {space} needs at least {self.least_dimension}"
            )


class Embedding(ABC):
    """A map from checked rows to matrices whose product is the *invariant* of every pair.

    The invariant is the number of which radial kernels are functions.
    """

    #: A law may magnify the rounding of an invariant, so that equal points must be recognised.
    magnifies = True
    #: Equal points are equal rows in both matrices that :meth:`embed` returns.
    embeds_alike = False
    #: Opposite rows are points whose invariant is minus that of a point with itself.
    has_opposites = False
    #: Slopes of kernels are taken at invariants no closer to zero than this.
    least_invariant = 0.0
    #: Invariant of a point with itself, where it is known to be the same for all points.
    common_invariant: float | None = None

    @abstractmethod
    def embed(self, X: Any, Y: Any = None) -> tuple[Any, Any]:
        """Map checked rows to (L, R) with ``invariant = L @ R.T``; R is L if possible."""

    def self_invariant(self, X: Any) -> Any:
        """Invariant of each row with itself, exactly."""
        if self.common_invariant is None:
            raise NotImplementedError(f"{type(self).__name__} needs a common_invariant, or this method")
        return constant_rows(X, self.common_invariant)

    def row_scale(self, X: Any) -> Any:
        """Factor of each row in the kernel, or None for 1."""
        return None

    def check_precision(self, X: Any) -> None:
        """Raise an error if checked rows have too low a precision for the kernel."""
        return

    def column_sums(self, X: Any, Y: Any, weights: Any) -> Any:
        """Sums over Y of the columns' parts of the invariants: an array like X.

        Entry (x, j) is ``sum_y weights[x, y] u_j(x, y)`` where the invariant is ``sum_j u_j``; None if
        it is not a sum over columns.
        """
        return None

    def are_apart(self, invariants: Any, own: Any, rounding: float) -> Any:
        """Tell which invariants differ from that of a point with itself by more than rounding."""
        return np.abs(invariants - own) > 8 * rounding * abs(own)


class RadialSpace(RowSpace, Embedding):
    """A space of rows of numbers in which one number determines how far apart two points are."""

    #: How profiles compute the separation of two points from the invariant.
    separation: Separation

    @property
    def embedding(self) -> Embedding:
        return self


def product_sums(L: Any, R: Any, weights: Any) -> Any:
    """Sums ``sum_y weights[x, y] L[x, j] R[y, j]``: parts of inner products by column."""
    sums = weights @ R
    return L.multiply(sums).toarray() if sparse.issparse(L) else L * sums


def random_rotation(n: int, rng: np.random.Generator) -> np.ndarray:
    """An orthogonal matrix."""
    return np.linalg.qr(rng.normal(size=(n, n)))[0]
