"""Posterior averages of other kernels, and Fisher kernels, against quadrature, samples and scores."""

import math

import numpy as np
import pytest
from mpmath import mp
from scipy import integrate, sparse, stats

from mercer.kernels import (
    Cosine,
    FisherMultinomial,
    FisherNormal,
    Heat,
    Parametrix,
    PosteriorCosine,
    PosteriorNormal,
    PosteriorParametrix,
)
from mercer.spaces import NormalFamily, Simplex

COUNTS = np.array([[2, 0, 1, 0], [1, 1, 0, 0], [0, 0, 3, 1], [5, 2, 1, 9], [0, 0, 0, 0]])
GROUPS = [np.array([[1.0], [2.0], [3.5]]), np.array([[0.0], [0.4]]), np.linspace(-2, 6, 30)[:, None]]


def test_cosine_averages_in_fifty_digits() -> None:
    alpha = 0.3
    K = PosteriorCosine(alpha)(COUNTS)
    with mp.workdps(50):
        a = mp.mpf(alpha)

        def roots(row):
            total = mp.fsum(row) + len(row) * a
            ratio = mp.gamma(total) / mp.gamma(total + 0.5)
            return [mp.gamma(int(c) + a + 0.5) / mp.gamma(int(c) + a) * ratio for c in row]

        means = [roots(row.tolist()) for row in COUNTS]
        truth = [[float(mp.fdot(x, y)) for y in means] for x in means]
    np.testing.assert_allclose(K, truth, rtol=1e-14)
    samples = [
        np.sqrt(np.random.default_rng(i).dirichlet(r + alpha, 10**5)) for i, r in enumerate(COUNTS)
    ]
    means = np.array([s.mean(axis=0) for s in samples])
    np.testing.assert_allclose(K, means @ means.T, atol=5e-3)


def test_cosine_averages_of_sparse_rows() -> None:
    rng = np.random.default_rng(0)
    X = rng.poisson(0.05, size=(30, 800))
    for kernel in (PosteriorCosine(0.1), PosteriorCosine(2.0, normalized=True)):
        K = kernel(X)
        np.testing.assert_allclose(kernel(sparse.csr_matrix(X)), K, rtol=1e-13)
        np.testing.assert_allclose(kernel(sparse.csr_matrix(X), X[:4]), K[:, :4], rtol=1e-13)
        np.testing.assert_allclose(kernel.diag(sparse.csr_matrix(X)), np.diag(K), rtol=1e-13)
        F = kernel.explicit_features(sparse.csr_matrix(X))
        np.testing.assert_allclose(F @ F.T, K, rtol=1e-13)
        assert kernel(X.astype(np.float32)).dtype == np.float32
    wide = sparse.csr_matrix(([3.0, 1.0, 2.0], [5, 1999999, 5], [0, 2, 3]), shape=(2, 2_000_000))
    assert np.isfinite(PosteriorCosine(1e-6)(wide)).all()


@pytest.mark.parametrize("kind", ["cosine", "parametrix"])
def test_many_counts_leave_the_kernel_of_shares(kind: str) -> None:
    X = COUNTS[:4] + 1.0
    averaged, plain = {
        "cosine": (PosteriorCosine(), Cosine(Simplex())),
        "parametrix": (PosteriorParametrix(t_star=0.5), Parametrix(Simplex(), t_star=0.5)),
    }[kind]
    gaps = [np.abs(averaged(f * X) - plain(X)).max() for f in (1.0, 1e3, 1e6)]
    assert gaps[0] > 100 * gaps[1] > 1e4 * gaps[2]


