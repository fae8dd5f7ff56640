"""Gaussian processes: odd columns and weights, and fits that fail."""

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris, load_linnerud, load_wine
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV

from mercer.gp import (
    ParquetBlocks,
    SphericalGPClassifier,
    SphericalGPPoissonRegressor,
    SphericalGPRegressor,
)
from mercer.gp.input_map import looks_like_table
from mercer.harmonics import SphericalHarmonics
from mercer.kernels import ArcCosine, AxialHeat, Heat
from mercer.spaces import Simplex, Sphere

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 3))
Y = np.sin(X[:, 0]) + 0.1 * RNG.normal(size=60)


@pytest.mark.parametrize("constant", [0.1, 1 / 3, 7.7, 1e9])
@pytest.mark.parametrize("weighted", [False, True])
def test_constant_columns_of_many_rows_say_nothing(constant: float, weighted: bool) -> None:
    rng = np.random.default_rng(0)
    rows = np.column_stack([rng.normal(size=20_000), np.full(20_000, constant)])
    weight = rng.uniform(size=20_000) if weighted else None
    model = SphericalGPRegressor(max_features=10, optimize=False).fit(rows, np.sin(rows[:, 0]), weight)
    assert model.features_.inputs.scale[1] == np.inf
    here, there = model.predict([[1.0, constant], [1.0, constant + 1.0]])
    assert here == there


@pytest.mark.parametrize("factor", [1e-170, 1e160])
def test_columns_beyond_the_floating_range_are_refused(factor: float) -> None:
    with pytest.raises(ValueError, match="column 0 of X varies by"):
        SphericalGPRegressor(max_features=20).fit(factor * X, Y)


def test_rows_too_long_to_predict_at_are_refused() -> None:
    model = SphericalGPRegressor(max_features=20).fit(X, Y)
    with pytest.raises(ValueError, match="row 1 of X is too long"):
        model.predict([[0.0, 0, 0], [1e200, 0, 0]])


def test_scales_count_weights(monkeypatch) -> None:
    from mercer.gp.scales import ScaledEvidence

    rng = np.random.default_rng(1)
    rows = rng.normal(size=(200, 2))
    targets = np.where(np.arange(200) < 100, np.sin(2 * rows[:, 1]), np.sin(2 * rows[:, 0]))
    weight = (np.arange(200) >= 100).astype(float)
    monkeypatch.setattr("mercer.gp.regressor._ARD_STEPS", 6)
    kernel = AxialHeat(Sphere())
    model = SphericalGPRegressor(kernel, inputs="table", max_features=20, ard=True)
    model.fit(rows, targets, weight)
    assert model.input_scales_[0] > 3 * model.input_scales_[1]
    theta = np.array([0.3, -0.2, 0.1, -1.0, 0.2])
    columns = targets[:, None]
    weighted = ScaledEvidence(model.features_, kernel, rows, columns, weight)
    dropped = ScaledEvidence(model.features_, kernel, rows[100:], columns[100:])
    for ours, theirs in zip(
        weighted.value_and_gradient(theta), dropped.value_and_gradient(theta), strict=True
    ):
        np.testing.assert_allclose(ours, theirs, rtol=1e-9)


def test_a_fit_that_fails_leaves_no_model() -> None:
    model = SphericalGPRegressor(max_features=20)
    for _ in range(2):  # at first, and after a fit that did not fail
        with pytest.raises(ValueError, match="square is no number"):
            model.fit(5 * X + 3, 1e200 * np.sign(X[:, 0]))
        for call in (lambda: model.predict(X), lambda: model.refit()):
            with pytest.raises(NotFittedError):
                call()
        model.fit(X, Y)
    classifier = SphericalGPClassifier(max_features=20).fit(X, Y > 0)
    with pytest.raises(ValueError, match="one class only"):
        classifier.fit(X, np.zeros(60))
    with pytest.raises(NotFittedError):
        classifier.predict_proba(X)


def test_few_rows_at_a_time() -> None:
    rng = np.random.default_rng(4)
    rows = rng.normal(size=(500, 3))
    targets = np.sin(2 * rows[:, 0]) + 0.1 * rng.normal(size=500)
    model = SphericalGPRegressor(max_features=60)
    for start in range(0, 500, 10):
        model.partial_fit(rows[start : start + 10], targets[start : start + 10])
    # A step back to noise alone would have a score of zero.
    assert model.score(rows, targets) > 0.8


def test_columns_constant_in_the_first_block_are_named() -> None:
    with pytest.warns(UserWarning, match=r"column\(s\) 0, 1, 2 of X are constant in the first block"):
        SphericalGPRegressor(max_features=20).fit(iter([(X[:1], Y[:1]), (X[1:], Y[1:])]))
    with pytest.warns(UserWarning, match=r"column\(s\) 1 of X are constant in the first rows"):
        SphericalGPRegressor(max_features=20).partial_fit(X * [1, 0, 1], Y)


def test_names_of_columns_do_not_outlive_a_fit() -> None:
    import pandas as pd

    model = SphericalGPRegressor(max_features=20).fit(pd.DataFrame(X, columns=list("abc")), Y)
    model.fit([(X[:, :2], Y)])
    assert not hasattr(model, "feature_names_in_")
    assert model.predict(X[:, :2]).shape == (60,)


