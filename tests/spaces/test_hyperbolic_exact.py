"""Kernels of hyperbolic space against its resolvent, in every dimension that is promised."""

import math

import mpmath as mp
import numpy as np
import pytest

from mercer.kernels import Heat, Matern
from mercer.spaces import Hyperbolic
from mercer.spaces import hyperbolic as hyperbolic_space
from tests.helpers.resolvents import log_heat

DIMENSIONS = [1, 2, 3, 4, 5, 6, 9, 10, 21, 51, 100]
TIMES = [0.01, 0.1, 0.5, 1.0, 3.0]
DISTANCES = np.array([0.0, 0.5, 1.2, 3.0, 6.0])


def line(rho: np.ndarray, d: int) -> np.ndarray:
    """Points of the half-space at distances rho from the first, which is at 0."""
    points = np.zeros((len(rho), d))
    points[:, -1] = np.exp(rho)
    return points


@pytest.mark.parametrize("t", TIMES)
@pytest.mark.parametrize("d", DIMENSIONS)
def test_heat(d: int, t: float) -> None:
    expected = np.array([log_heat(d, t, rho) for rho in DISTANCES])
    X = line(DISTANCES, d)
    absolute, normalized = Heat(Hyperbolic(), t=t, normalized=False), Heat(Hyperbolic(), t=t)
    np.testing.assert_allclose(absolute.log(X[:1], X)[0], expected, rtol=0, atol=1e-10)
    relative = expected - expected[0]
    np.testing.assert_allclose(normalized.log(X[:1], X)[0], relative, rtol=0, atol=1e-10)
    np.testing.assert_allclose(normalized(X[:1], X)[0], np.exp(relative), rtol=1e-10)
    if abs(expected[0]) < math.log(np.finfo(float).max):
        np.testing.assert_allclose(absolute(X[:1], X)[0], np.exp(expected), rtol=1e-10)
    else:
        with pytest.raises(ValueError, match="out of the floating-point range; use normalized=True"):
            absolute(X[:1], X)


@pytest.mark.parametrize("d", [2, 7])
@pytest.mark.parametrize("t", [1e-4, 0.3, 100.0])
def test_heat_far_out(d: int, t: float) -> None:
    """Far distances, where an even dimension integrates over much of the line; extreme times."""
    rho = np.array([20.0, 54.0])
    expected = [log_heat(d, t, r) for r in rho]
    X = line(np.append(0.0, rho), d)
    found = Heat(Hyperbolic(), t=t, normalized=False).log(X[:1], X[1:])[0]
    np.testing.assert_allclose(found, expected, rtol=1e-13, atol=1e-10)


@pytest.mark.parametrize("d", [1, 3])
@pytest.mark.parametrize("t", [1e-8, 1e-6, 1e-3])
def test_heat_at_short_times(d: int, t: float) -> None:
    """Where logarithms far out are large, those of close points keep their digits."""
    u = t * np.logspace(-3, 1.5, 50)
    rho = np.array([float(mp.acosh(1 + mp.mpf(x))) for x in u])
    known = np.exp(-(rho**2) / (4 * t)) * (rho / np.sinh(rho) if d == 3 else 1.0)
    kernel = Heat(Hyperbolic(), t=t)
    found, slope = u[None].copy(), u[None].copy()
    kernel.profile(d).apply(found)
    kernel.gradient_profile(d, "t").apply(slope)
    np.testing.assert_allclose(found[0], known, rtol=0, atol=1e-13)
    np.testing.assert_allclose(slope[0], known * rho**2 / (4 * t), rtol=0, atol=1e-13)


def test_large_absolute_values_keep_their_tails() -> None:
    """A value that is tiny beside that at zero is no underflow where that is large."""
    X = line(np.array([0.0, 5.1]), 100)
    kernel = Heat(Hyperbolic(), t=0.01, normalized=False)
    log = kernel.log(X)[0, 1]
    assert -708 < log < -700
    assert kernel(X)[0, 1] == pytest.approx(math.exp(log), rel=1e-9)
    assert Heat(Hyperbolic(), t=0.01)(X)[0, 1] == 0.0


