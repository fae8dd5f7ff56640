"""
How far the orders of the parametrix carry
==========================================

The heat kernel on the sphere :math:`S^d`, d = n - 1, has the short-time expansion
:math:`(4\\pi t)^{-d/2} e^{-\\theta^2/4t} (u_0 + u_1 t + u_2 t^2 + \\dots)`.
:class:`~mercer.kernels.Parametrix` knows its coefficients to any order. Here orders 0 to 5 are compared
with the exact kernel, both in their absolute form.

Upper left: the relative error at equal points in 12 dimensions. Order k is good for
:math:`t^{k+1}`, as it should be (thin lines), until rounding errors are reached.

Upper right: the time up to which the error at equal points stays below 1 %. It falls like
:math:`1/n^2`, while the times that tell points apart, around :math:`\\log(n)/n` (shaded), fall much more
slowly. At n = 200 the first correction gains a factor of 15, the next ones 2.9, 1.9, 1.6 and 1.4, and
order 5 ends at a hundredth of :math:`\\log(n)/n`.

Lower left: the relative error against the angle. Order 0 is the formula without :math:`u_0`, which is
wrong by that factor at every positive angle, however short the time. Near the antipode all
orders fail, because the coefficients diverge there.

Lower right: the second coefficient in ten dimensions. The published formula, as printed, is singular at
angle zero, and that was called pathological. It does not satisfy the recursion that it comes from; the
one that does is smooth and equals the classical heat coefficient at angle zero.
"""

import math

import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import brentq

from mercer.kernels import Heat, Parametrix
from mercer.spaces import Sphere
from mercer.spaces.parametrix import corrections, diagonal

plt.rcParams.update({"font.size": 11, "axes.spines.top": False, "axes.spines.right": False})
ORDERS = range(6)
COLORS = plt.colormaps["viridis"](np.linspace(0, 0.92, len(ORDERS)))


def error_at_zero(n, t, order):
    """Relative error of the expansion at equal points."""
    d = n - 1
    bracket = sum(float(u) * t**k for k, u in enumerate(diagonal(d, order)))
    log_exact = Heat(Sphere(), t=t).log_self_similarity(n)
    return abs(math.expm1(math.log(bracket) - d / 2 * math.log(4 * math.pi * t) - log_exact))


def reach(n, order, tolerance=0.01):
    """Time up to which the error stays below the tolerance."""

    def excess(log_t):
        return error_at_zero(n, math.exp(log_t), order) - tolerance

    log_t = math.log(0.03 / n**2)
    while excess(log_t + 0.4) < 0:
        log_t += 0.4
    return math.exp(brentq(excess, log_t, log_t + 0.4, xtol=1e-3))


def errors_by_angle(n, t, order, theta):
    """Relative error against the angle, from logarithms: the far tail is tiny."""
    points = np.zeros((theta.size, n))
    points[:, 0], points[:, 1] = np.cos(theta), np.sin(theta)
    exact = Heat(Sphere(), t=t, normalized=False).log(np.eye(1, n), points)[0]
    values = Parametrix(Sphere(), t=t, order=order)(np.eye(1, n), points)[0]
    return np.abs(values * np.exp(-exact - (n - 1) / 2 * math.log(4 * math.pi * t)) - 1)


fig, axes = plt.subplots(2, 2, figsize=(11, 9), layout="constrained")

ax, n = axes[0, 0], 12
times = np.geomspace(2e-4, 0.3, 60)
slopes = []
for order, color in zip(ORDERS, COLORS, strict=True):
    errors = np.array([error_at_zero(n, t, order) for t in times])
    ax.loglog(times, errors, color=color, lw=2.2, label=f"order {order}")
    missing = float(diagonal(n - 1, order + 1)[-1])
    ax.loglog(times, missing * times ** (order + 1), color=color, lw=0.8, alpha=0.7)
    inside = (errors > 1e-11) & (times < 0.01)
    slopes.append(np.polyfit(np.log(times[inside]), np.log(errors[inside]), 1)[0])
ax.set(xlabel="time t", ylabel="relative error at angle 0", ylim=(1e-15, 3), title=f"n = {n}")
ax.legend(frameon=False, loc="lower right")

ax = axes[0, 1]
dimensions = np.unique(np.geomspace(3, 200, 16).astype(int))
for order, color in zip(ORDERS, COLORS, strict=True):
    ax.loglog(dimensions, [reach(n, order) for n in dimensions], "o-", color=color, ms=4, lw=1.8)
sweet = np.log(dimensions) / dimensions
ax.fill_between(dimensions, 0.3 * sweet, 2 * sweet, color="#D55E00", alpha=0.18, lw=0)
ax.loglog(dimensions, sweet, color="#D55E00", lw=2)
ax.text(45, 0.115, "t = log(n) / n", color="#A04000", rotation=-22)
ax.set(xlabel="dimension n", ylabel="time of 1 % error", title="reach of orders 0 (lowest) to 5")

ax, n, t = axes[1, 0], 12, 0.03
theta = np.radians(np.linspace(0.5, 175, 350))
for order, color in zip(ORDERS, COLORS, strict=True):
    ax.semilogy(np.degrees(theta), errors_by_angle(n, t, order, theta), color=color, lw=2.2)
ax.set(xlabel="angle (degrees)", ylabel="relative error", title=f"n = {n}, t = {t}", ylim=(1e-9, 1e3))
ax.set_xticks(range(0, 181, 30))

ax, d = axes[1, 1], 9
theta = np.linspace(0.02, 2.6, 400)
right = corrections(d, 2, 1 - np.cos(np.minimum(theta, np.pi / 2)))[1][0]
beyond = corrections(d, 2, 1 + np.cos(np.maximum(theta, np.pi / 2)))[1][1]
right = np.where(theta < np.pi / 2, right, beyond)
tangent = np.tan(theta)
printed = (d - 3) ** 3 + (d - 3) * (d - 5) * (d - 7) / theta**4
printed += -((d - 3) ** 2) * (d - 5) / (theta**3 * tangent) + 2 * (d - 1) ** 2 * (d - 3) / (
    theta * tangent
)
printed += (d + 1) * (d - 3) * (d - 5) / (theta**2 * np.sin(theta))
ax.plot(np.degrees(theta), (d - 1) / 32 * printed, "--", color="#D55E00", lw=2, label="as published")
ax.plot(np.degrees(theta), right, color="black", lw=2.5, label="from the recursion")
ax.plot(0, float(diagonal(d, 2)[2]), "o", color="black", ms=7, label="classical heat coefficient")
ax.set(xlabel="angle (degrees)", ylabel="$u_2 / u_0$", title=f"n = {d + 1}", ylim=(-150, 450))
ax.legend(frameon=False, loc="upper right")
plt.show()

# %%
# The slopes of the errors in the first panel, fitted where t < 0.01, and what the best order reaches.

for order, slope in zip(ORDERS, slopes, strict=True):
    print(f"order {order}: error ~ t^{slope:.2f}")
for n in (3, 100, 200):
    times = ", ".join(f"{reach(n, order):.2g}" for order in ORDERS)
    print(f"n = {n}: 1 % error at t = {times}; log(n)/n = {math.log(n) / n:.2g}")
