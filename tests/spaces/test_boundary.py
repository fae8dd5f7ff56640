"""The simplex with its boundary, against sums over all signs in high precision and the heat equation."""

import math
from itertools import product

import mpmath
import numpy as np
import pytest
from flint import arb, ctx
from scipy import sparse
from scipy.sparse.linalg import splu

from mercer.bounds import covering_bound
from mercer.kernels import AxialHeat, Cosine, Heat, Matern, Spectral
from mercer.spaces import ProductSpace, Projective, Simplex, Sphere
from mercer.testing import check_space

BOUNDARIES = ("reflecting", "absorbing")
DIGITS = 70


def heat_weights(n: int, t: float) -> list[arb]:
    """``exp(-lambda_l t) N_l`` until they vanish."""
    weights, level = [], 0
    while level < 3 or weights[-1] > mpmath.mpf(10) ** (-mpmath.mp.dps) * max(weights):
        if n == 2:
            count = mpmath.mpf(2 if level else 1)
        else:
            count = mpmath.binomial(level + n - 1, n - 1) - mpmath.binomial(level + n - 3, n - 1)
        weights.append(count * mpmath.exp(-level * (level + n - 2) * mpmath.mpf(t)))
        level += 1
    return list(map(arb, weights))


def zonal_sums(weights: list[arb], n: int, w) -> tuple:
    """Sums of the series over even and over odd levels, by the recurrence; mpmath would be slow."""
    with ctx.workdps(mpmath.mp.dps):
        before, here = arb(1), arb(w)
        w = here
        sums = [weights[0] * before, weights[1] * here]
        for level in range(2, len(weights)):
            k = level - 1
            before, here = here, ((2 * k + n - 2) * w * here - k * before) / (k + n - 2)
            sums[level % 2] += weights[level] * here
        return tuple(mpmath.ldexp(*map(int, total.mid().man_exp())) for total in sums)


def brute_force(x: np.ndarray, y: np.ndarray, t: float, absorbing: bool):
    """Sum of the sphere's kernel over all 2^n reflections of y, half of them by symmetry."""
    n = len(x)
    weights = heat_weights(n, t)
    lengths = mpmath.sqrt(mpmath.fsum(map(mpmath.mpf, x)) * mpmath.fsum(map(mpmath.mpf, y)))
    a = [mpmath.sqrt(mpmath.mpf(p) * mpmath.mpf(q)) / lengths for p, q in zip(x, y, strict=True)]
    total = mpmath.mpf(0)
    for signs in product((1, -1), repeat=n - 1):
        even, odd = zonal_sums(
            weights, n, a[0] + mpmath.fsum(s * v for s, v in zip(signs, a[1:], strict=True))
        )
        parity = n % 2 if absorbing else 0
        total += 2 * (math.prod(signs) if absorbing else 1) * (odd if parity else even)
    return total


@pytest.mark.parametrize("t_star", [0.05, 0.3, 1.0, 2.0])
@pytest.mark.parametrize("boundary", BOUNDARIES)
@pytest.mark.parametrize("n", [2, 3, 5, 6])
def test_sums_over_signs(n: int, boundary: str, t_star: float) -> None:
    rows = np.random.default_rng(n).dirichlet(np.full(n, 0.5), size=3) + 1e-9
    rows[0] = 1.0
    t, absorbing = t_star * math.log(n) / n, boundary == "absorbing"
    with mpmath.workdps(DIGITS):
        sums = np.array([[brute_force(x, y, t, absorbing) for y in rows] for x in rows])
        lengths = [mpmath.sqrt(sums[i, i]) for i in range(3)]
        truth = np.array(
            [[float(sums[i, j] / lengths[i] / lengths[j]) for j in range(3)] for i in range(3)]
        )
        area = 2 * mpmath.pi ** (mpmath.mpf(n) / 2) / mpmath.gamma(mpmath.mpf(n) / 2)
        density = np.array([[float(sums[i, j] / area) for j in range(3)] for i in range(3)])
    space = Simplex(boundary=boundary)
    heat = Heat(space, t_star=t_star)
    assert np.abs(heat(rows) - truth).max() < 1e-13
    assert np.abs(heat(rows) / truth - 1).max() < 1e-11
    assert np.abs(heat.log(rows) - np.log(truth)).max() < 1e-11
    assert np.abs(Heat(space, t_star=t_star, normalized=False)(rows) / density - 1).max() < 1e-11


