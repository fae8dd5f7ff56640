"""The format of model files.

Files are written by skops, as JSON and arrays of expected types: nothing is unpickled, and no code in
a file is run.  If a kernel has a function of your own, the file stores the function's name; the
function is looked up in modules that are already imported and are neither part of Python nor
installed.
"""

from __future__ import annotations

import inspect
import io
import json
import os
import sys
import sysconfig
import zipfile
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import FunctionType
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse
from sklearn.calibration import CalibratedClassifierCV, _CalibratedClassifier, _SigmoidCalibration
from sklearn.compose import TransformedTargetRegressor
from sklearn.feature_extraction.text import CountVectorizer, TfidfTransformer, TfidfVectorizer
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler

from mercer import kernels, spaces
from mercer._files import one_line
from mercer._npz import Npz
from mercer.features import GramTransformer
from mercer.machines import SVC, SVR, KernelRidge, LandmarkClassifier, LandmarkRegressor, OneClassSVM
from mercer.rows.statistics import Statistics
from mercer.selection.kinds.blocks import ColumnMedians


class MissingFunction(ValueError):
    """A function of your own cannot be found."""


_SCHEMA = "schema.json"
_PARTS = [getattr(package, name) for package in (kernels, spaces) for name in package.__all__]
_OBJECTS = [
    Pipeline, GramTransformer, SVC, SVR, OneClassSVM, KernelRidge, LandmarkClassifier, LandmarkRegressor,
    TransformedTargetRegressor, StandardScaler, CalibratedClassifierCV, _CalibratedClassifier,
    _SigmoidCalibration, Statistics, FrozenEstimator, CountVectorizer, TfidfVectorizer, SimpleImputer,
    OneHotEncoder, OrdinalEncoder, TfidfTransformer, ColumnMedians,
    *(part for part in _PARTS if inspect.isclass(part)),
]  # fmt: skip
_ARRAYS = [np.ndarray, np.float64, np.float32, np.int64, np.int32, np.bool_, np.str_]
_SPARSE = [sparse.csr_array, sparse.csr_matrix, sparse.csc_array, sparse.csc_matrix]


def _names(types: list[type]) -> frozenset[str]:
    return frozenset(f"{kind.__module__}.{kind.__name__}" for kind in types)


#: Types that each loader of skops may build.  Its other loaders call functions, and are refused.
_EXPECTED = {
    "JsonNode": _names([str]),
    "DictNode": _names([dict]),
    "BytesNode": _names([bytes]),
    "ListNode": _names([list]),
    "TupleNode": _names([tuple]),
    "TypeNode": _names([str, np.int64, np.float64]),
    "SliceNode": _names([slice]),
    "DTypeNode": _names([np.dtype]),  # of the empty array in it
    "ObjectNode": _names(_OBJECTS),
    "NdArrayNode": _names(_ARRAYS),
    "SparseMatrixNode": _names(_SPARSE),
}
#: Loader of functions, which are looked up by their names.
_FUNCTION = "FunctionNode"
#: Where Python and packages are; functions of these are not loaded.
_INSTALLED = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
#: Suffix of the files that a loader reads.
_ENDINGS = {"NdArrayNode": ".npy", "SparseMatrixNode": ".npz", "BytesNode": ".bin"}


def dumps(value: Any) -> bytes:
    """Write an object as a zip file of JSON and arrays.

    Raises
    ------
    ValueError
        If it holds a type that :func:`loads` would refuse.
    """
    import skops.io  # takes seconds to import, and few commands need it

    try:
        content = skops.io.dumps(value)
    except (TypeError, skops.io.exceptions.UnsupportedTypeException) as error:
        raise ValueError(str(error)) from None
    return _numbered(content)


def loads(content: bytes) -> Any:
    """Read what :func:`dumps` wrote.

    Types are checked before anything is built, sizes of arrays before memory is allocated, and indices
    of sparse matrices before compiled loops rely on them.

    Raises
    ------
    ValueError
        If it holds anything else, or a function that is not there (:class:`MissingFunction`); the
        message does not name the file.
    """
    import skops.io

    archive = Npz(io.BytesIO(content))
    nodes = list(_nodes(json.loads(archive.raw(_SCHEMA))))
    for node in nodes:
        _check_node(node)
    for name in archive.names:
        if name.endswith(".npz"):
            _check_sparse(archive.raw(name))
        elif name.endswith(".bin"):
            archive.raw(name)
        elif name != _SCHEMA:
            archive[name]  # reading it is the check
    functions = {_full_name(node) for node in nodes if node["__loader__"] == _FUNCTION}
    trusted = sorted(functions.union(*_EXPECTED.values()))
    return skops.io.loads(content, trusted=trusted)


def frame_parts(frame: Any) -> dict[str, Any]:
    """A data frame as arrays and lists, which :func:`dumps` takes; dates are whole microseconds."""
    columns, dates = [], []
    for name in map(str, frame.columns):
        values = frame[name].to_numpy()
        if values.dtype.kind == "M":
            dates.append(name)
            values = values.astype("datetime64[us]").astype(np.int64)
        columns.append(values if values.dtype.kind in "biuf" else values.tolist())
    return {"names": list(map(str, frame.columns)), "columns": columns, "dates": dates}


