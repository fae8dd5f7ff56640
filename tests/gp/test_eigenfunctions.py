"""Gaussian processes on graphs and other spaces with eigenfunctions, against dense computations."""

import os
import pickle

import networkx as nx
import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from scipy.linalg import expm
from scipy.special import expit

from mercer.gp import SphericalGPClassifier, SphericalGPPoissonRegressor, SphericalGPRegressor
from mercer.kernels import Exponential, Heat, Matern, Spectral
from mercer.spaces import Graph, Sphere
from mercer.spaces.base import Space
from mercer.spaces.realisations.eigenfunctions import Eigenfunctions

RNG = np.random.default_rng(0)


def adjacency(n: int, seed: int = 0) -> np.ndarray:
    """A ring with weights and some chords, and a node that is alone."""
    rng = np.random.default_rng(seed)
    A = np.zeros((n, n))
    for step in (1, 2, 7):
        i = np.arange(n - 1)
        A[i, (i + step) % (n - 1)] = rng.uniform(0.5, 2, size=n - 1)
    return np.maximum(A, A.T)


def laplacian(A: np.ndarray, normalized: bool = False) -> np.ndarray:
    degrees = A.sum(axis=1)
    L = np.diag(degrees) - A
    if normalized:
        roots = np.where(degrees > 0, 1 / np.sqrt(np.where(degrees > 0, degrees, 1)), 0)
        L = roots[:, None] * L * roots
    return L


def heat(L: np.ndarray, t: float) -> np.ndarray:
    return expm(-t * L)


def matern(L: np.ndarray, length_scale: float) -> np.ndarray:
    inverse = np.linalg.inv(4 / length_scale**2 * np.eye(len(L)) + L)  # nu = 2
    return inverse @ inverse


def divided(K: np.ndarray) -> np.ndarray:
    roots = np.sqrt(np.diag(K))
    return K / roots[:, None] / roots


A = adjacency(90)
#: Kernels, and their matrices.
CASES = {
    "heat": (Heat(Graph(A), t=0.7), divided(heat(laplacian(A), 0.7))),
    "absolute": (Heat(Graph(A), t=0.7, normalized=False), heat(laplacian(A), 0.7)),
    "walk": (
        Heat(Graph(A, laplacian="normalized"), t=2.0), divided(heat(laplacian(A, True), 2.0))
    ),
    "matern": (
        Matern(Graph(A), nu=2, length_scale=1.5), divided(matern(laplacian(A), 1.5))
    ),
    "absolute matern": (
        Matern(Graph(A), nu=2, length_scale=1.5, normalized=False), matern(laplacian(A), 1.5)
    ),
    "own": (
        Spectral(Graph(A), lambda v: 1 / (1 + v)), divided(np.linalg.inv(np.eye(90) + laplacian(A)))
    ),
}  # fmt: skip
cases = pytest.mark.parametrize(("kernel", "K"), CASES.values(), ids=CASES)


def targets(nodes: np.ndarray) -> np.ndarray:
    return np.sin(nodes / 9) + 0.1 * np.random.default_rng(1).normal(size=len(nodes)) + 3


def expected(K: np.ndarray, nodes, y, weight, new, amplitude: float, noise: float):
    """Mean, covariance and log evidence of the dense model; weights are numbers of equal rows."""
    nodes, y = np.repeat(nodes, weight), np.repeat(y, weight)
    scale, mean = y.std(), y.mean()
    C = amplitude * K[np.ix_(nodes, nodes)] + noise * np.eye(len(nodes))
    star = amplitude * K[np.ix_(new, nodes)]
    z = (y - mean) / scale
    covariance = amplitude * K[np.ix_(new, new)] - star @ np.linalg.solve(C, star.T)
    evidence = -0.5 * (
        z @ np.linalg.solve(C, z) + np.linalg.slogdet(C)[1] + len(z) * np.log(2 * np.pi * scale**2)
    )
    return mean + scale * star @ np.linalg.solve(C, z), scale**2 * covariance, scale**2 * noise, evidence


