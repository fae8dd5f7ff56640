"""
Heat on a graph
===============

Two rooms joined by a narrow door make a graph: a node per place to stand, an edge to each of its four
neighbours. Heat that starts at one place knows the walls: places close by through the wall are far by
way of the door, and the heat kernel says so. The straight-line distance does not.

The second figure uses the same kernel for a Gaussian process that has seen six places only. With the
graph's kernel what is learnt in one room stays there; the Gaussian kernel of the plane carries it
through the wall.
"""

import matplotlib.pyplot as plt
import networkx as nx
import numpy as np
from sklearn.gaussian_process import GaussianProcessRegressor

from mercer.kernels import Gaussian, Heat
from mercer.spaces import Graph

plt.rcParams.update({"font.size": 11})

width, height = 31, 21
wall, door = 15, range(9, 12)
floor = nx.grid_2d_graph(width, height)
floor.remove_nodes_from([(wall, y) for y in range(height) if y not in door])
places = list(floor)
graph = Graph(floor)


def picture(ax, values, title, **options):
    """Draw one value per place."""
    image = np.full((height, width), np.nan)
    for (x, y), value in zip(places, values, strict=True):
        image[y, x] = value
    ax.set_facecolor("0.25")
    ax.imshow(image, origin="lower", **options)
    ax.set(title=title, xticks=[], yticks=[])


fig, axes = plt.subplots(1, 3, figsize=(11, 2.8), layout="constrained")
source = (12, 17)
for ax, t in zip(axes, (3.0, 30.0, 300.0), strict=True):
    heat = Heat(graph, t=t)([source], places)[0]
    picture(ax, heat, f"heat kernel from one place, t = {t:g}", cmap="magma", vmin=0, vmax=1)
    ax.plot(*source, "o", color="deepskyblue")

# %%
# Six measurements: warm on the left of the wall, cold on the right, none near the wall itself.

seen = [(3, 3), (4, 17), (10, 10), (26, 4), (27, 16), (22, 10)]
temperature = np.array([1.0, 1.0, 1.0, -1.0, -1.0, -1.0])
as_rows = np.array(places, dtype=float)

by_graph = GaussianProcessRegressor(Heat(graph, t=60.0), alpha=1e-2, optimizer=None)
by_graph.fit(seen, temperature)
by_plane = GaussianProcessRegressor(Gaussian(length_scale=np.sqrt(2 * 60.0)), alpha=1e-2, optimizer=None)
by_plane.fit(np.array(seen, dtype=float), temperature)

options = {"cmap": "coolwarm", "vmin": -1, "vmax": 1}
fig, axes = plt.subplots(1, 3, figsize=(11, 2.8), layout="constrained")
learnt = by_graph.predict(places), by_plane.predict(as_rows)
picture(axes[0], learnt[0], "learnt with heat on the graph", **options)
picture(axes[1], learnt[1], "learnt with a Gaussian of the plane", **options)
for ax in axes[:2]:
    ax.scatter(*np.transpose(seen), c=temperature, edgecolors="black", **options)
for values, label in zip(learnt, ("heat on the graph", "Gaussian of the plane"), strict=True):
    row = {x: value for (x, y), value in zip(places, values, strict=True) if y == 18}
    axes[2].plot(list(row), list(row.values()), "o-", ms=3, label=label)
axes[2].axvline(wall, color="0.25", lw=6)
axes[2].set(title="along the row y = 18", xlabel="x", ylabel="prediction")
axes[2].legend(frameon=False, fontsize=9, loc="upper right")
plt.show()
