"""The base class of all kernels: scikit-learn's interface, algebra and products with vectors."""

from __future__ import annotations

import copy
import inspect
from abc import abstractmethod
from collections.abc import Callable, Hashable, Iterator, Sequence
from functools import cache
from typing import Any, Self

import numpy as np
from array_api_compat import array_namespace
from sklearn.gaussian_process import kernels as sk

from mercer._arrays import (
    Array,
    count,
    floating_beside,
    is_single,
    number,
    on_cpu,
    placed,
    selectable,
    sliceable,
    taken,
    to_single,
)
from mercer._repr import constructor_call
from mercer._validation import check_positive, check_room, check_vector, check_weights, is_number
from mercer.contributions import Contributions
from mercer.engine import engine_for, joins
from mercer.engine.base import Products, combined
from mercer.engine.equal import row_keys
from mercer.kernels import scale
from mercer.kernels.identity import identity
from mercer.spaces import Euclidean, Space
from mercer.spaces.base import Embedding
from mercer.spaces.realisations import sampling
from mercer.spaces.realisations.base import FeatureMap
from mercer.spaces.realisations.eigenfunctions import Eigenfunctions
from mercer.spaces.spherical import LevelWeights

_NO_LEVELS = (
    "the kernel must be ArcCosine, or Heat, Matern or another SpectralKernel on Sphere() or Simplex(), "
    "got {!r}; sparse Gaussian processes take every kernel of rows in On(slice(None), ...), as a kernel "
    "of whole tables, and so do all machines of mercer.machines"
)
#: Elements of one block of a Gram matrix that is multiplied and thrown away.
BLOCK = 2_000_000
#: Most letters of a kernel's name in a sum.
_LABEL = 60


