"""Machines as estimators: scikit-learn's contract, kernels of all kinds, warnings and errors."""

import re
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn import svm as libsvm
from sklearn.base import clone
from sklearn.datasets import load_digits, make_classification
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import log_loss
from sklearn.metrics.pairwise import polynomial_kernel, rbf_kernel
from sklearn.model_selection import GridSearchCV
from sklearn.multiclass import OneVsRestClassifier
from sklearn.utils.estimator_checks import check_estimator

from mercer.exceptions import IndefiniteKernelWarning
from mercer.kernels import Gaussian, Heat, Linear, Spectrum
from mercer.machines import SVC, SVR, KernelRidge, LandmarkClassifier, OneClassSVM
from mercer.selection import KernelSearchCV
from mercer.spaces import Simplex


@pytest.mark.parametrize(
    "machine",
    [
        SVC(),
        SVC(Gaussian(), probability=True, class_weight="balanced", break_ties=True, warm_start=True),
        SVC("linear", probability=True),
        SVR(),
        SVR(Gaussian(), warm_start=True),
        OneClassSVM(),
        OneClassSVM(Gaussian(), nu=0.1),
    ],
    ids=repr,
)
def test_scikit_learn(machine) -> None:
    assert failed(machine) == []


def failed(machine) -> list[dict]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = check_estimator(machine, on_skip=None, on_fail=None)
    return [result for result in results if result["status"] == "failed"]


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return X[:600], y[:600]


@pytest.mark.parametrize("shape", ["ovr", "ovo"])
@pytest.mark.parametrize("classes", [2, 10])
@pytest.mark.parametrize("weight", [None, "balanced", {1: 5.0}])
def test_attributes_are_those_of_scikit_learn(digits, shape, classes, weight) -> None:
    X, y = digits[0][digits[1] < classes], digits[1][digits[1] < classes]
    options = {"C": 2.0, "decision_function_shape": shape, "class_weight": weight}
    ours, theirs = SVC(tol=1e-12, **options).fit(X, y), libsvm.SVC(tol=1e-9, **options).fit(X, y)
    for name in ("classes_", "class_weight_", "support_", "support_vectors_", "n_support_"):
        np.testing.assert_array_equal(getattr(ours, name), getattr(theirs, name))
    for name in ("dual_coef_", "intercept_"):
        # libsvm rounds Gram matrices to single precision.
        np.testing.assert_allclose(getattr(ours, name), getattr(theirs, name), atol=2e-5)
    np.testing.assert_allclose(ours.decision_function(X), theirs.decision_function(X), atol=5e-6)
    np.testing.assert_array_equal(ours.predict(X), theirs.predict(X))


def test_labels_may_be_words(digits) -> None:
    X, y = digits[0], np.array(["even", "odd"])[digits[1] % 2]
    model = SVC().fit(X, y)
    assert set(model.predict(X)) == {"even", "odd"}
    assert ((model.decision_function(X) > 0) == (model.predict(X) == "odd")).all()


def test_ties_are_broken_by_decision_values(digits) -> None:
    model = SVC(break_ties=True).fit(*digits)
    chosen = model.decision_function(digits[0]).argmax(axis=1)
    np.testing.assert_array_equal(model.predict(digits[0]), model.classes_[chosen])
    with pytest.raises(ValueError, match="needs decision_function_shape='ovr'"):
        clone(model).set_params(decision_function_shape="ovo").fit(*digits).predict(digits[0])


@pytest.mark.parametrize("kernel", [Linear(), polynomial_kernel, "linear", "rbf"])
def test_kernels_of_all_kinds(kernel, digits) -> None:
    X, y = digits[0] / 16, digits[1]
    gamma = 1 / (64 * X[:400].var())
    grams = {"linear": lambda A, B: A @ B.T, "rbf": lambda A, B: rbf_kernel(A, B, gamma)}
    gram = grams[kernel] if isinstance(kernel, str) else kernel
    ours = SVC(kernel, tol=1e-8).fit(X[:400], y[:400])
    given = SVC("precomputed", tol=1e-8).fit(gram(X[:400], X[:400]), y[:400])
    np.testing.assert_allclose(
        ours.decision_function(X[400:]), given.decision_function(gram(X[400:], X[:400])), atol=1e-5
    )


def test_points_need_not_be_numbers() -> None:
    words = ["banana", "bandana", "cabana", "kitten", "mitten", "smitten"]
    model = SVC(Spectrum(length=2), C=10).fit(words, [0, 0, 0, 1, 1, 1])
    assert model.predict(["ananas", "bitten"]).tolist() == [0, 1]


