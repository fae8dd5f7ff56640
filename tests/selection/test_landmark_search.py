"""Searches on landmarks: the choice of scikit-learn's grid search, without Gram matrices."""

import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV

from mercer.kernels import Gaussian, Spectrum
from mercer.machines import LandmarkClassifier, LandmarkRegressor
from mercer.selection import KernelSearchCV, gram_cache

RNG = np.random.default_rng(0)
X = RNG.normal(size=(240, 3))
Y = X[:, 0] * X[:, 1] + 0.1 * RNG.normal(size=240)
KERNELS = [Gaussian(0.5), Gaussian(2.0)]


@pytest.mark.parametrize(
    ("machine", "y"),
    [
        (LandmarkRegressor(n_landmarks=30, random_state=0), Y),
        (LandmarkClassifier(n_landmarks=30, random_state=0), Y > 0),
        (LandmarkClassifier(n_landmarks=30, loss="hinge", random_state=0), Y > 0),
    ],
    ids=["regression", "squared", "hinge"],
)
def test_choice_is_that_of_scikit_learn(machine, y, monkeypatch) -> None:
    monkeypatch.setattr(gram_cache.Grams, "__call__", None)  # no Gram matrix of all points
    grid = {"alpha": [0.1, 1.0, 10.0]}
    search = KernelSearchCV(KERNELS, machine, param_grid=grid, cv=3).fit(X, y)
    expected = GridSearchCV(machine, {"kernel": KERNELS, **grid}, cv=3).fit(X, y)
    for name in ("params", "mean_test_score", "rank_test_score"):
        np.testing.assert_array_equal(search.cv_results_[name], expected.cv_results_[name])
    np.testing.assert_allclose(search.predict(X), expected.predict(X))
    assert type(search.best_estimator_) is type(machine)
    assert hasattr(search, "predict_proba") == hasattr(expected, "predict_proba")
    assert search.nested_scores(X, y, outer_cv=2).mean > 0.5


def test_ridges_in_units_of_the_kernel_and_points_of_any_kind(tmp_path) -> None:
    words = ["".join(RNG.choice(list("ab"), size=6)) for _ in range(60)]
    machine = LandmarkClassifier(n_landmarks=40, random_state=0)
    y = ["aba" in word for word in words]
    search = KernelSearchCV([Spectrum(1), Spectrum(3)], machine, cv=3, cache=tmp_path).fit(words, y)
    assert search.best_kernel_ == Spectrum(3)
    assert search.best_score_ > 0.9
    again = KernelSearchCV([Spectrum(1), Spectrum(3)], machine, cv=3, cache=tmp_path).fit(words, y)
    assert again.timings_["fits"] == 0  # all of them were finished
    assert again.best_params_ == search.best_params_
