"""Moments of any order, zonal polynomials, averages on spheres, the trace kernel's variants."""

import itertools
import math

import numpy as np
import pytest
from mpmath import mp
from scipy import integrate, special
from sklearn.base import clone

from mercer.kernels import (
    Gaussian,
    InverseGeneralizedVariance,
    Linear,
    MixtureMoment,
    RegularizedMoment,
    SphericalAverage,
    TraceKernel,
)
from mercer.special.matrix_moments import log_norm_moment, log_sphere_average, log_zonal
from tests.helpers.clouds import BASE, random_clouds, split


def covariance(x, y):
    """Covariance of the mixture of two clouds, by its definition."""
    (P, a), (Q, b) = split(x), split(y)
    return np.cov(np.vstack([P, Q]).T, aweights=np.concatenate([a, b]) / 2, ddof=0)


def partitions(k, largest=None):
    """All partitions of k."""
    if k == 0:
        yield ()
    for first in range(min(k, largest or k), 0, -1):
        yield from ((first, *rest) for rest in partitions(k - first, first))


@pytest.mark.parametrize("order", [0, 1, 2, 3, 4, 7, 12])
def test_moments_of_any_order_are_the_published_sum(order: int) -> None:
    """The sum over all exponents of products of Gamma(j + 1/2) / Gamma(1/2) / l^j, times 2^i."""
    lambdas = [0.3, 1.7, 0.05]
    with mp.workdps(40):
        total = mp.mpf(0)
        for j in itertools.product(range(order + 1), repeat=3):
            if sum(j) == order:
                ways = math.factorial(order) // math.prod(map(math.factorial, j))
                pairs = zip(j, lambdas, strict=True)
                total += ways * mp.fprod(mp.rf(0.5, k) / mp.mpf(v) ** k for k, v in pairs)
        expected = mp.log(2**order * total)
    x = 0.05 / np.array(lambdas)
    found = log_norm_moment(x, order) - order * math.log(0.05)
    assert found == pytest.approx(float(expected), abs=1e-13)


def test_first_orders_are_the_closed_forms() -> None:
    clouds = random_clouds(np.random.default_rng(30), sizes=(4, 6, 5), d=3)
    closed = (
        lambda s: s[0],
        lambda s: s[0] ** 2 + 2 * s[1],
        lambda s: s[0] ** 3 + 6 * s[0] * s[1] + 8 * s[2],
    )
    for order, moment in enumerate(closed, start=1):
        K = RegularizedMoment(order=order, eps=0.1)(clouds)
        row = RegularizedMoment(order=(order,), eps=0.1)(clouds)
        for (i, x), (j, y) in itertools.product(enumerate(clouds), repeat=2):
            values = 1 / (np.linalg.eigvalsh(covariance(x, y)) + 0.1)
            expected = moment([(values**k).sum() for k in (1, 2, 3)]) * np.sqrt(values.prod())
            np.testing.assert_allclose(K[i, j], expected, rtol=1e-12)
        # The zonal polynomial of one part is the moment, divided by 1 * 3 * 5 * ...
        np.testing.assert_allclose(row, K / special.factorial2(2 * order - 1), rtol=1e-12)


def test_high_orders_stay_in_the_floating_range() -> None:
    """Equal eigenvalues: a chi-squared variable, ``2^i (n/2)_i``; one that dominates: n = 1."""
    for n, order in ((2000, 500), (1, 500), (800, 1), (3, 400)):
        expected = order * math.log(2) + math.lgamma(n / 2 + order) - math.lgamma(n / 2)
        assert log_norm_moment(np.ones(n), order) == pytest.approx(expected, rel=1e-13)
    alone = math.lgamma(500.5) - math.lgamma(0.5) + 500 * math.log(2)
    assert log_norm_moment(np.array([1.0, 1e-15]), 500) == pytest.approx(alone, rel=1e-13)


def test_zonal_polynomials_are_those_of_the_tables() -> None:
    """Degree 3 by power sums, and every degree by the sum over its partitions."""
    x = np.random.default_rng(31).random((5, 4))
    p = [(x**k).sum(axis=-1) for k in range(4)]
    np.testing.assert_allclose(
        np.exp(log_zonal(x, (2, 1))), 3 / 5 * (p[1] ** 3 + p[1] * p[2] - 2 * p[3]), rtol=1e-12
    )
    np.testing.assert_allclose(
        np.exp(log_zonal(x, (1, 1, 1))), (p[1] ** 3 - 3 * p[1] * p[2] + 2 * p[3]) / 3, rtol=1e-11
    )
    for k in (2, 5, 8):
        total = sum(np.exp(log_zonal(x, q)) for q in partitions(k) if len(q) <= 4)
        np.testing.assert_allclose(total, p[1] ** k, rtol=1e-13)


