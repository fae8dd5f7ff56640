"""The torus against theta functions and sums over the lattice."""

import itertools
import math

import mpmath as mp
import numpy as np
import pytest
from scipy import sparse

from mercer.features import SpectralFeatures
from mercer.gp import SphericalGPClassifier, SphericalGPPoissonRegressor, SphericalGPRegressor
from mercer.kernels import Heat, Matern, Spectral, SpectralKernel
from mercer.laws import Diffusion
from mercer.spaces import Torus
from mercer.special import theta

RNG = np.random.default_rng(0)


def theta_of(angle: float, t: float):
    """``sum_k exp(-k^2 t) cos(k a)`` by mpmath, with 40 digits."""
    with mp.workdps(40):
        return mp.jtheta(3, mp.mpf(angle) / 2, mp.exp(-mp.mpf(t)))


def lattice_sum(weights, difference: np.ndarray, reach: int) -> float:
    """``sum_k a(|k|^2) cos(k.d) / (2 pi)^p``, by brute force."""
    axes = [np.arange(-reach, reach + 1)] * len(difference)
    points = np.array(list(itertools.product(*axes)))
    terms = weights((points**2).sum(axis=1).astype(float)) * np.cos(points @ difference)
    return math.fsum(terms) / (2 * np.pi) ** len(difference)


@pytest.mark.parametrize("t", [0.02, 0.3, 0.999, 1.0, 2.5, 30.0])
@pytest.mark.parametrize("normalized", [True, False])
def test_heat_is_a_product_of_theta_functions(t: float, normalized: bool) -> None:
    X = np.array([[0.0, 0.0], [1e-7, 0.0], [0.3, 2.0], [3.1, -3.1], [np.pi, np.pi / 2], [100.0, -7.5]])
    K = Heat(Torus(), t=t, normalized=normalized)(X)
    for i, j in itertools.product(range(len(X)), repeat=2):
        value = mp.fprod(theta_of(a - b, t) for a, b in zip(X[i], X[j], strict=True))
        value /= theta_of(0, t) ** 2 if normalized else (2 * mp.pi) ** 2
        unit = 1 if normalized else float(mp.mpf(1) / (2 * mp.pi) ** 2 * theta_of(0, t) ** 2)
        assert abs(K[i, j] - value) < 1e-13 * unit


@pytest.mark.parametrize("t", [1e-6, 0.004, 0.2, 0.9, 1.5, 12.0])
def test_logarithms_and_their_slopes_are_relatively_exact(t: float) -> None:
    angles = np.array([0.0, 1e-9, 0.01, 1.0, 2.0, 3.0, 3.14, np.pi])
    K = Heat(Torus(), t=t).log(angles[:, None], [[0.0]])[:, 0]
    with mp.workdps(50):

        def expected(a, time):
            images = [mp.exp(-((a - 2 * mp.pi * j) ** 2) / (4 * time)) for j in range(-30, 31)]
            return mp.log(mp.fsum(images))

        for value, a in zip(K, angles, strict=True):
            a, time = mp.mpf(float(a)), mp.mpf(t)
            exact = expected(a, time) - expected(mp.mpf(0), time)
            assert abs(value - exact) <= 4e-15 * max(1, abs(exact))
            h = mp.mpf(10) ** -18
            change = [expected(a, time * (1 + s)) - expected(0, time * (1 + s)) for s in (h, -h)]
            slope = (change[0] - change[1]) / (2 * h)
            found = theta.theta_rise(np.array([float(a)]), t)[0]
            assert abs(found - slope) <= 1e-13 * max(1, abs(slope))


@pytest.mark.parametrize("nu", [0.5, 1.5, 2.5])
def test_matern_near_equal_angles(nu: float) -> None:
    """On a circle the sum is known: Matern with nu = 0.5 has the weights 1 / (rate + k^2)."""
    kernel = Matern(Torus(n=1), nu=nu, length_scale=0.8)
    rate = mp.mpf(2 * nu) / mp.mpf(0.8) ** 2
    root = mp.sqrt(rate)

    def resolvent(angle, r):
        return mp.pi * mp.cosh(r * (mp.pi - angle)) / (r * mp.sinh(mp.pi * r))  # sum_k cos / (r^2 + k^2)

    def exact(angle):
        # 1 / (c + k^2)^s are derivatives of 1 / (c + k^2) by c.
        order = round(nu - 0.5)
        return mp.diff(lambda c: resolvent(angle, mp.sqrt(c)), root**2, order) * (-1) ** order

    angles = [0.0, 1e-12, 1e-8, 1e-4, 0.01, 0.5, 2.0, 3.1]
    K = kernel(np.array(angles)[:, None], [[0.0]])[:, 0]
    with mp.workdps(40):
        for value, angle in zip(K, angles, strict=True):
            assert abs(value - exact(mp.mpf(angle)) / exact(mp.mpf(0))) < 1e-13


