"""Mixtures of pairs of clouds of tensors: a small matrix for each pair, factorised many at a time.

The formulas are those of :mod:`mercer.engine.mixtures`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import torch

from mercer._arrays import number
from mercer.engine.clouds import Base, Clouds, Index
from mercer.engine.mixtures import ROUNDING, TOO_SMALL, not_definite
from mercer.engine.tensors import clouds


class ExplicitMixtures:
    """Covariances as matrices, for points with D explicit coordinates each."""

    def __init__(self, P: Clouds, Q: Clouds | None, eta: Any) -> None:
        self._left = _moments(P)
        self._right = self._left if Q is None else _moments(Q)
        self._eta = eta
        self.size = int(P.points.shape[1])
        # A matrix for each pair of a tile: no more numbers than a tile of points has.
        self.most: int | None = max(1, clouds.side(P, clouds.TILE) // self.size)

    def _matrices(self, left: Index, right: Index) -> torch.Tensor:
        (means, own), (others, theirs) = self._left, self._right
        z = (means[left][:, None] - others[right]) / 2
        return (z[..., None] * z[..., None, :] + own[left][:, None] / 2 + theirs[right] / 2) / self._eta

    def log_determinants(self, left: Index, right: Index) -> torch.Tensor:
        """See :class:`~mercer.engine.mixtures.Mixtures`."""
        return _log_determinants(self._matrices(left, right))

    def spectra(self, left: Index, right: Index) -> torch.Tensor:
        """Eigenvalues of ``S / eta``."""
        return torch.linalg.eigvalsh(self._matrices(left, right))

    def own_spectra(self) -> torch.Tensor:
        """Eigenvalues of ``Sx / eta`` of each cloud on the left."""
        return torch.linalg.eigvalsh(self._left[1] / self._eta)

    def own_log_determinants(self) -> torch.Tensor:
        """See :class:`~mercer.engine.mixtures.Mixtures`."""
        return _log_determinants(self._left[1] / self._eta)


def _moments(P: Clouds) -> tuple[torch.Tensor, torch.Tensor]:
    """Mean and covariance matrix of each cloud."""
    means, D = P.sums(P.points), P.points.shape[1]
    covariances = means.new_empty((len(P), D, D))
    for group in clouds.groups(P, clouds.side(P, D)):
        X, a = clouds.rectangle(P, group)
        centred = (X.reshape(*a.shape, D) - means[group][:, None]) * a.sqrt()[..., None]
        covariances[group] = centred.mT @ centred
    return means, covariances


class KernelMixtures:
    """Covariances in the feature space of any base kernel, by block elimination."""

    most: int | None = None

    def __init__(self, P: Clouds, Q: Clouds | None, base: Base, eta: Any) -> None:
        self._base, self._z = base, 0.5 / eta**0.5
        self._left = _sides(P, base, eta)
        self._right = self._left if Q is None else _sides(Q, base, eta)

    def log_determinants(self, left: Index, right: Index) -> torch.Tensor:
        """See :class:`~mercer.engine.mixtures.Mixtures`."""
        x, y = self._left[int(left[0])], self._right[int(right[0])]
        # The remainder has the size of the clouds that are not eliminated, the smaller ones.
        swap = y.weights.shape[1] > x.weights.shape[1]
        return self._eliminated(y, x).T if swap else self._eliminated(x, y)

    def _eliminated(self, x: _Side, y: _Side) -> torch.Tensor:
        """Values for g clouds x of k points, which are eliminated, and m clouds y of n points."""
        z = self._z
        K = self._base(x.points, y.points).reshape(*x.weights.shape, *y.weights.shape)
        with_y = torch.einsum("gkmn,mn->gkm", K, y.weights)
        with_x = torch.einsum("gkmn,gk->gmn", K, x.weights)
        both = torch.einsum("gkm,gk->gm", with_y, x.weights)
        from_mean = with_x - both[..., None]
        products = (K - with_y[..., None] - from_mean[:, None]) * x.roots[..., None, None] * y.roots
        last = z * (x.with_mean[..., None] - x.roots[..., None] * (with_y - both[:, None]))
        C = torch.cat([products, last[..., None]], dim=3)
        W = (x.inverses @ C.flatten(2)).reshape(C.shape).transpose(1, 2)
        border = z * (y.roots * from_mean - y.with_mean)
        corner = z**2 * (x.squares[:, None] + y.squares - 2 * both)
        upper = torch.cat([y.grams.expand(len(x.group), -1, -1, -1), border[..., None]], dim=3)
        lower = torch.cat([border, corner[..., None]], dim=2)
        J = torch.cat([upper, lower[..., None, :]], dim=2)
        return x.halves[:, None] + _log_determinants(J - W.mT @ W)

    def own_log_determinants(self) -> torch.Tensor:
        """See :class:`~mercer.engine.mixtures.Mixtures`."""
        sides = list(self._left.values())
        found = torch.cat([side.wholes for side in sides])
        out = torch.empty_like(found)
        out[torch.cat([torch.as_tensor(side.group, device=out.device) for side in sides])] = found
        return out


@dataclass(frozen=True, eq=False)
class _Side:
    """A group of clouds by their centred features; see ``mercer.engine.mixtures``."""

    group: Index
    points: torch.Tensor
    weights: torch.Tensor
    roots: torch.Tensor
    with_mean: torch.Tensor
    squares: torch.Tensor
    grams: torch.Tensor
    inverses: torch.Tensor
    halves: torch.Tensor
    wholes: torch.Tensor

    @classmethod
    def of(cls, group: Index, points: torch.Tensor, a: torch.Tensor, K: torch.Tensor, eta: Any) -> Self:
        """Centre, scale and factorise the Gram matrices of the clouds."""
        roots = a.sqrt() / (2 * eta) ** 0.5
        means = torch.einsum("gkl,gl->gk", K, a)
        squares = (means * a).sum(dim=1)
        G = K - means[:, None] - (means[..., None] - squares[:, None, None])
        G = G * roots[:, None] * roots[..., None]
        _check_definite(G.detach(), ROUNDING * K.detach().abs().amax(dim=(1, 2)) / number(eta), group)
        factors = _factors(G)
        eye = torch.eye(G.shape[-1], dtype=G.dtype, device=G.device)
        inverses = torch.linalg.solve_triangular(factors, eye, upper=False)
        with_mean = (means - squares[:, None]) * roots
        halves, wholes = _log_squares(factors), _log_determinants(2 * G)
        return cls(group, points, a, roots, with_mean, squares, G, inverses, halves, wholes)


def _sides(P: Clouds, base: Base, eta: Any) -> dict[int, _Side]:
    """Groups of clouds by the indices of their first ones."""
    grams = clouds.own_grams(P, base, clouds.side(P, clouds.TILE))
    return {int(group[0]): _Side.of(group, X, a, K, eta) for group, X, a, K in grams}


def _check_definite(grams: torch.Tensor, rounding: torch.Tensor, group: Index) -> None:
    """Raise if a Gram matrix has eigenvalues that are negative by more than rounding."""
    allowed = 1e-8 * grams.diagonal(dim1=1, dim2=2).abs().sum(dim=1) + rounding
    shifted = grams + torch.diag_embed((allowed[:, None] + 1e-300).expand(grams.shape[:2]))
    failed = torch.linalg.cholesky_ex(shifted)[1].nonzero()
    if len(failed):
        i = int(failed[0])
        not_definite(torch.linalg.eigvalsh(grams[i]).cpu().numpy(), int(group[i]))


def _factors(matrices: torch.Tensor) -> torch.Tensor:
    """Cholesky factors of the identity plus matrices."""
    eye = torch.eye(matrices.shape[-1], dtype=matrices.dtype, device=matrices.device)
    factors, failed = torch.linalg.cholesky_ex(matrices + eye)
    if failed.any():
        raise ValueError(TOO_SMALL)
    return factors


def _log_squares(factors: torch.Tensor) -> torch.Tensor:
    return 2 * factors.diagonal(dim1=-2, dim2=-1).log().sum(dim=-1)


def _log_determinants(matrices: torch.Tensor) -> torch.Tensor:
    """Logarithms of the determinants of the identity plus matrices."""
    return _log_squares(_factors(matrices))
