"""The score plot beside the leaderboard: its axis, marks and columns."""

from __future__ import annotations

import math
from dataclasses import dataclass

from mercer.report.ticks import Axis, axis
from mercer.selection import Comparison
from mercer.selection.comparison import KernelScore, metric_name, shown
from mercer.selection.scales import Relative
from mercer.selection.yardstick import Yardstick

#: Numbers in units of a Gram matrix or of the target, as text.
_UNITS = {"C": "{:g} / variance", "alpha": "{:g} \u00d7 variance", "epsilon": "{:g} \u00d7 deviation"}


@dataclass(frozen=True)
class Mark:
    """A family's mean, interval and folds, in percent of the axis."""

    mean: float
    left: float
    width: float
    folds: list[float]


@dataclass(frozen=True)
class Scoreboard:
    """Marks of the score plot, best family first, and columns of the leaderboard."""

    #: Names of the metrics beside the one that decides, and how they are shown.
    metrics: dict[str, str]
    #: None for a family whose score is not a number.
    marks: list[Mark | None]
    #: The mark of the model outside kernels, if there is one.
    yardstick: Mark | None
    ticks: list[tuple[float, str]]
    #: Position and text of the score without any kernel, if it is on the axis.
    chance: tuple[float, str] | None
    #: What was chosen for each family, with C or the ridge in units of the Gram matrix.
    choices: list[str]


def scoreboard(comparison: Comparison) -> Scoreboard:
    """What the score plot and the leaderboard show besides the comparison itself."""
    scores = comparison.scores
    other = comparison.yardstick
    rows: list[KernelScore | Yardstick] = [*scores, *([] if other is None else [other])]
    line = axis([value for s in rows for value in (*s.interval, *s.scores)], most=1.0)
    return Scoreboard(
        metrics={name: metric_name(name) for name in scores[0].metrics if name != comparison.metric},
        marks=[_mark(s, line) for s in scores],
        yardstick=None if other is None else _mark(other, line),
        ticks=[(line.share(tick), tick_text(comparison.metric, tick)) for tick in line.ticks],
        chance=_chance(comparison, line),
        choices=[_choice(s) for s in scores],
    )


def tick_text(metric: str, value: float) -> str:
    """A round score, in as few digits as it has."""
    return f"{100 * value:.6g}%" if shown(metric, 0.5).endswith("%") else f"{value:.6g}"


def _choice(score: KernelScore) -> str:
    own = score.search.settings_[score.search.best_index_].params
    params = score.params | {
        name.rsplit("__")[-1]: _UNITS[value.kind].format(value.value)
        for name, value in own.items()
        if isinstance(value, Relative)
    }
    shown = (f"{v:.4g}" if isinstance(v, float) else str(v) for v in params.values())
    return ", ".join(f"{name}={text}" for name, text in zip(params, shown, strict=True))


def _mark(score: KernelScore | Yardstick, line: Axis) -> Mark | None:
    if not math.isfinite(score.mean):
        return None
    low, high = (line.share(end) for end in score.interval)
    return Mark(line.share(score.mean), low, high - low, [line.share(s) for s in score.scores.tolist()])


def _chance(comparison: Comparison, line: Axis) -> tuple[float, str] | None:
    value = comparison.chance
    if value is None or not line.low <= value <= line.high:
        return None
    return line.share(value), comparison.text(value)
