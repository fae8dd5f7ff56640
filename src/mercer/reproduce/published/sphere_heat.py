"""The heat kernel on spheres: maps, random walks and profiles."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib import colormaps
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Circle
from numpy.typing import NDArray
from scipy.stats import chi2

from mercer.kernels import Heat, Kernel, Parametrix
from mercer.reproduce.drawing import great_circle
from mercer.reproduce.experiment import Claim, Context, Experiment, Result, Table
from mercer.reproduce.protocol import SOURCE as PAPER
from mercer.spaces import Sphere

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Array = NDArray[np.float64]

T_STARS, COLORS = (0.5, 1.0, 2.0), ("#0072B2", "#009E73", "#D55E00")
DIMENSIONS = (3, 100, 200)
WALKERS = 20_000
SOURCE = np.array([math.sin(0.7), 0.0, math.cos(0.7)])
VIEW = np.array([1.0, 0.12, 0.35]) / np.linalg.norm([1.0, 0.12, 0.35])
RIGHT = np.cross([0, 0, 1.0], VIEW) / np.linalg.norm(np.cross([0, 0, 1.0], VIEW))
UP = np.cross(VIEW, RIGHT)
#: Bins of the angle from the source.
BINS = np.radians(np.arange(0, 181, 6))


def walk(count: int, t: float, steps: int, rng: np.random.Generator) -> Array:
    """Paths of Brownian walkers from the source, of shape (steps + 1, count, 3)."""
    x = np.tile(SOURCE, (count, 1))
    paths = [x]
    for _ in range(steps):
        move = rng.normal(scale=math.sqrt(2 * t / steps), size=x.shape)
        x = x + move - (move * x).sum(axis=1, keepdims=True) * x
        x = x / np.linalg.norm(x, axis=1, keepdims=True)
        paths.append(x)
    return np.stack(paths)


def profile(kernel: Kernel, n: int, theta: Array) -> Array:
    """Values of a kernel between two points of S^(n-1) at the angles theta."""
    return np.asarray(kernel(np.eye(1, n), great_circle(n, theta))[0])


def density(t: float, theta: Array) -> Array:
    """Density of the angle of walkers on the 2-sphere, by the exact kernel."""
    return 2 * math.pi * np.sin(theta) * profile(Heat(Sphere(), t=t, normalized=False), 3, theta)


def chi_squared(ends: Array, t: float) -> tuple[float, int]:
    """Chi-squared of the walkers' angles against the kernel, and its degrees of freedom."""
    theta = np.linspace(0, math.pi, 3001)
    values = density(t, theta)
    mass = np.append(0, np.cumsum((values[1:] + values[:-1]) / 2 * theta[1]))
    expected = np.diff(np.interp(BINS, theta, mass)) * ends.size
    many = expected > 5
    observed = np.histogram(ends, BINS)[0]
    return float(((observed - expected)[many] ** 2 / expected[many]).sum()), int(many.sum()) - 1


def run(context: Context) -> Result:
    """Figure 1 of the paper."""
    figure = Figure(figsize=(11, 10.5))
    walks = draw(figure, seed=4 + context.seed, steps=50 if context.quick else 200)
    walkers = Table(
        "Random walks on the 2-sphere", ["t*", "chi-squared", "degrees of freedom", "p"],
        [[t_star, chi, free, float(chi2.sf(chi, free))] for t_star, (chi, free) in walks.items()],
        f"{WALKERS} walkers, angles from the source in bins of 6 degrees, against the exact kernel.",
    )  # fmt: skip
    ends: list[list[Any]] = []
    for n in DIMENSIONS:
        for t in T_STARS:
            exact, flat = Heat(Sphere(), t_star=t), Parametrix(Sphere(), t=t)
            values = [profile(k, n, np.array([math.pi]))[0] for k in (exact, flat)]
            ends.append([n, t, values[0], _slope(exact, n), values[1], _slope(flat, n)])
    profiles = Table(
        "At the antipode", ["n", "time", "exact", "its slope", "parametrix", "its slope"], ends,
        "Time: t* of the exact kernel, whose t is t* log(n)/n, and t of the parametrix, as in the "
        "paper's figure; so the two kernels of a row are not at the same t.  Kernels divided by their "
        "value at angle 0; slopes by a one-sided difference over 1e-4.",
    )  # fmt: skip
    steepest = max(abs(row[3]) for row in ends)
    kink = min(abs(row[5]) for row in ends)
    spread = [profile(Heat(Sphere()), n, np.array([math.pi / 2]))[0] for n in DIMENSIONS]
    claims = [
        Claim(f"The exact kernel is flat at the antipode (slope {steepest:.1g}).", steepest < 1e-3),
        Claim(f"The parametrix has a kink there (least slope {kink:.2g}).", kink > 1e-3),
        Claim(
            "At t* = 1 the profile changes little from n = 100 to n = 200: at a right angle it is "
            f"{spread[1]:.2f} and {spread[2]:.2f}.", bool(np.ptp(spread[1:]) < 0.05),
        ),
        Claim(
            f"It changes little from n = 3 on, where it is {spread[0]:.2f}.",
            bool(np.ptp(spread) < 0.05),
        ),
    ]  # fmt: skip
    return Result([walkers, profiles], claims, {"figure-1": figure})


