"""Sums, products and powers of kernels."""

from __future__ import annotations

import math
import numbers
from abc import abstractmethod
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from array_api_compat import array_namespace
from sklearn.gaussian_process import kernels as sk

from mercer._arrays import (
    count,
    filled,
    finite_rows,
    has_overflowed,
    is_single,
    is_watched,
    number,
    to_single,
    together,
)
from mercer._repr import constructor_call
from mercer._validation import check_positive, check_room, check_vector, is_whole
from mercer.contributions import Contributions
from mercer.engine import engine_for, joins
from mercer.engine.base import Products, combined, product_of_sums
from mercer.kernels.adapted import adapted
from mercer.kernels.base import Kernel
from mercer.kernels.constant import OVERFLOW, Constant, finite
from mercer.kernels.identity import hashable
from mercer.kernels.scale import check_similarity


def times(whole: Kernel, factor: float, kernel: sk.Kernel, X: Any, Y: Any, plus: Any = None) -> Any:
    """A number times a kernel of any kind, which is a part of the whole, plus a matrix."""
    with np.errstate(over="ignore", invalid="ignore"), suppress(FloatingPointError):  # of a sum
        K = adapted(kernel).multiple(factor, X, Y, plus)
        # Threads and compiled loops overflow without a warning.
        known = factor <= 1 or bool(array_namespace(K).all(finite_rows(K)))
        if known and (plus is None or not has_overflowed(K)):
            return K
    raise ValueError(OVERFLOW.format(whole))


def as_kernel(operand: Any) -> sk.Kernel:
    """Return kernels unchanged, and positive numbers as constant kernels."""
    if isinstance(operand, sk.Kernel):
        return operand
    if isinstance(operand, numbers.Real) or getattr(operand, "shape", None) in ((), (1,)):
        constant = Constant(operand if isinstance(operand, numbers.Real) else operand.reshape(()))
        check_positive(constant, "value")
        return constant
    raise TypeError(
        f"kernels combine with kernels and positive numbers, not with {type(operand).__name__}"
    )


@dataclass(eq=False, repr=False)
class _Pair(Kernel, sk.KernelOperator):
    """Two kernels joined by an operation."""

    k1: sk.Kernel
    k2: sk.Kernel

    _sign = ""

    def __eq__(self, other: Any) -> bool:
        # In either order, as in scikit-learn.
        return bool(sk.KernelOperator.__eq__(self, other))

    def __hash__(self) -> int:
        return hash((type(self), frozenset(hash(hashable(k)) for k in (self.k1, self.k2))))

    @property
    def hyperparameters(self) -> list[sk.Hyperparameter]:
        """Hyperparameters of both kernels, as in scikit-learn."""
        return sk.KernelOperator.hyperparameters.fget(self)

    @property
    def positive_semidefinite(self) -> bool:  # type: ignore[override]
        """See :class:`Kernel`."""
        return all(getattr(k, "positive_semidefinite", True) for k in (self.k1, self.k2))

    def scaled_to(
        self, X: Any, similarity: float = 0.5, *, max_rows: int = 1000, random_state: int = 0
    ) -> Kernel:
        """See :class:`Kernel`; both kernels are scaled."""
        options = {"max_rows": max_rows, "random_state": random_state}
        return type(self)(*(adapted(k).scaled_to(X, similarity, **options) for k in self.parts))

    def learnt_from(self, X: Any, y: Any = None) -> Kernel:
        """See :class:`Kernel`; both kernels learn."""
        parts = [adapted(k).learnt_from(X, y) for k in self.parts]
        return self if parts[0] is self.k1 and parts[1] is self.k2 else type(self)(*parts)

    @property
    def parts(self) -> tuple[sk.Kernel, ...]:
        return (self.k1, self.k2)

    @property
    def label(self) -> str:
        """See :class:`Kernel`; those of both kernels."""
        labels = (_bracket(self, k, adapted(k).label) for k in self.parts)
        return f" {self._sign} ".join(labels)

    def product_sizes(self) -> tuple[int, int] | None:
        """See :class:`Kernel`; from those of both kernels."""
        first, second = (adapted(k).product_sizes() for k in self.parts)
        return None if first is None or second is None else self._sizes(first, second)

    @abstractmethod
    def _sizes(self, first: tuple[int, int], second: tuple[int, int]) -> tuple[int, int]:
        """Numbers of products and of their terms, from those of both kernels."""

    def _in_one_pass(self, X: Any, Y: Any, v: Any = None) -> Any:
        """Gram matrix, or its product with vectors, by an engine that computes both kernels together.

        None where no engine does.
        """
        products = self.products(X, Y) if joins(X, self.product_sizes()) else None
        if products is None:
            return None
        if v is None:
            check_room(X, Y)
        found = engine_for(X).joined(products, v)
        if found is None:
            return None
        single = all(part is None or is_single(part) for part in (X, Y, v))
        return finite(self, lambda: to_single(found) if single else found)

    def is_stationary(self) -> bool:
        return bool(self.k1.is_stationary() and self.k2.is_stationary())

    def __repr__(self) -> str:
        first, second = (_bracket(self, k, repr(k)) for k in self.parts)
        if isinstance(self.k1, Constant) and isinstance(self.k2, Constant):
            first = constructor_call(self.k1)  # two bare numbers would evaluate to a number
        return f"{first} {self._sign} {second}"


