"""
One scale for all dimensions
============================

Which diffusion time suits the data? In units of ``log(n) / n`` it is around 1 in every dimension, but
the window in which anything can be learnt shrinks like ``1 / log(n)``. The left picture shows the
accuracy of a support vector machine with the exact heat kernel against ``t_star``: for shares of three
parts, for digits of 64 pixels, and for docstrings with 4000 words. No list of times serves all.

On the right is the same against the *median similarity* of two rows, which
:meth:`~mercer.kernels.Kernel.scaled_to` sets. All three are good from 0.1 to 0.9, and C is in units
of the Gram matrix, so that wide kernels approach the cosine kernel instead of becoming useless.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import cross_val_score
from sklearn.svm import SVC

from mercer.datasets import load_docstrings
from mercer.kernels import Heat
from mercer.rkhs import total_variance
from mercer.spaces import Simplex

plt.rcParams.update({"font.size": 11, "axes.spines.top": False, "axes.spines.right": False})

rng = np.random.default_rng(0)
shares = rng.dirichlet([2, 2, 2], size=500)
digits, digit = load_digits(return_X_y=True)
texts = load_docstrings()
some = rng.permutation(len(texts.y))[:500]
data = {
    "shares, n = 3": (shares, shares[:, 0] > np.sort(shares)[:, 1]),
    "digits, n = 64": (digits[:500], digit[:500]),
    f"docstrings, n = {texts.X.shape[1]}": (texts.X[some], texts.y[some]),
}


def accuracy(kernel, X, y, C):
    """Accuracy in three folds; C over the total variance of the Gram matrix if it is None."""
    K = kernel(X)
    C = 10 / total_variance(K) if C is None else C
    return cross_val_score(SVC(kernel="precomputed", C=C), K, y, cv=3).mean()


# %%
# Times with C = 10, and similarities with C in units of the Gram matrix.

times = np.geomspace(0.05, 3, 25)
similarities = np.array([0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98])
fig, axes = plt.subplots(1, 2, figsize=(10, 4.5), sharey=True, layout="constrained")
for (name, (X, y)), color in zip(data.items(), ("#0072B2", "#D55E00", "#009E73"), strict=True):
    by_time = [accuracy(Heat(Simplex(), t_star=t), X, y, 10) for t in times]
    scaled = [accuracy(Heat(Simplex()).scaled_to(X, s), X, y, None) for s in similarities]
    axes[0].plot(times, by_time, "o-", ms=4, lw=2, color=color, label=name)
    axes[1].plot(similarities, scaled, "o-", ms=4, lw=2, color=color, label=name)
axes[0].set(xscale="log", xlabel="$t^*$", ylabel="accuracy in three folds")
axes[0].set_xticks([0.05, 0.1, 0.2, 0.5, 1, 2], labels=["0.05", "0.1", "0.2", "0.5", "1", "2"])
axes[0].minorticks_off()
axes[1].set(xlabel="median similarity of two rows", xticks=np.arange(0, 1.01, 0.2))
axes[1].legend(frameon=False, loc="lower center")
plt.show()
