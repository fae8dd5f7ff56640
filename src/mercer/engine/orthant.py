"""Sums over modes of products over coordinates: the kernels of an orthant, for arrays of any library."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from array_api_compat import array_namespace
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import zeta

from mercer._arrays import is_foreign
from mercer._threads import run

Array = NDArray[np.float64]
#: Rows as the compiled loops take them: starts, columns and values of the non-zero entries.
Rows = tuple[NDArray[np.int64], NDArray[np.int64], Array]

#: Rows of a result that one task computes.
_ROWS = 8
#: Numbers in the products of one tile of tensors.
_TILE = 4_000_000


@dataclass(frozen=True, eq=False)
class ModeSums:
    """``exp(logs_k) sum_m [c_m Re + d_m Im] exp(-z_m) prod_i phi(z_m a_i)``, summed over components k.

    ``z_m = tilts_k + i m steps_k`` for m below ``sizes_k``; phi(x) is cosh(x), or sinh(x) / x
    (``absorbing``).  ``coefficients`` has shape (sums, components, 2, modes).  The error of the first
    sum is ``exp(error_logs_k - r_k) prod_i phi(r_k a_i)``, summed likewise, with r the ``error_tilts``.
    """

    absorbing: bool
    logs: Array
    tilts: Array
    steps: Array
    sizes: NDArray[np.int64]
    coefficients: Array
    error_logs: Array
    error_tilts: Array
    #: Error of the sum over components as an integral over times, relative to values at equal points.
    quadrature: float = 0.0

    @property
    def _exponents(self) -> NDArray[np.complex128]:
        """``z_m``, shape (components, modes)."""
        return self.tilts[:, None] + 1j * self.steps[:, None] * np.arange(self.coefficients.shape[3])

    @property
    def damping(self) -> Array:
        """Real and imaginary parts of ``s / z``, shape (components, 2, modes)."""
        ratio = self.tilts[:, None] / self._exponents
        return np.stack([ratio.real, ratio.imag], axis=1)

    def _small_factors(self) -> tuple[Array, Array, Array]:
        """Coefficients of ``log phi(z a)`` in powers of ``(r a)^2``, with r the largest ``|z|``.

        Returns r; the coefficients of all modes less those of m = 0, shape (components, terms, 2,
        modes); and those of m = 0 and of the errors, shape (components, 2, terms).
        """
        from mercer.compiled.orthant import TERMS

        k = np.arange(1, TERMS + 1)
        # log(sinh x / x) = sum_k c_k x^2k, and cosh x = sinh(2x) / 2 sinh(x).
        terms = (-1.0) ** (k + 1) * zeta(2 * k) / (k * math.pi ** (2 * k))
        if not self.absorbing:
            terms = terms * (4.0**k - 1)
        z = self._exponents
        reaches = np.abs(z).max(axis=1)
        powers = terms[:, None] * (z / reaches[:, None])[:, None, :] ** (2 * k[:, None])
        relative = powers - powers[:, :, :1]
        errors = terms * (self.error_tilts / reaches)[:, None] ** (2 * k)
        units = np.stack([powers[:, :, 0].real, errors], axis=1)
        return reaches, np.stack([relative.real, relative.imag], axis=2), units

    def _arguments(self) -> tuple[Any, ...]:
        return (
            self.absorbing, self.logs, self.tilts, self.steps, self.damping, self.coefficients,
            self.error_logs, self.error_tilts, *self._small_factors(), self.sizes, self._log_weights,
        )  # fmt: skip

    @property
    def _log_weights(self) -> Array:
        """Logarithms of bounds of the sums over modes, shape (components,)."""
        return np.log(np.abs(self.coefficients).sum(axis=(2, 3)).max(axis=0))

    def diagonal(self, roots: Any) -> tuple[Any, Any]:
        """Logarithms of the first sum of rows with themselves, and relative errors (0 of tensors)."""
        if is_foreign(roots):
            logs = self._tensor_log(roots, roots)
            return logs, array_namespace(roots).zeros_like(logs)
        from mercer.compiled.orthant import orthant_diagonal

        P, modes = _rows(roots), self._arguments()
        count = roots.shape[0]
        units, out = np.empty(count), np.empty((len(self.coefficients) + 1, count))

        def fill(begin: int) -> None:
            orthant_diagonal(begin, min(begin + 64, count), P, modes, units, out)

        run(fill, [(begin,) for begin in range(0, count, 64)])
        with np.errstate(invalid="ignore", divide="ignore"):
            return units + np.log(out[0]), out[-1] / out[0]

    def gram(
        self,
        left: Any,
        right: Any,
        scales: tuple[Any, Any],
        lengths: tuple[Any, Any],
        *,
        logarithm: bool = False,
        own: float | None = None,
        floor: float = -np.inf,
    ) -> tuple[Any, Array]:
        """All sums over pairs of rows, divided by factors of the rows; and the worst of the errors.

        Parameters
        ----------
        left, right : unit vectors, right is None for left
        scales : pair of arrays
            Logarithms of the factors.
        lengths : pair of arrays
            Logarithms of the roots of the first sum of rows with themselves.
        logarithm : bool
            Return that of the first sum.
        own : float, optional
            Value of a row with itself, in a symmetric result.
        floor : float
            Smallest value; rounding may have given smaller ones.

        Returns
        -------
        values : array of shape (sums, m, p)
        worst : array of shape (2, m)
            Largest relative error of each row, and the column it is in.
        """
        if is_foreign(left):
            logs = self._tensor_logs(left, left if right is None else right)
            logs = logs - scales[0][:, None] - scales[1][None, :]
            xp = array_namespace(logs)
            return (logs if logarithm else xp.exp(logs))[None, ...], np.zeros((2, logs.shape[0]))
        from mercer.compiled.orthant import orthant_rows

        P = _rows(left)
        Q, modes = P if right is None else _rows(right), self._arguments()
        shape = len(P[0]) - 1, len(Q[0]) - 1
        out, worst = np.empty((len(self.coefficients), *shape)), np.zeros((2, shape[0]))

        def fill(begin: int) -> None:
            end = min(begin + _ROWS, shape[0])
            orthant_rows(begin, end, P, Q, modes, *scales, right is None, logarithm, out, worst)

        run(fill, [(begin,) for begin in range(0, shape[0], _ROWS)], what="orthant")
        if self.quadrature > 0:
            logs = out[0] if logarithm else _log(out[0])
            here, there = (scale - length for scale, length in zip(scales, lengths, strict=True))
            self._add_quadrature(logs + here[:, None] + there, worst)
        if floor > -np.inf:
            np.maximum(out[0], floor, out=out[0])
        if right is None and own is not None:
            np.fill_diagonal(out[0], own)
        return out, worst

    def _add_quadrature(self, logs: Array, worst: Array) -> None:
        """Compare the error of the quadrature with logarithms of normalised values."""
        if logs.size:
            column = np.argmin(logs, axis=1)
            error = self.quadrature * np.exp(-logs[np.arange(len(logs)), column])
            worse = error > worst[0]
            worst[0, worse], worst[1, worse] = error[worse], column[worse]

    def _tensor_logs(self, left: Any, right: Any) -> Any:
        """Logarithms of the first sum for all pairs of tensors; -inf where it is not positive."""
        xp = array_namespace(left)
        room = max(1, _TILE // (int(right.shape[0]) * self.coefficients.shape[3]))
        blocks = [
            self._tensor_log(left[begin : begin + room, None, :], right[None, :, :])
            for begin in range(0, int(left.shape[0]), room)
        ]
        return xp.concat(blocks)

    def _tensor_log(self, x: Any, y: Any) -> Any:
        """Logarithm of the first sum for tensors whose last axis are the coordinates."""
        xp = array_namespace(x)
        a, separation = x * y, xp.sum((x - y) ** 2, axis=-1) / 2
        units, totals = zip(
            *(self._tensor_component(k, a, separation) for k in range(len(self.logs))), strict=True
        )
        top = xp.max(xp.stack(units), axis=0)
        total = sum(xp.exp(unit - top) * value for unit, value in zip(units, totals, strict=True))
        return top + xp.log(xp.where(total > 0, total, xp.zeros_like(total)))

    def _tensor_component(self, k: int, a: Any, separation: Any) -> tuple[Any, Any]:
        """Logarithm of the unit and sum over modes of one component; see the compiled loops."""
        xp = array_namespace(a)
        tilt, step, damping = float(self.tilts[k]), float(self.steps[k]), self.damping[k]
        falling = xp.expm1(-2 * tilt * a)
        if self.absorbing:
            gain, factors = -2 * (1 + falling) / falling, -falling / (2 * tilt * a)
        else:
            gain, factors = -2 * (1 + falling) / (2 + falling), 1 + falling / 2
        total = float(self.coefficients[0, k, 0, 0])
        for m in range(1, int(self.sizes[k])):
            sine, cosine = xp.sin(m * step * a), xp.cos(m * step * a)
            first, second = 1 + gain * sine * sine, gain * sine * cosine
            if self.absorbing:
                re, im = float(damping[0, m]), float(damping[1, m])
                first, second = first * re - second * im, first * im + second * re
            real, imag = xp.cos(m * step * separation), -xp.sin(m * step * separation)
            for i in range(int(a.shape[-1])):
                f, s = first[..., i], second[..., i]
                real, imag = real * f - imag * s, real * s + imag * f
            c, d = (float(value) for value in self.coefficients[0, k, :, m])
            total = total + c * real + d * imag
        return xp.sum(xp.log(factors), axis=-1) - tilt * separation + float(self.logs[k]), total


def _log(values: Array) -> Array:
    """Logarithms; -inf for values that rounding has made negative."""
    with np.errstate(divide="ignore"):
        return np.log(np.maximum(values, 0.0))


def log_products(roots: Any) -> Any:
    """Logarithms of the products over all coordinates, for each row."""
    dense = roots.toarray() if sparse.issparse(roots) else roots
    xp = array_namespace(dense)
    with np.errstate(divide="ignore"):  # roots of tiny shares may be zero
        return xp.sum(xp.log(dense), axis=1)


def refuse_gradients(tensors: Sequence[Any]) -> None:
    """Raise for hyperparameters that autograd should differentiate."""
    if any(tensor.requires_grad for tensor in tensors):
        raise TypeError(
            "kernels with a boundary are not differentiable in the time on tensors; detach it, or give "
            "NumPy rows and eval_gradient=True"
        )


def _rows(roots: Any) -> Rows:
    """Dense or sparse rows as the compiled loops take them."""
    matrix = sparse.csr_matrix(roots, dtype=np.float64)
    matrix.sort_indices()
    return matrix.indptr.astype(np.int64), matrix.indices.astype(np.int64), matrix.data
