"""Sums over rows of products of functions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Protocol

from array_api_compat import array_namespace

from mercer._arrays import filled


class RowFunctions(Protocol):
    """Functions of rows whose products are summed: features of Gaussian processes, or of landmarks."""

    @property
    def size(self) -> int:
        """Number of functions."""

    @property
    def n_rest(self) -> int:
        """Number of further functions that are only summed."""

    @property
    def fingerprint(self) -> str:
        """A text that identifies the functions: sums of different ones must not be added."""

    def check(self, X: Any, name: str = "X") -> Any:
        """Rows as the other methods take them, checked."""

    def write(self, rows: Any, out: Any) -> Any:
        """Write the functions at checked rows; returns the further ones there, shape (m, n_rest)."""

    def sums(self, rows: Any, outputs: int, beside: Any = None) -> RowSums:
        """An accumulator of sums over checked rows; it shares buffers with one ``beside`` it."""

    def lanes(self, rows: Any) -> int:
        """Number of threads for a loop over checked rows."""

    def height(self, rows: Any) -> int:
        """Number of checked rows at which the functions are evaluated at a time."""

    def buffer(self, rows: Any) -> Any:
        """Buffer for the functions at that many rows."""


class RowSums(ABC):
    """Sums over rows, from which those of the products ``phi phi'`` and ``phi t'`` follow."""

    gram: Any
    linear: Any
    rest: Any

    @abstractmethod
    def add(self, rows: Any, w: Any, t: Any, values: tuple[Any, Any] | None = None) -> None:
        """Add some rows; ``values`` are the functions there, if they are already known."""


class ProductSums(RowSums):
    """Sums over rows with weights w and targets t: ``w phi phi'``, ``phi t'`` and ``w psi``.

    They are collected where the rows live.
    """

    def __init__(
        self, features: RowFunctions, rows: Any, outputs: int, beside: ProductSums | None = None
    ) -> None:
        size = features.size
        self._features = features
        self.gram = filled((size, size), 0.0, rows)
        self.linear = filled((size, outputs), 0.0, rows)
        self.rest = filled((features.n_rest,), 0.0, rows)
        # Sums of one thread are computed one after the other, and share their buffers.
        self._buffers: tuple[Any, Any] = (
            (features.buffer(rows), filled((size, size), 0.0, rows))
            if beside is None
            else beside._buffers
        )

    def add(self, rows: Any, w: Any, t: Any, values: tuple[Any, Any] | None = None) -> None:
        xp = array_namespace(w)
        buffer, product = self._buffers
        scaled = buffer[: len(w)]
        phi, psi = values or (scaled, self._features.write(rows, scaled))
        self.linear += phi.T @ t
        xp.multiply(phi, xp.sqrt(w)[:, None], out=scaled)
        # NumPy computes half of such a product, and lets other threads run, unlike SciPy's syrk.
        self.gram += xp.matmul(scaled.T, scaled, out=product)
        self.rest += w @ psi
