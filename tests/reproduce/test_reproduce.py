"""Published experiments in their quick form, and the numbers that they are put beside."""

import json
import os
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure
from sklearn.svm import SVC
from typer.testing import CliRunner

from mercer import reproduce
from mercer.bounds import vc_bound
from mercer.cli import app
from mercer.kernels import Linear, Parametrix
from mercer.reproduce import data, output, words
from mercer.reproduce.documents import DOCUMENTS
from mercer.reproduce.experiment import Claim, Context, Measured, Result, Table, plain, within
from mercer.reproduce.protocol import KERNELS, Scores, error_saved, first_best, measured, reduction
from mercer.reproduce.published import (
    decision_boundaries,
    gbm,
    parametrix,
    sp500,
    sphere_heat,
    webkb,
    webkb_pairs,
)
from mercer.spaces import Simplex

PAGES = Path(__file__).parents[2] / "docs" / "reproduce"
#: Invented data always, and the real where there is any.
FOLDERS = [None, *filter(None, [os.environ.get("MERCER_DATA")])]


def strict(text: str):
    """JSON without the numbers that are none."""

    def refuse(name: str):
        raise AssertionError(f"{name} in JSON")

    return json.loads(text, parse_constant=refuse)


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda f: "invented" if f is None else "data")
@pytest.mark.parametrize("name", reproduce.NAMES)
def test_quick_form(name: str, folder, tmp_path, monkeypatch) -> None:
    monkeypatch.delenv("MERCER_DATA", raising=False)
    told = []
    result, run = reproduce.run(
        name, data=folder, quick=True, results=tmp_path, progress=lambda *steps: told.append(steps)
    )
    needs = bool(reproduce.find(name).files)
    found = strict((tmp_path / f"{name}.json").read_text())
    page = (tmp_path / f"{name}.md").read_text()
    assert page == output.page(found, reproduce.find(name))
    assert found["tables"] == [plain(table) for table in result.tables]
    assert found["tables"]
    assert all(len(row) == len(t.columns) for t in result.tables for row in t.rows)
    assert (output.INVENTED in page) == (needs and folder is None)
    assert output.PARTIAL in page
    assert run.command in page
    assert "## What differs from the source" in page
    assert not (needs and result.claims), "a part of an experiment settles nothing"
    differs = page.partition("## What differs from the source\n\n")[2]
    if needs and folder is None:
        assert differs == "The data is invented, and this is a small part of the experiment.\n"
    else:
        assert differs.startswith(output.OF_FULL_RUN)
    assert not re.search(r"(five|[2-9]) (runs|repeats)", page.partition("## What differs")[0])
    for ending in result.figures:
        assert (tmp_path / f"{name}-{ending}.svg").stat().st_size > 5000
        assert f"{name}-{ending}.svg" in page
    assert not list(tmp_path.glob("*.png")), "one format for each figure"
    if needs:
        assert told[-1][0] == told[-1][1]
        steps = [done for done, _ in told]
        assert steps == sorted(steps)


