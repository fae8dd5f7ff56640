"""Equal points are recognised: rounding does not tell them apart, however steep the law."""

import copy

import array_api_strict as strict
import numpy as np
import pytest
import torch
from scipy import sparse

from mercer.engine import engine_for
from mercer.engine.equal import equal_or_opposite_rows, equal_rows, row_keys
from mercer.kernels import ArcCosine, Gaussian, Heat, Matern, Parametrix
from mercer.selection.gram_cache import Grams
from mercer.spaces import Hyperbolic, Simplex, Sphere
from tests.helpers.catalogue import KERNELS

DEEP = [
    ArcCosine(order, depth, normalized=normalized)
    for order in (0, 1, 2)
    for depth in (1, 2, 3, 4, 7)
    for normalized in (True, False)
    if normalized or order < 2 or depth < 4  # |x|^128 overflows in single precision
]
STEEP = [
    *DEEP,
    Matern(Sphere(), nu=0.05, length_scale=1.0),
    Heat(Sphere(), t=1e-9),
    Heat(Simplex(), t=1e-6),
    Parametrix(Sphere(), t=1e-9),
    Gaussian(length_scale=1e-3),
]


def points(kernel):
    return kernel.sample(40, np.random.default_rng(0))


def rows(count: int = 60, n: int = 33) -> np.ndarray:
    return np.random.default_rng(0).gamma(1.0, size=(count, n)) + 0.1


def assert_equal_points(K, diagonal) -> None:
    K, diagonal = np.asarray(K), np.asarray(diagonal)
    tolerance = 1e-5 if K.dtype == np.float32 else 1e-12
    np.testing.assert_allclose(np.diagonal(K), diagonal, rtol=tolerance)


@pytest.mark.parametrize("kernel", [*KERNELS, *STEEP], ids=repr)
def test_equal_points_of_two_arrays(kernel) -> None:
    X = points(kernel)
    assert_equal_points(kernel(X, copy.deepcopy(X)), kernel.diag(X))


@pytest.mark.parametrize("kernel", STEEP, ids=repr)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("n", [2, 33, 1500])
def test_arrays_of_all_kinds(kernel, dtype, n: int) -> None:
    X = rows(n=n).astype(dtype)
    S, m = sparse.csr_matrix(X), len(X)
    own = kernel.diag(X)
    for left, right in ((X, X.copy()), (S, S.copy()), (S, X), (X, S), (X[:, :], S.tocsc())):
        assert_equal_points(kernel(left, right), own)
    twice = np.vstack([X, X])
    assert_equal_points(kernel(twice)[:m, m:], own)
    assert_equal_points(kernel(sparse.csr_matrix(twice))[:m, m:], own)
    tensor = torch.as_tensor(X)
    assert_equal_points(kernel(tensor, tensor.clone()), kernel.diag(tensor))
    assert_equal_points(kernel.matvec(X, X.copy(), np.eye(m, dtype=dtype)), own)


@pytest.mark.parametrize("kernel", [ArcCosine(0, depth=4), Matern(Hyperbolic("ball"), 0.5, 1.0)])
def test_array_api(kernel) -> None:
    X = rows(n=4) / 20
    assert_equal_points(kernel(strict.asarray(X), strict.asarray(X.copy())), kernel.diag(X))


def test_points_that_are_equal_once_embedded() -> None:
    X = np.random.default_rng(0).integers(1, 9, size=(50, 7)).astype(float)
    assert_equal_points(ArcCosine(0, depth=4)(X, 4 * X), np.ones(50))
    assert_equal_points(ArcCosine(1, depth=4)(X, 4 * X), 4 * ArcCosine(1, depth=4).diag(X))
    assert_equal_points(Heat(Simplex(), t=1e-9)(X, 3 * X), np.ones(50))


def test_single_and_double_precision_meet() -> None:
    X = rows().astype(np.float32)
    assert_equal_points(Gaussian(1e-3)(X, X.astype(float)), np.ones(60))


