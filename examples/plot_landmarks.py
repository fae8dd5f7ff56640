"""
How many landmarks?
===================

Machines on landmarks keep functions spanned by the kernel at some rows, and read all rows in one pass.
Here a regression on 10 000 points of the globe is fitted with more and more landmarks.  The objective
falls towards that of the exact machine.  The certificates say how far it may still fall: the safe one
from the pass alone, the sampled one from products at a thousand rows.
"""

import matplotlib.pyplot as plt
import numpy as np

from mercer.kernels import Heat
from mercer.machines import LandmarkRegressor
from mercer.spaces import Sphere

rng = np.random.default_rng(0)
X = rng.normal(size=(12_000, 3))
X /= np.linalg.norm(X, axis=1, keepdims=True)
truth = np.sin(5 * X[:, 0]) * np.cos(4 * X[:, 1]) + X[:, 2]
y = truth + rng.normal(scale=0.3, size=len(X))
rows, new = slice(10_000), slice(10_000, None)

sizes = [15, 25, 40, 60, 90, 140, 200, 300]
reached, safe, sampled, errors = [], [], [], []
for size in sizes:
    model = LandmarkRegressor(Heat(Sphere(), t=0.02), size, alpha=0.3, random_state=0)
    model.fit(X[rows], y[rows])
    reached.append(model.objective_)
    safe.append(model.bounds_[0])
    sampled.append(model.certify(X[rows], y[rows]).lower)
    errors.append(np.sqrt(np.mean((model.predict(X[new]) - truth[new]) ** 2)))
print(model.certificate_)

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
left.fill_between(sizes, safe, reached, alpha=0.2, label="safe bracket")
left.fill_between(sizes, sampled, reached, alpha=0.4, label="sampled bracket")
left.plot(sizes, reached, "k", label="reached")
left.set(xscale="log", xlabel="landmarks", ylabel="objective", ylim=(0, 2 * reached[-1]))
left.legend()
right.plot(sizes, errors, "o-")
right.set(xscale="log", yscale="log", xlabel="landmarks", ylabel="error on new rows")
plt.show()
