"""Rotations against sums over the characters of SO(3)."""

import math

import mpmath as mp
import numpy as np
import pytest
from scipy import sparse
from scipy.spatial.transform import Rotation

from mercer.features import SpectralFeatures
from mercer.kernels import Heat, Matern, Spectral, SpectralKernel
from mercer.spaces import Projective, Rotations

R = Rotations()


def rotations(size: int, seed: int = 0) -> np.ndarray:
    """Random matrices, as rows of nine numbers."""
    return Rotation.random(size, random_state=seed).as_matrix().reshape(size, 9)


def quaternions(rows: np.ndarray) -> np.ndarray:
    """The same as quaternions (w, x, y, z), by SciPy."""
    return np.roll(Rotation.from_matrix(rows.reshape(-1, 3, 3)).as_quat(), 1, axis=1)


def about(angle: float) -> list[float]:
    """A turn about a skew axis."""
    axis = np.array([1.0, -2.0, 2.0]) / 3
    return [math.cos(angle / 2), *(math.sin(angle / 2) * axis)]


def character_sum(weights, angle: float, levels: int):
    """``sum_l (2 l + 1) a(l (l + 1)) chi_l(angle)`` with 40 digits, chi_l from cosines."""
    with mp.workdps(40):
        total, character, angle = mp.mpf(0), mp.mpf(0), mp.mpf(angle)
        for level in range(levels):
            character += 2 * mp.cos(level * angle) if level else 1
            total += (2 * level + 1) * weights(mp.mpf(level * (level + 1))) * character
        return total


ANGLES = [0.0, 1e-3, 0.1, 0.7, 1.5, 2.5, 3.1, math.pi]


def check_sums(kernel, weights, levels: int, tolerance: float) -> None:
    rows = np.array([about(angle) for angle in ANGLES])
    found = {n: kernel.set_params(normalized=n)(rows, rows[:1])[:, 0] for n in (True, False)}
    top = character_sum(weights, 0, levels)
    for i, angle in enumerate(ANGLES):
        exact = character_sum(weights, angle, levels)
        assert abs(found[True][i] - exact / top) < tolerance
        assert abs(found[False][i] / top - exact / top) < tolerance


@pytest.mark.parametrize("t", [0.004, 0.05, 0.5, math.log(9) / 2, 5.0])
def test_heat_is_a_sum_of_characters(t: float) -> None:
    levels = 10 + math.ceil(10 / math.sqrt(t))
    check_sums(Heat(R, t=t), lambda v: mp.exp(-v * mp.mpf(t)), levels, 1e-12)


def test_heat_at_short_times() -> None:
    """``sqrt(pi) t^(-3/2) exp(t / 4 - a^2 / 4 t) (a / 2) / sin(a / 2)``, by Poisson's formula."""
    for t in (1e-6, 1e-4, 0.01, 0.1):
        angles = np.array([0.0, 1.0, 3.0]) * math.sqrt(t)
        K = Heat(R, t=t)([about(a) for a in angles], [about(0.0)])[:, 0]
        half = np.where(angles > 0, angles, 1.0) / 2
        exact = np.exp(-(angles**2) / (4 * t)) * np.where(angles > 0, half / np.sin(half), 1.0)
        # Angles come from unit vectors, whose rounding times / t is what is left.
        np.testing.assert_allclose(K, exact, atol=1e-12 + 1e-15 / t)
        value = math.log(math.sqrt(math.pi) * t**-1.5) + t / 4
        assert Heat(R, t=t).log_self_similarity(4) == pytest.approx(value, abs=1e-12)


@pytest.mark.parametrize(("nu", "levels"), [(4.5, 1500), (9.0, 200)])
def test_smooth_matern_is_a_sum_of_characters(nu: float, levels: int) -> None:
    rate, power = 2 * nu / mp.mpf(0.9) ** 2, mp.mpf(nu) + mp.mpf(3) / 2
    check_sums(Matern(R, nu=nu, length_scale=0.9), lambda v: (rate + v) ** -power, levels, 1e-12)


@pytest.mark.parametrize("length", [0.5, 1.5])
def test_rough_matern_has_a_closed_form(length: float) -> None:
    """With nu = 0.5 the weights are ``1 / (c + m^2)^2``, m = l + 1/2 and c = 1 / length^2 - 1/4."""
    rows = [about(a) for a in ANGLES]
    K = Matern(R, nu=0.5, length_scale=length)(rows, rows[:1])[:, 0]

    def resolvent(angle, c):
        """``sum_m cos(m a) / (c + m^2)`` over positive halves m."""
        r = mp.sqrt(c)
        return mp.pi / (2 * r) * mp.sinh(r * (mp.pi - angle)) / mp.cosh(mp.pi * r)

    def exact(angle):
        """Derivatives of it by c and by the angle make ``sum_m 2 m sin(m a) / (c + m^2)^2``."""
        angle, c = max(mp.mpf(angle), mp.mpf(10) ** -14), 1 / mp.mpf(length) ** 2 - mp.mpf(1) / 4
        return mp.diff(resolvent, (angle, c), (1, 1)) / mp.sin(angle / 2)

    with mp.workdps(60):
        top = exact(0)
        for value, angle in zip(K, ANGLES, strict=True):
            assert abs(value - exact(angle) / top) < 1e-12


