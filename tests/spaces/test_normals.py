"""Products of normal families, against their factors, quadrature and high precision."""

import tracemalloc

import mpmath as mp
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC

from mercer.features import GroupNormals, MeasuredNormals
from mercer.kernels import Heat, Matern, Spectral
from mercer.spaces import NormalFamily, NormalProduct


def normals(m: int, features: int, seed: int = 0, spread: float = 0.7) -> np.ndarray:
    """Rows of means and standard deviations, side by side."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(m, 2 * features))
    X[:, 1::2] = np.exp(spread * X[:, 1::2])
    return X


def over_features(f, X: np.ndarray) -> np.ndarray:
    return np.array([f(X[:, j : j + 2]) for j in range(0, X.shape[1], 2)])


@pytest.mark.parametrize("normalized", [True, False])
@pytest.mark.parametrize("t", [0.05, 0.7])
@pytest.mark.parametrize("features", [1, 4])
def test_product_of_the_features(features: int, t: float, normalized: bool) -> None:
    X = normals(25, features)
    single = Heat(NormalFamily(), t=t, normalized=normalized)
    kernel = Heat(NormalProduct(), t=t, normalized=normalized)
    truth = over_features(single, X).prod(axis=0)
    scale = truth.max()
    np.testing.assert_allclose(kernel(X), truth, rtol=1e-12, atol=1e-300)
    np.testing.assert_allclose(kernel(X[:7], X), truth[:7], rtol=1e-12, atol=1e-300)
    np.testing.assert_allclose(kernel.diag(X), np.diag(truth), rtol=1e-13)
    np.testing.assert_allclose(kernel.log(X), over_features(single.log, X).sum(axis=0), atol=1e-11)
    v = np.random.default_rng(1).normal(size=(25, 2))
    np.testing.assert_allclose(kernel.matvec(X, None, v), truth @ v, atol=1e-12 * scale)
    np.testing.assert_allclose(kernel.matvec(X[:7], X, v), truth[:7] @ v, atol=1e-12 * scale)
    absolute = Heat(NormalFamily(), t=t).log_self_similarity(2)
    assert kernel.log_self_similarity(2 * features) == pytest.approx(features * absolute, rel=1e-12)


def mp_heat(u: mp.mpf, t: mp.mpf) -> mp.mpf:
    """The heat kernel of the hyperbolic plane at ``cosh(rho) = 1 + u``, by its integral."""
    rho = mp.acosh(1 + u)

    def integrand(x):
        s = rho + x * x
        bottom = mp.sqrt(mp.sinh((s + rho) / 2) * mp.sinh(x * x / 2) * 2)
        return 2 * x * s * mp.exp(-s * s / (4 * t)) / bottom if x else mp.mpf(0)

    ends = [mp.mpf("1e-25"), 0.3, 1, 2, 3, 5]
    return mp.sqrt(2) * (4 * mp.pi * t) ** -1.5 * mp.exp(-t / 4) * mp.quad(integrand, ends)


def test_against_high_precision() -> None:
    x, y, t = [0.3, 0.8, -1.0, 2.0, 5.0, 0.1], [0.1, 1.1, 0.5, 1.5, 5.1, 0.2], 0.7
    with mp.workdps(25):
        truth = mp.mpf(1)
        for j in range(0, 6, 2):
            m, s, q, r = (mp.mpf(v) for v in (*x[j : j + 2], *y[j : j + 2]))
            truth *= mp_heat(((m - q) ** 2 / 2 + (s - r) ** 2) / (2 * s * r), mp.mpf(t))
    got = Heat(NormalProduct(), t=t, normalized=False)([x], [y])[0, 0]
    assert got == pytest.approx(float(truth), rel=1e-10)


def test_far_tails_have_a_logarithm() -> None:
    X = np.array([[0.0, 1e-6] * 40, [1.0, 1e-6] * 40])
    kernel, single = Heat(NormalProduct(), t=0.05), Heat(NormalFamily(), t=0.05)
    assert kernel(X)[0, 1] == 0
    assert kernel.log(X)[0, 1] == pytest.approx(40 * single.log(X[:, :2])[0, 1], rel=1e-12)
    assert kernel.log(X)[0, 1] < -1e5


def test_features_in_equal_shares() -> None:
    # Many features that hardly differ: the product of many numbers close to one.
    X = np.tile([[0.0, 1.0], [1e-3, 1.0]], 500)
    single = Heat(NormalFamily(), t=0.7)
    value = Heat(NormalProduct(), t=0.7)(X)[0, 1]
    assert value == pytest.approx(np.exp(500 * single.log(X[:, :2])[0, 1]), rel=1e-11)
    assert 0.99 < value < 1


@settings(deadline=None, max_examples=15, derandomize=True)
@given(
    seed=st.integers(0, 10**6), features=st.integers(1, 6), t=st.sampled_from([0.05, 0.7]),
    exponent=st.floats(-8, 0),
)  # fmt: skip
def test_laws(seed: int, features: int, t: float, exponent: float) -> None:
    centres = normals(3, features, seed)
    rng = np.random.default_rng(seed)
    X = centres[rng.integers(0, 3, 20)] * (1 + 10**exponent * rng.uniform(size=(20, 2 * features)))
    X[-2:] = X[0]
    kernel = Heat(NormalProduct(), t=t)
    K = kernel(X)
    np.testing.assert_array_equal(K, K.T)
    np.testing.assert_array_equal(np.diag(K), 1.0)
    assert np.linalg.eigvalsh(K)[0] > -1e-12
    # Each feature may be shifted, scaled and reflected on its own, and features change places.
    scales, shifts = rng.gamma(2.0, size=features) + 0.1, rng.normal(size=features)
    moved = X * np.repeat(scales, 2) + np.repeat(shifts, 2) * ([1, 0] * features)
    moved[:, 0] *= -1
    pairs = rng.permutation(features)
    moved = moved.reshape(20, features, 2)[:, pairs].reshape(20, -1)
    tolerance = 1e-12 + 1e-14 * np.abs(shifts).max() / X[:, 1::2].min()
    np.testing.assert_allclose(kernel(moved), K, atol=max(tolerance, 1e-9))


def test_gradient() -> None:
    X = normals(30, 3)
    for normalized in (True, False):
        kernel = Heat(NormalProduct(), t=0.7, normalized=normalized)
        _, gradient = kernel(X, eval_gradient=True)
        step = 1e-5
        ahead, behind = (
            Heat(NormalProduct(), t=0.7 * np.exp(s), normalized=normalized)(X) for s in (step, -step)
        )
        np.testing.assert_allclose(gradient[..., 0], (ahead - behind) / 2 / step, atol=1e-8)
    fixed = Heat(NormalProduct(), t=0.7, t_bounds="fixed")(X, eval_gradient=True)[1]
    assert fixed.shape == (30, 30, 0)


def test_tensors() -> None:
    X = normals(8, 3)
    rows = torch.tensor(X, requires_grad=True)
    t = torch.tensor(0.7, dtype=torch.float64, requires_grad=True)
    kernel = Heat(NormalProduct(), t=t)
    K = kernel(rows)
    plain = Heat(NormalProduct(), t=0.7)
    np.testing.assert_allclose(K.detach(), plain(X), atol=1e-12)
    np.testing.assert_allclose(kernel.diag(rows).detach(), np.ones(8))
    np.testing.assert_allclose(plain.log(torch.tensor(X)), plain.log(X), atol=1e-9)
    v = torch.ones(8, dtype=torch.float64)
    np.testing.assert_allclose(kernel.matvec(rows, None, v).detach(), plain(X).sum(axis=1), atol=1e-12)
    K.sum().backward()
    slope = plain(X, eval_gradient=True)[1].sum() / 0.7
    assert t.grad.item() == pytest.approx(slope, rel=1e-9)
    moved = X.copy()
    moved[2, 3] += 1e-6
    difference = (plain(moved).sum() - plain(X).sum()) / 1e-6
    assert rows.grad[2, 3].item() == pytest.approx(difference, rel=1e-4)
    with pytest.raises(TypeError, match="the rows are not dense tensors"):
        kernel(X)


def test_nothing_larger_than_the_result() -> None:
    X = normals(600, 12)
    kernel = Heat(NormalProduct(), t=0.7)
    kernel(X[:5])
    tracemalloc.start()
    kernel(X)
    peak = tracemalloc.get_traced_memory()[1]
    kernel.matvec(X, None, np.ones(600))
    tracemalloc.stop()
    assert peak < 600**2 * 8 + 64 * 600 * 8 * 8 + 2e6


def test_distances() -> None:
    X, Y = normals(4, 3), normals(6, 3, seed=1)
    squares = sum(NormalFamily().distances(X[:, j : j + 2], Y[:, j : j + 2]) ** 2 for j in (0, 2, 4))
    np.testing.assert_allclose(NormalProduct().distances(X, Y), np.sqrt(squares), rtol=1e-13)
    np.testing.assert_allclose(NormalProduct().fisher_distances(X, Y) ** 2, 2 * squares, rtol=1e-13)
    with pytest.raises(ValueError, match="X has 6 columns, Y has 4"):
        NormalProduct().distances(X, Y[:, :4])


@pytest.mark.parametrize(
    ("X", "message"),
    [
        ([[0.0, 1.0, 2.0]], "X has 3 columns; NormalProduct needs an even number"),
        (
            [[0.0, 1.0, 2.0, 1.0], [0.0, 1.0, 2.0, 0.0]],
            "row 1 of X has no positive scale: standard deviations",
        ),
        ([[0.0, -1.0]], "row 0 of X has no positive scale: standard deviations"),
        ([[0.0, 1e-200]], "row 0 of X has an extreme scale"),
        ([[0.0, 1.0], [np.nan, 1.0]], "row 1 of X contains NaN"),
        ([[0.0, 1.0, 0.0, 1.0], [0.0, 1.0, 0.0, 1e60]], "row 1 of X is at a distance above"),
        ([[1.0]], "needs at least 2"),
        (np.empty((0, 4)), "0 sample"),
    ],
)
def test_bad_rows(X, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Heat(NormalProduct(), t=0.7)(X)


def test_bad_options() -> None:
    X = normals(4, 2)
    with pytest.raises(ValueError, match=r"Heat has no default time on NormalProduct\(\): give one"):
        Heat(NormalProduct())(X)
    with pytest.raises(TypeError, match="Matern is not known on products"):
        Matern(NormalProduct(), length_scale=1.0)(X)
    with pytest.raises(TypeError, match="Spectral is not known on products"):
        Spectral(NormalProduct(), weights=[1.0])(X)
    with pytest.raises(TypeError, match="dense rows"):
        Heat(NormalProduct(), t=1.0)(sparse.csr_matrix(X))
    with pytest.raises(ValueError, match="X has 4 columns, but NormalProduct"):
        Heat(NormalProduct(n=6), t=0.7)(X)
    with pytest.raises(ValueError, match="X has 4 columns, Y has 2"):
        Heat(NormalProduct(), t=0.7)(X, X[:, :2])
    with pytest.raises(ValueError, match="Y must be None"):
        Heat(NormalProduct(), t=0.7)(X, X[:2], eval_gradient=True)
    wide = np.tile([[0.0, 1.0]], 1000)
    with pytest.raises(ValueError, match="out of the floating-point range"):
        Heat(NormalProduct(), t=1e-3, normalized=False)(wide)
    assert Heat(NormalProduct(), t=1e-3)(wide) == 1
    assert Heat(NormalProduct(), t=1e-3, normalized=False).log_self_similarity(2000) > 4000


def test_transformers_feed_it() -> None:
    rng = np.random.default_rng(0)
    y = np.arange(60) % 2
    groups = [rng.normal(0, [1.0, 1 + 2 * c], size=(5, 2)) for c in y]
    model = make_pipeline(GroupNormals(), SVC(kernel=Heat(NormalProduct(), t=0.7), C=10))
    assert model.fit(groups[:40], y[:40]).score(groups[40:], y[40:]) > 0.7
    table = np.column_stack([rng.normal(size=(60, 3)), rng.gamma(2.0, size=(60, 3)) + 0.1])
    measured = make_pipeline(MeasuredNormals(), SVC(kernel=Heat(NormalProduct(), t=0.7), C=10))
    labels = table[:, 0] / table[:, 3] > 0
    assert measured.fit(table[:40], labels[:40]).score(table[40:], labels[40:]) > 0.65
