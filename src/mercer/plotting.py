"""Figures; every function draws into the given axes, or into new ones, and returns them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone

from mercer._validation import check_whole
from mercer.bounds import VCBound, covering_bound, generalization_bound, log_covering_rate
from mercer.kernels import LawKernel
from mercer.spaces import NormalFamily, Simplex

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = [
    "plot_covering_bound",
    "plot_generalization_bound",
    "plot_halfplane_boundary",
    "plot_simplex_boundary",
    "plot_vc_bounds",
]

#: Colours of classes, distinguishable with colour blindness, and their strength in regions.
_COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#F0E442")
_TINT = 0.28
#: Corners of the triangle.
_CORNERS = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, math.sqrt(0.75)]])
#: Distance of points from the edges of the triangle, where some kernels are not defined.
_EDGE = 1e-4

#: Quantities that :func:`plot_vc_bounds` can show, with their labels.
_QUANTITIES: dict[str, tuple[str, Callable[[VCBound], float]]] = {
    "mu": ("VC bound $\\mu$", lambda bound: bound.mu),
    "effective_sample_size": (
        "effective sample size $m / \\mu$",
        lambda bound: bound.effective_sample_size,
    ),
    "generalization_bound": (
        "bound on the error beyond training",
        lambda bound: bound.generalization_bound(),
    ),
}


def plot_generalization_bound(
    m: ArrayLike, mu: ArrayLike, eta: float = 0.05, *, ax: Axes | None = None
) -> Axes:
    """Plot the generalisation bound against the sample size, one line for each VC dimension.

    Bounds of 1 and more are vacuous and lie in the grey region.

    Parameters
    ----------
    m : array
        Sample sizes.
    mu : float or array
        VC dimensions, or bounds on them.
    eta : float
        Probability that the bound fails.
    ax : matplotlib Axes, optional

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.plotting import plot_generalization_bound
    >>> ax = plot_generalization_bound(np.geomspace(10, 1e5), mu=[3, 30, 300])
    >>> len(ax.lines)
    3
    """
    sizes = _axis_values(m, "m")
    curves = [(value, generalization_bound(sizes, value, eta)) for value in np.atleast_1d(mu)]
    ax = _axes(ax)
    for value, bound in curves:
        ax.plot(sizes, bound, label=f"$\\mu$ = {value:.4g}")
    ax.set(xlabel="sample size $m$", ylabel=_QUANTITIES["generalization_bound"][0], xscale="log")
    _shade_vacuous(ax)
    ax.legend(frameon=False)
    return ax


def plot_vc_bounds(
    values: ArrayLike,
    bounds: Sequence[VCBound],
    *,
    quantity: str = "mu",
    xlabel: str = "",
    label: str | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Plot a quantity of the VC bounds of several machines against a parameter.

    Parameters
    ----------
    values : array
        Values of the parameter: the time t, the dimension n, the sample size m, ...
    bounds : sequence of VCBound
        One for each value.
    quantity : {"mu", "effective_sample_size", "generalization_bound"}
    xlabel : str
        Name of the parameter.
    label : str, optional
        Label of the line.
    ax : matplotlib Axes, optional

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.svm import SVC
    >>> from mercer.bounds import vc_bound
    >>> from mercer.kernels import Heat
    >>> from mercer.plotting import plot_vc_bounds
    >>> from mercer.spaces import Simplex
    >>> X, y = load_iris(return_X_y=True)
    >>> X, y = X[:100], y[:100]
    >>> times = [0.1, 0.3, 1.0]
    >>> machines = [SVC(kernel=Heat(Simplex(), t_star=t)).fit(X, y) for t in times]
    >>> ax = plot_vc_bounds(times, [vc_bound(machine, X) for machine in machines], xlabel="t*")
    >>> ax.get_xlabel()
    't*'
    """
    if quantity not in _QUANTITIES:
        raise ValueError(f"quantity must be one of {', '.join(_QUANTITIES)}, got {quantity!r}")
    x = _axis_values(values, "values")
    if x.size != len(bounds):
        raise ValueError(f"{x.size} values, but {len(bounds)} bounds: give one for each")
    ylabel, read = _QUANTITIES[quantity]
    ax = _axes(ax)
    ax.plot(x, [read(bound) for bound in bounds], marker="o", label=label)
    ax.set(xlabel=xlabel or ax.get_xlabel(), ylabel=ylabel, xscale="log")
    if quantity == "generalization_bound":
        _shade_vacuous(ax)
    else:
        ax.set_yscale("log")
    if label is not None:
        ax.legend(frameon=False)
    return ax


