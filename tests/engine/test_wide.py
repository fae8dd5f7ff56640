"""Sparse rows of very many columns: work and memory are in the number of non-zeros."""

import time
import tracemalloc

import numpy as np
import pytest
from scipy import sparse
from sklearn.preprocessing import StandardScaler

from mercer.compiled.columns import number_columns
from mercer.kernels import (
    ArcCosine,
    AxialHeat,
    Cosine,
    Gaussian,
    Heat,
    Linear,
    Matern,
    Parametrix,
    Polynomial,
    PosteriorHeat,
    Spectral,
    TfIdf,
)
from mercer.selection import KernelSearchCV
from mercer.spaces import Simplex, Sphere

WIDE, NARROW, ROWS, EACH = 2_000_000_000, 400, 40, 25


def matrices(seed: int, wide: int = WIDE) -> tuple[sparse.csr_matrix, sparse.csr_matrix]:
    """Rows with few columns, and the same with the columns scattered over very many."""
    rng = np.random.default_rng(seed)
    columns = np.sort([rng.choice(NARROW, EACH, replace=False) for _ in range(ROWS)], axis=1).ravel()
    data = rng.integers(1, 6, size=columns.size).astype(float)
    starts = np.arange(0, columns.size + 1, EACH)
    places = np.linspace(0, wide - 1, NARROW).astype(np.int64)
    return (
        sparse.csr_matrix((data, columns, starts), shape=(ROWS, NARROW)),
        sparse.csr_matrix((data, places[columns], starts), shape=(ROWS, wide)),
    )


(A, X), (B, Y) = matrices(0), matrices(1)
V = np.random.default_rng(2).normal(size=ROWS)

#: Kernels that do not ask for the number of columns.
SAME = [
    Gaussian(5.0),
    Linear(),
    Polynomial(),
    Cosine(),
    ArcCosine(1, depth=2),
    ArcCosine(0, depth=3),
    Parametrix(Simplex()),
    TfIdf(),
    TfIdf(sublinear=True),
    Gaussian(9.0, column_scales="std"),
]
#: Kernels whose law depends on it.
LAWS = [
    Heat(Simplex()),
    Heat(Sphere(), t_star=0.9),
    Matern(Simplex()),
    AxialHeat(Sphere()),
    Spectral(Sphere(), [1, 1, 1]),
]


