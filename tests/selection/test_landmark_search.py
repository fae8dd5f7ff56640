"""Searches on landmarks: the choice of scikit-learn's grid search, without Gram matrices."""

import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

from mercer.exceptions import IndefiniteKernelWarning
from mercer.kernels import Gaussian, Parametrix, Spectrum
from mercer.machines import SVC, KernelRidge, LandmarkClassifier, LandmarkRegressor
from mercer.selection import KernelSearchCV, compare, gram_cache, load_model, save_model
from mercer.spaces import Sphere

RNG = np.random.default_rng(0)
X = RNG.normal(size=(240, 3))
Y = X[:, 0] * X[:, 1] + 0.1 * RNG.normal(size=240)
KERNELS = [Gaussian(0.5), Gaussian(2.0)]


@pytest.mark.parametrize(
    ("machine", "y"),
    [
        (LandmarkRegressor(n_landmarks=30, random_state=0), Y),
        (LandmarkClassifier(n_landmarks=30, random_state=0), Y > 0),
    ],
    ids=["regression", "classes"],
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


def test_searches_do_not_warn_of_indefinite_kernels() -> None:
    machine, indefinite = LandmarkRegressor(n_landmarks=30, random_state=0), Parametrix(Sphere(), 2.0)
    with pytest.warns(IndefiniteKernelWarning):
        clone(machine).set_params(kernel=indefinite).fit(X, Y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        search = KernelSearchCV([Gaussian(1.0), indefinite], machine, param_grid={"alpha": [1.0]}, cv=3)
        assert search.fit(X, Y).best_kernel_ == Gaussian(1.0)


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


@pytest.mark.parametrize("y", [np.where(Y > 0, "up", "down"), Y + 100], ids=["classes", "numbers"])
def test_comparison_on_landmarks(y, tmp_path) -> None:
    kernels = {"Gaussian": [Gaussian(2.0)]}
    result = compare(X, y, kernels=kernels, folds=3, landmarks=30)
    assert "machines on 30 landmarks: exact ones on 240 points need" in result.notes[0]
    assert result.scores[0].mean > 0.7
    save_model(tmp_path / "model", result)
    model = load_model(tmp_path / "model")
    machine = result.scores[0].search.best_estimator_
    np.testing.assert_array_equal(model.predict(X), machine.predict(X))
    assert repr(machine) in repr(model)
    assert result.best == repr(machine)
    if y.dtype.kind == "U":
        np.testing.assert_allclose(model.predict_proba(X), machine.predict_proba(X))
        assert result.scores[0].metrics["roc_auc"].mean() > 0.8
    else:
        assert not hasattr(model, "predict_proba")


def test_comparisons_say_which_machines_they_chose() -> None:
    kernels = {"Gaussian": [Gaussian(2.0)]}
    exact = compare(X, Y > 0, kernels=kernels, folds=2)
    assert not exact.notes
    assert "SVC(" in exact.best
    large = compare(X, Y > 0, kernels=kernels, folds=2, max_memory=1e-4)
    assert "machines on 1000 landmarks: exact ones on 240 points need 922 kB" in large.notes[0]
    assert "LandmarkClassifier(" in large.best
    with pytest.raises(ValueError, match="max_memory allows"):
        compare(X, Y > 0, kernels=kernels, folds=2, max_memory=1e-5, landmarks=None)
    with pytest.raises(ValueError, match="landmarks must be a whole number of at least 1, or 'auto'"):
        compare(X, Y > 0, kernels=kernels, landmarks="many")
    with pytest.raises(ValueError, match=r"or landmarks \(estimator=mercer.machines.LandmarkClass"):
        KernelSearchCV(KERNELS, param_grid={"C": [1.0]}, max_memory=1e-5).fit(X, Y > 0)


@pytest.mark.parametrize(
    ("task", "y", "exact", "large"),
    [
        ("classifier", Y > 0, SVC, LandmarkClassifier),
        ("regressor", Y + 100, KernelRidge, LandmarkRegressor),
    ],
)
def test_searches_choose_machines_by_size(task, y, exact, large) -> None:
    grid = {"kernel__length_scale": [0.5, 1.0]}
    search = KernelSearchCV(Gaussian(), task, param_grid=grid, cv=2).fit(X, y)
    assert type(search.best_estimator_[-1]) is exact
    search.set_params(max_memory=1e-4)
    with pytest.warns(UserWarning, match="search is on machines on 1000 landmarks: exact ones on 240 p"):
        search.fit(X, y)
    assert type(search.best_estimator_) is large
    assert search.score(X, y) > 0.7
    with pytest.raises(ValueError, match="estimator must be 'classifier', 'regressor' or an estimator"):
        KernelSearchCV(Gaussian(), "ridge").fit(X, y)
