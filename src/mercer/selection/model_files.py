"""The format of model files.

Files are written by skops, as JSON and arrays of expected types: nothing is unpickled, and no code of
a file is run.
"""

from __future__ import annotations

import inspect
import io
import json
import zipfile
from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.calibration import CalibratedClassifierCV, _CalibratedClassifier, _SigmoidCalibration
from sklearn.compose import TransformedTargetRegressor
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

from mercer import kernels, spaces
from mercer._npz import Npz
from mercer.features import GramTransformer
from mercer.machines import SVC, KernelRidge

_SCHEMA = "schema.json"
_PARTS = [getattr(package, name) for package in (kernels, spaces) for name in package.__all__]
_OBJECTS = [
    Pipeline, GramTransformer, SVC, TransformedTargetRegressor, KernelRidge, StandardScaler,
    CalibratedClassifierCV, _CalibratedClassifier, _SigmoidCalibration,
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
    "TypeNode": _names([str]),
    "SliceNode": _names([slice]),
    "ObjectNode": _names(_OBJECTS),
    "NdArrayNode": _names(_ARRAYS),
    "SparseMatrixNode": _names(_SPARSE),
}
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
        If it holds anything else; the message does not name the file.
    """
    import skops.io

    archive = Npz(io.BytesIO(content))
    for node in _nodes(json.loads(archive.raw(_SCHEMA))):
        _check_node(node)
    for name in archive.names:
        if name.endswith(".npz"):
            _check_sparse(archive.raw(name))
        elif name.endswith(".bin"):
            archive.raw(name)
        elif name != _SCHEMA:
            archive[name]  # reading it is the check
    trusted = sorted(frozenset().union(*_EXPECTED.values()))
    return skops.io.loads(content, trusted=trusted)


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


def _check_node(node: dict[str, Any]) -> None:
    """Refuse types that are not expected."""
    kind, loader = f"{node['__module__']}.{node['__class__']}", node["__loader__"]
    if kind not in _EXPECTED.get(loader, ()):
        raise ValueError(
            f"it holds {kind}, which is none of the types of scikit-learn and Mercer that are expected"
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
