"""Finished fits on disk, from which an interrupted search resumes."""

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
#: First line of a file, with the version of its format.
_HEADER = json.dumps({"mercer": "cache", "format": 1})
#: Folders that a warning has already named, and their lock: a comparison opens many journals.
_warned: set[str] = set()
_warning_lock = threading.Lock()


class Journal:
    """Scores of finished fits in one file of a folder.

    The file's name is a fingerprint of what the fits have in common: points, target, estimator, scorer
    and versions.  A line has the fingerprint of one fit, its scores and seconds, and a checksum of them;
    lines with a wrong checksum are ignored.  Lines are appended atomically, so several processes can
    share the file.

    If the folder cannot be used, a warning says so and work continues without it.

    Parameters
    ----------
    folder : path
        Created if it does not exist.
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
        """Record one finished fit."""
        with self._lock:
            self._known[fit] = (dict(scores), seconds)
            if not self._works:
                return
            # A leading line break ends a line that an interruption may have left unfinished.
            text = "" if self._begun else f"\n{_HEADER}"
            try:
                _append(self.path, f"{text}\n{_line(fit, scores, seconds)}".encode())
            except OSError as error:
                self._give_up(error)
            else:
                self._begun = True
                _warned.discard(str(self.path.parent))

    def _give_up(self, error: OSError) -> None:
        """Continue without the file, and warn once."""
        self._works = False
        folder = str(self.path.parent)
        with _warning_lock:
            if folder in _warned:
                return
            _warned.add(folder)
        warnings.warn(
            f"the cache folder {folder} cannot be written ({error.strerror or error}): work continues, "
            "but fits are not kept; name another folder (--cache, or cache=)",
            stacklevel=3,
        )


def _line(fit: str, scores: Mapping[str, float], seconds: tuple[float, float]) -> str:
    """One fit as a line of the file."""
    plain = {name: float(value) for name, value in scores.items()}
    entry = {"fit": fit, "scores": plain, "seconds": [float(value) for value in seconds]}
    return json.dumps({**entry, "sum": hashlib.sha256(json.dumps(entry).encode()).hexdigest()[:32]})


def _entry(line: str) -> tuple[str, dict[str, float], tuple[float, float]] | None:
    """The fit, scores and seconds of a line; None if the line was altered."""
    try:
        found = json.loads(line)
        scores = {str(name): float(value) for name, value in found["scores"].items()}
        fitting, scoring = map(float, found["seconds"])
        fit = str(found["fit"])
    except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError):
        return None
    return (fit, scores, (fitting, scoring)) if _line(fit, scores, (fitting, scoring)) == line else None


def _append(path: Path, content: bytes) -> None:
    """Append to a file in one step, so that lines of several processes do not mix."""
    handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
    try:
        if os.write(handle, content) < len(content):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    finally:
        os.close(handle)


def fingerprint(thing: Any) -> str:
    """Hexadecimal digest of an object's value.

    Kernels, spaces and estimators are identified by class and parameters, other objects by content.
    User-defined functions are refused, because changes of their code would go unnoticed.
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
    if isinstance(thing, type):
        return _code(thing)  # of the entries of a vectoriser's result, say
    if isinstance(thing, Kernel | BaseEstimator):
        return (_code(type(thing)), _description(thing.get_params(deep=False)))
    if isinstance(thing, Space):
        return (_code(type(thing)), joblib.hash(thing))  # as pickled, without cached results
    if callable(thing):
        return _callable(thing)
    return (type(thing).__name__, joblib.hash(thing))


def _callable(thing: Any) -> Any:
    """A scorer or function of a released package, by its name."""
    function = getattr(thing, "_score_func", None)
    if function is not None and _released(type(thing)) and _released(function):
        return (type(thing).__name__, _description(vars(thing)))
    if inspect.isroutine(thing) and _released(thing) and "<" not in thing.__qualname__:
        return ("function", thing.__module__, thing.__qualname__)
    raise ValueError(
        f"with a cache all functions must be identified by name, and {thing!r} could change unseen; "
        "use cache=None, or a scorer by name"
    )


def _released(thing: Any) -> bool:
    return str(thing.__module__).split(".")[0] in _RELEASED


def _code(kind: type) -> Any:
    """Identity of a class: its name and, unless it was released, its source."""
    name = f"{kind.__module__}.{kind.__qualname__}"
    if _released(kind):
        return name
    try:
        return name, inspect.getsource(kind)
    except (OSError, TypeError):
        raise ValueError(f"with a cache the source of {name} must be known; use cache=None") from None
