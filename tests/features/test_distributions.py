"""Transformers from data to distributions, against brute force."""

import mpmath as mp
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import sparse
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC

from mercer.features import GroupNormals, MeasuredNormals, Multinomials, split_groups
from mercer.kernels import Heat
from mercer.spaces import Simplex

settings.register_profile("mercer", deadline=None, max_examples=25, derandomize=True)
settings.load_profile("mercer")

GROUPS = [
    np.array([[1.0, 10.0], [3.0, 10.5], [2.0, 12.0]]),
    np.array([[5.0, 0.0], [5.5, 1.0]]),
    np.array([[-1.0, 3.0], [0.0, 3.5], [4.0, 2.0], [2.0, 2.0]]),
]


def test_without_shrinkage_it_is_mean_and_standard_deviation() -> None:
    points = GroupNormals(shrinkage=0).fit_transform(GROUPS)
    expected = [np.ravel([*zip(g.mean(0), g.std(0, ddof=1), strict=True)]) for g in GROUPS]
    np.testing.assert_allclose(points, expected, rtol=1e-14)
    spherical = GroupNormals(layout="spherical", shrinkage=0).fit_transform(GROUPS)
    np.testing.assert_allclose(spherical[:, :2], [g.mean(axis=0) for g in GROUPS], rtol=1e-14)
    sd = [np.sqrt(g.var(axis=0, ddof=1).mean()) for g in GROUPS]
    np.testing.assert_allclose(spherical[:, 2], sd, rtol=1e-14)


def test_shrinkage_of_given_strength_is_a_weighted_mean_of_variances() -> None:
    degrees = np.array([2, 1, 3])
    variances = np.array([g.var(axis=0, ddof=1) for g in GROUPS])
    pooled = degrees @ variances / 6
    points = GroupNormals(shrinkage=4.0).fit_transform(GROUPS)
    expected = (4 * pooled + degrees[:, None] * variances) / (4 + degrees[:, None])
    np.testing.assert_allclose(points[:, 1::2] ** 2, expected, rtol=1e-13)
    alike = GroupNormals(shrinkage=np.inf).fit_transform(GROUPS)
    np.testing.assert_allclose(alike[:, 1::2] ** 2, np.tile(pooled, (3, 1)), rtol=1e-13)


@pytest.mark.parametrize("layout", ["pairs", "spherical"])
def test_the_fitted_prior_is_that_of_the_data(layout: str) -> None:
    rng = np.random.default_rng(0)
    d0, s0 = 8.0, 2.5
    deviations = np.sqrt(d0 * s0**2 / rng.chisquare(d0, size=4000))
    sizes = rng.integers(4, 12, size=4000)
    groups = [s * rng.normal(size=(k, 2)) for s, k in zip(deviations, sizes, strict=True)]
    model = GroupNormals(layout=layout).fit(groups)
    assert model.prior_degrees_ == pytest.approx(d0, rel=0.15)
    assert model.prior_variance_ == pytest.approx(s0**2, rel=0.04)
    # Shrunk variances are closer to the truth than plain ones.
    plain = GroupNormals(layout=layout, shrinkage=0).fit(groups)
    loss = [
        np.mean((np.log(m.transform(groups)[:, -1]) - np.log(deviations)) ** 2) for m in (model, plain)
    ]
    assert loss[0] < 0.6 * loss[1]


def test_equal_variances_are_shrunk_all_the_way() -> None:
    model = GroupNormals().fit([[0.0, 1.0, 3.0], [5.0, 6.0, 8.0], [-3.0, -1.0, 0.0]])
    assert model.prior_degrees_[0] == np.inf
    points = model.transform([[1.0, 2.0], [7.0]])
    assert points[0, 1] == points[1, 1] == np.sqrt(model.prior_variance_[0])


def test_groups_of_one_and_of_equal_observations_get_a_variance() -> None:
    model = GroupNormals().fit([*GROUPS, np.full((3, 2), 7.0), np.zeros((1, 2))])
    points = model.transform([[[1.0, 2.0]], np.full((3, 2), 7.0)])
    np.testing.assert_allclose(points[0, 1::2] ** 2, model.prior_variance_)
    assert (points[1, 1::2] > 0).all()