class Sum(_Pair):
    """The sum ``k1(x, y) + k2(x, y)``, made by ``k1 + k2``.

    Positive semidefinite if both kernels are.

    Parameters
    ----------
    k1, k2 : Kernel
        Kernels of this package or of scikit-learn.

    Examples
    --------
    >>> from mercer.kernels import Gaussian, Linear
    >>> (Linear() + 2.0 * Gaussian())([[1.0], [1.5]]).round(4)
    array([[3.   , 3.265],
           [3.265, 4.25 ]])
    """

    _sign = "+"

    def __call__(self, X: Any, Y: Any = None, eval_gradient: bool = False) -> Any:
        if not eval_gradient:
            return self.multiple(1.0, X, Y)
        # Both terms and the sum, and the derivatives of both twice.
        check_room(X, Y, matrices=3 + 2 * len(self.theta))
        K1, G1 = self.k1(X, Y, eval_gradient=True)
        K2, G2 = self.k2(X, Y, eval_gradient=True)
        return finite(self, lambda: (K1 + K2, np.concatenate([G1, G2], axis=2)))

    def multiple(self, factor: float, X: Any, Y: Any = None, plus: Any = None) -> Any:
        """See :class:`Kernel`; the second kernel is added to the matrix of the first."""
        if (K := self._in_one_pass(X, Y)) is not None:
            return finite(self, lambda: combined(factor, K, plus))
        check_room(X, Y, matrices=2)
        return times(self, factor, self.k2, X, Y, times(self, factor, self.k1, X, Y, plus))

    def _sizes(self, first: tuple[int, int], second: tuple[int, int]) -> tuple[int, int]:
        return first[0] + second[0], first[1] + second[1]

    def products(self, X: Any, Y: Any = None) -> Products | None:
        """See :class:`Kernel`; those of both kernels."""
        first, second = (adapted(k).products(X, Y) for k in self.parts)
        return None if first is None or second is None else [*first, *second]

    def terms(self) -> tuple[tuple[float, sk.Kernel], ...]:
        """See :class:`Kernel`; those of both kernels."""
        return (*adapted(self.k1).terms(), *adapted(self.k2).terms())

    def contributions(self, X: Any, Y: Any, weights: Any) -> tuple[Contributions, ...]:
        """See :class:`Kernel`; those of both kernels."""
        return tuple(c for k in self.parts for c in adapted(k).contributions(X, Y, weights))

    def diag(self, X: Any) -> Any:
        first, second = together(*(adapted(k).diag(X) for k in self.parts))
        return finite(self, lambda: first + second)

    def matvec(self, X: Any, Y: Any, v: Any) -> Any:
        first, second = together(*(adapted(k).matvec(X, Y, v) for k in self.parts))
        return finite(self, lambda: first + second)


