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
        title=title, result=comparison, version=__version__, lowest=_axis_start(comparison)
    )
    Path(path).write_text(page, encoding="utf-8")


def _axis_start(comparison: Comparison) -> float:
    """Left end of the accuracy axis: the lowest interval, rounded down so that ticks are round."""
    lowest = min(s.interval[0] for s in comparison.scores)
    return 0.95 if lowest >= 0.95 else int(lowest * 4) / 4 if lowest < 0.75 else int(lowest * 20) / 20
