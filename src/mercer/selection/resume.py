"""Finished fits on disk, so that an interrupted search goes on where it was."""

from __future__ import annotations

import hashlib
import inspect
import json
import platform
import threading
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

#: Packages whose code is told by their version.
_RELEASED = ("mercer", "sklearn", "numpy", "scipy", "builtins")


class Ledger:
    """Scores of finished fits in one file of a folder.

    The file's name is a fingerprint of all that the fits have in common: points, target, estimator,
    scorer and versions.  A line holds the fingerprint of one fit, its scores and its seconds.

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
        self.path = Path(folder) / f"search-{name[:32]}.jsonl"
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.path.touch()
        except OSError as error:
            raise ValueError(f"the cache folder {folder} cannot be written: {error}") from None
        self._lock = threading.Lock()
        self._known = self._read()

    def _read(self) -> dict[str, Any]:
        known = {}
        for line in self.path.read_text(errors="replace").splitlines():
            try:
                entry = json.loads(line)
                scores = {str(name): float(value) for name, value in entry["scores"].items()}
                fitting, scoring = map(float, entry["seconds"])
                known[entry["fit"]] = (scores, (fitting, scoring))
            except (ValueError, KeyError, TypeError, AttributeError):
                continue  # a line that was being written when the search was stopped
        return known

    def get(self, fit: str) -> Any:
        """Scores and seconds of a fit, or None."""
        return self._known.get(fit)

    def put(self, fit: str, scores: Mapping[str, float], seconds: tuple[float, float]) -> None:
        """Write down one finished fit."""
        line = json.dumps({"fit": fit, "scores": dict(scores), "seconds": seconds})
        with self._lock:
            # A leading line break ends whatever an interruption may have left unfinished.
            with self.path.open("a") as file:
                file.write(f"\n{line}" if file.tell() else line)
            self._known[fit] = (dict(scores), seconds)


def fingerprint(thing: Any) -> str:
    """Hexadecimal digest of the values that make up a thing.

    Kernels, spaces and estimators count by class and parameters, all else by content.  Functions are
    refused: a changed one could not be told from the old.
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
