"""Balanced classes: the points that k-means chooses most often."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import _safe_indexing
from sklearn.utils.multiclass import check_classification_targets

from mercer._arrays import count, on_cpu
from mercer._threads import run
from mercer._validation import check_whole
from mercer.kernels.base import Kernel
from mercer.kernels.euclidean import Linear

#: Iterations of one run of k-means.
MAX_ITER = 300
#: Largest class: its Gram matrix takes 8 bytes for each pair of points.
MOST_POINTS = 20_000
#: Squared distances of equal points, relative to the largest point.
_ROUNDING = 1e-14


def representatives(
    X: Any,
    y: Any,
    per_class: int,
    n_init: int = 50,
    random_state: int = 0,
    *,
    kernel: Kernel | None = None,
) -> NDArray[np.intp]:
    """Choose the same number of typical points from every class.

    In each class, k-means with ``per_class`` clusters is run ``n_init`` times from random starts.
    Each run selects the point nearest to the centre of every cluster.  The points selected most often
    are the representatives.  Ties are broken at random, both within a cluster and among points selected
    equally often, so that the order of X does not matter.

    The Gram matrix of a class is computed once for all runs: one iteration costs a sum over the rows
    that changed their cluster, independent of the number of columns.  Memory is ``8 m^2`` bytes for
    the largest class.  Results do not depend on the number of threads.

    Parameters
    ----------
    X : points
        Rows of numbers, dense or sparse; with a ``kernel`` for them also strings, nodes or clouds.
    y : array of shape (m,)
        Class labels.
    per_class : int
        At most the size of the smallest class.  A class of exactly that size is taken whole.
    n_init : int
        Runs of k-means.
    random_state : int
        Seed of the starts and of the draws among ties.
    kernel : Kernel, optional
        Run k-means in the feature space of this kernel instead of the space of the rows.

    Returns
    -------
    array of shape (classes * per_class,)
        Row numbers, ascending.

    References
    ----------
    .. [1] C. Zhao, J. S. Song, "Exact heat kernel on a hypersphere and its applications in kernel
       SVM", Frontiers in Applied Mathematics and Statistics 4, 2018, supplement S1.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.selection import representatives
    >>> X = np.array([[0.0], [0.1], [0.3], [5.0], [5.1], [5.3], [1.0], [2.0]])
    >>> representatives(X, ["a"] * 6 + ["b"] * 2, per_class=2)
    array([1, 4, 6, 7])
    """
    y = np.asarray(on_cpu(y))
    if y.ndim != 1 or len(y) != count(X):
        raise ValueError(
            f"X has {count(X)} points, y has shape {y.shape}; give one label for each point"
        )
    check_classification_targets(y)
    check_whole("per_class", per_class, 1)
    check_whole("n_init", n_init, 1)
    labels, classes = np.unique(y, return_inverse=True)
    _check_sizes(labels, np.bincount(classes), per_class)
    chosen = []
    for number, stream in enumerate(np.random.default_rng(random_state).spawn(len(labels))):
        members = np.flatnonzero(classes == number)
        points = X.tocsr() if hasattr(X, "tocsr") else X
        picked = _typical(points, members, per_class, n_init, stream, kernel or Linear())
        chosen.append(members[picked])
    return np.sort(np.concatenate(chosen))


def _check_sizes(labels: NDArray[Any], sizes: NDArray[np.intp], per_class: int) -> None:
    for label, size in zip(labels, sizes, strict=True):
        if size < per_class:
            raise ValueError(
                f"class {label.item()!r} has {size} points, fewer than per_class={per_class}; "
                f"take at most {sizes.min()} of each class, or drop small classes"
            )
        if size > MOST_POINTS and size > per_class:
            raise ValueError(
                f"class {label.item()!r} has {size} points, but a Gram matrix of more than "
                f"{MOST_POINTS} is too large; draw a random part of the class first"
            )


def _typical(
    X: Any,
    members: NDArray[np.intp],
    number: int,
    n_init: int,
    stream: np.random.Generator,
    kernel: Kernel,
) -> NDArray[np.intp]:
    """The members of one class that are nearest to a centre most often."""
    starts = stream.random((n_init, number, 2 + int(np.log(number))))
    lots = np.argsort(stream.random((n_init + 1, len(members))), axis=1)
    if len(members) == number:
        return np.arange(number)
    points = _safe_indexing(X, members)
    if getattr(points, "dtype", None) == np.float32:
        points = points.astype(np.float64)
    K = np.asarray(on_cpu(kernel(points)), dtype=float)
    rounding = _ROUNDING * K.diagonal().max()  # of squared distances, before the scale is centred away
    K = _centred(K)
    named = np.zeros((n_init, len(members)), dtype=bool)
    tasks = [(K, rounding, starts[i], lots[i], named[i]) for i in range(n_init)]
    run(_one_run, tasks, what="k-means")
    return np.lexsort((lots[-1], -named.sum(axis=0)))[:number]


def _one_run(
    K: NDArray[np.float64],
    rounding: float,
    uniforms: NDArray[np.float64],
    order: NDArray[np.intp],
    named: NDArray[np.bool_],
) -> None:
    """Mark the points that one run of k-means selects."""
    from mercer.compiled.kmeans import cluster, nearest_rows, seed_centres

    _, sums, sizes = cluster(K, seed_centres(K, uniforms, rounding), MAX_ITER)
    nearest = nearest_rows(K, sums, sizes, order)
    named[nearest[nearest >= 0]] = True


def _centred(K: NDArray[np.float64]) -> NDArray[np.float64]:
    """Centred Gram matrix, which is accurate even if the points are far from the origin."""
    means = K.mean(axis=0)
    K -= means
    K -= (means - means.mean())[:, None]
    return K