@pytest.mark.parametrize("nu", [0.5, 1.5, 2.5])
def test_gradient_of_matern(nu: float) -> None:
    X = rotations(12)
    for normalized in (True, False):
        kernel = Matern(R, nu=nu, length_scale=0.6, normalized=normalized)
        K, slope = kernel(X, eval_gradient=True)
        step = 1e-4
        ends = [kernel.clone_with_theta(kernel.theta + s)(X) for s in (step, -step)]
        np.testing.assert_allclose(
            slope[:, :, 0], (ends[0] - ends[1]) / (2 * step), atol=1e-6 * np.abs(K).max()
        )


def test_spectral_by_functions_and_by_levels() -> None:
    check_sums(
        Spectral(R, [1.0, 0.5, 0.0, 0.2]), lambda v: {0: 1, 2: 0.5, 12: 0.2}.get(int(v), 0), 4, 1e-14
    )
    check_sums(Spectral(R, lambda v: (1 + v) ** -9.0), lambda v: (1 + v) ** -9, 150, 1e-12)


def test_own_kernels_have_gradients() -> None:
    class Gauss(SpectralKernel):
        def __init__(self, space, t=1.0, normalized=True, t_bounds=(1e-3, 1e3)):
            self.space, self.t, self.normalized, self.t_bounds = space, t, normalized, t_bounds

        def continuous(self):
            return ("t",)

        def log_weights(self, eigenvalues, dimension):
            return -eigenvalues * self.t

    X = rotations(6)
    for normalized in (True, False):
        K, slope = Gauss(R, 0.4, normalized)(X, eval_gradient=True)
        expected, rises = Heat(R, t=0.4, normalized=normalized)(X, eval_gradient=True)
        np.testing.assert_allclose(K, expected, atol=1e-12)
        np.testing.assert_allclose(slope, rises, atol=1e-11)


def test_matrices_and_quaternions_are_the_same() -> None:
    turns = [[1, 1, 1], [1, -1, -1], [-1, 1, -1], [-1, -1, 1]]  # half turns, and none
    X = np.concatenate([rotations(50), [np.diag(d).ravel() for d in turns]])
    kernel = Heat(R, t=0.3)
    np.testing.assert_allclose(kernel(X), kernel(quaternions(X)), atol=1e-13)
    np.testing.assert_allclose(kernel(X, quaternions(X)), kernel(X), atol=1e-13)
    traces = np.einsum("iab,jab->ij", *[X.reshape(-1, 3, 3)] * 2)
    np.testing.assert_allclose(np.cos(R.distances(X)), (traces - 1) / 2, atol=1e-13)


def test_quaternions_of_one_rotation_are_equal() -> None:
    Q = np.random.default_rng(0).normal(size=(20, 4))
    Q[:4] *= np.tri(4)[::-1]  # with zeros in front
    np.testing.assert_array_equal(R.check(Q), R.check(-Q))
    K = Matern(R, nu=0.5, length_scale=1e-3)(Q, -4.0 * Q)
    np.testing.assert_array_equal(np.diag(K), 1.0)


def test_invariance() -> None:
    X = rotations(20)
    for seed in range(3):
        turned = R.isometry(np.random.default_rng(seed))
        turn = turned(np.eye(3).reshape(1, 9)).reshape(3, 3)
        np.testing.assert_allclose(turned(X).reshape(-1, 3, 3), turn @ X.reshape(-1, 3, 3), atol=1e-14)
        for kernel in (Heat(R), Matern(R, nu=1.5)):
            np.testing.assert_allclose(kernel(turned(X)), kernel(X), atol=1e-13)
            np.testing.assert_allclose(kernel(turned(quaternions(X))), kernel(X), atol=1e-13)
            np.testing.assert_allclose(  # the order of two rotations does not matter
                kernel((X.reshape(-1, 3, 3) @ X[0].reshape(3, 3)).reshape(-1, 9)), kernel(X), atol=1e-13
            )


@pytest.mark.parametrize("kernel", [Heat(R, t=0.02), Heat(R), Matern(R, nu=0.5), Matern(R)], ids=repr)
def test_least_eigenvalue(kernel) -> None:
    assert np.linalg.eigvalsh(kernel(rotations(80)))[0] > -1e-13