@given(st.floats(-1e6, 1e6), st.floats(1e-3, 1e3), st.sampled_from(["pairs", "spherical"]))
def test_units_do_not_matter(shift: float, scale: float, layout: str) -> None:
    model = GroupNormals(layout=layout)
    points = model.fit_transform(GROUPS)
    moved = model.fit_transform([scale * g + shift for g in GROUPS])
    deviation = np.zeros(points.shape[1], dtype=bool)
    deviation[slice(1, None, 2) if layout == "pairs" else slice(2, None)] = True
    size = 1e-8 * (abs(shift) + scale)
    np.testing.assert_allclose(moved[:, deviation], scale * points[:, deviation], rtol=1e-5, atol=size)
    np.testing.assert_allclose(moved[:, ~deviation], scale * points[:, ~deviation] + shift, atol=size)


def test_long_tables() -> None:
    table = pd.DataFrame({"a": [1.0, 2.0, 3.0, 4.0], "b": [0.0, 0.0, 1.0, 5.0]})
    groups, names = split_groups(table, ["y", "x", "y", "x"])
    assert names.tolist() == ["x", "y"]
    assert groups[1]["a"].tolist() == [1.0, 3.0]
    model = GroupNormals().set_output(transform="pandas")
    points = model.fit_transform(groups)
    assert list(points.columns) == ["mean_a", "sd_a", "mean_b", "sd_b"]
    assert points["mean_a"].tolist() == [3.0, 2.0]
    arrays_, _ = split_groups(table.to_numpy(), np.array([2, 1, 2, 1]))
    np.testing.assert_array_equal(GroupNormals().fit_transform(arrays_), points.to_numpy())
    with pytest.raises(ValueError, match="X has 4 rows, but groups has 3 labels"):
        split_groups(table, [1, 2, 3])
    with pytest.raises(ValueError, match="one-dimensional"):
        split_groups(table, [[1, 2, 3, 4]])


