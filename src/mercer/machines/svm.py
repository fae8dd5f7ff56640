"""Base of support vector machines: programs solved in threads, with certificates."""

from __future__ import annotations

import math
import warnings
from abc import abstractmethod
from collections.abc import Callable, Iterator
from itertools import groupby, pairwise
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from mercer._arrays import is_on_device, on_cpu, taken
from mercer._progress import Work, watched
from mercer._threads import run, threads_in_use
from mercer._validation import is_whole
from mercer.exceptions import IndefiniteKernelWarning
from mercer.machines.blocks import solve_with
from mercer.machines.certificate import NO_CERTIFICATE, rounded_up
from mercer.machines.compression import check_compress, compressed
from mercer.machines.points import MOST_WEIGHT, Points, check_points, products
from mercer.machines.program import Array, Index, Program, Solution, restarted
from mercer.machines.rows import ComputedBlocks, MatrixRows
from mercer.machines.solver import Batch, in_batches, solve_paths

#: Smallest number of bytes for gathered rows, whatever the limit.
_LEAST_ROOM = 2.0**26
#: Share of the memory for a block and its rows; the rest is for intermediate results.
_KEPT = 0.7
#: Largest number of columns of the factor that preconditions Newton steps, and its share of the memory.
_RANK, _FACTOR = 500, 0.1
#: Bytes for a block of points on a device, and how many columns of a product take as long as one
#: column of a block there.
_DEVICE_ROOM, _DEVICE_WORTH = 8.0 * 2048**2, 4.0
#: Parts into which programs are dealt, for each thread.
_PARTS = 4
#: Entries of the Gram matrices of programs that are tried in one thread first.
_QUICK = 2**22
#: Rows of a precomputed matrix that are predicted at a time.
_ROWS = 512
#: Steps of the progress bar for each program.
_PERCENT = 100


