"""The short-time expansion of any order, against its recursion, closed forms and the heat kernel."""

import math
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from functools import cache
from itertools import pairwise

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mercer.kernels import Heat, Parametrix
from mercer.spaces import Simplex, Sphere
from mercer.special import heat_expansion
from mercer.special.heat_expansion import Combination, diagonal
from tests.helpers import oracles

ANGLES = (1e-7, 1e-3, 0.4, 0.99, 1.01, math.pi / 2, 2.2, 2.9, 3.1)


def only(k: int) -> list[Fraction]:
    """Weights that leave u_k / u_0."""
    return [Fraction(0)] * k + [Fraction(1)]


def separation(r: float) -> tuple[float, int]:
    """Separation and hemisphere of an angle; the angle is rounded."""
    near = min(r, math.pi - r)
    return 2 * math.sin(near / 2) ** 2, int(r > math.pi / 2)


def angle(u: float, side: int) -> mp.mpf:
    r = 2 * mp.asin(mp.sqrt(mp.mpf(u) / 2))
    return mp.pi - r if side else r


def ratio(d: int, k: int, r: float) -> tuple[float, mp.mpf]:
    """u_k / u_0 near an angle, untamed, and the angle it is for."""
    u, side = separation(r)
    combination = Combination(d, only(k))
    tamed = combination(np.array([u]))[side, 0]
    exact = angle(u, side)
    return float(mp.mpf(tamed) * (exact / mp.sin(exact)) ** combination.poles), exact


def values(kernel, n: int, w) -> np.ndarray:
    tile = np.array(w, dtype=float, ndmin=2)
    kernel.profile(n).apply(tile)
    return tile[0]


#: Fixed point: numbers are multiples of 2^-BITS.
BITS, TERMS = 400, 240


