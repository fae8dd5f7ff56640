"""The contract of engines: each of them, and one that is written here, gives the same numbers."""

import array_api_strict as strict
import numpy as np
import pytest
import torch

from mercer.engine import Engine, GramOptions, base, engine_for, register_engine
from mercer.engine.array_api import ArrayApiEngine
from mercer.engine.base import PLAIN
from mercer.engine.equal import equal_rows
from mercer.engine.numpy import NumpyEngine
from mercer.engine.torch import TorchEngine
from mercer.harmonics import SphericalHarmonics
from mercer.kernels import Gaussian, Heat, Linear
from mercer.profiles import PowerProfile, ProductProfile
from mercer.spaces import Sphere, Torus

StrictArray = type(strict.asarray(0.0))


class RowEngine(Engine):
    """Arrays of array-api-strict, one row of the Gram matrix at a time."""

    def accepts(self, array):
        return isinstance(array, StrictArray)

    def gram(self, L, R, profile, options=PLAIN):
        w = strict.zeros((L.shape[0], R.shape[0]), dtype=L.dtype)
        for i in range(L.shape[0]):
            w[i, :] = R @ L[i, :]
        if options.equal is not None:
            same = strict.asarray(options.equal.mask(w.shape)) > 0
            w = strict.where(same, strict.full_like(w, options.equal.value), w)
        return self.apply(w, profile, options)

    def apply(self, w, profile, options=PLAIN):
        values = profile.evaluate(w)
        if options.scales is not None:
            values = values * options.scales[0][:, None] * options.scales[1][None, :]
        if options.diagonal is not None:
            for i in range(w.shape[0]):
                values[i, i] = options.diagonal[i]
        return values if options.dtype is None else strict.astype(values, options.dtype)


ENGINES = {
    NumpyEngine: np.asarray,
    ArrayApiEngine: strict.asarray,
    TorchEngine: torch.as_tensor,
    RowEngine: strict.asarray,
}
PROFILES = {
    "identity": PowerProfile(),
    "power": PowerProfile(degree=2, scale=0.5, shift=1.0, factor=3.0),
    "table": Heat(Sphere(), t=0.2).profile(5),
    "logarithm": Gaussian().profile(5),
    "product": ProductProfile(PowerProfile(), Heat(Sphere(), t=0.2).profile(5)),
}
#: Several tiles of every engine.
M, P = 800, 450


@pytest.fixture(params=ENGINES, ids=lambda kind: kind.__name__)
def home(request, monkeypatch):
    """An engine, and what brings NumPy's arrays to it."""
    monkeypatch.setattr(base, "_ENGINES", list(base._ENGINES))
    monkeypatch.setattr(Engine, "side", 300)
    if request.param is RowEngine:
        register_engine(RowEngine())
    bring = ENGINES[request.param]
    engine = engine_for(bring(np.eye(2)))
    assert type(engine) is request.param
    return engine, bring


def rows(m: int, seed: int = 0) -> np.ndarray:
    X = np.random.default_rng(seed).normal(size=(m, 5))
    return X / np.linalg.norm(X, axis=1, keepdims=True)


def values(profile, w: np.ndarray) -> np.ndarray:
    tile = w.copy()
    profile.apply(tile)
    return tile


