"""The Kullback-Leibler kernel, against brute force, quadrature and the Fisher distance."""

import math

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, stats

from mercer.features import Multinomials
from mercer.kernels import Heat, KullbackLeibler
from mercer.spaces import NormalFamily, NormalProduct, Simplex, Sphere


def test_categories_against_brute_force() -> None:
    rng = np.random.default_rng(0)
    P, Q = rng.dirichlet(np.full(30, 0.3), size=12) + 1e-9, rng.dirichlet(np.ones(30), size=9)
    P /= P.sum(axis=1, keepdims=True)
    J = KullbackLeibler(Simplex()).divergences(7.0 * P, Q)
    truth = [[stats.entropy(p, q) + stats.entropy(q, p) for q in Q] for p in P]
    np.testing.assert_allclose(J, truth, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(KullbackLeibler(Simplex(), t=0.2)(P, Q), np.exp(-np.array(truth) / 3.2))


@pytest.mark.parametrize("gap", [1e-1, 1e-4, 1e-7, 1e-10])
def test_close_categories_keep_the_stated_digits(gap: float) -> None:
    p = np.array([0.5, 0.3, 0.2 - 1e-5, 1e-5])
    q = p * np.array([1 + gap, 1 - gap, 1 + gap, 1 - gap])
    q /= q.sum()
    with mp.workdps(50):
        first, second = ([mp.mpf(float(x)) for x in row] for row in (p, q))
        first, second = ([x / sum(row) for x in row] for row in (first, second))
        truth = sum((a - b) * mp.log(a / b) for a, b in zip(first, second, strict=True))
    J = KullbackLeibler(Simplex()).divergences([p], [q])[0, 0]
    assert abs(J - float(truth)) < 1e-15
    assert J >= -1e-15


def quadrature(m: float, s: float, q: float, r: float) -> float:
    first, second = stats.norm(m, s), stats.norm(q, r)

    def integrand(x: float) -> float:
        return (first.pdf(x) - second.pdf(x)) * (first.logpdf(x) - second.logpdf(x))

    return integrate.quad(integrand, -30, 30, points=[m, q], limit=300, epsabs=1e-13)[0]


@pytest.mark.parametrize("pair", [(0.0, 1.0, 0.5, 1.3), (2.0, 0.4, -1.0, 0.9), (0.0, 1.0, 0.0, 2.0)])
def test_normals_against_quadrature(pair: tuple) -> None:
    truth = quadrature(*pair)
    X, Y = [list(pair[:2])], [list(pair[2:])]
    assert KullbackLeibler(NormalFamily()).divergences(X, Y)[0, 0] == pytest.approx(truth, rel=1e-9)
    both = KullbackLeibler(NormalProduct()).divergences([X[0] * 2], [Y[0] * 2])[0, 0]
    assert both == pytest.approx(2 * truth, rel=1e-9)


def test_normals_in_several_dimensions() -> None:
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=(6, 3)), rng.gamma(3.0, size=6)])
    Y = np.column_stack([rng.normal(size=(4, 3)), rng.gamma(3.0, size=4)])

    def divergence(x: np.ndarray, y: np.ndarray) -> float:
        """KL(x || y) of multivariate normals, by the textbook."""
        ratio = (x[3] / y[3]) ** 2
        return (3 * ratio + ((x[:3] - y[:3]) ** 2).sum() / y[3] ** 2 - 3 - 3 * math.log(ratio)) / 2

    truth = np.array([[divergence(x, y) + divergence(y, x) for y in Y] for x in X])
    np.testing.assert_allclose(KullbackLeibler(NormalFamily()).divergences(X, Y), truth, rtol=1e-12)
    np.testing.assert_allclose(KullbackLeibler(NormalFamily(), t=0.4)(X, Y), np.exp(-truth / 9.6))


FAMILIES = [
    (Simplex(), [0.2, 0.5, 0.3], [0.1, -0.07, -0.03], 4.0),
    (NormalFamily(), [0.3, -1.0, 0.8], [0.2, 0.1, 0.3], 4.0),
    (NormalProduct(), [0.3, 0.8, 1.0, 2.0], [0.1, 0.3, -0.5, 0.6], 2.0),
]


@pytest.mark.parametrize(("space", "x", "direction", "unit"), FAMILIES, ids=lambda v: repr(v)[:12])
def test_squared_fisher_distance_at_close_points(space, x, direction, unit: float) -> None:
    # J - (squared Fisher distance) falls with the fourth power of the step.
    gaps = []
    for step in (0.3, 0.1, 0.03, 0.01):
        y = np.array(x) + step * np.array(direction)
        if isinstance(space, Simplex):
            square = unit * math.acos(np.sqrt(np.array(x) * y).sum()) ** 2
        else:
            square = space.fisher_distances([x], [y])[0, 0] ** 2
            assert square == pytest.approx(unit * space.distances([x], [y])[0, 0] ** 2, rel=1e-12)
        gaps.append(KullbackLeibler(space).divergences([x], [y])[0, 0] - square)
    slopes = np.diff(np.log(gaps)) / np.diff(np.log([0.3, 0.1, 0.03, 0.01]))
    assert (np.array(gaps) > 0).all()
    np.testing.assert_allclose(slopes, 4, atol=0.2)


