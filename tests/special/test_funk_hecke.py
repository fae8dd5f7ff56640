"""Weights of functions of the angle, against integrals in high precision."""

import math
from itertools import pairwise

import mpmath as mp
import numpy as np
import pytest

from mercer.harmonics import funk_hecke
from mercer.special.zonal import log_multiplicities

#: Shapes for NumPy and mpmath alike, with the angles where they are not smooth.
SHAPES = {
    "von Mises": (lambda x, m: m.exp(2 * m.cos(x)), ()),
    "Poisson kernel": (lambda x, m: (1.04 - 0.4 * m.cos(x)) ** -1.5, ()),
    "inverse multiquadric": (lambda x, m: (1.25 - m.cos(x)) ** -0.5, ()),
    "polynomial": (lambda x, m: (1 + m.cos(x)) ** 5, ()),
    "arc-cosine 0": (lambda x, m: 1 - x / m.pi, ()),
    "arc-cosine 1": (lambda x, m: m.sin(x) + (m.pi - x) * m.cos(x), ()),
    "exponential": (lambda x, m: m.exp(-2 * x), ()),
    "root of the angle": (lambda x, m: m.exp(-m.sqrt(x)), ()),
    "sine": (lambda x, m: 1 - m.sin(x / 2), ()),
    "support": (lambda x, m: (1 - x / 2) ** 4 * (2 * x + 1) * (x < 2), (2.0,)),
}
LEVELS = 10


def by_integrals(shape, edges, n):
    """The weights of the first levels by double-exponential quadrature between the edges."""
    with mp.workdps(40):
        # The density is below 1e-48 further away from the equator.
        reach = mp.asin(mp.exp(-mp.mpf(110) / (n - 2)))
        ends = sorted({reach, mp.pi / 2, mp.pi - reach, *(mp.mpf(e) for e in edges)})
        ends = [x for x in ends if reach <= x <= mp.pi - reach]
        sums, whole = [mp.mpf(0)] * LEVELS, mp.mpf(0)
        for low, high in pairwise(ends):
            for k in range(-80, 81):
                t = mp.mpf(k) / 20
                half = mp.pi / 2 * mp.sinh(t)
                x = low + (high - low) / (1 + mp.exp(-2 * half))
                weight = (high - low) * mp.cosh(t) / mp.cosh(half) ** 2 * mp.sin(x) ** (n - 2)
                w, value = mp.cos(x), weight * shape(x, mp)
                before, here = mp.mpf(0), mp.mpf(1)
                whole += weight
                for level in range(LEVELS):
                    sums[level] += value * here
                    ahead = (2 * level + n - 2) * w * here - level * before
                    before, here = here, ahead / (level + n - 2)
        return [total / whole for total in sums]


@pytest.mark.parametrize("n", [3, 10, 100, 1000])
@pytest.mark.parametrize("name", SHAPES)
def test_weights_are_the_integrals_within_their_bounds(name, n):
    shape, edges = SHAPES[name]
    found = funk_hecke(lambda x: shape(x, np), n, LEVELS)
    true = by_integrals(shape, edges, n)
    gaps = np.array([abs(float(a - mp.mpf(float(b)))) for a, b in zip(true, found.weights, strict=True)])
    assert np.all(gaps <= found.errors), gaps / found.errors
    # The bounds are those of double precision: the polynomials are about N_l^(-1/2).
    largest = np.abs(shape(np.linspace(0, np.pi, 200), np)).max()
    sizes = np.exp(-0.5 * log_multiplicities(n, LEVELS).astype(float))
    assert np.all(found.errors < 2e-14 * largest * sizes), found.errors / largest / sizes


def test_high_levels_of_the_poisson_kernel():
    r = 0.98
    for n in (2, 3, 6):
        found = funk_hecke(
            lambda x, n=n: (1 - r * r) / (1 - 2 * r * np.cos(x) + r * r) ** (n / 2), n, 1000
        )
        true = r ** np.arange(1000.0)
        assert np.all(np.abs(found.weights - true) <= found.errors)
        assert np.abs(found.weights[:400] / true[:400] - 1).max() < 1e-8


def test_noise_of_the_shape_is_part_of_the_bound():
    rng = np.random.default_rng(0)
    exact = funk_hecke(lambda x: np.exp(-x), 4, 30)
    found = funk_hecke(lambda x: np.exp(-x) + 1e-9 * rng.uniform(-1, 1, x.shape), 4, 30)
    gaps = np.abs(found.weights - exact.weights)
    assert np.all(gaps <= found.errors)
    assert found.errors[0] < 1e-8


def test_a_jump_is_located():
    found = funk_hecke(lambda x: (x < 1.0) * 1.0, 3, 40)
    # E[w < t] and its levels by the integral of Legendre polynomials.
    c = math.cos(1.0)
    legendre = [float(mp.legendre(k, c)) for k in range(42)]
    true = [(1 - c) / 2] + [
        (legendre[k - 1] - legendre[k + 1]) / (2 * (2 * k + 1)) for k in range(1, 40)
    ]
    assert np.abs(found.weights - true).max() < 1e-14


@pytest.mark.parametrize(
    ("shape", "words"),
    [
        (lambda x: np.where(x > 3, np.nan, 1.0), "finite"),
        (lambda x: x[:3], "shape"),
        (lambda x: x + 1j, "real"),
    ],
)
def test_values_that_are_no_function_are_refused(shape, words):
    with pytest.raises(ValueError, match=words):
        funk_hecke(shape, 3, 4)