def test_scale_is_learnt_from_the_points(digits) -> None:
    model = SVC(Heat(Simplex()), scale=0.2).fit(*digits)
    K = model.kernel_(digits[0])
    assert np.median(K[np.triu_indices(len(K), 1)]) == pytest.approx(0.2, abs=0.02)
    assert model.kernel != model.kernel_
    with pytest.raises(ValueError, match=r"scale=0\.2 needs a kernel of mercer"):
        SVC(polynomial_kernel, scale=0.2).fit(*digits)
    with pytest.warns(UserWarning, match=r"has no range"):
        SVC(Linear(), scale=0.2).fit(*digits)
    with pytest.raises(ValueError, match=r"scale must be a number between 0 and 1, got 1\.5"):
        SVC(Heat(Simplex()), scale=1.5).fit(*digits)


def test_a_search_of_scikit_learn(digits) -> None:
    search = GridSearchCV(SVC(Gaussian()), {"C": [1, 10], "kernel__length_scale": [1.0, 20.0]}, cv=3)
    assert search.fit(*digits).best_params_["kernel__length_scale"] == 20.0
    K = rbf_kernel(digits[0], gamma=1e-3)
    given = GridSearchCV(SVC("precomputed"), {"C": [1, 10]}, cv=3).fit(K, digits[1])
    theirs = GridSearchCV(libsvm.SVC(kernel="precomputed"), {"C": [1, 10]}, cv=3).fit(K, digits[1])
    np.testing.assert_allclose(
        given.cv_results_["mean_test_score"], theirs.cv_results_["mean_test_score"]
    )


def test_too_few_steps_end_in_a_warning_with_the_gap(digits) -> None:
    with pytest.warns(ConvergenceWarning, match=r"relative duality gap of 0\.\d+, above tol=0\.001"):
        model = SVC(max_iter=20).fit(*digits)
    assert not model.converged_
    assert model.dual_gap_ > 1e-3
    assert model.n_iter_.max() == 20
    with pytest.warns(ConvergenceWarning, match="relative duality gap of 1, above"):
        SVC(max_iter=0).fit(*digits)


def test_an_indefinite_matrix_has_no_certificate(digits) -> None:
    X, y = digits[0][:200], digits[1][:200] % 2

    def kernel(A, B=None):
        return np.tanh(1e-3 * (A - 4) @ ((A if B is None else B) - 4).T - 0.5)

    K = kernel(X)
    assert np.linalg.eigvalsh(K)[0] < -1
    with pytest.warns(UserWarning, match="negative eigenvalues"):
        given = SVC("precomputed", tol=1e-6).fit(K, y)
    with pytest.warns(UserWarning, match="negative eigenvalues"):
        called = SVC(kernel, tol=1e-6).fit(X, y)
    assert np.isnan(given.dual_gap_)
    assert np.isnan(called.dual_gap_)
    np.testing.assert_array_equal(called.predict(X), given.predict(K))


@pytest.mark.parametrize(
    ("machine", "message"),
    [
        (SVC(C=0), "C must be a positive number"),
        (SVC(C=np.inf), "C must be a positive number"),
        (SVR(C=1e200), r"C must be a positive number, at most 1e\+150, got 1e\+200"),
        (SVC(tol=-1.0), "tol must be a positive number"),
        (SVC(max_iter=2.5), "max_iter must be a whole number"),
        (SVC("poly"), "kernel must be a kernel, a callable"),
        (SVC(decision_function_shape="both"), "must be 'ovr' or 'ovo'"),
        (SVR(epsilon=-1), "epsilon must be zero or a positive number"),
        (OneClassSVM(nu=0), "nu must be above 0"),
        (SVC("precomputed"), "must be square"),
        (SVC("precomputed", scale=0.5), "the matrix is precomputed"),
        (SVC(class_weight=dict.fromkeys(range(10), -1.0)), "class_weight of the class 0 must be"),
        (SVR(epsilon="wide"), "epsilon must be zero or a positive number"),
        (OneClassSVM(nu="few"), "nu must be above 0"),
        (SVC(lambda A, B: np.ones(3)), r"600 points returned an array of shape \(3,\)"),
    ],
)
def test_parameters_that_make_no_sense(machine, message, digits) -> None:
    with pytest.raises(ValueError, match=message):
        machine.fit(digits[0], digits[1])


