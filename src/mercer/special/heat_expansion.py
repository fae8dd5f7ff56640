"""Short-time (parametrix) expansion of the heat kernel on the sphere, to any order.

``G(theta; t) ~ (4 pi t)^(-d/2) exp(-theta^2 / 4t) (u_0 + u_1 t + u_2 t^2 + ...)`` on S^d, d = n - 1,
with ``u_0 = (r / sin r)^((d-1)/2)`` and ``u_(k+1) = u_0 r^-(k+1) int_0^r s^k u_0^-1 Delta u_k ds``.

Every ratio ``v_k = u_k / u_0`` is a polynomial in ``1/r`` and ``cot r`` with rational coefficients; they
are found by exact integration.  Near r = 0 its terms cancel, so there its power series in ``r^2`` is
summed.  Both are evaluated in ball arithmetic, with as many bits as 60 correct ones take.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import cache, lru_cache
from typing import Any

import numpy as np
from numpy.polynomial.polynomial import polyval
from scipy.special import zeta

from mercer._arrays import Array
from mercer.special.balls import flint, precision

#: Below this angle functions are summed as power series, whose radius of convergence is pi.
_SERIES_BELOW = 1.0
_K = np.arange(1, 29)
#: log(r / sin r) = sum_k zeta(2k) / k (r / pi)^(2k)
_LOG = zeta(2 * _K) / (_K * np.pi ** (2.0 * _K))
#: Accuracy wanted of every value, and the precisions tried for it, in bits.
_BITS, _LEAST_PRECISION, _MOST_PRECISION = 60, 128, 2**16


def angles(u: Array) -> Array:
    """Angles at the separation u from the pole and from the antipode, shape (2, u.size)."""
    near = 2 * np.arcsin(np.sqrt(u / 2))
    return np.stack([near, np.pi - near])


def log_stretch(power: float, u: Array) -> Array:
    """Logarithm of ``(r / sin r)^power`` on both hemispheres; infinite at the antipode."""
    if power == 0:
        return np.zeros((2, u.size))
    r = angles(u)
    small = r < _SERIES_BELOW
    z = np.where(small, r, 0.0) ** 2
    series = z * polyval(z, _LOG)
    with np.errstate(divide="ignore"):
        closed = np.log(np.where(small, 1.0, r)) - np.log(np.where(small, 1.0, np.sqrt(u * (2 - u))))
    return power * np.where(small, series, closed)


def log_u0(d: int, u: Array) -> Array:
    """Logarithm of ``u_0`` on both hemispheres; infinite at the antipode."""
    return log_stretch((d - 1) / 2, u)


def corrections(d: int, order: int, u: Array) -> list[Array]:
    """Ratios ``u_1 / u_0 .. u_order / u_0`` on both hemispheres, in doubles; NaN at the antipode.

    Fast, and exact to a few rounding errors up to order 2; beyond, use :class:`Combination`.
    """
    r = angles(u)
    small = r < _SERIES_BELOW
    z, inverse = np.where(small, r, 0.0) ** 2, 1 / np.where(small, 1.0, r)
    ratios = []
    with np.errstate(divide="ignore", invalid="ignore"):
        cot = np.where(small, 1.0, np.stack([1 - u, u - 1]) / np.sqrt(u * (2 - u)))
        for near, columns in _in_doubles(d, order):
            far = sum(polyval(inverse, q) * cot**j for j, q in enumerate(columns))
            ratios.append(np.where(small, polyval(z, near), far))
    return ratios


@lru_cache(maxsize=64)
def _in_doubles(d: int, order: int) -> list[tuple[Array, list[Array]]]:
    """Per ratio from the first on: its power series, and its polynomials in 1/r."""

    def floats(polynomial: Any) -> Array:
        return np.array([float(c) for c in polynomial.coeffs()] or [0.0])

    ratios = _ratios(d, order)[1:]
    return [(floats(_power_series(v, 26)), [floats(q) for q in _transposed(v)]) for v in ratios]


def diagonal(d: int, order: int) -> list[Fraction]:
    """The classical heat coefficients ``u_0(0) .. u_order(0)`` of S^d.

    Examples
    --------
    >>> from mercer.special.heat_expansion import diagonal
    >>> diagonal(2, 3)    # the 2-sphere: 1 + t/3 + t^2/15 + 4 t^3/315
    [Fraction(1, 1), Fraction(1, 3), Fraction(1, 15), Fraction(4, 315)]
    """
    series = [_power_series(v, 1)[0] for v in _ratios(d, order)]
    return [Fraction(int(c.p), int(c.q)) for c in series]


class Combination:
    """A sum ``sum_k c_k u_k / u_0`` on S^d, tamed at the antipode.

    The ratios are polynomials in 1/r and cot r.  If their degree in cot r is p they have poles of up to
    order p at the antipode, so values are those of ``(sin r / r)^p sum_k c_k u_k / u_0``, smooth
    everywhere and correctly rounded but for the last bit.

    Parameters
    ----------
    d : int
        Dimension of the sphere.
    weights : sequence of Fraction
        The exact numbers c_0, c_1, ...

    Attributes
    ----------
    poles : int
        The power p; it depends on d and the number of weights alone.

    Examples
    --------
    >>> import numpy as np
    >>> from fractions import Fraction
    >>> from mercer.special.heat_expansion import Combination
    >>> first = Combination(2, [Fraction(0), Fraction(1)])    # u_1 / u_0 on the 2-sphere
    >>> first.poles, first(np.array([0.0])).ravel().round(6)    # at the pole and the antipode
    (1, array([0.333333, 0.02533 ]))
    """

    def __init__(self, d: int, weights: Sequence[Fraction]) -> None:
        ratios = _ratios(d, len(weights) - 1)
        self.poles = max(len(_transposed(v)) for v in ratios) - 1
        rows = _combined(ratios, weights)
        self._columns = _transposed(rows, self.poles)
        # At r = 1 a term is a tenth of the one before, but the higher the order the later.  What is left
        # out was below 1e-60 of the value for orders up to 40 in dimensions up to 10^5.
        self._near = _power_series(rows, 64 + 4 * len(weights))

    def __call__(self, u: Array, sides: int = 2) -> Array:
        """Values at the separations u from the pole and from the antipode, shape (sides, u.size)."""
        values = np.empty((sides, u.size))
        open_ = list(np.ndindex(values.shape))
        bits = _LEAST_PRECISION
        while open_:
            if bits > _MOST_PRECISION:
                raise ArithmeticError(f"the expansion is not resolved at separation {u[open_[0][1]]}")
            with precision(bits):
                law = self._law()
                balls = [(place, law(float(u[place[1]]), place[0] == 1)) for place in open_]
            for place, ball in balls:
                values[place] = float(ball.mid())
            open_ = [place for place, ball in balls if ball.rel_accuracy_bits() < _BITS]
            bits *= 2
        return values

    def _law(self) -> Callable[[float, bool], Any]:
        """One value as a ball, in the precision in force, near the pole or far from it."""
        poles, pi = self.poles, flint.arb.pi()
        near = flint.arb_poly(self._near)
        columns = [flint.arb_poly(column) for column in reversed(self._columns)]

        def law(u: float, far: bool) -> Any:
            separation = flint.arb(u)
            r = 2 * (separation / 2).sqrt().asin()
            if not far and r < _SERIES_BELOW:
                return near(r * r) * r.sinc() ** poles
            sine, cosine = (separation * (2 - separation)).sqrt(), 1 - separation
            if far:
                r, cosine = pi - r, -cosine
            # sum_j q_j(1/r) cos^j sin^(p-j) / r^p: no pole is met on the way.
            inverse, total, power = 1 / r, flint.arb(0), flint.arb(1)
            for column in columns:
                total = total * cosine + column(inverse) * power
                power = power * sine
            return total * inverse**poles

        return law


def _combined(ratios: Sequence[Sequence[Any]], weights: Sequence[Fraction]) -> list[Any]:
    """``sum_k weights[k] v_k``, row by row."""
    rows = [flint.fmpq_poly() for _ in ratios[-1]]
    for ratio, weight in zip(ratios, weights, strict=True):
        for i, row in enumerate(ratio):
            rows[i] += row * flint.fmpq(weight.numerator, weight.denominator)
    return rows


def _transposed(rows: Sequence[Any], degree: int = 0) -> list[Any]:
    """Polynomials in 1/r, one for each power of cot r, at least up to the degree."""
    degree = max(degree, *(row.degree() for row in rows))
    return [flint.fmpq_poly([row[j] for row in rows]) for j in range(degree + 1)]


@lru_cache(maxsize=64)
def _ratios(d: int, order: int) -> list[list[Any]]:
    """``v_0 .. v_order`` on S^d; ``v_k[i]`` is the polynomial in cot r that goes with ``r^-i``."""
    ratios = [[flint.fmpq_poly([1])]]
    for k in range(order):
        ratios.append(_next_ratio(int(d), k, ratios[-1]))  # python-flint refuses NumPy integers
    return ratios


def _next_ratio(d: int, k: int, v: Sequence[Any]) -> list[Any]:
    """``v_(k+1) = r^-(k+1) int_0^r s^k f ds`` with ``f = u_0^-1 Delta(u_0 v_k)``.

    With C = cot r the derivative of ``r^m p(C)`` is ``m r^(m-1) p - r^m (1 + C^2) p'``.  So p' at r^m is
    found by dividing what is known at r^m by ``1 + C^2``, and the remainder, which is a number, by the
    constant term of p at r^(m+1).  The constant term at r^0 is that of the integral: the one
    that leaves v_(k+1) regular at r = 0.
    """
    divisor = flint.fmpq_poly([1, 0, 1])
    p = [flint.fmpq_poly()]
    for i, source in enumerate(_laplacian(d, v)):
        m = k - i
        quotient, remainder = divmod((m + 1) * p[i] - source, divisor)
        if m + 1:
            p[i] -= remainder / (m + 1)
        p.append(quotient.integral())
    p.pop()  # nothing is left at the lowest power
    if k % 2:
        p[k + 1] -= _laurent(p, 0)[k + 1 - (k + 1) // 2]
    return p


def _laplacian(d: int, v: Sequence[Any]) -> list[Any]:
    """``u_0^-1 Delta(u_0 v) = v'' + 2a/r v' + (a + a (a-1) (1/r^2 - cot^2 r)) v``, a = (d-1)/2."""
    a = flint.fmpq(d - 1, 2)
    slope = _derivative(v)
    total = _derivative(slope)
    for i, row in enumerate(slope):
        total[i + 1] += (d - 1) * row
    for i, row in enumerate(v):
        total[i] += row * flint.fmpq_poly([a, 0, a * (1 - a)])
        total[i + 2] += row * (a * (a - 1))
    return total


