"""Finished fits on disk, so that an interrupted search goes on where it was."""

from __future__ import annotations

import errno
import hashlib
import inspect
import json
import os
import platform
import threading
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import scipy
import sklearn
from sklearn.base import BaseEstimator
from sklearn.gaussian_process.kernels import Kernel

import mercer
from mercer.spaces.base import Space

#: Packages whose code is identified by their version.
_RELEASED = ("mercer", "sklearn", "numpy", "scipy", "builtins")


#: First line of a file, with the version of what follows.
_HEADER = json.dumps({"mercer": "cache", "format": 1})
#: Folders that a warning has named already, and their lock: a comparison opens many journals.
_warned: set[str] = set()
_warning_lock = threading.Lock()


class Journal:
    """Scores of finished fits in one file of a folder.

    The file's name is a fingerprint of all that the fits have in common: points, target, estimator,
    scorer and versions.  A line holds the fingerprint of one fit, its scores, its seconds and a checksum
    of them; lines that do not match it are ignored.  Each is appended in one step, so that
    several processes can share the file.

    Nothing depends on the file: if the folder cannot be used, a warning says so and no fits are kept.

    Parameters
    ----------
    folder : path
        Made if it is not there.
    common : object
        See :func:`fingerprint`.
    """

    def __init__(self, folder: Any, common: Any) -> None:
        versions = (mercer.__version__, sklearn.__version__, np.__version__, scipy.__version__)
        name = fingerprint((versions, platform.machine(), common))
        if Path(folder).is_file():
            raise ValueError(
                f"the cache folder {folder} cannot be written: it is a file; name a folder (--cache, or "
                "cache=)"
            )
        self.path = Path(folder) / f"search-{name[:32]}.jsonl"
        self._lock = threading.Lock()
        self._begun, self._works = False, True
        self._known: dict[str, Any] = {}
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            if self.path.exists():
                self._known = self._read()
            elif not os.access(self.path.parent, os.W_OK):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        except OSError as error:
            self._give_up(error)

    def _read(self) -> dict[str, Any]:
        known = {}
        for line in self.path.read_text(encoding="utf-8", errors="replace").split("\n"):
            if line == _HEADER:
                self._begun = True
            elif self._begun and (entry := _entry(line)) is not None:
                known[entry[0]] = entry[1:]
        return known

    def get(self, fit: str) -> Any:
        """Scores and seconds of a fit, or None."""
        return self._known.get(fit)

    def put(self, fit: str, scores: Mapping[str, float], seconds: tuple[float, float]) -> None:
        """Write down one finished fit."""
        with self._lock:
            self._known[fit] = (dict(scores), seconds)
            if not self._works:
                return
            # A leading line break ends whatever an interruption may have left unfinished.
            text = "" if self._begun else f"\n{_HEADER}"
            try:
                _append(self.path, f"{text}\n{_line(fit, scores, seconds)}".encode())
            except OSError as error:
                self._give_up(error)
            else:
                self._begun = True
                _warned.discard(str(self.path.parent))

    def _give_up(self, error: OSError) -> None:
        """Go on without the file, and say so once."""
        self._works = False
        folder = str(self.path.parent)
        with _warning_lock:
            if folder in _warned:
                return
            _warned.add(folder)
        warnings.warn(
            f"the cache folder {folder} cannot be written ({error.strerror or error}): work goes on, "
            "and fits are not kept; name another folder (--cache, or cache=)",
            stacklevel=3,
        )


def _line(fit: str, scores: Mapping[str, float], seconds: tuple[float, float]) -> str:
    """One fit as a line of the file."""
    plain = {name: float(value) for name, value in scores.items()}
    entry = {"fit": fit, "scores": plain, "seconds": [float(value) for value in seconds]}
    return json.dumps({**entry, "sum": hashlib.sha256(json.dumps(entry).encode()).hexdigest()[:32]})


def _entry(line: str) -> tuple[str, dict[str, float], tuple[float, float]] | None:
    """The fit of a line, with its scores and seconds; None unless the line is as it was written."""
    try:
        found = json.loads(line)
        scores = {str(name): float(value) for name, value in found["scores"].items()}
        fitting, scoring = map(float, found["seconds"])
        fit = str(found["fit"])
    except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError):
        return None
    return (fit, scores, (fitting, scoring)) if _line(fit, scores, (fitting, scoring)) == line else None


def _append(path: Path, content: bytes) -> None:
    """Add to the end of a file in one step: what other processes add comes before it or after it."""
    handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
    try:
        if os.write(handle, content) < len(content):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    finally:
        os.close(handle)


def fingerprint(thing: Any) -> str:
    """Hexadecimal digest of the values that make up a thing.

    Kernels, spaces and estimators count by class and parameters, all else by content.  Functions are
    refused: a changed one could not be distinguished from the old.
    """
    return hashlib.sha256(repr(_description(thing)).encode()).hexdigest()


def _description(thing: Any) -> Any:
    if thing is None or isinstance(thing, bool | int | float | str | bytes):
        return (type(thing).__name__, thing)
    if isinstance(thing, Mapping):
        pairs = [(_description(k), _description(v)) for k, v in thing.items()]
        return ("mapping", sorted(pairs, key=repr))
    if isinstance(thing, tuple | list):
        return (type(thing).__name__, [_description(value) for value in thing])
    if isinstance(thing, Kernel | BaseEstimator):
        return (_code(type(thing)), _description(thing.get_params(deep=False)))
    if isinstance(thing, Space):
        return (_code(type(thing)), joblib.hash(thing))  # as it is pickled: without what it computed
    if callable(thing):
        return _callable(thing)
    return (type(thing).__name__, joblib.hash(thing))


def _callable(thing: Any) -> Any:
    """A scorer or function of a released package, by its name."""
    function = getattr(thing, "_score_func", None)
    if function is not None and _released(type(thing)) and _released(function):
        state = (thing._sign, thing._kwargs, thing._response_method)
        return (type(thing).__name__, _description(function), _description(state))
    if inspect.isroutine(thing) and _released(thing) and "<" not in thing.__qualname__:
        return ("function", thing.__module__, thing.__qualname__)
    raise ValueError(
        f"with a cache all functions must be known by name, and {thing!r} could change unseen; "
        "use cache=None, or a scorer by name"
    )


def _released(thing: Any) -> bool:
    return str(thing.__module__).split(".")[0] in _RELEASED


def _code(kind: type) -> Any:
    """What tells a class from another, or from an earlier state of itself."""
    name = f"{kind.__module__}.{kind.__qualname__}"
    if _released(kind):
        return name
    try:
        return name, inspect.getsource(kind)
    except (OSError, TypeError):
        raise ValueError(f"with a cache the source of {name} must be at hand; use cache=None") from None
