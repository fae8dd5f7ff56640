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
    #: The mean and, after it, ``f / sqrt(1 + |f|^2)``, as combinations of the points: (1 + r, k).
    operator: Array
    #: Inner products of the latter with the mean: (r,).
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
        schur = self._eliminate(left, right)
        values = schur.log_determinants()
        if np.isnan(values).any():
            raise ValueError(
                "a covariance is not positive semidefinite; eta is too small for its rounding"
            )
        values += np.log1p(schur.half).sum(axis=-1)[:, None]
        return values

    def resolvent_traces(self, left: Index, right: Index) -> Array:
        """See :class:`Mixtures`."""
        schur = self._eliminate(left, right)
        half = schur.half
        V = schur.W / np.sqrt(1 + half[:, None, :, None])
        inverse = np.linalg.solve(schur.complement(), _plus_one(V.swapaxes(-1, -2) @ V))
        kept = np.trace(inverse, axis1=-2, axis2=-1)
        return (half / (1 + half)).sum(axis=-1)[:, None] + V.shape[-1] - kept

    def spectra(self, left: Index, right: Index) -> Array:
        """See :class:`Mixtures`."""
        schur = self._eliminate(left, right)
        W, half = schur.W, schur.half[:, None]
        r, size = W.shape[-2:]
        joint = np.zeros((*W.shape[:2], r + size, r + size))
        joint[..., np.arange(r), np.arange(r)] = half
        # eigvalsh reads what is below the diagonal
        joint[..., r:, :r] = (W * np.sqrt(1 + half[..., None])).swapaxes(-1, -2)
        joint[..., r:, r:] = schur.complement() + W.swapaxes(-1, -2) @ W - np.eye(size)
        return _eigenvalues(joint)

    def own_log_determinants(self) -> Array:
        """See :class:`Mixtures`."""
        return np.array([np.log1p(x.values).sum() for x in self._left])

    def _eliminate(self, left: Index, right: Index) -> _Schur:
        """Eliminate each cloud x of a tile from ``I + F'F``, for all y."""
        index, _ = self._P.padded(left)
        panel = self._panel(right)
        K = self._scratch.empty("K", index.size, panel.index.size)
        K = self._base(self._P.take(index.ravel()), panel.points, K)
        return panel.eliminate(_stacked([self._left[i] for i in left], index.shape[1]), K)

    def _panel(self, right: Index) -> _Panel:
        """Clouds y side by side; a thread keeps the last one, because tiles come column by column."""
        scratch = self._scratch
        if scratch.owner is not right:
            blocks = [self._right[j] for j in right]
            scratch.owner, scratch.panel = right, _Panel(self._Q, right, blocks, self._eta, scratch)
        panel: _Panel = scratch.panel
        return panel


@dataclass(frozen=True)
class _Schur:
    """What is left of ``I + F'F`` on the k points of y and z after x: blocks - W'W, plus a border.

    For g clouds x and m clouds y.
    """

    #: Halved eigenvalues of ``Sx / eta``: (g, r).
    half: Array
    #: (g, m, r, k + 1).
    W: Array
    #: (m, k + 1, k + 1).
    blocks: Array
    #: (g, m, k).
    border: Array
    #: (g, m).
    corner: Array
    scratch: Scratch

    def complement(self) -> Array:
        """The matrices, of shape (g, m, k + 1, k + 1)."""
        R: Array = self.blocks - self.W.swapaxes(-1, -2) @ self.W
        R[..., -1, :-1] += self.border
        R[..., :-1, -1] += self.border
        R[..., -1, -1] += self.corner
        return R

    def log_determinants(self) -> Array:
        """Their determinants: (g, m)."""
        from mercer.compiled.measures import log_determinants

        out = np.empty(self.corner.shape)
        products = self.scratch.empty("products", *out.shape, *self.blocks.shape[1:])
        np.matmul(self.W.swapaxes(-1, -2), self.W, out=products)
        log_determinants(self.blocks, products, self.border, self.corner, out)
        return out


class _Panel:
    """Clouds y side by side, padded to the same number k of points of which some weigh nothing."""

    def __init__(
        self, Q: Clouds, right: Index, blocks: list[_Block], eta: float, scratch: Scratch
    ) -> None:
        self.index, self._weights = Q.padded(right)
        self.points = Q.take(self.index.ravel())
        self._scratch = scratch
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

    def eliminate(self, x: _Spectrum, K: Array) -> _Schur:
        """Eliminate x from ``I + F'F``; K is the base kernel between the points of x and of all y."""
        g, rows, _ = x.operator.shape
        m, k = self.index.shape
        products = self._scratch.empty("G", g, rows, m * (k + 1))
        np.matmul(x.operator, self._centred(K).reshape(g, -1, m * (k + 1)), out=products)
        G = products.reshape(g, rows, m, k + 1).swapaxes(1, 2)
        mean, W = G[:, :, 0], G[:, :, 1:]
        W[..., k] += x.with_mean[:, None] * self._z
        border = mean[..., :k] * self._z - self._with_mean
        corner = (x.square[:, None] + self._squares) * self._z**2 + 2 * mean[..., k] * self._z
        return _Schur(x.values / 2, W, self._blocks, border, corner, self._scratch)

    def _centred(self, K: Array) -> Array:
        """Inner products of points with the columns of F, and with the part -my / 2 of z, of all y."""
        from mercer.compiled.measures import centre_columns

        m, k = self.index.shape
        out = self._scratch.empty("centred", len(K), m, k + 1)
        centre_columns(K.reshape(-1, m, k), self._weights, self._scales, -self._z, out)
        return out


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
        operator = np.concatenate([a[None], vectors.T])
        found[i] = _Spectrum(values, operator, vectors.T @ means, np.array(square))

    own_grams(P, base, decompose, "spectra of clouds")
    return found


def _stacked(spectra: list[_Spectrum], k: int) -> _Spectrum:
    """Several clouds of k points at most, with zeros where they have fewer points or eigenvalues."""
    r = max(len(x.values) for x in spectra)
    values, with_mean = np.zeros((2, len(spectra), r))
    operators = np.zeros((len(spectra), 1 + r, k))
    for i, x in enumerate(spectra):
        rank, size = len(x.values), x.operator.shape[1]
        values[i, :rank], with_mean[i, :rank] = x.values, x.with_mean
        operators[i, : 1 + rank, :size] = x.operator
    return _Spectrum(values, operators, with_mean, np.array([x.square for x in spectra]))


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