def check_dense(kernel, K, nodes, weight, new) -> None:
    y = targets(nodes)
    model = SphericalGPRegressor(kernel, optimize=False, amplitude=1.7, noise=0.05)
    model.fit(nodes, y, weight)
    mean, covariance, noise, evidence = expected(K, nodes, y, weight, new, 1.7, 0.05)
    np.testing.assert_allclose(model.predict(new), mean, atol=1e-8)
    got, std = model.predict(new, return_std=True)
    np.testing.assert_allclose(got, mean, atol=1e-8)
    np.testing.assert_allclose(std**2, np.diag(covariance) + noise, atol=1e-8)
    got = model.predict(new, return_std=True, include_noise=False)[1]
    np.testing.assert_allclose(got**2, np.diag(covariance), atol=1e-8)
    some = new[:50]
    got = model.predict(some, return_cov=True, include_noise=False)[1]
    np.testing.assert_allclose(got, covariance[:50, :50], atol=1e-8)
    assert model.elbo_ == pytest.approx(evidence, abs=1e-8 * len(nodes))


@cases
@pytest.mark.parametrize("m", [20, 90, 300])  # few nodes, each once, and several times
def test_all_eigenvectors_are_the_dense_model(kernel, K, m: int) -> None:
    rng = np.random.default_rng(m)
    nodes = rng.permutation(90)[:m] if m <= 90 else rng.integers(90, size=m)
    check_dense(kernel, K, nodes, rng.integers(1, 3, size=m), np.arange(90))


def test_a_large_graph_is_the_dense_model() -> None:
    n = int(os.environ.get("MERCER_NODES", "600"))  # 3000 take a minute, and agree as well
    A = adjacency(n)
    nodes = np.random.default_rng(0).integers(n, size=2 * n)
    kernel = Matern(Graph(sparse.csr_array(A)), nu=2, length_scale=1.5)
    check_dense(kernel, divided(matern(laplacian(A), 1.5)), nodes, np.ones(2 * n, int), np.arange(n))


@cases
@pytest.mark.parametrize("count", [None, 25])
def test_gradients_against_differences(kernel, K, count) -> None:
    nodes = RNG.integers(60, size=80)
    y = np.column_stack([targets(nodes), targets(nodes) ** 2])
    model = SphericalGPRegressor(kernel, max_features=count, optimize=False).fit(nodes, y)
    theta = model.theta_ + 0.1
    value, gradient = model.log_marginal_likelihood(theta, eval_gradient=True)
    assert value == pytest.approx(model.log_marginal_likelihood(theta), abs=1e-9)
    assert len(theta) == 2 + len(kernel.theta)
    for i, move in enumerate(1e-5 * np.eye(len(theta))):
        ends = [model.log_marginal_likelihood(theta + sign * move) for sign in (1, -1)]
        assert gradient[i] == pytest.approx((ends[0] - ends[1]) / 2e-5, abs=1e-5)


@cases
def test_fewer_eigenvectors_bound_the_evidence(kernel, K) -> None:
    nodes = RNG.integers(90, size=150)
    y = targets(nodes)
    bounds = []
    for count in (5, 30, 60, 90):
        model = SphericalGPRegressor(
            kernel, max_features=count, optimize=False, normalize_y=False, noise=0.3
        ).fit(nodes, y)
        assert model.features_.size == count
        bounds.append(model.elbo_)
        # What is left out comes back as variance: far from the rows it is that of the prior.
        plain = model.predict(np.arange(90), return_std=True, include_noise=False)[1]
        assert (plain**2 <= np.diag(K) + 1e-8).all()
    C = K[np.ix_(nodes, nodes)] + 0.3 * np.eye(150)
    exact = -0.5 * (y @ np.linalg.solve(C, y) + np.linalg.slogdet(C)[1] + 150 * np.log(2 * np.pi))
    assert (np.diff(bounds) > -1e-7).all()
    assert bounds[-1] == pytest.approx(exact, abs=1e-6)


