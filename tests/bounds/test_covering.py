"""Covering numbers of kernels, and the pictures of all bounds."""

import math

import matplotlib.pyplot as plt
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.svm import SVC

from mercer import bounds, plotting
from mercer.bounds import (
    covering_bound,
    entropy_number,
    generalization_bound,
    log_covering_rate,
    vc_bound,
)
from mercer.kernels import Cosine, Gaussian, Heat, Matern, Spectral
from mercer.spaces import Graph, Projective, Simplex, Sphere
from tests.bounds.test_bounds import X2, Y2


def brute_force(eigenvalues: np.ndarray, entropy: float) -> tuple[int, float]:
    """j* and epsilon for exp(entropy) balls, index by index as the theorem is written."""
    logs = np.log(eigenvalues)
    for j in range(1, len(logs)):
        level = (logs[:j].sum() - 2 * entropy) / j
        if logs[j] < level:
            return j, 6 * math.sqrt(j * math.exp(level) + eigenvalues[j:].sum())
    raise AssertionError("too few eigenvalues")


def eigenvalues_on_sphere(weights, n: int, levels: int) -> np.ndarray:
    counts = [1, n] + [math.comb(n + k - 1, k) - math.comb(n + k - 3, k - 2) for k in range(2, levels)]
    values = np.repeat([float(weights(k * (k + n - 2))) for k in range(levels)], counts)
    return np.sort(values / values.sum())[::-1]


@pytest.mark.parametrize("space", [Sphere(), Projective()])
def test_weights_that_fall_like_a_power_have_all_of_their_tail(space) -> None:
    # (1 + lambda)^-2.5 falls like l^-5, and the tail after level 100 is 1e-6 of the sum.
    step = 2 if space == Projective() else 1
    levels = np.arange(0, 2000, step)
    values = np.repeat((1.0 + levels * (levels + 1)) ** -2.5, 2 * levels + 1)
    j, epsilon = brute_force(values / values.sum(), 400.0)
    found = entropy_number(Matern(space, nu=1.5, length_scale=math.sqrt(3)), 3, 400.0)
    assert found.rank == pytest.approx(j)
    assert epsilon * (1 - 1e-5) < found.epsilon < epsilon * (1 + 1e-4)


@pytest.mark.parametrize("n", [2, 3, 4, 5])
@pytest.mark.parametrize("entropy", [1e-6, 0.31, 2.0, 15.0, 60.0])
def test_entropy_numbers_against_brute_force(n: int, entropy: float) -> None:
    j, epsilon = brute_force(eigenvalues_on_sphere(lambda v: np.exp(-0.3 * v), n, 14), entropy)
    found = entropy_number(Heat(Sphere(), t=0.3), n, entropy)
    assert found.rank == pytest.approx(j)
    assert found.epsilon == pytest.approx(epsilon, rel=1e-10)
    assert covering_bound(Heat(Simplex(), t=0.3), n, epsilon).entropy == pytest.approx(entropy, rel=1e-6)


def test_eigenvalues_out_of_order() -> None:
    weights = [0.1, 0.0, 2.0, 0.5, 1.0]
    values = eigenvalues_on_sphere(lambda v: dict(zip([0, 2, 6, 12, 20], weights, strict=True))[v], 3, 5)
    kernel = Spectral(Sphere(), weights=weights)
    for entropy in (0.1, 1.0, 3.0):
        j, epsilon = brute_force(values[values > 0], entropy)
        found = entropy_number(kernel, 3, entropy)
        assert (found.rank, found.epsilon) == (pytest.approx(j), pytest.approx(epsilon, rel=1e-12))


def test_finitely_many_eigenvalues() -> None:
    # The cosine kernel on S^2: three eigenvalues 1/3, so epsilon = 6 exp(-entropy / 3).
    cosine = Spectral(Sphere(), weights=[0, 1])
    assert entropy_number(cosine, 3, 30.0).epsilon == pytest.approx(6 * math.exp(-10), rel=1e-12)
    assert covering_bound(cosine, 3, 6e-300).entropy == pytest.approx(900 * math.log(10), rel=1e-12)