def test_a_matrix_with_nan_is_refused() -> None:
    def kernel(A, B=None):
        K = rbf_kernel(A, B)
        K[3] = np.nan
        return K

    with pytest.raises(ValueError, match="row 3 of the Gram matrix"):
        SVC(kernel).fit(np.arange(10.0)[:, None], np.arange(10) % 2)


@pytest.mark.parametrize("machine", [SVC, SVR, OneClassSVM, KernelRidge])
def test_matrices_that_are_refused(machine) -> None:
    K, y = rbf_kernel(np.arange(30.0)[:, None]), np.arange(30) % 2
    wrong = K.copy()
    wrong[3, 20] = 7
    with pytest.raises(ValueError, match=r"entries \(3, 20\) and \(20, 3\) are 7 and"):
        machine("precomputed").fit(wrong, y)
    with pytest.raises(ValueError, match=r"row 0 .* a number above 1e\+150"):
        machine("precomputed").fit(1e200 * K, y)
    with pytest.raises(ValueError, match="X holds no points"):
        machine(Spectrum(length=2)).fit([], [])
    with pytest.raises(ValueError, match="expected"):
        machine().fit(K, y, sample_weight=np.ones(29))


@pytest.mark.parametrize("machine", [SVR, KernelRidge])
def test_targets_of_strings_are_checked_too(machine) -> None:
    words = ["banana", "bandana", "kitten"]
    with pytest.raises(ValueError, match="row 1 of y has no value"):
        machine(Spectrum(length=2)).fit(words, [1.0, np.nan, 2.0])
    with pytest.raises(ValueError, match="row 1 of y is infinite"):
        machine(Spectrum(length=2)).fit(words, [1.0, np.inf, 2.0])
    for wrong in ([1.0, 2.0], 3.0):
        with pytest.raises(ValueError, match="X has 3 points, but y has shape"):
            machine(Spectrum(length=2)).fit(words, wrong)


@pytest.mark.parametrize("size", [1e-140, 1e-35, 1e35, 1e140])
def test_no_size_of_the_kernel_is_too_large_or_small(size, digits) -> None:
    """The machine of K and C is that of cK and C / c."""
    X, y = digits[0][:200], digits[1][:200] % 2
    K = rbf_kernel(X, gamma=1e-3)
    for machine in (SVC("precomputed"), SVR("precomputed", epsilon=0.0), OneClassSVM("precomputed")):
        usual = clone(machine).fit(K, y).predict(K)
        if hasattr(machine, "C"):
            machine.set_params(C=1 / size)
        resized = machine.fit(size * K, y)
        assert resized.converged_
        assert resized.dual_gap_ <= 1e-3
        assert np.mean(np.abs(resized.predict(size * K) - usual)) < 0.02


def test_kernels_that_are_functions_take_two_arguments(digits) -> None:
    X, y = digits[0][:100], digits[1][:100]
    expected = SVC("linear").fit(X, y).predict(X)
    np.testing.assert_array_equal(SVC(lambda A, B: A @ B.T).fit(X, y).predict(X), expected)


def test_a_matrix_that_rounding_made_indefinite_comes_to_an_end() -> None:
    """Rank 3 in single precision: along negative eigenvalues the objective rises without end."""
    X = np.random.default_rng(0).normal(size=(60, 3)).astype(np.float32)
    with pytest.warns(ConvergenceWarning):
        OneClassSVM("precomputed").fit(X @ X.T)


def test_weights_must_leave_two_classes(digits) -> None:
    X, y = digits
    with pytest.raises(ValueError, match="of one class"):
        SVC().fit(X, y, sample_weight=y == 3)
    with pytest.raises(ValueError, match=r"none has one|non-zero"):
        SVC().fit(X, y, sample_weight=np.zeros(len(y)))


@pytest.mark.parametrize("machine", [SVC(), SVR(), OneClassSVM(), KernelRidge()], ids=repr)
def test_negative_weights_are_refused(machine, digits) -> None:
    weights = np.ones(len(digits[1]))
    weights[7] = -1
    with pytest.raises(ValueError, match=r"must be between 0 and 1e\+150, but row 7 has weight -1"):
        machine.fit(*digits, sample_weight=weights)


