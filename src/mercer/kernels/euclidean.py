"""Kernels of flat space: Linear, Polynomial, Gaussian."""

from __future__ import annotations

import copy
import math
from collections import Counter
from dataclasses import dataclass
from itertools import combinations_with_replacement
from typing import Any

import numpy as np
from array_api_compat import array_namespace
from scipy import sparse
from sklearn.preprocessing import StandardScaler

from mercer._arrays import asarray_like, filled, finite_rows, is_single, number, on_cpu, squared_lengths
from mercer._validation import check_positive, check_whole, is_number, refuse_rows
from mercer.kernels import columns
from mercer.kernels.radial import RadialKernel
from mercer.profiles import PowerProfile, ProductProfile, Profile, compile_profile
from mercer.spaces import Euclidean
from mercer.spaces.base import Embedding, product_sums

#: Polynomial kernels with more explicit features than this are not written out.
_FEW_FEATURES = 1000
#: Smallest and largest length scale, whose squares are normal numbers; and the smallest in single
#: precision.
_LENGTHS, _SINGLE_LENGTH = (1e-148, 1e148), 1e-18


class InnerProducts(Embedding):
    """Rows as they are: the invariant is the inner product ``x.y``."""

    magnifies = False

    def embed(self, X: Any, Y: Any = None) -> tuple[Any, Any]:
        return X, X if Y is None else Y

    def column_sums(self, X: Any, Y: Any, weights: Any) -> Any:
        return product_sums(X, Y, weights)

    def self_invariant(self, X: Any) -> Any:
        return squared_lengths(X)


_INNER_PRODUCTS = InnerProducts()


@dataclass(eq=False, repr=False)
class Linear(RadialKernel):
    """The inner product ``k(x, y) = x.y``.

    Examples
    --------
    >>> from mercer.kernels import Linear
    >>> Linear()([[5.9, 3.0]], [[6.9, 3.1]]).round(2)
    array([[50.01]])
    """

    space = Euclidean()
    embedding = _INNER_PRODUCTS

    def explicit_features(self, X: Any) -> Any:
        """See :class:`Kernel`; the rows themselves."""
        return self.space.check(X)

    def _compile(self, n: int) -> Profile:
        return PowerProfile()


@dataclass(eq=False, repr=False)
class Polynomial(RadialKernel):
    """The polynomial kernel ``k(x, y) = (x.y + coef0)^degree``.

    Parameters
    ----------
    degree : int
    coef0 : float
        Zero gives the homogeneous kernel.
    coef0_bounds : pair of floats or "fixed"
        Range for optimisers.

    Examples
    --------
    >>> from mercer.kernels import Polynomial
    >>> Polynomial(degree=2, coef0=0.0)([[1.0, 2.0]], [[3.0, 4.0]])
    array([[121.]])
    >>> Polynomial(degree=2, coef0=0.0).explicit_features([[5.9, 3.0]]).round(2)
    array([[34.81, 25.03,  9.  ]])
    """

    degree: int = 2
    coef0: Any = 1.0
    coef0_bounds: Any = (1e-5, 1e5)

    space = Euclidean()
    embedding = _INNER_PRODUCTS

    def continuous(self) -> tuple[str, ...]:
        """See :class:`Kernel`; ``coef0``, unless it is zero."""
        return () if is_number(self.coef0) and number(self.coef0) == 0 else ("coef0",)

    def explicit_features(self, X: Any) -> Any:
        """See :class:`Kernel`; monomials times the square roots of their multinomial coefficients.

        None if there are more than 1000 of them.
        """
        self.validate()
        X = self.space.check(X)
        degree, constant = int(self.degree), math.sqrt(number(self.coef0))
        variables = int(X.shape[1]) + (constant > 0)
        if math.comb(variables + degree - 1, degree) > _FEW_FEATURES:
            return None
        X = X.toarray() if sparse.issparse(X) else X
        if constant > 0:
            X = array_namespace(X).concat([X, filled((X.shape[0], 1), constant, X)], axis=1)
        features: Any = 1.0
        monomials = list(combinations_with_replacement(range(variables), degree))
        with np.errstate(over="ignore"):
            for factors in zip(*monomials, strict=True):
                features = features * X[:, list(factors)]
        refuse_rows(
            ~finite_rows(features), "X",
            f"has numbers whose power {degree} overflows; take a lower degree, or smaller numbers",
        )  # fmt: skip
        orders = (math.prod(map(math.factorial, Counter(m).values())) for m in monomials)
        roots = [math.sqrt(math.factorial(degree) / order) for order in orders]
        return features * asarray_like(roots, features)

    def validate(self) -> None:
        check_whole("degree of Polynomial", self.degree, 1)
        if not (is_number(self.coef0) and 0 <= number(self.coef0) < np.inf):
            raise ValueError(f"coef0 of Polynomial must not be negative, got {self.coef0!r}")

    def _compile(self, n: int) -> Profile:
        return PowerProfile(degree=int(self.degree), shift=number(self.coef0))

    def _compile_gradient(self, n: int, name: str) -> Profile:
        shift = number(self.coef0)
        return PowerProfile(degree=int(self.degree) - 1, shift=shift, factor=self.degree * shift)


