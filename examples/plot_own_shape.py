"""
A kernel with your own shape
============================

A kernel on the sphere may be any function of the angle whose weights on the levels are not negative.
``Zonal`` takes the function and computes the weights, with bounds on their errors, from the theorem of
Funk and Hecke.

Three shapes: an exponential with a cusp at angle zero, a smooth one, and one with a compact support.
Their weights on the 2-sphere fall like a power, exponentially, and like a higher power. The grey
lines are the error bounds: levels below them are lost in rounding errors and count as zero. The last
panel draws one Gaussian process from each kernel, along a great circle: the slower the weights fall,
the rougher it is.
"""

import matplotlib.pyplot as plt
import numpy as np

from mercer.harmonics import funk_hecke
from mercer.kernels import Zonal
from mercer.spaces import Sphere

plt.rcParams.update({"font.size": 11, "axes.spines.top": False, "axes.spines.right": False})


def exponential(theta):
    return np.exp(-3 * theta)


def cauchy(theta):
    return 0.1 / (1.1 - np.cos(theta))


def compact(theta):
    r = np.minimum(theta / 1.2, 1.0)
    return (1 - r) ** 4 * (4 * r + 1)


shapes = {"exponential": exponential, "Cauchy": cauchy, "compact support": compact}
colours = ("#0072B2", "#D55E00", "#009E73")
theta, levels = np.linspace(0, np.pi, 300), np.arange(150)
circle = np.column_stack([np.cos(2 * theta), np.sin(2 * theta), np.zeros_like(theta)])
rng = np.random.default_rng(3)

fig, (left, middle, right) = plt.subplots(1, 3, figsize=(12, 3.8), layout="constrained")
for offset, ((name, shape), colour) in enumerate(zip(shapes.items(), colours, strict=True)):
    left.plot(np.degrees(theta), shape(theta) / shape(np.zeros(1)), color=colour, label=name)
    found = funk_hecke(shape, n=3, levels=len(levels))
    known = found.weights > found.errors
    middle.semilogy(levels[known], found.weights[known], color=colour)
    middle.semilogy(levels, found.errors, color="0.7", lw=1)
    K = Zonal(Sphere(), shape)(circle)
    values, vectors = np.linalg.eigh(K)
    path = vectors @ (np.sqrt(np.maximum(values, 0)) * rng.normal(size=len(values)))
    right.plot(np.degrees(2 * theta), path - 4 * offset, color=colour)
left.set(xlabel="angle (degrees)", ylabel="k / k(x, x)", title="shape")
middle.set(xlabel="level", title="weights and their error bounds", ylim=(1e-20, 1))
right.set(xlabel="angle (degrees)", yticks=[], title="one process of each")
left.legend(frameon=False)

# %%
# If a function is not positive definite, an error names the level that shows it. The triangle
# below is a kernel on the circle, but not on the sphere.

try:
    Zonal(Sphere(), lambda theta: np.maximum(1 - theta / 2, 0))(circle)
except ValueError as error:
    print(error)

plt.show()
