"""The symmetrised Kullback-Leibler divergence of families of distributions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from array_api_compat import array_namespace
from scipy import sparse

from mercer.spaces.base import is_foreign, refuse_rows
from mercer.spaces.hyperbolic import NormalFamily
from mercer.spaces.products import NormalProduct
from mercer.spaces.spherical import Simplex

#: Families of distributions.
Family = Simplex | NormalFamily | NormalProduct


@dataclass(frozen=True, eq=False)
class Normals:
    """Products of normal distributions, for divergences from differences of their parameters."""

    means: np.ndarray
    deviations: np.ndarray


def embed(space: Family, X: Any, Y: Any = None) -> tuple[Any, Any]:
    """Map checked rows to (L, R) with ``J = L @ R.T``, ``J(p, q) = KL(p || q) + KL(q || p)``.

    In an exponential family with natural parameters a and mean parameters b it is
    ``J = (a - a').(b - b')``, an inner product of rows.  Normal distributions in NumPy arrays are
    compared by their differences instead, which loses no digits.
    """
    same = Y is None or Y is X
    if isinstance(space, Simplex):
        first = _categories(space, X, "X")
        return _product_rows(first, first if same else _categories(space, Y, "Y"))
    left = _normals(space, X)
    right = left if same else _normals(space, Y)
    if not is_foreign(X):
        return left, right
    return _product_rows(_exponential(left, "X"), _exponential(right, "Y"))


def _categories(space: Simplex, X: Any, name: str) -> tuple[Any, Any]:
    """Natural and mean parameters of multinomial distributions."""
    if sparse.issparse(X):
        full = np.diff(X.indptr) == X.shape[1]
        _refuse_zeros(~full, name)
        X = X.toarray()
    roots, _ = space.embed(X)
    _refuse_zeros(array_namespace(roots).any(roots == 0.0, axis=1), name)
    return 2.0 * array_namespace(roots).log(roots), roots * roots


def _refuse_zeros(bad: Any, name: str) -> None:
    refuse_rows(
        bad, name,
        "has zeros, whose divergence from other rows is infinite; smooth the counts first, with "
        "mercer.features.Multinomials(alpha=0.5)",
    )  # fmt: skip


def _normals(space: NormalFamily | NormalProduct, X: Any) -> Normals:
    if isinstance(space, NormalProduct):
        return Normals(X[:, 0::2], X[:, 1::2])
    means = X[:, :-1]
    return Normals(means, X[:, -1:] + 0.0 * means)


def _exponential(normals: Normals, name: str) -> tuple[Any, Any]:
    """Natural and mean parameters of normal distributions."""
    m, s = normals.means, normals.deviations
    xp = array_namespace(m)
    natural = xp.concat([m / s**2, -0.5 / s**2], axis=1)
    mean = xp.concat([m, m**2 + s**2], axis=1)
    reach = xp.sum(xp.abs(natural * mean), axis=1)
    refuse_rows(~(reach < 1e150), name, "is too far out for tensors; rescale it, or give NumPy rows")
    return natural, mean


def _product_rows(first: tuple[Any, Any], second: tuple[Any, Any]) -> tuple[Any, Any]:
    """Rows whose inner products are ``(a - a').(b - b')``."""
    xp = array_namespace(first[0])
    # About their means: what is common to all rows costs no digits.
    centres = [xp.mean(part, axis=0, keepdims=True) for part in second]
    (a, b), (c, d) = (
        [part - z for part, z in zip(side, centres, strict=True)] for side in (first, second)
    )
    own, others = xp.vecdot(a, b)[:, None], xp.vecdot(c, d)[:, None]
    left = xp.concat([a, b, own, xp.ones_like(own)], axis=1)
    return left, xp.concat([-d, -c, xp.ones_like(others), others], axis=1)
