"""Mixtures of pairs of clouds: a small matrix for each pair, many at a time.

The mixture of two clouds x and y with halved weights has the covariance operator

    S = Sx / 2 + Sy / 2 + z z',   z = (mx - my) / 2,

with the means m and covariances of the clouds in the feature space of a base kernel.  Kernels between
measures are functions of the spectrum of S.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from mercer.engine.pairs import COLUMNS, ROWS, Base, Scratch, own_grams
from mercer.engine.threads import run
from mercer.spaces.clouds import Clouds, Index

Array = NDArray[np.float64]
#: Error of an eigenvalue of a centred Gram matrix, relative to the values that were centred.
_ROUNDING = 1e-13
#: Eigenvalues of ``Sx / eta`` are left out if their sum is below this, or below a rounding of all.
_LEFT_OUT = 1e-14


class Mixtures(Protocol):
    """Covariances S of the mixtures of pairs of clouds; tiles by the numbers of the clouds."""

    #: Largest number of clouds in the rows and in the columns of a tile, if there is one.
    most: int | None

    def log_determinants(self, left: Index, right: Index) -> Array:
        """``log |I + S / eta|``."""

    def resolvent_traces(self, left: Index, right: Index) -> Array:
        """``tr S (S + eta I)^-1``, the derivative of ``-log |I + S / eta|`` by log eta."""

    def spectra(self, left: Index, right: Index) -> Array:
        """Eigenvalues of ``S / eta``, with zeros among them; one more axis."""

    def own_log_determinants(self) -> Array:
        """``log |I + Sx / eta|`` of each cloud on the left."""


class ExplicitMixtures:
    """Covariances as matrices, for points with D explicit coordinates each."""

    def __init__(self, P: Clouds, Q: Clouds | None, eta: float) -> None:
        self._left = _moments(P)
        self._right = self._left if Q is None else _moments(Q)
        self._eta = eta
        # A matrix for each pair of a tile: not more numbers than in a tile of points.
        self.most: int | None = max(1, int((ROWS * COLUMNS) ** 0.5) // P.points.shape[1])

    def _covariances(self, left: Index, right: Index) -> Array:
        (means, own), (others, theirs) = self._left, self._right
        z = (means[left][:, None] - others[right]) / 2
        S: Array = z[..., None] * z[..., None, :]
        S += own[left][:, None] / 2
        S += theirs[right] / 2
        S /= self._eta
        return S

    def log_determinants(self, left: Index, right: Index) -> Array:
        """See :class:`Mixtures`."""
        return _log_determinants(_plus_one(self._covariances(left, right)))

    def resolvent_traces(self, left: Index, right: Index) -> Array:
        """See :class:`Mixtures`."""
        S = self._covariances(left, right)
        return np.trace(np.linalg.solve(_plus_one(S.copy()), S), axis1=-2, axis2=-1)

    def spectra(self, left: Index, right: Index) -> Array:
        """See :class:`Mixtures`."""
        return _eigenvalues(self._covariances(left, right))

    def own_spectra(self) -> Array:
        """Eigenvalues of ``Sx / eta`` of each cloud on the left."""
        return _eigenvalues(self._left[1] / self._eta)

    def own_log_determinants(self) -> Array:
        """See :class:`Mixtures`."""
        return _log_determinants(_plus_one(self._left[1] / self._eta))


def _moments(P: Clouds) -> tuple[Array, Array]:
    """Mean and covariance matrix of each cloud."""
    rows, weights = P.points, P.weights
    means = P.sums(rows)
    covariances = np.empty((len(P), rows.shape[1], rows.shape[1]))

    def covariance(first: int, last: int) -> None:
        for i in range(first, last):
            part = slice(P.starts[i], P.starts[i + 1])
            centred = (rows[part] - means[i]) * np.sqrt(weights[part, None])
            np.matmul(centred.T, centred, out=covariances[i])

    run(covariance, [(i, min(i + 64, len(P))) for i in range(0, len(P), 64)])
    return means, covariances


@dataclass(frozen=True)
class _Spectrum:
    """A cloud x in the eigenvectors f of its covariance, ``|f|^2`` an eigenvalue of ``Sx / (2 eta)``.

    Or several, along a first axis.
    """

    #: Eigenvalues of ``Sx / eta``: (r,).
    values: Array
    #: ``f / sqrt(1 + |f|^2)`` and, last, the mean, as combinations of the points: (k, r + 1).
    vectors: Array
    #: Inner products of the former with the mean: (r,).
    with_mean: Array
    #: Squared length of the mean: ().
    square: Array


@dataclass(frozen=True)
class _Block:
    """A cloud y by its centred points, the columns of ``F = [sqrt(b_j / (2 eta)) (phi_j - m)]``."""

    #: Gram matrix ``F'F``: (k, k).
    gram: Array
    #: Inner products of the columns of F with the mean: (k,).
    with_mean: Array
    #: Squared length of the mean.
    square: float


class KernelMixtures:
    """Covariances in the feature space of any base kernel, by block elimination.

    The determinant of ``I + S / eta`` is that of ``I + F'F`` for the features F of both clouds and z.
    The block of x is diagonal in the eigenvectors of its own covariance, found once per cloud, and
    eliminated; what is left is a Schur complement on the points of y and z, for a tile in one batch.
    """

    most: int | None = None

    def __init__(self, P: Clouds, Q: Clouds | None, base: Base, eta: float) -> None:
        self._P, self._Q = P, P if Q is None else Q
        self._base, self._eta = base, eta
        self._left = _spectra(P, base, eta)
        self._right = _blocks(self._Q, base, eta)
        self._scratch = Scratch()

    def log_determinants(self, left: Index, right: Index) -> Array:
        """See :class:`Mixtures`."""
        x, K = self._left_side(left, right)
        values = self._panel(right).log_determinants(x, K)
        if np.isnan(values).any():
            raise ValueError(
                "a covariance is not positive semidefinite; eta is too small for its rounding"
            )
        values += np.log1p(x.values / 2).sum(axis=-1)[:, None]
        return values

    def resolvent_traces(self, left: Index, right: Index) -> Array:
        """See :class:`Mixtures`."""
        schur = self._eliminate(left, right)
        half = schur.half
        V = schur.W / np.sqrt(1 + half[:, None, None])
        inverse = np.linalg.solve(schur.complement(), _plus_one(V @ V.swapaxes(-1, -2)))
        kept = np.trace(inverse, axis1=-2, axis2=-1)
        return (half / (1 + half)).sum(axis=-1)[:, None] + V.shape[-2] - kept

    def spectra(self, left: Index, right: Index) -> Array:
        """See :class:`Mixtures`."""
        schur = self._eliminate(left, right)
        W, half = schur.W, schur.half[:, None]
        size, r = W.shape[-2:]
        joint = np.zeros((*W.shape[:2], r + size, r + size))
        joint[..., np.arange(r), np.arange(r)] = half
        # eigvalsh reads what is below the diagonal
        joint[..., r:, :r] = W * np.sqrt(1 + half[..., None, :])
        joint[..., r:, r:] = schur.complement() + W @ W.swapaxes(-1, -2) - np.eye(size)
        return _eigenvalues(joint)

    def own_log_determinants(self) -> Array:
        """See :class:`Mixtures`."""
        return np.array([np.log1p(x.values).sum() for x in self._left])

    def _eliminate(self, left: Index, right: Index) -> _Schur:
        """Eliminate each cloud x of a tile from ``I + F'F``, for all y."""
        return self._panel(right).eliminate(*self._left_side(left, right))

    def _left_side(self, left: Index, right: Index) -> tuple[_Spectrum, Array]:
        """Clouds x of a tile, and the base kernel between the points of all y and of all x."""
        index, _ = self._P.padded(left)
        points = self._panel(right).points
        K = self._scratch.empty("K", self._panel(right).index.size, index.size)
        K = self._base(points, self._P.take(index.ravel()), K)
        return _stacked([self._left[i] for i in left], index.shape[1]), K

    def _panel(self, right: Index) -> _Panel:
        """Clouds y side by side; a thread keeps the last one, because tiles come column by column."""
        scratch = self._scratch
        if scratch.owner is not right:
            blocks = [self._right[j] for j in right]
            scratch.owner, scratch.panel = right, _Panel(self._Q, right, blocks, self._eta)
        panel: _Panel = scratch.panel
        return panel