def test_probabilities_are_as_good_as_libsvms() -> None:
    X, y = make_classification(1200, n_informative=6, n_classes=3, flip_y=0.15, random_state=0)
    ours = SVC(probability=True).fit(X[:600], y[:600])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        theirs = libsvm.SVC(probability=True, random_state=0).fit(X[:600], y[:600])
    P, Q = ours.predict_proba(X[600:]), theirs.predict_proba(X[600:])
    np.testing.assert_allclose(P.sum(axis=1), 1)
    np.testing.assert_array_equal(np.log(P), ours.predict_log_proba(X[600:]))
    assert log_loss(y[600:], P) < log_loss(y[600:], Q) + 0.02
    assert not hasattr(SVC(), "predict_proba")


def test_probabilities_do_not_depend_on_the_unit_of_weights() -> None:
    """Small weights say nothing about the number of rows, by which labels are smoothed."""
    X = np.random.default_rng(0).normal(size=(200, 3))
    y = X[:, 0] + 0.5 * np.random.default_rng(1).normal(size=200) > 0
    weights = np.random.default_rng(2).integers(1, 3, size=200).astype(float)
    found = [
        SVC(Gaussian(2.0), C=C, tol=1e-9, probability=True).fit(X, y, unit * weights).predict_proba(X)
        for C, unit in ((1.0, 1.0 / weights.mean()), (300.0, 1 / (300 * weights.mean())))
    ]
    np.testing.assert_allclose(found[1], found[0], atol=1e-6)
    assert np.ptp(found[0]) > 0.9


def test_probabilities_are_those_of_the_data_whatever_the_class_weights() -> None:
    X, y = make_classification(1000, n_informative=6, weights=[0.85], flip_y=0.1, random_state=0)
    model = SVC(probability=True, class_weight="balanced").fit(X, y)
    assert model.predict_proba(X)[:, 1].mean() == pytest.approx(y.mean(), abs=0.03)
    counted = SVC(probability=True).fit(X, y, sample_weight=model.class_weight_[y])
    assert counted.predict_proba(X)[:, 1].mean() > 1.5 * y.mean()


def test_one_class_against_the_rest() -> None:
    X, y = make_classification(200, n_informative=6, n_classes=3, random_state=0)
    ours = OneVsRestClassifier(SVC(Gaussian(3.0), tol=1e-8)).fit(X, y)
    theirs = OneVsRestClassifier(libsvm.SVC(gamma=1 / 18, tol=1e-8)).fit(X, y)
    np.testing.assert_allclose(ours.decision_function(X), theirs.decision_function(X), atol=1e-3)
    assert all(machine.dual_gap_ <= 1e-8 for machine in ours.estimators_)


CALIBRATED = [
    SVC(tol=1e-10, probability=True),
    *(
        LandmarkClassifier(alpha=0.5, loss=loss, tol=1e-8, random_state=0)
        for loss in ("squared", "logistic", "squared_hinge", "hinge")
    ),
]


@pytest.mark.parametrize("balance", [None, "balanced", {1: 0.3}], ids=str)
@pytest.mark.parametrize("machine", CALIBRATED, ids=repr)
def test_calibration_takes_a_row_of_weight_two_as_two_equal_rows(machine, balance) -> None:
    X, y = make_classification(100, n_informative=6, flip_y=0.1, random_state=0)
    repeats = np.random.default_rng(0).integers(0, 4, size=100)
    order = np.random.default_rng(1).permutation(repeats.sum())
    machine = clone(machine).set_params(class_weight=balance, kernel=Gaussian(3.0))
    weighted = clone(machine).fit(X, y, sample_weight=repeats)
    repeated = machine.fit(X.repeat(repeats, axis=0)[order], y.repeat(repeats)[order])
    np.testing.assert_allclose(weighted.predict_proba(X), repeated.predict_proba(X), atol=1e-4)


@pytest.mark.parametrize("machine", CALIBRATED, ids=repr)
def test_weights_that_are_not_whole_are_no_counts_of_rows(machine) -> None:
    """Multiplied by any factor they tell the same, and probabilities do not grow more certain."""
    X, y = make_classification(200, n_informative=6, flip_y=0.2, random_state=0)
    machine, factor = clone(machine).set_params(kernel=Gaussian(1.5)), 1000.5
    expected = clone(machine).fit(X, y).predict_proba(X)
    strength = "C" if hasattr(machine, "C") else "alpha"
    weaker = {strength: machine.get_params()[strength] * (1 / factor if strength == "C" else factor)}
    found = machine.set_params(**weaker).fit(X, y, np.full(200, factor)).predict_proba(X)
    np.testing.assert_allclose(found, expected, atol=0.01)  # the labels are smoothed by one row


