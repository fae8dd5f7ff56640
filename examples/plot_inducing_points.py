"""
Harmonics and inducing points
=============================

A function that is flat almost everywhere, with three narrow hills. 60 harmonics cover the whole sphere
and cannot follow it; 60 functions of a Matérn kernel move to where something happens.

:class:`~mercer.gp.SphericalGPRegressor` learns the inducing points (dots) by gradients of a lower bound
of the evidence when ``features="inducing"``. Pictures show the predicted mean.
"""

import matplotlib.pyplot as plt
import numpy as np

from mercer.gp import SphericalGPRegressor
from mercer.kernels import AxialHeat, Matern
from mercer.spaces import Sphere

HILLS = np.array([[-1.2, -0.8], [0.9, 1.0], [1.3, -1.1]])


def landscape(X):
    """Hills of width one fifth."""
    squares = ((X[:, None, :] - HILLS) ** 2).sum(axis=2)
    return np.exp(-squares / (2 * 0.2**2)).sum(axis=1)


rng = np.random.default_rng(0)
X = rng.uniform(-2, 2, size=(3000, 2))
y = landscape(X) + 0.05 * rng.normal(size=3000)

# %%
# The same number of features, fitted to the same rows.

models = {
    "harmonics": SphericalGPRegressor(AxialHeat(Sphere()), inputs="table", max_features=60),
    "inducing points": SphericalGPRegressor(
        Matern(Sphere(), nu=2.5, length_scale=0.2),
        inputs="table",
        features="inducing",
        ard=True,
        max_features=60,
    ),
}
for name, model in models.items():
    model.fit(X, y)
    print(f"{name}: bound {model.elbo_:.0f}, noise {np.sqrt(model.noise_) * y.std():.3f}")

# %%
# Inducing points are unit vectors; their last coordinate is the constant column of the table.

ticks = np.linspace(-2, 2, 161)
grid = np.stack(np.meshgrid(ticks, ticks), axis=-1).reshape(-1, 2)
inputs, points = models["inducing points"].features_.inputs, models["inducing points"].features_.points
dots = points[:, :-1] / points[:, -1:] * inputs.bias * inputs.scale + inputs.mean

figure, axes = plt.subplots(1, 3, figsize=(10.5, 3.7), sharex=True, sharey=True, layout="constrained")
pictures = {"truth": landscape(grid)}
pictures |= {f"60 {name}": model.predict(grid) for name, model in models.items()}
for axis, (name, values) in zip(axes, pictures.items(), strict=True):
    values = values.reshape(161, 161)
    picture = axis.pcolormesh(ticks, ticks, values, vmin=-0.1, vmax=1.0, cmap="viridis")
    axis.set(title=name, aspect="equal", xlim=(-2, 2), ylim=(-2, 2))
axes[2].plot(*dots.T, "o", color="white", markersize=2.5, alpha=0.8)
figure.colorbar(picture, ax=axes, shrink=0.8)
plt.show()