@pytest.mark.parametrize("t", [0.05, 0.2, 2.0])
def test_parametrix_of_two_categories_against_quadrature(t: float) -> None:
    """Two categories are angles with densities cos^(2a-1) sin^(2b-1) on a quarter circle."""
    X, alpha = np.array([[1, 0], [3, 2], [0, 20]]), 0.7
    nodes, weights = np.polynomial.legendre.leggauss(400)
    # The substitution removes the singularities at the ends.
    u = (nodes + 1) / 2
    angle, rest = (np.pi / 2 * v**4 * (35 - 84 * v + 70 * v**2 - 20 * v**3) for v in (u, 1 - u))
    jacobian = (u * (1 - u)) ** 3

    def density(row):
        a, b = row + alpha
        values = np.sin(rest) ** (2 * a - 1) * np.sin(angle) ** (2 * b - 1) * jacobian * weights
        return values / values.sum()

    values = np.exp(-((angle[:, None] - angle) ** 2) / (4 * t))
    truth = [[density(x) @ values @ density(y) for y in X] for x in X]
    kernel = PosteriorParametrix(t=t, alpha=alpha)
    if kernel.is_exact(2):
        np.testing.assert_allclose(kernel(X), truth, rtol=0, atol=1e-13)
    sampled = PosteriorParametrix(t=t, alpha=alpha, method="samples", n_samples=1024)
    assert (np.abs(sampled(X) - truth) <= 4 * sampled.standard_error(X)).all()


def test_parametrix_series_and_samples_agree() -> None:
    X = np.random.default_rng(1).poisson(0.4, size=(6, 40))
    exact = PosteriorParametrix(t_star=0.4)
    sampled = PosteriorParametrix(t_star=0.4, method="samples", n_samples=512)
    assert exact.is_exact(40)
    assert (exact.standard_error(X) == 0).all()
    assert (np.abs(exact(X) - sampled(X)) <= 4 * sampled.standard_error(X)).mean() > 0.95
    assert not exact.positive_semidefinite
    np.testing.assert_allclose(exact(sparse.csr_matrix(X)), exact(X), rtol=1e-13)
    K = exact.scaled_to(X, 0.8)(X)
    lengths = np.sqrt(np.diag(K))
    cosines = (K / lengths / lengths[:, None])[np.triu_indices(6, 1)]
    assert np.median(cosines) == pytest.approx(0.8, abs=0.01)


@pytest.mark.parametrize("kernel", [PosteriorCosine(), PosteriorParametrix()], ids=repr)
def test_proportions_and_bad_counts_are_refused(kernel) -> None:
    with pytest.raises(ValueError, match="proportions do not tell how many counts"):
        kernel([[0.5, 0.5, 0.0]])
    with pytest.raises(ValueError, match="row 1 of X has negative entries"):
        kernel([[1, 2], [3, -1]])
    with pytest.raises(ValueError, match="X has 4 columns, Y has 3"):
        kernel(COUNTS, COUNTS[:, :3])


def normal_gamma(x, size, seed, degrees=0.0, deviation=1.0):
    """Samples (mu, sigma) of the posterior, by its definition."""
    rng, (m, d), mean = np.random.default_rng(seed), x.shape, x.mean(axis=0)
    total = degrees * deviation**2 + ((x - mean) ** 2).sum()
    sigma = np.sqrt(total / rng.chisquare(degrees + d * (m - 1), size=size))
    mu = mean + sigma[:, None] / math.sqrt(m) * rng.normal(size=(size, d))
    return np.column_stack([mu, sigma])


def test_normal_averages_against_samples() -> None:
    rng = np.random.default_rng(2)
    groups = [rng.normal(size=(m, 2)) * s for m, s in ((2, 1.0), (5, 3.0), (40, 1.0))]
    for degrees in (0.0, 3.0):
        kernel = PosteriorNormal(t=0.4, prior_degrees=degrees, prior_deviation=2.0, n_samples=512)
        heat = Heat(NormalFamily(), t=0.4)
        draws = [[normal_gamma(g, 800, s, degrees, 2.0) for g in groups] for s in (0, 1)]
        truth = np.array([[heat(a, b).mean() for b in draws[1]] for a in draws[0]])
        error = np.hypot(3 * kernel.standard_error(groups), 0.02)
        assert (np.abs(kernel(groups) - truth) <= error).all()


