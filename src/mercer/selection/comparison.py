"""Results of a comparison of kernels, and their summary."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from mercer._repr import import_lines
from mercer.kernels import Kernel
from mercer.kernels.tables.summary import in_short, of_columns
from mercer.machines.landmarks.base import LandmarkMachine
from mercer.selection.advice import advice
from mercer.selection.kinds import Candidates
from mercer.selection.kinds.columns import numbering
from mercer.selection.nested import NestedScores
from mercer.selection.search import KernelSearchCV
from mercer.selection.significance import corrected_test, holm
from mercer.selection.target import Target, counted
from mercer.selection.yardstick import Yardstick

Array = NDArray[np.float64]
#: Scores that differ by less count as equal.
_LEVEL = 5e-4
#: Names of metrics for display, where they are not scikit-learn's own words.
_NAMES = {"roc_auc": "ROC AUC", "r2": "R²", "rmse": "RMSE", "mae": "mean absolute error"}
_SHARES = ("accuracy", "balanced_accuracy")
#: Columns of a kind that are named.
_NAMED = 8
#: Smaller p-values are shown as "< 0.001".
_SMALL = 0.001


def metric_name(metric: str) -> str:
    """Name of a metric for display."""
    return _NAMES.get(metric, metric.replace("_", " "))


def shown(metric: str, value: float) -> str:
    """A score as text."""
    return f"{value:.2%}" if metric in _SHARES else f"{value:.4g}"


@dataclass(frozen=True, eq=False)
class KernelScore:
    """Scores of one family of kernels.

    Attributes
    ----------
    name : str
        The family.
    nested : NestedScores
        Scores on outer folds that were not used to choose parameters.
    metrics : dict of arrays
        Other metrics on the outer folds.
    search : KernelSearchCV
        The search on all points: ``best_estimator_`` is the model to use, ``cv_results_`` has the scores
        of all parameters.
    seconds : float
        Total time.
    """

    name: str
    nested: NestedScores
    metrics: dict[str, Array]
    search: KernelSearchCV
    seconds: float

    @property
    def scores(self) -> Array:
        """Scores, one per outer fold."""
        return self.nested.scores

    @property
    def mean(self) -> float:
        """Mean over the outer folds."""
        return self.nested.mean

    @property
    def interval(self) -> tuple[float, float]:
        """95 % interval of the mean, cut off where the metric has no values."""
        return self.nested.interval()

    @property
    def kernel(self) -> Kernel:
        """The kernel chosen on all points."""
        return self.search.best_kernel_

    @property
    def params(self) -> dict[str, Any]:
        """Parameters chosen on all points: those in which the kernels differ, and the estimator's."""
        return self._params(self.search.best_params_)

    @property
    def choices(self) -> list[dict[str, Any]]:
        """Parameters chosen in each outer fold."""
        return [self._params(choice) for choice in self.nested.chosen]

    @property
    def choice(self) -> str:
        """Parameters chosen on all points, as text."""
        return ", ".join(f"{name}={_short(value)}" for name, value in self.params.items())

    @property
    def stability(self) -> float:
        """Fraction of the outer folds in which the parameters chosen on all points were chosen."""
        own = self.search.settings_[self.search.best_index_]
        return float(np.mean([setting == own for setting in self.nested.settings]))

    def _params(self, choice: dict[str, Any]) -> dict[str, Any]:
        rest = {k.rsplit("__")[-1]: v for k, v in choice.items() if k != "kernel"}
        if of_columns(choice["kernel"]):
            return {"kernel": in_short(choice["kernel"])} | rest
        values = choice["kernel"].get_params()
        return {name.replace("__", "."): values[name] for name in self._varied} | rest

    @cached_property
    def _varied(self) -> list[str]:
        """Parameters in which the kernels of the family differ."""
        params = [kernel.get_params() for kernel in self.search.kernels_]
        names = [name for name in params[0] if isinstance(params[0][name], int | float | tuple)]
        return [name for name in names if any(p[name] != params[0][name] for p in params)]