def test_weights_as_a_function() -> None:
    law = Spectral(Sphere(), weights=lambda v: np.exp(-0.2 * v))
    heat = Heat(Sphere(), t=0.2)
    for epsilon in (2.0, 1e-3, 1e-30):
        assert covering_bound(law, 3, epsilon).entropy == pytest.approx(
            covering_bound(heat, 3, epsilon).entropy, rel=1e-12
        )
    hat = Spectral(Sphere(), weights=lambda v: (v < 10) * 1.0)
    same = Spectral(Sphere(), weights=[1, 1, 1])
    assert covering_bound(hat, 3, 0.01) == covering_bound(same, 3, 0.01)


@settings(max_examples=40, deadline=None)
@given(st.integers(2, 30), st.floats(0.05, 3), st.floats(1e-8, 1e4), st.floats(0.1, 10))
def test_the_two_directions_are_inverse(n: int, t_star: float, entropy: float, radius: float) -> None:
    kernel = Heat(Sphere(), t_star=t_star)
    found = entropy_number(kernel, n, entropy, radius)
    back = covering_bound(kernel, n, found.epsilon, radius)
    # Where the curve is flat, epsilon in doubles does not know the entropy.
    again = entropy_number(kernel, n, max(back.entropy, 1e-300), radius)
    assert again.log_epsilon == pytest.approx(found.log_epsilon, abs=1e-9)
    assert found.epsilon == pytest.approx(radius * entropy_number(kernel, n, entropy).epsilon, rel=1e-12)


@settings(max_examples=30, deadline=None)
@given(st.integers(2, 40), st.floats(0.02, 3))
def test_entropy_falls_with_epsilon_and_time(n: int, t_star: float) -> None:
    epsilon = np.geomspace(1e-12, 20, 60)
    curve = covering_bound(Heat(Sphere(), t_star=t_star), n, epsilon)
    assert np.all(np.diff(curve.entropy) <= 0)
    assert np.all(curve.entropy[epsilon >= 6] == 0)
    assert np.all(np.diff(curve.log_rank) <= 1e-12)
    # Not for all accuracies: a longer time also has a larger first share.
    later = covering_bound(Heat(Sphere(), t_star=2 * t_star), n, 1e-12)
    assert later.log_entropy <= curve.log_entropy[0]


def test_matern_bound_holds_whatever_is_summed() -> None:
    kernel = Matern(Sphere(), nu=1.5, length_scale=0.7)
    values = eigenvalues_on_sphere(lambda v: (3 / 0.49 + v) ** -2.5, 3, 300)
    for entropy in (1.0, 20.0, 200.0):
        j, epsilon = brute_force(values, entropy)
        found = entropy_number(kernel, 3, entropy)
        assert found.rank == pytest.approx(j)
        assert found.epsilon >= epsilon
        assert found.epsilon == pytest.approx(epsilon, rel=1e-4)


def test_absolute_kernels_have_their_own_scale() -> None:
    for n in (3, 6):
        for unit, absolute in (
            (Heat(Sphere(), t=0.4), Heat(Sphere(), t=0.4, normalized=False)),
            (Matern(Sphere()), Matern(Sphere(), normalized=False)),
        ):
            scale = math.exp(absolute.log_self_similarity(n) / 2)
            assert entropy_number(absolute, n, 10.0).epsilon == pytest.approx(
                scale * entropy_number(unit, n, 10.0).epsilon, rel=1e-8
            )


