"""Ridge regression on landmarks."""

from __future__ import annotations

from typing import Any, ClassVar, Self

from sklearn.base import MultiOutputMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from mercer.machines.landmarks.base import LandmarkMachine
from mercer.machines.landmarks.features import Sample
from mercer.machines.landmarks.ridge import RidgeSums
from mercer.machines.program import Array
from mercer.rows import Block, RowSource
from mercer.rows.checkpoint import Checkpoint
from mercer.rows.statistics import weights_of


class LandmarkRegressor(MultiOutputMixin, RegressorMixin, LandmarkMachine):
    """Ridge regression with functions spanned by the kernel at landmarks, for any number of rows.

    Minimises ``U = sum_i w_i (y_i - f(x_i))^2 + alpha |f|^2`` over ``f = sum_j c_j k(z_j, .)``.  The
    landmarks z_j are chosen among a sample of rows by randomly pivoted Cholesky factorisation.  One
    pass over the rows sums up ``Phi'Phi``, ``Phi'y`` and the part of k(x, x) that the landmarks omit;
    the solution for every ``alpha`` and all outputs follows from one eigendecomposition of these sums.

    With all rows as landmarks the objective would be at least ``U^2 / (U + alpha e)``, where ``e =
    a'(K - Khat) a``, Khat is the Nystroem approximation of the kernel matrix, and ``a_i = w_i r_i /
    alpha`` are scaled residuals.  ``certificate_`` states the resulting bound: after the fit from a
    bound on e, which is safe and often wide; after :meth:`certify` from a limit of e with 95 %
    confidence, or from e itself.

    Cost for m rows and M landmarks: ``m M`` kernel values, ``O(m M^2)`` operations, and memory for about
    three times the features of the sample, which has ``max(10 M, 10000)`` rows.

    Parameters
    ----------
    kernel : Kernel, callable, "rbf" or "linear"
        "rbf" is the Gaussian kernel with scikit-learn's ``gamma="scale"`` at the sample.
    n_landmarks : int or "auto"
        Largest number of landmarks; fewer are used if they span all rows.  "auto" starts with 250 and
        doubles the number, up to 4000, until this improves the objective by less than 1 %; each number
        takes a pass over the rows.
    alpha : float or "auto"
        Weight of the squared norm.  "auto" minimises the score of generalised cross-validation,
        ``|y - f|^2 / (1 - df / m)^2`` with ``df`` degrees of freedom, over rows that are not landmarks;
        it follows from the sums.
    scale : float, optional
        Scale the kernel so that this is the median similarity of distinct points of the sample; see
        :meth:`~mercer.kernels.Kernel.scaled_to`.
    bias : bool
        Add a constant to f, which is not penalised.  Without it f is shrunk towards zero, as in
        :class:`KernelRidge`: use it for targets that are far from zero, such as prices or
        temperatures.
    random_state : int, RandomState or None
        Seed of the sample and the landmarks.

    Attributes
    ----------
    landmarks_ : points
    dual_coef_ : array of shape (M,) or (M, q)
        Coefficients c.
    intercept_ : array of shape (q,)
        Constants that are added; zeros without ``bias``.
    kernel_ : Kernel
        The kernel, with what it learnt from the sample.
    alpha_ : float
        The alpha that was used.
    objective_ : float
        The objective U, summed over outputs.
    bounds_ : tuple of float
        Bounds on the objective with all rows as landmarks; the lower one is NaN if the Gram matrix has
        negative eigenvalues.
    certificate_ : str
        A bound on what more landmarks would improve.
    statistics_ : Statistics
        The sums over rows.

    References
    ----------
    .. [1] Y. Chen, E. Epperly, J. Tropp, R. Webber, "Randomly pivoted Cholesky", 2024.
    .. [2] E. Epperly, J. Tropp, R. Webber, "Embrace rejection", 2024.
    .. [3] A. Rudi, L. Carratino, L. Rosasco, "Falkon: an optimal large scale kernel method", NeurIPS
       2017.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.kernels import Gaussian
    >>> from mercer.machines import LandmarkRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(0, 6, size=(20_000, 1))
    >>> y = np.sin(X[:, 0]) + rng.normal(scale=0.1, size=20_000)
    >>> model = LandmarkRegressor(Gaussian(), n_landmarks=50, random_state=0).fit(X, y)
    >>> model.predict([[np.pi / 2]]).round(2)
    array([1.])
    >>> print(model.certify(X, y))  # doctest: +ELLIPSIS
    more landmarks would improve the objective by at most ... %, with 95 % confidence from a sample (...)
    """

    _target_options: ClassVar[dict[str, Any]] = {"multi_output": True, "y_numeric": True}

    def __init__(
        self,
        kernel: Any = "rbf",
        n_landmarks: Any = 1000,
        alpha: float | str = 1.0,
        *,
        scale: float | None = None,
        bias: bool = False,
        random_state: Any = None,
    ) -> None:
        self.kernel = kernel
        self.n_landmarks = n_landmarks
        self.alpha = alpha
        self.scale = scale
        self.bias = bias
        self.random_state = random_state

    @property
    def _bias(self) -> bool:
        return bool(self.bias)

    def _sum_up(self, rows: RowSource, kept: Checkpoint) -> Sample:
        sample = self._collect(rows, kept, Block.targets)
        self._one_output = self.statistics_.shift.size == 1 if rows.flat is None else rows.flat
        return sample

    def refit(self, alpha: float | str) -> Self:
        """Solve for another ``alpha`` from the stored sums; no rows are needed."""
        check_is_fitted(self)
        self.alpha = alpha
        self._validate()
        self._keep(RidgeSums.of(self.statistics_, self._bias))
        return self

    def _solve(self, sums: RidgeSums, rows: RowSource, sample: Sample, kept: Checkpoint) -> None:
        self._keep(sums)

    def _keep(self, sums: RidgeSums) -> None:
        self.alpha_ = self._alpha(sums)
        found = sums.solve(self.alpha_)
        coefficients = self._whitening.T @ found.coefficients
        self.dual_coef_ = coefficients[:, 0] if self._one_output else coefficients
        self.intercept_ = found.bias
        self._state(found.dual, found.left_out)

    def _dual(self, block: Block) -> Array:
        residuals = block.targets() - self._values(block.X) - self.intercept_
        return weights_of(block)[:, None] * residuals / self.alpha_

    def predict(self, X: Any) -> Any:
        """Predicted values, of shape (m,) or (m, q).

        For Dask arrays and data frames the result is a lazy Dask array; for tensors, a tensor on their
        device.
        """
        check_is_fitted(self)
        shape = () if self._one_output else self.dual_coef_.shape[1:]
        return self._apply("_predict", X, (float, *shape))

    def _predict(self, X: Any) -> Array:
        values = self._values(self._points(X)) + self.intercept_
        return values[:, 0] if self._one_output else values
