"""
Decision boundaries between distributions
=========================================

The points of a statistical model are distributions, and their parameters do not say which are close.
On the left, a support vector machine has the Gaussian kernel, which treats parameters as coordinates
of a flat plane. On the right it has the heat kernel of the Fisher geometry. The figure follows the
one of Lafferty and Lebanon's paper on information diffusion kernels, with data made here.

**Top: three categories.** The triangle holds all distributions over three words. One class uses each
of them at least 3 times in 100. Near the edges, where the classes meet, small differences matter, and
the Fisher metric stretches the triangle there. The flat kernel cuts the corners.

**Bottom: normal distributions.** In one class the mean is more than 2.2 standard deviations away from
zero, in the other it is not. This does not depend on the unit of measurement, and neither does the
hyperbolic geometry: scaling is one of its motions. The true boundary is a pair of straight lines. With
the heat kernel the regions open upwards as they should; with the Gaussian kernel they close up where
the points end.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import GridSearchCV
from sklearn.svm import SVC

from mercer.kernels import Gaussian, Heat
from mercer.plotting import plot_halfplane_boundary, plot_simplex_boundary
from mercer.spaces import NormalFamily, Simplex

plt.rcParams.update({"font.size": 11, "axes.spines.top": False, "axes.spines.right": False})

rng = np.random.default_rng(0)


def trinomials(size):
    """Distributions spread evenly in the Fisher metric, and whether they use all words."""
    rows = rng.dirichlet([0.5, 0.5, 0.5], size=size)
    return rows, (rows.min(axis=1) > 0.03).astype(int)


def normals(size):
    """Means and standard deviations, and whether the mean is far from zero."""
    rows = np.column_stack([rng.normal(scale=1.5, size=size), rng.lognormal(-0.7, 0.7, size=size)])
    return rows, (np.abs(rows[:, 0]) > 2.2 * rows[:, 1]).astype(int)


# %%
# The parameter of the kernel and C are chosen by cross-validation on the 100 points that are shown. The
# numbers are accuracies on 3000 others.

flat = (Gaussian(), {"kernel__length_scale": [0.05, 0.1, 0.2, 0.4, 0.8, 1.6]})
studies = (
    (trinomials, plot_simplex_boundary, Heat(Simplex(), t=0.1), [0.01, 0.03, 0.1, 0.3]),
    (normals, plot_halfplane_boundary, Heat(NormalFamily(), t=1.0), [0.3, 1.0, 3.0]),
)
fig, axes = plt.subplots(2, 2, figsize=(9.5, 8.4), layout="constrained")
for row, (draw, plot, heat, times) in zip(axes, studies, strict=True):
    X, y = draw(100)
    others, classes = draw(3000)
    curved = (heat, {"kernel__t": times})
    for ax, name, (kernel, grid) in zip(row, ("Gaussian", "heat"), (flat, curved), strict=True):
        search = GridSearchCV(SVC(kernel=kernel), {**grid, "C": [1.0, 10.0, 100.0]}, cv=4).fit(X, y)
        view = {} if draw is trinomials else {"xlim": (-5, 5), "ylim": (0, 2.5)}
        plot(search.best_estimator_, X, y, ax=ax, **view)
        ax.set_title(f"{name} kernel: {search.score(others, classes):.1%}")
        print(name, search.best_params_)
plt.show()
