"""
Gaussian process on the globe
=============================

A smooth function on the 2-sphere is measured at 120 places, with noise and with no data in one
quarter of the globe. Scikit-learn's Gaussian process, given the Matern kernel of the sphere, finds
the length scale, the amplitude and the noise by maximum likelihood.

The kernel knows that the map's left and right edges are the same meridian and that its upper edge is
one point: the mean is continuous there, and the standard deviation grows where data are far on the
sphere, not on the map.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import WhiteKernel

from mercer.kernels import Matern
from mercer.spaces import Sphere

plt.rcParams.update({"font.size": 11})


def points(longitude, latitude):
    """Unit vectors."""
    flat = np.cos(latitude)
    xyz = (flat * np.cos(longitude), flat * np.sin(longitude), np.sin(latitude))
    return np.stack(xyz, axis=-1).reshape(-1, 3)


def truth(X):
    """A smooth function of a unit vector."""
    return np.sin(3 * X[:, 0]) + X[:, 1] * X[:, 2] * 2 + np.cos(4 * X[:, 2] + X[:, 0])


rng = np.random.default_rng(1)
X = rng.normal(size=(160, 3))
X /= np.linalg.norm(X, axis=1, keepdims=True)
gap = (X[:, 0] > 0) & (X[:, 1] > 0)  # longitudes from 0 to 90 degrees
X = X[~gap][:120]
y = truth(X) + 0.1 * rng.normal(size=len(X))

kernel = 1.0 * Matern(Sphere(), nu=2.5, length_scale=1.0) + WhiteKernel(0.01)
model = GaussianProcessRegressor(kernel, normalize_y=True).fit(X, y)
print(model.kernel_.k1)
print(model.kernel_.k2)

# %%
# Mean and standard deviation on a grid, beside the function itself.

longitude = np.linspace(-np.pi, np.pi, 181)
latitude = np.linspace(-np.pi / 2, np.pi / 2, 91)
grid = points(*np.meshgrid(longitude, latitude))
mean, std = model.predict(grid, return_std=True)
shape = (latitude.size, longitude.size)
fields = [
    ("true function", truth(grid), "cividis"),
    ("posterior mean", mean, "cividis"),
    ("posterior standard deviation", std, "magma"),
]
low, high = truth(grid).min(), truth(grid).max()

fig = plt.figure(figsize=(7, 10.5), layout="constrained")
for i, (title, values, colors) in enumerate(fields):
    ax = fig.add_subplot(3, 1, i + 1, projection="mollweide")
    limits = (low, high) if i < 2 else (0, std.max())
    mesh = ax.pcolormesh(
        longitude, latitude, values.reshape(shape), cmap=colors,
        vmin=limits[0], vmax=limits[1], shading="gouraud", rasterized=True,
    )  # fmt: skip
    if i > 0:
        places = np.arctan2(X[:, 1], X[:, 0]), np.arcsin(X[:, 2])
        ax.plot(*places, "o", ms=4, mfc="white", mec="black", mew=0.7, label="measurements")
    ax.grid(alpha=0.3)
    ax.set_xticks(np.radians([-120, -60, 0, 60, 120]), labels=[])
    ax.set_yticks(np.radians([-60, -30, 0, 30, 60]))
    ax.set_title(title, fontsize=13)
    fig.colorbar(mesh, ax=ax, shrink=0.75, pad=0.03)
ax.legend(loc="upper right", bbox_to_anchor=(1.05, 0.02), frameon=False)
plt.show()