@dataclass(eq=False, repr=False)
class Gaussian(RadialKernel):
    """The Gaussian (RBF) kernel ``k(x, y) = exp(-|x - y|^2 / (2 length_scale^2))``.

    With ``column_scales`` s the distance is ``|(x - y) / s|``, where columns are divided one by one.

    Parameters
    ----------
    length_scale : float
        In scikit-learn's terms ``gamma = 1 / (2 length_scale^2)``.
    length_scale_bounds : pair of floats or "fixed"
        Range for optimisers.
    column_scales : array of shape (n,), sparse array of shape (1, n) or "std", optional
        Divisors of the columns; 1 by default, and for columns that a sparse array does not store.
        "std" stands for the standard deviations of the training rows, which :meth:`scaled_to`, searches
        and :class:`~mercer.features.GramTransformer` compute.

    Examples
    --------
    >>> from mercer.kernels import Gaussian
    >>> Gaussian(length_scale=5.0)([[0.0, 0.0], [3.0, 4.0]]).round(4)
    array([[1.    , 0.6065],
           [0.6065, 1.    ]])
    >>> Gaussian(column_scales=[3.0, 4.0])([[0.0, 0.0]], [[3.0, 4.0]]).round(4)
    array([[0.3679]])
    """

    length_scale: Any = 1.0
    length_scale_bounds: Any = (1e-5, 1e5)
    column_scales: Any = None

    space = Euclidean()
    _embedding_parameters = ("column_scales",)

    def range_parameter(self) -> str:
        return "length_scale"

    def is_stationary(self) -> bool:
        return True

    def is_isotropic(self) -> bool:
        return self.column_scales is None

    def learnt_from(self, X: Any, y: Any = None) -> Gaussian:
        """See :class:`Kernel`; the standard deviations of the columns, for ``column_scales="std"``."""
        if not self._wants_scales:
            return self
        learnt = copy.copy(self)
        learnt.column_scales = columns.learn(
            self.space.check(on_cpu(X)), lambda X: StandardScaler(with_mean=False).fit(X).scale_, 1.0
        )
        return learnt

    @property
    def _wants_scales(self) -> bool:
        return isinstance(self.column_scales, str)

    def validate(self) -> None:
        check_positive(self, "length_scale")
        least, most = _LENGTHS
        if not least <= number(self.length_scale) <= most:
            raise ValueError(
                f"length_scale of Gaussian must be from {least:g} to {most:g}, got "
                f"{self.length_scale!r}; rescale the rows"
            )
        if self.column_scales is None:
            return
        if self._wants_scales:
            if self.column_scales == "std":
                raise ValueError(
                    "column_scales='std' of Gaussian has not been computed from training rows; call "
                    "scaled_to(X) first, or give an array"
                )
            raise ValueError(
                f"column_scales of Gaussian must be an array or 'std', got {self.column_scales!r}"
            )
        columns.check(self, "column_scales")

    def check_precision(self, X: Any) -> None:
        """See :class:`~mercer.spaces.base.Embedding`."""
        if number(self.length_scale) < _SINGLE_LENGTH and is_single(X):
            raise ValueError(
                f"length_scale of Gaussian must be at least {_SINGLE_LENGTH:g} for rows in single "
                f"precision, whose squares underflow, got {self.length_scale!r}; give rows in double "
                "precision, or rescale them"
            )

    def embed(self, X: Any, Y: Any = None) -> tuple[Any, Any]:
        """See :class:`~mercer.spaces.base.Embedding`."""
        if self.column_scales is None:
            return super().embed(X, Y)
        return super().embed(self._divided(X), None if Y is None else self._divided(Y))

    def column_sums(self, X: Any, Y: Any, weights: Any) -> Any:
        if self.column_scales is not None:
            X, Y = self._divided(X), self._divided(Y)
        return self.space.column_sums(X, Y, weights)

    def _divided(self, X: Any) -> Any:
        """Rows with their columns divided by the scales."""
        scales = columns.of_elements(self, "column_scales", X)
        with np.errstate(over="ignore", divide="ignore"):
            if sparse.issparse(X):
                divided = X.copy()
                divided.data /= scales.astype(X.dtype)
            else:
                divided = X / scales
        self.space.check(divided, "X / column_scales")  # refuses what overflows
        return divided

    def _compile(self, n: int) -> Profile:
        return decay_profile(0.5 * self.inverse_square())

    def _compile_gradient(self, n: int, name: str) -> Profile:
        return ProductProfile(self._compile(n), PowerProfile(scale=self.inverse_square()))

    def inverse_square(self) -> float:
        """``length_scale ** -2``."""
        return number(self.length_scale) ** -2.0


def decay_profile(rate: float) -> Profile:
    """Profile of ``exp(-rate u)`` for an invariant ``u >= 0``."""
    reach = math.ceil(math.log2(800 / rate))
    return compile_profile(
        lambda u: -rate * u[None, :],
        "invariant",
        top=min(max(reach, -100), 1000),
        logarithmic=True,
        beyond=-np.inf,
    )
