"""Tables: rows of numbers, taken as counts or as directions."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from scipy import sparse

from mercer.datasets import Table, read_table
from mercer.kernels import Cosine, Gaussian, Heat, Linear, Parametrix, TfIdf
from mercer.kernels.tables.frames import is_frame
from mercer.selection.kinds.base import (
    Candidates,
    ColumnRoles,
    Kind,
    depth,
    first_of,
    points_of,
    positions,
)
from mercer.selection.scales import SIMILARITIES, Template
from mercer.spaces import Euclidean, Simplex, Sphere

if TYPE_CHECKING:
    from mercer.selection.models import SavedModel

#: What rows may be taken as, and the space for it, by the name of the space.
_GEOMETRIES = {"simplex": ("counts", Simplex()), "sphere": ("directions", Sphere())}


class Rows(Kind):
    """Rows of numbers: points of the simplex if none is negative, else of the sphere."""

    name, noun, variable = "table", "rows", "X"
    subject, these = "Geometry", "this table"
    contrast = "which see the rows as they are"
    vectors = True
    spaces = tuple(_GEOMETRIES)
    own_options = settings = ("space",)
    shared_options = ("drop", "groups")

    def recognises(self, X: Any) -> bool:
        """Take what no other kind recognised; refuse single values, which could be nodes."""
        if isinstance(X, str | bytes) or (hasattr(X, "columns") and not is_frame(X)):
            raise ValueError(
                f"X is a {type(X).__name__}; give a data frame, such as X.to_pandas() or X.collect(), "
                "or an array"
            )
        rows = points_of(X)
        if rows and depth(first_of(rows)) == 0:
            raise ValueError(
                f"row 0 of X is the single value {rows[0]!r}: for nodes of a graph give "
                "space=Graph(...), for a table an array of shape (m, n)"
            )
        return True

    def candidates(self, X: Any, space: Any = "auto") -> Candidates:
        chosen = ("sphere" if _signed(X) else "simplex") if space == "auto" else space
        taken_as, geometry = _GEOMETRIES[chosen]
        X = geometry.check(X)
        families = flat_families()
        if chosen == "simplex" and _whole(X):
            families["tf-idf"] = [Template(TfIdf()), Template(TfIdf(sublinear=True))]
        plain = tuple(families)
        families |= {
            "cosine": [Template(Cosine(geometry))],
            "parametrix": [Template(Parametrix(geometry), SIMILARITIES)],
            "exact heat": [Template(Heat(geometry), SIMILARITIES)],
        }
        return Candidates(
            self, taken_as, f"{X.shape[1]} columns", X, X.shape[0], families, plain, "flat",
            "geometric", columns=X.shape[1], space=f'"{chosen}"',
        )  # fmt: skip

    def families(self, X: Any) -> dict[str, list[Template]]:
        """Families for a search, without kernels of counts or directions if a row is neither."""
        try:
            return super().families(X)
        except ValueError as error:
            Euclidean().check(X)  # refuses what is not a table of numbers
            warnings.warn(f"kernels of directions and counts are left out: {error}", stacklevel=5)
            return flat_families()

    def read(self, path: str | Path, roles: ColumnRoles, model: SavedModel | None = None) -> Table:
        """Read rows; for a model, with the columns in its order."""
        drop, labelled = roles.get("drop", ()), model is None
        table = read_table(path, roles.get("target"), drop, roles.get("groups"), labelled=labelled)
        if model is None:
            return table
        if not model.columns or not table.columns:
            return _widened(table, model)
        X = table.X[:, positions(table.name, table.columns, model)]
        return replace(table, X=_named(X, model), columns=model.columns, groups=None)

    def from_frame(self, frame: Any, model: SavedModel) -> Any:
        """The model's columns; those of the target, of groups and dropped ones are ignored."""
        roles = model.roles
        ignored = {roles.get("target"), roles.get("groups"), *roles.get("drop", ())} - set(model.columns)
        own = [name for name in frame.columns if name not in ignored]
        twice = [name for name in own if own.count(name) > 1] if len(set(own)) < len(own) else []
        if twice:
            raise ValueError(f"X has the column {twice[0]!r} more than once; keep one of them")
        if not model.columns:
            return frame.to_numpy()
        return _named(frame[own].to_numpy()[:, positions("X", own, model)], model)


def flat_families() -> dict[str, list[Template]]:
    """Families of kernels that see the rows of a table as they are."""
    return {
        "linear": [Template(Linear())],
        "Gaussian": [Template(Gaussian(), SIMILARITIES)],
        "standardised Gaussian": [Template(Gaussian(column_scales="std"), SIMILARITIES)],
    }


def _signed(X: Any) -> bool:
    """Whether an entry is negative."""
    values = X.data if sparse.issparse(X) else np.asarray(X)
    if values.dtype.kind == "O":
        values = values.astype(float)
    return values.dtype.kind in "fiub" and bool(np.asarray(values < 0).any())


def _whole(X: Any) -> bool:
    """Whether all entries are whole numbers, as counts are."""
    values = X.data if sparse.issparse(X) else X
    return bool(np.all(values == np.floor(values)))


def _named(X: Any, model: SavedModel) -> Any:
    """Rows with the names of the columns, for a model that was fitted to a data frame."""
    if not hasattr(model.model, "feature_names_in_") or sparse.issparse(X):
        return X
    return pd.DataFrame(X, columns=list(model.columns))


def _widened(table: Table, model: SavedModel) -> Table:
    """Sparse rows without names, with zero columns beyond the last that occurs."""
    if not sparse.issparse(table.X):
        return table
    short = model.n_features_in_ - table.X.shape[1]
    if short <= 0:
        return table
    blank = sparse.csr_matrix((table.X.shape[0], short), dtype=np.float64)
    return Table(table.name, sparse.hstack([table.X, blank], format="csr"), table.y)
