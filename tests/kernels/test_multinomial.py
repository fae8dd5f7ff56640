"""The posterior-averaged heat kernel, against quadrature, closed forms and brute force."""

import math

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import sparse, special

from mercer.engine.dirichlet import mean_root, posterior_points
from mercer.engine.posteriors import latin_hypercube
from mercer.kernels import Heat, PosteriorHeat
from mercer.kernels.counts.posterior import zonal_to_powers
from mercer.spaces import Simplex

settings.register_profile("mercer", deadline=None, max_examples=15, derandomize=True)
settings.load_profile("mercer")

counts = arrays(
    np.int64, st.tuples(st.integers(1, 7), st.integers(2, 9)), elements=st.integers(0, 20)
).map(lambda X: X + (X.sum(axis=1, keepdims=True) == 0))

SHORT = np.array([[2, 0, 1, 0], [1, 1, 0, 0], [0, 0, 3, 1], [5, 2, 1, 9]])


def sampled_reference(X: np.ndarray, kernel: PosteriorHeat, pairs: int, seed: int):
    """Mean of the heat kernel over independent pairs of posterior samples, and its standard error."""
    rng = np.random.default_rng(seed)
    profile = Heat(Simplex(), t_star=kernel.t_star).profile(X.shape[1])

    def roots() -> list[np.ndarray]:
        return [np.sqrt(rng.dirichlet(row + kernel.alpha, size=pairs)) for row in X]

    first, second = roots(), roots()
    mean, error = np.empty((2, len(X), len(X)))
    for i, a in enumerate(first):
        for j, b in enumerate(second):
            values = np.vecdot(a, b)[None]
            profile.apply(values)
            mean[i, j], error[i, j] = values.mean(), values.std() / math.sqrt(pairs)
    return mean, error


def circle_truth(x, y, t: float, alpha: float) -> float:
    """Two categories: points of a quarter circle, and Fourier coefficients of their densities."""
    nodes, weights = special.roots_legendre(400)
    angle = (nodes + 1) * math.pi / 4
    levels = np.arange(1, 200)

    def coefficients(counts) -> np.ndarray:
        a, b = np.asarray(counts) + alpha
        density = np.cos(angle) ** (2 * a - 1) * np.sin(angle) ** (2 * b - 1) * weights
        return np.exp(1j * levels[:, None] * angle) @ (density / density.sum())

    heat = np.exp(-(levels**2) * t)
    means = (coefficients(x) * coefficients(y).conj()).real
    return float((1 + 2 * heat @ means) / (1 + 2 * heat.sum()))


@pytest.mark.parametrize("t", [0.03, 0.1, 1.0])
@pytest.mark.parametrize("alpha", [0.5, 1.0, 3.0])
def test_two_categories_against_quadrature(t: float, alpha: float) -> None:
    X = np.array([[1, 0], [3, 2], [0, 20]])
    kernel = PosteriorHeat(t=t, alpha=alpha)
    assert kernel.is_exact(2)
    truth = [[circle_truth(x, y, t, alpha) for y in X] for x in X]
    np.testing.assert_allclose(kernel(X), truth, rtol=0, atol=2e-12)


def test_long_times_leave_the_cosine() -> None:
    # At t = 5 in dimension 3 the levels are 1 + 3 exp(-2t) w + O(exp(-6t)).
    x, y, alpha, t = [4, 0, 1], [0, 2, 2], 0.3, 5.0
    mp.mp.dps = 40

    def root_mean(b, total):
        return mp.gamma(b + 0.5) * mp.gamma(total) / (mp.gamma(b) * mp.gamma(total + 0.5))

    means = [[root_mean(mp.mpf(c) + alpha, sum(row) + 3 * alpha) for c in row] for row in (x, y)]
    cosine = sum(a * b for a, b in zip(*means, strict=True))
    share = 3 * mp.exp(-2 * t)
    truth = (1 + share * cosine) / (1 + share)
    assert abs(PosteriorHeat(t=t, alpha=alpha)([x], [y])[0, 0] - truth) < 1e-12


