"""Real projective space: axes, for which x and -x are the same point."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from array_api_compat import array_namespace
from numpy.typing import NDArray

from mercer.laws import Law
from mercer.profiles import Separation
from mercer.spaces.base import RadialSpace, Space
from mercer.spaces.sphere import Sphere
from mercer.spaces.spherical import SphericalSpace, ZonalRealisation


@dataclass(frozen=True, repr=False)
class Projective(RadialSpace):
    """Axes: points of a sphere where x and -x are the same.

    The Laplacian of real projective space has the even levels of that of the sphere.

    Parameters
    ----------
    base : Sphere or Simplex
        How rows become unit vectors.

    Examples
    --------
    >>> from mercer.kernels import Heat
    >>> from mercer.spaces import Projective
    >>> Heat(Projective(), t=0.1)([[1.0, 0, 0], [-1.0, 0, 0], [0, 1.0, 0]]).round(4)
    array([[1.    , 1.    , 0.0053],
           [1.    , 1.    , 0.0053],
           [0.0053, 0.0053, 1.    ]])
    """

    base: SphericalSpace = Sphere()  # noqa: RUF009 (spaces are frozen)
    embeds_alike = True
    common_invariant = 1.0

    @property
    def n(self) -> int | None:  # type: ignore[override]
        """Ambient dimension, or None to take it from the data."""
        return self.base.n

    @property
    def separation(self) -> Separation:  # type: ignore[override]
        """See :class:`RadialSpace`."""
        return self.base.separation

    @property
    def embedding(self) -> SphericalSpace:
        """That of the sphere."""
        return self.base

    def check(self, X: Any, name: str = "X") -> Any:
        return self.base.check(X, name)

    def _check_rows(self, X: Any, name: str) -> None:
        self.base._check_rows(X, name)

    def embed(self, X: Any, Y: Any = None) -> tuple[Any, Any]:
        """Unit vectors: see :meth:`Embedding.embed`."""
        return self.base.embed(X, Y)

    def column_sums(self, X: Any, Y: Any, weights: Any) -> Any:
        return self.base.column_sums(X, Y, weights)

    def are_apart(self, invariants: Any, own: Any, rounding: float) -> Any:
        """See :meth:`Embedding.are_apart`; x and -x are one point."""
        return super().are_apart(np.abs(invariants), own, rounding)

    @property
    def takes_sparse(self) -> bool:  # type: ignore[override]
        """That of the sphere."""
        return self.base.takes_sparse

    def sample(self, size: int, rng: np.random.Generator, clusters: int | None = None) -> Any:
        """See :meth:`Space.sample`; x or -x."""
        signs = rng.choice([-1.0, 1.0], size=(size, 1)) if self.separation == "folded" else 1.0
        return signs * self.base.sample(size, rng, clusters)

    def isometry(self, rng: np.random.Generator) -> Callable[[Any], Any] | None:
        """See :meth:`Space.isometry`; that of the sphere."""
        return self.base.isometry(rng)

    def distances(self, X: Any, Y: Any = None) -> Any:
        """Angles between axes, at most ``pi / 2``: see :meth:`Space.distances`."""
        angles = self.base.distances(X, Y)
        xp = array_namespace(angles)
        return xp.minimum(angles, np.pi - angles)

    def require_unit_vectors(self) -> None:
        """See :meth:`Space.require_unit_vectors`."""

    def directions(self) -> Projective:
        """See :meth:`Space.directions`; up to their signs."""
        return self

    def of_table(self) -> Space | None:
        return self.base.of_table()

    def natural_time(self, n: int) -> float:
        """That of the sphere."""
        return self.base.natural_time(n)

    def dimension(self, n: int) -> int:
        """That of the sphere."""
        return self.base.dimension(n)

    def realise(self, law: Law, n: int, normalized: bool = True) -> ZonalRealisation:
        """The even levels of the law: see :meth:`Space.realise`."""
        self.base.require_unit_vectors()
        return ZonalRealisation(self, _EvenLevels(law), n, normalized)


@dataclass(frozen=True)
class _EvenLevels(Law):
    """The weights of a law on the even levels of a sphere, and 0 on the odd ones."""

    law: Law

    def __post_init__(self) -> None:
        for name in ("nonnegative", "density", "levels", "least_levels"):
            object.__setattr__(self, name, getattr(self.law, name))

    def log_weights(self, eigenvalues: NDArray[Any], dimension: int) -> NDArray[Any]:
        middle = (dimension - 1) / 2
        levels = np.rint(np.sqrt(np.real(eigenvalues) + middle**2) - middle)
        return np.where(levels % 2 == 0, self.law.log_weights(eigenvalues, dimension), -np.inf)
