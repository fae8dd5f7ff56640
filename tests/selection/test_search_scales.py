"""Grids in the data's own units: scales and strengths learnt inside each training part."""

import warnings

import networkx as nx
import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR

from mercer.exceptions import DegenerateKernelWarning
from mercer.features import GramTransformer
from mercer.gp import SphericalGPClassifier, SphericalGPRegressor
from mercer.kernels import Cosine, Gaussian, Heat, Linear, Matern, TfIdf, VonNeumann
from mercer.rkhs import degeneracy, diagnose, total_variance
from mercer.selection import KernelSearchCV, compare
from mercer.selection.grid import Setting, expand
from mercer.selection.kinds import candidates
from mercer.selection.scales import SIMILARITIES, Relative, Scales, Template
from mercer.spaces import Graph, Hyperbolic, Simplex, Sphere

DIGITS, DIGIT = load_digits(return_X_y=True)
DIGITS, DIGIT = DIGITS[:240], DIGIT[:240]


def median(kernel, X) -> float:
    return float(np.median(kernel(X)[np.triu_indices(X.shape[0], 1)]))


def test_scales_come_from_the_training_part_alone() -> None:
    rows = np.arange(0, 240, 2)
    others = DIGITS.copy()
    others[1::2] = np.random.default_rng(0).poisson(0.1, size=(120, 64)) + 1
    templates = [Template(Heat(Simplex()), SIMILARITIES), Template(Gaussian(), SIMILARITIES)]
    templates.append(Template(Gaussian(column_scales="std"), SIMILARITIES))
    found = []
    for X in (DIGITS, others):
        scales = Scales(X, None, templates, random_state=0)
        numbers = [scales.number(t, s, rows) for t in range(3) for s in SIMILARITIES]
        found.append([scales.kernels[n] for n in numbers])
    assert found[0] == found[1]
    for kernel, similarity in zip(found[0], 3 * SIMILARITIES, strict=True):
        assert median(kernel, DIGITS[rows]) == pytest.approx(similarity, abs=0.011)
    np.testing.assert_allclose(found[0][-1].column_scales, StandardScaler().fit(DIGITS[rows]).scale_)


def test_parts_that_are_alike_share_kernels() -> None:
    scales = Scales(DIGITS, None, [Template(Heat(Simplex()), SIMILARITIES)], random_state=0)
    parts = [train for train, _ in StratifiedKFold(5).split(DIGITS, DIGIT)]
    for part in parts:
        for similarity in SIMILARITIES:
            scales.number(0, similarity, part)
    assert len(scales.kernels) < 20  # of 30
    assert all(len(str(kernel.t_star)) <= 6 for kernel in scales.kernels)


def test_strengths_are_in_units_of_the_training_gram_matrix() -> None:
    search = KernelSearchCV(Heat(Simplex()), similarities=[0.3, 0.9], cv=3)
    nested = search.nested_scores(DIGITS, DIGIT, outer_cv=3)
    outer = StratifiedKFold(3).split(DIGITS, DIGIT)
    for (train, test), chosen, setting, score in zip(
        outer, nested.chosen, nested.settings, nested.scores, strict=True
    ):
        K = chosen["kernel"](DIGITS[train])
        assert chosen["C"] == pytest.approx(setting.params["C"].value / total_variance(K), rel=0.01)
        assert median(chosen["kernel"], DIGITS[train]) == pytest.approx(chosen["similarity"], abs=0.011)
        model = SVC(kernel="precomputed", C=chosen["C"]).fit(K, DIGIT[train])
        expected = model.score(chosen["kernel"](DIGITS[test], DIGITS[train]), DIGIT[test])
        assert score == pytest.approx(expected)
    assert Relative(10.0, "C").resolve(0.5, 3.0) == 20.0
    assert Relative(10.0, "C", of_target=True).resolve(0.5, 3.0) == 60.0
    assert Relative(0.1, "alpha").resolve(0.5, 3.0) == 0.05


def test_as_scikit_learns_search_with_a_transformer() -> None:
    values, C = [0.1, 0.5, 0.9], [1.0, 10.0, 100.0]
    own = KernelSearchCV(Heat(Simplex()), similarities=values, param_grid={"C": C}, cv=3)
    own.fit(DIGITS, DIGIT)
    pipeline = make_pipeline(GramTransformer(Heat(Simplex())), SVC(kernel="precomputed"))
    grid = {"svc__C": C, "gramtransformer__similarity": values}
    other = GridSearchCV(pipeline, grid, cv=3).fit(DIGITS, DIGIT)
    found = {(p["similarity"], p["C"]): i for i, p in enumerate(own.cv_results_["params"])}
    for params, score in zip(
        other.cv_results_["params"], other.cv_results_["mean_test_score"], strict=True
    ):
        i = found[params["gramtransformer__similarity"], params["svc__C"]]
        # Parameters of the search are rounded, which may move a row or two.
        assert own.cv_results_["mean_test_score"][i] == pytest.approx(score, abs=0.015)
    assert own.best_similarity_ == own.best_params_["similarity"]
    assert own.best_kernel_.t_star in own.cv_results_["param_kernel__t_star"]
    assert own.best_estimator_[0].kernel == own.best_kernel_
    np.testing.assert_array_equal(own.cv_results_["param_similarity"], 3 * values)