@pytest.mark.parametrize(("p", "nu"), [(2, 6.5), (2, 20.0), (3, 14.0)])
def test_smooth_matern_is_a_sum_over_the_lattice(p: int, nu: float) -> None:
    X = RNG.uniform(-3, 3, size=(3, p))
    length = 1.3
    kernel = Matern(Torus(), nu=nu, length_scale=length, normalized=False)
    K = kernel(X)

    def weights(v):
        return (2 * nu / length**2 + v) ** (-nu - p / 2)

    top = lattice_sum(weights, np.zeros(p), 60 if p == 2 else 20)
    for i, j in itertools.combinations_with_replacement(range(3), 2):
        value = lattice_sum(weights, X[i] - X[j], 60 if p == 2 else 20)
        assert K[i, j] == pytest.approx(value, abs=1e-12 * top)


def test_many_columns_keep_the_digits_of_matern() -> None:
    """The mixture of so narrow a Gamma distribution, by Gauss's rule in its own measure."""
    p, nu, length = 40, 2.5, 6.0
    kernel = Matern(Torus(), nu=nu, length_scale=length)
    X = RNG.uniform(-1, 1, size=(2, p))
    shape, rate = nu + p / 2, 2 * nu / length**2
    t, w = np.polynomial.legendre.leggauss(400)
    times = (t + 1) / 2 * 12 * shape / rate + 1e-9
    logs = [shape * math.log(s) - math.log(s) - rate * s for s in times]
    top = [p * theta.log_theta_at_zero(s) for s in times]
    values = [math.fsum(theta.log_theta(X[0] - X[1], s)) for s in times]
    total = [a * math.exp(b + c - 60) for a, b, c in zip(w, logs, top, strict=True)]
    exact = math.fsum(a * math.exp(v) for a, v in zip(total, values, strict=True)) / math.fsum(total)
    assert kernel(X)[0, 1] == pytest.approx(exact, abs=1e-12)


def test_spectral_is_a_sum_over_the_lattice() -> None:
    def weights(v):
        return np.exp(-0.3 * v) * (v != 2)

    for p in (1, 2, 3):
        X = RNG.uniform(-9, 9, size=(4, p))
        K = Spectral(Torus(), weights, normalized=False)(X)
        top = lattice_sum(weights, np.zeros(p), 13)
        for i, j in itertools.product(range(4), repeat=2):
            assert K[i, j] == pytest.approx(lattice_sum(weights, X[i] - X[j], 13), abs=1e-13 * top)


def test_spectral_agrees_with_heat_and_has_gradients() -> None:
    class Gauss(SpectralKernel):
        def __init__(self, space, t=1.0, normalized=True, t_bounds=(1e-3, 1e3)):
            self.space, self.t, self.normalized, self.t_bounds = space, t, normalized, t_bounds

        def continuous(self):
            return ("t",)

        def range_parameter(self):
            return "t"

        def log_weights(self, eigenvalues, dimension):
            return -eigenvalues * self.t

    X = RNG.uniform(0, 24, size=(6, 2))
    space = Torus(period=24)
    for normalized in (True, False):
        K, slopes = Gauss(space, 0.4, normalized)(X, eval_gradient=True)
        expected, rises = Heat(space, t=0.4, normalized=normalized)(X, eval_gradient=True)
        np.testing.assert_allclose(K, expected, atol=1e-13)
        np.testing.assert_allclose(slopes, rises, atol=1e-12)
    assert Gauss(space).scaled_to(X, 0.3).t == pytest.approx(Heat(space, t=1.0).scaled_to(X, 0.3).t)


def test_long_sums_are_refused() -> None:
    with pytest.raises(ValueError, match="more than 20000 points of the lattice"):
        Spectral(Torus(), lambda v: (1 + v) ** -2.0)(np.zeros((2, 2)))
    with pytest.raises(ValueError, match="more than 20000 points of the lattice"):
        Spectral(Torus(), lambda v: np.exp(-v))(np.zeros((2, 150)))
    with pytest.raises(TypeError, match="function of the eigenvalues"):
        Spectral(Torus(), [1.0, 0.5])(np.zeros((2, 2)))


