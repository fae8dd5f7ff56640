"""How much a model relies on columns: scores with their values shuffled."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse
from sklearn.inspection import permutation_importance
from sklearn.metrics import check_scoring
from sklearn.utils.validation import check_is_fitted

from mercer._arrays import count
from mercer._validation import check_whole
from mercer.explain.expansion import expansion_of
from mercer.kernels.base import Kernel
from mercer.kernels.tables import frames


class ShuffleRefused(ValueError):
    """Rows with shuffled columns are not points of the model's space, such as rotations."""


def importance(
    model: Any,
    X: Any,
    y: Any,
    *,
    blocks: Mapping[str, Any] | None = None,
    scoring: Any = None,
    n_repeats: int = 5,
    random_state: Any = 0,
) -> pd.DataFrame:
    """Permutation importance of blocks of columns.

    The columns of a block are shuffled together among the rows, which keeps their relation to each
    other and destroys that to the target.  The importance of the block is the loss of score.  Columns
    that carry the same information as another block seem unimportant, because the model still has the
    other.

    Parameters
    ----------
    model : fitted estimator
    X : data frame, array or sparse matrix
        Rows that the model was not fitted to, preferably.
    y : array of shape (m,)
    blocks : dict of columns, optional
        Columns (names, positions, slices, selectors) by the name of the block.  By default the columns
        of each part :class:`~mercer.kernels.On` of the kernel, or else each column on its own.
    scoring : str or callable, optional
        A scorer of scikit-learn; by default the model's own score.
    n_repeats : int
        How often each block is shuffled.
    random_state : int, RandomState or None

    Returns
    -------
    DataFrame
        ``block``, ``importance`` (the mean loss) and ``standard_error`` (of the mean, over shuffles;
        NaN for a single one), the most important first.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from mercer.explain import importance
    >>> from mercer.kernels import Gaussian
    >>> from mercer.machines import SVC
    >>> X, y = load_wine(return_X_y=True, as_frame=True)
    >>> model = SVC(Gaussian(3.0, column_scales="std")).fit(X[::2], y[::2])
    >>> blocks = {"phenols": ["total_phenols", "flavanoids"], "ash": ["ash", "alcalinity_of_ash"]}
    >>> importance(model, X[1::2], y[1::2], blocks=blocks).round(3)
         block  importance  standard_error
    0  phenols       0.067           0.011
    1      ash       0.063           0.008
    """
    check_is_fitted(model)
    check_whole("n_repeats", n_repeats, 1)
    if not (hasattr(X, "shape") and len(X.shape) == 2):
        raise ValueError("importance needs rows with columns: a data frame, an array or a sparse matrix")
    if count(X) != len(y):
        raise ValueError(f"X has {count(X)} rows, but y has {len(y)} targets")
    places = _places(model, X, blocks)
    scorer = check_scoring(model, scoring)

    def shuffled_score(model: Any, numbers: Any, y: Any) -> float:
        """The score of rows whose blocks come from the rows with these indices."""
        rows = _gathered(X, list(places.values()), numbers)
        try:
            return float(scorer(model, rows, y))
        except ValueError as error:
            if rows is X:
                raise
            raise ShuffleRefused(
                f"the model refuses rows with shuffled columns ({error}); give columns that belong "
                "together as one of the blocks"
            ) from error

    # Each block is one column of row numbers to scikit-learn, which shuffles it.
    numbers = np.repeat(np.arange(count(X))[:, None], len(places), axis=1)
    found = permutation_importance(
        model, numbers, y, scoring=shuffled_score, n_repeats=n_repeats, random_state=random_state
    )
    spread = found.importances.std(axis=1, ddof=1) if n_repeats > 1 else np.full(len(places), np.nan)
    frame = pd.DataFrame(
        {
            "block": list(places),
            "importance": found.importances_mean,
            "standard_error": spread / np.sqrt(n_repeats),
        }
    )
    return frame.sort_values("importance", ascending=False, kind="stable", ignore_index=True)


def _places(model: Any, X: Any, blocks: Mapping[str, Any] | None) -> dict[str, list[int]]:
    """Positions of the columns of each block."""
    names = list(X.columns) if frames.is_frame(X) else None
    if blocks is None:
        try:
            kernel = expansion_of(model).kernel
        except TypeError:  # not a sum over training rows
            kernel = None
        blocks = kernel.column_blocks() if isinstance(kernel, Kernel) else {}
    if not blocks:
        return {str(j if names is None else names[j]): [j] for j in range(X.shape[1])}
    found = {}
    for name, columns in blocks.items():
        _, found[str(name)], _ = frames.find(columns, X, "X")
    return found


def _gathered(X: Any, blocks: list[list[int]], numbers: Any) -> Any:
    """The table with the columns of each block from other rows."""
    moved = [(b, n) for b, n in zip(blocks, numbers.T, strict=True) if (n != np.arange(len(n))).any()]
    if not moved:
        return X
    if sparse.issparse(X):
        X, fixed = X.tocsr(), np.ones(X.shape[1])
        fixed[[j for block, _ in moved for j in block]] = 0.0
        found = X @ sparse.diags(fixed)
        for block, rows in moved:
            own = np.zeros(X.shape[1])
            own[block] = 1.0
            found = found + X[rows] @ sparse.diags(own)
        found.eliminate_zeros()
        return found
    if hasattr(X, "with_columns"):  # polars
        names = X.columns
        return X.with_columns(X[names[j]].gather(rows) for block, rows in moved for j in block)
    found = X.copy()
    for block, rows in moved:
        for j in block:
            if frames.is_frame(X):
                found.isetitem(j, X.iloc[rows, j].set_axis(X.index))
            else:
                found[:, j] = X[rows, j]
    return found
