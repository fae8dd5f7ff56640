"""Classification and counts: processes behind a likelihood that is not Gaussian."""

from __future__ import annotations

import warnings
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from mercer.gp.base import SphericalGP
from mercer.gp.checkpoint import Checkpoint
from mercer.gp.likelihoods import Bernoulli, Poisson, mean_probability
from mercer.gp.rows import RowSource
from mercer.gp.tallies import CountTally, LabelTally, OneAgainstRest, counts
from mercer.gp.variational import Climb, Latent, Likely, infer
from mercer.kernels.base import is_whole

Array = NDArray[np.float64]


class _VariationalGP(SphericalGP):
    """A Gaussian process fitted by several passes over the rows."""

    max_iter: int
    tol: float

    def __init__(
        self,
        kernel: Any = None,
        *,
        max_features: int = 500,
        levels: Any = None,
        inputs: str = "auto",
        bias: float = 1.0,
        amplitude: float = 1.0,
        optimize: bool = True,
        n_restarts: int = 0,
        max_iter: int = 100,
        tol: float = 1e-5,
        random_state: int = 0,
    ) -> None:
        self.kernel = kernel
        self.max_features = max_features
        self.levels = levels
        self.inputs = inputs
        self.bias = bias
        self.amplitude = amplitude
        self.optimize = optimize
        self.n_restarts = n_restarts
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state

    def _validate(self) -> Any:
        kernel = super()._validate()
        if not is_whole(self.max_iter) or self.max_iter < 1:
            raise ValueError(f"max_iter must be a whole number from 1, got {self.max_iter!r}")
        if not (isinstance(self.tol, int | float | np.number) and 0 < self.tol < np.inf):
            raise ValueError(f"tol must be a positive number, got {self.tol!r}")
        return kernel

    def _repeatable(self, rows: RowSource) -> RowSource:
        if not rows.repeatable:
            raise ValueError(
                f"{type(self).__name__} passes over the rows several times, and an iterator can be read "
                "only once; give a list of blocks, ParquetBlocks or arrays"
            )
        return rows

    def _infer(
        self,
        rows: RowSource,
        model: Likely,
        weight: float,
        count: int,
        checkpoint: Checkpoint,
    ) -> Self:
        """Find the posterior of one process for each column of targets."""
        self._offset = model.offset
        tol = self.tol * max(weight, 100.0)
        climbs = [
            Climb(self.features_, self.kernel_, bool(self.optimize), count, tol) for _ in self._offset
        ]
        theta = np.concatenate([[np.log(self.amplitude)], self.kernel_.theta])
        self.n_iter_, climbs = infer(
            model, rows, climbs, theta, self.n_restarts, self.max_iter, self._rng(), checkpoint
        )
        checkpoint.remove()
        if any(climb.moving for climb in climbs):
            warnings.warn(
                f"the bound was still rising after {self.max_iter} passes; raise max_iter, or tol",
                ConvergenceWarning,
                stacklevel=3,
            )
        self._latents = [climb.accepted for climb in climbs]
        self.elbo_ = sum(climb.bound for climb in climbs)
        self.kernels_ = [latent.kernel for latent in self._latents]
        self.amplitudes_ = np.array([np.exp(latent.theta[0]) for latent in self._latents])
        few = self._few_rows(rows)
        self._warn_if_degenerate(few, self.kernels_[0], float(self.amplitudes_[0]))
        return self

    def _latent_moments(self, X: Any) -> tuple[Array, Array]:
        """Means and variances of the processes at rows, offset included."""
        rows = self._points(X)
        mean, variance = self._moments(rows, [(z.posterior, z.prior) for z in self._latents])
        return mean + self._offset, variance

    _latents: list[Latent]


