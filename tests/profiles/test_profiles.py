"""Profiles: any law, any singularity, with the stated error."""

import numpy as np
import pytest

from mercer.kernels import Heat, Matern
from mercer.profiles import compile_profile
from mercer.spaces import Euclidean, Simplex, Sphere

LAWS = {
    "constant": lambda u: np.ones_like(u),
    "linear": lambda u: 1 - u,
    "root": np.sqrt,
    "cusp": lambda u: u**0.03,
    "logarithm": lambda u: np.where(u > 0, u * np.log(np.where(u > 0, u, 1)), 0),
    "narrow": lambda u: np.exp(-1e9 * u),
    "narrow and zero at zero": lambda u: 1e7 * u * np.exp(-1e7 * u),
    "waves": lambda u: np.cos(300 * u),
    "pole nearby": lambda u: 1 / (u + 1e-4),
}


@pytest.mark.parametrize("name", LAWS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_law(name: str, dtype) -> None:
    law = LAWS[name]
    profile = compile_profile(lambda u: law(u)[None], "invariant")
    rng = np.random.default_rng(0)
    # As small as 1 - w of unit vectors can be in that precision.
    small = np.exp2(-rng.uniform(0, 53 if dtype == np.float64 else 24, 3000))
    u = np.concatenate([[0, 1], rng.uniform(size=3000), small]).astype(dtype)
    tile = u[None].copy()
    profile.apply(tile)
    exact = law(u.astype(float))
    scale = np.abs(exact).max()
    allowed = profile.error if dtype == np.float64 else 3e-7
    assert np.abs(tile[0] - exact).max() <= allowed * scale
    assert profile.error < (1e-12 if name == "waves" else 1e-13)


@pytest.mark.parametrize("nu", [0.1, 0.5, 2.5])
@pytest.mark.parametrize("length_scale", [1e-12, 1e-9, 1e-3, 1.0, 1e12])
def test_single_precision_at_all_scales(nu: float, length_scale: float) -> None:
    # Coefficients of rows would be too large or too small, and so would the ends of the rows near zero.
    profile = Matern(Euclidean(), nu=nu, length_scale=length_scale).profile(3)
    rng = np.random.default_rng(0)
    u = (length_scale**2 * 10.0 ** rng.uniform(-12, 1.5, 3000)).astype(np.float32)
    u = np.append(u[u >= np.finfo(np.float32).tiny], np.float32(0))
    expected = profile.looked_up(u.astype(float))
    np.testing.assert_allclose(profile.looked_up(u), expected, rtol=0, atol=1e-6)
    np.testing.assert_allclose(profile.evaluate(u), expected, rtol=0, atol=1e-6)
    assert profile.looked_up(u)[-1] == profile.evaluate(u)[-1] == 1


def test_what_is_not_a_number_is_refused() -> None:
    with pytest.raises(ValueError, match="nan"):
        compile_profile(lambda u: np.where(u > 0.7, np.nan, u)[None], "invariant")


def test_slope_of_a_profile() -> None:
    profile = compile_profile(lambda u: np.stack([np.exp(-3 * u), np.exp(-6 + 3 * u)]), "folded")
    w = np.linspace(-1, 1, 1001)
    tile = w[None].copy()
    profile.derivative.apply(tile)
    np.testing.assert_allclose(tile[0], 3 * np.exp(-3 * (1 - w)), rtol=1e-10)


def test_compiled_and_array_forms_agree() -> None:
    w = np.linspace(-1, 1, 501)
    for profile in (Heat(Sphere(), t_star=0.1).profile(30), Matern(Sphere(), nu=0.7).profile(3)):
        tile = w[None].copy()
        profile.apply(tile)
        np.testing.assert_allclose(profile.evaluate(w), tile[0], atol=1e-14)


def test_profiles_are_cached() -> None:
    first = Heat(Sphere(), t=0.123).profile(17)
    assert Heat(Sphere(), t=0.123, t_bounds="fixed").profile(17) is first
    assert Heat(Sphere(), t=0.124).profile(17) is not first
    assert Heat(Simplex(), t=0.123).profile(17) is not first
    assert Heat(Sphere(), t=0.123).profile(18) is not first


@pytest.mark.parametrize(
    ("n", "t_star", "levels"), [(50, 0.02, 217), (393, 1.0, 18), (10_000, 0.1, 3382)]
)
def test_levels_come_from_the_weights(n: int, t_star: float, levels: int) -> None:
    spectrum = Heat(Sphere(), t_star=t_star).spectrum(n)
    assert spectrum.first + len(spectrum.p) == levels
    assert spectrum.p.sum() == pytest.approx(1, abs=1e-14)
