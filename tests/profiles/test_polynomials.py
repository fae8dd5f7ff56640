"""One polynomial in place of a table: the stated error, and exact values at equal points."""

import numpy as np
import pytest
from numba.core.dispatcher import Dispatcher

from mercer.compiled.profiles import polynomial_loop
from mercer.kernels import ArcCosine, Gaussian, Heat, Matern
from mercer.spaces import Hyperbolic, Simplex, Sphere

COLUMNS = [3, 60, 800, 20_000]
TYPES = [np.float32, np.float64]


def looked_up(profile, w: np.ndarray) -> np.ndarray:
    tile = w[None, :].astype(float)
    profile.look_up(tile)
    return tile[0]


@pytest.mark.parametrize("n", COLUMNS)
@pytest.mark.parametrize("real", TYPES)
@pytest.mark.parametrize(
    "kernel",
    [
        Heat(Sphere()),
        Heat(Simplex()),
        Heat(Simplex(), t_star=0.3),
        Matern(Sphere(), nu=0.5),
        Matern(Simplex(), nu=2.5),
        Heat(Sphere(3), t=0.1, normalized=False),
        Heat(Sphere(), t=50.0),
        Heat(Sphere(), t=1e-5),
        ArcCosine(),
    ],
    ids=repr,
)
def test_values_are_those_of_the_table(kernel, n: int, real: type) -> None:
    profile = kernel.profile(getattr(getattr(kernel, "space", None), "n", None) or n)
    low = 0.0 if profile.separation == "one-sided" else -1.0
    rng = np.random.default_rng(0)
    u = np.concatenate(
        [np.linspace(0, 1, 3001), rng.random(1000) ** 4, 10.0 ** rng.uniform(-18, 0, 1000)]
    )
    w = (1.0 - (1.0 - low) * u).astype(real)
    expected = looked_up(profile, w)
    found, polynomial = w[None, :].copy(), profile.polynomial(real)
    (polynomial or profile).apply(found)
    error = profile.error if polynomial is None else polynomial.error
    rounding = 40 * np.finfo(real).eps
    assert np.abs(found[0] - expected).max() <= (error + rounding) * np.abs(expected).max()
    # Equal points have the exact value, and so has what rounding leaves beyond them.
    ends = np.array([[1.0, 1.0 + 4 * np.finfo(real).eps]], dtype=real)
    (polynomial or profile).apply(ends)
    assert np.all(ends == real(looked_up(profile, np.ones(1))[0]))


@pytest.mark.parametrize("n", COLUMNS)
def test_natural_times_need_few_degrees(n: int) -> None:
    for kernel in (Heat(Sphere()), Heat(Simplex())):
        assert kernel.profile(n).polynomial(np.float32).degree <= 12
        assert kernel.profile(n).polynomial(np.float64).degree <= 16


def test_an_exponential_is_one() -> None:
    profile = Gaussian().profile(5)
    found = profile.polynomial(np.float32)
    assert found.exponential
    far = np.array([[0.0, 1.0, 1e4, 1e30]], dtype=np.float32)
    profile.apply(far)
    np.testing.assert_allclose(far[0], [1.0, np.exp(-0.5), 0.0, 0.0], rtol=1e-6)


@pytest.mark.parametrize(
    ("kernel", "n", "low", "high", "form"),
    [
        (Heat(Sphere()), 3, -1.0, 1.0, "whole"),
        (Heat(Sphere()), 393, -1.0, 1.0, "whole"),
        (Heat(Sphere(), t=0.05), 20, -1.0, 1.0, "table"),
        (Heat(Sphere(), t=0.05), 20, 0.5, 1.0, "range"),
        (Heat(Sphere(), t_star=0.1), 393, -0.3, 0.3, "range"),
        (Matern(Sphere(), nu=0.5), 3, -0.2, 0.3, "range"),
        (ArcCosine(), 393, -0.3, 0.2, "range"),
        (ArcCosine(), 10, 0.1, 1.0, "range"),
        (Heat(Hyperbolic(), t=0.5), 3, 2.0, 5.0, "range"),
        (Heat(Hyperbolic(), t=0.5), 3, 0.0, 1e6, "table"),
        (Gaussian(0.01), 3, 0.0, 5.0, "whole"),
    ],
    ids=repr,
)
def test_tiles_take_the_cheapest_form_and_keep_small_values(kernel, n, low, high, form) -> None:
    profile, rng = kernel.profile(n), np.random.default_rng(0)
    tile = rng.uniform(low, high, (600, 60))
    tile[0, :2] = low, high
    expected = tile.copy()
    profile.look_up(expected)
    found = tile.copy()
    profile.apply(found)
    whole = profile._on(*profile._domain, tile.dtype)
    assert form == ("whole" if whole else "range" if profile._form(tile) else "table")
    # As good as the table, whose noise is seen at values that are small on all of the range.
    allowed = 1e-13 * np.abs(expected) + 3e-17
    assert np.all(np.abs(found - expected) <= allowed)
    # Outliers, of which the polynomial knows nothing, and what is not a number.
    tile[50, 7:10] = (1.0, -1.0, np.nan) if profile.separation == "folded" else (0.0, 1e9, np.nan)
    expected = tile.copy()
    profile.look_up(expected)
    profile.apply(tile)
    assert tile[50, 7] == expected[50, 7]
    assert np.isnan(tile[50, 9])
    np.testing.assert_allclose(tile, expected, rtol=1e-12, atol=3e-17)


def test_rough_laws_keep_their_table() -> None:
    assert Heat(Sphere(), t=1e-5).profile(10).polynomial(np.float64) is None
    assert ArcCosine().profile(10).polynomial(np.float64) is None


@pytest.mark.parametrize("exponential", [False, True])
def test_compiled_loops_are_found_on_disk(exponential: bool) -> None:
    loop = polynomial_loop(4, root=False, exponential=exponential, separation="invariant", single=False)
    # A compiled function in a variable of the loop has another fingerprint in every process.
    assert not any(isinstance(cell.cell_contents, Dispatcher) for cell in loop.py_func.__closure__)
