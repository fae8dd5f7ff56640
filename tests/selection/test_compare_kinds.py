"""Comparing kernels on strings, nodes and clouds, from files and from Python."""

import json
import re
from dataclasses import replace
from functools import cache
from html import unescape

import networkx as nx
import numpy as np
import pandas as pd
import pytest
from sklearn.pipeline import make_pipeline
from typer.testing import CliRunner

from mercer import kernels, spaces
from mercer.cli import app
from mercer.datasets import read_clouds, read_nodes, read_strings
from mercer.features import GramTransformer
from mercer.machines import SVC
from mercer.selection import Comparison, compare
from mercer.selection.kinds import candidates, kind_of
from mercer.spaces import Graph

RNG = np.random.default_rng(0)
COUNTS = RNG.integers(1, 9, size=(20, 3))


def dna(motif: str) -> str:
    letters = "".join(RNG.choice(list("ACGT"), size=12))
    return letters[:4] + motif + letters[4:]


STRINGS = [dna("TATA") for _ in range(20)] + [dna("ATTA") for _ in range(20)]
HALVES = np.repeat(["promoter", "other"], 20)


def run(*arguments: object):
    return CliRunner().invoke(app, [str(a) for a in arguments])


def scores(result) -> dict[str, float]:
    assert result.exit_code == 0, result.stderr
    data = json.loads(result.stdout)
    return {k["name"]: k["score"] for k in data["kernels"]} | {"kind": data["kind"]}


def test_strings(tmp_path) -> None:
    path = tmp_path / "dna.csv"
    pd.DataFrame({"id": range(40), "sequence": STRINGS, "kind": HALVES}).to_csv(path, index=False)
    page = tmp_path / "page.html"
    command = ("compare", path, "--target", "kind", "--text", "sequence", "--folds", 3)
    found = scores(run(*command, "--json", "--report", page))
    assert found.pop("kind") == "strings"
    assert set(found) == {
        "letter counts", "spectrum", "full spectrum", "subsequences with gaps", "weighted degree"
    }  # fmt: skip
    assert found["weighted degree"] > 0.95 > found["letter counts"]
    assert "letter-count kernels" in page.read_text()
    table = run(*command)
    assert "dna.csv: 40 strings, length 16, 2 classes" in table.stdout
    assert "Best model: make_pipeline(GramTransformer(WeightedDegree(degree=2" in table.stdout
    text = unescape(page.read_text())
    assert f"read_strings('{path}', target='kind', text='sequence')" in text
    assert "compare(data.X, data.y, folds=3, random_state=0)" in text


def test_strings_of_unequal_length() -> None:
    found = compare([s[: 1 + i % 16] for i, s in enumerate(STRINGS)], HALVES, folds=2)
    assert "weighted degree" not in {s.name for s in found.scores}
    assert "lengths 1 to 16" in found.data.facts
    (note,) = [note for note in found.notes if "weighted degree" in note]
    assert "37 of 40 are not of length" in note


@pytest.mark.parametrize(
    "form",
    [
        lambda X: [list(s) for s in X],
        lambda X: [tuple(s) for s in X],
        lambda X: [np.array(list(s)) for s in X],
        lambda X: [s.encode() for s in X],
        lambda X: [tuple(s.encode()) for s in X],
        pd.Series,
        lambda X: pd.DataFrame({"s": X}),
        lambda X: np.array(X, dtype=object)[:, None],
        lambda X: np.array(X)[:, None],
    ],
)
def test_forms_of_strings_are_recognised(form) -> None:
    few = [*STRINGS[:6], *STRINGS[20:26]]
    found = candidates(form(few), "auto")
    assert found.kind.name == "strings"
    assert found.rows == 12
    for name, members in candidates(few, "auto").families.items():
        np.testing.assert_allclose(found.families[name][0].kernel(found.X), members[0].kernel(few))


def test_sequences_of_numbers_are_recognised_by_their_lengths() -> None:
    rows = [[1, 2, 3], [2, 3], [1, 1, 1, 2]]
    assert kind_of(rows).name == "strings"
    assert kind_of([np.array(row) for row in rows]).name == "strings"
    assert kind_of([[], *rows]).name == "strings"
    assert kind_of([(1, 2), (1, 2, 3)]).name == "strings"
    assert kind_of([("a", "b"), ("b", "c")]).name == "strings"
    assert kind_of([[1, 2], [3, 4]]).name == "table"
    assert kind_of([[0.5, 2], [3, 4]]).name == "table"
    assert kind_of([np.ones(2), np.ones(2)]).name == "table"
    assert kind_of([[[1, 2], [3, 4]], [[5, 6]]]).name == "clouds"
    assert kind_of([(np.ones((3, 2)), [0.5, 0.25, 0.25])]).name == "clouds"
    assert kind_of(np.ones((3, 4, 2))).name == "clouds"
    with pytest.raises(ValueError, match="pairs of numbers"):
        kind_of([(1, 2), (3, 4)])