@pytest.mark.parametrize("t_star", [0.1, 1.0])
@pytest.mark.parametrize("boundary", BOUNDARIES)
@pytest.mark.parametrize("n", [3, 4])
def test_gradient(n: int, boundary: str, t_star: float) -> None:
    """The derivative by log t, against differences of sums over signs in high precision."""
    rows = np.random.default_rng(n).dirichlet(np.full(n, 0.8), size=2) + 1e-3
    t, step = t_star * math.log(n) / n, mpmath.mpf(10) ** -15
    with mpmath.workdps(DIGITS):

        def value(log_shift):
            moved = t * mpmath.exp(log_shift)
            sums = [[brute_force(x, y, moved, boundary == "absorbing") for y in rows] for x in rows]
            return sums[0][1] / mpmath.sqrt(sums[0][0] * sums[1][1])

        truth = float((value(step) - value(-step)) / (2 * step))
    _, slopes = Heat(Simplex(boundary=boundary), t=t)(rows, eval_gradient=True)
    assert abs(slopes[0, 1, 0] - truth) < 1e-10


@pytest.mark.parametrize("boundary", BOUNDARIES)
@pytest.mark.parametrize("t_star", [0.05, 2.0])
@pytest.mark.parametrize("n", [7, 8, 9, 10, 11, 12, 13, 14])
def test_many_signs(n: int, boundary: str, t_star: float) -> None:
    """Two values of coordinates only, so that binomial sums stand for those over 2^n signs."""
    absorbing = boundary == "absorbing"
    rows = np.ones((3, n))
    rows[0, :5], rows[1, :5] = 30.0, 0.01
    t = t_star * math.log(n) / n
    with mpmath.workdps(2 * DIGITS):
        weights = heat_weights(n, t)
        cache: dict = {}

        def value(x: np.ndarray, y: np.ndarray):
            lengths = mpmath.sqrt(mpmath.mpf(x.sum()) * mpmath.mpf(y.sum()))
            a, b = (mpmath.sqrt(mpmath.mpf(x[k]) * mpmath.mpf(y[k])) / lengths for k in (0, -1))
            total = mpmath.mpf(0)
            for i, j in product(range(6), range(n - 4)):
                w = (5 - 2 * i) * a + (n - 5 - 2 * j) * b
                if w not in cache:
                    cache[w] = sum(zonal_sums(weights, n, w))
                sign = (-1) ** (i + j) if absorbing else 1
                total += sign * math.comb(5, i) * math.comb(n - 5, j) * cache[w]
            return total

        sums = [[value(x, y) for y in rows] for x in rows]
        truth = np.array(
            [
                [float(sums[i][j] / mpmath.sqrt(sums[i][i] * sums[j][j])) for j in range(3)]
                for i in range(3)
            ]
        )
    K = Heat(Simplex(boundary=boundary), t_star=t_star)(rows)
    assert np.abs(K - truth).max() < 1e-12
    assert np.abs(K / truth - 1).max() < 1e-9


