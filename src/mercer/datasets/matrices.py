"""Matrices without column names: NPZ and svmlight files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.datasets import load_svmlight_file

from mercer._npz import Npz
from mercer._repr import listed

#: Largest number of empty rows of a matrix stored by columns; they take no space in its file.
_BLANK = 10**6


def read_svmlight(path: Path) -> tuple[Any, NDArray[Any]]:
    """Rows and labels of an svmlight file; the number of columns is the largest index."""
    try:
        X, y = load_svmlight_file(str(path))
    except OverflowError:
        raise ValueError(f"{path.name} has an index above {2**31 - 1}; renumber its columns") from None
    except ValueError as error:
        raise ValueError(f"{path.name} is not an svmlight file: {error}") from None
    _check_numbers(path, "X", X)
    return X, y


def read_npz(
    path: Path, target: str, group: str | None, labelled: bool
) -> tuple[Any, NDArray[Any] | None, NDArray[Any] | None]:
    """Rows, labels and groups of an NPZ file."""
    with path.open("rb") as file:
        archive = Npz(file)
        held = f"it has {listed(archive.names, 8)}"
        if target not in archive and labelled:
            raise ValueError(
                f"{path.name} has no array {target!r} of labels; {held} (name one with --target)"
            )
        if labelled and group is not None and group not in archive:
            raise ValueError(f"{path.name} has no array {group!r} of groups; {held}")
        if "X" in archive:
            X: Any = archive["X"]
        elif all(name in archive for name in ("data", "indices", "indptr", "shape")):
            X = _sparse(archive)
        else:
            raise ValueError(
                f"{path.name} has neither X nor the parts of a CSR matrix (data, indices, indptr, "
                f"shape); {held}"
            )
        y, groups = archive.get(target), archive.get(group)
    _check_numbers(path, "X", X)
    for name, part in ((target, y), (group, groups)):
        if part is not None and part.shape != X.shape[:1]:
            raise ValueError(
                f"{name!r} in {path.name} has shape {part.shape}, but X has shape {X.shape}"
            )
    return X, y, groups


def _sparse(archive: Npz) -> Any:
    """A CSR matrix from the stored parts of a CSR or CSC matrix."""
    data, indices, indptr = archive["data"], archive["indices"], archive["indptr"]
    shape = archive["shape"]
    kind = str(archive["format"].astype(str)) if "format" in archive else "csr"
    if kind not in ("csr", "csc"):
        raise ValueError(f"it holds a sparse matrix of format {kind!r}; save it as csr")
    if shape.shape != (2,) or any(part.dtype.kind not in "iu" for part in (shape, indices, indptr)):
        raise ValueError("shape, indices and indptr of its sparse matrix must be whole numbers")
    rows, columns = map(int, shape)
    # SciPy would otherwise allocate memory for all these rows.
    if kind == "csc" and rows > data.size + _BLANK:
        raise ValueError(f"its sparse matrix has {rows} rows, but only {data.size} numbers")
    make = sparse.csc_matrix if kind == "csc" else sparse.csr_matrix
    X = make((data, indices, indptr), shape=(rows, columns))
    X.check_format(full_check=True)
    return X.tocsr()


def _check_numbers(path: Path, name: str, X: Any) -> None:
    """Raise for anything but finite real numbers."""
    if X.dtype.kind not in "biuf":
        raise ValueError(f"{name} in {path.name} holds {X.dtype}, not real numbers")
    values = X.data if sparse.issparse(X) else X
    bad = ~np.isfinite(values)
    if bad.any():
        where = np.argwhere(bad)[0]
        if sparse.issparse(X):
            row = int(np.searchsorted(X.indptr, where[0], side="right")) - 1
            column = int(X.indices[where[0]])
        else:
            row, column = int(where[0]), int(where[-1])
        what = "no value" if np.isnan(values[tuple(where)]) else "an infinite value"
        raise ValueError(f"row {row} of {path.name} has {what} in column {column}; drop or impute it")