class Product(_Pair):
    """The product ``k1(x, y) k2(x, y)``, made by ``k1 * k2``.

    Positive semidefinite if both kernels are (Schur's product theorem).

    Parameters
    ----------
    k1, k2 : Kernel
        Kernels of this package or of scikit-learn.

    Examples
    --------
    >>> from mercer.kernels import Gaussian, Linear
    >>> (Linear() * Gaussian())([[1.0], [1.5]]).round(4)
    array([[1.    , 1.3237],
           [1.3237, 2.25  ]])
    """

    _sign = "*"

    def __call__(self, X: Any, Y: Any = None, eval_gradient: bool = False) -> Any:
        if not eval_gradient:
            return self.multiple(1.0, X, Y)
        # Both factors and the product; derivatives are also multiplied by the other factor.
        check_room(X, Y, matrices=3 + 3 * len(self.theta))
        constants, kernel = self._split()
        if constants:
            K, G = (_times(self, part, constants) for part in kernel(X, Y, eval_gradient=True))
            return K, np.concatenate(self._columns(kernel, K, G), axis=2)
        K1, G1 = self.k1(X, Y, eval_gradient=True)
        K2, G2 = self.k2(X, Y, eval_gradient=True)
        return finite(
            self,
            lambda: (K1 * K2, np.concatenate([G1 * K2[:, :, None], G2 * K1[:, :, None]], axis=2)),
        )

    def _sizes(self, first: tuple[int, int], second: tuple[int, int]) -> tuple[int, int]:
        # Each product of one kernel comes with each of the other.
        return first[0] * second[0], first[0] * second[1] + first[1] * second[0]

    def products(self, X: Any, Y: Any = None) -> Products | None:
        """See :class:`Kernel`; all products of one from each kernel."""
        constants, kernel = self._split()
        if not constants:
            return product_of_sums([adapted(k).products(X, Y) for k in self.parts])
        watched = [constant.value for constant in constants if is_watched(constant.value)]
        plain = [constant for constant in constants if not is_watched(constant.value)]
        factor = math.prod(watched, start=_factor(self, plain))
        return product_of_sums([[(factor, [])], adapted(kernel).products(X, Y)])

    def multiple(self, factor: float, X: Any, Y: Any = None, plus: Any = None) -> Any:
        """See :class:`Kernel`; a kernel times a number is a multiple too."""
        K, (constants, kernel) = self._in_one_pass(X, Y), self._split()
        if K is None:
            if constants and all(isinstance(constant.value, numbers.Real) for constant in constants):
                return times(self, _factor(self, [Constant(factor), *constants]), kernel, X, Y, plus)
            check_room(X, Y, matrices=3 + (plus is not None))
            K = finite(self, lambda: adapted(self.k1)(X, Y) * adapted(self.k2)(X, Y))
        return finite(self, lambda: combined(factor, K, plus))

    def _split(self) -> tuple[list[Constant], sk.Kernel]:
        """Factors that are numbers, also those of a product in the product, and the other one."""
        for constant, kernel in ((self.k1, self.k2), (self.k2, self.k1)):
            if isinstance(constant, Constant):
                constant.validate()
                more, rest = kernel._split() if isinstance(kernel, Product) else ([], kernel)
                return [constant, *more], rest
        return [], self

    def _columns(self, kernel: sk.Kernel, K: Any, G: Any) -> list[Any]:
        """Derivatives in all hyperparameters, from the values K and the derivatives G of one factor."""
        found = []
        for part in self.parts:
            if isinstance(part, Product) and part is not kernel:
                found += part._columns(kernel, K, G)
            else:
                found.append(G if part is kernel else np.repeat(K[:, :, None], len(part.theta), axis=2))
        return found

    def terms(self) -> tuple[tuple[float, sk.Kernel], ...]:
        """See :class:`Kernel`; those of the other kernel, if one is a number."""
        constants, kernel = self._split()
        if not constants:
            return super().terms()
        factor = _factor(self, constants)
        return tuple((factor * weight, term) for weight, term in adapted(kernel).terms())

    def contributions(self, X: Any, Y: Any, weights: Any) -> tuple[Contributions, ...]:
        """See :class:`Kernel`; by the product rule, and exact if the other kernel is a number."""
        found: list[Contributions] = []
        for kernel, other in ((self.k1, self.k2), (self.k2, self.k1)):
            constant = isinstance(other, Constant)
            for own in adapted(kernel).contributions(X, Y, weights * other(X, Y)):
                found.append(replace(own, exact=own.exact and constant))
        return tuple(found)

    def diag(self, X: Any) -> Any:
        constants, kernel = self._split()
        if constants:
            return _times(self, adapted(kernel).diag(X), constants)
        first, second = adapted(self.k1).diag(X), adapted(self.k2).diag(X)
        return finite(self, lambda: first * second)

    def matvec(self, X: Any, Y: Any, v: Any) -> Any:
        constants, kernel = self._split()
        if constants:
            return _times(self, adapted(kernel).matvec(X, Y, v), constants)
        v = check_vector(v, count(X if Y is None else Y))
        found = self._in_one_pass(X, X if Y is None else Y, v)
        return super().matvec(X, Y, v) if found is None else found


def _factor(whole: Kernel, constants: Sequence[Constant]) -> float:
    """The product of numbers, which is finite even if that of some of them is not."""
    parts = [math.frexp(number(constant.value)) for constant in constants]
    mantissa, exponent = math.prod(part for part, _ in parts), sum(part for _, part in parts)
    return float(finite(whole, lambda: math.ldexp(mantissa, exponent)))


def _times(whole: Kernel, values: Any, constants: Sequence[Constant]) -> Any:
    """Values times numbers, some of which may be tensors; raise where they overflow."""
    factor = _factor(whole, [c for c in constants if isinstance(c.value, numbers.Real)])
    tensors = [c.value for c in constants if not isinstance(c.value, numbers.Real)]
    factors = [filled((), value, values) for value in (factor, *tensors)]
    return finite(whole, lambda: math.prod(factors, start=values))