@pytest.mark.parametrize("n", [1000, 10_000])
def test_high_dimension_neither_overflows_nor_waits(n: int) -> None:
    for t_star in (0.02, 0.5, 1.0, 3.0):
        found = covering_bound(Heat(Sphere(), t_star=t_star), n, [5.9, 0.5, 1e-3, 1e-12])
        assert np.all(np.isfinite([found.log_entropy, found.log_rank]))
        assert np.all(np.diff(found.log_entropy) > 0)
    assert covering_bound(Heat(Sphere(), t_star=0.02), n, 1e-12).entropy == np.inf  # exp(1000) and more
    assert entropy_number(Heat(Sphere(), t_star=0.02), n, 1.0).epsilon == pytest.approx(6, rel=1e-6)
    assert np.isfinite(log_covering_rate(n, 1e-3, 0.01))


@pytest.mark.parametrize("d", [1, 2, 3])
@pytest.mark.parametrize("t", [1.0, 0.1, 0.01])
def test_rate_in_epsilon(d: int, t: float) -> None:
    log_accuracy = np.array([100.0, 200.0, 400.0, 700.0])
    epsilon = np.exp(-log_accuracy)
    entropy = covering_bound(Heat(Sphere(), t=t), d + 1, epsilon).log_entropy
    rate = log_covering_rate(d + 1, t, epsilon)
    slopes = np.diff(entropy) / np.diff(np.log(log_accuracy))
    assert np.all(np.diff(np.abs(slopes - (d + 2) / 2)) < 0)
    assert slopes[-1] == pytest.approx((d + 2) / 2, abs=0.04)
    excess = entropy - rate
    assert np.all(np.diff(excess) < 0)
    assert 0 < excess[-1] < 0.03


@pytest.mark.parametrize("d", [1, 2, 3])
def test_rate_in_time(d: int) -> None:
    times = np.array([0.1, 0.03, 0.01])
    entropy = [covering_bound(Heat(Sphere(), t=t), d + 1, 1e-300).log_entropy for t in times]
    slopes = np.diff(entropy) / np.diff(np.log(times))
    assert slopes == pytest.approx(-d / 2, abs=0.02)
    rate = log_covering_rate(d + 1, times, 0.01)
    assert np.diff(rate) / np.diff(np.log(times)) == pytest.approx(-d / 2)


@pytest.mark.parametrize(("n", "area"), [(2, math.pi / 2), (3, math.pi / 2), (4, math.pi**2 / 8)])
def test_rate_takes_the_volume(n: int, area: float) -> None:
    """The orthant is an arc, an octant of the globe, and a sixteenth of S^3."""
    orthant = log_covering_rate(n, 0.1, 0.01, volume="orthant")
    assert orthant == pytest.approx(log_covering_rate(n, 0.1, 0.01, volume=area), abs=1e-12)
    assert log_covering_rate(n, 0.1, 0.01) - orthant == pytest.approx(n * math.log(2))
    for wrong in ("half", 0.0, [1.0, 2.0]):
        with pytest.raises(ValueError, match="volume"):
            log_covering_rate(n, 0.1, 0.01, volume=wrong)


def test_bad_input_of_covering_numbers() -> None:
    heat = Heat(Sphere(), t=0.5)
    triangle = Graph(np.ones((3, 3)) - np.eye(3))
    for kernel in (Gaussian(), Cosine(Sphere()), "heat", Heat(triangle, t=1.0)):
        with pytest.raises(TypeError, match="covering bounds"):
            covering_bound(kernel, 3, 0.1)
    with pytest.raises(ValueError, match="t of Heat"):
        covering_bound(Heat(Sphere(), t=-1.0), 3, 0.1)
    for n in (1, 0, 2.5, "3", True):
        with pytest.raises(ValueError, match="n, the ambient dimension"):
            covering_bound(heat, n, 0.1)
    for value in (0, -1, np.nan, np.inf):
        with pytest.raises(ValueError, match="epsilon must be positive"):
            covering_bound(heat, 3, value)
        with pytest.raises(ValueError, match="entropy must be positive"):
            entropy_number(heat, 3, value)
        with pytest.raises(ValueError, match="radius must be"):
            covering_bound(heat, 3, 0.1, radius=value)
    with pytest.raises(ValueError, match="one number"):
        covering_bound(heat, 3, 0.1, radius=[1.0, 2.0])
    with pytest.raises(ValueError, match="below 1"):
        log_covering_rate(3, 0.1, 1.0)
    assert covering_bound(heat, 3, []).entropy.shape == (0,)


