"""What is asked of readers of damaged files: one line, or what the file holds."""

from __future__ import annotations

import ctypes
import hashlib
import pickle
import resource
import shutil
import traceback
import warnings
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
from scipy import sparse

from mercer._files import one_line
from mercer.datasets import read_clouds, read_nodes, read_strings, read_table
from mercer.gp import ParquetBlocks, Statistics
from mercer.rows.checkpoint import Checkpoint
from mercer.selection import load_model
from mercer.selection.journal import Journal
from tests.fuzz.damage import damaged
from tests.fuzz.seeds import DESCRIPTION, KEPT, KERNEL, SEEDS, Seed, fits, models

# Arrow's own memory is not filled by the C library.
pa.set_memory_pool(pa.system_memory_pool())

#: Most bytes that a small damaged file may make the process ask for, where they are asked for by us.
_MEMORY, _BY_OTHERS = 1 << 30, ("parquet", "feather")
#: Number of the setting by which glibc fills memory that it gives out, and two fillings.
_PERTURB, _FILLINGS = -6, (0x55, 0xAA)


class Fault(AssertionError):
    """A reader did what it must not do."""


def attempt(kind: str, case: int, folder: Path) -> str:
    """Damage a file, read it, and return what came of it: "read" or "refused".

    Raises
    ------
    Fault
        If the reader raised anything but one line that names the file, ran code, asked for far too much
        memory, or gave out what was never in the file.
    """
    rng = Random(f"{kind} {case}")
    seed = rng.choice(SEEDS[kind]())
    content = damaged(kind, rng, seed.content)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    path = folder / seed.name
    path.write_bytes(content)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    found = [_read(seed, path, filling) for filling in _FILLINGS]
    if found[0] != found[1]:
        # What differs with the filling of fresh memory does not come from the file.
        raise Fault(f"read twice, and found\n{found[0]}\n{found[1]}")
    grown = 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
    if grown > _MEMORY and kind not in _BY_OTHERS:
        raise Fault(f"the process grew by {grown / 1e9:.2g} GB")
    if Path("executed").exists():
        Path("executed").rmdir()
        raise Fault("code of the file was run")
    if path.exists() and seed.reader != "journal" and path.read_bytes() != content:
        raise Fault("the file was changed")
    return found[0].split()[0]


def _read(seed: Seed, path: Path, filling: int) -> str:
    """What a reader makes of a file, as text that is the same for the same outcome."""
    ctypes.CDLL(None).mallopt(_PERTURB, filling)
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            result = READERS[seed.reader](path, **seed.options)
    except (ValueError, OSError) as error:
        text = str(error)
        if not text.isprintable() or path.name not in text or len(text) > 2500:
            raise Fault(f"no line that names the file: {text!r}") from error
        return f"refused {text}"
    except Fault:
        raise
    except BaseException as error:
        raise Fault("".join(traceback.format_exception(error))) from error
    finally:
        ctypes.CDLL(None).mallopt(_PERTURB, 0)
    return f"read {hashlib.sha256(pickle.dumps(result)).hexdigest()}"


def _table(path: Path, **options: Any) -> Any:
    return _touched(read_table(path, **options))


def _strings(path: Path, **options: Any) -> Any:
    return _touched(read_strings(path, **options))


def _clouds(path: Path, **options: Any) -> Any:
    return _touched(read_clouds(path, **options))


def _nodes(path: Path, target: str) -> Any:
    edges = path.with_name("good-edges.csv")
    edges.write_text("a,b\nnode 1,node 2\nnode 3,node 1\n")
    return _touched(read_nodes(path, target, edges))


def _edges(path: Path) -> Any:
    nodes = path.with_name("good-nodes.csv")
    nodes.write_text("node,kind\nnode 1,x\nnode 2,y\n")
    return _touched(read_nodes(nodes, "kind", path))


def _touched(table: Any) -> Any:
    """All that a table holds, looked at."""
    X, y = table.X, table.y
    if sparse.issparse(X):
        X.check_format(full_check=True)
        X = (X.data, X.indices, X.indptr, X.shape)
    if y is not None:
        [str(label) for label in y.tolist()]
        if table.graph is None and len(y) != (len(X) if not isinstance(X, tuple) else X[3][0]):
            raise Fault("targets do not go with rows")
    return X, y, table.columns, table.ids, table.groups, table.nodes


def _blocks(path: Path, target: str) -> Any:
    return list(ParquetBlocks(path, target=target, rows=15))


def _ledger(path: Path, number: int) -> Any:
    before = path.read_bytes()
    book = Journal(path.parent, number)
    if book.path != path:
        raise Fault("the file has another name")
    known = {fit: book.get(fit) for fit in fits(number)}
    for fit, entry in known.items():
        if entry is not None and entry != fits(number)[fit]:
            raise Fault(f"{entry} is believed of {fit}")
    book.put("new", {"score": 0.5}, (1.0, 2.0))
    again = Journal(path.parent, number)
    if again.get("new") != ({"score": 0.5}, (1.0, 2.0)):
        raise Fault("a fit that was put is not there")
    if {fit: again.get(fit) for fit in known} != known:
        raise Fault("a fit was lost")
    path.write_bytes(before)
    return known


def _checkpoint(path: Path, number: int) -> Any:
    kept = Checkpoint.__new__(Checkpoint)  # opened without being written
    Checkpoint.__init__(kept, None, DESCRIPTION, KEPT, KERNEL)
    return [number, sorted(kept._load(path))]


def _statistics(path: Path) -> Any:
    return vars(Statistics.load(path))


def _model(path: Path, name: str) -> Any:
    saved = load_model(path)
    points = models()[name][1]
    try:
        found = [saved.predict(points[:3])]
        if hasattr(saved, "predict_proba"):
            found.append(saved.predict_proba(points[:3]))
    except (ValueError, TypeError, OSError) as error:
        # The command would print them in one line; they are about the points, not the file.
        raise ValueError(f"{path.name}: {one_line(error)}") from None
    return [part.tolist() for part in found]


READERS: dict[str, Any] = {
    "table": _table, "strings": _strings, "clouds": _clouds, "nodes": _nodes, "edges": _edges,
    "blocks": _blocks, "journal": _ledger, "checkpoint": _checkpoint, "statistics": _statistics,
    "model": _model,
}  # fmt: skip