class SupportVectorMachine(BaseEstimator):
    """Base of the machines: solves programs over the training points and keeps the certificates."""

    kernel: Any
    scale: float | None
    tol: float
    max_iter: int
    max_memory: float
    #: Landmarks that replace the support vectors in predictions.
    compress: int | None = None
    #: Whether a fit starts from the solution of the last one.
    warm_start: bool = False

    def _check_options(self, **positive: float) -> None:
        check_compress(self.compress, self.kernel)
        for name, value in {**positive, "tol": self.tol, "max_memory": self.max_memory}.items():
            if not (isinstance(value, int | float | np.number) and 0 < value <= MOST_WEIGHT):
                unit = " of gigabytes" if name == "max_memory" else ""
                raise ValueError(
                    f"{name} must be a positive number{unit}, at most {MOST_WEIGHT:g}, got {value!r}"
                )
        if not is_whole(self.max_iter) or self.max_iter < -1:
            raise ValueError(
                f"max_iter must be a whole number, or -1 for no limit, got {self.max_iter!r}"
            )

    def _solve(
        self,
        points: Points,
        programs: list[Program],
        indices: list[Index | None],
        start: Array | None = None,
    ) -> list[Solution]:
        """Solve programs, each over some of the points, and set the attributes that certify them.

        An index of None stands for all points.  Ctrl-C stops the solver with the present solution.
        Starting coefficients must lie in their boxes; by default they are zero.
        """
        self.kernel_ = points.kernel
        starts: list[Array | None] = self._starts(programs) if start is None else [start]
        solutions, interrupted = self._solve_all(points, programs, indices, starts)
        self._certify(points, solutions)
        self._warn_of_gaps(solutions, interrupted)
        if math.isnan(self.dual_gap_):
            warnings.warn(
                f"the Gram matrix of {points.kernel!r} has negative eigenvalues: the solution is a "
                "stationary point, as with libsvm, and no duality gap can certify it",
                IndefiniteKernelWarning,
                stacklevel=3,
            )
        if self.warm_start:
            self._solutions = solutions
        return solutions

    def _solve_all(
        self,
        points: Points,
        programs: list[Program],
        indices: list[Index | None],
        starts: list[Array | None],
    ) -> tuple[list[Solution], bool]:
        """Solutions of the programs, and whether Ctrl-C stopped the solver.

        Small programs are tried in batches first; the rest, and what these leave, one by one.
        """
        K = self._gram(points)
        sources = self._sources(points, indices, K)
        solutions: list[Any] = [None] * len(programs)
        work = Work(total=_PERCENT * len(programs))
        most = None if self.max_iter < 0 else self.max_iter

        def job(k: int) -> None:
            share = _Share(work, self.tol)
            before = solutions[k]
            solutions[k] = solve_with(
                programs[k], sources[k](), math.inf if work.stop.is_set() else self.tol, max_steps=most,
                start=starts[k] if before is None else before.b, watch=share.report,
            )  # fmt: skip
            solutions[k].steps += 0 if before is None else before.steps
            share.finish()

        def left() -> list[tuple[int]]:
            found = enumerate(solutions)
            return [(k,) for k, s in found if s is None or not s.is_settled(self.tol)]

        def attempt(batch: Batch, group: list[int], first: int, last: int) -> None:
            if not work.stop.is_set():
                for k, (own,) in zip(group[first:last], batch.solve(first, last), strict=True):
                    solutions[k] = own
                    work.advance(_PERCENT * own.is_settled(self.tol))

        def all_of_it() -> None:
            run(attempt, parts)
            run(job, left())

        together = K is not None and most is None and not any(s is not None for s in starts)
        parts = self._parts(programs, indices, K) if together else []
        if _are_quick(programs):
            while parts:
                attempt(*parts.pop())
        try:
            if parts or left():
                watched(all_of_it, work, type(self).__name__)
        except KeyboardInterrupt:
            if any(solution is None for solution in solutions):
                raise
            return solutions, True
        return solutions, False

    def _starts(self, programs: list[Program]) -> list[Array | None]:
        """Starting coefficients: those of the last fit, if it had programs of the same sizes."""
        last = getattr(self, "_solutions", []) if self.warm_start else []
        if [len(s.b) for s in last] != [len(program.p) for program in programs]:
            return [None] * len(programs)
        return [restarted(program, s) for program, s in zip(programs, last, strict=True)]

    def _parts(
        self, programs: list[Program], indices: list[Any], K: Any
    ) -> list[tuple[Batch, list[int], int, int]]:
        """Batches, the indices of their programs, and which of these to try in each call."""
        number = len(programs)
        if number == 1:
            return []
        batches = in_batches([[one] for one in programs], K, indices, self.tol, self._room(K, number))
        parts = 1 if _are_quick(programs) else _PARTS * threads_in_use()
        return [
            (batch, group, first, last)
            for batch, group in batches
            for first, last in pairwise(len(group) * k // parts for k in range(parts + 1))
            if first < last
        ]

    def _sources(self, points: Points, indices: list[Index | None], K: Any) -> list[Any]:
        """For each program a function that returns its rows of the Gram matrix, K if it fits."""
        if K is None:
            limit = 1e9 * self.max_memory
            return [lambda index=index: _limited(points, index, limit) for index in indices]
        room = self._room(K, len(indices))
        return [lambda index=index: MatrixRows(K, index, room) for index in indices]

    def _room(self, K: Any, programs: int) -> float:
        """Bytes for gathered rows of each of the programs that are solved at the same time."""
        return max(_LEAST_ROOM, 1e9 * self.max_memory - K.nbytes) / min(programs, threads_in_use())

    def _gram(self, points: Points) -> Any:
        """Gram matrix of all points, or None if there is not enough memory for it."""
        fits = points.precomputed or 8.0 * len(points) ** 2 <= 1e9 * self.max_memory
        return points.gram() if fits else None

    def _certify(self, points: Points, solutions: list[Solution]) -> None:
        gaps = np.array([s.relative_gap for s in solutions])
        self.n_iter_: Any = np.array([s.steps for s in solutions])
        self.objective_ = float(sum(s.objective for s in solutions))
        self.converged_ = bool((gaps <= self.tol).all())
        if points.indefinite:
            gaps = np.full_like(gaps, np.nan)
        self.dual_gaps_ = gaps
        self.dual_gap_ = float(gaps.max())

    @property
    def certificate_(self) -> str:
        """What the duality gap says about the objective."""
        if math.isnan(self.dual_gap_):
            return NO_CERTIFICATE
        return f"the objective is within {float(rounded_up(100 * self.dual_gap_)):g} % of the optimum"

    def _warn_of_gaps(self, solutions: list[Solution], interrupted: bool = False) -> None:
        """Warn about gaps above tol."""
        if self.converged_:
            return
        why = "was interrupted" if interrupted else f"stopped after {self.n_iter_.max()} steps"
        widest = max(solutions, key=lambda s: s.relative_gap)
        remedy = "; raise max_iter, lower C, or accept a larger tol"
        if widest.at_rounding:
            remedy = "; rounding hides smaller ones: lower C, or accept a larger tol"
        warnings.warn(
            f"{type(self).__name__} {why} with a relative duality gap of {widest.relative_gap:.2g}, "
            f"above tol={self.tol:g}{'' if interrupted else remedy}",
            ConvergenceWarning,
            stacklevel=4,
        )

    def _keep(self, points: Points, support: Index) -> None:
        """Keep the support vectors."""
        self.support_ = support.astype(np.int32)
        precomputed = points.precomputed
        self.support_vectors_ = np.empty((0, 0)) if precomputed else on_cpu(taken(points.X, support))

    @abstractmethod
    def _coefficients(self) -> Array:
        """Coefficients of the support vectors, in a column for each program if there are several."""

    def _shorten(self, points: Points, support: Index) -> None:
        """Replace the support vectors by landmarks, if that was asked for."""
        for name in ("landmarks_", "landmark_coef_", "compression_error_"):  # of an earlier fit
            self.__dict__.pop(name, None)
        if self.compress is not None and len(self.support_):
            self.landmarks_, self.landmark_coef_, self.compression_error_ = compressed(
                points.kernel, taken(points.X, support), self._coefficients(), self.compress
            )

    def _values(self, X: Any) -> Array:
        """Weighted sums of the kernel with the support vectors, or with their landmarks."""
        check_is_fitted(self)
        X, _ = check_points(self, X)
        coefficients = self._coefficients()
        if isinstance(self.kernel_, str):
            return np.concatenate([part @ coefficients for part in self._supporting(X)])
        if not len(self.support_):
            return np.zeros((len(X) if hasattr(X, "__len__") else X.shape[0], *coefficients.shape[1:]))
        if hasattr(self, "landmarks_"):
            return products(self.kernel_, X, self.landmarks_, self.landmark_coef_)
        return products(self.kernel_, X, self.support_vectors_, coefficients)

    def _supporting(self, K: Any) -> Iterator[Array]:
        """Columns of the support vectors in double precision, some rows of a Gram matrix at a time."""
        from mercer.compiled.columns import take_columns

        K, support = np.ascontiguousarray(K), self.support_.astype(np.intp)
        for start in range(0, len(K), _ROWS):
            part = K[start : start + _ROWS]
            out = np.empty((len(part), len(support)))
            take_columns(part, support, out)
            yield out

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = isinstance(self.kernel, str) and self.kernel == "precomputed"
        tags.input_tags.sparse = not tags.input_tags.pairwise
        return tags


def _limited(points: Points, index: Index | None, limit: float) -> MatrixRows | ComputedBlocks:
    """The Gram matrix of some points if it fits, else blocks of it."""
    some = points if index is None or len(index) == len(points) else points.take(index)
    if 12.0 * len(some) ** 2 <= limit:
        K = some.gram()
        return MatrixRows(K, room=limit - K.nbytes)
    room, rank = _KEPT * limit, max(1, int(min(_RANK, _FACTOR * limit / (8 * len(some)))))
    if is_on_device(some.X):
        return ComputedBlocks(some, min(room, _DEVICE_ROOM), rank, _DEVICE_WORTH)
    return ComputedBlocks(some, room)


def _are_quick(programs: list[Program]) -> bool:
    """Whether threads cost more than they save."""
    return sum(len(program.p) ** 2 for program in programs) <= _QUICK


def solved_in_turn(
    machines: list[Any],
    points: Points,
    programs: list[list[Program]],
    indices: list[Index],
    stop: Callable[[], bool],
) -> list[list[Solution]]:
    """Solve and certify programs of several machines on one Gram matrix, each from the previous one.

    Machines with the same tolerance take turns in the order of their C, program by program, so that
    they share gathered rows.
    """
    K = np.ascontiguousarray(points.X)
    goals = [(machine.tol, machine.max_iter) for machine in machines]
    order = sorted(range(len(machines)), key=lambda k: (*goals[k], machines[k].C))
    solutions: list[list[Any]] = [[] for _ in machines]
    for (tol, most), group in groupby(order, lambda k: goals[k]):
        chosen = list(group)
        paths = [[programs[k][number] for k in chosen] for number in range(len(indices))]
        found = solve_paths(
            paths, K, indices, tol, max_steps=None if most < 0 else most, watch=lambda _: stop()
        )
        for k, own in zip(chosen, zip(*found, strict=True), strict=True):
            solutions[k] = list(own)
    for machine, found in zip(machines, solutions, strict=True):
        machine._certify(points, found)
        if machine.max_iter >= 0:  # single precision of K may also be in the way
            machine._warn_of_gaps(found)
    return solutions


class _Share:
    """One program's share of the progress bar, from the logarithm of its gap."""

    def __init__(self, work: Work, tol: float) -> None:
        self._work, self._tol, self.done = work, tol, 0

    def report(self, gap: float) -> bool:
        """Record a gap; returns whether to stop."""
        self._work.note = f"(gap {gap:.1e})"
        if 0 < gap < 1:
            done = int(_PERCENT * min(math.log(gap) / math.log(min(self._tol, 0.5)), 1.0))
            self._advance(done)
        return self._work.stop.is_set()

    def finish(self) -> None:
        self._advance(_PERCENT)

    def _advance(self, done: int) -> None:
        self._work.advance(max(done - self.done, 0))
        self.done = max(done, self.done)
