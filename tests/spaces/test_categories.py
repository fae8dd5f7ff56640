"""Categories, against matrix functions of the Hamming graph's Laplacian."""

import datetime
import itertools
import pickle

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import sparse
from scipy.linalg import expm
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.svm import SVC

from mercer.kernels import Heat, Matern, Spectral
from mercer.spaces import Categories
from mercer.testing import check_kernel

CASES = [((2, 2, 2, 2), None), ((2, 2, 2, 2), 2), ((3, 3, 3), 3), ((2, 3, 2, 4), (2, 3, 2, 4))]


def hamming(levels: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Laplacian of the Hamming graph, and its nodes."""
    L = np.zeros((1, 1))
    for q in levels:
        complete = q * np.eye(q) - np.ones((q, q))
        L = np.kron(L, np.eye(q)) + np.kron(np.eye(len(L)), complete)
    return L, np.array(list(itertools.product(*map(range, levels))))


def fading(eigenvalues: np.ndarray) -> np.ndarray:
    return 1 / (1 + eigenvalues) ** 3


@pytest.mark.parametrize(("sizes", "levels"), CASES)
@pytest.mark.parametrize("t", [0.01, 0.3, 2.0])
def test_heat_is_the_matrix_exponential(sizes, levels, t: float) -> None:
    L, X = hamming(sizes)
    K = expm(-t * L)
    assert np.abs(Heat(Categories(levels), t=t, normalized=False)(X) - K).max() < 1e-12
    assert np.abs(Heat(Categories(levels), t=t)(X) - K / K[0, 0]).max() < 1e-12
    assert np.abs(Heat(Categories(levels), t=t).log(X) - np.log(K / K[0, 0])).max() < 1e-9


@pytest.mark.parametrize(("sizes", "levels"), CASES)
@pytest.mark.parametrize("nu", [0.5, 2.5])
def test_matern_is_a_power_of_the_laplacian(sizes, levels, nu: float) -> None:
    L, X = hamming(sizes)
    eigenvalues, vectors = np.linalg.eigh(L)
    K = (vectors * (2 * nu / 0.7**2 + eigenvalues) ** -nu) @ vectors.T
    found = Matern(Categories(levels), nu=nu, length_scale=0.7, normalized=False)(X)
    assert np.abs(found / K[0, 0] - K / K[0, 0]).max() < 1e-12


@pytest.mark.parametrize(("sizes", "levels"), [CASES[1], CASES[2]])
def test_spectral_is_a_function_of_the_laplacian(sizes, levels) -> None:
    L, X = hamming(sizes)
    eigenvalues, vectors = np.linalg.eigh(L)
    K = (vectors * fading(eigenvalues)) @ vectors.T
    found = Spectral(Categories(levels), weights=fading, normalized=False)(X)
    assert np.abs(found - K).max() < 1e-13


def test_spectral_of_many_columns_is_stable() -> None:
    rng = np.random.default_rng(0)
    X = rng.integers(0, 4, size=(30, 256))
    X[1:20, :240] = X[0, :240]  # near and far rows

    def weights(eigenvalues: np.ndarray) -> np.ndarray:
        return np.exp(-0.01 * eigenvalues)

    heat = Heat(Categories(levels=4), t=0.01)
    assert np.abs(Spectral(Categories(levels=4), weights=weights)(X) - heat(X)).max() < 1e-12


def test_a_product_over_columns() -> None:
    rng = np.random.default_rng(1)
    X = rng.integers(0, 3, size=(20, 3)).astype(str)
    for normalized in (True, False):
        parts = [
            Heat(Categories(q), t=0.4, normalized=normalized)(X[:, [j]]) for j, q in enumerate((3, 5, 3))
        ]
        whole = Heat(Categories((3, 5, 3)), t=0.4, normalized=normalized)(X)
        assert np.abs(whole - np.prod(parts, axis=0)).max() < 1e-14


def test_ten_thousand_columns() -> None:
    X = np.random.default_rng(2).integers(0, 3, size=(20, 10_000))
    K = Heat(Categories())(X)
    differ = (X[:, None] != X).sum(axis=2)
    expected = np.tanh(np.log(20_000) / 2) ** differ
    assert np.abs(K - expected).max() < 1e-12
    assert np.linalg.eigvalsh(K)[0] > 0


def test_labels_are_the_same_where_python_says_so() -> None:
    rows = [[1], [1.0], [True], [np.int8(1)], ["1"], [b"1"], [(1,)], [(True,)], [0.5], [np.float32(0.5)]]
    same = Heat(Categories(), t=0.1)(rows) == 1
    groups = [0, 0, 0, 0, 1, 2, 3, 3, 4, 4]
    assert np.array_equal(same, np.equal.outer(groups, groups))
    # Whatever the first of equal labels is.
    assert np.array_equal(Heat(Categories(), t=0.1)(rows[::-1], rows) == 1, same[::-1])


def test_kinds_of_tables() -> None:
    rows = [["a", 1, True], ["b", 1, False], ["a", 2, False], ["c", 3, True]]
    kernel = Heat(Categories(), t=0.7)
    K = kernel(rows)
    frame = pd.DataFrame(rows, columns=["x", "y", "z"])
    for same in (
        np.array(rows, dtype=object),
        frame,
        frame.astype({"x": "category", "y": "category"}),
        frame.astype({"x": "string", "y": "Int64", "z": "boolean"}),
        [tuple(row) for row in rows],
    ):
        assert np.array_equal(kernel(same), K)
        assert np.array_equal(kernel(same, rows), K)
    days = np.array([["2026-01-01"], ["2026-01-02"], ["2026-01-01"]], dtype="datetime64[D]")
    assert np.array_equal(kernel(days)[0] == 1, [True, False, True])
    dates = [[datetime.date(2026, 1, 1)], [datetime.date(2026, 1, 2)]]
    assert kernel(dates)[0, 1] < 1


def test_unseen_labels() -> None:
    kernel = Heat(Categories(), t=0.5)
    K = kernel([["red", "S"], ["blue", "L"]], [["green", "S"]])
    assert np.allclose(K[:, 0], [np.tanh(0.5), np.tanh(0.5) ** 2], rtol=1e-14)


@pytest.mark.parametrize("missing", [None, float("nan"), np.nan, pd.NA, pd.NaT])
def test_missing_labels_are_refused_by_row(missing) -> None:
    rows = [["a", 1], ["b", 2], ["c", missing]]
    for table in (rows, np.array(rows, dtype=object), pd.DataFrame(rows)):
        with pytest.raises(ValueError, match="row 2 of X has a missing label"):
            Heat(Categories(), t=1.0)(table)
    with pytest.raises(ValueError, match="row 1 of Y has a missing label"):
        Heat(Categories(), t=1.0)(rows[:2], [["a", 1], [missing, 1]])


def test_missing_numbers_and_codes_are_refused() -> None:
    kernel = Heat(Categories(), t=1.0)
    for table in (
        np.array([[1.0], [np.nan]]),
        np.array([["2026-01-01"], ["NaT"]], dtype="datetime64[D]"),
        pd.DataFrame({"x": pd.Categorical(["a", None])}),
    ):
        with pytest.raises(ValueError, match="row 1 of X has a missing label"):
            kernel(table)
    with pytest.raises(ValueError, match="row 1 of X"):
        kernel(torch.tensor([[1.0], [float("nan")]]))


@pytest.mark.parametrize(
    ("X", "error", "words"),
    [
        ("red", TypeError, "list of rows"),
        (["red", "blue"], ValueError, "row 0 of X is 'red'"),
        ([["a", "b"], ["c"]], ValueError, "row 1 of X is"),
        ([], ValueError, "no rows"),
        ([["a"], [["b"]]], TypeError, "row 1 of X"),
        ([["a"], [object()]], TypeError, "strings, numbers, dates or tuples"),
        (sparse.eye(3), TypeError, "list of rows"),
        (np.array(["a"]), ValueError, "2D"),
        (3, TypeError, "list of rows"),
    ],
)
def test_bad_tables_are_refused(X, error, words: str) -> None:
    with pytest.raises(error, match=words):
        Heat(Categories(), t=1.0)(X)


def test_columns_and_levels_must_agree() -> None:
    with pytest.raises(ValueError, match="X has 2 columns, Y has 1"):
        Heat(Categories(), t=1.0)([["a", "b"]], [["a"]])
    with pytest.raises(ValueError, match="X has 1 columns, but"):
        Heat(Categories(levels=[2, 3]), t=1.0)([["a"]])
    with pytest.raises(ValueError, match="column 0 has 3 different labels, but levels is 2"):
        Heat(Categories(levels=2), t=1.0)([["a"], ["b"]], [["c"]])
    for levels in (1, 2.5, True, [], [2, 1], "ab"):
        with pytest.raises(ValueError, match="levels must be"):
            Categories(levels)
    with pytest.raises(ValueError, match="ProductSpace"):
        Heat(Categories(levels=tuple(range(2, 22))), t=1.0)([["a"] * 20])


def test_weights_need_one_number_of_levels() -> None:
    for space in (Categories(), Categories((2, 3))):
        with pytest.raises(TypeError, match="needs one number of labels"):
            Spectral(space, weights=fading)([["a", "b"]])
    with pytest.raises(TypeError, match="function of the Laplacian"):
        Spectral(Categories(2), weights=[1.0, 0.5])([["a", "b"]])
    with pytest.raises(ValueError, match="at most 256 columns"):
        Spectral(Categories(2), weights=fading)([["a"] * 300])


def test_natural_unit() -> None:
    assert Categories().natural_time(7) == pytest.approx(np.log(14) / 2)
    assert Categories(3).natural_time(7) == pytest.approx(np.log(21) / 3)
    t = Categories((2, 3, 5)).natural_time(3)
    assert sum(q * np.exp(-q * t) for q in (2, 3, 5)) == pytest.approx(1)
    X = [[f"a{j}" for j in range(50)], [f"b{j}" for j in range(50)]]
    assert Heat(Categories())(X)[0, 1] == pytest.approx(np.exp(-1), rel=1e-3)


@pytest.mark.parametrize(
    "kernel",
    [
        Heat(Categories(), t=0.4),
        Heat(Categories((2, 3, 4)), t=0.4, normalized=False),
        Matern(Categories(4), nu=1.5, length_scale=0.8),
        Matern(Categories(), nu=0.7, length_scale=0.8, normalized=False),
    ],
    ids=repr,
)
def test_tensors(kernel) -> None:
    X = np.random.default_rng(3).integers(0, 2, size=(12, 3))
    K, gradient = kernel(X, eval_gradient=True)
    assert np.abs(kernel(torch.tensor(X)).numpy() - K).max() < 1e-14
    assert kernel(torch.tensor(X, dtype=torch.float32)).dtype == torch.float32
    name = kernel.continuous()[0]
    value = torch.tensor(getattr(kernel, name), dtype=torch.float64, requires_grad=True)
    moving = kernel.clone_with_theta(kernel.theta)
    setattr(moving, name, value)
    weights = torch.tensor(np.random.default_rng(4).normal(size=K.shape))
    (moving(torch.tensor(X)) * weights).sum().backward()
    expected = (gradient[:, :, 0] * weights.numpy()).sum() / getattr(kernel, name)
    assert float(value.grad) == pytest.approx(expected, rel=1e-9)
    with pytest.raises(TypeError, match="one library"):
        kernel(torch.tensor(X), X)


def test_renaming_labels_and_moving_columns_changes_nothing() -> None:
    rng = np.random.default_rng(5)
    space = Categories()
    X = space.sample(30, rng)
    for kernel in (Heat(space, t=0.3), Matern(space, nu=0.8)):
        assert np.abs(kernel(space.isometry(rng)(X)) - kernel(X)).max() < 1e-15
    check_kernel(Heat(space, t=0.3), X)


def test_scaled_to() -> None:
    X = np.random.default_rng(6).integers(0, 4, size=(60, 9)).astype(str)
    for kernel in (Heat(Categories()), Matern(Categories(), nu=1.5), Heat(Categories(4), t=1.0)):
        K = kernel.scaled_to(X, 0.3)(X)
        distinct = K[np.triu_indices(60, 1)]
        assert np.median(distinct) == pytest.approx(0.3, abs=1e-3)


def test_in_scikit_learn() -> None:
    rng = np.random.default_rng(7)
    X = rng.choice(["a", "b", "c"], size=(80, 3)).astype(object)
    y = (X[:, 0] == X[:, 1]).astype(int)
    assert SVC(kernel=Heat(Categories()), C=100).fit(X[:60], y[:60]).score(X[60:], y[60:]) > 0.8
    process = GaussianProcessClassifier(1.0 * Heat(Categories())).fit(X[:40], y[:40])
    assert process.score(X[:40], y[:40]) > 0.9
    assert not Heat(Categories()).requires_vector_input


def test_a_value() -> None:
    assert Categories(levels=[2, 3]) == Categories(levels=(2, 3)) == eval(repr(Categories((2, 3))))
    assert Categories() != Categories(2)
    assert len({Categories(), Categories(None), Categories(2), Categories(np.int64(2))}) == 2
    assert pickle.loads(pickle.dumps(Categories(3))) == Categories(3)
    # The same numbers in every process.
    assert Categories().check([["red"]])[0, 0] == RED


#: The number of the label "red".
RED = 1661846843727873.0