def _derivative(v: Sequence[Any]) -> list[Any]:
    """Derivative with respect to r of ``sum_i r^-i v_i(cot r)``."""
    square = flint.fmpq_poly([1, 0, 1])
    total = [-square * row.derivative() for row in v] + [flint.fmpq_poly()]
    for i, row in enumerate(v):
        total[i + 1] -= i * row
    return total


def _power_series(v: Sequence[Any], terms: int) -> Any:
    """The first terms of ``sum_i r^-i v_i(cot r)``, regular at 0, as a polynomial in r^2."""
    order = (len(v) - 1) // 2
    return _laurent(v, terms).right_shift(order)


def _laurent(v: Sequence[Any], terms: int) -> Any:
    """``z^k sum_i r^-i v_i(cot r)`` for the order k, as a polynomial in z = r^2 of k + terms terms."""
    order = (len(v) - 1) // 2
    length = order + terms
    cotangent = _cotangent(length)
    total = flint.fmpq_poly()
    for j in range(max(row.degree() for row in v), -1, -1):
        # r^-i cot^j r = z^(-(i + j) / 2) (r cot r)^j, and i + j is even and at most 2 k
        column = flint.fmpq_poly([v[i][j] for i in range(2 * order - j, -1, -2)])
        total = total.mul_low(cotangent, length) + column
    return total.truncate(length)


@cache
def _cotangent(length: int) -> Any:
    """``r cot r = sum_k (-4)^k B_2k / (2k)! z^k`` in z = r^2."""
    terms = ((-4) ** k * flint.fmpq.bernoulli(2 * k) / flint.fmpz.fac_ui(2 * k) for k in range(length))
    return flint.fmpq_poly(list(terms))
