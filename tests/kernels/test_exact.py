"""Values against high-precision arithmetic, at exact invariants."""

import math

import mpmath as mp
import numpy as np
import pytest

from mercer.kernels import ArcCosine, Heat, Matern, Parametrix, Spectral
from mercer.spaces import Simplex, Sphere
from tests.helpers import oracles

T_STARS = (0.02, 0.1, 0.3, 0.5, 1.0, 2.0, 4.0)
HEAT_CASES = (
    [(n, t_star) for n in (2, 3, 4, 7, 50, 393, 1312, 10_000) for t_star in T_STARS]
    + [(100_000, t_star) for t_star in (0.02, 0.1, 0.5, 4.0)]
    + [(1_000_000, t) for t in (0.5, 1.0)]
)


def invariants(seed: int, count: int = 10) -> np.ndarray:
    rng = np.random.default_rng(seed)
    near = 1 - np.exp2(-rng.uniform(1, 53, count))
    return np.concatenate([[1.0, -1.0, 0.0], rng.uniform(-1, 1, count), near, -near[:2]])


def values(kernel, n: int, w: np.ndarray) -> np.ndarray:
    tile = np.array(w, ndmin=2)
    kernel.profile(n).apply(tile)
    return tile[0]


def worst(got: np.ndarray, truth: list, relative: bool = False) -> float:
    errors = [abs(mp.mpf(float(g)) - t) for g, t in zip(got, truth, strict=True)]
    if relative:
        errors = [e / abs(t) for e, t in zip(errors, truth, strict=True)]
    return float(max(errors))


@pytest.mark.parametrize(("n", "t_star"), HEAT_CASES)
def test_heat(n: int, t_star: float) -> None:
    w = invariants(n, 4 if n >= 10_000 else 10)
    kernel = Heat(Sphere(), t_star=t_star)
    got = values(kernel, n, w)
    assert worst(got, oracles.heat(n, kernel.time(n), w)) < 1e-13
    assert got.min() >= 0
    assert got[0] == 1


@pytest.mark.parametrize("n", [2, 3])
@pytest.mark.parametrize("t", [1e-4, 1e-3, 3.0])
def test_heat_in_absolute_time(n: int, t: float) -> None:
    w = invariants(n)
    assert worst(values(Heat(Sphere(), t=t), n, w), oracles.heat(n, t, w)) < 1e-13


@pytest.mark.parametrize(("n", "t"), [(2, 1e-3), (3, 5e-6), (3, 8e-6), (5, 1e-6), (40, 7e-9)])
def test_heat_short_time_expansion_meets_the_series(n: int, t: float) -> None:
    scale = np.exp2(-np.linspace(0, 8, 12))
    w = 1 - np.minimum(60 * t * scale, 0.5)
    assert worst(values(Heat(Sphere(), t=t), n, w), oracles.heat(n, t, w)) < 1e-13


def test_heat_on_simplex_is_the_heat_on_the_sphere() -> None:
    w = np.linspace(0, 1, 101)
    both = [values(Heat(space, t_star=0.4), 60, w) for space in (Simplex(), Sphere())]
    np.testing.assert_allclose(*both, rtol=0, atol=2e-14)


@pytest.mark.parametrize(("n", "t"), [(3, 0.1), (7, 0.4), (20, 0.05)])
def test_absolute_heat(n: int, t: float) -> None:
    # At equal points: (1/A) sum_l exp(-lam t) N_l.
    area = 2 * mp.pi ** (mp.mpf(n) / 2) / mp.gamma(mp.mpf(n) / 2)
    total = mp.nsum(
        lambda k: mp.exp(-k * (k + n - 2) * mp.mpf(t))
        * (2 * k + n - 2) * mp.gamma(k + n - 2) / (mp.gamma(k + 1) * mp.gamma(n - 1)),
        [0, 300],
    )  # fmt: skip
    kernel = Heat(Sphere(), t=t, normalized=False)
    w = np.array([1.0, 0.3])
    truth = [total / area, total / area * oracles.heat(n, t, w)[1]]
    assert worst(values(kernel, n, w), truth, relative=True) < 1e-13


def test_absolute_heat_integrates_to_one() -> None:
    nodes, weights = np.polynomial.legendre.leggauss(60)
    density = values(Heat(Sphere(), t=0.2, normalized=False), 3, nodes)
    assert 2 * np.pi * (weights * density).sum() == pytest.approx(1, abs=1e-14)


@pytest.mark.parametrize(("n", "t"), [(3, 0.1), (2, 0.02), (7, 0.05), (393, 0.008)])
@pytest.mark.parametrize("space", [Sphere(), Simplex()])
def test_log_heat(n: int, t: float, space) -> None:
    w = np.array([1.0, 0.99, 0.5, 0.0] + ([-0.9] if space == Sphere() else []))
    truth = [float(mp.log(v)) for v in oracles.heat(n, t, w, bits=1024)]
    tile = w[None].copy()
    Heat(space, t=t).realise(n).log_profile().apply(tile)
    np.testing.assert_allclose(tile[0], truth, rtol=1e-13, atol=1e-13)


