"""Tables with more columns than a level of harmonics can have functions."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import RidgeCV

from mercer.gp import SphericalGPPoissonRegressor, SphericalGPRegressor
from mercer.kernels import ArcCosine, Heat, Matern
from mercer.spaces import Simplex, Sphere


@pytest.mark.parametrize("columns", [60, 800])
@pytest.mark.parametrize("law", [Heat, Matern], ids=["Heat", "Matern"])
def test_many_columns_are_not_taken_for_noise(law, columns: int) -> None:
    """Scores of the search from one start were 0; ridge regression has 0.8 here."""
    rng = np.random.default_rng(0)
    topics = rng.dirichlet(np.full(columns, 0.3), size=4)
    share = rng.dirichlet(np.ones(4), size=300)
    counts = sparse.csr_array(rng.poisson(200 * share @ topics).astype(float))
    y = share[:, 0] - share[:, 1] + 0.05 * rng.normal(size=300)
    kernel = law(Simplex()) if law is Heat else law(Simplex(), nu=1.5)
    model = SphericalGPRegressor(kernel).fit(counts[:200], y[:200])
    assert model.score(counts[200:], y[200:]) > 0.75


@pytest.mark.parametrize("columns", [60, 800])
@pytest.mark.parametrize("law", [Heat, Matern], ids=["Heat", "Matern"])
def test_counts_of_many_columns_are_not_taken_for_noise(law, columns: int) -> None:
    """The first guess of the rates led to a constant, and then to noise alone; linear rates have 0.3."""
    rng = np.random.default_rng(0)
    topics = rng.dirichlet(np.full(columns, 0.3), size=2)
    kind = rng.integers(2, size=600)
    rows = sparse.csr_array(rng.poisson(60 * topics[kind] + 40 * topics.mean(axis=0)).astype(float))
    y = rng.poisson(np.exp(kind + 0.5))
    model = SphericalGPPoissonRegressor(law(Simplex())).fit(rows[:450], y[:450])
    assert model.score(rows[450:], y[450:]) > 0.3


@pytest.mark.parametrize("noise", [0.1, 1.0])
@pytest.mark.parametrize("columns", [3, 60, 300, 800])
@pytest.mark.parametrize("kernel", [ArcCosine(), Heat(Sphere())], ids=repr)
def test_linear_functions_are_found_as_by_ridge_regression(kernel, columns: int, noise: float) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(900, columns))
    f = X @ rng.normal(size=columns)
    y = f / f.std() + noise * rng.normal(size=900)
    ridge = RidgeCV(np.logspace(-4, 6, 21)).fit(X[:400], y[:400]).score(X[400:], y[400:])
    model = SphericalGPRegressor(kernel, inputs="table").fit(X[:400], y[:400])
    assert model.score(X[400:], y[400:]) > ridge - 0.02


def test_noise_through_few_features_is_named() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, 300))
    y = X[:, :50].sum(axis=1)
    with pytest.warns(ConvergenceWarning, match=r"noise alone.*50 features hold only .*'inducing'"):
        SphericalGPRegressor(max_features=50).fit(X, y)


def test_inducing_points_at_all_rows_are_the_exact_process() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 200))
    y = X[:, :20].sum(axis=1) + rng.normal(size=80)
    model = SphericalGPRegressor(features="inducing").fit(X, y)
    Z = np.column_stack([(X - X.mean(axis=0)) / X.std(axis=0), np.ones(80)])
    K = model.amplitude_ * ArcCosine()(Z)
    target = (y - y.mean()) / y.std()
    mean = K @ np.linalg.solve(K + model.noise_ * np.eye(80), target) * y.std() + y.mean()
    np.testing.assert_allclose(model.predict(X), mean, atol=1e-4 * y.std())


def test_sparse_rows_are_predicted_block_by_block(monkeypatch) -> None:
    """A table of 10^5 sparse rows and 20 000 columns has no room as a dense one."""
    rng = np.random.default_rng(0)
    X = sparse.random_array((300, 40), density=0.2, rng=rng, format="csr")
    y = np.asarray(X.sum(axis=1)).ravel()
    model = SphericalGPRegressor(max_features=50).fit(X, y)
    whole, std = model.predict(X, return_std=True)
    heights = []
    check = type(model.features_).check

    def watched(features, rows, name="X"):
        heights.append(rows.shape[0])
        return check(features, rows, name)

    monkeypatch.setattr(type(model.features_), "check", watched)
    monkeypatch.setattr("mercer.gp.base._NUMBERS", 40 * 64)
    found, deviation = model.predict(X, return_std=True)
    assert heights == [64, 64, 64, 64, 44]
    np.testing.assert_allclose(found, whole, rtol=1e-12)
    np.testing.assert_allclose(deviation, std, rtol=1e-12)
