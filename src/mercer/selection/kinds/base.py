"""What a comparison must know about one kind of data."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from mercer.datasets import Table
from mercer.selection.scales import Template
from mercer.spaces import Space

if TYPE_CHECKING:
    from mercer.selection.models import SavedModel

#: Which column plays which part, by the option of the command: ``{"target": "label", "text": "dna"}``.
ColumnRoles = Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class Candidates:
    """Points of one kind, and the families of kernels to compare on them."""

    kind: Kind
    #: What the points were taken as, and what is known about them, in words.
    taken_as: str
    facts: str
    X: Any
    rows: int
    families: dict[str, list[Template]]
    #: Families that make no use of the data's structure, and a word for them and for the others.
    plain: tuple[str, ...]
    plain_word: str
    rich_word: str
    columns: int | None = None
    #: The argument ``space`` that takes points this way, as it is written in Python.
    space: str = ""
    #: What was left out, and why.
    notes: tuple[str, ...] = ()

    @property
    def noun(self) -> str:
        """What several of the points are called."""
        return self.kind.noun


class Kind(ABC):
    """A kind of data: how it is recognised, which kernels compete on it, how it is read and shown.

    To add one, write a subclass and :func:`~mercer.selection.kinds.register` an instance of it.
    """

    #: What the kind is called in files of models, and what several of its points are called.
    name: str
    noun: str
    #: What the points are called in Python, and what a verdict is about.
    variable: str
    #: What a model takes, where it takes no data frame.
    form = "a list of points"
    subject = "Structure"
    #: What plain kernels are there for.
    contrast = "for comparison"
    #: Whether points are rows of numbers.
    vectors = False
    #: Names that the argument ``space`` may have for this kind, or the class that it must be of.
    spaces: tuple[str, ...] = ()
    space_class: str | None = None
    #: Option of the command that names this kind, options that go with it alone, and shared ones.
    option: str | None = None
    own_options: tuple[str, ...] = ()
    shared_options: tuple[str, ...] = ()
    #: Those that name no column, and roles without which no file can be read for a model.
    settings: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()

    @abstractmethod
    def recognises(self, X: Any) -> bool:
        """Tell whether X holds points of this kind; raise where it could be several."""

    def owns(self, space: Space) -> bool:
        """Tell whether the points of a given space are of this kind."""
        return False

    @abstractmethod
    def candidates(self, X: Any, space: Any = "auto") -> Candidates:
        """Check points and choose kernels for them."""

    def families(self, X: Any) -> dict[str, list[Template]]:
        """Families of kernels for a search on points X."""
        return self.candidates(X).families

    @property
    def these(self) -> str:
        """The data, at the end of a sentence."""
        return f"these {self.noun}"

    def labels(self, X: Any, rows: Sequence[int]) -> list[str]:
        """What the report calls points X, which were in these rows of what was given."""
        return [f"row {row}" for row in rows]

    @abstractmethod
    def read(self, path: str | Path, roles: ColumnRoles, model: SavedModel | None = None) -> Table:
        """Read points and targets from a file; for a model, which needs no targets, as it takes them."""

    def from_frame(self, frame: Any, model: SavedModel) -> Any:
        """Take points for a model from a data frame."""
        raise ValueError(f"X must be {self.form}, not a data frame; use SavedModel.read on a file")

    def file_facts(self, table: Table) -> str:
        """What a file tells beside its points."""
        return ""

    def saved_roles(self, roles: ColumnRoles, table: Table) -> ColumnRoles:
        """ColumnRoles that a model needs to read other files."""
        return {name: value for name, value in roles.items() if name not in self.settings}

    def id_column(self, roles: ColumnRoles) -> str:
        """What the column that identifies a point is called among predictions."""
        return "row"


def points_of(X: Any) -> list[Any]:
    """The points of a list, Series or array of them; none for tables of numbers."""
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
    """The first point that is not empty, or else the first; None if there is none."""
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
    """Where the columns of a model are among those of a table."""
    missing = [name for name in model.columns if name not in names]
    if missing:
        raise ValueError(f"{what} has no column {missing[0]!r}, which the model needs")
    extra = [name for name in names if name not in model.columns]
    if extra:
        raise ValueError(f"{what} has a column {extra[0]!r} that the model does not know; remove it")
    places = {name: place for place, name in enumerate(names)}
    return [places[name] for name in model.columns]
