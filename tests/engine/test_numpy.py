"""The engine: tiles, threads, precision, memory."""

import threading
import tracemalloc

import numpy as np
import pytest
from scipy import sparse
from threadpoolctl import threadpool_info, threadpool_limits

from mercer._arrays import aligned
from mercer.engine import GramOptions, engine_for
from mercer.kernels import ArcCosine, Cosine, Gaussian, Heat, Linear
from mercer.profiles import PowerProfile
from mercer.spaces import Simplex, Sphere


def points(m: int, n: int = 20, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(m, n))


@pytest.mark.parametrize("m", [1, 2, 383, 384, 385, 800, 1200])
def test_tile_edges(m: int) -> None:
    X = points(m)
    unit = X / np.linalg.norm(X, axis=1, keepdims=True)
    K = Heat(Sphere())(X)
    expected = unit @ unit.T
    Heat(Sphere()).profile(20).apply(expected)
    np.testing.assert_allclose(K, expected, atol=1e-13)
    np.testing.assert_array_equal(K, K.T)
    np.testing.assert_array_equal(np.diag(K), 1)


@pytest.mark.parametrize("n", [2, 3, 4, 13, 16, 17, 50, 128, 129])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(("m", "p"), [(131, 700), (35, 2001), (1200, 63), (1201, 64)])
def test_short_rows(m: int, p: int, n: int, dtype: type) -> None:
    X, Y = points(m, n).astype(dtype), points(p, n, seed=1).astype(dtype)
    kernel, tolerance = Heat(Sphere(), t=0.4), 1e-14 if dtype == np.float64 else 1e-6
    left, right = (Z.astype(float) / np.linalg.norm(Z.astype(float), axis=1)[:, None] for Z in (X, Y))
    expected = left @ right.T
    kernel.profile(n).look_up(expected)
    np.testing.assert_allclose(kernel(X, Y), expected, atol=tolerance)
    np.testing.assert_allclose(3.0 * kernel(X, Y), (3.0 * kernel)(X, Y), atol=10 * tolerance)
    both = kernel(np.vstack([Y, X]))
    np.testing.assert_array_equal(both, both.T)
    np.testing.assert_allclose(both[p:, :p], expected, atol=tolerance)
    np.testing.assert_allclose(kernel.matvec(X, Y, np.ones(p)), expected.sum(axis=1), atol=p * tolerance)


@pytest.mark.parametrize(("m", "p"), [(1, 900), (900, 1), (500, 777), (777, 500)])
@pytest.mark.parametrize("left", [np.asarray, sparse.csr_matrix])
@pytest.mark.parametrize("right", [np.asarray, sparse.csr_matrix])
def test_rectangles(m: int, p: int, left, right) -> None:
    X, Y = np.abs(points(m)), np.abs(points(p, seed=1))
    kernel = Heat(Simplex(), t_star=0.4)
    expected = kernel(np.vstack([X, Y]))[:m, m:]
    np.testing.assert_allclose(kernel(left(X), right(Y)), expected, atol=1e-12)
    v = points(p, 3)
    np.testing.assert_allclose(kernel.matvec(left(X), right(Y), v), expected @ v, atol=1e-10)


def test_sparse_rows_of_many_equal_numbers_in_single_precision() -> None:
    # Added one by one in single precision, they would be rounded alike.
    X = np.full((3, 20_000), 0.1, dtype=np.float32)
    X[1, ::2] *= 3
    expected = Cosine()(X.astype(float))
    X = sparse.csr_matrix(X)
    for K in (Cosine()(X), Cosine()(X, X.copy())):
        assert K.dtype == np.float32
        np.testing.assert_allclose(K, expected, rtol=0, atol=5e-7)


