"""Kernels of hyperbolic space from its resolvent, in ball arithmetic: the truth for the tests.

The kernel of ``(-Laplacian - h^2 + mu^2)^-1`` on H^d, h = (d - 1) / 2, is in closed form

``R_mu(rho) = Gamma(s) / (2 pi^h Gamma(mu + 1)) exp(-s rho) 2F1(s, h; mu + 1; exp(-2 rho))``, s = h + mu,

in odd and even dimensions alike.  A function ``a(-h^2 - Laplacian)`` has the kernel
``1 / (2 pi i) int a(-mu^2) R_mu 2 mu dmu`` over a line of real part b > 0, and at rho = 0 the integral
of ``a(x^2)`` over the Plancherel measure.  The trapezoidal rule is exact but for
``exp(-2 pi y / step)``, y the width of a strip without singularities.

Nothing here is shared with the package, which differentiates by cosh(rho) and integrates over distances.
"""

import math
from collections.abc import Callable

from flint import acb, arb, ctx


def log_heat(d: int, t: float, rho: float) -> float:
    """Logarithm of the heat kernel."""
    integral = _inversion(d, arb(t), arb(rho)) if rho else _plancherel(d, arb(t))
    return _settled(integral, 40.0 + d) - ((d - 1) / 2) ** 2 * t


def _settled(integral: Callable[[float], arb], nats: float) -> float:
    """Logarithm of an integral, with finer steps and more digits until it changes no more."""
    before, last = ctx.prec, math.nan
    try:
        while nats < 1e4:
            ctx.prec = 64 + math.ceil(2 * nats)
            value = integral(nats)
            found = float(value.log().mid()) if value > 0 else math.nan
            if abs(found - last) <= 1e-14 * max(1.0, abs(found)):
                return found
            last, nats = found, 1.3 * nats
        raise ValueError("no accuracy")
    finally:
        ctx.prec = before


def resolvent(d: int, mu: acb, rho: arb) -> acb:
    """``R_mu(rho)`` by the series of 2F1."""
    h = arb(d - 1) / 2
    s, z = mu + h, (-2 * rho).exp()
    term = total = acb(1)
    k, least = 0, arb(2) ** -ctx.prec
    while abs(term) > least * abs(total):
        term *= (s + k) * (h + k) * z / ((mu + 1 + k) * (k + 1))
        total += term
        k += 1
    return s.gamma() / (mu + 1).gamma() * total * (-s * rho).exp() / (2 * arb.pi() ** h)


def _inversion(d: int, t: arb, rho: arb) -> Callable[[float], arb]:
    """Integral over mu, to ``exp(-nats)`` of its largest term."""

    def integral(nats: float) -> arb:
        b = rho / (2 * t)  # where the exponents of a and R are stationary
        strip = math.inf if d == 1 else float(b) + (d - 1) / 2
        step = min(math.pi / math.sqrt(float(t) * nats), 2 * math.pi * strip / nats)

        def term(k: int) -> arb:
            mu = acb(b, arb(k) * step)
            return ((mu * mu * t).exp() * mu * resolvent(d, mu, rho)).real

        return 2 * step / arb.pi() * _trapezoidal(term, nats)

    return integral


def _plancherel(d: int, t: arb) -> Callable[[float], arb]:
    """Integral over the spectrum."""

    def integral(nats: float) -> arb:
        step = min(math.pi / nats, math.pi / math.sqrt(nats * float(t)))

        def term(k: int) -> arb:
            x = arb(k) * step
            return (-x * x * t).exp() * _density(d, x)

        unit = 2 * arb.pi() ** (arb(d) / 2) / ((2 * arb.pi()) ** d * (arb(d) / 2).gamma())
        return unit * step * _trapezoidal(term, nats)

    return integral


def _trapezoidal(term: Callable[[int], arb], nats: float) -> arb:
    """Sum of the terms for k = 0 (half of it), 1, 2, ... until several have been negligible."""
    total, peak, small, k = term(0) / 2, arb(0), 0, 0
    while small < 5:
        k += 1
        value = term(k)
        total += value
        size = abs(value).upper()
        peak = size if size > peak else peak
        small = small + 1 if size < peak * arb(-nats).exp() else 0
    return total


def _density(d: int, x: arb) -> arb:
    """``|Gamma(h + i x) / Gamma(i x)|^2``."""
    first = arb(1) if d % 2 else x * (arb.pi() * x).tanh()
    for k in range((d - 1) // 2):
        first *= x * x + (arb(k) if d % 2 else arb(k) + 0.5) ** 2
    return first
