"""Gram matrices as operators for GPyTorch, without the matrices."""

from __future__ import annotations

import copy
import warnings
from typing import Any

import numpy as np
import torch
from torch.utils.checkpoint import checkpoint

from mercer.kernels.realised import RealisedKernel
from mercer.machines.pivots import sampled_pivots
from mercer.machines.points import Points

with warnings.catch_warnings():
    # It compiles functions in a way that torch deprecates, which is not our users' concern.
    warnings.simplefilter("ignore", DeprecationWarning)
    from linear_operator.operators import LinearOperator

#: Rows up to which a matrix is computed instead of an operator.
DENSE = 4096
#: Largest number of elements of a matrix that is computed on request, and of a part of a product.
_MOST, _PART = 2**28, 2**23
#: Smallest number of columns of the factor that preconditions conjugate gradients.
_RANK = 300


class GramOperator(LinearOperator):
    """The Gram matrix of rows, represented by its products with vectors.

    Products and their derivatives are computed tile by tile, in memory proportional to the rows.

    Parameters
    ----------
    x1, x2 : tensors of shape (m, n) and (p, n)
        Without x2 the matrix is that of x1, and symmetric.
    factor : tensor of shape ()
        Factor of all entries.
    value : tensor of shape (), optional
        Hyperparameter of the law.
    law : RealisedKernel
        The kernel of :mod:`mercer.kernels`.
    """

    def __init__(self, *arguments: torch.Tensor, law: RealisedKernel) -> None:
        super().__init__(*arguments, law=law)
        rows = [argument for argument in arguments if argument.ndim == 2]
        self.factor, *value = arguments[len(rows) :]
        self.x1, self.x2 = rows[0], rows[-1]
        self.value = value[0] if value else None
        self.law, self.symmetric = law, len(rows) == 1

    @property
    def kernel(self) -> RealisedKernel:
        """The law with its hyperparameter."""
        law = copy.copy(self.law)
        if self.value is not None:
            setattr(law, law.continuous()[0], self.value)
        return law

    def _like(self, *rows: torch.Tensor, by: torch.Tensor | float = 1.0) -> GramOperator:
        """The operator of other rows, multiplied by a number."""
        value = () if self.value is None else (self.value,)
        return GramOperator(*rows, self.factor * by, *value, law=self.law)

    def _mul_constant(self, other: torch.Tensor | float) -> LinearOperator:
        if isinstance(other, torch.Tensor):
            if other.numel() > 1:
                return super()._mul_constant(other)
            other = other.reshape(())
        rows = (self.x1,) if self.symmetric else (self.x1, self.x2)
        return self._like(*rows, by=other)

    def _mul_matrix(self, other: LinearOperator) -> LinearOperator:
        return EntrywiseProduct(self, other.evaluate_kernel())

    def _size(self) -> torch.Size:
        return torch.Size([len(self.x1), len(self.x2)])

    def _transpose_nonbatch(self) -> GramOperator:
        return self if self.symmetric else self._like(self.x2, self.x1)

    def _matmul(self, rhs: torch.Tensor) -> torch.Tensor:
        if rhs.ndim > 2:
            return torch.stack([self._matmul(part) for part in rhs.flatten(0, -3)]).reshape(
                *rhs.shape[:-2], len(self.x1), rhs.shape[-1]
            )
        product = self.kernel.matvec(self.x1, None if self.symmetric else self.x2, rhs)
        return self.factor * product.to(rhs.dtype)

    def _diagonal(self) -> torch.Tensor:
        if self.symmetric:
            return self.factor * self.kernel.diag(self.x1)
        rows = torch.arange(len(self.x1), device=self.x1.device)
        return self._get_indices(rows, rows)

    def _get_indices(
        self, row_index: torch.Tensor, col_index: torch.Tensor, *batch_indices: torch.Tensor
    ) -> torch.Tensor:
        left, right = self.x1[row_index.flatten()], self.x2[col_index.flatten()]
        size = max(1, DENSE // 4)
        parts = zip(left.split(size), right.split(size), strict=True)
        values = torch.cat([self.kernel(a, b).diagonal() for a, b in parts])
        return self.factor * values.reshape(row_index.shape)

    def _getitem(self, row_index: Any, col_index: Any, *batch_indices: Any) -> LinearOperator:
        if isinstance(row_index, slice) and row_index == col_index and self.symmetric:
            return self._like(self.x1[row_index])
        return self._like(self.x1[row_index].contiguous(), self.x2[col_index].contiguous())

    def to_dense(self) -> torch.Tensor:
        """The matrix itself, unless it is too large to be meant."""
        if self.shape.numel() > _MOST:
            raise MemoryError(
                f"a Gram matrix of {self.shape[0]} x {self.shape[1]} rows is not formed: GPyTorch asked "
                "for it, perhaps by Cholesky factorisation (gpytorch.settings.max_cholesky_size) or "
                "for exact variances (use gpytorch.settings.fast_pred_var, or fewer rows at a time)"
            )
        return self.factor * self.kernel(self.x1, None if self.symmetric else self.x2)

    def pivoted_cholesky(
        self, rank: int, error_tol: float | None = None, return_pivots: bool = False
    ) -> Any:
        """A partial factor with random pivots, found among some of the rows.

        ``F = k(X, P) L^-T`` with ``L L' = k(P, P)`` at the pivots P; see
        :func:`mercer.machines.pivots.sampled_pivots`.
        """
        rank = min(max(rank, _RANK), len(self.x1))
        with torch.no_grad():
            points = Points(self.kernel.with_floats(), self.x1.double())
            pivots, _ = sampled_pivots(points, rank, np.random.default_rng(0))
        chosen = torch.as_tensor(pivots, device=self.x1.device)
        # Rounding is what the smallest pivots are made of.
        P = self.x1[chosen].double()
        inner = self.kernel(P)
        inner = inner + 1e-10 * inner.diagonal().mean() * torch.eye(
            len(P), dtype=P.dtype, device=P.device
        )
        inverse = torch.linalg.inv(torch.linalg.cholesky(inner)).to(self.x1.dtype)
        factor = self.factor.sqrt() * self.kernel(self.x1, self.x1[chosen]) @ inverse.mT
        return (factor, chosen) if return_pivots else factor


class EntrywiseProduct(LinearOperator):
    """The entrywise product of two Gram matrices, computed a few rows at a time.

    Derivatives recompute these rows, so that memory stays proportional to the rows.

    Parameters
    ----------
    left, right : LinearOperator
        Matrices of one shape, without a batch.
    """

    def __init__(self, left: LinearOperator, right: LinearOperator) -> None:
        super().__init__(left, right)
        self.left, self.right = left, right

    def _mul_matrix(self, other: LinearOperator) -> LinearOperator:
        return EntrywiseProduct(self, other.evaluate_kernel())

    def _size(self) -> torch.Size:
        return self.left.shape

    def _transpose_nonbatch(self) -> EntrywiseProduct:
        return EntrywiseProduct(self.left.mT, self.right.mT)

    def _rows(self, start: int, stop: int) -> torch.Tensor:
        first, second = (factor[start:stop, :].to_dense() for factor in (self.left, self.right))
        return first * second

    def _matmul(self, rhs: torch.Tensor) -> torch.Tensor:
        height = max(1, _PART // self.shape[1])
        starts = range(0, self.shape[0], height)

        def product(start: int, rhs: torch.Tensor) -> torch.Tensor:
            return self._rows(start, min(start + height, self.shape[0])) @ rhs

        return torch.cat([checkpoint(product, s, rhs, use_reentrant=False) for s in starts], dim=-2)

    def _diagonal(self) -> torch.Tensor:
        return self.left.diagonal() * self.right.diagonal()

    def _get_indices(
        self, row_index: torch.Tensor, col_index: torch.Tensor, *batch_indices: torch.Tensor
    ) -> torch.Tensor:
        left = self.left._get_indices(row_index, col_index)
        return left * self.right._get_indices(row_index, col_index)

    def _getitem(self, row_index: Any, col_index: Any, *batch_indices: Any) -> LinearOperator:
        return EntrywiseProduct(
            self.left._getitem(row_index, col_index), self.right._getitem(row_index, col_index)
        )

    def to_dense(self) -> torch.Tensor:
        """The matrix itself, unless it is too large to be meant."""
        return self.left.to_dense() * self.right.to_dense()
