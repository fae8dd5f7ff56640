"""
Searching kernels, and how good the choice is
=============================================

Short documents of three classes are drawn from multinomial models with 200 words.
:class:`~mercer.selection.KernelSearchCV` chooses the diffusion time of the heat kernel and C of a
support vector machine by cross-validation.

The left picture is one search: the mean score of each candidate over four folds. The right one shows
how reliable the scores are. For 12 draws of 60 documents it shows three numbers: the score of the
best candidate, the nested score, for which the search is repeated inside an outer loop, and the
accuracy of the chosen machine on 2000 other documents.
"""

import matplotlib.pyplot as plt
import numpy as np

from mercer.kernels import Heat
from mercer.selection import KernelSearchCV
from mercer.spaces import Simplex

plt.rcParams.update({"font.size": 11, "axes.spines.top": False, "axes.spines.right": False})

rng = np.random.default_rng(7)
words, classes = 200, 3
models = 1 / np.arange(1, words + 1) * rng.lognormal(sigma=0.5, size=(classes, words))
models /= models.sum(axis=1, keepdims=True)


def documents(size):
    """Counts and classes."""
    y = np.arange(size) % classes
    lengths = rng.integers(10, 31, size=size)
    return np.array([rng.multinomial(m, models[c]) for m, c in zip(lengths, y, strict=True)]), y


# %%
# The range of the kernel is tried at four similarities, learnt in each training part; C is a parameter
# of the machine. ``cv_results_`` is laid out as in scikit-learn, with the values of C outermost.

similarities, C = [0.1, 0.3, 0.6, 0.9], [1, 10, 100]
search = KernelSearchCV(Heat(Simplex()), similarities=similarities, param_grid={"C": C}, cv=4)
X, y = documents(300)
table = search.fit(X, y).cv_results_["mean_test_score"].reshape(len(C), len(similarities))

# %%
# The same search, repeated on small sets.

X_test, y_test = documents(2000)
scores = {"best score": [], "nested score": [], "on 2000 others": []}
for _ in range(12):
    X, y = documents(60)
    scores["best score"].append(search.fit(X, y).best_score_)
    scores["nested score"].append(search.nested_scores(X, y, outer_cv=4).mean)
    scores["on 2000 others"].append(search.score(X_test, y_test))

# %%
# The best score is too high on average, because it is the best of 12. The nested score is a score
# of the search as a whole, on documents that it did not use. It errs on both sides. Its searches see
# three quarters of the documents, so their choices are slightly worse.

fig, axes = plt.subplots(1, 2, figsize=(10, 4.5), layout="constrained")
image = axes[0].imshow(table, origin="lower", cmap="viridis", aspect="auto")
axes[0].set_xticks(range(len(similarities)), labels=similarities)
axes[0].set_yticks(range(len(C)), labels=C)
axes[0].set(xlabel="median similarity", ylabel="C", title="one search on 300 documents")
for (row, column), value in np.ndenumerate(table):
    color = "black" if value > (table.min() + table.max()) / 2 else "white"
    axes[0].text(column, row, f"{value:.2f}", ha="center", va="center", color=color)
fig.colorbar(image, ax=axes[0], label="mean accuracy over 4 folds")

for i, (values, color) in enumerate(
    zip(scores.values(), ("#D55E00", "#0072B2", "#009E73"), strict=True)
):
    mean = np.mean(values)
    axes[1].scatter(i + np.linspace(-0.15, 0.15, len(values)), values, color=color, alpha=0.7)
    axes[1].hlines(mean, i - 0.3, i + 0.3, color=color, lw=3)
    axes[1].annotate(f"{mean:.3f}", (i + 0.32, mean), va="center", color=color)
axes[1].set_xticks(range(3), labels=scores)
axes[1].set(xlim=(-0.5, 2.75), ylabel="accuracy", title="12 searches on 60 documents")
plt.show()
