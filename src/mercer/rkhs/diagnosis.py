"""Diagnosis of Gram matrices: eigenvalues, similarities, and whether they tell points apart."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mercer._arrays import on_cpu
from mercer._validation import is_number
from mercer.exceptions import DegenerateKernelWarning
from mercer.kernels.base import has_range
from mercer.kernels.tables.summary import in_short, of_columns
from mercer.rkhs.checks import Array, gram_matrix
from mercer.rkhs.geometry import center

#: Smallest difference from 1, and smallest similarity of neighbours, of a matrix that is not degenerate.
_NEARLY_CONSTANT, _NEARLY_IDENTITY = 1e-3, 1e-2
#: Size of the sample for that test, smallest number of points, tolerance, and usual share of equal ones.
_LOOKED_AT, _FEWEST, _EQUAL, _OFTEN_EQUAL = 400, 4, 1e-12, 0.1


@dataclass(frozen=True)
class Diagnosis:
    """Properties of a Gram matrix; made by :func:`diagnose`.

    Attributes
    ----------
    size : int
        Number of points.
    least_eigenvalue, largest_eigenvalue : float
        The former is not negative for a kernel.
    effective_rank : float
        Exponential of the entropy of the eigenvalues.
    mean_similarity : float
        Mean normalised value of distinct points.  Near 1 all points look alike; near 0 every point is
        similar to itself only.
    alignment : float or None
        Correlation of the centred matrix with that of the target.
    degeneracy : str or None
        A message if the matrix is nearly constant or nearly the identity; see :func:`degeneracy`.
    """

    size: int
    least_eigenvalue: float
    largest_eigenvalue: float
    effective_rank: float
    mean_similarity: float
    alignment: float | None
    degeneracy: str | None = None

    @property
    def positive_semidefinite(self) -> bool:
        """Whether negative eigenvalues are within rounding errors."""
        return self.least_eigenvalue >= -1e-12 * self.size * max(self.largest_eigenvalue, 1e-300)

    def __str__(self) -> str:
        verdict = "positive semidefinite" if self.positive_semidefinite else "NOT positive semidefinite"
        lines = [
            f"{self.size} points, {verdict} on them",
            f"eigenvalues      {self.least_eigenvalue:.4g} .. {self.largest_eigenvalue:.4g}",
            f"effective rank   {self.effective_rank:.4g}",
            f"mean similarity  {self.mean_similarity:.4g} (off the diagonal, normalised)",
        ]
        if self.alignment is not None:
            lines.append(f"alignment        {self.alignment:.4g} (centred, with the target)")
        if self.degeneracy is not None:
            lines.append(f"DEGENERATE       {self.degeneracy}; scale the kernel: kernel.scaled_to(X)")
        return "\n".join(lines)


def diagnose(K: ArrayLike, y: ArrayLike | None = None) -> Diagnosis:
    """Check a Gram matrix before fitting a model to it.

    Parameters
    ----------
    K : array of shape (m, m)
    y : array of shape (m,), optional
        Target: numbers if floating, class labels otherwise.

    Returns
    -------
    Diagnosis

    Examples
    --------
    >>> from mercer.rkhs import diagnose
    >>> print(diagnose([[1.0, 0.5], [0.5, 1.0]], y=["a", "b"]))
    2 points, positive semidefinite on them
    eigenvalues      0.5 .. 1.5
    effective rank   1.755
    mean similarity  0.5 (off the diagonal, normalised)
    alignment        1 (centred, with the target)
    """
    K = gram_matrix(K)
    values, size = np.linalg.eigvalsh(K), len(K)
    spread = np.maximum(values, 0)
    share = spread[spread > 0] / spread.sum() if spread.any() else np.ones(1)
    lengths = np.sqrt(np.maximum(np.diag(K), 0))
    scale = np.outer(lengths, lengths)
    ratio = np.divide(K, scale, out=np.zeros_like(K), where=scale > 0)
    others = (ratio.sum() - np.trace(ratio)) / (size * (size - 1)) if size > 1 else 1.0
    return Diagnosis(
        size=size,
        least_eigenvalue=float(values[0]),
        largest_eigenvalue=float(values[-1]),
        effective_rank=float(np.exp(-(share * np.log(share)).sum())),
        mean_similarity=float(others),
        alignment=None if y is None else _alignment(K, y),
        degeneracy=degeneracy(K),
    )


def degeneracy(K: ArrayLike, amplitude: float = 1.0) -> str | None:
    """Describe a Gram matrix that is nearly constant or nearly the identity; None if it is neither.

    K is nearly constant if normalised values differ from 1 by less than 1e-3 on average and the total
    variance is below 1e-3 too (a linear kernel separates parallel rows).  K is nearly the identity
    if for half of about 400 points no unequal one is more similar than 1e-2, and equal ones are rare.

    Parameters
    ----------
    K : array of shape (m, m)
    amplitude : float
        Factor of the matrix in a model; a large factor compensates for small differences.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.rkhs import degeneracy
    >>> degeneracy(np.eye(10))
    'nearly the identity: every point is similar to itself alone'
    """
    if not (is_number(amplitude) and 0 < amplitude < math.inf):
        raise ValueError(f"amplitude must be a positive number, got {amplitude!r}")
    return _degeneracy(gram_matrix(K), amplitude)


def _degeneracy(K: NDArray[Any], amplitude: float) -> str | None:
    """See :func:`degeneracy`; for a matrix that needs no checks."""
    step = max(1, len(K) // _LOOKED_AT)
    part: Array = np.asarray(K[::step, ::step], dtype=float)
    lengths = np.sqrt(np.maximum(np.diagonal(part), 0))
    if len(keep := np.flatnonzero(lengths > 0)) < _FEWEST:
        return None
    part, lengths = part[np.ix_(keep, keep)], lengths[keep]
    small = amplitude * float((lengths**2).mean() - part.mean()) < _NEARLY_CONSTANT
    part = part / lengths[:, None] / lengths
    others = ~np.eye(len(part), dtype=bool)
    if small and float(np.abs(1 - part[others]).mean()) < _NEARLY_CONSTANT:
        return "nearly constant: all points look alike to the kernel"
    nearest = np.where(others & (part < 1 - _EQUAL), np.abs(part), 0).max(axis=1)
    if np.median(nearest) < _NEARLY_IDENTITY and np.mean(part[others] >= 1 - _EQUAL) < _OFTEN_EQUAL:
        return "nearly the identity: every point is similar to itself alone"
    return None


def warn_if_degenerate(K: NDArray[Any], kernel: object, amplitude: float = 1.0) -> None:
    """Warn if nothing can be learnt from a training Gram matrix; see :func:`degeneracy`."""
    if (found := _degeneracy(K, amplitude)) is not None:
        name = in_short(kernel) if of_columns(kernel) else repr(kernel)
        remedy = "choose its range by kernel.scaled_to(X), or " if has_range(kernel) else ""
        warnings.warn(
            f"the Gram matrix of {name} on the training points is {found}; {remedy}use another kernel",
            DegenerateKernelWarning,
            stacklevel=3,
        )


def _alignment(K: Array, y: ArrayLike) -> float:
    """Cosine between the centred K and the centred Gram matrix of the target."""
    labels = np.asarray(on_cpu(y))
    if labels.shape != (len(K),):
        raise ValueError(f"y has shape {labels.shape}, K has {len(K)} rows")
    alike = np.multiply if labels.dtype.kind == "f" else np.equal
    first, second = center(K), center(alike.outer(labels, labels).astype(float))
    scale = np.linalg.norm(first) * np.linalg.norm(second)
    return float((first * second).sum() / scale) if scale > 0 else 0.0