def frame_of(parts: dict[str, Any]) -> pd.DataFrame:
    """The data frame of :func:`frame_parts`."""
    frame = pd.DataFrame(dict(zip(parts["names"], parts["columns"], strict=True)))
    for name in parts["dates"]:
        frame[name] = frame[name].to_numpy().astype("datetime64[us]")
    return frame


def refuse_local_functions(model: Any) -> None:
    """Raise for functions among the parameters of a model that cannot be found by their names."""
    for name, value in model.get_params().items():
        if isinstance(value, FunctionType) and _function(value.__module__, value.__name__) is not value:
            raise ValueError(
                f"{name.split('__')[-1]} is {value.__qualname__}, which cannot be found by name; "
                "define the function at the top of a module of your own"
            )


def _numbered(content: bytes) -> bytes:
    """Replace memory addresses and dates by counters, so that equal objects give equal files."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    tree = json.loads(parts.pop(_SCHEMA))
    numbers: dict[Any, int] = {}
    files: dict[str, str] = {}
    for node in _nodes(tree):
        _check_node(node)
        if "__id__" in node:
            node["__id__"] = numbers.setdefault(node["__id__"], len(numbers) + 1)
        if "file" in node:
            ending = _ENDINGS[node["__loader__"]]
            node["file"] = files.setdefault(node["file"], f"{len(files) + 1}{ending}")
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name, part in {_SCHEMA: json.dumps(tree).encode(), **parts}.items():
            entry = zipfile.ZipInfo(files.get(name, name))  # dated 1980
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, part)
    return out.getvalue()


def _nodes(tree: Any) -> Iterator[dict[str, Any]]:
    """All nodes of a schema that name a loader."""
    left = [tree]
    while left:
        part = left.pop()
        if isinstance(part, dict):
            left += reversed(part.values())
            if "__loader__" in part:
                yield part
        elif isinstance(part, list):
            left += reversed(part)


def _full_name(node: dict[str, Any]) -> str:
    return f"{node['__module__']}.{node['__class__']}"


def _function(module: Any, name: Any) -> FunctionType | None:
    """A top-level function of a module of your own: an imported one that was not installed."""
    found = None if _is_installed(module) else getattr(sys.modules.get(module), name, None)
    return found if isinstance(found, FunctionType) else None


def _is_installed(module: Any) -> bool:
    """Whether an imported module is part of Python or of an installed package."""
    if module not in sys.modules or module == "__main__":
        return False
    file = getattr(sys.modules[module], "__file__", None)
    return file is None or any(Path(file).is_relative_to(folder) for folder in _INSTALLED)


def _missing(module: str) -> str:
    """Why a function was not found, and what to do."""
    if module == "__main__":
        return (
            "a function of the script that saved it; move the function to a module that the script "
            "imports, and save the model again"
        )
    return (
        "which is not a function at the top of an imported module of your own; import the module first "
        f"(mercer predict --module {module})"
    )


def import_module_of_functions(name: str) -> None:
    """Import a module of your own by its name, from the working directory or Python's path.

    Raises
    ------
    ValueError
        If there is none, or its code fails.
    """
    sys.path.insert(0, os.getcwd())
    try:
        import_module(name)
    except Exception as error:  # whatever the module's code raises
        hint = f"; give the name, {name[:-3]}" if name.endswith(".py") else ""
        raise ValueError(
            f"the module {name!r} cannot be imported ({type(error).__name__}: {one_line(error)}){hint}"
        ) from None
    finally:
        sys.path.remove(os.getcwd())


def _check_node(node: dict[str, Any]) -> None:
    """Refuse types that are not expected."""
    kind, loader = _full_name(node), node["__loader__"]
    if loader == _FUNCTION:
        if _is_installed(node["__module__"]):
            raise ValueError(
                f"it holds {kind}, which is part of Python or of a package, and not a function of an "
                "imported module of your own"
            )
        if _function(node["__module__"], node["__class__"]) is None:
            raise MissingFunction(f"it holds {kind}, {_missing(node['__module__'])}")
        return
    if kind not in _EXPECTED.get(loader, ()):
        raise ValueError(
            f"it holds {kind}, which is not among the expected types of scikit-learn and Mercer"
        )
    file = node.get("file")
    if file is not None and not file.endswith(_ENDINGS[loader]):
        raise ValueError(f"it takes {file} for {kind}")


def _check_sparse(content: bytes) -> None:
    arrays = Npz(io.BytesIO(content))
    for name in arrays.names:
        arrays[name]
    matrix = sparse.load_npz(io.BytesIO(content))
    if matrix.format not in ("csr", "csc"):
        raise ValueError(f"it holds a sparse matrix of format {matrix.format}")
    matrix.check_format(full_check=True)