@pytest.mark.parametrize("machine", CALIBRATED, ids=repr)
def test_probabilities_of_few_distinct_points_are_their_shares(machine) -> None:
    """Were equal rows held out together, none would be left to predict them from."""
    rng = np.random.default_rng(0)
    X = rng.integers(0, 2, size=(600, 2)).astype(float)
    y = (rng.random(600) < 0.9) == (X[:, 0] != X[:, 1])
    model = clone(machine).set_params(kernel=Gaussian()).fit(X, y)
    p = model.predict_proba([[0, 0], [0, 1], [1, 0], [1, 1]])[:, 1]
    atol = 0.11 if getattr(model, "loss", None) == "logistic" else 0.06  # its own model is shrunk
    np.testing.assert_allclose(p, [0.1, 0.9, 0.9, 0.1], atol=atol)


@pytest.mark.parametrize(
    "machine", [SVC("precomputed"), SVR("precomputed", epsilon=0.05)], ids=["SVC", "SVR"]
)
def test_a_warm_start_saves_steps_and_changes_nothing(machine, digits) -> None:
    X, y = digits[0], digits[1] % 2
    K = rbf_kernel(X, gamma=1e-3)
    warm = clone(machine).set_params(warm_start=True, tol=1e-6)
    cold = clone(machine).set_params(tol=1e-6)
    steps = {"warm": 0, "cold": 0}
    for C in (0.1, 1.0, 10.0, 100.0, 1000.0, 3.0):
        warm.set_params(C=C).fit(K, y)
        cold.set_params(C=C).fit(K, y)
        assert warm.converged_
        assert warm.objective_ == pytest.approx(cold.objective_, rel=2e-6)
        assert abs(warm.dual_coef_.sum()) < 1e-9
        steps["warm"] += int(np.sum(warm.n_iter_))
        steps["cold"] += int(np.sum(cold.n_iter_))
    assert steps["warm"] < 0.7 * steps["cold"]
    warm.fit(K[:300, :300], y[:300])  # other rows: as if nothing had been before


def test_a_kernel_search_takes_these_machines(digits) -> None:
    grid = {"C": [1.0, 10.0]}
    ours = KernelSearchCV(Gaussian(), SVC(), similarities=[0.1, 0.5], param_grid=grid, cv=3).fit(*digits)
    theirs = KernelSearchCV(Gaussian(), similarities=[0.1, 0.5], param_grid=grid, cv=3).fit(*digits)
    assert ours.best_params_ == theirs.best_params_
    np.testing.assert_allclose(
        ours.cv_results_["mean_test_score"], theirs.cv_results_["mean_test_score"], atol=0.005
    )


def test_a_class_of_one_row_is_named_and_has_its_share() -> None:
    X = np.random.default_rng(0).normal(size=(12, 2))
    X[0] = 5.0
    y = ["rare"] + ["usual"] * 11
    with pytest.warns(UserWarning, match="class 'rare' are little more than its share"):
        model = SVC(Gaussian(), probability=True).fit(X, y)
    # Platt's smoothed shares: one row more of each class.
    np.testing.assert_allclose(model.predict_proba(X), np.tile([2 / 14, 12 / 14], (12, 1)), rtol=1e-12)
    assert model.predict(X[:1]) == "rare"
    three = np.array(["rare"] + ["left"] * 5 + ["right"] * 6)
    with pytest.warns(UserWarning, match="class 'rare'") as told:
        SVC(Gaussian(), probability=True).fit(X, three)
    assert len(told) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        SVC(Gaussian(), probability=True).fit(X, three, sample_weight=three != "rare")
        SVC(Gaussian(), probability=True).fit(X, y, sample_weight=np.where(three == "rare", 3, 1))


@pytest.mark.parametrize("machine", [SVC, LandmarkClassifier])
def test_labels_of_several_types_are_refused_and_do_not_become_text(machine) -> None:
    for kernel, X in ((Spectrum(2), ["ACGT", "GGGA"]), (Gaussian(), [[0.0], [1.0]])):
        for labels, types in (([1, "a"], "int and str"), (["a", 2.5], "float and str")):
            with pytest.raises(ValueError, match=f"of one type, but y holds {types}; convert all"):
                machine(kernel).fit(X, labels)
            with pytest.raises(ValueError, match=r"of one type|of several kinds"):
                machine(kernel).fit(X, np.array(labels, dtype=object))