def test_input_is_refused_by_name() -> None:
    kernel = Heat(R)
    for columns in (3, 5, 16):
        with pytest.raises(ValueError, match=rf"X has {columns} columns, but Rotations\(\) takes 9"):
            kernel(np.ones((2, columns)))
    X = rotations(5)
    for bad, match in (
        (X[3] * 1.001, "not an orthogonal matrix"),
        (-X[3], "reflection"),
        (np.zeros(9), "not an orthogonal matrix"),
        (np.full(9, 1e200), "not an orthogonal matrix"),
        (np.full(9, np.nan), "NaN"),
    ):
        spoilt = X.copy()
        spoilt[3] = bad
        with pytest.raises(ValueError, match=f"row 3 of X.*{match}"):
            kernel(spoilt)
    with pytest.raises(ValueError, match=r"row 1 of X.*all zeros"):
        kernel([[1, 0, 0, 0], [0, 0, 0, 0]])
    with pytest.raises(TypeError, match=r"dense rows: give X.toarray\(\)"):
        kernel(sparse.csr_matrix(X))
    with pytest.raises(ValueError, match=r"X has 3 dimensions.*X.reshape\(len\(X\), 9\)"):
        kernel(X.reshape(-1, 3, 3))
    np.testing.assert_allclose(kernel(X.round(9)), kernel(X), atol=1e-7)  # half the digits are enough


def test_natural_unit_and_scale() -> None:
    X = rotations(60)
    assert Heat(R).time(4) == pytest.approx(math.log(3))
    for kernel in (Heat(R), Heat(R, t=1.0), Matern(R, nu=2.5)):
        K = kernel.scaled_to(X, 0.3)(X)
        assert np.median(K[np.triu_indices(60, 1)]) == pytest.approx(0.3, abs=1e-3)


def test_single_precision() -> None:
    X = rotations(8).astype(np.float32)
    K = Heat(R, t=0.4)(X)
    assert K.dtype == np.float32
    np.testing.assert_allclose(K, Heat(R, t=0.4)(quaternions(X.astype(float))), atol=1e-6)


def test_tensors_are_differentiable() -> None:
    torch = pytest.importorskip("torch")
    vectors = torch.as_tensor(np.random.default_rng(1).normal(size=(4, 3)), dtype=torch.float64)
    vectors.requires_grad_()
    time = torch.tensor(0.4, dtype=torch.float64, requires_grad=True)

    def matrices(vectors):
        zero = torch.zeros_like(vectors[:, 0])
        x, y, z = vectors.T
        rows = torch.stack([zero, -z, y, z, zero, -x, -y, x, zero], dim=1)
        return torch.linalg.matrix_exp(rows.reshape(-1, 3, 3)).reshape(-1, 9)

    def cross(vectors, time):
        return Heat(R, t=time)(matrices(vectors), matrices(vectors[:2] + 0.3))

    assert torch.autograd.gradcheck(cross, (vectors, time))
    X = matrices(vectors).detach()
    np.testing.assert_allclose(Heat(R, t=0.4)(X), Heat(R, t=0.4)(X.numpy()), atol=1e-13)
    np.testing.assert_allclose(R.check(X), R.check(X.numpy()), atol=1e-15)


@pytest.mark.parametrize("normalized", [True, False])
def test_features_are_within_their_error(normalized: bool) -> None:
    X = rotations(15)
    for kernel, sizes in (
        (Heat(R, t=0.5, normalized=normalized), (10, 165)),
        (Matern(R, nu=4.0, length_scale=1.0, normalized=normalized), (10, 165)),
        (Spectral(R, [0.0, 1.0, 0.5], normalized=normalized), (9, 34)),
    ):
        for size in sizes:  # whole levels: 1 + 9 + 25 + 49 + 81
            features = SpectralFeatures(kernel, n_components=size).fit(X)
            F = features._map(R.check(X))
            assert np.abs(F @ F.T - kernel(X)).max() <= features.error_ + 1e-12
            levels, counts = np.unique(features.eigenvalues_, return_counts=True)
            number = np.rint((np.sqrt(1 + 4 * levels) - 1) / 2)
            np.testing.assert_allclose(levels, number * (number + 1))
            np.testing.assert_array_equal(counts, (2 * number + 1) ** 2)
    assert SpectralFeatures(Spectral(R, [0.0, 1.0, 0.5]), n_components=34).fit(X).error_ < 1e-12


def test_smooth_laws_of_even_levels_are_summed() -> None:
    """The end of a series with gaps was not found."""
    K = Matern(Projective(), nu=2.5, length_scale=0.7)(np.array([[1.0, 0, 0, 0], [1.0, 0.3, 0, 0]]))
    assert 0 < K[0, 1] < 1
