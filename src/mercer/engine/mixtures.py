"""Mixtures of pairs of clouds: a small matrix for each pair, many at a time.

The mixture of two clouds x and y with halved weights has the covariance operator

    S = Sx / 2 + Sy / 2 + z z',   z = (mx - my) / 2,

with the means m and covariances of the clouds in the feature space of a base kernel.  Kernels between
measures are functions of the spectrum of S.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NoReturn, Protocol, Self

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dtrtri

from mercer._arrays import is_foreign
from mercer._threads import run
from mercer.engine.clouds import COLUMNS, ROWS, Array, Base, Clouds, Index, Scratch, own_grams

#: Error of an eigenvalue of a centred Gram matrix, relative to the values that were centred.
ROUNDING = 1e-13
TOO_SMALL = "a covariance is not positive semidefinite; eta is too small for its rounding"


class Mixtures(Protocol):
    """Covariances S of the mixtures of pairs of clouds, in tiles given by indices of the clouds."""

    #: Largest number of clouds in the rows and in the columns of a tile, if there is one.
    most: int | None

    def log_determinants(self, left: Index, right: Index) -> Any:
        """``log |I + S / eta|``."""

    def own_log_determinants(self) -> Any:
        """``log |I + Sx / eta|`` of each cloud on the left."""

    def resolvent_traces(self, left: Index, right: Index) -> Array:
        """``tr S (S + eta I)^-1``, minus the derivative of ``log |I + S / eta|`` in log eta."""

    def matrices(self, left: Index, right: Index) -> Array:
        """Symmetric matrices with the non-zero eigenvalues of ``S / eta``; two more axes."""


def mixtures_of(P: Clouds, Q: Clouds | None, base: Base | None, eta: Any) -> Any:
    """:class:`Mixtures` of clouds under a base kernel.

    If ``base`` is None, the features are the points themselves.  Mixtures of tensors have determinants
    only.
    """
    if is_foreign(P.points):
        from mercer.engine.tensors import mixtures

        if base is None:
            return mixtures.ExplicitMixtures(P, Q, eta)
        return mixtures.KernelMixtures(P, Q, base, eta)
    return ExplicitMixtures(P, Q, eta) if base is None else KernelMixtures(P, Q, base, eta)


class ExplicitMixtures:
    """Covariances as matrices, for points with D explicit coordinates each."""

    def __init__(self, P: Clouds, Q: Clouds | None, eta: float) -> None:
        self._left = _moments(P)
        self._right = self._left if Q is None else _moments(Q)
        self._eta = eta
        self.size = int(P.points.shape[1])
        # A matrix for each pair of a tile: no more numbers than a tile of points has.
        self.most: int | None = max(1, int((ROWS * COLUMNS) ** 0.5) // self.size)

    def matrices(self, left: Index, right: Index) -> Array:
        """See :class:`Mixtures`; ``S / eta`` itself."""
        (means, own), (others, theirs) = self._left, self._right
        z = (means[left][:, None] - others[right]) / 2
        S: Array = z[..., None] * z[..., None, :]
        S += own[left][:, None] / 2
        S += theirs[right] / 2
        S /= self._eta
        return S

    def log_determinants(self, left: Index, right: Index) -> Array:
        """See :class:`Mixtures`."""
        return _log_determinants(_plus_one(self.matrices(left, right)))

    def resolvent_traces(self, left: Index, right: Index) -> Array:
        """See :class:`Mixtures`."""
        S = self.matrices(left, right)
        return np.trace(np.linalg.solve(_plus_one(S.copy()), S), axis1=-2, axis2=-1)

    def spectra(self, left: Index, right: Index) -> Array:
        """Eigenvalues of ``S / eta``."""
        return eigenvalues(self.matrices(left, right))

    def own_spectra(self) -> Array:
        """Eigenvalues of ``Sx / eta`` of each cloud on the left."""
        return eigenvalues(self._left[1] / self._eta)

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
class _Sides:
    """Clouds by their centred features, the columns of ``F = [sqrt(a_i / (2 eta)) (phi_i - m)]``.

    Arrays of all clouds one after the other: by points, by clouds, and matrices of k x k numbers each,
    of which cloud i has those from ``places[i]`` on.
    """

    weights: Array
    #: ``sqrt(a_i / (2 eta))``.
    roots: Array
    #: Inner products of the columns of F with the mean m.
    with_mean: Array
    #: Squared lengths of the means.
    squares: Array
    #: Gram matrices ``G = F'F``.
    grams: Array
    #: Inverses of the Cholesky factors of ``I + G``: lower triangles.
    inverses: Array
    places: NDArray[np.int64]
    #: ``log |I + G|`` and ``log |I + 2 G|``.
    halves: Array
    wholes: Array

    @classmethod
    def of(cls, P: Clouds, base: Base, eta: float) -> Self:
        """Centre, scale and factorize the Gram matrix of each cloud."""
        places = np.concatenate([[0], np.cumsum(P.sizes**2)])
        grams, inverses = np.empty((2, places[-1]))
        with_mean, roots = np.empty(len(P.weights)), np.sqrt(P.weights / (2 * eta))
        squares, halves, wholes = np.empty((3, len(P)))

        def factorize(i: int, K: Array) -> None:
            own, place = slice(P.starts[i], P.starts[i + 1]), slice(places[i], places[i + 1])
            means = K @ P.weights[own]
            squares[i] = square = float(P.weights[own] @ means)
            with_mean[own] = (means - square) * roots[own]
            G = K - means - (means[:, None] - square)
            G *= roots[own]
            G *= roots[own, None]
            values = _checked_eigenvalues(G, ROUNDING * float(np.abs(K).max()) / eta, i)
            halves[i], wholes[i] = np.log1p(values).sum(), np.log1p(2 * values).sum()
            grams[place] = G.ravel()
            inverses[place] = dtrtri(np.linalg.cholesky(_plus_one(G)), lower=1)[0].ravel()

        own_grams(P, base, factorize, "Gram matrices of clouds")
        return cls(P.weights, roots, with_mean, squares, grams, inverses, places, halves, wholes)

    def matrices(self, flat: Array, clouds: Index, k: int) -> Array:
        """Matrices of some clouds, with zeros around those that are smaller than k x k."""
        out = np.zeros((len(clouds), k, k))
        for target, i in zip(out, clouds, strict=True):
            own = flat[self.places[i] : self.places[i + 1]]
            size = math.isqrt(own.size)
            target[:size, :size] = own.reshape(size, size)
        return out


class KernelMixtures:
    """Covariances in the feature space of any base kernel, by block elimination.

    The determinant of ``I + S / eta`` is that of ``I + J`` for the Gram matrix J of the centred
    features of both clouds and of z.  The block of x is factorized once per cloud and eliminated; a
    Schur complement on the points of y and z remains.
    """

    most: int | None = None

    def __init__(self, P: Clouds, Q: Clouds | None, base: Base, eta: float) -> None:
        self._P, self._Q = P, P if Q is None else Q
        self._base, self._z = base, 0.5 / math.sqrt(eta)
        self._left = _Sides.of(P, base, eta)
        self._right = self._left if Q is None else _Sides.of(Q, base, eta)
        self._scratch = Scratch()

    def log_determinants(self, left: Index, right: Index) -> Array:
        """See :class:`Mixtures`."""
        from mercer.compiled.measures import mixture_log_determinants

        out = np.empty((len(left), len(right)))
        index, _ = self._P.joined(left)
        others, _ = self._Q.joined(right)
        K = self._base_kernel(index, others)
        x, y = self._left, self._right
        mixture_log_determinants(
            K, self._z, left, self._P.starts, x.weights, x.roots, x.with_mean, x.squares, x.places,
            x.inverses, right, self._Q.starts, y.weights, y.roots, y.with_mean, y.squares, y.places,
            y.grams, out,
        )  # fmt: skip
        if np.isnan(out).any():
            raise ValueError(TOO_SMALL)
        out += x.halves[left, None]
        return out

    def resolvent_traces(self, left: Index, right: Index) -> Array:
        """See :class:`Mixtures`."""
        products, J = self._products(left, right)
        inverses = self._left.matrices(self._left.inverses, left, products.shape[-2])[:, None]
        W = inverses @ products
        V = inverses.swapaxes(-1, -2) @ W
        S = _plus_one(J - W.swapaxes(-1, -2) @ W)
        kept = np.trace(np.linalg.solve(S, _plus_one(V.swapaxes(-1, -2) @ V)), axis1=-2, axis2=-1)
        own = self._P.sizes[left, None] - (inverses**2).sum(axis=(-2, -1))
        return own + J.shape[-1] - kept

    def matrices(self, left: Index, right: Index) -> Array:
        """See :class:`Mixtures`; Gram matrices J."""
        products, J = self._products(left, right)
        k = products.shape[-2]
        grams = self._left.matrices(self._left.grams, left, k)[:, None]
        joint = np.empty((*J.shape[:2], k + J.shape[-1], k + J.shape[-1]))
        joint[..., :k, :k] = grams
        joint[..., :k, k:] = products
        joint[..., k:, :k] = products.swapaxes(-1, -2)
        joint[..., k:, k:] = J
        return joint

    def own_log_determinants(self) -> Array:
        """See :class:`Mixtures`."""
        return self._left.wholes

    def _base_kernel(self, index: Index, others: Index) -> Array:
        K = self._scratch.empty("K", index.size, others.size)
        return self._base(self._P.take(index.ravel()), self._Q.take(others.ravel()), K)

    def _products(self, left: Index, right: Index) -> tuple[Array, Array]:
        """Gram matrix J of g clouds x with m clouds y, each y with z: the part of x and y, that of y.

        Of shapes (g, m, k, n + 1) and (g, m, n + 1, n + 1), for k and n points, some of which are
        padding of weight zero.
        """
        (rows, a), (columns, b) = self._P.padded(left), self._Q.padded(right)
        (g, k), (m, n) = rows.shape, columns.shape
        x, y, z = self._left, self._right, self._z
        K = self._base_kernel(rows, columns).reshape(g, k, m, n).swapaxes(1, 2)
        with_y, with_x = np.vecdot(K, b[:, None]), np.vecdot(K.swapaxes(-1, -2), a[:, None, None])
        both = np.vecdot(with_y, a[:, None])[..., None]
        own, theirs = np.where(a > 0, x.roots[rows], 0), np.where(b > 0, y.roots[columns], 0)
        products = np.empty((g, m, k, n + 1))
        products[..., :n] = K - with_y[..., None] - (with_x - both)[..., None, :]
        products[..., :n] *= own[:, None, :, None] * theirs[:, None]
        mean = np.where(a > 0, x.with_mean[rows], 0)[:, None]
        products[..., n] = z * (mean - own[:, None] * (with_y - both))
        J = np.zeros((g, m, n + 1, n + 1))
        J[..., :n, :n] = y.matrices(y.grams, right, n)
        border = z * (theirs * (with_x - both) - np.where(b > 0, y.with_mean[columns], 0))
        J[..., n, :n] = J[..., :n, n] = border
        J[..., n, n] = z**2 * (x.squares[left, None] + y.squares[right] - 2 * both[..., 0])
        return products, J


def _checked_eigenvalues(gram: Array, rounding: float, i: int) -> Array:
    """Eigenvalues of the Gram matrix of cloud i; raise if one is negative by more than rounding."""
    values = eigenvalues(gram)
    trace = np.abs(values).sum()
    if values[0] < -1e-8 * trace - rounding:
        not_definite(values, i)
    if values[0] <= -0.5:
        raise ValueError(TOO_SMALL)
    return values


def not_definite(values: Array, i: int) -> NoReturn:
    """Raise for the eigenvalues of the Gram matrix of cloud i."""
    raise ValueError(
        f"the base kernel is not positive semidefinite on cloud {i}: "
        f"it has the eigenvalue {values[0] / np.abs(values).sum():.2g} relative to the trace"
    )


def _plus_one(matrices: Array) -> Array:
    """Add the identity, in place."""
    diagonal = np.arange(matrices.shape[-1])
    matrices[..., diagonal, diagonal] += 1
    return matrices


def _log_determinants(matrices: Array) -> Array:
    """Logarithms of the determinants of positive definite matrices."""
    L = np.linalg.cholesky(matrices)
    return 2 * np.log(np.diagonal(L, axis1=-2, axis2=-1)).sum(axis=-1)


def eigenvalues(matrices: Array) -> Array:
    """Eigenvalues of symmetric matrices, in ascending order."""
    return np.asarray(np.linalg.eigvalsh(matrices), dtype=np.float64)