def triangle_heat(
    start: np.ndarray, t: float, size: int, absorbing: bool
) -> tuple[np.ndarray, np.ndarray]:
    """The heat equation on the octant of S^2 by finite volumes, in spherical coordinates.

    Returns unit vectors of the cells and the density at time t of heat that began in the cell of
    ``start``, with the areas of the cells.
    """
    step = math.pi / 2 / size
    centres = (np.arange(size) + 0.5) * step
    polar, turn = np.meshgrid(centres, centres, indexing="ij")
    area = (np.cos(polar - step / 2) - np.cos(polar + step / 2)) * step
    index = np.arange(size * size).reshape(size, size)
    links = [
        (index[:-1], index[1:], np.sin(polar[:-1] + step / 2)),
        (index[:, :-1], index[:, 1:], 1 / np.sin(polar[:, :-1])),
    ]
    shape = (size * size, size * size)
    L = sum(sparse.coo_matrix((c.ravel(), (p.ravel(), q.ravel())), shape=shape) for p, q, c in links)
    L = L + L.T
    rates = np.asarray(L.sum(axis=1)).ravel()
    if absorbing:  # a wall at half a cell's width: turn = 0, pi/2 and polar = pi/2
        wall = np.zeros((size, size))
        wall[:, [0, -1]] += 2 / np.sin(polar[:, [0, -1]])
        wall[-1] += 2
        rates = rates + wall.ravel()
    generator = sparse.diags(1 / area.ravel()) @ (L - sparse.diags(rates))
    points = np.stack(
        [np.sin(polar) * np.cos(turn), np.sin(polar) * np.sin(turn), np.cos(polar)], axis=-1
    ).reshape(-1, 3)
    first = int(np.argmax(points @ start))
    density = np.zeros(size * size)
    density[first] = 1 / area.ravel()[first]
    steps = 400
    # Two stages, second order, that damp the roughness of the start.
    gamma, h = 1 - 1 / math.sqrt(2), t / steps
    solver = splu(sparse.csc_matrix(sparse.identity(size * size) - gamma * h * generator))
    for _ in range(steps):
        one = solver.solve(generator @ density)
        two = solver.solve(generator @ (density + (1 - gamma) * h * one))
        density = density + h * ((1 - gamma) * one + gamma * two)
    return np.column_stack([points**2, density]), area.ravel()


@pytest.mark.parametrize("boundary", BOUNDARIES)
def test_heat_equation_on_the_triangle(boundary: str) -> None:
    start = np.sqrt(np.array([0.6, 0.3, 0.1]))
    solution, area = triangle_heat(start, 0.15, 96, boundary == "absorbing")
    rows, density = solution[:, :3], solution[:, 3]
    source = rows[np.argmax(np.sqrt(rows) @ start)]
    heat = Heat(Simplex(boundary=boundary), t=0.15, normalized=False)
    K = heat(source[None], rows)[0]
    assert np.abs(K - density).max() < 1e-3 * K.max()
    mass = float(K @ area)
    if boundary == "reflecting":
        assert abs(mass - 1) < 1e-4
    else:
        assert mass < 0.9
        assert abs(mass - float(density @ area)) < 1e-3


@pytest.mark.parametrize("boundary", BOUNDARIES)
def test_ground_state(boundary: str) -> None:
    """After a long time the density is that of the first eigenfunction: 1, or the product of roots."""
    rows = np.array([[0.2, 0.3, 0.5], [0.7, 0.2, 0.1]])
    t, volume = 3.0, math.pi / 2
    K = Heat(Simplex(boundary=boundary), t=t, normalized=False)(rows)
    if boundary == "reflecting":
        expected = np.full((2, 2), 1 / volume)
    else:  # level 3 has the eigenvalue 12, and (x y z)^2 the mean 1/105
        roots = np.sqrt(rows.prod(axis=1))
        expected = 105 / volume * math.exp(-12 * t) * np.outer(roots, roots)
    assert np.abs(K / expected - 1).max() < 1e-6


@pytest.mark.parametrize("boundary", BOUNDARIES)
def test_matern_mixes_diffusions(boundary: str) -> None:
    """By quadrature over times of a Gamma distribution, at points where short ones do not matter."""
    rows = np.array([[0.1, 0.3, 0.6], [0.6, 0.3, 0.1]])
    space = Simplex(boundary=boundary)
    matern = Matern(space, nu=4.0, length_scale=0.8, normalized=False)
    shape, rate = 4.0 + 1, 2 * 4.0 / 0.64
    volume = math.pi / 2  # Matern's weights are for the probability measure

    def integrand(log_t: float) -> float:
        t = math.exp(log_t)
        K = Heat(space, t=t, normalized=False)(rows[:1], rows[1:])[0, 0] * volume
        return K * math.exp(shape * log_t - rate * t) / math.gamma(shape)

    step = 0.25  # the integrand vanishes at both ends, so that equal steps converge fast
    truth = step * sum(map(integrand, np.arange(math.log(1e-2), math.log(8.0), step)))
    assert abs(matern(rows[:1], rows[1:])[0, 0] / truth - 1) < 1e-9


