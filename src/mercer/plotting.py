"""Pictures; every function draws into the given axes, or makes some, and returns them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone

from mercer.bounds import VCBound, covering_bound, generalization_bound, log_covering_rate
from mercer.kernels import Heat, SpectralKernel

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["plot_covering_bound", "plot_generalization_bound", "plot_vc_bounds"]

#: What :func:`plot_vc_bounds` can show.
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
    """Draw the generalisation bound against the sample size, one line for each VC dimension.

    Values of 1 and more, which say nothing of an error rate, lie in the grey.

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
    """Draw what the VC bounds of several machines say, against what was varied between them.

    Parameters
    ----------
    values : array
        What was varied: the time t, the dimension n, the sample size m, ...
    bounds : sequence of VCBound
        One for each of the values.
    quantity : {"mu", "effective_sample_size", "generalization_bound"}
    xlabel : str
        Name of what was varied.
    label : str, optional
        Name of the line.
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
    kernel: SpectralKernel,
    n: Any,
    epsilon: Any,
    *,
    radius: float = 1.0,
    label: str | None = None,
    ax: Axes | None = None,
    **hyperparameter: Any,
) -> Axes:
    """Draw the bound on covering numbers against accuracy, dimension or a hyperparameter.

    What is given as a sequence is the horizontal axis: n, epsilon, or a hyperparameter of the kernel
    named as a keyword, such as ``t=[0.1, 0.2]``.  The height is ``log10(log N)``, which stays in
    range in every dimension.  The rate of the heat kernel, where epsilon is below 1, is the dashed line.

    Parameters
    ----------
    kernel : Heat, Matern, Spectral or another SpectralKernel
    n : int or sequence of int
        Ambient dimension.
    epsilon : float or sequence of float
        Accuracy of the cover.
    radius : float
        Bound on the norm of the functions.
    label : str, optional
        Name of the line.
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


def _covering_point(
    kernel: SpectralKernel, values: dict[str, Any], radius: float
) -> tuple[float, float]:
    """Logarithms of the entropy, and of its rate where there is one."""
    n, epsilon = values["n"], values["epsilon"]
    changed = {name: value for name, value in values.items() if name not in ("n", "epsilon")}
    if changed:
        kernel = clone(kernel).set_params(**changed)
    entropy = covering_bound(kernel, n, epsilon, radius).log_entropy
    if not isinstance(kernel, Heat) or epsilon >= 1:
        return entropy, math.nan
    return entropy, log_covering_rate(n, kernel.time(n), epsilon)


def _axes(ax: Axes | None) -> Axes:
    """The given axes, or those of a new figure."""
    if ax is not None:
        return ax
    import matplotlib.pyplot as plt

    return plt.subplots(layout="constrained")[1]


def _shade_vacuous(ax: Axes) -> None:
    """Mark bounds on an error rate that say nothing."""
    ax.set_ylim(bottom=0, top=max(1.5, min(ax.get_ylim()[1], 3.0)))
    # Once for each axes, however many lines are drawn into it.
    if not any(patch.get_label() == "_vacuous" for patch in ax.patches):
        ax.axhspan(1, 1e6, color="0.92", lw=0, zorder=0, label="_vacuous")


def _axis_values(values: ArrayLike, name: str) -> Any:
    array = np.asarray(values, dtype=float)
    if array.ndim != 1 or array.size == 0 or not np.all(array > 0):
        raise ValueError(f"{name} must be a sequence of positive numbers, got {values!r}")
    return array
