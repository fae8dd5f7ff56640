"""Laws on rows of labels, as tables over the number of columns that agree, and contrasts of labels."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache, reduce
from itertools import chain, combinations, product
from typing import TYPE_CHECKING, Any

import numpy as np

from mercer._arrays import Array
from mercer.contributions import Contributions, of_columns
from mercer.laws import Law, Times
from mercer.profiles import Profile, WholeProfile
from mercer.spaces.realisations.base import Operands, Radial, Slope, absolute_factor
from mercer.spaces.realisations.eigenfunctions import LogWeights, law_weights
from mercer.spaces.realisations.eigenmaps import EigenMap, HomogeneousFunctions
from mercer.spaces.realisations.mixtures import TimeMixture

if TYPE_CHECKING:
    from mercer.spaces.categories import Categories

#: Numbers of labels q, and how many columns have each.
Groups = tuple[tuple[int, int], ...]

#: Values of a kernel that are tabulated, at most.
_MOST_VALUES = 2**18
#: Columns up to which the spectrum is summed.
_MOST_COLUMNS = 256


class CategoryTable(Radial):
    """A law on the Hamming graph, as the values at all numbers of columns that agree."""

    def __init__(self, space: Categories, law: Law, n: int, normalized: bool) -> None:
        self.embedding = space
        self._space, self._law, self._n, self._normalized = space, law, n, normalized
        self._groups = space.groups(n)
        count = math.prod(p + 1 for _, p in self._groups)
        if count > _MOST_VALUES:
            raise ValueError(
                f"{space!r} has {len(self._groups)} different numbers of levels, too many for a table "
                f"of {count} values; give a product of spaces, ProductSpace(Categories(2), ...)"
            )

    @cached_property
    def _table(self) -> _Diffusions | _Levels:
        try:
            times = self._law.times(0)
        except TypeError:  # the law mixes no diffusions
            return _Levels(self._space, self._law, self._n)
        return _Diffusions(self._groups, times)

    @property
    def log_self_similarity(self) -> float:
        return self._table.log_total

    def profile(self) -> WholeProfile:
        return self._scaled(self._table.values)

    def slope_profile(self, slope: Slope) -> Profile:
        return self._scaled(self._table.slopes(slope, self._normalized))

    def _scaled(self, values: Array) -> WholeProfile:
        log_value = None if self._normalized else self.log_self_similarity
        return WholeProfile(absolute_factor(log_value, self._n) * values)

    def contributions(self, P: Any, Q: Any, weights: Array) -> tuple[Contributions, ...]:
        """See :class:`Realisation`; what is lost if an agreeing label differed.

        This is exact for a single column.
        """
        values = self.profile().values
        places = np.rint(Operands(self._space, P, Q).invariants()).astype(np.intp)
        steps = np.array(self._space.steps(self._n))
        found = np.empty((len(P), self._n))
        for step in np.unique(steps):
            own = np.flatnonzero(steps == step)
            # Pairs that have no such label in common do not count below.
            losses = weights * (values[places] - values[np.maximum(places - step, 0)])
            found[:, own] = self._space.column_sums(P[:, own], Q[:, own], losses)
        return of_columns(found, exact=self._n == 1)

    def features(self, size: int, seed: int) -> EigenMap:
        """See :class:`Realisation`; products of contrasts."""
        basis = self._space.eigenfunctions(self._n, size, law_weights(self._law, 0))
        return EigenMap.of(basis, self._law, 0, self.log_self_similarity, self._normalized)

    def log_profile(self) -> Profile:
        logs = self._table.logs()
        if logs is None:
            return super().log_profile()
        return WholeProfile(logs + (0.0 if self._normalized else self.log_self_similarity))


class _Diffusions:
    """Heat kernels ``prod_j c_j r_j^(differs in column j)``, mixed over times."""

    def __init__(self, groups: Groups, times: Times) -> None:
        self._q, self._columns = np.array(groups, dtype=float).T
        self._single = len(times.times) == 1
        self._mixture = TimeMixture(times, 0, self._log_value, slack=np.log(self._q) @ self._columns)
        self.log_total = self._mixture.log_total
        # Columns of each group that differ, in the order of the invariant.
        places = np.arange(math.prod(p + 1 for _, p in groups))
        self._differ = np.empty((len(groups), len(places)))
        for g, (_, p) in enumerate(groups):
            places, agree = np.divmod(places, p + 1)
            self._differ[g] = p - agree

    def _log_value(self, t: float) -> float:
        """Logarithm of the value at equal points."""
        q = self._q
        return float((np.log1p((q - 1) * np.exp(-q * t)) - np.log(q)) @ self._columns)

    def _log_ratios(self, t: float) -> Array:
        """Logarithms of the normalised heat kernel."""
        x = self._q * t
        e = np.exp(-x)
        # log(1 - e^-x), with all digits at both ends.
        with np.errstate(divide="ignore"):  # of the end that is not taken
            falls = np.where(x > 0.7, np.log1p(-e), np.log(-np.expm1(-x)))
        return np.asarray((falls - np.log1p((self._q - 1) * e)) @ self._differ)

    def _mixed(self, weights: Array) -> Array:
        found = np.zeros(self._differ.shape[1])
        for weight, t in zip(weights, self._mixture.times, strict=True):
            found += weight * np.exp(self._log_ratios(t))
        return found

    @cached_property
    def values(self) -> Array:
        """The normalised kernel."""
        found = self._mixed(self._mixture.shares)
        found[-1] = 1.0
        return found

    def slopes(self, slope: Slope, normalized: bool) -> Array:
        """Derivatives of the kernel, divided by its value at equal points."""
        if self._single:
            found = self.values * self._rises(float(self._mixture.times[0]), normalized)
        else:
            found = self._mixed(self._mixture.share_slopes(normalized))
        if normalized:
            found[-1] = 0.0
        return slope.chain * found

    def _rises(self, t: float, normalized: bool) -> Array:
        """Derivatives of the logarithm of one diffusion with respect to that of its time."""
        q, x = self._q, self._q * t
        e = np.exp(-x)
        whole = 1 + (q - 1) * e
        common = 0.0 if normalized else -(x * (q - 1) * e / whole) @ self._columns
        return np.asarray((x * e * q / (-np.expm1(-x) * whole)) @ self._differ + common)

    def logs(self) -> Array | None:
        """Logarithms of the normalised kernel, if there is one time."""
        return self._log_ratios(float(self._mixture.times[0])) if self._single else None


class _Levels:
    """Weights of a law on the levels of the Hamming graph, ``q^-p sum_j a(q j) K_j(m)``."""

    def __init__(self, space: Categories, law: Law, n: int) -> None:
        groups = space.groups(n)
        if space.sizes is None or len(groups) > 1:
            raise TypeError(
                f"{law.name} on categories needs one number of labels for all columns, such as "
                f"Categories(levels=3), got {space!r}; Heat and Matern do without"
            )
        ((q, p),) = groups
        if p > _MOST_COLUMNS:
            raise ValueError(f"{law.name} is for at most {_MOST_COLUMNS} columns of labels, got {p}")
        self._eigenvalues = q * np.arange(p + 1.0)
        self._functions, log_sizes = _krawtchouk(q, p)
        logs = np.asarray(law.log_weights(self._eigenvalues, 0), dtype=float) + log_sizes
        largest = logs.max()
        if not largest > -np.inf:
            raise ValueError("all weights are zero: the kernel is zero")
        weights = np.exp(logs - largest)
        self._shares = weights / weights.sum()
        self.log_total = float(largest + np.log(weights.sum()) - p * math.log(q))
        self.values = self._shares @ self._functions

    def slopes(self, slope: Slope, normalized: bool) -> Array:
        """Derivatives of the kernel, divided by its value at equal points."""
        scores = np.asarray(slope.scores(self._eigenvalues), dtype=float)
        if normalized:
            scores = scores - self._shares @ scores
        return (self._shares * scores) @ self._functions

    def logs(self) -> None:
        """Not known."""


@lru_cache(maxsize=32)
def _krawtchouk(q: int, p: int) -> tuple[Array, Array]:
    """Krawtchouk polynomials ``K_j(m) / K_j(0)`` at p - m = 0 .. p, and ``log K_j(0)``.

    By their recurrence in whole numbers, since it is not stable in floating point.
    """
    rows = [[math.comb(p, j) * (q - 1) ** j for j in range(p + 1)]]
    for _ in range(p):
        before, row = rows[-1], [1]
        for j in range(1, p + 1):
            row.append(before[j] - before[j - 1] - (q - 1) * row[j - 1])
        rows.append(row)
    ratios = [[value / size for value, size in zip(row, rows[0], strict=True)] for row in rows]
    return np.array(ratios[::-1]).T, np.array([math.log(size) for size in rows[0]])


@dataclass(frozen=True, eq=False)
class LabelFunctions(HomogeneousFunctions):
    """Products of contrasts of labels, over sets of columns; orthonormal over all rows of labels."""

    #: Codes of labels are places in these lists of numbers, one for each column.
    codes: tuple[Array, ...]
    columns: tuple[tuple[int, ...], ...]

    @classmethod
    def of(
        cls, space: Any, codes: tuple[Array, ...], count: int, log_weights: LogWeights
    ) -> LabelFunctions:
        """The heaviest sets of columns, all functions of each."""
        q = [len(labels) for labels in codes]
        groups = [[j for j, size in enumerate(q) if size == each] for each in sorted(set(q))]
        each = [q[group[0]] for group in groups]
        taken = np.array(list(product(*(range(len(group) + 1) for group in groups))))
        values = (taken @ np.array(each)).astype(float)
        sizes = [math.prod((k - 1) ** int(c) for k, c in zip(each, row, strict=True)) for row in taken]
        masses = [
            size * math.prod(math.comb(len(g), int(c)) for g, c in zip(groups, row, strict=True))
            for size, row in zip(sizes, taken, strict=True)
        ]
        kept: list[tuple[int, ...]] = []
        eigenvalues: list[float] = []
        numbers: list[int] = []
        for place in np.argsort(-log_weights(values), kind="stable"):
            sets = product(*(combinations(g, int(c)) for g, c in zip(groups, taken[place], strict=True)))
            for chosen in sets:
                if len(eigenvalues) + sizes[place] > count:
                    break
                numbers += [len(kept)] * sizes[place]
                kept.append(tuple(sorted(chain.from_iterable(chosen))))
                eigenvalues += [values[place]] * sizes[place]
                masses[place] -= sizes[place]
        volume = math.prod(q)
        left = np.array([mass / volume for mass in masses])
        some = left > 0
        found = np.array(eigenvalues)
        return cls(
            space, found, values[some], left[some], 1 / volume, np.array(numbers), codes, tuple(kept)
        )  # fmt: skip

    @cached_property
    def _contrasts(self) -> list[Array]:
        """For each column, a function of mean square one for each label but the first."""
        return [_helmert(len(labels)) for labels in self.codes]

    def values(self, checked: Any) -> Array:
        places = [np.searchsorted(labels, checked[:, j]) for j, labels in enumerate(self.codes)]
        each = [table[place] for table, place in zip(self._contrasts, places, strict=True)]
        ones = np.ones((len(checked), 1))
        parts = [reduce(_outer, [each[j] for j in columns], ones) for columns in self.columns]
        return np.concatenate(parts, axis=1) * math.sqrt(self.mass)

    @property
    def fingerprint(self) -> str:
        return f"{self.space!r} {self.columns}"


def _helmert(q: int) -> Array:
    """Orthogonal contrasts of q labels, of mean square one, in columns."""
    table = np.zeros((q, q - 1))
    for k in range(1, q):
        table[:k, k - 1] = 1.0
        table[k, k - 1] = -k
        table[:, k - 1] *= math.sqrt(q / (k * (k + 1)))
    return table


def _outer(left: Array, right: Array) -> Array:
    """Products of all functions of two sets."""
    return (left[:, :, None] * right[:, None, :]).reshape(len(left), -1)