@pytest.mark.parametrize(
    ("d", "nu", "scale"), [(1, 0.3, 1.0), (2, 0.25, 1.0), (2, 0.5, 0.6), (3, 2.5, 1.0), (10, 1.0, 2.0)]
)
def test_matern_is_a_mixture_of_heat_kernels(d: int, nu: float, scale: float) -> None:
    """``int t^(s-1) exp(-2 nu t / scale^2) K_t dt / Gamma(s)``, s = nu + d / 2, by steps in log t."""
    rho, s = 2.0, nu + d / 2
    step = 0.26
    log_t = np.arange(-3.7, 4.2, step)
    heat = np.array([log_heat(d, math.exp(x), rho) for x in log_t])
    terms = s * log_t - 2 * nu / scale**2 * np.exp(log_t) + heat
    expected = step * np.exp(terms).sum() / math.gamma(s)
    X = line(np.array([0.0, rho]), d)
    kernel = Matern(Hyperbolic(), nu=nu, length_scale=scale, normalized=False)
    assert kernel(X)[0, 1] == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("nu", [0.25, 0.5, 1.0, 3.5])
@pytest.mark.parametrize("d", [2, 4])
def test_matern_at_equal_points(nu: float, d: int) -> None:
    """The integral over the Plancherel measure ``x tanh(pi x) prod (x^2 + (k + 1/2)^2)``."""
    s, rate = mp.mpf(nu) + d / 2, mp.mpf(2 * nu) + mp.mpf((d - 1) ** 2) / 4
    # x^2 + 1/4 = (x^2 + rate) + (1/4 - rate): powers of x^2 + rate are integrated in closed form.
    parts = [(1, s)] if d == 2 else [(1, s - 1), (mp.mpf(0.25) - rate, s)]
    smooth = sum(c * rate ** (1 - p) / (2 * (p - 1)) for c, p in parts)

    def rest(x):
        return sum(c * (x * x + rate) ** -p for c, p in parts) * x * (1 - mp.tanh(mp.pi * x))

    value = smooth - mp.quad(rest, [0, 1, 3, 12])
    unit = 2 * mp.pi ** (d / 2) / ((2 * mp.pi) ** d * mp.gamma(d / 2))
    found = Matern(Hyperbolic(), nu=nu, length_scale=1.0, normalized=False).log_self_similarity(d)
    assert found == pytest.approx(float(mp.log(unit * value)), abs=1e-10)


def test_rough_matern_close_to_zero() -> None:
    """``1 - K`` falls like rho^(2 nu) down to distances that a double hardly tells from zero."""
    rho = np.array([0.0, 1e-12, 1e-9, 1e-6])
    X = np.zeros((4, 2))
    X[:, 0], X[:, 1] = rho, 1.0
    K = Matern(Hyperbolic(), nu=0.25, length_scale=1.0)(X)[0]
    slopes = np.diff(np.log(1 - K[1:])) / np.diff(np.log(rho[1:]))
    np.testing.assert_allclose(slopes, 0.5, atol=2e-3)


def test_matern_too_rough() -> None:
    with pytest.raises(ValueError, match="nu of Matern on hyperbolic space must be at least"):
        Matern(Hyperbolic(), nu=0.1, length_scale=1.0)([[0.0, 1.0]])


@pytest.mark.parametrize("normalized", [True, False])
@pytest.mark.parametrize("d", [1, 2, 3, 10, 51, 100])
def test_gradient_by_time(d: int, normalized: bool) -> None:
    t, step = 0.2, 1e-4
    rho = np.array([0.0, 0.6, 2.0])
    X = line(rho, d)
    up, down = (log_heat_of(t * math.exp(e), X, normalized) for e in (step, -step))
    K, gradient = Heat(Hyperbolic(), t=t, normalized=normalized)(X, eval_gradient=True)
    slope = (up - down) / (2 * step)
    np.testing.assert_allclose(gradient[0, :, 0] / K[0], slope, rtol=1e-6, atol=1e-6)


def log_heat_of(t: float, X: np.ndarray, normalized: bool) -> np.ndarray:
    return Heat(Hyperbolic(), t=t, normalized=normalized).log(X)[0]


def test_profile_and_gradient_share_what_is_dear() -> None:
    from mercer.special import hyperbolic

    asked = []
    compose = hyperbolic.GaussianGenerator.compose

    def counted(self, y):
        asked.append(self)
        return compose(self, y)

    hyperbolic_space._tables.cache_clear()
    hyperbolic_space._log_profile.cache_clear()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(hyperbolic.GaussianGenerator, "compose", counted)
        kernel = Heat(Hyperbolic(), t=0.123)
        kernel.profile(100)
        first = len(asked)
        kernel.gradient_profile(100, "t")
    assert first < 1000
    assert len(asked) < 2.5 * first
