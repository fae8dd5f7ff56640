"""
The Kullback-Leibler divergence as a distance
=============================================

The symmetrised divergence :math:`J(p, q) = KL(p\\|q) + KL(q\\|p)` is the squared Fisher distance of
close distributions, and is often used in its place, because it needs no geometry. The first figure
shows the ratio of the two: for three categories from the even distribution towards a corner, and for
normal distributions along the mean and along the standard deviation. They agree up to the fourth
order. At a distance of 1 the divergence is larger by 0.4, 4 and 18 %, at 1.5 by 6, 10 and 44 %. Then
it runs away, at the corner of the triangle to infinity.

The second shows what this does to kernels: the exact heat kernel, its short-time formula
:math:`\\exp(-d^2/16t)` (categories) or :math:`\\exp(-d^2/8t)` (normals) with the Fisher distance d, and
the same with J in place of :math:`d^2`. At the short times (dashed) the three are close, since all have
fallen before the divergence errs. At the long times (solid) the divergence forgets distant points sooner
than diffusion does. Neither approximation is positive semidefinite; the heat kernel always is.
"""

import matplotlib.pyplot as plt
import numpy as np

from mercer.kernels import Heat, KullbackLeibler
from mercer.spaces import NormalFamily, Simplex

plt.rcParams.update({"font.size": 11, "axes.spines.top": False, "axes.spines.right": False})

# %%
# Three paths of distributions, with the Fisher distance from where they begin.

angle = np.linspace(np.arccos(3**-0.5), 1e-3, 400)  # from the corner
categories = np.column_stack([np.sin(angle) ** 2 / 2, np.sin(angle) ** 2 / 2, np.cos(angle) ** 2])
shifted = np.column_stack([np.linspace(0, 12, 400), np.ones(400)])
spread = np.column_stack([np.zeros(400), np.exp(np.linspace(0, 3, 400))])
family = NormalFamily()
paths = {
    "three categories": (Simplex(), categories, 2 * (angle[0] - angle)),
    "normals, mean": (family, shifted, family.fisher_distances(shifted[:1], shifted)[0]),
    "normals, deviation": (family, spread, family.fisher_distances(spread[:1], spread)[0]),
}

fig, left = plt.subplots(figsize=(6, 4.2), layout="constrained")
for (name, (space, rows, d)), color in zip(paths.items(), ("black", "#CC79A7", "#56B4E9"), strict=True):
    ratio = KullbackLeibler(space).divergences(rows[:1], rows)[0, 1:] / d[1:] ** 2
    left.plot(d[1:], ratio, color=color, lw=2)
    seen = [f"{np.interp(x, d[1:], ratio):.3f} at d = {x}" for x in (0.5, 1, 1.5)]
    print(f"{name}: J / d^2 =", ", ".join(seen))
left.axhline(1, color="0.7", lw=1, zorder=0)
left.set(xlim=(0, 4), ylim=(0.9, 3), xlabel="Fisher distance $d$", ylabel="divergence $J$ / $d^2$")
for x, y, name in zip((0.6, 3.2, 2.7), (2.3, 1.2, 2.3), paths, strict=True):
    left.text(x, y, name.replace(" ", "\n"))

# %%
# Kernels against the distance, at a short and a long time.

fig, (middle, right) = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained")
for ax, name, factor, times in (
    (middle, "three categories", 16, (0.02, 0.3)),
    (right, "normals, deviation", 8, (0.1, 1.0)),
):
    space, rows, d = paths[name]
    for t, style in zip(times, ("--", "-"), strict=True):
        ax.plot(d, Heat(space, t=t)(rows[:1], rows)[0], style, color="#0072B2", lw=2)
        ax.plot(d, np.exp(-(d**2) / (factor * t)), style, color="#009E73", lw=2)
        ax.plot(d, KullbackLeibler(space, t=t)(rows[:1], rows)[0], style, color="#D55E00", lw=2)
    ax.set(xlabel="Fisher distance $d$", xlim=(0, d[-1]), ylim=(0, 1.02))
    ax.set_title(f"{name}, t = {times[0]} and {times[1]}", fontsize=11)
middle.set_ylabel("kernel")
right.legend(right.lines[-3:], ["heat", "short time, distance", "short time, divergence"], frameon=False)
plt.show()