def plot_covering_bound(
    kernel: LawKernel,
    n: Any,
    epsilon: Any,
    *,
    radius: float = 1.0,
    label: str | None = None,
    ax: Axes | None = None,
    **hyperparameter: Any,
) -> Axes:
    """Plot the bound on covering numbers against accuracy, dimension or a hyperparameter.

    The horizontal axis is the argument that is given as a sequence: n, epsilon, or a hyperparameter of
    the kernel as a keyword, such as ``t=[0.1, 0.2]``.  The vertical axis is ``log10(log N)``, which does
    not overflow.  For the heat kernel and epsilon below 1, a dashed line shows the asymptotic rate.

    Parameters
    ----------
    kernel : Heat, Matern, Spectral or another LawKernel
    n : int or sequence of int
        Ambient dimension.
    epsilon : float or sequence of float
        Accuracy of the cover.
    radius : float
        Bound on the norm of the functions.
    label : str, optional
        Label of the line.
    ax : matplotlib Axes, optional
    **hyperparameter : sequence
        At most one.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.kernels import Heat
    >>> from mercer.plotting import plot_covering_bound
    >>> from mercer.spaces import Sphere
    >>> ax = plot_covering_bound(Heat(Sphere(), t=0.1), n=3, epsilon=np.geomspace(1e-6, 0.5, 40))
    >>> ax = plot_covering_bound(Heat(Sphere()), n=3, epsilon=0.1, t=np.geomspace(0.01, 1, 20), ax=ax)
    >>> ax.get_xlabel()
    't'
    """
    given = {"n": n, "epsilon": epsilon, **hyperparameter}
    varied = [name for name, value in given.items() if np.ndim(value)]
    if len(varied) != 1 or not set(hyperparameter) <= set(varied):
        raise ValueError("give exactly one of n, epsilon or a hyperparameter as a sequence")
    (name,) = varied
    x = _axis_values(given[name], name)
    points = [_covering_point(kernel, {**given, name: value}, radius) for value in given[name]]
    height, rate = np.array(points).T / math.log(10)
    ax = _axes(ax)
    (line,) = ax.plot(x, height, label=label)
    if not np.all(np.isnan(rate)):
        ax.plot(x, rate, "--", color=line.get_color(), label=None if label is None else f"{label}, rate")
    axis = {"n": "dimension $n$", "epsilon": "accuracy $\\epsilon$"}.get(name, name)
    ax.set(xlabel=axis, ylabel="$\\log_{10}$ of the bound on $\\log N(\\epsilon)$", xscale="log")
    if label is not None:
        ax.legend(frameon=False)
    return ax