def test_periods() -> None:
    hours, angles = (
        np.array([[23.0, 1.0], [1.0, 13.0]]),
        np.array([[23.0, 1.0], [1.0, 13.0]]) * np.pi / 12,
    )
    K = Heat(Torus(period=24), t=0.2)(hours)
    np.testing.assert_allclose(K, Heat(Torus(), t=0.2)(angles), rtol=1e-13)
    mixed = hours * [1.0, 7 / 24]
    np.testing.assert_allclose(Heat(Torus(period=(24, 7)), t=0.2)(mixed), K, rtol=1e-13)
    np.testing.assert_allclose(
        Heat(Torus(period=24), t=0.2)(hours + np.array([240.0, -24.0])), K, rtol=1e-13
    )
    assert Torus((24, 7)) == Torus([24.0, 7.0])
    assert hash(Torus((24, 7))) == hash(Torus([24, 7]))
    assert eval(repr(Torus(period=(24, 7)))) == Torus(period=(24, 7))
    np.testing.assert_allclose(Torus(24).distances([[23.0, 0.0]], [[1.0, 0.0]]), [[np.pi / 6]])


def test_input_is_refused_by_name() -> None:
    for period in (0.0, -1.0, math.inf, (), (1.0, -2.0), "day", (1.0, "a")):
        with pytest.raises((ValueError, TypeError), match="period"):
            Torus(period=period)
    with pytest.raises(ValueError, match="leave n out"):
        Torus(period=(24, 7), n=3)
    kernel = Heat(Torus(period=24))
    X = np.zeros((5, 2))
    for bad in (np.nan, np.inf, 1e19):
        X[3, 1] = bad
        with pytest.raises(ValueError, match=r"row 3 of X"):
            kernel(X)
    with pytest.raises(TypeError, match=r"dense rows: give X.toarray\(\)"):
        kernel(sparse.eye(3, format="csr"))
    with pytest.raises(ValueError, match="nu of Matern"):
        Matern(Torus(), nu=0.01)(np.zeros((2, 2)))


def test_natural_unit_and_scale() -> None:
    X = np.random.default_rng(1).uniform(0, 24, size=(50, 4))
    assert Heat(Torus(24)).time(4) == pytest.approx(math.log(8))
    for kernel in (Heat(Torus(24)), Heat(Torus(24), t=1.0), Matern(Torus(24), nu=2.5)):
        K = kernel.scaled_to(X, 0.3)(X)
        assert np.median(K[np.triu_indices(50, 1)]) == pytest.approx(0.3, abs=1e-3)


def test_single_precision() -> None:
    X = RNG.uniform(0, 6, size=(8, 3)).astype(np.float32)
    K = Heat(Torus(), t=0.4)(X)
    assert K.dtype == np.float32
    np.testing.assert_allclose(K, Heat(Torus(), t=0.4)(X.astype(float)), rtol=1e-6)


@pytest.mark.parametrize("t", [0.05, 0.8, 1.7])
def test_tensors_are_differentiable(t: float) -> None:
    torch = pytest.importorskip("torch")
    X = torch.as_tensor(RNG.uniform(-5, 5, size=(4, 2)), dtype=torch.float64)
    X[3] = X[0]
    X.requires_grad_()
    time = torch.tensor(t, dtype=torch.float64, requires_grad=True)

    def gram(X, time):
        return Heat(Torus(), t=time)(X)

    def cross(X, time):
        return Heat(Torus(period=24), t=time, normalized=False)(X, X[:2] + 0.1)

    assert torch.autograd.gradcheck(cross, (X, time))
    assert torch.autograd.gradcheck(gram, (X, time))
    assert torch.autograd.gradgradcheck(cross, (X, time), atol=1e-6)
    np.testing.assert_allclose(
        gram(X, time).detach(), Heat(Torus(), t=t)(X.detach().numpy()), atol=1e-14
    )
    (slope,) = torch.autograd.grad(gram(X, time).sum(), time)
    by_log = Heat(Torus(), t=t)(X.detach().numpy(), eval_gradient=True)[1]
    assert float(slope) * t == pytest.approx(by_log.sum(), abs=1e-12)


