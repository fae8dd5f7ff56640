"""
Classifying documents from word counts
======================================

Documents of four classes are drawn from multinomial models with 1000 words. The classes share most
of their vocabulary, and a document has between 20 and 80 words. A support vector machine sees them
through three kernels:

* the exact heat kernel on the simplex, with the raw counts;
* the Gaussian and the linear kernel, with rows scaled to length one, as is usual for text.

C and the range of the kernel are chosen by cross-validation on the training documents, separately for
every training set; accuracies are those on 1000 other documents. Ranges are tried at the same
similarities for both kernels that have one, see :meth:`~mercer.kernels.Kernel.scaled_to`.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy import sparse
from sklearn.preprocessing import normalize

from mercer.kernels import Gaussian, Heat, Linear
from mercer.selection import KernelSearchCV
from mercer.spaces import Simplex

plt.rcParams.update({"font.size": 11, "axes.spines.top": False, "axes.spines.right": False})

rng = np.random.default_rng(2024)
words, classes, test_size = 1000, 4, 1000
common = 1 / np.arange(1, words + 1)  # a few frequent words, many rare ones
models = common * rng.lognormal(sigma=0.6, size=(classes, words))
models /= models.sum(axis=1, keepdims=True)


def documents(size):
    """Sparse counts and classes."""
    y = rng.integers(classes, size=size)
    lengths = rng.integers(20, 81, size=size)
    rows = [rng.multinomial(m, models[c]) for m, c in zip(lengths, y, strict=True)]
    return sparse.csr_matrix(np.array(rows, dtype=float)), y


# %%
# The kernels. Without more words a search tries five values of C, in units of the Gram matrix.

kernels = {"heat on the simplex": Heat(Simplex()), "Gaussian": Gaussian(), "linear": Linear()}

X_test, y_test = documents(test_size)
sizes, repeats = (40, 80, 160, 320), 3
accuracy = {name: np.zeros((len(sizes), repeats)) for name in kernels}
for i, size in enumerate(sizes):
    for j in range(repeats):
        X, y = documents(size)
        for name, kernel in kernels.items():
            prepare = (lambda Z: Z) if name.startswith("heat") else normalize
            search = KernelSearchCV(kernel, similarities="auto", cv=3).fit(prepare(X), y)
            accuracy[name][i, j] = search.score(prepare(X_test), y_test)

# %%
# Means over three training sets of each size, and the range from the worst to the best of them. Chance
# would be 0.25.

fig, ax = plt.subplots(figsize=(7.5, 5), layout="constrained")
styles = {
    "heat on the simplex": ("#0072B2", "o-"),
    "Gaussian": ("#D55E00", "s--"),
    "linear": ("#009E73", "^:"),
}
for name, values in accuracy.items():
    color, style = styles[name]
    ax.fill_between(sizes, values.min(axis=1), values.max(axis=1), color=color, alpha=0.15, lw=0)
    ax.plot(sizes, values.mean(axis=1), style, color=color, lw=2, ms=7, label=name)
ax.set_xscale("log")
ax.set_xticks(sizes, labels=map(str, sizes))
ax.minorticks_off()
ax.set(xlabel="training documents", ylabel="accuracy on 1000 other documents")
ax.legend(frameon=False, loc="lower right")
plt.show()
