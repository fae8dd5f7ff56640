"""
Heat on the sphere
==================

A drop of heat at one point of a sphere spreads like many random walkers that start there. This is the
first figure of Zhao and Song, *Exact heat kernel on a hypersphere and its applications in kernel SVM*
(2018), reproduced.

Upper row: the exact heat kernel on the 2-sphere, divided by its value at the source (the cross), after
the times ``t_star = 0.5, 1, 2`` in units of ``log(3) / 3``, with three random walks of that duration.
Walkers take steps of normal length in the tangent plane and are put back on the sphere. Paths on the far
side are dim.

Middle row: where 20 000 walkers are at the end, by their angle from the source, and the density that the
kernel says: ``G(theta; t)`` times the length of the circle at theta.

Lower row: the exact kernel in 3, 100 and 200 dimensions at the three values of ``t_star``, and the
parametrix ``exp(-theta^2 / 4t)`` at t = 0.5, 1, 2, which is the same in every dimension. The exact
kernel is flat at the antipode, as a smooth function on the sphere must be. The parametrix has a kink
there.
"""

import matplotlib.pyplot as plt

from mercer.reproduce.published.sphere_heat import draw

walks = draw(plt.figure(figsize=(11, 10.5)))
for t_star, (chi, free) in walks.items():
    print(f"t* = {t_star}: chi-squared of the walkers {chi:.0f}, {free} degrees of freedom")
plt.show()