class SphericalGPClassifier(ClassifierMixin, _VariationalGP):
    """Gaussian process classification by spherical harmonics, with calibrated probabilities.

    ``p(y = 1 | x) = 1 / (1 + exp(-f(x) - c))``, f a Gaussian process with a zonal kernel and c the
    logarithm of the odds of the class.  The posterior of f is approximated by a normal distribution
    that maximises a lower bound of the evidence, by natural-gradient steps: each is one pass over the
    rows that collects weighted sums of ``phi phi'``, after which hyperparameters are optimised without
    further passes.  A step that lowers the bound is halved.  With more than two classes there is a
    process for each against the rest, and probabilities are scaled to add up to one.

    A pass costs O(m M^2) for each process, in memory for a block of rows and a few M x M matrices.

    Parameters
    ----------
    kernel : Kernel, optional
        ``ArcCosine()`` (the default), or ``Heat``, ``AxialHeat`` (for tables, with ``inputs="table"``),
        ``Matern`` or another SpectralKernel on a sphere.
    max_features : int
        Number of harmonics M; see :class:`mercer.harmonics.SphericalHarmonics` for which.
    levels : int or sequence of int, optional
        Number of levels, or level numbers; by default those where the kernel has weight.
    inputs : {"auto", "table", "points"}
        Whether rows are of a table, or points of the kernel's space; "auto" tells by the kernel, and
        warns if rows for ``Sphere()`` vary in length as those of a table do.
    bias : float
        The constant column, in units of the standardised ones.
    amplitude : float
        Variance of f, times ``k(x, x)``; where optimisation starts, or what is used.
    class_prior : array of shape (n_classes,), optional
        Probabilities of the classes where the model will be used, if they differ from those in the
        training rows; in the order of ``classes_``.
    optimize : bool
        Maximise the bound over amplitude and the kernel's hyperparameters, for each process.
    n_restarts : int
        Further starts of the first optimisation.
    max_iter : int
        Most passes.
    tol : float
        Stop when the bound rises by less than this for each row.
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

    def __init__(
        self,
        kernel: Any = None,
        *,
        max_features: int = 500,
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

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, *, checkpoint: Any = None) -> Self:
        """Find the posterior in several passes.

        Parameters
        ----------
        X : array, memory map, sparse matrix or data frame of shape (m, d); or blocks
            Blocks are a list (or another iterable that can be read again) of pairs (X, y) or triples
            (X, y, weight), with ``y=None`` here, or :class:`ParquetBlocks`.  Of Dask arrays and data
            frames each partition is summed up where it is; they are computed in each pass, unless
            ``persist`` keeps them.
        y : array of shape (m,)
            Labels.
        sample_weight : array of shape (m,), optional
            How often each row counts.
        checkpoint : path, optional
            A file for the state after each pass, and for the sums of the pass under way.  If a fit of
            the same model to the same rows was stopped, it goes on from there; when the fit is done,
            the file is deleted.  A file that is damaged, or another, is refused.
        """
        rows = self._repeatable(self._rows(X, y, sample_weight))
        kept = self._start(rows, checkpoint)
        tally = rows.total(LabelTally.of, "labels", kept, "labels")
        self.classes_ = tally.labels
        if len(tally.labels) < 2:
            raise ValueError(f"there is one class only, {self.classes_[0]!r}; at least two are needed")
        frequencies = tally.frequencies
        self._ratio = self._prior_ratio(frequencies)
        shown = slice(1, 2) if len(tally.labels) == 2 else slice(None)
        bernoulli = Bernoulli()
        model = Likely(
            self.features_, bernoulli, bernoulli.offset(frequencies[shown]),
            OneAgainstRest(tally.labels[shown]),
        )  # fmt: skip
        return self._infer(rows, model, float(tally.weights.sum()), tally.rows, kept)

    def _prior_ratio(self, frequencies: Array) -> Array:
        """Odds by which the classes are more frequent in use than in training."""
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
        p = mean_probability(mean, variance)
        if p.shape[1] == 1:
            p = np.column_stack([mean_probability(-mean, variance), p])
        p = p * self._ratio
        return p / p.sum(axis=1, keepdims=True)

    def decision_function(self, X: Any) -> Array:
        """Logarithms of the odds: of the second of two classes, or of each class against the rest."""
        check_is_fitted(self)
        wide = () if len(self.classes_) == 2 else (len(self.classes_),)
        return self._apply("_log_odds", X, (float, *wide))

    def _log_odds(self, X: Any) -> Array:
        p = self._probabilities(X)
        with np.errstate(divide="ignore"):
            odds = np.log(p) - np.log1p(-p)
        return odds[:, 1] if p.shape[1] == 2 else odds

    def predict(self, X: Any) -> NDArray[Any]:
        """The most probable class of each row."""
        check_is_fitted(self)
        return self._apply("_most_probable", X, (self.classes_.dtype,))

    def _most_probable(self, X: Any) -> NDArray[Any]:
        return self.classes_[self._probabilities(X).argmax(axis=1)]


class SphericalGPPoissonRegressor(RegressorMixin, _VariationalGP):
    """Gaussian process regression of counts by spherical harmonics.

    ``y ~ Poisson(exp(f(x) + c))``, f a Gaussian process with a zonal kernel and c the logarithm of the
    average count.  Inference and cost are those of :class:`SphericalGPClassifier`.

    Parameters
    ----------
    kernel, max_features, levels, inputs, bias, amplitude
        See :class:`SphericalGPClassifier`, also for the rest.
    optimize, n_restarts, max_iter, tol, random_state

    Attributes
    ----------
    kernels_, amplitudes_ : list of one Kernel, array of shape (1,)
        Hyperparameters in use.
    elbo_ : float
        Bound on the log evidence.
    n_iter_ : int
        Number of passes.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.gp import SphericalGPPoissonRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-2, 2, size=(500, 1))
    >>> y = rng.poisson(np.exp(1 + np.sin(2 * X[:, 0])))
    >>> model = SphericalGPPoissonRegressor(max_features=20).fit(X, y)
    >>> bool(abs(model.predict([[0.785]])[0] - np.exp(2)) < 1.5)
    True
    """

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, *, checkpoint: Any = None) -> Self:
        """Find the posterior in several passes; see :meth:`SphericalGPClassifier.fit`.

        Parameters
        ----------
        X : array of shape (m, d), or blocks
        y : array of shape (m,)
            Counts.
        sample_weight : array of shape (m,), optional
            How often each row counts.
        checkpoint : path, optional
            A file to go on from if the fit is stopped.
        """
        rows = self._repeatable(self._rows(X, y, sample_weight, y_numeric=True))
        kept = self._start(rows, checkpoint)
        tally = rows.total(CountTally.of, "counts", kept, "counts")
        poisson = Poisson()
        model = Likely(self.features_, poisson, poisson.offset(tally.average), counts)
        return self._infer(rows, model, tally.weight, tally.rows, kept)

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Expected counts, with standard deviations of the counts if wanted."""
        outputs = ((float,),) * (1 + return_std)
        return self._apply("_rates", X, *outputs, return_std=return_std)

    def _rates(self, X: Any, return_std: bool) -> Any:
        mean, variance = self._latent_moments(X)
        rate = np.exp(mean + variance / 2)[:, 0]
        if not return_std:
            return rate
        return rate, np.sqrt(rate + rate**2 * np.expm1(variance[:, 0]))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = True
        return tags
