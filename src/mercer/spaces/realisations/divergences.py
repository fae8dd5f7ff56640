"""The symmetrised Kullback-Leibler divergence of families of distributions."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
from array_api_compat import array_namespace
from scipy import sparse

from mercer._validation import refuse_rows
from mercer.engine import engine_for
from mercer.engine.operands import Normals
from mercer.spaces.base import RowSpace


class DistributionSpace(RowSpace):
    """A family of distributions, with the symmetrised divergence ``J(p, q) = KL(p||q) + KL(q||p)``.

    In an exponential family with natural parameters a and mean parameters b it is
    ``J = (a - a').(b - b')``, an inner product of rows.
    """

    @abstractmethod
    def embed_divergence(self, X: Any, Y: Any = None) -> tuple[Any, Any]:
        """Map checked rows to (L, R) with ``J = L @ R.T``."""

    @abstractmethod
    def divergence_unit(self, n: int) -> float:
        """The factor c of ``exp(-J / (c t))``: J is c / 4 times a squared distance for close points."""


def categories(roots: Any, name: str) -> tuple[Any, Any]:
    """Natural and mean parameters of multinomial distributions, of the roots of their probabilities."""
    _refuse_zeros(array_namespace(roots).any(roots == 0.0, axis=1), name)
    return 2.0 * array_namespace(roots).log(roots), roots * roots


def dense_categories(X: Any, name: str) -> Any:
    """Rows without zeros, as a dense array."""
    if not sparse.issparse(X):
        return X
    _refuse_zeros(~(np.diff(X.indptr) == X.shape[1]), name)
    return X.toarray()


def embed_normals(left: Normals, right: Normals) -> tuple[Any, Any]:
    """Normal distributions; in NumPy arrays by their differences, which loses no digits."""
    if engine_for(left.means).takes_operands:
        return left, right
    return product_rows(_exponential(left, "X"), _exponential(right, "Y"))


def _refuse_zeros(bad: Any, name: str) -> None:
    refuse_rows(
        bad, name,
        "has zeros, whose divergence from other rows is infinite; smooth the counts first, with "
        "mercer.features.Multinomials(alpha=0.5)",
    )  # fmt: skip


def _exponential(normals: Normals, name: str) -> tuple[Any, Any]:
    """Natural and mean parameters of normal distributions."""
    m, s = normals.means, normals.deviations
    xp = array_namespace(m)
    natural = xp.concat([m / s**2, -0.5 / s**2], axis=1)
    mean = xp.concat([m, m**2 + s**2], axis=1)
    reach = xp.sum(xp.abs(natural * mean), axis=1)
    refuse_rows(~(reach < 1e150), name, "is too far out for tensors; rescale it, or give NumPy rows")
    return natural, mean


def product_rows(first: tuple[Any, Any], second: tuple[Any, Any]) -> tuple[Any, Any]:
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
