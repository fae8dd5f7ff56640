"""The pairwise road: a small matrix for each pair of clouds, many at a time.

The mixture of two clouds x and y with halved weights has the covariance operator

    S = Sx / 2 + Sy / 2 + z z',   z = (mx - my) / 2,

with the means m and covariances of the clouds in the feature space of a base kernel.  Kernels between
measures are functions of the spectrum of S.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from mercer.engine.threads import run
from mercer.spaces.clouds import Clouds, Index

Array = NDArray[np.float64]
#: Points in the rows and in the columns of a tile of the base kernel's Gram matrix.
ROWS, COLUMNS = 512, 1024
#: Points whose Gram matrix is computed together for the blocks of single clouds.
_OWN = 256
#: Error of an eigenvalue of a centred Gram matrix, relative to the values that were centred.
_ROUNDING = 1e-13
#: Eigenvalues of ``Sx / eta`` are left out if their sum is below this, or below a rounding of all.
_LEFT_OUT = 1e-14


class Base(Protocol):
    """Gram matrix of a base kernel between two sets of points."""

    def __call__(self, X: Any, Y: Any, out: Array | None = None) -> Array:
        """Values, written to ``out`` or not."""


def inner_products(X: Array, Y: Array, out: Array | None = None) -> Array:
    """The base kernel of points that are features."""
    return np.matmul(X, Y.T, out=out)


class Scratch(threading.local):
    """Arrays that a thread uses again and again.  Fresh ones cost more than the work in them."""

    def __init__(self) -> None:
        self._flat: dict[str, Array] = {}
        #: What was made last, and of what.
        self.panel: Any = None
        self.owner: Any = None

    def empty(self, name: str, *shape: int) -> Array:
        """An array without values; the last one of this name is overwritten."""
        size = math.prod(shape)
        if name not in self._flat or self._flat[name].size < size:
            self._flat[name] = np.empty(size)
        return self._flat[name][:size].reshape(shape)


def matrix(
    P: Clouds,
    Q: Clouds | None,
    job: Callable[[Index, Index], Array],
    what: str,
    channels: int | None = None,
    most: int | None = None,
) -> Array:
    """Matrix with one element per pair of clouds; symmetric, between P and P, if Q is None.

    Parameters
    ----------
    P, Q : Clouds
    job : callable
        Computes a tile from the numbers of its clouds of P and of Q.
    what : str
        What is being computed, for a progress bar.
    channels : int, optional
        Numbers per pair, along a last axis, if the job computes several.
    most : int, optional
        Largest number of clouds in the rows and in the columns of a tile.
    """
    other = P if Q is None else Q
    out = np.empty((len(P), len(other), *([] if channels is None else [channels])))
    rows, columns = P.groups(ROWS, most), other.groups(COLUMNS, most)
    rank = np.empty(len(other), dtype=np.int64)
    rank[np.concatenate(columns)] = np.arange(len(other))

    def fill(left: Index, right: Index) -> None:
        tile = job(left, right)
        if Q is not None:
            out[np.ix_(left, right)] = tile
            return
        i, j = np.nonzero(rank[left][:, None] <= rank[right])
        out[left[i], right[j]] = out[right[j], left[i]] = tile[i, j]

    tasks = [(a, b) for b in columns for a in rows if Q is not None or rank[b[-1]] >= rank[a[0]]]
    run(fill, tasks, what=what)
    return out


def own_grams(P: Clouds, base: Base, job: Callable[[int, Array], None], what: str) -> None:
    """Hand the base kernel's Gram matrix of each cloud to a job."""

    def blocks(group: Index) -> None:
        index, places = P.joined(group)
        points = P.take(index)
        K = base(points, points)
        for i, place in zip(group.tolist(), places, strict=True):
            job(i, K[place, place])

    run(blocks, [(group,) for group in P.groups(_OWN)], what=what)


def mean_products(P: Clouds, Q: Clouds | None, base: Base) -> Array:
    """Inner products ``a' K b`` of the mean embeddings of clouds."""
    # A large cloud is the sum of its pieces: no tile need hold all of it.
    left, owners = P.pieces(COLUMNS)
    right, others = (left, owners) if Q is None else Q.pieces(COLUMNS)
    scratch = Scratch()

    def tile(rows: Index, columns: Index) -> Array:
        index, places = left.joined(rows)
        theirs, there = right.joined(columns)
        K = scratch.empty("K", len(index), len(theirs))
        K = base(left.take(index), right.take(theirs), K)
        K *= left.weights[index, None]
        sums = np.add.reduceat(K, [place.start for place in places], axis=0)
        sums *= right.weights[theirs]
        return np.add.reduceat(sums, [place.start for place in there], axis=1)

    K = matrix(left, None if Q is None else right, tile, "mean embeddings")
    if len(left) > len(P):
        K = np.add.reduceat(K, owners, axis=0)
    return np.add.reduceat(K, others, axis=1) if len(right) > len(others) else K


