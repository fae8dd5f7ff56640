"""Kernels that are a function of the angle: Cosine, ArcCosine, Zonal."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from array_api_compat import array_namespace

from mercer._arrays import Array, row_lengths, row_maxima, to_double
from mercer._validation import check_choice, is_whole, refuse_rows
from mercer.engine import engine_for
from mercer.kernels.base import check_spherical
from mercer.kernels.radial import RadialKernel
from mercer.kernels.realised import LawKernel
from mercer.laws import AngularShape
from mercer.profiles import PowerProfile, Profile, compile_profile
from mercer.spaces import Euclidean, Sphere, SphericalSpace
from mercer.spaces.base import product_sums
from mercer.spaces.realisations.eigenmaps import HarmonicMap
from mercer.spaces.spherical import LevelWeights
from mercer.special import heat_expansion, zonal
from mercer.special.funk_hecke import arccosine_weights, funk_hecke


@dataclass(eq=False, repr=False)
class Cosine(RadialKernel):
    """The cosine of the angle between two points.

    ``k(x, y) = cos(theta) = x.y`` for unit vectors.  On the simplex it is the Bhattacharyya kernel
    ``sum_i sqrt(p_i q_i)``.  Positive semidefinite, of rank at most n.

    Parameters
    ----------
    space : Sphere or Simplex

    Examples
    --------
    >>> from mercer.kernels import Cosine
    >>> from mercer.spaces import Simplex
    >>> Cosine(Simplex())([[1, 0], [9, 16]])
    array([[1. , 0.6],
           [0.6, 1. ]])
    """

    space: SphericalSpace = Sphere()  # noqa: RUF009 (immutable)

    magnifies = False

    def is_zonal(self) -> bool:
        return True

    def explicit_features(self, X: Any) -> Any:
        """See :class:`Kernel`; the points as unit vectors."""
        self.validate()
        return self.space.embed(self.space.check(X))[0]

    def validate(self) -> None:
        check_spherical(self)

    def _compile(self, n: int) -> Profile:
        return PowerProfile()


@dataclass(eq=False, repr=False)
class ArcCosine(RadialKernel):
    """Arc-cosine kernels: infinitely wide layers of step, ReLU and squared ReLU units.

    ``k(x, y) = |x|^p |y|^p s(theta)`` with, for order 0, 1, 2, ``s = 1 - theta / pi``,
    ``(sin theta + (pi - theta) cos theta) / pi`` and
    ``(3 sin theta cos theta + (pi - theta)(1 + 2 cos^2 theta)) / (3 pi)``, and p = order.  Depth L
    composes the layer L times: the cosine of the angle in one layer is s of the previous layer, and
    p = order^L.  Positive semidefinite on all of R^n.

    Each layer of order 0 takes the square root of the gap to 1.  Equal directions are recognised and
    have the value of the diagonal, and NumPy rows that are nearly equal are subtracted.  For tensors the
    cosine has a rounding error of 1e-15, by which the value is off by up to 1.4e-8, 5.4e-5, 3.3e-3 and
    2.6e-2 at depths 1 to 4 for nearly equal directions.

    Parameters
    ----------
    order : {0, 1, 2}
        Degree of the units.
    depth : int
        Number of layers.
    normalized : bool
        Use s alone, without the norms; rows of zeros are then refused.

    References
    ----------
    .. [1] Y. Cho, L. Saul, "Kernel methods for deep learning", NeurIPS 2009.

    Examples
    --------
    >>> from mercer.kernels import ArcCosine
    >>> ArcCosine(order=1)([[1.0, 0.0], [0.0, 2.0]]).round(4)
    array([[1.    , 0.6366],
           [0.6366, 4.    ]])
    """

    order: int = 1
    depth: int = 1
    normalized: bool = False

    space = Euclidean()
    embeds_alike = True
    has_opposites = True
    common_invariant = 1.0

    def validate(self) -> None:
        check_choice(self, "order", (0, 1, 2))
        check_choice(self, "normalized", (True, False))
        if not is_whole(self.depth) or self.depth not in range(1, 1001):
            raise ValueError(f"depth of ArcCosine must be from 1 to 1000, got {self.depth!r}")

    @property
    def radial_power(self) -> int:  # type: ignore[override]
        """See :class:`Kernel`."""
        return 0 if self.normalized else self.order**self.depth

    def require_levels(self) -> None:
        self.validate()

    def feature_map(self, n: int, size: int, seed: int) -> HarmonicMap:
        levels = self.nonzero_levels(n)
        return HarmonicMap.of(
            self, n, levels, size, seed, lambda numbers: self.level_weights(n, numbers)
        )

    def level_weights(self, n: int, levels: Sequence[int]) -> LevelWeights:
        self.validate()
        numbers = np.asarray(levels, dtype=int)
        if self.depth == 1:
            weights = arccosine_weights(self.order, n, numbers)
        else:
            weights = funk_hecke(self._shape, n, int(numbers.max()) + 1).nonnegative(n)[numbers]
        counts = np.exp(zonal.log_multiplicities(n, int(numbers.max()) + 1)[numbers].astype(float))
        rest = max(1.0 - float(weights @ counts), 0.0)
        return LevelWeights(weights, 1.0, rest, np.zeros((len(numbers), 0)), np.zeros(0))

    def embed(self, X: Any, Y: Any = None) -> tuple[Any, Any]:
        left = self.directions(X, "X")
        return left, left if Y is None else self.directions(Y, "Y")

    def column_sums(self, X: Any, Y: Any, weights: Any) -> Any:
        return product_sums(*self.embed(X, Y), weights)

    def directions(self, X: Any, name: str) -> Any:
        """Rows divided by their lengths."""
        if self.radial_power == 0:
            refuse_rows(row_maxima(X) == 0, name, "is all zeros and has no direction; drop it")
        # A row of zeros stays zero: its factor |x|^p removes it from every product.
        return engine_for(X).unit_rows(X)

    def row_scale(self, X: Any) -> Any:
        """See :class:`~mercer.spaces.base.Embedding`; ``|x|^p``."""
        if self.radial_power == 0:
            return None
        with np.errstate(over="ignore"):
            # In double precision: the power magnifies rounding errors.
            factors = row_lengths(to_double(X)) ** self.radial_power
            xp = array_namespace(factors)
            factors = xp.astype(factors, X.dtype, copy=False)
            squares = factors * factors  # K(x, x), the largest values
        if not bool(xp.all(xp.isfinite(squares))):
            raise ValueError(
                f"lengths of rows to the power {2 * self.radial_power} overflow; use normalized=True"
            )
        return factors

    def _shape(self, theta: Array) -> Array:
        """The composed function of the angle."""
        shape = (_step_shape, _relu_shape, _square_shape)[self.order]
        for _ in range(self.depth - 1):
            gap = shape(theta)
            near, far = heat_expansion.angles(np.minimum(gap, 2 - gap))
            theta = np.where(gap <= 1, near, far)
        return 1 - shape(theta)

    def _compile(self, n: int) -> Profile:
        return compile_profile(lambda u: self._shape(heat_expansion.angles(u)), "folded")


@dataclass(eq=False, repr=False)
class Zonal(LawKernel):
    """A function of the angle of your own.

    ``k(x, y) = s(theta) / s(0)`` with a shape s that is positive definite on the sphere: all weights
    ``a_l = E[s(theta) P_l(cos theta)]`` of ``s = sum_l a_l N_l P_l`` are at least zero.  They come with
    bounds on their errors from :func:`~mercer.harmonics.funk_hecke`, and serve features, sparse Gaussian
    processes and covering bounds.  Gram matrices do not need them: they use the shape itself.

    A shape with a weight that is negative beyond its error is refused, by the level.  A function that
    is positive definite in n dimensions is so in all lower ones, so that dimensions 3, 10, 30 and 100
    are tested too.  The test is as good as double precision: level l is seen if its part ``a_l N_l`` of
    s(0) exceeds about ``1e-16 N_l^(1/2)``.

    Parameters
    ----------
    space : Sphere or Simplex
    shape : callable
        From an array of angles in [0, pi] to an array of values.  Models with a function that can be
        imported from a module can be pickled; a lambda or a local function cannot.
    normalized : bool
        Divide by s(0).

    See Also
    --------
    Spectral : a kernel by the weights of its levels.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.kernels import Zonal
    >>> from mercer.spaces import Sphere
    >>> def laplace(theta):
    ...     return np.exp(-theta)
    >>> k = Zonal(Sphere(), laplace)
    >>> k([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]).round(4)
    array([[1.    , 0.2079],
           [0.2079, 1.    ]])
    >>> k.level_weights(3, range(3)).weights.round(4)
    array([0.2608, 0.0957, 0.0261])
    >>> Zonal(Sphere(), np.sin)([[1.0, 0.0, 0.0]])
    Traceback (most recent call last):
        ...
    ValueError: shape must be positive at angle 0, where it is k(x, x), got 0.0
    """

    space: SphericalSpace
    shape: Callable[[Array], Any]
    normalized: bool = True

    def law(self, n: int) -> AngularShape:
        return AngularShape(self.shape)

    def validate(self) -> None:
        check_spherical(self)
        super().validate()
        if not self.is_zonal():
            raise TypeError(
                f"space must be Sphere() or Simplex(), got {self.space!r}; for axes give Sphere() and a "
                "shape that is the same at theta and pi - theta"
            )
        if not callable(self.shape):
            raise TypeError(f"shape must be a function of the angle, got {self.shape!r}")


def _step_shape(theta: Array) -> Array:
    """``1 - s`` for order 0."""
    return theta / np.pi


def _relu_shape(theta: Array) -> Array:
    """``1 - s`` for order 1."""
    versine = 2 * np.sin(theta / 2) ** 2
    return versine + (_excess(theta) - theta * versine) / np.pi


def _square_shape(theta: Array) -> Array:
    """``1 - s`` for order 2."""
    square = np.sin(theta) ** 2
    return (_excess(2 * theta) / 2 + 2 / 3 * square * (np.pi - theta)) / np.pi


def _excess(x: Array) -> Array:
    """``x - sin x`` without cancellation at small x, which deep kernels would magnify."""
    z = x * x
    series = x * z / 6 * (1 - z / 20 * (1 - z / 42 * (1 - z / 72 * (1 - z / 110 * (1 - z / 156)))))
    return np.where(x < 0.4, series, x - np.sin(x))