def test_nodes_without_a_graph() -> None:
    with pytest.raises(ValueError, match=r"row 0 of X is the single value 0: .*space=Graph"):
        compare(list(range(20)), [0, 1] * 10, folds=2)
    with pytest.raises(ValueError, match=r"space=Graph"):
        compare(np.arange(20), [0, 1] * 10, folds=2)


def test_substrings_longer_than_a_string_are_left_out_and_told() -> None:
    whole, cut = candidates(STRINGS, "auto"), candidates(["AC", *STRINGS[1:]], "auto")
    mixed = [(1, 2), (1, 3), (1, 4)]
    assert [t.kernel.length for t in whole.families["spectrum"]] == [2, 3, 4, 5, 6, 8, *mixed]
    assert [t.kernel.length for t in cut.families["spectrum"]] == [2, *mixed]
    assert {t.kernel.length for t in cut.families["subsequences with gaps"]} == {2}
    for members in cut.families.values():
        for template in members:
            assert np.isfinite(template.kernel(cut.X)).all()
    assert "1 of 40 strings are shorter than 8 (row 0 has length 2)" in cut.notes[0]
    assert "1 of 40 are not of length 16 (the first is row 0)" in cut.notes[1]
    assert whole.notes == ()


def test_notes_reach_table_page_and_json(tmp_path) -> None:
    path, page = tmp_path / "dna.csv", tmp_path / "page.html"
    pd.DataFrame({"s": ["AC", *STRINGS[1:]], "y": HALVES}).to_csv(path, index=False)
    command = ("compare", path, "--target", "y", "--text", "s", "--folds", 2)
    data = json.loads(run(*command, "--json", "--report", page).stdout)
    assert "weighted degree was left out" in data["notes"][1]
    assert "weighted degree was left out" in page.read_text()
    assert "Note: weighted degree was left out" in run(*command).stdout


def test_too_many_letters_for_gaps() -> None:
    found = candidates(["ACGT" * 4000] * 4, "auto")
    assert "subsequences with gaps" not in found.families
    assert "64000 letters are too many" in found.notes[0]


def rebuilt(result, **names):
    """The best model of a result, from the text that is printed."""
    text = re.sub(r"Graph\(<[^>]*>", "Graph(graph", result.best)
    scope = {**vars(kernels), **vars(spaces), **names}
    return eval(
        text, scope | {"make_pipeline": make_pipeline, "GramTransformer": GramTransformer, "SVC": SVC}
    )


def blocks() -> nx.Graph:
    return nx.stochastic_block_model([20, 20], [[0.4, 0.05], [0.05, 0.4]], seed=1)


@cache
def of_nodes() -> Comparison:
    """The comparison on a graph, once for all tests."""
    return compare(list(blocks()), HALVES, space=Graph(blocks()), folds=3)


def test_the_best_model_can_be_rebuilt() -> None:
    strings = compare(STRINGS, HALVES, folds=2)
    assert rebuilt(strings).fit(STRINGS, HALVES).score(STRINGS, HALVES) > 0.9
    nodes, graph = of_nodes(), blocks()
    assert rebuilt(nodes, graph=graph).fit(list(graph), HALVES).score(list(graph), HALVES) > 0.9
    assert nodes.call == "compare(nodes, y, space=Graph(...), folds=3, random_state=0)"
    clouds = [RNG.normal(size=(6, 2)) + 3 * (i % 2) for i in range(20)]
    labels = np.arange(20) % 2
    best = compare(clouds, labels, folds=2)
    assert rebuilt(best).fit(clouds, labels).score(clouds, labels) > 0.9
    table = compare(COUNTS, [0, 1] * 10, folds=2)
    assert rebuilt(table).fit(COUNTS, [0, 1] * 10).predict(COUNTS).shape == (20,)
    assert table.call == 'compare(X, y, space="simplex", folds=2, random_state=0)'
    data = table.to_dict()["best"]
    assert data["family"] == table.scores[0].name
    assert data["kernel"] in data["model"]


