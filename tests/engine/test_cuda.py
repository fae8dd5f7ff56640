"""The fused kernels against main memory: on a device, or else in Triton's interpreter."""

import numpy as np
import pytest
import torch

from mercer.engine import base, engine_for, register_engine
from mercer.engine.cuda import CudaEngine
from mercer.engine.fused import autograd
from mercer.engine.fused.launch import Pair, form_of
from mercer.engine.torch import TorchEngine
from mercer.kernels import (
    ArcCosine,
    Cosine,
    Gaussian,
    Heat,
    Linear,
    Matern,
    Parametrix,
    Polynomial,
)
from mercer.profiles import PowerProfile
from mercer.spaces import Hyperbolic, Simplex, Sphere

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
KERNELS = [
    Heat(Sphere()),
    Heat(Sphere(), t_star=0.1),
    Heat(Simplex()),
    Heat(Hyperbolic(), t=0.5),
    Matern(Sphere(), nu=0.5),
    Matern(Sphere(), nu=2.5),
    Parametrix(Sphere()),
    ArcCosine(),
    Cosine(Sphere()),
    Gaussian(),
    Linear(),
    Polynomial(3, 0.5),
]


@pytest.fixture(autouse=True)
def fused(monkeypatch) -> None:
    """Put the engine to use for tensors on this machine, and count what it does not serve."""
    monkeypatch.setattr(base, "_ENGINES", list(base._ENGINES))
    register_engine(CudaEngine(DEVICE))
    assert type(engine_for(tensor(np.eye(2)))) is CudaEngine


@pytest.fixture
def only_fused(monkeypatch) -> None:
    def refuse(*arguments):
        raise AssertionError("the road of whole arrays was taken")

    monkeypatch.setattr(TorchEngine, "gram", refuse)
    monkeypatch.setattr(TorchEngine, "matvec", refuse)


def tensor(values, dtype=torch.float64, **options) -> torch.Tensor:
    return torch.as_tensor(values, dtype=dtype, device=DEVICE).clone().requires_grad_(bool(options))


def points(kernel, m: int, n: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(m, n))
    space = getattr(kernel, "space", None)
    if isinstance(space, Hyperbolic):
        X[:, -1] = np.exp(X[:, -1] / 2)
    return np.abs(X) if isinstance(space, Simplex) else X


@pytest.mark.usefixtures("only_fused")
@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
@pytest.mark.parametrize(("m", "p", "n"), [(1, 3, 3), (70, 129, 17), (129, 1, 40)])
def test_values(kernel, m: int, p: int, n: int) -> None:
    X, Y = points(kernel, m, n), points(kernel, p, n, 1)
    Y[0] = X[0]
    for dtype, tolerance in ((torch.float64, 1e-12), (torch.float32, 2e-6)):
        A, B = tensor(X, dtype), tensor(Y, dtype)
        # In single precision, rough laws feel the rounding of the points themselves.
        reference = [np.asarray(part.cpu(), dtype=float) for part in (A, B)]
        expected, own = kernel(*reference), kernel(reference[0])
        rough = 50 * tolerance if dtype == torch.float32 and m > 1 else tolerance
        found = np.asarray(kernel(A, B).cpu(), dtype=float)
        assert np.abs(found - expected).max() <= rough * np.abs(expected).max()
        found = np.asarray(kernel(A).cpu(), dtype=float)
        assert np.abs(found - own).max() <= rough * np.abs(own).max()
        np.testing.assert_array_equal(found, found.T)


@pytest.mark.usefixtures("only_fused")
@pytest.mark.parametrize("columns", [None, 1, 3, 70])
def test_products_with_vectors(columns: int | None) -> None:
    kernel, rng = Heat(Sphere()), np.random.default_rng(0)
    X, Y = points(kernel, 90, 20), points(kernel, 150, 20, 1)
    Y[:3] = X[5]
    v = rng.normal(size=(150,) if columns is None else (150, columns))
    expected = kernel(X, Y) @ v
    assert (
        np.abs(np.asarray(kernel.matvec(tensor(X), tensor(Y), tensor(v)).cpu()) - expected).max() < 1e-12
    )
    single = kernel.matvec(*(tensor(part, torch.float32) for part in (X, Y, v)))
    assert single.dtype == torch.float32
    assert np.abs(np.asarray(single.cpu()) - expected).max() < 3e-6 * np.abs(expected).max()


def by_whole_arrays(function, *inputs):
    """Values and derivatives by the engine that keeps whole arrays, on tensors of the CPU."""
    inputs = [part.detach().cpu().clone().requires_grad_() for part in inputs]
    value = function(*inputs)
    return value, torch.autograd.grad(value, inputs)


