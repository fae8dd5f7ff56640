"""KernelSearchCV against scikit-learn's own search, and what it promises beside."""

import pickle
import re
import tracemalloc
import warnings

import networkx as nx
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from joblib import parallel_config
from scipy import sparse
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.calibration import CalibratedClassifierCV
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process.kernels import RBF, WhiteKernel
from sklearn.kernel_ridge import KernelRidge
from sklearn.metrics import make_scorer
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    RepeatedStratifiedKFold,
    StratifiedKFold,
    cross_val_score,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR, NuSVC
from sklearn.utils.estimator_checks import check_estimator

from mercer.kernels import (
    ArcCosine,
    Cosine,
    Gaussian,
    Heat,
    Linear,
    Matern,
    MeanEmbedding,
    Parametrix,
    Polynomial,
    PosteriorHeat,
    Spectrum,
)
from mercer.rkhs import total_variance
from mercer.selection import KernelSearchCV
from mercer.selection.gram_cache import Grams, fit_bytes, plan
from mercer.spaces import Graph, Simplex, Sphere
from tests.helpers.words import COUNTS, HEATS, LABELS, TARGET, hits

RNG = np.random.default_rng(0)


@pytest.mark.parametrize(
    "search",
    [
        KernelSearchCV(Gaussian(), param_grid={"C": [1.0]}, cv=3, n_jobs=1),
        KernelSearchCV(Gaussian(), KernelRidge(), param_grid={"alpha": [0.1]}, cv=3, n_jobs=1),
    ],
    ids=["classifier", "regressor"],
)
def test_scikit_learn_checks(search) -> None:
    # With all its default kernels and grids it passes too, but that takes minutes.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check_estimator(search, on_skip=None)


def test_defaults_on_small_data() -> None:
    X = RNG.normal(size=(12, 3))
    for estimator in ("classifier", "regressor", KernelRidge()):
        search = KernelSearchCV(estimator=estimator, cv=2, n_jobs=1).fit(X, np.arange(12) % 2)
        assert search.predict(X).shape == (12,)
    assert is_classifier(KernelSearchCV())
    assert is_regressor(KernelSearchCV(estimator=SVR()))
    assert not is_classifier(KernelSearchCV(estimator=SVR()))


SAME = [
    (Heat(Simplex()), {"kernel__t_star": [0.2, 0.5, 1.0], "C": [0.5, 5.0, 50.0]}),
    (Parametrix(Simplex(), t=0.1), {"kernel__t": [0.05, 0.2], "C": [0.5, 5.0]}),
    (Polynomial(), [{"kernel__degree": [2], "C": [0.01, 0.1]}, {"kernel__coef0": [2.0, 3.0]}]),
]


@pytest.mark.parametrize(("kernel", "grid"), SAME, ids=lambda value: type(value).__name__)
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix], ids=["dense", "sparse"])
def test_same_as_grid_search(kernel, grid, form) -> None:
    X = form(COUNTS)
    ours = KernelSearchCV(kernel, param_grid=grid, cv=4).fit(X, LABELS)
    theirs = GridSearchCV(SVC(kernel=kernel), grid, cv=4).fit(X, LABELS)
    _assert_same(ours, theirs)
    assert ours.best_index_ == theirs.best_index_
    for name, value in theirs.best_params_.items():
        found = ours.best_kernel_.get_params() if name.startswith("kernel__") else ours.best_params_
        assert found[name.removeprefix("kernel__")] == value
    np.testing.assert_array_equal(ours.predict(X), theirs.predict(X))
    # Both are near the optimum, libsvm by its own rule.
    np.testing.assert_allclose(ours.decision_function(X), theirs.decision_function(X), atol=0.02)
    assert ours.score(X, LABELS) == theirs.score(X, LABELS)
    libsvm = KernelSearchCV(kernel, solver="libsvm", param_grid=grid, cv=4).fit(X, LABELS)
    _assert_same(libsvm, theirs)
    np.testing.assert_allclose(libsvm.decision_function(X), theirs.decision_function(X), atol=1e-8)


def _assert_same(ours, theirs) -> None:
    for key in theirs.cv_results_:
        if "test" in key:
            np.testing.assert_allclose(ours.cv_results_[key], theirs.cv_results_[key], rtol=1e-12)
    assert ours.best_score_ == pytest.approx(theirs.best_score_, rel=1e-12)
    assert ours.n_splits_ == theirs.n_splits_