@pytest.mark.parametrize("boundary", BOUNDARIES)
@pytest.mark.parametrize("length_scale", [0.2, 5.0])
def test_exponential_kernel_of_an_arc(length_scale: float, boundary: str) -> None:
    """nu = 1/2 and two categories: hyperbolic functions of the angle, reflected at both ends."""
    rows = np.array([[1.0, 1.0], [0.9, 0.1], [1 - 1e-6, 1e-6], [1.0, 3.0]])
    sign = 1 if boundary == "reflecting" else -1
    with mpmath.workdps(40):
        root = 1 / mpmath.mpf(length_scale)
        turns = [mpmath.atan(mpmath.sqrt(mpmath.mpf(q) / mpmath.mpf(p))) for p, q in rows]

        def circle(angle):
            return mpmath.cosh(root * (mpmath.pi - abs(angle)))

        sums = [
            [
                circle(a - b) + circle(mpmath.pi - abs(a - b))
                + sign * (circle(a + b) + circle(mpmath.pi - a - b))
                for b in turns
            ]
            for a in turns
        ]  # fmt: skip
        lengths = [mpmath.sqrt(sums[i][i]) for i in range(4)]
        truth = np.array(
            [[float(sums[i][j] / lengths[i] / lengths[j]) for j in range(4)] for i in range(4)]
        )
    K = Matern(Simplex(boundary=boundary), nu=0.5, length_scale=length_scale)(rows)
    assert np.abs(K - truth).max() < 1e-12
    assert np.abs(K / truth - 1).max() < (1e-12 if boundary == "reflecting" else 1e-9)


@pytest.mark.parametrize("nu", [0.5, 1.0])
def test_rough_laws_by_levels(nu: float) -> None:
    """Ten categories, whose series falls fast enough to be summed, at different points."""
    n, levels = 10, 2000
    rows = np.random.default_rng(n).dirichlet(np.full(n, 0.7), size=2) + 1e-4
    matern = Matern(Simplex(boundary="reflecting"), nu=nu, length_scale=0.5, normalized=False)
    x, y = np.sqrt(rows.astype(np.longdouble) / rows.sum(axis=1, keepdims=True))
    w = np.array(list(product((1, -1), repeat=n))) @ (x * y)
    before, here, count, total = np.ones_like(w), w, np.longdouble(n), np.zeros_like(w)
    rate, power = np.longdouble(2 * nu / 0.25), np.longdouble(nu + (n - 1) / 2)
    total += rate**-power
    for level in range(1, levels):
        total += (rate + level * (level + n - 2)) ** -power * count * here
        count *= np.longdouble((2 * level + n) * (level + n - 2)) / ((2 * level + n - 2) * (level + 1))
        before, here = here, ((2 * level + n - 2) * w * here - level * before) / (level + n - 2)
    assert abs(matern(rows[:1], rows[1:])[0, 0] / float(total.mean()) - 1) < 1e-12


def test_spectral_levels() -> None:
    """Level 2 alone on the triangle: functions of squares that are harmonic."""
    rows = np.array([[0.2, 0.3, 0.5], [0.7, 0.2, 0.1], [0.0, 0.5, 0.5]])
    K = Spectral(Simplex(boundary="reflecting"), weights=[0, 0, 1.0], normalized=False)(rows)
    centred = rows - 1 / 3
    assert np.abs(K - 7.5 * centred @ centred.T).max() < 1e-12
    with pytest.raises(ValueError, match="begin at level n = 3"):
        Spectral(Simplex(boundary="absorbing"), weights=[0, 0, 1.0])(rows[:2])


