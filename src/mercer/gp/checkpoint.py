"""What a fit has found so far, on disk, so that one that was stopped goes on."""

from __future__ import annotations

import os
import pickle
import time
from pathlib import Path
from typing import Any

#: Seconds between two writes.
PERIOD = 30.0


class Checkpoint:
    """Results of a fit by name, written to a file now and then.

    The file also holds a description of what is being fitted to what.  Another fit does not take up
    its results but raises an error.  Writes are atomic: the file is always whole.

    Parameters
    ----------
    path : path, optional
        None keeps results in memory only.
    description : dict of str
        Says what is fitted, part by part.
    """

    def __init__(self, path: Any = None, description: dict[str, str] | None = None) -> None:
        self.path = None if path is None else Path(path)
        self._description = description or {}
        self.results: dict[str, Any] = {}
        if self.path is not None and self.path.exists():
            self.results = self._load(self.path)
        self.save()  # a folder that cannot be written to is better known before the work

    def _load(self, path: Path) -> dict[str, Any]:
        with open(path, "rb") as file:
            try:
                content = pickle.load(file)
            except Exception as error:  # a pickle of something else may do and lack anything
                raise ValueError(
                    f"{path} is no checkpoint of a fit: {error}; give another path"
                ) from None
        if not (
            isinstance(content, tuple)
            and len(content) == 2
            and all(isinstance(part, dict) for part in content)
        ):
            raise ValueError(
                f"{path} is no checkpoint of a fit but a {type(content).__name__}; give another path"
            )
        description, results = content
        for part, text in self._description.items():
            if description.get(part) != text:
                raise ValueError(
                    f"the checkpoint {path} belongs to a fit with other {part}; delete it, or give "
                    "another path"
                )
        return results

    def save(self) -> None:
        """Write everything."""
        if self.path is not None:
            part = self.path.with_name(f"{self.path.name}.{os.getpid()}.part")
            try:
                with open(part, "wb") as file:
                    pickle.dump((self._description, self.results), file, protocol=5)
                os.replace(part, self.path)
            finally:
                part.unlink(missing_ok=True)
        self._saved = time.monotonic()

    def keep(self, name: str, value: Any) -> None:
        """Store a result, and write if it is time."""
        self.results[name] = value
        if time.monotonic() - self._saved >= PERIOD:
            self.save()

    def remove(self) -> None:
        """Delete the file: the fit is done."""
        if self.path is not None:
            self.path.unlink(missing_ok=True)