@pytest.mark.parametrize("kernel", SAME, ids=repr)
def test_the_same_as_with_few_columns(kernel) -> None:
    narrow, wide = kernel.learnt_from(A), kernel.learnt_from(X)
    np.testing.assert_allclose(wide(X), narrow(A), rtol=1e-13)
    np.testing.assert_allclose(wide(X, Y), narrow(A, B), rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(wide.diag(X), narrow.diag(A), rtol=1e-13)
    np.testing.assert_allclose(wide.matvec(X, Y, V), narrow.matvec(A, B, V), rtol=1e-11)
    single = wide(X.astype(np.float32))
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, narrow(A), rtol=2e-5)
    for left, right in zip(wide(X, eval_gradient=True), narrow(A, eval_gradient=True), strict=True):
        np.testing.assert_allclose(left, right, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("kernel", LAWS, ids=repr)
def test_the_law_of_all_columns(kernel) -> None:
    L, R = kernel.space.embed(A, B)
    expected = (L @ R.T).toarray()
    kernel.profile(WIDE).apply(expected)
    np.testing.assert_allclose(kernel(X, Y), expected, atol=1e-12)
    assert kernel(X, eval_gradient=True)[1].shape[:2] == (ROWS, ROWS)
    np.testing.assert_allclose(kernel.matvec(X, Y, V), expected @ V, atol=1e-11)


@pytest.mark.parametrize("kernel", [*SAME, *LAWS, PosteriorHeat()], ids=repr)
def test_memory_and_time(kernel) -> None:
    def work() -> None:
        learnt = kernel.learnt_from(X)
        learnt(X), learnt(X, Y), learnt.diag(X), learnt.matvec(X, Y, V)
        learnt(X, eval_gradient=True)

    work()  # compile
    begin = time.perf_counter()
    tracemalloc.start()
    try:
        work()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 3e6
    assert time.perf_counter() - begin < 20  # it was minutes


@pytest.mark.parametrize("kernel", [Heat(Simplex()), Matern(Sphere()), Gaussian(), TfIdf()], ids=repr)
def test_scales_from_the_data(kernel) -> None:
    K = kernel.scaled_to(X, 0.3)(X)
    if kernel.range_parameter():
        assert np.median(K[np.triu_indices(ROWS, 1)]) == pytest.approx(0.3, abs=1e-3)


def test_search() -> None:
    y = np.arange(ROWS) % 2
    kernels = [Heat(Simplex()), Gaussian(5.0), Gaussian(9.0, column_scales="std"), TfIdf()]
    search = KernelSearchCV(kernels, cv=3).fit(X, y)
    assert search.predict(Y).shape == (ROWS,)


def test_mixed_storage() -> None:
    X = matrices(0, wide=50_000)[1]
    dense = X[:5].toarray()
    for kernel in (Gaussian(5.0), ArcCosine(0, depth=3), TfIdf().learnt_from(X)):
        np.testing.assert_allclose(kernel(X, dense), kernel(X, X[:5]), rtol=1e-12)
        np.testing.assert_allclose(kernel(dense, X), kernel(X[:5], X), rtol=1e-12)


def test_numbers_of_columns_in_use_only() -> None:
    X = matrices(0, wide=50_000)[1]
    scales = Gaussian(column_scales="std").learnt_from(X).column_scales
    assert sparse.issparse(scales)
    everything = np.asarray(StandardScaler(with_mean=False).fit(X).scale_)
    dense = Gaussian(9.0, column_scales=everything)
    kept = Gaussian(9.0, column_scales=scales)
    np.testing.assert_allclose(kept(X), dense(X), rtol=1e-13)
    np.testing.assert_allclose(kept(X.toarray()), dense(X), rtol=1e-12)
    assert kept == Gaussian(9.0, column_scales=scales.copy())
    assert kept != dense
    assert repr(kept) == f"Gaussian(length_scale=9.0, column_scales=<{scales.nnz} numbers>)"
    with pytest.raises(ValueError, match="one per column"):
        Gaussian(column_scales=sparse.csr_array(np.ones((2, 3))))(np.ones((2, 3)))
    with pytest.raises(ValueError, match="has 50000 numbers, but rows have 3 columns"):
        kept(np.ones((2, 3)))


def test_words_that_were_never_seen_have_the_largest_weight() -> None:
    X = matrices(0, wide=50_000)[1]
    seen = sparse.csr_matrix(X[:10])
    full = TfIdf(weights=np.log((1 + 10) / (1 + np.diff(seen.tocsc().indptr))) + 1)
    np.testing.assert_allclose(TfIdf().learnt_from(seen)(X), full(X), rtol=1e-13)


@pytest.mark.parametrize("n", [10**7, WIDE])
def test_laws_too_rough_for_so_many_columns_are_refused_at_once(n: int) -> None:
    begin = time.perf_counter()
    with pytest.raises(ValueError, match=r"too rough.*longer time.*fewer columns"):
        Heat(Simplex(), t_star=0.02).profile(n)
    assert time.perf_counter() - begin < 3  # it took half a minute
    assert Heat(Simplex()).profile(n).error < 1e-12


def test_samples_of_very_many_columns_are_refused() -> None:
    with pytest.raises(ValueError, match=r"samples of all 2000000000 columns.*longer time"):
        PosteriorHeat(method="samples")(X)


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize("size", [0, 1, 5000, 300_000])
def test_columns_are_numbered_one_to_one(size: int, dtype: type) -> None:
    # Multiples of a power of two would fall together in a bad table, and many make it grow.
    rng = np.random.default_rng(size)
    indices = (rng.integers(0, 2**15 if size < 10_000 else 2**18, size) * 2**12).astype(dtype)
    places = np.full(size, -1, dtype=dtype)
    used = number_columns(indices, places)
    columns, first = np.unique(indices, return_index=True)
    assert used == len(columns)
    np.testing.assert_array_equal(np.sort(places[first]), np.arange(used))
    back = np.empty(used, dtype=dtype)
    back[places] = indices
    np.testing.assert_array_equal(back[places], indices)
