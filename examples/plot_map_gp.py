"""
A map from a few towns
======================

Sixty towns report a temperature, with an error of half a degree. Rows are latitude and longitude in
degrees, as they stand in any table: ``Sphere(coordinates="latlon")`` takes them as places on the
globe, and the Matérn kernel falls with the length of the great circle between them. Scikit-learn's
Gaussian process finds the length scale, an angle; times the radius of the Earth it is in kilometres.

Places of the towns are real, temperatures are invented.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import WhiteKernel

from mercer.kernels import Gaussian, Matern
from mercer.spaces import EARTH_RADIUS_KM, Sphere, great_circle_km

plt.rcParams.update({"font.size": 11})

# fmt: off
towns = np.array([  # latitude, longitude
    [64.1, -21.9], [60.2, 24.9], [59.9, 10.8], [55.8, 37.6], [53.3, -6.3], [51.5, -0.1], [52.5, 13.4],
    [48.9, 2.4], [40.4, -3.7], [41.9, 12.5], [38.0, 23.7], [41.0, 29.0], [30.0, 31.2], [33.6, -7.6],
    [36.8, 3.1], [14.7, -17.4], [6.5, 3.4], [9.0, 38.7], [-1.3, 36.8], [-53.2, -70.9], [-8.8, 13.2],
    [-26.2, 28.0], [-33.9, 18.4], [-18.9, 47.5], [35.7, 51.4], [24.7, 46.7], [41.3, 69.2], [34.5, 69.2],
    [28.6, 77.2], [19.1, 72.9], [-77.8, 166.7], [23.8, 90.4], [47.9, 106.9], [55.0, 82.9], [62.0, 129.7],
    [43.1, 131.9], [39.9, 116.4], [31.2, 121.5], [22.3, 114.2], [35.7, 139.7], [14.6, 121.0],
    [13.8, 100.5], [1.3, 103.8], [-6.2, 106.8], [-12.5, 130.8], [-32.0, 115.9], [-33.9, 151.2],
    [-36.8, 174.8], [-18.1, 178.4], [21.3, -157.9], [61.2, -149.9], [49.3, -123.1], [34.1, -118.2],
    [45.5, -73.6], [25.8, -80.2], [19.4, -99.1], [4.7, -74.1], [-12.0, -77.0], [-23.6, -46.6],
    [-34.6, -58.4],
])
# fmt: on


def temperature(places):
    """Warm at the equator and in the north-east Atlantic, cold in Siberia."""
    belts = 45 * np.cos(np.radians(places[:, 0])) - 17
    gulf, siberia = great_circle_km(places, [[62.0, 0.0], [63.0, 120.0]]).T
    return belts + 9 * np.exp(-((gulf / 2500) ** 2)) - 14 * np.exp(-((siberia / 3000) ** 2))


rng = np.random.default_rng(0)
measured = temperature(towns) + 0.5 * rng.normal(size=len(towns))

globe = Sphere(coordinates="latlon")
kernel = 1.0 * Matern(globe, nu=2.5, length_scale=3000 / EARTH_RADIUS_KM) + WhiteKernel(0.01)
model = GaussianProcessRegressor(kernel, normalize_y=True).fit(towns, measured)
found = model.kernel_.k1.k2.length_scale * EARTH_RADIUS_KM
print(f"length scale {found:.0f} km")

# %%
# Mean and standard deviation on a grid. The left and right edge of the map are one meridian, and its
# upper and lower edge are one point each: colours agree there. Where no town is near, the model says so,
# as in the south Pacific.

north, east = np.meshgrid(np.linspace(-90, 90, 91), np.linspace(-180, 180, 181), indexing="ij")
grid = np.column_stack([north.ravel(), east.ravel()])
mean, std = model.predict(grid, return_std=True)
error, distance = np.abs(mean - temperature(grid)), great_circle_km(grid, towns).min(axis=1)
for name, part in (("within 1500 km of a town", distance < 1500), ("further off", distance >= 1500)):
    print(f"{name}: error {error[part].mean():.2f}, stated {std[part].mean():.2f}")


def draw(ax, values, title, colours, label):
    """One field as a map, with the towns."""
    image = ax.pcolormesh(
        east, north, values.reshape(north.shape), cmap=colours, shading="gouraud", rasterized=True
    )
    ax.plot(towns[:, 1], towns[:, 0], "o", ms=4, mfc="white", mec="black", mew=0.7)
    ax.set(xlabel="longitude (degrees)", ylabel="latitude (degrees)", title=title, aspect="equal")
    ax.set(xticks=range(-180, 181, 60), yticks=range(-90, 91, 30))
    ax.figure.colorbar(image, ax=ax, label=label, shrink=0.72)


fig, axes = plt.subplots(2, 1, figsize=(8, 8.6), layout="constrained")
draw(axes[0], mean, "posterior mean", "coolwarm", "temperature (°C)")
draw(axes[1], std, "posterior standard deviation", "viridis", "temperature (°C)")
plt.show()

# %%
# What a plane would make of it: similarity to Anchorage. In degrees Siberia is at the other end of the
# world, and a degree of longitude is as long at 61 degrees north as at the equator.

anchorage = [[61.2, -149.9]]
reach = 2500.0
flat = Gaussian(length_scale=np.degrees(reach / EARTH_RADIUS_KM))
round_ = Matern(globe, nu=2.5, length_scale=reach / EARTH_RADIUS_KM)
fig, axes = plt.subplots(2, 1, figsize=(8, 8.6), layout="constrained")
for ax, law, title in ((axes[0], round_, "on the globe"), (axes[1], flat, "on a plane of degrees")):
    draw(ax, law(grid, anchorage), title, "magma", "similarity to Anchorage")
plt.show()