def plot_simplex_boundary(
    model: Any,
    X: Any = None,
    y: Any = None,
    *,
    corners: Sequence[str] = ("$\\theta_1$", "$\\theta_2$", "$\\theta_3$"),
    total: float = 1.0,
    resolution: int = 150,
    ax: Axes | None = None,
) -> Axes:
    """Plot the decision regions of a classifier in the triangle of three categories.

    Lines are decision boundaries: where the decision function of two classes is zero, or where the
    predicted class changes.

    Parameters
    ----------
    model : fitted classifier
        With ``decision_function`` or ``predict`` on rows of three counts or probabilities.
    X : array of shape (m, 3), optional
        Counts or probabilities to show as points.
    y : array of shape (m,), optional
        Their classes.
    corners : three str
        Names of the categories.
    total : float
        Sum of the rows at which the model is evaluated; 1 for probabilities.
    resolution : int
        Number of grid points along an edge.
    ax : matplotlib Axes, optional

    Examples
    --------
    >>> from sklearn.svm import SVC
    >>> from mercer.kernels import Heat
    >>> from mercer.plotting import plot_simplex_boundary
    >>> from mercer.spaces import Simplex
    >>> counts, classes = [[8, 1, 1], [6, 3, 1], [1, 2, 7], [2, 2, 6]], [0, 0, 1, 1]
    >>> model = SVC(kernel=Heat(Simplex(), t=0.1)).fit(counts, classes)
    >>> ax = plot_simplex_boundary(model, counts, classes, corners=["a", "b", "c"])
    >>> [text.get_text() for text in ax.texts]
    ['a', 'b', 'c']
    """
    if len(corners) != 3:
        raise ValueError(f"corners must be the names of three categories, got {corners!r}")
    check_whole("resolution", resolution, 2)
    points = None
    if X is not None:
        roots, _ = Simplex(n=3).embed(Simplex(n=3).check(X))
        points = (roots.multiply(roots) if hasattr(roots, "multiply") else roots * roots) @ _CORNERS
    steps = np.arange(resolution)
    first, second = (part.ravel() for part in np.meshgrid(steps, steps))
    inside = first + second < resolution
    grid = np.column_stack([first, second, resolution - 1 - first - second])[inside] / (resolution - 1)
    grid = (grid + _EDGE) / (1 + 3 * _EDGE)
    ax = _axes(ax)
    _draw_regions(ax, model, grid @ _CORNERS, total * grid)
    _draw_points(ax, model, points, y)
    ax.plot(*_CORNERS[[0, 1, 2, 0]].T, color="black", lw=1)
    for name, corner, align in zip(corners, _CORNERS, ("right", "left", "center"), strict=True):
        across, up = corner
        ax.text(across, up + (0.03 if up else -0.03), name, ha=align, va="bottom" if up else "top")
    ax.set(xlim=(-0.08, 1.08), ylim=(-0.1, 0.98), aspect="equal")
    ax.set_axis_off()
    return ax


def plot_halfplane_boundary(
    model: Any,
    X: Any = None,
    y: Any = None,
    *,
    xlim: tuple[float, float] | None = None,
    ylim: tuple[float, float] | None = None,
    resolution: int = 150,
    ax: Axes | None = None,
) -> Axes:
    """Plot the decision regions of a classifier in the half-plane of normal distributions.

    See :func:`plot_simplex_boundary`.

    Parameters
    ----------
    model : fitted classifier
        With ``decision_function`` or ``predict`` on rows of a mean and a standard deviation.
    X : array of shape (m, 2), optional
        Means and standard deviations to show as points.
    y : array of shape (m,), optional
        Their classes.
    xlim, ylim : pair of floats, optional
        Ranges of the mean and of the standard deviation; by default those of X with a margin.
    resolution : int
        Number of grid points along each axis.
    ax : matplotlib Axes, optional

    Examples
    --------
    >>> from sklearn.svm import SVC
    >>> from mercer.kernels import Heat
    >>> from mercer.plotting import plot_halfplane_boundary
    >>> from mercer.spaces import NormalFamily
    >>> rows, classes = [[0.0, 1.0], [1.0, 1.5], [0.0, 0.2], [1.0, 0.3]], [0, 0, 1, 1]
    >>> model = SVC(kernel=Heat(NormalFamily(), t=0.5)).fit(rows, classes)
    >>> ax = plot_halfplane_boundary(model, rows, classes)
    >>> ax.get_ylabel()
    'standard deviation'
    """
    check_whole("resolution", resolution, 2)
    points = None if X is None else NormalFamily(n=2).check(X)
    ranges = [xlim, ylim]
    for axis in (0, 1):
        if ranges[axis] is None:
            if points is None:
                raise ValueError("give the ranges xlim and ylim, or points X to take them from")
            low, high = points[:, axis].min(), points[:, axis].max()
            room = 0.08 * (high - low) or 0.5 * high or 1.0
            ranges[axis] = (low - room if axis == 0 else 0.0, high + room)
    (left, right), (bottom, top) = (pair for pair in ranges if pair is not None)
    if not (left < right and 0 <= bottom < top):
        raise ValueError(f"ranges must rise, ylim from zero or above; got xlim={xlim!r}, ylim={ylim!r}")
    means = np.linspace(left, right, resolution)
    # The standard deviation must be positive: the grid starts half a step above zero.
    deviations = np.linspace(bottom or top / (2 * resolution), top, resolution)
    grid = np.column_stack([part.ravel() for part in np.meshgrid(means, deviations)])
    ax = _axes(ax)
    _draw_regions(ax, model, grid, grid)
    _draw_points(ax, model, points, y)
    ax.set(xlim=(left, right), ylim=(bottom, top), xlabel="mean", ylabel="standard deviation")
    return ax