def test_only_equal_pairs_are_touched() -> None:
    X = rows(900)  # several tiles
    Y = np.vstack([rows(3)[::-1], X[::50], X[:1], X[:1] + np.eye(33)[:1] / 100])
    K = ArcCosine(0, depth=3)(X, Y)
    equal = (X[:, None] == Y[None]).all(axis=2)
    np.testing.assert_array_equal(K == 1, equal)
    theta = Sphere().distances(X, Y)
    for _ in range(3):
        s = 1 - theta / np.pi
        theta = np.arccos(s)
    np.testing.assert_allclose(K[~equal & (K < 0.99)], s[~equal & (K < 0.99)], rtol=1e-6)


def test_all_points_are_equal() -> None:
    X = np.repeat(rows(2), 700, axis=0)
    K, G = Heat(Simplex(), t=1e-6)(X, eval_gradient=True)
    np.testing.assert_array_equal(K, np.kron(np.eye(2), np.ones((700, 700))))
    np.testing.assert_allclose(G, 0, atol=1e-30)
    np.testing.assert_array_equal(ArcCosine(0, depth=4)(X[:600], X[600:])[:, :100], 1.0)


def test_gradients_at_equal_points() -> None:
    X = np.vstack([rows(5), rows(5)])
    for kernel in (
        Matern(Sphere(), nu=0.3, length_scale=0.5),
        Heat(Sphere(n=33), t=0.1, normalized=False),
    ):
        _, G = kernel(X, eval_gradient=True)
        np.testing.assert_allclose(
            G[np.arange(5), np.arange(5, 10)], G[np.arange(5), np.arange(5)], rtol=1e-12
        )


@pytest.mark.parametrize("kept", [0, 1])
def test_in_a_search(kept: int) -> None:
    X = np.vstack([rows(), rows()])
    for kernel in (ArcCosine(0, depth=4), Matern(Sphere(), nu=0.05, length_scale=1.0)):
        K = Grams(X, kept=kept)(kernel)
        np.testing.assert_array_equal(np.diagonal(K[:60, 60:]), 1.0)


def test_derivatives_pass_through_equal_points() -> None:
    x = torch.as_tensor(rows(3, 4))
    y = x.clone().requires_grad_()
    z = x.clone().requires_grad_()
    for kernel in (Heat(Sphere(), t=0.3), Gaussian()):
        # d^2 k / dx dy is not zero where x = y.
        first = torch.autograd.grad(kernel(y, z).sum(), y, create_graph=True)[0]
        assert float(torch.autograd.grad(first.sum(), z)[0].abs().sum()) > 1e-3


def test_keys_are_those_of_the_numbers() -> None:
    rng = np.random.default_rng(0)
    binary = (rng.random((20_000, 30)) < 0.5).astype(float)
    keys = row_keys(binary)
    assert len(np.unique(keys)) == len(np.unique(binary, axis=0))
    stored = sparse.csr_matrix(binary)
    stored.data[::7] = 0.0
    np.testing.assert_array_equal(row_keys(stored), row_keys(stored.toarray()))
    np.testing.assert_array_equal(keys, row_keys(binary.astype(np.float32)))
    np.testing.assert_array_equal(keys, row_keys(np.asfortranarray(binary) * 1))
    np.testing.assert_array_equal(row_keys(np.array([[0.0, 1.0]])), row_keys(np.array([[-0.0, 1.0]])))
    assert equal_rows(rng.normal(size=(1000, 3)), None, 1.0) is None
    assert equal_rows(rng.normal(size=(1000, 3)), rng.normal(size=(9, 3)), 1.0) is None


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_numbers_on_devices(dtype) -> None:
    # As on a GPU, where rows are numbered by keys that are not those of the CPU.
    from mercer.engine.autograd import row_numbers

    binary = (torch.rand(5000, 15, generator=torch.Generator().manual_seed(0)) < 0.5).to(dtype)
    left, right = row_numbers(binary, None)
    assert torch.equal(left, right)
    _, expected = torch.unique(binary, dim=0, return_inverse=True)
    pairs = torch.stack([left, expected])
    assert len(torch.unique(pairs, dim=1).T) == len(left.unique()) == len(expected.unique())
    zeros = torch.zeros(1, 3, dtype=dtype)
    assert row_numbers(zeros, -zeros) is not None
    assert row_numbers(zeros, zeros + 1) is None