def test_too_rough_to_be_summed(monkeypatch) -> None:
    monkeypatch.setattr(bounds.covering.zonal, "MAX_LEVELS", 2**12)
    with pytest.raises(ValueError, match=r"more than 4096 levels.*larger epsilon"):
        covering_bound(Matern(Sphere(), nu=0.5), 3, 1e-3)


# Pictures


@pytest.fixture
def axes():
    figure, ax = plt.subplots()
    yield ax
    plt.close(figure)


def test_generalization_is_drawn(axes) -> None:
    sizes = np.array([10, 100, 1000])
    assert plotting.plot_generalization_bound(sizes, [2, 20], ax=axes) is axes
    assert len(axes.lines) == 2
    np.testing.assert_allclose(axes.lines[1].get_ydata(), generalization_bound(sizes, 20))


@pytest.mark.parametrize("quantity", ["mu", "effective_sample_size", "generalization_bound"])
def test_machines_are_drawn(axes, quantity: str) -> None:
    sizes = [10, 20]
    machines = [vc_bound(SVC(kernel="linear").fit(X2[::k], Y2[::k]), X2[::k]) for k in (4, 2)]
    plotting.plot_vc_bounds(sizes, machines, quantity=quantity, xlabel="m", label="linear", ax=axes)
    plotting.plot_vc_bounds(sizes, machines[::-1], quantity=quantity, ax=axes)
    first = getattr(machines[0], quantity)
    assert axes.lines[0].get_ydata()[0] == (first() if callable(first) else first)
    assert axes.get_xlabel() == "m"
    assert len(axes.patches) == (quantity == "generalization_bound")
    with pytest.raises(ValueError, match="2 values, but 1 bounds"):
        plotting.plot_vc_bounds(sizes, machines[:1], ax=axes)
    with pytest.raises(ValueError, match="quantity must be one of mu"):
        plotting.plot_vc_bounds(sizes, machines, quantity="nu", ax=axes)


def test_covering_numbers_are_drawn(axes) -> None:
    heat = Heat(Sphere(), t=0.2)
    plotting.plot_covering_bound(heat, 3, [0.01, 0.1], label="heat", ax=axes)
    expected = covering_bound(heat, 3, [0.01, 0.1]).log_entropy / math.log(10)
    np.testing.assert_allclose(axes.lines[0].get_ydata(), expected)
    np.testing.assert_allclose(
        axes.lines[1].get_ydata(), log_covering_rate(3, 0.2, [0.01, 0.1]) / math.log(10)
    )
    plotting.plot_covering_bound(heat, [3, 10_000], 0.1, ax=axes)
    plotting.plot_covering_bound(heat, 3, 0.1, t=[0.1, 0.2], ax=axes)
    assert axes.lines[4].get_ydata()[1] == axes.lines[0].get_ydata()[1]
    before = len(axes.lines)
    plotting.plot_covering_bound(Matern(Sphere()), 3, 0.5, length_scale=[0.5, 1.0], ax=axes)
    assert len(axes.lines) == before + 1  # no rate
    assert axes.get_xlabel() == "length_scale"
    for arguments in ({"n": 3, "epsilon": 0.1}, {"n": [3, 4], "epsilon": [0.1]}):
        with pytest.raises(ValueError, match="exactly one"):
            plotting.plot_covering_bound(heat, **arguments, ax=axes)
    with pytest.raises(ValueError, match="positive numbers"):
        plotting.plot_covering_bound(heat, 3, [0.1, -1.0], ax=axes)


def test_axes_are_made_where_none_are_given() -> None:
    ax = plotting.plot_generalization_bound([10.0, 100.0], 3)
    assert ax.get_xscale() == "log"
    plt.close(ax.figure)
