"""
A field on the globe
====================

Temperatures at 1500 places on a sphere, measured with noise and none of them in a wide stretch of ocean.
:class:`~mercer.gp.SphericalGPRegressor` with a Matérn kernel learns the field from sums over the places,
collected in one pass, and says where it does not know: the standard deviation rises over the ocean.

The kernel's length scale and the noise are found by maximising a lower bound of the evidence. Dots are
the measured places.
"""

import matplotlib.pyplot as plt
import numpy as np

from mercer.gp import SphericalGPRegressor
from mercer.kernels import Matern
from mercer.spaces import Sphere

plt.rcParams.update({"font.size": 11})


def temperature(longitude, latitude):
    """Warm at the equator, with waves along the parallels."""
    a, b = np.radians(longitude), np.radians(latitude)
    waves = 6 * np.sin(3 * a + 1) * np.cos(b) ** 2 + 4 * np.cos(2 * a) * np.sin(2 * b)
    return 28 * np.cos(b) ** 2 - 10 + waves


rng = np.random.default_rng(0)
longitude = rng.uniform(-180, 180, size=1900)
latitude = np.degrees(np.arcsin(rng.uniform(-1, 1, size=1900)))
ocean = (np.abs(longitude + 60) < 35) & (np.abs(latitude) < 50)
longitude, latitude = longitude[~ocean][:1500], latitude[~ocean][:1500]
measured = temperature(longitude, latitude) + 2.0 * rng.normal(size=len(longitude))

kernel = Matern(Sphere(coordinates="latlon"), nu=2.5, length_scale=0.5)
model = SphericalGPRegressor(kernel, max_features=400)
model.fit(np.column_stack([latitude, longitude]), measured)
noise = np.sqrt(model.noise_) * measured.std()
print(model.kernel_, f"noise {noise:.2f}, levels {model.features_.harmonics.level_numbers}")

# %%
# The map, and its uncertainty without the noise of a single measurement.

east, north = np.meshgrid(np.linspace(-180, 180, 181), np.linspace(-90, 90, 91))
grid = np.column_stack([north.ravel(), east.ravel()])
mean, std = (a.reshape(east.shape) for a in model.predict(grid, return_std=True, include_noise=False))
truth = temperature(east, north)

fig, axes = plt.subplots(
    3, 1, figsize=(8, 12), layout="constrained", subplot_kw={"projection": "mollweide"}
)
parts = [
    (truth, "true field", "coolwarm", (-20, 30)),
    (mean, "posterior mean", "coolwarm", (-20, 30)),
    (std, "posterior standard deviation", "viridis", (0, std.max())),
]
for ax, (values, title, colours, limits) in zip(axes, parts, strict=True):
    image = ax.pcolormesh(
        np.radians(east), np.radians(north), values, cmap=colours, vmin=limits[0], vmax=limits[1],
        shading="gouraud",
    )  # fmt: skip
    ax.set_title(title)
    ax.set_xticklabels([])
    ax.grid(alpha=0.3)
    fig.colorbar(image, ax=ax, shrink=0.7, label="degrees")
axes[2].plot(np.radians(longitude), np.radians(latitude), ".", color="white", ms=1.5)
plt.show()

# %%
# Errors and predicted errors, with and without data nearby. The field is smoother across the ocean
# than the model had to expect.

inside = (np.abs(east + 60) < 35) & (np.abs(north) < 50)
for name, part in (("measured regions", ~inside), ("ocean", inside)):
    error = np.abs(mean - truth)[part]
    covered = np.mean(error < 1.96 * std[part])
    print(f"{name}: error {error.mean():.2f}, stated {std[part].mean():.2f}, covered {covered:.2f}")
