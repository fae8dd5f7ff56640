"""Reading tables of features with a target column."""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.datasets import load_digits

from mercer._arrow import read_arrow
from mercer._files import readable
from mercer._repr import listed
from mercer.datasets.matrices import read_npz, read_svmlight
from mercer.spaces import Graph

#: File endings by format; a final .gz is ignored.
_TEXT = {".csv": ",", ".tsv": "\t", ".tab": "\t"}
_ARROW = {".parquet", ".feather"}
_SVMLIGHT = {".svm", ".svmlight", ".libsvm"}


@dataclass(frozen=True, eq=False)
class Table:
    """Points (rows of features, strings, nodes or clouds) and their targets."""

    name: str
    X: Any
    #: Labels or numbers, None or NaN where missing; None if the file has no target.
    y: np.ndarray | None
    #: The graph of the nodes in X, if they are nodes, and the names of all its nodes.
    graph: Graph | None = None
    nodes: tuple[str, ...] = ()
    #: Names of the features (of word counts, the words), or of the coordinates of clouds.
    columns: tuple[str, ...] = ()
    #: Names of the points (nodes, clouds, docstrings); rows of files have none.
    ids: tuple[Any, ...] = ()
    #: Group of each point; groups must not be split between training and test data.
    groups: np.ndarray | None = None


def digits() -> Table:
    """Scikit-learn's handwritten digits: 1797 rows of 64 ink counts, ten classes."""
    data = load_digits()
    return Table("digits (scikit-learn)", data.data, data.target)


def read_table(
    path: str | Path,
    target: str | None = None,
    drop: Sequence[str] = (),
    group: str | None = None,
    *,
    labelled: bool = True,
) -> Table:
    r"""Read a CSV, TSV, Parquet, Feather, NPZ or svmlight file.

    Parameters
    ----------
    path : str or Path
        Text files may be gzipped.  An NPZ file contains the target and ``X``, or a CSR matrix as
        ``data``, ``indices``, ``indptr`` and ``shape``, as written by :func:`scipy.sparse.save_npz`.
    target : str, optional
        Column (or NPZ array) of labels; by default ``y`` for NPZ files.  Not used for svmlight files,
        which contain their labels.
    drop : sequence of str
        Columns of a text, Parquet or Feather file to leave out.
    group : str, optional
        Column (or NPZ array) of the groups of rows.
    labelled : bool
        Whether a target is required.

    Returns
    -------
    Table

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from mercer.datasets import read_table
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "counts.csv")
    ...     _ = path.write_text("red,blue,label\n3,0,a\n1,4,b\n")
    ...     table = read_table(path, target="label")
    >>> table.columns, table.X.tolist(), table.y.tolist()
    (('red', 'blue'), [[3.0, 0.0], [1.0, 4.0]], ['a', 'b'])
    """
    path = Path(path)
    _check_file(path)
    ending = _ending(path)
    with readable(path):
        if ending in _TEXT or ending in _ARROW:
            table = read_mixed(path, target, drop, group, labelled=labelled)
            table = replace(table, X=numbers_of(path, table.X))
        elif ending == ".npz":
            X, y, groups = read_npz(path, target or "y", group, labelled)
            table = Table(path.name, X, y, groups=groups)
        elif ending not in _SVMLIGHT:
            raise ValueError(
                f"{path.name} has an unknown format; known are .csv, .tsv, .parquet, .feather, .npz, "
                ".svmlight"
            )
        elif group is not None:
            raise ValueError(f"{path.name} is an svmlight file and has no column {group!r} of groups")
        else:
            table = Table(path.name, *read_svmlight(path))
    if table.X.ndim != 2 or table.X.shape[0] == 0:
        raise ValueError(f"{path.name} has no rows: its table has shape {table.X.shape}")
    return table


def has_columns(path: str | Path) -> bool:
    """Whether a file, judged by its name, has columns of any type, like CSV and Parquet files."""
    return _ending(Path(path)) in {*_TEXT, *_ARROW}


def _check_file(path: Path) -> None:
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder; name a file in it")
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}")


def _ending(path: Path) -> str:
    suffixes = [s.lower() for s in path.suffixes]
    return next((s for s in reversed(suffixes) if s != ".gz"), "")


