"""What the columns of a data frame hold: numbers, counts, labels, text, strings, dates, identifiers."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from sklearn.feature_extraction.text import CountVectorizer

from mercer.kernels.tables.frames import holds, identifies

#: Kinds of columns that are compared, and of those that are left out.
USED = ("number", "counts", "category", "text", "string", "date", "coordinate")
LEFT_OUT = ("identifier", "constant", "other")
#: Kinds that a user may give to a column.
GIVEN = (*USED, "identifier")
#: Smallest number of columns in a block of counts, and the smallest share of zeros among them and in
#: each.
_BLOCK, _ZEROS, _SOME_ZEROS = 8, 0.5, 0.2
#: Number of columns of a block from which whole numbers between them belong to it, zero or not.
_LARGE_BLOCK = 30
#: A text has at least this many words on average; labels differ in at most this share of the rows.
_WORDS, _REPEATED = 3.0, 0.5
#: Labels that differ in more than this share of the rows name the rows.
_UNIQUE = 0.9
#: A string of letters has at least this many of them in half of the rows.
_LETTERS = 8
#: Larger than the number of distinct values in most columns of labels.
_MANY = 20
#: Number of values examined to tell text, strings and dates apart.
_LOOKED_AT = 1000
#: Rows whose numbers must differ before all rows are examined.
_FIRST = 50
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}([ T]\d{2}:\d{2}(:\d{2}(\.\d+)?)?)?(Z|[+-]\d{2}:?\d{2})?")
_PLACES = {
    "latitude": (re.compile(r"(^|[_\W])lat(itude)?$", re.IGNORECASE), 90.0),
    "longitude": (re.compile(r"(^|[_\W])(lon|lng|long|longitude)$", re.IGNORECASE), 180.0),
}


@dataclass(frozen=True)
class Column:
    """A column, what it was taken for, and why."""

    name: str
    kind: str
    why: str
    missing: int = 0
    #: Counts the words of a text, if that was given.
    words: Any = None


def recognised(frame: Any, given: Mapping[str, Any] | None = None) -> list[Column]:
    """The kind of each column of a pandas data frame.

    Parameters
    ----------
    frame : DataFrame
    given : mapping, optional
        Kinds of some columns, by name, which are then not recognised; for a text also a
        ``CountVectorizer`` that counts its words.

    Examples
    --------
    >>> import pandas as pd
    >>> from mercer.selection.kinds.columns import recognised
    >>> table = pd.DataFrame({"age": [31.5, 40, 22], "town": ["Ulm", "Jena", "Ulm"]})
    >>> [(column.name, column.kind) for column in recognised(table, {"age": "category"})]
    [('age', 'category'), ('town', 'category')]
    """
    given = {str(name): kind for name, kind in (given or {}).items()}
    unknown = next((name for name in given if name not in frame.columns), None)
    if unknown is not None:
        raise ValueError(f"there is no column {unknown!r} whose kind could be given")
    found = [
        _given(name, given[name], frame[name]) if name in given else _looked_at(name, frame[name])
        for name in map(str, frame.columns)
    ]
    return _counts(_places(found, frame, given), frame, given)


def numbering(X: Any, names: Sequence[str]) -> list[str]:
    """Names of columns of an array that seem to number its rows.

    Examples
    --------
    >>> import numpy as np
    >>> numbering(np.array([[101.0, 3.5], [102.0, 3.5], [104.0, 1.0]]), ["sample_id", "depth"])
    ['sample_id']
    """
    found = []
    for name, column in zip(names, np.asarray(X).T, strict=True):
        first = column[:_FIRST]
        # Few columns pass the first look, and a table may have many.
        if len(np.unique(first)) < len(first) or np.any(column != np.floor(column)):
            continue
        # Larger floats are whole because they are not exact.
        if np.abs(column).max() < 2**53 and identifies(column.astype(np.int64), name, labels=False):
            found.append(name)
    return found


def _given(name: str, kind: Any, column: Any) -> Column:
    missing = int(column.isna().sum())
    if isinstance(kind, CountVectorizer):
        return Column(name, "text", "given", missing, kind)
    if kind not in GIVEN:
        raise ValueError(f"column {name!r} cannot be a {kind!r}; kinds are {', '.join(GIVEN)}")
    if kind in ("number", "counts", "coordinate") and not _is_number(column):
        raise ValueError(f"column {name!r} holds no numbers, and cannot be taken as {kind}")
    if kind == "category" and _names_rows(name, column.dropna()):
        raise ValueError(
            f"column {name!r} cannot be taken as category: nearly every row has a value of its own"
        )
    return Column(name, kind, "given", missing)


def _names_rows(name: str, values: Any) -> bool:
    """Whether labels are useless because hardly any two rows share one."""
    if _is_number(values):
        return identifies(values, name, labels=True)
    return len(values) > 0 and values.nunique() > _UNIQUE * len(values)


def _is_number(column: Any) -> bool:
    return bool(pd.api.types.is_numeric_dtype(column.dtype))


def _looked_at(name: str, column: Any) -> Column:
    values = column.dropna()
    kind, why = _kind(name, values)
    return Column(name, kind, why, len(column) - len(values))


def _kind(name: str, values: Any) -> tuple[str, str]:
    dtype = values.dtype
    if pd.api.types.is_datetime64_any_dtype(dtype):
        return "date", "dates"
    if dtype.kind == "O" and not values.map(pd.api.types.is_scalar).all():
        return "other", "neither numbers nor text"
    different = int(values.nunique())
    if different <= 1:
        return "constant", "one value only" if different else "no value"
    if pd.api.types.is_bool_dtype(dtype):
        return "category", "true or false"
    if _is_number(values):
        if identifies(values, name, labels=True):
            return "identifier", "a whole number of its own in every row"
        return "number", f"{different} different numbers"
    kind, why = _kind_of_text(name, values.astype(str), different)
    if kind != "date" and holds(values) == "dates":
        return "other", "periods, durations or times of day"
    return kind, why


def _kind_of_text(name: str, values: Any, different: int) -> tuple[str, str]:
    some = values.iloc[np.linspace(0, len(values) - 1, min(len(values), _LOOKED_AT)).astype(int)]
    if all(map(_DATE.fullmatch, some)):
        return "date", "written as dates"
    if different > _MANY:
        _refuse_misread_numbers(name, values)
    share, words = different / len(values), float(some.str.split().str.len().mean())
    if share > _REPEATED and words >= _WORDS:
        return "text", f"{words:.0f} words on average"
    if share <= _REPEATED and not (words >= 2 * _WORDS and different > _LOOKED_AT / 50):
        return "category", f"{different} different labels"
    if words >= _WORDS:
        return "text", f"{words:.0f} words on average"
    lengths = some.str.len()
    letters = some.str.isalpha().all() and (some.str.isupper().all() or some.str.islower().all())
    if letters and float(lengths.median()) >= _LETTERS:
        least, most = int(lengths.min()), int(lengths.max())
        return "string", f"{most} letters" if least == most else f"{least} to {most} letters"
    if identifies(values, name, labels=True) or share > _UNIQUE:
        return "identifier", "a label of its own in nearly every row"
    return "category", f"{different} different labels"


def _refuse_misread_numbers(name: str, values: Any) -> None:
    """Raise for numbers that were read as text because of one word among them, or of commas."""
    numbers = pd.to_numeric(values, errors="coerce")
    odd = values[numbers.isna()]
    problem = ""
    if numbers.nunique() > _MANY and odd.nunique() == 1:
        problem = "; leave such cells empty"
    elif len(odd) and pd.to_numeric(odd.str.replace(",", ""), errors="coerce").notna().all():
        problem = "; write decimal points, and no other commas"
    if problem:
        raise ValueError(
            f"column {name!r} holds numbers, but {odd.iloc[0]!r} in row {odd.index[0]}{problem}, or "
            "give the kind of the column (columns=, --as COLUMN=category)"
        )


def _places(found: list[Column], frame: Any, given: Mapping[str, Any]) -> list[Column]:
    """Recognise a latitude and a longitude by name and range as coordinates of a place."""
    pair = []
    for pattern, largest in _PLACES.values():
        own = [c for c in found if c.kind == "number" and c.name not in given and pattern.search(c.name)]
        own = [c for c in own if float(frame[c.name].abs().max()) <= largest and not c.missing]
        pair += own if len(own) == 1 else []
    if len(pair) < 2:
        return found
    return [
        Column(c.name, "coordinate", "latitude and longitude, by name") if c in pair else c
        for c in found
    ]


def _counts(found: list[Column], frame: Any, given: Mapping[str, Any]) -> list[Column]:
    """Take many columns of whole numbers, most of them zero, as counts of one row.

    The most frequent species or words are hardly ever zero, and may differ in every row; they are known
    by their place among the others.
    """
    whole = [
        place
        for place, c in enumerate(found)
        if c.kind in ("number", "constant", "identifier") and c.name not in given and not c.missing
        and _is_number(frame[c.name]) and _is_whole(frame[c.name].to_numpy())
    ]  # fmt: skip
    own = [place for place in whole if (frame[found[place].name] == 0).mean() > _SOME_ZEROS]
    names = [found[place].name for place in own]
    if len(own) < _BLOCK or float((frame[names] == 0).to_numpy().mean()) < _ZEROS:
        return found
    if len(own) >= _LARGE_BLOCK:
        own = [place for place in whole if own[0] <= place <= own[-1]]
    block = set(own)
    why = f"one of {len(own)} columns of whole numbers, most of them zero"
    return [Column(c.name, "counts", why) if place in block else c for place, c in enumerate(found)]


def _is_whole(values: Any) -> bool:
    """Whether all numbers are whole and none is negative."""
    return bool((values >= 0).all() and (values == np.floor(values)).all())
