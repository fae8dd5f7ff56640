"""What angles, axes, coordinates, points of clouds and subsequences contribute."""

import itertools

import numpy as np
import pandas as pd
import pytest

from mercer.explain import explain
from mercer.kernels import (
    GappySubsequence,
    Gaussian,
    GaussianEmbedding,
    Heat,
    InverseGeneralizedVariance,
    Linear,
    Matern,
    MeanEmbedding,
    On,
    TraceKernel,
)
from mercer.machines import SVC, KernelRidge
from mercer.spaces import Hyperbolic, NormalProduct, Rotations, Sphere, Torus

rng = np.random.default_rng(0)
STEP = 1e-5


def of_pair(kernel, x, y) -> np.ndarray:
    """Contributions to k(x, y) itself."""
    (found,) = kernel.contributions(x, y, np.ones((1, 1)))
    assert found.values.shape == (1, len(found.names))
    return found.values[0]


def slope(function) -> float:
    """Derivative at zero."""
    return (function(STEP) - function(-STEP)) / (2 * STEP)


@pytest.mark.parametrize("x", [[0.3, 3.0, -2.5], [0.0, 1e-9, 3.14]])
@pytest.mark.parametrize(
    "kernel",
    [
        Heat(Torus(), t=0.02),
        Heat(Torus(), t=0.5),
        Heat(Torus(), t=1.5),
        Matern(Torus(), length_scale=1.0),
    ],
    ids=["short", "half", "long", "matern"],
)
def test_angles(kernel, x) -> None:
    """An angle between two points that grows by half a percent changes the kernel by what is said."""
    y = np.array([[0.0, -2.9, 0.1]]) if x[0] else np.zeros((1, 3))
    apart = np.remainder(np.array(x) - y + np.pi, 2 * np.pi) - np.pi
    found = of_pair(kernel, y + apart, y)
    for j in range(3):

        def moved(e: float, j: int = j) -> float:
            return kernel(y + apart * np.where(np.arange(3) == j, np.sqrt(1 + e), 1.0), y)[0, 0]

        assert found[j] == pytest.approx(slope(moved), rel=1e-5, abs=1e-9)


def test_coordinates_of_hyperbolic_space() -> None:
    x, y = np.array([[0.7, -0.3, 1.4]]), np.array([[0.1, 0.4, 0.8]])
    kernel = Heat(Hyperbolic(), t=0.5)
    found = of_pair(kernel, x, y)
    # Steps sideways leave the heights of both points, and with them the unit of lengths.
    start, sideways = x * [0, 0, 1] + y * [1, 1, 0], (x - y) * [1, 1, 0]
    for j in range(2):
        own = np.arange(3) == j

        def moved(e: float, own=own) -> float:
            return kernel(start + sideways * np.where(own, np.sqrt(1 + e), 1.0), y)[0, 0]

        assert found[j] == pytest.approx(slope(moved), rel=1e-6)
    w = np.cosh(Hyperbolic().distances(x, y)[0, 0]) - 1

    def along(e: float) -> float:
        return kernel([[0.0, 0.0, np.exp(np.arccosh(1 + w * (1 + e)))]], [[0.0, 0.0, 1.0]])[0, 0]

    assert found.sum() == pytest.approx(slope(along), rel=1e-6)
    ball = np.array([[0.3, -0.2], [0.1, 0.4]])
    hyperboloid = np.column_stack([1 + (ball**2).sum(axis=1), 2 * ball]) / (
        1 - (ball**2).sum(axis=1, keepdims=True)
    )
    pairs = [of_pair(Heat(Hyperbolic(c), t=0.5), X[:1], X[1:]) for c, X in
             (("ball", ball), ("hyperboloid", hyperboloid))]  # fmt: skip
    np.testing.assert_allclose(pairs[1], [0.0, *pairs[0]], rtol=1e-9)


def test_features_of_normal_products() -> None:
    """Features that two rows agree in contribute nothing, and the others as they would alone."""
    kernel, alone = (Heat(NormalProduct(), t=0.5) for _ in range(2))
    x, y = np.array([[0.5, 1.0, 2.0, 0.3]]), np.array([[0.5, 1.0, 2.3, 0.5]])
    found = of_pair(kernel, x, y)
    assert not found[:2].any()
    np.testing.assert_allclose(found[2:], of_pair(alone, x[:, 2:], y[:, 2:]), rtol=1e-9)