def test_normal_average_with_a_point_by_quadrature() -> None:
    """A huge group is nearly a point: the average over the posterior of the other is two integrals."""
    x = GROUPS[0]
    point = np.random.default_rng(3).normal(2.0, 1.5, size=(200_000, 1))
    heat = Heat(NormalFamily(), t=0.5)
    there = [[point.mean(), point.std()]]
    m, mean, total = len(x), x.mean(), ((x - x.mean()) ** 2).sum()

    def inner(tau):  # 1 / sigma^2
        sigma = tau**-0.5
        nodes, weights = np.polynomial.hermite_e.hermegauss(40)
        rows = np.column_stack([mean + sigma / math.sqrt(m) * nodes, np.full(40, sigma)])
        return (weights @ heat(rows, there))[0] / math.sqrt(2 * math.pi)

    density = stats.gamma((m - 1) / 2, scale=2 / total).pdf
    truth = integrate.quad(lambda tau: inner(tau) * density(tau), 0, 20, epsabs=1e-6)[0]
    kernel = PosteriorNormal(t=0.5, n_samples=2048)
    assert kernel([x], [point])[0, 0] == pytest.approx(truth, abs=3e-3)


def test_normal_averages_obey_their_laws() -> None:
    kernel = PosteriorNormal(t=0.3, n_samples=64)
    K = kernel(GROUPS)
    np.testing.assert_array_equal(K, K.T)
    np.testing.assert_allclose(kernel(GROUPS[:1], GROUPS), K[:1], atol=1e-13)
    np.testing.assert_allclose(kernel.diag(GROUPS), np.diag(K), atol=1e-13)
    np.testing.assert_allclose(kernel([7 - 3 * g for g in GROUPS]), K, atol=0.05)
    np.testing.assert_allclose(kernel([7 + 3 * g for g in GROUPS]), K, atol=1e-11)
    repeated = [np.repeat(g, 10_000, axis=0) for g in GROUPS]
    rows = [[g.mean(), g.std()] for g in GROUPS]
    np.testing.assert_allclose(kernel(repeated), Heat(NormalFamily(), t=0.3)(rows), atol=1e-3)
    assert kernel([g.astype(np.float32) for g in GROUPS]).dtype == np.float32
    assert kernel.scaled_to(GROUPS, 0.5).t > 0


