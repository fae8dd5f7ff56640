"""Base of machines on landmarks: rows, landmarks, sums over rows, predictions and certificates."""

from __future__ import annotations

import math
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from copy import copy
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
from scipy.linalg import solve_triangular
from sklearn.base import BaseEstimator, clone
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from mercer._arrays import on_cpu
from mercer._validation import check_labels, check_positive, is_whole, refuse_complex
from mercer.exceptions import IndefiniteKernelWarning
from mercer.kernels.base import Kernel
from mercer.kernels.scale import Unreachable
from mercer.machines.certificate import Certificate, DualObjective, SampledSum
from mercer.machines.landmarks.features import (
    LandmarkFeatures,
    Sample,
    check_points,
    choose_landmarks,
    diagonal_of,
)
from mercer.machines.landmarks.ridge import RidgeSums
from mercer.machines.points import Points, learnt_kernel, products
from mercer.machines.program import Array
from mercer.rows import Block, ColumnCheck, RowSource, checkpoint_for, open_rows, source_for
from mercer.rows.blocks import joined
from mercer.rows.checkpoint import Checkpoint
from mercer.rows.draws import Draws
from mercer.rows.statistics import Statistics, collect, weights_of

#: Rows among which landmarks are chosen: this many per landmark, and at least this many.
_PER_LANDMARK, _LEAST = 10, 10_000
#: Relative rounding error of the part of k(x, x) that is left out.
_ROUNDING = 1e-14
#: With "auto": first and last number of landmarks, and the relative improvement required of a
#: doubling.
_FIRST, _LAST, _PAYS = 250, 4000, 0.01
#: Smallest alpha; the square of its inverse must not overflow.
_LEAST_ALPHA = 1e-100


