"""From rows to points: constant and extreme columns, and tables told from directions."""

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris, load_linnerud, load_wine

from mercer.gp import (
    ParquetBlocks,
    SphericalGPClassifier,
    SphericalGPPoissonRegressor,
    SphericalGPRegressor,
)
from mercer.gp.input_map import looks_like_table
from mercer.kernels import ArcCosine, Heat
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


def test_columns_constant_in_the_first_block_are_named() -> None:
    with pytest.warns(UserWarning, match=r"column\(s\) 0, 1, 2 of X are constant in the first block"):
        SphericalGPRegressor(max_features=20).fit(iter([(X[:1], Y[:1]), (X[1:], Y[1:])]))
    with pytest.warns(UserWarning, match=r"column\(s\) 1 of X are constant in the first rows"):
        SphericalGPRegressor(max_features=20).partial_fit(X * [1, 0, 1], Y)


def test_directions_need_two_columns() -> None:
    with pytest.raises(ValueError, match="X has one column"):
        SphericalGPRegressor(Heat(Sphere())).fit(X[:, :1], Y)


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