def test_verdicts() -> None:
    result = compare(STRINGS, HALVES, folds=2)

    def scored(plain: list[float], rich: list[float]) -> Comparison:
        by_name = {s.name: s for s in result.scores}
        scores = [
            replace(score, nested=replace(score.nested, scores=np.array(values)))
            for score, values in ((by_name["letter counts"], plain), (by_name["spectrum"], rich))
        ]
        return replace(result, scores=scores)

    def verdict(plain: list[float], rich: list[float]) -> str:
        return scored(plain, rich).verdict

    assert "Structure makes no difference on these strings" in verdict([0.8, 0.7], [0.8, 0.7])
    assert "makes no difference" in verdict([0.8, 0.8], [0.8004, 0.8004])
    assert "Structure does not help on these strings" in verdict([0.8, 0.8], [0.79, 0.79])
    assert "2 folds cannot tell" in verdict([0.8, 0.7], [0.81, 0.74])
    assert "within chance (p = 0." in verdict([0.8, 0.7, 0.75], [0.81, 0.74, 0.74])
    helps = verdict([0.8, 0.7, 0.75, 0.8], [0.9, 0.81, 0.84, 0.9])
    assert re.search(r"Structure helps on these strings \(p = 0\.0\d\d\)", helps)
    assert "saves 42% of the error" in helps
    assert scored([0.8, 0.7], [0.9, 0.8]).error_change("spectrum") == "40% less"
    worse = scored([0.8, 0.7], [0.7, 0.7])
    assert worse.error_change("spectrum") == "20% more"
    assert worse.error_change("letter counts") is None
    assert scored([0.8, 0.8], [0.8, 0.8]).error_change("spectrum") == "the same"


def test_weights_of_clouds_must_sum_to_one() -> None:
    clouds = [(np.ones((2, 2)), [1.0, 1.0])] * 8
    with pytest.raises(ValueError, match=r"sum to 2, not to 1; divide them by their sum$"):
        compare(clouds, [0, 1] * 4, folds=2)


def test_nodes(tmp_path) -> None:
    graph = blocks()
    edges, labels = tmp_path / "edges.csv", tmp_path / "labels.tsv"
    pairs = [(f"n{a}", f"n{b}") for a, b in graph.edges]
    pd.DataFrame(pairs + pairs[:5], columns=["from", "to"]).to_csv(edges, index=False)
    frame = pd.DataFrame({"side": HALVES, "node": [f"n{i}" for i in range(40)]})
    frame.to_csv(labels, index=False, sep="\t")
    found = scores(run("compare", labels, "--target", "side", "--edges", edges, "--json", "--folds", 3))
    assert found.pop("kind") == "nodes of a graph"
    assert found["heat"] > 0.8
    with labels.open("a") as file:
        file.write("other\tlonely\nother\talone\n")
    output = run("compare", labels, "--target", "side", "--edges", edges, "--folds", 3).stdout
    assert "42 nodes, a graph of 42 nodes in 3 components, 2 of those in the table without an edge" in (
        " ".join(output.split())
    )
    frame.to_csv(labels, index=False, sep="\t")
    table = read_nodes(labels, "side", edges, "node")
    assert table.graph.adjacency.nnz == 2 * graph.number_of_edges()
    assert table.graph.adjacency.max() == 1
    assert {s.name: s.mean for s in of_nodes().scores} == pytest.approx(found)


def test_labels_of_nodes_stay() -> None:
    graph = nx.relabel_nodes(nx.karate_club_graph(), lambda i: ("member", f"n{i}"))
    labels = list(graph)
    side = [graph.nodes[node]["club"] for node in labels]
    space = Graph(graph)
    found = compare(labels, side, space=space, kernels=kernels.Heat(space, t=0.5), folds=3)
    best = rebuilt(found, graph=graph).fit(labels, side)
    assert best.predict(labels[:2]).tolist() == side[:2]
    chosen = candidates(labels, space)
    assert list(chosen.X) == labels
    assert all(t.kernel.space.nodes == labels for family in chosen.families.values() for t in family)


def test_weighted_edges_and_isolated_nodes(tmp_path) -> None:
    edges, labels = tmp_path / "edges.csv", tmp_path / "labels.csv"
    edges.write_text("a,b,weight\nNA,007,2.5\n007,NA,1.5\n007,7,1\n7,7,3\n")
    labels.write_text("node,y\n7,1\nlonely,0\nNA,1\n")
    table = read_nodes(labels, "y", edges)
    A = table.graph.adjacency.toarray()
    names = ["007", "7", "NA", "lonely"]
    assert A[names.index("NA"), names.index("007")] == 2.5
    assert A[names.index("7"), names.index("7")] == 3
    assert A[names.index("lonely")].sum() == 0
    assert [names[i] for i in table.X] == ["7", "lonely", "NA"]


