"""A comparison as one self-contained HTML page."""

from __future__ import annotations

from pathlib import Path

from mercer import __version__
from mercer.selection import Comparison


def write_report(comparison: Comparison, title: str, path: str | Path) -> None:
    """Write the page: verdict, scores with intervals, chosen parameters, how to repeat it."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("mercer", "report"), autoescape=True, undefined=StrictUndefined
    )
    page = environment.get_template("comparison.html.jinja").render(
        title=title, result=comparison, verdict=verdict(comparison), version=__version__,
        lowest=_axis_start(comparison),
    )  # fmt: skip
    Path(path).write_text(page, encoding="utf-8")


def verdict(comparison: Comparison) -> str:
    """One sentence: which kernel is ahead, and whether by more than chance."""
    best = comparison.scores[0]
    flat = next(s for s in comparison.scores if s.name in ("linear", "Gaussian"))
    gain = best.mean - flat.mean
    if gain < 5e-4:
        return (
            f"The {flat.name} kernel is ahead or level with {flat.mean:.1%} accuracy: "
            "geometry does not help on this table."
        )
    clear = best.interval[0] > flat.mean
    return (
        f"The {best.name} kernel is ahead with {best.mean:.1%} accuracy, {100 * gain:.1f} points above "
        f"the best flat kernel ({flat.name}, {flat.mean:.1%}); that is "
        f"{'more than' if clear else 'within'} the spread between folds."
    )


def _axis_start(comparison: Comparison) -> float:
    """Left end of the accuracy axis: the lowest interval, rounded down to five points."""
    lowest = min(s.interval[0] for s in comparison.scores)
    return min(int(lowest * 20) / 20, 0.95)
