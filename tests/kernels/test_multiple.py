"""Sums of kernels whose weights are learnt."""

import itertools

import numpy as np
import pytest
import sklearn.svm
from scipy.optimize import minimize
from sklearn.datasets import load_diabetes, load_wine

from mercer.kernels import Gaussian, Linear, MultipleKernel, On
from mercer.kernels.tables.multiple import _RIDGES, _Problem
from mercer.machines import SVC, KernelRidge
from mercer.selection import KernelSearchCV

X, Y = load_wine(return_X_y=True)
NOISE = np.random.default_rng(0).normal(size=(len(X), 3))
TABLE = np.hstack([X, NOISE])
PARTS = [
    On([0, 1, 2], Gaussian(2.0)),
    On([6, 9, 11, 12], Linear()),
    On(slice(0, 13), Gaussian(4.0)),
    On([13, 14, 15], Gaussian(1.0)),
]
INDICATORS = (Y[:, None] == np.arange(3)) - np.eye(3)[Y].mean(axis=0)


def centred(kernel) -> np.ndarray:
    """A centred Gram matrix of total variance 1."""
    H = np.eye(len(X)) - 1 / len(X)
    C = H @ kernel.learnt_from(TABLE)(TABLE) @ H
    return C * len(X) / np.trace(C)


MATRICES = [centred(part) for part in PARTS]


def shares(kernel: MultipleKernel) -> np.ndarray:
    """Learnt weights, in units in which all parts have the same size."""
    learnt = kernel.learnt_from(TABLE, Y)
    H = np.eye(len(X)) - 1 / len(X)
    sizes = [np.trace(H @ part(TABLE) @ H) / (len(X) - 1) for part in learnt.kernels]
    return learnt.learnt_weights * sizes


def alignment(w: np.ndarray) -> float:
    """The cosine with the targets, by Song's formula for pairs of different points."""
    C, T = np.tensordot(w, MATRICES, 1), INDICATORS @ INDICATORS.T
    K, L, m = C - np.diag(np.diag(C)), T - np.diag(np.diag(T)), len(X)
    mixed = K.sum() * L.sum() / ((m - 1) * (m - 2)) - 2 * K.sum(axis=0) @ L.sum(axis=0) / (m - 2)
    return float((np.vdot(K, L) + mixed) / np.linalg.norm(C))


def ridge(w: np.ndarray, alpha: float) -> float:
    K = np.tensordot(w, MATRICES, 1) + len(X) * alpha * np.eye(len(X))
    return float(np.vdot(INDICATORS, np.linalg.solve(K, INDICATORS)))


@pytest.mark.parametrize(
    ("objective", "loss"),
    [("alignment", lambda w: -alignment(w)), ("ridge", lambda w: ridge(w, 0.02))],
    ids=["alignment", "ridge"],
)
def test_weights_are_optimal(objective: str, loss) -> None:
    found = shares(MultipleKernel(PARTS, objective, alpha=0.02))
    assert (found >= 0).all()
    assert found.sum() == pytest.approx(1)
    best = minimize(
        lambda w: loss(w / w.sum()), np.full(4, 0.25), bounds=[(1e-9, 1)] * 4, method="L-BFGS-B"
    )
    assert loss(found) == pytest.approx(best.fun, rel=1e-6)
    assert found[3] < 0.01  # noise


def hinge(w: np.ndarray, alpha: float) -> float:
    """The dual objective of support vector machines, one for each class."""
    K, total = np.tensordot(w, MATRICES, 1), 0.0
    for label in range(3):
        machine = sklearn.svm.SVC(kernel="precomputed", C=0.5 / (len(X) * alpha)).fit(K, label == Y)
        a = machine.dual_coef_[0]
        total += np.abs(a).sum() - a @ K[np.ix_(machine.support_, machine.support_)] @ a / 2
    return total


def test_the_weights_of_a_margin() -> None:
    found = shares(MultipleKernel(PARTS, "hinge", alpha=0.01))
    assert (found >= 0).all()
    assert found.sum() == pytest.approx(1)
    best = hinge(found, 0.01)
    for other in (*np.eye(4), *np.random.default_rng(1).dirichlet(np.ones(4), size=20)):
        assert best <= hinge(other, 0.01) * (1 + 1e-3)
    with pytest.raises(ValueError, match="the hinge loss is for classes"):
        MultipleKernel(PARTS, "hinge").learnt_from(TABLE, TABLE[:, 0])


