"""Torus, rotations, categories and products at extreme parameters, against mpmath from the exact input.

References are sums over images (Poisson's formula), which share nothing with the code.
"""

import itertools
import math

import mpmath as mp
import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from mercer.kernels import Heat, Matern
from mercer.spaces import Categories, ProductSpace, Rotations, Torus

TIMES = [1e-8, 1e-6, 1e-4, 0.01, 0.5, 1.0, 3.0, 40.0, 700.0]


@pytest.fixture(autouse=True)
def digits():
    with mp.workdps(30):
        yield


def circle_heat(angle, t):
    """Theta function ``sum_k exp(-k^2 t) cos(k a)``."""
    if t > 2:
        return mp.fsum(mp.exp(-k * k * t) * mp.cos(k * angle) for k in range(-8, 9))
    images = (mp.exp(-((angle + 2 * mp.pi * k) ** 2) / (4 * t)) for k in range(-9, 10))
    return mp.sqrt(mp.pi / t) * mp.fsum(images)


def turn(x: float, y: float, period: float):
    """Angle between numbers, taken as they are."""
    share = (mp.mpf(float(x)) - mp.mpf(float(y))) / mp.mpf(period)
    return 2 * mp.pi * (share - mp.nint(share))


@pytest.mark.parametrize("t", [1e-12, *TIMES])
@pytest.mark.parametrize(("period", "columns"), [(2 * np.pi, 3), (24.0, 1), (24.0, 30)])
def test_heat_on_the_torus(t: float, period: float, columns: int) -> None:
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 2, size=(8, columns)) * period
    lengths = np.array([1e-9, 1e-6, 0.5 * math.sqrt(t), 2 * math.sqrt(t), 0.1, 1.0])
    X[2:] = X[0] + lengths[:, None] * rng.normal(size=(6, columns)) * period / (7 * math.sqrt(columns))
    X[1] = X[0] + period / 2
    K = Heat(Torus(period=period), t=t)(X, X[:1])[:, 0]
    for found, row in zip(K, X, strict=True):
        parts = (circle_heat(turn(a, b, period), mp.mpf(t)) for a, b in zip(row, X[0], strict=True))
        exact = mp.fprod(parts) / circle_heat(mp.mpf(0), mp.mpf(t)) ** columns
        # Angles are known to 2e-16 or so.
        assert abs(found - exact) < 1e-12 + 3e-16 / math.sqrt(t)


def test_small_angles_of_either_sign_are_not_rounded() -> None:
    """A remainder of -1e-9 would be off by 1e-16 of the period."""
    angles = np.array([[1e-9], [-1e-9], [-3e-9]])
    K = Heat(Torus(), t=1e-18)(angles)
    exact = np.exp(-((angles - angles.T) ** 2) / 4e-18)
    np.testing.assert_allclose(K, exact, rtol=1e-13)


def flat_matern(distance, nu, length):
    """The Matern kernel of flat space."""
    z = mp.sqrt(2 * nu) * distance / length
    return 2 ** (1 - nu) / mp.gamma(nu) * z**nu * mp.besselk(nu, z) if z else mp.mpf(1)


@pytest.mark.parametrize("length", [1e-4, 0.3])
@pytest.mark.parametrize(("columns", "nu"), [(1, 0.1), (1, 2.5), (1, 30.0), (2, 0.3), (2, 7.25)])
def test_matern_on_the_torus(columns: int, nu: float, length: float) -> None:
    angles = [0.0, 1e-9, 1e-5, 0.3 * length, 2 * length, 1.0, 3.0]
    X = np.outer(angles, [1.0, 0.7][:columns])
    K = Matern(Torus(), nu, length_scale=length)(X, X[:1])[:, 0]
    steps = list(itertools.product(range(-6, 7), repeat=columns))

    def images(row):
        where = [[mp.mpf(float(a)) + 2 * mp.pi * k for a, k in zip(row, s, strict=True)] for s in steps]
        return mp.fsum(flat_matern(mp.norm(a), mp.mpf(nu), mp.mpf(length)) for a in where)

    top = images(X[0])
    for found, row in zip(K, X, strict=True):
        assert abs(found - images(row) / top) < 1e-12


def half_angle(p, q):
    """Half the angle between the rotations of two quaternions, taken as they are."""
    p, q = ([mp.mpf(float(v)) for v in row] for row in (p, q))
    p, q = ([v / mp.norm(row) for v in row] for row in (p, q))
    apart, along = (mp.norm([a + s * b for a, b in zip(p, q, strict=True)]) for s in (-1, 1))
    return 2 * mp.atan2(min(apart, along), max(apart, along))


