"""Features of spaces with eigenfunctions: homogeneous ones and finite ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mercer._arrays import on_cpu
from mercer.gp.features import Features, PriorWeights
from mercer.rows.sums import RowSums
from mercer.spaces.realisations.eigenfunctions import Eigenfunctions

if TYPE_CHECKING:
    from mercer.gp.elbo import Bound, Prior, Solution

Array = NDArray[np.float64]

#: exp() of more than this times a few rows overflows.
_LOG_MOST = 600.0


@dataclass(frozen=True, eq=False)
class EigenFeatures(Features):
    """Eigenfunctions of a space."""

    basis: Eigenfunctions
    space: Any
    n: int
    inputs = None

    @classmethod
    def of(
        cls, kernel: Any, basis: Eigenfunctions, columns: int, inputs: str, levels: Any
    ) -> EigenFeatures:
        """Features of a kernel; options that are for spheres are refused."""
        if inputs not in ("auto", "points") or levels is not None:
            raise ValueError(
                f"inputs={inputs!r} and levels={levels!r} are for spheres; leave both out with "
                f"{kernel.space!r}"
            )
        kind = HomogeneousFeatures if basis.n_points is None else FiniteFeatures
        space = kernel.laplacian_space
        return kind(basis, space, space.fixed_columns(columns))

    @property
    def size(self) -> int:  # type: ignore[override]
        """See :class:`Features`."""
        return len(self.basis.eigenvalues)

    def check(self, X: Any, name: str = "X") -> Any:
        return self.basis.check(on_cpu(X), name)

    def gram(self, kernel: Any, rows: Any) -> Array:
        return self.basis.gram(kernel, rows)

    def serves(self, kernel: Any, inputs: str) -> bool:
        right = bool(kernel.laplacian_space == self.space)
        if right:
            kernel.log_weights_at(self.basis.eigenvalues, self.n)  # refuses parameters out of range
        return right

    @property
    def fingerprint(self) -> str:
        return self.basis.fingerprint

    def _spectrum(self, kernel: Any) -> tuple[Array, Array]:
        """Weights of all eigenvalues, kept and omitted, and derivatives of their logarithms.

        Those of a normalised kernel are relative to the largest.
        """
        eigenvalues = np.concatenate([self.basis.eigenvalues, self.basis.rest_eigenvalues])
        logs = kernel.log_weights_at(eigenvalues, self.n)
        top = float(logs.max())
        if top == -np.inf:
            raise ValueError(f"{kernel!r} has weight zero at all eigenvalues")
        if not kernel.normalized and abs(top) > _LOG_MOST:
            raise ValueError(f"{kernel!r} has the eigenvalue exp({top:.6g}); use normalized=True")
        scores = np.zeros((len(logs), len(kernel.free())))
        for i, name in enumerate(kernel.free()):
            scores[:, i] = kernel.slope(self.n, name).scores(eigenvalues)
        return np.exp(logs - (top if kernel.normalized else 0.0)), scores


@dataclass(frozen=True, eq=False)
class HomogeneousFeatures(EigenFeatures):
    """Eigenfunctions on a homogeneous space, where k(x, x) is the same everywhere."""

    @property
    def n_rest(self) -> int:  # type: ignore[override]
        """See :class:`Features`."""
        return len(self.basis.rest_eigenvalues)

    def write(self, rows: Any, out: Array) -> Array:
        out[:] = self.basis.values(rows)
        return self.basis.rest(rows)

    def weights(self, kernel: Any) -> PriorWeights:
        a, scores = self._spectrum(kernel)
        if kernel.normalized:
            a = a / (a @ self.basis.mean_squares)
            scores = scores - (a * self.basis.mean_squares) @ scores
        kept, rest = slice(self.size), slice(self.size, None)
        return PriorWeights(a[kept], scores[kept], a[rest], a[rest, None] * scores[rest])


@dataclass(frozen=True, eq=False)
class FiniteFeatures(EigenFeatures):
    """Eigenfunctions on a space of finitely many points, such as the nodes of a graph.

    Sums of weights and targets are collected at each point.  Sums of any functions of the points
    follow from these, such as the eigenfunctions of a normalised kernel, which are divided by ``k(x,
    x)^(1/2)``.
    """

    n_rest = 0

    @property
    def n_points(self) -> int:
        """Number of points."""
        assert self.basis.n_points is not None
        return self.basis.n_points

    def write(self, rows: Any, out: Array) -> Array:
        """See :class:`Features`; the eigenfunctions, which no kernel has scaled yet."""
        out[:] = self.basis.values(rows)
        return np.empty((len(out), 0))

    def weights(self, kernel: Any) -> PriorWeights:
        return self.at(kernel).weights(kernel)

    def sums(self, rows: Any, outputs: int, beside: Any = None) -> RowSums:
        return PointSums(self.n_points, outputs)

    def at(self, kernel: Any) -> TabulatedFunctions:
        """See :class:`Features`; ``phi_j(x) (a_j / k(x, x))^(1/2)``, or without k if not normalised."""
        everywhere = np.arange(self.n_points)
        phi, psi = self.basis.values(everywhere), self.basis.rest(everywhere)
        a, scores = self._spectrum(kernel)
        # Sums of a_j, and of its derivatives, times squares: those kept, and the rest.
        terms = np.column_stack([a, a[:, None] * scores])
        kept, rest = phi**2 @ terms[: phi.shape[1]], psi @ terms[phi.shape[1] :]
        scale, scale_slopes = np.ones(len(phi)), np.zeros((len(phi), scores.shape[1]))
        if kernel.normalized:
            scale, scale_slopes = kept[:, 0] + rest[:, 0], kept[:, 1:] + rest[:, 1:]
            if not (scale > 0).all():
                raise ValueError(
                    f"{kernel!r} is zero at {self.basis.points([int(scale.argmin())])[0]!r}, and cannot "
                    "be normalised; use normalized=False"
                )
            scale_slopes = scale_slopes / scale[:, None]
        table = phi * np.sqrt(a[: phi.shape[1]])
        table /= np.sqrt(scale)[:, None]
        left = rest / scale[:, None]
        left_slopes = left[:, 1:] - left[:, :1] * scale_slopes
        return TabulatedFunctions(table, left[:, 0], scores[: phi.shape[1]], scale_slopes, left_slopes)


class PointSums(RowSums):
    """Sums over rows at each point of a finite space; ``gram`` holds sums of weights."""

    def __init__(self, points: int, outputs: int) -> None:
        self.gram, self.linear, self.rest = np.zeros(points), np.zeros((points, outputs)), np.zeros(0)

    def add(self, rows: Any, w: Array, t: Array, values: tuple[Array, Array] | None = None) -> None:
        self.gram += np.bincount(rows, w, len(self.gram))
        for i, column in enumerate(t.T):
            self.linear[:, i] += np.bincount(rows, column, len(self.gram))


@dataclass(frozen=True, eq=False)
class TabulatedFunctions:
    """The functions of :class:`FiniteFeatures` at one kernel: tables, with derivatives.

    Weights have the prior variance one.  With s the derivatives of ``log a_j`` and h those of
    ``log k(x, x)`` (zero if not normalised) in a hyperparameter, the derivative of a value phi_j(x) of
    the table is ``phi_j(x) (s_j - h(x)) / 2``.

    Parameters
    ----------
    table : array of shape (n, M)
        The functions at all points.
    left : array of shape (n,)
        The part of k(x, x) that they omit.
    scores, scale_slopes, left_slopes : arrays of shape (M, p), (n, p) and (n, p)
        Derivatives s, h, and those of ``left``.
    """

    table: Array
    left: Array
    scores: Array
    scale_slopes: Array
    left_slopes: Array

    def write(self, rows: Any, out: Array) -> Array:
        """See :class:`Features`."""
        np.take(self.table, rows, axis=0, out=out)
        return self.left[rows, None]

    def weights(self, kernel: Any) -> PriorWeights:
        """See :class:`Features`; derivatives are in :meth:`function_slopes`."""
        still, one = np.zeros_like(self.scores), np.ones(1)
        return PriorWeights(np.ones(len(still)), still, one, np.zeros((1, still.shape[1])))

    def project(self, bound: Bound) -> Bound:
        """See :class:`Features`; rows at one point count as one, of all their weight."""
        seen = np.flatnonzero(bound.gram)
        roots = np.sqrt(bound.gram[seen])[:, None]
        return bound.of_factor(roots * self.table[seen], bound.linear[seen] / roots)

    def project_rest(self, bound: Bound, rest: Array) -> Array:
        """See :class:`Features`."""
        return np.array([bound.gram @ self.left])

    def function_slopes(self, solution: Solution, prior: Prior, bound: Bound) -> Array:
        """See :class:`Features`."""
        seen = np.flatnonzero(bound.gram)
        counts, phi = bound.gram[seen][:, None], self.table[seen]
        mean, outputs = solution.mean, solution.quadratic.size
        by_values = (bound.linear[seen] - counts * (phi @ mean)) @ mean.T
        by_values -= outputs * counts * solution.times_covariance(phi)
        by_values *= phi / (2 * solution.noise)
        by_left = solution.left_slope() * prior.amplitude * prior.weights.rest * counts[:, 0]
        found: Array = by_values.sum(axis=0) @ self.scores
        found -= by_values.sum(axis=1) @ self.scale_slopes[seen]
        return found + by_left @ self.left_slopes[seen]