@pytest.mark.parametrize("partition", [(3,), (2, 2), (5, 2), (7, 6)])
def test_zonal_polynomials_of_two_variables_are_legendre(partition: tuple) -> None:
    """``C_(a, b) ~ (xy)^((a+b)/2) P_(a-b)((x + y) / (2 sqrt(xy)))``, also for far eigenvalues."""
    a, b = (*partition, 0)[:2]
    x, y = np.array([1.0, 1.0, 1.0]), np.array([1.0, 0.3, 1e-9])
    found = np.exp(log_zonal(np.stack([x, y], axis=-1), partition))
    root = np.sqrt(x * y)
    legendre = root ** (a + b) * special.eval_legendre(a - b, (x + y) / 2 / root)
    np.testing.assert_allclose(found / found[0], legendre / legendre[0], rtol=1e-11)


@pytest.mark.parametrize("partition", [(1,), (2, 1), (3, 1)])
def test_zonal_kernels_are_laplace_transforms(partition: tuple) -> None:
    """Integral over positive definite 2 x 2 matrices T of exp(-<S, T>) |T|^(n/2 - (n+1)/2) C(T)."""
    x, y = random_clouds(np.random.default_rng(32), sizes=(5, 4))
    kernel = RegularizedMoment(order=partition, rank="full", eps=0.4)
    K = kernel([x, y])

    def transform(S):
        low, high = np.linalg.eigvalsh(S)
        # T has the eigenvalues v = a^2 and v + s; over the angle of its eigenvectors, exp(-<S, T>) is a
        # Bessel function, and |T|^(-1/2) s dv ds = 2 s / sqrt(v + s) da ds.
        x, masses = np.polynomial.laguerre.laggauss(60)
        s, masses = x / low, masses * np.exp(x) / low
        y, weights = np.polynomial.legendre.leggauss(60)
        reach = 4 / np.sqrt(low + high)
        v, weights = (reach * (y[:, None] + 1)) ** 2, weights * reach
        angle = special.ive(0, (high - low) / 2 * s) * np.exp(-low * s - (low + high) * v)
        C = np.exp(log_zonal(np.stack(np.broadcast_arrays(v, v + s), axis=-1), partition))
        return weights @ (angle * C * 2 * s / np.sqrt(v + s)) @ masses

    truth = np.array([[transform(covariance(a, b) + 0.4 * np.eye(2)) for b in (x, y)] for a in (x, y)])
    np.testing.assert_allclose(K / K[0, 0], truth / truth[0, 0], rtol=1e-6)


