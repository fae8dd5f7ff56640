"""Functions of sparse matrices on a device, by torch products."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse

from mercer.engine.matrix_functions import Expansion, WalkSeries


def brought(home: str, values: Any) -> torch.Tensor:
    """An array, a tensor or a sparse matrix of SciPy as a tensor in double precision on a device."""
    if not sparse.issparse(values):
        return torch.as_tensor(values, dtype=torch.float64, device=home)
    rows = sparse.csr_array(values)
    parts = (torch.as_tensor(part, device=home) for part in (rows.indptr, rows.indices))
    data = torch.as_tensor(rows.data, dtype=torch.float64, device=home)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Sparse CSR tensor support is in beta")
        return torch.sparse_csr_tensor(*parts, data, rows.shape, check_invariants=True)


def scattered(matrix: torch.Tensor, nodes: NDArray[np.intp], values: Any) -> torch.Tensor:
    """A block of vectors on all nodes, with rows of values added at some."""
    values = brought(str(matrix.device), values)
    block = values.new_zeros((matrix.shape[0], *values.shape[1:]))
    where = torch.as_tensor(nodes, device=matrix.device)
    return block.index_put_((where,), values, accumulate=True)


def chebyshev(
    series: Expansion, matrix: torch.Tensor, block: torch.Tensor, advance: Callable[[], None]
) -> torch.Tensor:
    """The sum of a Chebyshev series of a matrix, times a block of vectors."""
    total = series.coefficients[0] * block
    if series.passes == 0:
        return total
    slope, shift = series.steps
    current, previous = block, torch.zeros_like(block)
    for k, weight in enumerate(series.coefficients[1:].tolist()):
        half = 0.5 if k == 0 else 1.0
        following = (matrix @ current).mul_(half * slope)
        following.add_(current, alpha=half * shift).sub_(previous)
        total.add_(following, alpha=weight)
        current, previous = following, current
        advance()
    return total


def walks(
    series: WalkSeries, matrix: torch.Tensor, block: torch.Tensor, advance: Callable[[], None]
) -> torch.Tensor:
    """The sum of a series over walks of a matrix, times a block of vectors."""
    total = torch.zeros_like(block) if series.slope else block.clone()
    current = block
    for k in range(1, series.terms + 1):
        current = (matrix @ current).mul_(series.beta / k)
        total.add_(current, alpha=float(k) if series.slope else 1.0)
        advance()
    return total


def half_powers(
    matrix: torch.Tensor, nodes: NDArray[np.intp], exponent: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Rows of some nodes in two powers of a symmetric matrix, whose product is the one asked for."""
    columns = scattered(matrix, nodes, np.eye(len(nodes)))
    for _ in range(exponent // 2):
        columns = matrix @ columns
    return columns.T, (matrix @ columns).T if exponent % 2 else columns.T
