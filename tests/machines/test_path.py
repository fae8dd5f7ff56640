"""Machines along a path on part of a Gram matrix, against libsvm on the part cut out."""

import numpy as np
import pytest
from sklearn import svm as libsvm
from sklearn.base import clone
from sklearn.datasets import load_digits

from mercer.kernels import Gaussian
from mercer.machines import SVC, solver

SETTINGS = [{"C": C} for C in (10.0, 0.01, 1.0, 1000.0)]


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return Gaussian().scaled_to(X[:300], 0.3)(X[:300]), y[:300]


def parts(rows: int, share: float) -> tuple[np.ndarray, np.ndarray]:
    test = np.random.default_rng(0).random(rows) < share
    return np.flatnonzero(~test), np.flatnonzero(test)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("share", [0.1, 0.6])
@pytest.mark.parametrize("classes", [2, 10])
@pytest.mark.parametrize("ordered", [False, True])
def test_as_libsvm_on_the_part(digits, dtype, share, classes, ordered) -> None:
    K, y = digits[0], digits[1] % classes
    if ordered:
        order = np.argsort(y, kind="stable")
        K, y = K[np.ix_(order, order)], y[order]
    train, test = parts(len(y), share)
    weights = {0: 2.0, 1: 0.7}  # balanced ones leave the bias undecided at small C
    path = SVC(tol=1e-6, decision_function_shape="ovo", class_weight=weights).fit_path(
        K.astype(dtype), y, train, SETTINGS
    )
    for model, setting in zip(path, SETTINGS, strict=True):
        theirs = libsvm.SVC(
            kernel="precomputed", tol=1e-8, decision_function_shape="ovo", class_weight=weights,
            **setting,
        ).fit(K[np.ix_(train, train)], y[train])  # fmt: skip
        expected = theirs.decision_function(K[np.ix_(test, train)])
        found = model.decision_function(K[test].astype(dtype))
        # The gap bounds values without bias; objectives of pairs differ by less than 4 times their mean.
        bound = 2 * np.sqrt(2e-6 * 4 * model.objective_ / len(model.intercept_)) + 1e-5
        np.testing.assert_allclose(found, expected, atol=bound)
        clear = (np.abs(expected) > bound).reshape(len(test), -1).all(axis=1)
        same = model.predict(K[test].astype(dtype)) == theirs.predict(K[np.ix_(test, train)])
        assert same[clear].all()
        assert clear.any()
        assert model.dual_gap_ <= 1e-6
        assert np.isin(model.support_, train).all()


def test_classes_that_the_part_does_not_have(digits) -> None:
    K, y = digits
    train = np.flatnonzero(y < 4)
    (model,) = SVC().fit_path(K, y, train, [{"C": 10.0}])
    assert model.classes_.tolist() == [0, 1, 2, 3]
    alone = SVC("precomputed", C=10.0).fit(K[np.ix_(train, train)], y[train])
    np.testing.assert_array_equal(model.predict(K), alone.predict(K[:, train]))


def test_a_path_can_be_stopped(digits, monkeypatch) -> None:
    monkeypatch.setattr(solver, "_PATIENCE", 1)  # programs that end at once need not be stopped
    asked = []
    models = SVC(tol=1e-9).fit_path(*digits, np.arange(300), SETTINGS, lambda: asked.append(1) or True)
    assert len(asked) >= len(SETTINGS)
    assert len(models) == len(SETTINGS)


def test_machines_that_a_stopped_path_did_not_reach_say_so(digits, monkeypatch) -> None:
    monkeypatch.setattr(solver, "_PATIENCE", 1)  # too few steps for any of them
    K, y = digits[0], digits[1] % 2
    settings = [{"C": C} for C in (1.0, 10.0, 100.0)]
    models = SVC(tol=1e-9).fit_path(K, y, np.arange(300), settings, lambda: True)
    assert [model.converged_ for model in models] == [False, False, False]
    assert min(model.dual_gap_ for model in models) > 1e-9


def test_a_setting_that_is_refused(digits) -> None:
    with pytest.raises(ValueError, match="C must be a positive number"):
        SVC().fit_path(*digits, np.arange(300), [{"C": 1.0}, {"C": -1.0}])


@pytest.mark.parametrize("C", [0.1, 10.0, 1000.0])
def test_small_programs_of_a_path_are_solved_to_rounding(digits, C) -> None:
    train = np.arange(60)
    for model in SVC(tol=1e-3).fit_path(*digits, train, [{"C": C}, {"C": 2 * C}]):
        assert model.dual_gap_ < 1e-13 * (1 + C)  # roundings of terms of size C


@pytest.mark.parametrize("C", [0.1, 10.0, 1000.0])
def test_pairs_solved_together_are_those_solved_alone(digits, C) -> None:
    K, y = digits[0], digits[1] % 3
    model = SVC("precomputed", C=C, tol=1e-6).fit(K, y)
    values, bounds = model._decisions(K), []
    for pair, (i, j) in enumerate([(0, 1), (0, 2), (1, 2)]):
        part = np.flatnonzero((y == i) | (y == j))
        alone = SVC("precomputed", C=C, tol=1e-6).fit(K[np.ix_(part, part)], y[part])
        # Both are within the gap of the best function; the positive class of two is the second.
        bound = 2 * np.sqrt(2e-6 * alone.objective_)
        free = values[part, pair] + alone.decision_function(K[np.ix_(part, part)])
        assert np.ptp(free) <= 2 * bound
        bounds.append(alone.objective_)
    assert model.objective_ == pytest.approx(sum(bounds), rel=1e-6)
    assert model.dual_gap_ <= 1e-6


@pytest.mark.parametrize("weights", [None, "balanced"])
def test_a_path_takes_the_bias_of_a_single_fit_where_many_are_optimal(digits, weights) -> None:
    """At small C all coefficients may be at the ends of their boxes, all but rounding."""
    K, y = digits
    machine = SVC("precomputed", tol=1e-8, class_weight=weights, decision_function_shape="ovo")
    settings = [{"C": C} for C in (1e-3, 1e-2, 1e-1)]
    for model, setting in zip(machine.fit_path(K, y, np.arange(300), settings), settings, strict=True):
        alone = clone(machine).set_params(**setting).fit(K, y)
        np.testing.assert_allclose(model.intercept_, alone.intercept_, atol=1e-4)
        np.testing.assert_array_equal(model.predict(K), alone.predict(K))
    if weights == "balanced":  # the middle of what leaves all rows of both classes inside the margin
        values = alone.set_params(C=1e-3).fit(K, y).decision_function(K)[:, 0]
        low, high = values[y == 1].min() + 1, values[y == 0].max() - 1
        assert low - high == pytest.approx(2, abs=0.1)
        assert low + high == pytest.approx(0, abs=1e-6)
