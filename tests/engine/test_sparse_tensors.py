"""Sparse tensors against SciPy's matrices: the same numbers and the same refusals, as tensors."""

import numpy as np
import pytest
import torch
from scipy import sparse

from mercer.engine import base, sparse_tensors
from mercer.engine.cuda import CudaEngine
from mercer.gp import SphericalGPRegressor
from mercer.kernels import ArcCosine, Gaussian, Heat, Linear, Matern
from mercer.spaces import Hyperbolic, Simplex, Sphere
from tests.helpers import device
from tests.helpers.far import DEVICE

KERNELS = [Heat(Simplex()), Matern(Sphere(), nu=2.5), ArcCosine(), Linear(), Gaussian()]
pytestmark = pytest.mark.filterwarnings("ignore:Sparse:UserWarning")


def counts(m: int, seed: int = 0, n: int = 300) -> sparse.csr_matrix:
    dense = np.random.default_rng(seed).poisson(0.02, size=(m, n)).astype(float)
    dense[:, 0] += 1.0
    return sparse.csr_matrix(dense)


def tensor(X: sparse.csr_matrix, dtype=torch.float64) -> torch.Tensor:
    parts = (X.indptr.astype(np.int64), X.indices.astype(np.int64), X.data)
    return torch.sparse_csr_tensor(*parts, size=X.shape, dtype=dtype, device=DEVICE)


@pytest.fixture(params=["whole", "tiles"])
def way(request, monkeypatch) -> None:
    """Both ways: whole matrices in main memory, and dense tiles on a device."""
    monkeypatch.setattr(f"{__name__}.DEVICE", "cpu" if request.param == "whole" else DEVICE)
    monkeypatch.setattr(sparse_tensors, "_MOST", 32)


def close(found, expected, tolerance: float = 1e-13) -> None:
    assert isinstance(found, torch.Tensor)
    assert found.device.type == DEVICE
    assert found.layout == torch.strided
    scale = np.abs(expected).max()
    np.testing.assert_allclose(found.cpu().numpy(), expected, rtol=0, atol=tolerance * scale)


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_values(kernel) -> None:
    X, Y = counts(70), counts(45, 1)
    X = X[[*range(9), 40, *range(10, 70)]]
    Y = sparse.vstack([Y[:3], X[5], Y[4:]]).tocsr()
    A, B = tensor(X), tensor(Y)
    v = np.random.default_rng(2).normal(size=(45, 2))
    close(kernel(A), kernel(X))
    close(kernel(A, B), kernel(X, Y))
    close(kernel(A, torch.as_tensor(Y.toarray(), device=DEVICE)), kernel(X, Y))
    close(kernel(torch.as_tensor(X.toarray(), device=DEVICE), B), kernel(X, Y))
    close(kernel.diag(A), kernel.diag(X))
    close(kernel.matvec(A, B, torch.as_tensor(v, device=DEVICE)), kernel(X, Y) @ v)
    close(kernel.matvec(A, None, torch.as_tensor(v[:1].repeat(70, 0)[:, 0])), kernel(X).sum(1) * v[0, 0])
    K = kernel(A).cpu().numpy()
    np.testing.assert_array_equal(K, K.T)
    if kernel.is_zonal():  # equal rows, whatever the rounding of their product
        assert K[9, 40] == K[9, 9]


@pytest.mark.usefixtures("way")
def test_single_precision_and_other_layouts() -> None:
    X, kernel = counts(50), Heat(Simplex())
    single = kernel(tensor(X, torch.float32))
    assert single.dtype == torch.float32
    close(single, kernel(X), 2e-6)
    product = kernel.matvec(tensor(X, torch.float32), None, torch.ones(50, device=DEVICE))
    assert product.dtype == torch.float32
    close(product, kernel(X).sum(1), 2e-6)
    close(kernel(tensor(X).to_sparse_coo()), kernel(X))
    close(kernel(tensor(X, torch.int64)), kernel(X))