@pytest.mark.parametrize("b", [1e-8, 0.3, 0.5, 7.0, 63.9, 64.0, 1e3, 3e5, 1e12])
def test_mean_root_keeps_its_digits(b: float) -> None:
    mp.mp.dps = 60
    truth = mp.exp(mp.loggamma(mp.mpf(b) + 0.5) - mp.loggamma(mp.mpf(b)))
    assert abs(mean_root(np.array(b)) / float(truth) - 1) < 4e-15


def test_zonal_to_powers_is_legendre_in_three_dimensions_and_chebyshev_in_two() -> None:
    weights = np.arange(1.0, 8.0)
    legendre = np.polynomial.legendre.leg2poly(weights)
    chebyshev = np.polynomial.chebyshev.cheb2poly(weights)
    np.testing.assert_allclose(zonal_to_powers(3, weights).astype(float), legendre, atol=1e-12)
    np.testing.assert_allclose(zonal_to_powers(2, weights).astype(float), chebyshev, atol=1e-12)


@pytest.mark.parametrize(("t_star", "alpha"), [(1.0, 0.5), (0.2, 2.0)])
def test_against_a_million_samples(t_star: float, alpha: float) -> None:
    kernel = PosteriorHeat(t_star=t_star, alpha=alpha)
    mean, error = sampled_reference(SHORT, kernel, 10**6, seed=1)
    assert (kernel.standard_error(SHORT) == 0).all()
    assert (np.abs(kernel(SHORT) - mean) < 4.5 * error).all()
    inside = []
    for seed in range(4):
        sampled = PosteriorHeat(t_star, alpha, random_state=seed, method="samples")
        inside.append(np.abs(sampled(SHORT) - mean) <= 3 * sampled.standard_error(SHORT))
    assert np.mean(inside) >= 0.95


@pytest.mark.parametrize("t_star", [0.1, 0.5])
@pytest.mark.parametrize(("n", "n_samples"), [(4, 256), (4, 64), (40, 256)])
def test_samples_within_three_standard_errors(n: int, n_samples: int, t_star: float) -> None:
    X = np.random.default_rng(3).poisson(1.0, size=(8, n)) + np.eye(8, n)
    truth = PosteriorHeat(t_star=t_star, method="series")(X)
    inside = []
    for seed in range(4):
        kernel = PosteriorHeat(t_star, n_samples=n_samples, random_state=seed, method="samples")
        error = kernel.standard_error(X)
        assert (error > 0).all()
        assert error.mean() < 0.4 / math.sqrt(n_samples)
        inside.append(np.abs(kernel(X) - truth) <= 3 * error)
    assert np.mean(inside) >= 0.95


def test_more_samples_are_closer() -> None:
    truth = PosteriorHeat(t_star=0.3)(SHORT)

    def distance(n_samples: int) -> float:
        kernels = (PosteriorHeat(0.3, 0.5, n_samples, seed, "samples") for seed in range(6))
        return float(np.mean([np.abs(k(SHORT) - truth).mean() for k in kernels]))

    assert distance(1024) < distance(64) / 2


@pytest.mark.parametrize("method", ["series", "samples"])
def test_many_counts_give_the_heat_kernel(method: str) -> None:
    heat = Heat(Simplex(), t_star=0.5)(SHORT + 1.0)
    gaps = [
        np.abs(PosteriorHeat(t_star=0.5, method=method)(f * (SHORT + 1.0)) - heat).max()
        for f in (1e2, 1e4, 1e6, 1e12)
    ]
    assert gaps[0] > gaps[1] > gaps[2] > gaps[3]
    assert gaps[2] < 1e-5
    assert gaps[3] < 1e-8


def test_fewer_counts_are_less_alike() -> None:
    row = np.array([[3, 0, 1, 2]])
    diagonal = [PosteriorHeat().diag(f * row)[0] for f in (1, 2, 10, 100, 1e4)]
    assert np.all(np.diff(diagonal) > 0)
    assert diagonal[-1] < 1


