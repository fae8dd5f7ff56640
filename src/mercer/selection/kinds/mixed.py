"""Tables whose columns are of several kinds."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from mercer.datasets import Table, read_mixed
from mercer.selection.kinds.base import Candidates, ColumnRoles, Kind

if TYPE_CHECKING:
    from mercer.selection.models import SavedModel


class Mixed(Kind):
    """Data frames, for kernels that name their columns (:class:`~mercer.kernels.On`)."""

    name, noun, variable = "mixed", "rows", "table"
    form = "a data frame"

    def recognises(self, X: Any) -> bool:
        """Never: which kernel goes with which column is for the user to say."""
        return False

    def candidates(self, X: Any, space: Any = "auto") -> Candidates:
        """See :class:`Kind`."""
        raise ValueError(
            "columns of several kinds need a kernel each: give kernels=On(columns, kernel) + ..."
        )

    def read(self, path: str | Path, roles: ColumnRoles, model: SavedModel | None = None) -> Table:
        """Read all columns; the kernel of a model finds its own by name."""
        drop, labelled = roles.get("drop", ()), model is None
        return read_mixed(path, roles.get("target"), drop, roles.get("group"), labelled=labelled)

    def from_frame(self, frame: Any, model: SavedModel) -> Any:
        """The frame itself."""
        return frame