def test_same_as_grid_search_over_kernels() -> None:
    kernels = [*HEATS, Gaussian(3.0), Linear(), 2.0 * HEATS[0] + Gaussian(2.0) ** 2, RBF(2.0)]
    C = [0.1, 1.0, 10.0]
    splitter = RepeatedStratifiedKFold(n_splits=3, n_repeats=2, random_state=1)
    ours = KernelSearchCV(kernels, param_grid={"C": C}, cv=splitter).fit(COUNTS, LABELS)
    # With its default tol libsvm is off the optimum by enough to move a row.
    exact = SVC(tol=1e-8)
    theirs = GridSearchCV(exact, {"C": C, "kernel": kernels}, cv=splitter).fit(COUNTS, LABELS)
    _assert_same(ours, theirs)
    assert ours.best_kernel_ == theirs.best_params_["kernel"]
    assert ours.cv_results_["param_kernel"][0] == HEATS[0]
    assert ours.cv_results_["param_kernel__t_star"][:3].tolist() == [0.2, 0.5, 1.0]
    assert ours.cv_results_["param_kernel__t_star"].mask[3]
    assert ours.cv_results_["family"][:4] == ["Heat"] * 3 + ["Gaussian"]


@pytest.mark.parametrize("target", [TARGET, np.stack([TARGET, -TARGET], axis=1)], ids=["1", "2"])
def test_ridge_same_as_grid_search(target) -> None:
    alpha = [0.01, 1.0]
    ours = KernelSearchCV(HEATS, KernelRidge(), param_grid={"alpha": alpha}).fit(COUNTS, target)
    theirs = GridSearchCV(KernelRidge(), {"alpha": alpha, "kernel": HEATS}).fit(COUNTS, target)
    for key in theirs.cv_results_:
        if "test" in key:
            np.testing.assert_allclose(ours.cv_results_[key], theirs.cv_results_[key], rtol=1e-9)
    np.testing.assert_allclose(ours.predict(COUNTS), theirs.predict(COUNTS), rtol=1e-9)


def test_several_metrics() -> None:
    grid = {"C": [0.1, 10.0]}
    scoring = {"right": "balanced_accuracy", "loss": "neg_log_loss", "own": make_scorer(hits)}
    machine = CalibratedClassifierCV(SVC(), ensemble=False, cv=3)
    ours = KernelSearchCV(
        HEATS[:2], machine, param_grid={"estimator__C": grid["C"]}, scoring=scoring, refit="loss", cv=3
    ).fit(COUNTS, LABELS)
    plain = CalibratedClassifierCV(SVC(kernel=HEATS[0]), ensemble=False, cv=3)
    theirs = GridSearchCV(plain, {"estimator__C": grid["C"]}, scoring=scoring, refit="loss", cv=3)
    theirs.fit(COUNTS, LABELS)
    for name in scoring:
        got = ours.cv_results_[f"mean_test_{name}"][::2]
        np.testing.assert_allclose(got, theirs.cv_results_[f"mean_test_{name}"], rtol=1e-6)
    assert ours.predict_proba(COUNTS).shape == (90, 3)
    assert ours.score(COUNTS, LABELS) < 0
    assert not hasattr(KernelSearchCV(HEATS), "predict_proba")
    with pytest.raises(ValueError, match="refit must name one of 'right', 'loss', 'own'"):
        clone(ours).set_params(refit=True).fit(COUNTS, LABELS)
    names = clone(ours).set_params(refit=False).fit(COUNTS, LABELS)
    assert not hasattr(names, "best_index_")
    with pytest.raises(AttributeError, match="refit=False"):
        names.predict(COUNTS)


KERNELS = [
    *HEATS,
    Cosine(Sphere()),
    Matern(Sphere()),
    Matern(Simplex(), nu=1.5),
    Parametrix(Simplex(), t=0.1, order=1),
    Gaussian(2.0),
    Linear(),
    Polynomial(3, 0.5),
    ArcCosine(1),
    ArcCosine(2, depth=2),
    PosteriorHeat(t_star=1.0),
    2.0 * HEATS[0] + Gaussian(1.5) * Linear(),
    (HEATS[1] + 0.5) ** 3,
    RBF(1.5) + WhiteKernel(0.3),
]


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix, np.float32], ids=["a", "csr", "f4"])
@pytest.mark.parametrize("kept", [0, 1, 3])
def test_shared_gram_matrices_are_those_of_the_kernels(kept: int, form) -> None:
    X = form(COUNTS)
    grams = Grams(X, kept=kept)
    for kernel in KERNELS:
        if sparse.issparse(X) and isinstance(kernel, type(KERNELS[-1])):
            continue  # scikit-learn's kernels take no sparse rows
        K, expected = grams(kernel), kernel(X)
        # In single precision errors are relative to the largest value.
        rtol, atol = (1e-6, 1e-7 * np.abs(expected).max()) if form is np.float32 else (1e-13, 1e-15)
        np.testing.assert_allclose(K, expected, rtol=rtol, atol=atol)
        np.testing.assert_array_equal(K, K.T)