@pytest.mark.parametrize("machine", [SVC, LandmarkClassifier])
@pytest.mark.parametrize(
    "labels",
    [
        ["a", None, "b", None],
        np.array(["a", None, "b", np.nan], dtype=object),
        pd.Series(["a", np.nan, "b", None]),
        pd.Series([0.0, np.nan, 1.0, np.nan]),
        pd.Series([0, None, 1, None], dtype="Int64"),
        pd.Series(["a", None, "b", None], dtype="category"),
    ],
    ids=["list", "objects", "text", "numbers", "Int64", "category"],
)
def test_rows_without_a_label_are_named(machine, labels) -> None:
    with pytest.raises(ValueError, match=r"row 1 of y \(and 1 more\) has no value; drop such rows"):
        machine(Gaussian()).fit(np.eye(4), labels)


@pytest.mark.parametrize("machine", [SVC, LandmarkClassifier])
def test_misspelt_classes_in_class_weight_are_named(machine) -> None:
    X, y = np.eye(4), ["ham", "spam", "ham", "spam"]
    with pytest.raises(ValueError, match=r"class_weight names 'Spam', .*: 'ham', 'spam'"):
        machine(Gaussian(), class_weight={"ham": 1, "Spam": 2}).fit(X, y)
    # A class may be missing from a part of the rows.
    machine(Gaussian(), class_weight={"ham": 1, "spam": 2, "news": 3}).fit(X, y)


@pytest.mark.parametrize("machine", [SVC, LandmarkClassifier])
@pytest.mark.parametrize("factor", [np.nan, np.inf, -1.0, "2", None, [1.0]], ids=str)
def test_weights_of_classes_that_make_no_sense(machine, factor) -> None:
    X, y = np.eye(4), ["ham", "spam", "ham", "spam"]
    with pytest.raises(ValueError, match=r"class_weight of the class 'spam' must be .*number, got "):
        machine(Gaussian(), class_weight={"spam": factor}).fit(X, y)
    for wrong in ("balansed", 2.0, [1.0, 2.0]):
        with pytest.raises(ValueError, match="class_weight must be 'balanced', None or a dict"):
            machine(Gaussian(), class_weight=wrong).fit(X, y)


@pytest.mark.parametrize("machine", [SVR, KernelRidge])
@pytest.mark.parametrize("y", [["a", "b", "c"], np.arange(3).astype("M8[D]")], ids=["text", "dates"])
def test_targets_that_are_no_numbers(machine, y) -> None:
    with pytest.raises(ValueError, match="y must hold numbers: "):
        machine(Gaussian()).fit(np.eye(3), y)


@pytest.mark.parametrize("machine", [SVC, SVR, KernelRidge])
def test_rows_with_an_infinite_target_are_named(machine) -> None:
    with pytest.raises(ValueError, match="row 1 of y is infinite"):
        machine(Gaussian()).fit(np.eye(3), [1.0, np.inf, 2.0])


@pytest.mark.parametrize("machine", [SVR, KernelRidge])
@pytest.mark.parametrize("y", [pd.Series([1, None, 2], dtype="Int64"), [1.0, np.nan, 2.0]], ids=type)
def test_rows_without_a_target_are_named(machine, y) -> None:
    with pytest.raises(ValueError, match="row 1 of y has no value"):
        machine(Gaussian()).fit(np.eye(3), y)


@pytest.mark.parametrize("kind", ["string", "category", "Int64"])
def test_missing_labels_of_pandas_arrays_are_named(kind: str) -> None:
    labels = pd.array([*([1, 2] * 5), None] if kind == "Int64" else [*("ab" * 5), None], dtype=kind)
    with pytest.raises(ValueError, match="row 10 of y has no value"):
        SVC(Gaussian()).fit(np.random.default_rng(0).normal(size=(11, 2)), labels)


@pytest.mark.parametrize("machine", [SVC, SVR, OneClassSVM])
def test_certificates_in_words(machine) -> None:
    X = np.random.default_rng(0).normal(size=(40, 2))
    model = machine(Gaussian(), tol=1e-2, max_iter=-1).fit(X, X[:, 0] > 0)
    stated = re.fullmatch(r"the objective is within (\S+) % of the optimum", model.certificate_)
    assert model.dual_gap_ <= float(stated[1]) / 100 <= 1e-2
    assert not hasattr(machine(), "certificate_")
    K = X[:, :1] @ X[:, 1:].T
    with pytest.warns(IndefiniteKernelWarning):
        model = machine("precomputed").fit(K + K.T, X[:, 0] > 0)
    assert model.certificate_ == "none: the Gram matrix has negative eigenvalues"
