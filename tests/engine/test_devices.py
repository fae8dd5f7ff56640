"""Work shared by several devices, and Gram matrices that are computed on one for machines elsewhere."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy import sparse

from mercer.engine import devices
from mercer.engine.base import GramOptions
from mercer.engine.cuda import CudaEngine
from mercer.engine.torch import TorchEngine
from mercer.kernels import ArcCosine, Gaussian, Heat, Spectrum
from mercer.selection import KernelSearchCV
from mercer.selection.gram_cache import Grams
from mercer.spaces import Simplex, Sphere
from mercer.spaces.realisations.base import Operands

HOME = "cuda" if torch.cuda.is_available() else "cpu"
#: Several devices, or one that plays several.
SEVERAL = [torch.device(HOME)] * 3
RNG = np.random.default_rng(0)


@pytest.mark.parametrize("kernel", [Heat(Sphere()), ArcCosine()], ids=repr)
@pytest.mark.parametrize("rows", [1, 2, 7, 50])
def test_shared_work(kernel, rows: int) -> None:
    X, Y = RNG.normal(size=(rows, 6)), RNG.normal(size=(20, 6))
    X[-1] = Y[3] = X[0]
    v, w = RNG.normal(size=20), RNG.normal(size=(rows, 2))
    A, B = (torch.as_tensor(part, device=HOME) for part in (X, Y))
    engine, profile = TorchEngine(), kernel.profile(6)
    for other, vector in ((None, w), (B, v)):
        operands = Operands(kernel.embedding, A, other)
        options = operands.options(profile)
        arguments = SEVERAL, operands.L, operands.R, profile
        expected = kernel(X) if other is None else kernel(X, Y)
        K = devices.shared_gram(engine.gram, *arguments, options)
        np.testing.assert_allclose(K.cpu().numpy(), expected, rtol=1e-13, atol=1e-14)
        product = devices.shared_matvec(
            engine.matvec, *arguments, torch.as_tensor(vector, device=HOME), options
        )
        np.testing.assert_allclose(product.cpu().numpy(), expected @ vector, rtol=1e-12, atol=1e-13)


def test_shared_work_of_fused_kernels() -> None:
    engine, profile = CudaEngine(HOME), Heat(Sphere()).profile(6)
    rows = RNG.normal(size=(40, 6))
    rows[30] = rows[2]
    X = torch.as_tensor(rows, device=HOME)
    operands = Operands(Sphere(), X, None)
    parts = SEVERAL[:2], operands.L, operands.R, profile
    options = replace(operands.options(profile), equal=engine.equal_rows(X, None, 1.0))
    expected = Heat(Sphere())(rows)
    K = devices.shared_gram(engine.gram, *parts, options).cpu().numpy()
    np.testing.assert_allclose(K, expected, rtol=0, atol=1e-12)
    product = devices.shared_matvec(engine.matvec, *parts, X[:, 0], options).cpu().numpy()
    np.testing.assert_allclose(product, expected @ rows[:, 0], rtol=0, atol=1e-12)


def test_every_device_has_its_share() -> None:
    seen: list[tuple[int, int]] = []

    class Watched(TorchEngine):
        def gram(self, L, R, profile, options=GramOptions()):  # noqa: B008
            seen.append((L.shape[0], R.shape[0]))
            return super().gram(L, R, profile, options)

    X = torch.as_tensor(RNG.normal(size=(60, 4)), device=HOME)
    profile = Heat(Sphere()).profile(4)
    devices.shared_gram(Watched().gram, SEVERAL, X, X, profile, GramOptions(symmetric=True))
    assert len(seen) == 21  # blocks on and above the diagonal of 6 x 6
    assert max(a * b for a, b in seen) == 100
    small = devices.sharing_gram(X, X) + devices.sharing_matvec(X, X, X[:, 0])
    assert small == []  # never for small inputs


def test_large_work_is_shared(monkeypatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 3)

    class Far:
        """Stands for a tensor on the last of three devices."""

        requires_grad = False

        def __init__(self, *shape: int) -> None:
            self.shape = shape
            self.device = torch.device("cuda", 2)

    found = devices.sharing_matvec(Far(2**17, 64), Far(2**17, 64), Far(2**17))
    assert [device.index for device in found] == [2, 0, 1]  # its own first
    assert devices.sharing_gram(Far(2**14, 10_000), Far(2**14, 10_000)) == found
    assert devices.sharing_gram(Far(2**14, 400), Far(2**14, 400)) == []  # copies would cost more
    watched = Far(2**17, 64)
    watched.requires_grad = True
    assert devices.sharing_matvec(watched, watched, Far(2**17)) == []


def test_gram_matrices_on_a_device() -> None:
    counts = RNG.poisson(1.0, size=(40, 8)) + 1.0
    kernels = [Heat(Simplex()), Gaussian(2.0), Heat(Simplex()) * Gaussian(3.0) + 0.5]
    for X in (counts, sparse.csr_matrix(counts), counts.astype(np.float32)):
        here, there = Grams(X), Grams(X, device=HOME)
        for kernel in kernels:
            K = there(kernel)
            assert isinstance(K, np.ndarray)
            assert K.dtype == np.float64
            tolerance = 1e-5 if X.dtype == np.float32 else 1e-12
            np.testing.assert_allclose(K, here(kernel), rtol=tolerance, atol=tolerance)
    words = ["abab", "baba", "abba"]
    np.testing.assert_array_equal(Grams(words, device=HOME)(Spectrum(2)), Spectrum(2)(words))


def test_search_on_a_device() -> None:
    X = np.random.default_rng(2).normal(size=(60, 5))
    y = X[:, 0] * X[:, 1] > 0
    options = {"kernels": Heat(Sphere()), "similarities": "auto", "cv": 3}
    expected = KernelSearchCV(**options).fit(X, y)
    found = KernelSearchCV(**options, device=HOME).fit(X, y)
    for name in ("mean_test_score", "param_C"):
        np.testing.assert_allclose(
            found.cv_results_[name].astype(float), expected.cv_results_[name].astype(float), rtol=1e-9
        )
    for name, message in (("cuda:99", "is not available"), ("moon", "is not available")):
        with pytest.raises(ValueError, match=f"device '{name}' {message}"):
            KernelSearchCV(**options, device=name).fit(X, y)