def _slope(kernel: Kernel, n: int, step: float = 1e-4) -> float:
    before, end = profile(kernel, n, np.array([math.pi - step, math.pi]))
    return float((end - before) / step)


def draw(figure: Any, seed: int = 4, steps: int = 200) -> dict[float, tuple[float, int]]:
    """Draw maps, walkers and profiles; return the chi-squared of the walkers by t*."""
    rng = np.random.default_rng(seed)
    figure.set_layout_engine("constrained")
    axes = figure.subplots(3, 3, height_ratios=(1.35, 0.8, 1))
    walks = {}
    shown: Any = None
    for top, middle, t_star in zip(axes[0], axes[1], T_STARS, strict=True):
        t = t_star * math.log(3) / 3
        shown = _draw_globe(top, Heat(Sphere(), t=t))
        for path in walk(3, t, 400, rng).swapaxes(0, 1):
            _draw_path(top, path)
        top.plot(SOURCE @ RIGHT, SOURCE @ UP, "x", color="black", ms=7, mew=2)
        top.set_title(f"t* = {t_star:g}")
        ends = np.arccos(np.clip(walk(WALKERS, t, steps, rng)[-1] @ SOURCE, -1, 1))
        walks[t_star] = chi_squared(ends, t)
        _draw_walkers(middle, ends, t)
    axes[1, 0].set_ylabel("density")
    axes[1, 0].legend(frameon=False, fontsize=9)
    figure.colorbar(shown, ax=axes[0], shrink=0.7, label="kernel / kernel at the source")
    for ax, n in zip(axes[2], DIMENSIONS, strict=True):
        _draw_profiles(ax, n)
    axes[2, 0].set_ylabel("kernel / kernel at 0")
    handles, labels = axes[2, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False)
    return walks


def _draw_globe(ax: Axes, kernel: Kernel) -> Any:
    """Orthographic view of the kernel around the source."""
    side = np.linspace(-1, 1, 401)
    a, b = np.meshgrid(side, side)
    depth = 1 - a**2 - b**2
    inside = depth > 0
    height = np.sqrt(np.where(inside, depth, 0.0))
    points = a[..., None] * RIGHT + b[..., None] * UP + height[..., None] * VIEW
    image = np.full(a.shape, np.nan)
    image[inside] = kernel(SOURCE[None], points[inside])[0]
    glow = ListedColormap(colormaps["inferno"](np.linspace(0, 0.8, 256)))  # white must be visible
    shown = ax.imshow(
        image, extent=(-1, 1, -1, 1), origin="lower", cmap=glow, vmin=0, vmax=1,
        interpolation="bilinear",
    )  # fmt: skip
    ax.add_patch(Circle((0, 0), 1, fill=False, color="0.3", lw=1))
    ax.set(xlim=(-1.05, 1.05), ylim=(-1.05, 1.05))
    ax.axis("off")
    return shown


def _draw_path(ax: Axes, path: Array) -> None:
    """A path, dim where it is on the far side."""
    flat = np.stack([path @ RIGHT, path @ UP], axis=1)
    behind = path @ VIEW < 0
    for hidden, alpha in ((True, 0.2), (False, 0.95)):
        part = np.where((behind == hidden)[:, None], flat, np.nan)
        ax.plot(*part.T, color="white", lw=0.7, alpha=alpha)
    if not behind[-1]:
        ax.plot(*flat[-1], "o", color="white", ms=3.5)


def _draw_walkers(ax: Axes, ends: Array, t: float) -> None:
    """Histogram of the walkers' angles, and the density from the kernel."""
    theta = np.linspace(0, math.pi, 300)
    ax.hist(ends, bins=BINS.tolist(), density=True, color="0.82", label="20 000 walkers")
    ax.plot(theta, density(t, theta), color="black", lw=2, label="exact heat kernel")
    ax.set(xlim=(0, math.pi), ylim=(0, 1.15), xlabel="angle from the source")
    _plain_angles(ax)


def _draw_profiles(ax: Axes, n: int) -> None:
    """The exact kernel and the parametrix against the angle, for one dimension."""
    theta = np.linspace(0, math.pi, 300)
    for t_star, color in zip(T_STARS, COLORS, strict=True):
        exact = profile(Heat(Sphere(), t_star=t_star), n, theta)
        ax.plot(theta, exact, color=color, lw=2.2, label=f"exact, t* = {t_star:g}")
        flat = profile(Parametrix(Sphere(), t=t_star), n, theta)
        ax.plot(theta, flat, "--", color=color, lw=1.5, label=f"parametrix, t = {t_star:g}")
    ax.set(xlim=(0, math.pi), ylim=(0, 1.03), xlabel="geodesic distance", title=f"n = {n}")
    _plain_angles(ax)


def _plain_angles(ax: Axes) -> None:
    ax.set_xticks([0, math.pi / 2, math.pi], ["0", "π/2", "π"])
    ax.spines[["top", "right"]].set_visible(False)


EXPERIMENT = Experiment(
    name="sphere-heat",
    title="Heat on spheres: maps, walks, profiles",
    source=f"{PAPER}, Figure 1.",
    differs=(
        "The figure of the paper has no numbers.  Ours adds the middle row, 20 000 walkers against the "
        "kernel's density.  The paper's random walks are not described; ours take steps of normal "
        "length in the tangent plane and are put back on the sphere."
    ),
    run=run,
)