def test_fewer_eigenvectors_are_the_dense_bound() -> None:
    L = laplacian(A)
    values, vectors = np.linalg.eigh(L)
    a, nodes = np.exp(-0.7 * values[:30]), RNG.integers(90, size=40)
    d = np.diag(heat(L, 0.7))[nodes]
    phi = vectors[nodes, :30] / np.sqrt(d)[:, None]
    y = targets(nodes)
    model = SphericalGPRegressor(
        CASES["heat"][0], max_features=30, optimize=False, normalize_y=False
    ).fit(nodes, y)
    Q = (phi * a) @ phi.T
    C = Q + 0.1 * np.eye(40)
    bound = -0.5 * (
        y @ np.linalg.solve(C, y) + np.linalg.slogdet(C)[1] + 40 * np.log(2 * np.pi)
        + (1 - np.diag(Q)).sum() / 0.1
    )  # fmt: skip
    assert model.elbo_ == pytest.approx(bound, abs=1e-8)


def test_hyperparameters_are_found() -> None:
    rng = np.random.default_rng(3)
    grid = nx.grid_2d_graph(12, 12)
    L = laplacian(nx.to_numpy_array(grid))
    K = divided(heat(L, 1.5))
    f = np.linalg.cholesky(K + 1e-9 * np.eye(144)) @ rng.normal(size=144)
    labels = list(grid)
    chosen = rng.integers(144, size=400)
    y = f[chosen] + 0.2 * rng.normal(size=400)
    model = SphericalGPRegressor(Heat(Graph(grid), t=0.05), normalize_y=False)
    model.fit([labels[i] for i in chosen], y)  # labels are pairs of numbers
    assert 0.5 < model.kernel_.t < 4
    assert model.noise_ == pytest.approx(0.04, rel=0.25)
    mean, std = model.predict(labels, return_std=True, include_noise=False)
    assert 0.85 < (np.abs(f - mean) < 1.96 * std).mean() <= 1
    _, gradient = model.log_marginal_likelihood(eval_gradient=True)
    assert np.abs(gradient).max() < 1e-2
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict(labels), mean)
    assert again.sample_y(labels[:5], 3).shape == (5, 3)
    other = model.refit(Matern(Graph(grid), nu=2, length_scale=1.0))
    assert np.isfinite(other.elbo_)
    with pytest.raises(ValueError, match="call fit instead"):
        model.refit(Heat(Graph(A)))
    with pytest.raises(ValueError, match="call fit instead"):
        model.refit(Heat(Sphere()))
    with pytest.raises(ValueError, match="t of Heat"):
        model.refit(Heat(Graph(grid), t=-1.0))


@pytest.mark.parametrize("kernel", [CASES["heat"][0], CASES["absolute matern"][0]], ids=repr)
def test_classifier_is_a_fixed_point_of_the_dense_model(kernel) -> None:
    K = CASES["heat"][1] if isinstance(kernel, Heat) else CASES["absolute matern"][1]
    rng = np.random.default_rng(5)
    nodes = rng.integers(80, size=120)
    y = (rng.uniform(size=120) < expit(2 * np.sin(nodes / 9))).astype(int)
    model = SphericalGPClassifier(kernel, optimize=False, amplitude=3.0, tol=1e-12).fit(nodes, y)
    offset = np.log(y.mean() / (1 - y.mean()))
    # At the optimum the mean is K times the mean slopes, and the inverse covariance K^-1 + curvature.
    C = 3.0 * K[np.ix_(nodes, nodes)]
    z, weight = np.polynomial.hermite_e.hermegauss(60)
    weight = weight / weight.sum()
    mean, variance = np.zeros(120), np.diag(C).copy()
    for _ in range(80):
        p = expit(offset + mean[:, None] + np.sqrt(variance)[:, None] * z)
        slope, curvature = y - p @ weight, (p * (1 - p)) @ weight
        gain = C @ np.linalg.inv(np.eye(120) + curvature[:, None] * C)
        mean = gain @ (slope + curvature * mean)
        variance = np.diag(gain).copy()
    got = model._latent_moments(nodes)
    np.testing.assert_allclose(got[0][:, 0], mean + offset, atol=1e-4)
    np.testing.assert_allclose(got[1][:, 0], variance, atol=1e-4)
    divergence = 0.5 * (
        np.linalg.slogdet(np.eye(120) + curvature[:, None] * C)[1]
        - np.trace(gain * curvature[:, None]) + slope @ mean
    )  # fmt: skip
    f = offset + mean[:, None] + np.sqrt(variance)[:, None] * z
    fit = (y * (f @ weight) - np.logaddexp(0, f) @ weight).sum()
    assert model.elbo_ == pytest.approx(fit - divergence, abs=1e-4)


