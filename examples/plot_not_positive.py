"""
The parametrix is not a kernel
==============================

A kernel must have Gram matrices without negative eigenvalues. ``exp(-theta^2 / 4t)``, the parametrix
of order 0, has them on the sphere: here the least eigenvalue for 300 random points of the 2-sphere,
against the time, with the same for the exact heat kernel.

For the exact kernel only rounding errors are left. The parametrix has negative eigenvalues as soon as
pairs of far points matter, and beyond t = 1 they are of order one. This is why
``Parametrix.positive_semidefinite`` is ``False``.
"""

import matplotlib.pyplot as plt
import numpy as np

from mercer.kernels import Heat, Parametrix
from mercer.spaces import Sphere

plt.rcParams.update({"font.size": 11, "axes.spines.top": False, "axes.spines.right": False})

X = np.random.default_rng(0).normal(size=(300, 3))
times = np.geomspace(0.02, 10, 28)
least = {
    name: np.array([np.linalg.eigvalsh(kernel(Sphere(), t=t)(X))[0] for t in times])
    for name, kernel in (("parametrix, order 0", Parametrix), ("exact heat kernel", Heat))
}

fig, ax = plt.subplots(figsize=(8, 5), layout="constrained")
ax.axhspan(0, 1e-1, color="#009E73", alpha=0.08, lw=0)
ax.plot(times, least["parametrix, order 0"], "o-", color="#D55E00", ms=5, label="parametrix, order 0")
ax.plot(times, least["exact heat kernel"], "s-", color="black", ms=4, label="exact heat kernel")
ax.axhline(0, color="0.5", lw=1)
ax.set_xscale("log")
ax.set_yscale("symlog", linthresh=1e-12, linscale=0.8)
ax.set_yticks([1e-4, 1e-8, 0, -1e-8, -1e-4, -1])
ax.set_ylim(-20, 1e-1)
ax.text(0.021, 1e-3, "as a kernel must be", color="#00694d", va="center")
ax.set(xlabel="diffusion time t", ylabel="least eigenvalue of the Gram matrix")
ax.legend(frameon=False, loc="lower left")
plt.show()
worst = times[np.argmin(least["parametrix, order 0"])]
print(f"parametrix: {least['parametrix, order 0'].min():.2f} at t = {worst:.2f}")
print(f"exact heat: {least['exact heat kernel'].min():.1e}")