@pytest.mark.parametrize("angle", [1e-4, 0.4, 2.0, np.pi])
def test_axes_of_rotations(angle: float) -> None:
    """A turn about one axis leaves it where it is, and moves both others alike."""
    kernel = Heat(Rotations(), t=0.5)
    turned = [[np.cos(angle / 2), np.sin(angle / 2), 0.0, 0.0]]
    found = of_pair(kernel, turned, [[1.0, 0, 0, 0]])

    def whole(e: float) -> float:
        half = np.arcsin(np.sin(angle / 2) * np.sqrt(1 + e))
        return kernel([[np.cos(half), np.sin(half), 0, 0]], [[1.0, 0, 0, 0]])[0, 0]

    # Beyond half a turn there is nothing: one side is enough there.
    total = slope(whole) if angle < np.pi else (whole(0.0) - whole(-STEP)) / STEP
    np.testing.assert_allclose(found, [0.0, total / 2, total / 2], rtol=1e-3, atol=1e-12)
    matrix = [[1, 0, 0, 0, np.cos(angle), -np.sin(angle), 0, np.sin(angle), np.cos(angle)]]
    np.testing.assert_allclose(
        of_pair(kernel, matrix, np.eye(3).reshape(1, 9)), found, rtol=1e-6, atol=1e-12
    )


CLOUDS = [rng.normal(size=(k, 2)) for k in (3, 5, 1, 4)]
WEIGHTED = [(c, rng.dirichlet(np.ones(len(c)))) for c in CLOUDS]
MEANS = [w @ c for c, w in WEIGHTED]


@pytest.mark.parametrize("base", [Linear(), Gaussian(1.5)], ids=repr)
@pytest.mark.parametrize("normalized", [False, True])
def test_points_of_clouds_add_up(base, normalized: bool) -> None:
    kernel = MeanEmbedding(base, normalized=normalized)
    weights = rng.normal(size=(2, 2))
    (found,) = kernel.contributions(WEIGHTED[:2], WEIGHTED[2:], weights)
    assert found.exact
    assert found.names == [0, 1, 2, 3, 4]
    points, own = WEIGHTED[1]
    plain = MeanEmbedding(base)
    by_hand = np.zeros(5)
    for j, other in enumerate(WEIGHTED[2:]):
        values = base(points, other[0]) @ other[1]
        norms = np.sqrt(plain.diag([WEIGHTED[1]]) * plain.diag([other]))[0] if normalized else 1.0
        by_hand += weights[1, j] * own * values / norms
    np.testing.assert_allclose(found.values[1], by_hand, rtol=1e-10)
    assert not found.values[0, 3:].any()


def test_points_of_clouds_are_not_typical() -> None:
    clouds = [rng.normal(k % 2, 1.0, size=(5, 2)) for k in range(12)]
    table, y = pd.DataFrame({"cloud": clouds, "x": np.arange(12.0)}), np.arange(12) % 2
    found = explain(SVC(MeanEmbedding(Gaussian())).fit(clouds, y), clouds)
    assert set(found.columns(3)["kind"]) == {"point"}
    with pytest.raises(ValueError, match="share only their positions"):
        found.typical()
    both = On("cloud", MeanEmbedding(Gaussian())) + On("x", Linear())
    assert set(explain(SVC(both).fit(table, y), table).typical()["kind"]) == {"column"}


def test_points_of_clouds_to_first_order() -> None:
    (points, own), theirs = WEIGHTED[1], MEANS[3]
    parts = own * ((points - theirs) @ (MEANS[1] - theirs))
    kernel = GaussianEmbedding(Linear(), length_scale=1.3)
    value = kernel([WEIGHTED[1]], [WEIGHTED[3]])[0, 0]
    np.testing.assert_allclose(
        of_pair(kernel, [WEIGHTED[1]], [WEIGHTED[3]]), -value * parts / (2 * 1.3**2), rtol=1e-9
    )
    variance = own * ((points - MEANS[1]) * points).sum(axis=1)
    for decay, beta in (("exponential", 1.0), ("exponential", 0.5), ("rational", 2.0)):
        kernel = TraceKernel(Linear(), t=2.0, decay=decay, beta=beta)
        whole = -np.log(TraceKernel(Linear(), t=1.0)([WEIGHTED[1]], [WEIGHTED[3]])[0, 0])
        logarithm = (lambda v: -((v / 2) ** 0.5)) if beta == 0.5 else (
            (lambda v: -v / 2) if decay == "exponential" else (lambda v: -2 * np.log1p(v / 2))
        )  # fmt: skip
        rate = (logarithm(whole + STEP) - logarithm(whole - STEP)) / (2 * STEP)
        value = np.exp(logarithm(whole))
        np.testing.assert_allclose(
            of_pair(kernel, [WEIGHTED[1]], [WEIGHTED[3]]),
            value * rate * (variance / 2 + parts / 4), rtol=1e-6,
        )  # fmt: skip
    # Normalised, the exponential is a function of the distance alone.
    normal = TraceKernel(Linear(), t=2.0, normalized=True)
    value = normal([WEIGHTED[1]], [WEIGHTED[3]])[0, 0]
    found = of_pair(normal, [WEIGHTED[1]], [WEIGHTED[3]])
    np.testing.assert_allclose(found, -value * parts / 8, rtol=1e-8)


