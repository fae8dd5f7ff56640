"""From rows to points: tables become directions, by the means and deviations of their columns."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from array_api_compat import array_namespace
from numpy.typing import NDArray
from scipy import sparse

from mercer._arrays import filled, placed, row_lengths, unit_rows
from mercer.spaces import Space

Array = NDArray[np.float64]

#: Fewest and most rows that distinguish tables from directions, and the variation of lengths in
#: tables.
_FEWEST, _LOOKS, _TABLE = 30, 500, 0.75
#: Distance of the quartiles of the normal distribution, in standard deviations.
_QUARTILES = 1.349
#: Variance of the logarithm of lengths that is nothing but rounding.
_ROUNDING = 1e-12


@dataclass(frozen=True, eq=False)
class InputMap:
    """A map from rows to points of a sphere.

    Columns of a table are centred and scaled, and a constant one is appended: ``z = ((x - m) / s,
    b)``, a point in the direction ``z / |z|``.  Otherwise rows are already points of a space, and m is
    None.
    """

    space: Any
    bias: float = 0.0
    mean: Array | None = None
    scale: Array | None = None

    def stretched(self, factors: Array) -> InputMap:
        """The same with standardised columns multiplied by factors."""
        assert self.scale is not None
        return replace(self, scale=self.scale / factors)

    @property
    def is_table(self) -> bool:
        """Whether columns are standardised."""
        return self.mean is not None

    @property
    def constant_columns(self) -> list[int]:
        """Indices of columns of a table that are ignored because they are constant."""
        return [] if self.scale is None else np.flatnonzero(np.isinf(self.scale)).tolist()

    def rows(self, X: Any) -> Any:
        """Rows as the kernel takes them."""
        if self.mean is None:
            return X
        X = X.toarray() if sparse.issparse(X) else X
        out = filled((len(X), X.shape[1] + 1), self.bias, X)
        array_namespace(X).subtract(X, placed(self.mean, X), out=out[:, :-1])
        out[:, :-1] /= placed(self.scale, X)
        return out

    def dimension(self, columns: int) -> int:
        """Dimension of the space around the sphere."""
        return columns + 1 if self.is_table else int(self.space.fixed_columns(columns))


def reads_table(space: Space, inputs: str) -> bool:
    """Whether rows are those of a table, to be standardised, rather than points of the space."""
    if inputs not in ("auto", "table", "points"):
        raise ValueError(f"inputs must be 'auto', 'table' or 'points', got {inputs!r}")
    if inputs == "table" and space.of_table() is None:
        raise ValueError(f"inputs='table' centres columns: use Sphere() in place of {space!r}")
    return inputs == "table" or (inputs == "auto" and space.directions() != space)


def looks_like_table(X: Any) -> bool:
    """Whether the lengths of rows vary about as much as their directions, or more.

    The criterion is ``(n - 1) v / (n s)``, where v is the variance of the logarithms of lengths (by
    their quartiles, so that single rows do not matter) and s the part of unit vectors off their main
    axis, ``1 - 1 / n`` if they are isotropic.  It is 0 for rows of equal length, 0.34 for normal rows
    of two columns, 0.21 of three and 0.05 of ten; 0.94 for scikit-learn's iris, 1.2 for its diabetes
    in their own units, and above 40 for wine and breast cancer, where one column makes up nearly all
    of the length.  Standardised columns cannot be distinguished from directions.
    """
    if sparse.issparse(X):  # counts of words, as a rule
        return False
    lengths = row_lengths(X)
    X, lengths = X[lengths > 0], lengths[lengths > 0]  # others are refused later, by name
    if len(X) < _FEWEST:
        return False
    some = slice(None, None, -(-len(X) // _LOOKS))
    low, high = np.quantile(np.log(lengths[some]), [0.25, 0.75])
    points = unit_rows(X[some])
    axis = np.linalg.eigvalsh(points @ points.T)[-1] / len(points)
    spread = (1 - axis) * X.shape[1] / (X.shape[1] - 1)
    return bool(((high - low) / _QUARTILES) ** 2 > _TABLE * spread + _ROUNDING)
