"""Regression."""

from __future__ import annotations

import math
import warnings
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh
from sklearn.base import RegressorMixin, clone
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from mercer._arrays import count, on_cpu
from mercer.gp.base import SparseGP
from mercer.gp.features import HarmonicFeatures
from mercer.gp.hyperparameters import Evidence
from mercer.gp.inducing import search as inducing_search
from mercer.gp.inducing.features import with_fixed_parameters
from mercer.gp.inducing.rows import with_evidence
from mercer.rows import Block, RowSource
from mercer.rows.statistics import collect

Array = NDArray[np.float64]

#: Number of L-BFGS steps that learn input scales.
_ARD_STEPS = 40


class SphericalGPRegressor(RegressorMixin, SparseGP):
    """Gaussian process regression by spherical harmonics or inducing points, in one pass over the rows.

    ``y = f(x) + noise``, where f is a Gaussian process with a zonal kernel ``sum_l a_l N_l P_l``.  Its
    features phi are the harmonics of the sphere.  Their prior covariance is diagonal, and they do not
    depend on the kernel's hyperparameters.  Sums over rows of ``phi phi'`` and ``phi y`` are collected
    once.  Everything else follows from them, at a cost of O(M^3) per step whatever the number of rows:
    the hyperparameters, which maximise a lower bound on the evidence (by L-BFGS with exact gradients),
    the posterior and the bound.  On other spaces the eigenfunctions of the Laplacian replace the
    harmonics.

    Columns of a table are standardised and a constant column is appended, so that rows become
    directions; the arc-cosine kernel keeps the lengths of rows too.  Kernels on ``Sphere()`` and
    ``Simplex()`` take rows as they are, unless ``inputs="table"``.

    Parameters
    ----------
    kernel : Kernel, optional
        ``ArcCosine()`` (the default), or ``Heat``, ``AxialHeat`` (for tables, with ``inputs="table"``),
        ``Matern`` or another kernel given by a law, on a sphere or on a space with eigenfunctions: a
        ``Graph``, whose rows are nodes, a ``Torus``, ``Rotations``, ``Categories`` with stated labels,
        or a product of such spaces.  Kernels of whole tables (sums and products of
        :class:`~mercer.kernels.On`), of strings and of clouds use inducing points among the training
        rows, with the hyperparameters that maximise the exact evidence of 500 rows.
    max_features : int, optional
        Number of features M; see :class:`mercer.harmonics.SphericalHarmonics` for which harmonics.  By
        default 500, but with up to 2000 columns enough harmonics to include all linear functions, or all
        eigenvectors of a graph of up to 4000 nodes, which is the exact process.
    levels : int or sequence of int, optional
        Number of levels, or level numbers; by default those where the kernel has weight.
    inputs : {"auto", "table", "points"}
        Whether rows are those of a table or points of the kernel's space.  "auto" decides by the
        kernel, and warns if the lengths of rows for ``Sphere()`` vary like those of a table.
    bias : float
        Value of the constant column, in units of the standardised columns.
    ard : bool
        Learn a scale for each column of a table from at most 20000 rows, by gradients of the bound (at
        most 50 steps of two passes over those rows each).  Columns that do not matter shrink.  With
        harmonics it needs torch, and at most 500 features are used for it.  With inducing points the
        scales are learnt instead of the kernel's own range, which is narrowed if necessary.
    features : {"harmonics", "inducing"}
        "inducing" uses ``max_features`` functions ``k(v, .)`` of the kernel at inducing points v instead
        of harmonics.  The points are learnt from a random sample of at most 20000 rows (of an iterator:
        the first ones), along with the scales if ``ard``, else with the kernel's hyperparameters;
        amplitude and noise are found from all rows.  With the same number of features it follows uneven
        functions more closely, but takes longer.  With a feature for each distinct row it is the exact
        process; those points, and points with more than 200 000 coordinates in all, stay where they are.
    normalize_y : bool
        Subtract the mean of the targets and divide by their standard deviation.
    amplitude, noise : float
        Variances of f (times ``k(x, x)``) and of the noise in units of the targets' variance; the
        start of the optimisation, or the fixed values.
    optimize : bool
        Maximise the bound over amplitude, noise and the kernel's hyperparameters.  Scales and inducing
        points are learnt in any case.
    n_restarts : int
        Additional starts of the optimisation from the sums, without another pass.
    random_state : int
        Seed of restarts, of directions of incomplete levels, and of samples and first inducing points.

    Attributes
    ----------
    kernel_ : Kernel
        The kernel with the fitted hyperparameters.
    amplitude_, noise_ : float
        Variances in use, in units of the targets' variance.
    elbo_ : float
        Bound on the log evidence of the targets.
    statistics_ : Statistics
        The sums over the rows.
    features_ : HarmonicFeatures, InducingFeatures, InducingRows or EigenFeatures
        Harmonics or inducing points with their input map, inducing points among the training rows, or
        eigenfunctions.
    landmarks_, dual_coef_, intercept_ : points, arrays
        With inducing points among the training rows: these, and coefficients of the mean,
        ``b + sum_j c_j k(x, z_j)``.
    input_scales_ : array of shape (d,)
        With ``ard``: factors of the standardised columns.

    References
    ----------
    .. [1] V. Dutordoir, N. Durrande, J. Hensman, "Sparse Gaussian processes with spherical harmonic
       features", ICML 2020.
    .. [2] M. Titsias, "Variational learning of inducing variables in sparse Gaussian processes",
       AISTATS 2009.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.gp import SphericalGPRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-2, 2, size=(500, 2))
    >>> y = np.sin(2 * X[:, 0]) + X[:, 1] ** 2 + 0.1 * rng.normal(size=500)
    >>> model = SphericalGPRegressor(max_features=200).fit(X, y)
    >>> mean, std = model.predict([[0.5, 1.0]], return_std=True)
    >>> bool(abs(mean[0] - (np.sin(1) + 1)) < 0.1), bool(0.05 < std[0] < 0.2)
    (True, True)
    """

    def __init__(
        self,
        kernel: Any = None,
        *,
        max_features: int | None = None,
        levels: Any = None,
        inputs: str = "auto",
        bias: float = 1.0,
        ard: bool = False,
        features: str = "harmonics",
        normalize_y: bool = True,
        amplitude: float = 1.0,
        noise: float = 0.1,
        optimize: bool = True,
        n_restarts: int = 1,
        random_state: int = 0,
    ) -> None:
        self.kernel = kernel
        self.max_features = max_features
        self.levels = levels
        self.inputs = inputs
        self.bias = bias
        self.ard = ard
        self.features = features
        self.normalize_y = normalize_y
        self.amplitude = amplitude
        self.noise = noise
        self.optimize = optimize
        self.n_restarts = n_restarts
        self.random_state = random_state

    _positive = (*SparseGP._positive, "noise")

    def _validate(self) -> Any:
        kernel = super()._validate()
        if self.features not in ("harmonics", "inducing"):
            raise ValueError(f"features must be 'harmonics' or 'inducing', got {self.features!r}")
        if self.features == "inducing" and self.levels is not None:
            raise ValueError("levels is for harmonics; leave it out with features='inducing'")
        if self.ard and self._opaque:
            raise ValueError("ard scales the columns of a table of numbers; leave it out with On(...)")
        return kernel

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, *, checkpoint: Any = None) -> Self:
        """Collect statistics in one pass and find the hyperparameters.

        Parameters
        ----------
        X : array, tensor, memory map, sparse matrix or data frame of shape (m, d); or blocks
            Blocks are an iterable of pairs (X, y) or triples (X, y, weight), with ``y=None`` here, or
            :class:`ParquetBlocks`.  Means and standard deviations of columns are learnt in a separate
            pass, or from the first block of an iterator, which can be read only once.  Partitions of
            Dask arrays and data frames are summed where they are, and tensors on their device.
        y : array of shape (m,) or (m, q)
            Several outputs share the hyperparameters.
        sample_weight : array of shape (m,), optional
            How often each row counts.
        checkpoint : path, optional
            A file for intermediate sums, from which an interrupted fit of the same model to the same
            rows resumes; it is deleted when the fit is done.  Other files and damaged ones are
            refused.
        """
        rows = self._rows(X, y, sample_weight, multi_output=True, y_numeric=True)
        kept = self._start(rows, checkpoint)
        few = None if kept.results else self._few_rows(rows)  # files of a fit that goes on may be gone
        if (self.ard or self.features == "inducing") and not self._opaque:
            if "features" not in kept.results:
                kept.keep("features", self._learn_features(rows))
            scales, features = kept.results["features"]
            self.features_ = features
            if self.ard:
                self.input_scales_ = scales
            if self.features == "inducing":
                self.kernel_ = features.kernel
        self.statistics_ = collect(self.features_, rows, kept)
        self._flat = self.statistics_.shift.size == 1 if rows.flat is None else rows.flat
        self._finish(self._theta(), self.n_restarts, rows.where)
        kept.remove()
        self._warn_of_fit()
        if not self._evidence.alone:  # otherwise the kernel is not the covariance
            self._warn_if_degenerate(few, self.kernel_, self.amplitude_)
        return self

    def _warn_of_fit(self) -> None:
        other = ", or use features='inducing'" if isinstance(self.features_, HarmonicFeatures) else ""
        self._warn_of_search(self._evidence, [self.theta_], f"raise max_features{other}")

    def _learn_features(self, source: RowSource) -> tuple[Array, Any]:
        """Input scales (or ones) and features, from a sample of the rows."""
        features: Any = self.features_
        inputs = features.inputs
        if self.ard and (inputs is None or not inputs.is_table):
            raise ValueError("ard scales the columns of a table; it needs inputs='table' or ArcCosine()")
        if inputs is None:
            raise ValueError(
                f"inducing points need a sphere; use features='harmonics' with {self.kernel_.space!r}"
            )
        rows = source.sample(self.random_state).dense()
        try:
            features.check(rows.X)
        except ValueError:
            collect(features, source)  # names the row as it was given
            raise
        if len(rows.y) == 0 or (rows.weight is not None and not rows.weight.any()):
            raise ValueError("all weights of a sample are zero; give some rows a positive weight")
        if self.normalize_y:
            rows = _standardised(rows)
        if self.features == "inducing":
            if not self.optimize:
                self.kernel_ = with_fixed_parameters(self.kernel_)
            return inducing_search.learn_inducing_points(
                inputs, self.kernel_, self._theta(), rows, self._most, self.ard, self.random_state
            )
        from mercer.gp.scales import learn_scales

        scales = learn_scales(features, self.kernel_, self._theta(), rows, _ARD_STEPS)
        return scales, replace(features, inputs=inputs.stretched(scales))

    def _with_range(self, kernel: Any, sample: Block) -> Any:
        """See :class:`SparseGP`; hyperparameters of the largest evidence."""
        if not self.optimize:
            return kernel
        rows = replace(sample, y=sample.targets())
        rows = _standardised(rows) if self.normalize_y else rows
        return with_evidence(kernel, rows, np.log([self.amplitude, self.noise]))

    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Add rows; the optimisation starts from the present hyperparameters.

        If the parameter ``kernel`` has changed, they are those of the new kernel, which must use the
        same features.  Columns are standardised as in the first call, and those that are constant in it
        are left out, with a warning.  Inducing points and scales are those of the first call too.
        """
        if not hasattr(self, "statistics_"):
            self.fit(X, y, sample_weight)
            self._warn_of_constants("the first rows")
            few = self.features == "inducing" or self._opaque
            if few and self.features_.size < self._most:
                warnings.warn(
                    f"the first rows have only {self.features_.size} inducing points for max_features="
                    f"{self._most}; begin with more rows",
                    stacklevel=2,
                )
            return self
        rows = self._rows(X, y, sample_weight, reset=False, multi_output=True, y_numeric=True)
        given = self._validate()
        changed = given != self._given
        kernel = self._compatible(given) if changed else self.kernel_
        self.statistics_ = self.statistics_ + collect(self.features_, rows)
        self._given, self.kernel_ = given, kernel
        # Few rows may have looked like noise alone; from there no step leads back.
        anew = changed or self._evidence.is_noise(self.theta_)
        self._finish(self._theta() if anew else self.theta_, 0, rows.where)
        self._warn_of_fit()
        return self

    def refit(self, kernel: Any = None, **params: Any) -> Self:
        """Fit again from the stored statistics, possibly with another kernel or other parameters.

        The kernel must use the same features: the same space, and the same power of ``|x|``.  Parameters
        of the input map and of the features cannot change.

        Parameters
        ----------
        kernel : Kernel, optional
        **params : normalize_y, amplitude, noise, optimize, n_restarts
        """
        check_is_fitted(self)
        free = ("normalize_y", "amplitude", "noise", "optimize", "n_restarts")
        for name in params:
            if name not in free:
                raise ValueError(f"refit cannot change {name}; it can change {', '.join(free)}")
        if kernel is not None:
            params["kernel"] = kernel
        given = clone(self).set_params(**params)._validate()
        if kernel is not None or given != self._given:
            self.kernel_ = self._compatible(given)
        self.set_params(**params)
        self._given = given
        self._finish(self._theta(), self.n_restarts)
        self._warn_of_fit()
        return self

    def _theta(self) -> Array:
        """Where optimisation starts."""
        return np.concatenate([np.log([self.amplitude, self.noise]), self.kernel_.theta])

    def _finish(self, theta: Array, restarts: int, where: Any = None) -> None:
        """Find hyperparameters, on the device of ``where``, and the posterior from the statistics."""
        statistics = self.statistics_
        self._mean_y = statistics.target_mean if self.normalize_y else np.zeros_like(statistics.shift)
        self._scale_y = statistics.target_scale if self.normalize_y else np.ones_like(statistics.shift)
        sums = statistics.scaled(self._mean_y, self._scale_y)
        self._evidence = Evidence.of(sums, self.features_, self.kernel_)
        if self.optimize:
            rng = np.random.default_rng(self.random_state)
            found, theta = self._evidence.placed(where).search(theta, restarts, rng)
            self._evidence = replace(self._evidence, alone=found.alone)
        self.theta_ = theta
        self.amplitude_, self.noise_, self.kernel_ = self._evidence.split(theta)
        self._posterior, self._prior, left = self._evidence.solve(theta)
        self.elbo_ = self._posterior.value(left) - self._log_scale()
        self._expand(self._posterior.mean * self._scale_y, self._mean_y)

    def _log_scale(self) -> float:
        """Contribution of the units of the targets to the evidence."""
        return self.statistics_.weight * float(np.log(self._scale_y).sum())

    def log_marginal_likelihood(self, theta: Any = None, eval_gradient: bool = False) -> Any:
        """The lower bound (ELBO) on the log evidence of the targets.

        Parameters
        ----------
        theta : array, optional
            Logarithms of amplitude, noise and (with harmonics) the kernel's hyperparameters; by default
            those in use.
        eval_gradient : bool
            Also return the derivatives.
        """
        check_is_fitted(self)
        theta = self.theta_ if theta is None else np.asarray(theta, dtype=float)
        if theta.shape != self.theta_.shape:
            raise ValueError(f"theta has shape {theta.shape}; {self.theta_.shape} is needed")
        if eval_gradient:
            value, gradient = self._evidence.value_and_gradient(theta)
            return value - self._log_scale(), gradient
        return self._evidence.value(theta) - self._log_scale()

    def predict(
        self, X: Any, return_std: bool = False, return_cov: bool = False, include_noise: bool = True
    ) -> Any:
        """Predictive mean, with standard deviations or covariances of the targets.

        Parameters
        ----------
        X : array of shape (m, d)
            For Dask arrays and data frames the result is a lazy Dask array; for tensors, a tensor on
            their device.
        return_std : bool
            Also return standard deviations, in the shape of the mean.
        return_cov : bool
            Also return the covariance matrix, shape (m, m) or, for q outputs, (m, m, q).
        include_noise : bool
            Deviations and covariances of the targets, with noise; otherwise those of f.
        """
        if return_std and return_cov:
            raise ValueError("give return_std or return_cov, not both")
        check_is_fitted(self)
        shape = () if self._flat else (len(self._scale_y),)
        mean = (float, *shape)
        if return_cov:
            covariance = (float, None, *shape)
            return self._apply("_predict_covariance", X, mean, covariance, include_noise=include_noise)
        options = {"return_std": return_std, "include_noise": include_noise}
        return self._apply("_predict", X, *[mean] * (1 + return_std), **options)

    def _predict(self, X: Any, return_std: bool, include_noise: bool) -> Any:
        mean, variance = self._moments(X, [(self._posterior, self._prior)], return_std)
        if not return_std:
            return self._in_units(mean)
        std = np.sqrt(variance + self.noise_ * include_noise) * self._scale_y
        return self._in_units(mean), std[:, 0] if self._flat else std

    def _predict_covariance(self, X: Any, include_noise: bool) -> Any:
        mean, covariance = self._covariance(self._points(X))
        covariance[np.diag_indices_from(covariance)] += self.noise_ * include_noise
        scaled = covariance[:, :, None] * self._scale_y**2
        return self._in_units(mean), scaled[:, :, 0] if self._flat else scaled

    def _in_units(self, mean: Array) -> Array:
        mean = mean * self._scale_y + self._mean_y
        return mean[:, 0] if self._flat else mean

    def _covariance(self, rows: Any) -> tuple[Array, Array]:
        """Mean and covariance of f at rows, in units of the targets' deviation; in main memory."""
        rows = on_cpu(rows)
        phi = np.empty((count(rows), self.features_.size))
        self._prior.features.write(rows, phi)
        if self._evidence.alone:
            covariance = self._posterior.times_covariance(phi) @ phi.T
        else:
            gram = self.features_.gram(self.kernel_, rows)
            covariance = self.amplitude_ * gram - self._posterior.explained_covariance(phi)
        return phi @ self._posterior.mean, covariance

    def sample_y(
        self, X: Any, n_samples: int = 1, random_state: Any = 0, include_noise: bool = False
    ) -> Array:
        """Draw functions from the posterior, at the rows of X.

        Parameters
        ----------
        X : array of shape (m, d)
            Costs O(m^3).
        n_samples : int
        random_state : int, RandomState or None
        include_noise : bool
            Draw targets instead.

        Returns
        -------
        array of shape (m, n_samples), or (m, q, n_samples) for several outputs
        """
        rows = self._points(X)
        mean, covariance = self._covariance(rows)
        values, vectors = eigh(covariance)
        root = vectors * np.sqrt(np.maximum(values, 0.0))
        rng = check_random_state(random_state)
        shape = (count(rows), len(self._scale_y), n_samples)
        draws = mean[:, :, None] + np.einsum("ij,jqs->iqs", root, rng.normal(size=shape))
        if include_noise:
            draws = draws + math.sqrt(self.noise_) * rng.normal(size=shape)
        draws = draws * self._scale_y[:, None] + self._mean_y[:, None]
        return draws[:, 0] if self._flat else draws

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


def _standardised(rows: Block) -> Block:
    """Rows with targets of mean zero and variance one, unless they are constant."""
    y = rows.y - np.average(rows.y, axis=0, weights=rows.weight)
    spread = np.sqrt(np.average(y**2, axis=0, weights=rows.weight))
    varies = spread > 1e-12 * np.abs(rows.y).max(axis=0)
    return replace(rows, y=y / np.where(varies, spread, 1.0))
