"""What a kernel is: scikit-learn's interface, values in messages, algebra, products with vectors."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np
from array_api_compat import array_namespace
from scipy import sparse
from sklearn.gaussian_process import kernels as sk

from mercer._arrays import count, number, on_cpu, sliceable
from mercer._repr import constructor_call
from mercer._validation import check_vector, is_number
from mercer.engine.equal import row_keys
from mercer.kernels import scale
from mercer.spaces import Space
from mercer.spaces.realisations import sampling
from mercer.spaces.realisations.base import FeatureMap
from mercer.spaces.realisations.eigenfunctions import Eigenfunctions
from mercer.spaces.realisations.zonal import LevelWeights

_NO_LEVELS = (
    "the kernel must be ArcCosine, or Heat, Matern or another SpectralKernel on Sphere() or Simplex(), "
    "got {!r}"
)
#: Elements of one block of a Gram matrix that is only passing through.
BLOCK = 2_000_000


class Kernel(sk.Kernel):
    """Base of all kernels; one object for SVMs, ridge regression, PCA, Gaussian processes and more.

    It subclasses scikit-learn's Gaussian-process kernel, which is what makes every scikit-learn
    estimator evaluate it on whole matrices.  ``k(X)`` and ``k(X, Y)`` are Gram matrices.  Kernels add
    and multiply with each other and with positive numbers, and take whole powers: operations that
    keep them positive semidefinite, and no others.
    """

    #: False for the few "kernels" of the literature that are not positive semidefinite.
    positive_semidefinite = True

    @abstractmethod
    def __call__(self, X: Any, Y: Any = None, eval_gradient: bool = False) -> Any:
        """Gram matrix between the rows of X and of Y (default X).

        With ``eval_gradient`` also its derivatives, shape (m, m, len(theta)), with respect to the
        logarithms of the hyperparameters.
        """

    @abstractmethod
    def diag(self, X: Any) -> Any:
        """Diagonal of ``k(X)``, without the rest."""

    def matvec(self, X: Any, Y: Any, v: Any) -> Any:
        """Product ``k(X, Y) @ v`` without the Gram matrix.

        Parameters
        ----------
        X, Y : rows of m and p points; ``Y=None`` stands for X
        v : array of shape (p,) or (p, q)
        """
        same = Y is None or Y is X
        X = sliceable(X)
        Y = X if same else Y
        v = check_vector(v, count(Y))
        size = max(1, BLOCK // max(count(Y), 1))
        diagonal = self.diag(X) if same else None
        blocks = []
        for start in range(0, count(X), size):
            part = slice(start, min(start + size, count(X)))
            # The array API wants the other axis named; lists have none.
            block = self(X[part, ...] if hasattr(X, "ndim") else X[part], Y)
            product = block @ v
            if diagonal is not None:
                # White noise and exact diagonals belong to k(X), and no block knows that it is in one.
                here = diagonal[part] - array_namespace(block).linalg.diagonal(block[:, part])
                product = product + (here if v.ndim == 1 else here[:, None]) * v[part, ...]
            blocks.append(product)
        return array_namespace(blocks[0]).concat(blocks)

    def is_stationary(self) -> bool:
        """Tell whether the kernel depends on the difference of two vectors only."""
        return False

    def continuous(self) -> tuple[str, ...]:
        """Names of the hyperparameters that gradients and optimisers see."""
        return ()

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
        """The kernel with plain numbers for hyperparameters, which may be tensors."""
        plain = copy.copy(self)
        for name in self.continuous():
            setattr(plain, name, number(getattr(self, name)))
        return plain

    def range_parameter(self) -> str | None:
        """Name of the hyperparameter that says how far similarity reaches; None if there is none."""
        return None

    def scaled_to(
        self, X: Any, similarity: float = 0.5, *, max_rows: int = 1000, random_state: int = 0
    ) -> Kernel:
        """Copy of the kernel whose range suits the points.

        The range parameter (a time, a length scale, ...) is chosen so that the median of
        ``k(x, y) / sqrt(k(x, x) k(y, y))`` over pairs of distinct points is the ``similarity``.  That is
        one unit for all kernels, spaces and dimensions: 0.1 is a local kernel, 0.5 a start, 0.9 a wide
        one.  Bounds for optimisers are set around it, from where even neighbours are not similar to
        where all points are alike; a parameter that is ``"fixed"`` for optimisers stays so.

        Of a sum or product each part is scaled; nothing is promised of the whole.  Kernels without a
        range return themselves.

        Parameters
        ----------
        X : points
            On a graph, pairs within one component count.
        similarity : float
            Between 0 and 1.
        max_rows : int
            Points that are looked at, drawn at random.  Kernels that are dear look at fewer.
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

    def learnt_from(self, X: Any) -> Kernel:
        """The kernel with what it takes from training points, such as scales of columns; else itself."""
        return self

    #: Whether points grow more similar (1) or less (-1) as the range parameter grows.
    _range_sense = 1
    #: Points that are looked at, at most, where each value of the kernel is dear.
    _range_rows = 1000

    def _range_start(self) -> float:
        """Where the search for a range begins."""
        value = getattr(self, str(self.range_parameter()))
        return number(value) if is_number(value) and 0 < number(value) < np.inf else 1.0

    def _pair_similarities(
        self, X: Any, max_rows: int, rng: np.random.Generator
    ) -> tuple[scale.Similarities, int]:
        """Normalised values of such kernels at pairs of distinct points, and the number of points."""
        points, keys = self._range_sample(X, min(max_rows, self._range_rows), rng)
        pairs = sampling.different_pairs(keys)

        def similarities(kernel: Any) -> scale.Array:
            K, lengths = kernel(points), np.sqrt(kernel.diag(points))
            return np.asarray(K[pairs] / (lengths[pairs[0]] * lengths[pairs[1]]), dtype=float)

        return similarities, len(keys)

    def _range_sample(self, X: Any, most: int, rng: np.random.Generator) -> tuple[Any, Any]:
        """Points to look at, and what equal ones have in common."""
        X = sliceable(on_cpu(X))
        rows, keys = sampling.distinct_sample(count(X), lambda rows: row_keys(X[rows]), most, rng)
        return X[rows], keys

    #: The power p of ``|x|`` that the kernel has as a factor, beside a function of directions.
    radial_power = 0

    def require_levels(self) -> None:
        """Raise unless the kernel has weights on the levels of a sphere."""
        raise TypeError(_NO_LEVELS.format(self))

    def weighty_levels(self, n: int) -> tuple[int, ...]:
        """Levels among the first 64 where the kernel has weight: some leave out every other one."""
        return tuple(np.flatnonzero(self.level_weights(n, range(64)).weights > 0).tolist())

    def level_weights(self, n: int, levels: Sequence[int]) -> LevelWeights:
        """Weights on levels of the sphere S^(n-1), which harmonics and sparse processes read.

        Examples
        --------
        >>> from mercer.kernels import ArcCosine
        >>> (ArcCosine().level_weights(3, range(5)).weights * np.pi).round(7)
        array([1.1780972, 0.5235988, 0.0736311, 0. , 0.0020453])
        """
        raise TypeError(_NO_LEVELS.format(self))

    def weighs(self, space: Space) -> bool:
        """Tell whether the kernel is given by weights on the Laplacian's eigenvalues of a space."""
        return False

    def eigenfunctions(self, columns: int, count: int | None) -> Eigenfunctions | None:
        """Eigenfunctions of the space that weigh most, for rows with so many columns; None without any.

        ``count`` is their number, or None for all; see :meth:`Space.eigenfunctions`.
        """
        return None

    def feature_map(self, n: int, size: int, seed: int) -> FeatureMap:
        """At most so many features for points with n columns, whose inner products are the kernel."""
        raise TypeError(
            "SpectralFeatures needs a kernel of a space whose eigenfunctions are known, as those on a "
            f"Graph, a Sphere or a Simplex, or ArcCosine, got {self!r}"
        )

    def explicit_features(self, X: Any) -> Any:
        """Matrix F with ``k(X, Y) = F(X) @ F(Y).T``, if the kernel has one of few columns, else None."""
        return None

    def __add__(self, other: Any) -> Kernel:
        from mercer.kernels.algebra import Sum, as_kernel

        return Sum(self, as_kernel(other))

    def __radd__(self, other: Any) -> Kernel:
        from mercer.kernels.algebra import Sum, as_kernel

        return Sum(as_kernel(other), self)

    def __mul__(self, other: Any) -> Kernel:
        from mercer.kernels.algebra import Product, as_kernel

        return Product(self, as_kernel(other))

    def __rmul__(self, other: Any) -> Kernel:
        from mercer.kernels.algebra import Product, as_kernel

        return Product(as_kernel(other), self)

    def __pow__(self, exponent: int) -> Kernel:
        from mercer.kernels.algebra import Exponentiation

        return Exponentiation(self, exponent)

    def __eq__(self, other: Any) -> bool:
        return type(self) is type(other) and _identity(self) == _identity(other)

    def __hash__(self) -> int:
        return hash((type(self), _identity(self)))

    def __repr__(self) -> str:
        return constructor_call(self)