def test_refused_as_in_main_memory() -> None:
    kernel = Heat(Simplex())
    for value, message in ((np.nan, "NaN or infinity"), (-1.0, "negative entries")):
        bad = counts(20)
        bad.data[bad.indptr[6]] = value
        with pytest.raises(
            ValueError, match=f"row 6 of X {'contains' if value != value else 'has'} {message}"
        ):
            kernel(tensor(bad))
    empty = sparse.vstack([counts(3), sparse.csr_matrix((1, 300))]).tocsr()
    with pytest.raises(ValueError, match="row 3 of Y is all zeros"):
        kernel(tensor(counts(3)), tensor(empty))
    broken = torch.sparse_csr_tensor([0, 1, 2], [1, 9], [1.0, 2.0], size=(2, 3), check_invariants=False)
    with pytest.raises(ValueError, match="X is a broken sparse matrix"):
        kernel(broken)
    with pytest.raises(ValueError, match="X has 300 columns, Y has 200"):
        kernel(tensor(counts(3)), tensor(counts(3, n=200)))
    with pytest.raises(TypeError, match="X is sparse; points of Hyperbolic"):
        Heat(Hyperbolic(), t=0.5)(tensor(counts(3)))
    with pytest.raises(TypeError, match="arrays of one library"):
        kernel(tensor(counts(3)), counts(3))
    dense = torch.ones((2, 300), dtype=torch.float64, device=DEVICE, requires_grad=True)
    with pytest.raises(TypeError, match="detach"):
        kernel(tensor(counts(3)), dense)


def test_elsewhere_sparse_tensors_are_matrices() -> None:
    X = counts(60)
    y = np.asarray(X[:, 1:40].sum(axis=1)).ravel()
    expected = SphericalGPRegressor(Heat(Simplex()), optimize=False).fit(X, y).predict(X)
    model = SphericalGPRegressor(Heat(Simplex()), optimize=False).fit(tensor(X), y)
    np.testing.assert_allclose(model.predict(X), expected)
    assert Heat(Simplex()).scaled_to(tensor(X)) == Heat(Simplex()).scaled_to(X)


def test_only_tiles_are_dense(monkeypatch) -> None:
    X, made = counts(400, n=2000), []
    dense = sparse_tensors._Rows.dense

    def watched(self, rows: slice) -> torch.Tensor:
        made.append(rows.stop - rows.start)
        return dense(self, rows)

    monkeypatch.setattr(sparse_tensors._Rows, "dense", watched)
    monkeypatch.setattr(sparse_tensors, "_NUMBERS", 2000 * 50)
    ones = torch.ones(400, dtype=torch.float64, device=DEVICE)
    close(Heat(Simplex()).matvec(tensor(X), None, ones), Heat(Simplex())(X).sum(1))
    assert max(made) < 100
    assert len(made) >= 4 * 5 / 2


def test_tiles_of_fused_kernels(monkeypatch) -> None:
    """As on a device: in Triton's interpreter, where there is none."""
    monkeypatch.setattr(base, "_ENGINES", list(base._ENGINES))
    base.register_engine(CudaEngine(device.DEVICE))
    monkeypatch.setattr(f"{__name__}.DEVICE", device.DEVICE)
    monkeypatch.setattr(sparse_tensors, "is_far", lambda home: True)
    monkeypatch.setattr(sparse_tensors, "_MOST", 16)
    kernel, X = Heat(Simplex()), counts(37)
    X = X[[*range(5), 30, 31, 30, *range(8, 37)]]
    close(kernel(tensor(X)), kernel(X), 1e-12)
    close(kernel(tensor(X), tensor(X[20:32])), kernel(X, X[20:32]), 1e-12)
    ones = torch.ones(37, dtype=torch.float64, device=DEVICE)
    close(kernel.matvec(tensor(X), None, ones), kernel(X).sum(1), 1e-12)