def _draw_regions(ax: Axes, model: Any, places: Any, rows: Any) -> None:
    """Fill the regions of the classes, and draw lines between them."""
    from matplotlib.tri import Triangulation

    triangles = Triangulation(*places.T)
    line = {"colors": "black", "linewidths": 1.2}
    scores = model.decision_function(rows) if hasattr(model, "decision_function") else None
    if scores is not None and np.ndim(scores) == 1:
        levels = [min(scores.min(), -1.0) - 1, 0, max(scores.max(), 1.0) + 1]
        ax.tricontourf(triangles, scores, levels=levels, colors=_tints(2))
        if scores.min() < 0 < scores.max():
            ax.tricontour(triangles, scores, levels=[0], **line)
        return
    predicted = np.asarray(model.predict(rows))
    classes = _classes(model, predicted)
    for label, tint in zip(classes, _tints(len(classes)), strict=True):
        own = (predicted == label).astype(float)
        if own.any():
            ax.tricontourf(triangles, own, levels=[0.5, 1.5], colors=[tint])
        if own.any() and not own.all():
            ax.tricontour(triangles, own, levels=[0.5], **line)


def _draw_points(ax: Axes, model: Any, points: Any, y: Any) -> None:
    if points is None:
        return
    if y is None:
        ax.scatter(points[:, 0], points[:, 1], s=18, color="0.2", edgecolor="white", lw=0.5, zorder=3)
        return
    labels = np.asarray(y)
    if labels.shape != (len(points),):
        raise ValueError(
            f"X has {len(points)} rows, but y has shape {labels.shape}: give a class for each"
        )
    for i, label in enumerate(_classes(model, labels)):
        color, marker = _COLORS[i % len(_COLORS)], "os^Dv<>P"[i % 8]
        own = points[labels == label]
        ax.scatter(
            own[:, 0], own[:, 1], s=22, color=color, marker=marker, edgecolor="white", lw=0.6,
            zorder=3, label=str(label),
        )  # fmt: skip


def _classes(model: Any, labels: Any) -> list[Any]:
    """The classes of a model, in its order, or those that occur."""
    return list(getattr(model, "classes_", np.unique(labels)))


def _tints(count: int) -> list[tuple[float, ...]]:
    """Light colours for regions."""
    from matplotlib.colors import to_rgb

    colors = (to_rgb(_COLORS[i % len(_COLORS)]) for i in range(count))
    return [tuple(1 - _TINT * (1 - part) for part in color) for color in colors]


def _covering_point(kernel: LawKernel, values: dict[str, Any], radius: float) -> tuple[float, float]:
    """Logarithms of the entropy and of its asymptotic rate; NaN if there is none."""
    n, epsilon = values["n"], values["epsilon"]
    changed = {name: value for name, value in values.items() if name not in ("n", "epsilon")}
    if changed:
        kernel = clone(kernel).set_params(**changed)
    entropy = covering_bound(kernel, n, epsilon, radius).log_entropy
    time = kernel.heat_time(n)
    if time is None or epsilon >= 1:
        return entropy, math.nan
    return entropy, log_covering_rate(n, time, epsilon)


def _axes(ax: Axes | None) -> Axes:
    if ax is not None:
        return ax
    import matplotlib.pyplot as plt

    return plt.subplots(layout="constrained")[1]


def _shade_vacuous(ax: Axes) -> None:
    ax.set_ylim(bottom=0, top=max(1.5, min(ax.get_ylim()[1], 3.0)))
    # Once per axes, for any number of lines.
    if not any(patch.get_label() == "_vacuous" for patch in ax.patches):
        ax.axhspan(1, 1e6, color="0.92", lw=0, zorder=0, label="_vacuous")


def _axis_values(values: ArrayLike, name: str) -> Any:
    array = np.asarray(values, dtype=float)
    if array.ndim != 1 or array.size == 0 or not np.all(array > 0):
        raise ValueError(f"{name} must be a sequence of positive numbers, got {values!r}")
    return array