@pytest.mark.parametrize("method", ["series", "samples"])
@given(X=counts, t_star=st.floats(0.25, 4), alpha=st.floats(0.05, 5))
def test_laws(X: np.ndarray, t_star: float, alpha: float, method: str) -> None:
    kernel = PosteriorHeat(t_star, alpha, n_samples=32, method=method)
    K = kernel(X)
    assert np.isfinite(K).all()
    np.testing.assert_array_equal(K, K.T)
    assert np.linalg.eigvalsh(K)[0] > -1e-12 * len(K)
    assert 0 < K.min() <= K.max() <= 1 + 1e-12
    np.testing.assert_allclose(kernel.diag(X), np.diag(K), atol=1e-12)
    np.testing.assert_allclose(kernel(X[-1:], X), K[-1:], atol=1e-12)
    np.testing.assert_allclose(kernel(sparse.csr_matrix(X)), K, atol=1e-12)


@given(X=counts, t_star=st.floats(0.25, 4))
def test_columns_may_be_permuted(X: np.ndarray, t_star: float) -> None:
    order = np.random.default_rng(0).permutation(X.shape[1])
    kernel = PosteriorHeat(t_star)
    np.testing.assert_allclose(kernel(X[:, order]), kernel(X), atol=1e-12)


@pytest.mark.parametrize("method", ["series", "samples"])
def test_rows_do_not_depend_on_their_company(method: str) -> None:
    X = np.random.default_rng(0).poisson(2.0, size=(70, 6)) + 1
    X[[5, 60]] = X[0]
    kernel = PosteriorHeat(t_star=0.4, n_samples=64, method=method)
    K = kernel(X)
    np.testing.assert_allclose(kernel(X[::-1])[::-1, ::-1], K, atol=1e-13)
    np.testing.assert_allclose(kernel(X[:3], X[40:]), K[:3, 40:], atol=1e-13)
    np.testing.assert_allclose(K[5], K[0], atol=1e-13)
    np.testing.assert_array_equal(kernel(X), K)


def test_panels_and_tiles_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    X = np.random.default_rng(0).poisson(2.0, size=(23, 6)) + 1
    kernel = PosteriorHeat(t_star=0.4, n_samples=64, method="samples")
    K, both, error = kernel(X), kernel(X[:9], X), kernel.standard_error(X)
    monkeypatch.setattr("mercer.engine.posteriors._PANEL", 5 * 8 * 6)
    monkeypatch.setattr("mercer.engine.posteriors._TILE", 16)
    np.testing.assert_allclose(kernel(X), K, atol=1e-14)
    np.testing.assert_allclose(kernel(X[:9], X), both, atol=1e-14)
    np.testing.assert_allclose(kernel.standard_error(X), error, atol=1e-13)
    np.testing.assert_allclose(kernel.standard_error(X[:9], X), error[:9], atol=1e-13)


def test_sparse_rows_of_many_columns() -> None:
    rng = np.random.default_rng(0)
    X = sparse.random(
        12, 20_000, density=2e-3, random_state=rng, data_rvs=lambda k: rng.integers(1, 9, k)
    )
    kernel = PosteriorHeat(t_star=1.0, alpha=0.01)
    K = kernel(X)
    short = PosteriorHeat(t=kernel.time(20_000), alpha=0.01)
    assert np.linalg.eigvalsh(K)[0] > 0
    # Zero columns that are stored, or left to the end, are the same.
    np.testing.assert_allclose(short(X.toarray()[:3]), K[:3, :3], atol=1e-12)
    stored = X.tocsr()[:2].copy()
    stored.data = np.append(stored.data, 0.0)
    stored.indices = np.append(stored.indices, 19_999)
    stored.indptr[-1] += 1
    np.testing.assert_allclose(kernel(stored), K[:2, :2], atol=1e-13)