def test_classes_counts_and_sources_of_rows(tmp_path) -> None:
    rng = np.random.default_rng(2)
    club = nx.karate_club_graph()
    labels = np.array([club.nodes[v]["club"] for v in club])
    nodes = np.arange(34)
    some = rng.permutation(34)[:17]
    graph = Graph(club)
    model = SphericalGPClassifier(Heat(graph, t=0.3)).fit(nodes[some], labels[some])
    assert model.score(nodes, labels) > 0.85
    assert model.predict_proba([0, 33]).shape == (2, 2)
    blocks = [(nodes[some][:9, None], labels[some][:9]), (nodes[some][9:, None], labels[some][9:])]
    again = SphericalGPClassifier(Heat(graph, t=0.3)).fit(blocks)
    np.testing.assert_allclose(again.predict_proba(nodes), model.predict_proba(nodes), atol=1e-6)
    counts = rng.poisson(np.where(labels == labels[0], 2, 9))
    rates = SphericalGPPoissonRegressor(Heat(graph, t=0.3)).fit(nodes, counts).predict(nodes)
    assert rates[labels == labels[0]].mean() < rates[labels != labels[0]].mean()
    frame = pd.DataFrame({"node": nodes})
    regressor = SphericalGPRegressor(Heat(graph, t=0.3)).fit(frame, counts)
    assert list(regressor.feature_names_in_) == ["node"]
    named = nx.relabel_nodes(club, {v: f"member {v}" for v in club})
    texts = [f"member {v}" for v in nodes]
    for given in (texts, np.array(texts), pd.Series(texts), np.array(texts, dtype=object)[:, None]):
        other = SphericalGPRegressor(Heat(Graph(named), t=0.3)).fit(given, counts)
        np.testing.assert_allclose(other.predict(given), regressor.predict(frame), rtol=1e-6)
    more = SphericalGPRegressor(Heat(graph, t=0.3), optimize=False).fit(nodes[:20], counts[:20])
    more.partial_fit(nodes[20:], counts[20:])
    whole = SphericalGPRegressor(Heat(graph, t=0.3), optimize=False).fit(nodes, counts)
    np.testing.assert_allclose(more.predict(nodes), whole.predict(nodes), rtol=1e-9)
    assert more.elbo_ == pytest.approx(whole.elbo_)