def _read_text(path: Path, separator: str, as_text: bool) -> Any:
    options: dict[str, Any] = {"dtype": str, "keep_default_na": False} if as_text else {}
    try:
        with warnings.catch_warnings():
            # Rows longer than the header would lose their last cells.
            warnings.simplefilter("error", pd.errors.ParserWarning)
            frame = pd.read_csv(path, sep=separator, index_col=False, **options)
        frame.columns = _as_written(path, separator, frame)
    except UnicodeDecodeError:
        raise ValueError(f"{path.name} is not encoded in UTF-8; save it in that encoding") from None
    except pd.errors.ParserWarning:
        _refuse_other_marks(path, separator, pd.read_csv(path, sep=separator, nrows=0))
        raise ValueError(
            f"{path.name} has rows with more cells than its header, perhaps row names; name all columns"
        ) from None
    except (pd.errors.ParserError, pd.errors.EmptyDataError) as error:
        raise ValueError(f"{path.name} cannot be read as a table: {error}") from None
    _refuse_other_marks(path, separator, frame)
    return frame


def _refuse_other_marks(path: Path, separator: str, frame: Any) -> None:
    """Raise if the only name in the header holds a mark that separates columns elsewhere."""
    if frame.shape[1] == 1:
        found = next((mark for mark in ";\t|," if mark in frame.columns[0]), None)
        if found is not None:
            raise ValueError(
                f"{path.name} seems to separate its columns by {found!r}; write it with {separator!r} "
                "(and decimal points)"
            )


def _as_written(path: Path, separator: str, frame: Any) -> list[str]:
    """Names of the columns as in the file, where pandas would rename duplicates."""
    names = [str(name) for name in frame.columns]
    bases = {name: re.sub(r"\.\d+$", "", name) for name in names}
    known = set(names)
    if not any(base != name and base in known for name, base in bases.items()):
        return names
    header = pd.read_csv(path, sep=separator, header=None, nrows=1, dtype=str, keep_default_na=False)
    return [
        base if base == written else name
        for (name, base), written in zip(bases.items(), header.iloc[0].tolist(), strict=True)
    ]


def read_frame(path: Path, as_text: bool = False, keep_bytes: str | None = None) -> Any:
    """Read a text, Parquet or Feather file with at least one row; errors name the file.

    With ``as_text`` all values are strings as written in the file: 007 is not 7, and NA is not a missing
    value.  Bytes of a Parquet file are decoded, except in the column ``keep_bytes``.
    """
    _check_file(path)
    ending = _ending(path)
    with readable(path):
        if ending in _TEXT:
            frame = _read_text(path, _TEXT[ending], as_text)
        elif ending in _ARROW:
            frame = read_arrow(path, ending)
        else:
            raise ValueError(
                f"{path.name} has an unknown format; known are .csv, .tsv, .parquet and .feather"
            )
        frame.columns = [str(c) for c in frame.columns]
        if len(frame) == 0:
            raise ValueError(f"{path.name} has a header but no rows")
        if as_text:
            for i, name in enumerate(frame.columns):
                frame.isetitem(i, _text_of(path, frame.iloc[:, i], keep_bytes=name == keep_bytes))
    return frame


def _text_of(path: Path, column: Any, keep_bytes: bool) -> Any:
    """A column as strings or bytes; None for missing values."""
    values = column.to_list()
    for row, missing in enumerate(column.isna()):
        value = None if missing else values[row]
        if isinstance(value, bytes) and not keep_bytes:
            try:
                value = value.decode()
            except UnicodeDecodeError:
                raise ValueError(
                    f"{line_of(row)} of {path.name} has bytes in {column.name!r} that are not text"
                ) from None
        if value is not None and not isinstance(value, str | bytes):
            value = str(value)
        values[row] = value or None
    return np.array([*values, None], dtype=object)[:-1]


def line_of(row: int) -> str:
    """Position of a row in the file."""
    return f"row {row} (line {row + 2})"


def check_column(path: Path, frame: Any, name: str) -> str:
    """Return the name of a column; raise unless the frame has exactly one column of that name."""
    if name not in frame.columns:
        close = get_close_matches(name, frame.columns, n=1)
        hint = f"did you mean {close[0]!r}?" if close else _known(frame)
        raise ValueError(f"{path.name} has no column {name!r}; {hint}")
    refuse_twice(path, frame[[name]])
    return name


def refuse_twice(path: Path, frame: Any) -> None:
    """Raise for two columns of the same name."""
    twice = frame.columns[frame.columns.duplicated()]
    if len(twice):
        raise ValueError(f"{path.name} has two columns named {twice[0]!r}; rename one of them")