@cache
def series(d: int, order: int) -> list[np.ndarray]:
    """Power series of u_0 / u_0, u_1 / u_0, ... in y = (r / pi)^2, straight from the recursion.

    ``u_0^-1 Delta(u_0 v) = v'' + (d-1)/r v' + q v``, ``q = a^2 + a (a-1) (1/r^2 - 1/sin^2 r)``, and
    ``1/sin^2 r - 1/r^2 = (2 / pi^2) sum_m (2m+1) zeta(2m+2) y^m``.
    """
    with mp.workprec(BITS + 20):
        a, unit = mp.mpf(d - 1) / 2, mp.mpf(2) ** BITS
        curvature = -2 * a * (a - 1) / mp.pi**2
        q = [int(curvature * (2 * m + 1) * mp.zeta(2 * m + 2) * unit) for m in range(TERMS)]
        q[0] += int(a * a * unit)
        square = int(unit / mp.pi**2)
    q, m = np.array(q, dtype=object), np.arange(1, TERMS)
    v = [np.array([1 << BITS] + [0] * (TERMS - 1), dtype=object)]
    for k in range(order):
        f = np.array([np.dot(q[: m + 1], v[-1][m::-1]) for m in range(TERMS)])
        f[:-1] += (2 * m * (2 * m + d - 2)).astype(object) * v[-1][1:] * square
        v.append((f >> BITS) // (2 * np.arange(TERMS) + k + 1).astype(object))
    return v


@pytest.fixture(autouse=True)
def _digits():
    """Other tests leave other precisions behind."""
    with mp.workdps(60):
        yield


def truth(d: int, t: float, order: int, w: float) -> mp.mpf:
    """Kernel of an order >= 1 by power series, for w > -0.86."""
    r = mp.acos(mp.mpf(w))
    time = Fraction(t)
    bracket = sum(v * time**k for k, v in enumerate(series(d, order)))
    total, y = 0, int((r / mp.pi) ** 2 * 2**BITS)
    for term in bracket[::-1]:
        total = (total * y >> BITS) + int(term)
    stretch = mp.mpf(1) if r == 0 else r / mp.sin(r)
    gauss = mp.exp(-r * r / (4 * mp.mpf(t)))
    return gauss * stretch ** (mp.mpf(d - 1) / 2) * mp.mpf(total) / mp.mpf(2) ** BITS


@pytest.mark.parametrize("d", [1, 2, 3, 4, 6, 7, 49, 392])
def test_first_two_are_the_corrected_closed_forms(d: int) -> None:
    for r in ANGLES:
        for k in (1, 2):
            got, exact = ratio(d, k, r)
            assert got == pytest.approx(float(closed(d, k, exact)), rel=1e-15), (r, k)


def closed(d: int, k: int, r: mp.mpf) -> mp.mpf:
    cot, z = mp.cot(r), r * r
    if k == 1:
        return mp.mpf(d - 1) / (4 * z) * (3 - d + (d - 1) * z + (d - 3) * r * cot)
    constant = -mp.mpf((d - 3) * (d - 5) * (3 * d - 5)) / 3 - 2 * (d - 1) ** 2 * (d - 3)
    fourth = (d - 3) * (d - 5) * (d - 7) - 2 * (d - 3) ** 2 * (d - 5) * r * cot
    second = 2 * (d - 1) ** 2 * (d - 3) * r * cot + (d + 1) * (d - 3) * (d - 5) / mp.sin(r) ** 2
    return mp.mpf(d - 1) / 32 * ((d - 1) ** 3 + fourth / z**2 + (second + constant) / z)


@pytest.mark.parametrize(("d", "r"), [(2, 2.5), (4, 1.3), (9, 2.9), (30, 2.0)])
def test_the_recursion_of_the_paper(d: int, r: float) -> None:
    # u_2 = u_0 r^-2 int_0^r s u_0^-1 Delta u_1 ds, with numerical derivatives and a numerical integral.
    def u0(s: mp.mpf) -> mp.mpf:
        return (s / mp.sin(s)) ** (mp.mpf(d - 1) / 2)

    def u1(s: mp.mpf) -> mp.mpf:
        return u0(s) * closed(d, 1, s)

    def integrand(s: mp.mpf) -> mp.mpf:
        return s * (mp.diff(u1, s, 2) + (d - 1) * mp.cot(s) * mp.diff(u1, s)) / u0(s)

    with mp.workdps(25):
        got, exact = ratio(d, 2, r)
        integral = mp.quad(
            integrand, np.linspace(1e-6, float(exact), 9), method="gauss-legendre", maxdegree=3
        )
    assert got == pytest.approx(float(integral / exact**2), rel=1e-9)


@pytest.mark.parametrize("d", [1, 2, 3, 4, 5, 8, 11, 60, 401])
def test_the_recursion_holds_exactly(d: int) -> None:
    # (r^(k+1) v_(k+1))' = r^k u_0^-1 Delta(u_0 v_k), as polynomials in 1/r and cot r.
    ratios = heat_expansion._ratios(d, 12)
    for k, (before, after) in enumerate(pairwise(ratios)):
        slope = heat_expansion._derivative(after)
        for i, row in enumerate(after):
            slope[i + 1] += (k + 1) * row
        assert slope == [0, *heat_expansion._laplacian(d, before)]
        # No power of 1/r is left at r = 0.
        assert not any(heat_expansion._laurent(after, 1).coeffs()[: k + 1])


def test_the_published_second_coefficient_is_another() -> None:
    # Equation 6 of Zhao and Song as printed: it grows without bound at r = 0.
    d, r = 9, 1e-3
    bracket = (
        (d - 3) ** 3 + (d - 3) * (d - 5) * (d - 7) / r**4 - (d - 3) ** 2 * (d - 5) / r**3 / math.tan(r)
    )
    bracket += 2 * (d - 1) ** 2 * (d - 3) / r / math.tan(r) + (d + 1) * (d - 3) * (
        d - 5
    ) / r**2 / math.sin(r)
    assert abs((d - 1) / 32 * bracket) > 1e9
    assert ratio(d, 2, r)[0] == pytest.approx(float(diagonal(d, 2)[2]), rel=1e-5)


@pytest.mark.parametrize("d", [2, 4, 10, 31, 400])
def test_the_classical_heat_coefficients(d: int) -> None:
    third = Fraction(d * (d - 1) * (35 * d**4 - 112 * d**3 + 187 * d**2 - 110 * d + 96), 45360)
    second = Fraction(d * (d - 1) * (5 * d * d - 7 * d + 6), 360)
    assert diagonal(d, 3) == [1, Fraction(d * (d - 1), 6), second, third]


def test_spheres_with_few_coefficients() -> None:
    assert diagonal(1, 6) == [1] + [0] * 6  # the circle is flat
    assert diagonal(3, 6) == [Fraction(1, math.factorial(k)) for k in range(7)]
    u = np.array([0.0, 0.3, 1.0])
    assert np.array_equal(Combination(1, only(4))(u), np.zeros((2, 3)))
    np.testing.assert_allclose(Combination(3, only(4))(u), np.full((2, 3), 1 / 24), rtol=1e-15)


@pytest.mark.parametrize("k", [1, 2, 5, 11])
def test_five_dimensions(k: int) -> None:
    # One step of the ladder from S^3: the bracket is e^(4t) (1 + w t) with this w.
    for r in ANGLES:
        got, exact = ratio(5, k, r)
        w = -2 * (mp.sin(exact) - exact * mp.cos(exact)) / (exact**2 * mp.sin(exact))
        wanted = mp.mpf(4) ** k / mp.factorial(k) + w * mp.mpf(4) ** (k - 1) / mp.factorial(k - 1)
        assert got == pytest.approx(float(wanted), rel=1e-15)


@pytest.mark.parametrize("order", [3, 6, 10])
@pytest.mark.parametrize(("n", "t"), [(3, 0.3), (5, 0.01), (7, 1.0), (50, 0.01), (400, 0.005)])
def test_profiles(order: int, n: int, t: float) -> None:
    rng = np.random.default_rng(order + n)
    near = 1 - np.exp2(-rng.uniform(1, 53, 8))
    w = np.concatenate([[1.0, 0.0, -0.85, math.cos(1.0)], rng.uniform(-0.85, 1, 8), near])
    wanted = [truth(n - 1, t, order, float(x)) for x in w]
    keep = [i for i, v in enumerate(wanted) if abs(v) > 1e-290]
    got = values(Parametrix(Sphere(), t=t, order=order), n, w)
    for i in keep:
        assert abs(mp.mpf(got[i]) / wanted[i] - 1) < 1e-12, (w[i], got[i])
    one_sided = values(Parametrix(Simplex(), t=t, order=order), n, np.maximum(w, 0))
    np.testing.assert_allclose(one_sided[w >= 0], got[w >= 0], rtol=1e-12, atol=1e-290)


def relative_error(n: int, t: float, order: int, r: float) -> float:
    """Of the expansion with its factor (4 pi t)^(-d/2), against the absolute heat kernel."""
    heat = Heat(Sphere(), t=t)
    log_heat = heat.log_self_similarity(n) + math.log(values(heat, n, [math.cos(r)])[0])
    expansion = values(Parametrix(Sphere(), t=t, order=order), n, [math.cos(r)])[0]
    return math.expm1(math.log(expansion) - (n - 1) / 2 * math.log(4 * math.pi * t) - log_heat)


@pytest.mark.parametrize("r", [0.0, 0.4])
@pytest.mark.parametrize("order", [1, 2, 3, 4, 5])
def test_errors_fall_like_the_next_power_of_time(order: int, r: float) -> None:
    n, times = 12, (0.012, 0.006)
    errors = [relative_error(n, t, order, r) for t in times]
    slope = math.log(errors[0] / errors[1]) / math.log(times[0] / times[1])
    assert slope == pytest.approx(order + 1, abs=0.15)
    # Not only the power: the next coefficient is the size of what is missing.
    missing = ratio(n - 1, order + 1, max(r, 1e-8))[0]
    assert errors[1] / (-missing * times[1] ** (order + 1)) == pytest.approx(1, abs=0.15)


def test_high_orders_beat_low_ones_at_short_times() -> None:
    errors = [abs(relative_error(30, 0.002, order, 0.3)) for order in range(1, 9)]
    assert all(after < before / 2 for before, after in pairwise(errors))


@settings(max_examples=15, deadline=None)
@given(
    order=st.integers(0, 7),
    t=st.floats(1e-3, 2.0),
    rows=st.lists(st.lists(st.floats(-1, 1), min_size=4, max_size=4), min_size=1, max_size=5),
)
def test_three_sphere_is_a_truncated_exponential(order: int, t: float, rows) -> None:
    X = np.array([*rows, [1.0, 0, 0, 0]])
    X = X[np.abs(X).max(axis=1) > 1e-3]
    X /= np.linalg.norm(X, axis=1)[:, None]
    w = np.clip(X @ X.T, -0.999, 1.0)
    theta = np.arccos(w)
    bracket = sum(t**k / math.factorial(k) for k in range(order + 1))
    stretch = np.where(theta > 1e-6, theta / np.sin(np.maximum(theta, 1e-9)), 1.0) if order else 1.0
    K = Parametrix(Sphere(), t=t, order=order)(X)
    assert np.array_equal(K, K.T)
    inside = X @ X.T > -0.999
    np.testing.assert_allclose(
        K[inside], (np.exp(-(theta**2) / (4 * t)) * stretch * bracket)[inside], atol=1e-7 * bracket
    )


@pytest.mark.parametrize("order", [0, 1, 4, 9])
def test_normalised_and_its_gradient_at_equal_points(order: int) -> None:
    X = np.random.default_rng(0).normal(size=(6, 20))
    kernel = Parametrix(Sphere(), t_star=0.2, order=order, normalized=True)
    K, slope = kernel(X, eval_gradient=True)
    assert np.array_equal(np.diag(K), np.ones(6))
    assert np.array_equal(np.diag(slope[:, :, 0]), np.zeros(6))


@pytest.mark.parametrize(("n", "order"), [(3, 3), (4, 5), (6, 4), (9, 7), (40, 12), (393, 3)])
def test_infinite_at_the_antipode(n: int, order: int) -> None:
    kernel = Parametrix(Sphere(), t=0.1, order=order)
    nearby = values(kernel, n, [-1 + 2.0**-50])[0]
    assert values(kernel, n, [-1.0])[0] == math.copysign(math.inf, nearby)


def test_the_circle_is_finite_at_the_antipode() -> None:
    value = values(Parametrix(Sphere(), t=0.5, order=4), 2, [-1.0])[0]
    assert value == pytest.approx(math.exp(-(math.pi**2) / 2), rel=1e-14)


@pytest.mark.parametrize("t", [1e-300, 1e-8, 1.0, 1e8, 1e300])
def test_normalised_form_at_any_time(t: float) -> None:
    for n in (3, 100):
        got = values(Parametrix(Sphere(), t=t, order=6, normalized=True), n, [1.0, 1 - 2.0**-52, 0.5])
        assert got[0] == 1
        assert np.isfinite(got).all()
        wanted = truth(n - 1, t, 6, 0.5) / truth(n - 1, t, 6, 1.0)
        assert got[2] == pytest.approx(float(wanted), rel=1e-12, abs=1e-300)


def test_out_of_the_floating_range() -> None:
    with pytest.raises(ValueError, match=r"order 6 at t = 1e\+100 overflows"):
        Parametrix(Sphere(), t=1e100, order=6)(np.eye(3))


def test_a_high_order_in_a_high_dimension() -> None:
    n, t = 10**6, 1e-13
    got = values(Parametrix(Sphere(), t=t, order=12), n, [1.0])[0]
    assert got == pytest.approx(
        float(sum(c * Fraction(t) ** k for k, c in enumerate(diagonal(n - 1, 12))))
    )
    assert got == pytest.approx(math.exp(n * n * t / 6), rel=1e-4)


@pytest.mark.parametrize("order", [-1, 2.0, True, "1", None, np.float64(3)])
def test_bad_orders(order) -> None:
    with pytest.raises(ValueError, match="order of Parametrix must be a whole number of at least 0"):
        Parametrix(Sphere(), order=order)(np.eye(3))


def test_integers_of_numpy() -> None:
    assert diagonal(np.int64(21), np.int64(2)) == diagonal(21, 2)
    kernel = Parametrix(Sphere(), t=0.2, order=np.int64(3))
    assert np.array_equal(kernel(np.eye(4)), Parametrix(Sphere(), t=0.2, order=3)(np.eye(4)))


def test_doubles_agree_with_balls() -> None:
    u = np.concatenate([[0.0], np.exp2(-np.arange(60.0)), np.linspace(0.01, 1, 50)])
    for d in (1, 2, 3, 8, 60, 500):
        for k, fast in enumerate(heat_expansion.corrections(d, 2, u), start=1):
            combination = Combination(d, only(k))
            slow = combination(u) * np.exp(heat_expansion.log_stretch(combination.poles, u))
            far = heat_expansion.angles(u) < 3
            np.testing.assert_allclose(fast[far], slow[far], rtol=3e-13, atol=3e-13 * (d / 2) ** (2 * k))


def test_threads_share_the_precision() -> None:
    from flint import ctx

    before, u = ctx.prec, np.linspace(0, 1, 40)
    jobs = [Combination(d, [Fraction(1, 3) ** k for k in range(9)]) for d in (2, 8, 90)] * 4
    alone = [job(u) for job in jobs]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda job: job(u), jobs))
    assert all(np.array_equal(a, b) for a, b in zip(alone, together, strict=True))
    assert ctx.prec == before


