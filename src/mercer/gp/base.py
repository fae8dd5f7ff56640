"""What all sparse Gaussian processes on the sphere share."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import (
    _check_feature_names,
    _check_n_features,
    _check_sample_weight,
    check_is_fitted,
    validate_data,
)

from mercer import __version__
from mercer._threads import run
from mercer._validation import is_whole, refuse_complex
from mercer.gp.blocks import ArrayBlocks, StreamBlocks, as_floats
from mercer.gp.bound import Solution
from mercer.gp.checkpoint import Checkpoint
from mercer.gp.distributed import Partitions, is_dask, lazily
from mercer.gp.inputs import (
    Features,
    HarmonicFeatures,
    InputMap,
    is_table_kernel,
    looks_like_table,
    takes_any_length,
)
from mercer.gp.moments import Moments
from mercer.gp.parquet import ParquetBlocks, ParquetSource
from mercer.gp.passes import total
from mercer.gp.prior import Prior
from mercer.gp.statistics import ROWS, Statistics
from mercer.gp.tallies import CountTally, LabelTally
from mercer.gp.variational import Sites, Stage, Sums
from mercer.gp.zonal import ZonalFeatures
from mercer.harmonics import SphericalHarmonics
from mercer.kernels import ArcCosine
from mercer.rkhs import warn_if_degenerate
from mercer.spaces import Simplex, Sphere, SphericalSpace

Array = NDArray[np.float64]

#: Rows that are looked at to tell whether a kernel is of any use.
_LOOKED_AT = 200
#: What checkpoints hold beside numbers, text and arrays.
_KEPT = (
    CountTally, HarmonicFeatures, InputMap, LabelTally, Moments, Simplex, Sites, Sphere,
    SphericalHarmonics, Stage, Statistics, Sums, ZonalFeatures,
)  # fmt: skip


def prior_gram(kernel: Any, rows: Any) -> Array:
    """Gram matrix of rows that are checked, and mapped to the kernel's sphere."""
    return np.asarray(kernel.realise(int(rows.shape[1])).gram(rows))


