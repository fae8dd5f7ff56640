"""
The path of a whole search
==========================

A search over C solves the same problem again and again with other boxes. On each fold
:meth:`mercer.machines.SVC.fit_path` starts with the smallest C, and takes each solution as the start for
the next.

The left picture shows the accuracies that the search sees: one line for each fold, the mean in black.
The right one shows what they cost: steps of the solver along the path, and from zero for each C.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import StratifiedKFold

from mercer.kernels import Heat
from mercer.machines import SVC
from mercer.spaces import Simplex

plt.rcParams.update({"font.size": 11, "axes.spines.top": False, "axes.spines.right": False})

X, y = load_digits(return_X_y=True)
X, y = X[:1000], y[:1000]
K = Heat(Simplex()).scaled_to(X, 0.1)(X)
C = np.geomspace(0.1, 1000, 9)

# %%
# Held-out rows stay in the matrix, and their coefficients at zero. Machines take rows of all of K.

accuracy, steps, alone = [], [], []
for train, test in StratifiedKFold(5).split(K, y):
    models = SVC().fit_path(K, y, train, [{"C": c} for c in C])
    accuracy.append([model.score(K[test], y[test]) for model in models])
    steps.append([model.n_iter_.sum() for model in models])
    alone.append([SVC().fit_path(K, y, train, [{"C": c}])[0].n_iter_.sum() for c in C])

# %%
# Once few coefficients are at the ends of their boxes, a larger C changes little, and so the path is
# nearly free. For small C, where most are, starting from zero is as good.

_, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
left.semilogx(C, np.transpose(accuracy), color="0.8")
left.semilogx(C, np.mean(accuracy, axis=0), "o-", color="black")
left.set(xlabel="C", ylabel="accuracy", title="five folds")
right.loglog(C, np.sum(alone, axis=0), "o-", color="C1", label="each from zero")
right.loglog(C, np.sum(steps, axis=0), "o-", color="C0", label="from the C before")
right.set(xlabel="C", title="steps of 225 programs")
right.legend(frameon=False)
plt.show()