@pytest.mark.parametrize("boundary", BOUNDARIES)
def test_positive_and_semidefinite(boundary: str) -> None:
    rows = np.random.default_rng(0).dirichlet(np.full(8, 0.4), size=150) + 1e-6
    for t_star in (0.1, 0.5):
        K = Heat(Simplex(boundary=boundary), t_star=t_star)(rows)
        assert K.min() > 0
        assert np.linalg.eigvalsh(K)[0] > -1e-12


def test_sparse_rows() -> None:
    counts = np.random.default_rng(1).poisson(0.05, size=(40, 800)) + np.eye(40, 800)
    heat = Heat(Simplex(boundary="reflecting"), t_star=0.9)
    K = heat(counts)
    assert np.array_equal(heat(sparse.csr_matrix(counts)), K)
    assert np.array_equal(heat(sparse.csr_array(counts), counts[:7]), heat(counts, counts[:7]))
    # In high dimension the kernel is a product of hyperbolic cosines.
    roots = np.sqrt(counts / counts.sum(axis=1, keepdims=True))
    bound = 800 * math.exp(-799 * heat.time(800))
    logs = np.log(np.cosh(bound * roots[:, None] * roots)).sum(axis=2)
    own = np.diag(logs) / 2
    assert np.abs(K - np.exp(logs - own[:, None] - own)).max() < 0.02


def test_many_categories_and_short_times() -> None:
    """Values far below the rounding error of the sphere's kernel keep their digits."""
    n, t_star = 60, 0.3
    rows = np.ones((2, n))
    rows[0, :30] = 3.0
    K = Heat(Simplex(boundary="reflecting"), t_star=t_star).log(rows)[0, 1]
    t = t_star * math.log(n) / n
    with mpmath.workdps(90):
        weights = heat_weights(n, t)

        def value(x: np.ndarray, y: np.ndarray):
            lengths = mpmath.sqrt(mpmath.mpf(x.sum()) * mpmath.mpf(y.sum()))
            a, b = (mpmath.sqrt(mpmath.mpf(x[k]) * mpmath.mpf(y[k])) / lengths for k in (0, -1))
            terms = (
                math.comb(30, i) * math.comb(30, j)
                * sum(zonal_sums(weights, n, (30 - 2 * i) * a + (30 - 2 * j) * b))
                for i, j in product(range(31), repeat=2)
            )  # fmt: skip
            return mpmath.fsum(terms)

        first, second = rows
        truth = (
            mpmath.log(value(first, second))
            - mpmath.log(value(first, first) * value(second, second)) / 2
        )
    assert abs(K - float(truth)) < 1e-10


def test_absorbing_tails_at_short_times() -> None:
    """A value below 1e-20 is relatively exact, at a time for which corners are refused."""
    x, y, t = np.array([0.2, 0.3, 0.5]), np.array([0.7, 0.25, 0.05]), 2e-3
    with mpmath.workdps(70):
        both, first, second = (brute_force(p, q, t, True) for p, q in ((x, y), (x, x), (y, y)))
        truth = float(both / mpmath.sqrt(first * second))
    found = Heat(Simplex(boundary="absorbing"), t=t)([x], [y]).item()
    assert found == pytest.approx(truth, rel=1e-8)
    assert truth < 1e-20


@pytest.mark.parametrize("n", [2, 3, 6, 14])
def test_corners_are_not_refused(n: int) -> None:
    corners = np.eye(n) + 1e-8
    for t_star in (0.05, 0.3, 1.0):
        K = Heat(Simplex(boundary="absorbing"), t_star=t_star)(corners)
        assert 0 < K.min() < K.max() == 1


