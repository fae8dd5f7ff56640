"""Hyperparameters of Gaussian processes that end at their bounds."""

import re
import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from mercer.gp import SphericalGPClassifier, SphericalGPPoissonRegressor, SphericalGPRegressor
from mercer.kernels import ArcCosine, Heat, Matern
from mercer.spaces import Sphere

ROWS = np.random.default_rng(0).normal(size=(60, 3))


@pytest.mark.parametrize("features", ["harmonics", "inducing"])
def test_hyperparameters_at_their_bounds_are_named(features: str) -> None:
    kernel = Heat(Sphere(), t=1.0, t_bounds=(0.9, 1.1))
    model = SphericalGPRegressor(kernel, inputs="points", features=features, max_features=30)
    targets = np.sign(ROWS[:, 0] * ROWS[:, 1])  # of a shorter range
    message = "found for t is close to its lower bound, 0.9; lower it by t_bounds="
    with pytest.warns(ConvergenceWarning, match=re.escape(message)) as caught:
        model.fit(ROWS, targets)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    with warnings.catch_warnings(action="error"):
        model.set_params(optimize=False).fit(ROWS, targets)
        noise = np.random.default_rng(0).normal(size=len(ROWS))
        assert model.set_params(optimize=True).fit(ROWS, noise).amplitude_ < 1e-5


def test_hyperparameters_at_their_bounds_are_named_once_for_all_classes() -> None:
    kernel = Heat(Sphere(), t=0.09, t_bounds=(0.08, 0.1))
    labels = np.digitize(ROWS[:, 0], [-0.3, 0.3])  # of a longer range
    with pytest.warns(ConvergenceWarning, match="t is close to its upper bound, 0.1") as caught:
        SphericalGPClassifier(kernel, inputs="points", max_features=30).fit(ROWS, labels)
    assert [warning.filename for warning in caught] == [__file__]


def test_bounds_are_named_after_refit_and_partial_fit() -> None:
    targets = np.sign(ROWS[:, 0] * ROWS[:, 1])
    model = SphericalGPRegressor(Heat(Sphere(), t=1.0), inputs="points", max_features=30)
    model.fit(ROWS, targets)
    narrow = Heat(Sphere(), t=1.0, t_bounds=(0.9, 1.1))
    with pytest.warns(ConvergenceWarning, match="t is close to its lower bound, 0.9") as caught:
        model.refit(narrow)
    assert [warning.filename for warning in caught] == [__file__]
    with pytest.warns(ConvergenceWarning, match="t is close to its lower bound, 0.9") as caught:
        model.partial_fit(ROWS, targets)
    assert [warning.filename for warning in caught] == [__file__]


@pytest.mark.parametrize(("scale", "side"), [(1e-6, "lower"), (1e4, "upper")])
def test_noise_at_its_bound_is_named(scale: float, side: str) -> None:
    """Noise is between 1e-7 and 100, which is far from that of targets in units of their own."""
    targets = scale * (ROWS[:, 0] + 0.3 * np.random.default_rng(0).normal(size=60))
    message = f"noise is close to its {side} bound, .*; rescale the targets, or use normalize_y=True"
    with pytest.warns(ConvergenceWarning, match=message):
        SphericalGPRegressor(max_features=30, normalize_y=False).fit(ROWS, targets)
    with warnings.catch_warnings(action="error"):
        SphericalGPRegressor(max_features=30).fit(ROWS, targets)


def test_amplitude_at_its_bound_is_named() -> None:
    kernel = Heat(Sphere(), t_star=12.0, t_star_bounds="fixed")  # nearly constant
    model = SphericalGPRegressor(kernel, inputs="points", max_features=30, normalize_y=False)
    with (
        pytest.warns(ConvergenceWarning, match="amplitude is close to its upper bound, 1e.09"),
        pytest.warns(ConvergenceWarning, match="noise is close to its upper bound, 100"),
    ):
        model.fit(ROWS, 1000 * ROWS[:, 0])


def test_a_small_kernel_is_the_same_process_with_a_larger_amplitude() -> None:
    """It was taken for noise: values k(x, x) are far below one, and so was the prior variance."""
    X = np.random.default_rng(0).normal(size=(100, 12))
    y = np.sin(2 * X[:, 0]) + X[:, 1]
    fits = [
        SphericalGPRegressor(Matern(Sphere(), normalized=normalized), inputs="table", max_features=60)
        for normalized in (True, False)
    ]
    whole, small = (model.fit(X, y) for model in fits)
    assert small.amplitude_ > 1e9
    assert small.elbo_ == pytest.approx(whole.elbo_, abs=1e-3)
    np.testing.assert_allclose(small.predict(X), whole.predict(X), atol=1e-3)


@pytest.mark.parametrize("scale", [1e-8, 1e8])
@pytest.mark.parametrize("estimator", [SphericalGPRegressor, SphericalGPPoissonRegressor])
def test_the_unit_of_rows_with_lengths_does_not_matter(estimator, scale: float) -> None:
    counts = np.round(10 * np.exp(ROWS[:, 0]))
    model = estimator(ArcCosine(), inputs="points", max_features=30).fit(ROWS, counts)
    other = estimator(ArcCosine(), inputs="points", max_features=30).fit(scale * ROWS, counts)
    np.testing.assert_allclose(other.predict(scale * ROWS), model.predict(ROWS), rtol=1e-3)


def test_what_features_leave_out_is_that_of_the_kernel_that_was_found() -> None:
    """A range that is far too short at the start hid that 100 features hold nearly all of the kernel."""
    X = np.random.default_rng(0).normal(size=(100, 12))
    model = SphericalGPRegressor(Matern(Sphere(), length_scale=0.1), inputs="table", max_features=100)
    with warnings.catch_warnings(action="error"):
        model.fit(X, X[:, 0] + 0.3 * np.random.default_rng(1).normal(size=100))
    assert model.kernel_.length_scale > 0.5
