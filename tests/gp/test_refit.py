"""Models fitted anew from their sums, with other kernels and hyperparameters, and to more rows."""

import numpy as np
import pytest

from mercer.gp import SphericalGPRegressor
from mercer.kernels import ArcCosine, Heat, Matern
from mercer.spaces import Sphere
from tests.helpers.processes import table


def test_refit_needs_no_rows() -> None:
    X, y = table(300)
    options = {"inputs": "table", "max_features": 80}
    first = SphericalGPRegressor(Heat(Sphere()), **options).fit(X, y)
    fresh = SphericalGPRegressor(Matern(Sphere(), 1.5), **options).fit(X, y)
    first.refit(Matern(Sphere(), 1.5))
    np.testing.assert_allclose(first.predict(X[:9]), fresh.predict(X[:9]), rtol=1e-4)
    assert first.elbo_ == pytest.approx(fresh.elbo_, abs=0.01)
    assert first.refit(optimize=False, noise=0.5).noise_ == pytest.approx(0.5)
    with pytest.raises(ValueError, match="call fit instead"):
        first.refit(ArcCosine())
    with pytest.raises(ValueError, match="refit cannot change bias"):
        first.refit(bias=2.0)


def test_refit_of_points_with_lengths() -> None:
    X, y = table(50)
    model = SphericalGPRegressor(ArcCosine(order=1), inputs="points", max_features=30).fit(X, y)
    deep = SphericalGPRegressor(ArcCosine(order=1, depth=2), inputs="points", max_features=30).fit(X, y)
    refitted = model.refit(ArcCosine(order=1, depth=2))
    assert refitted.elbo_ == pytest.approx(deep.elbo_, abs=0.1)


def test_a_refused_refit_leaves_the_model_as_it_was() -> None:
    X, y = table(60)
    model = SphericalGPRegressor(max_features=20, levels=3, optimize=False).fit(X, y)
    before = model.predict(X)
    for change in ({"noise": -1.0}, {"kernel": Heat(Sphere()), "noise": 0.5}):
        with pytest.raises(ValueError, match=r"noise must be|needs features other"):
            model.refit(**change)
    assert model.noise == 0.1
    np.testing.assert_array_equal(model.refit().predict(X), before)


def test_a_changed_kernel_is_used_by_partial_fit() -> None:
    X, y = table(200)
    model = SphericalGPRegressor(Heat(Sphere()), inputs="table", max_features=60).fit(X[:100], y[:100])
    model.set_params(kernel=Matern(Sphere(), nu=1.5)).partial_fit(X[100:], y[100:])
    whole = SphericalGPRegressor(Heat(Sphere()), inputs="table", max_features=60).fit(X[:100], y[:100])
    whole.partial_fit(X[100:], y[100:]).refit(Matern(Sphere(), nu=1.5), n_restarts=0)
    assert isinstance(model.kernel_, Matern)
    np.testing.assert_allclose(model.predict(X), whole.predict(X), rtol=1e-6)
    with pytest.raises(ValueError, match="needs features other"):
        model.set_params(kernel=ArcCosine()).partial_fit(X, y)
