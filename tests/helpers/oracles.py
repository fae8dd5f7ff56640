"""Independent truth: textbook formulas in high precision, slow and plain."""

from __future__ import annotations

from collections.abc import Iterator

import mpmath as mp
import numpy as np
from flint import arb, ctx


def heat(n: int, t: float, w: np.ndarray, bits: int = 256) -> list[mp.mpf]:
    """Normalised heat kernel on S^(n-1), with 77 digits or more."""
    with ctx.workprec(bits + 64):
        time = arb(t)
        step, ratio = (-(n - 1) * time).exp(), (-2 * time).exp()
        factor, peak, least, weights = arb(1), arb(0), arb(2) ** (-bits // 2), []
        for level, count in enumerate(multiplicities(n)):
            weights.append(factor * count)
            peak = peak.max(weights[-1])
            if level > 1 and weights[-1] < peak * least:
                break
            factor *= step
            step *= ratio
        return normalised_series(n, weights, w, bits)


def matern_by_levels(n: int, nu: float, length_scale: float, w: np.ndarray, levels: int) -> list[mp.mpf]:
    """Normalised Matern kernel on S^(n-1), level by level."""
    with ctx.workprec(256):
        rate, power = 2 * arb(nu) / arb(length_scale) ** 2, arb(nu) + arb(n - 1) / 2
        counts = zip(range(levels), multiplicities(n), strict=False)
        weights = [count * (rate + k * (k + n - 2)) ** -power for k, count in counts]
        return normalised_series(n, weights, w, bits=192)


def multiplicities(n: int) -> Iterator[arb]:
    """Dimensions N_0, N_1, ... of the eigenspaces."""
    count, level = arb(1), 0
    while True:
        yield count
        if n == 2:
            count = arb(2)
        else:
            count = count * ((2 * level + n) * (level + n - 2)) / ((2 * level + n - 2) * (level + 1))
        level += 1


def normalised_series(n: int, weights: list[arb], w: np.ndarray, bits: int) -> list[mp.mpf]:
    """``sum_l weights[l] P_l(w) / sum_l weights[l]``: the textbook recurrence in fixed point."""
    unit = arb(2) ** bits / sum(weights, arb(0))
    fixed = [fixed_point(x * unit) for x in weights]
    w = np.array([fixed_point(arb(x) * arb(2) ** bits) for x in w.tolist()], dtype=object)
    before, here = np.full(len(w), 1 << bits, dtype=object), w
    sums = fixed[0] * before + fixed[1] * here
    for level in range(1, len(fixed) - 1):
        after = ((2 * level + n - 2) * ((w * here) >> bits) - level * before) // (level + n - 2)
        before, here = here, after
        sums = sums + fixed[level + 1] * here
    return [mp.mpf(int(s)) / mp.mpf(2) ** (2 * bits) for s in sums]


def fixed_point(x: arb) -> int:
    """The whole number below the middle of a ball."""
    mantissa, exponent = map(int, x.mid().man_exp())
    return mantissa << exponent if exponent >= 0 else mantissa >> -exponent


def zonal_sum(n: int, weights: list[float], w: float) -> mp.mpf:
    """``sum_l weights[l] P_l(w)`` from the explicit sum of Gegenbauer polynomials (n > 2)."""
    alpha, w = mp.mpf(n) / 2 - 1, mp.mpf(w)

    def gegenbauer(level: int, x: mp.mpf) -> mp.mpf:
        return mp.fsum(
            (-1) ** k * mp.rf(alpha, level - k) / (mp.factorial(k) * mp.factorial(level - 2 * k))
            * (2 * x) ** (level - 2 * k)
            for k in range(level // 2 + 1)
        )  # fmt: skip

    return mp.fsum(a * gegenbauer(i, w) / gegenbauer(i, mp.mpf(1)) for i, a in enumerate(weights))


def matern(n: int, nu: float, length_scale: float, w: float) -> mp.mpf:
    """Absolute Matern kernel on S^(n-1), n > 2, as an integral over Poisson kernels.

    ``(m^2 + q)^-s`` is the Laplace transform of ``u^(2s-1) 0F1(; s + 1/2; -q u^2/4) / Gamma(2s)`` and
    ``sum_l N_l P_l(w) e^(-(l + n/2 - 1) u) = 2 sinh(u) / (2 cosh u - 2 w)^(n/2)``.
    """
    with mp.workdps(30):
        s = mp.mpf(nu) + mp.mpf(n - 1) / 2
        q = 2 * mp.mpf(nu) / mp.mpf(length_scale) ** 2 - (mp.mpf(n) / 2 - 1) ** 2

        def integrand(u: mp.mpf) -> mp.mpf:
            if u == 0:
                return mp.mpf(0)
            poisson = 2 * mp.sinh(u) / (4 * mp.sinh(u / 2) ** 2 + (2 - 2 * mp.mpf(w))) ** (mp.mpf(n) / 2)
            return u ** (2 * s - 1) / mp.gamma(2 * s) * mp.hyp0f1(s + 0.5, -q * u * u / 4) * poisson

        edges = [0, 0.01, 0.1, 0.5, 1, 2, 4, 7, 11, 16, 24, 36, 54, 80, 120]
        return mp.quad(integrand, edges)


def arc_cosine(order: int, w: mp.mpf) -> mp.mpf:
    """Shape of the arc-cosine kernel."""
    theta = mp.acos(w)
    if order == 0:
        return 1 - theta / mp.pi
    if order == 1:
        return (mp.sin(theta) + (mp.pi - theta) * mp.cos(theta)) / mp.pi
    return (3 * mp.sin(theta) * mp.cos(theta) + (mp.pi - theta) * (1 + 2 * mp.cos(theta) ** 2)) / (
        3 * mp.pi
    )


def parametrix(n: int, t: float, order: int, w: mp.mpf) -> mp.mpf:
    """``exp(-r^2/4t) (u_0 + .. + u_order t^order)``, or ``exp(-r^2/4t)`` for order 0."""
    r = mp.acos(w)
    gauss = mp.exp(-r * r / (4 * mp.mpf(t)))
    if order == 0:
        return gauss
    d = n - 1
    if r == 0:
        ratios = [
            mp.mpf(1),
            mp.mpf(d * (d - 1)) / 6,
            mp.mpf(d * (d - 1) * (5 * d * d - 7 * d + 6)) / 360,
        ]
        return mp.fsum(c * mp.mpf(t) ** k for k, c in enumerate(ratios[: order + 1]))
    u0 = (r / mp.sin(r)) ** (mp.mpf(d - 1) / 2)
    cot, z = mp.cot(r), r * r
    u1 = mp.mpf(d - 1) / (4 * z) * (3 - d + (d - 1) * z + (d - 3) * r * cot)
    constant = -mp.mpf((d - 3) * (d - 5) * (3 * d - 5)) / 3 - 2 * (d - 1) ** 2 * (d - 3)
    u2 = (
        mp.mpf(d - 1)
        / 32
        * (
            (d - 1) ** 3
            + (d - 3) * (d - 5) * (d - 7) / z**2
            - 2 * (d - 3) ** 2 * (d - 5) * cot / r**3
            + 2 * (d - 1) ** 2 * (d - 3) * cot / r
            + (d + 1) * (d - 3) * (d - 5) / (z * mp.sin(r) ** 2)
            + constant / z
        )
    )
    return gauss * u0 * mp.fsum(c * mp.mpf(t) ** k for k, c in enumerate([1, u1, u2][: order + 1]))