def test_same_numbers_again_and_after_an_interruption(tmp_path, monkeypatch) -> None:
    monkeypatch.delenv("MERCER_DATA", raising=False)
    first, second = tmp_path / "first", tmp_path / "second"
    tables = [plain(t) for t in reproduce.run("webkb-pairs", quick=True, results=first)[0].tables]
    kept, copied = first / "cache" / "webkb-pairs", second / "cache" / "webkb-pairs"
    journals = sorted(kept.glob("*.jsonl"))
    assert journals
    shutil.copytree(kept, copied)
    for path in copied.glob("*.jsonl"):  # half of the work is lost
        lines = path.read_text().splitlines()
        path.write_text("\n".join(lines[: len(lines) // 2]) + '\n{"fit": "cut o')
    result, run = reproduce.run("webkb-pairs", quick=True, results=second)
    assert [plain(t) for t in result.tables] == tables
    assert run.resumed
    assert "with fits kept from an earlier run" in (second / "webkb-pairs.md").read_text()
    for one in journals:
        known, redone = ({strict(x)["fit"] for x in _whole(p)} for p in (one, copied / one.name))
        assert redone == known
    other = reproduce.run("webkb-pairs", quick=True, results=tmp_path / "third", seed=1)[0].tables
    assert [plain(t) for t in other] != tables


def _whole(path: Path) -> list[str]:
    lines = path.read_text().splitlines()
    return [line for line in lines if '"fit"' in line and line.endswith("}")]


def test_equal_figures_are_equal_files(tmp_path) -> None:
    for folder in ("a", "b"):
        figure = Figure()
        figure.subplots().plot([1, 2, 4])
        run = output.Run(reproduce.find("textbook"), "", False, False, False, 1.0, 1.0)
        output.write(Result([], [], {"curve": figure}), run, tmp_path / folder)
    one, other = ((tmp_path / f / "textbook-curve.svg").read_bytes() for f in "ab")
    assert one == other


def test_textbook_is_exact(tmp_path) -> None:
    result, _ = reproduce.run("textbook", results=tmp_path)
    assert [claim.holds for claim in result.claims] == [True]
    assert sum(row[1] for row in result.tables[0].rows) == 4 + 3 + 25 + 5 + 3 * 25
    assert all(row[1] == row[2] for row in result.tables[0].rows)


def test_missing_folder_names_the_sources(tmp_path, monkeypatch) -> None:
    monkeypatch.delenv("MERCER_DATA", raising=False)
    with pytest.raises(ValueError, match=r"--data FOLDER or MERCER_DATA.*CNuge/kaggle-code"):
        reproduce.run("sp500", results=tmp_path)
    with pytest.raises(ValueError, match="does not exist"):
        reproduce.run("sp500", data=tmp_path / "nowhere", results=tmp_path)
    monkeypatch.setenv("MERCER_DATA", str(tmp_path))
    with pytest.raises(ValueError, match=r"sp500_close.* is missing; it is made from the Kaggle"):
        reproduce.run("sp500", quick=True, results=tmp_path)


def test_altered_file_is_refused(tmp_path, monkeypatch) -> None:
    folder = tmp_path / "mnist"
    folder.mkdir()
    for name in reproduce.find("mnist-clouds").files:
        (tmp_path / name).write_bytes(b"other digits")
    with pytest.raises(
        ValueError, match=r"not the expected file.* SHA-256 .* get it from the test part of MNIST"
    ):
        reproduce.run("mnist-clouds", data=tmp_path, results=tmp_path)
    images = "mnist/t10k-images-idx3-ubyte.gz"
    monkeypatch.setitem(
        data.SUMS, images, "3d1fdf41d4fcb3bfe7b7a8d3b1b4d1ad6b8e3a2f4a5d0ffae9e4a8a4a5a5a5a5"
    )
    with pytest.raises(ValueError, match="images"):
        data.checked_file(tmp_path, images)


def test_every_file_has_a_sum() -> None:
    for experiment in reproduce.experiments():
        for file in experiment.files:
            assert len(data.SUMS[file]) == 64
            assert file.partition("/")[0] in data.ORIGINS


def saved(rows, one: str, other: str) -> list[float]:
    """Part of the error of one kernel that another saves, in %."""
    i, j = KERNELS.index(one), KERNELS.index(other)
    return [error_saved(row[i], row[j]) for row in rows]


@pytest.mark.parametrize(
    ("rows", "one", "other", "low", "high"),
    [
        (webkb.TABLE_1.values(), "ext", "prx", 1, 7.5),
        (webkb.TABLE_1.values(), "ext", "rbf", 41, 45),
        (webkb.TABLE_1.values(), "cos", "lin", 34, 43.5),
        (webkb.TABLE_2.values(), "ext", "rbf", 44.5, 49),
        (webkb.TABLE_2.values(), "ext", "prx", 1, 6),
        (webkb.TABLE_2.values(), "cos", "lin", 36, 49.5),
        ([row for n, row in sp500.PUBLISHED.items() if n > 155], "ext", "rbf", 28.5, 51),
        ([row for n, row in sp500.PUBLISHED.items() if n > 155], "ext", "prx", 16.5, 51),
    ],
)
def test_published_numbers_agree_with_what_is_said_of_them(rows, one, other, low, high) -> None:
    found = saved(rows, one, other)
    assert low <= min(found)
    assert max(found) <= high


def test_both_readings_of_the_protocol_are_judged() -> None:
    def row(*values: float) -> list[Measured]:
        return [Measured(value, published=80.0) for value in values]

    near, apart = webkb.near_and_apart("so", [row(77, 77, 81, 82, 83), row(78, 78, 82, 82, 82.5)])
    assert near.holds
    assert apart.holds
    assert "so: 10 of 10 are, the largest gap is 3.00" in near.text
    assert "so: the least margin is 4.00" in apart.text
    near, apart = webkb.near_and_apart("so", [row(77, 77, 81, 82, 83.1), row(78, 78.1, 82, 82, 82)])
    assert not near.holds
    assert not apart.holds
    assert "9 of 10 are, the largest gap is 3.10" in near.text
    assert "the least margin is 3.90" in apart.text
    page = strict((PAGES / "webkb.json").read_text())
    told = [(claim["text"].split(":")[1], claim["holds"]) for claim in page["claims"][:4]]
    assert told == [
        (" 39 of 40 are, the largest gap is 3.02.", False),
        (" the least margin is 3.99.", False),
        (" 40 of 40 are, the largest gap is 2.65.", True),
        (" the least margin is 4.14.", True),
    ]


def gene(rate: float) -> gbm.Gene:
    """A gene that the exact kernel imputes better than others, in nested scores."""
    scores = {
        name: Scores(np.full((1, 5), 60.0), np.full(5, rate if name == "ext" else 50.0), [])
        for name in KERNELS
    }
    X, y = np.eye(4), np.array([0, 0, 1, 1])
    bound = vc_bound(SVC(kernel=Linear()).fit(X, y), X)
    return gbm.Gene("G", int(rate), [scores], bound, bound)


def test_errors_and_slopes_need_five_genes() -> None:
    few, enough = ([gene(rate) for rate in np.linspace(51, 60, n)] for n in (4, 5))
    for genes, given in ((few, False), (enough, True)):
        ratios = {row[0]: row[1:] for row in gbm._ratios(genes).rows}
        assert ratios["ext/prx"][3].startswith("1.110")
        assert ("±" in ratios["ext/prx"][3]) == given
        assert (ratios["ext/prx"][5] == "none") != given
    assert {row[1] for row in gbm._bounds(few, 4).rows[3:]} == {"none"}


def test_genes_are_judged_by_nested_scores() -> None:
    by_gap = {
        gap: {claim.text.split(":")[1].split()[2]: claim.holds for claim in gbm.claims(genes)[:6]}
        for gap in (4, -4)
        for genes in [[gene(50 + gap + i / 10) for i in range(6)]]
    }
    never = {"rbf/lin": False, "prx/cos": False}
    better = {"ext/lin": True, "ext/cos": True, "ext/rbf": False, "ext/prx": True}
    assert by_gap[4] == never | better
    assert by_gap[-4] == never | {ratio: not holds for ratio, holds in better.items()}


def test_gene_that_was_not_run_is_not_called_rare() -> None:
    table = gbm._named({"NFX1": 5, "P2RX7": 4}, {"COL1A2": gene(55)})
    reasons = {row[0]: row[4] for row in table.rows if row[3] == "ours"}
    assert reasons["NFX1"] == "not run"
    assert reasons["P2RX7"] == reasons["ZMYM4"] == "too few mutants"
    assert "cross-validation, one run;" in table.note


def test_every_experiment_stands_for_an_item_of_a_document() -> None:
    repeated = {where for document in DOCUMENTS for where in document.items.values()}
    assert set(reproduce.NAMES) < repeated
    assert all(" " in where for where in repeated - set(reproduce.NAMES)), "a reason"


def test_reductions_of_errors() -> None:
    row, published = (50.0, 50.0, 50.0, 50.0, 60.0), list(webkb.TABLE_1.values())
    claim = reduction("There", "ext", "rbf", (21, 45), [row], published)
    assert "by 20 to 20 %" in claim.text
    assert "published scores: 42 to 45 %" in claim.text
    assert not claim.holds
    assert reduction("There", "ext", "rbf", (20, 45), [row], published).holds


def test_advantage_is_lost_with_few_returns() -> None:
    few, many = [90.0, 90.0, 90.0, 90.0, 90.5], [90.0, 90.0, 90.0, 90.0, 95.0]
    assert sp500.lost_advantage({475: many, 95: few}).holds
    assert not sp500.lost_advantage({475: few, 95: many}).holds


def test_shapes_of_the_first_coefficient() -> None:
    theta = np.array([0.3, 1.2, 2.0, 3.0])
    for d in (2, 5, 40):  # Equation 5
        bracket = 3 - d + (d - 1) * theta**2 + (d - 3) * theta / np.tan(theta)
        np.testing.assert_allclose(
            parametrix.coefficient(d, 1, theta), (d - 1) / (4 * theta**2) * bracket, rtol=1e-9
        )
    assert all(abs(value - 3) < 1e-3 for value in parametrix.near_source(0).values())
    assert all(claim.holds for claim in parametrix.shapes())


def test_one_point_of_each_class_is_parted_by_equal_distance() -> None:
    """A machine of two points, as in the figure, decides by the nearer one in the metric."""
    ends = np.array([[0.7, 0.2, 0.1], [0.1, 0.3, 0.6]])
    machine = SVC(kernel=Parametrix(Simplex(), t=0.1)).fit(ends, [0, 1])
    rows = np.random.default_rng(0).dirichlet(np.ones(3), size=300)
    nearer = np.sqrt(rows) @ (np.sqrt(ends[1]) - np.sqrt(ends[0])) > 0
    assert np.array_equal(machine.predict(rows), nearer.astype(int))
    edges = np.array(decision_boundaries.near_the_edge())
    assert (np.diff(edges[:, 2]) > 0).all()
    assert np.allclose(edges[:, 1], 1)


PAGES_OF_WORDS = [
    b"Date: Tuesday, 14-Jan-97\r\nServer: NCSA/1.4\r\n\r\n"
    b"<TITLE>CS 537</TITLE><!-- old <b>x</b> -->Caf\xe9",
    "<script>if (a < b) f();</script><style>p {}</style>R&amp;D &#65; don't e-mail 3rd\x00floor",
    "no header: it only looks so\n\nsecond part",
]


def test_words_of_pages() -> None:
    first, second, third = PAGES_OF_WORDS
    assert words.tokens(first) == [
        "date", "tuesday", "##", "jan", "##", "server", "ncsa", "#", "#", "cs", "###", "caf"
    ]  # fmt: skip
    assert words.tokens(first, header=False) == ["cs", "###", "caf"]
    assert words.tokens(second) == ["r", "d", "a", "don", "t", "e", "mail", "#rdfloor"]
    assert words.tokens(third, header=False)[:2] == ["no", "header"]
    assert words.tokens("") == []


def test_counts_of_frequent_words() -> None:
    pages = ["b a a", "a b", "c a", "d"]
    counts, found = words.count(pages, k=2, header=False)  # more than two occurrences
    assert found == ["a"]
    assert counts.toarray().ravel().tolist() == [2, 1, 1, 0]
    counts, found = words.count(pages, k=4, header=False)
    assert found == ["a", "b"]
    assert counts.toarray().tolist() == [[2, 1], [1, 1], [1, 0], [0, 0]]
    counts, found = words.count([], k=4)
    assert counts.shape == (0, 0)


def test_second_coefficient() -> None:
    theta = np.array([1e-3, 0.5, 1.5, 1.6, 2.5])
    ours, printed = parametrix.coefficient(9, 2, theta), parametrix.second_as_printed(9, theta)
    assert ours[0] == pytest.approx(69.6, abs=1e-3)  # d (d - 1) (5 d^2 - 7 d + 6) / 360
    assert abs(printed[0]) > 1e6
    np.testing.assert_allclose(parametrix.coefficient(3, 2, theta), 0.5, rtol=1e-12)  # in S^3


def test_walkers_follow_the_kernel_and_not_another() -> None:
    rng = np.random.default_rng(0)
    walk = sphere_heat.walk(4000, 0.3, 100, rng)
    np.testing.assert_allclose(np.linalg.norm(walk, axis=-1), 1, rtol=1e-12)
    ends = np.arccos(np.clip(walk[-1] @ sphere_heat.SOURCE, -1, 1))
    right, free = sphere_heat.chi_squared(ends, 0.3)
    wrong, _ = sphere_heat.chi_squared(ends, 0.4)
    assert right < 2 * free < wrong


def test_scores_of_the_best_setting_per_run_and_over_runs() -> None:
    fold = np.array([-1.0, 0.0, 0.0, 0.0, 1.0])
    first, second = (
        {"lin": Scores(np.array(means)[:, None] + fold, np.full(5, 70.0), [])}
        for means in ([80.0, 84.0, 83.0], [90.0, 80.0, 88.0])
    )
    assert first["lin"].best == 1
    assert first_best(np.array([0.1, 0.3, 0.1 + 0.2])) == 1, "0.1 + 0.2 is 0.30000000000000004"
    assert measured([first, second], "lin").value == pytest.approx((84 + 90) / 2)
    assert measured([first, second], "lin", "one setting").value == pytest.approx((83 + 88) / 2)
    assert measured([first, second], "lin", "nested", 71.0) == Measured(70.0, (70.0, 70.0), 71.0)


def test_training_draws() -> None:
    y = np.repeat([0, 1], [60, 40])
    found = webkb_pairs.splits(y, 30, 5, 0)
    assert np.array_equal(np.sort(np.concatenate([test for _, test in found])), np.arange(100))
    for train, test in found:
        assert len(train) == len(set(train)) == 30
        assert not set(train) & set(test)
        assert np.bincount(y[train]).tolist() == [18, 12]


def test_frequent_words_and_empty_pages() -> None:
    X, y = webkb.load(Context(quick=True)).X, webkb.load(Context(quick=True)).y
    X = X.tolil()
    X[3] = 0
    pages = webkb.Pages(X.tocsr(), y).frequent(1)
    assert (pages.X.sum(axis=0) > X.shape[0]).all()
    assert (pages.X.sum(axis=1) > 0).all()
    assert len(pages.y) < len(y)


def test_a_gene_is_no_feature_of_itself() -> None:
    mutations = gbm.load(Context(quick=True))
    X, y = mutations.task("COL1A2")
    own = mutations.genes.index("COL1A2")
    assert X.shape[1] == len(mutations.frequent) - (own in mutations.frequent)
    assert 0 < y.sum() < len(y)
    assert (X.sum(axis=1) > 0).all()


def test_cells_tables_and_claims() -> None:
    assert str(Measured(12.345, (10, 14), 13)) == "12.3 [10.0, 14.0] (13.0)"
    assert Measured(3.0, published=5.0).gap == -2
    with pytest.raises(ValueError, match="no published number"):
        _ = Measured(3.0).gap
    table = Table("t", ["a", "b"], [[1, Measured(0.5)], ["x", 0.123456]])
    assert output.markdown(plain(table)).splitlines()[-1] == "| x | 0.1235 |"
    assert plain(table)["rows"][0] == [1, {"value": 0.5}]
    assert [Claim("", holds).verdict for holds in (True, False, None)] == [
        "holds", "does not hold", "cannot be told"
    ]  # fmt: skip


def test_progress_of_parts() -> None:
    told: list[tuple[int, int]] = []
    context = Context(progress=lambda done, total: told.append((done, total)))
    within(context.part(1, 4), 0.5, 1.0)(1, 2)
    assert told == [(1750, 4000)]
    assert within(None, 0.0, 1.0) is None


def test_discussion_survives_a_new_run(tmp_path) -> None:
    reproduce.run("textbook", results=tmp_path)
    page = tmp_path / "textbook.md"
    before = page.read_text()
    page.write_text(before + "\n## Discussion\n\nBy hand.\n")
    reproduce.run("textbook", results=tmp_path)
    assert page.read_text().count("## Discussion") == 1
    assert page.read_text().endswith("\n## Discussion\n\nBy hand.\n")


def test_command(tmp_path, monkeypatch) -> None:
    monkeypatch.delenv("MERCER_DATA", raising=False)

    def call(*arguments: object):
        return CliRunner().invoke(app, ["reproduce", *map(str, arguments)])

    names, *documents = call("list").stdout.split("\n\n")
    assert [line.split()[0] for line in names.splitlines()] == list(reproduce.NAMES)
    assert len(documents) == len(DOCUMENTS) == 5
    told = {item: where for document in DOCUMENTS for item, where in document.items.items()}
    assert all(f"  {item}: {where}" in "".join(documents) for item, where in told.items())
    shown = call("textbook", "--results", tmp_path)
    assert shown.exit_code == 0
    assert "112 of 112 printed numbers" in " ".join(shown.stdout.split())
    assert (tmp_path / "textbook.json").exists()
    unknown = call("nonsense", "--results", tmp_path)
    assert unknown.exit_code == 2
    assert "there is no experiment 'nonsense'; choose from webkb," in " ".join(unknown.stderr.split())
    needy = call("webkb", "--results", tmp_path)
    assert needy.exit_code == 2
    assert "Traceback" not in needy.output
    assert "cs.cmu.edu" in needy.stderr
