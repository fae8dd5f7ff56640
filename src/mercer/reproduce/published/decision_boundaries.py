"""Decision boundaries on the trinomial and on the normal family."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray
from sklearn.model_selection import StratifiedKFold

from mercer.kernels import Gaussian, Heat, Kernel, Parametrix
from mercer.reproduce.experiment import Claim, Context, Experiment, Result, Table
from mercer.selection import KernelSearchCV
from mercer.spaces import NormalFamily, Simplex

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Array = NDArray[np.float64]
Classes = NDArray[np.int64]

#: Training points, and points of the test.
TRAINED, TESTED = 100, 2000
WIDTHS = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0)
#: Times of Equation 7, exp(-arccos^2 / t): four of ours.
TIMES = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0)
STRENGTHS = (1.0, 10.0, 100.0, 1000.0)
COLORS = ("#0072B2", "#D55E00")
#: Standard deviations at which boundaries are measured.
SCALES = (0.25, 0.5, 1.0, 1.8)


@dataclass(frozen=True)
class Family:
    """A family of distributions with a task on it."""

    name: str
    geometry: str
    kernels: dict[str, list[Kernel]]

    def draw(self, size: int, rng: np.random.Generator) -> tuple[Array, Classes]:
        """Parameters of distributions, and their classes."""
        y = np.arange(size) % 2
        if self.geometry == "simplex":
            models = np.array([[4.0, 4.0, 4.0], [0.7, 0.7, 0.7]])
            return np.array([rng.dirichlet(models[c]) for c in y]), y
        scales = np.exp(rng.uniform(math.log(0.2), math.log(2.0), size=size))
        # In units of its standard deviation a mean is near zero, or far from it.
        far = np.where(y == 0, rng.uniform(0.0, 0.9, size=size), rng.uniform(1.1, 4.0, size=size))
        return np.column_stack([rng.choice([-1, 1], size=size) * far * scales, scales]), y


TRINOMIAL = Family(
    "trinomial",
    "simplex",
    {
        "Gaussian": [Gaussian(length_scale=width) for width in WIDTHS],
        "Equation 7": [Parametrix(Simplex(), t=time / 4) for time in TIMES],
        "exact heat": [Heat(Simplex(), t=time / 4) for time in TIMES],
    },
)
NORMAL = Family(
    "normal",
    "half-plane",
    {
        "Gaussian": [Gaussian(length_scale=width) for width in WIDTHS],
        "hyperbolic heat": [Heat(NormalFamily(), t=time) for time in TIMES],
    },
)


def fitted(kernels: list[Kernel], X: Array, y: Classes, seed: int) -> KernelSearchCV:
    """The machine with the best parameters in 5-fold cross-validation."""
    folds = StratifiedKFold(5, shuffle=True, random_state=seed)
    return KernelSearchCV(kernels, param_grid={"C": STRENGTHS}, cv=folds).fit(X, y)


def run(context: Context) -> Result:
    """Figure 1 of the paper, and measurements of what it illustrates."""
    rng = np.random.default_rng(context.seed)
    tested = TESTED // 10 if context.quick else TESTED
    machines: dict[tuple[str, str], KernelSearchCV] = {}
    samples: dict[str, tuple[Array, Classes]] = {}
    rows: list[list[Any]] = []
    for family in (TRINOMIAL, NORMAL):
        X, y = samples[family.name] = family.draw(TRAINED, rng)
        others, classes = family.draw(tested, rng)
        for name, kernels in family.kernels.items():
            machine = machines[family.name, name] = fitted(kernels, X, y, context.seed)
            error = 100 * (1 - machine.score(others, classes))
            rows.append([family.name, name, str(machine.best_params_["kernel"]), float(error)])
    edges, scales = near_the_edge(), at_scales()
    widths: list[list[Any]] = [
        [name, *(half_width(machines["normal", name], scale) for scale in SCALES)]
        for name in NORMAL.kernels
    ]
    tables = [
        Table(
            "Machines of the figure", ["family", "kernel", "chosen", "test error in %"], rows,
            f"Trained on {TRAINED} points, parameters by 5-fold cross-validation, tested on {tested}.",
        ),
        Table(
            "Trinomial: what a step does", ["least share", "Gaussian", "Equation 7"], edges,
            "1 - k(x, y) for x = (a, (1 - a)/2, (1 - a)/2) and a step of 0.005 from the edge, over that "
            "at the centre, a = 1/3.",
        ),
        Table(
            "Normal: what a difference of means does", ["s", "Gaussian", "hyperbolic heat"], scales,
            "k(x, y) of N(0, s²) and N(0.5, s²).  Length scale 1, time 0.5.",
        ),
        Table(
            "Normal: where the boundary is", ["kernel", *(f"s = {scale:g}" for scale in SCALES)], widths,
            "The mean at which the decision changes, from 0 on.  The classes meet at a mean of s.",
        ),
    ]  # fmt: skip
    figure = Figure(figsize=(9, 8), layout="constrained")
    draw(figure, machines, samples)
    return Result(tables, claims(edges, scales, widths), {"figure-1": figure})


def near_the_edge() -> list[list[float]]:
    """Losses of similarity by a step, at several distances from an edge of the triangle."""
    shares = np.array([1 / 3, 0.1, 0.03, 0.01])
    rows = np.column_stack([shares, (1 - shares) / 2, (1 - shares) / 2])
    moved = rows + 0.005 * np.array([1.0, -0.5, -0.5])
    found = [shares]
    for kernel in (Gaussian(length_scale=0.2), Parametrix(Simplex(), t=0.1 / 4)):
        losses = 1 - np.array([kernel(x[None], y[None])[0, 0] for x, y in zip(rows, moved, strict=True)])
        found.append(losses / losses[0])
    return np.column_stack(found).tolist()


def at_scales() -> list[list[float]]:
    """Similarities of normal distributions whose means differ, by their standard deviation."""
    found = []
    for scale in (2.0, 1.0, 0.5, 0.25):
        x, y = np.array([[0.0, scale]]), np.array([[0.5, scale]])
        kernels = Gaussian(length_scale=1.0), Heat(NormalFamily(), t=0.5)
        found.append([scale, *(float(kernel(x, y)[0, 0]) for kernel in kernels)])
    return found


def half_width(machine: KernelSearchCV, scale: float) -> float:
    """The least mean at which the decision changes, at a standard deviation."""
    means = np.linspace(0, 5, 2001)
    values = machine.decision_function(np.column_stack([means, np.full(means.size, scale)]))
    changed = np.flatnonzero(np.sign(values) != np.sign(values[0]))
    return float(means[changed[0] if changed.size else -1])


def claims(edges: list[list[float]], scales: list[list[float]], widths: list[list[Any]]) -> list[Claim]:
    """What the paper says of its figure."""
    flat, curved = (row[1] / row[-1] for row in widths)
    return [
        Claim(
            "The metric places more emphasis on points near the boundary of the simplex: at a share of "
            f"{edges[-1][0]:g} a step costs {edges[-1][2]:.0f} times as much similarity as at the "
            f"centre, and {edges[-1][1]:.1f} times with the Gaussian kernel.",
            edges[-1][2] > 2 > edges[-1][1],
        ),
        Claim(
            "As the variance decreases the mean is known with increasing certainty: from s = "
            f"{scales[0][0]:g} to {scales[-1][0]:g} the similarity of two normals whose means differ by "
            f"0.5 falls from {scales[0][2]:.2f} to {scales[-1][2]:.2f}; with the Gaussian kernel it "
            f"stays at {scales[0][1]:.2f}.",
            scales[-1][2] < 0.5 * scales[0][2] and scales[-1][1] == scales[0][1],
        ),
        Claim(
            "The boundary of the diffusion kernel follows it: where classes meet at a mean of s, the "
            f"boundary at s = {SCALES[0]:g} is at {curved:.2f} of its mean at s = {SCALES[-1]:g} "
            f"(Gaussian kernel: {flat:.2f}; right: {SCALES[0] / SCALES[-1]:.2f}).",
            abs(curved - SCALES[0] / SCALES[-1]) < abs(flat - SCALES[0] / SCALES[-1]),
        ),
    ]


def draw(
    figure: Figure,
    machines: dict[tuple[str, str], KernelSearchCV],
    samples: dict[str, tuple[Array, Classes]],
) -> None:
    """Draw the four panels of the paper; the exact kernel's boundary is dotted."""
    panels = figure.subplots(2, 2)
    for ax, name in zip(panels[0], ("Gaussian", "Equation 7"), strict=True):
        draw_triangle(ax, machines["trinomial", name], samples["trinomial"])
        ax.set_title(f"trinomial: {name}")
    draw_triangle(panels[0, 1], machines["trinomial", "exact heat"], style="dotted", color="0.4")
    for ax, name in zip(panels[1], ("Gaussian", "hyperbolic heat"), strict=True):
        draw_half_plane(ax, machines["normal", name], *samples["normal"])
        ax.set_title(f"normal: {name}")