def cloud_frame() -> pd.DataFrame:
    rows = []
    for i in range(20):
        ring = i % 2
        angles = RNG.uniform(0, 2 * np.pi, size=RNG.integers(12, 18))
        radius = np.where(ring, 1.0, np.sqrt(2 * RNG.uniform(size=len(angles))))
        points = radius[:, None] * np.column_stack([np.cos(angles), np.sin(angles)])
        rows += [(f"c{i}", ring, *point) for point in points]
    return pd.DataFrame(rows, columns=["cloud_id", "ring", "x1", "x2"])


def test_clouds(tmp_path) -> None:
    path = tmp_path / "clouds.csv"
    frame = cloud_frame().sample(frac=1, random_state=0)
    frame.assign(weight=2.0, note="x").to_csv(path, index=False)
    command = ("compare", path, "--target", "ring", "--cloud", "cloud_id", "--drop", "note")
    command = (*command, "--weight", "weight", "--folds", 2, "--cache", tmp_path / "fits")
    found = scores(run(*command, "--json"))
    assert found.pop("kind") == "clouds"
    assert max(found["generalised variance"], found["trace"]) > 0.85
    shown = run(*command).stdout
    assert "20 clouds" in shown
    assert "coordinates: x1, x2" in " ".join(shown.split())
    assert "…" not in shown  # all parameters
    table = read_clouds(path, "ring", "cloud_id", "weight", ["note"])
    assert len(table.X) == 20
    points, weights = table.X[0]
    assert points.shape[1] == 2
    assert weights.sum() == pytest.approx(1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--text", "s", "--cloud", "c"), "--text and --cloud name different kinds"),
        (("--node", "c"), "--node goes with --edges"),
        (("--weight", "c"), "--weight goes with --cloud"),
        (("--text", "seq"), "no column 'seq'"),
        (("--text", "s"), "row 1 (line 3) of bad.csv has no 's'"),
        (("--edges", "nowhere.csv", "--node", "x"), "there is no file"),
        (("--edges", "bad.csv", "--node", "x"), "row 1 (line 3) of bad.csv has no 's'"),
        (("--edges", "bad.csv", "--node", "y"), "cannot be both the node and the target"),
        (("--edges", "bad.csv"), "lists node 'k' twice, in row 0 (line 2) and row 1 (line 3)"),
        (("--text", "s", "--drop", "nonexist"), "--drop does not go with --text"),
        (("--edges", "bad.csv", "--drop", "nonexist"), "bad.csv has no column 'nonexist'"),
        (("--text", "s", "--space", "sphere"), "--space goes with tables of numbers"),
        (("--cloud", "c", "--weight", "w", "--drop", "w"), "cannot be both left out and the weight"),
        (("--cloud", "c", "--weight", "c"), "cannot be both the cloud and the weight"),
        (("--cloud", "y"), "cannot be both the target and the cloud"),
        (("--cloud", "c"), "columns that are not numbers: 's'"),
        (("--cloud", "c", "--drop", "s", "--drop", "w"), "cloud 'k' of bad.csv has several labels"),
        (("--cloud", "c", "--drop", "s", "--weight", "w"), "has no value in column 'w'"),
    ],
)
def test_bad_options_and_tables(options, message: str, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bad.csv").write_text("c,s,x,w,y\nk,ab,1,,0\nk,,2,1,1\n")
    result = run("compare", "bad.csv", "--target", "y", *options)
    assert result.exit_code == 2
    assert message in result.stderr


def test_options_need_a_table() -> None:
    result = run("compare", "--text", "s")
    assert result.exit_code == 2
    assert "needs a table" in result.stderr


def test_bad_weights_of_clouds(tmp_path) -> None:
    path = tmp_path / "w.csv"
    path.write_text("c,x,w,y\na,1,-1,0\na,2,2,0\n")
    with pytest.raises(ValueError, match=r"cloud 'a' of w\.csv has negative weights"):
        read_clouds(path, "y", "c", "w")


@pytest.mark.parametrize("options", [("--text", "s"), ("--edges", "edges.csv"), ("--cloud", "s")])
def test_tables_without_rows_end_in_one_line(options, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "header.csv").write_text("s,x,y\n")
    (tmp_path / "edges.csv").write_text("a,b\nn0,n1\n")
    result = run("compare", "header.csv", "--target", "y", *options)
    assert result.exit_code == 2
    assert result.stderr.strip() == "error: header.csv has a header but no rows"
    (tmp_path / "header.csv").write_text("s,x,y\nn0,1,2\n")
    (tmp_path / "edges.csv").write_text("a,b\n")
    result = run("compare", "header.csv", "--target", "y", "--edges", "edges.csv")
    assert result.stderr.strip() == "error: edges.csv has a header but no rows"


@pytest.mark.parametrize(
    ("edges", "message"),
    [
        ("a,b\nm0,m1\n", r"none of the 3 nodes \(such as 'n0'\) occurs in edges.csv .*spelt the same"),
        ("n0,n1\nn1,n2\n", "edges.csv seems to have no header line: .* the node 'n0'"),
        ("a,b,strength\nn0,n1,0.5\n", "column 'strength' of edges.csv is not used; rename it to weight"),
        (
            "a,b,weight\nn0,n1,1\nn1,n2,-1\n",
            r"row 1 \(line 3\) of edges.csv: the edge of 'n1' and 'n2' has weight -1;",
        ),
        ("a,b,weight\nn0,n1,much\n", r"row 0 \(line 2\) of edges.csv: .* has weight much;"),
        ("a,b,weight\nn0,n1,\n", "the edge of 'n0' and 'n1' has no weight"),
        ("a,b,weight\nn0,n1,inf\n", "has weight inf;"),
        ("a\nn0\n", "edges.csv is not an edge list"),
    ],
)
def test_bad_edges_are_named(edges: str, message: str, tmp_path) -> None:
    (tmp_path / "edges.csv").write_text(edges)
    (tmp_path / "labels.csv").write_text("node,y\nn0,0\nn1,1\nn2,1\n")
    with pytest.raises(ValueError, match=message):
        read_nodes(tmp_path / "labels.csv", "y", tmp_path / "edges.csv")


def test_columns_of_words_beside_edges_are_passed_over(tmp_path) -> None:
    (tmp_path / "edges.csv").write_text("a,b,kind,weight,year\nn0,n1,cites,2,1999\n")
    (tmp_path / "labels.csv").write_text("node,y\nn0,0\n")
    table = read_nodes(tmp_path / "labels.csv", "y", tmp_path / "edges.csv")
    assert table.graph.adjacency.max() == 2


def test_whole_numbers_name_nodes_whatever_their_type(tmp_path) -> None:
    edges, labels = tmp_path / "edges.parquet", tmp_path / "labels.csv"
    pd.DataFrame({"a": [0.0, 1.0], "b": [1, 2]}).to_parquet(edges)
    labels.write_text("node,y\n0,0\n1,1\n2,1\n")
    table = read_nodes(labels, "y", edges)
    assert table.graph.size == 3
    labels.write_text("node,y\n0.0,0\n1.0,1\n2.0,1\n")
    assert read_nodes(labels, "y", edges).graph.size == 3


def test_bytes_of_parquet_files_stay_bytes(tmp_path) -> None:
    path = tmp_path / "s.parquet"
    pd.DataFrame({"s": [b"ACGT", b"\xff"], "y": [b"one", b"two"]}).to_parquet(path)
    table = read_strings(path, "y", "s")
    assert table.X == [b"ACGT", b"\xff"]
    assert table.y.tolist() == ["one", "two"]
    with pytest.raises(ValueError, match=r"row 1 \(line 3\) of s.parquet has bytes in 's'"):
        read_strings(path, "s", "y")


def test_infinite_coordinates_are_named(tmp_path) -> None:
    path = tmp_path / "c.csv"
    path.write_text("c,x,y\na,1,0\na,inf,0\n")
    with pytest.raises(ValueError, match=r"row 1 \(line 3\) of c.csv has an infinite value in .* 'x'"):
        read_clouds(path, "y", "c")
    path.write_text(",c,x,y\n0,a,1,0\n1,a,2,0\n")
    with pytest.raises(ValueError, match="column without a name"):
        read_clouds(path, "y", "c")
    assert read_clouds(path, "y", "c", drop=["Unnamed: 0"]).columns == ("x",)


def test_strings_read_as_written(tmp_path) -> None:
    path = tmp_path / "s.csv"
    path.write_text("s,y\nNA,0\n007,1\nnull,0\n")
    assert read_strings(path, "y", "s").X == ["NA", "007", "null"]


def test_compare_names_bad_spaces() -> None:
    with pytest.raises(ValueError, match="space must be 'auto', 'simplex', 'sphere' or a Graph"):
        compare(COUNTS, [0, 1] * 10, space="torus", folds=2)
    with pytest.raises(ValueError, match="row 0 of X is 99"):
        compare([99, 1] * 10, [0, 1] * 10, space=Graph(np.ones((3, 3))), folds=2)