class Kernel(sk.Kernel):
    """Base class of all kernels.

    It subclasses scikit-learn's Gaussian-process kernel, so that every scikit-learn estimator accepts
    it and evaluates it on whole matrices.  ``k(X)`` and ``k(X, Y)`` are Gram matrices.  Kernels can be
    added and multiplied, with each other and with positive numbers, and raised to whole powers: the
    operations that keep them positive semidefinite.
    """

    #: False for the few "kernels" of the literature that are not positive semidefinite.
    positive_semidefinite = True

    @abstractmethod
    def __call__(self, X: Any, Y: Any = None, eval_gradient: bool = False) -> Any:
        """Gram matrix between the rows of X and of Y (default X).

        With ``eval_gradient`` also its derivatives with respect to the logarithms of the
        hyperparameters, an array of shape (m, m, len(theta)).
        """

    @abstractmethod
    def diag(self, X: Any) -> Any:
        """Diagonal of ``k(X)``, computed without the other entries."""

    def multiple(self, factor: float, X: Any, Y: Any = None, plus: Any = None) -> Any:
        """``factor * k(X, Y) + plus``, in one pass over the matrix where the kernel has a way.

        The matrix is new even if the factor is 1, whatever the kernel keeps: it may be overwritten.  So
        may ``plus``, which has to be symmetric without Y, as k(X) is.

        Examples
        --------
        >>> from mercer.kernels import Linear
        >>> Linear().multiple(0.5, [[2.0], [4.0]])
        array([[2., 4.],
               [4., 8.]])
        """
        check_room(X, Y, matrices=2)
        K = self(X, Y)  # which a kernel may keep
        return K * factor if plus is None else combined(factor, K, plus)

    def validate(self) -> None:
        """Raise for hyperparameters and options out of range."""
        check_positive(self, *self.continuous())

    def matvec(self, X: Any, Y: Any, v: Any) -> Any:
        """Product ``k(X, Y) @ v``, without storing the Gram matrix.

        Parameters
        ----------
        X, Y : m and p points
            ``Y=None`` stands for X; for both, as for Y that is X itself, white noise is included.
        v : array of shape (p,) or (p, q)
        """
        v = check_vector(v, count(X if Y is None else Y))
        products = []
        for rows, block, lacking in _blocks(self, X, Y):
            product = _product(block, v)
            if lacking is not None:
                own = floating_beside(placed(v[rows, ...], lacking), lacking)
                product = product + (lacking if v.ndim == 1 else lacking[:, None]) * own
            products.append(product)
        return array_namespace(products[0]).concat(products)

    def weighted_sum(self, X: Any, Y: Any, weights: Any) -> Any:
        """Sum of ``weights * k(X, Y)`` over all pairs, without storing the Gram matrix.

        On CUDA devices, derivatives with respect to rows and hyperparameters store no matrix either.

        Parameters
        ----------
        X, Y : m and p points
            As in :meth:`matvec`.
        weights : array of shape (m, p)

        Examples
        --------
        >>> import numpy as np
        >>> from mercer.kernels import Gaussian
        >>> y = np.array([1.0, -1.0, 1.0])
        >>> float(Gaussian().weighted_sum([[0.0], [1.0], [3.0]], None, np.outer(y, y)).round(4))
        1.5385
        """
        weights = check_weights(weights, X, count(X if Y is None else Y))
        if (total := self._sum_in_one_pass(X, Y, weights)) is not None:
            return total
        total = 0.0
        for rows, block, lacking in _blocks(self, X, Y):
            some = placed(weights[rows, ...], block)
            total = total + (block * some).sum()
            if lacking is not None:
                own = array_namespace(block).linalg.diagonal(some[:, rows])
                total = total + (lacking * own).sum()
        return total

    def _sum_in_one_pass(self, X: Any, Y: Any, weights: Any) -> Any:
        """The sum, if an engine has a way without blocks of rows, which say what overflows."""
        products = self.products(X, Y) if joins(X, self.product_sizes()) else None
        total = None if products is None else engine_for(X).weighted_sum(products, weights)
        single = all(part is None or is_single(part) for part in (X, Y, weights))
        return to_single(total) if total is not None and single else total

    def product_sizes(self) -> tuple[int, int] | None:
        """Numbers of products and of their terms; see :meth:`products`."""
        return None

    def products(self, X: Any, Y: Any = None) -> Products | None:
        """The Gram matrix as a sum of products that an engine can compute in one pass, if it is one."""
        return None

    def is_stationary(self) -> bool:
        """Tell whether the kernel depends on the difference of two vectors only."""
        return False

    def is_isotropic(self) -> bool:
        """Tell whether the kernel depends on the Euclidean distance of two rows only."""
        return False

    def is_zonal(self) -> bool:
        """Tell whether the kernel depends on the angle between two points only."""
        return False

    @property
    def point_space(self) -> Space | None:
        """The space of the points; None for sums and for points such as strings and clouds."""
        return None

    @property
    def laplacian_space(self) -> Space | None:
        """The space whose Laplacian the kernel weighs; None if it is defined in another way."""
        return None

    @property
    def embedding(self) -> Embedding | None:
        """Embedding of points whose matrix product gives invariants; None if there is no invariant."""
        return None

    @property
    def embedding_key(self) -> Hashable:
        """A key that is equal for kernels with the same embedding."""
        return self.embedding

    def continuous(self) -> tuple[str, ...]:
        """Names of the hyperparameters that optimisers may change: those with ``NAME_bounds``."""
        return _bounded_parameters(type(self))  # type: ignore[arg-type]

    @property
    def hyperparameters(self) -> list[sk.Hyperparameter]:
        """Hyperparameters in scikit-learn's sense."""
        return [
            sk.Hyperparameter(name, "numeric", getattr(self, f"{name}_bounds"))
            for name in self.continuous()
        ]

    def free(self) -> tuple[str, ...]:
        """Names of the continuous hyperparameters that are not fixed, in the order of theta."""
        return tuple(h.name for h in self.hyperparameters if not h.fixed)

    def with_floats(self) -> Self:
        """A copy whose continuous hyperparameters, which may be tensors, are plain numbers."""
        plain = copy.copy(self)
        for name in self.continuous():
            setattr(plain, name, number(getattr(self, name)))
        return plain

    def range_parameter(self) -> str | None:
        """Name of the hyperparameter that sets the range of the kernel; None if there is none."""
        return None

    def scaled_to(
        self, X: Any, similarity: float = 0.5, *, max_rows: int = 1000, random_state: int = 0
    ) -> Kernel:
        """A copy of the kernel whose range suits the points.

        The range parameter (a time, a length scale, ...) is chosen so that the median of
        ``k(x, y) / sqrt(k(x, x) k(y, y))`` over pairs of distinct points equals ``similarity``.  This is
        one unit for all kernels, spaces and dimensions: 0.1 gives a local kernel, 0.9 a wide one, and
        0.5 is a good start.  The bounds for optimisers are set around the value found: from where even
        neighbours are dissimilar to where all points look alike.  Bounds that are ``"fixed"`` stay so.

        In a sum or product each part is scaled on its own.  Kernels without a range return themselves.

        Parameters
        ----------
        X : points
            On a graph, only pairs within a connected component are used.
        similarity : float
            Between 0 and 1.
        max_rows : int
            Size of the random sample of points that is used; expensive kernels use fewer.
        random_state : int
            Seed of the sample.

        Examples
        --------
        >>> import numpy as np
        >>> from mercer.kernels import Heat
        >>> from mercer.spaces import Simplex
        >>> counts = np.random.default_rng(0).poisson(0.3, size=(100, 800))
        >>> heat = Heat(Simplex()).scaled_to(counts, 0.3)
        >>> round(heat.t_star, 2), float(np.median(heat(counts)[np.triu_indices(100, 1)]).round(3))
        (0.93, 0.3)
        """
        kernel = self.learnt_from(X)
        if kernel.range_parameter() is None:
            scale.check_similarity(similarity)
            scale.check_max_rows(max_rows)
            return kernel
        return scale.scaled(kernel, X, similarity, max_rows, random_state)

    def learnt_from(self, X: Any, y: Any = None) -> Kernel:
        """The kernel with what it learns from training points, such as scales of columns.

        The targets y are for kernels that learn weights of their parts; others ignore them.
        """
        return self

    @property
    def parts(self) -> tuple[sk.Kernel, ...]:
        """The kernels that this one combines; none for most."""
        return ()

    def terms(self) -> tuple[tuple[float, sk.Kernel], ...]:
        """Weights and kernels whose sum this kernel is; itself, unless it is a sum.

        Examples
        --------
        >>> from mercer.kernels import Gaussian, Linear
        >>> (2 * (Gaussian() + 3 * Linear())).terms()
        ((2.0, Gaussian()), (6.0, Linear()))
        """
        return ((1.0, self),)

    def contributions(self, X: Any, Y: Any, weights: Any) -> tuple[Contributions, ...]:
        """Contributions of features of the points to ``sum_y weights[x, y] k(x, y)``.

        Empty if features are not distinguished.  There may be several views of the same sum, such as
        words and neighbours.

        Parameters
        ----------
        X, Y : m and p points
        weights : array of shape (m, p)

        Examples
        --------
        >>> import numpy as np
        >>> from mercer.kernels import Linear
        >>> x, Y = [[1.0, 2.0]], [[3.0, 4.0], [5.0, 0.0]]
        >>> Linear().contributions(x, Y, np.array([[1.0, -1.0]]))[0].values
        array([[-2.,  8.]])
        """
        return ()

    def column_blocks(self) -> dict[str, list[Any]]:
        """Columns of a table that the kernel uses together, by name; empty if it uses all."""
        blocks: dict[str, list[Any]] = {}
        for part in self.parts:
            blocks |= part.column_blocks() if isinstance(part, Kernel) else {}
        return blocks

    @property
    def label(self) -> str:
        """A short name of the kernel in a sum."""
        whole = repr(self)
        return whole if len(whole) <= _LABEL else f"{type(self).__name__}(...)"

    #: Whether points become more similar (1) or less similar (-1) as the range parameter grows.
    range_sense = 1
    #: Most points in the sample that sets the range; expensive kernels have fewer.
    _range_rows = 1000

    def range_start(self) -> float:
        """Value at which the search for a range begins."""
        value = getattr(self, str(self.range_parameter()))
        return number(value) if is_number(value) and 0 < number(value) < np.inf else 1.0

    def pair_similarities(
        self, X: Any, max_rows: int, rng: np.random.Generator
    ) -> tuple[scale.Similarities, int]:
        """A function from kernels to their normalised values at pairs of distinct points of a sample.

        Also returns the number of points.
        """
        points, keys = self._range_sample(X, min(max_rows, self._range_rows), rng)
        pairs = sampling.different_pairs(keys)

        def similarities(kernel: Any) -> Array:
            K, lengths = on_cpu(kernel(points)), np.sqrt(on_cpu(kernel.diag(points)))
            return np.asarray(K[pairs] / (lengths[pairs[0]] * lengths[pairs[1]]), dtype=float)

        return similarities, len(keys)

    def _range_sample(self, X: Any, most: int, rng: np.random.Generator) -> tuple[Any, Any]:
        """A sample of points, and keys that are equal for equal points."""
        X = sliceable(on_cpu(X))
        rows, keys = sampling.distinct_sample(count(X), lambda rows: row_keys(X[rows]), most, rng)
        return X[rows], keys

    #: The kernel is ``|x|^p |y|^p`` times a function of directions; this is p.
    radial_power = 0

    def require_levels(self) -> None:
        """Raise unless the kernel has weights on the levels of a sphere."""
        raise TypeError(_NO_LEVELS.format(self))

    def nonzero_levels(self, n: int) -> tuple[int, ...]:
        """Levels with a positive weight among the first 64; some kernels skip every other level."""
        return tuple(np.flatnonzero(self.level_weights(n, range(64)).weights > 0).tolist())

    def level_weights(self, n: int, levels: Sequence[int]) -> LevelWeights:
        """Weights on levels of the sphere S^(n-1), as spherical harmonics and sparse processes use them.

        Examples
        --------
        >>> from mercer.kernels import ArcCosine
        >>> (ArcCosine().level_weights(3, range(5)).weights * np.pi).round(7)
        array([1.1780972, 0.5235988, 0.0736311, 0. , 0.0020453])
        """
        raise TypeError(_NO_LEVELS.format(self))

    def eigenfunctions(self, columns: int, count: int | None) -> Eigenfunctions | None:
        """Eigenfunctions of the space with the largest weights; None if none are known.

        ``columns`` is the number of columns of the data and ``count`` the number of functions, or None
        for all of them; see :meth:`Space.eigenfunctions`.
        """
        return None

    def feature_map(self, n: int, size: int, seed: int) -> FeatureMap:
        """Features of points with n columns, at most ``size``, whose inner products are the kernel."""
        raise TypeError(
            "SpectralFeatures needs ArcCosine, or a kernel on a space with known eigenfunctions "
            f"(Sphere, Simplex, Projective, Torus, Rotations, Graph), got {self!r}"
        )

    def sample(self, size: int, rng: np.random.Generator, clusters: int | None = None) -> Any:
        """Draw points for :func:`mercer.testing.check_kernel`, scattered or in so many clusters."""
        space = Euclidean() if self.point_space is None else self.point_space
        return space.sample(size, rng, clusters)

    def isometry(self, rng: np.random.Generator) -> Callable[[Any], Any] | None:
        """Draw a map of points that leaves the kernel unchanged; None if no such map is known."""
        return None

    def explicit_features(self, X: Any) -> Any:
        """Matrix F of few columns with ``k(X, Y) = F(X) @ F(Y).T``; None if the kernel has none."""
        return None

    def __add__(self, other: Any) -> Kernel:
        return _combined("+", self, other)

    def __radd__(self, other: Any) -> Kernel:
        # The sum of a list begins with the whole number zero.
        return self if type(other) is int and other == 0 else _combined("+", other, self)

    def __mul__(self, other: Any) -> Kernel:
        return _combined("*", self, other)

    def __rmul__(self, other: Any) -> Kernel:
        return _combined("*", other, self)

    def __pow__(self, exponent: int) -> Kernel:
        from mercer.kernels.algebra import Exponentiation

        return Exponentiation(self, exponent)

    def __eq__(self, other: Any) -> bool:
        return type(self) is type(other) and identity(self) == identity(other)

    def __hash__(self) -> int:
        return hash((type(self), identity(self)))

    def __repr__(self) -> str:
        return constructor_call(self)


