"""Clouds: finite sets of weighted points, of any size."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from array_api_compat import array_namespace
from scipy import sparse

from mercer._arrays import finite_rows, is_single, is_sparse_tensor, is_watched, on_cpu, to_double
from mercer._validation import refuse_complex
from mercer.engine.clouds import Array, Clouds, Index, as_points, home

#: Weights must sum to 1 up to this, or up to some rounding errors in their own precision.
_TOLERANCE = 1e-9
_ROUNDINGS = 8
_TUPLE = "a tuple of two means (points, weights); use a list for a cloud of two points"


def check_clouds(X: Any, name: str, *, vectors: bool, rescale: bool) -> Clouds:
    """Check a set of clouds.

    Parameters
    ----------
    X : list of clouds, or array or tensor of shape (m, k, d)
        A cloud is its points, or a tuple ``(points, weights)``.  Tensors stay on their device.
    name : str
        Name of X in messages.
    vectors : bool
        Points are rows of numbers; otherwise a cloud is a list of points of any kind.
    rescale : bool
        Divide weights by their sum, instead of refusing those that do not sum to 1.
    """
    clouds = _sequence(X, name)
    read: Callable[[Any, str], Any] = _rows if vectors else _items
    points: list[Any] = []
    weights: list[Array] = []
    for i, cloud in enumerate(clouds):
        where = f"row {i} of {name}"
        weighted = isinstance(cloud, tuple) and len(cloud) == 2
        if not weighted:
            _refuse_listed_weights(cloud, where, vectors)
        inside, given = cloud if weighted else (cloud, None)
        try:
            inside = read(inside, where)
        except (TypeError, ValueError) as error:
            raise type(error)(f"{error}; {_TUPLE}" if weighted else str(error)) from None
        if len(inside) == 0:
            raise ValueError(f"{where} is an empty cloud; drop it")
        points.append(inside)
        weights.append(_weights(given, len(inside), where, rescale))
    starts = np.concatenate([[0], np.cumsum([len(w) for w in weights])])
    if not vectors:
        return Clouds([p for inside in points for p in inside], np.concatenate(weights), starts)
    _check_columns(points, name)
    single = all(map(is_single, points))
    xp = array_namespace(points[0])
    # Where they are in two precisions, so are the parts of some array libraries.
    together = to_double(xp.concat(points if single else [to_double(part) for part in points]))
    _check_finite(together, starts, name)
    return Clouds(together, np.concatenate(weights), starts, single)


def _sequence(X: Any, name: str) -> Any:
    """The clouds in X, with advice for other input."""
    if isinstance(X, str | bytes | dict) or not (hasattr(X, "__len__") and hasattr(X, "__getitem__")):
        raise TypeError(f"{name} must be a list of clouds, got {type(X).__name__}")
    if hasattr(X, "columns") or sparse.issparse(X):
        raise TypeError(f"{name} is one table; give a list of clouds, one array each")
    if str(getattr(X, "dtype", "object")) != "object" and X.ndim != 3:
        raise ValueError(
            f"{name} is an array of shape {tuple(X.shape)}; give a list of clouds, one array each "
            "([cloud] if it is one cloud), or an array of shape (m, k, d)"
        )
    if len(X) == 0:
        raise ValueError(f"{name} holds no clouds")
    return X


def _refuse_listed_weights(cloud: Any, where: str, vectors: bool) -> None:
    """Refuse points and weights in a list, which would be read as two points."""
    if not isinstance(cloud, list) or len(cloud) != 2:
        return
    first, second = cloud
    if not all(isinstance(part, list | tuple | np.ndarray) for part in cloud) or len(first) != len(
        second
    ):
        return
    numbers = (float, np.floating)
    points = any(hasattr(p, "__len__") if vectors else not isinstance(p, numbers) for p in first)
    if points and all(isinstance(weight, numbers) for weight in second):
        raise ValueError(
            f"{where} is a list of points and numbers; weights? use a tuple (points, weights)"
        )


def _refuse_masked(inside: Any, where: str) -> None:
    if np.ma.isMaskedArray(inside) and np.ma.getmaskarray(inside).any():
        raise ValueError(f"{where} has masked values; drop these points")


def _rows(inside: Any, where: str) -> Any:
    """Points as rows of floating numbers."""
    _refuse_masked(inside, where)
    if sparse.issparse(inside):
        raise TypeError(f"{where} is a sparse matrix; give a dense array, as by toarray()")
    if is_sparse_tensor(inside):
        raise TypeError(f"{where} is a sparse tensor; give a dense one, as by to_dense()")
    try:
        rows = as_points(inside)
    except (TypeError, ValueError):
        raise ValueError(f"{where} is not an array of real numbers of shape (k, d)") from None
    if rows.ndim != 2:
        raise ValueError(
            f"{where} has points of shape {tuple(rows.shape)}; k points are an array of shape (k, d)"
        )
    if rows.shape[1] == 0:
        raise ValueError(f"{where} has points without coordinates")
    return rows


def _items(inside: Any, where: str) -> list[Any]:
    """Points of any kind as a list; a table has them in its only column."""
    _refuse_masked(inside, where)
    if hasattr(inside, "columns"):
        if inside.shape[1] != 1:
            raise ValueError(
                f"{where} is a table of {inside.shape[1]} columns; points go in a single one"
            )
        return list(inside.iloc[:, 0])
    if isinstance(inside, str | bytes | dict) or not hasattr(inside, "__iter__"):
        raise TypeError(
            f"{where} is a {type(inside).__name__}; a cloud is a list of points, "
            "or a tuple of such a list and its weights"
        )
    return list(on_cpu(inside))


def _weights(given: Any, size: int, where: str, rescale: bool) -> Array:
    if given is None:
        return np.full(size, 1 / size)
    _refuse_masked(given, where)
    if is_watched(given):
        raise TypeError(f"{where} has weights that require a gradient; there is none: detach them")
    try:
        weights = np.asarray(on_cpu(given))
        refuse_complex(weights, where)
        tolerance = _TOLERANCE
        if weights.dtype.kind == "f":
            tolerance = max(_TOLERANCE, _ROUNDINGS * float(np.finfo(weights.dtype).eps))
        weights = weights.astype(np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"{where} has weights that are not numbers; {_TUPLE}") from None
    if weights.shape != (size,):
        raise ValueError(
            f"{where} has {size} points and weights of shape {weights.shape}; one weight per point"
        )
    if not np.isfinite(weights).all() or (weights < 0).any():
        raise ValueError(f"{where} has weights that are negative, infinite or NaN")
    total = weights.sum()
    if total == 0 or not np.isfinite(total):
        raise ValueError(f"{where} has weights that sum to {total:g}")
    if not rescale and abs(total - 1) > tolerance:
        raise ValueError(
            f"{where} has weights that sum to {total:.12g}, not to 1; "
            "divide them by their sum, or use rescale_weights=True"
        )
    return weights / total


def _check_columns(points: list[Any], name: str) -> None:
    columns, place = points[0].shape[1], home(points[0])
    for i, rows in enumerate(points):
        if home(rows) != place:
            raise TypeError(
                f"row {i} of {name} is {home(rows)}, row 0 {place}; move all clouds to one device"
            )
        if rows.shape[1] != columns:
            raise ValueError(
                f"row {i} of {name} has points of dimension {rows.shape[1]}, row 0 of {columns}; "
                "all clouds must have the same"
            )


def check_one_place(P: Clouds, Q: Clouds) -> None:
    """Raise unless the points of X and of Y are tensors on one device, or both in main memory."""
    if home(P.points) != home(Q.points):
        raise TypeError(
            f"the points of X are {home(P.points)}, those of Y {home(Q.points)}; move all clouds to "
            "one device"
        )


def _check_finite(points: Any, starts: Index, name: str) -> None:
    bad = np.flatnonzero(~on_cpu(finite_rows(points)))
    if bad.size:
        i, place = locate(int(bad[0]), starts)
        raise ValueError(f"row {i} of {name} contains NaN or infinity, in its point {place}; drop it")


def locate(number: int, starts: Index) -> tuple[int, int]:
    """Cloud of a point, and the point's place in it."""
    i = int(np.searchsorted(starts, number, side="right")) - 1
    return i, number - int(starts[i])


@contextmanager
def naming_clouds(**sets: tuple[str, Clouds]) -> Iterator[None]:
    """Translate rows in errors of a base kernel to clouds and points in them.

    Parameters
    ----------
    **sets : pairs of a name and clouds
        What the base kernel calls X, or Y: our name of it, and the clouds whose points it is.
    """
    try:
        yield
    except (TypeError, ValueError) as error:
        owners: list[str] = []

        def translate(match: re.Match[str]) -> str:
            name, clouds = sets[match[2]]
            i, place = locate(int(match[1]), clouds.starts)
            owners.append(f"row {i} of {name}")
            return f"point {place} of {owners[-1]}"

        text = re.sub(rf"\brow (\d+) of ({'|'.join(sets)})\b", translate, str(error))
        if not owners:
            raise
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"{owners[0]} is a cloud that its base kernel refuses: {text}") from None
