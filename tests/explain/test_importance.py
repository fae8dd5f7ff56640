"""Permutation importance of blocks of columns."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from sklearn.inspection import permutation_importance
from sklearn.linear_model import LinearRegression

from mercer.explain import importance
from mercer.gp import SphericalGPRegressor
from mercer.kernels import Gaussian, Heat, Linear, On
from mercer.machines import SVC, KernelRidge
from mercer.spaces import Simplex

RNG = np.random.default_rng(0)
X = pd.DataFrame(RNG.normal(size=(120, 4)), columns=list("abcd"))
Y = X["a"] + 0.5 * X["b"]


def test_the_default_is_scikit_learns():
    """Blocks of one column are shuffled as scikit-learn shuffles columns."""
    model = KernelRidge(Linear()).fit(X, Y)
    found = importance(model, X, Y, n_repeats=4, random_state=3).set_index("block")
    plain = permutation_importance(model, X, Y, n_repeats=4, random_state=3)
    np.testing.assert_allclose(found["importance"][list("abcd")], plain.importances_mean, rtol=1e-10)
    errors = plain.importances.std(axis=1, ddof=1) / 2
    np.testing.assert_allclose(found["standard_error"][list("abcd")], errors, rtol=1e-10)


def test_columns_of_a_block_stay_together():
    """What two columns say about each other is not lost."""
    y = np.where(X["a"] * X["b"] > 0, "same", "other")
    twins = X.assign(b=np.sign(X["b"]) * X["a"].abs())
    model = SVC(Gaussian(1.0), C=10).fit(twins, y)
    blocks = {"both": ["a", "b"], "rest": slice("c", "d")}
    found = importance(model, twins, y, blocks=blocks, scoring="balanced_accuracy")
    assert found["block"].tolist() == ["both", "rest"]
    assert found["importance"][0] > 0.3 > found["importance"][1]
    again = importance(model, twins, y, blocks=blocks, scoring="balanced_accuracy")
    pd.testing.assert_frame_equal(found, again)


def test_parts_of_a_table():
    kernel = On(["a", "c"], Linear()) + On("b", Gaussian(2.0)) * On("d", Gaussian(2.0))
    model = KernelRidge(kernel).fit(X, Y)
    found = importance(model, X, Y, n_repeats=3)
    assert found["block"].tolist() == ["a, c", "b", "d"]
    frame = importance(model, pl.from_pandas(X), Y, n_repeats=3)
    pd.testing.assert_frame_equal(frame, found)


@pytest.mark.parametrize("rows", [np.array, sparse.csr_matrix], ids=["dense", "sparse"])
def test_arrays(rows):
    model = KernelRidge(Linear()).fit(rows(X), Y)
    found = importance(model, rows(X), Y, blocks={"first": [0, 1], "last": [2, 3]})
    named = importance(KernelRidge(Linear()).fit(X, Y), X, Y, blocks={"first": [0, 1], "last": [2, 3]})
    pd.testing.assert_frame_equal(found, named)


def test_models_that_are_no_sums_over_rows_have_their_columns_shuffled():
    for model in (SphericalGPRegressor(), LinearRegression()):
        assert set(importance(model.fit(X, Y), X, Y, n_repeats=1)["block"]) == set("abcd")


def test_what_is_refused():
    model = KernelRidge(Linear()).fit(X, Y)
    with pytest.raises(ValueError, match="no column 'z'"):
        importance(model, X, Y, blocks={"z": ["z"]})
    with pytest.raises(ValueError, match="n_repeats"):
        importance(model, X, Y, n_repeats=0)
    with pytest.raises(ValueError, match="120 rows, but y has 3"):
        importance(model, X, Y[:3])
    with pytest.raises(ValueError, match="rows with columns"):
        importance(model, ["a", "b"], [0, 1])


def test_columns_that_cannot_be_shuffled_alone() -> None:
    X, y = np.eye(4)[np.arange(12) % 4], np.arange(12) % 2
    model = SVC(Heat(Simplex())).fit(X, y)
    with pytest.raises(ValueError, match=r"refuses rows with shuffled columns \(.*; give columns that"):
        importance(model, X, y)
    assert importance(model, X, y, blocks={"all": range(4)})["importance"][0] > 0
