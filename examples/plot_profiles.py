"""
Exact heat kernel and parametrix
================================

The heat kernel on the sphere is a function of the angle between two points. The *parametrix* is its
expansion for short times; order 0, ``exp(-theta^2 / 4t)``, is often used in its place. This figure
shows both, divided by their values at angle zero, for three dimensions and two times.

In three dimensions and for short times they agree. In high dimension, at the same time, they do not: at
``t_star = 1`` the exact kernel still sees pairs of points at right angles, which is where most pairs
of points are, while order 0 is practically zero there. Orders 1 and 2 are better where order 0 is
good already and useless elsewhere: they grow without bound. They are drawn up to where they leave
the picture.
"""

import matplotlib.pyplot as plt
import numpy as np

from mercer.kernels import Heat, Parametrix
from mercer.spaces import Sphere

plt.rcParams.update({"font.size": 11, "axes.spines.top": False, "axes.spines.right": False})


def profile(kernel, n, theta):
    """Values of a kernel between e_1 and the point at angle theta from it."""
    points = np.zeros((theta.size, n))
    points[:, 0], points[:, 1] = np.cos(theta), np.sin(theta)
    return kernel(np.eye(1, n), points)[0]


theta = np.radians(np.linspace(0, 170, 400))
dimensions, times = (3, 50, 400), (0.3, 1.0)
styles = {0: ("#D55E00", "--"), 1: ("#0072B2", "-."), 2: ("#009E73", ":")}

fig, axes = plt.subplots(2, 3, figsize=(11, 6), sharex=True, sharey=True, layout="constrained")
for row, t_star in zip(axes, times, strict=True):
    for ax, n in zip(row, dimensions, strict=True):
        heat = Heat(Sphere(), t_star=t_star)
        exact = profile(heat, n, theta)
        ax.plot(np.degrees(theta), exact, color="black", lw=2.5, label="exact heat kernel")
        for order, (color, dash) in styles.items():
            kernel = Parametrix(Sphere(), t=heat.time(n), order=order, normalized=True)
            values = profile(kernel, n, theta)
            values[1:][np.maximum.accumulate(values > 1.3)[:-1]] = np.nan
            ax.plot(
                np.degrees(theta), values, dash, color=color, lw=2, label=f"parametrix, order {order}"
            )
        ax.axvline(90, color="0.85", lw=1, zorder=0)
        ax.set_title(f"n = {n},  t* = {t_star:g}", fontsize=11)
axes[0, 0].set(xlim=(0, 170), ylim=(-0.03, 1.25), xticks=range(0, 151, 30))
for ax in axes[-1]:
    ax.set_xlabel("angle (degrees)")
for ax in axes[:, 0]:
    ax.set_ylabel("kernel / kernel at 0")
handles, labels = axes[0, 0].get_legend_handles_labels()
fig.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False)
plt.show()