def test_gram_matrices_in_single_precision() -> None:
    grams = Grams(COUNTS, dtype=np.float32)
    for kernel in KERNELS:
        K = grams(kernel)
        assert K.dtype == np.float32
        np.testing.assert_allclose(K, kernel(COUNTS), rtol=1e-6)


@pytest.mark.filterwarnings("ignore:overflow")
def test_values_that_are_not_finite_are_refused() -> None:
    with pytest.raises(ValueError, match=r"powers of degree 900 overflow in float(32|64); take a lower"):
        KernelSearchCV(Polynomial(degree=900), param_grid={"C": [1.0]}).fit(COUNTS + 10, LABELS)


@settings(max_examples=8, deadline=None)
@given(
    rows=st.integers(12, 30),
    folds=st.integers(2, 4),
    scale=st.floats(-6, 6),
    threads=st.integers(1, 3),
    seed=st.integers(0, 2**32 - 1),
)
def test_any_table(rows: int, folds: int, scale: float, threads: int, seed: int) -> None:
    """Same as scikit-learn's search, whatever the rows and the threads; duplicates too."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, 3)) * 10.0**scale
    X[-3:] = X[0]
    y = np.arange(rows) % 2
    kernels = [Gaussian(10.0**scale), Heat(Sphere(), t=0.3)]
    ours = KernelSearchCV(kernels, param_grid={"C": [1.0, 9.0]}, cv=folds, n_jobs=threads).fit(X, y)
    theirs = GridSearchCV(SVC(), {"C": [1.0, 9.0], "kernel": kernels}, cv=folds).fit(X, y)
    _assert_same(ours, theirs)
    assert ours.best_index_ == theirs.best_index_


def test_threads_and_memory_do_not_matter() -> None:
    kernels, grid = [*HEATS, Gaussian(3.0), Linear(), HEATS[0] + Linear()], {"C": [0.1, 1.0]}
    base = KernelSearchCV(kernels, param_grid=grid, n_jobs=1).fit(COUNTS, LABELS)
    for options in ({"n_jobs": 2}, {"n_jobs": None}, {"max_memory": 4e-4}):
        other = KernelSearchCV(kernels, param_grid=grid, **options).fit(COUNTS, LABELS)
        np.testing.assert_array_equal(
            other.cv_results_["mean_test_score"], base.cv_results_["mean_test_score"]
        )
    single = KernelSearchCV(kernels, param_grid=grid, max_memory=1.9e-4).fit(COUNTS, LABELS)
    np.testing.assert_allclose(
        single.cv_results_["mean_test_score"], base.cv_results_["mean_test_score"], atol=0.03
    )
    assert set(base.timings_) == {"products", "laws", "slices", "fits", "scores"}
    assert base.timings_["fits"] > 0


def test_memory_plan() -> None:
    layout = {"kernels": 9, "shared": True, "combined": False, "threads": 2}
    part = fit_bytes(SVC(), 800, 200)
    assert part == 8 * 800 * 1000 + 4 * 800**2 == 8.96e6
    assert fit_bytes(KernelRidge(), 800, 200) == 8 * 800 * 1000 + 16 * 800**2
    assert fit_bytes(SVC(cache_size=1), 800, 200) == 8 * 800 * 1000 + 2**20
    wide = plan(1000, part, max_memory=1e9, **layout)
    assert (wide.dtype, wide.invariants, wide.batch, wide.threads) == (np.float64, 1, 9, 2)
    some = plan(1000, part, max_memory=17.92e6 + 8e6 + 3 * 8e6, **layout)
    assert (some.invariants, some.batch) == (1, 3)
    tight = plan(1000, part, max_memory=17.92e6 + 8e6, **layout)
    assert (tight.dtype, tight.invariants, tight.batch) == (np.float64, 0, 1)
    single = plan(1000, part, max_memory=17.92e6 + 4e6, **layout)
    assert (single.dtype, single.batch, single.threads) == (np.float32, 1, 2)
    one = plan(1000, part, max_memory=8.96e6 + 4e6, **layout)
    assert (one.dtype, one.threads) == (np.float32, 1)
    with pytest.raises(
        ValueError,
        match=r"1000 points needs at least 13 MB, .* allows 12\.9 MB.*represen",
    ):
        plan(1000, part, max_memory=8.96e6 + 3.9e6, **layout)
    # 20000 rows in five folds, as in the documentation of the memory bound
    large = plan(20_000, fit_bytes(SVC(), 16_000, 4_000), max_memory=8e9, **layout)
    assert large.threads == 2
    with pytest.raises(ValueError, match="max_memory must be a positive number"):
        KernelSearchCV(HEATS, max_memory=0).fit(COUNTS, LABELS)
    with pytest.raises(ValueError, match="max_memory must be a positive number of gigabytes"):
        KernelSearchCV(HEATS, max_memory=4e9).fit(COUNTS, LABELS)


@pytest.mark.parametrize("max_memory", [1.0, 0.06, 0.032, 0.022])
def test_memory_is_not_exceeded(max_memory: float) -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(1000, 5)), np.arange(1000) % 2
    X[:, 0] += y
    kernels = [Gaussian(s) for s in (1.0, 2.0, 3.0)] + [Cosine(Sphere())]
    search = KernelSearchCV(
        kernels, SVC(max_iter=100), param_grid={"C": [0.1]}, max_memory=max_memory, n_jobs=2, refit=False
    )
    tracemalloc.start()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        search.fit(X, y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert search.best_score_ > 0.6
    assert peak < 1e9 * max_memory


def test_scores_that_are_no_numbers_are_refused() -> None:
    search = KernelSearchCV(HEATS, param_grid={"C": [1.0]}, scoring=make_scorer(lambda *_: np.nan))
    with pytest.raises(ValueError, match="the score is not a number; use other folds") as caught:
        search.fit(COUNTS, LABELS)
    assert re.match(r"in fold \d with Heat", caught.value.__notes__[0])  # whichever thread is first


def test_prediction_in_blocks() -> None:
    search = KernelSearchCV(HEATS, param_grid={"C": [1.0]}).fit(COUNTS, LABELS)
    whole = search.decision_function(COUNTS)
    search.max_memory = 16e-9 * 90 * 7.1  # seven rows at a time
    np.testing.assert_allclose(search.decision_function(COUNTS), whole, rtol=1e-12)
    np.testing.assert_array_equal(search.predict(COUNTS), search.classes_[whole.argmax(axis=1)])


def test_default_grids_suit_kernel_and_target() -> None:
    search = KernelSearchCV({"flat": Linear(), "heat": HEATS}, cv=3).fit(COUNTS, LABELS)
    grid = np.array([0.1, 1, 10, 100, 1000])
    for kernel in (Linear(), *HEATS):
        C = sorted({p["C"] for p in search.cv_results_["params"] if p["kernel"] == kernel})
        found = [c for c in C if any(np.isclose(c * total_variance(kernel(COUNTS)), grid, rtol=0.01))]
        np.testing.assert_allclose(found, grid / total_variance(kernel(COUNTS)), rtol=0.01)
    assert search.best_family_ in ("flat", "heat")
    ridge = KernelSearchCV(HEATS[:1], KernelRidge()).fit(COUNTS, TARGET)
    alphas = {p["alpha"] for p in ridge.cv_results_["params"]}
    expected = total_variance(HEATS[0](COUNTS)) * np.array([1e-4, 1e-3, 1e-2, 1e-1, 1.0])
    assert all(np.isclose(a, list(alphas), rtol=0.01).any() for a in expected)
    machine = KernelSearchCV(HEATS[:1], SVR()).fit(COUNTS, 1000 * TARGET)
    unit = 1000 * TARGET.std() / total_variance(HEATS[0](COUNTS))
    C = {p["C"] / unit for p in machine.cv_results_["params"]}
    assert all(np.isclose(c, list(C), rtol=0.01).any() for c in grid)
    assert machine.best_score_ > 0.5
    assert len(KernelSearchCV(HEATS, NuSVC(nu=0.2)).fit(COUNTS, LABELS).cv_results_["params"]) == 3


def test_default_kernels_follow_the_data() -> None:
    counts = KernelSearchCV(cv=2, param_grid={"C": [1.0]}).fit(COUNTS, LABELS)
    assert "exact heat" in counts.cv_results_["family"]
    assert counts.kernels_[-1].space == Simplex()
    signed = KernelSearchCV(cv=2, param_grid={"C": [1.0]}).fit(COUNTS - 1.5, LABELS)
    assert signed.kernels_[-1].space == Sphere()
    empty = COUNTS.copy()
    empty[4] = 0
    with pytest.warns(UserWarning, match="left out: row 4 of X is all zeros"):
        flat = KernelSearchCV(cv=2, param_grid={"C": [1.0]}).fit(empty, LABELS)
    assert set(flat.cv_results_["family"]) == {"linear", "Gaussian", "standardised Gaussian"}


def test_strings_nodes_and_clouds() -> None:
    rng = np.random.default_rng(2)
    strings = ["".join(rng.choice(list("acgt"), p=p, size=20)) for p in ([0.4, 0.4, 0.1, 0.1],) * 20]
    strings += ["".join(rng.choice(list("acgt"), p=p, size=20)) for p in ([0.1, 0.1, 0.4, 0.4],) * 20]
    y = np.repeat([0, 1], 20)
    clouds = [rng.normal(size=(rng.integers(3, 6), 2)) + 2 * label for label in y]
    graph = Graph(nx.stochastic_block_model([20, 20], [[0.5, 0.05], [0.05, 0.5]], seed=0))
    cases = [
        (strings, [Spectrum(1), Spectrum(3)], strings[:3]),
        (pd.Series(strings), [Spectrum(2)], strings[:3]),
        (clouds, [MeanEmbedding(Gaussian(s)) for s in (1.0, 3.0)], clouds[:3]),
        (list(range(40)), [Heat(graph, t=t) for t in (0.1, 1.0)], [0, 1, 2]),
    ]
    for X, kernels, new in cases:
        search = KernelSearchCV(kernels, param_grid={"C": [1.0, 10.0]}, cv=StratifiedKFold(4)).fit(X, y)
        assert search.best_score_ > 0.8
        assert search.predict(new).tolist() == [0, 0, 0]
        expected = SVC(kernel="precomputed", C=search.best_params_["C"])
        expected.fit(search.best_kernel_(X), y)
        np.testing.assert_array_equal(search.predict(X), expected.predict(search.best_kernel_(X)))
        search.max_memory = 16e-9 * 40 * 3.1
        np.testing.assert_array_equal(search.predict(X), expected.predict(search.best_kernel_(X)))
        nested = search.set_params(max_memory=1.0).nested_scores(X, y, outer_cv=2)
        assert nested.mean > 0.7
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        default = KernelSearchCV(cv=2, param_grid={"C": [1.0]}).fit(["a", "ab", *strings[2:]], y)
    assert default.best_score_ > 0.8


def test_frames_names_pipelines_pickles() -> None:
    frame = pd.DataFrame(COUNTS, columns=[f"word{i}" for i in range(12)])
    search = KernelSearchCV(HEATS, param_grid={"C": [1.0, 10.0]}, cv=3)
    fitted = clone(search).fit(frame, pd.Series(LABELS))
    assert fitted.feature_names_in_.tolist() == list(frame.columns)
    assert fitted.n_features_in_ == 12
    assert fitted.classes_.tolist() == ["ham", "news", "spam"]
    again = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(again.predict(frame), fitted.predict(frame))
    with pytest.raises(ValueError, match="feature names"):
        fitted.predict(frame.rename(columns={"word0": "other"}))
    plain = clone(search).fit(COUNTS, LABELS)
    with pytest.raises(ValueError, match="expecting 12 features"):
        plain.predict(COUNTS[:, :5])
    with pytest.raises(ValueError, match=r"row 1 of X .*NaN"):
        plain.predict(np.where(np.arange(90)[:, None] == 1, np.nan, COUNTS))
    pipe = make_pipeline(StandardScaler(), KernelSearchCV(Gaussian(3.0), param_grid={"C": [1.0]}, cv=3))
    with parallel_config("threading"):
        assert cross_val_score(pipe, COUNTS, LABELS, cv=3, n_jobs=2).mean() > 0.5
    assert "KernelSearchCV" in repr(search)
    assert fitted.best_estimator_.predict(COUNTS[:2]).tolist() == fitted.predict(frame[:2]).tolist()


def test_groups_keep_together() -> None:
    groups = np.arange(90) // 9
    search = KernelSearchCV(HEATS, param_grid={"C": [1.0]}, cv=GroupKFold(5))
    search.fit(COUNTS, LABELS, groups=groups)
    theirs = GridSearchCV(SVC(), {"C": [1.0], "kernel": HEATS}, cv=GroupKFold(5))
    _assert_same(search, theirs.fit(COUNTS, LABELS, groups=groups))
    nested = search.nested_scores(COUNTS, LABELS, outer_cv=GroupKFold(3), groups=pd.Series(groups))
    for test in nested.tests:
        assert not set(groups[test]) & set(np.delete(groups, test))