class LandmarkMachine(BaseEstimator, ABC):
    """A machine whose functions are spanned by the kernel at landmarks."""

    kernel: Any
    n_landmarks: Any
    alpha: Any
    scale: float | None
    random_state: Any

    kernel_: Any
    landmarks_: Any
    dual_coef_: Array
    alpha_: float
    #: Options of scikit-learn's check of targets.
    _target_options: ClassVar[dict[str, Any]] = {}
    #: What checkpoints hold beside numbers, text and arrays.
    _kept: ClassVar[tuple[type, ...]] = (Statistics,)

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, *, checkpoint: Any = None) -> Self:
        """Choose landmarks, and sum up the rows.

        Parameters
        ----------
        X : points of any kind that the kernel takes, or blocks
            Arrays, tensors, memory maps, sparse matrices, data frames and lists.  Blocks are an iterable
            of pairs (X, y) or triples (X, y, weight), with ``y=None`` here, or
            :class:`~mercer.rows.ParquetBlocks`.  Partitions of Dask arrays and data frames are summed
            where they are, and tensors on their device.
        y : array of shape (m,), or (m, q) for a regression of several outputs
        sample_weight : array of shape (m,), optional
        checkpoint : path, optional
            A file for intermediate sums, from which an interrupted fit of the same machine to the same
            rows resumes; it is deleted when the fit is done.
        """
        check_labels(y)
        rows = self._rows(X, y, sample_weight)
        kept = checkpoint_for(self, checkpoint, rows, self._kept)
        rows = self._tallied(rows, kept)
        sample = self._sum_up(rows, kept)
        self._solve(RidgeSums.of(self.statistics_, self._bias), rows, sample, kept)
        kept.remove()
        return self

    def path(self, X: Any, y: Any, alphas: Any, sample_weight: Any = None) -> list[Self]:
        """Machines for several values of ``alpha``, with the same landmarks and sums.

        Parameters
        ----------
        X, y, sample_weight
            See :meth:`fit`.
        alphas : sequence of positive floats

        Returns
        -------
        list of fitted machines
        """
        first: Self = clone(self)
        rows = first._tallied(first._rows(X, y, sample_weight), Checkpoint())
        sample = first._sum_up(rows, Checkpoint())
        sums = RidgeSums.of(first.statistics_, self._bias)
        found = []
        for alpha in alphas:
            machine = copy(first)
            machine.alpha = alpha
            machine._validate()
            machine._solve(sums, rows, sample, Checkpoint())
            found.append(machine)
        return found

    def _tallied(self, rows: RowSource, kept: Checkpoint) -> RowSource:
        """Rows with their weights, after an inspection of the targets."""
        return rows

    def _weighted(self, rows: RowSource) -> RowSource:
        """Rows with their weights in the fit."""
        return rows

    @property
    @abstractmethod
    def _bias(self) -> bool:
        """Whether there is a bias, which is not penalised."""

    @abstractmethod
    def _sum_up(self, rows: RowSource, kept: Checkpoint) -> Sample:
        """Choose landmarks and sum up the rows; returns the sample of landmarks."""

    @abstractmethod
    def _solve(self, sums: RidgeSums, rows: RowSource, sample: Sample, kept: Checkpoint) -> None:
        """Find the coefficients."""

    @abstractmethod
    def _dual(self, block: Block) -> Array:
        """Dual coefficients of rows, a column for each output."""

    def _alpha(self, sums: RidgeSums) -> float:
        """The alpha that was asked for, or the best by generalised cross-validation."""
        if not isinstance(self.alpha, str):
            return float(self.alpha)
        size = len(self._whitening)
        L = solve_triangular(self._whitening, np.eye(size), lower=True, check_finite=False)
        return sums.best_alpha(L, *self._landmark_rows)

    def _validate(self) -> None:
        if not (isinstance(self.alpha, str) and self.alpha == "auto"):
            check_positive(self, "alpha")
            if self.alpha < _LEAST_ALPHA:
                raise ValueError(f"alpha must be at least {_LEAST_ALPHA:g}, got {self.alpha!r}")
        if self.n_landmarks != "auto" and not (is_whole(self.n_landmarks) and self.n_landmarks > 0):
            raise ValueError(
                f"n_landmarks must be a whole number of at least 1, or 'auto', got {self.n_landmarks!r}"
            )
        if isinstance(self.kernel, str) and self.kernel == "precomputed":
            raise ValueError("landmarks need a kernel that can be evaluated, not a precomputed matrix")

    @property
    def _opaque(self) -> bool:
        """Whether points are checked by the kernel, rather than as rows of numbers."""
        vectors = isinstance(self.kernel, str) or getattr(self.kernel, "requires_vector_input", False)
        return not vectors

    def _column_check(self, reset: bool, **options: Any) -> ColumnCheck:
        return ColumnCheck(self, reset, options, vectors=not self._opaque, opaque=self._opaque)

    def _rows(self, X: Any, y: Any, weight: Any, reset: bool = True) -> RowSource:
        """Rows of whatever was given."""
        self._validate()
        if reset:  # a fit that fails must not leave half of the one before
            for name in [n for n in vars(self) if n.endswith("_") and not n.startswith("_")]:
                delattr(self, name)
        return open_rows(X, y, weight, self._column_check(reset, **self._target_options))

    def _collect(self, rows: RowSource, kept: Checkpoint, targets: Callable[[Block], Array]) -> Sample:
        """Choose landmarks and sum up the rows; with "auto" until doubling their number no longer pays.

        Returns the sample from which landmarks were chosen.
        """
        auto = self.n_landmarks == "auto"
        if auto and not rows.repeatable:
            raise ValueError(
                "n_landmarks='auto' passes over the rows several times, but an iterator can be read "
                "only once; give a list of blocks, or a number of landmarks"
            )
        kept.results.setdefault("size", _FIRST if auto else int(self.n_landmarks))
        while True:
            size = kept.results["size"]
            features, sample = self._choose(rows, kept, size)
            if sample.complete:
                self.statistics_ = sample.statistics(features, targets)
            else:
                self.statistics_ = collect(features, rows, kept, targets)
            self._whitening = features.whitening
            pivots = kept.results["landmarks"][0]
            block = sample.block
            self._landmark_rows = targets(block)[pivots], weights_of(block)[pivots]
            if not auto or features.size < size or 2 * size > _LAST or not self._pays():
                break
            kept.results["size"] = 2 * size
            for name in ("landmarks", "statistics"):
                kept.results.pop(name, None)
        self.kernel_, self.landmarks_ = features.kernel, features.points
        return sample

    def _choose(self, rows: RowSource, kept: Checkpoint, size: int) -> tuple[LandmarkFeatures, Sample]:
        """Landmarks of a sample of the rows, the same if the fit goes on; and the sample."""
        if "seed" not in kept.results:
            kept.results["seed"] = int(check_random_state(self.random_state).randint(2**31 - 1))
        seed = kept.results["seed"]
        most, F = max(_PER_LANDMARK * size, _LEAST), None
        sample = rows.sample(seed, most)
        if not len(sample.y) or (sample.weight is not None and not sample.weight.any()):
            raise ValueError("there are no rows of positive weight; give some rows a positive weight")
        sample = replace(sample, X=on_cpu(sample.X))
        y = sample.y[:, 0] if sample.y.ndim == 2 and sample.y.shape[1] == 1 else sample.y
        try:
            kernel = learnt_kernel(self.kernel, self.scale, sample.X, y, sample.weight)
            if "landmarks" not in kept.results:
                rng = np.random.default_rng(seed)
                F, pivots = choose_landmarks(kernel, sample, size, rng)
                kept.keep("landmarks", (pivots, F[pivots]))
        except Unreachable:
            raise
        except ValueError:
            if isinstance(self.kernel, Kernel) and not _learns(self.kernel, sample.X, y):
                for block in rows.blocks():  # one of them names the row as it was given
                    check_points(self.kernel, block.X, block.called("X"))
            raise
        pivots, L = kept.results["landmarks"]
        self._indefinite = Points(kernel, sample.X).indefinite
        features = LandmarkFeatures.of(kernel, sample, pivots, L, self._opaque)
        phi = features.at(sample.X) if F is None else F
        return features, Sample(sample, phi, complete=len(sample.y) < most)

    def _pays(self) -> bool:
        """Whether the second half of the landmarks improves the objective."""
        sums = RidgeSums.of(self.statistics_, self._bias)
        alpha = self._alpha(sums)
        half, whole = (
            float(sums.first(size).solve(alpha).dual.reached.sum())
            for size in (len(sums.gram) // 2, len(sums.gram))
        )
        return half - whole > _PAYS * whole

    @property
    def _features(self) -> LandmarkFeatures:
        return LandmarkFeatures(self.kernel_, self.landmarks_, self._whitening, self._opaque)

    def _state(self, dual: DualObjective, left_out: Array) -> None:
        """State a bound on what the landmarks cost, from sums over rows alone."""
        self._reached = dual.reached, dual.linear, dual.square, dual.factor
        self._safe = self._certify(dual.certificate("safe", left_out)).lower

    def _certify(self, found: Certificate) -> Certificate:
        if self._indefinite:
            found = replace(found, lower=math.nan)
            warnings.warn(
                f"the Gram matrix of {self.kernel_!r} has negative eigenvalues: nothing certifies what "
                "more landmarks would improve",
                IndefiniteKernelWarning,
                stacklevel=5,
            )
        self.objective_, self.certificate_ = found.upper, str(found)
        self.bounds_ = found.lower, found.upper
        return found

    def certify(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        *,
        grade: str = "sampled",
        n_rows: int = 1000,
    ) -> Certificate:
        """Bracket the objective that would be reached with all rows as landmarks.

        Parameters
        ----------
        X, y, sample_weight
            What the machine was fitted to.
        grade : "sampled" or "exact"
            Take the bound from products with the kernel matrix at a sample of rows, with 95 %
            confidence; or from one product with the whole kernel matrix, as with a sample of all rows.
        n_rows : int
            Size of the sample, for which rows are drawn with chances in proportion to
            ``|a| sqrt(k(x, x) - khat(x, x))``: up to a common factor, the most that a row can contribute
            to e of :class:`LandmarkRegressor`.

        Returns
        -------
        Certificate
            ``certificate_`` states it in words.
        """
        check_is_fitted(self)
        if grade not in ("sampled", "exact"):
            raise ValueError(f"grade must be 'sampled' or 'exact', got {grade!r}")
        if not is_whole(n_rows) or n_rows < 2:
            raise ValueError(f"n_rows must be a whole number of at least 2, got {n_rows!r}")
        rows = self._weighted(self._rows(X, y, sample_weight, reset=False))
        if not rows.repeatable:
            raise ValueError("certify passes over the rows again, but an iterator can be read only once")
        dual, left_out = DualObjective(*self._reached), np.zeros(len(self._reached[0]))
        blocks: Iterable[Block] = (self._contributing(block) for block in rows.blocks())
        if grade == "sampled":
            seed = int(check_random_state(self.random_state).randint(2**31 - 1))
            job = partial(_draw, self, n_rows, seed)
            draws: Draws = rows.total(job, "sample", Checkpoint(), "draws")
            if draws.count > n_rows:
                terms = self._left_out(rows, draws.rows)[draws.place]
                parts = SampledSum(terms, draws.sizes / draws.total)
                return self._certify(dual.sampled(parts, self._safe))
            blocks = [joined(list(blocks))]
        for block in blocks:
            if len(block.y):
                left_out += self._left_out(rows, block).sum(axis=0)
        return self._certify(dual.certificate("exact", left_out))

    def _contributing(self, block: Block) -> Block:
        """Rows that contribute to ``a'(K - Khat) a``; with hinge losses they may be few."""
        return block.take(np.flatnonzero(self._dual(block).any(axis=1)))

    def _bounds(self, some: Block) -> Array:
        """Bounds on what rows contribute to ``a'(K - Khat) a``, up to a common factor."""
        left, whole = self._features.left(some.X), on_cpu(diagonal_of(self.kernel_, some.X))
        lengths = np.linalg.norm(self._dual(some), axis=1)
        return np.asarray(lengths * np.sqrt(np.maximum(left, _ROUNDING * whole)))

    def _left_out(self, rows: RowSource, some: Block) -> Array:
        """``a_i ((K - Khat) a)_i`` at some of the rows, in one pass over all rows."""
        features, size = self._features, len(self._whitening)
        job = partial(_products, self, [features.near(some.X), some.X])
        found: Array = rows.total(job, "certificate", Checkpoint(), "product")
        inside = self._whitening.T @ (self._whitening @ found[:size])
        captured = products(self.kernel_, some.X, features.near(some.X), inside)
        return self._dual(some) * (found[size:] - captured)

    def _values(self, X: Any) -> Array:
        """Function values at points that were checked, a column for each output."""
        coefficients = self.dual_coef_.reshape(len(self._whitening), -1)
        return products(self.kernel_, X, self._features.near(X), coefficients)

    def _points(self, X: Any) -> Any:
        """Points to predict at, checked."""
        refuse_complex(X, "X")
        return self._column_check(reset=False).points(X)

    def _apply(self, method: str, X: Any, *outputs: tuple[Any, ...]) -> Any:
        """A method at the points of X, by the source of such points."""
        return source_for(X).apply(self._column_check(reset=False), method, X, outputs)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "certificate_")


def _products(machine: LandmarkMachine, parts: list[Any], block: Block) -> Array:
    """Contribution of a block to products of kernel matrices with the dual coefficients, stacked."""
    coefficients = machine._dual(block)
    return np.concatenate([products(machine.kernel_, p, block.X, coefficients) for p in parts])


def _draw(machine: LandmarkMachine, n_rows: int, seed: int, block: Block) -> Draws:
    """Draws from a block, with chances in proportion to bounds on what rows contribute."""
    return Draws.of(block, machine._bounds(block), n_rows, seed)


def _learns(kernel: Kernel, X: Any, y: Any) -> bool:
    """Whether a kernel has to learn something from points before it can be evaluated."""
    try:
        return kernel.learnt_from(X, y) is not kernel
    except ValueError:
        return True