def test_ranks_are_integrals_over_matrices() -> None:
    """``|S|^(-m/2) E C(V V')`` and ``E |V|^(2 order)``, V with m columns, by sampling."""
    clouds = random_clouds(np.random.default_rng(33), sizes=(6, 5), d=3)
    S = covariance(*clouds) + 0.5 * np.eye(3)
    rng = np.random.default_rng(0)
    V = np.linalg.solve(np.linalg.cholesky(S).T, rng.normal(size=(200_000, 3, 2)))
    lengths = (V**2).sum(axis=(1, 2)) ** 2
    found = RegularizedMoment(order=2, rank=2, eps=0.5)(clouds)[0, 1]
    assert found == pytest.approx(lengths.mean() / np.linalg.det(S), rel=0.02)
    # C_(1,1) of V V' is 4/3 of |V'V|, and its mean (m/2)_(1,1) 2^2 C_(1,1)(S^-1).
    areas = 4 / 3 * np.linalg.det(V.swapaxes(1, 2) @ V)
    found = RegularizedMoment(order=(1, 1), rank=2, eps=0.5)(clouds)[0, 1]
    assert found * 4 * 1.0 * 0.5 == pytest.approx(areas.mean() / np.linalg.det(S), rel=0.02)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"order": -1}, "order of RegularizedMoment must be a whole number from 0 to 500"),
        ({"order": 501}, "order of RegularizedMoment"),
        ({"order": 1.5}, "order of RegularizedMoment"),
        ({"order": (1, 2)}, "descending whole numbers"),
        ({"order": ()}, "order of RegularizedMoment"),
        ({"order": (15, 6)}, "sum of at most 20"),
        ({"order": (1, 1), "rank": 1}, "at least 2 for order"),
        ({"rank": "all"}, "rank of RegularizedMoment must be 'full'"),
        ({"order": (1, 1, 1), "rank": "full"}, "has 3 parts, but points have 2 coordinates"),
    ],
)
def test_bad_orders(options: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        RegularizedMoment(**options)(random_clouds(np.random.default_rng(34)))


@pytest.mark.parametrize("t", [0.1, 3.0, 40.0])
def test_averages_on_spheres_against_quadrature(t: float) -> None:
    eigenvalues = np.array([0.0, 0.4, 4.5])

    def inner(height):
        # On a circle of the sphere the average is a Bessel function.
        a, b = eigenvalues[:2] * (1 - height**2)
        mean, half = (a + b) / 2, (b - a) / 2
        exponent = -t * (eigenvalues[2] * height**2 + mean - half)
        return special.ive(0, t * half) * np.exp(exponent)

    truth = integrate.quad(inner, 0, 1, epsabs=0, epsrel=1e-12)[0]
    assert np.exp(log_sphere_average(eigenvalues, t)) == pytest.approx(truth, rel=1e-11)


def test_spheres_make_up_the_inverse_generalised_variance() -> None:
    """The Laplace transform of ``f(t)`` at s is proportional to ``|I + S / s|^(-1/2)``."""
    clouds, s, n = random_clouds(np.random.default_rng(35), sizes=(4, 6), d=3), 0.7, 3
    nodes, weights = np.polynomial.legendre.leggauss(60)
    radii = 3.5 * (nodes + 1)  # t = r^2, so that t^(n/2 - 1) dt = 2 r^(n-1) dr
    values = [SphericalAverage(t=r**2)(clouds) for r in radii]
    masses = 3.5 * weights * np.exp(-s * radii**2) * 2 * radii ** (n - 1)
    transform = np.tensordot(masses, values, axes=1) * s ** (n / 2) / math.gamma(n / 2)
    expected = InverseGeneralizedVariance(Linear(), eta=s)(clouds)
    np.testing.assert_allclose(transform, expected, rtol=1e-9)


def test_spheres_that_are_too_large_are_refused() -> None:
    clouds = random_clouds(np.random.default_rng(36))
    with pytest.raises(ValueError, match=r"t of SphericalAverage must be at most .* for these clouds"):
        SphericalAverage(t=1e5)(clouds)
    with pytest.raises(ValueError, match="base of SphericalAverage must have explicit features"):
        SphericalAverage(base=Gaussian())(clouds)
    assert (SphericalAverage()([np.ones((3, 2))] * 2) == 1).all()


def test_variants_of_the_trace_kernel() -> None:
    """Powers and logarithms of ``<S, M>`` by their definitions."""
    clouds = random_clouds(np.random.default_rng(37), sizes=(3, 5, 1))
    M = np.array([[2.0, 0.6], [0.6, 0.5]])
    v = np.array([[np.trace(covariance(x, y) @ M) for y in clouds] for x in clouds]) / 0.3
    power = TraceKernel(Linear(), t=0.3, beta=0.4, metric=M)
    np.testing.assert_allclose(power(clouds), np.exp(-(v**0.4)), rtol=1e-12)
    rational = TraceKernel(Linear(), t=0.3, beta=1.5, metric=M, decay="rational")
    np.testing.assert_allclose(rational(clouds), (1 + v) ** -1.5, rtol=1e-12)
    np.testing.assert_allclose(rational(clouds[:1], clouds), (1 + v[:1]) ** -1.5, rtol=1e-12)
    flat = TraceKernel(Linear(), metric=np.diag([0.0, 1.0]))
    column = TraceKernel(Linear())
    tall = [(split(c)[0][:, 1:], split(c)[1]) for c in clouds]
    np.testing.assert_allclose(flat(clouds), column(tall), rtol=1e-12)


def test_variants_of_the_trace_kernel_can_be_scaled() -> None:
    clouds = random_clouds(np.random.default_rng(38), sizes=(4,) * 12)
    for kernel in (
        TraceKernel(BASE, decay="rational", beta=3.0, normalized=True),
        TraceKernel(BASE, beta=0.5, normalized=True),
        SphericalAverage(normalized=True),
        RegularizedMoment(order=5, normalized=True),
    ):
        K = kernel.scaled_to(clouds, 0.8)(clouds)
        assert np.median(K[np.triu_indices(12, 1)]) == pytest.approx(0.8, abs=1e-3)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"beta": 1.2}, "beta of TraceKernel must be at most 1"),
        ({"beta": 0.0}, "beta of TraceKernel must be a positive number"),
        ({"decay": "power"}, "decay of TraceKernel must be one of 'exponential', 'rational'"),
        ({"metric": np.diag([1.0, -1.0])}, "positive semidefinite; .* eigenvalue -1"),
        ({"metric": [[1.0, 1.0], [0.0, 1.0]]}, "metric of TraceKernel must be symmetric"),
        ({"metric": np.eye(3)}, r"has shape \(3, 3\), but points have 2 coordinates"),
        ({"metric": [1.0, 2.0]}, "must be a square matrix"),
    ],
)
def test_bad_variants_of_the_trace_kernel(options: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        TraceKernel(Linear(), **options)(random_clouds(np.random.default_rng(39)))
    with pytest.raises(ValueError, match="base of TraceKernel with a metric must have explicit"):
        TraceKernel(Gaussian(), metric=np.eye(2))(random_clouds(np.random.default_rng(39)))


@pytest.mark.parametrize("base", [BASE, Linear()], ids=["Gaussian", "Linear"])
def test_series_by_traces(base) -> None:
    rng = np.random.default_rng(40)
    clouds, others = random_clouds(rng), random_clouds(rng, sizes=(2, 6, 3))
    kernel = MixtureMoment(base)
    kernel = clone(kernel).set_params(delta=0.8 * kernel.safe_delta(clouds + others, rule="spectrum"))
    for Y in (None, others):
        for tolerance in (1e-3, 1e-12):
            by_traces = kernel.series(clouds, Y, tolerance=tolerance, method="traces")
            assert (np.abs(by_traces.values - kernel(clouds, Y)) <= by_traces.error).all()
            assert (by_traces.error <= tolerance + 1e-13).all()
            fewest = kernel.series(clouds, Y, tolerance=tolerance).terms
            assert (by_traces.terms >= fewest).all()
    with pytest.raises(ValueError, match="the series diverges for row"):
        clone(kernel).set_params(delta=1e3).series(clouds, method="traces")
    with pytest.raises(ValueError, match="method must be"):
        kernel.series(clouds, method="trace")


def test_safe_deltas_are_safe_and_ordered() -> None:
    rng = np.random.default_rng(41)
    clouds, others = random_clouds(rng, sizes=(1, 2, 9)), random_clouds(rng, sizes=(4, 2))
    for base in (BASE, Linear(), 3.0 * BASE):
        for Y in (None, others):
            kernel = MixtureMoment(base)
            rules = [kernel.safe_delta(clouds, Y, rule) for rule in ("spectrum", "variance", "weights")]
            assert rules[0] >= rules[1] >= rules[2] > 0
            for delta in (1e-18, 1e18):  # that of the kernel does not matter
                assert MixtureMoment(base, delta).safe_delta(clouds, Y, "spectrum") == rules[0]
            clone(kernel).set_params(delta=0.9 * rules[0]).series(clouds, Y)
            with pytest.raises(ValueError, match="diverges"):
                clone(kernel).set_params(delta=1.01 * rules[0]).series(clouds, Y)
    # Sizes from d to D with equal weights: the published rule is at least (d / D)^3.
    even = [rng.normal(size=(k, 2)) for k in (4, 6)]
    assert MixtureMoment(BASE).safe_delta(even, rule="weights") >= (4 / 6) ** 3
    assert MixtureMoment(BASE).safe_delta([[[1.0]], [[1.0]]]) == np.inf
    with pytest.raises(ValueError, match="rule must be"):
        MixtureMoment(BASE).safe_delta(even, rule="sizes")


def test_every_delta_is_safe_for_clouds_at_the_origin() -> None:
    clouds = [np.zeros((2, 2)), np.zeros((1, 2))]
    for rule in ("spectrum", "variance", "weights"):
        assert MixtureMoment(Linear()).safe_delta(clouds, rule=rule) == np.inf
