"""Clouds: sets of points, possibly with weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mercer.datasets import Table, read_clouds
from mercer.kernels import (
    Gaussian,
    GaussianEmbedding,
    InverseGeneralizedVariance,
    Kernel,
    MeanEmbedding,
    TraceKernel,
)
from mercer.selection.kinds.base import (
    Candidates,
    ColumnRoles,
    Kind,
    depth,
    first_of,
    points_of,
    positions,
)
from mercer.selection.scales import Template
from mercer.spaces.clouds import check_clouds

if TYPE_CHECKING:
    from mercer.selection.models import SavedModel

#: Median similarities of points under the base kernels, and of clouds under their kernels.
BASE_SIMILARITIES, CLOUD_SIMILARITIES = (0.001, 0.1, 0.6), (0.3, 0.9)


class Clouds(Kind):
    """Points that are arrays of shape (k, d), or pairs of such an array and weights."""

    name = noun = variable = "clouds"
    needs = ("cloud",)
    form = "a list of arrays"
    option = "cloud"
    own_options = ("weight",)
    shared_options = ("drop",)
    reader, reader_roles = "read_clouds", ("target", "cloud", "weight", "drop")

    def recognises(self, X: Any) -> bool:
        """Recognise arrays of rows, and pairs of such an array and weights."""
        first = first_of(points_of(X))
        weighted = isinstance(first, tuple) and len(first) == 2 and depth(first[0]) > 0
        return weighted or depth(first) > 1

    def candidates(self, X: Any, space: Any = "auto") -> Candidates:
        try:
            clouds = check_clouds(X, "X", vectors=True, rescale=False)
        except ValueError as error:
            # No kernel has been chosen yet that could rescale weights.
            raise ValueError(str(error).replace(", or use rescale_weights=True", "")) from None
        gauss = Gaussian()
        kernels: dict[str, tuple[Kernel, tuple[float, ...]]] = {
            "mean embedding": (MeanEmbedding(gauss), ()),
            "Gaussian of embeddings": (GaussianEmbedding(gauss), CLOUD_SIMILARITIES),
            "trace": (TraceKernel(gauss), CLOUD_SIMILARITIES),
            "generalised variance": (InverseGeneralizedVariance(gauss), CLOUD_SIMILARITIES),
        }
        families = {
            name: [Template(*rival, base) for base in BASE_SIMILARITIES]
            for name, rival in kernels.items()
        }
        sizes = clouds.sizes
        facts = f"{sizes.min()} to {sizes.max()} points in {clouds.points.shape[1]} dimensions"
        plain = ("mean embedding", "Gaussian of embeddings")
        return Candidates(
            self, "clouds", facts, X, len(sizes), families, plain, "mean-embedding", "spectral"
        )

    def labels(self, X: Any, rows: Sequence[int]) -> list[str]:
        """Clouds by position, with their sizes."""
        sizes = check_clouds(X, "X", vectors=True, rescale=False).sizes
        return [f"cloud {row}, {size} points" for row, size in zip(rows, sizes, strict=True)]

    def read(self, path: str | Path, roles: ColumnRoles, model: SavedModel | None = None) -> Table:
        """Read clouds; for a model, with the coordinates in its order."""
        drop, labelled = roles.get("drop", ()), model is None
        table = read_clouds(
            path, roles.get("target"), roles["cloud"], roles.get("weight"), drop, labelled=labelled
        )
        if model is None or not model.columns:
            return table
        order = positions(table.name, table.columns, model)
        X = [
            (cloud[0][:, order], cloud[1]) if isinstance(cloud, tuple) else cloud[:, order]
            for cloud in table.X
        ]
        return replace(table, X=X, columns=model.columns)

    def file_facts(self, table: Table) -> str:
        """Names of the coordinates."""
        return f"coordinates: {', '.join(table.columns)}"

    def id_column(self, roles: ColumnRoles) -> str:
        return str(roles.get("cloud", "row"))