def test_log_of_overflowing_heat() -> None:
    x = np.eye(5000)[:2]
    kernel = Heat(Sphere(), normalized=False)
    with pytest.raises(ValueError, match="log"):
        kernel(x)
    normalised = kernel.log(x) - kernel.log_self_similarity(5000)
    np.testing.assert_allclose(np.exp(normalised), Heat(Sphere())(x), atol=1e-10)


@pytest.mark.parametrize(("nu", "levels"), [(1.5, 30_000), (2.5, 5000), (10, 1500)])
@pytest.mark.parametrize(
    ("n", "length_scale"), [(2, 0.6), (3, 1.0), (3, 0.2), (4, 0.7), (7, 1.0), (50, 0.4)]
)
def test_matern(n: int, length_scale: float, nu: float, levels: int) -> None:
    w = np.array([1.0, 1 - 1e-6, 0.9, 0.3, -0.5, -1.0])
    truth = oracles.matern_by_levels(n, nu, length_scale, w, levels)
    # The truth leaves out levels too, of a mass near (l_0 / levels)^(2 nu) with l_0^2 = 2 nu / scale^2.
    missing = max(math.sqrt(2 * nu) / length_scale, n) ** (2 * nu) / levels ** (2.0 * nu)
    assert worst(values(Matern(Sphere(), nu, length_scale), n, w), truth) < 1e-12 + 2 * min(
        missing, 5e-11
    )


def test_rough_matern() -> None:
    # No number of levels will do for nu = 0.3: another representation is the truth.
    w = np.array([1.0, 1 - 1e-6, 0.3, -1.0])
    truth = [oracles.matern(3, 0.3, 1.0, float(x)) for x in w]
    assert worst(values(Matern(Sphere(), 0.3, 1.0), 3, w), [v / truth[0] for v in truth]) < 1e-12
    absolute = values(Matern(Sphere(), 0.3, 1.0, normalized=False), 3, w)
    assert worst(absolute, truth, relative=True) < 1e-12


@pytest.mark.parametrize(
    ("n", "length_scale", "nu", "log_times"),
    [(393, 0.12, 2.5, (-12, 0)), (2000, 0.06, 2.5, (-12, 0)), (3300, 1e-3, 20.0, (-16.5, -13))],
)
def test_matern_in_high_dimension_is_a_mixture_of_heat_kernels(
    n: int, length_scale: float, nu: float, log_times: tuple
) -> None:
    # Gamma mixture: weights t^(s-1) exp(-c t) G(1; t) of normalised heat kernels.
    c, s = 2 * nu / length_scale**2, nu + (n - 1) / 2
    w = np.array([1.0, 1 - 1e-6, 0.9, 0.3, 0.0])
    grid = np.exp(np.arange(*log_times, 0.1))
    spectra = [Heat(Sphere(), t=t).spectrum(n) for t in grid]
    logs = np.array([s * math.log(t) - c * t + x.log_total for t, x in zip(grid, spectra, strict=True)])
    weights = np.exp(logs - logs.max())
    kept = weights > 1e-17
    heats = [
        Sphere(n).series(np.pad(x.p, (x.first, 0)), w) for x, k in zip(spectra, kept, strict=True) if k
    ]
    mixture = weights[kept] @ np.array(heats) / weights.sum()
    np.testing.assert_allclose(values(Matern(Sphere(), nu, length_scale), n, w), mixture, atol=1e-10)


def test_matern_tends_to_heat() -> None:
    w = np.linspace(-1, 1, 41)
    heat = values(Heat(Sphere(), t=0.08), 5, w)
    matern = values(Matern(Sphere(), nu=4000.0, length_scale=0.4), 5, w)
    np.testing.assert_allclose(matern, heat, atol=2e-3)


@pytest.mark.parametrize("order", [0, 1, 2])
@pytest.mark.parametrize("depth", [1, 2, 5])
def test_arc_cosine(order: int, depth: int) -> None:
    w = invariants(order)
    truth = []
    for x in w:
        value = mp.mpf(float(x))
        for _ in range(depth):
            value = oracles.arc_cosine(order, value)
        truth.append(value)
    assert worst(values(ArcCosine(order, depth), 3, w), truth) < 1e-13


@pytest.mark.parametrize("order", [0, 1, 2])
@pytest.mark.parametrize("n", [2, 3, 4, 5, 8, 50, 393])
@pytest.mark.parametrize("t", [0.01, 0.5])
def test_parametrix(order: int, n: int, t: float) -> None:
    tiny = [math.cos(1e-8), 1 - 2.0**-53, 1 - 2.0**-40, math.cos(1e-4), math.cos(1.0), -0.9]
    w = np.concatenate([invariants(n + order)[2:-2], tiny])
    truth = [oracles.parametrix(n, t, order, mp.mpf(float(x))) for x in w]
    keep = [i for i, v in enumerate(truth) if abs(v) > 1e-290]
    got = values(Parametrix(Sphere(), t=t, order=order), n, w)
    # Relative to the size of the terms: the bracket 1 + u_1 t + u_2 t^2 changes sign where d > 3.
    assert worst(got[keep], [truth[i] for i in keep], relative=True) < 1e-12


