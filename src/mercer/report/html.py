"""A comparison as one self-contained HTML page."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from jinja2 import Environment, PackageLoader, StrictUndefined

from mercer._files import atomic_write
from mercer.report.page import page
from mercer.report.source import Source
from mercer.selection.kinds import empty_documents

if TYPE_CHECKING:
    from mercer.selection import Comparison


def write_report(
    comparison: Comparison,
    title: str,
    path: str | Path,
    *,
    source: Source | None = None,
    bounds: bool = False,
) -> None:
    """Write a comparison as a self-contained HTML page, without other files or network access.

    The page says what to use and how certain that is, and has the leaderboard with intervals and
    tests, the response of the score to the kernel's parameter and C, maps and Gram matrices of some
    points, predictions on the outer folds, and code that repeats everything.  Figures show at most 600
    points to keep the page small.  The points are drawn with the comparison's seed, so the page is
    reproducible.

    Parameters
    ----------
    comparison : Comparison
        From :func:`mercer.selection.compare`.
    title : str
        Name of the data.
    path : str or Path
        Where to write; an old file is replaced when the new one is complete.
    source : Source, optional
        Command and files, to be shown on the page.
    bounds : bool
        Whether to compute VC bounds of the final machines too.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from sklearn.datasets import load_iris
    >>> from mercer.kernels import Gaussian, Linear
    >>> from mercer.report import write_report
    >>> from mercer.selection import compare
    >>> X, y = load_iris(return_X_y=True)
    >>> kernels = {"linear": [Linear()], "Gaussian": [Gaussian(1.0), Gaussian(3.0)]}
    >>> result = compare(X, y, kernels=kernels, folds=3)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "iris.html")
    ...     write_report(result, "iris", path)
    ...     path.stat().st_size < 3_000_000
    True
    """
    with empty_documents():
        content = render(comparison, title, source, bounds)
    with atomic_write(path, "w") as file:
        file.write(content)


def render(
    comparison: Comparison, title: str, source: Source | None = None, bounds: bool = False
) -> str:
    """The page as text."""
    environment = Environment(
        loader=PackageLoader("mercer.report", "template"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    # A number that JSON does not know would stop the whole script.
    environment.policies["json.dumps_kwargs"] = {"allow_nan": False, "separators": (",", ":")}
    return environment.get_template("page.html").render(
        page(comparison, title, source or Source(), bounds)
    )
