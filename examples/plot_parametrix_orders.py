"""
Accuracy of the orders of the parametrix
========================================

The heat kernel on the sphere :math:`S^d`, d = n - 1, has the short-time expansion
:math:`(4\\pi t)^{-d/2} e^{-\\theta^2/4t} (u_0 + u_1 t + u_2 t^2 + \\dots)`.
:class:`~mercer.kernels.Parametrix` knows its coefficients to any order. Here orders 0 to 5 are compared
with the exact kernel, both in their absolute form.

Upper left: the relative error at equal points in 12 dimensions. Order k has an error of
:math:`t^{k+1}`, as predicted (thin lines), until rounding errors are reached.

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

from mercer.reproduce.published.parametrix import ORDERS, N, draw, reach, slope

draw(plt.figure(figsize=(11, 9)), np.unique(np.geomspace(3, 200, 16).astype(int)).tolist())
plt.show()

# %%
# The slopes of the errors in the first panel, fitted where t < 0.01, and what the best order reaches.

for order in ORDERS:
    print(f"order {order}: error ~ t^{slope(N, order):.2f}")
for n in (3, 100, 200):
    times = ", ".join(f"{reach(n, order):.2g}" for order in ORDERS)
    print(f"n = {n}: 1 % error at t = {times}; log(n)/n = {math.log(n) / n:.2g}")
