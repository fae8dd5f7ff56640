"""What a space is: where points live, how rows are checked, and what one number says of a pair."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from typing import Any, Self

import numpy as np
from scipy import sparse

from mercer._arrays import finite_rows
from mercer._validation import as_rows, refuse_rows
from mercer.profiles import Separation

#: Longest array that is shown in full where a constructor's arguments are.
_SHOWN = 8


class Space(ABC):
    """A set of points with a geometry; frozen, hashable, and shared rather than copied."""

    def __repr__(self) -> str:
        return constructor_call(self)

    def __sklearn_clone__(self) -> Self:
        # Spaces are immutable and may hold large decompositions: clones of a kernel share them.
        return self

    @abstractmethod
    def check(self, X: Any, name: str = "X") -> Any:
        """Validate points and return them in the form that the space computes with.

        This is the one place where input is checked.  Errors name the row and say what to do.
        """


class RowSpace(Space):
    """A space of rows of numbers; a subclass says which rows are points (:meth:`_check_rows`)."""

    #: Number of columns, or None to take it from the data.
    n: int | None
    #: Fewest columns that make sense.
    least_dimension = 1

    @abstractmethod
    def _check_rows(self, X: Any, name: str) -> None:
        """Raise for rows of finite numbers that are no points of the space."""

    def check(self, X: Any, name: str = "X") -> Any:
        """Validate rows and return them as a floating array (dense or CSR).

        Parameters
        ----------
        X : array-like, sparse matrix, data frame or array-API array of shape (m, n)
            One row per point.
        name : str
            What to call it in messages.

        Returns
        -------
        array of shape (m, n), float32 or float64
        """
        X = as_rows(X, name)
        self._check_dimension(int(X.shape[1]), name)
        refuse_rows(~finite_rows(X), name, "contains NaN or infinity; drop or impute such rows")
        self._check_rows(X, name)
        return X

    def _check_dimension(self, columns: int, name: str) -> None:
        space = type(self).__name__
        if self.n is not None and columns != self.n:
            raise ValueError(f"{name} has {columns} columns, but {self!r} has dimension {self.n}")
        if columns < self.least_dimension:
            raise ValueError(
                f"{name} has n_features = {columns}; {space} needs at least {self.least_dimension}"
            )


class RadialSpace(RowSpace):
    """A space of rows of numbers where one number says how far apart two points are.

    A subclass says how checked rows become matrices L and R whose product ``L @ R.T`` is the
    *invariant* of every pair, the one number that radial kernels are functions of (:meth:`embed`).
    """

    @property
    @abstractmethod
    def separation(self) -> Separation:
        """How profiles read the separation of two points off the invariant."""

    @abstractmethod
    def embed(self, X: Any, Y: Any = None) -> tuple[Any, Any]:
        """Map checked rows to (L, R) with ``invariant = L @ R.T``; R is L where that is possible."""

    @abstractmethod
    def self_invariant(self, X: Any) -> Any:
        """Invariant of each row with itself, exactly."""


def constructor_call(thing: Any) -> str:
    """The call that makes such a thing, without arguments left at their defaults."""
    shown = []
    for parameter in inspect.signature(type(thing)).parameters.values():
        value = getattr(thing, parameter.name)
        text = repr(float(value)) if isinstance(value, np.floating) else repr(value)
        stored = isinstance(value, np.ndarray) or sparse.issparse(value)
        if stored and (value.size > _SHOWN or sparse.issparse(value)):
            text = f"<{value.size} numbers>"
        text = getattr(value, "__name__", text) if callable(value) else text
        if parameter.default is inspect.Parameter.empty:
            shown.append(text)
        elif text != repr(parameter.default):
            shown.append(f"{parameter.name}={text}")
    return f"{type(thing).__name__}({', '.join(shown)})"