def close(found, expected, tolerance: float = 1e-12) -> None:
    np.testing.assert_allclose(np.asarray(found), expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("profile", PROFILES.values(), ids=PROFILES)
def test_gram(home, profile) -> None:
    engine, bring = home
    X, Y = rows(M), rows(P, 1)
    K = engine.gram(bring(X), bring(Y), profile)
    assert type(K) is type(bring(X))
    close(K, values(profile, X @ Y.T))
    s, r = np.arange(1.0, M + 1), np.linspace(0.1, 1, P)
    K = engine.gram(bring(X), bring(Y), profile, GramOptions(scales=(bring(s), bring(r))))
    close(K, values(profile, X @ Y.T) * s[:, None] * r)


def test_symmetric(home) -> None:
    engine, bring = home
    X, s, own = rows(M), np.linspace(0.5, 1, M), np.arange(M) + 7.0
    L, profile = bring(X), PROFILES["table"]
    expected = values(profile, X @ X.T) * s[:, None] * s
    np.fill_diagonal(expected, own)
    options = GramOptions(symmetric=True, scales=(bring(s), bring(s)), diagonal=bring(own))
    K = engine.gram(L, L, profile, options)
    close(K, expected)
    np.testing.assert_array_equal(np.diag(np.asarray(K)), own)
    more = expected + expected.T[::-1, ::-1]
    added = engine.added_gram(bring(more - expected), L, L, profile, options)
    close(added, more)
    for v in (rows(M, 2)[:, 0], rows(M, 3)[:, :3]):
        product = engine.matvec(L, L, profile, bring(v), options)
        close(product, expected @ v, 1e-9)


@pytest.mark.parametrize("columns", [None, 1, 3])
def test_matvec(home, columns: int | None) -> None:
    engine, bring = home
    X, Y = rows(M), rows(P, 1)
    v = rows(P, 2)[:, 0] if columns is None else rows(P, 2)[:, :columns]
    product = engine.matvec(bring(X), bring(Y), PROFILES["table"], bring(v))
    assert type(product) is type(bring(X))
    assert product.shape == (M, *v.shape[1:])
    close(product, values(PROFILES["table"], X @ Y.T) @ v, 1e-11)


@pytest.mark.parametrize("kernel", [Heat(Sphere(), t=0.2), Heat(Torus())], ids=repr)
def test_vectors_of_other_types(home, kernel) -> None:
    """Whole numbers, and numbers in the byte order of another machine."""
    _, bring = home
    X, v = bring(rows(50)), np.arange(50)
    expected = np.asarray(kernel(X)) @ v
    for vector in (v, bring(v), v.astype(">f8"), v.astype(">i4")):
        close(kernel.matvec(X, None, vector), expected, 1e-11)


def test_matvec_makes_no_gram_matrix(home, monkeypatch) -> None:
    engine, bring = home
    if type(engine) is NumpyEngine:  # its memory is measured in test_engine.py
        return
    sizes, gram = [], type(engine).gram

    def spy(self, L, R, *args, **options):
        sizes.append(max(L.shape[0], R.shape[0]))
        return gram(self, L, R, *args, **options)

    monkeypatch.setattr(type(engine), "gram", spy)
    L = bring(rows(M))
    engine.matvec(L, L, PROFILES["table"], bring(np.ones(M)), GramOptions(symmetric=True))
    assert len(sizes) == 6
    assert max(sizes) == 300


def test_equal_rows(home) -> None:
    engine, bring = home
    X = rows(M)
    X[[5, 301, 790]] = X[2]
    Y = np.vstack([X[:3], rows(P - 3, 1)])
    steep = Heat(Sphere(), t=1e-9).profile(5)
    for other, symmetric in ((X, True), (Y, False)):
        L, R = bring(X), bring(other)
        equal = equal_rows(L, None if symmetric else R, 1.0)
        assert equal is not None
        options = GramOptions(symmetric, equal=equal)
        same = (X[:, None] == other[None]).all(axis=2)
        expected = same.astype(float)
        close(engine.gram(L, R, steep, options), expected)
        v = rows(len(other), 4)[:, :2]
        close(engine.matvec(L, R, steep, bring(v), options), expected @ v)


@pytest.mark.parametrize("profile", PROFILES.values(), ids=PROFILES)
def test_invariants_that_are_kept(home, profile) -> None:
    engine, bring = home
    X, s = rows(90), np.linspace(0.5, 1, 90)
    w = engine.gram(bring(X), bring(X), PowerProfile(), GramOptions(symmetric=True))
    before = np.array(np.asarray(w))
    expected = values(profile, before)
    close(engine.apply(w, profile), expected)
    close(engine.apply(w[0, :], profile), expected[0])
    np.testing.assert_array_equal(np.asarray(w), before)
    own, single = np.arange(90.0), bring(X.astype(np.float32)).dtype
    options = GramOptions(True, (bring(s), bring(s)), bring(own), dtype=single)
    K = engine.apply(w, profile, options)
    expected = expected * s[:, None] * s
    np.fill_diagonal(expected, own)
    assert K.dtype == single
    close(K, expected, 1e-6)


def test_precision(home) -> None:
    engine, bring = home
    X = rows(50).astype(np.float32)
    profile = PROFILES["table"]
    K = engine.gram(bring(X), bring(X), profile)
    assert K.dtype == bring(X).dtype
    close(K, values(profile, (X @ X.T).astype(float)), 2e-5)
    double = GramOptions(dtype=bring(np.ones(1)).dtype)
    assert engine.gram(bring(X), bring(X), profile, double).dtype == double.dtype
    product = engine.matvec(bring(X), bring(X), profile, bring(np.ones(50)))
    assert product.dtype == bring(np.ones(1)).dtype
    close(product, np.asarray(K).astype(float).sum(axis=1), 1e-4)


@pytest.mark.parametrize(("m", "p"), [(0, 4), (4, 0), (0, 0)])
def test_no_rows(home, m: int, p: int) -> None:
    engine, bring = home
    L, R = bring(rows(4)[:m]), bring(rows(4)[:p])
    assert engine.gram(L, R, PowerProfile()).shape == (m, p)
    for v in (np.ones(p), np.ones((p, 3))):
        close(engine.matvec(L, R, PowerProfile(), bring(v)), np.zeros((m, *v.shape[1:])))


def test_values_of_functions(home) -> None:
    """Harmonics of a level obey the addition theorem, on more rows than one task takes."""
    engine, bring = home
    X = rows(1500)
    harmonics = SphericalHarmonics(5, levels=(2,))
    F = engine.evaluate(harmonics, bring(X))
    assert type(F) is type(bring(X))
    F = np.asarray(F)
    assert F.shape == (1500, 14)
    w = X[:40] @ X[-40:].T
    close(F[:40] @ F[-40:].T, 14 * (5 * w**2 - 1) / 4)


def test_kernels_use_it(home, monkeypatch) -> None:
    engine, bring = home
    X, kernel, used = rows(20), Heat(Sphere(), t=0.3), []
    for name in ("gram", "matvec", "apply"):
        method = getattr(engine, name)
        monkeypatch.setattr(
            engine, name, lambda *a, n=name, f=method, **k: used.append(n) or f(*a, **k), raising=False
        )
    close(kernel(bring(X)), kernel(X))
    close(kernel.matvec(bring(X), None, bring(X)), kernel(X) @ X)
    close(kernel.diag(bring(X)), np.ones(20))
    close(Linear().diag(bring(X)), (X**2).sum(axis=1))
    assert {"gram", "matvec", "apply"} <= set(used)
    if type(engine) is not NumpyEngine:
        with pytest.raises(TypeError, match="one library"):
            kernel(bring(X), X)


def test_derivatives(home) -> None:
    engine, bring = home
    if not engine.differentiable:
        with pytest.raises(TypeError, match="rows are not dense tensors"):
            Heat(Sphere(), t=torch.tensor(0.3, requires_grad=True))(bring(rows(5)))
        return
    x, y = (torch.tensor(rows(m, seed), requires_grad=True) for m, seed in ((4, 0), (3, 1)))
    s = torch.linspace(0.5, 1, 4, dtype=torch.float64, requires_grad=True)
    v = torch.tensor(rows(3, 2)[:, :2], requires_grad=True)
    profile = PROFILES["table"]
    engine.side = 2

    def product(x, y, s, v):
        return engine.matvec(x, y, profile, v, GramOptions(scales=(s, s[:3])))

    try:
        assert torch.autograd.gradcheck(lambda x, y: engine.gram(x, y, profile), (x, y))
        assert torch.autograd.gradcheck(product, (x, y, s, v))
        assert torch.autograd.gradgradcheck(lambda x: product(x, y, s, v), (x,))
    finally:
        del engine.side


def test_derivatives_of_products_keep_no_gram_matrix() -> None:
    x, t = (torch.tensor(a, requires_grad=True) for a in (rows(1500), np.array(0.3)))
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(lambda a: kept.append(a.numel()) or a, lambda a: a):
        Heat(Sphere(), t=t).matvec(x, None, torch.ones(1500, dtype=torch.float64)).sum().backward()
    assert sum(kept) < 1500 * 200
    gradient = x.grad.clone(), t.grad.clone()
    x.grad = t.grad = None
    Heat(Sphere(), t=t)(x).sum().backward()
    for found, expected in zip(gradient, (x.grad, t.grad), strict=True):
        close(found, expected, 1e-8)


def test_what_no_engine_accepts(monkeypatch) -> None:
    monkeypatch.setattr(base, "_ENGINES", [])
    with pytest.raises(TypeError, match="no engine of mercer computes with list"):
        engine_for([])
