"""Models on disk, with what is needed to read tables for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import joblib
import numpy as np
from scipy import sparse

import mercer
from mercer.datasets import Table, read_clouds, read_known_nodes, read_strings, read_table
from mercer.selection.comparison import Comparison


@dataclass(frozen=True, eq=False)
class Roles:
    """Which column of a table plays which part."""

    target: str | None = None
    drop: tuple[str, ...] = ()
    text: str | None = None
    node: str | None = None
    cloud: str | None = None
    weight: str | None = None
    group: str | None = None


@dataclass(frozen=True, eq=False)
class SavedModel:
    """A fitted model, and how the table looked that it was fitted to.

    Attributes
    ----------
    model : estimator
        Pipeline of a :class:`~mercer.features.GramTransformer` and an estimator.
    metric : str
        Name of the metric by which it was chosen.
    roles : Roles
    columns : tuple of str
        Features, or coordinates of clouds, in order; empty where the file had no names.
    nodes : tuple of str
        Names of the nodes of its graph, if it has one.
    version : str
        Of mercer.
    """

    model: Any
    metric: str
    roles: Roles
    columns: tuple[str, ...]
    nodes: tuple[str, ...]
    version: str

    def read(self, path: str | Path) -> Table:
        """Read points from a table like the one that the model was fitted to; a target is not needed."""
        roles = self.roles
        if roles.text is not None:
            return read_strings(path, roles.target, roles.text, labelled=False)
        if self.nodes:
            return read_known_nodes(path, roles.target, str(roles.node), self.nodes)
        if roles.cloud is not None:
            table = read_clouds(
                path, roles.target, roles.cloud, roles.weight, roles.drop, labelled=False
            )
            return self._ordered(table)
        table = read_table(path, roles.target, roles.drop, roles.group, labelled=False)
        return self._ordered(table)

    def _ordered(self, table: Table) -> Table:
        """The table with its columns in the model's order."""
        if not self.columns or not table.columns:
            return _widened(table, self.model)
        missing = [name for name in self.columns if name not in table.columns]
        if missing:
            raise ValueError(f"{table.name} has no column {missing[0]!r}, which the model needs")
        extra = [name for name in table.columns if name not in self.columns]
        if extra:
            raise ValueError(
                f"{table.name} has a column {extra[0]!r} that the model does not know; remove it"
            )
        places = [table.columns.index(name) for name in self.columns]
        return Table(table.name, _take(table.X, places), table.y, columns=self.columns, ids=table.ids)


def save_model(
    path: str | Path, comparison: Comparison, table: Table, roles: Roles | None = None
) -> None:
    """Write the best model of a comparison to a file, by joblib.

    Like every pickle the file runs code when it is loaded: load files only if you trust their makers.
    """
    roles = Roles() if roles is None else roles
    best = comparison.scores[0].search.best_estimator_
    columns = table.columns if not table.nodes else ()
    saved = SavedModel(best, comparison.metric, roles, columns, table.nodes, mercer.__version__)
    joblib.dump(saved, path, compress=3)


def load_model(path: str | Path) -> SavedModel:
    """Read what :func:`save_model` wrote; only from people you trust."""
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}")
    try:
        saved = joblib.load(path)
    except Exception as error:  # a pickle of something else may do and lack anything
        raise ValueError(f"{path.name} cannot be read as a model: {error}") from None
    if not isinstance(saved, SavedModel):
        raise ValueError(f"{path.name} holds no model of `mercer compare --save-model`")
    return saved


def _take(X: Any, places: Sequence[int]) -> Any:
    if not isinstance(X, list):
        return X[:, places]
    return [
        (cloud[0][:, places], cloud[1]) if isinstance(cloud, tuple) else cloud[:, places] for cloud in X
    ]


def _widened(table: Table, model: Any) -> Table:
    """Sparse rows without names: columns beyond the last that occurs are zero."""
    fitted = model[0].X_fit_
    if not sparse.issparse(table.X) or not hasattr(fitted, "shape"):
        return table
    short = int(fitted.shape[1]) - table.X.shape[1]
    if short <= 0:
        return table
    blank = sparse.csr_matrix((table.X.shape[0], short), dtype=np.float64)
    return Table(table.name, sparse.hstack([table.X, blank], format="csr"), table.y)