def draw_triangle(
    ax: Axes,
    machine: KernelSearchCV,
    points: tuple[Array, Classes] | None = None,
    style: str = "solid",
    color: str = "black",
) -> None:
    """A boundary on the simplex, drawn as a triangle."""
    corners = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, math.sqrt(3) / 2]])
    steps = np.linspace(0.001, 0.999, 120)
    first, second = (part.ravel() for part in np.meshgrid(steps, steps))
    inside = first + second < 0.999
    rows = np.column_stack([first, second, 1 - first - second])[inside]
    places = rows @ corners
    values = machine.decision_function(rows)
    ax.tricontour(places[:, 0], places[:, 1], values, [0.0], colors=color, linestyles=style)
    ax.plot(*np.vstack([corners, corners[:1]]).T, color="0.5", lw=1)
    if points is not None:
        X, y = points
        for kind, shade in enumerate(COLORS):
            ax.plot(*(X[y == kind] @ corners).T, "o", ms=4, color=shade)
    ax.set_aspect("equal")
    ax.set_axis_off()


def draw_half_plane(ax: Axes, machine: KernelSearchCV, X: Array, y: Classes) -> None:
    """A boundary on the half-plane of means and standard deviations."""
    means, scales = np.meshgrid(np.linspace(-5, 5, 160), np.linspace(0.05, 2.5, 120))
    values = machine.decision_function(np.column_stack([means.ravel(), scales.ravel()]))
    ax.contour(means, scales, values.reshape(means.shape), [0.0], colors="black")
    for kind, shade in enumerate(COLORS):
        ax.plot(*X[y == kind].T, "o", ms=4, color=shade)
    ax.set(xlabel="mean", ylabel="standard deviation", ylim=(0, 2.5), xlim=(-5, 5))
    ax.spines[["top", "right"]].set_visible(False)


EXPERIMENT = Experiment(
    name="decision-boundaries",
    title="Decision boundaries on two families",
    source='J. Lafferty, G. Lebanon, "Information diffusion kernels", NIPS 15, 2003, Figure 1.',
    differs=(
        "The paper shows four panels without numbers and says neither how its points were drawn nor "
        "which parameters it took.  Ours: points of two Dirichlet distributions, and normals whose "
        "means are nearer to zero than one standard deviation or farther; parameters by "
        "cross-validation.  The panel of the trinomial has the kernel of Equation 7, whose constant "
        "does not matter to a machine, and the boundary of the exact heat kernel, dotted.  The tables "
        "are additions."
    ),
    run=run,
)
