"""
Classifying clouds of points
============================

A shape is seen only through a few noisy points on it: 15 to 40 points, in no order, on a ring, a
cross, a spiral or in two blobs, turned by a random angle. Each sample is a *cloud*, and clouds have
different sizes, so there are no rows of numbers to give to a classifier.

Kernels between clouds need none. The inverse generalised variance looks at the spectrum of the mixture
of two clouds in the feature space of a Gaussian base kernel.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist
from sklearn.decomposition import KernelPCA
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC

from mercer.features import GramTransformer
from mercer.kernels import Gaussian, GaussianEmbedding, InverseGeneralizedVariance, TraceKernel

rng = np.random.default_rng(3)
shapes = ["ring", "cross", "spiral", "two blobs"]


def cloud(shape):
    """Noisy points on a shape, turned by a random angle."""
    k = rng.integers(15, 41)
    u = rng.uniform(-1, 1, size=k)
    if shape == "ring":
        points = np.exp(1j * np.pi * u)
    elif shape == "cross":
        points = u * np.where(rng.random(k) < 0.5, 1, 1j)
    elif shape == "spiral":
        points = np.abs(u) * np.exp(3j * np.pi * np.abs(u))
    else:
        points = 0.7 * np.sign(u) + 0.2 * (rng.normal(size=k) + 1j * rng.normal(size=k))
    points = points * np.exp(2j * np.pi * rng.random())
    points += 0.06 * (rng.normal(size=k) + 1j * rng.normal(size=k))
    return np.column_stack([points.real, points.imag])


y = np.repeat(np.arange(4), 40)
X = [cloud(shapes[c]) for c in y]

# %%
# Any estimator that takes a precomputed Gram matrix takes clouds, behind a
# :class:`~mercer.features.GramTransformer`. The kernels of means see less
# of a cloud than the spectrum does.

base = Gaussian(length_scale=0.3)
kernels = {
    "inverse generalised variance": InverseGeneralizedVariance(base, eta=0.01, normalized=True),
    "trace": TraceKernel(base, t=0.1, normalized=True),
    "Gaussian of mean embeddings": GaussianEmbedding(base, length_scale=0.5),
}
folds = StratifiedKFold(5, shuffle=True, random_state=0)
for name, kernel in kernels.items():
    model = make_pipeline(GramTransformer(kernel), SVC(kernel="precomputed", C=100))
    scores = cross_val_score(model, X, y, cv=folds)
    print(f"{name}: accuracy {scores.mean():.3f} ± {scores.std():.3f}")

# %%
# Kernel principal components put every cloud at a place in the plane. Many places lie close together, so
# each cloud is drawn in the cell of a grid that suits its place best: neighbours in the picture are
# clouds that the kernel finds similar.

K = kernels["inverse generalised variance"](X)
places = KernelPCA(2, kernel="precomputed").fit_transform(K)
ranks = places.argsort(axis=0).argsort(axis=0) / len(X)  # spread evenly along both axes
cells = np.stack(np.meshgrid(np.arange(16), np.arange(10)), axis=-1).reshape(-1, 2) + 0.5
_, chosen = linear_sum_assignment(cdist(ranks * [16, 10], cells, "sqeuclidean"))

colors = ["#0072B2", "#D55E00", "#009E73", "#CC79A7"]
fig, ax = plt.subplots(figsize=(10, 6.3), layout="constrained")
for points, cell, c in zip(X, cells[chosen], y, strict=True):
    ax.scatter(*(cell + 0.36 * points).T, s=6, color=colors[c], lw=0)
for c, shape in enumerate(shapes):
    ax.scatter([], [], s=40, color=colors[c], label=shape)
ax.legend(frameon=False, loc="lower center", ncols=4, bbox_to_anchor=(0.5, 1.0))
ax.set(xlim=(0, 16), ylim=(0, 10), xticks=[], yticks=[], aspect="equal")
ax.set(xlabel="first kernel principal component", ylabel="second kernel principal component")
for side in ("top", "right"):
    ax.spines[side].set_visible(False)
plt.show()
