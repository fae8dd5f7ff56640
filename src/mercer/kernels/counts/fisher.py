"""The Fisher kernel of the multinomial family."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
from array_api_compat import array_namespace
from scipy import sparse

from mercer._arrays import number, on_cpu, squared_lengths
from mercer._validation import check_choice, check_positive, refuse_rows
from mercer.kernels import columns
from mercer.kernels.radial import RadialKernel
from mercer.profiles import PowerProfile, Profile
from mercer.spaces import Simplex

#: Largest number of columns of a model; each has a probability.
_MOST_COLUMNS = 10_000_000


@dataclass(eq=False, repr=False)
class FisherMultinomial(RadialKernel):
    """The Fisher kernel of the multinomial family: scores of rows of counts at one model.

    ``k(x, y) = U_x' I^-1 U_y`` with the scores U, the derivatives of the log-likelihood at the
    probabilities theta, and the Fisher information I of one count.  For rows with totals N and M it is

        ``sum_i (x_i - N theta_i) (y_i - M theta_i) / theta_i = sum_i x_i y_i / theta_i - N M``.

    It does not depend on the parameters of the family.  Without the information it is the covariance of
    the counts, ``sum_i (x_i - N theta_i) (y_i - M theta_i)``, as exponential families are often
    compared.  Positive semidefinite.  It serves for comparison with kernels that use the whole geometry
    of the family, such as :class:`Heat` on the simplex.

    Parameters
    ----------
    probabilities : array of shape (n,), optional
        The model theta, up to a factor.  By default :meth:`scaled_to`, searches and
        :class:`~mercer.features.GramTransformer` learn it from the training rows: shares of all counts.
    alpha : float
        Added to the counts of every column when the model is learnt, so that no probability is zero.
    information : bool
        Use the Fisher information, or not.
    normalized : bool
        Divide by the square roots of k(x, x) and k(y, y), which removes the totals.

    References
    ----------
    .. [1] T. Jaakkola, D. Haussler, "Exploiting generative models in discriminative classifiers",
       NIPS 1998.
    .. [2] J. Lafferty, G. Lebanon, "Information diffusion kernels", NIPS 2002.

    Examples
    --------
    >>> from mercer.kernels import FisherMultinomial
    >>> FisherMultinomial(probabilities=[0.5, 0.25, 0.25])([[2, 1, 1], [4, 0, 0], [0, 3, 1]])
    array([[  0.,   0.,   0.],
           [  0.,  16., -16.],
           [  0., -16.,  24.]])
    """

    probabilities: Any = None
    alpha: float = 0.5
    information: bool = True
    normalized: bool = False

    space = Simplex()
    magnifies = False
    _embedding_parameters = ("probabilities", "information", "normalized")

    def learnt_from(self, X: Any, y: Any = None) -> FisherMultinomial:
        """See :class:`Kernel`; the shares of all counts, unless the probabilities are given."""
        if self.probabilities is not None:
            return self
        check_positive(self, "alpha")
        learnt, rows = copy.copy(self), self.space.check(on_cpu(X))
        if rows.shape[1] > _MOST_COLUMNS:
            raise ValueError(
                f"FisherMultinomial needs a probability for each of {rows.shape[1]} columns of X; drop "
                f"empty columns, to at most {_MOST_COLUMNS}"
            )
        totals = rows.sum(axis=0, dtype=np.float64)
        counts = np.asarray(totals).ravel() + number(self.alpha)
        learnt.probabilities = counts / counts.sum()
        return learnt

    def explicit_features(self, X: Any) -> Any:
        """See :class:`Kernel`; the scores."""
        self.validate()
        X = self.space.check(X)
        X = X.toarray() if sparse.issparse(X) else X
        scores = self.embed(X)[0]
        scale = self.row_scale(X)
        return scores if scale is None else scores * scale[:, None]

    def isometry(self, rng: np.random.Generator) -> None:
        """See :class:`Kernel`; the model tells categories and totals apart."""

    def validate(self) -> None:
        check_choice(self, "information", (True, False))
        check_choice(self, "normalized", (True, False))
        check_positive(self, "alpha")
        if self.probabilities is None:
            raise ValueError(
                "probabilities of FisherMultinomial have not been learnt from training rows; call "
                "scaled_to(X) first, or give probabilities"
            )
        columns.check(self, "probabilities")

    @property
    def _theta(self) -> Any:
        theta = np.asarray(self.probabilities, dtype=float)
        return theta / theta.sum()

    def embed(self, X: Any, Y: Any = None) -> tuple[Any, Any]:
        if not sparse.issparse(X) and not sparse.issparse(Y):
            left = self._scores(X)
            return left, left if Y is None else self._scores(Y)
        # Scores are dense; their inner products are those of sparse rows with two more columns.
        rows, totals, means = self._parts(X)
        others, sums, products = (rows, totals, means) if Y is None else self._parts(Y)
        added = np.stack([self._mean_square * sums - products, -sums], axis=1)
        # In double precision: totals cancel.
        left = sparse.hstack([rows, np.stack([totals, means], axis=1)], format="csr", dtype=float)
        return left, sparse.hstack([others, added], format="csr", dtype=float)

    def self_invariant(self, X: Any) -> Any:
        if not sparse.issparse(X):
            return squared_lengths(self._scores(X))
        rows, totals, means = self._parts(X)
        squares = squared_lengths(rows) - 2 * totals * means + self._mean_square * totals**2
        return np.maximum(squares, 0).astype(X.dtype)

    def row_scale(self, X: Any) -> Any:
        if not self.normalized:
            return None
        squares = self.self_invariant(X)
        refuse_rows(
            squares == 0, "X", "has the probabilities of the model, and a score of zero; drop it"
        )
        return squares**-0.5

    def _scores(self, X: Any) -> Any:
        xp = array_namespace(X)
        theta = columns.of_elements(self, "probabilities", X)
        theta = theta / xp.sum(theta)
        scores = X - xp.sum(X, axis=1, keepdims=True) * theta
        return scores / xp.sqrt(theta) if self.information else scores

    def _parts(self, X: Any) -> tuple[Any, Any, Any]:
        """Scaled rows, their totals, and their products with the model."""
        total = float(np.sum(np.asarray(self.probabilities, dtype=float)))
        rows = sparse.csr_matrix(X, dtype=np.float64, copy=True)
        theta = columns.of_elements(self, "probabilities", rows) / total
        totals = np.asarray(rows.sum(axis=1)).ravel()
        if self.information:
            rows.data /= np.sqrt(theta)
            return rows, totals, totals
        return rows, totals, rows @ self._theta

    @property
    def _mean_square(self) -> float:
        """Squared length of the scaled model."""
        return 1.0 if self.information else float(self._theta @ self._theta)

    def _compile(self, n: int) -> Profile:
        return PowerProfile()
