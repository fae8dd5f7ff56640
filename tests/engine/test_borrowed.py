"""Arrays of other libraries on a device: borrowed as tensors, and answers of their own kind."""

import array_api_strict
import numpy as np
import pytest
import torch

from mercer import _arrays
from mercer.engine import array_api, engine_for
from mercer.gp import SphericalGPClassifier, SphericalGPRegressor
from mercer.kernels import ArcCosine, Gaussian, Heat
from mercer.spaces import Simplex, Sphere

X = np.random.default_rng(0).gamma(1.0, size=(30, 5)) + 0.1


class Lent:
    """An array that offers its memory, and no arithmetic at all."""

    def __init__(self, values: torch.Tensor) -> None:
        self.values = values
        self.shape, self.ndim, self.dtype = tuple(values.shape), values.ndim, values.dtype

    def __dlpack__(self, **options):
        return self.values.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.values.__dlpack_device__()


def from_dlpack(values) -> Lent:
    """What the library of such arrays calls its function; there is no copy."""
    return Lent(torch.from_dlpack(values))


@pytest.fixture(autouse=True)
def near(monkeypatch) -> None:
    """Memory of the CPU counts as that of a device."""
    if not torch.cuda.is_available():
        monkeypatch.setattr(_arrays, "_CUDA", (1,))


def lent(values) -> Lent:
    return Lent(torch.as_tensor(values, device="cuda" if torch.cuda.is_available() else "cpu"))


def close(found, expected) -> None:
    assert type(found) is Lent
    np.testing.assert_allclose(found.values.cpu().numpy(), expected, rtol=1e-9, atol=1e-12)


KERNELS = [Heat(Sphere()), Heat(Simplex()), ArcCosine(), Gaussian()]


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_kernels(kernel) -> None:
    rows, others, v = lent(X), lent(X[:7] ** 2), np.arange(7.0)
    close(kernel(rows), kernel(X))
    close(kernel(rows, others), kernel(X, X[:7] ** 2))
    close(kernel.diag(rows), kernel.diag(X))
    close(kernel.matvec(rows, others, lent(v)), kernel(X, X[:7] ** 2) @ v)
    close(kernel.matvec(rows, others, v), kernel(X, X[:7] ** 2) @ v)


def test_memory_is_shared() -> None:
    rows = lent(X)
    assert engine_for(rows).borrow(rows).data_ptr() == rows.values.data_ptr()
    assert type(engine_for(rows)) is array_api.BorrowingEngine


def test_gaussian_processes() -> None:
    y = X[:, 0] * X[:, 1]
    expected = SphericalGPRegressor(max_features=20).fit(X, y)
    model = SphericalGPRegressor(max_features=20).fit(lent(X), y)
    for one, other in zip(
        model.predict(lent(X), return_std=True), expected.predict(X, return_std=True), strict=True
    ):
        close(one, other)
    labels = np.where(y > 1, "many", "few")
    classes = SphericalGPClassifier(max_features=20).fit(lent(X), labels).predict(lent(X))
    assert set(classes) <= {"many", "few"}


def test_refusals_name_the_row() -> None:
    bad = X.copy()
    bad[4, 1] = np.nan
    with pytest.raises(ValueError, match="row 4 of X contains NaN"):
        Heat(Sphere())(lent(bad))
    with pytest.raises(ValueError, match="row 4 of X contains NaN"):
        SphericalGPRegressor().fit(lent(bad), X[:, 0])


def test_array_api() -> None:
    """A library with a namespace of its own gets its arrays back too."""
    rows = array_api_strict.asarray(X)
    found = Heat(Sphere())(rows)
    assert type(found) is type(rows)
    np.testing.assert_allclose(np.asarray(found), Heat(Sphere())(X), rtol=1e-12)
    assert type(engine_for(rows)) is (
        array_api.ArrayApiEngine if torch.cuda.is_available() else array_api.BorrowingEngine
    )


def test_in_main_memory_nothing_is_borrowed(monkeypatch) -> None:
    monkeypatch.setattr(_arrays, "_CUDA", (2, 13))
    assert type(engine_for(array_api_strict.asarray(X))) is array_api.ArrayApiEngine
    assert type(engine_for(torch.as_tensor(X))).__name__ == "TorchEngine"
