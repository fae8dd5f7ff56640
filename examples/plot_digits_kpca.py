"""
Kernel PCA of digits as compositions
====================================

An image of a handwritten digit is a distribution of ink over 64 pixels. ``Heat(Simplex())`` compares
these distributions by diffusion on the sphere on which the Fisher metric puts them; the total amount
of ink plays no role. Kernel PCA with it is drawn beside ordinary PCA of the pixels.

The first two coordinates separate different digits. The last panel shows how well more coordinates
preserve the classes: the accuracy of five nearest neighbours, by five-fold cross-validation with the
projection fitted inside each fold. On these images plain PCA keeps a little more: not every table of
counts gains from the geometry of the simplex.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA, KernelPCA
from sklearn.model_selection import StratifiedKFold
from sklearn.neighbors import KNeighborsClassifier

from mercer.kernels import Heat
from mercer.spaces import Simplex

plt.rcParams.update({"font.size": 11, "axes.spines.top": False, "axes.spines.right": False})

X, y = load_digits(return_X_y=True)
most = 16
projections = {
    "PCA": PCA(most, svd_solver="full"),
    "kernel PCA": KernelPCA(
        most, kernel=Heat(Simplex(), t_star=0.5), eigen_solver="arpack", random_state=0
    ),
}

# %%
# Accuracy on the first 2, 4, ... coordinates.

counts = range(2, most + 1, 2)
folds = list(StratifiedKFold(5, shuffle=True, random_state=0).split(X, y))
accuracy = {name: np.zeros((len(counts), len(folds))) for name in projections}
for name, projection in projections.items():
    for j, (train, test) in enumerate(folds):
        fitted = clone(projection).fit(X[train])
        Z, Z_test = fitted.transform(X[train]), fitted.transform(X[test])
        for i, count in enumerate(counts):
            neighbours = KNeighborsClassifier(5).fit(Z[:, :count], y[train])
            accuracy[name][i, j] = neighbours.score(Z_test[:, :count], y[test])

# %%
# Each digit is drawn as itself.

fig, axes = plt.subplots(1, 3, figsize=(16, 5.5), layout="constrained")
colors = plt.get_cmap("tab10").colors
titles = ("PCA of the pixels", "kernel PCA with Heat(Simplex(), t_star=0.5)")
for ax, title, projection in zip(axes, titles, projections.values(), strict=False):
    Z = projection.fit_transform(X)
    for digit in range(10):
        ax.scatter(*Z[y == digit, :2].T, marker=f"${digit}$", s=36, color=colors[digit], lw=0.2)
    ax.set_title(title, fontsize=12)
    ax.set(xlabel="first component", ylabel="second component")
styles = {"PCA": ("#D55E00", "s--"), "kernel PCA": ("#0072B2", "o-")}
for name, values in accuracy.items():
    color, style = styles[name]
    axes[2].plot(counts, values.mean(axis=1), style, color=color, lw=2, ms=6, label=name)
axes[2].set_title("5 nearest neighbours", fontsize=12)
axes[2].set(xlabel="components", ylabel="accuracy", xticks=counts)
axes[2].legend(frameon=False, loc="lower right")
plt.show()
