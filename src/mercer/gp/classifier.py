"""Classification."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from mercer.gp.base import VariationalGP
from mercer.gp.likelihoods import Bernoulli
from mercer.rows import RowSource
from mercer.rows.checkpoint import Checkpoint

Array = NDArray[np.float64]


class SphericalGPClassifier(ClassifierMixin, VariationalGP):
    """Gaussian process classification by spherical harmonics, with calibrated probabilities.

    ``p(y = 1 | x) = 1 / (1 + exp(-f(x) - c))``, where f is a Gaussian process with a zonal kernel and
    c the logarithm of the odds of the class.  The posterior of f is approximated by a normal
    distribution that maximises a lower bound on the evidence, by natural-gradient steps.  Each step is
    one pass over the rows that collects weighted sums of ``phi phi'``; hyperparameters are then
    optimised without further passes.  A step that lowers the bound is halved.  With more than two
    classes there is one process for each class against the rest, and probabilities are scaled to sum
    to one.

    A pass costs O(m M^2) for each process, in memory for a block of rows and a few M x M matrices.

    Parameters
    ----------
    kernel : Kernel, optional
        ``ArcCosine()`` (the default), or ``Heat``, ``AxialHeat`` (for tables, with ``inputs="table"``),
        ``Matern`` or another kernel given by a law, on a sphere or on a space with eigenfunctions: a
        ``Graph``, whose rows are nodes, a ``Torus``, ``Rotations``, ``Categories`` with stated labels,
        or a product of such spaces.  Kernels of whole tables (sums and products of
        :class:`~mercer.kernels.On`), of strings and of clouds use inducing points among the training
        rows; their own hyperparameters stay as they are, see ``scaled_to``.
    max_features : int, optional
        Number of features M; see :class:`mercer.harmonics.SphericalHarmonics` for which harmonics.  By
        default 500, but with up to 2000 columns enough harmonics to include all linear functions, or all
        eigenvectors of a graph of up to 4000 nodes.
    levels : int or sequence of int, optional
        Number of levels, or level numbers; by default those where the kernel has weight.
    inputs : {"auto", "table", "points"}
        Whether rows are those of a table or points of the kernel's space.  "auto" decides by the
        kernel, and warns if the lengths of rows for ``Sphere()`` vary like those of a table.
    bias : float
        Value of the constant column, in units of the standardised columns.
    amplitude : float
        Variance of f, times ``k(x, x)``: the start of the optimisation, or the fixed value.
    class_prior : array of shape (n_classes,), optional
        Probabilities of the classes in use, if they differ from those in the training rows; in the
        order of ``classes_``.
    optimize : bool
        Maximise the bound over amplitude and the kernel's hyperparameters, for each process.
    n_restarts : int
        Additional starts of the first optimisation.
    max_iter : int
        Largest number of passes.
    tol : float
        Stop when the bound rises by less than this per row.
    random_state : int
        Seed of restarts and of directions of incomplete levels.

    Attributes
    ----------
    classes_ : array
    kernels_, amplitudes_ : list of Kernel, array
        Hyperparameters in use, for each process.
    elbo_ : float
        Bound on the log evidence, summed over processes.
    n_iter_ : int
        Number of passes.

    References
    ----------
    .. [1] M. Khan, W. Lin, "Conjugate-computation variational inference", AISTATS 2017.
    .. [2] V. Adam, P. Chang, M. Khan, A. Solin, "Dual parameterization of sparse variational Gaussian
       processes", NeurIPS 2021.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.gp import SphericalGPClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(400, 2))
    >>> y = np.where(X[:, 0] * X[:, 1] > 0, "same", "other")
    >>> model = SphericalGPClassifier(max_features=60).fit(X, y)
    >>> model.predict([[1.0, 1.0], [-1.0, 1.0]]).tolist()
    ['same', 'other']
    >>> model.predict_proba([[1.0, 1.0]]).shape
    (1, 2)
    """

    likelihood = Bernoulli()
    likelihood_: Bernoulli
    _target_options: ClassVar[dict[str, Any]] = {}

    def __init__(
        self,
        kernel: Any = None,
        *,
        max_features: int | None = None,
        levels: Any = None,
        inputs: str = "auto",
        bias: float = 1.0,
        amplitude: float = 1.0,
        class_prior: Any = None,
        optimize: bool = True,
        n_restarts: int = 0,
        max_iter: int = 100,
        tol: float = 1e-5,
        random_state: int = 0,
    ) -> None:
        super().__init__(
            kernel, max_features=max_features, levels=levels, inputs=inputs, bias=bias,
            amplitude=amplitude, optimize=optimize, n_restarts=n_restarts, max_iter=max_iter, tol=tol,
            random_state=random_state,
        )  # fmt: skip
        self.class_prior = class_prior

    def _infer(self, rows: RowSource, tally: Any, checkpoint: Checkpoint) -> None:
        self.classes_ = tally.labels
        self._ratio = self._prior_ratio(self.likelihood_.frequencies)
        super()._infer(rows, tally, checkpoint)

    def _prior_ratio(self, frequencies: Array) -> Array:
        """Odds of the classes in use relative to those in training."""
        if self.class_prior is None:
            return np.ones_like(frequencies)
        try:
            prior = np.asarray(self.class_prior, dtype=float)
        except (TypeError, ValueError):  # a dictionary, names
            prior = np.zeros(0)
        if prior.shape != frequencies.shape or not (prior >= 0).all() or abs(prior.sum() - 1) > 1e-6:
            raise ValueError(
                f"class_prior must hold {len(frequencies)} probabilities that add up to one, in the "
                f"order of {self.classes_!r}; got {self.class_prior!r}"
            )
        return prior / frequencies

    def predict_proba(self, X: Any) -> Array:
        """Probabilities of the classes, averaged over the posterior; shape (m, n_classes)."""
        check_is_fitted(self)
        return self._apply("_probabilities", X, (float, len(self.classes_)))

    def _probabilities(self, X: Any) -> Array:
        mean, variance = self._latent_moments(X)
        p, _ = self.likelihood_.predict(mean, variance)
        if p.shape[1] == 1:
            p = np.column_stack([self.likelihood_.predict(-mean, variance)[0], p])
        p = p * self._ratio
        return p / p.sum(axis=1, keepdims=True)

    def decision_function(self, X: Any) -> Array:
        """Logarithms of the odds of the second of two classes, or of each class against the rest."""
        check_is_fitted(self)
        wide = () if len(self.classes_) == 2 else (len(self.classes_),)
        return self._apply("_log_odds", X, (float, *wide))

    def _log_odds(self, X: Any) -> Array:
        p = self._probabilities(X)
        with np.errstate(divide="ignore"):
            odds = np.log(p) - np.log1p(-p)
        return odds[:, 1] if p.shape[1] == 2 else odds

    def predict(self, X: Any) -> NDArray[Any]:  # type: ignore[override]
        """The most probable class of each row."""
        check_is_fitted(self)
        return self._apply("_most_probable", X, (self.classes_.dtype,))

    def _most_probable(self, X: Any) -> NDArray[Any]:
        return self.classes_[self._probabilities(X).argmax(axis=1)]