@pytest.mark.parametrize("normalized", [True, False])
def test_mixtures_of_tensors_are_differentiable(normalized: bool) -> None:
    torch = pytest.importorskip("torch")
    X = torch.as_tensor(RNG.uniform(-5, 5, size=(4, 2)), dtype=torch.float64).requires_grad_()
    length = torch.tensor(0.8, dtype=torch.float64, requires_grad=True)

    def gram(X, length):
        return Matern(Torus(), nu=1.5, length_scale=length, normalized=normalized)(X, X[:2] + 0.1)

    kernel = Matern(Torus(), nu=1.5, length_scale=0.8, normalized=normalized)
    rows = X.detach().numpy()
    np.testing.assert_allclose(gram(X, length).detach(), kernel(rows, rows[:2] + 0.1), rtol=1e-12)
    assert torch.autograd.gradcheck(gram, (X, length))
    assert torch.autograd.gradgradcheck(lambda length: gram(X.detach(), length), (length,), atol=1e-6)
    own = Matern(Torus(), nu=1.5, length_scale=length, normalized=normalized).diag(X)
    np.testing.assert_allclose(own.detach(), kernel.diag(rows), rtol=1e-12)


@pytest.mark.parametrize("normalized", [True, False])
def test_features_are_within_their_error(normalized: bool) -> None:
    X = RNG.uniform(0, 24, size=(20, 2))
    space = Torus(period=24)
    for kernel, sizes in (
        (Heat(space, t=0.3, normalized=normalized), (5, 40, 200)),
        (Matern(space, nu=2.5, length_scale=1.0, normalized=normalized), (40, 400)),
        (Spectral(space, lambda v: np.exp(-v) * (v > 0), normalized=normalized), (4, 100)),
    ):
        for size in sizes:
            features = SpectralFeatures(kernel, n_components=size).fit(X)
            F = features._map(space.check(X))
            assert F.shape[1] == len(features.eigenvalues_) <= size
            assert np.abs(F @ F.T - kernel(X)).max() <= features.error_
    features = SpectralFeatures(Heat(space, t=0.3, normalized=normalized), n_components=400).fit(X)
    assert features.error_ < 1e-14
    with pytest.raises(ValueError, match="allow for more"):
        SpectralFeatures(Spectral(space, lambda v: np.exp(-v) * (v > 0)), n_components=3).fit(X)


def test_features_of_tensors() -> None:
    torch = pytest.importorskip("torch")
    X = torch.as_tensor(RNG.uniform(size=(5, 2)), dtype=torch.float64).requires_grad_()
    features = SpectralFeatures(Heat(Torus(n=2), t=0.5), n_components=100).fit()
    assert torch.autograd.gradcheck(features.transform, X)


@pytest.mark.parametrize("normalized", [True, False])
@pytest.mark.parametrize("t", [0.5, 1.2])
def test_gaussian_process_is_the_dense_model(normalized: bool, t: float) -> None:
    rng = np.random.default_rng(3)
    X, new = rng.uniform(-10, 10, size=(150, 2)), rng.uniform(-10, 10, size=(20, 2))
    y = np.sin(X[:, 0]) * np.cos(X[:, 1]) + 0.1 * rng.normal(size=150) + 2
    kernel = Heat(Torus(n=2), t=t, normalized=normalized)
    model = SphericalGPRegressor(kernel, optimize=False, amplitude=1.7, noise=0.05, max_features=600)
    mean, std = model.fit(X, y).predict(new, return_std=True, include_noise=False)
    z = (y - y.mean()) / y.std()
    # The kernel is the sum over a lattice that is written here anew.
    points = np.array(list(itertools.product(range(-14, 15), repeat=2)))
    a = np.exp(-t * (points**2).sum(axis=1))
    a /= a.sum() if normalized else (2 * np.pi) ** 2

    def gram(A, B):
        left, right = (
            np.concatenate([np.cos(Z @ points.T), np.sin(Z @ points.T)], axis=1) for Z in (A, B)
        )
        return 1.7 * (left * np.tile(a, 2)) @ right.T

    C = gram(X, X) + 0.05 * np.eye(150)
    star = gram(new, X)
    np.testing.assert_allclose(mean, y.mean() + y.std() * star @ np.linalg.solve(C, z), atol=1e-8)
    variance = np.diag(gram(new, new) - star @ np.linalg.solve(C, star.T))
    np.testing.assert_allclose(std**2, y.std() ** 2 * variance, atol=1e-8)
    evidence = z @ np.linalg.solve(C, z) + np.linalg.slogdet(C)[1]
    evidence += 150 * math.log(2 * np.pi * y.std() ** 2)
    assert model.elbo_ == pytest.approx(-evidence / 2, abs=1e-6)