@dataclass(frozen=True)
class _Schur:
    """What is left of ``I + F'F`` on the k points of y and z after x: blocks - W W', plus a border.

    For g clouds x and m clouds y.
    """

    #: Halved eigenvalues of ``Sx / eta``: (g, r).
    half: Array
    #: (g, m, k + 1, r).
    W: Array
    #: (m, k + 1, k + 1).
    blocks: Array
    #: (g, m, k).
    border: Array
    #: (g, m).
    corner: Array

    def complement(self) -> Array:
        """The matrices, of shape (g, m, k + 1, k + 1)."""
        R: Array = self.blocks - self.W @ self.W.swapaxes(-1, -2)
        R[..., -1, :-1] += self.border
        R[..., :-1, -1] += self.border
        R[..., -1, -1] += self.corner
        return R


class _Panel:
    """Clouds y side by side, padded to the same number k of points of which some weigh nothing."""

    def __init__(self, Q: Clouds, right: Index, blocks: list[_Block], eta: float) -> None:
        self.index, self._weights = Q.padded(right)
        self.points = Q.take(self.index.ravel())
        self._scales = np.sqrt(self._weights / (2 * eta))
        self._z = 0.5 / np.sqrt(eta)
        m, k = self.index.shape
        self._with_mean = np.zeros((m, k))
        self._squares = np.array([y.square for y in blocks])
        self._blocks = _plus_one(np.zeros((m, k + 1, k + 1)))
        for j, y in enumerate(blocks):
            size = len(y.gram)
            self._with_mean[j, :size] = y.with_mean * self._z
            self._blocks[j, :size, :size] += y.gram

    def log_determinants(self, x: _Spectrum, K: Array) -> Array:
        """Logarithms of the determinants of what :meth:`eliminate` leaves."""
        from mercer.compiled.measures import mixture_log_determinants

        out = np.empty((len(x.values), len(self.index)))
        mixture_log_determinants(
            K, self._weights, self._scales, self._z, x.vectors, x.with_mean, x.square,
            self._blocks, self._with_mean, self._squares, out,
        )  # fmt: skip
        return out

    def eliminate(self, x: _Spectrum, K: Array) -> _Schur:
        """Eliminate x from ``I + F'F``; K is the base kernel between points of all y and of all x."""
        g, size, _ = x.vectors.shape
        m, k = self.index.shape
        centred = self._centred(K).reshape(-1, g, size).swapaxes(0, 1)
        products = (centred @ x.vectors).reshape(g, m, k + 1, -1)
        W, mean = products[..., :-1], products[..., -1]
        W[:, :, k] += x.with_mean[:, None] * self._z
        border = mean[..., :k] * self._z - self._with_mean
        corner = (x.square[:, None] + self._squares) * self._z**2 + 2 * mean[..., k] * self._z
        return _Schur(x.values / 2, W, self._blocks, border, corner)

    def _centred(self, K: Array) -> Array:
        """Inner products of the columns of F, and of the part -my / 2 of z, with points, for all y."""
        blocks = K.reshape(*self.index.shape, -1)
        means = np.vecdot(self._weights[:, None], blocks.swapaxes(1, 2))[:, None]
        return np.concatenate([(blocks - means) * self._scales[..., None], -self._z * means], axis=1)