def labels_of(path: Path, frame: Any, target: str | None, labelled: bool) -> np.ndarray | None:
    """The target column, None or NaN where it is empty; None if it is missing and not required."""
    if not labelled and (target is None or target not in frame.columns):
        return None
    if target is None:
        raise ValueError(
            f"which column of {path.name} is the target? Name it (--target); {_known(frame)}"
        )
    column = _single_values(path, frame[check_column(path, frame, target)])
    return _numbers_where_written(column).to_numpy()


def groups_of(path: Path, frame: Any, group: str | None, labelled: bool) -> np.ndarray | None:
    """The column of groups, without missing values; None if there is none."""
    if group is None or (not labelled and group not in frame.columns):
        return None
    column = _single_values(path, frame[check_column(path, frame, group)])
    refuse_missing(path, column, "name the group of every row")
    return column.to_numpy()


def _single_values(path: Path, column: Any) -> Any:
    """Return a column; raise if it contains lists, as Arrow files can."""
    if column.dtype == object and not column.map(pd.api.types.is_scalar).all():
        raise ValueError(f"column {column.name!r} of {path.name} holds lists, not labels; name another")
    return column


def _numbers_where_written(column: Any) -> Any:
    """Convert text to numbers if all of it is numeric and distinct strings are distinct numbers."""
    if column.dtype != object:
        return column
    numbers = pd.to_numeric(column, errors="coerce")
    complete = bool((numbers.notna() | column.isna()).all()) and bool(column.notna().any())
    return numbers if complete and numbers.nunique() == column.nunique() else column


def refuse_missing(path: Path, column: Any, advice: str) -> None:
    """Raise for missing values; the message names the first row without a value."""
    if column.isna().any():
        row = int(np.flatnonzero(column.isna())[0])
        raise ValueError(f"{line_of(row)} of {path.name} has no {column.name!r}; {advice}")


def numbers_of(path: Path, features: Any) -> np.ndarray:
    """All columns as an array of finite numbers."""
    text = list(features.select_dtypes(exclude=["number", "bool"]).columns)
    text += list(features.select_dtypes(include=["timedelta"]).columns)
    if text:
        raise ValueError(
            f"{path.name} has columns that are not numbers: {listed(text)}; remove or encode them "
            "(mercer compare: --drop COLUMN), or compare one of them as strings (--text COLUMN)"
        )
    X: np.ndarray = features.to_numpy(dtype=float)
    if not np.isfinite(X).all():
        row, column = np.argwhere(~np.isfinite(X))[0]
        what = "no value" if np.isnan(X[row, column]) else "an infinite value"
        raise ValueError(
            f"{line_of(row)} of {path.name} has {what} in column "
            f"{features.columns[column]!r}; drop or impute it"
        )
    return X


def refuse_unnamed(path: Path, frame: Any) -> None:
    """Raise for columns without a name, which are rarely data."""
    if any(c.startswith("Unnamed: ") for c in frame.columns):
        raise ValueError(
            f"{path.name} has a column without a name, perhaps a row index; "
            "remove it (mercer compare: --drop 'Unnamed: 0')"
        )


def read_mixed(
    path: str | Path,
    target: str | None = None,
    drop: Sequence[str] = (),
    group: str | None = None,
    *,
    labelled: bool = True,
) -> Table:
    """Read a CSV, TSV, Parquet or Feather file whose columns are of several kinds.

    The parameters are those of :func:`read_table`; the ``X`` of the result is a data frame.
    """
    path = Path(path)
    frame = read_frame(path)
    for name in drop if labelled else ():
        check_column(path, frame, name)
    frame = frame.drop(columns=[name for name in drop if name != target and name in frame.columns])
    refuse_twice(path, frame)
    refuse_unnamed(path, frame)
    labels = labels_of(path, frame, target, labelled)
    groups = groups_of(path, frame, group, labelled)
    roles = [None if labels is None else target, None if groups is None else group]
    features = frame.drop(columns=[name for name in roles if name is not None])
    if features.shape[1] == 0:
        raise ValueError(f"{path.name} has no columns other than the target {target!r}")
    return Table(path.name, features, labels, columns=tuple(features.columns), groups=groups)


def _known(frame: Any) -> str:
    """A list of columns for messages, text columns first."""
    text = list(frame.select_dtypes(exclude="number").columns)
    names = [*text, *(c for c in frame.columns if c not in text)]
    return f"its columns are {listed(names, 8)}"