def test_columns_of_groups_are_told_by_name() -> None:
    """Columns in another order were taken for each other."""
    first = pd.DataFrame({"a": [1.0, 2.0], "b": [100.0, 300.0]})
    other = pd.DataFrame({"b": [150.0, 200.0], "a": [3.0, 5.0]})
    message = "row {} of X has the columns b, a, but earlier groups a, b; give all groups the same"
    with pytest.raises(ValueError, match=message.format(1)):
        GroupNormals().fit([first, other])
    model = GroupNormals(shrinkage=1).fit([first, first.to_numpy()])
    with pytest.raises(ValueError, match=message.format(0)):
        model.transform([other])
    assert GroupNormals(shrinkage=1).fit([first.to_numpy()]).transform([other]).shape == (1, 4)


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        ([], "list of groups"),
        ([GROUPS[0], np.empty((0, 2))], "row 1 of X has shape"),
        ([GROUPS[0], [[1.0]]], "row 1 of X has shape"),
        ([GROUPS[0], [[1.0, np.nan]]], "row 1 of X contains NaN"),
        ([GROUPS[0], [["a", "b"]]], "row 1 of X is not an array of numbers"),
        ([[[1.0, 2.0]], [[2.0, 3.0]]], "no group of X has two observations"),
        ([[1.0, 2.0], [3.0]], "fewer than two groups"),
        ([[[1.0, 2.0], [2.0, 2.0]]] * 2, "feature 1 is constant in every group"),
    ],
)
def test_bad_groups(groups: list, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        GroupNormals().fit(groups)


def test_bad_options() -> None:
    with pytest.raises(ValueError, match="layout of GroupNormals"):
        GroupNormals(layout="rows").fit(GROUPS)
    for shrinkage in ("none", -1, np.nan):
        with pytest.raises(ValueError, match="shrinkage of GroupNormals"):
            GroupNormals(shrinkage=shrinkage).fit(GROUPS)
    with pytest.raises(ValueError, match="layout of MeasuredNormals"):
        MeasuredNormals(layout="rows").fit([[1.0, 2.0]])
    for alpha in (-1, np.inf, np.nan, "likely", None):
        with pytest.raises(ValueError, match="alpha of Multinomials"):
            Multinomials(alpha=alpha).fit([[1, 2]])
    plain = GroupNormals(shrinkage=0).fit(GROUPS)
    with pytest.raises(ValueError, match="row 1 of X has a standard deviation of zero"):
        plain.transform([GROUPS[0], [[1.0, 2.0]]])


def test_measurements() -> None:
    X = np.array([[5.0, 7.0, 0.3, 0.4], [1.0, -2.0, 1.0, 1e-3]])
    np.testing.assert_array_equal(MeasuredNormals().fit_transform(X), X[:, [0, 2, 1, 3]])
    table = pd.DataFrame(X[:, [0, 2, 1, 3]], columns=["ra", "ra_err", "dec", "dec_err"])
    model = MeasuredNormals(errors=["ra_err", "dec_err"]).set_output(transform="pandas")
    points = model.fit_transform(table)
    assert list(points.columns) == ["mean_ra", "sd_ra", "mean_dec", "sd_dec"]
    np.testing.assert_array_equal(points.to_numpy(), X[:, [0, 2, 1, 3]])
    spherical = MeasuredNormals(layout="spherical").fit(X)
    np.testing.assert_allclose(spherical.transform(X)[0], [5, 7, np.sqrt(0.125)], rtol=1e-14)
    assert spherical.get_feature_names_out().tolist() == ["mean_0", "mean_1", "sd"]


@pytest.mark.parametrize(
    ("X", "errors", "message"),
    [
        ([[1.0, 2.0, 3.0]], None, "even number"),
        ([[1.0, 2.0], [1.0, 0.0]], None, "row 1 of X has an error that is not positive"),
        ([[1.0, 2.0], [np.nan, 1.0]], None, "row 1 of X contains NaN"),
        ([[1.0, 2.0]], [5], "must name different columns"),
        ([[1.0, 2.0]], ["e"], "must name different columns"),
        ([[1.0, 2.0, 3.0, 4.0]], [1, 1], "must name different columns"),
        ([[1.0, 2.0, 3.0, 4.0]], [1], "each value needs one"),
    ],
)
def test_bad_measurements(X: list, errors, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        MeasuredNormals(errors=errors).fit_transform(np.array(X))


counts = arrays(
    np.int64, st.tuples(st.integers(1, 8), st.integers(2, 8)), elements=st.integers(0, 30)
).map(lambda X: X + (X.sum(axis=1, keepdims=True) == 0))


@given(counts, st.sampled_from([0.0, 1e-3, 0.5, 100.0]))
def test_smoothing(X: np.ndarray, alpha: float) -> None:
    expected = (X + alpha) / (X.sum(axis=1, keepdims=True) + X.shape[1] * alpha)
    model = Multinomials(alpha=alpha)
    np.testing.assert_allclose(model.fit_transform(X), expected, rtol=1e-13)
    thin = model.fit_transform(sparse.csr_matrix(X))
    assert sparse.issparse(thin) == (alpha == 0)
    np.testing.assert_allclose(thin.toarray() if alpha == 0 else thin, expected, rtol=1e-13)


def log_marginal(X: np.ndarray, a: float) -> mp.mpf:
    """Probability of the rows under the Dirichlet-multinomial, as a product of urn draws."""
    mp.mp.dps = 30
    total = mp.mpf(0)
    for row in X:
        for c in row:
            total += sum(mp.log(a + k) for k in range(int(c)))
        total -= sum(mp.log(len(row) * a + k) for k in range(int(row.sum())))
    return total


@pytest.mark.parametrize("alpha", [0.05, 0.5, 4.0])
def test_alpha_by_marginal_likelihood(alpha: float) -> None:
    rng = np.random.default_rng(2)
    X = np.array([rng.multinomial(15, p) for p in rng.dirichlet(np.full(5, alpha), size=30)])
    found = Multinomials(alpha="marginal").fit(X).alpha_
    best = log_marginal(X, found)
    for factor in (0.5, 0.99, 0.999, 1.001, 1.01, 2.0):
        assert log_marginal(X, factor * found) < best
    assert Multinomials(alpha="marginal").fit(sparse.csr_matrix(X)).alpha_ == pytest.approx(found)


def test_the_likeliest_alpha_is_near_the_truth() -> None:
    rng = np.random.default_rng(3)
    X = np.array([rng.multinomial(40, p) for p in rng.dirichlet(np.full(20, 0.3), size=2000)])
    assert Multinomials(alpha="marginal").fit(X).alpha_ == pytest.approx(0.3, rel=0.03)


def test_marginal_likelihoods_without_a_maximum() -> None:
    with pytest.raises(ValueError, match="as alpha goes to zero"):
        Multinomials(alpha="marginal").fit([[3, 0], [0, 9]])
    with pytest.raises(ValueError, match="without bound"):
        Multinomials(alpha="marginal").fit([[5, 5], [6, 6]])


@pytest.mark.parametrize(
    ("X", "message"),
    [([[1, 2], [0, np.nan]], "row 1 of X contains NaN"), ([[1, 2], [3, -1]], "row 1 of X has negative")],
)
def test_bad_counts(X: list, message: str) -> None:
    for alpha in (0.0, 1.0, "marginal"):
        with pytest.raises(ValueError, match=message):
            Multinomials(alpha=alpha).fit(X)
        with pytest.raises(ValueError, match=message):
            Multinomials(alpha=alpha).fit([[1, 2], [5, 1], [0, 4]]).transform(X)


def test_rows_without_counts() -> None:
    X = np.array([[1, 2, 0], [0, 0, 0], [5, 1, 2]])
    for rows in (X, sparse.csr_matrix(X)):
        with pytest.raises(ValueError, match="row 1 of X is all zeros"):
            Multinomials().fit(rows)
        np.testing.assert_allclose(Multinomials(0.5).fit_transform(rows)[1], 1 / 3)
    lopsided = np.array([[9, 0, 1], [0, 0, 0], [0, 7, 0], [2, 2, 0]])  # empty rows say nothing
    alpha = Multinomials("marginal").fit(lopsided).alpha_
    assert alpha == pytest.approx(Multinomials("marginal").fit(lopsided[[0, 2, 3]]).alpha_, rel=1e-9)
    with pytest.raises(ValueError, match="no row of X has counts in two columns"):
        Multinomials("marginal").fit(np.zeros((2, 3)))


def test_groups_out_of_range() -> None:
    with pytest.raises(ValueError, match="row 1 of X has a variance beyond"):
        GroupNormals().fit([[[1.0], [2.0]], [[1e200], [3e200]]])
    with pytest.raises(ValueError, match="varies by less than 1e-160"):
        GroupNormals().fit([[[1e-200], [2e-200]], [[3e-200], [1e-200]]])


@pytest.mark.parametrize("label", [None, np.nan, np.datetime64("NaT", "D")])
def test_labels_that_are_missing(label) -> None:
    with pytest.raises(ValueError, match="a label for every row"):
        split_groups([[1.0], [2.0]], np.array(["a", label], dtype=object))


def test_no_rows_to_split() -> None:
    with pytest.raises(ValueError, match="no rows"):
        split_groups(np.empty((0, 1)), [])


def test_conventions_of_scikit_learn() -> None:
    rng = np.random.default_rng(4)
    X, y = rng.negative_binomial(1, 0.2, size=(40, 6)), np.repeat([0, 1], 20)
    X[:, 0] += 1
    model = make_pipeline(Multinomials(alpha="marginal"), SVC(kernel=Heat(Simplex())))
    assert clone(model).fit(X, y).predict(X[:3]).shape == (3,)
    frame = pd.DataFrame(X, columns=list("abcdef"))
    smooth = Multinomials(alpha=0.5).set_output(transform="pandas").fit_transform(frame)
    assert list(smooth.columns) == list("abcdef")
    with pytest.raises(ValueError, match="6 features"):
        Multinomials().fit(X).transform(X[:, :5])
    with pytest.raises(ValueError, match="4 features"):
        MeasuredNormals().fit(np.ones((2, 4))).transform(np.ones((2, 6)))
    for transformer in (GroupNormals("spherical", 3.0), MeasuredNormals([1]), Multinomials("marginal")):
        assert repr(clone(transformer)) == repr(transformer)