@pytest.mark.parametrize("kernel", [Heat(Sphere()), Matern(Sphere(), nu=2.5), Gaussian()], ids=repr)
@pytest.mark.parametrize("n", [9, 150])
def test_derivatives_by_points(kernel, n: int, monkeypatch) -> None:
    monkeypatch.setattr(autograd, "STRIP", 400)  # several strips
    rng = np.random.default_rng(2)
    X, Y, G = points(kernel, 150, n), points(kernel, 30, n, 1), tensor(rng.normal(size=(150, 150)))
    for dtype, tolerance in ((torch.float64, 1e-11), (torch.float32, 2e-5)):

        def whole(A, dtype=dtype):
            return (kernel(A) * G.to(A.device, dtype)).sum()

        def cross(A, B, dtype=dtype):
            return (kernel(A, B) * G[:, :30].to(A.device, dtype)).sum()

        A, B = tensor(X, dtype, grad=True), tensor(Y, dtype, grad=True)
        for function, inputs in ((whole, (A,)), (cross, (A, B))):
            found = torch.autograd.grad(function(*inputs), inputs)
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(CudaEngine, "accepts", lambda self, array: False)
                _, expected = by_whole_arrays(function, *inputs)
            for one, other in zip(found, expected, strict=True):
                assert (one.cpu() - other).abs().max() <= tolerance * other.abs().max()


def test_derivatives_of_products_by_points_and_vectors(monkeypatch) -> None:
    monkeypatch.setattr(autograd, "STRIP", 300)
    kernel, rng = Heat(Sphere()), np.random.default_rng(3)
    X, Y = points(kernel, 140, 6), points(kernel, 25, 6, 1)
    Y[4] = X[2]
    v, g = tensor(rng.normal(size=(25, 2)), grad=True), tensor(rng.normal(size=(140, 2)))
    A, B = tensor(X, grad=True), tensor(Y, grad=True)

    def function(A, B, v):
        return (kernel.matvec(A, B, v) * g.to(A.device)).sum()

    found = torch.autograd.grad(function(A, B, v), (A, B, v))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(CudaEngine, "accepts", lambda self, array: False)
        _, expected = by_whole_arrays(function, A, B, v)
    for one, other in zip(found, expected, strict=True):
        assert (one.cpu() - other).abs().max() <= 1e-11 * other.abs().max()


def test_hyperparameters_and_second_derivatives() -> None:
    X = points(None, 5, 3)
    t = torch.tensor(0.3, dtype=torch.float64, device=DEVICE, requires_grad=True)
    A = tensor(X, grad=True)

    def bound(A, t):
        return (Heat(Sphere(), t=t)(A) ** 2).sum()

    assert torch.autograd.gradcheck(bound, (A, t), atol=1e-6)
    assert torch.autograd.gradgradcheck(lambda A: bound(A, t.detach()), (A,), atol=1e-5)
    kernel = Heat(Sphere(), t=t, normalized=False)
    (found,) = torch.autograd.grad(kernel(A).sum(), t)
    step = 1e-5
    ends = [Heat(Sphere(), t=0.3 + s, normalized=False)(X).sum() for s in (step, -step)]
    assert abs(float(found) - (ends[0] - ends[1]) / (2 * step)) < 1e-5 * abs(float(found))


def test_views_and_empty_arrays() -> None:
    kernel, X = Heat(Sphere()), points(None, 30, 8)
    wide = tensor(np.concatenate([X, X], axis=1))
    expected = kernel(X[::2])
    for view in (wide[::2, :8], tensor(X.T).T[::2], tensor(X)[::2]):
        assert np.abs(np.asarray(kernel(view).cpu()) - expected).max() < 1e-13
    engine = engine_for(tensor(X))
    assert engine.gram(tensor(X), tensor(X[:0]), kernel.profile(8)).shape == (30, 0)


def test_the_same_from_run_to_run() -> None:
    X = tensor(points(None, 200, 11), torch.float32)
    v = tensor(points(None, 200, 20, 5), torch.float32)
    kernel = Matern(Sphere(), nu=1.5)
    assert torch.equal(kernel(X), kernel(X))
    assert torch.equal(kernel.matvec(X, X, v), kernel.matvec(X, X, v))


def test_forms_are_made_once() -> None:
    profile = Heat(Sphere()).profile(7)
    X = tensor(np.eye(7))
    assert form_of(profile, X.dtype, X.device) is form_of(profile, X.dtype, X.device)


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


def test_numbers_of_equal_rows() -> None:
    engine, X = engine_for(tensor(np.eye(2))), points(None, 400, 3)
    assert engine.equal_rows(tensor(X), None, 1.0) is None
    assert engine.equal_rows(tensor(X[:200]), tensor(X[200:]), 1.0) is None
    X[5], X[390] = X[100], X[7]
    X[9, 0], X[10] = 0.0, X[9]
    X[10, 0] = -0.0
    found = engine.equal_rows(tensor(X), None, 1.0)
    expected = (X[:, None] == X[None]).all(axis=2)
    np.testing.assert_array_equal(np.asarray(found.mask((400, 400)).cpu()), expected)
    found = engine.equal_rows(tensor(X[:50]), tensor(X[50:]), 1.0)
    np.testing.assert_array_equal(np.asarray(found.mask((50, 350)).cpu()), expected[:50, 50:])


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