class SphericalGP(BaseEstimator):
    """A Gaussian process with a zonal kernel, on spherical harmonics as features.

    A subclass says what it collects of the rows and how it finds the posterior.
    """

    kernel: Any
    max_features: int
    levels: Any
    inputs: str
    bias: float
    amplitude: float
    optimize: bool
    n_restarts: int
    random_state: int

    features_: Features
    kernel_: Any

    def _validate(self) -> Any:
        """Check the parameters; returns the kernel."""
        kernel = ArcCosine() if self.kernel is None else self.kernel
        kernel.require_levels()
        kernel = clone(kernel)
        is_table_kernel(kernel, self.inputs)
        for name, least in (("max_features", 1), ("n_restarts", 0), ("random_state", 0)):
            value = getattr(self, name)
            if not is_whole(value) or value < least:
                raise ValueError(f"{name} must be a whole number from {least}, got {value!r}")
        for name in ("amplitude", "bias"):
            value = getattr(self, name)
            if not (isinstance(value, int | float | np.number) and 0 < value < math.inf):
                raise ValueError(f"{name} must be a positive number, got {value!r}")
        return kernel

    def _blocks(self, X: Any, y: Any, sample_weight: Any, reset: bool = True, **check: Any) -> Any:
        """Checked blocks of whatever was given."""
        if reset:
            self._forget()
        if y is None:
            if sample_weight is not None:
                raise ValueError("give weights with the blocks, as triples (X, y, weight)")
            blocks = _given_with_targets(X)
            self._check_names(blocks.names, reset)
            return blocks
        if is_dask(X):
            self._check_frame(X, reset)
            return Partitions.of(X, y, sample_weight)
        for part, name in ((X, "X"), (y, "y"), (sample_weight, "sample_weight")):
            refuse_complex(part, name)
        X, y = validate_data(self, X, y, reset=reset, accept_sparse="csr", dtype="numeric", **check)
        if sample_weight is not None:
            sample_weight = _check_sample_weight(sample_weight, X, dtype=float, ensure_non_negative=True)
        return ArrayBlocks(X, y, sample_weight)

    def _forget(self) -> None:
        """Drop what was learnt before: a fit that fails must not leave half of another."""
        for name in [name for name in vars(self) if name.endswith("_") and not name.startswith("_")]:
            delattr(self, name)

    def _check_names(self, names: Any, reset: bool) -> None:
        """Learn or check the names of columns of blocks."""
        if names is None:
            return
        if reset:
            self.feature_names_in_ = np.asarray(names, dtype=object)
        elif list(names) != list(getattr(self, "feature_names_in_", names)):
            raise ValueError(
                f"the columns of X are {', '.join(names)}; in the rows before they were "
                f"{', '.join(self.feature_names_in_)}, in this order"
            )

    def _warn_of_constants(self, where: str) -> None:
        """Name columns that were left out for what may be a chance."""
        scale = self.features_.inputs.scale
        if scale is not None and np.isinf(scale).any():
            columns = ", ".join(map(str, np.flatnonzero(np.isinf(scale))))
            warnings.warn(
                f"column(s) {columns} of X are constant in {where} and are left out for good; begin "
                "with rows in which they vary",
                stacklevel=3,
            )

    def _warn_of_lengths(self, kernel: Any, blocks: Any) -> None:
        """Say that lengths are left out, if the first rows look as if they were of a table."""
        if not isinstance(blocks, Partitions) and looks_like_table(blocks.first().X):
            warnings.warn(
                f"rows of X differ in length as those of a table do, and {kernel!r} looks at directions "
                "only: use inputs='table' for a table, or inputs='points' if directions are meant",
                stacklevel=4,
            )

    def _few_rows(self, blocks: Any) -> Any:
        """Some of the first rows, to look at what the kernel makes of them; none of Dask's."""
        return None if isinstance(blocks, Partitions) else as_floats(blocks.first().X[:_LOOKED_AT])

    def _warn_if_degenerate(self, X: Any, kernel: Any, amplitude: float) -> None:
        """Say that a kernel which was found tells no rows apart, or finds nothing in common."""
        if X is not None:
            warn_if_degenerate(prior_gram(kernel, self.features_.check(X)), kernel, amplitude)

    def _check_frame(self, X: Any, reset: bool) -> None:
        """Learn or check names and number of columns of a Dask collection, which is not computed."""
        empty = X._meta if hasattr(X, "columns") else np.empty((0, *X.shape[1:]))
        _check_feature_names(self, empty, reset=reset)
        _check_n_features(self, empty, reset=reset)

    def _open(self, path: Any, blocks: Any, kernel: Any) -> Checkpoint:
        """What was found before by a fit with these parameters to these rows, or nothing."""
        if path is None:
            return Checkpoint()
        parameters = {
            f"{name} (a parameter)": repr(value.tolist() if isinstance(value, np.ndarray) else value)
            for name, value in self.get_params(deep=False).items()
        }
        kind = f"{type(self).__name__} {__version__}"
        description = {"estimator": kind, **parameters, "rows": blocks.identity()}
        checkpoint = Checkpoint(path, description, _KEPT, kernel)
        if isinstance(blocks, StreamBlocks):
            blocks.marks = checkpoint.results.setdefault("marks", [])
        return checkpoint

    def _start(self, blocks: Any, path: Any) -> Checkpoint:
        """Learn the input map and choose the features; returns where results are kept."""
        kernel = self._validate()
        checkpoint = self._open(path, blocks, kernel)
        if is_table_kernel(kernel, self.inputs):
            if blocks.repeatable:
                moments = total(blocks, Moments.of, "columns", checkpoint, "moments")
            else:
                moments = Moments.of(blocks.first())
            inputs = InputMap.of_table(moments, float(self.bias))
        else:
            spherical = isinstance(kernel.space, SphericalSpace)
            inputs = InputMap(kernel.space if spherical else Sphere())
        self.n_features_in_ = blocks.columns
        if inputs.dimension(self.n_features_in_) < 2:
            raise ValueError("X has one column, and points of a sphere at least two; see inputs='table'")
        if self.inputs == "auto" and takes_any_length(inputs.space) and not inputs.is_table:
            self._warn_of_lengths(kernel, blocks)
        self.kernel_ = kernel
        self.features_ = HarmonicFeatures.of(
            kernel, inputs, inputs.dimension(self.n_features_in_), self.levels, self.max_features,
            self.random_state,
        )  # fmt: skip
        if not blocks.repeatable:
            self._warn_of_constants("the first block")
        return checkpoint

    def _compatible(self, kernel: Any) -> Any:
        """Check that a kernel can use the features that statistics were collected for."""
        kernel.require_levels()
        kernel = clone(kernel)
        power, space = kernel.radial_power, self.features_.inputs.space
        table = is_table_kernel(kernel, self.inputs)
        right_space = table if self.features_.inputs.is_table else kernel.space == space
        if power != self.features_.power or not right_space:
            raise ValueError(
                f"{kernel!r} needs other features than {self.kernel_!r}, for which statistics were "
                "collected: another space, or another power of |x|; call fit instead"
            )
        return kernel

    def _points(self, X: Any) -> Any:
        """Rows to predict at, checked and mapped."""
        check_is_fitted(self)
        refuse_complex(X, "X")
        X = validate_data(self, X, reset=False, accept_sparse="csr", dtype="numeric")
        return self.features_.check(as_floats(X))

    def _lazily(self, method: str, X: Any, *outputs: tuple[Any, ...], **options: Any) -> Any:
        """A prediction for a Dask collection, not computed yet; see :func:`lazily`."""
        check_is_fitted(self)
        self._check_frame(X, reset=False)
        return lazily(self, method, X, outputs, **options)

    def _moments(self, rows: Any, posteriors: list[tuple[Solution, Prior]]) -> tuple[Array, Array]:
        """Means (all outputs of all posteriors) and variances (one of each) at rows, tile by tile."""
        weights = np.concatenate([posterior.mean for posterior, _ in posteriors], axis=1)
        mean = np.empty((rows.shape[0], weights.shape[1]))
        variance = np.empty((rows.shape[0], len(posteriors)))

        def job(part: slice) -> None:
            phi = np.empty((part.stop - part.start, self.features_.size))
            scale = self.features_.write(rows[part], phi)
            mean[part] = phi @ weights
            captured = self.features_.captured(phi)
            for i, (posterior, prior) in enumerate(posteriors):
                variance[part, i] = prior.left(scale, captured) + posterior.variance(phi)

        run(job, _parts(rows.shape[0]), what="prediction")
        return mean, variance

    def _means(self, rows: Any, weights: Array) -> Array:
        """Posterior means at rows, tile by tile."""
        mean = np.empty((rows.shape[0], weights.shape[1]))

        def job(part: slice) -> None:
            phi = np.empty((part.stop - part.start, self.features_.size))
            self.features_.write(rows[part], phi)
            mean[part] = phi @ weights

        run(job, _parts(rows.shape[0]), what="prediction")
        return mean

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "elbo_")

    def _rng(self) -> np.random.Generator:
        """Random numbers for restarts."""
        return np.random.default_rng(self.random_state)


def _parts(rows: int) -> list[tuple[slice]]:
    """Tiles of rows, as tasks of threads."""
    return [(slice(start, min(start + ROWS, rows)),) for start in range(0, rows, ROWS)]


def _given_with_targets(source: Any) -> Any:
    """Blocks of something that is given without targets."""
    if isinstance(source, ParquetBlocks):
        return ParquetSource(source)
    if hasattr(source, "shape") or isinstance(source, str | bytes) or not isinstance(source, Iterable):
        raise ValueError(
            "This estimator requires y to be passed, but the target y is None: give X and y, an "
            "iterable of blocks (X, y), or ParquetBlocks"
        )
    return StreamBlocks(source)
