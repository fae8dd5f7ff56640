"""Classification and counts against integrals, fixed points, simulations and scikit-learn."""

import pickle

import numpy as np
import pandas as pd
import pytest
from scipy.integrate import quad
from scipy.special import expit
from scipy.stats import norm, poisson
from sklearn.datasets import load_iris, make_moons
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.metrics import log_loss
from sklearn.utils.estimator_checks import check_estimator

from mercer.gp import ParquetBlocks, SphericalGPClassifier, SphericalGPPoissonRegressor
from mercer.gp.likelihoods import Bernoulli, Poisson, mean_probability
from mercer.harmonics import SphericalHarmonics
from mercer.kernels import Heat, Spectral
from mercer.spaces import Simplex, Sphere


def field(m: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Rows, and a smooth function of them."""
    X = np.random.default_rng(seed).normal(size=(m, 2))
    return X, 1.5 * np.sin(2 * X[:, 0]) + X[:, 1]


def labels(m: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    X, f = field(m, seed)
    y = (np.random.default_rng(seed + 100).uniform(size=m) < expit(f)).astype(int)
    return X, y, f


@pytest.mark.parametrize("likelihood", [Bernoulli(), Poisson()])
def test_expectations_against_quadrature(likelihood) -> None:
    def log_p(y, f):
        if isinstance(likelihood, Poisson):
            return poisson.logpmf(y, np.exp(f))
        return np.log(expit(f if y else -f))

    for y, mean, variance in [(1.0, 0.3, 0.5), (0.0, -2.0, 2.0), (1.0, 3.0, 1e-8), (0.0, 1.0, 4.0)]:
        got = likelihood.expectations(*(np.array([v]) for v in (y, mean, variance)))

        def average(mean, y=y, variance=variance):
            std = np.sqrt(variance)
            return quad(lambda z: norm.pdf(z) * log_p(y, mean + std * z), -9, 9, epsabs=1e-11)[0]

        step = 1e-3
        values = [average(mean + k * step) for k in (-1, 0, 1)]
        assert got.value[0] == pytest.approx(values[1], abs=1e-5)
        assert got.slope[0] == pytest.approx((values[2] - values[0]) / (2 * step), abs=1e-4)
        second = (values[0] - 2 * values[1] + values[2]) / step**2
        assert got.curvature[0] == pytest.approx(-second, abs=2e-3, rel=1e-3)


@pytest.mark.filterwarnings("ignore:the Gram matrix:mercer.exceptions.DegenerateKernelWarning")
def test_bound_is_close_below_the_evidence() -> None:
    # One feature, the constant: the evidence is an integral over one number.
    X, y, _ = labels(40)
    kernel = Spectral(Sphere(), weights=[1.0])
    model = SphericalGPClassifier(kernel, inputs="table", levels=1, amplitude=2.0, optimize=False)
    model.fit(X, y)
    offset = np.log(y.mean() / (1 - y.mean()))

    def likelihood(f):
        return np.exp(np.log(expit(np.where(y == 1, 1, -1) * (f + offset))).sum() + 30)

    evidence = np.log(quad(lambda f: norm.pdf(f, scale=np.sqrt(2.0)) * likelihood(f), -10, 10)[0]) - 30
    assert evidence - 0.05 < model.elbo_ < evidence + 1e-6
    counts = np.random.default_rng(0).poisson(3.0, size=40)
    model = SphericalGPPoissonRegressor(kernel, inputs="table", levels=1, amplitude=2.0, optimize=False)
    model.fit(X, counts)
    offset = np.log(counts.mean())

    def rates(f):
        return np.exp(poisson.logpmf(counts, np.exp(f + offset)).sum() + 70)

    evidence = np.log(quad(lambda f: norm.pdf(f, scale=np.sqrt(2.0)) * rates(f), -2, 2)[0]) - 70
    assert evidence - 0.05 < model.elbo_ < evidence + 1e-6


@pytest.mark.parametrize("counts", [False, True])
@pytest.mark.parametrize("m", [25, 200])
def test_posterior_is_a_fixed_point(counts: bool, m: int) -> None:
    # At the optimum the precision of the weights is 1/a + sum of curvatures, and their mean a times
    # the sum of slopes: checked with features, means and variances computed here.
    X, y, f = labels(m)
    if counts:
        y = np.random.default_rng(1).poisson(np.exp(f))
    kind = SphericalGPPoissonRegressor if counts else SphericalGPClassifier
    model = kind(Heat(Sphere()), inputs="table", max_features=30, optimize=False, tol=1e-12).fit(X, y)
    latent = model._latents[0]
    inputs = model.features_.inputs
    Z = np.column_stack([(X - inputs.mean) / inputs.scale, np.ones(m)])
    phi = model.features_.harmonics(Z)
    A, w = latent.prior.variances, latent.posterior.mean[:, 0]
    left = Heat(Sphere()).diag(Z) - (phi**2) @ A
    covariance = np.eye(len(A))
    likelihood = Poisson() if counts else Bernoulli()
    for _ in range(200):
        variance = left + ((phi @ covariance) * phi).sum(axis=1)
        terms = likelihood.expectations(y.astype(float), phi @ w + model.likelihood_.offset[0], variance)
        covariance = np.linalg.inv(np.diag(1 / A) + (phi.T * terms.curvature) @ phi)
    np.testing.assert_allclose(w, A * (phi.T @ terms.slope), atol=2e-5)
    mean, got = model._latent_moments(X)
    np.testing.assert_allclose(got[:, 0], variance, atol=1e-5)
    np.testing.assert_allclose(mean[:, 0], phi @ w + model.likelihood_.offset[0], atol=1e-9)


def draw(m: int, scale: float) -> tuple[np.ndarray, np.ndarray]:
    """Directions, and a draw of a process there."""
    rng = np.random.default_rng(0)
    harmonics = SphericalHarmonics(4, 5)
    std = np.sqrt(np.repeat(Heat(Sphere(), t=0.1).level_weights(4, range(5)).weights, harmonics.counts))
    X = rng.normal(size=(m, 4))
    return X, scale * harmonics(X) @ (rng.normal(size=len(std)) * std)


def test_probabilities_are_calibrated() -> None:
    X, f = draw(9000, 2.0)
    y = np.random.default_rng(0).uniform(size=9000) < expit(f)
    model = SphericalGPClassifier(Heat(Sphere()), max_features=55).fit(X[:1000], y[:1000])
    p = model.predict_proba(X[1000:])[:, 1]
    bins = np.digitize(p, np.linspace(0, 1, 11)[1:-1])
    error = sum(abs((y[1000:] - p)[bins == b].sum()) for b in range(10)) / len(p)
    assert error < 0.03  # that of the true probabilities is 0.01 in a sample of this size
    assert log_loss(y[1000:], p) < log_loss(y[1000:], expit(f[1000:])) + 0.04


@pytest.mark.filterwarnings("ignore:the bound was still rising")
def test_bound_never_falls_and_optimisation_raises_it() -> None:
    X, y = make_moons(300, noise=0.2, random_state=0)
    fixed = SphericalGPClassifier(max_features=40, optimize=False).fit(X, y)
    bounds = [
        SphericalGPClassifier(max_features=40, optimize=False, max_iter=i).fit(X, y).elbo_
        for i in range(1, 6)
    ]
    assert (np.diff(bounds) > -1e-2).all()
    assert SphericalGPClassifier(max_features=40).fit(X, y).elbo_ > fixed.elbo_ + 5


def test_level_with_the_exact_gp_of_scikit_learn() -> None:
    X, y = make_moons(300, noise=0.25, random_state=0)
    model = SphericalGPClassifier(Heat(Sphere()), inputs="table", max_features=100).fit(X[:150], y[:150])
    Z = np.column_stack([(X - X[:150].mean(axis=0)) / X[:150].std(axis=0), np.ones(300)])
    exact = GaussianProcessClassifier(100.0 * Heat(Sphere()), optimizer=None).fit(Z[:150], y[:150])
    ours, theirs = model.predict_proba(X[150:]), exact.predict_proba(Z[150:])
    assert log_loss(y[150:], ours) < log_loss(y[150:], theirs) + 0.01


def test_several_classes_and_names() -> None:
    X, y = load_iris(return_X_y=True)
    names = np.array(["setosa", "versicolor", "virginica"])
    model = SphericalGPClassifier(max_features=60).fit(X[::2], names[y[::2]])
    p = model.predict_proba(X[1::2])
    np.testing.assert_allclose(p.sum(axis=1), 1)
    assert model.score(X[1::2], names[y[1::2]]) > 0.93
    assert model.classes_.tolist() == names.tolist()
    assert model.decision_function(X).shape == (150, 3)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict_proba(X[1::2]), p)


def test_too_few_passes_are_told() -> None:
    X, y, _ = labels(300)
    with pytest.warns(ConvergenceWarning, match="still rising after 2 passes; raise max_iter"):
        SphericalGPClassifier(max_features=30, max_iter=2).fit(X, y)


def test_classes_change_places() -> None:
    X, y, _ = labels(300)
    one = SphericalGPClassifier(max_features=30).fit(X, y)
    other = SphericalGPClassifier(max_features=30).fit(X, 1 - y)
    np.testing.assert_allclose(one.predict_proba(X), other.predict_proba(X)[:, ::-1], atol=1e-3)


def test_class_prior() -> None:
    X, y, _ = labels(300)
    plain = SphericalGPClassifier(max_features=30).fit(X, y)
    model = SphericalGPClassifier(max_features=30, class_prior=[0.9, 0.1]).fit(X, y)
    odds = plain.predict_proba(X) * np.array([0.9, 0.1]) / np.array([1 - y.mean(), y.mean()])
    np.testing.assert_allclose(model.predict_proba(X), odds / odds.sum(axis=1, keepdims=True))
    same = SphericalGPClassifier(max_features=30, class_prior=[1 - y.mean(), y.mean()]).fit(X, y)
    np.testing.assert_allclose(same.predict_proba(X), plain.predict_proba(X))
    for prior in ([0.5, 0.6], [1.0], [-0.5, 1.5]):
        with pytest.raises(ValueError, match="class_prior must hold 2"):
            SphericalGPClassifier(max_features=30, class_prior=prior).fit(X, y)


@pytest.mark.parametrize("kind", [SphericalGPClassifier, SphericalGPPoissonRegressor])
def test_weights_count_rows(kind) -> None:
    X, y, _ = labels(120)
    often = np.random.default_rng(0).integers(0, 3, size=120)
    weighted = kind(max_features=30, optimize=False).fit(X, y, sample_weight=often)
    repeated = kind(max_features=30, optimize=False).fit(
        np.repeat(X, often, axis=0), np.repeat(y, often)
    )
    assert weighted.elbo_ == pytest.approx(repeated.elbo_, abs=1e-3)
    np.testing.assert_allclose(weighted.predict(X), repeated.predict(X), atol=1e-3)


def test_blocks_and_files(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("mercer.rows.arrays.ROWS", 64)
    X, y, _ = labels(200)
    whole = SphericalGPClassifier(max_features=30).fit(X, y)
    frame = pd.DataFrame(X, columns=["a", "b"])
    frame.assign(y=y).to_parquet(tmp_path / "0.parquet")
    for source, rows in (
        ([(X[:77], y[:77]), (X[77:], y[77:])], X),
        (ParquetBlocks(tmp_path, target="y", rows=41), frame),
    ):
        model = SphericalGPClassifier(max_features=30).fit(source)
        np.testing.assert_allclose(model.predict_proba(rows), whole.predict_proba(X), atol=1e-6)
    with pytest.raises(ValueError, match="read only once"):
        SphericalGPClassifier().fit(iter([(X, y)]))


def test_text_like_counts() -> None:
    rng = np.random.default_rng(0)
    topics = rng.dirichlet(np.full(30, 0.3), size=2)
    y = rng.integers(2, size=200)
    counts = np.array([rng.multinomial(25, topics[c]) for c in y])
    model = SphericalGPClassifier(Heat(Simplex()), max_features=40).fit(counts[:120], y[:120])
    assert model.score(counts[120:], y[120:]) > 0.95


def test_rates_of_counts() -> None:
    X, f = draw(3000, 1.0)
    y = np.random.default_rng(5).poisson(np.exp(f))
    model = SphericalGPPoissonRegressor(Heat(Sphere()), max_features=55).fit(X[:1000], y[:1000])
    rate, std = model.predict(X[1000:], return_std=True)
    assert np.abs(np.log(rate) - f[1000:]).mean() < 0.3
    assert (((y[1000:] - rate) / std) ** 2).mean() == pytest.approx(1.0, abs=0.1)
    mean, variance = model._latent_moments(X[1000:])
    assert 0.9 < (np.abs(mean - f[1000:, None]) < 1.96 * np.sqrt(variance)).mean() < 0.98


def test_wild_counts_converge() -> None:
    X, f = field(300)
    y = np.random.default_rng(5).poisson(np.exp(3 * f))
    assert y.max() > 1000
    model = SphericalGPPoissonRegressor(max_features=60).fit(X, y)
    assert model.n_iter_ < 50
    assert np.isfinite(model.elbo_)
    assert np.corrcoef(np.log1p(model.predict(X)), np.log1p(y))[0, 1] > 0.95


@pytest.mark.filterwarnings("ignore:noise alone was found")
@pytest.mark.parametrize("kind", [SphericalGPClassifier, SphericalGPPoissonRegressor])
def test_works_as_a_scikit_learn_estimator(kind) -> None:
    size = 40 if kind is SphericalGPPoissonRegressor else 8
    check_estimator(kind(max_features=size, tol=1e-3), on_skip=None)


def test_extreme_data() -> None:
    X, _ = field(60)
    separable = (X[:, 0] > 0).astype(int)
    model = SphericalGPClassifier(max_features=40).fit(X, separable)
    assert model.score(X, separable) > 0.95
    assert np.isfinite(model.predict_proba(X)).all()
    rare = np.zeros(60, dtype=int)
    rare[0] = 1
    p = SphericalGPClassifier(max_features=40).fit(X, rare).predict_proba(X)
    assert np.isfinite(p).all()
    assert p[:, 1].mean() < 0.1
    duplicated = SphericalGPClassifier(max_features=20).fit(
        np.repeat(X[:3], 20, axis=0), np.repeat([0, 1, 0], 20)
    )
    assert duplicated.predict(X[:3]).tolist() == [0, 1, 0]
    two = SphericalGPClassifier(max_features=20).fit(X[:2], [0, 1])
    assert two.predict_proba(X).shape == (60, 2)
    one = SphericalGPPoissonRegressor(max_features=20).fit(X[:1], [4])
    assert one.predict(X[:1])[0] == pytest.approx(4, rel=0.3)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"max_iter": 0}, "max_iter must be"),
        ({"tol": 0.0}, "tol must be"),
        ({"amplitude": -1.0}, "amplitude must be"),
    ],
)
def test_bad_parameters(params: dict, message: str) -> None:
    X, y, _ = labels(30)
    with pytest.raises(ValueError, match=message):
        SphericalGPClassifier(**params).fit(X, y)


def test_bad_targets() -> None:
    X, y, _ = labels(30)
    with pytest.raises(ValueError, match="only one class"):
        SphericalGPClassifier().fit(X, np.ones(30))
    with pytest.raises(ValueError, match="weight zero; drop them"):
        SphericalGPClassifier().fit(X, y, sample_weight=y)
    with pytest.raises(ValueError, match="row 2 of y is negative"):
        SphericalGPPoissonRegressor().fit(X, np.where(np.arange(30) == 2, -1, 1))
    with pytest.raises(ValueError, match="all counts are zero"):
        SphericalGPPoissonRegressor().fit(X, np.zeros(30))
    with pytest.raises(ValueError, match="y has 2 columns"):
        SphericalGPPoissonRegressor().fit([(X, np.column_stack([y, y]))])
    with pytest.raises(ValueError, match="there are no rows"):
        SphericalGPClassifier().fit([])


def test_mean_probability() -> None:
    mean, variance = np.array([-2.0, 0.0, 1.0]), np.array([0.1, 3.0, 1.0])
    expected = [
        quad(lambda f, m=m, v=v: expit(f) * norm.pdf(f, m, np.sqrt(v)), m - 30, m + 30)[0]
        for m, v in zip(mean, variance, strict=True)
    ]
    np.testing.assert_allclose(mean_probability(mean, variance), expected, atol=1e-6)


def test_labels_and_priors_of_other_kinds_are_refused() -> None:
    X, y, _ = labels(60)
    with pytest.raises(ValueError, match="several kinds"):
        SphericalGPClassifier().fit(X, np.array(["a", 1] * 30, dtype=object))
    with pytest.raises(ValueError, match="class_prior must hold 2 probabilities"):
        SphericalGPClassifier(class_prior={0: 0.5, 1: 0.5}, max_features=10).fit(X, y)
