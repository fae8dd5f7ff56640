"""Functions of a kernel at inducing points on the sphere, as features."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import clone

from mercer._arrays import on_cpu
from mercer.gp.elbo import inverse_factor
from mercer.gp.features import PriorWeights, SphericalFeatures
from mercer.gp.input_map import InputMap

Array = NDArray[np.float64]

#: Added to the diagonal of the kernel matrix of the inducing points, relative to it.
JITTER = 1e-6
#: Width of strips in which a product with a triangle is computed, to leave out zeros.
_STRIP = 128
#: Rows whose kernel values are in memory at a time.
TILE = 256


@dataclass(frozen=True, eq=False)
class InducingFeatures(SphericalFeatures):
    """Features ``|x|^p L^-1 (s(v_1.x), ..., s(v_M.x))`` of unit vectors x, for inducing points v_j.

    s is the zonal kernel at unit vectors and ``L L'`` its matrix at the inducing points, so that the
    features have independent weights of equal prior variance: they represent the process at the M
    inducing points in other coordinates.

    Parameters
    ----------
    inputs : InputMap
    power : int
    kernel : Kernel
    points : array of shape (M, n)
        Unit vectors.
    """

    inputs: InputMap
    power: int
    kernel: Any
    points: Array
    n_rest = 2
    truncation = False

    @classmethod
    def of(cls, kernel: Any, inputs: InputMap, points: Array) -> InducingFeatures:
        """Features of a kernel."""
        found = cls(inputs, kernel.radial_power, kernel, points)
        _ = found.whitening  # once, before threads ask for it
        return found

    @property
    def n(self) -> int:
        return self.points.shape[1]

    @property
    def size(self) -> int:  # type: ignore[override]
        """See :class:`Features`."""
        return len(self.points)

    def check(self, X: Any, name: str = "X") -> Any:
        """See :class:`Features`; always in main memory, where tables of profiles are compiled loops."""
        return super().check(on_cpu(X), name)

    def weights(self, kernel: Any) -> PriorWeights:
        """See :class:`Features`; variances are one, for the kernel of the features.

        The rest is k(x, x) minus what the functions capture, as for an incomplete level.
        """
        free = np.zeros((1, len(kernel.theta)))
        return PriorWeights(
            np.ones(self.size),
            np.repeat(free, self.size, axis=0),
            np.array([0.0, 1.0]),
            np.zeros((2, free.size)),
        )

    @property
    def whole(self) -> float:
        return self.zonal.total

    def _captured(self, phi: Array) -> Array:
        return (phi**2).sum(axis=1)

    @cached_property
    def zonal(self) -> ZonalFunction:
        """The kernel as a function of the cosine."""
        return ZonalFunction.of(self.kernel, self.n)

    @property
    def variation(self) -> float:
        """Prior variance at unit amplitude about the mean over the points; at least the jitter."""
        gram = self.zonal.values(self.points @ self.points.T)
        return max(self.zonal.total - float(gram.mean()), JITTER * self.zonal.total)

    @cached_property
    def whitening(self) -> Array:
        """``L^-1``, lower triangular."""
        gram = self.zonal.values(self.points @ self.points.T)
        gram[np.diag_indices_from(gram)] = self.zonal.total * (1 + JITTER)
        return inverse_factor(gram)[0]

    def serves(self, kernel: Any, inputs: str) -> bool:
        raise ValueError("inducing points belong to their kernel; call fit instead")

    def _write(self, points: Any, out: Array) -> None:
        points = points.toarray() if sparse.issparse(points) else points
        buffer = np.empty((TILE, len(self.points)))
        for start in range(0, len(points), TILE):
            part = out[start : start + TILE]
            values = np.matmul(points[start : start + TILE], self.points.T, out=buffer[: len(part)])
            self.zonal.values(values)
            for first, last in strips(len(self.points)):
                np.matmul(values[:, :last], self.whitening[first:last, :last].T, out=part[:, first:last])

    @property
    def _identity(self) -> tuple[Any, ...]:
        return (self.kernel, self.points)


@dataclass(frozen=True, eq=False)
class ZonalFunction:
    """A zonal kernel at unit vectors: a function s(w) of the cosine, and its derivatives."""

    kernel: Any
    n: int

    @classmethod
    def of(cls, kernel: Any, n: int) -> ZonalFunction:
        """Extend a kernel of a simplex to the whole sphere, where inducing points may move."""
        whole = kernel.space.whole
        if whole is not kernel.space:
            kernel = clone(kernel).set_params(space=whole)
        return cls(kernel, n)

    @cached_property
    def total(self) -> float:
        """s(1)."""
        return float(self.values(np.ones((1, 1)))[0, 0])

    @cached_property
    def width(self) -> float:
        """The angle at which s has fallen to half, or pi."""
        angles = np.geomspace(1e-4, np.pi, 400)
        below = self.values(np.cos(angles)[None, :])[0] < self.total / 2
        return float(angles[np.argmax(below)]) if below.any() else np.pi

    def values(self, w: Array) -> Array:
        """s(w), in place of w."""
        self.kernel.profile(self.n).apply(w)
        return w

    def slopes(self, w: Array, out: Array) -> Array:
        """Derivatives with respect to w."""
        np.copyto(out, w)
        self.kernel.profile(self.n).derivative.apply(out)
        return out

    def parameter_slopes(self, w: Array, out: Array) -> Iterator[Array]:
        """Derivatives in the logarithms of the free hyperparameters, one after the other."""
        for name in self.kernel.free():
            np.copyto(out, w)
            self.kernel.gradient_profile(self.n, name).apply(out)
            yield out


def strips(size: int) -> list[tuple[int, int]]:
    """Strips of a triangle of some size."""
    return list(pairwise([*range(0, size, _STRIP), size]))


def with_fixed_parameters(kernel: Any) -> Any:
    """A kernel without free hyperparameters."""
    return clone(kernel).set_params(**{f"{h.name}_bounds": "fixed" for h in kernel.hyperparameters})
