"""Sums, products and powers: products with vectors, repr and gradients."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.gaussian_process.kernels import RBF, WhiteKernel

from mercer.kernels import Constant, Cosine, Gaussian, Heat, Linear, Matern, On, Spectrum, base
from mercer.spaces import Categories, Graph, Simplex, Sphere, Torus

X = np.random.default_rng(0).normal(size=(30, 4))
HEAT = Heat(Sphere(), t=0.3)


@pytest.mark.parametrize(
    "kernel",
    [
        HEAT + WhiteKernel(1.0),
        HEAT * Matern(Sphere(), nu=0.5),
        Matern(Sphere(), nu=0.5) ** 2,
        HEAT * RBF(2.0),
    ],
    ids=repr,
)
def test_matvec_knows_the_diagonal(kernel) -> None:
    v = np.arange(30.0)
    for Y in (None, X):
        np.testing.assert_allclose(kernel.matvec(X, Y, v), kernel(X) @ v, rtol=1e-13)
        found = kernel.weighted_sum(X, Y, np.outer(v, v))
        np.testing.assert_allclose(found, v @ kernel(X) @ v, rtol=1e-13)


def test_matvec_of_frames_and_sparse_formats() -> None:
    kernel, v = HEAT * Matern(Sphere(), nu=0.5), np.arange(30.0)
    for rows in (pd.DataFrame(X), sparse.coo_matrix(X)):
        for other in (None, rows):
            np.testing.assert_allclose(kernel.matvec(rows, other, v), kernel(X) @ v, rtol=1e-12)


@pytest.mark.parametrize(
    "kernel",
    [
        (HEAT**2) ** 3,
        HEAT * (WhiteKernel(1) + RBF(1.0)),
        Constant(2.0, "fixed") * HEAT,
        Constant(2.0) * Constant(3.0),
        Constant(2.0) + Constant(3.0),
        (HEAT + 1.0) ** 2 * 3.0,
    ],
)
def test_repr_is_the_kernel(kernel) -> None:
    again = eval(repr(kernel))
    np.testing.assert_array_equal(again(X), kernel(X))
    np.testing.assert_array_equal(again.theta, kernel.theta)


def test_gradient_of_a_constant_is_a_copy() -> None:
    K, gradient = Constant(2.0)(X, eval_gradient=True)
    K += 1
    assert (gradient == 2).all()


LABELS = np.array(list("abcab" * 6)).reshape(-1, 1)
STRINGS = ["ACGTA", "GGACC", "TTACG"]
CHAIN = np.diag(np.ones(3), 1) + np.diag(np.ones(3), -1)


MULTIPLES = [
    (Gaussian(), X),
    (Linear(), X.astype(np.float32)),
    (Cosine(), sparse.csr_matrix(np.abs(X))),
    (Matern(Simplex(), nu=0.5), np.abs(X)),
    (Heat(Categories()), LABELS),
    (Heat(Graph(CHAIN), t=1.0), np.arange(4)),
    (Spectrum(2), STRINGS),
    (HEAT * Gaussian() + 1.0, X),
    (3 * (HEAT * 0.5), X),
    (HEAT * RBF(2.0), X),
]


def named(value) -> str:
    return repr(value) if hasattr(value, "theta") else type(value).__name__


@pytest.mark.parametrize(("kernel", "points"), MULTIPLES, ids=named)
def test_multiples_are_the_matrix_times_a_number(kernel, points) -> None:
    few = points[:3]
    for factor in (0.3, 7.0):
        for pair in ((points,), (few, points)):
            K = kernel(*pair)
            for scaled in (kernel.multiple(factor, *pair), (factor * kernel)(*pair)):
                assert scaled.dtype == K.dtype
                np.testing.assert_allclose(scaled, factor * K, rtol=4 * np.finfo(K.dtype).eps)


@pytest.mark.parametrize(("kernel", "points"), MULTIPLES, ids=named)
def test_multiples_added_to_a_matrix(kernel, points) -> None:
    few, eps = points[:3], np.finfo(kernel(points[:3]).dtype).eps
    for pair in ((points,), (few, points)):
        K = kernel(*pair)
        M = np.arange(K.size, dtype=K.dtype).reshape(K.shape) % 7
        M = M + M.T if len(pair) == 1 else M
        for factor in (0.3, 1.0, 7.0):
            found = kernel.multiple(factor, *pair, plus=M.copy())
            assert found.dtype == K.dtype
            np.testing.assert_allclose(found, factor * K + M, rtol=8 * eps, atol=8 * eps)


def test_sums_keep_the_higher_precision() -> None:
    """Also if the second kernel has rows in single precision, and computes in double."""
    low = X.astype(np.float32)
    table = pd.DataFrame({"a": X[:, 0], "b": low[:, 0]})
    for second in (Gaussian(), Heat(Torus())):
        kernel = On(["a"], Gaussian()) + On(["b"], second, prepare=None)
        expected = Gaussian()(X[:, :1]) + second(low[:, :1])
        assert kernel(table).dtype == np.float64
        np.testing.assert_allclose(kernel(table), expected, rtol=1e-14)


def test_multiples_that_overflow_are_refused() -> None:
    half = Constant(1e308, "fixed")
    sums = (half + 1e298 * Linear(), 1e298 * Spectrum(1) + half, half * HEAT + half + HEAT)
    for kernel in (1e300 * Linear(), 1e300 * Spectrum(1), 1e200 * (1e200 * HEAT), *sums):
        points = ["A" * 10**5] if "Spectrum" in repr(kernel) else 1e5 * X
        with pytest.raises(ValueError, match="overflow; rescale the rows, or take smaller factors"):
            kernel(points)


@pytest.mark.parametrize(("first", "third"), [(1e-300, 1e300), (1e300, 1e-300)])
def test_numbers_in_front_of_a_kernel_are_multiplied_first(first: float, third: float) -> None:
    kernel, G = first * (1e300 * (third * HEAT)), np.ones((len(X), len(X)))
    K, slopes = HEAT(X, eval_gradient=True)
    np.testing.assert_allclose(kernel(X) / 1e300, K, rtol=1e-14)
    np.testing.assert_allclose(kernel(X[:3], X) / 1e300, K[:3], rtol=1e-12)
    np.testing.assert_allclose(kernel.diag(X) / 1e300, np.diag(K), rtol=1e-14)
    np.testing.assert_allclose(kernel.matvec(X, None, G[0]) / 1e300, K @ G[0], rtol=1e-12)
    np.testing.assert_allclose(kernel.weighted_sum(X, None, G) / 1e300, K.sum(), rtol=1e-12)
    value, gradient = kernel(X, eval_gradient=True)
    np.testing.assert_allclose(value / 1e300, K, rtol=1e-14)
    expected = np.concatenate([np.stack([K] * 3, axis=2), slopes], axis=2)
    np.testing.assert_allclose(gradient / 1e300, expected, rtol=1e-12)
    assert [weight for weight, _ in kernel.terms()] == pytest.approx([1e300])
    large = 1e300 * kernel
    for values in (large, large.diag, lambda X: large.matvec(X, None, G[0])):
        with pytest.raises(ValueError, match="overflow; rescale the rows, or take smaller factors"):
            values(X)


@pytest.mark.parametrize("kernel", [RBF(2.0) + Gaussian(), Gaussian() + WhiteKernel(0.5)], ids=repr)
def test_tensors_in_kernels_of_scikit_learn(kernel) -> None:
    import torch

    rows, v = torch.as_tensor(X), torch.arange(30.0, dtype=torch.float64)
    value = torch.tensor(2.0, dtype=torch.float64, requires_grad=True)
    whole, K = Constant(value) * kernel, kernel(X)
    for found, expected in (
        (whole(rows), 2 * K),
        (whole(rows[:3], rows), 2 * kernel(X[:3], X)),
        (whole.diag(rows), 2 * np.diag(K)),
        (whole.matvec(rows, None, v), 2 * K @ v.numpy()),
        (whole.weighted_sum(rows, None, torch.outer(v, v)), 2 * v.numpy() @ K @ v.numpy()),
    ):
        np.testing.assert_allclose(found.detach(), expected, rtol=1e-12)
        (slope,) = torch.autograd.grad(found.sum(), value)
        assert float(slope) == pytest.approx(expected.sum() / 2)
    with pytest.raises(TypeError, match="of scikit-learn has no derivatives with respect to rows"):
        whole(rows.clone().requires_grad_())
    for values in (whole, whole.diag, lambda X: whole.matvec(X, None, v.numpy())):
        with pytest.raises(TypeError, match="requires a gradient, but the rows are not dense tensors"):
            values(X)


def test_a_factor_may_have_one_element() -> None:
    import torch

    X, p = torch.ones((2, 3), dtype=torch.float64), torch.nn.Parameter(torch.ones(1))
    found = (p * Gaussian() + p)(X).sum()
    assert float(found.detach()) == 8
    assert torch.autograd.grad(found, p)[0].shape == (1,)
    with pytest.raises(TypeError, match="not with Parameter"):
        torch.nn.Parameter(torch.ones(2)) * Gaussian()


def test_labels_of_products_have_brackets() -> None:
    assert ((1 + Linear()) * (1 + Gaussian())).label == "(1.0 + Linear()) * (1.0 + Gaussian())"


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support")
@pytest.mark.parametrize("layout", ["sparse_coo", "sparse_csr"])
def test_sparse_tensors_in_blocks(layout: str, monkeypatch) -> None:
    import torch

    monkeypatch.setattr(base, "BLOCK", 60)
    rng = np.random.default_rng(7)
    X = rng.poisson(0.7, size=(12, 6)) + np.eye(12, 6)
    rows = torch.as_tensor(X).to_sparse(layout=getattr(torch, layout))
    kernel, G = Heat(Sphere()) * Gaussian(3.0), rng.normal(size=(12, 12))
    expected = kernel(X)
    found = kernel.matvec(rows, None, torch.as_tensor(G[:, 0]))
    np.testing.assert_allclose(found, expected @ G[:, 0], atol=1e-12)
    for weights in (G, torch.as_tensor(G)):
        assert abs(float(kernel.weighted_sum(rows, None, weights)) - (expected * G).sum()) < 1e-12
        assert abs(float(kernel.weighted_sum(X, None, weights)) - (expected * G).sum()) < 1e-12
    with pytest.raises(TypeError, match="toarray"):
        kernel.weighted_sum(X, None, sparse.csr_matrix(G))


def test_the_sum_of_a_list() -> None:
    assert sum([Gaussian(), Linear(), Cosine()]) == Gaussian() + Linear() + Cosine()
    with pytest.raises(ValueError, match="positive"):
        Gaussian() + 0


class Kept(base.Kernel):
    """A kernel that returns the same matrix each time."""

    def __init__(self) -> None:
        self.matrix = np.ones((30, 30))

    def __call__(self, X, Y=None, eval_gradient=False):
        return self.matrix

    def diag(self, X):
        return np.ones(len(X))


def test_a_matrix_that_a_kernel_keeps_is_not_overwritten() -> None:
    kernel = Kept()
    for sum_ in (kernel + Constant(1.0), 1.0 * kernel + Constant(1.0), (kernel + kernel) * 1.0):
        np.testing.assert_array_equal(sum_(X), 2.0)
        np.testing.assert_array_equal(kernel.matrix, 1.0)


def test_multiples_of_sums() -> None:
    pair = HEAT + Linear()
    for factor in (1.0, 2.5):
        np.testing.assert_allclose(
            (factor * pair)(X), factor * (HEAT(X) + Linear()(X)), rtol=1e-14, atol=1e-14
        )
        np.testing.assert_allclose(
            pair.multiple(factor, X, X[:3]), factor * pair(X, X[:3]), rtol=1e-14, atol=1e-14
        )
