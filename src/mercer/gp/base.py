"""Base of the sparse Gaussian processes."""

from __future__ import annotations

import math
import warnings
from abc import ABC, abstractmethod
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from mercer._arrays import count, filled, on_cpu, taken
from mercer._threads import run
from mercer._validation import is_whole, refuse_complex
from mercer.gp.eigenfunctions import EigenFeatures
from mercer.gp.elbo import Prior, Solution
from mercer.gp.features import USUAL, Features, Functions, HarmonicFeatures
from mercer.gp.hyperparameters import Evidence, warn_at_bounds, warn_of_own_bounds
from mercer.gp.inducing.features import InducingFeatures, with_fixed_parameters
from mercer.gp.inducing.rows import InducingRows
from mercer.gp.input_map import InputMap, looks_like_table, reads_table
from mercer.gp.likelihoods import Likelihood, Tally
from mercer.gp.variational import Ascent, AscentState, Latent, Passes, Sites, SiteSums
from mercer.harmonics import SphericalHarmonics
from mercer.kernels import ArcCosine, Kernel
from mercer.rkhs import warn_if_degenerate
from mercer.rows import ColumnCheck, RowSource, checkpoint_for, open_rows, source_for
from mercer.rows.blocks import Block, as_floats
from mercer.rows.checkpoint import Checkpoint
from mercer.rows.moments import Moments
from mercer.rows.statistics import Statistics

Array = NDArray[np.float64]

#: Rows that are tested for a degenerate kernel.
_LOOKED_AT = 200
#: Share of the prior variance above which features miss nothing.
_NEARLY_ALL = 0.95
#: The same where the features alone explain the targets: a constant and all linear functions hold more.
_MOST = 0.6
#: Numbers in the sparse rows that are made dense at a time.
_NUMBERS = 2**24
#: Largest dimension in which the default features include all linear functions.
_LINEAR = 2000
#: What checkpoints hold beside numbers, text and arrays.
_KEPT = (
    AscentState, HarmonicFeatures, InducingFeatures, InputMap, Moments, SiteSums, Sites,
    SphericalHarmonics, Statistics,
)  # fmt: skip