def _spectra(P: Clouds, base: Base, eta: float) -> list[_Spectrum]:
    """Decompose the covariance of each cloud."""
    found: list[Any] = [None] * len(P)

    def decompose(i: int, K: Array) -> None:
        a = P.weights[P.starts[i] : P.starts[i + 1]]
        centred, means, square = _centred(K, a)
        roots = np.sqrt(a / eta)
        rounding = _ROUNDING * float(np.abs(K).max()) / eta
        values, vectors = _leading(centred * roots * roots[:, None], rounding, i)
        vectors *= roots[:, None] / np.sqrt(2 + values)
        # Centred features, as combinations of the points that are not.
        vectors -= a[:, None] * vectors.sum(axis=0)
        combined = np.column_stack([vectors, a])
        found[i] = _Spectrum(values, combined, vectors.T @ means, np.array(square))

    own_grams(P, base, decompose, "spectra of clouds")
    return found


def _stacked(spectra: list[_Spectrum], k: int) -> _Spectrum:
    """Several clouds of k points at most, with zeros where they have fewer points or eigenvalues."""
    g, r = len(spectra), max(1, *(len(x.values) for x in spectra))
    values, with_mean = np.zeros((2, g, r))
    vectors = np.zeros((g, k, r + 1))
    for i, x in enumerate(spectra):
        size, rank = len(x.vectors), len(x.values)
        values[i, :rank], with_mean[i, :rank] = x.values, x.with_mean
        vectors[i, :size, :rank], vectors[i, :size, r] = x.vectors[:, :-1], x.vectors[:, -1]
    return _Spectrum(values, vectors, with_mean, np.array([x.square for x in spectra]))