@pytest.mark.parametrize(
    ("groups", "options", "message"),
    [
        ([GROUPS[0], [[1.0]]], {}, "row 1 of X has too few observations .* prior_degrees of at least 1"),
        ([GROUPS[0], [[1.0], [1.0]]], {}, "row 1 of X has equal observations"),
        ([(GROUPS[0], [0.2, 0.3, 0.5])], {}, "row 0 of X is a tuple"),
        (GROUPS, {"t": 0.0}, "t of PosteriorNormal must be a positive number"),
        (GROUPS, {"prior_degrees": -1.0}, "prior_degrees of PosteriorNormal"),
        (GROUPS, {"n_samples": 8}, "n_samples of PosteriorNormal must be a whole number of at least 16"),
        ([GROUPS[0], np.ones((3, 2))], {}, "row 1 of X"),
    ],
)
def test_bad_groups(groups, options: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        PosteriorNormal(**options)(groups)


def test_multinomial_scores_by_differences() -> None:
    """Scores in the logits, and the pseudo-inverse of their information: any parameters will do."""
    theta, X = np.array([0.4, 0.3, 0.2, 0.1]), COUNTS[:4].astype(float)
    logits, step = np.log(theta), 1e-6

    def log_likelihood(f):
        return X @ (f - np.log(np.exp(f).sum()))

    moves = step * np.eye(4)
    scores = np.stack(
        [(log_likelihood(logits + e) - log_likelihood(logits - e)) / (2 * step) for e in moves], axis=1
    )
    information = np.diag(theta) - np.outer(theta, theta)
    truth = scores @ np.linalg.pinv(information, rcond=1e-10) @ scores.T
    kernel = FisherMultinomial(probabilities=10 * theta)
    np.testing.assert_allclose(kernel(X), truth, atol=1e-6)
    plain = FisherMultinomial(probabilities=theta, information=False)
    np.testing.assert_allclose(plain(X), scores @ scores.T, atol=1e-6)
    for k in (kernel, plain):
        np.testing.assert_allclose(k(sparse.csr_matrix(X)), k(X), atol=1e-12)
        np.testing.assert_allclose(k.diag(sparse.csr_matrix(X)), k.diag(X), atol=1e-12)
        F = k.explicit_features(X)
        np.testing.assert_allclose(F @ F.T, k(X), atol=1e-12)


def test_multinomial_model_is_learnt() -> None:
    X = np.random.default_rng(4).poisson(0.3, size=(20, 30)) + np.eye(20, 30)
    with pytest.raises(ValueError, match="have not been learnt from training rows"):
        FisherMultinomial()(X)
    kernel = FisherMultinomial(alpha=0.1).scaled_to(sparse.csr_matrix(X))
    np.testing.assert_allclose(kernel.probabilities, (X.sum(axis=0) + 0.1) / (X.sum() + 3.0))
    assert FisherMultinomial(alpha=0.1).scaled_to(X) == kernel
    with pytest.raises(ValueError, match="row 0 of X has the probabilities of the model"):
        FisherMultinomial(probabilities=[0.5, 0.5], normalized=True)([[1, 1], [1, 3]])


def test_normal_scores_by_differences() -> None:
    mu, sigma, d = np.array([0.5, -1.0]), 1.3, 2
    groups = [np.random.default_rng(5).normal(size=(m, d)) for m in (1, 4, 7)]

    def log_likelihood(x, parameters):
        gaps = x - parameters[:2]
        return -len(x) * d * np.log(parameters[2]) - (gaps**2).sum() / (2 * parameters[2] ** 2)

    at, moves = np.array([*mu, sigma]), 1e-6 * np.eye(3)
    scores = np.array(
        [[(log_likelihood(x, at + e) - log_likelihood(x, at - e)) / 2e-6 for e in moves] for x in groups]
    )
    truth = scores @ np.diag(sigma**2 / np.array([1.0, 1.0, 2 * d])) @ scores.T
    kernel = FisherNormal(mean=mu, deviation=sigma)
    np.testing.assert_allclose(kernel(groups), truth, rtol=1e-6, atol=1e-6)
    expected = [*mu, mu @ mu + d * sigma**2]
    statistics = [np.column_stack([x, (x**2).sum(axis=1)]) - expected for x in groups]
    sums = np.array([s.sum(axis=0) for s in statistics])
    plain = FisherNormal(mean=mu, deviation=sigma, information=False)
    np.testing.assert_allclose(plain(groups), sums @ sums.T, rtol=1e-12)
    learnt = FisherNormal().scaled_to(groups)
    together = np.vstack(groups)
    np.testing.assert_allclose(learnt.mean, together.mean(axis=0))
    assert learnt.deviation == pytest.approx(np.sqrt(together.var(axis=0).mean()))
    with pytest.raises(ValueError, match="mean and deviation of FisherNormal have not been learnt"):
        FisherNormal()(groups)
    with pytest.raises(ValueError, match="has 2 numbers, but observations have 1 coordinates"):
        kernel(GROUPS)


def test_large_totals_in_single_precision() -> None:
    counts = np.array([[1002, 2003, 2995], [990, 2010, 3000]], dtype=np.float32)
    kernel = FisherMultinomial(probabilities=[1, 2, 3])
    for rows in (counts, sparse.csr_matrix(counts)):
        assert kernel(rows)[0, 1] == pytest.approx(-30, rel=1e-5)