@dataclass(frozen=True, eq=False)
class Comparison:
    """The result of :func:`compare`, best kernel first."""

    data: Candidates
    target: Target
    #: Name of the metric that decides.
    metric: str
    folds: int
    repeats: int
    inner_folds: int
    random_state: int
    scores: list[KernelScore]
    #: Families that were not reached because the comparison was interrupted.
    unfinished: tuple[str, ...] = ()
    #: Columns of the data frame that was compared; empty for other points.
    columns: tuple[str, ...] = ()
    #: A model outside kernels on the same folds, for tables of several kinds.
    yardstick: Yardstick | None = None

    @property
    def advice(self) -> str:
        """Which kernel to use, how good it is, and how certain its lead is."""
        return advice(self)

    @property
    def rows(self) -> int:
        """Number of points."""
        return self.data.rows

    @property
    def classes(self) -> dict[str, int]:
        """Points of each class; empty if the target is a number."""
        return self.target.classes

    @property
    def groups(self) -> int | None:
        """Number of groups that folds keep together; None if there are none."""
        return None if self.target.groups is None else len(np.unique(self.target.groups))

    @property
    def chance(self) -> float | None:
        """Score of always predicting the most frequent class, or the mean; None if it is not known."""
        if self.metric == "accuracy":
            return max(self.classes.values()) / self.rows
        if self.metric == "balanced_accuracy":
            return 1 / len(self.classes)
        return {"r2": 0.0, "roc_auc": 0.5}.get(self.metric)

    @property
    def naive(self) -> str:
        """The prediction without a kernel, which scores :attr:`chance`."""
        return "mean" if self.target.task == "regression" else "majority class"

    @property
    def baseline(self) -> str | None:
        """Description of :attr:`chance`; None if that is not known."""
        return None if self.chance is None else f"{self.metric_title} of the {self.naive}"

    @property
    def kind(self) -> str:
        """What the points were taken as."""
        return self.data.taken_as

    @property
    def best_plain(self) -> KernelScore | None:
        """The best kernel that does not use the structure of the points."""
        return next((s for s in self.scores if s.name in self.data.plain), None)

    @property
    def best_rich(self) -> KernelScore | None:
        """The best kernel that uses it."""
        return next((s for s in self.scores if s.name not in self.data.plain), None)

    @cached_property
    def p_values(self) -> dict[str, float]:
        """P-value of each kernel that uses the structure against the best that does not.

        By a paired test on the folds with Nadeau and Bengio's correction, not adjusted for multiple
        tests; see :attr:`adjusted_p_values`.  NaN where the folds cannot tell.
        """
        plain = self.best_plain
        if plain is None:
            return {}
        return {
            s.name: corrected_test(s.scores - plain.scores, s.nested.overlap)
            for s in self.scores
            if s.name not in self.data.plain
        }

    @property
    def adjusted_p_values(self) -> dict[str, float]:
        """P-values adjusted for multiple tests by Holm's method."""
        names = list(self.p_values)
        return dict(zip(names, holm(np.array([*self.p_values.values()])).tolist(), strict=True))

    def p_text(self, name: str) -> str | None:
        """A kernel's adjusted p-value as text; None for plain kernels."""
        p = _known(self.adjusted_p_values.get(name))
        return None if p is None else _relation(p).removeprefix("= ")

    @property
    def error_reductions(self) -> dict[str, float]:
        """Share of the best plain kernel's error that each other kernel saves; negative if it adds."""
        plain = self.best_plain
        perfect = 0.0 if self.metric.startswith("neg_") else 1.0
        if plain is None or plain.mean == perfect:
            return {}
        return {
            s.name: (s.mean - plain.mean) / (perfect - plain.mean)
            for s in self.scores
            if s.name not in self.data.plain
        }

    def error_change(self, name: str) -> str | None:
        """A kernel's error compared with the best plain kernel's: "12% less", "8% more"."""
        saved = self.error_reductions.get(name)
        if saved is None:
            return None
        size = f"{abs(saved):.0%}"
        return "the same" if size == "0%" else f"{size} {'less' if saved > 0 else 'more'}"

    @property
    def verdict(self) -> str:
        """One sentence on whether a kernel that uses the structure does better than a plain one."""
        plain, rich = self.best_plain, self.best_rich
        if plain is None or rich is None:
            best = self.scores[0]
            return f"The {best.name} kernel is the best of these: {self.text(best.mean)}."
        gain = rich.mean - plain.mean
        pair = (
            f"the best {self.data.plain_word} kernel ({plain.name}) reaches {self.text(plain.mean)}, "
            f"the best {self.data.rich_word} kernel ({rich.name}) {self.text(rich.mean)}"
        )
        if self.chance is not None and self.scores[0].mean <= self.chance:
            return f"No kernel does better than the {self.naive} ({self.text(self.chance)}): {pair}."
        subject, where = self.data.subject or self.data.kind.subject, f"on {self.data.kind.these}"
        if abs(gain) < _LEVEL:
            return f"{subject} makes no difference {where}: {pair}."
        if gain < 0:
            return f"{subject} does not help {where}: {pair}."
        p = self.adjusted_p_values[rich.name]
        if math.isnan(p):
            doubt = f"{len(rich.scores)} folds cannot tell whether that is chance"
            return f"{subject} may help {where}, but {doubt}: {pair}."
        if p >= 0.05:
            doubt = f"the difference is within chance (p {_relation(p)})"
            return f"{subject} may help {where}, but {doubt}: {pair}."
        saved = self.error_reductions.get(rich.name)
        share = "" if saved is None else f", which saves {saved:.0%} of the error"
        return f"{subject} helps {where} (p {_relation(p)}): {pair}{share}."

    def __repr__(self) -> str:
        width = max(len(score.name) for score in self.scores)
        lines = [
            f"{score.name:<{width}}  {self.text(score.mean):>8}  {score.choice}" for score in self.scores
        ]
        return "\n".join([*lines, self.advice])

    @cached_property
    def _numbering(self) -> list[str]:
        """Columns of a table of numbers that seem to number its rows."""
        if not self.columns or not self.data.kind.vectors or sparse.issparse(self.data.X):
            return []
        return numbering(self.data.X, self.columns)

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes on what was left out, and why."""
        notes = list(self.data.notes)
        notes += [
            f"column {name!r} has a whole number of its own in every row and was compared like the "
            f"others; if it identifies rows, leave it out (--drop {name})"
            for name in self._numbering
        ]
        if self.target.missing:
            notes.append(
                f"{counted(self.target.missing, self.data.noun)} without a target left out; "
                "`mercer predict` or the model's predict() fills them in"
            )
        notes += [
            f"{score.name}: the best is {' and '.join(score.search.edges_)}; the optimum may "
            "lie beyond: try KernelSearchCV with a wider grid (similarities, param_grid)"
            for score in self.scores
            if score.search.edges_
        ]
        if self.unfinished:
            notes.append(f"interrupted before {', '.join(self.unfinished)}: run it again to resume")
        return tuple(notes)

    @property
    def best(self) -> str:
        """Python code of the best family's model, with the parameters chosen on all points."""
        best = self.scores[0]
        model = best.search.best_estimator_
        if isinstance(model, LandmarkMachine):
            return repr(model)
        if of_columns(best.kernel):  # with what it has learnt it is too long to write down
            kernel = in_short(best.kernel, most=99)
            return f"result.scores[0].search.best_estimator_  # {kernel}; {model[-1]!r}"
        return f"make_pipeline(GramTransformer({best.kernel!r}), {model[-1]!r})"

    @property
    def imports(self) -> str:
        """Python code that imports what :attr:`best` names, comments aside."""
        return import_lines(self.scores[0].search.best_estimator_, self.best.split("  # ")[0])

    @property
    def call(self) -> str:
        """Python code that repeats the comparison."""
        return self.call_on(self.data.kind.variable)

    def call_on(self, points: str, y: str = "y", groups: str = "groups", graph: str = "") -> str:
        """The same with the names that points, targets, groups and graph have."""
        given = {c.name: c.words or c.kind for c in self.data.taken if c.why == "given"}
        space = f"columns={given!r}, " if given else ""
        if self.data.space:
            space = f"space={graph if graph and self.data.kind.space_class else self.data.space}, "
        grouped = "" if self.groups is None else f"groups={groups}, "
        repeats = "" if self.repeats == 1 else f"repeats={self.repeats}, "
        metric = "" if self.metric == self.target.usual_metric else f"scoring={self.metric!r}, "
        return (
            f"compare({points}, {y}, {space}{metric}{grouped}folds={self.folds}, "
            f"{repeats}random_state={self.random_state})"
        )

    def text(self, value: float, metric: str | None = None) -> str:
        """A score as text."""
        return shown(metric or self.metric, value)

    @property
    def metric_title(self) -> str:
        """Name of the deciding metric for display."""
        return metric_name(self.metric)

    @property
    def columns_taken(self) -> list[str]:
        """Lines on what the columns of a table of several kinds were taken for."""
        own: dict[str, list[str]] = {}
        for column in self.data.taken:
            own.setdefault(column.kind, []).append(column.name)
        lines = [f"  {kind}: {_listed(names)}" for kind, names in own.items()]
        return ["columns taken as (--as COLUMN=KIND overrules):", *lines] if lines else []

    def with_facts(self, facts: str) -> Comparison:
        """A copy with further facts about the points."""
        return replace(self, data=replace(self.data, facts=f"{self.data.facts}, {facts}"))

    def to_dict(self) -> dict[str, Any]:
        """Numbers and strings, ready for JSON."""
        best = self.scores[0]
        return {
            "kind": self.kind,
            "task": self.target.task,
            "metric": self.metric,
            "rows": self.rows,
            "columns": self.data.columns,
            "facts": self.data.facts,
            "classes": self.classes,
            "chance": self.chance,
            "baseline": self.baseline,
            "advice": self.advice,
            "verdict": self.verdict,
            "taken": {column.name: column.kind for column in self.data.taken},
            "notes": list(self.notes),
            "best": {
                "family": best.name,
                "kernel": repr(best.kernel),
                "params": best.params,
                "model": self.best,
            },
            "folds": self.folds,
            "repeats": self.repeats,
            "groups": self.groups,
            "inner_folds": self.inner_folds,
            "random_state": self.random_state,
            "kernels": [self._row(score) for score in self.scores],
            "yardstick": None if self.yardstick is None else _summary(self.yardstick),
        }

    def _row(self, score: KernelScore) -> dict[str, Any]:
        return _summary(score) | {
            "metrics": {name: float(values.mean()) for name, values in score.metrics.items()},
            "p_value": _known(self.adjusted_p_values.get(score.name)),
            "p_value_unadjusted": _known(self.p_values.get(score.name)),
            "error_reduction": self.error_reductions.get(score.name),
            "error_change": self.error_change(score.name),
            "params": score.params,
            "fold_params": score.choices,
        }


def _summary(score: KernelScore | Yardstick) -> dict[str, Any]:
    return {
        "name": score.name,
        "score": score.mean,
        "interval_95": list(score.interval),
        "fold_scores": score.scores.tolist(),
        "seconds": score.seconds,
    }


def _known(p: float | None) -> float | None:
    """A p-value for JSON, which has no NaN."""
    return None if p is None or math.isnan(p) else p


def _relation(p: float) -> str:
    return f"< {_SMALL}" if p < _SMALL else f"= {p:.3f}"


def _listed(names: list[str]) -> str:
    """The first names, and how many there are."""
    shown = ", ".join(names[:_NAMED])
    return shown if len(names) <= _NAMED else f"{shown}, ... ({len(names)} in all)"


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