class SparseGP(BaseEstimator, ABC):
    """A Gaussian process with features: harmonics of a sphere, or eigenfunctions of a space.

    A subclass defines which sums it collects over the rows and how it finds the posterior.
    """

    kernel: Any
    max_features: int | None
    levels: Any
    inputs: str
    bias: float
    amplitude: float
    optimize: bool
    n_restarts: int
    random_state: int

    features_: Features
    kernel_: Any
    #: Data classes of tallies of targets, for checkpoints.
    _tally_kinds: tuple[type, ...] = ()
    #: Parameters that must be whole numbers, with the least values, and those that must be positive.
    _whole: ClassVar[dict[str, int]] = {"max_features": 1, "n_restarts": 0, "random_state": 0}
    _positive: ClassVar[tuple[str, ...]] = ("amplitude", "bias")

    @abstractmethod
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, *, checkpoint: Any = None) -> Self:
        """Find the posterior."""

    def _validate(self) -> Any:
        """Check the parameters; returns the kernel."""
        kernel = ArcCosine() if self.kernel is None else self.kernel
        if not isinstance(kernel, Kernel):
            raise TypeError(
                "the kernel must be ArcCosine, or Heat, Matern or another kernel given by a law, got "
                f"{kernel!r}"
            )
        for name, least in self._whole.items():
            value = getattr(self, name)
            if value is None and name == "max_features":
                continue
            if not is_whole(value) or value < least:
                raise ValueError(f"{name} must be a whole number of at least {least}, got {value!r}")
        for name in self._positive:
            value = getattr(self, name)
            if not (isinstance(value, int | float | np.number) and 0 < value < math.inf):
                raise ValueError(f"{name} must be a positive number, got {value!r}")
        return clone(kernel)

    def _rows(self, X: Any, y: Any, weight: Any, reset: bool = True, **options: Any) -> RowSource:
        """Rows of whatever was given; with ``reset`` an earlier fit is forgotten."""
        if reset:
            # A fit that fails must not leave half of the one before.
            for name in [n for n in vars(self) if n.endswith("_") and not n.startswith("_")]:
                delattr(self, name)
        return open_rows(X, y, weight, self._column_check(reset, **options))

    def _column_check(self, reset: bool, **options: Any) -> ColumnCheck:
        """Checks columns; nodes of a graph may be labels instead of numbers."""
        vectors = getattr(self.kernel, "requires_vector_input", True)
        return ColumnCheck(self, reset, options, bool(vectors), self._opaque)

    @property
    def _opaque(self) -> bool:
        """Whether points belong to no space, like rows of a whole table; the kernel checks them."""
        rows = getattr(self.kernel, "requires_vector_input", True)
        return isinstance(self.kernel, Kernel) and not (rows or self.kernel.point_space)

    def _warn_of_constants(self, where: str) -> None:
        """Warn about columns that are ignored because they are constant in the first rows."""
        inputs = self.features_.inputs
        if inputs is not None and inputs.constant_columns:
            columns = ", ".join(map(str, inputs.constant_columns))
            warnings.warn(
                f"column(s) {columns} of X are constant in {where} and are left out for good; begin "
                "with rows in which they vary",
                stacklevel=3,
            )

    def _warn_of_lengths(self, kernel: Any, rows: RowSource) -> None:
        """Warn that lengths are ignored if the first rows look like those of a table."""
        first = rows.first()
        if first is not None and looks_like_table(on_cpu(first.X)):
            warnings.warn(
                f"rows of X differ in length like those of a table, but {kernel!r} looks at directions "
                "only: use inputs='table' for a table, or inputs='points' if directions are meant",
                stacklevel=4,
            )

    def _few_rows(self, rows: RowSource) -> Any:
        """Some of the first rows, if available, to test their kernel matrix."""
        first = rows.first()
        return None if first is None else on_cpu(first.X[:_LOOKED_AT])

    def _warn_of_search(self, evidence: Evidence, thetas: list[Array], remedy: str) -> None:
        """Warn about hyperparameters at their bounds, and about noise found in place of the kernel."""
        if not self.optimize:
            return
        found = [theta for theta in thetas if not evidence.is_noise(theta)]
        kernels = [evidence.split(theta)[2] for theta in found]
        _, noise, _ = evidence.split(thetas[0])
        # Features alone are in units of a kernel most of which may be left out.
        largest = 0.0 if evidence.alone else max(theta[0] for theta in thetas)
        most = evidence.bounds[0, 1]
        warn_of_own_bounds(largest, most, noise, bool(getattr(self, "normalize_y", True)))
        warn_at_bounds(self._validate(), kernels)
        # Features that hold most of the kernel may well be all of it that the rows need.
        kernel, enough = (kernels[0], _MOST) if found else (evidence.kernel, _NEARLY_ALL)
        explained = not evidence.alone or evidence.exceeds_noise(thetas[0])
        held = evidence.held(kernel)
        if (found and explained) or held > enough:
            return
        what = "the rest of the kernel counts as noise" if found else "noise alone was found"
        warnings.warn(
            f"{what}: the {self.features_.size} features hold only {held:.0%} of the variance of "
            f"{kernel!r} at the rows; {remedy}",
            ConvergenceWarning,
            stacklevel=4,
        )

    def _warn_if_degenerate(self, X: Any, kernel: Any, amplitude: float) -> None:
        """Warn if the kernel that was found sees all rows as equal, or no two of them as similar."""
        if X is not None:
            warn_if_degenerate(self.features_.gram(kernel, self.features_.check(X)), kernel, amplitude)

    def _open(self, path: Any, rows: RowSource, kernel: Any) -> Checkpoint:
        """The checkpoint of a fit with these parameters to these rows."""
        return checkpoint_for(self, path, rows, (*_KEPT, *self._tally_kinds), kernel)

    def _start(self, rows: RowSource, path: Any) -> Checkpoint:
        """Learn the input map and choose the features; returns where results are kept."""
        kernel = self._validate()
        checkpoint = self._open(path, rows, kernel)
        self.n_features_in_ = rows.columns
        self._given = self.kernel_ = kernel
        self.features_ = self._choose_features(kernel, rows, checkpoint)
        if isinstance(self.features_, InducingRows):
            self.kernel_ = self.features_.kernel
        if not rows.repeatable:
            self._warn_of_constants("the first block")
        return checkpoint

    def _choose_features(self, kernel: Any, rows: RowSource, checkpoint: Checkpoint) -> Features:
        """Eigenfunctions that the kernel's space offers, or else harmonics of a sphere.

        Points of no space have functions of the kernel at training rows instead.
        """
        if self._opaque:
            return self._inducing_rows(kernel, rows)
        basis = kernel.eigenfunctions(rows.columns, self.max_features)
        if basis is not None:
            return EigenFeatures.of(kernel, basis, rows.columns, self.inputs, self.levels)
        kernel.require_levels()
        space, table = kernel.space, kernel.space.of_table()
        if reads_table(space, self.inputs):
            moments = rows.moments(checkpoint)
            inputs = InputMap(table, float(self.bias), moments.mean, moments.scale)
        else:
            inputs = InputMap(space.directions())
        n = inputs.dimension(rows.columns)
        if n < 2:
            raise ValueError(
                "X has one column, but points on a sphere need two or more; see inputs='table'"
            )
        if self.inputs == "auto" and table is not None and not inputs.is_table:
            self._warn_of_lengths(kernel, rows)
        most = self._most
        if self.max_features is None and n <= _LINEAR:
            most = max(most, n + 1)
        return HarmonicFeatures.of(kernel, inputs, n, self.levels, most, self.random_state)

    def _inducing_rows(self, kernel: Any, rows: RowSource) -> InducingRows:
        """Training rows as inducing points; the kernel learns from a sample of the rows."""
        if self.inputs not in ("auto", "points") or self.levels is not None:
            raise ValueError(
                f"inputs={self.inputs!r} and levels={self.levels!r} are for spheres; leave both out "
                f"with {kernel!r}"
            )
        if not kernel.positive_semidefinite:
            raise ValueError(
                f"{kernel!r} is not positive semidefinite, so no process has it as its covariance"
            )
        sample = rows.sample(self.random_state)
        if not len(sample.y):
            raise ValueError("all weights are zero; give some rows a positive weight")
        y = sample.y[:, 0] if sample.y.shape[1] == 1 else sample.y
        learnt = self._with_range(kernel.learnt_from(sample.X, y), sample)
        return InducingRows.of(with_fixed_parameters(learnt), sample, self._most, self.random_state)

    def _with_range(self, kernel: Any, sample: Block) -> Any:
        """The kernel with hyperparameters for rows; unchanged unless a subclass can learn them."""
        return kernel

    @property
    def _most(self) -> int:
        """Number of features, if there are infinitely many."""
        return USUAL if self.max_features is None else self.max_features

    def _compatible(self, kernel: Any) -> Any:
        """Check that a kernel can use the features that statistics were collected for."""
        kernel = clone(kernel)
        if not self.features_.serves(kernel, self.inputs):
            raise ValueError(
                f"{kernel!r} needs features other than those of {self.kernel_!r}, for which statistics "
                "were collected: another space, or another power of |x|; call fit instead"
            )
        return kernel

    def _expand(self, weights: Array, intercept: Array) -> None:
        """Keep the mean as a sum over inducing points, ``b + sum_j c_j k(x, z_j)``, if they are rows."""
        if isinstance(self.features_, InducingRows):
            self.landmarks_, self.intercept_ = self.features_.points, intercept
            self.dual_coef_ = self.features_.landmarks.whitening.T @ weights

    def _points(self, X: Any) -> Any:
        """Rows to predict at, checked and mapped."""
        return self.features_.check(self._columns(X))

    def _columns(self, X: Any) -> Any:
        """Rows to predict at with the columns of the training rows, in double precision."""
        check_is_fitted(self)
        refuse_complex(X, "X")
        points = self._column_check(reset=False).points(X)
        return points if self._opaque else as_floats(points)

    def _apply(self, method: str, X: Any, *outputs: tuple[Any, ...], **options: Any) -> Any:
        """A method at the rows of X, by the source of such rows; see :meth:`RowSource.apply`."""
        check_is_fitted(self)
        check = self._column_check(reset=False)
        return source_for(X).apply(check, method, X, outputs, **options)

    def _moments(
        self, X: Any, posteriors: list[tuple[Solution, Prior]], variances: bool = True
    ) -> tuple[Array, Array]:
        """Means (all outputs of all posteriors) and variances (one for each posterior) at rows.

        Without ``variances`` these are left empty.
        """
        X = self._columns(X)
        # Sparse rows of a table become dense, a block at a time.
        height = max(1, _NUMBERS // X.shape[1]) if sparse.issparse(X) else count(X)
        found = []
        for start in range(0, count(X), height):
            name = f"X of the rows from {start} on" if start else "X"
            rows = self.features_.check(taken(X, slice(start, start + height)), name)
            found.append(self._moments_at(rows, posteriors, variances))
        mean, variance = zip(*found, strict=True)
        return np.concatenate(mean), np.concatenate(variance)

    def _moments_at(
        self, rows: Any, posteriors: list[tuple[Solution, Prior]], variances: bool
    ) -> tuple[Array, Array]:
        """The same at checked rows, tile by tile."""
        ends = np.cumsum([0, *(posterior.mean.shape[1] for posterior, _ in posteriors)])
        m = count(rows)
        mean, variance = np.empty((m, ends[-1])), np.empty((m, len(posteriors)))
        near = [posterior.placed(rows) for posterior, _ in posteriors]
        height = self.features_.height(rows)

        def job(part: slice) -> None:
            features: Functions | None = None
            phi = filled((part.stop - part.start, self.features_.size), 0.0, rows)
            for i, (posterior, (_, prior)) in enumerate(zip(near, posteriors, strict=True)):
                if prior.features is not features:
                    features = prior.features
                    psi = features.write(taken(rows, part), phi)
                mean[part, ends[i] : ends[i + 1]] = posterior.mean(phi)
                if variances:
                    variance[part, i] = on_cpu(prior.left(psi)) + posterior.variance(phi)

        tiles = [(slice(start, min(start + height, m)),) for start in range(0, m, height)]
        if self.features_.lanes(rows) > 1:
            run(job, tiles, what="prediction")
        else:  # few rows, or a device, which has room for one tile
            for tile in tiles:
                job(*tile)
        return mean, variance

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "elbo_")


