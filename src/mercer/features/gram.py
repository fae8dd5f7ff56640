"""Rows of Gram matrices as features."""

from __future__ import annotations

import warnings
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.utils.validation import check_is_fitted

from mercer._arrays import count, on_cpu
from mercer._validation import estimator_rows, refuse_rows
from mercer.kernels.base import Kernel, has_range
from mercer.rkhs import warn_if_degenerate


class GramTransformer(TransformerMixin, BaseEstimator):
    """Transform points to rows of their Gram matrix with the training points.

    Put it before an estimator with ``kernel="precomputed"``.  Points may be of any kind that the kernel
    accepts (sparse counts, strings, graph nodes, clouds), and the parameters of the kernel can be
    searched as usual, for example ``gramtransformer__kernel__t_star``.

    Parameters
    ----------
    kernel : Kernel
    normalize : bool
        Divide by the square roots of k(x, x) and k(y, y).
    similarity : float, optional
        Scale the kernel so that this is the median similarity of distinct training points; see
        :meth:`~mercer.kernels.Kernel.scaled_to`.  By default the kernel is used as it is.

    Attributes
    ----------
    kernel_ : Kernel
        A clone of the kernel, with what it learns from the training points.
    X_fit_ : points
        The training points.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.svm import SVC
    >>> from mercer.features import GramTransformer
    >>> from mercer.kernels import Heat
    >>> from mercer.spaces import Simplex
    >>> X, y = load_digits(return_X_y=True)
    >>> gram = GramTransformer(Heat(Simplex()), similarity=0.1)
    >>> model = make_pipeline(gram, SVC(kernel="precomputed", C=10))
    >>> float(model.fit(X[:1000], y[:1000]).score(X[1000:], y[1000:])) > 0.95
    True
    """

    def __init__(self, kernel: Kernel, normalize: bool = False, similarity: float | None = None) -> None:
        self.kernel = kernel
        self.normalize = normalize
        self.similarity = similarity

    def fit(self, X: Any, y: Any = None) -> Self:
        """Check and store the training points."""
        self.kernel_ = clone(self.kernel)
        X = check_rows(self, X, reset=True)
        ours = isinstance(self.kernel_, Kernel)  # scikit-learn's own kernels have nothing to learn
        if self.similarity is not None and ours:
            self.kernel_ = self.kernel_.scaled_to(X, self.similarity)
        if ours:
            self.kernel_ = self.kernel_.learnt_from(X, y)
        if self.similarity is not None and not has_range(self.kernel_):
            warnings.warn(
                f"{self.kernel_!r} has no range, so similarity={self.similarity} has no effect; "
                "leave it out, or scale a part of the kernel (its base) with scaled_to",
                stacklevel=2,
            )
        self.kernel_.diag(X)  # raises for rows that are not points of the space
        self.X_fit_ = X
        if self.normalize:
            self._lengths = self._feature_lengths(X)
        return self

    def fit_transform(self, X: Any, y: Any = None, **fit_params: Any) -> Any:
        """Gram matrix of the training points."""
        K = self.fit(X, y)._gram(self.X_fit_)
        warn_if_degenerate(on_cpu(K), self.kernel_)
        return K

    def transform(self, X: Any) -> Any:
        """Gram matrix of X with the training points."""
        check_is_fitted(self)
        return self._gram(X if X is self.X_fit_ else check_rows(self, X, reset=False))

    def _gram(self, X: Any) -> Any:
        K = self.kernel_(X, None if X is self.X_fit_ else self.X_fit_)
        if self.normalize:
            lengths = self._lengths if X is self.X_fit_ else self._feature_lengths(X)
            K /= lengths[:, None]
            K /= self._lengths
        return K

    def _feature_lengths(self, X: Any) -> Any:
        lengths = self.kernel_.diag(X) ** 0.5
        refuse_rows(lengths == 0, "X", "has norm zero in feature space; drop it")
        return lengths

    def get_feature_names_out(self, input_features: Any = None) -> Any:
        """Names ``k0, k1, ...``, one per training point."""
        check_is_fitted(self)
        return np.asarray([f"k{i}" for i in range(count(self.X_fit_))], dtype=object)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.string = not self.kernel.requires_vector_input
        return tags


def check_rows(transformer: Any, X: Any, reset: bool) -> Any:
    """Convert rows of numbers to an array and check their columns; return other points unchanged."""
    return estimator_rows(transformer, X, reset) if transformer.kernel_.requires_vector_input else X