def test_parametrix_expansion_approaches_heat() -> None:
    n, w = 6, np.cos(np.linspace(0, 1.0, 30))
    for t, order, allowed in ((0.01, 1, 2e-3), (0.01, 2, 1e-4), (0.002, 2, 1e-6)):
        expansion = values(Parametrix(Sphere(), t=t, order=order, normalized=True), n, w)
        heat = values(Heat(Sphere(), t=t), n, w)
        np.testing.assert_allclose(expansion, heat, atol=allowed)


@pytest.mark.parametrize("n", [3, 6, 30])
def test_spectral_is_the_series(n: int) -> None:
    weights = [0.5, 0.0, 2.0, 0.1, 0.0, 0.03]
    log_multiplicity = Sphere(n).log_multiplicities(len(weights))
    terms = np.exp(log_multiplicity) * weights
    w = np.array([-1.0, -0.4, 0.0, 0.7, 1.0])
    truth = [oracles.zonal_sum(n, list(terms / terms.sum()), float(x)) for x in w]
    assert worst(values(Spectral(Sphere(), weights), n, w), truth) < 1e-13
    absolute = values(Spectral(Sphere(), weights, normalized=False), n, w)
    np.testing.assert_allclose(absolute, [float(v) * terms.sum() for v in truth], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("n", "level", "count"), [(3, 2, 5), (4, 3, 16), (10, 2, 54), (2, 5, 2)])
def test_multiplicities(n: int, level: int, count: int) -> None:
    assert np.exp(Sphere(n).log_multiplicities(level + 1)[level]) == pytest.approx(count)


def test_arc_cosine_coefficients_of_the_supplement() -> None:
    # Funk-Hecke coefficients of sin + (pi - theta) cos, mathematics of the spherical harmonics paper.
    known = {3: [1.1780972, 0.52359878, 0.073631078, 0], 9: [1.0570086, 0.17453293, 0.010570086, 0]}
    nodes, weights = np.polynomial.legendre.leggauss(2000)
    theta = (nodes + 1) * np.pi / 2
    for n, coefficients in known.items():
        shape = np.pi * values(ArcCosine(1), n, np.cos(theta))
        area = math.exp(math.lgamma(n / 2) - math.lgamma((n - 1) / 2)) / math.sqrt(math.pi)
        for level, known_value in enumerate(coefficients):
            unit = np.eye(level + 1)[level]
            zonal = Sphere(n).series(unit, np.clip(np.cos(theta), -1, 1))
            value = area * (weights * np.pi / 2 * shape * zonal * np.sin(theta) ** (n - 2)).sum()
            assert value == pytest.approx(known_value, abs=5e-8)


@pytest.mark.parametrize("nu", [0.1, 0.5, 1.5])
@pytest.mark.parametrize("length_scale", [0.01, 1.0, 30.0, 100.0])
def test_matern_gradients_stay_small_tables(nu: float, length_scale: float) -> None:
    # A slope far below the kernel's rounding errors must not be resolved to its own last digit.
    kernel = Matern(Sphere(), nu, length_scale)
    for name in ("profile", "slope"):
        profile = kernel.profile(3) if name == "profile" else kernel.gradient_profile(3, "length_scale")
        assert len(profile.pieces.octave) < 400
        assert profile.pieces.rows.count < 10_000


def test_parametrix_diverges_at_the_antipode() -> None:
    for n, order in ((3, 1), (8, 1), (8, 2), (393, 2)):
        value = values(Parametrix(Sphere(), t=0.1, order=order), n, np.array([-1.0]))
        assert np.isinf(value[0])


def test_deep_arc_cosine_of_order_two() -> None:
    w = np.array([[1 - 1e-13, 1 - 2.0**-53, 0.5]])
    tile = w.copy()
    ArcCosine(2, depth=30).profile(3).apply(tile)
    for x, got in zip(w[0], tile[0], strict=True):
        value = mp.mpf(float(x))
        for _ in range(30):
            value = oracles.arc_cosine(2, value)
        assert abs(float(value) - got) < 1e-12


def test_log_heat_on_the_circle_at_short_times() -> None:
    log = Heat(Sphere(), t=0.001).log([[1.0, 0]], [[0, 1], [-1, 0], [1, 0]])[0]
    expected = [-((np.pi / 2) ** 2) / 0.004, np.log(2) - np.pi**2 / 0.004, 0]
    np.testing.assert_allclose(log, expected, rtol=1e-13, atol=1e-13)


def test_self_similarity_at_the_sweet_spot_tends_to_e() -> None:
    heat = Heat(Sphere(), t_star=1.0, normalized=False)
    for n in (10**4, 10**5, 10**6):
        with mp.workdps(40):
            area = 2 * mp.pi ** (mp.mpf(n) / 2) / mp.gamma(mp.mpf(n) / 2)
            excess = mp.exp(heat.log_self_similarity(n) + mp.log(area)) - mp.e
        assert float(excess) * n == pytest.approx(math.e / 2, rel=0.05)