def _identity(kernel: sk.Kernel) -> tuple[Any, ...]:
    """Parameters of a kernel in a form that is compared and hashed; kernels within are kernels."""
    return tuple((name, hashable(v)) for name, v in sorted(kernel.get_params(deep=False).items()))


def hashable(value: Any) -> Any:
    """Stand-in for a parameter's value, for comparisons and as a key."""
    value = on_cpu(value)
    if isinstance(value, np.ndarray | np.generic | list | tuple):
        return _array_identity(value)
    if sparse.issparse(value):
        rows = value.tocsr()
        return rows.shape, *(part.tobytes() for part in (rows.indptr, rows.indices, rows.data))
    if isinstance(value, dict):
        return frozenset((key, hashable(part)) for key, part in value.items())
    if isinstance(value, sk.Kernel) and not isinstance(value, Kernel):  # scikit-learn's have no hash
        return type(value), _identity(value)
    try:
        hash(value)
    except TypeError:
        return id(value)
    return value


def _array_identity(value: Any) -> Any:
    """Numbers by their bytes, whatever the container; other sequences by their parts."""
    try:
        array = np.asarray(value)
    except ValueError:  # ragged
        array = np.empty(0, dtype=object)
    if array.dtype.kind in "biuf":
        floats = array.astype(float) + 0.0  # no minus zero
        return floats.item() if array.ndim == 0 else (array.shape, floats.tobytes())
    return value if isinstance(value, np.generic) else tuple(map(hashable, value))


def log_derivative(kernel: Kernel, name: str, function: Callable[[Any], Any]) -> Any:
    """Derivative of a function of the kernel by the logarithm of a hyperparameter (complex step)."""
    moved = kernel.with_floats()
    value, step = getattr(moved, name), 1e-30
    setattr(moved, name, complex(value, value * step))
    return np.imag(function(moved)) / step


def check_spherical(kernel: Any) -> None:
    """Raise unless the kernel's space is one of unit vectors."""
    if not isinstance(kernel.space, Space):
        raise TypeError(f"space must be Sphere() or Simplex(), got {kernel.space!r}")
    kernel.space.require_unit_vectors()


def has_range(kernel: Any) -> bool:
    """Tell whether a kernel, or a part of it, can be brought to a similarity."""
    if not isinstance(kernel, Kernel):
        return False
    if isinstance(kernel, sk.KernelOperator):
        return has_range(kernel.k1) or has_range(kernel.k2)
    if isinstance(kernel, sk.Exponentiation):
        return has_range(kernel.kernel)
    return kernel.range_parameter() is not None