@pytest.mark.parametrize(
    "kernel",
    [
        Heat(Simplex(), t=1e-8),
        Heat(Sphere(), t=1e-8),
        Matern(Simplex(), nu=0.3, length_scale=0.01),
        ArcCosine(0, depth=8, normalized=True),
        ArcCosine(0, depth=2),
        Parametrix(Sphere(), t=1e-9),
    ],
    ids=repr,
)
def test_order_in_memory_and_precision_do_not_matter(kernel) -> None:
    X = np.random.default_rng(1).gamma(1.0, size=(30, 33))
    single = X.astype(np.float32)
    value = kernel.diag(X[:1])[0]
    for first, second in (
        (np.asfortranarray(X), X),
        (np.asfortranarray(single), single),
        (single, single.astype(np.float64)),
        (single.astype(np.float64), np.asfortranarray(single)),
        (X[:, ::-1], np.ascontiguousarray(X[:, ::-1])),
        (torch.tensor(X).T.contiguous().T, torch.tensor(X)),
        (torch.tensor(single), torch.tensor(single).double()),
    ):
        np.testing.assert_allclose(np.diagonal(kernel(first, second)), value, rtol=1e-12)


def test_parts_have_the_columns_of_their_tile() -> None:
    rows = np.random.default_rng(0).integers(0, 3, size=(40, 2)).astype(float)
    equal = equal_rows(rows, None, 1.0)
    whole = equal.mask((40, 40))
    assert np.array_equal(whole > 0, (rows[:, None] == rows[None]).all(axis=2))
    found = 0
    for i in range(0, 40, 7):
        for j in range(0, 40, 3):
            tile = slice(i, min(i + 7, 40)), slice(j, min(j + 3, 40))
            part = equal.part(*tile)
            if part is None:
                assert not whole[tile].any()
                continue
            found += 1
            assert part.columns.min() >= 0
            assert part.columns.max() < whole[tile].shape[1]
            np.testing.assert_array_equal(part.mask(whole[tile].shape), whole[tile])
    assert 0 < found < 6 * 14


@pytest.mark.parametrize("n", [3, 40])
def test_equal_rows_next_to_a_row_of_zeros(n: int) -> None:
    X = np.random.default_rng(0).normal(size=(500, n))
    K = ArcCosine(order=1, normalized=False)(np.vstack([X, np.zeros(n)]), X)
    np.testing.assert_allclose(np.diagonal(K), (X * X).sum(axis=1), rtol=1e-13)
    assert not K[-1].any()
    rows = engine_for(X).unit_rows(np.vstack([X, 1e-200 * X[:3]]))
    np.testing.assert_array_equal(rows[:500], engine_for(X).unit_rows(X))
    np.testing.assert_allclose(rows[500:], rows[:3], rtol=1e-15)


def test_rows_that_differ_in_few_columns() -> None:
    X = np.tile(np.random.default_rng(0).normal(size=(6, 1, 100)), (1, 2, 1)).reshape(12, 100)
    X[1::2, 1:4] *= 1 + 1e-15
    assert equal_rows(X, None, 1.0) is None
    assert equal_or_opposite_rows(X, None, 1.0) is None
    known = equal_or_opposite_rows(X, np.vstack([-X[:4], X[4:8]]), 1.0)
    W = np.zeros((12, 8))
    known.write(slice(0, 12), slice(0, 8), W)
    expected = np.zeros((12, 8))
    expected[range(8), range(8)] = [-1.0] * 4 + [1.0] * 4
    np.testing.assert_array_equal(W, expected)
