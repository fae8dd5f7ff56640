"""The interface of a kind of data."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse
from sklearn.utils import _safe_indexing

from mercer.datasets import Table
from mercer.selection.kinds.columns import LEFT_OUT, Column
from mercer.selection.scales import Template
from mercer.spaces import Space

if TYPE_CHECKING:
    from mercer.selection.models import SavedModel

#: Roles of columns, named after the options of the command: ``{"target": "label", "text": "dna"}``.
ColumnRoles = Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class Candidates:
    """Points of one kind, and the families of kernels to compare on them."""

    kind: Kind
    #: What the points were taken as, and facts about them, in words.
    taken_as: str
    facts: str
    X: Any
    rows: int
    families: dict[str, list[Template]]
    #: Families that do not use the structure of the data, and words for them and for the others.
    plain: tuple[str, ...]
    plain_word: str
    rich_word: str
    columns: int | None = None
    #: The argument ``space`` that takes points this way, as Python code.
    space: str = ""
    #: What was left out, and why.
    notes: tuple[str, ...] = ()
    #: Subject of a verdict and purpose of the plain kernels, where they are not those of the kind.
    subject: str = ""
    contrast: str = ""
    #: What each column of a table of several kinds was taken for.
    taken: tuple[Column, ...] = ()
    #: Rows on which parameters are chosen, if that takes too long on all.
    max_rows: int | None = None

    @property
    def noun(self) -> str:
        """Name of the points, in the plural."""
        return self.kind.noun

    def of_rows(self, rows: Any) -> Candidates:
        """The same kernels on some of the points."""
        return replace(self, X=_safe_indexing(self.X, rows), rows=len(rows))

    @property
    def used(self) -> list[Column]:
        """Columns that are not left out."""
        return [column for column in self.taken if column.kind not in LEFT_OUT]


class Kind(ABC):
    """A kind of data: how to recognise it, which kernels to compare on it, how to read and show it.

    To add one, write a subclass and :func:`~mercer.selection.kinds.register` an instance of it.
    """

    #: Name of the kind in model files, and of its points in the plural.
    name: str
    noun: str
    #: Name of the points in Python code, and the subject of a verdict.
    variable: str
    subject = "Structure"
    #: What a model takes, if it takes no data frame.
    form = "a list of points"
    #: Purpose of the plain kernels, in the report.
    contrast = "for comparison"
    #: Whether points are rows of numbers.
    vectors = False
    #: Whether points without a target say something about the others.
    transductive = False
    #: Values of the argument ``space`` for this kind, or the class that it must have.
    spaces: tuple[str, ...] = ()
    space_class: str | None = None
    #: Option of the command that names this kind, options for it alone, and options shared with others.
    option: str | None = None
    own_options: tuple[str, ...] = ()
    shared_options: tuple[str, ...] = ()
    #: Options that do not name a column, and roles that a model needs to read files.
    settings: tuple[str, ...] = ()
    #: The function of :mod:`mercer.datasets` that reads a file, and the roles that it takes.
    reader = "read_table"
    reader_roles: tuple[str, ...] = ("target", "drop", "groups")
    needs: tuple[str, ...] = ()

    @abstractmethod
    def recognises(self, X: Any) -> bool:
        """Whether X holds points of this kind; raise if that is ambiguous."""

    def owns(self, space: Space) -> bool:
        """Whether the points of a given space are of this kind."""
        return False

    @abstractmethod
    def candidates(self, X: Any, space: Any = "auto") -> Candidates:
        """Check points and choose kernels for them."""

    def families(self, X: Any) -> dict[str, list[Template]]:
        """Families of kernels for a search on points X."""
        return self.candidates(X).families

    @property
    def these(self) -> str:
        """The data as the end of a sentence."""
        return f"these {self.noun}"

    def labels(self, X: Any, rows: Sequence[int]) -> list[str]:
        """Names of points X in the report; rows are their positions in the data."""
        return [f"row {row}" for row in rows]

    @abstractmethod
    def read(self, path: str | Path, roles: ColumnRoles, model: SavedModel | None = None) -> Table:
        """Read points and targets from a file; for a model, as it takes them and without targets."""

    def reading(self, path: str | Path, roles: ColumnRoles) -> str:
        """Python code that reads such a file, by a function of :mod:`mercer.datasets`."""
        options = [str(path)] + [roles[role] for role in self.reader_roles if role in roles]
        names = ["", *(f"{role}=" for role in self.reader_roles if role in roles)]
        plain = [str(value) if isinstance(value, Path) else value for value in options]
        arguments = ", ".join(f"{name}{value!r}" for name, value in zip(names, plain, strict=True))
        return f"{self.reader}({arguments.replace('groups=', 'group=')})"

    def from_frame(self, frame: Any, model: SavedModel) -> Any:
        """Points for a model, from a data frame."""
        raise ValueError(f"X must be {self.form}, not a data frame; use SavedModel.read on a file")

    def file_facts(self, table: Table) -> str:
        """Facts that only the file has, such as names of coordinates."""
        return ""

    def saved_roles(self, roles: ColumnRoles, table: Table) -> ColumnRoles:
        """Roles that a model needs to read other files."""
        return {name: value for name, value in roles.items() if name not in self.settings}

    def id_column(self, roles: ColumnRoles) -> str:
        """Name of the column that identifies points among predictions."""
        return "row"


def points_of(X: Any) -> list[Any]:
    """Points of a list, Series or array as a list; empty for tables of numbers."""
    if sparse.issparse(X) or isinstance(X, str | bytes) or not hasattr(X, "__len__"):
        return []
    if hasattr(X, "to_numpy"):
        X = X.to_numpy()
    if isinstance(X, np.ndarray) and X.ndim == 2:
        text = X.shape[1] == 1 and len(X) > 0 and isinstance(X[0, 0], str | bytes)
        return X[:, 0].tolist() if text else []
    try:
        return list(X)
    except TypeError:
        return []


def first_of(points: list[Any]) -> Any:
    """The first point that is not empty, else the first; None if there are no points."""
    return next((point for point in points if not _empty(point)), points[0] if points else None)


def depth(point: Any) -> int:
    """0 for a single value, 1 for a row, 2 for rows of rows."""
    if isinstance(point, str | bytes):
        return 0
    if hasattr(point, "ndim"):
        return int(point.ndim)
    if not isinstance(point, list | tuple):
        return 0
    return 1 + (depth(point[0]) if point else 0)


def _empty(point: Any) -> bool:
    return (
        point.size == 0
        if isinstance(point, np.ndarray)
        else isinstance(point, list | tuple) and not point
    )


def positions(what: str, names: Sequence[str], model: SavedModel) -> list[int]:
    """Positions of a model's columns among those of a table."""
    missing = [name for name in model.columns if name not in names]
    if missing:
        raise ValueError(f"{what} has no column {missing[0]!r}, which the model needs")
    extra = [name for name in names if name not in model.columns]
    if extra:
        raise ValueError(f"{what} has a column {extra[0]!r} that the model does not know; remove it")
    places = {name: place for place, name in enumerate(names)}
    return [places[name] for name in model.columns]