@pytest.mark.filterwarnings("ignore:Solver terminated early:sklearn.exceptions.ConvergenceWarning")
def test_the_best_at_an_edge_is_looked_beyond() -> None:
    # A fine chessboard: only kernels much narrower than the board see it.
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 6, size=(360, 2))
    y = np.floor(X).sum(axis=1).astype(int) % 2
    search = KernelSearchCV(Gaussian(), SVC(max_iter=20_000), similarities="auto", cv=2).fit(X, y)
    tried = {p["similarity"] for p in search.cv_results_["params"]}
    assert search.best_similarity_ < min(SIMILARITIES)
    assert min(SIMILARITIES) > min(tried) >= 1e-9
    inside = [
        score
        for score, params in zip(
            search.cv_results_["mean_test_score"], search.cv_results_["params"], strict=True
        )
        if params["similarity"] in SIMILARITIES
    ]
    assert search.best_score_ > max(inside)
    nested = search.nested_scores(X, y, outer_cv=2)
    assert min(c["similarity"] for c in nested.chosen) < min(SIMILARITIES)
    # What is given is not extended.
    given = KernelSearchCV(Gaussian(), similarities=[0.3, 0.5], param_grid={"C": [1.0]}, cv=3).fit(X, y)
    assert len(given.cv_results_["params"]) == 2
    assert given.edges_ == []


@pytest.mark.filterwarnings("ignore:the Gram matrix:mercer.exceptions.DegenerateKernelWarning")
def test_where_the_best_stays_at_an_edge_it_is_said() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, 3)), np.arange(40) % 2
    result = compare(X, y, kernels={"Gaussian": [Gaussian()]}, similarities="auto", folds=2)
    result.scores[0].search.edges_ = ["the largest similarity tried (0.996)"]
    (note,) = (note for note in result.notes if note.startswith("Gaussian: "))
    assert note.startswith(
        "Gaussian: the best is the largest similarity tried (0.996); the optimum may lie"
    )
    assert "a wider grid" in note
    trials = expand([("a", Template(Gaussian(), SIMILARITIES))], None, SVC(), "")
    first = next(s for s in trials.settings if s.similarity == 0.02 and s.params["C"].value == 1000.0)
    assert trials.edges(first) == [
        "the smallest similarity tried (0.02)",
        "the largest C times variance tried (1000)",
    ]
    # In a grid of one's own too, if it has an interior.
    own = expand([("a", Template(Gaussian()))], {"C": [1.0, 10.0, 100.0], "gamma": [1, 2]}, SVC(), "")
    assert own.edges(Setting(0, None, {"C": 100.0, "gamma": 2})) == ["the largest C tried (100)"]
    assert own.edges(Setting(0, None, {"C": 10.0, "gamma": 2})) == []
    place, known = trials.settings.index(first), len(trials.settings)
    around = trials.extend([place])[place]
    beyond = {(s.similarity, s.params["C"].value) for s in trials.settings[known:]}
    assert beyond == {(1e-3, 100.0), (1e-3, 1e3), (1e-3, 1e4), (0.02, 1e4), (0.1, 1e4)}
    near = {(trials.settings[i].similarity, trials.settings[i].params["C"].value) for i in around}
    assert near == beyond | {(0.02, 100.0), (0.02, 1e3), (0.1, 100.0), (0.1, 1e3)}


def test_rivals_are_those_of_scikit_learn() -> None:
    rng = np.random.default_rng(0)
    counts = sparse.csr_matrix(np.hstack([np.ones((50, 1)), rng.poisson(0.4, size=(50, 30))]))
    for sublinear in (False, True):
        expected = TfidfTransformer(sublinear_tf=sublinear).fit(counts[:30]).transform(counts).toarray()
        kernel = TfIdf(sublinear=sublinear).learnt_from(counts[:30])
        np.testing.assert_allclose(kernel(counts), expected @ expected.T, atol=1e-14)
        np.testing.assert_allclose(kernel(counts.toarray()), kernel(counts), atol=1e-14)
        assert kernel.learnt_from(counts[:5]) is kernel
    table = load_breast_cancer().data
    expected = rbf_kernel(StandardScaler().fit(table[:100]).transform(table), gamma=1 / 8)
    kernel = Gaussian(2.0, column_scales="std").learnt_from(table[:100])
    np.testing.assert_allclose(kernel(table), expected, atol=1e-10)
    np.testing.assert_allclose(kernel(sparse.csr_matrix(table), table[:9]), expected[:, :9], atol=1e-8)