@pytest.mark.parametrize(("space", "x", "direction", "unit"), FAMILIES, ids=lambda v: repr(v)[:12])
def test_becomes_the_heat_kernel_at_close_points(space, x, direction, unit: float) -> None:
    # Points about sqrt(t) apart: the heat kernel is the exponential up to the order t.
    ratios = []
    for t in (1e-2, 1e-3):
        y = np.array(x) + 2 * math.sqrt(t) * np.array(direction)
        heat, approximation = (law(space, t=t)([x], [y])[0, 0] for law in (Heat, KullbackLeibler))
        assert heat < 0.9999
        ratios.append(abs(math.log(heat / approximation)))
    assert ratios[0] < 0.05
    assert ratios[1] < ratios[0] / 6


def test_not_positive_semidefinite() -> None:
    # Normal distributions with a common mean, deviations in geometric progression.
    rows = np.column_stack([np.zeros(200), np.exp(np.linspace(-3, 3, 200))])
    for kernel, X in (
        (KullbackLeibler(NormalFamily(), t=2.0), rows),
        (KullbackLeibler(Simplex(), t=2.0), np.random.default_rng(0).dirichlet([0.1] * 3, 200) + 1e-6),
    ):
        assert not kernel.positive_semidefinite
        assert np.linalg.eigvalsh(kernel(X))[0] < -1e-3
    assert np.linalg.eigvalsh(Heat(NormalFamily(), t=2.0)(rows))[0] > -1e-12


@settings(deadline=None, max_examples=20, derandomize=True)
@given(seed=st.integers(0, 10**6), exponent=st.floats(-9, 2), t=st.floats(1e-3, 1e3))
def test_laws(seed: int, exponent: float, t: float) -> None:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(12, 6))
    X[:, 1::2] = np.exp(10**exponent * X[:, 1::2] / 10)
    X[-1] = X[0]
    kernel = KullbackLeibler(NormalProduct(), t=t)
    K = kernel(X)
    np.testing.assert_array_equal(K, K.T)
    np.testing.assert_array_equal(np.diag(K), 1.0)
    assert K[0, -1] == 1
    assert ((K >= 0) & (K <= 1)).all()
    scales = np.repeat(rng.gamma(2.0, size=3) + 0.1, 2)
    np.testing.assert_allclose(kernel(X * scales), K, atol=1e-10)
    # One deviation for all features is the spherical family, at k times the time.
    spherical = np.column_stack([X[:, 0::2], X[:, 1]])
    same = np.column_stack([X[:, 0], X[:, 1], X[:, 2], X[:, 1], X[:, 4], X[:, 1]])
    np.testing.assert_allclose(
        KullbackLeibler(NormalFamily(), t=t / 3)(spherical), KullbackLeibler(NormalProduct(), t=t)(same),
        atol=1e-12,
    )  # fmt: skip


@pytest.mark.parametrize("t", [1e-305, 1e-30, 1e30, 1e305])
def test_extreme_times(t: float) -> None:
    X = np.array([[0.2, 0.8], [0.5, 0.5], [0.5, 0.5]])
    expected = np.ones((3, 3)) if t > 1 else np.array([[1, 0, 0], [0, 1, 1], [0, 1, 1.0]])
    np.testing.assert_allclose(KullbackLeibler(Simplex(), t=t)(X), expected, atol=1e-12)
    np.testing.assert_allclose(KullbackLeibler(NormalFamily(), t=t)(X), expected, atol=1e-12)


def test_far_normals_are_not_alike() -> None:
    X = [[0.0, 1e-90], [1e90, 1e-90], [0.0, 1e90]]
    np.testing.assert_array_equal(KullbackLeibler(NormalFamily(), t=1.0)(X), np.eye(3))


def test_bad_input() -> None:
    counts = np.array([[3, 1, 2], [4, 0, 1], [1, 1, 1]])
    kernel = KullbackLeibler(Simplex())
    with pytest.raises(ValueError, match=r"row 1 of X has zeros.*Multinomials\(alpha=0.5\)"):
        kernel(counts)
    with pytest.raises(ValueError, match="row 1 of Y has zeros"):
        kernel(counts[::2], counts)
    assert kernel(Multinomials(alpha=0.5).fit_transform(counts)).shape == (3, 3)
    with pytest.raises(
        ValueError, match=r"no default time on NormalFamily\(\): give one, as in KullbackLeibler"
    ):
        KullbackLeibler(NormalFamily())([[0.0, 1.0]])
    with pytest.raises(TypeError, match="space must be Simplex"):
        KullbackLeibler(Sphere())([[0.0, 1.0]])
    with pytest.raises(ValueError, match="t of KullbackLeibler must be a positive number"):
        KullbackLeibler(Simplex(), t=0.0)(counts[:1])
    with pytest.raises(ValueError, match="row 0 of X has no positive scale"):
        KullbackLeibler(NormalFamily(), t=1.0)([[0.0, 0.0]])