class Exponentiation(Kernel, sk.Exponentiation):
    """The power ``k(x, y) ** exponent``, made by ``k ** exponent``.

    Positive semidefinite if the kernel is, as a product of kernels; powers that are not whole need not
    be, and are refused.

    Parameters
    ----------
    kernel : Kernel
        Kernel of this package or of scikit-learn.
    exponent : int
        1, 2, 3, ...

    Examples
    --------
    >>> from mercer.kernels import Linear
    >>> (Linear() ** 2)([[1.0], [1.5]])
    array([[1.    , 2.25  ],
           [2.25  , 5.0625]])
    """

    kernel: sk.Kernel
    exponent: int

    def __init__(self, kernel: sk.Kernel, exponent: int) -> None:
        self.kernel = kernel
        self.exponent = exponent
        self.validate()

    def validate(self) -> None:
        if not is_whole(self.exponent) or self.exponent < 1:
            raise ValueError(f"the exponent of a kernel must be 1, 2, 3, ..., got {self.exponent!r}")

    @property
    def hyperparameters(self) -> list[sk.Hyperparameter]:
        """Hyperparameters of the kernel, as in scikit-learn."""
        return sk.Exponentiation.hyperparameters.fget(self)

    @property
    def positive_semidefinite(self) -> bool:  # type: ignore[override]
        """See :class:`Kernel`."""
        return getattr(self.kernel, "positive_semidefinite", True)

    def __call__(self, X: Any, Y: Any = None, eval_gradient: bool = False) -> Any:
        self.validate()
        check_room(X, Y, matrices=2 + (2 * len(self.theta) + 1 if eval_gradient else 0))
        if not eval_gradient:
            K = adapted(self.kernel)(X, Y)
            return finite(self, lambda: K**self.exponent)
        K, G = self.kernel(X, Y, eval_gradient=True)
        return finite(self, lambda: (K**self.exponent, G * self._slope(K)[:, :, None]))

    def contributions(self, X: Any, Y: Any, weights: Any) -> tuple[Contributions, ...]:
        """See :class:`Kernel`; by the power rule."""
        found = adapted(self.kernel).contributions(X, Y, weights * self._slope(self.kernel(X, Y)))
        return tuple(replace(own, exact=own.exact and self.exponent == 1) for own in found)

    def _slope(self, K: Any) -> Any:
        """Derivative of the power with respect to the kernel's values."""
        return self.exponent * K ** (self.exponent - 1)

    def diag(self, X: Any) -> Any:
        values = adapted(self.kernel).diag(X)
        return finite(self, lambda: values**self.exponent)

    def scaled_to(
        self, X: Any, similarity: float = 0.5, *, max_rows: int = 1000, random_state: int = 0
    ) -> Kernel:
        """See :class:`Kernel`; the power has the given similarity."""
        root = check_similarity(similarity) ** (1 / self.exponent)
        options = {"max_rows": max_rows, "random_state": random_state}
        return Exponentiation(adapted(self.kernel).scaled_to(X, root, **options), self.exponent)

    def learnt_from(self, X: Any, y: Any = None) -> Kernel:
        learnt = adapted(self.kernel).learnt_from(X, y)
        return self if learnt is self.kernel else Exponentiation(learnt, self.exponent)

    @property
    def parts(self) -> tuple[sk.Kernel, ...]:
        return (self.kernel,)

    def is_stationary(self) -> bool:
        return bool(self.kernel.is_stationary())

    def __repr__(self) -> str:
        inner = repr(self.kernel)
        atom = not isinstance(self.kernel, sk.KernelOperator | sk.Exponentiation)
        return f"{inner if atom else f'({inner})'} ** {self.exponent}"


def elementwise(kernel: sk.Kernel, gram: Callable[[sk.Kernel], Any]) -> Any:
    """Gram matrix of a sum, product or power, in place of those of its parts; None for other kernels."""
    constants, scaled = kernel._split() if isinstance(kernel, Product) else ([], kernel)
    if constants:
        K = gram(scaled)
        return finite(kernel, lambda: np.multiply(K, _factor(kernel, constants), out=K))
    if isinstance(kernel, sk.KernelOperator):
        K = gram(kernel.k1)
        combine, other = np.add if isinstance(kernel, Sum | sk.Sum) else np.multiply, gram(kernel.k2)
        return finite(kernel, lambda: combine(K, other, out=K))
    if isinstance(kernel, sk.Exponentiation):
        K = gram(kernel.kernel)
        return finite(kernel, lambda: np.power(K, kernel.exponent, out=K))
    return None


def _bracket(outer: Kernel, inner: sk.Kernel, shown: str) -> str:
    """An operand as it is shown, in brackets if its operation binds more weakly than the outer one."""
    return f"({shown})" if isinstance(outer, Product) and isinstance(inner, Sum | sk.Sum) else shown