def _blocks(P: Clouds, base: Base, eta: float) -> list[_Block]:
    """Centre and scale the Gram matrix of each cloud."""
    found: list[Any] = [None] * len(P)

    def scale(i: int, K: Array) -> None:
        a = P.weights[P.starts[i] : P.starts[i + 1]]
        centred, means, square = _centred(K, a)
        roots = np.sqrt(a / (2 * eta))
        found[i] = _Block(centred * roots * roots[:, None], (means - square) * roots, square)

    own_grams(P, base, scale, "Gram matrices of clouds")
    return found


def _centred(K: Array, a: Array) -> tuple[Array, Array, float]:
    """Gram matrix of the centred features, products of the features with their mean, its square."""
    means = K @ a
    square = float(a @ means)
    return K - means - (means[:, None] - square), means, square


def _leading(block: Array, rounding: float, i: int) -> tuple[Array, Array]:
    """Eigenvalues and -vectors without the smallest, whose sum does not matter.

    A part E of the trace left out changes the logarithm of the determinant by at most E.
    """
    values, vectors = np.linalg.eigh(block)
    trace = np.abs(values).sum()
    if values[0] < -1e-8 * trace - rounding:
        raise ValueError(
            f"the base kernel is not positive semidefinite on cloud {i}: "
            f"it has the eigenvalue {values[0] / trace:.2g} relative to the trace"
        )
    least = max(_LEFT_OUT, 2.3e-16 * trace)
    dropped = int(np.searchsorted(np.cumsum(np.maximum(values, 0)), least, side="right"))
    return values[dropped:], vectors[:, dropped:]


def _plus_one(matrices: Array) -> Array:
    """Add the identity, in place."""
    diagonal = np.arange(matrices.shape[-1])
    matrices[..., diagonal, diagonal] += 1
    return matrices


def _log_determinants(matrices: Array) -> Array:
    """Logarithms of the determinants of positive definite matrices."""
    L = np.linalg.cholesky(matrices)
    return 2 * np.log(np.diagonal(L, axis1=-2, axis2=-1)).sum(axis=-1)


def _eigenvalues(matrices: Array) -> Array:
    """Eigenvalues of symmetric matrices, from small to large; what is above the diagonal is not read."""
    return np.asarray(np.linalg.eigvalsh(matrices), dtype=np.float64)
