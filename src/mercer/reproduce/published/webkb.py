"""WebKB: four kinds of university pages from the counts of their words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray
from sklearn.metrics import accuracy_score, balanced_accuracy_score
from sklearn.svm import SVC

from mercer.kernels import Linear
from mercer.reproduce import standin
from mercer.reproduce.data import read_counts
from mercer.reproduce.drawing import published_beside
from mercer.reproduce.experiment import (
    Claim,
    Context,
    Experiment,
    Measured,
    Progress,
    Result,
    Table,
    within,
)
from mercer.reproduce.protocol import (
    KERNELS,
    RUNS,
    SOURCE,
    Scores,
    all_measured,
    contest,
    note,
    outer_folds,
    reduction,
    score,
)
from mercer.selection import KernelSearchCV, representatives
from mercer.spaces import Simplex

COUNTS, NO_HEADER = "webkb/webkb4_paper_counts.npz", "webkb/webkb4_paper_counts_no_header.npz"
#: Accuracy in %, Table 1: by the pages per class, in the order of KERNELS.
TABLE_1 = {
    100: (74.2, 75.1, 84.4, 85.4, 85.6),
    200: (80.9, 82.0, 89.2, 89.6, 89.9),
    300: (83.2, 84.1, 89.9, 90.5, 91.1),
    400: (86.7, 86.1, 91.3, 91.7, 92.3),
}
#: Table 2, 400 pages per class: by k, words being those with more than one occurrence in k pages.
TABLE_2 = {
    10: (86.73, 86.27, 91.57, 91.99, 92.44),
    20: (86.78, 86.95, 92.62, 92.91, 93.00),
    30: (85.56, 86.11, 92.62, 92.74, 92.91),
    40: (85.78, 86.75, 92.56, 92.81, 93.03),
}
#: Runs of k-means.
STARTS = 50
#: Values of C for the table of the linear kernel, not in units of the mean k(x, x).
C_VALUES = (0.0001, 0.001, 0.01, 0.1, 1.0, 10.0)


@dataclass(frozen=True)
class Pages:
    """Counts of words, and classes."""

    X: Any
    y: NDArray[Any]

    def frequent(self, k: int) -> Pages:
        """Words that occur more than once in k pages, and the pages that have one of them."""
        totals = np.asarray(self.X.sum(axis=0)).ravel()
        X = self.X[:, totals > self.X.shape[0] / k]
        filled = np.asarray(X.sum(axis=1)).ravel() > 0
        return Pages(X[filled], self.y[filled])


@dataclass(frozen=True)
class Setting:
    """One row of a table."""

    per_class: int
    k: int = 10
    header: bool = True

    @property
    def first(self) -> bool:
        """Whether it is of Table 1."""
        return self.header and self.k == 10


@dataclass
class Row:
    """Results of a setting."""

    words: int
    runs: list[dict[str, Scores]] = field(default_factory=list)
    #: Accuracy and balanced accuracy on the pages that were not chosen, per run and kernel.
    rest: list[dict[str, tuple[float, float]]] = field(default_factory=list)
    #: Mean accuracy of the linear kernel at each of C_VALUES, per run.
    linear: list[NDArray[np.float64]] = field(default_factory=list)

    def scores(
        self, published: tuple[float, ...] | None = None, kind: str = "protocol"
    ) -> list[Measured]:
        """Scores of all kernels."""
        return all_measured(self.runs, kind, published)


def load(context: Context, header: bool = True) -> Pages:
    """Pages of all four classes."""
    if context.invented:
        return Pages(*standin.pages(context.seed + (not header)))
    return Pages(*read_counts(context.file(COUNTS if header else NO_HEADER)))


def settings(context: Context) -> list[Setting]:
    """All rows of all tables."""
    if context.quick:
        size = 20 if context.invented else 100
        return [Setting(size, 10, header) for header in (True, False)]
    first = [Setting(size) for size in TABLE_1]
    second = [Setting(400, k) for k in TABLE_2 if k != 10]
    return first + second + [Setting(size, header=False) for size in TABLE_1]


def run(context: Context) -> Result:
    """Tables 1 and 2."""
    chosen = settings(context)
    repeats = 1 if context.quick else RUNS
    found: dict[Setting, Row] = {}
    for i, setting in enumerate(chosen):
        pages = load(context, setting.header).frequent(setting.k)
        found[setting] = Row(pages.X.shape[1])
        for r in range(repeats):
            progress = context.part(i * repeats + r, len(chosen) * repeats)
            one_run(found[setting], pages, setting, context, r, progress)
    return report(found)


def one_run(
    row: Row, pages: Pages, setting: Setting, context: Context, run: int, progress: Progress
) -> None:
    """Choose representatives, and score all kernels on them and on the other pages."""
    starts = 5 if context.quick else STARTS
    chosen = representatives(
        pages.X, pages.y, setting.per_class, starts, random_state=context.seed + run
    )
    X, y = pages.X[chosen].toarray(), pages.y[chosen]
    if setting.first:
        row.linear.append(linear_by_c(X, y, context, run, within(progress, 0.0, 0.05)))
    scores = score(X, y, Simplex(), context, run, within(progress, 0.05, 1.0))
    others = np.setdiff1d(np.arange(len(pages.y)), chosen)
    row.runs.append(scores)
    row.rest.append({name: _others(s, X, y, pages, others) for name, s in scores.items()})


def linear_by_c(
    X: Any, y: Any, context: Context, run: int, progress: Progress | None
) -> NDArray[np.float64]:
    """Mean accuracy of the linear kernel at each value of C, in %."""
    search = KernelSearchCV(
        Linear(), param_grid={"C": C_VALUES}, cv=outer_folds(context, run), refit=False,
        cache=context.cache, progress=progress,
    )  # fmt: skip
    return 100 * search.fit(X, y).cv_results_["mean_test_score"]


def _others(
    scores: Scores, X: Any, y: Any, pages: Pages, others: NDArray[np.intp]
) -> tuple[float, float]:
    machine = SVC(**scores.settings[scores.best]).fit(X, y)
    truth, guess = pages.y[others], machine.predict(pages.X[others].toarray())
    return 100 * accuracy_score(truth, guess), 100 * balanced_accuracy_score(truth, guess)


def report(found: dict[Setting, Row]) -> Result:
    """Tables, claims and the figure."""
    first = {s.per_class: row for s, row in found.items() if s.first}
    plain = {s.per_class: row for s, row in found.items() if not s.header}
    second = {s.k: row for s, row in found.items() if s.header and s.per_class == 400}
    one = {size: row.scores(TABLE_1.get(size)) for size, row in first.items()}
    two = {row.words: row.scores(TABLE_2[k]) for k, row in second.items()}
    tables = [
        _scores(f"Table 1: {next(iter(first.values())).words} words", "m_r", one, first),
        _scores("Table 2: 400 pages per class", "n", two, {r.words: r for r in second.values()}),
        _scores(
            f"Without the server's header, {next(iter(plain.values())).words} words", "m_r",
            {size: row.scores() for size, row in plain.items()}, plain,
        ),
        _on_others(found),
        _contests(found),
        _linear(first),
    ]  # fmt: skip
    panels = {"pages per class (Table 1)": one, "words (Table 2)": two}
    shown = {label: rows for label, rows in panels.items() if rows}
    figure = Figure(figsize=(9, 4 * len(shown)), layout="constrained")
    for ax, (label, rows) in zip(
        figure.subplots(len(shown), squeeze=False).flat, shown.items(), strict=True
    ):
        published_beside(ax, rows, KERNELS, label)
    return Result([t for t in tables if t.rows], claims(found), {"tables": figure})


def _scores(title: str, key: str, protocol: dict[int, list[Measured]], rows: dict[int, Row]) -> Table:
    lines: list[list[Any]] = []
    for value, row in rows.items():
        lines.append([value, "protocol", *protocol[value]])
        for kind in ("one setting", "nested"):
            lines.append([value, kind, *row.scores(kind=kind)])
    text = note(max((len(row.runs) for row in rows.values()), default=0))
    text += "  One setting: as protocol, with the same parameters in all runs."
    return Table(title, [key, "score", *KERNELS], lines, text)


def _on_others(found: dict[Setting, Row]) -> Table:
    """Machines trained on all representatives, scored on the pages that were not chosen."""
    lines: list[list[Any]] = []
    for setting, row in found.items():
        means = {name: np.mean([rest[name] for rest in row.rest], axis=0) for name in KERNELS}
        where = "with header" if setting.header else "without"
        cells = [f"{means[name][0]:.1f} / {means[name][1]:.1f}" for name in KERNELS]
        lines.append([setting.per_class, row.words, where, *cells])
    return Table(
        "Test on all other pages", ["m_r", "n", "pages", *KERNELS], lines,
        "Accuracy / balanced accuracy in %, mean of the runs.  The other pages need not be balanced, "
        "and they are not what k-means thinks typical.",
    )  # fmt: skip


def _contests(found: dict[Setting, Row]) -> Table:
    pairs = (("ext", "prx"), ("ext", "cos"), ("ext", "rbf"), ("cos", "rbf"))
    lines = [
        [
            setting.per_class, row.words, "with header" if setting.header else "without",
            *(str(contest(row.runs, *pair)) for pair in pairs),
        ]
        for setting, row in found.items()
    ]  # fmt: skip
    return Table(
        "Kernels against each other",
        ["m_r", "n", "pages", *(" - ".join(pair) for pair in pairs)],
        lines,
        "Differences of nested accuracies on the same folds, with corrected intervals and p-values.",
    )


def _linear(first: dict[int, Row]) -> Table:
    lines = [
        [
            size,
            *(Measured(float(mean)) for mean in np.mean(row.linear, axis=0)),
            TABLE_1[size][0] if size in TABLE_1 else "none",
        ]
        for size, row in first.items()
    ]
    return Table(
        "The linear kernel by C", ["m_r", *(f"C = {c:g}" for c in C_VALUES), "published"], lines,
        "Accuracy in % at a fixed C, mean over folds and runs of Table 1, and the published best.",
    )  # fmt: skip


def claims(found: dict[Setting, Row]) -> list[Claim]:
    """Claims of the paper about its tables."""
    first = {s.per_class: row for s, row in found.items() if s.first and s.per_class in TABLE_1}
    second = {s.k: row for s, row in found.items() if s.header and s.per_class == 400}
    if not first and not second:
        return []
    header = [row for setting, row in found.items() if setting.header]
    scores = {
        kind: [row.scores(TABLE_1[size], kind) for size, row in first.items()]
        + [row.scores(TABLE_2[k], kind) for k, row in second.items()]
        for kind in ("protocol", "one setting")
    }
    return [
        *near_and_apart("each run having its own best parameters (protocol)", scores["protocol"]),
        *near_and_apart(
            "one setting of parameters serving all runs (one setting)", scores["one setting"]
        ),
        *reductions(scores["protocol"][: len(first)], scores["protocol"][len(first) :]),
        _ahead("The cosine kernel is more accurate than the Gaussian", "cos", "rbf", header),
        _ahead("The exact kernel is more accurate than the parametrix", "ext", "prx", header),
    ]


#: What the captions of Tables 1 and 2 say: by how many per cent the first kernel reduces the error of
#: the second.
REDUCTIONS = (
    (("cos", "lin"), (34, 43), (36, 49)),
    (("ext", "rbf"), (41, 45), (45, 48)),
    (("ext", "prx"), (1, 7), (1, 6)),
)


def reductions(one: Sequence[Sequence[Measured]], two: Sequence[Sequence[Measured]]) -> list[Claim]:
    """Error reductions in the captions of both tables, and the statement that words matter little."""
    found = []
    for table, (rows, known) in enumerate(((one, TABLE_1), (two, TABLE_2))):
        if not rows:  # quick forms may leave a table out
            continue
        values = [[cell.value for cell in row] for row in rows]
        for kernels, *said in REDUCTIONS:
            where = f"In Table {table + 1}"
            found.append(reduction(where, *kernels, said[table], values, list(known.values())))
    if len(two) > 1:
        ranges = [np.ptp([row[i].value for row in two]) for i in range(len(KERNELS))]
        there = [np.ptp([row[i] for row in TABLE_2.values()]) for i in range(len(KERNELS))]
        found.append(
            Claim(
                "The number of words affects the scores of Table 2 little: those of one kernel are "
                f"within {max(ranges):.1f} points of each other (published: {max(there):.1f}).",
                max(ranges) < 2,
            )
        )
    return found


def near_and_apart(reading: str, rows: Sequence[Sequence[Measured]]) -> list[Claim]:
    """In one reading of the protocol: scores near the published ones, and a gap between two groups."""
    gaps = [round(abs(cell.gap), 9) for row in rows for cell in row]  # 77.2 is within 3 of 74.2
    near = sum(gap <= 3 for gap in gaps)
    margins = [min(c.value for c in row[2:]) - max(c.value for c in row[:2]) for row in rows]
    return [
        Claim(
            f"Every score is within 3 points of the published one, {reading}: {near} of {len(gaps)} "
            f"are, the largest gap is {max(gaps):.2f}.", near == len(gaps),
        ),
        Claim(
            "Hyperspherical kernels (cos, prx, ext) are at least 4 points above Euclidean ones (lin, "
            f"rbf) in every row, {reading}: the least margin is {min(margins):.2f}.",
            round(min(margins), 9) >= 4,
        ),
    ]  # fmt: skip


def _ahead(claim: str, one: str, other: str, rows: list[Row]) -> Claim:
    """The claim that one kernel is more accurate than another, by nested scores."""
    contests = [contest(row.runs, one, other) for row in rows]
    gaps = [c.difference for c in contests]
    sure = sum(c.p < 0.05 and c.difference > 0 for c in contests)
    return Claim(
        f"{claim}: nested scores differ by {min(gaps):+.2f} to {max(gaps):+.2f} points, in its favour "
        f"with p < 0.05 in {sure} of {len(rows)} rows.",
        sure == len(rows),
    )


EXPERIMENT = Experiment(
    name="webkb",
    title="WebKB: four kinds of pages from word counts",
    source=f"{SOURCE}, Tables 1 and 2.",
    differs=(
        "The 4199 pages and their classes are those of the paper.  Its tokeniser is described but not "
        "given; ours finds 396, 730, 1016 and 1313 words where the paper has 393, 726, 1023 and 1312.  "
        "The paper does not name its grids of C, width and time; ours have five values of C (0.1 to "
        "1000, divided by the mean of k(x, x)), six widths (0.25 to 8 median distances), six times of "
        "the parametrix (0.05 to 2) and six of the exact kernel (0.3 to 2 in units of log(n)/n).  Each "
        "of the five runs draws new representatives and folds.  Without the header one page has none of "
        "the 375 words and is ignored.  Nested scores, the header-free pages and the test on other "
        "pages are not in the paper."
    ),
    run=run,
    files=(COUNTS, NO_HEADER),
)