def test_sparse_symmetric_product_is_the_product() -> None:
    X = sparse.random(500, 3000, density=0.01, random_state=1, format="csr")
    K = engine_for(X).gram(X, X, PowerProfile(), GramOptions(symmetric=True))
    np.testing.assert_allclose(K, (X @ X.T).toarray(), atol=1e-12)
    shuffled = X.copy()
    for i in range(500):  # rows whose indices are not sorted
        part = slice(shuffled.indptr[i], shuffled.indptr[i + 1])
        shuffled.indices[part] = shuffled.indices[part][::-1].copy()
        shuffled.data[part] = shuffled.data[part][::-1].copy()
    shuffled.has_sorted_indices = False
    np.testing.assert_allclose(Linear()(shuffled), K, atol=1e-12)


def test_single_precision() -> None:
    X = points(700)
    for kernel in (Heat(Sphere()), Heat(Sphere(), t_star=0.05), Gaussian(4.0), ArcCosine()):
        K = kernel(X.astype(np.float32))
        assert K.dtype == np.float32
        np.testing.assert_allclose(K, kernel(X), rtol=2e-5, atol=2e-6)
        assert kernel.diag(X.astype(np.float32)).dtype == np.float32
        assert kernel.matvec(X.astype(np.float32), None, np.ones(700, np.float32)).dtype == np.float32
    K, gradient = Heat(Sphere())(X.astype(np.float32), eval_gradient=True)
    assert gradient.dtype == np.float32


def test_not_contiguous() -> None:
    X = points(600, 40)
    for view in (X[::2, ::3], np.asfortranarray(X), X[:, ::-1]):
        np.testing.assert_allclose(Heat(Sphere())(view), Heat(Sphere())(view.copy()), atol=1e-13)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_rows_begin_with_lines_of_the_cache(dtype: type) -> None:
    for rows, columns in [(4, 1), (3, 2001), (16, 64)]:
        room = aligned(rows, columns, dtype)
        assert len(room) == rows
        assert room.shape[1] >= columns
        assert room.flags.c_contiguous
        assert not room.any()
        assert {row.ctypes.data % 64 for row in room} == {0}


def test_memory_of_matvec() -> None:
    X = points(20_000, 50)
    kernel, v = Heat(Sphere()), np.ones(20_000)
    kernel.matvec(X[:500], None, v[:500])
    tracemalloc.start()
    kernel.matvec(X, None, v)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 60e6  # the Gram matrix would be 3.2 GB


def test_memory_of_gram() -> None:
    X = points(3000, 50)
    Heat(Sphere())(X[:500])
    tracemalloc.start()
    K = Heat(Sphere())(X)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1.15 * K.nbytes


def test_sparse_rows_are_never_densified() -> None:
    columns = np.random.default_rng(0).integers(500_000, size=(400, 50))
    X = sparse.csr_matrix((np.ones(columns.size), columns.ravel(), np.arange(401) * 50), (400, 500_000))
    Heat(Simplex())(X[:5])
    tracemalloc.start()
    Heat(Simplex())(X)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 30e6  # dense rows would be 1.6 GB


def test_threads_agree_and_blas_gets_its_threads_back() -> None:
    before = [lib["num_threads"] for lib in threadpool_info() if lib["user_api"] == "blas"]
    X = points(900)
    expected = Heat(Sphere())(X)
    with threadpool_limits(1):
        np.testing.assert_array_equal(Heat(Sphere())(X), expected)
    results: list[np.ndarray] = []
    workers = [threading.Thread(target=lambda: results.append(Heat(Sphere())(X))) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert len(results) == 4
    for K in results:
        np.testing.assert_array_equal(K, expected)
    after = [lib["num_threads"] for lib in threadpool_info() if lib["user_api"] == "blas"]
    assert after == before


def test_an_error_in_a_tile_reaches_the_caller() -> None:
    class Failing(PowerProfile):
        def apply(self, tile):
            raise RuntimeError("tile")

    X = points(1500)
    with pytest.raises(RuntimeError, match="tile"):
        engine_for(X).gram(X, X, Failing())
    assert Heat(Sphere())(X).shape == (1500, 1500)