def test_oracle_of_the_other_tests() -> None:
    # Two independent high-precision roads to order 2.
    for n, w in ((3, 0.2), (8, -0.7), (50, 0.9)):
        one, other = truth(n - 1, 0.1, 2, w), oracles.parametrix(n, 0.1, 2, mp.mpf(w))
        assert abs(one / other - 1) < 1e-25


@pytest.mark.parametrize("n", [2, 3, 50])
def test_the_first_term_alone(n: int) -> None:
    theta = np.array([1e-4, 0.3, 1.2, 2.9])
    kernel = Parametrix(Sphere(), t=0.2, van_vleck=True)
    exact = np.exp(-(theta**2) / 0.8) * (theta / np.sin(theta)) ** ((n - 2) / 2)
    np.testing.assert_allclose(values(kernel, n, np.cos(theta)), exact, rtol=1e-11)
    # The same as order 1 without its u_1 t; the gradient is that of the exponential.
    X = np.random.default_rng(0).normal(size=(6, n))
    K, slopes = kernel(X, eval_gradient=True)
    D = Sphere().distances(X)
    np.testing.assert_allclose(slopes[:, :, 0], K * D**2 / 0.8, rtol=1e-9, atol=1e-14)


def test_nearby_points_are_hotter_than_the_source_from_three() -> None:
    for n in (10, 400):
        for order in (0, 1):
            for factor, rises in ((0.97, False), (1.05, True)):
                kernel = Parametrix(
                    Sphere(), t=factor * 3 / (n - 2), order=order, normalized=True, van_vleck=True
                )
                assert (values(kernel, n, [np.cos(1e-2)])[0] > 1) == rises, (n, order, factor)
    # u_1 / u_0 = d(d-1)/6 - (d-1)(d-3) r^2/180 + ..., so that it changes little there.
    for d in (2, 9, 399):
        value, r = ratio(d, 1, 0.01)
        assert value == pytest.approx(
            d * (d - 1) / 6 - (d - 1) * (d - 3) * float(r) ** 2 / 180, rel=1e-8
        )