def _blocks(kernel: Kernel, X: Any, Y: Any) -> Iterator[tuple[slice, Any, Any]]:
    """Some rows of ``k(X, Y)`` at a time, and what they lack on the diagonal of ``k(X)`` if Y is X."""
    same = Y is None or Y is X
    X = sliceable(X) if kernel.requires_vector_input else selectable(X)
    Y = X if same else Y
    size = max(1, BLOCK // max(count(Y), 1))
    if kernel.requires_vector_input:
        size = engine_for(X).rows_at_once(X, size, count(Y))
    diagonal = kernel.diag(X) if same else None
    for start in range(0, max(count(X), 1), size):  # empty points are refused by the kernel
        rows, lacking = slice(start, min(start + size, count(X))), None
        block = kernel(taken(X, rows), Y)
        if diagonal is not None:
            lacking = diagonal[rows] - array_namespace(block).linalg.diagonal(block[:, rows])
        yield rows, block, lacking


def _product(K: Any, v: Any) -> Any:
    """``K @ v`` in the wider of both precisions, which tensors do not find by themselves."""
    v = floating_beside(placed(v, K), K)
    if K.dtype == v.dtype:
        return K @ v
    xp = array_namespace(K)
    wide = xp.result_type(K, v)
    return xp.astype(K, wide, copy=False) @ xp.astype(v, wide, copy=False)


def _combined(sign: str, first: Any, second: Any) -> Kernel:
    """The sum or product of two kernels, one of which may be given as a number."""
    from mercer.kernels.algebra import Product, Sum, as_kernel

    return (Sum if sign == "+" else Product)(as_kernel(first), as_kernel(second))


@cache
def _bounded_parameters(kind: type) -> tuple[str, ...]:
    """Names of the parameters of a class that have bounds for optimisers."""
    names = inspect.signature(kind).parameters
    return tuple(name for name in names if f"{name}_bounds" in names)


def log_derivative(kernel: Kernel, name: str, function: Callable[[Any], Any]) -> Any:
    """Derivative with respect to the logarithm of a hyperparameter, by a complex step."""
    moved = kernel.with_floats()
    value, step = getattr(moved, name), 1e-30
    setattr(moved, name, complex(value, value * step))
    return np.imag(function(moved)) / step


def check_spherical(kernel: Any) -> None:
    """Raise unless the kernel's space is one of unit vectors."""
    if not isinstance(kernel.space, Space):
        raise TypeError(f"space must be Sphere() or Simplex(), got {kernel.space!r}")
    kernel.space.require_unit_vectors()


def nested_params(params: dict[str, Any], name: str, deep: bool) -> dict[str, Any]:
    """Parameters of a kernel and, if deep, of the kernel among them that has this name."""
    inner = params[name]
    if not (deep and isinstance(inner, sk.Kernel)):
        return params
    return params | {f"{name}__{key}": value for key, value in inner.get_params().items()}


def has_range(kernel: Any) -> bool:
    """Tell whether a kernel, or a part of it, has a range parameter."""
    if not isinstance(kernel, Kernel):
        return False
    return kernel.range_parameter() is not None or any(has_range(part) for part in kernel.parts)
