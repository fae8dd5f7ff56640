"""Drawings of decision boundaries, read back from the axes."""

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib import pyplot as plt
from matplotlib.colors import to_rgb
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import SVC

from mercer.kernels import Heat, KullbackLeibler
from mercer.plotting import plot_halfplane_boundary, plot_simplex_boundary
from mercer.spaces import NormalFamily, Simplex

HEIGHT = np.sqrt(0.75)


@pytest.fixture(autouse=True)
def closed_figures():
    mpl.use("agg")
    yield
    plt.close("all")


class Threshold:
    """A classifier of known boundary: the last column, as a share of the row, is above a number."""

    def __init__(self, share: float) -> None:
        self.share = share

    def decision_function(self, X: np.ndarray) -> np.ndarray:
        return X[:, -1] / X.sum(axis=1) - self.share


class Largest:
    """The number of the largest column; predictions only."""

    classes_ = np.array([0, 1, 2])

    def predict(self, X: np.ndarray) -> np.ndarray:
        return X.argmax(axis=1)


def color_at(ax, x: float, y: float) -> np.ndarray:
    """Colour of the canvas at a point of the axes."""
    ax.figure.canvas.draw()
    pixels = np.asarray(ax.figure.canvas.buffer_rgba())[..., :3] / 255
    column, row = ax.transData.transform((x, y))
    return pixels[len(pixels) - 1 - round(row), round(column)]


def tint(color: str) -> np.ndarray:
    return 1 - 0.28 * (1 - np.array(to_rgb(color)))


@pytest.mark.parametrize("total", [1.0, 50.0])
def test_boundary_of_two_classes_is_where_the_decision_function_is_zero(total: float) -> None:
    ax = plot_simplex_boundary(Threshold(0.3), total=total)
    boundary = ax.collections[-1].get_paths()[0].vertices
    np.testing.assert_allclose(boundary[:, 1], 0.3 * HEIGHT, atol=1e-3)
    np.testing.assert_allclose([boundary[:, 0].min(), boundary[:, 0].max()], [0.15, 0.85], atol=0.01)
    np.testing.assert_allclose(color_at(ax, 0.5, 0.1), tint("#0072B2"), atol=0.01)
    np.testing.assert_allclose(color_at(ax, 0.5, 0.6), tint("#D55E00"), atol=0.01)


def test_regions_of_three_classes() -> None:
    ax = plot_simplex_boundary(Largest(), corners=["sun", "rain", "snow"], resolution=80)
    assert [t.get_text() for t in ax.texts] == ["sun", "rain", "snow"]
    corners = {(0.08, 0.04): "#0072B2", (0.92, 0.04): "#D55E00", (0.5, 0.78): "#009E73"}
    for place, color in corners.items():
        np.testing.assert_allclose(color_at(ax, *place), tint(color), atol=0.01)


def test_points_lie_where_their_shares_are() -> None:
    counts = np.array([[10, 0, 0], [0, 0, 3], [1, 1, 1], [0, 5, 5]])
    ax = plot_simplex_boundary(Largest(), counts, [0, 2, 2, 1], resolution=20)
    drawn = {s.get_label(): np.asarray(s.get_offsets()) for s in ax.collections[-3:]}
    np.testing.assert_allclose(drawn["0"], [[0, 0]], atol=1e-12)
    np.testing.assert_allclose(drawn["1"], [[0.75, HEIGHT / 2]], atol=1e-12)
    np.testing.assert_allclose(drawn["2"], [[0.5, HEIGHT], [0.5, HEIGHT / 3]], atol=1e-12)


def test_half_plane() -> None:
    class Ratio:
        def decision_function(self, X: np.ndarray) -> np.ndarray:
            assert (X[:, 1] > 0).all()
            return X[:, 0] - 2 * X[:, 1]

    ax = plot_halfplane_boundary(Ratio(), xlim=(-1, 4), ylim=(0, 2))
    boundary = ax.collections[-1].get_paths()[0].vertices
    np.testing.assert_allclose(boundary[:, 0], 2 * boundary[:, 1], atol=1e-9)
    assert (ax.get_xlim(), ax.get_ylim()) == ((-1, 4), (0, 2))
    np.testing.assert_allclose(color_at(ax, 3.5, 0.5), tint("#D55E00"), atol=0.01)
    rows = np.array([[0.0, 1.0], [2.0, 3.0]])
    ax = plot_halfplane_boundary(Ratio(), rows)
    np.testing.assert_allclose(ax.get_xlim(), (-0.16, 2.16))
    np.testing.assert_allclose(ax.get_ylim(), (0, 3.16))
    one = plot_halfplane_boundary(Ratio(), rows[:1])  # one point has no extent
    assert one.get_xlim()[0] < 0 < one.get_xlim()[1]


def test_fitted_machines_and_given_axes() -> None:
    rng = np.random.default_rng(0)
    X = rng.dirichlet([1, 1, 1], size=60)
    y = np.array(["a", "b", "c"])[X.argmax(axis=1)]
    _, ax = plt.subplots()
    # Divergences from zero are infinite: the triangle is asked for points inside.
    model = SVC(kernel=KullbackLeibler(Simplex(), t=0.1)).fit(X, y)
    assert plot_simplex_boundary(model, X, y, resolution=30, ax=ax) is ax
    assert [s.get_label() for s in ax.collections[-3:]] == ["a", "b", "c"]
    rows = np.column_stack([rng.normal(size=60), rng.gamma(2.0, size=60)])
    for model in (SVC(kernel=Heat(NormalFamily(), t=0.7)), KNeighborsClassifier(3)):
        plot_halfplane_boundary(model.fit(rows, y), rows, y, resolution=30)
    constant = KNeighborsClassifier(1).fit(rows[:1], y[:1])
    assert plot_halfplane_boundary(constant, rows).collections


def test_bad_input() -> None:
    with pytest.raises(ValueError, match="names of three categories"):
        plot_simplex_boundary(Largest(), corners=["a", "b"])
    with pytest.raises(ValueError, match="X has 4 columns"):
        plot_simplex_boundary(Largest(), np.ones((2, 4)))
    with pytest.raises(ValueError, match="X has 2 rows, but y has shape"):
        plot_simplex_boundary(Largest(), np.ones((2, 3)), [1], resolution=10)
    for plot in (plot_simplex_boundary, plot_halfplane_boundary):
        with pytest.raises(ValueError, match="resolution must be a whole number of at least 2, got 1"):
            plot(Largest(), resolution=1)
    with pytest.raises(ValueError, match="give the ranges xlim and ylim"):
        plot_halfplane_boundary(Largest(), xlim=(0, 1))
    with pytest.raises(ValueError, match="ranges must rise"):
        plot_halfplane_boundary(Largest(), xlim=(1, 0), ylim=(0, 1))
    with pytest.raises(ValueError, match="row 0 of X has no positive scale"):
        plot_halfplane_boundary(Largest(), [[0.0, 0.0]])