def half_angle_of_matrices(p, q):
    """The same for matrices, of the rotations next to them."""

    def nearest(row):
        R = mp.matrix(3, 3)
        for j, value in enumerate(row):
            R[j // 3, j % 3] = mp.mpf(float(value))
        for _ in range(6):
            R = (R + R.T**-1) / 2
        return R

    R = nearest(p).T * nearest(q)
    sine = mp.norm([R[2, 1] - R[1, 2], R[0, 2] - R[2, 0], R[1, 0] - R[0, 1]]) / 2
    return mp.atan2(sine, (R[0, 0] + R[1, 1] + R[2, 2] - 1) / 2) / 2


def rotation_heat(half, t):
    """``sum_l (2 l + 1) exp(-l (l + 1) t) sin((2 l + 1) a) / sin(a)``."""
    if t > 2:
        levels = [(2 * k + 1, mp.exp(-k * (k + 1) * t)) for k in range(9)]
        return mp.fsum(m * p * (mp.sin(m * half) / mp.sin(half) if half else m) for m, p in levels)
    angles = [(k, half + mp.pi * k) for k in range(-9, 10)]
    if half:
        parts = ((-1) ** k * a * mp.exp(-a * a / t) / mp.sin(half) for k, a in angles)
    else:  # derivatives by the angle
        parts = ((-1) ** k * (1 - 2 * a * a / t) * mp.exp(-a * a / t) for k, a in angles)
    return mp.sqrt(mp.pi) * t**-1.5 * mp.exp(t / 4) * mp.fsum(parts)


def near_rotations() -> tuple[np.ndarray, np.ndarray]:
    """A quaternion, and others that are turned from it by all kinds of angles."""
    first = Rotation.random(random_state=1)
    axis = np.array([2.0, -1.0, 2.0]) / 3
    angles = [0.0, 1e-9, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 0.01, 0.3, 2.0, 3.14159, np.pi]
    turned = Rotation.from_rotvec(np.outer(angles, axis)) * first
    return np.roll(first.as_quat(), 1), np.roll(turned.as_quat(), 1, axis=1)


@pytest.mark.parametrize("t", [1e-14, 1e-12, 1e-10, *TIMES])
@pytest.mark.parametrize("matrices", [False, True], ids=["quaternions", "matrices"])
def test_heat_of_near_rotations(t: float, matrices: bool) -> None:
    first, rows = near_rotations()
    if matrices:
        first, rows = (Rotation.from_quat(np.roll(q, -1, axis=-1)).as_matrix() for q in (first, rows))
        rows = rows.reshape(-1, 9)
    first = first.reshape(1, -1)
    angle = half_angle_of_matrices if matrices else half_angle
    K = Heat(Rotations(), t=t)(rows, first)[:, 0]
    top = rotation_heat(mp.mpf(0), mp.mpf(t))
    for found, row in zip(K, rows, strict=True):
        exact = rotation_heat(angle(row, first[0]), mp.mpf(t)) / top
        # Quaternions are known to 2e-16 or so.
        assert abs(found - exact) < 1e-12 + 2e-16 / math.sqrt(t)


@pytest.mark.parametrize(("nu", "nearest"), [(0.1, 1e-7), (0.5, 1e-7), (1.5, 0.0), (30.0, 0.0)])
@pytest.mark.parametrize("length", [1e-4, 0.01, 0.8])
def test_matern_of_near_rotations(nu: float, nearest: float, length: float) -> None:
    """Weights ``(c + m^2)^-s`` with odd m have Bessel functions as their images.

    Rough laws take angles below 2e-8 for zero.
    """
    first, rows = near_rotations()
    K = Matern(Rotations(), nu, length_scale=length)(rows, [first])[:, 0]
    power, root = mp.mpf(nu), mp.sqrt(8 * mp.mpf(nu) / mp.mpf(length) ** 2 - 1)

    def image(a):
        return mp.sign(a) * abs(a) ** (power + 1) * mp.besselk(power, root * abs(a))

    def slope(a):
        bessel, before = mp.besselk(power, root * a), mp.besselk(power - 1, root * a)
        return a**power * (bessel - root * a * before)

    top = 2 ** (power - 1) * mp.gamma(power) * root**-power
    top += 2 * mp.fsum((-1) ** k * slope(mp.pi * k) for k in range(1, 40))
    for found, row in zip(K, rows, strict=True):
        half = half_angle(row, first)
        if half == 0:
            assert found == 1
        elif 2 * half > nearest:
            images = mp.fsum((-1) ** k * image(half + mp.pi * k) for k in range(-40, 41))
            # A law that falls like a^(2 nu) magnifies the error of angles.
            rounding = 4e-16 * float(half) ** (2 * min(nu, 1) - 1) / length ** (2 * min(nu, 1))
            assert abs(found - images / mp.sin(half) / top) < 1e-12 + rounding


@pytest.mark.parametrize("t", [1e-300, 1e-100, 1e-12, 1e-3, 0.5, 3.0, 100.0, 1e300])
@pytest.mark.parametrize("levels", [(2, 2, 2), (3, 1000, 10**6)])
def test_heat_of_categories(t: float, levels: tuple[int, ...]) -> None:
    X = [[0, 0, 0], [1, 0, 0], [1, 1, 0], [1, 1, 1]]
    kernel = Heat(Categories(levels), t=t)
    K, logs = kernel(X, X[:1])[:, 0], kernel.log(X, X[:1])[:, 0]
    exact = mp.mpf(1)
    for i, q in enumerate([None, *levels]):
        if q is not None:  # entries of exp(-t L) of the complete graph of q nodes
            exact *= -mp.expm1(-q * mp.mpf(t)) / (1 + (q - 1) * mp.exp(-q * mp.mpf(t)))
        assert abs(K[i] - exact) < 1e-12 * exact + mp.mpf(10) ** -320
        assert abs(logs[i] - mp.log(exact)) < 1e-14 * max(1, abs(mp.log(exact)))


MIXED = ProductSpace(Torus(), Rotations(), Categories(3), columns=[[0], slice(1, 5), [5, 6]])


def mixed_heat(angle, half, differ: int, t):
    """The heat kernel of the product, not normalised."""
    same, other = (1 + 2 * mp.exp(-3 * t)) / 3, -mp.expm1(-3 * t) / 3
    labels = other**differ * same ** (2 - differ)
    return circle_heat(angle, t) / (2 * mp.pi) * rotation_heat(half, t) * labels


def mixed_rows() -> tuple[np.ndarray, list[tuple]]:
    """Rows, and angle, half angle and number of different labels between each and the first."""
    first, others = near_rotations()
    X = np.array([[0.5, *first, 0, 0], [0.5 + 1e-6, *others[4], 0, 0], [1.3, *others[8], 1, 0]])
    X = np.vstack([X, [3.5, *others[10], 1, 2]])
    pairs = [(turn(x[0], 0.5, 2 * np.pi), half_angle(x[1:5], first), int((x[5:] != 0).sum())) for x in X]
    return X, pairs


@pytest.mark.parametrize("t", TIMES)
def test_heat_on_a_product(t: float) -> None:
    X, pairs = mixed_rows()
    K = Heat(MIXED, t=t)(X, X[:1])[:, 0]
    top = mixed_heat(mp.mpf(0), mp.mpf(0), 0, mp.mpf(t))
    for found, pair in zip(K, pairs, strict=True):
        assert abs(found - mixed_heat(*pair, mp.mpf(t)) / top) < 1e-12 + 3e-16 / math.sqrt(t)


@pytest.mark.parametrize(("nu", "length"), [(0.7, 0.01), (0.7, 2.0), (6.5, 0.3)])
def test_matern_on_a_product(nu: float, length: float) -> None:
    """The mixture over times of a Gamma distribution, by the trapezoidal rule in their logarithms."""
    X, pairs = mixed_rows()
    K = Matern(MIXED, nu, length_scale=length)(X, X[:1])[:, 0]
    shape, rate = mp.mpf(nu) + 2, 2 * mp.mpf(nu) / mp.mpf(length) ** 2
    times = [mp.exp(mp.mpf(k) / 6) / rate for k in range(-330, 35)]
    weights = [t**shape * mp.exp(-rate * t) for t in times]

    def mixture(pair):
        return mp.fsum(w * mixed_heat(*pair, t) for w, t in zip(weights, times, strict=True))

    top = mixture((mp.mpf(0), mp.mpf(0), 0))
    for found, pair in zip(K, pairs, strict=True):
        assert abs(found - mixture(pair) / top) < 1e-12