@pytest.mark.parametrize("method", ["auto", "samples"])
@pytest.mark.parametrize("alpha", [1e-100, 1e-5, 1e5, 1e100])
@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e9])
def test_extreme_priors_and_counts(alpha: float, scale: float, method: str) -> None:
    X = SHORT * scale
    K = PosteriorHeat(t_star=0.5, alpha=alpha, n_samples=32, method=method)(X)
    assert np.isfinite(K).all()
    assert np.linalg.eigvalsh(K)[0] > -1e-12
    if alpha == 1e100:  # the prior decides
        np.testing.assert_allclose(K, 1, atol=1e-12)
    if alpha == 1e-300 and scale == 1e9 and method == "auto":
        np.testing.assert_allclose(K, Heat(Simplex(), t_star=0.5)(X), atol=1e-7)


def test_points_are_stratified_and_follow_the_dirichlet_law() -> None:
    uniform = latin_hypercube(4096, 3, (0, 1))
    strata = np.sort((uniform * 4096).astype(int), axis=0)
    np.testing.assert_array_equal(strata, np.arange(4096)[:, None].repeat(3, axis=1))
    b = np.array([0.5, 2.5, 1.0])
    theta = posterior_points(b[None], uniform)[0] ** 2
    np.testing.assert_allclose(theta.sum(axis=1), 1, atol=1e-14)
    np.testing.assert_allclose(theta.mean(axis=0), b / b.sum(), atol=2e-3)
    variance = b * (b.sum() - b) / b.sum() ** 2 / (b.sum() + 1)
    np.testing.assert_allclose(theta.var(axis=0), variance, rtol=0.03)


def test_short_times_are_sampled_and_very_short_ones_too() -> None:
    for t in (1e-3, 1e-9):
        kernel = PosteriorHeat(t=t, n_samples=16)
        assert not kernel.is_exact(4)
        assert np.isfinite(kernel(SHORT)).all()
        with pytest.raises(ValueError, match="cannot be summed in dimension 4"):
            PosteriorHeat(t=t, method="series")(SHORT)


def test_ranges_in_many_columns_need_no_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    """A step too far took minutes: samples have a quantile for every column."""
    rng = np.random.default_rng(0)
    X = sparse.csr_array(rng.poisson(0.005, size=(20, 20_000)))
    monkeypatch.setattr(PosteriorHeat, "sampled_gram", None)
    K = PosteriorHeat().scaled_to(X, 0.9)(X)
    root = np.sqrt(K.diagonal())
    assert np.median((K / np.outer(root, root))[np.triu_indices(20, 1)]) == pytest.approx(0.9, abs=1e-3)
    with pytest.raises(ValueError, match="median similarity stays between"):
        PosteriorHeat().scaled_to(X, 1e-6)


def test_rows_without_counts_have_the_prior() -> None:
    X = np.array([[0, 0, 0], [3, 0, 1], [0, 0, 0]])
    cosine = PosteriorHeat(t=20.0, alpha=0.7)  # all but the first two terms have vanished
    ratio = math.exp(-2 * 20.0) * 3
    b = X + 0.7
    roots = mean_root(b) / mean_root(b.sum(axis=1))[:, None]
    np.testing.assert_allclose(cosine(X), (1 + ratio * roots @ roots.T) / (1 + ratio), rtol=1e-15)
    for method in ("series", "samples"):
        kernel = PosteriorHeat(t_star=0.5, method=method)
        K = kernel(X)
        assert K[0, 0] == K[0, 2] == K[2, 2]
        np.testing.assert_allclose(kernel(sparse.csr_matrix(X)), K)
        np.testing.assert_allclose(kernel(X[::2], X), K[::2])
        np.testing.assert_allclose(kernel.diag(X), np.diag(K))
    exact, sampled = (PosteriorHeat(t_star=0.5, method=m) for m in ("series", "samples"))
    assert (np.abs(exact(X) - sampled(X)) < 3 * sampled.standard_error(X)).all()


