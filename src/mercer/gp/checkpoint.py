"""What a fit has found so far, on disk, so that one that was stopped goes on."""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mercer._files import DAMAGE, atomic_write, one_line, seal, unsealed
from mercer.gp.frozen import Codec

#: Seconds between two writes.
PERIOD = 30.0
#: Version of what is written.
FORMAT = 1


class Checkpoint:
    """Results of a fit by name, written to a file now and then.

    The file also holds a description of what is being fitted to what.  Another fit does not take up
    its results but raises an error.  Writes are atomic: the file is always whole.  It holds arrays and
    JSON, and ends with a checksum; a file that was changed, or is none of these, is refused.

    Parameters
    ----------
    path : path, optional
        None keeps results in memory only.
    description : dict of str
        Says what is fitted, part by part.
    kinds, kernel
        See :class:`~mercer.gp.frozen.Codec`.
    """

    def __init__(
        self,
        path: Any = None,
        description: dict[str, str] | None = None,
        kinds: Sequence[type] = (),
        kernel: Any = None,
    ) -> None:
        self.path = None if path is None else Path(path)
        self._description = description or {}
        self._codec = Codec(kinds, kernel)
        self._told = False
        self.results: dict[str, Any] = {}
        if self.path is not None and self.path.exists():
            self.results = self._load(self.path)
        self._write()  # a folder that cannot be written to is better known before the work

    def _load(self, path: Path) -> dict[str, Any]:
        try:
            with unsealed(path, "checkpoint", FORMAT) as file:
                content = self._codec.open(file)
                other = self._other_part(content["description"])
                results = {} if other else content["results"]
            if not isinstance(results, dict):
                raise TypeError("it holds no results")
        except DAMAGE as error:
            raise ValueError(
                f"{path} is no checkpoint of a fit: {one_line(error)}; give another path"
            ) from None
        if other:
            raise ValueError(
                f"the checkpoint {path} belongs to a fit with other {other}; delete it, or give another "
                "path"
            )
        return results

    def _other_part(self, description: dict[str, Any]) -> str | None:
        """The first part of the description that is another."""
        parts = self._description.items()
        return next((part for part, text in parts if description.get(part) != text), None)

    def _write(self) -> None:
        if self.path is not None:
            with atomic_write(self.path) as file:
                self._codec.write(file, description=self._description, results=self.results)  # type: ignore[arg-type]
                seal(file, "checkpoint", FORMAT)
        self._saved = time.monotonic()

    def save(self) -> None:
        """Write everything; where that fails, the file stays as it was, and the fit goes on."""
        try:
            self._write()
        except (OSError, ValueError) as error:  # a disk without room, a label of an odd kind
            self._saved = time.monotonic()
            self._tell(f"the checkpoint {self.path} cannot be written and stays as it was: {error}")

    def _tell(self, text: str) -> None:
        if not self._told:
            warnings.warn(text, stacklevel=4)
        self._told = True

    def keep(self, name: str, value: Any) -> None:
        """Store a result, and write if it is time."""
        self.results[name] = value
        if time.monotonic() - self._saved >= PERIOD:
            self.save()

    def remove(self) -> None:
        """Delete the file: the fit is done."""
        if self.path is not None:
            try:
                self.path.unlink(missing_ok=True)
            except OSError as error:
                self._told = False
                self._tell(f"the fit is done, and its checkpoint cannot be deleted: {error}")