def mean_squares(P: Clouds, base: Base) -> Array:
    """Squared lengths ``a' K a`` of the mean embeddings of clouds."""
    out = np.empty(len(P))
    small = np.flatnonzero(P.sizes <= ROWS)
    for i in np.flatnonzero(P.sizes > ROWS):
        out[i] = mean_products(P.select(np.array([i])), None, base)[0, 0]
    if small.size:
        part = P.select(small)

        def square(i: int, K: Array) -> None:
            a = part.weights[part.starts[i] : part.starts[i + 1]]
            out[small[i]] = a @ K @ a

        own_grams(part, base, square, "clouds")
    return out


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
    """A cloud x in the eigenvectors f of its covariance, ``|f|^2`` an eigenvalue of ``Sx / (2 eta)``."""

    #: Eigenvalues of ``Sx / eta``: (r,).
    values: Array
    #: ``f / sqrt(1 + |f|^2)`` and, last, the mean, as combinations of the points: (r + 1, k).
    operator: Array
    #: Inner products of the former with the mean: (r,).
    with_mean: Array
    #: Squared length of the mean.
    square: float


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
    eliminated; what is left is a Schur complement on the points of y and z, for many y in one batch.
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
        eliminated = np.array([np.log1p(self._left[i].values / 2).sum() for i in left])
        values = self._tile(left, right, lambda x, schur: schur.log_determinants())
        if np.isnan(values).any():
            raise ValueError(
                "a covariance is not positive semidefinite; eta is too small for its rounding"
            )
        return values + eliminated[:, None]

    def resolvent_traces(self, left: Index, right: Index) -> Array:
        """See :class:`Mixtures`."""

        def value(x: _Spectrum, schur: _Schur) -> Array:
            half = x.values / 2
            V = schur.W / np.sqrt(1 + half[:, None])
            inverse = np.linalg.solve(schur.complement(), _plus_one(V.swapaxes(-1, -2) @ V))
            kept = np.trace(inverse, axis1=-2, axis2=-1)
            return (half / (1 + half)).sum() + V.shape[-1] - kept

        return self._tile(left, right, value)

    def spectra(self, left: Index, right: Index) -> Array:
        """See :class:`Mixtures`."""
        sizes = (max(len(self._left[i].values) for i in left), self._Q.sizes[right].max() + 1)

        def value(x: _Spectrum, schur: _Schur) -> Array:
            W, r, full = schur.W, len(x.values), sum(sizes)
            joint = np.zeros((len(W), full, full))
            joint[:, np.arange(r), np.arange(r)] = x.values / 2
            # eigvalsh reads what is below the diagonal
            joint[:, sizes[0] :, :r] = (W * np.sqrt(1 + x.values[:, None] / 2)).swapaxes(-1, -2)
            block = schur.complement() + W.swapaxes(-1, -2) @ W - np.eye(sizes[1])
            joint[:, sizes[0] :, sizes[0] :] = block
            return _eigenvalues(joint)

        return self._tile(left, right, value)

    def own_log_determinants(self) -> Array:
        """See :class:`Mixtures`."""
        return np.array([np.log1p(x.values).sum() for x in self._left])

    def _tile(self, left: Index, right: Index, value: Callable[[_Spectrum, _Schur], Array]) -> Array:
        """What ``value`` makes of each cloud x and of the Schur complements for all y."""
        index, places = self._P.joined(left)
        panel = self._panel(right)
        K = self._scratch.empty("K", len(index), panel.index.size)
        K = self._base(self._P.take(index), panel.points, K)
        sides = [self._left[i] for i in left]
        return np.stack(
            [value(x, panel.eliminate(x, K[place])) for x, place in zip(sides, places, strict=True)]
        )

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
    """What is left of ``I + F'F`` on the k points of y and z after x: blocks - W'W, plus a border."""

    W: Array
    blocks: Array
    border: Array
    corner: Array
    scratch: Scratch

    def complement(self) -> Array:
        """The matrices, of shape (m, k + 1, k + 1)."""
        R: Array = self.blocks - self.W.swapaxes(-1, -2) @ self.W
        R[:, -1, :-1] += self.border
        R[:, :-1, -1] += self.border
        R[:, -1, -1] += self.corner
        return R

    def log_determinants(self) -> Array:
        """Their determinants."""
        from mercer.compiled.measures import log_determinants

        out = np.empty(len(self.corner))
        products = self.scratch.empty("products", *self.blocks.shape)
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
        m, k = self.index.shape
        products = self._scratch.empty("G", len(x.operator), m * (k + 1))
        np.matmul(x.operator, self._centred(K), out=products)
        G = products.reshape(-1, m, k + 1).swapaxes(0, 1)
        W, mean = G[:, :-1], G[:, -1]
        W[:, :, k] += x.with_mean * self._z
        border = mean[:, :k] * self._z - self._with_mean
        corner = (x.square + self._squares) * self._z**2 + 2 * mean[:, k] * self._z
        return _Schur(W, self._blocks, border, corner, self._scratch)

    def _centred(self, K: Array) -> Array:
        """Inner products of points with the columns of F, and with the part -my / 2 of z, of all y."""
        from mercer.compiled.measures import centre_columns

        m, k = self.index.shape
        out = self._scratch.empty("centred", len(K), m, k + 1)
        centre_columns(K.reshape(-1, m, k), self._weights, self._scales, -self._z, out)
        return out.reshape(len(K), -1)


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
        operator = np.concatenate([vectors, a[:, None]], axis=1).T.copy()
        found[i] = _Spectrum(values, operator, vectors.T @ means, square)

    own_grams(P, base, decompose, "spectra of clouds")
    return found


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