def test_rivals_that_have_not_seen_rows_say_so() -> None:
    with pytest.raises(ValueError, match=r"weights of TfIdf have not been learnt.*scaled_to\(X\) first"):
        TfIdf()([[1, 2]])
    with pytest.raises(ValueError, match=r"of Gaussian has not been computed.*scaled_to\(X\) first"):
        Gaussian(column_scales="std")([[1.0, 2.0]])
    with pytest.raises(ValueError, match="must be an array or 'std', got 'iqr'"):
        Gaussian(column_scales="iqr")([[1.0, 2.0]])
    with pytest.raises(ValueError, match="column_scales of Gaussian must be positive numbers"):
        Gaussian(column_scales=[1.0, 0.0])([[1.0, 2.0]])
    with pytest.raises(ValueError, match="column_scales of Gaussian has 3 numbers, but rows have 2"):
        Gaussian(column_scales=[1.0, 1.0, 1.0])([[1.0, 2.0]])
    with pytest.raises(ValueError, match="weights of TfIdf has 3 numbers, but rows have 2"):
        TfIdf(weights=[1.0, 1.0, 1.0])([[1, 2]])


def test_families_of_a_comparison() -> None:
    families = candidates(DIGITS, "auto").families
    assert list(families) == [
        "linear", "Gaussian", "standardised Gaussian", "tf-idf", "cosine", "parametrix", "exact heat"
    ]  # fmt: skip
    for members in families.values():
        assert sum(len(t.similarities) or 1 for t in members) * 5 <= 30
    assert "tf-idf" not in candidates(DIGITS / 16 + 0.01, "auto").families
    assert "tf-idf" not in candidates(DIGITS - 8, "auto").families


def test_balanced_weights_where_balanced_accuracy_decides() -> None:
    y = np.where(DIGIT == 3, "three", "other")
    kernels = {"linear": [Linear()], "exact heat": [Heat(Simplex())]}
    result = compare(DIGITS, y, kernels=kernels, similarities="auto", folds=3)
    assert result.metric == "balanced_accuracy"
    assert {s.search.best_estimator_[-1].class_weight for s in result.scores} == {"balanced"}
    plain = compare(DIGITS, y, kernels=kernels, scoring="accuracy", folds=3)
    assert {s.search.best_estimator_[-1].class_weight for s in plain.scores} == {None}


@pytest.mark.parametrize("kernel", [Heat(Sphere(), t_star=5.0), Matern(Sphere(), length_scale=9.0)])
def test_constant_matrices_are_told(kernel) -> None:
    with pytest.warns(DegenerateKernelWarning, match=r"nearly constant.*scaled_to\(X\)"):
        GramTransformer(kernel).fit_transform(DIGITS)
    with pytest.warns(DegenerateKernelWarning, match="nearly constant"):
        KernelSearchCV(kernel, cv=3).fit(DIGITS, DIGIT)


def test_identities_are_told() -> None:
    narrow = Heat(Simplex(), t_star=0.02)
    with pytest.warns(DegenerateKernelWarning, match=r"nearly the identity.*scaled_to\(X\)"):
        GramTransformer(narrow).fit_transform(DIGITS)
    with pytest.warns(DegenerateKernelWarning, match="nearly the identity"):
        compare(DIGITS, DIGIT, kernels={"heat": [narrow]}, folds=3)
    with pytest.warns(DegenerateKernelWarning, match="nearly the identity.*use another kernel"):
        GramTransformer(Cosine(Simplex())).fit_transform(np.eye(20))
    assert "DEGENERATE       nearly the identity" in str(diagnose(narrow(DIGITS)))
    assert degeneracy(narrow(np.vstack([DIGITS, DIGITS]))) is not None  # equal points do not count


def test_useful_matrices_are_not_told() -> None:
    for kernel in (Heat(Simplex()), Heat(Simplex()).scaled_to(DIGITS, 0.02), Linear(), Cosine()):
        assert degeneracy(kernel(DIGITS)) is None
        GramTransformer(kernel).fit_transform(DIGITS)
    years = np.random.default_rng(0).normal([2000.0, 3.0], [10.0, 1.0], size=(50, 2))
    assert degeneracy(Linear()(years)) is None  # nearly parallel rows, well apart
    assert degeneracy(np.ones((2, 2))) is None  # too few to tell
    assert degeneracy(np.zeros((9, 9))) is None


