"""
Heat on the sphere
==================

A drop of heat at one point of a sphere spreads as many random walkers do that start there. This is the
first figure of Zhao and Song, *Exact heat kernel on a hypersphere and its applications in kernel SVM*
(2018), made anew.

Upper row: the exact heat kernel on the 2-sphere, divided by its value at the source (the cross), after
the times ``t_star = 0.5, 1, 2`` in units of ``log(3) / 3``, with three random walks of that duration.
Walkers take steps of normal length in the tangent plane and are put back on the sphere. Paths on the far
side are dim.

Middle row: where 20 000 walkers are at the end, by their angle from the source, and the density that the
kernel says: ``G(theta; t)`` times the length of the circle at theta.

Lower row: the exact kernel in 3, 100 and 200 dimensions at the three values of ``t_star``, and the
parametrix ``exp(-theta^2 / 4t)`` at t = 0.5, 1, 2, which is the same in every dimension. The exact
kernel is flat at the antipode, as a smooth function on the sphere must be. The parametrix has a kink
there.
"""

import math

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import ListedColormap

from mercer.kernels import Heat, Parametrix
from mercer.spaces import Sphere

plt.rcParams.update({"font.size": 11, "axes.spines.top": False, "axes.spines.right": False})
rng = np.random.default_rng(4)
T_STARS, COLORS = (0.5, 1.0, 2.0), ("#0072B2", "#009E73", "#D55E00")
GLOW = ListedColormap(plt.colormaps["inferno"](np.linspace(0, 0.8, 256)))  # white must show on it
SOURCE = np.array([math.sin(0.7), 0.0, math.cos(0.7)])
VIEW = np.array([1.0, 0.12, 0.35]) / np.linalg.norm([1.0, 0.12, 0.35])
RIGHT = np.cross([0, 0, 1.0], VIEW) / np.linalg.norm(np.cross([0, 0, 1.0], VIEW))
UP = np.cross(VIEW, RIGHT)


def walk(count, t, steps):
    """Paths of Brownian walkers from the source, of shape (steps + 1, count, 3)."""
    x = np.tile(SOURCE, (count, 1))
    paths = [x]
    for _ in range(steps):
        move = rng.normal(scale=math.sqrt(2 * t / steps), size=x.shape)
        x = x + move - (move * x).sum(axis=1, keepdims=True) * x
        x = x / np.linalg.norm(x, axis=1, keepdims=True)
        paths.append(x)
    return np.stack(paths)


def draw_globe(ax, values):
    """Orthographic view of a function on the sphere."""
    side = np.linspace(-1, 1, 401)
    a, b = np.meshgrid(side, side)
    depth = 1 - a**2 - b**2
    inside = depth > 0
    height = np.sqrt(np.where(inside, depth, 0.0))
    points = a[..., None] * RIGHT + b[..., None] * UP + height[..., None] * VIEW
    image = np.full(a.shape, np.nan)
    image[inside] = values(points[inside])
    shown = ax.imshow(
        image,
        extent=(-1, 1, -1, 1),
        origin="lower",
        cmap=GLOW,
        vmin=0,
        vmax=1,
        interpolation="bilinear",
    )
    ax.add_patch(plt.Circle((0, 0), 1, fill=False, color="0.3", lw=1))
    ax.set(xlim=(-1.05, 1.05), ylim=(-1.05, 1.05))
    ax.axis("off")
    return shown


def draw_path(ax, path):
    """A path, dim where it is behind."""
    flat = np.stack([path @ RIGHT, path @ UP], axis=1)
    behind = path @ VIEW < 0
    for hidden, alpha in ((True, 0.2), (False, 0.95)):
        part = np.where((behind == hidden)[:, None], flat, np.nan)
        ax.plot(*part.T, color="white", lw=0.7, alpha=alpha)
    if not behind[-1]:
        ax.plot(*flat[-1], "o", color="white", ms=3.5)


def profile(kernel, n, theta):
    """Values of a kernel between e_1 and the point at angle theta from it."""
    points = np.zeros((theta.size, n))
    points[:, 0], points[:, 1] = np.cos(theta), np.sin(theta)
    return kernel(np.eye(1, n), points)[0]


fig, axes = plt.subplots(3, 3, figsize=(11, 10.5), layout="constrained", height_ratios=(1.35, 0.8, 1))
theta = np.linspace(0, math.pi, 300)

for ax, middle, t_star in zip(axes[0], axes[1], T_STARS, strict=True):
    t = t_star * math.log(3) / 3
    kernel = Heat(Sphere(), t=t)
    shown = draw_globe(ax, lambda points, kernel=kernel: kernel(SOURCE[None], points)[0])
    for path in walk(3, t, 400).swapaxes(0, 1):
        draw_path(ax, path)
    ax.plot(SOURCE @ RIGHT, SOURCE @ UP, "x", color="black", ms=7, mew=2)
    ax.set_title(f"t* = {t_star:g}")

    ends = np.arccos(np.clip(walk(20_000, t, 200)[-1] @ SOURCE, -1, 1))
    density = 2 * math.pi * np.sin(theta) * profile(Heat(Sphere(), t=t, normalized=False), 3, theta)
    bins = np.radians(np.arange(0, 181, 6))
    middle.hist(ends, bins=bins, density=True, color="0.82", label="20 000 walkers")
    middle.plot(theta, density, color="black", lw=2, label="exact heat kernel")
    middle.set(xlim=(0, math.pi), ylim=(0, 1.15), xlabel="angle from the source")
    middle.set_xticks([0, math.pi / 2, math.pi], ["0", "π/2", "π"])
    observed, _ = np.histogram(ends, bins)
    edges = np.interp(bins, theta, np.append(0, np.cumsum((density[1:] + density[:-1]) / 2 * theta[1])))
    expected = np.diff(edges) * ends.size
    many = expected > 5
    chi = ((observed - expected)[many] ** 2 / expected[many]).sum()
    print(f"t* = {t_star}: chi-squared of the walkers {chi:.0f} in {many.sum()} bins")
axes[1, 0].set_ylabel("density")
axes[1, 0].legend(frameon=False, fontsize=9)
fig.colorbar(shown, ax=axes[0], shrink=0.7, label="kernel / kernel at the source")

for ax, n in zip(axes[2], (3, 100, 200), strict=True):
    for t_star, color in zip(T_STARS, COLORS, strict=True):
        exact = profile(Heat(Sphere(), t_star=t_star), n, theta)
        ax.plot(theta, exact, color=color, lw=2.2, label=f"exact, t* = {t_star:g}")
        flat = profile(Parametrix(Sphere(), t=t_star), n, theta)
        ax.plot(theta, flat, "--", color=color, lw=1.5, label=f"parametrix, t = {t_star:g}")
    ax.set(xlim=(0, math.pi), ylim=(0, 1.03), xlabel="geodesic distance", title=f"n = {n}")
    ax.set_xticks([0, math.pi / 2, math.pi], ["0", "π/2", "π"])
axes[2, 0].set_ylabel("kernel / kernel at 0")
handles, labels = axes[2, 0].get_legend_handles_labels()
fig.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False)
plt.show()