def left_out(w: np.ndarray, ridge: float, some: np.ndarray) -> np.ndarray:
    """Squared errors of ridge regressions with a constant that is free, refitted without each point."""
    K, errors = np.tensordot(w, MATRICES, 1), []
    for i in some:
        rest = np.flatnonzero(np.arange(len(X)) != i)
        ones = np.ones((len(rest), 1))
        system = np.block(
            [[K[np.ix_(rest, rest)] + ridge * np.eye(len(rest)), ones], [ones.T, np.zeros((1, 1))]]
        )
        coefficients = np.linalg.solve(system, np.vstack([INDICATORS[rest], np.zeros((1, 3))]))
        value = np.append(K[i, rest], 1.0) @ coefficients
        errors.append(((INDICATORS[i] - value) ** 2).sum())
    return np.array(errors)


def test_errors_at_points_left_out() -> None:
    problem = _Problem(MATRICES, np.ones(4), INDICATORS)
    w, some = np.array([0.2, 0.5, 0.3, 0.0]), np.arange(0, len(X), 9)
    expected = [left_out(w, len(X) * ridge, some) for ridge in _RIDGES]
    found = problem.left_out_errors(w)[some]
    assert (
        min(np.abs(found / errors - 1).max() for errors in expected) < 1e-3
    )  # the constant is almost free


def test_parts_are_added_if_they_help_beyond_noise() -> None:
    problem = _Problem(MATRICES, np.ones(4), INDICATORS)
    path = MultipleKernel(PARTS, "loo").weight_path(TABLE, Y)
    np.testing.assert_allclose(path.sum(axis=1), 1)
    np.testing.assert_allclose(path[-1], shares(MultipleKernel(PARTS, "loo")))
    assert np.count_nonzero(path[0]) == 1
    assert path[-1, 3] == 0  # noise
    errors = [problem.left_out_errors(w) for w in path]
    assert min(problem.left_out_errors(w).mean() for w in np.eye(4)) == errors[0].mean()
    for before, after in itertools.pairwise(errors):
        assert (before - after).mean() > (before - after).std() / np.sqrt(len(X))
    # Two parts that are needed together are both found, also for numbers.
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(120, 3))
    y = rows[:, 0] + rows[:, 1]
    three = [On([i], Linear()) for i in range(3)]
    found = MultipleKernel(three, "loo").learnt_from(rows, y).learnt_weights
    assert (found[:2] > 0.2).all()
    assert found[2] < 0.01
    constant = MultipleKernel(three, "loo").learnt_from(rows, rng.permutation(y)).learnt_weights
    assert np.count_nonzero(constant) == 1


@pytest.mark.parametrize("objective", ["alignment", "ridge", "hinge", "loo"])
def test_weights_of_parts_of_equal_size_sum_to_one(objective: str) -> None:
    parts = [On([0], Gaussian()), On([1, 2], Gaussian()), On(slice(3, 6), Linear())]
    X, y = load_wine(return_X_y=True)
    learnt = MultipleKernel(parts, objective).learnt_from(X, y)
    assert learnt.learnt_weights.sum() == pytest.approx(1.0, rel=1e-12)


def test_the_kernel_is_the_weighted_sum() -> None:
    kernel = MultipleKernel(PARTS[:2]).learnt_from(TABLE, Y)
    expected = sum(
        w * part(TABLE) for w, part in zip(kernel.learnt_weights, kernel.kernels, strict=True)
    )
    np.testing.assert_allclose(kernel(TABLE), expected, atol=1e-12)
    np.testing.assert_array_equal(kernel.learnt_from(TABLE, 1 - Y)(TABLE), kernel(TABLE))


@pytest.mark.parametrize("objective", ["alignment", "ridge"])
def test_path(objective: str) -> None:
    path = MultipleKernel(PARTS, objective).weight_path(TABLE, Y)
    assert (path >= 0).all()
    np.testing.assert_allclose(path.sum(axis=1), 1)
    if objective == "alignment":
        assert np.count_nonzero(path[0]) == 1
        np.testing.assert_allclose(path[-1], shares(MultipleKernel(PARTS)), atol=1e-6)


