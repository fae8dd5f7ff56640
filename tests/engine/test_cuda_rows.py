"""What is done once to every row on a device, against main memory."""

import numpy as np
import pytest
import torch

from mercer.engine import engine_for
from mercer.engine.fused import rows as fused_rows
from mercer.engine.fused.forms import form_of
from mercer.engine.fused.launch import Pair
from mercer.kernels import Heat
from mercer.profiles import PowerProfile
from mercer.spaces import Simplex, Sphere
from tests.helpers.device import points, tensor

pytestmark = pytest.mark.usefixtures("fused")


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_extent(dtype) -> None:
    engine, X = engine_for(tensor(np.eye(2))), points(None, 300, 5)
    X[7], X[3, 2] = 1e-30, -40.0
    A = tensor(X, dtype)
    expected = np.abs(np.asarray(A.cpu())).max(axis=1)
    assert engine.extent(A) == (True, expected.min(), 40.0)
    assert engine.extent(A.abs())[0] is False
    A[299] = 0.0
    assert engine.extent(A).flattest == 0.0
    for bad in (np.nan, np.inf, -np.inf):
        A[11, 4] = bad
        assert not np.isfinite(engine.extent(A).largest)


def test_refusals_are_those_of_main_memory() -> None:
    good = np.abs(points(None, 40, 6))
    bad = {"NaN": np.nan, "negative": -1.0}
    for space, words in ((Sphere(), ("NaN",)), (Simplex(), ("NaN", "negative"))):
        for word in words:
            X = good.copy()
            X[33, 2] = bad[word]
            with pytest.raises(ValueError, match=f"row 33 of X.*{word}"):
                Heat(space)(tensor(X))
        X = good.copy()
        X[21] = 0.0
        with pytest.raises(ValueError, match=r"row 21 of Y .*all zeros"):
            Heat(space)(tensor(good), tensor(X))


def test_unit_rows_of_any_scale() -> None:
    """Squares of these numbers leave the floating range."""
    engine, X = engine_for(tensor(np.eye(2))), points(None, 6, 1100)
    shares = np.abs(X)
    for dtype, scales in ((torch.float64, [1e300, 1e-300, 1.0]), (torch.float32, [1e30, 1e-36, 1.0])):
        factors = np.repeat(scales, 2)[:, None]
        A, B = tensor(X * factors, dtype), tensor(shares * factors, dtype)
        eps = torch.finfo(dtype).eps
        found = np.asarray(engine.unit_rows(A).cpu(), dtype=float)
        assert np.abs(found - X / np.linalg.norm(X, axis=1, keepdims=True)).max() < eps
        found = np.asarray(engine.roots_of_shares(B).cpu(), dtype=float)
        assert np.abs(found - np.sqrt(shares / shares.sum(axis=1, keepdims=True))).max() < eps
    assert engine.unit_rows(tensor(np.zeros((1, 3)))).abs().max() == 0.0


def test_numbers_of_equal_rows(monkeypatch) -> None:
    engine, X = engine_for(tensor(np.eye(2))), points(None, 400, 3)
    few = engine.equal_rows(tensor(X, torch.float32), None, 1.0)
    np.testing.assert_array_equal(np.asarray(few.mask((400, 400)).cpu()), np.eye(400, dtype=bool))
    assert engine.equal_rows(tensor(X), None, 1.0) is None
    monkeypatch.setattr(fused_rows, "_MANY", 1)
    assert engine.equal_rows(tensor(X, torch.float32), None, 1.0) is None
    assert engine.equal_rows(tensor(X[:200]), tensor(X[200:]), 1.0) is None
    X[5], X[390] = X[100], X[7]
    X[9, 0], X[10] = 0.0, X[9]
    X[10, 0] = -0.0
    found = engine.equal_rows(tensor(X), None, 1.0)
    expected = (X[:, None] == X[None]).all(axis=2)
    np.testing.assert_array_equal(np.asarray(found.mask((400, 400)).cpu()), expected)
    found = engine.equal_rows(tensor(X[:50]), tensor(X[50:]), 1.0)
    np.testing.assert_array_equal(np.asarray(found.mask((50, 350)).cpu()), expected[:50, 50:])


def test_rows_of_one_set_have_one_list_of_numbers() -> None:
    X = points(None, 40, 3)
    X[30] = X[2]
    left, right = fused_rows.row_numbers(tensor(X), None)
    assert left is right
    assert left[30] == left[2]


def test_only_what_needs_it_is_copied() -> None:
    X = tensor(points(None, 8, 6), grad=True)
    assert fused_rows.plain(X) is X
    assert fused_rows.plain(X, torch.float64) is X
    for part, dtype in ((X.T, torch.float64), (X[:, ::2], torch.float64), (X, torch.float32)):
        found = fused_rows.plain(part, dtype)
        assert found.is_contiguous()
        assert not found.requires_grad
        assert torch.equal(found, part.detach().to(dtype))


def test_rows_that_are_recorded_elsewhere() -> None:
    """Kernels read tensors with derivatives where none are taken, and results have none."""
    kernel, X = Heat(Sphere()), points(None, 20, 5)
    A = tensor(X, grad=True)
    with torch.no_grad():
        K = kernel(A)
    assert not K.requires_grad
    assert torch.equal(K, kernel(tensor(X)))


def test_planes_in_half_precision() -> None:
    """Invariants of unit vectors are as good as in single precision, also of very uneven ones."""
    rng = np.random.default_rng(4)
    X = rng.normal(size=(150, 200)) * 10.0 ** rng.uniform(-6, 0, size=(150, 200))
    A = torch.nn.functional.normalize(tensor(X, torch.float32), dim=1)
    profile = Heat(Sphere()).profile(200)
    pair = Pair.of(A, A, profile)
    assert pair.L.dtype == torch.float16
    w = pair.gram(form_of(PowerProfile(), A.dtype, A.device))
    exact = A.double() @ A.double().T
    assert (w.double() - exact).abs().max() < 4 * torch.finfo(torch.float32).eps