def test_refusals() -> None:
    counts = np.array([[3.0, 1.0, 2.0], [0.0, 1.0, 1.0]])
    with pytest.raises(ValueError, match=r"row 1 of X has zeros.*prior.*Multinomials"):
        Heat(Simplex(boundary="absorbing"))(counts)
    with pytest.raises(ValueError, match="row 1 of X has zeros"):
        Heat(Simplex(boundary="absorbing"))(sparse.csr_matrix(counts))
    with pytest.raises(ValueError, match=r"boundary must be None or one of"):
        Simplex(boundary="sticky")
    corners = np.eye(3) + 1e-8
    with pytest.raises(ValueError, match=r"row 0 of X and row \d.*too far apart.*longer time"):
        Heat(Simplex(boundary="absorbing"), t=1e-3)(corners)
    with pytest.raises(ValueError, match=r"too rough for a boundary.*rounding of rows hides.*larger nu"):
        Matern(Simplex(boundary="reflecting"), nu=0.2)(counts)
    pages = np.array([[1.0, 1.0], [1.0, 1e-6]])
    with pytest.raises(ValueError, match=r"row 0 of X and row 1.*too far apart"):
        Matern(Simplex(boundary="absorbing"), nu=0.5, length_scale=0.02)(pages)
    reflecting = Simplex(boundary="reflecting")
    for kernel in (Cosine(reflecting), AxialHeat(reflecting), Heat(Projective(reflecting))):
        with pytest.raises(TypeError, match="not functions of an angle"):
            kernel(counts)
    with pytest.raises(TypeError, match="not functions of an angle"):
        covering_bound(Heat(reflecting), 3, 0.1)


def test_products_with_other_spaces() -> None:
    rng = np.random.default_rng(4)
    rows = np.hstack([rng.dirichlet(np.ones(4), size=6), rng.normal(size=(6, 3))])
    reflecting = Simplex(boundary="reflecting")
    table = ProductSpace(reflecting, Sphere(), columns=[slice(4), slice(4, 7)])
    parts = [Heat(space, t=0.2, normalized=False) for space in (reflecting, Sphere())]
    expected = parts[0](rows[:, :4]) * parts[1](rows[:, 4:])
    assert np.allclose(Heat(table, t=0.2, normalized=False)(rows), expected, rtol=1e-12)


@pytest.mark.parametrize("boundary", BOUNDARIES)
def test_space_contract(boundary: str) -> None:
    check_space(Simplex(boundary=boundary))
    assert repr(Simplex(boundary=boundary)) == f"Simplex(boundary='{boundary}')"


@pytest.mark.parametrize("boundary", BOUNDARIES)
def test_scaled_to(boundary: str) -> None:
    rows = np.random.default_rng(2).dirichlet(np.ones(12), size=60)
    heat = Heat(Simplex(boundary=boundary)).scaled_to(rows, 0.4)
    assert abs(np.median(heat(rows)[np.triu_indices(60, 1)]) - 0.4) < 1e-3


def test_short_times_are_the_sphere_inside() -> None:
    """Far from the boundary the kernel does not know of it."""
    rows = np.array([[1.0, 1.01, 0.99], [1.0, 1.0, 1.0]])
    for t in (1e-3, 1e-5):
        free = Heat(Simplex(), t=t).log(rows)
        for boundary in BOUNDARIES:
            assert np.abs(Heat(Simplex(boundary=boundary), t=t).log(rows) - free).max() < 1e-9


@pytest.mark.parametrize("boundary", BOUNDARIES)
def test_rough_laws_are_those_of_the_sphere_inside(boundary: str) -> None:
    """Far from the boundary; diffusions for times down to 1e-10 have a share in this law."""
    rows = np.array([[1.0, 1.02, 1.0], [1.0, 1.0, 1.0], [1.1, 1.0, 1.0]])
    free = Matern(Simplex(), nu=1.5, length_scale=0.05)(rows)
    bounded = Matern(Simplex(boundary=boundary), nu=1.5, length_scale=0.05)(rows)
    assert np.abs(bounded - free).max() < 2e-9


def test_shares_whose_roots_vanish_have_the_limit_of_small_ones() -> None:
    kernel = Heat(Simplex(boundary="absorbing"), t=0.05)
    found = kernel([[1e300, 1e-300, 1e300]], [[1, 1, 1]])
    np.testing.assert_allclose(found, kernel([[1.0, 1e-14, 1.0]], [[1, 1, 1]]), rtol=1e-6)