def test_in_a_search_weights_are_learnt_from_training_parts() -> None:
    train, test = np.arange(0, len(X), 2), np.arange(1, len(X), 2)
    kernels = {"learnt": MultipleKernel(PARTS), "parts": PARTS}
    search = KernelSearchCV(kernels, param_grid={"C": [1.0]}, cv=[(train, test)], refit=False)
    scores = search.fit(TABLE, Y).cv_results_["mean_test_score"]
    alone = SVC(MultipleKernel(PARTS)).fit(TABLE[train], Y[train])
    assert scores[0] == pytest.approx(alone.score(TABLE[test], Y[test]))
    assert scores[0] >= max(scores[1:]) - 0.03  # two of 89 rows
    assert (
        KernelSearchCV(MultipleKernel(PARTS), similarities=[0.3], cv=3).fit(TABLE, Y).best_score_ > 0.9
    )


def test_regression() -> None:
    rows, target = load_diabetes(return_X_y=True)
    target -= target.mean()
    kernel = MultipleKernel([On([2, 3, 8], Linear()), On([0], Gaussian())], "ridge")
    machine = KernelRidge(kernel, alpha=10.0).fit(rows[:300], target[:300])
    weights = machine.kernel_.learnt_weights
    assert weights[0] > 5 * weights[1]
    assert machine.score(rows[300:], target[300:]) > 0.3


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (MultipleKernel([]), "must be a list of kernels"),
        (MultipleKernel(PARTS[:2], weights=[1.0, -0.1]), "2 numbers, none negative"),
        (MultipleKernel(PARTS[:2], weights=[0.0, 0.0]), "must not all be zero"),
        (MultipleKernel(PARTS[:2], "margin"), "objective of MultipleKernel must be one of"),
        (MultipleKernel(PARTS[:2]), "weights of MultipleKernel have not been learnt"),
    ],
    ids=range(5),
)
def test_refusals(kernel, message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        kernel(TABLE)


@pytest.mark.parametrize("bad", [np.nan, -np.inf, 1e160])
@pytest.mark.parametrize("objective", ["alignment", "ridge", "loo"])
def test_bad_targets_are_refused(objective: str, bad: float) -> None:
    X = np.random.default_rng(0).normal(size=(12, 2))
    y = np.where(np.arange(12) == 7, bad, X[:, 0])
    kernel = MultipleKernel([On(0, Gaussian()), On(1, Gaussian())], objective=objective)
    for learn in (kernel.learnt_from, kernel.learnt_from(X, X[:, 0]).weight_path):
        with pytest.raises(ValueError, match="row 7 of y holds NaN, infinity or a number above"):
            learn(X, y)
        with pytest.raises(ValueError, match="row 7 of y"):
            learn(X, y.astype(object))


def test_missing_classes_are_refused() -> None:
    X, kernel = np.eye(4), MultipleKernel([Gaussian(), Gaussian(2.0)], objective="hinge")
    for missing in (None, np.nan):
        with pytest.raises(ValueError, match="row 2 of y is missing"):
            kernel.learnt_from(X, np.array(["a", "b", missing, "a"], dtype=object))


@pytest.mark.parametrize("scale", [1e-160, 1e153, 3e153])
def test_variances_without_an_inverse_are_refused(scale: float) -> None:
    kernel = MultipleKernel([Linear(), Gaussian()])
    with pytest.raises(ValueError, match=r"total variance of Linear\(\) is .* rescale the rows"):
        kernel.learnt_from(scale * np.arange(4.0)[:, None], [0, 1, 0, 1])


@pytest.mark.parametrize(
    "values",
    [
        lambda kernel, X: kernel(X),
        lambda kernel, X: kernel(X, eval_gradient=True),
        lambda kernel, X: kernel.diag(X),
        lambda kernel, X: kernel.matvec(X, None, np.ones(len(X))),
    ],
)
def test_weighted_sums_that_overflow_are_refused(values) -> None:
    kernel = MultipleKernel([Linear(), Gaussian()], weights=[1e308, 1.0])
    with pytest.raises(ValueError, match=r"values of MultipleKernel\(.* overflow"):
        values(kernel, np.arange(4.0)[:, None])


def test_parts_that_do_not_vary_have_equal_weights() -> None:
    learnt = MultipleKernel([Linear(), Gaussian(), Gaussian()]).learnt_from(
        np.ones((4, 1)), [0, 1, 0, 1]
    )
    assert np.ptp(learnt.learnt_weights) == 0
    assert learnt.learnt_weights[0] > 0