def test_checkpoints_and_statistics(tmp_path, monkeypatch) -> None:
    nodes = RNG.integers(90, size=60)
    y, path = targets(nodes), tmp_path / "sums"
    model = SphericalGPRegressor(CASES["heat"][0])

    def stop(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("mercer.rows.checkpoint.PERIOD", 0.0)
        patch.setattr(SphericalGPRegressor, "_finish", stop)
        with pytest.raises(KeyboardInterrupt):
            model.fit(nodes, y, checkpoint=path)
    model.fit(nodes, y, checkpoint=path)
    np.testing.assert_array_equal(
        model.predict(nodes), SphericalGPRegressor(CASES["heat"][0]).fit(nodes, y).predict(nodes)
    )
    model.statistics_.save(tmp_path / "s.npz")
    assert type(model.statistics_).load(tmp_path / "s.npz").fingerprint == model.statistics_.fingerprint
    assert model.statistics_.gram.shape == (90,)


@pytest.mark.filterwarnings("ignore:the Gram matrix")
def test_graphs_that_are_not_decomposed(monkeypatch) -> None:
    # The least eigenvectors of a large graph: the answer where weights fall fast, a bound otherwise.
    path = Graph(sparse.diags_array([np.ones(149), np.ones(149)], offsets=[-1, 1]))
    nodes = np.random.default_rng(0).integers(150, size=200)
    y = np.sin(nodes / 20)
    options = {"optimize": False, "normalize_y": False, "max_features": 60}
    exact = SphericalGPRegressor(Heat(path, t=30.0, normalized=False), **options).fit(nodes, y)
    monkeypatch.setattr("mercer.spaces.realisations.operators.DECOMPOSED", 100)
    large = Graph(path.adjacency)
    model = SphericalGPRegressor(Heat(large, t=30.0, normalized=False), **options).fit(nodes, y)
    np.testing.assert_allclose(model.predict(nodes), exact.predict(nodes), atol=1e-6)
    assert model.elbo_ == pytest.approx(exact.elbo_, abs=1e-4)
    rough = SphericalGPRegressor(Heat(large, t=1.0, normalized=False), **options).fit(nodes, y)
    monkeypatch.undo()
    whole = SphericalGPRegressor(
        Heat(path, t=1.0, normalized=False), optimize=False, normalize_y=False
    ).fit(nodes, y)
    assert rough.elbo_ <= whole.elbo_
    monkeypatch.setattr("mercer.spaces.realisations.operators.DECOMPOSED", 100)
    with pytest.raises(ValueError, match="weights that fall"):
        SphericalGPRegressor(Spectral(large, lambda v: v + 1)).fit(nodes, y)


@pytest.mark.parametrize(
    ("params", "error", "message"),
    [
        ({"kernel": Heat(Graph(A), t=-1.0)}, ValueError, "t of Heat"),
        ({"inputs": "table"}, ValueError, "for spheres; leave both out"),
        ({"levels": 3}, ValueError, "for spheres; leave both out"),
        ({"features": "inducing"}, ValueError, "inducing points need a sphere"),
        ({"ard": True}, ValueError, "ard scales the columns of a table"),
        ({"kernel": Exponential(Graph(A))}, TypeError, "kernel must be ArcCosine"),
        (
            {"kernel": Spectral(Graph(A), lambda v: np.where(v > 1e9, 1.0, 0.0))},
            ValueError,
            r"zero|norm",
        ),
    ],
)
def test_what_makes_no_sense_is_refused(params, error, message: str) -> None:
    with pytest.raises(error, match=message):
        SphericalGPRegressor(**{"kernel": CASES["heat"][0]} | params).fit([0, 1, 2], [1.0, 2.0, 3.0])


def test_nodes_that_are_none_are_refused() -> None:
    with pytest.raises(TypeError, match=r"wrap it: Graph\(graph\)"):
        SphericalGPRegressor(Heat(nx.path_graph(3), t=1.0)).fit([[0], [1], [2]], [1.0, 2.0, 3.0])
    model = SphericalGPRegressor(CASES["heat"][0], optimize=False).fit([0, 1, 2], [1.0, 2.0, 3.0])
    for nodes, message in (([90], "row 0 of X is 90"), ([0.5], r"row 0 of X is 0\.5")):
        with pytest.raises(ValueError, match=message):
            model.predict(nodes)
        with pytest.raises(ValueError, match=message):
            SphericalGPRegressor(CASES["heat"][0]).fit([*nodes, 1], [1.0, 2.0])


class CircleFunctions(Eigenfunctions):
    """Constant, cosines and sines, up to a frequency; what is left out by frequency."""

    def __init__(self, count: int) -> None:
        frequencies = np.arange(1, 40)
        kept = (count - 1) // 2
        self.frequencies = frequencies[:kept]
        self.eigenvalues = np.concatenate([[0], np.repeat(self.frequencies, 2)]).astype(float) ** 2
        self.rest_eigenvalues = frequencies[kept:].astype(float) ** 2

    @property
    def mean_squares(self) -> np.ndarray:
        return np.concatenate([np.ones(len(self.eigenvalues)), np.full(len(self.rest_eigenvalues), 2.0)])

    def check(self, X, name="X"):
        return np.asarray(X, dtype=float)[:, 0]

    def points(self, checked):
        return checked[:, None]

    def values(self, checked):
        angles = checked[:, None] * self.frequencies
        waves = np.sqrt(2) * np.stack([np.cos(angles), np.sin(angles)], axis=2)
        return np.concatenate([np.ones((len(checked), 1)), waves.reshape(len(checked), -1)], axis=1)

    def rest(self, checked):
        return np.full((len(checked), len(self.rest_eigenvalues)), 2.0)

    @property
    def fingerprint(self) -> str:
        return f"circle {len(self.eigenvalues)}"


class Circle(Space):
    """Angles."""

    def check(self, X, name="X"):
        return np.asarray(X, dtype=float)

    def eigenfunctions(self, n, count, log_weights):
        return CircleFunctions(41 if count is None else count)

    def __eq__(self, other):
        return isinstance(other, Circle)

    def __hash__(self):
        return 0


class CircleHeat(Heat):
    """The heat kernel of the circle, summed up here."""

    def validate(self):
        pass

    def __call__(self, X, Y=None, eval_gradient=False):
        gap = np.subtract.outer(np.ravel(X), np.ravel(X if Y is None else Y))
        weights = np.exp(-self.t * np.arange(1, 40.0) ** 2)
        sums = 1 + 2 * np.cos(gap[..., None] * np.arange(1, 40)) @ weights
        return sums / (1 + 2 * weights.sum()) if self.normalized else sums


@pytest.mark.parametrize("normalized", [True, False])
@pytest.mark.parametrize("count", [5, 41])
def test_a_space_of_ones_own_offers_eigenfunctions(normalized: bool, count: int) -> None:
    rng = np.random.default_rng(0)
    X, new = rng.uniform(0, 2 * np.pi, size=(60, 1)), np.linspace(0, 6, 9)[:, None]
    y = np.sin(X[:, 0]) + 0.1 * rng.normal(size=60)
    kernel = CircleHeat(Circle(), t=0.1, normalized=normalized)
    model = SphericalGPRegressor(
        kernel, max_features=count, optimize=False, normalize_y=False, noise=0.2
    ).fit(X, y)
    basis = CircleFunctions(count)
    total = CircleHeat(Circle(), t=0.1, normalized=False)([[0.0]])[0, 0]
    a = np.exp(-0.1 * basis.eigenvalues) / (total if normalized else 1)
    Q = (basis.values(X[:, 0]) * a) @ basis.values(X[:, 0]).T
    star = (basis.values(new[:, 0]) * a) @ basis.values(X[:, 0]).T
    C = Q + 0.2 * np.eye(60)
    mean, std = model.predict(new, return_std=True)
    np.testing.assert_allclose(mean, star @ np.linalg.solve(C, y), atol=1e-8)
    covariance = kernel(new) - star @ np.linalg.solve(C, star.T)
    np.testing.assert_allclose(std**2, np.diag(covariance) + 0.2, atol=1e-8)
    bound = -0.5 * (
        y @ np.linalg.solve(C, y) + np.linalg.slogdet(C)[1] + 60 * np.log(2 * np.pi)
        + np.trace(kernel(X) - Q) / 0.2
    )  # fmt: skip
    assert model.elbo_ == pytest.approx(bound, abs=1e-8)
    theta = model.theta_ + 0.1
    gradient = model.log_marginal_likelihood(theta, eval_gradient=True)[1]
    for i, move in enumerate(1e-5 * np.eye(3)):
        ends = [model.log_marginal_likelihood(theta + sign * move) for sign in (1, -1)]
        assert gradient[i] == pytest.approx((ends[0] - ends[1]) / 2e-5, abs=1e-5)