class VariationalGP(SparseGP):
    """Gaussian processes with a non-Gaussian likelihood, fitted by passes over the rows.

    A subclass only names its :class:`~mercer.gp.likelihoods.Likelihood`.
    """

    likelihood_: Likelihood
    max_iter: int
    tol: float
    _latents: list[Latent]
    _whole: ClassVar[dict[str, int]] = {**SparseGP._whole, "max_iter": 1}
    _positive = (*SparseGP._positive, "tol")
    #: Options of scikit-learn's check of arrays.
    _target_options: ClassVar[dict[str, Any]] = {"y_numeric": True}

    def __init__(
        self,
        kernel: Any = None,
        *,
        max_features: int | None = None,
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

    @property
    @abstractmethod
    def likelihood(self) -> Likelihood:
        """The likelihood, a class attribute of subclasses."""

    @property
    def _tally_kinds(self) -> tuple[type, ...]:  # type: ignore[override]
        return self.likelihood.kinds

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, *, checkpoint: Any = None) -> Self:
        """Find the posterior in several passes.

        Parameters
        ----------
        X : array, tensor, memory map, sparse matrix or data frame of shape (m, d); or blocks
            Blocks are a list (or another iterable that can be read again) of pairs (X, y) or triples
            (X, y, weight), with ``y=None`` here, or :class:`ParquetBlocks`.  Partitions of Dask arrays
            and data frames are summed where they are, and are computed in each pass unless they are
            persisted.
        y : array of shape (m,)
            Labels of a classifier, or counts.
        sample_weight : array of shape (m,), optional
            How often each row counts.
        checkpoint : path, optional
            A file for the state after each pass and for the sums of the current pass, from which an
            interrupted fit of the same model to the same rows resumes; it is deleted when the fit is
            done.  Other files and damaged ones are refused.
        """
        rows = self._rows(X, y, sample_weight, **self._target_options)
        if not rows.repeatable:
            raise ValueError(
                f"{type(self).__name__} passes over the rows several times, but an iterator can be read "
                "only once; give a list of blocks, ParquetBlocks or arrays"
            )
        kept = self._start(rows, checkpoint)
        tally = rows.total(self.likelihood.tally, "targets", kept, "targets")
        self.likelihood_ = self.likelihood.fitted(tally)
        self._infer(rows, tally, kept)
        self._warn_of_fit(tally)
        return self

    def _warn_of_fit(self, tally: Tally) -> None:
        evidence = self._latents[0].sites.evidence(self.features_, self.kernel_, tally, self._alone)
        remedy = "raise max_features, or take fewer columns"
        self._warn_of_search(evidence, [latent.theta for latent in self._latents], remedy)

    def _infer(self, rows: RowSource, tally: Any, checkpoint: Checkpoint) -> None:
        """Find the posterior of each process."""
        ascents = [
            Ascent(self.features_, self.kernel_, bool(self.optimize), tally, self.tol)
            for _ in self.likelihood_.offset
        ]
        theta = np.concatenate([[np.log(self.amplitude)], self.kernel_.theta])
        seeds = np.random.default_rng(self.random_state).spawn(len(ascents))

        def begin(i: int, sites: Sites) -> None:
            ascents[i].start(sites, theta, self.n_restarts, seeds[i])

        passes = Passes(self.likelihood_, self.features_, rows, checkpoint)
        self.n_iter_ = passes.run(ascents, begin, self.max_iter)
        checkpoint.remove()
        if any(ascent.moving for ascent in ascents):
            warnings.warn(
                f"the bound was still rising after {self.max_iter} passes; raise max_iter, or tol",
                ConvergenceWarning,
                stacklevel=3,
            )
        self._latents = [ascent.accepted for ascent in ascents]
        self._alone = any(ascent.alone for ascent in ascents)
        self.elbo_ = sum(ascent.bound for ascent in ascents)
        self._expand(np.hstack([z.posterior.mean for z in self._latents]), self.likelihood_.offset)
        self.kernels_ = [latent.kernel for latent in self._latents]
        self.amplitudes_ = np.array([np.exp(latent.theta[0]) for latent in self._latents])
        if not self._alone:  # otherwise the kernel is not the covariance
            few = self._few_rows(rows)
            self._warn_if_degenerate(few, self.kernels_[0], float(self.amplitudes_[0]))

    def _latent_moments(self, X: Any) -> tuple[Array, Array]:
        """Means and variances of the processes at rows, offset included."""
        mean, variance = self._moments(X, [(z.posterior, z.prior) for z in self._latents])
        return mean + self.likelihood_.offset, variance

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Expected targets, optionally with their standard deviations."""
        outputs = ((float,),) * (1 + return_std)
        return self._apply("_predict", X, *outputs, return_std=return_std)

    def _predict(self, X: Any, return_std: bool) -> Any:
        mean, variance = self.likelihood_.predict(*self._latent_moments(X))
        return (mean[:, 0], np.sqrt(variance[:, 0])) if return_std else mean[:, 0]
