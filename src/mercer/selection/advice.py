"""Advice of a comparison: which kernel to use, how much better it is, and how certain that is."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from mercer.selection.significance import corrected_interval, corrected_test

if TYPE_CHECKING:
    from mercer.selection.comparison import Comparison, KernelScore

Array = NDArray[np.float64]
#: P-values below which a difference counts as certain, or as likely.
_SURE, _LIKELY = 0.01, 0.05


def advice(result: Comparison) -> str:
    """Which kernel to use, how much better it is than the next, and how certain that is."""
    best = result.scores[0]
    if result.chance is not None and best.interval[0] <= result.chance:
        return _not_better_than_chance(result, result.chance)
    low, high = map(result.text, best.interval)
    same = np.ptp(best.scores) == 0  # an interval of no width would pretend to be exact
    interval = "the same on every fold" if same else f"95\u00a0% interval {low} to {high}"
    parts = [
        f"Use {best.name}: {result.metric_title} {result.text(best.mean)} on {result.data.noun} that it "
        f"has not seen ({interval})."
    ]
    if not best.kernel.positive_semidefinite:
        parts.append("It is not a kernel in the strict sense: not positive semidefinite.")
    if len(result.scores) > 1:
        parts.append(_lead(result))
    if result.yardstick is not None:
        parts.append(_against_boosting(result))
    return " ".join(parts)


def _not_better_than_chance(result: Comparison, chance: float) -> str:
    best = result.scores[0]
    surer = next((score for score in result.scores[1:] if score.interval[0] > chance), None)
    reached = (
        f"the best, {best.name}, reaches {result.metric_title} {_with_interval(result, best)}, and the "
        f"{result.naive} {result.text(chance)}, which is within the interval"
    )
    if surer is None:
        return f"Use none of these yet: {reached}. More repeats would narrow it."
    return (
        f"Look again with more repeats: {reached}. {surer.name} is more certain, with "
        f"{_with_interval(result, surer)}."
    )


def _with_interval(result: Comparison, score: KernelScore) -> str:
    low, high = map(result.text, score.interval)
    return f"{result.text(score.mean)} ({low} to {high})"


def _lead(result: Comparison) -> str:
    best, other = result.scores[:2]
    lead, p = _difference(result, best.scores - other.scores)
    if best.mean == other.mean:
        return f"The next, {other.name}, is as good, and either will do."
    if math.isnan(p):
        return f"Its lead over the next, {other.name}, is {lead}; {_cannot_tell(result)}."
    if p < _LIKELY:
        return f"It is better than the next, {other.name}, by {lead}; that is {_how_sure(p)}."
    return f"Its lead over the next, {other.name}, is {lead}; {_how_sure(p)}, and either will do."


def _against_boosting(result: Comparison) -> str:
    yardstick, best = result.yardstick, result.scores[0]
    assert yardstick is not None
    gain = best.scores - yardstick.scores
    size, p = _difference(result, np.abs(gain.mean()) / (gain.mean() or 1.0) * gain)
    reached = f"Outside kernels, {yardstick.name} reaches {result.text(yardstick.mean)}"
    if math.isnan(p):
        return f"{reached}: a difference of {size}; {_cannot_tell(result)}."
    if p >= _LIKELY:
        return f"{reached}: a difference of {size}, which may be chance."
    return f"{reached}: {size} {'less' if gain.mean() > 0 else 'more'}, which is {_how_sure(p)}."


def _difference(result: Comparison, differences: Array) -> tuple[str, float]:
    """A mean difference as text, with half of its 95 % interval if there is one, and its p-value."""
    overlap = result.scores[0].nested.overlap
    low, high = corrected_interval(differences, overlap)
    mean, reach = float(differences.mean()), (high - low) / 2
    p = corrected_test(differences, overlap)
    shares, known = result.text(0.5).endswith("%"), not math.isnan(p)
    if shares:
        return f"{100 * mean:.1f}{f' ± {100 * reach:.1f}' if known else ''} points", p
    return f"{mean:.3g}{f' ± {reach:.2g}' if known else ''}", p


def _cannot_tell(result: Comparison) -> str:
    """Why there is no p-value, and what to do."""
    folds = len(result.scores[0].scores)
    which = f"{folds} folds" if folds < 3 else f"{folds} folds that all agree"
    return f"{which} are too few to tell whether that is chance: use more folds or repeats"


def _how_sure(p: float) -> str:
    shown = "p < 0.001" if p < 0.001 else f"p = {p:.2g}"
    word = "certain" if p < _SURE else "likely" if p < _LIKELY else "that may be chance"
    return f"{word} ({shown})"