def test_what_is_given_is_final() -> None:
    search = KernelSearchCV(Gaussian(), similarities=[0.3, 0.5], cv=3).fit(DIGITS, DIGIT)
    assert {p["similarity"] for p in search.cv_results_["params"]} == {0.3, 0.5}


def test_kernels_of_scikit_learn_are_taken_as_they_are() -> None:
    for kernel in (RBF(20.0), RBF(20.0) + WhiteKernel(0.1), ConstantKernel(2.0) * Gaussian(20.0)):
        search = KernelSearchCV(kernel, similarities="auto", cv=3).fit(DIGITS, DIGIT)
        assert search.best_similarity_ is None
        assert search.predict(DIGITS[:2]).shape == (2,)
    with pytest.warns(UserWarning, match="has no range, so similarity=0.5 has no effect"):
        GramTransformer(RBF(20.0), similarity=0.5).fit(DIGITS)


def test_what_is_out_of_reach_does_not_end_a_search() -> None:
    rng = np.random.default_rng(0)
    rows, y = np.column_stack([rng.normal(size=30), rng.random(30) + 0.1]), np.arange(30) % 2
    for kernel in (Heat(Hyperbolic()), Heat(Hyperbolic(), t=1.0) + Linear()):
        KernelSearchCV(kernel, similarities=[0.5, 0.98], cv=2, refit=False).fit(rows, y)
    graph = Graph(nx.karate_club_graph())
    search = KernelSearchCV(VonNeumann(graph, beta=0.1), similarities=[0.999], cv=3, refit=False)
    search.fit(np.arange(34), np.arange(34) % 2)


def test_what_is_out_of_reach_comes_near() -> None:
    points = np.random.default_rng(0).normal(size=(30, 4))
    rows = 0.95 * points / np.linalg.norm(points, axis=1, keepdims=True)
    heat = Heat(Hyperbolic("ball"))
    scales = Scales(rows, None, [Template(heat), Template(1.0 * heat), Template(heat + Linear())], 0)
    alone, multiple, total = (scales.kernels[scales.number(part, 0.5)] for part in range(3))
    assert alone.t < 1e4  # longer times would make no difference
    pairs = np.triu_indices(len(rows), 1)
    reached, longest = (np.median(Heat(heat.space, t=t)(rows)[pairs]) for t in (alone.t, 1e8))
    assert 0.9 * longest < reached < 0.01
    for part in (multiple.k2, total.k1):  # which have no time of their own
        assert np.median(part(rows)[pairs]) == pytest.approx(1e-3, rel=0.01)


@pytest.mark.parametrize("size", [1.0, 1e9])
def test_regressions_know_the_size_of_the_target(size) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 4))
    y = size * (X @ [1.0, 2.0, 3.0, 4.0])
    search = KernelSearchCV(Gaussian(), SVR(), similarities="auto", cv=3, n_jobs=1).fit(X, y)
    assert search.best_score_ > 0.9
    assert search.best_params_["epsilon"] == pytest.approx(0.1 * y.std(), rel=0.01)


def test_comparisons_are_printed_in_short() -> None:
    kernels = {"linear": [Linear()], "exact heat": [Heat(Simplex())]}
    shown = repr(compare(DIGITS, DIGIT, kernels=kernels, similarities="auto", folds=3))
    assert len(shown.splitlines()) == 3


def test_bad_similarities() -> None:
    for bad, message in (
        ("all", "similarities must be 'auto', a list or None"),
        ([], "similarities is empty"),
        ([0.5, 2.0], "similarity must be a number between 0 and 1, got 2.0"),
    ):
        with pytest.raises(ValueError, match=message):
            KernelSearchCV(Heat(Simplex()), similarities=bad).fit(DIGITS, DIGIT)


def test_gaussian_processes_tell_too() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 5))
    y = np.sin(4 * X[:, 0] / np.linalg.norm(X, axis=1))
    fixed = Heat(Sphere(), t_star=40.0, t_star_bounds="fixed")
    with pytest.warns(DegenerateKernelWarning, match=r"nearly constant.*scaled_to\(X\)"):
        SphericalGPRegressor(fixed, max_features=40, inputs="points").fit(X, y)
    with pytest.warns(DegenerateKernelWarning, match="nearly constant"):
        SphericalGPClassifier(fixed, max_features=40, inputs="points").fit(X, y > 0)
    with warnings.catch_warnings():
        warnings.simplefilter("error", DegenerateKernelWarning)
        SphericalGPRegressor(Heat(Sphere()), max_features=40, inputs="points").fit(X, y)