def test_rows_without_counts_under_a_tiny_prior_are_corners() -> None:
    # Theta is one of the n corners, each as probable: w is 1 or 0.
    values = Heat(Simplex(), t_star=0.5)(np.eye(3))[0]
    for alpha in (1e-12, 1e-100):
        found = PosteriorHeat(t_star=0.5, alpha=alpha)([[0, 0, 0]]).item()
        assert found == pytest.approx(values.mean(), rel=1e-10)


@pytest.mark.parametrize("scale", [1e12, 1e160, 1e300])
def test_huge_counts(scale: float) -> None:
    X = scale * SHORT
    np.testing.assert_allclose(PosteriorHeat()(X), Heat(Simplex())(X), atol=2e-6)
    even = PosteriorHeat(alpha=min(scale, 1e100))(SHORT)
    np.testing.assert_allclose(even, 1.0, atol=1e-11)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"alpha": 0.0}, "alpha of PosteriorHeat must be a positive number"),
        ({"alpha": -1.0}, "alpha of PosteriorHeat must be a positive number"),
        ({"alpha": np.nan}, "alpha of PosteriorHeat"),
        ({"alpha": 1e-300}, "alpha of PosteriorHeat must be in 1e-100"),
        ({"t_star": 0.0}, "t_star of PosteriorHeat"),
        ({"t": 0.1, "t_star": 0.5}, "give t or t_star, not both"),
        ({"n_samples": 15}, "n_samples of PosteriorHeat must be a whole number of at least 16"),
        ({"n_samples": 64.0}, "n_samples of PosteriorHeat"),
        ({"random_state": None}, "random_state of PosteriorHeat"),
        ({"random_state": -1}, "random_state of PosteriorHeat"),
        ({"method": "exact"}, "method of PosteriorHeat must be one of 'auto'"),
    ],
)
def test_bad_options(options: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        PosteriorHeat(**options)(SHORT)


@pytest.mark.parametrize(
    ("X", "message"),
    [
        ([[1, 2], [3, -1]], "row 1 of X has negative entries"),
        ([[1, 2], [np.nan, 1]], "row 1 of X contains NaN"),
        ([[1, 2], [1e308, 1e308]], "row 1 of X sums to infinity"),
        ([[1], [2]], "needs at least 2"),
        (np.empty((0, 3)), "0 sample"),
    ],
)
def test_bad_rows(X, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        PosteriorHeat()(X)


@pytest.mark.parametrize("total", [1, 100])
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix, np.float32])
def test_proportions_are_refused(total: float, form) -> None:
    shares = np.vstack([total * SHORT / SHORT.sum(axis=1, keepdims=True), np.zeros(4)])
    kernel = PosteriorHeat(t_star=0.5)
    message = rf"row 0 of X \(and \d more\) .* sum to {total}: .* give the counts, .*Heat\(Simplex\(\)\)"
    for call in (kernel, kernel.diag, kernel.standard_error):
        with pytest.raises(ValueError, match=message):
            call(form(shares))
    with pytest.raises(ValueError, match=r"of Y .* proportions"):
        kernel(SHORT, form(shares))


@pytest.mark.parametrize(
    "X",
    [
        np.eye(4),  # one word each
        100 * np.eye(4),
        [[30, 70, 0], [10, 10, 80]],
        [[0.5, 0.5, 0.0], [0.5, 0.25, 1.0]],  # counts with weights
        [[0.5, 0.5, 1e-5]],
        SHORT / 3,
        [[0, 0, 0]],
    ],
    ids=repr,
)
def test_what_is_not_shares_is_allowed(X) -> None:
    assert np.isfinite(PosteriorHeat(t_star=0.5)(X)).all()


def test_bad_pairs() -> None:
    import torch

    with pytest.raises(ValueError, match="X has 4 columns, Y has 3"):
        PosteriorHeat()(SHORT, SHORT[:, :3])
    with pytest.raises(ValueError, match="row 2 of Y has negative"):
        PosteriorHeat().standard_error(SHORT, SHORT * [[1], [1], [-1], [1]])
    with pytest.raises(TypeError, match="NumPy and SciPy rows"):
        PosteriorHeat()(torch.ones(2, 3))