@pytest.mark.parametrize("normalized", [False, True])
def test_subsequences_with_gaps(normalized: bool) -> None:
    strings, decay = ["abcab", "cacb", "ab", "bbca"], 0.6
    kernel = GappySubsequence(2, decay, normalized)

    def weights_of(text: str) -> dict[str, float]:
        found: dict[str, float] = {}
        for i, j in itertools.combinations(range(len(text)), 2):
            word = text[i] + text[j]
            found[word] = found.get(word, 0.0) + decay ** (j - i + 1)
        return found

    weights = rng.normal(size=(2, 2))
    (found,) = kernel.contributions(strings[:2], strings[2:], weights)
    assert found.kind == "subsequence"
    assert found.exact
    for row, text in enumerate(strings[:2]):
        own = weights_of(text)
        for word, value in zip(found.names, found.values[row], strict=True):
            expected = sum(
                weights[row, j] * own.get(word, 0.0) * weights_of(other).get(word, 0.0)
                / (np.sqrt(kernel_diag(decay, text) * kernel_diag(decay, other)) if normalized else 1.0)
                for j, other in enumerate(strings[2:])
            )  # fmt: skip
            assert value == pytest.approx(expected, rel=1e-10, abs=1e-15)
    K = kernel(strings[:2], strings[2:])
    np.testing.assert_allclose(found.values.sum(axis=1), (weights * K).sum(axis=1), rtol=1e-10)


def kernel_diag(decay: float, text: str) -> float:
    return float(GappySubsequence(2, decay).diag([text])[0])


def test_whole_tables() -> None:
    """Contributions of every kind add up to the value of a machine where they are exact."""
    size = 24
    table = pd.DataFrame(
        {
            "hour": rng.uniform(0, 24, size), "lat": rng.uniform(-80, 80, size),
            "lon": rng.uniform(-180, 180, size),
            "code": ["".join(row) for row in rng.choice(list("AC"), (size, 6))],
            "cloud": [rng.normal(size=(k, 2)) for k in rng.integers(1, 4, size)],
            "other": [rng.normal(size=(2, 2)) for _ in range(size)],
        }
    )  # fmt: skip
    kernel = (
        On("hour", Heat(Torus(period=24)))
        + On(["lat", "lon"], Heat(Sphere(coordinates="latlon")))
        + On("code", GappySubsequence(2))
        + On("cloud", MeanEmbedding(Gaussian()))
        + On("other", InverseGeneralizedVariance(Gaussian()))
    )
    y = np.where(table.hour + 3 * table.code.str.count("A") > 20, "late", "early")
    model = SVC(kernel).fit(table, y)
    found = explain(model, table[:3])
    parts, columns = found.parts(1).set_index("part")["contribution"], found.columns(1, top=500)
    kinds = columns.groupby("part")["kind"].unique().map(list).to_dict()
    assert kinds == {
        "hour": ["column"], "lat, lon": ["column"], "code": ["subsequence"], "cloud": ["point"],
        "other": ["column"],
    }  # fmt: skip
    for part in ("lat, lon", "code", "cloud", "other"):  # the one column of a part that is not split
        own = columns[columns["part"] == part]
        assert own["exact"].all()
        assert own["contribution"].sum() == pytest.approx(parts[part], rel=1e-9)
    assert columns[columns["part"] == "lat, lon"]["name"].tolist() == ["lat, lon"]
    turns = pd.DataFrame(rng.normal(size=(size, 4)), columns=list("wxyz"))
    ridge = KernelRidge(On(list("wxyz"), Heat(Rotations(), t=0.5)), alpha=0.1).fit(
        turns, rng.normal(size=size)
    )
    assert set(explain(ridge, turns[:2]).columns()["name"]) == {"x", "y", "z"}