def test_whole_numbers_of_numpy() -> None:
    assert SphericalHarmonics(3, levels=np.int64(3)) == SphericalHarmonics(3, levels=3)
    search = GridSearchCV(SphericalGPRegressor(max_features=20), {"levels": np.arange(2, 4)}, cv=2)
    assert search.fit(X, Y).best_params_["levels"] in (2, 3)


def test_bad_rows_and_labels() -> None:
    with pytest.raises(ValueError, match="X has one column"):
        SphericalGPRegressor(Heat(Sphere())).fit(X[:, :1], Y)
    labels = np.array(["a", 1] * 30, dtype=object)
    with pytest.raises(ValueError, match="several kinds"):
        SphericalGPClassifier().fit(X, labels)


@pytest.mark.parametrize(
    "rows",
    [
        load_iris().data,
        load_wine().data,
        load_breast_cancer().data,
        load_diabetes(scaled=False).data,
        RNG.normal(size=(200, 4)) * [1000.0, 1.0, 0.1, 10.0],
        RNG.uniform(size=(200, 2)) * [1000.0, 1.0],
        np.outer(RNG.uniform(1, 2, size=40), [1.0, 2.0, 3.0]),  # one direction
        np.outer(RNG.uniform(1, 2, size=40), [1e300, 2e300]),
    ],
    ids=lambda rows: str(rows.shape),
)
def test_tables_are_told_from_directions(rows) -> None:
    assert looks_like_table(rows)
    unit = rows / np.linalg.norm(rows / rows.max(), axis=1, keepdims=True) / rows.max()
    assert not looks_like_table(unit)  # the lengths are gone


def test_directions_are_not_taken_for_tables() -> None:
    rng = np.random.default_rng(0)
    for columns, rows in ((2, 1000), (3, 60), (10, 60), (100, 60), (600, 1000)):
        for _ in range(5):
            assert not looks_like_table(rng.normal(size=(rows, columns)))
    near = np.array([0.0, 0.0, 1.0]) + 1e-3 * rng.normal(size=(60, 3))  # a small part of the sphere
    near /= np.linalg.norm(near, axis=1, keepdims=True)
    assert not looks_like_table(near)
    assert not looks_like_table(near * rng.uniform(1, 1 + 1e-4, size=(60, 1)))
    assert not looks_like_table(load_linnerud().data)  # too few rows to tell
    assert not looks_like_table(sparse.csr_matrix(load_wine().data))
    outlier = np.vstack([rng.normal(size=(60, 3)), [[1e9, 0, 0], [0, 1e-9, 0], [0, 0, 0]]])
    assert not looks_like_table(outlier)


def test_a_table_given_for_directions_is_told(tmp_path) -> None:
    rows, labels = load_wine(return_X_y=True)
    heat = Heat(Sphere())
    frame = pd.DataFrame(rows, columns=[f"c{i}" for i in range(13)]).assign(y=labels * 1.0)
    frame.to_parquet(tmp_path / "0.parquet", write_page_checksum=True)
    sources = [
        (SphericalGPRegressor(heat, max_features=15), (rows, labels)),
        (SphericalGPRegressor(heat, max_features=15), ([(rows, labels)],)),
        (SphericalGPRegressor(heat, max_features=15), (iter([(rows, labels)]),)),
        (SphericalGPRegressor(heat, max_features=15), (ParquetBlocks(tmp_path, "y"),)),
        (SphericalGPClassifier(heat, max_features=15), (rows, labels)),
        (SphericalGPPoissonRegressor(heat, max_features=15), (rows, labels)),
    ]
    for model, given in sources:
        model.set_params(optimize=False)
        with pytest.warns(
            UserWarning, match=r"Heat\(Sphere\(\)\) looks at directions only: use inputs='t"
        ):
            model.fit(*given)
        assert model.n_features_in_ == 13


def test_what_is_meant_is_not_told() -> None:
    rows, labels = load_wine(return_X_y=True)
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    cases = [
        (rows, {"kernel": Heat(Sphere()), "inputs": "points"}),
        (rows, {"kernel": Heat(Sphere()), "inputs": "table"}),
        (rows, {"kernel": Heat(Simplex())}),
        (rows, {"kernel": ArcCosine()}),
        (unit, {"kernel": Heat(Sphere())}),
        (unit, {"kernel": Heat(Sphere(unit=True))}),
        (X, {"kernel": Heat(Sphere())}),
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for given, options in cases:
            model = SphericalGPRegressor(max_features=15, optimize=False, **options)
            model.fit(given, labels[: len(given)])
    with pytest.raises(ValueError, match="is all zeros"):
        SphericalGPRegressor(Heat(Sphere())).fit(np.zeros((60, 3)), Y)


def test_covariances_of_a_table_need_no_unit_rows() -> None:
    model = SphericalGPRegressor(Heat(Sphere(unit=True)), inputs="table", max_features=15).fit(X, Y)
    mean, covariance = model.predict(X[:5], return_cov=True)
    np.testing.assert_allclose(mean, model.predict(X[:5]))
    np.testing.assert_allclose(
        np.sqrt(np.diag(covariance)), model.predict(X[:5], return_std=True)[1], rtol=1e-6
    )
