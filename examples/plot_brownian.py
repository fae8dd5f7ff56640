"""
A Brownian motion of distributions
==================================

The triangle holds all distributions over three words. A diffusion that starts at the dot spreads over it
in the Fisher metric, in which small differences of rare words count. What happens where a word is never
used is not settled by the metric.

**Left: no boundary.** The heat kernel of the whole sphere, seen from its positive part. A walk may leave
the triangle and come back; what is outside is missing from the picture.

**Middle: reflecting.** The walk turns back at the edges. The whole mass stays, and gathers along the
edges that it has reached.

**Right: absorbing.** A walk that loses a word has lost it forever. The density vanishes at the edges,
and the mass falls.
"""

import matplotlib.pyplot as plt
import numpy as np

from mercer.kernels import Heat
from mercer.spaces import Simplex

plt.rcParams.update({"font.size": 11})

rng = np.random.default_rng(3)
start = np.array([0.62, 0.26, 0.12])
corners = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, np.sqrt(0.75)]])


def triangle(steps):
    """Distributions on a grid that stays off the edges."""
    i, j = np.meshgrid(np.arange(steps), np.arange(steps), indexing="ij")
    inside = i + j < steps
    first, second = (i[inside] + 1 / 3) / steps, (j[inside] + 1 / 3) / steps
    return np.column_stack([first, second, 1 - first - second])


def equal_areas(steps):
    """Distributions that stand for equal areas of the octant, pi / 2 in all (Archimedes)."""
    middle = (np.arange(steps) + 0.5) / steps
    height, turn = (part.ravel() for part in np.meshgrid(middle, middle * np.pi / 2))
    across = 1 - height**2
    return np.column_stack([across * np.cos(turn) ** 2, across * np.sin(turn) ** 2, height**2])


def walk(time, steps):
    """A Brownian motion on the sphere in small steps; absolute values fold back what leaves."""
    path = [np.sqrt(start)]
    for _ in range(steps):
        point = np.abs(path[-1] + rng.normal(scale=np.sqrt(2 * time / steps), size=3))
        path.append(point / np.linalg.norm(point))
    return np.square(path)


# %%
# Densities with respect to the area of the Fisher metric, after two times. The number beside each
# triangle is the mass that is left in it. The line is one walk.

rows, cells = triangle(160), equal_areas(60)
x, y = (rows @ corners).T
path = walk(0.12, 3000)

fig, axes = plt.subplots(2, 3, figsize=(11, 6.6), layout="constrained")
for line, t in zip(axes, (0.03, 0.12), strict=True):
    for ax, boundary in zip(line, (None, "reflecting", "absorbing"), strict=True):
        heat = Heat(Simplex(boundary=boundary), t=t, normalized=False)
        density, mass = heat(start[None], rows)[0], heat(start[None], cells).mean() * np.pi / 2
        picture = ax.tripcolor(x, y, density, shading="gouraud", cmap="magma_r", vmin=0)
        ax.plot(*corners[[0, 1, 2, 0]].T, color="black", lw=1)
        ax.plot(*(start @ corners), "o", color="white", ms=4, mec="black")
        if boundary == "reflecting":
            shown = path[: int(len(path) * t / 0.12)] @ corners
            ax.plot(*shown.T, color="deepskyblue", lw=0.5)
        ax.text(0.0, 0.75, f"t = {t}\nmass {mass:.2f}")
        ax.set_aspect("equal")
        ax.axis("off")
        fig.colorbar(picture, ax=ax, shrink=0.6)
for ax, title in zip(axes[0], ("no boundary", "reflecting", "absorbing"), strict=True):
    ax.set_title(title)
plt.show()

# %%
# Short times hardly know of the boundary, unless the start is near it. Long times know it best: without
# a boundary the mass spreads over the eight octants of the sphere, with a reflecting one it becomes
# uniform, and with an absorbing one it takes the shape of :math:`\sqrt{p_1 p_2 p_3}` and decays like
# :math:`e^{-12 t}`.
