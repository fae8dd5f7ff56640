"""The leaderboard, and where the marks of the score plot go."""

from __future__ import annotations

import math
from dataclasses import dataclass

from mercer.report.ticks import Axis, axis
from mercer.selection import Comparison
from mercer.selection.comparison import KernelScore, metric_name, p_text, shown


@dataclass(frozen=True)
class Row:
    """A family of kernels, in words."""

    name: str
    plain: bool
    score: str
    low: str
    high: str
    metrics: list[str]
    p_value: str
    error: str
    choice: str
    stability: str
    seconds: str


@dataclass(frozen=True)
class Mark:
    """A family's mean, interval and folds, in percent of the axis."""

    mean: float
    left: float
    width: float
    folds: list[float]


@dataclass(frozen=True)
class Scoreboard:
    """Rows and marks, best family first."""

    rows: list[Row]
    metrics: list[str]
    #: None for a family whose score is not a number.
    marks: list[Mark | None]
    ticks: list[tuple[float, str]]
    #: Place and text of the score without any kernel, if it is on the axis.
    chance: tuple[float, str] | None
    tested: bool
    compared: bool


def scoreboard(comparison: Comparison) -> Scoreboard:
    """All that the leaderboard and the score plot show."""
    scores = comparison.scores
    others = [name for name in scores[0].metrics if name != comparison.metric]
    ends = [value for s in scores for value in (*s.interval, *s.scores)]
    line = axis(ends, most=1.0)
    return Scoreboard(
        rows=[_row(comparison, s, others) for s in scores],
        metrics=[metric_name(name) for name in others],
        marks=[_mark(s, line) for s in scores],
        ticks=[(line.share(tick), tick_text(comparison.metric, tick)) for tick in line.ticks],
        chance=_chance(comparison, line),
        tested=bool(comparison.p_values),
        compared=bool(comparison.error_reductions),
    )


def tick_text(metric: str, value: float) -> str:
    """A score that is a round number, in as few digits as it has."""
    if shown(metric, 0.5).endswith("%"):
        return f"{100 * value:.6g}%"
    return f"{value:.6g}"


def _row(comparison: Comparison, score: KernelScore, others: list[str]) -> Row:
    low, high = score.interval
    return Row(
        name=score.name,
        plain=score.name in comparison.data.plain,
        score=comparison.text(score.mean),
        low=comparison.text(low),
        high=comparison.text(high),
        metrics=[shown(name, float(score.metrics[name].mean())) for name in others],
        p_value=p_text(comparison.adjusted_p_values.get(score.name)),
        error=comparison.error_change(score.name) or "",
        choice=score.choice or "none to choose",
        stability=f"{round(score.stability * len(score.choices))} of {len(score.choices)}",
        seconds=f"{score.seconds:.1f}",
    )


def _mark(score: KernelScore, line: Axis) -> Mark | None:
    if not math.isfinite(score.mean):
        return None
    low, high = (line.share(end) for end in score.interval)
    return Mark(line.share(score.mean), low, high - low, [line.share(s) for s in score.scores.tolist()])


def _chance(comparison: Comparison, line: Axis) -> tuple[float, str] | None:
    value = comparison.chance
    if value is None or not line.low <= value <= line.high:
        return None
    return line.share(value), comparison.text(value)