def test_gaussian_process_learns_its_time() -> None:
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 24, size=(300, 2))
    y = np.sin(X @ [np.pi / 12, np.pi / 6]) + 0.1 * rng.normal(size=300)
    model = SphericalGPRegressor(Heat(Torus(period=24)), max_features=200).fit(X, y)
    assert model.score(X, y) > 0.95
    # The number of columns comes from the data, or from the space.
    own = SphericalGPRegressor(Heat(Torus(period=24, n=2)), max_features=200).fit(X, y)
    np.testing.assert_array_equal(own.predict(X), model.predict(X))
    blocks = [(X[:200], y[:200]), (X[200:], y[200:])]
    np.testing.assert_allclose(model.fit(blocks).predict(X), own.predict(X), rtol=1e-6)
    with pytest.raises(ValueError, match="X of block 1 has 1 columns, but 2 in the first block"):
        model.fit([blocks[0], (X[200:, :1], y[200:])])


def test_classes_and_counts_of_the_time_of_day() -> None:
    rng = np.random.default_rng(1)
    X = rng.uniform(0, 24, size=(400, 1))
    rate = np.exp(1 + np.sin(X[:, 0] * np.pi / 12))
    counts = rng.poisson(rate)
    kernel = Heat(Torus(period=24))
    model = SphericalGPPoissonRegressor(kernel, max_features=30).fit(X, counts)
    assert np.abs(model.predict(X) / rate - 1).mean() < 0.1
    classifier = SphericalGPClassifier(kernel, max_features=30).fit(X, rate > np.e)
    assert classifier.score(X, rate > np.e) > 0.95
    np.testing.assert_allclose(classifier.predict_proba(X + 24), classifier.predict_proba(X), atol=1e-9)


def test_what_is_left_out_adds_up() -> None:
    for p, t in ((1, 0.02), (2, 0.05), (3, 0.1), (6, 1.0)):
        basis = Torus().eigenfunctions(p, 20, lambda v: -v)
        logs = np.concatenate([basis.eigenvalues, basis.rest_eigenvalues]) * -t
        total = np.exp(logs) @ basis.mean_squares
        exact = Torus().realise(Diffusion(t), p).log_self_similarity
        assert math.log(total) == pytest.approx(exact, abs=1e-9)
    rough = np.concatenate([basis.eigenvalues, basis.rest_eigenvalues])
    assert len(rough) < 1000


@pytest.mark.parametrize(("p", "count"), [(1, 20), (1, 500), (1, 2000), (2, 500), (2, 15_000), (3, 500)])
def test_what_is_left_out_of_rough_kernels_adds_up(p: int, count: int) -> None:
    """Levels beyond 4096, which 128 functions of the circle reach, were counted twice."""
    for nu in (0.5, 2.5):
        kernel = Matern(Torus(n=p), nu, normalized=False)
        basis = kernel.eigenfunctions(p, count)
        eigenvalues = np.concatenate([basis.eigenvalues, basis.rest_eigenvalues])
        weights = (2 * nu / kernel.scale(p) ** 2 + eigenvalues) ** (-nu - p / 2) * basis.mean_squares
        top = float(kernel.diag(np.zeros((1, p)))[0])
        left = top - weights[: len(basis.eigenvalues)].sum()
        rest = weights[len(basis.eigenvalues) :].sum()
        assert rest == pytest.approx(left, rel=2e-3, abs=1e-13 * top)


def test_many_columns_have_no_eigenfunctions() -> None:
    with pytest.raises(ValueError, match="at most 100 columns"):
        Torus().eigenfunctions(101, None, lambda v: -v)


@pytest.mark.parametrize("t", [0.01, 0.3, 1.0, 3.0])
def test_least_eigenvalue(t: float) -> None:
    X = np.concatenate([RNG.uniform(-4, 4, size=(60, 3)), np.zeros((1, 3)), np.full((1, 3), 1e-9)])
    for kernel in (Heat(Torus(), t=t), Matern(Torus(), nu=0.5, length_scale=t)):
        assert np.linalg.eigvalsh(kernel(X))[0] > -1e-13
