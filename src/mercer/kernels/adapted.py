"""Kernels of scikit-learn as kernels of this package."""

from __future__ import annotations

from typing import Any

from sklearn.gaussian_process import kernels as sk

from mercer._arrays import is_watched, on_cpu, placed
from mercer.kernels.base import Kernel


class _Adapted(Kernel):
    """A kernel of scikit-learn as one of this package, for points on any device; it runs on the CPU."""

    def __init__(self, kernel: sk.Kernel) -> None:
        self.kernel = kernel

    @property
    def requires_vector_input(self) -> bool:
        return bool(self.kernel.requires_vector_input)

    def __call__(self, X: Any, Y: Any = None, eval_gradient: bool = False) -> Any:
        return placed(self.kernel(self._plain(X), None if Y is None else self._plain(Y)), X)

    def diag(self, X: Any) -> Any:
        return placed(self.kernel.diag(self._plain(X)), X)

    def _plain(self, X: Any) -> Any:
        if is_watched(X):
            raise TypeError(
                f"{self!r} of scikit-learn has no derivatives with respect to rows; detach them, or use "
                "mercer.kernels"
            )
        return on_cpu(X)

    def scaled_to(self, X: Any, similarity: float = 0.5, **options: int) -> sk.Kernel:
        return self.kernel

    def learnt_from(self, X: Any, y: Any = None) -> sk.Kernel:
        return self.kernel

    def terms(self) -> tuple[tuple[float, sk.Kernel], ...]:
        return ((1.0, self.kernel),)

    @property
    def label(self) -> str:
        return repr(self)

    def __repr__(self) -> str:
        return repr(self.kernel)


def adapted(kernel: sk.Kernel) -> Kernel:
    """A kernel of this package or of scikit-learn, with all that kernels of this package have."""
    return kernel if isinstance(kernel, Kernel) else _Adapted(kernel)
