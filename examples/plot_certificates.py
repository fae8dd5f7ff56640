"""
Duality gaps along C
====================

A binary task with 10 % wrong labels, and support vector machines for C from 0.1 to 10 000. The
relative duality gap says how far a machine is from the optimum, whichever solver found it.  libsvm
stops on another criterion, with ``tol=1e-3`` in units of the decision function: its gap grows with C.
:class:`mercer.machines.SVC` stops on the gap itself.

The right picture shows what the gap is about: accuracy on other rows, with one point for each C.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn import svm
from sklearn.datasets import make_classification

from mercer.kernels import Gaussian
from mercer.machines import SVC

plt.rcParams.update({"font.size": 11, "axes.spines.top": False, "axes.spines.right": False})

X, y = make_classification(1600, n_informative=8, flip_y=0.1, random_state=0)
train, test = slice(0, 800), slice(800, None)
kernel = Gaussian().scaled_to(X[train], 0.3)
K, K_test, sign = kernel(X[train]), kernel(X[test], X[train]), np.where(y[train] > 0, 1.0, -1.0)

# %%
# The gap of any machine of two classes, from the definitions of both objectives.


def relative_gap(machine, C):
    """(P - D) / max(|P|, |D|)."""
    b = np.zeros(len(K))
    b[machine.support_] = machine.dual_coef_[0]
    values = K @ b
    dual = sign @ b - b @ values / 2
    primal = b @ values / 2 + C * np.maximum(0, 1 - sign * (values + machine.intercept_)).sum()
    return (primal - dual) / max(abs(primal), abs(dual))


grid = np.geomspace(0.1, 1e4, 11)
theirs = [svm.SVC(kernel="precomputed", C=C).fit(K, y[train]) for C in grid]
ours = [SVC("precomputed", C=C).fit(K, y[train]) for C in grid]

# %%
# Gaps that cannot be distinguished from zero are drawn at the lower edge.

figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), constrained_layout=True)
for machines, label, marker in ((theirs, "libsvm, tol=1e-3", "o"), (ours, "mercer, gap 1e-3", "s")):
    gaps = [relative_gap(machine, C) for machine, C in zip(machines, grid, strict=True)]
    left.loglog(grid, np.maximum(gaps, 1e-9), marker=marker, label=label)
    scores = [machine.score(K_test, y[test]) for machine in machines]
    right.semilogx(grid, scores, marker=marker, label=label)
left.axhline(1e-3, color="0.7", lw=1)
left.set(xlabel="C", ylabel="relative duality gap")
right.set(xlabel="C", ylabel="accuracy on other rows")
left.legend(frameon=False)
plt.show()
