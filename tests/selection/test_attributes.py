"""Nodes of a graph whose table has other columns: attributes, smoothed by the graph."""

import json
import re

import networkx as nx
import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.feature_extraction.text import TfidfVectorizer
from typer.testing import CliRunner

from mercer.cli import app
from mercer.datasets import read_nodes
from mercer.explain import explain
from mercer.selection import compare, load_model, save_model
from mercer.selection.kinds import candidates
from mercer.spaces import Graph

ROWS, LONELY, ABSENT, UNLABELLED = 60, 4, 2, 10
GRAPH_ALONE = ["shared neighbours", "walks", "heat", "Matern", "von Neumann"]


def run(*arguments: object):
    return CliRunner().invoke(app, [str(a) for a in arguments], catch_exceptions=False)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Papers of two topics: words and links say a little each; some nodes lack one or the other."""
    rng = np.random.default_rng(1)
    topic = np.arange(ROWS) % 2
    near = np.where(topic[:, None] == topic, 0.2, 0.07)
    ends = np.argwhere(np.triu(rng.random((ROWS, ROWS)) < near, 1))
    ends = ends[(ends < ROWS - LONELY).all(axis=1)]
    words = np.array([["sun", "sea", "sand", "fish"], ["snow", "ski", "hut", "lift"]])
    table = pd.DataFrame(
        {
            "paper": [f"p{i}" for i in range(ROWS)],
            "year": rng.normal(2000 + topic, 2.0).round(1),
            "venue": rng.choice(["Ulm", "Jena", "Bonn"], size=ROWS),
            "abstract": [" ".join(rng.choice([*words[t], *words[1 - t][:2]], size=5)) for t in topic],
            "topic": np.where(topic == 1, "cold", "warm").astype(object),
        }
    )
    table.loc[3, "year"], table.loc[4, "venue"], table.loc[5, "abstract"] = None, None, None
    table.loc[20 : 20 + UNLABELLED - 1, "topic"] = None
    path = tmp_path_factory.mktemp("papers")
    named = np.array([f"p{i}" for i in range(ROWS)])[ends]
    pd.DataFrame(named, columns=["from", "to"]).to_csv(path / "links.csv", index=False)
    table.iloc[ABSENT:].to_csv(path / "papers.csv", index=False)
    return path


@pytest.fixture(scope="module")
def data(folder):
    return read_nodes(folder / "papers.csv", "topic", folder / "links.csv")


def smoothed(found, **params):
    """The kernels of the attributes that the graph smooths."""
    kernels = [template.kernel for template in found.families["diffused attributes"]]
    return next(k for k in kernels if all(getattr(k, name) == v for name, v in params.items()))


def test_families(data) -> None:
    found = candidates(data.X, data.graph)
    alone = ["numbers alone", "labels alone", "text alone", "all attributes"]
    joined = ["diffused attributes", "links + diffused attributes"]
    assert list(found.families) == [*GRAPH_ALONE, *alone, *joined]
    assert found.plain == (*GRAPH_ALONE, *alone)
    assert [c.kind for c in found.taken] == ["number", "category", "text"]
    assert "missing values (1 in 'year') are taken as the median of the table's nodes" in found.notes
    assert f"{LONELY} of those in the table without an edge" in found.facts
    assert found.facts.endswith(f"1 number, 1 label, 1 text, {ABSENT} nodes of the graph have none")
    for templates in found.families.values():
        for template in templates:
            K = template.kernel.learnt_from(found.X)(found.X)
            assert np.isfinite(K).all()
            assert np.linalg.eigvalsh(K).min() > -1e-8


def test_smoothed_words_against_dense_matrices(data) -> None:
    table = data.X[["paper", "abstract"]]
    found = candidates(table, data.graph)
    kernel = smoothed(found, t=3.0, nu=1.0)
    A = data.graph.adjacency.toarray() + np.eye(ROWS)
    root = np.sqrt(A.sum(axis=1))
    H = np.linalg.inv(np.eye(ROWS) + 3.0 * (np.eye(ROWS) - A / np.outer(root, root)))
    tfidf = TfidfVectorizer(sublinear_tf=True).fit_transform(table.abstract.fillna("")).toarray()
    variance = (tfidf**2).sum(axis=1).mean() - (tfidf.mean(axis=0) ** 2).sum()
    F = np.full((ROWS, tfidf.shape[1] + 1), 0.1)
    F[:, :-1] = 0.0  # of nodes that are not in the table
    F[table.paper, :-1] = tfidf / np.sqrt(variance)
    G = H @ F
    G = (G / np.linalg.norm(G, axis=1)[:, None])[table.paper]
    np.testing.assert_allclose(kernel(found.X), G @ G.T, atol=1e-12)


def test_columns_of_words_are_the_same_as_a_text(data) -> None:
    words = data.X.abstract.fillna("").str.get_dummies(" ").loc[:, lambda own: own.columns != ""]
    once = words.dot(words.columns + " ")
    text = pd.DataFrame({"paper": data.X.paper, "abstract": once})
    columns = pd.concat([data.X[["paper"]], words], axis=1)
    kinds = dict.fromkeys(words.columns, "counts")
    one = smoothed(candidates(text, data.graph, {"abstract": "text"}), t=1.0)
    other = smoothed(candidates(columns, data.graph, kinds), t=1.0)
    np.testing.assert_allclose(one(range(ROWS)), other(range(ROWS)), atol=1e-12)


def test_attributes_of_every_kind() -> None:
    rng, club = np.random.default_rng(0), nx.karate_club_graph()
    table = pd.DataFrame({"member": list(club), "joined": pd.date_range("2024-01-01", periods=34)})
    table["latitude"], table["longitude"] = rng.uniform(-80, 80, 34), rng.uniform(-170, 170, 34)
    table["gene"] = ["".join(rng.choice(list("ACGT"), size=12)) for _ in range(34)]
    table["last"] = pd.date_range("2024-01-01", periods=34, freq="7h")
    for i in range(9):
        table[f"count {i}"] = rng.poisson(0.4, size=34)
    found = candidates(table, Graph(club))
    alone = [name for name in found.families if name.endswith(" alone")]
    assert alone == ["counts alone", "strings alone", "dates alone", "places alone"]
    names = smoothed(found, t=1.0).base.columns
    assert {"count 3", "ACG", "joined", "hour of last, 6 to 18", "place, towards 90° N"} <= set(names)
    assert np.isfinite(smoothed(found, t=1.0)(list(club))).all()


def test_missing_places_and_counts_are_filled_in() -> None:
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {"node": range(20), "lat": rng.uniform(-80, 80, 20), "lon": rng.uniform(-170, 170, 20)}
    )
    table.loc[3, "lat"] = np.nan
    kinds = {"lat": "coordinate", "lon": "coordinate"}
    assert "places alone" in candidates(table, Graph(nx.path_graph(20)), columns=kinds).families


@pytest.mark.parametrize(
    ("kinds", "message"),
    [
        ({"a": "coordinate"}, r"latitude and a longitude, got the coordinates \['a'\]"),
        ({"b": "text"}, r"column 'b' holds nothing to count"),
    ],
)
def test_columns_that_cannot_be_taken_so(kinds, message) -> None:
    table = pd.DataFrame({"node": range(20), "a": np.arange(20.0) % 7, "b": ["?"] * 20})
    with pytest.raises(ValueError, match=message):
        candidates(table, Graph(nx.path_graph(20)), columns=kinds)


def test_columns_that_only_identify_leave_the_graph(data) -> None:
    table = data.X[["paper"]].assign(paper_id=range(1000, 1000 + len(data.X)), source="here")
    found = candidates(table, data.graph)
    assert list(found.families) == GRAPH_ALONE
    assert found.notes == ("left out as identifier: 'paper_id'", "left out as constant: 'source'")
    assert list(candidates(data.X[["paper"]], data.graph).families) == GRAPH_ALONE


def test_which_column_holds_the_nodes() -> None:
    club = nx.relabel_nodes(nx.karate_club_graph(), {i: f"m{i}" for i in range(34)})
    table = pd.DataFrame({"age": np.arange(34) + 0.5, "member": list(club)})
    found = candidates(table, Graph(club), {"member": "node"})
    assert list(club) == found.X
    with pytest.raises(ValueError, match=r"row 0 of X is 0[.]5, which is not a node"):
        candidates(table, Graph(club))
    with pytest.raises(ValueError, match="one column of X must hold the nodes"):
        candidates(table, Graph(club), {"name": "node"})
    with pytest.raises(ValueError, match="rows 0 and 34 of X are both node 'm0'"):
        candidates(pd.concat([table, table[:1]]), Graph(club), {"member": "node"})
    with pytest.raises(ValueError, match="only in a data frame"):
        candidates(list(club), Graph(club), {"member": "node"})


def test_large_graphs_stay_sparse() -> None:
    lattice = nx.convert_node_labels_to_integers(nx.grid_2d_graph(60, 80))
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"node": range(100), "height": rng.normal(size=100)})
    found = candidates(table, Graph(lattice))
    kernel = smoothed(found, t=3.0, nu=np.inf)
    assert sparse.issparse(kernel.base.attributes) or kernel.base.attributes.shape == (4800, 2)
    assert kernel(found.X).shape == (100, 100)
    assert kernel.space.operator("laplacian").__dict__.get("decomposition") is None


def test_compare_saves_predicts_and_explains(data, tmp_path) -> None:
    words = data.X[["paper", "abstract"]]
    kernel = smoothed(candidates(words, data.graph), t=1.0)
    result = compare(words, data.y, space=data.graph, kernels={"diffused": [kernel]}, folds=2)
    assert result.rows == ROWS - ABSENT - UNLABELLED
    path = tmp_path / "model.skops"
    save_model(path, result, data, {"target": "topic"})
    model = load_model(path)
    named = pd.DataFrame({"paper": [f"p{i}" for i in range(ROWS)]})  # also those not in the table
    np.testing.assert_array_equal(
        model.predict(named), result.scores[0].search.best_estimator_.predict(
            [model.nodes.index(name) for name in named.paper]
        ),
    )  # fmt: skip
    with pytest.raises(ValueError, match="row 0 of X names 'q', which is not in the graph"):
        model.predict(pd.DataFrame({"paper": ["q"]}))
    found = explain(model, named[:10])
    columns = found.columns(0)
    assert {"neighbour", "column"} == set(columns.kind)
    assert set(columns.name[columns.kind == "column"]) <= {*kernel.base.columns}


def test_the_command(folder, tmp_path) -> None:
    model, why = tmp_path / "model.skops", tmp_path / "why.csv"
    options = ["--target", "topic", "--edges", folder / "links.csv", "--folds", 2, "--words", "abstract"]
    page = tmp_path / "report.html"
    result = run("compare", folder / "papers.csv", *options, "--save-model", model, "--report", page)
    assert "text alone" in result.stdout
    assert "numbers alone" not in result.stdout
    assert f"{UNLABELLED} nodes without a target" in result.stdout.replace("\n", " ")
    assert "diffused attributes" in page.read_text()
    assert re.search(r"<[a-z]+[^>]*>\s*p\d+\s*</", page.read_text())  # a neighbour that drives it
    (tmp_path / "new.csv").write_text("paper\np0\np30\n")
    predicted = run("predict", model, tmp_path / "new.csv", "--explain", why)
    assert predicted.stdout.startswith("paper,prediction\np0,")
    reasons = pd.read_csv(why)
    assert set(reasons.paper) == {"p0", "p30"}
    assert reasons.name[reasons.kind == "training row"].str.match(r"p\d+$").all()


@pytest.mark.parametrize(
    ("change", "options", "message"),
    [
        ({}, ("--node", "venue"), r"column 'venue' of papers.csv lists node 'Bonn' twice.*--node"),
        ({"paper": "p7"}, (), r"lists node 'p7' twice, in row 0 \(line 2\) and row 5"),
        ({"paper": None}, (), r"row 0 \(line 2\) of papers.csv has no 'paper'"),
        ({"year": np.inf}, (), "column 'year' has an infinite value in row 0"),
        ({"year": 1e200}, (), r"column 'year' has the value 1e\+200 in row 0; rescale"),
        ({}, ("--as", "venue=number"), "column 'venue' holds no numbers"),
        ({}, ("--as", "place=number"), "there is no column 'place'"),
        ({}, ("--words", "title"), "papers.csv has no column 'title'"),
        ({}, ("--drop", "topic"), "cannot be both left out and the target"),
        ({}, ("--edges", "others.csv"), r"none of the 58 nodes \(such as 'p2'\) occurs in others.csv"),
    ],
)
def test_bad_tables_of_nodes(change, options, message, folder, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    table = pd.read_csv(folder / "papers.csv").fillna({"venue": "Ulm", "year": 2000.0})
    for name, value in change.items():
        table.loc[0, name] = value
    table.to_csv("papers.csv", index=False)
    (tmp_path / "others.csv").write_text("a,b\nx1,x2\n")
    edges = () if "--edges" in options else ("--edges", folder / "links.csv")
    result = run("compare", "papers.csv", "--target", "topic", *edges, *options)
    assert result.exit_code == 2
    assert re.search(message, " ".join(result.stderr.split()))


@pytest.mark.parametrize(
    ("options", "families"),
    [
        (("--drop", "abstract", "--drop", "venue"), ["numbers alone"]),
        (("--drop", "abstract", "--as", "year=category"), ["labels alone"]),
        (("--groups", "venue", "--drop", "abstract"), ["numbers alone"]),
    ],
)
def test_options_choose_attributes(options, families, folder, tmp_path) -> None:
    table = pd.read_csv(folder / "papers.csv").assign(year=lambda own: own.year.round(0).fillna(2000))
    table.venue = table.venue.fillna("Ulm")
    if "--groups" in options:
        table.venue = np.arange(len(table)) % 9
    table.to_csv(tmp_path / "papers.csv", index=False)
    common = ["--target", "topic", "--edges", folder / "links.csv", "--folds", 2, "--json"]
    found = json.loads(run("compare", tmp_path / "papers.csv", *common, *options).stdout)
    names = [kernel["name"] for kernel in found["kernels"]]
    assert [name for name in names if name.endswith("alone")] == families


@pytest.mark.filterwarnings("ignore:the Gram matrix of")  # nothing is to be found
def test_numbers_as_targets_of_nodes(folder, tmp_path) -> None:
    table = pd.read_csv(folder / "papers.csv").assign(citations=lambda t: np.arange(len(t)) * 0.5)
    table[["paper", "abstract", "citations"]].to_csv(tmp_path / "cited.csv", index=False)
    edges = ["--edges", folder / "links.csv", "--folds", 2]
    result = run(
        "compare", tmp_path / "cited.csv", "--target", "citations", "--task", "regression", *edges
    )
    assert result.exit_code == 0, result.output
    assert "regression" in result.stdout
